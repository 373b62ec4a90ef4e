/** Where things are in the picture of the queue, in CSS pixels. The head of each lane is at the gate, on the right. */

export interface Row {
  name: string;
  top: number;
  height: number;
}

export interface Layout {
  rows: Row[];
  /** Lanes reach from here … */
  left: number;
  /** … to here, where the link begins. */
  gate: number;
  /** How long it takes, in pixels, until a packet has the link's width. */
  funnel: number;
  right: number;
  wire: { top: number; height: number };
  axis: number;
  labelsAbove: boolean;
}

export function layoutOf(names: readonly string[], width: number, height: number): Layout {
  const labelsAbove = width < 560;
  const left = labelsAbove ? 8 : 104;
  const gate = Math.round(width - Math.max(84, Math.min(0.22 * width, 210)));
  const axis = height - 34;
  const top = 6;
  const room = (axis - top) / Math.max(names.length, 1);
  const label = labelsAbove ? 15 : 0;
  const gap = names.length > 3 ? 4 : 12;
  const laneHeight = Math.max(5, Math.min(44, room - gap - label));
  const used = names.length * (laneHeight + label + gap) - gap;
  const first = top + Math.max(0, (axis - top - used) / 2);
  const rows = names.map((name, i) => ({
    name,
    top: Math.round(first + i * (laneHeight + label + gap) + label),
    height: Math.round(laneHeight),
  }));
  const middle = rows.length
    ? ((rows[0] as Row).top + (rows.at(-1) as Row).top + (rows.at(-1) as Row).height) / 2
    : axis / 2;
  const wireHeight = Math.round(Math.min(32, Math.max(laneHeight, 14)));
  return {
    rows,
    left,
    gate,
    funnel: 34,
    right: width,
    wire: { top: Math.round(middle - wireHeight / 2), height: wireHeight },
    axis,
    labelsAbove,
  };
}

const STEPS = [1, 2, 5];

/** How many packets a lane has room for: a round number above the longest, which shrinks only after a while. */
export class Scale {
  /** What is shown; it glides to `wanted`. */
  shown = 25;
  private wanted = 25;
  private since_ms = 0;

  update(longest: number, now_ms: number, dt_ms: number): void {
    const fit = Scale.fit(longest);
    if (fit > this.wanted) this.wanted = fit;
    if (fit >= this.wanted) this.since_ms = now_ms;
    else if (now_ms - this.since_ms > 4000) this.wanted = Math.max(fit, Scale.below(this.wanted));
    const part = 1 - Math.exp(-dt_ms / 180);
    this.shown *= (this.wanted / this.shown) ** part;
    if (Math.abs(this.shown / this.wanted - 1) < 0.002) this.shown = this.wanted;
  }

  reset(): void {
    this.shown = this.wanted = 25;
  }

  private static fit(longest: number): number {
    let step = 25;
    while (longest * 1.05 > step) step = Scale.above(step);
    return step;
  }

  private static above(step: number): number {
    const power = 10 ** Math.floor(Math.log10(step) + 1e-9);
    return (STEPS.find((one) => one * power > step * 1.001) ?? 10) * power;
  }

  private static below(step: number): number {
    const power = 10 ** Math.floor(Math.log10(step * 0.999) + 1e-9);
    return Math.max(25, (STEPS.findLast((one) => one * power < step * 0.999) ?? 1) * power);
  }
}
