/** What a slider steps through. */

/** All numbers of two figures from `least` to `most`: some ninety in each decade. */
export function logarithmic(least: number, most: number): number[] {
  const values: number[] = [];
  for (let power = Math.floor(Math.log10(least)); 10 ** power <= most; power++) {
    for (let figures = 10; figures < 100; figures++) {
      const value = Number(`${figures}e${power - 1}`);
      if (value >= least && value <= most) values.push(value);
    }
  }
  return values;
}

/** Numbers of flows: one by one, then in wider steps. */
export const COUNTS: readonly number[] = [...range(0, 10, 1), ...range(12, 20, 2), ...range(25, 50, 5), 75, 100];

function range(first: number, last: number, step: number): number[] {
  return Array.from({ length: (last - first) / step + 1 }, (_, i) => first + i * step);
}

/** The index of what is nearest to `value`. */
export function nearestIndex(scale: readonly number[], value: number): number {
  const above = scale.findIndex((one) => one >= value);
  if (above < 0) return scale.length - 1;
  const [low, high] = [scale[above - 1] ?? Number.NEGATIVE_INFINITY, scale[above] ?? 0];
  return value - low < high - value ? above - 1 : above;
}
