/**
 * What the panels draw: the samples of the last while, in rings of fixed size. `fine` has each sample, `coarse` the means
 * of every few, for rates, which are no more than noise over a few packets.
 */
import { upOf } from "../model/media";
import type { Run, Samples } from "../types";
import { Air } from "./air";
import { Snapshots } from "./distribution";
import { Dots } from "./dots";
import { type Role, roleOf } from "./roles";
import { Table } from "./table";

/** Samples that a window of time shows, and how many make a coarse one. */
export const SAMPLES_PER_WINDOW = 1000;
export const JOINED = 5;

/** Members of a group that are told apart in the curves. */
export const MEMBERS_SHOWN = 60;

// Counts within a sample: kept per second.
const COUNTS = new Set([
  "sent_packets",
  "delivered_packets",
  "ce_packets",
  "sce_packets",
  "dropped_packets",
  "marked_packets",
  "sce_marked_packets",
  "dropped_overflow_packets",
]);
const PLACES = new Set(["time_s", "flow", "link", "queue"]);

/** The queue of a link that has none inside. */
export const ONE = "one";

/** Of services, what is summed over their groups. */
const SUMMED = ["goodput_mbps", "rate_mbps", "ce_packets", "dropped_packets", "sent_packets"];

/** Names of columns: whose, and what. */
export const ofFlow = (flow: string, quantity: string): string => `flow|${flow}|${quantity}`;
export const ofQueue = (link: string, queue: string, quantity: string): string => `queue|${link}|${queue}|${quantity}`;
export const ofMember = (flow: string, member: number, quantity: string): string =>
  `member|${flow}|${member}|${quantity}`;
export const ofService = (service: Role, quantity: string): string => `service|${service}|${quantity}`;

/** The rate of a link at an instant: what the run says, and the changes since; of a medium, what the core tells. */
export function rateAt(run: Run, link: string, time_s: number, told: ReadonlyMap<string, number>): number {
  let rate = run.links.find((one) => one.name === link)?.rate_bps ?? Number.NaN;
  for (const change of run.at) {
    if ("link" in change && change.link === link && change.rate_bps && change.time_ns <= time_s * 1e9) {
      rate = change.rate_bps;
    }
  }
  return rate || (told.get(link) ?? Number.NaN);
}

export class Store {
  readonly fine = new Table(SAMPLES_PER_WINDOW + 400);
  readonly coarse = new Table(SAMPLES_PER_WINDOW / JOINED + 80);
  readonly distributions = new Snapshots(80);
  readonly dots = new Dots(1500);
  /** Frames of calls and games. */
  readonly frames = new Dots(8000);
  /** What each medium sent, by the link to the users. */
  readonly airs = new Map<string, Air>();
  /** Rates of both sides of media. */
  readonly rates = new Map<string, number>();
  /** Queues of each link, in the order in which the core tells them. */
  readonly queues = new Map<string, string[]>();
  /** When each flow group sent last, in seconds. */
  readonly sent = new Map<string, number>();
  private services = new Map<string, Role>();
  private media = new Set<string>();
  private readonly sums = new Map<string, { sum: number; n: number }>();
  private joined = 0;
  private run: Run | undefined;

  clear(): void {
    this.fine.clear();
    this.coarse.clear();
    this.distributions.clear();
    this.dots.clear();
    this.frames.clear();
    this.airs.clear();
    this.rates.clear();
    this.queues.clear();
    this.sent.clear();
    this.sums.clear();
    this.joined = 0;
  }

  show(run: Run): void {
    this.run = run;
    this.services = new Map(run.flows.map((flow) => [flow.name, roleOf(flow)]));
    this.media = new Set(run.flows.filter(({ kind }) => kind === "media").map(({ name }) => name));
  }

  add(samples: Samples): void {
    for (const events of samples.air ?? []) {
      const air = this.airs.get(events.link) ?? new Air();
      this.airs.set(events.link, air);
      for (const [i, link] of [events.link, upOf(events.link)].entries()) {
        this.rates.set(link, events.rates_bps[i] as number);
      }
      air.add(events);
    }
    this.addSeries(samples);
    if (samples.histograms?.length) this.distributions.add(samples.now_ns * 1e-9, samples.histograms);
    const { flow, kind, start_s, size_bytes, completion_ms } = samples.transfers;
    flow.forEach((name, i) => {
      const completion = completion_ms[i] as number | null;
      if (completion === null || kind[i] === "input") return;
      const into = this.media.has(name) ? this.frames : this.dots;
      into.add((start_s[i] as number) + completion * 1e-3, size_bytes[i] as number, completion, name);
    });
  }

  private addSeries({ series, members }: Samples): void {
    const quantities = Object.keys(series).filter((name) => !PLACES.has(name));
    let [member, per_s] = [0, 0];
    for (let row = 0; row < series.time_s.length; row += 1) {
      const time = series.time_s[row] as number;
      if (time !== this.fine.latest || row === 0) {
        if (row > 0) this.close(per_s);
        const before = this.fine.rows ? this.fine.latest : 0;
        per_s = time > before ? 1 / (time - before) : 0;
        this.fine.begin(time);
        while (members && member < members.time_s.length && (members.time_s[member] as number) <= time) {
          const number = members.member[member] as number;
          if (number <= MEMBERS_SHOWN) {
            for (const quantity of ["goodput_mbps", "cwnd_packets"] as const) {
              const value = members[quantity][member] ?? null;
              if (value !== null) this.fine.set(ofMember(members.flow[member] as string, number, quantity), value);
            }
          }
          member += 1;
        }
      }
      const flow = series.flow[row];
      const [link, queue] = [series.link[row] as string, series.queue[row] as string];
      if (!flow) this.know(link, queue);
      for (const quantity of quantities) {
        const value = series[quantity]?.[row] as number | null | undefined;
        if (value === null || value === undefined) continue;
        const told = COUNTS.has(quantity) ? value * per_s : value;
        this.fine.set(flow ? ofFlow(flow, quantity) : ofQueue(link, queue, quantity), told);
      }
    }
    if (series.time_s.length) this.close(per_s);
  }

  /** Delays of all packets are drawn only while there are no queues inside. */
  private tellApart(link: string, queues: readonly string[]): void {
    const isThere = (queue: string) => !Number.isNaN(this.fine.get(ofQueue(link, queue, "backlog_packets")));
    if (queues.some((queue) => queue !== "all" && isThere(queue))) return;
    for (const quantity of ["sojourn_ms", "sojourn_ms_min", "sojourn_ms_max"]) {
      const value = this.fine.get(ofQueue(link, "all", quantity));
      if (!Number.isNaN(value)) this.fine.set(ofQueue(link, ONE, quantity), value);
    }
  }

  private know(link: string, queue: string): void {
    const queues = this.queues.get(link);
    if (!queues) this.queues.set(link, [queue]);
    else if (!queues.includes(queue)) queues.push(queue);
  }

  /** The newest row is complete: sums over services, and its part in the coarse row. */
  private close(per_s: number): void {
    for (const [flow, service] of this.services) {
      if (this.fine.get(ofFlow(flow, "sent_packets")) > 0) this.sent.set(flow, this.fine.latest);
      for (const quantity of SUMMED) {
        const value = this.fine.get(ofFlow(flow, quantity));
        if (Number.isNaN(value)) continue;
        const key = ofService(service, quantity);
        const before = this.fine.get(key);
        this.fine.set(key, value + (Number.isNaN(before) ? 0 : before));
      }
    }
    if (this.run && per_s > 0) {
      for (const link of this.queues.keys()) {
        const rate = this.fine.get(ofQueue(link, "all", "rate_mbps"));
        const told = (quantity: string) => this.fine.get(ofQueue(link, "all", quantity));
        // A medium tells what of its time is used, or its rate of the instant.
        const airtime = told("airtime_pct");
        const used = Number.isNaN(airtime) ? told("slots_pct") : airtime;
        const varying = Number.isNaN(used) ? told("capacity_mbps") : Number.NaN;
        const fixed = rateAt(this.run, link, this.fine.latest - 0.5 / per_s, this.rates) * 1e-6;
        const full = Number.isNaN(varying) ? fixed : varying;
        this.fine.set(ofQueue(link, "all", "utilisation_pct"), Number.isNaN(used) ? (rate / full) * 100 : used);
        this.fine.set(ofQueue(link, "all", "capacity_mbps"), full);
      }
    }
    for (const [link, queues] of this.queues) this.tellApart(link, queues);
    for (const key of this.fine.keys()) {
      const value = this.fine.get(key);
      const sum = this.sums.get(key);
      if (!sum) this.sums.set(key, Number.isNaN(value) ? { sum: 0, n: 0 } : { sum: value, n: 1 });
      else if (!Number.isNaN(value)) {
        sum.sum += value;
        sum.n += 1;
      }
    }
    this.joined += 1;
    if (this.joined < JOINED) return;
    this.joined = 0;
    this.coarse.begin(this.fine.latest);
    for (const [key, sum] of this.sums) {
      if (sum.n) this.coarse.set(key, sum.sum / sum.n);
      sum.sum = sum.n = 0;
    }
  }
}
