/** A run as an experiment file. */

import type { Run } from "../types";
import { type Entry, entriesOf } from "./describe";
import type { Written } from "./keys";
import { trialOf } from "./seed";
import { print, TIME } from "./units";

export interface Heading {
  title: string;
  about?: string;
}

/** The file that `l4slab run` resolves to this run, as its last trial. */
export function toToml(run: Run, { title, about }: Heading): string {
  const entries = entriesOf(run);
  const top = entries.filter(({ place }) => place.length === 0);
  const from = trialOf(run.seed);
  const lines = [
    `title = ${quoted(title)}`,
    ...(about ? [`about = ${quoted(about)}`] : []),
    ...top.filter(({ key }) => !SEEDS.includes(key)).map(line),
    ...(from
      ? [`seed = ${from.seed}`]
      : [`# No file can give the run's seed ${run.seed}: same set-up, other random numbers.`]),
    ...(from && from.trial > 1 ? [`trials = ${from.trial}  # the run is the last of them`] : []),
  ];
  for (const table of tables(entries)) {
    const [section, name = ""] = table[0]?.place ?? [];
    const isList = section !== "link" && section !== "impair";
    lines.push("", isList ? `[[${section}]]` : `[${section}.${bare(name)}]`);
    if (section === "flow") lines.push(`name = ${quoted(name)}`);
    lines.push(...table.map(line));
  }
  return `${lines.join("\n")}\n`;
}

const SEEDS = ["seed", "trial", "run_seed"];

/** Those of one place together, in their order. */
function tables(entries: readonly Entry[]): Entry[][] {
  const found = new Map<string, Entry[]>();
  for (const entry of entries.filter(({ place }) => place.length > 0)) {
    const place = entry.place.join(".");
    found.set(place, [...(found.get(place) ?? []), entry]);
  }
  return [...found.values()];
}

function line({ place, key, value }: Entry): string {
  if (key.startsWith("options.")) return `options.${bare(key.slice(8))} = ${written(value)}`;
  const station = place[0] === "link" && /^station\.(.*)\.medium$/.exec(key);
  if (station) return `station.${bare(station[1] ?? "")}.medium = ${written(value)}`;
  return `${place[0] === "at" ? bare(key) : key} = ${written(value)}`;
}

function written(value: Written): string {
  if (Array.isArray(value)) return `[${value.map(quoted).join(", ")}]`;
  return typeof value === "string" ? quoted(value) : String(value);
}

/** TOML's basic strings escape as JSON does, and DEL besides. */
function quoted(text: string): string {
  return JSON.stringify(text).replaceAll("\u007f", "\\u007F");
}

function bare(key: string): string {
  return /^[A-Za-z0-9_-]+$/.test(key) ? key : quoted(key);
}

/** The run as it is when it ends at `now`: what had not begun is left out. */
export function endedAt(run: Run, now_ns: number): Run {
  const flows = run.flows.filter((flow) => flow.start_ns < now_ns);
  const begun = (name: string) => flows.some((flow) => flow.name === name);
  return {
    ...run,
    duration_ns: now_ns,
    sample_ns: Math.min(run.sample_ns, now_ns),
    flows: flows.map((flow) => (flow.stop_ns !== null && flow.stop_ns >= now_ns ? { ...flow, stop_ns: null } : flow)),
    rewrites: run.rewrites.filter(({ flow }) => begun(flow)),
    at: run.at.filter((change) => change.time_ns < now_ns && (change.flow == null || begun(change.flow))),
  };
}

/** Why a run that ends at `now` is no experiment yet. */
export function notYet(run: Run, now_ns: number): string | undefined {
  if (now_ns <= run.warmup_ns)
    return `nothing is measured before warmup = "${print(run.warmup_ns, TIME)}" is over; save it later`;
  const slow = run.flows.find((flow) => flow.kind !== "cbr" && flow.rtt_ns >= now_ns);
  if (slow) return `flow "${slow.name}" has not had a round trip of ${print(slow.rtt_ns, TIME)} yet; save it later`;
  return run.flows.some((flow) => flow.start_ns < now_ns) ? undefined : "no flow has begun yet; save it later";
}
