import { expect, test } from "vitest";
import type { Histogram } from "../types";
import { binAt, countsOf, curves, lowOf, quantile, Snapshots, total } from "./distribution";

test("bins are those of the core", () => {
  for (let bin = 0; bin < 2000; bin += 1) {
    expect(binAt(lowOf(bin))).toBe(bin);
    const [low, width] = [lowOf(bin), lowOf(bin + 1) - lowOf(bin)];
    expect(width).toBeGreaterThan(0);
    expect(Math.abs(width - 1.024e-3) < 1e-12 || width * 64 <= low * (1 + 1e-12)).toBe(true);
  }
  // The edges of two bins that `l4slab run` wrote.
  expect(lowOf(binAt(0.131072) + 1)).toBeCloseTo(0.13312, 9);
  expect(lowOf(binAt(15.204352) + 1)).toBeCloseTo(15.335424, 9);
});

const histogram = (values: number[], queue = "L"): Histogram => ({
  quantity: "sojourn_ms",
  flow: null,
  link: "bottleneck",
  queue,
  bins: [...new Set(values)]
    .sort((a, b) => a - b)
    .map((bin) => [lowOf(bin), lowOf(bin + 1), values.filter((value) => value === bin).length]),
});

test("the distribution since an instant has nothing from before it", () => {
  const snapshots = new Snapshots(100);
  expect(snapshots.since(0).size).toBe(0);
  for (let second = 1; second <= 10; second += 1) {
    snapshots.add(second, [histogram(Array.from({ length: 10 * second }, (_, n) => (n < 50 ? 900 : 3)))]);
  }
  const counts = snapshots.since(5).get("sojourn_ms||bottleneck|L") ?? new Float64Array();
  expect([counts[900], counts[3]]).toEqual([0, 50]);
  // No snapshot tells yet what came since then.
  expect(snapshots.since(10).size).toBe(0);
});

test("the distribution of a window is what came within it", () => {
  const snapshots = new Snapshots(100);
  const values: number[] = [];
  const key = "sojourn_ms||bottleneck|L";
  expect(snapshots.last(5).size).toBe(0);
  for (let second = 1; second <= 30; second += 1) {
    for (let n = 0; n < 50; n += 1) values.push((second * 37 + n * n * 11) % 1200);
    snapshots.add(second, [histogram(values)]);
    for (const window of [1, 5, 20, 100]) {
      const counts = snapshots.last(window).get(key) ?? new Float64Array();
      const inside = values.slice(-50 * Math.min(window, second));
      expect(total(counts)).toBe(inside.length);
      inside.sort((a, b) => a - b);
      for (const q of [0.01, 0.5, 0.99, 1]) {
        const exact = inside[Math.ceil(q * inside.length) - 1] as number;
        expect(quantile(counts, q)).toBe(lowOf(exact + 1));
      }
    }
  }
});

test("no more snapshots are kept than told, and the window is then as long as they reach", () => {
  const snapshots = new Snapshots(3);
  for (let second = 1; second <= 9; second += 1) snapshots.add(second, [histogram(Array(second).fill(10))]);
  expect(total(snapshots.last(60).get("sojourn_ms||bottleneck|L") ?? new Float64Array())).toBe(9);
  expect(total(snapshots.last(6).get("sojourn_ms||bottleneck|L") ?? new Float64Array())).toBe(2);
});

test("a queue that began within the window counts from its beginning", () => {
  const snapshots = new Snapshots(10);
  snapshots.add(10, [histogram([5])]);
  snapshots.add(20, [histogram([5, 6]), histogram([7, 8], "C")]);
  expect(total(snapshots.last(5).get("sojourn_ms||bottleneck|C") ?? new Float64Array())).toBe(2);
});

test("curves are monotone, from nothing to all, and exact at their points", () => {
  const bins = [
    [3, 3, 90, 91, 92, 700, 1500],
    [80, 80, 81],
  ];
  const counts = bins.map((values) => countsOf(histogram(values).bins));
  for (const below of [true, false]) {
    const { x, ys } = curves([...counts, new Float64Array()], below);
    ys.slice(0, 2).forEach((y, which) => {
      expect(y[0]).toBe(below ? 0 : 1);
      expect(y.at(-1)).toBe(below ? 1 : 0);
      const values = bins[which] as number[];
      x.forEach((ms, i) => {
        const part = values.filter((bin) => lowOf(bin) < ms - 1e-9).length / values.length;
        expect(y[i]).toBeCloseTo(below ? part : 1 - part, 12);
      });
    });
    expect(ys[2]?.every(Number.isNaN)).toBe(true);
  }
  expect(curves([new Float64Array()], true).x).toEqual([]);
  expect(quantile(new Float64Array(), 0.5)).toBeUndefined();
});
