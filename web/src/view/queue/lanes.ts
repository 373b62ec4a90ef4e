/**
 * Which packets wait in a link's queue, from what happened to single packets. Events come ahead of the instant that is
 * shown, so that what is about to leave is known: a picture can move it there.
 */
import type { Packets } from "../../types";

const ARRIVES = 0;
const LEAVES = 1;
const CE = 3;

export interface Packet {
  readonly id: number;
  readonly flow: string;
  readonly member: number;
  readonly lane: string;
  readonly bytes: number;
  readonly arrived_ns: number;
  /** As it arrived; of one that has left, as it left. */
  ecn: number;
  marked: boolean;
}

export interface Gone {
  readonly packet: Packet;
  readonly time_ns: number;
  /** How many were before it in its lane. */
  readonly place: number;
}

/** Packets of one lane, the next to leave first. */
export class Lane {
  private held: Packet[] = [];
  private head = 0;

  constructor(readonly name: string) {}

  get length(): number {
    return this.held.length - this.head;
  }

  at(place: number): Packet | undefined {
    return this.held[this.head + place];
  }

  push(packet: Packet): void {
    this.held.push(packet);
  }

  /** Takes a packet out and returns its place, or -1. Most leave from the head, and most drops are at either end. */
  take(packet: Packet): number {
    let index = this.head;
    if (this.held.at(-1) === packet) index = this.held.length - 1;
    while (index < this.held.length && this.held[index] !== packet) index += 1;
    if (index >= this.held.length) return -1;
    const place = index - this.head;
    if (place === 0) this.head += 1;
    else this.held.splice(index, 1);
    if (this.head > 256 && this.head * 2 > this.held.length) {
      this.held = this.held.slice(this.head);
      this.head = 0;
    }
    return place;
  }
}

/** In which lane a packet waits, as it arrives. */
export type Sorter = (flow: string, member: number, ecn: number) => string;

export const bySingle: Sorter = () => "all";
/** As DualPI2 has it: ECT(1) and CE to L. */
export const byEcn: Sorter = (_flow, _member, ecn) => (ecn === 1 || ecn === CE ? "L" : "C");
export const byFlow: Sorter = (flow, member) => `${flow} ${member}`;

/** As many of the lanes by flow as there is room for, each group's first ones; in the order of the groups. */
export function someOf(names: readonly string[], groups: readonly string[], most: number): string[] {
  const placed = names.map((name) => {
    const end = name.lastIndexOf(" ");
    return { name, group: groups.indexOf(name.slice(0, end)), member: Number(name.slice(end + 1)), rank: 0 };
  });
  const inOrder = (a: (typeof placed)[number], b: (typeof placed)[number]) => a.group - b.group || a.member - b.member;
  placed.sort(inOrder);
  placed.forEach((one, i) => {
    const before = placed[i - 1];
    one.rank = before?.group === one.group ? before.rank + 1 : 0;
  });
  const chosen = placed.toSorted((a, b) => a.rank - b.rank || a.group - b.group).slice(0, most);
  return chosen.sort(inOrder).map(({ name }) => name);
}

export class Lanes {
  readonly lanes = new Map<string, Lane>();
  /** Packets that wait, but arrived before the watch began, as last told. */
  unknown = 0;
  arrived = 0;
  left = 0;
  dropped = 0;
  private sorter: Sorter = bySingle;
  private readonly known = new Map<number, Packet>();
  /** Events to come: rows of what was told that are of this link. */
  private told: { packets: Packets; rows: number[]; next: number }[] = [];

  constructor(
    readonly link: string,
    private readonly onLeave: (gone: Gone) => void = () => {},
    private readonly onDrop: (gone: Gone) => void = () => {},
  ) {}

  /** Packets that are known to wait. */
  get waiting(): number {
    return this.known.size;
  }

  /** Nothing is known any more. */
  reset(): void {
    this.lanes.clear();
    this.known.clear();
    this.told = [];
    this.unknown = 0;
    this.arrived = 0;
    this.left = 0;
    this.dropped = 0;
  }

  /** From now on packets are sorted so; those that wait stay where they are. */
  sort(sorter: Sorter): void {
    this.sorter = sorter;
  }

  /** `unknown`: packets of this link that wait and were never told. */
  add(packets: Packets, unknown: number): void {
    this.unknown = unknown;
    const rows: number[] = [];
    packets.link.forEach((link, row) => {
      if (link === this.link) rows.push(row);
    });
    if (rows.length) this.told.push({ packets, rows, next: 0 });
  }

  /** Lets everything happen up to this instant. */
  advance(now_ns: number): void {
    for (const told of this.told) {
      const { packets, rows } = told;
      while (told.next < rows.length && (packets.time_ns[rows[told.next] as number] as number) <= now_ns) {
        this.happen(packets, rows[told.next] as number);
        told.next += 1;
      }
      if (told.next < rows.length) break;
    }
    while (this.told[0] && this.told[0].next >= this.told[0].rows.length) this.told.shift();
  }

  /** The next events after the instant that is shown, at most `most` of them. */
  *ahead(most: number): Generator<{ what: number; time_ns: number; id: number; packet: Packet | undefined }> {
    let seen = 0;
    for (const { packets, rows, next } of this.told) {
      for (let at = next; at < rows.length; at += 1) {
        if (seen >= most) return;
        seen += 1;
        const i = rows[at] as number;
        const id = packets.id[i] as number;
        const what = packets.what[i] as number;
        const packet = what === ARRIVES ? this.make(packets, i) : this.known.get(id);
        yield { what, time_ns: packets.time_ns[i] as number, id, packet };
      }
    }
  }

  private make(packets: Packets, i: number): Packet {
    const [flow, member, ecn] = [packets.flow[i] as string, packets.member[i] as number, packets.ecn[i] as number];
    const lane = this.sorter(flow, member, ecn);
    const arrived_ns = packets.time_ns[i] as number;
    return {
      id: packets.id[i] as number,
      flow,
      member,
      lane,
      bytes: packets.bytes[i] as number,
      arrived_ns,
      ecn,
      marked: false,
    };
  }

  private happen(packets: Packets, i: number): void {
    const what = packets.what[i];
    if (what === ARRIVES) {
      const packet = this.make(packets, i);
      this.arrived += 1;
      this.known.set(packet.id, packet);
      let lane = this.lanes.get(packet.lane);
      if (!lane) {
        lane = new Lane(packet.lane);
        this.lanes.set(packet.lane, lane);
      }
      lane.push(packet);
      return;
    }
    const time_ns = packets.time_ns[i] as number;
    const ecn = packets.ecn[i] as number;
    let packet = this.known.get(packets.id[i] as number);
    let place = 0;
    if (packet) {
      this.known.delete(packet.id);
      const lane = this.lanes.get(packet.lane);
      place = lane?.take(packet) ?? 0;
      packet.marked = ecn === CE && packet.ecn !== CE;
      packet.ecn = ecn;
      // Lanes of flows that are gone do not pile up.
      if (lane && lane.length === 0 && this.lanes.size > 64) this.lanes.delete(lane.name);
    } else {
      // It came before it was watched.
      packet = this.make(packets, i);
      this.arrived += 1;
    }
    if (what === LEAVES) {
      this.left += 1;
      this.onLeave({ packet, time_ns, place });
    } else {
      this.dropped += 1;
      this.onDrop({ packet, time_ns, place });
    }
  }
}
