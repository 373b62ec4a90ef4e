/** What one asks of a run's description, which is the page's only model of what runs. */
import type { Change, FlowSpec, Run, TimedChange } from "../types";

/** Of a flow whose packets have a queue of their own where queues know L4S, by its sender's law or codepoint. */
export function isL4s(flow: FlowSpec): boolean {
  if (flow.kind === "cbr") return flow.ecn === "ect1";
  return flow.kind === "udp-prague" || isScalable(flow.cc, flow.options);
}

/** A congestion control whose window is inversely proportional to the marks it gets. */
export function isScalable(cc: string, options: Record<string, string> = {}): boolean {
  return cc === "prague" || cc === "dctcp" || (cc === "bbr3" && options.ecn_low === "ect1");
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
