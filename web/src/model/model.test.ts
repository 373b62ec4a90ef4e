import fc from "fast-check";
import { describe, expect, test } from "vitest";
import known from "../generated/defaults.json";
import { runFromJson, toJson } from "../json";
import type { FlowSpec, Run } from "../types";
import { readAddress, writeAddress } from "./address";
import { FLOW } from "./keys";
import { trialOf, trialSeed } from "./seed";
import { endedAt, notYet, toToml } from "./toml";
import { parse, parseInterval, print, printInterval, RATE, SIZE, TIME } from "./units";

function toBase64(json: string): string {
  const bytes = new TextEncoder().encode(json);
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The largest rate that a file may have; sizes and times may be larger. */
const whole = (min: number, max = 1e12) =>
  fc.oneof(fc.integer({ min, max }), fc.integer({ min, max: Math.min(max, min + 100_000) }), fc.constantFrom(min, max));
const name = fc
  .string({ unit: "grapheme", minLength: 1, maxLength: 12 })
  .filter((one) => one.trim() !== "" && !/[.*{}":]/.test(one));

/** Random values of every kind of key, by the name of its field. */
const FIELDS: Record<string, fc.Arbitrary<unknown>> = {
  count: fc.integer({ min: 0, max: 100_000 }),
  start_ns: whole(0, 1e12),
  stop_ns: fc.option(whole(2e12, 6e14)),
  dscp: fc.integer({ min: 0, max: 63 }),
  rtt_ns: whole(1),
  cc: fc.constantFrom("prague", "cubic", "cubic-sce"),
  ecn: fc.option(fc.constantFrom("accecn", "classic", "sce", "off")),
  peer_ecn: fc.option(fc.constantFrom("accecn", "classic", "sce", "off")),
  pace_bps: fc.option(whole(1)),
  receive_window_bytes: fc.option(whole(1)),
  options: fc.dictionary(
    fc.stringMatching(/^[a-z_]{1,8}$/),
    fc.string({ unit: "grapheme" }).filter((s) => !s.includes("\0")),
  ),
  bytes: fc.option(whole(1)),
  interval_ns: whole(1000, 200_000_000),
  size_alpha: fc.double({ min: 0.001, max: 100, noNaN: true }),
  size_min_bytes: whole(1, 1e6),
  size_max_bytes: whole(1e6),
  rate_bps: whole(1),
  spread: fc.double({ min: 0, max: 10, noNaN: true }).map((x) => x + 0),
  control_interval_ns: fc.option(whole(1000, 200_000_000)),
  batch: fc.integer({ min: 1, max: 65_536 }),
  packet_bytes: fc.integer({ min: 192, max: 9014 }),
};

const MEDIA_FIELDS: Record<string, fc.Arbitrary<unknown>> = {
  ecn: fc.option(fc.constantFrom("not-ect", "ect0", "ect1")),
  rate_bps: whole(1000),
  rate_min_bps: whole(1, 1000),
  rate_start_bps: whole(1, 1000),
  setup_ns: fc.option(whole(0)),
  encoder: fc.constantFrom(null, "even", "uniform", "lognormal", "rfc8593", "sharing", "vp8"),
  reaction_ns: fc.option(whole(0)),
  keyframe_interval_ns: fc.option(whole(1)),
  keyframe_ratio: fc.double({ min: 1, max: 1000, noNaN: true }),
  feedback: fc.constantFrom("ccfb", "twcc"),
  feedback_interval_ns: fc.option(whole(1)),
  repair: fc.constantFrom(null, "none", "nack", "nack+fec"),
  deadline_ns: whole(1),
  audio_bps: fc.option(whole(1)),
};

function flow(links: string[]): fc.Arbitrary<Omit<FlowSpec, "name">> {
  const kinds = Object.keys(FLOW) as FlowSpec["kind"][];
  return fc.constantFrom(...kinds).chain((kind) => {
    const fields = FLOW[kind].map(({ field }) => field);
    const owns: Partial<Record<FlowSpec["kind"], Record<string, fc.Arbitrary<unknown>>>> = {
      cbr: { ecn: fc.constantFrom("not-ect", "ect0", "ect1") },
      media: MEDIA_FIELDS,
    };
    const own = owns[kind] ?? {};
    const some = fc.shuffledSubarray(links, { minLength: 1 });
    const paths = { kind: fc.constant(kind), path: some, reverse_path: fc.shuffledSubarray(links) };
    const all: Record<string, fc.Arbitrary<unknown>> = { ...FIELDS, ...own, ...paths };
    return fc.record(
      Object.fromEntries(fields.map((field) => [field, all[field] ?? fc.constant(null)])),
    ) as unknown as fc.Arbitrary<FlowSpec>;
  });
}

const run: fc.Arbitrary<Run> = fc
  .tuple(fc.uniqueArray(name, { minLength: 1, maxLength: 4 }), fc.uniqueArray(name, { minLength: 1, maxLength: 5 }))
  .chain(([links, flows]) =>
    fc.record({
      duration_ns: whole(1e12),
      warmup_ns: whole(0, 1e12 - 1),
      seed: fc.oneof(fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), fc.constantFrom(trialSeed(1n), trialSeed(7n, 3))),
      sample_ns: whole(1),
      start_jitter_ns: whole(0),
      links: fc.tuple(
        ...links.map((one) =>
          fc.record({
            name: fc.constant(one),
            rate_bps: whole(1),
            qdisc: fc.string({ unit: "grapheme" }),
            burst_bytes: whole(1, 2 ** 32 - 1),
          }),
        ),
      ),
      flows: fc.tuple(...flows.map((one) => flow(links).map((made) => ({ name: one, ...made })))),
      at: fc.array(
        fc.oneof(
          fc.record({ time_ns: whole(0), link: fc.constantFrom(...links), rate_bps: whole(1) }),
          fc.record({ time_ns: whole(0), link: fc.constantFrom(...links), qdisc: fc.string({ unit: "grapheme" }) }),
          fc.record({ time_ns: whole(0), flow: fc.constantFrom(...flows), rtt_ns: whole(1), count: fc.nat(100) }),
        ),
        { maxLength: 4 },
      ),
    }),
  )
  .map((made) => {
    const at = [...made.at].sort((a, b) => a.time_ns - b.time_ns);
    const first = made.flows[0] as FlowSpec;
    const rewrites = [{ flow: first.name, where: "before", link: first.path[0], from: "ect0", to: "ect1" }];
    const impairs = [{ name: "wifi", netem: "delay 1ms", before: made.links[0]?.name, direction: "both" }];
    return { ...made, at, rewrites, impairs } as unknown as Run;
  });

describe("quantities", () => {
  test("every value survives being written", () => {
    fc.assert(
      fc.property(whole(0), (value) => {
        for (const dimension of [RATE, TIME, SIZE]) expect(parse(print(value, dimension), dimension)).toBe(value);
      }),
    );
  });

  test("every interval that a frequency can give survives being written", () => {
    fc.assert(
      fc.property(whole(1, 60e12), (often) => {
        const interval = parseInterval(
          `${(BigInt(often) / 1_000_000n).toString()}.${String(often % 1e6).padStart(6, "0")}/min`,
        );
        expect(parseInterval(printInterval(interval))).toBe(interval);
      }),
    );
    expect(printInterval(16_666_667)).toBe("60/s");
    expect(printInterval(3_600_000_000_000)).toBe("0.016667/min");
  });

  test("are written as a person would", () => {
    expect([print(100e6, RATE), print(205_714_286, RATE), print(1.5e9, RATE)]).toEqual([
      "100Mbit",
      "205.714286Mbit",
      "1.5Gbit",
    ]);
    expect([print(15e6, TIME), print(20e9, TIME), print(1, TIME), print(0, TIME)]).toEqual([
      "15ms",
      "20s",
      "1ns",
      "0ns",
    ]);
    expect([print(1514, SIZE), print(1e6, SIZE), print(1500, SIZE), print(1600, SIZE)]).toEqual([
      "1514B",
      "1MB",
      "1.5kB",
      "1.6kB",
    ]);
  });
});

describe("a run", () => {
  test("survives the address", () => {
    fc.assert(
      fc.property(run, (one) => {
        const read = readAddress(writeAddress(one, new Map([["speed", "0.5"]])));
        expect(read.problems).toEqual([]);
        expect(read.run).toEqual(one);
        expect(read.view).toEqual(new Map([["speed", "0.5"]]));
      }),
    );
  });

  test("survives as a stored description", () => {
    fc.assert(
      fc.property(run, (one) => {
        expect(runFromJson(toJson(one))).toEqual(one);
        const read = readAddress(`#run=${toBase64(toJson(one))}`);
        expect(read.problems).toEqual([]);
        expect(read.run).toEqual(one);
      }),
    );
  });

  test("that is stored has its queues and options written out, and is read in short", () => {
    const { run: one } = readAddress(
      "link.l.rate=1Mbit&link.l.qdisc=dualpi2&flow.a.cc=prague&flow.a.rtt=1ms&flow.a.options.version=0.5" +
        "&flow.b.cc=cubic&flow.b.rtt=1ms&at.1.time=1s&at.1.link.l.qdisc=codel+ecn",
    );
    const written = (short: string) => Object.entries(known.qdiscs).find(([, of]) => of === short)?.[0] as string;
    const { prague, cubic } = known.controllers;
    const stored = JSON.parse(toJson(one)) as typeof one & Run;
    Object.assign(stored.links[0] as object, { qdisc: written("dualpi2") });
    Object.assign(stored.at[0] as object, { qdisc: written("codel ecn") });
    Object.assign(stored.flows[0] as object, { options: { ...prague.presets.version["0.5"], fallback: "correct" } });
    Object.assign(stored.flows[1] as object, { options: cubic.usual });
    const read = readAddress(`run=${toBase64(JSON.stringify(stored))}`).run as Run;
    expect([read.links, read.at]).toEqual([one?.links, one?.at]);
    const options = read.flows.map((flow) => ("options" in flow ? flow.options : {}));
    expect(options).toEqual([{ version: "0.5", fallback: "correct" }, {}]);
  });

  test("has the seed of its file and trial", () => {
    expect(trialSeed(1n)).toBe(1341732422470200821n);
    expect(trialOf(trialSeed(12n, 5))).toEqual({ seed: 12n, trial: 5 });
  });
});

describe("an address", () => {
  const start = "link.bottleneck.rate=50Mbit&link.bottleneck.qdisc=dualpi2&flow.l4s.cc=prague&flow.l4s.rtt=10ms";

  test("can be read, and written by hand", () => {
    const { run: read } = readAddress(`${start}&at.1.time=20s&at.1.link.bottleneck.rate=5Mbit`);
    expect(read?.at).toEqual([{ time_ns: 20e9, link: "bottleneck", rate_bps: 5e6 }]);
    expect(writeAddress(read as Run, new Map())).toBe(
      "duration=20s&link.bottleneck.rate=50Mbit&link.bottleneck.qdisc=dualpi2&flow.l4s.cc=prague&flow.l4s.rtt=10ms&at.1.time=20s&at.1.link.bottleneck.rate=5Mbit",
    );
  });

  test.each([
    ["flow.l4s.rtt=10", 'flow.l4s.rtt = "10" has no unit; write it out, such as "15ms"'],
    ["flow.l4s.stat=1s", 'flow.l4s.stat = "1s" is not a key here; did you mean "start"?'],
    ["flow.l4s.cwnd=10", 'flow.l4s.cwnd = "10" is not a key here; '],
    ["lnk.bottleneck.rate=1Mbit", 'lnk.bottleneck.rate = "1Mbit" is not a key; did you mean "link"?'],
    ["link.rate=1Mbit", 'link.rate = "1Mbit" is not complete; write for example link.bottleneck.rate=100Mbit'],
    ["nonsense", '"nonsense" in the address is not key=value; '],
    ["flow.l4s.path=up", 'flow.l4s.path = "up" names link "up" wrongly or twice; the only valid one is "bottleneck"'],
    ["at.1.time=2s&at.1.flow.l4s.rate=5Mbit", 'at.1.flow.l4s.rate = "5Mbit" cannot change while it runs; '],
    ["flow.l4s.kind=toString", 'flow.l4s.kind = "toString" is none of "tcp", "web", '],
    ["flow.l4s.dscp=constructor", 'flow.l4s.dscp = "constructor" is no DSCP; '],
    ["run_seed=x", 'run_seed = "x" is not a whole number from 0 to 9223372036854775807'],
  ])("with %s says so in one sentence, and the rest stays", (part, sentence) => {
    const { run: read, problems } = readAddress(`${start}&${part}`);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain(sentence);
    expect(read?.links[0]?.rate_bps).toBe(50e6);
  });

  test("with a broken description says so", () => {
    expect(readAddress("run=abc").problems).toHaveLength(1);
    expect(readAddress("run=abc").run).toBeUndefined();
  });
});

describe("a saved run", () => {
  const { run: read } = readAddress(
    "link.a.rate=1Mbit&link.a.qdisc=pie&flow.x.cc=cubic&flow.x.rtt=10ms&flow.y.cc=cubic&flow.y.rtt=10ms&flow.y.start=9s&at.1.time=5s&at.1.link.a.rate=2Mbit&rewrite.1.flow=y&rewrite.1.where=before:a&rewrite.1.from=ect0&rewrite.1.to=ect1",
  );
  const made = read as Run;

  test("has what had begun", () => {
    const ended = endedAt(made, 6e9);
    expect(ended.flows.map((one) => one.name)).toEqual(["x"]);
    expect([ended.rewrites, ended.at.length, ended.duration_ns]).toEqual([[], 1, 6e9]);
    expect(toToml(ended, { title: 'a "b"' })).toContain('title = "a \\"b\\""\nduration = "6s"\nseed = 1\n');
  });

  test("is refused before anything is measured", () => {
    expect(notYet({ ...made, warmup_ns: 2e9 }, 1e9)).toContain('warmup = "2s"');
    expect(notYet(made, 5e6)).toContain("round trip");
    expect(notYet(made, 5e9)).toBeUndefined();
  });
});
