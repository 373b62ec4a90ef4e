/** The page. */
import { availableEngines } from "./engine";

const app = document.querySelector<HTMLElement>("#app");
if (app) app.textContent = JSON.stringify(availableEngines());
