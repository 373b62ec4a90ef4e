import { expect, test } from "vitest";
import { Pace } from "./pace";

/** Runs a page at 60 frames a second on an engine that does `power` virtual seconds per second. */
function watch(
  pace: Pace,
  power: number,
  speed: number,
  seconds: number,
  way_ms = 1,
  known_ms = way_ms,
): { longest_ms: number; lead_ns: number } {
  let request: { until: number; begun: number; ready: number } | null = null;
  const found = { longest_ms: 0, lead_ns: 0 };
  const frame = 1000 / 60;
  for (let wall = 0; wall < seconds * 1000; wall += frame) {
    if (request && wall >= request.ready) {
      found.longest_ms = Math.max(found.longest_ms, request.ready - request.begun);
      pace.answeredIdly(known_ms);
      pace.answered(request.until, request.ready - request.begun);
      request = null;
    }
    pace.frame(frame, speed);
    found.lead_ns = Math.max(found.lead_ns, pace.known_ns - pace.head_ns);
    const until: number | null = request ? null : pace.next(speed);
    if (until !== null) {
      const work: number = (until - pace.known_ns) / 1e6 / power;
      request = { until, begun: wall, ready: wall + work + way_ms };
    }
  }
  return found;
}

test("virtual time keeps up with the wall clock where the engine is fast enough", () => {
  for (const [power, speed] of [
    [160, 1],
    [160, 0.01],
    [160, 20],
    [200, 100],
    [3, 1],
  ] as const) {
    const pace = new Pace();
    watch(pace, power, speed, 2);
    const before = pace.head_ns;
    const { lead_ns } = watch(pace, power, speed, 5);
    expect((pace.head_ns - before) / 5e9 / speed).toBeCloseTo(1, 1);
    expect(pace.achieved / speed).toBeCloseTo(1, 1);
    expect(lead_ns).toBeLessThanOrEqual(0.102e9 * speed);
  }
});

test("an engine that is too slow makes virtual time slower, and no request longer than a moment", () => {
  for (const [power, speed] of [
    [0.4, 1],
    [40, 100],
    [1, 1.5],
  ] as const) {
    const pace = new Pace();
    watch(pace, power, speed, 3);
    const { longest_ms } = watch(pace, power, speed, 5);
    expect(pace.achieved).toBeGreaterThan(power * 0.6);
    expect(pace.achieved).toBeLessThan(power * 1.01);
    expect(longest_ms).toBeLessThan(60);
  }
});

test("a long way to the engine does not make the steps ever smaller", () => {
  const pace = new Pace();
  watch(pace, 100, 1, 5, 90);
  expect(pace.achieved).toBeGreaterThan(0.7);
});

test("what a busy machine adds to each request does not make virtual time stand still", () => {
  const pace = new Pace();
  watch(pace, 160, 1, 1);
  watch(pace, 160, 1, 5, 90, 1);
  expect(pace.achieved).toBeGreaterThan(0.08);
  watch(pace, 160, 1, 3);
  expect(pace.achieved).toBeGreaterThan(0.9);
});

test("an engine that becomes slow is asked for less", () => {
  const pace = new Pace();
  watch(pace, 160, 20, 3);
  expect(watch(pace, 2, 20, 3).longest_ms).toBeGreaterThan(100);
  expect(watch(pace, 2, 20, 5).longest_ms).toBeLessThan(60);
});

test("a page that was hidden does not catch up", () => {
  const pace = new Pace();
  watch(pace, 160, 1, 1);
  const before = pace.head_ns;
  pace.frame(3600e3, 1);
  expect(pace.head_ns - before).toBeLessThanOrEqual(0.1e9);
});
