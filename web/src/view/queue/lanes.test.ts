import { expect, test } from "vitest";
import type { Packets } from "../../types";
import { byEcn, byFlow, type Gone, Lanes, someOf } from "./lanes";

const none = (): Packets => ({
  link: [],
  time_ns: [],
  what: [],
  id: [],
  flow: [],
  member: [],
  ecn: [],
  bytes: [],
  unknown: [],
  cut: false,
});

type Event = { what: number; id: number; time?: number; flow?: string; ecn?: number; link?: string };
function packetsOf(events: Event[]): Packets {
  const packets = none();
  events.forEach(({ what, id, time, flow, ecn, link }, i) => {
    packets.link.push(link ?? "bottleneck");
    packets.time_ns.push(time ?? i);
    packets.what.push(what);
    packets.id.push(id);
    packets.flow.push(flow ?? "l4s");
    packets.member.push(1);
    packets.ecn.push(ecn ?? 1);
    packets.bytes.push(1514);
  });
  return packets;
}

/** A queue that lets arrivals, departures from the head and drops anywhere happen at random. */
function history(seed: number, steps: number, before: number[]): { events: Event[]; waiting: number[][] } {
  let state = seed;
  const random = (n: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
  const queue = [...before];
  const events: Event[] = [];
  const waiting: number[][] = [];
  let id = 1000;
  for (let i = 0; i < steps; i += 1) {
    const choice = random(10);
    if (choice < 5 || queue.length === 0) {
      id += 1;
      queue.push(id);
      events.push({ what: 0, id, ecn: id % 2 });
    } else if (choice < 9) events.push({ what: 1, id: queue.shift() as number, ecn: random(2) ? 3 : 1 });
    else events.push({ what: 2, id: queue.splice(random(queue.length), 1)[0] as number });
    waiting.push([...queue]);
  }
  return { events, waiting };
}

test("at each instant, what arrived has left, was dropped or waits, and who waits is known", () => {
  for (const seed of [1, 2, 3]) {
    const before = [1, 2, 3, 4, 5];
    const { events, waiting } = history(seed, 2000, before);
    let [left, dropped] = [0, 0];
    const lanes = new Lanes(
      "bottleneck",
      () => {
        left += 1;
      },
      () => {
        dropped += 1;
      },
    );
    lanes.sort(byEcn);
    const all = packetsOf(events);
    // In pieces, which end anywhere.
    for (let from = 0; from < events.length; from += 137) {
      const piece = Object.fromEntries(
        Object.entries(all).map(([key, column]) => [
          key,
          Array.isArray(column) ? column.slice(from, from + 137) : column,
        ]),
      ) as unknown as Packets;
      lanes.add(piece, 0);
    }
    for (let now = 0; now < events.length; now += 1) {
      lanes.advance(now);
      const waits = waiting[now] as number[];
      expect(lanes.waiting).toBe(waits.filter((id) => id > 1000).length);
      expect(lanes.arrived).toBe(lanes.left + lanes.dropped + lanes.waiting);
      expect([left, dropped]).toEqual([lanes.left, lanes.dropped]);
      for (const lane of lanes.lanes.values()) {
        const ids = Array.from({ length: lane.length }, (_, place) => lane.at(place)?.id);
        expect(ids).toEqual(waits.filter((id) => id > 1000 && (id % 2 ? "L" : "C") === lane.name));
      }
    }
  }
});

test("a packet that leaves with CE was marked, unless it came with CE", () => {
  const gone: Gone[] = [];
  const lanes = new Lanes("bottleneck", (one) => gone.push(one));
  lanes.add(
    packetsOf([
      { what: 0, id: 1, ecn: 1 },
      { what: 0, id: 2, ecn: 3 },
      { what: 0, id: 3, ecn: 2 },
      { what: 1, id: 1, ecn: 3 },
      { what: 1, id: 2, ecn: 3 },
      { what: 1, id: 3, ecn: 2 },
      { what: 1, id: 99, ecn: 3 },
    ]),
    0,
  );
  lanes.advance(100);
  // Of the last one nothing is known, so it is not said to be marked.
  expect(gone.map(({ packet }) => packet.marked)).toEqual([true, false, false, false]);
  expect(lanes.arrived).toBe(lanes.left);
});

test("nothing happens before its time, other links do not count, and what is ahead is told", () => {
  const lanes = new Lanes("bottleneck");
  lanes.sort(byFlow);
  lanes.add(
    packetsOf([
      { what: 0, id: 1, time: 10 },
      { what: 0, id: 7, time: 11, link: "other" },
      { what: 1, id: 1, time: 20 },
      { what: 0, id: 8, time: 5, link: "other" },
    ]),
    0,
  );
  expect([...lanes.ahead(9)].map(({ time_ns }) => time_ns)).toEqual([10, 20]);
  lanes.advance(15);
  expect(lanes.lanes.get("l4s 1")?.length).toBe(1);
  expect([...lanes.ahead(9)].map(({ packet }) => packet?.arrived_ns)).toEqual([10]);
  lanes.advance(20);
  expect([lanes.arrived, lanes.left, lanes.waiting]).toEqual([1, 1, 0]);
});

test("of many flows each group has lanes", () => {
  const names = ["b 2", "a 10", "a 2", "a 1", "b 1", "c 1", "a 3"];
  expect(someOf(names, ["a", "b", "c"], 5)).toEqual(["a 1", "a 2", "b 1", "b 2", "c 1"]);
  expect(someOf(names, ["a", "b", "c"], 9)).toEqual(["a 1", "a 2", "a 3", "a 10", "b 1", "b 2", "c 1"]);
});
