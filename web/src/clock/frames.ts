/** Script time of the newest frames, for whoever measures the page: `window.l4slabFrames`. */
export interface Frames {
  /** How many frames moved something, and how long the script of each took, in ms; a ring. */
  count: number;
  script_ms: Float64Array;
  /** Virtual seconds per second that are reached, and the newest answers to changes in instant mode. */
  achieved: number;
  answers_ms: number[];
}

declare global {
  interface Window {
    l4slabFrames?: Frames;
  }
}

const KEPT = 1200;

export const frames: Frames = { count: 0, script_ms: new Float64Array(KEPT), achieved: 0, answers_ms: [] };

export function tellFrame(ms: number): void {
  frames.script_ms[frames.count % KEPT] = ms;
  frames.count += 1;
}

export function tellAnswer(ms: number): void {
  frames.answers_ms.push(ms);
  if (frames.answers_ms.length > 200) frames.answers_ms.shift();
}
