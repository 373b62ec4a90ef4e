/**
 * The keys of an experiment file that describe a run. `./dev.sh generate` writes them from the models of
 * `l4slab.experimentfile`; here stand the types of their values, and what the page has not.
 */
import known from "../generated/keys.json";
import type { FlowSpec } from "../types";
import {
  type Dimension,
  FREQUENCY,
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

/** A key as it is generated. */
interface KeyRow {
  readonly key: string;
  readonly field: string;
  readonly type: string;
  readonly least?: number;
  readonly above?: number;
  readonly most?: number;
  readonly values?: readonly string[];
  readonly default?: unknown;
  readonly example?: unknown;
}

function quantity(dimension: Printed, { least = 1, most = Number.MAX_SAFE_INTEGER }: KeyRow): Type {
  const { name, example } = dimension;
  return {
    name,
    read(text) {
      const value = parse(text, dimension);
      if (value < least && least <= 1) {
        throw new Wrong(
          `${least === 0 ? "must not be negative" : "must be more than 0"}; write a ${name} such as "${example}"`,
        );
      }
      if (value < least) throw new Wrong(`must be at least ${print(least, dimension)}`);
      if (value > most) throw new Wrong(`must be at most ${print(most, dimension)}`);
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

function number({ type, least, above, most }: KeyRow): Type {
  const whole = type === "int";
  return {
    name: type,
    read(text) {
      const value = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text.trim()) ? Number(text) : Number.NaN;
      if (Number.isNaN(value) || (whole && !Number.isSafeInteger(value))) {
        throw new Wrong(`is not a ${whole ? "whole " : ""}number`);
      }
      if (above !== undefined && value <= above) throw new Wrong(`must be more than ${above}`);
      if (least !== undefined && value < least) throw new Wrong(`must be at least ${least}`);
      if (most !== undefined && value > most) throw new Wrong(`must be at most ${most}`);
      return value;
    },
    write: (value) => value as number,
  };
}

function choice({ type: name, values = [] }: KeyRow): Type {
  return {
    name,
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

const CODEPOINTS: ReadonlyMap<string, number> = new Map(Object.entries(known.dscp));

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

const TYPES: Readonly<Record<string, (told: KeyRow) => Type>> = {
  rate: (told) => quantity(RATE, told),
  size: (told) => quantity(SIZE, told),
  time: (told) => quantity(TIME, told),
  frequency: () => OFTEN,
  int: number,
  float: number,
  choice,
  bool: () => BOOL,
  names: () => NAMES,
  dscp: () => DSCP,
  table: () => OPTIONS,
  text: () => TEXT,
};

const DIMENSIONS: Readonly<Record<string, Dimension>> = { rate: RATE, size: SIZE, time: TIME, frequency: FREQUENCY };

/** The page's length of a run whose address tells none: what instant mode repeats. */
export const DURATION = "20s";

const NOT_HELD_OF_FLOWS = {
  host: { field: "host", instead: "a host of its own is used" },
  peer_host: { field: "peer_host", instead: "a host of its own is used" },
  on: { instead: "" },
  off: { instead: "" },
  delay_trace: { field: "delay_trace", instead: "its round trip stays at what it is without" },
  trace_repeat: { instead: "" },
};
const NOT_HELD_OF_TCP = {
  rto_min: { field: "rto_min_ns", instead: "200ms is used" },
  mtu: { field: "mtu_bytes", instead: "1500B is used" },
  app_rate: { field: "rate_bps", instead: "its application always has data" },
  app_block: { field: "block_bytes", instead: "its application always has data" },
  transport: { field: "transport", instead: "Linux' rules are used" },
  gso: { field: "gso", instead: "its packets hold one segment" },
  gro: { field: "gro_ns", instead: "its receiver takes each packet when it comes" },
  frames_total: { field: "frames_total", instead: "its frames do not end" },
  player: { field: "player_ns", instead: "nobody plays its frames" },
  events: { field: "events", instead: "nothing begins its flows" },
  event_flows: { instead: "" },
  event_flows_max: { instead: "" },
  event_within: { instead: "" },
  life: { instead: "" },
};

/** What a file may have and the page has not: of each table, the key, its field in a description, what is used instead. */
export const NOT_HELD: Readonly<Record<string, Readonly<Record<string, { field?: string; instead: string }>>>> = {
  top: { precision: { field: "precision", instead: "a run takes its whole duration" } },
  link: {
    rate_trace: { field: "rate_trace", instead: "its mean rate is used" },
    trace_repeat: { instead: "" },
    class: { field: "classes", instead: "links with classes run with l4slab run" },
    filter: { field: "filters", instead: "links with classes run with l4slab run" },
    on_host: { field: "on_host", instead: "a queue behind the host is used" },
    policer: { field: "policer", instead: "nothing is policed" },
  },
  impair: {
    in_order: { instead: "its netem has a rate" },
    ack_thinning: { field: "ack_thinning", instead: "every ACK arrives" },
    ack_wait: { field: "ack_wait_ns", instead: "every ACK arrives" },
  },
  at_link: { policer: { field: "policer", instead: "such changes are left out" } },
  at_impair: { netem: { instead: "such changes are left out" } },
  flow: { ...NOT_HELD_OF_FLOWS, ...NOT_HELD_OF_TCP },
};
/** A file may leave these out where it has something instead that the page has not. */
const NEEDED: Readonly<Record<string, readonly string[]>> = { link: ["rate"], impair: ["netem"], at: ["time"] };

function table(name: string, told: readonly KeyRow[]): Key[] {
  const left = (one: KeyRow) => !Object.hasOwn(NOT_HELD[name] ?? {}, one.key);
  return told.filter(left).map((one) => {
    const type = (TYPES[one.type] ?? (() => TEXT))(one);
    const usual = one.default === null || type === OPTIONS ? null : String(one.default);
    const isRequired = one.default === undefined || NEEDED[name]?.includes(one.key);
    const example = String(one.example ?? DIMENSIONS[one.type]?.example ?? one.values?.[0] ?? "");
    return { key: one.key, field: one.field, type, example, ...(isRequired ? {} : { default: usual }) };
  });
}

export const TOP: readonly Key[] = table("top", known.tables.top);
/** Keys of a medium, which make two links of one. */
export const OF_MEDIUM: readonly string[] = ["medium", "qdisc_up", "station"];
export const LINK: readonly Key[] = table("link", known.tables.link).filter(({ key }) => !OF_MEDIUM.includes(key));
export const IMPAIR: readonly Key[] = table("impair", known.tables.impair);
export const REWRITE: readonly Key[] = table("rewrite", known.tables.rewrite);
export const FLOW = Object.fromEntries(
  Object.entries(known.flows).map(([kind, keys]) => [kind, table("flow", keys)]),
) as unknown as Readonly<Record<FlowSpec["kind"], readonly Key[]>>;

/** What may change while it runs. */
export const AT: Readonly<Record<"link" | "flow", readonly Key[]>> = {
  link: table("at_link", known.tables.at_link),
  flow: table("at_flow", known.tables.at_flow),
};

export const TIME_OF_CHANGE = table("at", known.tables.at)[0] as Key;

/** The keys of a kind of flow; of one that is none, those of a TCP flow. */
export function keysOf(kind: unknown): readonly Key[] {
  return typeof kind === "string" && Object.hasOwn(FLOW, kind) ? FLOW[kind as FlowSpec["kind"]] : FLOW.tcp;
}
