import { expect, test } from "vitest";
import { completions } from "../controls/link";
import { COUNTS, logarithmic, nearestIndex } from "../controls/scale";
import type { Run, TimedChange } from "../types";
import { readAddress } from "./address";
import { folded, setAt, withMade } from "./run";

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
