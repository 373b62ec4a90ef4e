import { expect, test } from "vitest";
import { withStandby } from "../controls/groups";
import { readAddress } from "../model/address";
import type { Run } from "../types";
import { bottleneckOf, measured, type Scene } from "./scene";

const runOf = (words: string) => withStandby(readAddress(words).run as Run);

test("the bottleneck is the slowest link that data takes", () => {
  const links = "link.down.rate=50Mbit&link.access.rate=100Mbit&link.up.rate=10Mbit";
  const flow = "flow.home.cc=cubic&flow.home.rtt=20ms";
  expect(bottleneckOf(runOf(`${links}&${flow}&flow.home.path=down,access&flow.home.reverse_path=up`))).toBe("down");
  expect(bottleneckOf(runOf(`${links}&${flow}&flow.home.path=up&flow.home.reverse_path=down`))).toBe("up");
});

test.each([
  [8, 20, "last 8 s"],
  [0.53, 20, "last 0.5 s"],
  [20, 20, "last 20 s"],
  [65, 60, "last 60 s"],
])("at %d s a window of %d s says what there is", (now_s, window_s, words) => {
  const store = { distributions: { last: () => new Map() } };
  const scene = { run: null, store, now_s, window_s, changed_s: Number.NEGATIVE_INFINITY };
  expect(measured(scene as unknown as Scene).words).toBe(words);
});
