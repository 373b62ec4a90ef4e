/** The distribution of the queueing delay over the window, from counts since the start. */

import type { ViewOptions } from "../../types";
import { Chart, type Line } from "../chart";
import { type Counts, curves, keyOf, quantile, total } from "../distribution";
import { Panel } from "../panel";
import { type Look, lookOf, lookOfQueue } from "../roles";
import { type Drawn, queuesOf, type Scene } from "../scene";
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
  private curves: Of[] = [];

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
      "which distribution",
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
    const { scene } = this;
    this.curves = delaysByFlow(scene)
      ? (scene.run?.flows ?? [])
          .filter((flow) => flow.count > 0)
          .map(({ name }) => ({
            key: keyOf({ quantity: "sojourn_ms", flow: name, link: null, queue: null }),
            label: name,
            look: scene.looks.get(name) ?? lookOf("other"),
          }))
      : queuesOf(scene).map((queue) => ({
          key: keyOf({ quantity: "sojourn_ms", flow: null, link: scene.link, queue }),
          label: queue === "all" ? "queue" : `queue ${queue}`,
          look: lookOfQueue(queue),
        }));
    for (const [tail, chart] of Object.entries(this.charts)) {
      if (tail !== scene.options.tail) chart.setCurves([]);
    }
    this.chart.setCurves(this.curves.map(({ key, look }) => ({ key, look, width: 2 })));
    this.panel.setLegend(this.curves.map(({ key, label, look }) => ({ key, label, look })));
    this.chart.ghosts = scene.ghost ? this.ghostsOf(scene.ghost) : [];
  }

  private ghostsOf(ghost: Store): Line[] {
    const last = ghost.distributions.last(this.scene.window_s);
    return this.curves.flatMap(({ key, look }) => {
      const counts = last.get(key);
      if (!counts || total(counts) === 0) return [];
      const { x, ys } = curves([counts], this.scene.options.tail === "cdf");
      return [{ x, y: ys[0] as number[], look }];
    });
  }

  draw(): void {}

  refresh(): void {
    const { scene, panel } = this;
    if (!panel.visible) return;
    const unit = panel.root.querySelector("small");
    const last = scene.store.distributions.last(scene.window_s);
    const counts = this.curves.map(({ key }): Counts => last.get(key) ?? new Float64Array());
    const some = counts.some((one) => total(one) > 0);
    panel.say(some ? null : "No packet has left the queue yet.");
    if (unit) {
      const share = scene.options.tail === "cdf" ? "below" : "at or above";
      unit.textContent = `share of packets ${share}, last ${figures(scene.window_s, 2)} s`;
    }
    if (!some) return;
    const { x, ys } = curves(counts, scene.options.tail === "cdf");
    const ends = [x[0] as number, x.at(-1) as number];
    for (const ghost of this.chart.ghosts) ends.push(ghost.x[0] as number, ghost.x[ghost.x.length - 1] as number);
    const from = 10 ** Math.max(-2, Math.floor(Math.log10(Math.min(...ends))));
    const to = 10 ** Math.ceil(Math.log10(Math.max(...ends, from * 10)));
    this.chart.draw([x, ...ys], [from, to]);
    this.curves.forEach(({ key }, i) => {
      const p99 = quantile(counts[i] as Counts, 0.99);
      panel.setValue(key, p99 === undefined ? "" : `p99 ${figures(p99, 2)} ms`);
    });
  }

  redraw(): void {
    this.chart.redraw();
  }
}
