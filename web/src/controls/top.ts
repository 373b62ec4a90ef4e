/** The head of the page: presets and what to look at, the engine, saving and sharing. */
import type { Available } from "../engine";
import type { Preset } from "../model/presets";
import { PRESETS } from "../model/presets";
import type { EngineName } from "../types";
import { h } from "./dom";

export interface TopActions {
  preset(id: string): void;
  engine(name: EngineName): void;
  figures(): void;
  save(): void;
  copyLink(): void;
}

export interface Top {
  root: HTMLElement;
  /** `isChanged`: it is not the preset's set-up any more. */
  set(preset: Preset | null, isChanged: boolean, engine: EngineName): void;
  /** A short note beside the buttons, for a while. */
  note(text: string): void;
}

export function top(engines: readonly Available[], actions: TopActions): Top {
  const own = h("option", { value: "", hidden: true });
  const presets = h("select", { id: "preset" }, own);
  for (const group of new Set(PRESETS.map((one) => one.group))) {
    const of = PRESETS.filter((one) => one.group === group);
    presets.append(h("optgroup", { label: group }, ...of.map(({ id, title }) => h("option", { value: id }, title))));
  }
  presets.addEventListener("change", () => actions.preset(presets.value));
  const look = h("p", { id: "look", className: "look" });
  const source = h("p", { id: "source", className: "help" });
  const note = h("span", { id: "note", className: "help", role: "status" });

  const radios = engines.map(({ name, title, why_not }) => {
    const radio = h("input", {
      type: "radio",
      name: "engine",
      id: `engine-${name}`,
      value: name,
      disabled: Boolean(why_not),
    });
    radio.addEventListener("change", () => actions.engine(name));
    const why = why_not ? h("small", { className: "why" }, `not available: ${why_not}`) : null;
    return [name, radio, h("label", { htmlFor: radio.id }, radio, h("b", {}, name), ` ${title}`, why)] as const;
  });
  const chosen = h("summary", { id: "engine" });
  const menu = h(
    "details",
    { className: "menu" },
    chosen,
    h("div", { className: "sheet", role: "radiogroup", ariaLabel: "Engine" }, ...radios.map(([, , label]) => label)),
  );
  document.addEventListener("click", (event) => {
    if (!menu.contains(event.target as Node)) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    menu.open = false;
    chosen.focus();
  });

  const button = (id: string, label: string, title: string, act: () => void) => {
    const made = h("button", { type: "button", id, title }, label);
    made.addEventListener("click", act);
    return made;
  };
  const save = button(
    "save",
    "Save",
    "A .toml file for l4slab run, with the changes made during the run",
    actions.save,
  );
  save.append(h("span", { className: "only-wide" }, " as experiment file"));
  const all = button("show-figures", "Figures", "All results of the run so far, per flow and queue", actions.figures);
  const copy = button("copy-link", "Copy link", "The address of this page with all current settings", actions.copyLink);
  return {
    root: h(
      "header",
      { className: "top" },
      h(
        "div",
        { className: "bar" },
        h("h1", {}, "l4slab ", h("span", {}, "live")),
        h("label", { className: "unseen", htmlFor: "preset" }, "Set-up"),
        presets,
        h("div", { className: "tools" }, menu, all, copy, save, note),
      ),
      look,
      source,
    ),
    set(preset, isChanged, engine) {
      own.textContent = preset ? `${preset.title}, changed` : "Your own set-up";
      presets.value = isChanged ? "" : (preset?.id ?? "");
      // What a preset shows need not be seen any more once something is changed.
      look.textContent = isChanged
        ? `Changed from the preset “${preset?.title}”. Choose it above to go back.`
        : (preset?.look ?? "");
      look.classList.toggle("changed", isChanged);
      look.hidden = !preset;
      source.textContent = preset ? `Source: ${preset.source}.` : "";
      source.hidden = !preset || isChanged;
      chosen.replaceChildren(h("span", { className: "only-wide" }, "Engine: "), engine);
      for (const [name, radio] of radios) radio.checked = name === engine;
    },
    note(text) {
      note.textContent = text;
      setTimeout(() => {
        if (note.textContent === text) note.textContent = "";
      }, 4000);
    },
  };
}
