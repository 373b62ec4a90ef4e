/** Curves by uPlot: axes with units, colours that follow the page, and the ghost of what was before. */
import uPlot from "uplot";
import type { Look } from "./roles";
import { colourOf, FONT, theme } from "./theme";

export interface Curve {
  key: string;
  look: Look;
  width?: number;
  /** Part of its colour's strength. */
  alpha?: number;
  /** Keys of the curves between which its colour is laid, pale. */
  band?: readonly [string, string];
  hidden?: boolean;
  /** Points instead of a line, for what is there now and then. */
  dots?: boolean;
}

export interface Axis {
  /** Whether it is logarithmic; asked when the set of curves changes. */
  log?: boolean | (() => boolean);
  /** Largest value that the axis shows in any case; of a logarithmic one, the least, too. */
  to?: number;
  from?: number;
  /** Where it ends in any case. */
  least?: number;
  most?: number;
  label: string;
  /** What stands at a tick. */
  text?: (value: number) => string;
}

export interface Line {
  x: ArrayLike<number>;
  y: ArrayLike<number>;
  look: Look;
}

type Range = [number, number];

const isDecade = (value: number): boolean => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6;
const decadeOf = (value: number): number | null => (isDecade(value) ? value : null);

const logarithmic = ({ log }: Axis): boolean => (typeof log === "function" ? log() : log === true);

const pale = (colour: string, alpha: number): string =>
  /^#[0-9a-f]{6}$/i.test(colour)
    ? colour +
      Math.round(alpha * 255)
        .toString(16)
        .padStart(2, "0")
    : colour;

/** The least round number that is at least `value`. */
export function roundUp(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * power >= value * 0.9999) ?? 10) * power;
}

function ticks(value: number): string {
  if (value === 0) return "0";
  if (Math.abs(value) < 1e-4) return value.toExponential(0);
  return String(Number(value.toPrecision(10)));
}

export class Chart {
  private plot: uPlot | undefined;
  private curves: readonly Curve[] = [];
  private x: Range = [0, 1];
  private y: Range = [0, 1];
  /** Drawn behind the curves, pale and dashed. */
  ghosts: readonly Line[] = [];

  constructor(
    private readonly root: HTMLElement,
    private readonly axes: { x: Axis; y: Axis },
  ) {
    new ResizeObserver(() => {
      const size = this.size();
      if (this.plot && (this.plot.width !== size.width || this.plot.height !== size.height)) this.plot.setSize(size);
    }).observe(root);
  }

  /** Colours changed. */
  redraw(): void {
    this.plot?.redraw(false, true);
  }

  setCurves(curves: readonly Curve[]): void {
    if (JSON.stringify(curves) === JSON.stringify(this.curves) && this.plot) return;
    this.curves = curves;
    this.plot?.destroy();
    this.plot = undefined;
  }

  /** `data`: x, and the values of each curve; missing ones are NaN. `x`: what the axis shows. */
  draw(data: readonly ArrayLike<number>[], x: Range): void {
    this.x = x;
    this.y = this.yRange(data, x);
    const aligned = data as unknown as uPlot.AlignedData;
    if (this.plot) this.plot.setData(aligned);
    else this.plot = new uPlot(this.options(), aligned, this.root);
  }

  private size(): { width: number; height: number } {
    return { width: Math.max(this.root.clientWidth, 120), height: Math.max(this.root.clientHeight, 90) };
  }

  /** Round, and slow to shrink, so that the axis does not jump with every sample. */
  private yRange(data: readonly ArrayLike<number>[], [from, to]: Range): Range {
    const { y } = this.axes;
    const isLog = logarithmic(y);
    let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    const look = (xs: ArrayLike<number>, ys: ArrayLike<number>) => {
      for (let i = 0; i < ys.length; i += 1) {
        const value = ys[i] as number;
        if (!((xs[i] as number) >= from && (xs[i] as number) <= to)) continue;
        if (isLog && value <= 0) continue;
        if (value < min) min = value;
        if (value > max) max = value;
      }
    };
    for (let i = 1; i < data.length; i += 1) look(data[0] as ArrayLike<number>, data[i] as ArrayLike<number>);
    for (const ghost of this.ghosts) look(ghost.x, ghost.y);
    if (y.to !== undefined) max = Math.max(max, y.to);
    if (isLog) {
      min = Math.min(min, y.from ?? min);
      const low = Math.max(y.least ?? 0, 10 ** Math.floor(Math.log10(min) + 1e-9));
      const high = Math.min(y.most ?? Number.POSITIVE_INFINITY, 10 ** Math.ceil(Math.log10(max) - 1e-9));
      return high > low ? [low, high] : [y.least ?? 0.1, y.most ?? 10];
    }
    let high = roundUp(max * 1.04);
    const [, former] = this.y;
    if (former > high && max > 0.55 * former) high = former;
    return [0, Math.min(high, y.most ?? high)];
  }

  private options(): uPlot.Options {
    const { x, y } = this.axes;
    const axis = (of: Axis, decades?: uPlot.Axis.Filter): uPlot.Axis => ({
      stroke: () => theme.dim,
      grid: { stroke: () => theme.grid, width: 1, ...(decades && { filter: decades }) },
      ticks: { stroke: () => theme.grid, width: 1, size: 4, ...(decades && { filter: decades }) },
      font: FONT,
      labelFont: FONT,
      label: of.label,
      labelSize: 16,
      labelGap: 0,
      gap: 3,
      values: (_plot, splits) =>
        splits.map((value) => {
          if (value === null) return "";
          if (logarithmic(of) && !isDecade(value)) return "";
          return of.text ? of.text(value) : ticks(value);
        }),
    });
    const bands: uPlot.Band[] = [];
    const place = (key: string) => 1 + this.curves.findIndex((curve) => curve.key === key);
    for (const { band, look } of this.curves) {
      if (band) {
        bands.push({ series: [place(band[0]), place(band[1])], fill: () => pale(colourOf(look), 0.2) });
      }
    }
    return {
      ...this.size(),
      padding: [8, 16, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { time: false, distr: logarithmic(x) ? 3 : 1, range: () => this.x },
        y: { distr: logarithmic(y) ? 3 : 1, range: () => this.y },
      },
      axes: [
        { ...axis(x), size: 24, space: 60 },
        { ...axis(y, logarithmic(y) ? (_plot, splits) => splits.map(decadeOf) : undefined), size: 44, space: 32 },
      ],
      series: [
        {},
        ...this.curves.map((curve) => ({
          stroke: () => (curve.hidden ? "transparent" : pale(colourOf(curve.look), curve.alpha ?? 1)),
          width: curve.hidden || curve.dots ? 0 : (curve.width ?? 1.6),
          dash: [...curve.look.dash],
          points: curve.dots
            ? { show: true, size: 4, width: 0, fill: () => colourOf(curve.look), space: 0 }
            : { show: false },
          spanGaps: true,
        })),
      ],
      bands,
      hooks: { drawAxes: [(plot) => this.drawGhosts(plot)] },
    };
  }

  private drawGhosts(plot: uPlot): void {
    if (!this.ghosts.length) return;
    const { ctx } = plot;
    const { left, top, width, height } = plot.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    ctx.lineWidth = 1.4 * uPlot.pxRatio;
    ctx.setLineDash([3 * uPlot.pxRatio, 3 * uPlot.pxRatio]);
    for (const { x, y, look } of this.ghosts) {
      ctx.strokeStyle = pale(colourOf(look), 0.5);
      ctx.beginPath();
      for (let i = 0; i < x.length; i += 1) {
        const [at, value] = [x[i] as number, y[i] as number];
        if (Number.isNaN(value)) continue;
        ctx.lineTo(plot.valToPos(at, "x", true), plot.valToPos(value, "y", true));
      }
      ctx.stroke();
    }
    ctx.restore();
  }
}
