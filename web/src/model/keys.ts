/**
 * The keys of an experiment file that describe a run: unit, default and name in the description. They are those of
 * `l4slab.experimentfile` (tables.py, traffic.py), and a test holds them to it.
 */
import type { FlowSpec } from "../types";

import {
  type Dimension,
  type Printed,
  parse,
  parseInterval,
  print,
  printInterval,
  RATE,
  SIZE,
  TIME,
  Wrong,
} from "./units";
import { suggest } from "./words";

/** How a value is written, and what the description has. */
export interface Type {
  readonly name: string;
  /** Throws `Wrong`, which continues `key = value`. */
  read(text: string): unknown;
  write(value: unknown): Written;
}

/** As it stands in TOML. */
export type Written = string | number | boolean | string[];

export interface Key {
  readonly key: string;
  /** Its name in the description. */
  readonly field: string;
  readonly type: Type;
  /** As written; `null`: absent; none: required. */
  readonly default?: string | null;
  readonly example: string;
}

function quantity(dimension: Printed, least = 1, most = Number.MAX_SAFE_INTEGER): Type {
  const { name, example, units } = dimension;
  const unit = [...units.keys()][0];
  return {
    name: `${name} ${least} ${most === Number.MAX_SAFE_INTEGER ? "" : most}`.trim(),
    read(text) {
      const value = parse(text, dimension);
      if (value < least && least <= 1) {
        throw new Wrong(
          `${least === 0 ? "must not be negative" : "must be more than 0"}; write a ${name} such as "${example}"`,
        );
      }
      if (value < least) throw new Wrong(`must be at least ${least}${unit}`);
      if (value > most) throw new Wrong(`must be at most ${most}${unit}`);
      return value;
    },
    write: (value) => print(value as number, dimension),
  };
}

const OFTEN: Type = {
  name: "frequency",
  read: parseInterval,
  write: (value) => printInterval(value as number),
};

const TEXT: Type = { name: "text", read: (text) => text, write: (value) => value as string };

function number(name: string, whole: boolean, least: number, most: number, above = false): Type {
  return {
    name: `${name} ${least} ${most}`,
    read(text) {
      const value = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text.trim()) ? Number(text) : Number.NaN;
      if (Number.isNaN(value) || (whole && !Number.isSafeInteger(value))) {
        throw new Wrong(`is not a ${whole ? "whole " : ""}number`);
      }
      if (above && value <= least) throw new Wrong(`must be more than ${least}`);
      if (value < least) throw new Wrong(`must be at least ${least}`);
      if (value > most) throw new Wrong(`must be at most ${most}`);
      return value;
    },
    write: (value) => value as number,
  };
}

function choice(...values: string[]): Type {
  return {
    name: values.join(" "),
    read(text) {
      if (!values.includes(text))
        throw new Wrong(`is none of ${values.map((v) => `"${v}"`).join(", ")}; ${suggest(text, values)}`);
      return text;
    },
    write: (value) => value as string,
  };
}

const BOOL: Type = {
  name: "bool",
  read(text) {
    if (text !== "true" && text !== "false") throw new Wrong("is not true or false");
    return text === "true";
  },
  write: (value) => value as boolean,
};

/** Names of links, with commas between them; in a name, a comma is %2C. */
const NAMES: Type = {
  name: "names",
  read: (text) => (text === "" ? [] : text.split(",").map((name) => name.replaceAll("%2C", ","))),
  write: (value) => value as string[],
};

/** `options.NAME` is a key each. */
const OPTIONS: Type = { name: "options", read: () => ({}), write: () => "" };

const CODEPOINTS: ReadonlyMap<string, number> = new Map([
  ...Array.from({ length: 8 }, (_, n) => [`cs${n}`, n << 3] as const),
  ...[1, 2, 3, 4].flatMap((n) => [1, 2, 3].map((drop) => [`af${n}${drop}`, (n << 3) + (drop << 1)] as const)),
  ...Object.entries({ df: 0, le: 1, va: 44, nqb: 45, ef: 46 }),
]);

const DSCP: Type = {
  name: "dscp",
  read(text) {
    const named = CODEPOINTS.get(text.toLowerCase());
    if (named !== undefined) return named;
    if (!/^\d+$/.test(text)) throw new Wrong(`is no DSCP; ${suggest(text.toLowerCase(), CODEPOINTS.keys())}`);
    if (Number(text) > 63)
      throw new Wrong('has more than the six bits of a DSCP; write 0 to 63, or a name such as "ef"');
    return Number(text);
  },
  write: (value) => value as number,
};

const [rate, size, duration, timeOrZero] = [quantity(RATE), quantity(SIZE), quantity(TIME), quantity(TIME, 0)];
const count = number("int", true, 0, 1_000_000);

/** The page's length of a run whose address tells none: what instant mode repeats. */
export const DURATION = "20s";

export const TOP: readonly Key[] = [
  { key: "duration", field: "duration_ns", type: duration, example: "60s" },
  { key: "warmup", field: "warmup_ns", type: timeOrZero, default: "0s", example: "10s" },
  { key: "sample", field: "sample_ns", type: duration, default: "100ms", example: "100ms" },
  { key: "start_jitter", field: "start_jitter_ns", type: timeOrZero, default: "100ms", example: "100ms" },
  { key: "per_flow", field: "per_flow", type: BOOL, default: "false", example: "true" },
];

export const LINK: readonly Key[] = [
  { key: "rate", field: "rate_bps", type: rate, example: "100Mbit" },
  { key: "qdisc", field: "qdisc", type: TEXT, example: "dualpi2" },
  { key: "burst", field: "burst_bytes", type: quantity(SIZE, 1, 2 ** 32 - 1), default: "1600B", example: "1600B" },
];

const NOT_HELD_OF_FLOWS = {
  host: { field: "host", instead: "a host of its own is used" },
  peer_host: { field: "peer_host", instead: "a host of its own is used" },
  station: { field: "station", instead: "a wire is used" },
  on: { instead: "" },
  off: { instead: "" },
  delay_trace: { field: "delay_trace", instead: "its round trip stays at what it is without" },
  trace_repeat: { instead: "" },
};
const NOT_HELD_OF_TCP = {
  rto_min: { field: "rto_min_ns", instead: "200ms is used" },
  mtu: { field: "mtu_bytes", instead: "1500B is used" },
};

/** What a file may have and the page has not: of each table, the key, its field in a description, what is used instead. */
export const NOT_HELD: Readonly<Record<string, Readonly<Record<string, { field?: string; instead: string }>>>> = {
  Link: {
    rate_trace: { field: "rate_trace", instead: "its mean rate is used" },
    trace_repeat: { instead: "" },
    medium: { field: "medium", instead: "a wire with its mean rate is used" },
    qdisc_up: { field: "up_of", instead: "a wire with its mean rate is used" },
    station: { field: "stations", instead: "a wire is used" },
    class: { field: "classes", instead: "links with classes run with l4slab run" },
    filter: { field: "filters", instead: "links with classes run with l4slab run" },
  },
  Impair: {
    in_order: { instead: "its netem has a rate" },
    ack_thinning: { field: "ack_thinning", instead: "every ACK arrives" },
    ack_wait: { field: "ack_wait_ns", instead: "every ACK arrives" },
  },
  at_impair: { netem: { instead: "such changes are left out" } },
  tcp: { ...NOT_HELD_OF_FLOWS, ...NOT_HELD_OF_TCP },
  web: { ...NOT_HELD_OF_FLOWS, ...NOT_HELD_OF_TCP },
  video: { ...NOT_HELD_OF_FLOWS, ...NOT_HELD_OF_TCP },
  cbr: NOT_HELD_OF_FLOWS,
  "udp-prague": NOT_HELD_OF_FLOWS,
};

const RTT: Key = { key: "rtt", field: "rtt_ns", type: duration, example: "10ms" };
const PACE: Key = { key: "pace", field: "pace_bps", type: rate, default: null, example: "40Mbit" };
const REVERSE: Key = { key: "reverse_path", field: "reverse_path", type: NAMES, default: "", example: "bottleneck" };

const ANY: readonly Key[] = [
  {
    key: "kind",
    field: "kind",
    type: choice("tcp", "web", "video", "cbr", "udp-prague"),
    default: "tcp",
    example: "web",
  },
  { key: "count", field: "count", type: count, default: "1", example: "1" },
  { key: "start", field: "start_ns", type: timeOrZero, default: "0s", example: "5s" },
  { key: "stop", field: "stop_ns", type: duration, default: null, example: "60s" },
  { key: "dscp", field: "dscp", type: DSCP, default: "0", example: "ef" },
  { key: "path", field: "path", type: NAMES, default: null, example: "bottleneck" },
];

const ECN = choice("accecn", "classic", "sce", "off");

const TCP: readonly Key[] = [
  ...ANY,
  { key: "cc", field: "cc", type: TEXT, example: "cubic" },
  RTT,
  { key: "ecn", field: "ecn", type: ECN, default: null, example: "classic" },
  { key: "peer_ecn", field: "peer_ecn", type: ECN, default: null, example: "classic" },
  REVERSE,
  PACE,
  { key: "receive_window", field: "receive_window_bytes", type: size, default: null, example: "3MB" },
  { key: "options", field: "options", type: OPTIONS, default: "", example: "options.version=0.7" },
];

export const FLOW: Readonly<Record<FlowSpec["kind"], readonly Key[]>> = {
  tcp: [...TCP, { key: "bytes", field: "bytes", type: size, default: null, example: "1MB" }],
  web: [
    ...TCP,
    { key: "requests", field: "interval_ns", type: OFTEN, example: "10/s" },
    {
      key: "size_alpha",
      field: "size_alpha",
      type: number("float", false, 0, 100, true),
      default: "0.9",
      example: "0.9",
    },
    { key: "size_min", field: "size_min_bytes", type: size, default: "1kB", example: "1kB" },
    { key: "size_max", field: "size_max_bytes", type: size, default: "1MB", example: "1MB" },
  ],
  video: [
    ...TCP,
    { key: "rate", field: "rate_bps", type: rate, example: "4Mbit" },
    { key: "frames", field: "interval_ns", type: OFTEN, default: "60/s", example: "60/s" },
    { key: "frame_spread", field: "spread", type: number("float", false, 0, 10), default: "0.15", example: "0.15" },
    { key: "controls", field: "control_interval_ns", type: OFTEN, default: null, example: "60/s" },
  ],
  cbr: [
    ...ANY,
    { key: "rate", field: "rate_bps", type: rate, example: "50Mbit" },
    { ...RTT, type: timeOrZero },
    { key: "ecn", field: "ecn", type: choice("not-ect", "ect0", "ect1"), default: "not-ect", example: "ect1" },
    { key: "packet", field: "packet_bytes", type: quantity(SIZE, 64, 9014), default: "1514B", example: "1514B" },
    { key: "batch", field: "batch", type: number("int", true, 1, 65_536), default: "1", example: "1" },
  ],
  "udp-prague": [
    ...ANY,
    RTT,
    { key: "packet", field: "packet_bytes", type: quantity(SIZE, 192, 9014), default: "1442B", example: "1442B" },
    REVERSE,
    PACE,
  ],
};

export const IMPAIR: readonly Key[] = [
  { key: "netem", field: "netem", type: TEXT, example: "delay 2ms" },
  { key: "before", field: "before", type: TEXT, example: "bottleneck" },
  {
    key: "direction",
    field: "direction",
    type: choice("forward", "reverse", "both"),
    default: "forward",
    example: "both",
  },
];

const CODEPOINT = choice("not-ect", "ect0", "ect1", "ce");

export const REWRITE: readonly Key[] = [
  { key: "flow", field: "flow", type: TEXT, example: "tweaked" },
  { key: "where", field: "where", type: TEXT, example: "before:bottleneck" },
  { key: "from", field: "from", type: CODEPOINT, example: "ect0" },
  { key: "to", field: "to", type: choice("not-ect", "ect0", "ect1", "ce", "drop"), example: "ect1" },
];

/** What may change while it runs. */
export const AT: Readonly<Record<"link" | "flow", readonly Key[]>> = {
  link: LINK.filter(({ key }) => key === "rate" || key === "qdisc"),
  flow: [RTT, ANY[1] as Key, { key: "rate", field: "rate_bps", type: rate, example: "20Mbit" }],
};

export const TIME_OF_CHANGE: Key = { key: "time", field: "time_ns", type: timeOrZero, example: "20s" };

export type { Dimension };

/** The keys of a kind of flow; of one that is none, those of a TCP flow. */
export function keysOf(kind: unknown): readonly Key[] {
  return typeof kind === "string" && Object.hasOwn(FLOW, kind) ? FLOW[kind as FlowSpec["kind"]] : FLOW.tcp;
}
