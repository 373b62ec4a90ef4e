/** The numbers that sum up the window: who has which share, how long packets wait, marks, drops, use of the link. */
import { keyOf, quantile } from "../distribution";
import { element } from "../panel";
import { lookOf, lookOfQueue } from "../roles";
import { countedOf, type Drawn, measured, type Party, partiesOf, type Scene, sending } from "../scene";
import { ofQueue } from "../store";
import { colourOf, figures } from "../theme";
import { delaysByFlow } from "./over_time";

/** Mean of the values that are there; undefined without any. */
function mean(values: Float64Array | undefined): number | undefined {
  let [sum, n] = [0, 0];
  for (const value of values ?? []) {
    if (Number.isNaN(value)) continue;
    sum += value;
    n += 1;
  }
  return n ? sum / n : undefined;
}

interface Part {
  name: string;
  value: string;
  colour: string | null;
  note?: string;
}

class Card {
  readonly root: HTMLElement;
  private key = "";

  constructor(into: HTMLElement, name: string, title: string, hint: string) {
    this.root = element("div", `card card-${name}`);
    this.root.append(element("h3", "", title));
    this.root.title = hint;
    into.append(this.root);
  }

  set(parts: readonly Part[]): void {
    const key = JSON.stringify(parts);
    if (key === this.key) return;
    this.key = key;
    const rows = parts.map(({ name, value, colour, note }) => {
      const row = element("p");
      if (name) {
        const label = element("span", "name", name);
        if (colour) label.style.setProperty("--role", colour);
        row.append(label);
      }
      row.append(element("b", "", value));
      if (note) row.append(element("small", "", note));
      return row;
    });
    this.root.replaceChildren(this.root.firstElementChild as Element, ...rows);
  }
}

export class Headline implements Drawn {
  private readonly share: Card;
  private readonly delay: Card;
  private readonly signals: Card;
  private readonly drops: Card;
  private readonly use: Card;
  private readonly note = element("small", "of");

  constructor(
    private readonly scene: Scene,
    into: HTMLElement,
  ) {
    const root = element("section", "headline");
    root.setAttribute("aria-label", "numbers over the time shown");
    into.append(root);
    this.share = new Card(
      root,
      "share",
      "Share of the goodput",
      "per side (L4S, Classic), or per group if all flows are on one side, over the time that the curves show",
    );
    this.delay = new Card(root, "delay", "Queueing delay, 99th percentile", "of packets that left in the time shown");
    this.signals = new Card(root, "marks", "CE marks", "packets that left the last link with CE");
    this.drops = new Card(root, "drops", "Drops", "packets that a queue dropped");
    this.use = new Card(root, "use", "Utilisation", "of the link's capacity");
    root.append(this.note);
  }

  arrange(): void {}
  draw(): void {}
  redraw(): void {
    this.refresh();
  }

  refresh(): void {
    const { scene } = this;
    const { coarse } = scene.store;
    const { from_s, isSinceChange, counts: last, words } = measured(scene);
    // The rows up to a change and at it are partly from before it, and have what the former queue dropped at its end.
    const rows = coarse.since(from_s) - 1;
    const count = isSinceChange ? Math.max(rows - 2, 0) : Math.max(rows, Math.min(coarse.rows, 1));
    this.note.textContent = isSinceChange ? `Means ${words}` : `Means of the ${words}`;
    const over = (key: string) => mean(coarse.column(key, count));
    const parties = partiesOf(scene).filter(({ key }) => coarse.has(key("goodput_mbps")));
    const per = (quantity: string) => parties.map(({ key }) => over(key(quantity)) ?? 0);

    const goodputs = per("goodput_mbps");
    const all = goodputs.reduce((sum, one) => sum + one, 0);
    const part = ({ name, look }: Party, value: string): Part => ({ name, value, colour: colourOf(look) });
    this.share.set(
      parties.map((party, i) => part(party, all > 0 ? `${Math.round(((goodputs[i] as number) / all) * 100)} %` : "–")),
    );

    const delayOf = (key: string) => {
      const p99 = quantile(last.get(key) ?? new Float64Array(), 0.99);
      return p99 === undefined ? "–" : `${figures(p99, p99 < 1 ? 2 : 3)} ms`;
    };
    const flows = sending(scene);
    const flowKey = (flow: string) => keyOf({ quantity: "sojourn_ms", flow, link: null, queue: null });
    this.delay.set(
      delaysByFlow(scene) && flows.some(({ name }) => last.has(flowKey(name)))
        ? flows.slice(0, 4).map(({ name }) => ({
            name,
            value: delayOf(flowKey(name)),
            colour: colourOf(scene.looks.get(name) ?? lookOf("other")),
          }))
        : countedOf(scene, last).map(({ queue, key }) => ({
            name: queue === "all" ? "all packets" : queue,
            value: delayOf(key),
            colour: colourOf(lookOfQueue(queue)),
          })),
    );

    const sent = per("sent_packets");
    const rates = (counts: number[]): Part[] =>
      parties.map((party, i) => {
        const [n, of] = [counts[i] as number, sent[i] as number];
        const note = of > 0 ? `${figures((n / of) * 100, 2)} %` : "";
        return { ...part(party, count ? `${figures(n, 2)}/s` : "–"), note };
      });
    this.signals.set(rates(per("ce_packets")));
    this.drops.set(rates(per("dropped_packets")));
    const use = over(ofQueue(scene.link, "all", "utilisation_pct"));
    this.use.set([{ name: "", value: use === undefined ? "–" : `${figures(use, 3)} %`, colour: null }]);
  }
}
