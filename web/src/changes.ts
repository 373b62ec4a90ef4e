/** Changes by hand on their way to the engine: of one thing, only the newest. */
import { subjectOf } from "./model/run";
import type { Change, TimedChange } from "./types";

// A slider moves faster than a file with each of its steps would be worth.
const PAUSE_MS = 60;

export class Changes {
  private readonly waiting = new Map<string, Change>();
  private sent: Change | null = null;
  private isSending = false;
  private turn = 0;

  /** `send` gives the instant at which a change took effect; `done` and `failed` are told of each. */
  constructor(
    private readonly send: (change: Change) => Promise<number | null>,
    private readonly done: (change: TimedChange) => void,
    private readonly failed: (error: unknown) => void,
  ) {}

  put(change: Change): void {
    this.waiting.set(subjectOf(change), change);
    if (!this.isSending) void this.work();
  }

  /** What has been asked for and has not taken effect yet. */
  get pending(): Change[] {
    return [...(this.sent ? [this.sent] : []), ...this.waiting.values()];
  }

  /** The next run begins with what waits, or has nothing to do with it. */
  clear(): void {
    this.waiting.clear();
    this.sent = null;
    this.turn += 1;
  }

  private async work(): Promise<void> {
    this.isSending = true;
    while (this.waiting.size > 0) {
      const [[key, change]] = this.waiting as unknown as [[string, Change]];
      this.waiting.delete(key);
      this.sent = change;
      const turn = this.turn;
      const told = await this.send(change).then(
        (time_ns) => () => time_ns !== null && this.done({ ...change, time_ns }),
        (error) => () => this.failed(error),
      );
      if (turn === this.turn) {
        this.sent = null;
        told();
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
    this.isSending = false;
  }
}
