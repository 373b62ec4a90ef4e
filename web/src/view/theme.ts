/** Colours that follow the page: text, grid and background come from its style, so that light and dark need no code. */
import { INK, type Look, type Marker } from "./roles";

export interface Theme {
  ink: string;
  dim: string;
  grid: string;
  card: string;
  /** Of a CE mark, and its edge. */
  mark: string;
  edge: string;
  /** Of an empty lane. */
  ground: string;
}

export const theme: Theme = {
  ink: "#000",
  dim: "#555",
  grid: "#ddd",
  card: "#fff",
  mark: "#f0e442",
  edge: "#000",
  ground: "#eee",
};

/** Reads the colours of an element's style, now and whenever the reader's preference changes. */
export function followTheme(root: HTMLElement, changed: () => void): void {
  const read = () => {
    const style = getComputedStyle(root);
    for (const name of Object.keys(theme) as (keyof Theme)[]) {
      theme[name] = style.getPropertyValue(`--view-${name}`).trim() || theme[name];
    }
    changed();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", read);
  // An element has no style before it is in the page.
  if (root.isConnected) read();
  else requestAnimationFrame(read);
}

export function colourOf(look: Look): string {
  return look.colour === INK ? theme.ink : look.colour;
}

export const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';

/** Adds a marker to the path. */
export function marker(to: CanvasRenderingContext2D, kind: Marker, x: number, y: number, r: number): void {
  switch (kind) {
    case "circle":
      to.moveTo(x + r, y);
      to.arc(x, y, r, 0, 2 * Math.PI);
      break;
    case "square":
      to.rect(x - r * 0.9, y - r * 0.9, r * 1.8, r * 1.8);
      break;
    case "triangle":
      to.moveTo(x, y - r * 1.2);
      to.lineTo(x + r * 1.1, y + r * 0.8);
      to.lineTo(x - r * 1.1, y + r * 0.8);
      to.closePath();
      break;
    case "down":
      to.moveTo(x, y + r * 1.2);
      to.lineTo(x + r * 1.1, y - r * 0.8);
      to.lineTo(x - r * 1.1, y - r * 0.8);
      to.closePath();
      break;
    case "plus":
      to.rect(x - r * 1.1, y - r * 0.35, r * 2.2, r * 0.7);
      to.rect(x - r * 0.35, y - r * 1.1, r * 0.7, r * 2.2);
      break;
    case "cross":
      to.moveTo(x - r, y - r);
      to.lineTo(x + r * 0.4, y - r);
      to.lineTo(x + r, y + r);
      to.lineTo(x - r * 0.4, y + r);
      to.closePath();
      break;
  }
}

/** Two or three figures that matter. */
export function figures(value: number | undefined, digits = 3): string {
  if (value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  if (Math.abs(value) >= 10 ** digits) return Math.round(value).toLocaleString("en").replaceAll(",", "\u2009");
  return Math.abs(value) < 1e-6 ? "0" : String(Number(value.toPrecision(digits)));
}
