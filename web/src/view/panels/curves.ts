/** A panel of curves over time. */
import { type Axis, Chart, type Curve, type Line } from "../chart";
import { type LegendEntry, Panel } from "../panel";
import type { Drawn, Scene } from "../scene";
import type { Store } from "../store";
import type { Table } from "../table";
import { figures } from "../theme";

export interface CurveOf extends Curve {
  /** In the legend, under this name; without one it is not there. */
  label?: string;
  /** Of the legend's number: what it is multiplied by, and its unit. */
  factor?: number;
  unit?: string;
  /** The ghost of the former run is drawn of it. */
  ghost?: boolean;
}

const timeText = (value: number): string => `${Number(value.toPrecision(9))}`;

export class Curves implements Drawn {
  readonly panel: Panel;
  private readonly chart: Chart;
  private curves: CurveOf[] = [];

  constructor(
    private readonly scene: Scene,
    into: HTMLElement,
    name: string,
    title: string,
    unit: string,
    y: Omit<Axis, "label">,
    /** Whether means over a few samples are drawn, or each sample. */
    private readonly rows: "fine" | "coarse",
    private readonly choose: () => CurveOf[],
    /** Words where there is nothing to draw. */
    private readonly why: () => string | null = () => null,
  ) {
    this.panel = new Panel(into, name, title, unit);
    this.chart = new Chart(this.panel.body, { x: { label: "time, s", text: timeText }, y: { ...y, label: "" } });
  }

  private get table(): Table {
    return this.scene.store[this.rows];
  }

  arrange(): void {
    this.curves = this.choose();
    this.chart.setCurves(this.curves);
    const legend = this.curves.filter((curve) => curve.label !== undefined);
    this.panel.setLegend(
      legend.map(({ key, label, look, dots }): LegendEntry => {
        return { key, label: label as string, look, drawn: dots ? "dots" : "line" };
      }),
    );
    this.chart.ghosts = this.scene.ghost ? this.ghostsOf(this.scene.ghost) : [];
  }

  private ghostsOf(ghost: Store): Line[] {
    const table = ghost[this.rows];
    return this.curves
      .filter((curve) => curve.ghost)
      .flatMap(({ key, look }) => {
        const y = table.column(key, table.rows);
        return y ? [{ x: table.time(table.rows), y, look }] : [];
      });
  }

  draw(): void {
    if (!this.panel.due) return;
    const words = this.why() ?? (this.table.rows < 2 ? "Nothing has been measured yet." : null);
    this.panel.say(words);
    if (words !== null) return;
    const { now_s, window_s } = this.scene;
    const from = Math.max(0, now_s - window_s);
    const count = this.table.since(from);
    const missing = new Float64Array(count).fill(Number.NaN);
    const columns = this.curves.map(({ key }) => this.table.column(key, count) ?? missing);
    this.chart.draw([this.table.time(count), ...columns], [from, from + window_s]);
  }

  refresh(): void {
    const { coarse } = this.scene.store;
    for (const { key, label, factor, unit } of this.curves) {
      if (label === undefined) continue;
      const value = coarse.get(key);
      this.panel.setValue(key, Number.isNaN(value) ? "" : `${figures(value * (factor ?? 1), 2)}${unit ?? ""}`);
    }
  }

  redraw(): void {
    this.chart.redraw();
  }
}
