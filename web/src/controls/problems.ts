/** Sentences about what is wrong, until they are read or mended. */
import { h } from "./dom";

export class Problems {
  private readonly list = h("ul", {});
  private readonly close = h(
    "button",
    { type: "button", id: "problems-close", className: "quiet", ariaLabel: "Close" },
    "×",
  );
  readonly root = h(
    "section",
    { id: "problems", className: "problems", role: "alert", hidden: true },
    this.list,
    this.close,
  );
  private readonly told = new Map<string, readonly string[]>();

  constructor() {
    this.close.addEventListener("click", () => {
      this.told.clear();
      this.show();
    });
  }

  /** What `source` has to say now; nothing takes back what it said. */
  say(source: "address" | "engine" | "clock" | "change", sentences: readonly string[]): void {
    if (JSON.stringify(this.told.get(source) ?? []) === JSON.stringify(sentences)) return;
    this.told.set(source, sentences);
    this.show();
  }

  private show(): void {
    const all = [...new Set([...this.told.values()].flat())];
    this.list.replaceChildren(...all.map((sentence) => h("li", {}, sentence)));
    this.root.hidden = all.length === 0;
  }
}
