import { expect, test } from "vitest";
import { completions, withoutUnit } from "../controls/link";
import { SLIDERS } from "../controls/medium";
import { COUNTS, logarithmic, nearestIndex } from "../controls/scale";
import { toJson } from "../json";
import type { FlowSpec, Run, TimedChange } from "../types";
import { readAddress, writeAddress } from "./address";
import { described } from "./described";
import { changingOf, type MediumKind } from "./media";
import { changed, folded, setAt, subjectOf, withinRates, withMade } from "./run";
import { parse } from "./units";

const run = readAddress(
  "link.l.rate=50Mbit&link.l.qdisc=pfifo&flow.a.cc=prague&flow.a.rtt=10ms" +
    "&at.1.time=5s&at.1.link.l.qdisc=pie&at.1.link.l.rate=7Mbit&at.2.time=20s&at.2.link.l.rate=9Mbit",
).run as Run;
const made: TimedChange[] = [
  { time_ns: 2e9, flow: "a", count: 3 },
  { time_ns: 8e9, link: "l", rate_bps: 1e6 },
];

test("what is set at an instant is what was scheduled until then, and what was changed by hand", () => {
  const at = (seconds: number) => setAt(withMade(run, made), seconds * 1e9);
  expect([1, 5, 8, 20].map((s) => [at(s).links[0]?.rate_bps, at(s).links[0]?.qdisc, at(s).flows[0]?.count])).toEqual([
    [50e6, "pfifo", 1],
    [7e6, "pie", 3],
    [1e6, "pie", 3],
    [9e6, "pie", 3],
  ]);
});

test("a run that begins anew has from the start what was changed by hand, and its schedule but for what that replaced", () => {
  const anew = folded(run, made);
  expect([anew.links[0]?.rate_bps, anew.links[0]?.qdisc, anew.flows[0]?.count]).toEqual([1e6, "pfifo", 3]);
  expect(anew.at).toEqual([
    { time_ns: 5e9, link: "l", qdisc: "pie" },
    { time_ns: 20e9, link: "l", rate_bps: 9e6 },
  ]);
});

const cell = readAddress(
  "link.home.medium=wifi+ax80+mcs+7+per+0.01&link.home.qdisc=pfifo&link.home.qdisc_up=fq_codel" +
    "&link.home.station.far.medium=mcs+2&flow.a.cc=prague&flow.a.rtt=10ms&flow.a.station=far" +
    "&at.1.time=5s&at.1.link.home.medium=wifi+mcs+3+per+0.1&at.1.link.home.station.far.medium=mcs+0+nss+2" +
    "&at.2.time=6s&at.2.link.home.qdisc_up=pie",
);

test("a change of a medium replaces the words that it names, and the others stay", () => {
  expect(cell.problems).toEqual([]);
  const links = setAt(cell.run as Run, 7e9).links;
  expect(links[0]?.medium).toBe("wifi ax80 mcs 3 per 0.1");
  expect(links[0]?.stations).toEqual({ far: "mcs 0 nss 2" });
  expect(links.map(({ qdisc }) => qdisc)).toEqual(["pfifo", "pie"]);
});

test("an address and a stored description keep changes of a medium", () => {
  expect(readAddress(writeAddress(cell.run as Run, new Map())).run).toEqual(cell.run);
  expect(described(toJson(cell.run))).toEqual({ run: cell.run, problems: [] });
});

test("a run that begins anew has the words that were changed by hand, and of its schedule what they left", () => {
  const hand: TimedChange[] = [
    { time_ns: 8e9, link: "home", medium: "wifi per 0.2" },
    { time_ns: 9e9, link: "home", stations: { far: "mcs 1" } },
  ];
  const anew = folded(cell.run as Run, hand);
  expect(anew.links[0]?.medium).toBe("wifi ax80 mcs 7 per 0.2");
  expect(anew.links[0]?.stations).toEqual({ far: "mcs 1" });
  expect(anew.at).toEqual([
    { time_ns: 5e9, link: "home", medium: "wifi mcs 3", stations: { far: "nss 2" } },
    { time_ns: 6e9, link: "home.up", qdisc: "pie" },
  ]);
  const all = folded(anew, [{ time_ns: 9e9, link: "home", medium: "wifi mcs 1", stations: { far: "nss 1" } }]);
  expect(all.at).toEqual([{ time_ns: 6e9, link: "home.up", qdisc: "pie" }]);
});

test("two words of a medium are two changes, and words of one parameter are one", () => {
  const of = (medium: string) => subjectOf({ link: "l", medium });
  expect(of("wifi mcs 3")).toBe(of("wifi mcs 4"));
  expect(of("wifi mcs 3")).not.toBe(of("wifi per 0.1"));
  expect(of("nr pf")).toBe(of("nr rr"));
  expect(subjectOf({ link: "l", stations: { a: "mcs 3" } })).not.toBe(
    subjectOf({ link: "l", stations: { b: "mcs 3" } }),
  );
  const cellular = changed(
    { ...(cell.run as Run), links: [{ ...cell.run?.links[0], medium: "lte cqi 9 um" } as never] },
    {
      link: "home",
      medium: "nr rate 20mbit am",
    },
  );
  expect(cellular.links[0]?.medium).toBe("lte rate 20mbit am");
});

test("each slider of a medium is of a parameter that can change, and shows its default", () => {
  for (const [kind, sliders] of Object.entries(SLIDERS)) {
    for (const [keyword, { usual, scale, dimension }] of Object.entries(sliders)) {
      const words = changingOf(kind as MediumKind).flatMap((one) => one.words);
      const word = words.find((one) => one.keyword === keyword);
      expect(word, `${kind} ${keyword}`).toBeDefined();
      const told = dimension ? parse(word?.default ?? "", dimension) : Number.parseFloat(word?.default ?? "");
      expect(told, `${kind} ${keyword}`).toBe(usual);
      expect(scale).toContain(usual);
    }
  }
});

test("a slider has each number of two figures once, and finds the nearest", () => {
  const scale = logarithmic(100e3, 10e9);
  expect(scale).toEqual([...new Set(scale)].sort((a, b) => a - b));
  expect([scale[0], scale.at(-1), scale.length]).toEqual([100e3, 10e9, 451]);
  expect(scale.every((value, i) => nearestIndex(scale, value) === i)).toBe(true);
  expect(nearestIndex(scale, 205_714_286)).toBe(scale.indexOf(210e6));
  expect([nearestIndex(COUNTS, 1e6), nearestIndex(COUNTS, -1)]).toEqual([COUNTS.length - 1, 0]);
});

test("a tc string is completed word by word", () => {
  const parameters = [
    { keyword: "target", value: "TIME", default: "15ms", help: "what it aims at" },
    { keyword: "ecn", value: "", default: "", help: "mark" },
  ];
  const qdiscs = [
    { name: "pie", summary: "PIE", required: "", parameters },
    { name: "tbf", summary: "a shaper", required: "rate 1mbit", parameters: [] },
  ];
  const values = (text: string) => completions(text, qdiscs).map(([value]) => value);
  expect(values("p")).toEqual(["pie", "tbf rate 1mbit"]);
  expect(values("pie ")).toEqual(["pie target 15ms", "pie ecn"]);
  expect(values("pie ecn t")).toEqual(["pie ecn target 15ms"]);
  expect(values("pie target ")).toEqual(["pie target 15ms"]);
});

test("a typed queue needs units, as in a file", () => {
  const parameters = [
    { keyword: "target", value: "TIME", default: "15ms", help: "" },
    { keyword: "limit", value: "TIME|BYTES", default: "100ms", help: "" },
    { keyword: "flows", value: "NUMBER", default: "1024", help: "" },
    { keyword: "classic_protection", value: "PERCENTAGE", default: "10%", help: "" },
  ];
  const qdiscs = [{ name: "aqm", summary: "", parameters }];
  for (const [text, unit] of [
    ["aqm target 5", '"target 5ms"'],
    ["aqm flows 8 classic_protection 25", '"classic_protection 25%"'],
  ] as const)
    expect(withoutUnit(text, qdiscs)).toContain(unit);
  for (const text of ["aqm target 5ms", "aqm target 0", "aqm limit 1500", "aqm flows 8", "other target 5"])
    expect(withoutUnit(text, qdiscs)).toBeNull();
});

test("the rates of an encoder are at most its highest, and an address that asks for more is told so", () => {
  const address =
    "link.l.rate=5Mbit&link.l.qdisc=pfifo&flow.c.kind=media&flow.c.cc=gcc&flow.c.rtt=10ms&flow.c.rate_max=100kbit";
  const rates = (read: ReturnType<typeof readAddress>) => {
    const flow = withinRates(read.run?.flows[0] as FlowSpec) as FlowSpec & { kind: "media" };
    return [flow.rate_min_bps, flow.rate_start_bps, flow.rate_bps];
  };
  const usual = readAddress(address);
  expect(usual.problems).toEqual([]);
  expect(rates(usual)).toEqual([100e3, 100e3, 100e3]);
  const above = readAddress(`${address}&flow.c.rate_start=2Mbit`);
  expect(above.problems.join()).toContain('flow.c.rate_start = "2Mbit" is above rate_max = "100kbit"');
  expect(rates(above)).toEqual([100e3, 100e3, 100e3]);
  const faster = {
    ...(usual.run as Run).flows[0],
    rate_min_bps: 150e3,
    rate_start_bps: 1e6,
    rate_bps: 2e6,
  } as FlowSpec;
  expect(withinRates(faster)).toEqual(faster);
  expect(withinRates((run as Run).flows[0] as FlowSpec)).toBe((run as Run).flows[0]);
});
