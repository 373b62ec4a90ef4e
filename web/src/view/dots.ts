/** The newest completed transfers, as many as fit. */
export class Dots {
  readonly time_s: Float64Array;
  readonly size_bytes: Float64Array;
  readonly completion_ms: Float64Array;
  readonly flow: (string | undefined)[];
  /** All that came since the last `clear`. */
  count = 0;

  constructor(readonly capacity: number) {
    this.time_s = new Float64Array(capacity);
    this.size_bytes = new Float64Array(capacity);
    this.completion_ms = new Float64Array(capacity);
    this.flow = new Array(capacity).fill(undefined);
  }

  get held(): number {
    return Math.min(this.count, this.capacity);
  }

  clear(): void {
    this.count = 0;
  }

  add(time_s: number, size_bytes: number, completion_ms: number, flow: string): void {
    const slot = this.count % this.capacity;
    this.time_s[slot] = time_s;
    this.size_bytes[slot] = size_bytes;
    this.completion_ms[slot] = completion_ms;
    this.flow[slot] = flow;
    this.count += 1;
  }
}
