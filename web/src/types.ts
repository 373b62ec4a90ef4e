/**
 * The types of the page: a run's description, what an engine is asked and answers, and the interfaces between the page's
 * parts. Times are nanoseconds, rates bit/s, sizes bytes.
 */

import type * as generated from "./generated/run";

export type { EcnSupport as TcpEcn, Impair, Link as LinkSpec, Rewrite } from "./generated/run";

/** The page starts no programs and has no ends of tests. */
export type FlowSpec = Exclude<generated.Flow, generated.ProgramFlow | generated.EndpointFlow>;

/** A run, fully resolved: what `l4slab.experimentfile` makes of an experiment file. */
export interface Run extends generated.Run {
  flows: FlowSpec[];
}

export type TimedChange = generated.Change;

/** What can change while a run goes on. */
export type Change = Omit<TimedChange, "time_ns">;

/** What samples hold. */
export interface Watch {
  sample_ns: number;
  members: boolean;
  histograms: boolean;
  packets: boolean;
  /** What each medium sends. */
  air: boolean;
}

export type Column<T = number> = (T | null)[];

export interface Series {
  time_s: number[];
  flow: Column<string>;
  link: Column<string>;
  /** "all", and "L" and "C" where the qdisc has them. */
  queue: Column<string>;
  [quantity: string]: Column | Column<string>;
}

/** Each flow of each group, `member` counting from 1. */
export interface Members {
  time_s: number[];
  flow: string[];
  member: number[];
  goodput_mbps: Column;
  cwnd_packets: Column;
  srtt_ms: Column;
}

/** What was completed since the last advance. */
export interface Transfers {
  flow: string[];
  kind: ("flow" | "request" | "frame" | "input")[];
  start_s: number[];
  size_bytes: number[];
  completion_ms: Column;
  [quantity: string]: Column | string[];
}

/** Counts since the start of the run, in bins [low_ms, high_ms, count]. */
export interface Histogram {
  quantity: string;
  flow: string | null;
  link: string | null;
  queue: string | null;
  bins: [low_ms: number, high_ms: number, count: number][];
}

/** What happened to single packets. `id` names a packet from its arrival at a link to its leaving or drop. */
export interface Packets {
  link: string[];
  time_ns: number[];
  /** 0 arrives, 1 leaves, 2 is dropped. */
  what: number[];
  id: number[];
  flow: string[];
  member: number[];
  /** 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE. One that leaves with 3 and arrived otherwise was marked. */
  ecn: number[];
  bytes: number[];
  /** Of each link, in the run's order: packets that wait and whose arrival was not told. Empty: packets are not watched. */
  unknown: number[];
  /** There were more rows than the core tells: they end early, and nothing is known of what waits. */
  cut: boolean;
}

/** What a medium sent: a row per burst. */
export interface AirEvents {
  /** The link to the users. */
  link: string;
  /** What the queues of both directions take for the link's rate. */
  rates_bps: [down: number, up: number];
  /** A slot, or a MAP interval. */
  slot_ns: number | null;
  /** A letter for each slot of a TDD pattern: D, S or U. */
  pattern: string;
  /** Stations, or service flows: `row` is a place in it. */
  rows: string[];
  /** 0 sent, 1 collided, 2 requested, 3 granted. */
  what: number[];
  from_ns: number[];
  to_ns: number[];
  /** 0 to the users, 1 from them. */
  way: number[];
  row: number[];
  /** That of the first packet. */
  flow: Column<string>;
  /** Packets, or MPDUs; of them those sent again, and those that did not arrive. */
  packets: number[];
  again: number[];
  failed: number[];
  bytes: number[];
  unused_bytes: number[];
  /** There were more: the oldest are missing. */
  cut: boolean;
}

export interface Samples {
  now_ns: number;
  series: Series;
  members?: Members;
  transfers: Transfers;
  histograms?: Histogram[];
  packets?: Packets;
  /** Of each medium that is watched. */
  air?: AirEvents[];
}

/** A row of flows.parquet or links.parquet, as `l4slab run` gives it. */
export type Row = Record<string, string | number | boolean | null>;

export interface Report {
  now_ns: number;
  flows: Row[];
  links: Row[];
}

/** A queue or controller of `l4slab list --json`. */
export interface Described {
  name: string;
  summary: string;
  [fact: string]: unknown;
}

export interface Vocabulary {
  qdiscs: Described[];
  controllers: Described[];
  version: string;
}

export type Request =
  | { do: "start"; run: Run; watch: Watch }
  | { do: "watch"; watch: Watch }
  | { do: "change"; change: Change }
  | { do: "advance"; until_ns: number }
  | { do: "report" }
  | { do: "batch"; run: Run; watch: Watch }
  | { do: "check"; run: Run }
  | { do: "vocabulary" };

/** What each request is answered with. */
export interface Answers {
  start: { now_ns: number; gauges: string[] };
  watch: Record<string, never>;
  change: { time_ns: number };
  advance: Samples;
  report: Report;
  batch: Samples & { flows: Row[]; links: Row[] };
  check: Record<string, never>;
  vocabulary: Vocabulary;
}

/** "wasm", or one of those that a server has. */
export type EngineName = string;

export interface Engine {
  readonly name: EngineName;
  /** How long the newest answer was worked on, in ms, where the engine knows it. */
  readonly worked_ms?: number | undefined;
  /** Rejects with `Refused` where the engine says no. Requests are answered in order. */
  ask<R extends Request>(request: R): Promise<Answers[R["do"]]>;
  /** Ends it: what is still asked is refused. */
  close(): void;
}

/** The engine's one sentence. */
export class Refused extends Error {
  override name = "Refused";
}

export interface Status {
  now_ns: number;
  state: "running" | "paused" | "stopped";
  /** Virtual seconds per second that were asked for and that are reached. */
  speed: number;
  achieved: number;
  /** What the engine refused, or what else the user should read; null: nothing. */
  says: string | null;
}

/** Of `createClock(engineFor: () => Promise<Engine>, view: View)`: `engineFor` is asked at each start. */
export interface Clock {
  /** In instant mode a whole run of `duration_ns`, but of no more than the panels show. */
  start(run: Run): Promise<void>;
  /**
   * `run` is the description after the change. Gives the instant at which it took effect; null in instant mode, which does
   * the whole `run` again, and of those asked for meanwhile only the last. Rejects with Refused: nothing has changed then.
   */
  change(run: Run, change: Change): Promise<number | null>;
  /** Virtual seconds per second, 0.01 to 100. */
  setSpeed(speed: number): void;
  pause(): void;
  resume(): void;
  /** While paused: so many virtual seconds, or until something happens to the next packet, or to the next sample. */
  step(by: number | "packet" | "sample"): void;
  setMode(mode: "live" | "instant"): void;
  /** The instant that is shown. */
  readonly nowNs: number;
  report(): Promise<Report>;
  onStatus(told: (status: Status) => void): void;
}

/** What a reader can choose in the panels. */
export interface ViewOptions {
  /** How many seconds of watching the curves hold; of the run, that times the speed. */
  window_s: 5 | 20 | 60;
  rates: "flow" | "service" | "window";
  delays: "queue" | "flow";
  tail: "cdf" | "ccdf";
}

export interface View {
  /** The run, or the run after a change at `changed_ns`. */
  show(run: Run, changed_ns?: number): void;
  add(samples: Samples): void;
  /** Instant mode: the former samples become the ghost. */
  replace(samples: Samples): void;
  /** Draws the instant `now_ns` of a run that goes at so many virtual seconds per second. */
  frame(now_ns: number, speed: number): void;
  clear(): void;
  readonly options: Readonly<ViewOptions>;
  choose(options: Partial<ViewOptions>): void;
}
