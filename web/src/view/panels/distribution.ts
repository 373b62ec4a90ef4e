/** The distribution of the queueing delay over the window, from counts since the start. */

import type { ViewOptions } from "../../types";
import { Chart, type Line } from "../chart";
import { type Counts, curves, keyOf, quantile, total } from "../distribution";
import { Panel } from "../panel";
import { type Look, lookOf, lookOfQueue } from "../roles";
import { countedOf, type Drawn, measured, type Scene, sending } from "../scene";
import type { Store } from "../store";
import { figures } from "../theme";
import { delaysByFlow } from "./over_time";

interface Of {
  key: string;
  label: string;
  look: Look;
}

export class Distribution implements Drawn {
  readonly panel: Panel;
  private readonly charts: Record<ViewOptions["tail"], Chart>;
  private ghosts: Line[] = [];

  constructor(
    private readonly scene: Scene,
    into: HTMLElement,
    choose: (tail: ViewOptions["tail"]) => void,
  ) {
    this.panel = new Panel(into, "distribution", "Distribution of the delay", "");
    const x = { log: true, label: "queueing delay, ms" };
    const places = { cdf: this.panel.body, ccdf: this.panel.body };
    this.charts = {
      cdf: new Chart(places.cdf, { x, y: { to: 1, most: 1, label: "" } }),
      ccdf: new Chart(places.ccdf, { x, y: { log: true, least: 1e-5, most: 1, label: "" } }),
    };
    this.panel.choice(
      "kind of distribution",
      [
        ["cdf", "CDF"],
        ["ccdf", "CCDF"],
      ],
      scene.options.tail,
      choose,
    );
  }

  private get chart(): Chart {
    return this.charts[this.scene.options.tail];
  }

  arrange(): void {
    for (const [tail, chart] of Object.entries(this.charts)) {
      if (tail !== this.scene.options.tail) chart.setCurves([]);
    }
    this.ghosts = this.scene.ghost ? this.ghostsOf(this.scene.ghost) : [];
  }

  /** Queues, or flows where the delay is theirs, of which there are counts. */
  private whose(counts: ReadonlyMap<string, Counts>): Of[] {
    const { scene } = this;
    const flows = sending(scene).map(({ name }) => ({
      key: keyOf({ quantity: "sojourn_ms", flow: name, link: null, queue: null }),
      label: name,
      look: scene.looks.get(name) ?? lookOf("other"),
    }));
    const counted = flows.filter(({ key }) => total(counts.get(key) ?? new Float64Array()) > 0);
    if (delaysByFlow(scene) && counted.length) return counted;
    return countedOf(scene, counts).map(({ queue, key }) => ({
      key,
      label: queue === "all" ? "all packets" : `queue ${queue}`,
      look: lookOfQueue(queue),
    }));
  }

  private ghostsOf(ghost: Store): Line[] {
    const last = ghost.distributions.last(this.scene.window_s);
    return this.whose(last).flatMap(({ key, look }) => {
      const { x, ys } = curves([last.get(key) ?? new Float64Array()], this.scene.options.tail === "cdf");
      return x.length ? [{ x, y: ys[0] as number[], look }] : [];
    });
  }

  draw(): void {}

  refresh(): void {
    const { scene, panel } = this;
    if (!panel.due) return;
    const { counts: last, words } = measured(scene);
    const shown = this.whose(last);
    const counts = shown.map(({ key }): Counts => last.get(key) ?? new Float64Array());
    const some = counts.some((one) => total(one) > 0);
    panel.say(some ? null : "No packet has left the queue yet.");
    const share = scene.options.tail === "cdf" ? "below" : "at or above";
    panel.setUnit(`share ${share}, ${words}`);
    panel.setLegend(shown);
    if (!some) return;
    const { x, ys } = curves(counts, scene.options.tail === "cdf");
    const ends = [x[0] as number, x.at(-1) as number];
    for (const ghost of this.ghosts) ends.push(ghost.x[0] as number, ghost.x[ghost.x.length - 1] as number);
    const from = 10 ** Math.max(-2, Math.floor(Math.log10(Math.min(...ends))));
    const to = 10 ** Math.ceil(Math.log10(Math.max(...ends, from * 10)));
    this.chart.setCurves(shown.map(({ key, look }) => ({ key, look, width: 2 })));
    this.chart.ghosts = this.ghosts;
    this.chart.draw([x, ...ys], [from, to]);
    shown.forEach(({ key }, i) => {
      const p99 = quantile(counts[i] as Counts, 0.99);
      panel.setValue(key, p99 === undefined ? "" : `p99 ${figures(p99, 2)} ms`);
    });
  }

  redraw(): void {
    this.chart.redraw();
  }
}
