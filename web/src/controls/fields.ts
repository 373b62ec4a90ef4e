/** Controls with their labels: a slider beside a number that can be typed, a choice, a text. */
import type { Key } from "../model/keys";
import { Wrong } from "../model/units";
import { h, sentence } from "./dom";
import { nearestIndex } from "./scale";

export interface Field<T> {
  root: HTMLElement;
  set(value: T): void;
}

/** What a control's value takes effect on. */
export interface Labels {
  id: string;
  label: string;
  /** The run begins anew with it. */
  anew?: boolean;
  help?: string;
}

export function labelled({ id, label, anew, help }: Labels): HTMLLabelElement {
  const mark =
    anew &&
    h(
      "span",
      { className: "anew", title: "changing this restarts the run" },
      "↻",
      h("span", { className: "unseen" }, " (starts the run anew)"),
    );
  return h("label", { htmlFor: id, title: help ?? "" }, label, mark);
}

interface Slider extends Labels {
  scale: readonly number[];
  print(value: number): string;
  /** Throws `Wrong`. */
  read(text: string): number;
  /** Of each move, and of what is typed. */
  put(value: number): void;
}

/** Whether somebody is typing into the field: what stands there has not been taken yet. */
export function typingInto(input: HTMLInputElement): () => boolean {
  let is = false;
  input.addEventListener("input", () => {
    is = true;
  });
  for (const end of ["change", "blur"]) {
    input.addEventListener(end, () => {
      is = false;
    });
  }
  return () => is;
}

export function slider({ scale, print, read, put, ...told }: Slider): Field<number> {
  const range = h("input", { type: "range", id: told.id, min: "0", max: String(scale.length - 1), step: "1" });
  const text = h("input", {
    type: "text",
    id: `${told.id}-typed`,
    className: "number",
    autocomplete: "off",
    spellcheck: false,
    aria: { label: `${told.label}, typed` },
  });
  const wrong = sentence(`${told.id}-wrong`);
  text.setAttribute("aria-describedby", wrong.id);
  const show = (value: number) => {
    range.value = String(nearestIndex(scale, value));
    range.setAttribute("aria-valuetext", print(value));
    text.value = print(value);
    wrong.say(null);
  };
  let shown = Number.NaN;
  const isTyping = typingInto(text);
  range.addEventListener("input", () => {
    shown = scale[Number(range.value)] ?? 0;
    show(shown);
    put(shown);
  });
  text.addEventListener("change", () => {
    const value = tried(() => read(text.value), text.value, wrong.say);
    if (value === undefined) return;
    shown = value;
    show(value);
    put(value);
  });
  return {
    root: h("div", { className: "field slider" }, labelled(told), range, text, wrong),
    set(value) {
      // What is being typed is not to be overwritten, nor what was refused by what it would replace.
      if (isTyping() || (value === shown && document.activeElement === text)) return;
      shown = value;
      show(value);
    },
  };
}

/** What `read` gives; where it throws `Wrong`, its sentence is said. */
function tried<T>(read: () => T, text: string, say: (text: string | null) => void): T | undefined {
  try {
    const value = read();
    say(null);
    return value;
  } catch (error) {
    if (!(error instanceof Wrong)) throw error;
    say(`"${text}" ${error.message}`);
    return undefined;
  }
}

interface Choice extends Labels {
  options: readonly (readonly [value: string, label: string])[];
  put(value: string): void;
}

export function choice({ options, put, ...told }: Choice): Field<string> {
  const select = h("select", { id: told.id });
  select.append(...options.map(([value, label]) => h("option", { value }, label)));
  select.addEventListener("change", () => put(select.value));
  return {
    root: h("div", { className: "field" }, labelled(told), select),
    set(value) {
      if (!options.some(([one]) => one === value) && !select.querySelector(`option[value="${CSS.escape(value)}"]`)) {
        select.append(h("option", { value }, value));
      }
      select.value = value;
    },
  };
}

interface Text extends Labels {
  placeholder?: string;
  /** Throws `Wrong`. */
  put(text: string): void;
}

export function text({ put, placeholder, ...told }: Text): Field<string> {
  const input = h("input", {
    type: "text",
    id: told.id,
    placeholder: placeholder ?? "",
    autocomplete: "off",
    spellcheck: false,
  });
  const wrong = sentence(`${told.id}-wrong`);
  input.setAttribute("aria-describedby", wrong.id);
  input.addEventListener("change", () => tried(() => put(input.value.trim()), input.value, wrong.say));
  const isTyping = typingInto(input);
  return {
    root: h("div", { className: "field" }, labelled(told), input, wrong),
    set(value) {
      if (document.activeElement !== input || (wrong.hidden && !isTyping())) input.value = value;
    },
  };
}

/** A control for any key of a table; empty is its default. `put` gets what the description has. */
export function keyField(key: Key, told: Labels, put: (value: unknown) => void): Field<unknown> {
  const written = (value: unknown) => (value === null || value === undefined ? "" : String(key.type.write(value)));
  const values = key.type.name.split(" ");
  const usual = key.default === null || key.default === undefined ? "" : key.default;
  const read = (typed: string) => {
    const text = typed === "" ? key.default : typed;
    if (text === undefined) throw new Wrong(`is required; write for example ${key.example}`);
    put(text === null ? null : key.type.read(text));
  };
  if (values.length > 1 && values.includes(key.example)) {
    const none = key.default === null ? [["", "default"] as const] : [];
    const field = choice({ ...told, options: [...none, ...values.map((value) => [value, value] as const)], put: read });
    return { root: field.root, set: (value) => field.set(written(value)) };
  }
  const field = text({ ...told, placeholder: usual || `none, or ${key.example}`, put: read });
  return { root: field.root, set: (value) => field.set(written(value) === usual ? "" : written(value)) };
}
