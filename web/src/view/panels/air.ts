/** What a medium does: a strip of the last milliseconds, with a bar for each transmission, grant or slot. */
import { type MediumKind, mediumOf, upOf } from "../../model/media";
import {
  type Air,
  type Burst,
  GRANTED,
  REQUESTED,
  rowsOf,
  senderOf,
  sentencesOf,
  slotsOf,
  spanOf,
  startsOf,
} from "../air";
import { Canvas } from "../canvas";
import { element, type LegendEntry, Panel } from "../panel";
import { lookOf } from "../roles";
import { type Drawn, type Scene, sending } from "../scene";
import { ofQueue } from "../store";
import { colourOf, FONT, figures, theme } from "../theme";

const EDGE = { left: 92, right: 12, top: 18, bottom: 22 };
const ROW = 34;
/** What moves faster than so many strips per second of the clock is shown as snapshots, so often. */
const SNAPSHOT_MS = 1000;
const STRIPS_PER_S = 0.5;
/** Shares are of so much, at most. */
const SHARES_NS = 500e6;
const LEO_HEIGHT = 150;

const TITLES: Record<MediumKind, [title: string, unit: string]> = {
  wifi: ["Who holds the channel", "a bar per transmission with its acknowledgement, and its number of MPDUs"],
  nr: ["Which slot is granted to whom", "upper half of a row: downlink, lower half: uplink"],
  docsis: [
    "Requests and grants upstream",
    "a triangle is a request, a bar a grant: full if it was used; lines are MAP intervals",
  ],
  leo: ["The path over the satellite", "a line for each slot of 15 s"],
};

export class AirPanel implements Drawn {
  private readonly panel: Panel;
  private readonly heading: HTMLElement;
  private readonly canvas: Canvas;
  private readonly words: HTMLElement;
  private kind: MediumKind | null = null;
  private link = "";
  private held_ns = 0;
  private held_ms = Number.NEGATIVE_INFINITY;
  private rows: string[] = [];

  constructor(
    private readonly scene: Scene,
    into: HTMLElement,
  ) {
    this.panel = new Panel(into, "air", "The medium", "");
    this.heading = this.panel.root.querySelector("h3") as HTMLElement;
    this.canvas = new Canvas(this.panel.body);
    this.words = element("p", "says-who");
    this.panel.root.append(this.words);
  }

  arrange(): void {
    const { run, link } = this.scene;
    this.kind = run ? mediumOf(run, link) : null;
    this.link = run?.links.find(({ name }) => name === link)?.up_of ?? link;
    this.panel.root.hidden = this.kind === null;
    if (!this.kind) return;
    this.heading.textContent = TITLES[this.kind][0];
    this.panel.root.setAttribute("aria-label", TITLES[this.kind][0]);
    this.fit();
    const flows = sending(this.scene);
    const other = lookOf("other");
    const of = (name: string) => this.scene.looks.get(name) ?? other;
    const named = flows.map(({ name }): LegendEntry => ({ key: name, label: name, look: of(name), drawn: "packet" }));
    const marked: Record<MediumKind, LegendEntry[]> = {
      wifi: [
        { key: " again", label: "MPDUs sent again", look: other, drawn: "mark" },
        { key: " lost", label: "some or all lost", look: other, drawn: "drop" },
      ],
      nr: [
        { key: " again", label: "HARQ retransmission", look: other, drawn: "mark" },
        { key: " lost", label: "fails", look: other, drawn: "drop" },
      ],
      docsis: [],
      leo: [],
    };
    this.panel.setLegend(this.kind === "leo" ? [] : [...named, ...marked[this.kind]]);
  }

  private get air(): Air | undefined {
    return this.scene.store.airs.get(this.link);
  }

  /** As high as its rows. */
  private fit(): void {
    const air = this.air;
    this.rows = air && this.kind ? rowsOf(this.kind, air) : [];
    const rows = this.kind === "leo" ? LEO_HEIGHT : EDGE.top + Math.max(1, this.rows.length) * ROW + EDGE.bottom;
    const height = `${rows}px`;
    if (this.panel.body.style.height !== height) {
      this.panel.body.style.height = height;
      this.panel.body.style.minHeight = height;
    }
  }

  /** The instant at the right edge. */
  private instant(span_ns: number): number {
    const now_ns = this.scene.now_s * 1e9;
    const isSlow = (this.scene.speed * 1e9) / span_ns <= STRIPS_PER_S;
    const wall = performance.now();
    if (isSlow || wall - this.held_ms > SNAPSHOT_MS || now_ns < this.held_ns) {
      this.held_ns = now_ns;
      this.held_ms = wall;
      this.say();
    }
    const unit = TITLES[this.kind as MediumKind][1];
    this.panel.setUnit(isSlow ? unit : `${unit}. A snapshot each second: slow down to see it move`);
    return this.held_ns;
  }

  draw(): void {
    if (!this.kind || !this.panel.due) return;
    if (this.kind === "leo") {
      this.satellite();
      return;
    }
    const air = this.air;
    if (!air) return;
    const { to, width, height } = this.canvas;
    const span_ns = spanOf(this.kind, air, width);
    const now_ns = this.instant(span_ns);
    const from_ns = Math.max(0, now_ns - span_ns);
    const scale = (width - EDGE.left - EDGE.right) / span_ns;
    const xOf = (ns: number) => EDGE.left + Math.max(0, ns - from_ns) * scale;
    to.clearRect(0, 0, width, height);
    to.font = FONT;
    this.ground(air, from_ns, now_ns, xOf);
    const bursts = air.within(from_ns, now_ns);
    const starts = this.kind === "nr" ? startsOf(bursts) : null;
    to.save();
    to.beginPath();
    to.rect(EDGE.left, 0, width - EDGE.left - EDGE.right, height);
    to.clip();
    for (const burst of bursts) {
      const start = starts?.get(burst) ?? burst.from_ns;
      const x = xOf(start);
      this.paint(air, burst, x, Math.max(1, xOf(Math.min(start + burst.to_ns - burst.from_ns, now_ns)) - x));
    }
    to.restore();
    this.axis(from_ns, now_ns, xOf);
  }

  private top(row: number): number {
    return EDGE.top + row * ROW;
  }

  /** Names of the rows, slots and what they are for. */
  private ground(air: Air, from_ns: number, now_ns: number, xOf: (ns: number) => number): void {
    const { to, width } = this.canvas;
    const bottom = this.top(this.rows.length);
    to.textAlign = "center";
    for (const { at_ns, letter } of slotsOf(air, from_ns, now_ns)) {
      const x = Math.round(xOf(at_ns)) + 0.5;
      const next = xOf(Math.min(at_ns + (air.slot_ns ?? 0), now_ns));
      if (letter === "U" || letter === "S") {
        to.fillStyle = theme.ground;
        to.fillRect(x, EDGE.top, next - x, bottom - EDGE.top);
      }
      to.fillStyle = theme.dim;
      if (letter && next - x > 8) to.fillText(letter, (x + next) / 2, EDGE.top - 5);
      to.strokeStyle = theme.grid;
      to.lineWidth = 1;
      if (at_ns < from_ns) continue;
      to.beginPath();
      to.moveTo(x, EDGE.top);
      to.lineTo(x, bottom);
      to.stroke();
    }
    to.textAlign = "right";
    this.rows.forEach((name, i) => {
      to.fillStyle = theme.ink;
      to.fillText(shortened(to, name, EDGE.left - 12), EDGE.left - 7, this.top(i) + ROW / 2 + 4);
      to.strokeStyle = theme.grid;
      to.beginPath();
      to.moveTo(EDGE.left, Math.round(this.top(i + 1)) + 0.5);
      to.lineTo(width - EDGE.right, Math.round(this.top(i + 1)) + 0.5);
      to.stroke();
    });
  }

  private paint(air: Air, burst: Burst, x: number, wide: number): void {
    const { to } = this.canvas;
    const kind = this.kind as MediumKind;
    const row = this.rows.indexOf(senderOf(kind, air, burst));
    if (row < 0) return;
    const inner = ROW - 8;
    const tall = kind === "nr" ? inner / 2 - 1 : inner;
    const y = this.top(row) + 4 + (kind === "nr" && burst.up ? inner / 2 + 1 : 0);
    const look = (burst.flow && this.scene.looks.get(burst.flow)) || lookOf("other");
    to.fillStyle = colourOf(look);
    to.strokeStyle = theme.ink;
    to.lineWidth = 1;
    if (burst.what === REQUESTED) {
      this.request(burst, x, y, tall);
      return;
    }
    if (burst.what === GRANTED) {
      const used = burst.bytes > 0 ? 1 - burst.unused / burst.bytes : 0;
      to.strokeStyle = theme.dim;
      to.strokeRect(x + 0.5, y + 0.5, Math.max(1, wide - 1), tall - 1);
      if (used > 0) to.fillRect(x, y + tall * (1 - used), Math.max(2, wide), tall * used);
      return;
    }
    to.fillRect(x, y, wide, tall);
    if (burst.again > 0) this.band(x, y + tall - 5, wide);
    if (burst.failed > 0) {
      const w = Math.min(wide, tall);
      to.strokeStyle = theme.ink;
      to.lineWidth = 1.5;
      to.beginPath();
      // As large as the part that is lost, and no smaller than can be seen.
      to.moveTo(x, y);
      to.lineTo(x + Math.max(w, 4), y + tall);
      if (burst.failed === burst.packets || kind === "nr") {
        to.moveTo(x + Math.max(w, 4), y);
        to.lineTo(x, y + tall);
      }
      to.stroke();
    }
    const label = kind === "wifi" ? String(burst.packets) : "";
    if (label && wide > to.measureText(label).width + 6) {
      to.fillStyle = "#fff";
      to.strokeStyle = "#000";
      to.lineWidth = 2.5;
      to.textAlign = "center";
      to.lineJoin = "round";
      to.strokeText(label, x + wide / 2, y + tall / 2 + 4);
      to.fillText(label, x + wide / 2, y + tall / 2 + 4);
    }
  }

  /** The mark of what was sent again. */
  private band(x: number, y: number, wide: number): void {
    const { to } = this.canvas;
    to.fillStyle = theme.edge;
    to.fillRect(x, y, wide, 5);
    to.fillStyle = theme.mark;
    to.fillRect(x, y + 1, wide, 3);
  }

  private request({ bytes }: Burst, x: number, y: number, tall: number): void {
    const { to } = this.canvas;
    to.fillStyle = theme.ink;
    to.beginPath();
    to.moveTo(x, y + tall);
    to.lineTo(x - 4, y + tall - 9);
    to.lineTo(x + 4, y + tall - 9);
    to.closePath();
    to.fill();
    to.textAlign = "right";
    if (this.canvas.width > 600) to.fillText(`${bytes} B`, x - 6, y + tall - 1);
  }

  private axis(from_ns: number, now_ns: number, xOf: (ns: number) => number): void {
    const { to, height } = this.canvas;
    const px_ms = xOf(from_ns + 1e6) - xOf(from_ns);
    const step = [1, 2, 5, 10, 20, 50].find((one) => one * px_ms > 55) ?? 100;
    to.fillStyle = theme.dim;
    to.textAlign = "center";
    const span_ms = (now_ns - from_ns) * 1e-6;
    for (let ms = 0; ms <= span_ms; ms += step) {
      const x = xOf(now_ns - ms * 1e6);
      if (x < EDGE.left + 10) break;
      to.textAlign = ms === 0 ? "right" : "center";
      to.fillText(ms === 0 ? "now" : `−${ms} ms`, x, height - 7);
    }
  }

  /** Delay and rate of the path, from the series. */
  private satellite(): void {
    const { to, width, height } = this.canvas;
    const { store, now_s, window_s } = this.scene;
    to.clearRect(0, 0, width, height);
    to.font = FONT;
    const from_s = Math.max(0, now_s - window_s);
    const px_s = (width - EDGE.left - EDGE.right) / window_s;
    const xOf = (s: number) => EDGE.left + (s - from_s) * px_s;
    const count = store.fine.since(from_s);
    const times = store.fine.time(count);
    const column = (name: string) => store.fine.column(ofQueue(this.link, "all", name), count) ?? new Float64Array();
    const slots = column("slot");
    const half = (height - EDGE.bottom - 8) / 2;
    const strips: [name: string, values: Float64Array, unit: string][] = [
      ["delay", column("path_ms"), "ms"],
      ["rate", column("capacity_mbps"), "Mb/s"],
    ];
    to.strokeStyle = theme.dim;
    to.setLineDash([4, 3]);
    for (let i = 1; i < slots.length; i += 1) {
      if (slots[i] === slots[i - 1] || Number.isNaN(slots[i]) || Number.isNaN(slots[i - 1])) continue;
      const x = Math.round(xOf(times[i] as number)) + 0.5;
      to.beginPath();
      to.moveTo(x, 4);
      to.lineTo(x, height - EDGE.bottom);
      to.stroke();
    }
    to.setLineDash([]);
    strips.forEach(([name, values, unit], n) => {
      const top = 4 + n * (half + 4);
      const known = values.filter((value) => !Number.isNaN(value));
      const most = Math.max(1e-9, ...known) * 1.1;
      const yOf = (value: number) => top + half - (value / most) * half;
      to.strokeStyle = theme.ink;
      to.lineWidth = 1.8;
      to.beginPath();
      let y: number | null = null;
      values.forEach((value, i) => {
        if (Number.isNaN(value)) return;
        const x = xOf(times[i] as number);
        if (y === null) to.moveTo(x, yOf(value));
        else to.lineTo(x, y);
        y = yOf(value);
        to.lineTo(x, y);
      });
      to.stroke();
      to.lineWidth = 1;
      to.strokeStyle = theme.grid;
      to.beginPath();
      to.moveTo(EDGE.left, Math.round(top + half) + 0.5);
      to.lineTo(width - EDGE.right, Math.round(top + half) + 0.5);
      to.stroke();
      to.fillStyle = theme.ink;
      to.textAlign = "right";
      to.fillText(`${name}, ${unit}`, EDGE.left - 7, top + half / 2 + 4);
      to.fillStyle = theme.dim;
      to.fillText(figures(most / 1.1), EDGE.left - 7, top + 10);
      to.fillText("0", EDGE.left - 7, top + half);
    });
    to.textAlign = "center";
    const step = [5, 15, 30, 60, 150, 300, 600].find((one) => one * px_s > 45) ?? 1500;
    for (let s = Math.ceil(from_s / step) * step; s <= now_s; s += step) to.fillText(`${s} s`, xOf(s), height - 7);
    this.panel.setUnit(TITLES.leo[1]);
  }

  private say(): void {
    const air = this.air;
    const said = air && this.kind && this.kind !== "leo" ? sentencesOf(this.kind, air, this.held_ns, SHARES_NS) : [];
    const words = [...said, ...(this.kind === "leo" ? this.path() : []), ...this.waits()].join(" ");
    if (this.words.textContent !== words) this.words.textContent = words;
  }

  /** The path over the satellite now. */
  private path(): string[] {
    const { fine } = this.scene.store;
    const newest = (link: string, name: string) => fine.get(ofQueue(link, "all", name));
    const [delay, down] = [newest(this.link, "path_ms"), newest(this.link, "capacity_mbps")];
    const up = newest(upOf(this.link), "capacity_mbps");
    if (Number.isNaN(delay)) return [];
    return [
      `Now the path takes ${figures(delay)} ms each way and has ${figures(down)} Mb/s to the users, ${figures(up)} Mb/s from them.`,
    ];
  }

  /** Where packets of each direction waited. */
  private waits(): string[] {
    const { fine } = this.scene.store;
    const parts = [["sojourn_ms", "in the queue"], ["access_ms", "for access"], ["air_ms", "in the air"], ["reorder_ms", "for reordering"]] as const; // biome-ignore format: a table
    const of = (link: string): string | null => {
      const told = parts.flatMap(([name, where]) => {
        const count = fine.since(this.scene.now_s - this.scene.window_s / 10);
        const known = (fine.column(ofQueue(link, "all", name), count) ?? new Float64Array()).filter(
          (value) => !Number.isNaN(value),
        );
        if (known.length === 0) return [];
        const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
        return [`${mean < 0.01 ? "0" : figures(mean, 2)} ms ${where}`];
      });
      return told.length > 0 ? told.join(", ") : null;
    };
    const [down, up] = [of(this.link), of(upOf(this.link))];
    return [down && `A packet to the users waited ${down}.`, up && `From the users: ${up}.`].filter(
      (one) => one !== null,
    );
  }

  refresh(): void {
    if (!this.kind) return;
    this.fit();
    if (this.kind === "leo") this.say();
  }

  redraw(): void {}
}

function shortened(to: CanvasRenderingContext2D, name: string, width: number): string {
  if (to.measureText(name).width <= width) return name;
  let text = name;
  while (text.length > 1 && to.measureText(`${text}…`).width > width) text = text.slice(0, -1);
  return `${text}…`;
}
