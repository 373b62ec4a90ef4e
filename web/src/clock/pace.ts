/**
 * How virtual time follows the wall clock. The engine is asked a little ahead of what is shown, for no more at once than
 * it does in a moment, and one request at a time: if it cannot keep up, virtual time is slower, and nothing piles up.
 */

// How far the engine is ahead of what is shown, in ms of the wall clock.
const LEAD_MS = 100;
// What one request may take, and the least that is worth one, in ms of the wall clock.
const REQUEST_MS = 40;
const LEAST_MS = 10;
const WAYS = 5;
// A frame counts as no longer than this: a page that was hidden does not catch up.
const FRAME_MS = 100;
// No request asks for more.
const MOST_NS = 50e9;
// Over how long the speed that is reached is measured.
const MEASURED_MS = 1000;

export class Pace {
  /** The instant that is shown, and up to which the engine has told. */
  head_ns = 0;
  known_ns = 0;
  /** Virtual seconds per second that are reached; 0 until they are measured. */
  achieved = 0;
  /** What the next request may ask for; 0 while nothing is known of the engine. */
  private allowed_ns = 0;
  /** How long the newest requests without work took, in ms: the way there and back. */
  private readonly ways: number[] = [];
  private moved_ns = 0;
  private waited_ms = 0;

  /** A new run. What is known of the engine's speed stays. */
  reset(): void {
    this.head_ns = this.known_ns = 0;
    this.pause();
  }

  pause(): void {
    this.achieved = this.moved_ns = this.waited_ms = 0;
  }

  /** A frame later. */
  frame(elapsed_ms: number, speed: number): void {
    const ms = Math.min(elapsed_ms, FRAME_MS);
    const before = this.head_ns;
    this.head_ns = Math.min(before + ms * 1e6 * speed, Math.max(this.known_ns, before));
    this.moved_ns += this.head_ns - before;
    this.waited_ms += ms;
    if (this.waited_ms < MEASURED_MS) return;
    this.achieved = this.moved_ns / this.waited_ms / 1e6;
    this.moved_ns = this.waited_ms = 0;
  }

  /** Up to where the engine is to go now; null: it is far enough ahead. */
  next(speed: number): number | null {
    const target = this.head_ns + (LEAD_MS + this.way_ms) * 1e6 * speed;
    if (target - this.known_ns < LEAST_MS * 1e6 * speed) return null;
    // The first request of an engine that nothing is known of is a small one. None is smaller: what a machine with
    // other work adds to each request would make them ever smaller, and virtual time stand still.
    const most = Math.min(Math.max(this.allowed_ns, LEAST_MS * 1e6 * Math.min(speed, 1)), MOST_NS);
    return Math.round(Math.min(target, this.known_ns + most));
  }

  private get way_ms(): number {
    return this.ways.length ? Math.min(...this.ways) : 0;
  }

  /** A request without work took so long. */
  answeredIdly(took_ms: number): void {
    this.ways.push(took_ms);
    if (this.ways.length > WAYS) this.ways.shift();
  }

  /** The engine went up to `now_ns` within so many ms, of which it may know how many were work. */
  answered(now_ns: number, took_ms: number, worked_ms = took_ms - this.way_ms): void {
    const step = now_ns - this.known_ns;
    this.known_ns = now_ns;
    if (step <= 0) return;
    const work_ms = Math.max(worked_ms, 0.2);
    this.allowed_ns = Math.max(1, Math.min((step / work_ms) * REQUEST_MS, 2 * step));
  }
}
