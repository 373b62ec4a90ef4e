/** What one asks of a run's description, which is the page's only model of what runs. */
import type { Change, FlowSpec, LinkSpec, Run, TimedChange } from "../types";
import { changedMedium, changedStation, kindOf, type MediumKind, parametersOf, withoutWords } from "./media";
import { CONTROLLERS, MEDIA } from "./short";

/** Of a flow whose packets have a queue of their own where queues know L4S, by its sender's law or codepoint. */
export function isL4s(flow: FlowSpec): boolean {
  if (flow.kind === "cbr") return flow.ecn === "ect1";
  if (flow.kind === "media") return (flow.ecn ?? MEDIA.get(flow.cc)?.ecn) === "ect1";
  return flow.kind === "udp-prague" || isScalable(flow.cc, flow.options);
}

/** A congestion control whose window is inversely proportional to the marks it gets. */
export function isScalable(cc: string, options: Record<string, string> = {}): boolean {
  const found = CONTROLLERS.get(cc);
  if (!found) return false;
  return (
    found.role === "scalable" || Object.entries(found.scalable_with).some(([key, value]) => options[key] === value)
  );
}

/** The flow with the other rates of a media encoder at most its highest. */
export function withinRates(flow: FlowSpec): FlowSpec {
  if (flow.kind !== "media") return flow;
  const within = (rate: number | null) => rate && Math.min(rate, flow.rate_bps);
  return { ...flow, rate_min_bps: within(flow.rate_min_bps), rate_start_bps: within(flow.rate_start_bps) };
}

/** What is set at `now_ns`: the changes that are due are made. */
export function setAt(run: Run, now_ns: number): Run {
  const later = run.at.filter((change) => change.time_ns > now_ns);
  return run.at.filter((change) => change.time_ns <= now_ns).reduce(changed, { ...run, at: later });
}

/** The run with a change made from the start. */
export function changed(run: Run, change: Change): Run {
  const { time_ns: _, ...settings } = change as TimedChange;
  const set = Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== null));
  if ("link" in change) {
    const { link: target, ...values } = set;
    return { ...run, links: run.links.map((link) => (link.name === target ? changedLink(link, values) : link)) };
  }
  const { flow: target, ...values } = set;
  return {
    ...run,
    flows: run.flows.map((flow) => (flow.name === target ? ({ ...flow, ...values } as FlowSpec) : flow)),
  };
}

/** A change of a medium names what changes, and the other words stay. */
function changedLink(link: LinkSpec, { medium, stations, ...values }: Partial<Change>): LinkSpec {
  const changed: LinkSpec = { ...link, ...(values as Partial<LinkSpec>) };
  if (medium && link.medium) changed.medium = changedMedium(link.medium, medium);
  if (stations) {
    const kind = kindOf(link.medium ?? "");
    changed.stations = { ...link.stations };
    for (const [name, words] of Object.entries(stations))
      changed.stations[name] = changedStation(kind, changed.stations[name] ?? "", words);
  }
  return changed;
}

/**
 * The run with what was changed by hand made from the start. Of what was scheduled, a change that had been due goes where
 * the same was changed after it.
 */
export function folded(run: Run, made: readonly TimedChange[]): Run {
  const undone = (one: TimedChange) => made.filter((by) => targetOf(by) === targetOf(one) && by.time_ns >= one.time_ns);
  const at = run.at.flatMap((one) => {
    const kind = "link" in one ? kindOf(run.links.find(({ name }) => name === one.link)?.medium ?? "") : null;
    const left = undone(one).reduce<Partial<TimedChange>>((rest, by) => without(rest, by, kind), { ...one });
    return Object.keys(left).length > 2 ? [left as unknown as TimedChange] : [];
  });
  return made.reduce(changed, { ...run, at });
}

function without(settings: Partial<TimedChange>, by: TimedChange, kind: MediumKind | null): Partial<TimedChange> {
  const names = ["time_ns", "link", "flow", "medium", "stations"];
  const left = Object.entries(settings).filter(([key]) => names.includes(key) || !(key in by));
  const rest: Partial<TimedChange> = Object.fromEntries(left);
  if (rest.medium && by.medium) {
    rest.medium = withoutWords(kind, rest.medium, by.medium);
    if (!/\s/.test(rest.medium)) delete rest.medium;
  }
  if (rest.stations && by.stations) {
    const words = Object.entries(rest.stations).map(
      ([name, all]) => [name, withoutWords(kind, all, by.stations?.[name] ?? "")] as const,
    );
    rest.stations = Object.fromEntries(words.filter(([, all]) => all !== ""));
    if (Object.keys(rest.stations).length === 0) delete rest.stations;
  }
  return rest;
}

/** What a change is of. */
export function targetOf(change: Change): string {
  return "link" in change ? `link.${change.link}` : `flow.${change.flow}`;
}

/** What a change sets: of two changes of the same, the newer one counts. */
export function subjectOf(change: Change): string {
  const { link: _, flow: __, medium, stations, ...settings } = change as Partial<TimedChange>;
  const words = medium ? parametersOf(kindOf(medium), medium) : [];
  for (const [name, all] of Object.entries(stations ?? {})) words.push(`${name}: ${all.split(/\s+/)[0]}`);
  return [targetOf(change), ...Object.keys(settings), ...words].sort().join();
}

/** The run as it went: what was scheduled, and what was changed by hand. */
export function withMade(run: Run, made: readonly TimedChange[]): Run {
  return { ...run, at: [...run.at, ...made].sort((a, b) => a.time_ns - b.time_ns) };
}
