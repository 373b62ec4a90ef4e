// The page itself: folding, the contents list, saving tables, printing.
function save(text, type, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

const folds = [...document.querySelectorAll("main details:not(.columns)")];
const foldButton = document.getElementById("fold");
foldButton.hidden = false;
foldButton.addEventListener("click", () => {
  const unfold = folds.some((details) => !details.open);
  folds.forEach((details) => { details.open = unfold || details.matches("section > details"); });
  foldButton.textContent = unfold ? "Fold" : "Unfold all";
});

// On paper everything is unfolded but long tables and files.
let closed = [];
addEventListener("beforeprint", () => {
  closed = folds.filter((details) => !details.open && !details.matches(".bulk"));
  closed.forEach((details) => { details.open = true; });
});
addEventListener("afterprint", () => closed.forEach((details) => { details.open = false; }));

// On a small screen the contents list is a folded menu.
const menu = document.querySelector("nav.contents details");
const small = matchMedia("(max-width: 60rem)");
const fitMenu = () => { menu.open = !small.matches; };
small.addEventListener("change", fitMenu);
fitMenu();
const entries = [...menu.querySelectorAll("a")];
entries.forEach((link) => link.addEventListener("click", () => { if (small.matches) menu.open = false; }));
const watcher = new IntersectionObserver((seen) => {
  for (const one of seen) one.target.inSight = one.isIntersecting;
  const first = entries.find((link) => document.getElementById(link.hash.slice(1)).inSight);
  for (const link of entries) {
    if (link === first) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}, { rootMargin: "-10% 0px -50% 0px" });
entries.forEach((link) => watcher.observe(document.getElementById(link.hash.slice(1))));

// What a link leads to may be folded.
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target || target.matches("dialog")) return;
  for (let place = target; place; place = place.parentElement) if (place.matches("details")) place.open = true;
  const own = target.querySelector(":scope > details");
  if (own) own.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", reveal);
reveal();
