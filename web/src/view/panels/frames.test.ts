import { expect, test } from "vitest";
import type { Preset } from "../../model/presets";
import { open, PRESETS } from "../../model/presets";
import type { Run, Samples } from "../../types";
import { Store } from "../store";
import { tallyOf } from "./frames";

test("frames of calls are told apart by flow, time and deadline", () => {
  const { run } = open(PRESETS.find(({ id }) => id === "call") as Preset);
  const store = new Store();
  store.show(run as Run);
  const transfers = {
    flow: ["call", "call", "call", "l4s-call", "upload"],
    kind: ["frame", "frame", "frame", "frame", "flow"],
    start_s: [1, 11, 12, 12, 0],
    size_bytes: [1000, 1000, 1000, 1000, 1e6],
    completion_ms: [500, 99, 101, 30, 400],
  };
  const series = { time_s: [], flow: [], link: [], queue: [] };
  store.add({ now_ns: 20e9, series, transfers } as unknown as Samples);
  expect([store.frames.count, store.dots.count]).toEqual([4, 1]);
  const of = (name: string) => {
    const flow = run?.flows.find((one) => one.name === name);
    if (flow?.kind !== "media") throw new Error(`${name} is no call`);
    return tallyOf({ store, now_s: 20, window_s: 10 }, flow);
  };
  expect(of("call")).toEqual({ frames: 2, late: 1, longest_ms: 101 });
  expect(of("l4s-call")).toEqual({ frames: 1, late: 0, longest_ms: 30 });
});
