import { expect, test } from "vitest";
import type { Run, Samples } from "../types";
import { JOINED, ONE, ofFlow, ofMember, ofQueue, ofService, rateAt, Store } from "./store";

const run = {
  links: [{ name: "bottleneck", rate_bps: 100e6, qdisc: "dualpi2", burst_bytes: 0 }],
  flows: [
    { name: "l4s", kind: "tcp", cc: "prague", count: 2 },
    { name: "more", kind: "tcp", cc: "dctcp", count: 1 },
    { name: "classic", kind: "tcp", cc: "cubic", count: 1 },
  ],
  at: [
    { time_ns: 3e9, link: "bottleneck", rate_bps: 50e6 },
    { time_ns: 4e9, flow: "l4s", rate_bps: 1 },
  ],
} as unknown as Run;

type Row = Record<string, number | string | null>;

function samples(rows: Row[], members: Row[] = []): Samples {
  const columns = (of: Row[], names: string[]) =>
    Object.fromEntries(names.map((name) => [name, of.map((row) => row[name] ?? null)]));
  const names = [...new Set(["time_s", "flow", "link", "queue", ...rows.flatMap((row) => Object.keys(row))])];
  return {
    now_ns: 1e9 * Math.max(...rows.map((row) => Number(row.time_s))),
    series: columns(rows, names),
    members: columns(members, ["time_s", "flow", "member", "goodput_mbps", "cwnd_packets", "srtt_ms"]),
    transfers: columns([], ["flow", "kind", "start_s", "size_bytes", "completion_ms"]),
    histograms: [],
  } as unknown as Samples;
}

const at = (time_s: number): Row[] => [
  { time_s, flow: "l4s", goodput_mbps: 30, ce_packets: 5, sent_packets: 50 },
  { time_s, flow: "more", goodput_mbps: 10, ce_packets: 1, sent_packets: 20 },
  { time_s, flow: "classic", goodput_mbps: 40, ce_packets: 0, sent_packets: 0 },
  { time_s, link: "bottleneck", queue: "all", rate_mbps: 45, sojourn_ms: 7, backlog_packets: 9 },
];

function told(): Store {
  const store = new Store();
  store.show(run);
  return store;
}

test("services are sums of their groups, counts are per second, use is of the rate at the time", () => {
  const store = told();
  store.add(samples([...at(0.5), ...at(1)]));
  expect(store.fine.get(ofService("scalable", "goodput_mbps"))).toBe(40);
  expect(store.fine.get(ofService("classic", "goodput_mbps"))).toBe(40);
  expect(store.fine.get(ofService("scalable", "ce_packets"))).toBe(12);
  expect(store.fine.get(ofQueue("bottleneck", "all", "utilisation_pct"))).toBeCloseTo(45, 9);
  for (let time = 1.5; time <= 4; time += 0.5) store.add(samples(at(time)));
  expect(store.fine.get(ofQueue("bottleneck", "all", "utilisation_pct"))).toBeCloseTo(90, 9);
  expect([2.9, 3, 10].map((time) => rateAt(run, "bottleneck", time, new Map()))).toEqual([100e6, 50e6, 50e6]);
  expect([...store.sent.keys()]).toEqual(["l4s", "more"]);
});

test("a coarse row is the mean of a few fine ones", () => {
  const store = told();
  for (let i = 1; i <= 2 * JOINED; i += 1) {
    store.add(
      samples([
        { time_s: i / 10, flow: "l4s", goodput_mbps: i },
        { time_s: i / 10, flow: "more" },
      ]),
    );
  }
  expect([...store.coarse.time(9)]).toEqual([JOINED / 10, JOINED / 5]);
  const mean = (JOINED + 1) / 2;
  expect([...(store.coarse.column(ofFlow("l4s", "goodput_mbps"), 9) ?? [])]).toEqual([mean, mean + JOINED]);
  expect(store.coarse.has(ofFlow("more", "goodput_mbps"))).toBe(false);
});

test("all packets stand in one queue only while there is none inside", () => {
  const store = told();
  const one = ofQueue("bottleneck", ONE, "sojourn_ms");
  store.add(samples(at(1)));
  expect(store.fine.get(one)).toBe(7);
  store.add(samples([...at(2), { time_s: 2, link: "bottleneck", queue: "L", backlog_packets: 0 }]));
  expect(store.fine.get(one)).toBeNaN();
  store.add(samples(at(3)));
  expect(store.fine.get(one)).toBe(7);
  expect(store.queues.get("bottleneck")).toEqual(["all", "L"]);
});

test("members belong to the sample of their time", () => {
  const store = told();
  const members = [1, 2].flatMap((time_s) =>
    [1, 2].map((member): Row => ({ time_s, flow: "l4s", member, goodput_mbps: 10 * time_s + member })),
  );
  store.add(samples([...at(1), ...at(2)], members));
  const of = (member: number) => [...(store.fine.column(ofMember("l4s", member, "goodput_mbps"), 2) ?? [])];
  expect([of(1), of(2)]).toEqual([
    [11, 21],
    [12, 22],
  ]);
});

test("what is kept does not grow with time", () => {
  const store = told();
  let width = 0;
  for (let i = 1; i <= 3000; i += 1) {
    store.add(samples(at(i / 50)));
    if (i === 100) width = store.fine.width;
  }
  expect(store.fine.width).toBe(width);
  expect(store.fine.rows).toBe(store.fine.capacity);
  expect(store.coarse.rows).toBe(store.coarse.capacity);
  for (let i = 0; i < 5000; i += 1) store.dots.add(i, 1000, 10, "l4s");
  expect(store.dots.held).toBe(store.dots.capacity);
});
