/** Draws packets, those of one colour at once. */
import type { Look } from "../roles";
import { colourOf, theme } from "../theme";

// Flows of one group differ in strength.
const SHADES = [1, 0.74, 0.52];

export class Brush {
  private readonly bodies = new Map<string, number[]>();
  private readonly marks: number[] = [];

  constructor(private readonly to: CanvasRenderingContext2D) {}

  packet(look: Look, member: number, x: number, y: number, width: number, height: number, isCe: boolean): void {
    const key = `${colourOf(look)} ${SHADES[(member - 1) % SHADES.length] ?? 1}`;
    const rects = this.bodies.get(key);
    if (rects) rects.push(x, y, width, height);
    else this.bodies.set(key, [x, y, width, height]);
    if (isCe) this.marks.push(x, y, width, height);
  }

  flush(): void {
    const { to } = this;
    const alpha = to.globalAlpha;
    for (const [key, rects] of this.bodies) {
      if (!rects.length) continue;
      const [colour, shade] = key.split(" ") as [string, string];
      to.fillStyle = colour;
      to.globalAlpha = alpha * Number(shade);
      to.beginPath();
      for (let i = 0; i < rects.length; i += 4) {
        to.rect(rects[i] as number, rects[i + 1] as number, rects[i + 2] as number, rects[i + 3] as number);
      }
      to.fill();
      rects.length = 0;
    }
    to.globalAlpha = alpha;
    this.drawMarks();
  }

  /** CE: a bright band with a dark edge across the middle, which is seen without colours, too. */
  private drawMarks(): void {
    const { to, marks } = this;
    if (!marks.length) return;
    for (const [colour, part] of [
      [theme.edge, 0.5],
      [theme.mark, 0.36],
    ] as const) {
      to.fillStyle = colour;
      to.beginPath();
      for (let i = 0; i < marks.length; i += 4) {
        const height = (marks[i + 3] as number) * part;
        const y = (marks[i + 1] as number) + ((marks[i + 3] as number) - height) / 2;
        to.rect(marks[i] as number, y, marks[i + 2] as number, height);
      }
      to.fill();
    }
    marks.length = 0;
  }
}
