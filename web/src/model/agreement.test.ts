/** What Python is held against by tests/live/test_model.py: `npm test -- -u` writes the files anew. */
import { describe, expect, test } from "vitest";
import known from "../generated/keys.json";
import { toJson } from "../json";
import type { Run } from "../types";
import { readAddress, writeAddress } from "./address";
import { NOT_HELD } from "./keys";
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
    [RATE, ["100Mbit", "1.5 Gbit", "205714286bit", "5mbit/s", "1e-3kbit", ".5bit", "1.5bit", "10", "10Mbps", "1MiB/s", "8Bytes/s", "1,5Mbit", "fast", "5Mbits", "1e-9bit", "0bit"]],
    [TIME, ["15ms", "1.5us", "2h", "3µs", "-1s", "1m", "5", "5sec", "0.1ns", "1e3s", ""]],
    [SIZE, ["1500B", "64KiB", "1.5MB", "3kb", "2K", "1TB"]],
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
