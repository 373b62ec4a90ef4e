import { App } from "./app";
import "./style.css";

const root = document.querySelector<HTMLElement>("#app");
if (root) new App(root).begin();
