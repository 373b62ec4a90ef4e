import { expect, test } from "vitest";
import { withStandby } from "../controls/groups";
import { readAddress, writeAddress } from "../model/address";
import { mediumOf } from "../model/media";
import type { AirEvents, Run } from "../types";
import { Air, COLLIDED, GRANTED, REQUESTED, rowsOf, sentencesOf, sharesOf, slotsOf, startsOf } from "./air";

type Row = Partial<Record<"what" | "way" | "row" | "packets" | "again" | "failed" | "bytes" | "unused", number>>;

/** Bursts as the core tells them; times in µs. */
function told(
  rows: string[],
  bursts: [from: number, to: number, row?: Row][],
  more: Partial<AirEvents> = {},
): AirEvents {
  const column = (key: keyof Row, usual = 0) => bursts.map(([, , row]) => row?.[key] ?? usual);
  return {
    link: "home",
    rates_bps: [1e8, 1e8],
    slot_ns: null,
    pattern: "",
    rows,
    what: column("what"),
    from_ns: bursts.map(([from]) => from * 1e3),
    to_ns: bursts.map(([, to]) => to * 1e3),
    way: column("way"),
    row: column("row"),
    flow: bursts.map(() => "a"),
    packets: column("packets", 1),
    again: column("again"),
    failed: column("failed"),
    bytes: column("bytes"),
    unused_bytes: column("unused"),
    cut: false,
    ...more,
  };
}

function airOf(...events: AirEvents[]): Air {
  const air = new Air();
  for (const one of events) air.add(one);
  return air;
}

test("shares, collisions and idle time add up to the whole", () => {
  const air = airOf(
    told(
      ["near", "far"],
      [
        [0, 300, { packets: 20 }],
        [400, 450, { way: 1 }],
        [500, 600, { what: COLLIDED }],
        [500, 560, { what: COLLIDED, way: 1, row: 1 }],
      ],
    ),
    told(["near", "far"], [[700, 1200, { row: 1, packets: 3, again: 1 }]]),
  );
  const { of, collided, idle } = sharesOf(air, 0, 1e6);
  expect(of).toEqual([
    { name: "near", down: 0.3, up: 0.05 },
    { name: "far", down: 0.3, up: 0 },
  ]);
  expect(collided).toBeCloseTo(0.1);
  expect(idle + collided + of.reduce((sum, { down, up }) => sum + down + up, 0)).toBeCloseTo(1);
  expect(sentencesOf("wifi", air, 1e6, 1e9)).toEqual([
    "At the right edge: access point → far: an A-MPDU of 3 MPDUs, 1 sent again.",
    "Of the last 1 ms, airtime went to near 35 % (30 % to it, 5 % from it), far 30 %; collisions had 10 %, nobody held the channel for 25 %.",
  ]);
  expect(rowsOf("wifi", air)).toEqual(["access point", "near", "far"]);
});

test("stations that have sent nothing have no row, and old bursts are forgotten", () => {
  const air = airOf(told(["a", "b", "c"], [[0, 1, { row: 2 }]]));
  expect(rowsOf("wifi", air)).toEqual(["access point", "c"]);
  for (let i = 0; i < 7; i += 1)
    air.add(
      told(
        ["a"],
        Array.from({ length: 1000 }, (_, k) => [k, k + 1]),
      ),
    );
  expect(air.bursts.length).toBe(6000);
  expect(rowsOf("nr", airOf())).toEqual([]);
});

test("a slot has its letter, and its blocks stand one after the other", () => {
  const air = airOf(
    told(["a", "b"], [[500, 700, { way: 1 }], [500, 800, { way: 1, row: 1 }], [500, 900]], { slot_ns: 5e5, pattern: "DSU" }), // biome-ignore format: a line
  );
  expect(slotsOf(air, 4e5, 16e5).map(({ letter }) => letter).join("")).toBe("DSUD"); // biome-ignore format: a line
  expect([...startsOf(air.bursts).values()]).toEqual([5e5, 7e5, 5e5]);
});

test("grants are told against requests", () => {
  const air = airOf(
    told(
      ["low latency", "classic"],
      [
        [0, 0, { what: REQUESTED, row: 1, bytes: 3000 }],
        [2000, 2100, { what: GRANTED, row: 1, bytes: 4000, unused: 1000 }],
        [2500, 2600, { what: GRANTED, row: 0, bytes: 500, unused: 500 }],
      ],
    ),
  );
  expect(sentencesOf("docsis", air, 4e6, 1e9)).toEqual([
    "Of the last 4 ms, the low latency service flow requested 0 kB and was granted 0.5 kB, 100 % of it unused; the classic service flow requested 3 kB and was granted 4 kB, 25 % of it unused.",
  ]);
});

test("a link with a medium is two links, and the way back of a flow is the other one", () => {
  const text =
    "link.home.medium=wifi+ax80&link.home.qdisc=fq_codel&link.home.qdisc_up=pfifo&link.home.station.far.medium=mcs+2" +
    "&flow.a.cc=cubic&flow.a.rtt=20ms&flow.a.station=far&flow.b.cc=cubic&flow.b.rtt=20ms&flow.b.path=home.up" +
    "&flow.c.cc=cubic&flow.c.rtt=20ms&flow.c.reverse_path=&at.1.time=2s&at.1.link.home.up.qdisc=codel";
  const { run, problems } = readAddress(text) as { run: Run; problems: string[] };
  expect(problems).toEqual([]);
  expect(run.links.map(({ name, qdisc, up_of }) => [name, qdisc, up_of])).toEqual([
    ["home", "fq_codel", undefined],
    ["home.up", "pfifo", "home"],
  ]);
  const ways = run.flows.map((flow) => [flow.path, "reverse_path" in flow && flow.reverse_path]);
  expect(ways).toEqual([[["home"], ["home.up"]], [["home.up"], ["home"]], [["home"], []]]); // biome-ignore format: a line
  expect(run.at).toEqual([{ time_ns: 2e9, link: "home.up", qdisc: "codel" }]);
  expect(mediumOf(run, "home.up")).toBe("wifi");
  expect(readAddress(writeAddress(run, new Map())).run).toEqual(run);
  for (const flow of withStandby(run).flows.slice(3)) expect(flow.path).toEqual(["home"]);
});

test("keys of a medium need one", () => {
  const { problems } = readAddress(
    "link.l.rate=5Mbit&link.l.qdisc=pfifo&link.l.qdisc_up=pfifo&flow.a.cc=cubic&flow.a.rtt=1ms",
  );
  expect(problems).toEqual(['link.l.qdisc_up = "pfifo" needs link.l.medium, for example "wifi ax80"']);
  const rate = readAddress("link.l.medium=leo&link.l.rate=5Mbit&link.l.qdisc=pfifo&flow.a.cc=cubic&flow.a.rtt=1ms");
  expect(rate.problems).toHaveLength(1);
});
