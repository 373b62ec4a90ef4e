/** What Python is held against by tests/live/test_model.py: `npm test -- -u` writes the files anew. */
import { describe, expect, test } from "vitest";
import known from "../generated/keys.json";
import { toJson } from "../json";
import type { Run } from "../types";
import { readAddress, writeAddress } from "./address";
import { NOT_HELD } from "./keys";
import { changedMedium, changedStation, kindOf } from "./media";
import { open, PRESETS } from "./presets";
import { withMade } from "./run";
import { endedAt, toToml } from "./toml";
import { type Dimension, FREQUENCY, parse, RATE, SIZE, TIME } from "./units";

const FOLDER = "../../../tests/live/page";

describe.each(PRESETS)("preset $id", (preset) => {
  const { run, problems } = open(preset);

  test("is read without a problem, and back", () => {
    expect(problems).toEqual([]);
    expect(open({ ...preset, address: writeAddress(run as Run, new Map()) }).run).toEqual(run);
  });

  test("is the file and the description that Python compares", async () => {
    await expect(toToml(run as Run, preset)).toMatchFileSnapshot(`${FOLDER}/presets/${preset.id}.toml`);
    const described = { study: preset.study ?? null, run };
    await expect(`${toJson(described)}\n`).toMatchFileSnapshot(`${FOLDER}/presets/${preset.id}.json`);
  });
});

test("a run that was changed by hand is the file and the description that Python compares", async () => {
  const { run } = readAddress(
    "link.up.rate=20Mbit&link.up.qdisc=pfifo&link.down.rate=100Mbit&link.down.qdisc=fq_codel&link.down.burst=3kB" +
      "&flow.l4s.cc=prague&flow.l4s.rtt=10ms&flow.l4s.path=up&flow.l4s.options.fallback=correct&flow.l4s.count=2" +
      "&flow.get.kind=web&flow.get.cc=cubic&flow.get.rtt=20ms&flow.get.requests=60/s&flow.get.count=0&flow.get.reverse_path=up" +
      "&flow.tv.kind=video&flow.tv.cc=bbr3&flow.tv.rate=4Mbit&flow.tv.rtt=1.000001ms&flow.tv.controls=30/min&flow.tv.dscp=ef" +
      "&flow.udp.kind=cbr&flow.udp.rate=1Mbit&flow.udp.rtt=0s&flow.udp.ecn=ect1&flow.mine.kind=udp-prague&flow.mine.rtt=10ms" +
      "&flow.late.cc=reno&flow.late.rtt=5ms&flow.late.start=30s&impair.wifi.netem=delay+2ms&impair.wifi.before=up" +
      "&seed=3&trial=2&warmup=1s&at.1.time=2s&at.1.link.up.qdisc=dualpi2",
  );
  const made = [
    { time_ns: 3_123_456_789, link: "up", rate_bps: 5_000_001 },
    { time_ns: 4e9, flow: "get", count: 3 },
    { time_ns: 4e9, flow: "l4s", rtt_ns: 30e6 },
    { time_ns: 5e9, flow: "udp", rate_bps: 2e6 },
  ];
  const ended = endedAt(withMade(run as Run, made), 12_345_678_901);
  await expect(toToml(ended, { title: "By hand" })).toMatchFileSnapshot(`${FOLDER}/by-hand.toml`);
  await expect(`${toJson({ run: ended })}\n`).toMatchFileSnapshot(`${FOLDER}/by-hand.json`);
});

test("a run whose medium was changed by hand is the file and the description that Python compares", async () => {
  const { run, problems } = readAddress(
    "link.home.medium=wifi+ax80+mcs+7+per+0.01&link.home.qdisc=fq_codel&link.home.qdisc_up=pfifo&link.home.station.far.medium=mcs+2" +
      "&flow.a.cc=prague&flow.a.rtt=10ms&flow.a.station=far&flow.b.cc=cubic&flow.b.rtt=20ms&flow.b.station=near" +
      "&at.1.time=2s&at.1.link.home.medium=wifi+mcs+5&at.1.link.home.station.near.medium=mcs+3+per+0.1&at.2.time=3s&at.2.link.home.qdisc_up=pie",
  );
  expect(problems).toEqual([]);
  const made = [
    { time_ns: 4e9, link: "home", medium: "wifi per 0.2" },
    { time_ns: 5e9, link: "home", stations: { far: "mcs 0" } },
  ];
  const ended = endedAt(withMade(run as Run, made), 10e9);
  await expect(toToml(ended, { title: "A medium by hand" })).toMatchFileSnapshot(`${FOLDER}/medium-by-hand.toml`);
  await expect(`${toJson({ run: ended })}\n`).toMatchFileSnapshot(`${FOLDER}/medium-by-hand.json`);
});

test("changed words of a medium and of a station are those that Python compares", async () => {
  const media = [
    ["wifi ax80 mcs 7 per 0.01", "wifi mcs 3"], ["wifi", "wifi per 0.1 noeifs"], ["wifi ac80 sgi", "wifi gi 0.8us"],
    ["wifi snr 30 sd 2 tau 1s", "wifi snr 20 tau 100ms"], ["wifi aql aql-low 4ms", "wifi aql-low 3ms aql-high 9ms"],
    ["docsis up 20mbit down 200mbit", "docsis up 10mbit load 50mbit vary 20%"], ["docsis ggr 2mbit", "docsis ggr 0bit"],
    ["nr 40MHz cqi 11 walk", "nr rate 30mbit"], ["nr rate 30mbit", "nr cqi 3 rr"], ["lte cqi 9 um", "lte cqi 5 am bler 0.2"],
    ["nr ar1 0.5 2s rr", "nr pf alpha 2 share 4"], ["leo", "leo down 100mbit pop 20ms p-ho 0.5 outage 1s loss 0"],
  ]; // biome-ignore format: a table
  const stations = [
    ["wifi mcs 7", "mcs 2 per 0.1", "mcs 0"], ["wifi ac80 snr 30", "snr 12 sd 4", "snr 20"], ["nr cqi 11", "cqi 6", "rate 5mbit bler 0.3"],
  ]; // biome-ignore format: a table
  const told = [
    ...media.map(([before = "", change = ""]) => [before, change, changedMedium(before, change)]),
    ...stations.map(([medium = "", own = "", change = ""]) => [
      medium,
      own,
      change,
      changedStation(kindOf(medium), own, change),
    ]),
  ];
  await expect(`${told.map((one) => JSON.stringify(one)).join("\n")}\n`).toMatchFileSnapshot(`${FOLDER}/media.jsonl`);
});

test("what the page has not is a key of the file", () => {
  const names = (keys: readonly { key: string }[]) => keys.map(({ key }) => key);
  const flows = new Set(Object.values(known.flows).flatMap(names));
  for (const [table, keys] of Object.entries(NOT_HELD)) {
    const valid = table === "flow" ? flows : new Set(names(known.tables[table as keyof typeof known.tables]));
    expect(Object.keys(keys).filter((key) => !valid.has(key))).toEqual([]);
  }
});

test("quantities and their sentences are those that Python compares", async () => {
  const texts: [Dimension, string[]][] = [
    [RATE, ["100Mbit", "1.5 Gbit", "205714286bit", "5mbit/s", "1e-3kbit", ".5bit", "1.5bit", "10", "10Mbps", "50MB", "1MiB/s", "8Bytes/s", "1,5Mbit", "fast", "5Mbits", "1e-9bit", "0bit"]],
    [TIME, ["15ms", "1.5us", "2h", "3µs", "-1s", "1m", "5", "5sec", "0.1ns", "1e3s", ""]],
    [SIZE, ["1500B", "64KiB", "1.5MB", "3kb", "2K", "1TB", "12kbit"]],
    [FREQUENCY, ["10/s", "30/min", "0.5/s", "5/h", "5"]],
  ]; // biome-ignore format: a table
  const told = texts.flatMap(([dimension, all]) => all.map((text) => [dimension.name, text, result(text, dimension)]));
  await expect(`${told.map((one) => JSON.stringify(one)).join("\n")}\n`).toMatchFileSnapshot(`${FOLDER}/units.jsonl`);
});

function result(text: string, dimension: Dimension): number | string {
  try {
    return parse(text, dimension);
  } catch (error) {
    return (error as Error).message;
  }
}
