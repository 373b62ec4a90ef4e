/** A panel: title, switches, legend, a place to draw, and words where there is nothing to draw. */
import type { Look } from "./roles";
import { colourOf, theme } from "./theme";

export interface LegendEntry {
  key: string;
  label: string;
  look: Look;
  /** What is drawn of it: a line, markers, or packets of the picture. */
  drawn?: "line" | "dots" | "packet" | "mark" | "drop";
  title?: string;
}

const SVG = "http://www.w3.org/2000/svg";
const UNSEEN_MS = 1000;

export function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  className = "",
  text = "",
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

export class Panel {
  readonly root: HTMLElement;
  readonly body: HTMLElement;
  /** Beside the title: the unit, or what is drawn. */
  private readonly about: HTMLElement;
  private readonly tools: HTMLElement;
  private readonly legend: HTMLElement;
  private readonly words: HTMLElement;
  private readonly values = new Map<string, HTMLElement>();
  private legendKey = "";
  private said: string | null = null;
  private visible = true;
  private unseen_ms = 0;

  constructor(into: HTMLElement, name: string, title: string, unit: string) {
    this.root = element("section", `panel panel-${name}`);
    this.root.dataset.panel = name;
    const head = element("header");
    const heading = element("h3", "", title);
    this.about = element("small", "", unit);
    this.tools = element("div", "tools");
    head.append(heading, this.about, this.tools);
    this.legend = element("div", "legend");
    this.root.setAttribute("aria-label", title);
    this.body = element("div", "body");
    this.words = element("p", "words");
    this.words.hidden = true;
    this.body.append(this.words);
    this.root.append(head, this.legend, this.body);
    into.append(this.root);
    if (typeof IntersectionObserver !== "undefined") {
      new IntersectionObserver(
        (entries) => {
          this.visible = entries.at(-1)?.isIntersecting ?? true;
        },
        { rootMargin: "40px" },
      ).observe(this.root);
    }
  }

  /** Whether it is drawn now: always where a reader can see it, else each second, for who scrolls or prints. */
  get due(): boolean {
    if (this.visible) return true;
    const now = performance.now();
    if (now - this.unseen_ms < UNSEEN_MS) return false;
    this.unseen_ms = now;
    return true;
  }

  setUnit(text: string): void {
    if (this.about.textContent !== text) this.about.textContent = text;
  }

  /** Words in place of the drawing; null: the drawing. */
  say(words: string | null): void {
    if (words === this.said) return;
    this.said = words;
    this.words.hidden = words === null;
    this.words.textContent = words ?? "";
    this.root.classList.toggle("says", words !== null);
  }

  /** A choice of a few, as buttons side by side. */
  choice<T extends string>(
    label: string,
    options: readonly (readonly [T, string])[],
    chosen: T,
    onChoose: (choice: T) => void,
  ): (chosen: T) => void {
    const group = element("div", "choice");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", label);
    const buttons = options.map(([value, text]) => {
      const button = element("button", "", text);
      button.type = "button";
      button.addEventListener("click", () => {
        press(value);
        onChoose(value);
      });
      group.append(button);
      return [value, button] as const;
    });
    const press = (chosen: T) => {
      for (const [value, button] of buttons) button.setAttribute("aria-pressed", String(value === chosen));
    };
    press(chosen);
    this.tools.append(group);
    return press;
  }

  /** A choice of names, hidden while there is only one. What it returns sets the names and the chosen one. */
  selection(label: string, onChoose: (name: string) => void): (names: readonly string[], chosen: string) => void {
    const select = element("select");
    select.setAttribute("aria-label", label);
    select.addEventListener("change", () => onChoose(select.value));
    this.tools.append(select);
    return (names, chosen) => {
      select.hidden = names.length < 2;
      select.replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)));
    };
  }

  setLegend(entries: readonly LegendEntry[]): void {
    const key = JSON.stringify(entries);
    if (key === this.legendKey) return;
    this.legendKey = key;
    this.values.clear();
    this.legend.replaceChildren(
      ...entries.map((entry) => {
        const item = element("span", "key");
        if (entry.title) item.title = entry.title;
        const value = element("b");
        this.values.set(entry.key, value);
        item.append(sample(entry), ` ${entry.label} `, value);
        return item;
      }),
    );
  }

  setValue(key: string, text: string): void {
    const at = this.values.get(key);
    if (at && at.textContent !== text) at.textContent = text;
  }
}

/** A piece of line, or a marker, for the legend. */
function sample({ look, drawn }: LegendEntry): SVGSVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("width", drawn && drawn !== "line" ? "12" : "26");
  svg.setAttribute("height", "12");
  svg.setAttribute("aria-hidden", "true");
  const colour = look.colour === "ink" ? "currentcolor" : colourOf(look);
  if (drawn === "dots") {
    const shapes: Record<string, string> = {
      circle: "M6 2a4 4 0 1 0 .01 0Z",
      square: "M2 2h8v8h-8Z",
      triangle: "M6 1l5 9h-10Z",
      down: "M6 11l5 -9h-10Z",
      plus: "M5 1h2v4h4v2h-4v4h-2v-4h-4v-2h4Z",
      cross: "M1 1h4l6 10h-4Z",
    };
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", shapes[look.marker] as string);
    path.setAttribute("fill", colour);
    svg.append(path);
    return svg;
  }
  if (drawn === "packet" || drawn === "mark" || drawn === "drop") {
    const add = (name: string, attributes: Record<string, string>) => {
      const made = document.createElementNS(SVG, name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      svg.append(made);
    };
    add("rect", { x: "1", width: "10", height: "12", fill: colour });
    if (drawn === "mark") {
      add("rect", { x: "1", y: "3", width: "10", height: "6", fill: theme.edge });
      add("rect", { x: "1", y: "4", width: "10", height: "4", fill: theme.mark });
    }
    if (drawn === "drop") add("path", { d: "M1 0L11 12M11 0L1 12", stroke: "currentcolor", "stroke-width": "1.5" });
    return svg;
  }
  const line = document.createElementNS(SVG, "line");
  for (const [name, value] of Object.entries({ x1: 0, x2: 26, y1: 6, y2: 6, stroke: colour, "stroke-width": 2.5 })) {
    line.setAttribute(name, String(value));
  }
  if (look.dash.length) line.setAttribute("stroke-dasharray", look.dash.join(" "));
  svg.append(line);
  return svg;
}
