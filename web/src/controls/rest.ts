/** What a run has beyond links and flows: its length and seed, and what is only shown. */
import { entriesOf } from "../model/describe";
import { TOP } from "../model/keys";
import { trialOf, trialSeed } from "../model/seed";
import { Wrong } from "../model/units";
import type { Run } from "../types";
import { h } from "./dom";
import { keyField, text } from "./fields";

export interface RestPanel {
  root: HTMLElement;
  set(run: Run): void;
}

const SHOWN = { impair: "netem", rewrite: "ECN rewritten", at: "Change" } as const;

export function restPanel(anew: (edit: (run: Run) => Run) => void): RestPanel {
  const keys = TOP.filter(({ key }) => key !== "per_flow");
  const fields = keys.map((key) => {
    const told = { id: `run-${key.key}`, label: key.key.replaceAll("_", " "), anew: true };
    return [key, keyField(key, told, (value) => anew((run) => ({ ...run, [key.field]: value })))] as const;
  });
  const seed = text({
    id: "run-seed",
    label: "seed",
    anew: true,
    put(written) {
      if (!/^\d+$/.test(written) || BigInt(written) >= 2n ** 63n)
        throw new Wrong("is not a whole number; write for example 2");
      anew((run) => ({ ...run, seed: trialSeed(BigInt(written)) }));
    },
  });
  const list = h("ul", { id: "rest", className: "rest" });
  return {
    root: h(
      "section",
      { className: "card" },
      list,
      h(
        "details",
        { id: "run-more" },
        h("summary", {}, "Length, seed"),
        h("div", { className: "more" }, ...fields.map(([, { root }]) => root), seed.root),
      ),
    ),
    set(run) {
      const values = run as unknown as Record<string, unknown>;
      for (const [key, field] of fields) field.set(values[key.field]);
      seed.set(String(trialOf(run.seed)?.seed ?? run.seed));
      list.replaceChildren(...extras(run).map((line) => h("li", {}, line)));
    },
  };
}

/** A line for each change, rewrite and impairment. */
export function extras(run: Run): string[] {
  const lines = new Map<string, string[]>();
  for (const { place, key, value } of entriesOf(run)) {
    const [section, name] = place;
    if (section === undefined || !(section in SHOWN)) continue;
    const of = `${section}.${name}`;
    if (!lines.has(of)) {
      lines.set(of, [section === "impair" ? `${SHOWN.impair} ${name}:` : `${SHOWN[section as keyof typeof SHOWN]}:`]);
    }
    lines.get(of)?.push(key === "time" ? `at ${value},` : `${key} ${value}`);
  }
  return [...lines.values()].map((words) => words.join(" "));
}
