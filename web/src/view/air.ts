/** What a medium sent: the newest bursts, who had the medium, and in words who got what. */
import type { MediumKind } from "../model/media";
import type { AirEvents } from "../types";
import { figures } from "./theme";

export const SENT = 0;
export const COLLIDED = 1;
export const REQUESTED = 2;
export const GRANTED = 3;

export interface Burst {
  what: number;
  from_ns: number;
  to_ns: number;
  up: boolean;
  row: number;
  flow: string | null;
  packets: number;
  again: number;
  failed: number;
  bytes: number;
  unused: number;
}

/** Bursts beyond this are forgotten, the oldest first. */
const MOST = 6000;

export class Air {
  bursts: Burst[] = [];
  rows: string[] = [];
  slot_ns: number | null = null;
  pattern = "";

  add(events: AirEvents): void {
    this.rows = events.rows;
    this.slot_ns = events.slot_ns;
    this.pattern = events.pattern;
    const all = events as unknown as Record<string, (number | string | null)[]>;
    const at = (column: string, i: number) => all[column]?.[i] as number;
    const added = events.from_ns.map(
      (from_ns, i): Burst => ({
        what: at("what", i),
        from_ns,
        to_ns: at("to_ns", i),
        up: at("way", i) === 1,
        row: at("row", i),
        flow: events.flow[i] ?? null,
        packets: at("packets", i),
        again: at("again", i),
        failed: at("failed", i),
        bytes: at("bytes", i),
        unused: at("unused_bytes", i),
      }),
    );
    this.bursts.push(...added);
    if (this.bursts.length > MOST) this.bursts.splice(0, this.bursts.length - MOST);
  }

  /** Those that overlap a time. */
  within(from_ns: number, to_ns: number): Burst[] {
    return this.bursts.filter((one) => one.to_ns >= from_ns && one.from_ns < to_ns);
  }
}

/** Who is the sender of a burst, by the name of a row of the strip. */
export const ACCESS_POINT = "access point";

export function senderOf(kind: MediumKind, air: Air, burst: Burst): string {
  if (kind === "wifi" && !burst.up) return ACCESS_POINT;
  return air.rows[burst.row] ?? "";
}

/** Rows of the strip: senders in Wi-Fi, users in a cell, service flows of a modem; without those that have sent nothing. */
export function rowsOf(kind: MediumKind, air: Air): string[] {
  const seen = new Set(air.bursts.map((burst) => burst.row));
  const used = air.rows.filter((_, i) => seen.has(i));
  return kind === "wifi" && used.length > 0 ? [ACCESS_POINT, ...used] : used;
}

/** How long the strip is. */
export function spanOf(kind: MediumKind, air: Air, width_px: number): number {
  const isWide = width_px > 600;
  if (kind === "wifi") return isWide ? 40e6 : 16e6;
  return (air.slot_ns ?? 1e6) * (kind === "nr" ? (isWide ? 40 : 20) : isWide ? 16 : 8);
}

/** Letters of the slots that overlap a time, each with its beginning. */
export function slotsOf(air: Air, from_ns: number, to_ns: number): { at_ns: number; letter: string }[] {
  const { slot_ns, pattern } = air;
  if (!slot_ns) return [];
  const first = Math.max(0, Math.floor(from_ns / slot_ns));
  const count = Math.ceil(to_ns / slot_ns) - first;
  return Array.from({ length: Math.max(0, count) }, (_, i) => ({
    at_ns: (first + i) * slot_ns,
    letter: pattern ? (pattern[(first + i) % pattern.length] ?? "") : "",
  }));
}

/**
 * In a slot bursts of one direction begin together; where in it each of them is drawn: one after the other, as parts of
 * the slot.
 */
export function startsOf(bursts: readonly Burst[]): Map<Burst, number> {
  const ends = new Map<string, number>();
  const starts = new Map<Burst, number>();
  for (const burst of bursts) {
    const key = `${burst.from_ns} ${burst.up}`;
    const start = ends.get(key) ?? burst.from_ns;
    starts.set(burst, start);
    ends.set(key, start + burst.to_ns - burst.from_ns);
  }
  return starts;
}

export interface Share {
  name: string;
  /** Parts of the time, towards it and from it. */
  down: number;
  up: number;
}

export interface Shares {
  of: Share[];
  collided: number;
  idle: number;
}

/** Who had which part of a time. */
export function sharesOf(air: Air, from_ns: number, to_ns: number): Shares {
  const of = new Map<number, Share>();
  let [collided, busy, reached] = [0, 0, from_ns];
  const all = air.within(from_ns, to_ns).filter(({ what }) => what !== REQUESTED);
  for (const burst of all.sort((a, b) => a.from_ns - b.from_ns)) {
    const [from, to] = [Math.max(burst.from_ns, from_ns), Math.min(burst.to_ns, to_ns)];
    const fresh = Math.max(0, to - Math.max(from, reached));
    busy += fresh;
    reached = Math.max(reached, to);
    if (burst.what === COLLIDED) {
      collided += fresh;
      continue;
    }
    const share = of.get(burst.row) ?? { name: air.rows[burst.row] ?? "", down: 0, up: 0 };
    of.set(burst.row, share);
    if (burst.up) share.up += to - from;
    else share.down += to - from;
  }
  const span = to_ns - from_ns;
  return {
    of: [...of.entries()]
      .sort(([a], [b]) => a - b)
      .map(([, { name, down, up }]) => ({ name, down: down / span, up: up / span })),
    collided: collided / span,
    idle: 1 - busy / span,
  };
}

const percent = (part: number): string => `${figures(part * 100, 2)} %`;

/** What a burst is, in words. */
export function wordsOf(kind: MediumKind, air: Air, burst: Burst): string {
  const name = air.rows[burst.row] ?? "";
  const n = burst.packets;
  if (kind === "wifi") {
    const what = n > 1 ? `an A-MPDU of ${n} MPDUs` : "one MPDU";
    const lost =
      burst.what === COLLIDED ? ", which collides" : burst.failed > 0 ? `, ${burst.failed} of them lost` : "";
    const again = burst.again > 0 ? `, ${burst.again} sent again` : "";
    return `${burst.up ? `${name} → access point` : `access point → ${name}`}: ${what}${again}${lost}`;
  }
  if (kind === "nr") {
    if (burst.what === GRANTED) return `${name} got an uplink grant and had nothing to send`;
    const way = burst.up ? "uplink, granted to" : "downlink to";
    const harq = burst.again > 0 ? `, HARQ retransmission ${burst.again}` : "";
    return `${way} ${name}${harq}${burst.failed > 0 ? ", fails" : ""}`;
  }
  if (burst.what === REQUESTED) return `${name} requests ${burst.bytes} bytes`;
  return `grant to ${name}: ${burst.bytes} bytes, ${burst.unused} unused`;
}

/** Who has had the medium, in a sentence each. */
export function sentencesOf(kind: MediumKind, air: Air, now_ns: number, over_ns: number): string[] {
  const oldest = air.bursts[0]?.from_ns;
  if (oldest === undefined) return [];
  const from_ns = Math.max(oldest, now_ns - over_ns);
  if (now_ns <= from_ns) return [];
  const last = `Of the last ${figures((now_ns - from_ns) * 1e-6, 2)} ms`;
  if (kind === "docsis") return [`${last}, ${grantsOf(air, from_ns, now_ns)}`];
  const { of, collided, idle } = sharesOf(air, from_ns, now_ns);
  const holder = air.within(now_ns, now_ns + 1).find((one) => one.from_ns <= now_ns && one.to_ns > now_ns);
  const now = holder
    ? wordsOf(kind, air, holder)
    : kind === "wifi"
      ? "nobody holds the channel"
      : "nobody has the slot";
  const parts = of.map(({ name, down, up }) => {
    const both = down > 0 && up > 0 ? ` (${percent(down)} to it, ${percent(up)} from it)` : up > 0 ? " (from it)" : "";
    return `${name} ${percent(down + up)}${both}`;
  });
  if (kind === "nr") return [`At the right edge: ${now}.`, `${last}, slots went to ${parts.join(", ")}.`];
  const lost = collided > 0 ? `collisions had ${percent(collided)}, ` : "";
  return [
    `At the right edge: ${now}.`,
    `${last}, airtime went to ${parts.join(", ")}; ${lost}nobody held the channel for ${percent(Math.max(0, idle))}.`,
  ];
}

function grantsOf(air: Air, from_ns: number, to_ns: number): string {
  const sums = air.rows.map((name) => ({ name, requested: 0, granted: 0, unused: 0 }));
  for (const burst of air.within(from_ns, to_ns)) {
    const sum = sums[burst.row];
    if (!sum) continue;
    if (burst.what === REQUESTED) sum.requested += burst.bytes;
    else {
      sum.granted += burst.bytes;
      sum.unused += burst.unused;
    }
  }
  const kB = (bytes: number) => `${figures(bytes / 1000, 2)} kB`;
  const told = sums
    .filter(({ requested, granted }) => requested + granted > 0)
    .map(({ name, requested, granted, unused }) => {
      const used = granted > 0 ? `${percent(unused / granted)} of it unused` : "nothing used";
      return `the ${name} service flow requested ${kB(requested)} and was granted ${kB(granted)}, ${used}`;
    });
  return `${told.join("; ")}.`;
}
