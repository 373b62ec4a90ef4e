/** Frames of calls and games: a bar per frame, as high as it took, in the colour of text where that is more than its deadline. */
import type { FlowSpec } from "../../types";
import { Canvas } from "../canvas";
import { Panel } from "../panel";
import { INK, type Look, lookOf } from "../roles";
import { type Drawn, type Scene, sending } from "../scene";
import { colourOf, FONT, figures, theme } from "../theme";

type MediaSpec = Extract<FlowSpec, { kind: "media" }>;

const EDGE = { left: 46, right: 12, top: 8, bottom: 22 };
/** Above a strip: the flow's name and what became of its frames. */
const TITLE = 18;
const LATE: Look = { colour: INK, dash: [], marker: "square" };
/** The height of a line of text. */
const LINE = 12;
/** A strip shows so many times the deadline at least. */
const LEAST_OF_DEADLINE = 1.5;

interface Strip {
  flow: MediaSpec;
  look: Look;
}

/** Of the frames that were captured within the time shown. */
export interface Tally {
  frames: number;
  late: number;
  longest_ms: number;
}

export class Frames implements Drawn {
  private readonly panel: Panel;
  private readonly canvas: Canvas;
  private strips: Strip[] = [];

  constructor(
    private readonly scene: Scene,
    into: HTMLElement,
  ) {
    this.panel = new Panel(
      into,
      "frames",
      "Frames of calls and games",
      "ms from capture to arrival; a gap is a lost frame",
    );
    this.canvas = new Canvas(this.panel.body);
  }

  arrange(): void {
    this.strips = sending(this.scene)
      .filter((flow) => flow.kind === "media")
      .map((flow) => ({ flow, look: this.scene.looks.get(flow.name) ?? lookOf("other") }));
    this.panel.root.hidden = this.strips.length === 0;
    this.panel.body.style.height = `${Math.max(1, this.strips.length) * 110 + EDGE.bottom}px`;
    this.panel.setLegend([
      ...this.strips.map(({ flow, look }) => ({
        key: flow.name,
        label: `${flow.name}, in time`,
        look,
        drawn: "packet" as const,
      })),
      { key: "late", label: "late", look: LATE, drawn: "packet" },
    ]);
  }

  draw(): void {
    if (this.strips.length === 0 || !this.panel.due) return;
    const { to, width, height } = this.canvas;
    to.clearRect(0, 0, width, height);
    to.font = FONT;
    const strip = (height - EDGE.bottom) / this.strips.length;
    this.strips.forEach((one, i) => {
      this.paint(one, i * strip + TITLE, strip - TITLE);
    });
    this.axis(height - EDGE.bottom);
  }

  /** When the time shown begins, and what a second is wide. */
  private scale(): { from_s: number; px_s: number } {
    const { now_s, window_s } = this.scene;
    return { from_s: Math.max(0, now_s - window_s), px_s: (this.canvas.width - EDGE.left - EDGE.right) / window_s };
  }

  private paint({ flow, look }: Strip, top: number, height: number): void {
    const { to, width } = this.canvas;
    const { frames } = this.scene.store;
    const { from_s, px_s } = this.scale();
    const deadline_ms = flow.deadline_ns * 1e-6;
    const tally = tallyOf(this.scene, flow);
    const most_ms = Math.max(deadline_ms * LEAST_OF_DEADLINE, tally.longest_ms * 1.05);
    const yOf = (ms: number) => top + height - (ms / most_ms) * height;
    const thick = Math.max(1, Math.min(5, flow.interval_ns * 1e-9 * px_s * 0.7));
    for (const isLate of [false, true]) {
      to.fillStyle = colourOf(isLate ? LATE : look);
      for (let i = 0; i < frames.held; i += 1) {
        const ms = frames.completion_ms[i] as number;
        const captured = (frames.time_s[i] as number) - ms * 1e-3;
        if (frames.flow[i] !== flow.name || captured < from_s || ms > deadline_ms !== isLate) continue;
        to.fillRect(EDGE.left + (captured - from_s) * px_s - thick / 2, yOf(ms), thick, top + height - yOf(ms));
      }
    }
    to.strokeStyle = theme.dim;
    to.lineWidth = 1;
    to.setLineDash([4, 3]);
    to.beginPath();
    to.moveTo(EDGE.left, Math.round(yOf(deadline_ms)) + 0.5);
    to.lineTo(width - EDGE.right, Math.round(yOf(deadline_ms)) + 0.5);
    to.stroke();
    to.setLineDash([]);
    to.strokeStyle = theme.grid;
    to.beginPath();
    to.moveTo(EDGE.left, Math.round(top + height) + 0.5);
    to.lineTo(width - EDGE.right, Math.round(top + height) + 0.5);
    to.stroke();
    to.fillStyle = theme.dim;
    to.textAlign = "right";
    // It stays clear of the zero, whose line may be a few pixels below.
    to.fillText(figures(deadline_ms), EDGE.left - 5, Math.min(yOf(deadline_ms) + 4, top + height - LINE));
    to.fillText("0", EDGE.left - 5, top + height);
    to.textAlign = "left";
    to.fillStyle = theme.ink;
    to.fillText(wordsOf(flow, tally), EDGE.left, top - 6);
  }

  private axis(y: number): void {
    const { to } = this.canvas;
    const { from_s, px_s } = this.scale();
    const step = [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((one) => one * px_s > 50) ?? 5000;
    to.fillStyle = theme.dim;
    to.textAlign = "center";
    for (let s = Math.ceil(Math.max(from_s, 0) / step) * step; s <= this.scene.now_s; s += step) {
      to.fillText(`${figures(s)} s`, EDGE.left + (s - from_s) * px_s, y + 15);
    }
  }

  refresh(): void {}

  redraw(): void {}
}

/** What became of the frames of a flow that were captured within the time shown. */
export function tallyOf(
  { store, now_s, window_s }: Pick<Scene, "store" | "now_s" | "window_s">,
  flow: MediaSpec,
): Tally {
  const { frames } = store;
  const tally: Tally = { frames: 0, late: 0, longest_ms: 0 };
  for (let i = 0; i < frames.held; i += 1) {
    const ms = frames.completion_ms[i] as number;
    if (frames.flow[i] !== flow.name || (frames.time_s[i] as number) - ms * 1e-3 < now_s - window_s) continue;
    tally.frames += 1;
    if (ms > flow.deadline_ns * 1e-6) tally.late += 1;
    tally.longest_ms = Math.max(tally.longest_ms, ms);
  }
  return tally;
}

function wordsOf(flow: MediaSpec, { frames, late, longest_ms }: Tally): string {
  if (frames === 0) return `${flow.name}: no frame yet`;
  const share = late === 0 ? "all in time" : `${figures((late / frames) * 100, 2)} % late`;
  return `${flow.name}: ${share}, longest ${figures(longest_ms)} ms`;
}
