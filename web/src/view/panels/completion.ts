/** Completion time against size, both logarithmic: a dot per transfer, which is bright when it arrives. */
import type { FlowSpec } from "../../types";
import { Canvas } from "../canvas";
import { Panel } from "../panel";
import { lookOf, type Role, roleOf, SERVICES } from "../roles";
import { type Drawn, type Scene, sending } from "../scene";
import { colourOf, FONT, figures, marker, theme } from "../theme";

// How long a dot is bright, in seconds of watching.
const BORN_S = 0.7;
const EDGE = { left: 46, right: 12, top: 8, bottom: 40 };

function sizeText(bytes: number): string {
  if (bytes >= 1e9) return `${bytes / 1e9} GB`;
  if (bytes >= 1e6) return `${bytes / 1e6} MB`;
  return bytes >= 1e3 ? `${bytes / 1e3} kB` : `${bytes} B`;
}

/** Whether something of it is ever complete. */
function hasEnd(flow: FlowSpec): boolean {
  return flow.kind === "web" || flow.kind === "video" || (flow.kind === "tcp" && flow.bytes !== null);
}

export class Completion implements Drawn {
  readonly panel: Panel;
  private readonly canvas: Canvas;
  private services = new Map<string, Role>();
  private stale = true;
  private drawn = -1;

  constructor(
    private readonly scene: Scene,
    into: HTMLElement,
  ) {
    this.panel = new Panel(into, "completion", "Completion time against size", "ms");
    this.canvas = new Canvas(this.panel.body, () => {
      this.stale = true;
    });
  }

  arrange(): void {
    this.services = new Map((this.scene.run?.flows ?? []).map((flow) => [flow.name, roleOf(flow)]));
    const flows = sending(this.scene);
    this.panel.root.hidden = !flows.some(hasEnd) && !this.scene.store.dots.held;
    const services = this.scene.roles.filter((role) => flows.some((flow) => hasEnd(flow) && roleOf(flow) === role));
    this.panel.setLegend(
      services.map((role) => ({ key: role, label: SERVICES[role], look: lookOf(role), drawn: "dots" as const })),
    );
    this.stale = true;
  }

  draw(): void {
    if (!this.panel.due) return;
    const { dots } = this.scene.store;
    this.panel.say(dots.held ? null : "No transfer is complete yet.");
    if (!dots.held) return;
    // Without arrivals only fading dots change, which a few frames show.
    const now = this.scene.now_s;
    if (!this.stale && dots.count === this.drawn && !this.fading(now)) return;
    this.drawn = dots.count;
    this.stale = false;
    this.paint(now);
  }

  private fading(now: number): boolean {
    const { dots } = this.scene.store;
    const newest = dots.time_s[(dots.count + dots.capacity - 1) % dots.capacity] as number;
    return now - newest < BORN_S * this.scene.speed;
  }

  private paint(now: number): void {
    const { to, width, height } = this.canvas;
    const { dots } = this.scene.store;
    let [x0, x1, y0, y1] = [1e3, 1e5, 10, 100];
    for (let i = 0; i < dots.held; i += 1) {
      const [size, time] = [Math.max(dots.size_bytes[i] as number, 1), Math.max(dots.completion_ms[i] as number, 1e-3)];
      x0 = Math.min(x0, 10 ** Math.floor(Math.log10(size)));
      x1 = Math.max(x1, 10 ** Math.ceil(Math.log10(size)));
      y0 = Math.min(y0, 10 ** Math.floor(Math.log10(time)));
      y1 = Math.max(y1, 10 ** Math.ceil(Math.log10(time)));
    }
    const [w, h] = [width - EDGE.left - EDGE.right, height - EDGE.top - EDGE.bottom];
    const xOf = (bytes: number) => EDGE.left + (Math.log(bytes / x0) / Math.log(x1 / x0)) * w;
    const yOf = (ms: number) => EDGE.top + h - (Math.log(ms / y0) / Math.log(y1 / y0)) * h;
    to.clearRect(0, 0, width, height);
    to.font = FONT;
    to.fillStyle = theme.dim;
    to.strokeStyle = theme.grid;
    to.lineWidth = 1;
    to.beginPath();
    to.textAlign = "center";
    for (let x = x0; x <= x1 * 1.001; x *= 10) {
      to.moveTo(Math.round(xOf(x)) + 0.5, EDGE.top);
      to.lineTo(Math.round(xOf(x)) + 0.5, EDGE.top + h);
      to.fillText(sizeText(x), Math.min(xOf(x), width - 18), EDGE.top + h + 16);
    }
    to.fillText("size", EDGE.left + w / 2, height - 6);
    to.textAlign = "right";
    for (let y = y0; y <= y1 * 1.001; y *= 10) {
      to.moveTo(EDGE.left, Math.round(yOf(y)) + 0.5);
      to.lineTo(EDGE.left + w, Math.round(yOf(y)) + 0.5);
      to.fillText(figures(y), EDGE.left - 5, yOf(y) + 4);
    }
    to.stroke();
    const born = BORN_S * this.scene.speed;
    for (const role of this.scene.roles) {
      const look = lookOf(role);
      const colour = colourOf(look);
      const fresh: number[] = [];
      to.beginPath();
      for (let i = 0; i < dots.held; i += 1) {
        if (this.services.get(dots.flow[i] ?? "") !== role || (dots.time_s[i] as number) > now) continue;
        if (now - (dots.time_s[i] as number) < born) fresh.push(i);
        else marker(to, look.marker, xOf(dots.size_bytes[i] as number), yOf(dots.completion_ms[i] as number), 2.2);
      }
      to.globalAlpha = 0.45;
      to.fillStyle = colour;
      to.fill();
      to.globalAlpha = 1;
      for (const i of fresh) {
        const part = 1 - (now - (dots.time_s[i] as number)) / born;
        const [x, y] = [xOf(dots.size_bytes[i] as number), yOf(dots.completion_ms[i] as number)];
        to.beginPath();
        marker(to, look.marker, x, y, 2.2 + 2.2 * part);
        to.fill();
        to.globalAlpha = 0.6 * part;
        to.strokeStyle = theme.ink;
        to.stroke();
        to.globalAlpha = 1;
      }
    }
  }

  refresh(): void {}

  redraw(): void {
    this.stale = true;
  }
}
