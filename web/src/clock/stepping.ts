/** A step while the clock stands: where it goes, and how what is shown glides there. */

export type StepBy = number | "packet" | "sample";

const GLIDE_MS = 200;
const KEPT = 4000;

export class Stepping {
  /** When something happens to packets, as far as it is told and not yet shown. */
  private events: number[] = [];
  private step: { by: StepBy; from_ns: number; goal_ns: number | null; begun_ms: number } | null = null;

  get isOn(): boolean {
    return this.step !== null;
  }

  get wantsPackets(): boolean {
    return this.step?.by === "packet";
  }

  /** Forgets packets, too. */
  reset(): void {
    this.step = null;
    this.events = [];
  }

  stop(): void {
    this.step = null;
  }

  begin(by: StepBy, head_ns: number): void {
    this.step = { by, from_ns: head_ns, goal_ns: null, begun_ms: 0 };
  }

  tell(times_ns: readonly number[], head_ns: number): void {
    for (const time of times_ns) this.events.push(time);
    if (this.events.length > KEPT) this.events = this.events.filter((time) => time > head_ns);
  }

  /** The instant to show now, if up to `known_ns` is told; `wants`: up to where more must be told. */
  glide(
    wall_ms: number,
    head_ns: number,
    known_ns: number,
    sample_ns: number,
  ): { head_ns: number; wants: number | null } {
    const { step } = this;
    if (!step) return { head_ns, wants: null };
    if (step.goal_ns === null) {
      step.goal_ns = this.goalOf(step.by, head_ns, sample_ns);
      // Nothing happens to a packet within what is told: further on, then.
      if (step.goal_ns === null) return { head_ns, wants: known_ns + sample_ns };
      step.begun_ms = wall_ms;
    }
    const part = Math.min(1, (wall_ms - step.begun_ms) / GLIDE_MS);
    const there = step.from_ns + (step.goal_ns - step.from_ns) * part;
    const shown = Math.max(head_ns, Math.min(known_ns, there));
    const wants = known_ns < step.goal_ns ? step.goal_ns : null;
    if (shown >= step.goal_ns) this.step = null;
    return { head_ns: shown, wants };
  }

  private goalOf(by: StepBy, head_ns: number, sample_ns: number): number | null {
    if (by === "sample") return head_ns + sample_ns;
    if (by !== "packet") return head_ns + by * 1e9;
    this.events = this.events.filter((time) => time > head_ns);
    return this.events.length ? Math.min(...this.events) : null;
  }
}
