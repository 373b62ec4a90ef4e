/** What one asks of a run's description, which is the page's only model of what runs. */
import type { Change, FlowSpec, Run, TimedChange } from "../types";
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
    return { ...run, links: run.links.map((link) => (link.name === target ? { ...link, ...values } : link)) };
  }
  const { flow: target, ...values } = set;
  return {
    ...run,
    flows: run.flows.map((flow) => (flow.name === target ? ({ ...flow, ...values } as FlowSpec) : flow)),
  };
}

/**
 * The run with what was changed by hand made from the start. Of what was scheduled, a change that had been due goes where
 * the same was changed after it.
 */
export function folded(run: Run, made: readonly TimedChange[]): Run {
  const undone = (one: TimedChange) => made.filter((by) => targetOf(by) === targetOf(one) && by.time_ns >= one.time_ns);
  const at = run.at.flatMap((one) => {
    const left = undone(one).reduce<Record<string, unknown>>((rest, by) => without(rest, by), { ...one });
    return Object.keys(left).length > 2 ? [left as unknown as TimedChange] : [];
  });
  return made.reduce(changed, { ...run, at });
}

function without(settings: Record<string, unknown>, by: TimedChange): Record<string, unknown> {
  const names = ["time_ns", "link", "flow"];
  return Object.fromEntries(Object.entries(settings).filter(([key]) => names.includes(key) || !(key in by)));
}

/** What a change is of. */
export function targetOf(change: Change): string {
  return "link" in change ? `link.${change.link}` : `flow.${change.flow}`;
}

/** The run as it went: what was scheduled, and what was changed by hand. */
export function withMade(run: Run, made: readonly TimedChange[]): Run {
  return { ...run, at: [...run.at, ...made].sort((a, b) => a.time_ns - b.time_ns) };
}
