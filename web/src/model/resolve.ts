/** Keys and values of an experiment file, as text, to a run; what is wrong is a sentence each, and the rest stays. */

import type { FlowSpec, Impair, LinkSpec, Rewrite, Run, TimedChange } from "../types";
import { AT, DURATION, IMPAIR, type Key, keysOf, LINK, OF_MEDIUM, REWRITE, TIME_OF_CHANGE, TOP } from "./keys";
import { upOf, usualPath, wayBack } from "./media";
import { withinRates } from "./run";
import { trialSeed } from "./seed";
import { Wrong } from "./units";
import { suggest } from "./words";

export interface Resolved {
  run: Run;
  problems: string[];
}

type Values = Map<string, string>;

const SECTIONS = ["link", "flow", "impair", "rewrite", "at"];
const SEEDS = ["seed", "trial", "run_seed"];
/** Names are parts of dotted keys. */
const RESERVED = /[.*{}":]/;
const LARGEST_SEED = 2n ** 63n;

/** The run that dotted keys and values describe ("link.bottleneck.rate", "100Mbit"). */
export function resolve(pairs: Iterable<readonly [string, string]>): Resolved {
  return new Resolver(pairs).resolved();
}

class Resolver {
  readonly problems: string[] = [];
  readonly top: Values = new Map();
  readonly tables = new Map(SECTIONS.map((section) => [section, new Map<string, Values>()]));

  constructor(pairs: Iterable<readonly [string, string]>) {
    for (const [dotted, value] of pairs) this.put(dotted, value);
  }

  private put(dotted: string, value: string): void {
    const [section = "", name = "", ...key] = dotted.split(".");
    const tables = this.tables.get(section);
    if (tables && name && key.length > 0) {
      const table = tables.get(name) ?? new Map<string, string>();
      tables.set(name, table.set(key.join("."), value));
      return;
    }
    const keys = [...TOP.map((one) => one.key), ...SEEDS];
    if (keys.includes(dotted)) this.top.set(dotted, value);
    else if (tables)
      this.wrong(dotted, value, `is not complete; write for example ${section}.${EXAMPLE[section] ?? "1.time"}`);
    else this.wrong(dotted, value, `is not a key; ${suggest(section, [...keys, ...SECTIONS])}`);
  }

  private wrong(key: string, value: string, text: string): void {
    this.problems.push(`${key} = ${JSON.stringify(value)} ${text}`);
  }

  private of(section: string): [string, Values][] {
    return [...(this.tables.get(section) ?? [])];
  }

  resolved(): Resolved {
    const top = this.read(
      "",
      TOP,
      this.top.has("duration") ? this.top : new Map([...this.top, ["duration", DURATION]]),
      SEEDS,
    );
    if (top.per_flow === false) delete top.per_flow;
    if ((top.warmup_ns as number) >= (top.duration_ns as number)) {
      const duration = this.top.get("duration") ?? DURATION;
      this.wrong(
        "warmup",
        this.top.get("warmup") ?? "",
        `is not shorter than duration = "${duration}"; 0s is used instead`,
      );
      top.warmup_ns = 0;
    }
    const links = this.of("link").flatMap(([name, values]) => this.link(name, values));
    if (links.length === 0) links.push(...this.link("bottleneck", new Map()));
    const names = links.map(({ name }) => name);
    const flows = this.of("flow").flatMap(([name, values]) => this.flow(name, values, links));
    if (flows.length === 0)
      this.problems.push("there is no flow; add one such as flow.l4s.cc=prague&flow.l4s.rtt=10ms");
    const impairs = this.of("impair").flatMap(([name, values]) => this.impair(name, values, names));
    const run = {
      ...top,
      seed: this.seed(),
      links,
      flows,
      at: this.numbered("at").flatMap(([place, values]) => this.changes(place, values, links, flows)),
      rewrites: this.numbered("rewrite").flatMap(([place, values]) => this.rewrite(place, values, flows)),
      ...(impairs.length > 0 ? { impairs } : {}),
    } as Run;
    run.at.sort((a, b) => a.time_ns - b.time_ns);
    return { run, problems: this.problems };
  }

  /** The tables of a list, in the order of their numbers. */
  private numbered(section: string): [string, Values][] {
    const tables = this.of(section);
    for (const [name] of tables.filter(([one]) => !/^\d+$/.test(one))) {
      this.problems.push(`${section}.${name} has no number; write ${section}.1 for the first`);
    }
    return tables
      .filter(([name]) => /^\d+$/.test(name))
      .sort(([a], [b]) => Number(a) - Number(b))
      .map(([name, values]) => [`${section}.${name}`, values]);
  }

  /** The values of a table by their names in the description. */
  private read(
    place: string,
    keys: readonly Key[],
    values: Values,
    others: readonly string[] = [],
  ): Record<string, unknown> {
    const dotted = (key: string) => (place ? `${place}.${key}` : key);
    for (const [key, value] of values) {
      if (keys.some((one) => one.key === key) || others.includes(key) || key.startsWith("options.")) continue;
      const left = keys.map((one) => one.key).filter((one) => !values.has(one));
      this.wrong(dotted(key), value, `is not a key here; ${suggest(key, left)}`);
    }
    return Object.fromEntries(
      keys.map((one) => {
        const written = values.get(one.key);
        const usual = one.default === undefined ? one.example : one.default;
        const instead = usual === null ? null : one.type.read(usual);
        if (written === undefined) {
          if (one.default === undefined) {
            this.problems.push(`${place} has no ${one.key}; ${usual} is used, write ${dotted(one.key)}=${usual}`);
          }
          return [one.field, instead];
        }
        try {
          return [one.field, one.type.read(written)];
        } catch (error) {
          if (!(error instanceof Wrong)) throw error;
          this.wrong(dotted(one.key), written, `${error.message}${usual ? ` (used instead: ${usual})` : ""}`);
          return [one.field, instead];
        }
      }),
    );
  }

  private seed(): bigint {
    const whole = (key: string, least: bigint, below: bigint, usual: bigint) => {
      const text = this.top.get(key);
      if (text === undefined) return usual;
      if (/^\d+$/.test(text) && BigInt(text) >= least && BigInt(text) < below) return BigInt(text);
      this.wrong(key, text, `is not a whole number from ${least} to ${below - 1n} (used instead: ${usual})`);
      return usual;
    };
    if (this.top.has("run_seed")) return whole("run_seed", 0n, LARGEST_SEED, trialSeed(1n));
    return trialSeed(whole("seed", 0n, LARGEST_SEED, 1n), Number(whole("trial", 1n, 1_000_001n, 1n)));
  }

  private named(place: string, name: string): boolean {
    if (!RESERVED.test(name)) return true;
    this.problems.push(`${place} has a name with a character of . * { } " : ; use letters, digits, _ and -`);
    return false;
  }

  private link(name: string, values: Values): LinkSpec[] {
    const place = `link.${name}`;
    if (!this.named(place, name)) return [];
    const medium = values.get("medium");
    const words = [...values.keys()].filter((key) => OF_MEDIUM.includes(key.split(".")[0] ?? ""));
    if (medium !== undefined) return this.medium(name, medium, values, words);
    for (const key of words)
      this.wrong(`${place}.${key}`, values.get(key) ?? "", `needs ${place}.medium, for example "wifi ax80"`);
    return [
      { name, ...this.read(place, LINK, new Map([...values].filter(([key]) => !words.includes(key)))) } as LinkSpec,
    ];
  }

  /** Both sides of a medium. Their rate is what the medium says. */
  private medium(name: string, medium: string, values: Values, words: string[]): LinkSpec[] {
    const place = `link.${name}`;
    const keys = LINK.filter(({ key }) => key !== "rate");
    const down = { name, rate_bps: 0, ...this.read(place, keys, values, words) } as LinkSpec;
    const up = { name: upOf(name), rate_bps: 0, burst_bytes: down.burst_bytes, up_of: name };
    const stations = words.flatMap((key) => {
      const [word, station = "", ...rest] = key.split(".");
      if (word !== "station") return [];
      if (station && rest.join(".") === "medium") return [[station, values.get(key) ?? ""] as const];
      this.wrong(`${place}.${key}`, values.get(key) ?? "", `is not a key; write ${place}.station.far.medium=mcs+0`);
      return [];
    });
    return [
      { ...down, medium, ...(stations.length > 0 ? { stations: Object.fromEntries(stations) } : {}) },
      { ...up, qdisc: values.get("qdisc_up") ?? down.qdisc },
    ];
  }

  private flow(name: string, values: Values, known: LinkSpec[]): FlowSpec[] {
    const links = known.map((link) => link.name);
    const place = `flow.${name}`;
    if (!this.named(place, name)) return [];
    const kind = values.get("kind") ?? "tcp";
    const keys = keysOf(kind);
    const read = this.read(place, keys, values);
    const told = (key: string) => values.get(key) ?? keys.find((one) => one.key === key)?.default ?? "";
    for (const key of ["path", "reverse_path"]) {
      const [wanted, usual] = [read[key] as string[] | null, key === "path" ? usualPath(known) : []];
      const unknown = (wanted ?? []).filter((link, i, all) => !links.includes(link) || all.indexOf(link) < i);
      if (unknown.length > 0) {
        this.wrong(
          `${place}.${key}`,
          values.get(key) ?? "",
          `names link "${unknown[0]}" wrongly or twice; ${suggest(unknown[0] ?? "", links)}`,
        );
      }
      if (read[key] !== undefined && (unknown.length > 0 || wanted === null || (key === "path" && wanted.length === 0)))
        read[key] = [...usual];
    }
    if (read.reverse_path !== undefined && !values.has("reverse_path"))
      read.reverse_path = wayBack(known, read.path as string[]);
    if ("size_min_bytes" in read && (read.size_min_bytes as number) > (read.size_max_bytes as number)) {
      this.wrong(
        `${place}.size_min`,
        told("size_min"),
        `is above size_max = "${told("size_max")}"; size_max is used for both`,
      );
      read.size_min_bytes = read.size_max_bytes;
    }
    if (read.stop_ns !== null && (read.stop_ns as number) <= (read.start_ns as number)) {
      this.wrong(
        `${place}.stop`,
        told("stop"),
        `is not after start = "${told("start")}"; the flow runs to the end instead`,
      );
      read.stop_ns = null;
    }
    if (kind === "media") {
      for (const key of ["rate_min", "rate_start"]) {
        if (values.has(key) && (read[`${key}_bps`] as number) > (read.rate_bps as number))
          this.wrong(
            `${place}.${key}`,
            told(key),
            `is above rate_max = "${told("rate_max")}"; rate_max is used for both`,
          );
        if (read.cc === "none") read[`${key}_bps`] = null;
      }
    }
    if ("options" in read) {
      const options = [...values].filter(([key]) => key.startsWith("options."));
      read.options = Object.fromEntries(options.map(([key, value]) => [key.slice("options.".length), value]));
    }
    return [withinRates({ name, ...read } as unknown as FlowSpec)];
  }

  private impair(name: string, values: Values, links: string[]): Impair[] {
    const place = `impair.${name}`;
    if (!this.named(place, name)) return [];
    const impair = { name, ...this.read(place, IMPAIR, values) } as Impair;
    if (links.includes(impair.before)) return [impair];
    this.wrong(`${place}.before`, impair.before, `is not a link; ${suggest(impair.before, links)} (left out)`);
    return [];
  }

  private rewrite(place: string, values: Values, flows: FlowSpec[]): Rewrite[] {
    const { flow, where, from, to } = this.read(place, REWRITE, values) as Record<string, string>;
    const path = flows.find(({ name }) => name === flow)?.path;
    if (!path) {
      this.wrong(
        `${place}.flow`,
        flow ?? "",
        `is not a flow; ${suggest(
          flow ?? "",
          flows.map(({ name }) => name),
        )} (left out)`,
      );
      return [];
    }
    const [side, ...rest] = (where ?? "").split(":");
    const link = rest.join(":");
    if ((side !== "before" && side !== "after") || !path.includes(link)) {
      this.wrong(
        `${place}.where`,
        where ?? "",
        `is not a place on the path of flow "${flow}"; write "before:${path[0]}" or "after:${path[0]}" (left out)`,
      );
      return [];
    }
    return [{ flow, where: side, link, from, to } as Rewrite];
  }

  /** The changes of one table, one for each link and flow. */
  private changes(place: string, values: Values, known: LinkSpec[], flows: FlowSpec[]): TimedChange[] {
    const links = known.map(({ name }) => name);
    const byTarget = new Map<string, Values>();
    for (const [dotted, value] of [...values].filter(([key]) => key !== "time")) {
      const [section, first = "", ...key] = dotted.split(".");
      // The other side of a medium has a dot in its name.
      const isUp = section === "link" && key.length > 1 && links.includes(`${first}.${key[0]}`);
      let name = isUp ? `${first}.${key.shift()}` : first;
      if (section === "link" && key.join() === "qdisc_up" && links.includes(upOf(first))) {
        name = upOf(first);
        key.splice(0, 1, "qdisc");
      }
      const names = section === "link" ? links : section === "flow" ? flows.map((flow) => flow.name) : undefined;
      if (!names)
        this.wrong(
          `${place}.${dotted}`,
          value,
          `is not a key here; write for example ${place}.link.${links[0]}.rate=5Mbit`,
        );
      else if (!names.includes(name))
        this.wrong(`${place}.${dotted}`, value, `names no ${section} "${name}"; ${suggest(name, names)}`);
      else {
        const target = byTarget.get(`${section}.${name}`) ?? new Map<string, string>();
        byTarget.set(`${section}.${name}`, target.set(key.join("."), value));
      }
    }
    const { time_ns } = this.read(place, [TIME_OF_CHANGE], new Map([...values].filter(([key]) => key === "time")));
    return [...byTarget].flatMap(([target, settings]) => {
      const section = target.startsWith("link.") ? "link" : "flow";
      const name = target.slice(section.length + 1);
      const cbr = flows.find((flow) => flow.name === name)?.kind === "cbr";
      const keys = AT[section].filter(({ key }) => section === "link" || key !== "rate" || cbr);
      const wanted = keys.filter(({ key }) => settings.has(key)).map((key) => ({ ...key, default: null }));
      const hasMedium = section === "link" && known.some((link) => link.name === name && link.medium);
      const ofMedium = hasMedium ? mediumChanges(settings) : {};
      const unknown = [...settings].filter(([key]) => !keys.some((one) => one.key === key));
      for (const [key, value] of unknown) {
        this.wrong(
          `${place}.${target}.${key}`,
          value,
          `cannot change while it runs; ${suggest(
            key,
            keys.map((one) => one.key),
          )}`,
        );
      }
      const read = this.read(
        `${place}.${target}`,
        wanted,
        new Map([...settings].filter(([key]) => !unknown.some(([u]) => u === key))),
      );
      const kept = { ...Object.fromEntries(Object.entries(read).filter(([, value]) => value !== null)), ...ofMedium };
      return Object.keys(kept).length > 0 ? [{ time_ns, [section]: name, ...kept } as unknown as TimedChange] : [];
    });
  }
}

/** Takes the changes of a medium and of its stations out of the settings of a link. */
function mediumChanges(settings: Values): Pick<TimedChange, "medium" | "stations"> {
  const found: Pick<TimedChange, "medium" | "stations"> = {};
  for (const [key, words] of [...settings]) {
    const station = /^station\.(.+)\.medium$/.exec(key)?.[1];
    if (key === "medium") found.medium = words;
    else if (station !== undefined) found.stations = { ...found.stations, [station]: words };
    else continue;
    settings.delete(key);
  }
  return found;
}

const EXAMPLE: Record<string, string> = {
  link: "bottleneck.rate=100Mbit",
  flow: "l4s.cc=prague",
  impair: "wifi.netem=delay+2ms",
  rewrite: "1.flow=l4s",
  at: "1.time=20s",
};
