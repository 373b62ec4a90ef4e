/** The two services: groups of flows, each with what can be changed about it. */
import { FLOW, type Key } from "../model/keys";
import { usualPath } from "../model/media";
import { isL4s, isScalable, withinRates } from "../model/run";
import { MEDIA } from "../model/short";
import { parseInterval, print, printInterval, RATE, TIME, Wrong } from "../model/units";
import type { Change, FlowSpec, Run, Vocabulary } from "../types";
import { h, slug } from "./dom";
import { choice, type Field, keyField, slider, text } from "./fields";
import { KINDS, type Service, type Wanted } from "./groups";
import { COUNTS, logarithmic } from "./scale";

export interface FlowActions {
  change(change: Change): void;
  anew(edit: (run: Run) => Run): void;
  add(wanted: Wanted, service: Service): void;
  vocabulary(): Vocabulary | null;
}

export const SERVICES: Record<Service, { title: string; about: string }> = {
  l4s: { title: "L4S", about: "reduces a little at each of many marks: needs a short queue" },
  classic: { title: "Classic", about: "halves or so at a drop or mark: needs a long queue" },
};

export function serviceOf(flow: FlowSpec): Service {
  return isL4s(flow) ? "l4s" : "classic";
}

export interface ServicePanel {
  root: HTMLElement;
  set(flows: readonly FlowSpec[]): void;
}

export function servicePanel(service: Service, flows: readonly FlowSpec[], actions: FlowActions): ServicePanel {
  const groups = new Map(flows.map((flow) => [flow.name, group(flow, service, actions)]));
  const add = h(
    "select",
    { id: `add-${service}`, ariaLabel: `Add to ${SERVICES[service].title}` },
    h("option", { value: "" }, "+ Add …"),
  );
  add.append(...Object.entries(KINDS).map(([kind, { title }]) => h("option", { value: kind }, title)));
  add.addEventListener("change", () => {
    const wanted = add.value as Wanted;
    add.value = "";
    if (wanted) actions.add(wanted, service);
  });
  const empty = flows.length === 0 && h("p", { className: "help" }, "No flows yet. Add a group.");
  return {
    root: h(
      "section",
      { className: `card service ${service}`, id: `service-${service}` },
      h(
        "header",
        {},
        h("h2", {}, SERVICES[service].title),
        h("p", { className: "help" }, SERVICES[service].about),
        add,
      ),
      ...[...groups.values()].map(({ root }) => root),
      empty,
    ),
    set(now) {
      for (const flow of now) groups.get(flow.name)?.set(flow);
    },
  };
}

const RTTS = logarithmic(100e3, 1e9);
const RATES = logarithmic(100e3, 1e9);
const OFTEN = logarithmic(0.1, 1000);

interface Group {
  root: HTMLElement;
  set(flow: FlowSpec): void;
}

function group(flow: FlowSpec, service: Service, actions: FlowActions): Group {
  const { name, kind } = flow;
  const id = `flow-${slug(name)}`;
  const edited = (run: Run, values: Record<string, unknown>): Run => ({
    ...run,
    flows: run.flows.map((one) => (one.name === name ? withinRates({ ...one, ...values } as FlowSpec) : one)),
  });
  const anew = (values: Record<string, unknown>) => actions.anew((run) => edited(run, values));
  const shown: [string, Field<never>][] = [];
  const field = <T>(of: string, made: Field<T>) => shown.push([of, made as Field<never>]);
  const keys = new Map(FLOW[kind].map((key) => [key.key, key]));
  const typed = (key: string) => (text: string) => keys.get(key)?.type.read(text) as number;

  if ("cc" in flow) {
    const tcp = actions.vocabulary()?.controllers.map((one) => one.name) ?? [flow.cc];
    const suits = (cc: string) => isScalable(cc) === (service === "l4s") || cc === flow.cc;
    const of = kind === "media" ? [...new Set([...MEDIA.keys(), flow.cc])] : tcp.filter(suits);
    const options = of.map((cc) => [cc, cc] as const);
    field(
      "cc",
      choice({ id: `${id}-cc`, label: "Controller", anew: true, options, put: (cc) => anew({ cc, options: {} }) }),
    );
  }
  field("count", slider({
    id: `${id}-count`, label: kind === "tcp" || kind === "udp-prague" ? "Flows" : "Sources", scale: COUNTS, print: String, read: typed("count"),
    put: (count) => actions.change({ flow: name, count }),
  })); // biome-ignore format: a control in three lines
  if ("rate_bps" in flow) {
    const [label, key] = kind === "media" ? ["Highest rate", "rate_max"] : ["Rate", "rate"];
    field("rate_bps", slider({
      id: `${id}-rate`, label, anew: kind !== "cbr", scale: RATES, print: (value) => print(value, RATE), read: typed(key),
      put: (rate_bps) => (kind === "cbr" ? actions.change({ flow: name, rate_bps }) : anew({ rate_bps })),
    })); // biome-ignore format: a control in three lines
  }
  if (kind === "web") {
    field(
      "interval_ns",
      often(`${id}-requests`, (interval_ns) => anew({ interval_ns })),
    );
    const [least, most] = [keys.get("size_min"), keys.get("size_max")] as [Key, Key];
    if (KINDS.downloads.is(flow)) {
      const both = (size: unknown) => anew({ size_min_bytes: size, size_max_bytes: size });
      field(least.field, keyField(least, { id: `${id}-size`, label: "Size", anew: true }, both));
      field(most.field, { root: h("span", { hidden: true }), set: () => {} });
    } else {
      for (const [key, label] of [
        [least, "Sizes from"],
        [most, "to"],
      ] as const) {
        field(
          key.field,
          keyField(key, { id: `${id}-${key.key}`, label, anew: true }, (size) => anew({ [key.field]: size })),
        );
      }
    }
  }
  if (kind === "cbr") {
    const options = [["not-ect", "Not-ECT"], ["ect0", "ECT(0)"], ["ect1", "ECT(1)"]] as const; // biome-ignore format: a table
    field("ecn", choice({ id: `${id}-ecn`, label: "Codepoint", anew: true, options, put: (ecn) => anew({ ecn }) }));
  }
  field("rtt_ns", slider({
    id: `${id}-rtt`, label: "Base RTT", scale: RTTS, print: (value) => print(value, TIME), read: typed("rtt"),
    put: (rtt_ns) => actions.change({ flow: name, rtt_ns }),
  })); // biome-ignore format: a control in three lines

  const main = new Set(shown.map(([of]) => of));
  const others = FLOW[kind].filter((key) => !main.has(key.field) && key.key !== "kind");
  const more = others.map((key): [string, Field<never>] => {
    const told = { id: `${id}-${key.key}`, label: key.key.replaceAll("_", " "), anew: true };
    // Of a path, nothing written means all links.
    const usual = (run: Run) => (key.key === "path" ? usualPath(run.links) : null);
    const put = (value: unknown) => actions.anew((run) => edited(run, { [key.field]: value ?? usual(run) }));
    const made = key.key === "options" ? optionsField(told, put) : keyField(key, told, put);
    return [key.field, made as Field<never>];
  });
  const unusual = h("span", { className: "unusual" });
  const remove = h(
    "button",
    {
      type: "button",
      id: `${id}-remove`,
      className: "quiet",
      title: "Remove this group (restarts the run)",
      ariaLabel: `Remove ${name}`,
    },
    "×",
  );
  remove.addEventListener("click", () => actions.anew((run) => without(run, name)));
  const of = Object.entries(KINDS).find(([, { is }]) => is(flow))?.[1].title ?? kind;
  return {
    root: h(
      "fieldset",
      { className: "group", id },
      h("legend", {}, h("b", {}, name), " ", h("span", { className: "kind" }, of), remove),
      ...shown.map(([, { root }]) => root),
      h(
        "details",
        { id: `${id}-more` },
        h("summary", {}, "More ", unusual),
        h("div", { className: "more" }, ...more.map(([, { root }]) => root)),
      ),
    ),
    set(now) {
      const values = now as unknown as Record<string, unknown>;
      for (const [of, made] of [...shown, ...more]) made.set((values[of] ?? null) as never);
      unusual.textContent = told(now, others).join(" · ");
    },
  };
}

/** What is set among the keys that are folded away. */
function told(flow: FlowSpec, keys: readonly Key[]): string[] {
  const values = flow as unknown as Record<string, unknown>;
  return keys.flatMap(({ key, field, type, default: usual }) => {
    const value = values[field];
    if (key === "options") return Object.entries((value ?? {}) as Record<string, string>).map((pair) => pair.join(" "));
    if (key === "path" || value === null || value === undefined) return [];
    const written = String(type.write(value));
    const same = typeof usual === "string" && written === String(type.write(type.read(usual)));
    return same ? [] : [`${key.replaceAll("_", " ")} ${written}`];
  });
}

function often(id: string, put: (interval: number) => void): Field<number> {
  const made = slider({
    id,
    label: "Requests",
    anew: true,
    scale: OFTEN,
    // The scale is of requests a second, the description of the time between them.
    print: (value) => `${value}/s`,
    read: (typed) => perSecond(parseInterval(typed)),
    put: (value) => put(parseInterval(`${value}/s`)),
  });
  return { root: made.root, set: (interval) => made.set(perSecond(interval)) };
}

function perSecond(interval: number): number {
  const [number = "", unit] = printInterval(interval).split("/");
  return unit === "s" ? Number(number) : 1e9 / interval;
}

function optionsField(
  told: { id: string; label: string; anew: boolean },
  put: (options: Record<string, string>) => void,
): Field<Record<string, string>> {
  const made = text({
    ...told,
    placeholder: "for example fallback correct",
    put(words) {
      const parts = words.split(/[\s=,]+/).filter(Boolean);
      if (parts.length % 2 !== 0) throw new Wrong("must be pairs of a name and a value, for example fallback correct");
      put(Object.fromEntries(Array.from({ length: parts.length / 2 }, (_, i) => [parts[2 * i], parts[2 * i + 1]])));
    },
  });
  return {
    root: made.root,
    set: (options) =>
      made.set(
        Object.entries(options ?? {})
          .map((pair) => pair.join(" "))
          .join(" "),
      ),
  };
}

function without(run: Run, name: string): Run {
  return {
    ...run,
    flows: run.flows.filter((flow) => flow.name !== name),
    rewrites: run.rewrites.filter(({ flow }) => flow !== name),
    at: run.at.filter((change) => !("flow" in change) || change.flow !== name),
  };
}
