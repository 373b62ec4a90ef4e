/** The figures of the run so far: every column of the tables that `l4slab run` of the saved file writes. */
import type { Report, Row } from "../types";
import { h } from "./dom";
import "./figures.css";

export interface Figures {
  root: HTMLDialogElement;
  /** Shows the figures, or the sentence why there are none. */
  open(): Promise<void>;
}

interface Table {
  title: string;
  /** What tells a row from the others. */
  names: readonly string[];
  rows: readonly Row[];
}

export function figures(report: () => Promise<Report>): Figures {
  const note = h("p", { className: "help", role: "status" });
  const tables = h("div", { className: "tables" });
  const close = h("button", { type: "button", id: "figures-close" }, "Close");
  const root = h(
    "dialog",
    { id: "figures", ariaLabel: "Figures" },
    h("header", {}, h("h2", {}, "Figures"), close),
    note,
    tables,
  );
  close.addEventListener("click", () => root.close());
  root.addEventListener("click", ({ target }) => {
    if (target === root) root.close();
  });
  return {
    root,
    async open() {
      note.textContent = "";
      tables.replaceChildren();
      if (!root.open) root.showModal();
      try {
        const { now_ns, flows, links } = await report();
        note.textContent = `After ${now_ns / 1e9} s. If you save the experiment file now, l4slab run gives the same results.`;
        tables.replaceChildren(
          table({ title: "flows", names: ["flow"], rows: flows }),
          table({ title: "links", names: ["link", "queue"], rows: links }),
        );
      } catch (error) {
        note.textContent = error instanceof Error ? error.message : String(error);
      }
    },
  };
}

/** A row per quantity, a column per flow or queue; quantities that none has are left out. */
function table({ title, names, rows }: Table): HTMLElement {
  const heads = rows.map((row) => names.map((name) => row[name]).join(", "));
  const keys = Object.keys(rows[0] ?? {}).filter(
    (key) => !names.includes(key) && rows.some((row) => row[key] !== null),
  );
  return h(
    "div",
    { className: "wide" },
    h(
      "table",
      { data: { table: title } },
      h("thead", {}, h("tr", {}, h("th", {}, title), ...heads.map((head) => h("th", { scope: "col" }, head)))),
      h(
        "tbody",
        {},
        ...keys.map((key) => h("tr", {}, h("th", { scope: "row" }, key), ...rows.map((row) => cell(row[key])))),
      ),
    ),
  );
}

function cell(value: Row[string] | undefined): HTMLTableCellElement {
  return h("td", { data: { value: JSON.stringify(value ?? null) } }, written(value ?? null));
}

/** Four digits, as the command line has them. */
function written(value: Row[string]): string {
  if (typeof value !== "number" || Number.isInteger(value)) return value === null ? "" : String(value);
  return Math.abs(value) >= 1e4 ? value.toFixed(0) : String(Number(value.toPrecision(4)));
}
