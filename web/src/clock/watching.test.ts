import { expect, test } from "vitest";
import type { Run } from "../types";
import { DEFAULTS } from "../view/scene";
import { packetsPerSecond, tellsPackets, watchOf } from "./watching";

const at = (rate_bps: number) =>
  ({ links: [{ name: "bottleneck", rate_bps, qdisc: "dualpi2", burst_bytes: 0 }] }) as unknown as Run;

test("single packets are told at real speed up to some 250 Mb/s, and in slow motion of every link", () => {
  expect(packetsPerSecond(at(100e6))).toBeCloseTo(8256, 0);
  expect(tellsPackets(at(100e6), 1)).toBe(true);
  expect(tellsPackets(at(1e9), 1)).toBe(false);
  expect(tellsPackets(at(1e9), 0.1)).toBe(true);
  expect(tellsPackets(at(100e6), 100)).toBe(false);
  expect(tellsPackets(at(100e9), 0.001)).toBe(true);
});

test("a window holds as many samples at each speed", () => {
  for (const window_s of [5, 20, 60] as const) {
    for (const speed of [0.1, 1, 100]) {
      const { sample_ns } = watchOf(at(1e8), speed, { ...DEFAULTS, window_s });
      expect((window_s * speed * 1e9) / sample_ns).toBeCloseTo(1000, 3);
    }
  }
  // In slow motion of a slow link there are few packets, and a rate needs some.
  expect(watchOf(at(8e6), 0.01, DEFAULTS).sample_ns).toBeCloseTo(4 * 1.514e6, -1);
});
