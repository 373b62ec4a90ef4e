import { expect, test } from "vitest";
import { Stepping } from "./stepping";

/** Frames of 16 ms until the step is over; an engine tells what is wanted, with a packet's event each ms. */
function finish(stepping: Stepping, head: number, known: number): { head: number; known: number; shown: number[] } {
  const shown: number[] = [];
  for (let wall = 0; stepping.isOn && wall < 5000; wall += 16) {
    const { head_ns, wants } = stepping.glide(wall, head, known, 300_000);
    head = head_ns;
    shown.push(head);
    if (wants !== null) {
      const until = Math.round(wants);
      const times = [];
      for (let ms = Math.floor(known / 1e6) + 1; ms * 1e6 <= until; ms += 1) times.push(ms * 1e6);
      known = until;
      stepping.tell(times, head);
    }
  }
  return { head, known, shown };
}

test("a step goes as far as it says, through instants in between, and never back", () => {
  for (const by of [0.5, "sample", "packet"] as const) {
    const stepping = new Stepping();
    stepping.begin(by, 2.4e6);
    const { head, shown } = finish(stepping, 2.4e6, 2.4e6);
    expect(head).toBeCloseTo(by === "packet" ? 3e6 : by === "sample" ? 2.7e6 : 502.4e6, -1);
    expect(shown.length).toBeGreaterThan(5);
    expect(shown.every((at, i) => i === 0 || at >= (shown[i - 1] as number))).toBe(true);
  }
});

test("packets that were told before the step count", () => {
  const stepping = new Stepping();
  stepping.tell([1e6, 5e6, 4e6], 0);
  stepping.begin("packet", 1e6);
  expect(finish(stepping, 1e6, 6e6).head).toBe(4e6);
});
