/**
 * Distributions of a stretch of time, from counts since the start: the bins of the core (`crates/core/src/distribution.rs`)
 * are the same for all times, so a difference of two counts is the distribution in between.
 */
import type { Histogram } from "../types";

// Bins are 1.024 us wide, and above 131 us a 64th to a 128th of the time.
const UNIT_MS = 1.024e-3;
const PER_OCTAVE = 64;

/** The number of the bin that begins at `low_ms`. */
export function binAt(low_ms: number): number {
  const units = Math.round(low_ms / UNIT_MS);
  const octave = Math.max(0, Math.floor(Math.log2(Math.max(units, 1))) - Math.log2(PER_OCTAVE));
  return octave * PER_OCTAVE + Math.floor(units / 2 ** octave);
}

/** Where a bin begins, in ms. */
export function lowOf(bin: number): number {
  const octave = Math.max(0, Math.floor(bin / PER_OCTAVE) - 1);
  return (bin - octave * PER_OCTAVE) * 2 ** octave * UNIT_MS;
}

/** Counts per bin; beyond its end they are 0. */
export type Counts = Float64Array;

export function countsOf(bins: Histogram["bins"]): Counts {
  const last = bins.at(-1);
  const counts = new Float64Array(last ? binAt(last[0]) + 1 : 0);
  for (const [low, , count] of bins) {
    const bin = binAt(low);
    counts[bin] = (counts[bin] ?? 0) + count;
  }
  return counts;
}

/** What came between two counts of one thing. */
export function difference(later: Counts, earlier: Counts | undefined): Counts {
  return later.map((count, bin) => count - (earlier?.[bin] ?? 0));
}

export function total(counts: Counts): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

/** Quantile in ms, as the upper end of its bin, as the results have it; undefined without values. */
export function quantile(counts: Counts, q: number): number | undefined {
  const rank = Math.max(1, Math.ceil(q * total(counts)));
  let seen = 0;
  const bin = counts.findIndex((count) => {
    seen += count;
    return seen >= rank;
  });
  return bin < 0 ? undefined : lowOf(bin + 1);
}

/**
 * Distributions as curves over one axis: `x` ms, and of each the part of its values that is below (`below`), or at or
 * above. Neighbouring bins are joined so that about `points` per decade are left. Of nothing, the curve is NaN.
 */
export function curves(of: readonly Counts[], below: boolean, points = 60): { x: number[]; ys: number[][] } {
  const totals = of.map(total);
  const seen = of.map(() => 0);
  const found = { x: [] as number[], ys: of.map(() => [] as number[]) };
  const first = Math.min(...of.map((counts) => counts.findIndex((count) => count > 0)).filter((bin) => bin >= 0));
  const end = Math.max(...of.map((counts) => counts.findLastIndex((count) => count > 0))) + 1;
  let told = Number.NEGATIVE_INFINITY;
  for (let bin = first; bin <= end; bin += 1) {
    const ms = Math.max(lowOf(bin), UNIT_MS / 2);
    if (bin === end || Math.log10(ms) - told >= 1 / points) {
      told = Math.log10(ms);
      found.x.push(ms);
      found.ys.forEach((y, i) => {
        const part = (seen[i] as number) / (totals[i] as number);
        y.push(below ? part : 1 - part);
      });
    }
    of.forEach((counts, i) => {
      seen[i] = (seen[i] as number) + (counts[bin] ?? 0);
    });
  }
  return found;
}

export function keyOf(of: {
  quantity: string;
  flow: string | null;
  link: string | null;
  queue: string | null;
}): string {
  return [of.quantity, of.flow ?? "", of.link ?? "", of.queue ?? ""].join("|");
}

/** Counts at some instants of the past, of which only those are kept that a window of time needs. */
interface Snapshot {
  time_s: number;
  counts: Map<string, Counts>;
}

function between(earlier: Snapshot | undefined, later: Snapshot): Map<string, Counts> {
  return new Map([...later.counts].map(([key, counts]) => [key, difference(counts, earlier?.counts.get(key))]));
}

export class Snapshots {
  private readonly kept: Snapshot[] = [];

  constructor(readonly capacity: number) {}

  clear(): void {
    this.kept.length = 0;
  }

  add(time_s: number, histograms: readonly Histogram[]): void {
    const counts = new Map(histograms.map((histogram) => [keyOf(histogram), countsOf(histogram.bins)]));
    this.kept.push({ time_s, counts });
    if (this.kept.length > this.capacity) this.kept.shift();
  }

  /** The distributions of what came within the last `window_s`, as far as snapshots reach. */
  last(window_s: number): Map<string, Counts> {
    const newest = this.kept.at(-1);
    if (!newest) return new Map();
    const from = newest.time_s - window_s;
    // Counts begin with the run, so before its start there is nothing to take away.
    const earlier = from <= 0 ? undefined : (this.kept.findLast((one) => one.time_s <= from) ?? this.kept[0]);
    return between(earlier === newest ? undefined : earlier, newest);
  }

  /** The distributions of what came since an instant, as far as snapshots reach. */
  since(from_s: number): Map<string, Counts> {
    const [first, newest] = [this.kept.find((one) => one.time_s >= from_s), this.kept.at(-1)];
    return first && newest && first !== newest ? between(first, newest) : new Map();
  }
}
