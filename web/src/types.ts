/**
 * The words of the page: a run's description as the core has it (`crates/core/src/scenario.rs`), what an engine is asked
 * and answers, and the interfaces between the page's parts. Times are nanoseconds, rates bit/s, sizes bytes.
 */

/** A run, fully resolved: what `l4slab.experimentfile` makes of an experiment file. */
export interface Run {
  duration_ns: number;
  warmup_ns: number;
  /** Up to 64 bits, more than a number holds. `json.ts` writes and reads it. */
  seed: bigint;
  sample_ns: number;
  start_jitter_ns: number;
  per_flow?: boolean;
  links: LinkSpec[];
  flows: FlowSpec[];
  at: TimedChange[];
  rewrites: Rewrite[];
  impairs?: Impair[];
}

export interface LinkSpec {
  name: string;
  rate_bps: number;
  /** In tc's words, every option written out or not. */
  qdisc: string;
  burst_bytes: number;
}

interface AnyFlow {
  name: string;
  count: number;
  rtt_ns: number;
  dscp: number;
  start_ns: number;
  stop_ns: number | null;
  path: string[];
}

/** What every flow that TCP carries has. */
interface AnyTcp extends AnyFlow {
  cc: string;
  /** What the sender asks for and what the receiver supports; null: what the controller wants. */
  ecn: TcpEcn | null;
  peer_ecn: TcpEcn | null;
  reverse_path: string[];
  pace_bps: number | null;
  receive_window_bytes: number | null;
  options: Record<string, string>;
}

export type TcpEcn = "accecn" | "classic" | "sce" | "off";

export interface TcpFlow extends AnyTcp {
  kind: "tcp";
  bytes: number | null;
}

export interface WebFlow extends AnyTcp {
  kind: "web";
  interval_ns: number;
  size_alpha: number;
  size_min_bytes: number;
  size_max_bytes: number;
}

export interface VideoFlow extends AnyTcp {
  kind: "video";
  rate_bps: number;
  interval_ns: number;
  spread: number;
  control_interval_ns: number | null;
}

export interface CbrFlow extends AnyFlow {
  kind: "cbr";
  rate_bps: number;
  ecn: "not-ect" | "ect0" | "ect1";
  packet_bytes: number;
  batch: number;
}

export interface UdpPragueFlow extends AnyFlow {
  kind: "udp-prague";
  packet_bytes: number;
  reverse_path: string[];
  pace_bps: number | null;
}

export type FlowSpec = TcpFlow | WebFlow | VideoFlow | CbrFlow | UdpPragueFlow;

/** What can change while a run goes on. */
export type Change =
  | { link: string; rate_bps?: number | null; qdisc?: string | null }
  | { flow: string; rtt_ns?: number | null; count?: number | null; rate_bps?: number | null };

export type TimedChange = Change & { time_ns: number };

export interface Rewrite {
  flow: string;
  where: "before" | "after";
  link: string;
  from: string;
  to: string;
}

export interface Impair {
  name: string;
  netem: string;
  before: string;
  direction: "forward" | "reverse" | "both";
}

/** What samples hold. */
export interface Watch {
  sample_ns: number;
  members: boolean;
  histograms: boolean;
  packets: boolean;
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

export interface Samples {
  now_ns: number;
  series: Series;
  members?: Members;
  transfers: Transfers;
  histograms?: Histogram[];
  packets?: Packets;
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

export type EngineName = "wasm" | "native" | "linux";

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
  rates: "flow" | "camp" | "window";
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
