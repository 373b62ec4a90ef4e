/** The page. */
const app = document.querySelector<HTMLElement>("#app");
if (app) app.textContent = "l4slab live";
