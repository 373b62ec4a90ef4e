import { expect, test } from "vitest";
import { Changes } from "./changes";
import type { Change, TimedChange } from "./types";

const rate = (rate_bps: number): Change => ({ link: "l", rate_bps });

test("of one thing only the newest change is sent, of others each", async () => {
  const sent: Change[] = [];
  const done: TimedChange[] = [];
  const changes = new Changes(
    async (change) => sent.push(change),
    (change) => done.push(change),
    () => {},
  );
  for (const one of [rate(1), rate(2), rate(3), { flow: "f", count: 2 }, rate(4), { link: "l", qdisc: "pie" }]) {
    changes.put(one);
  }
  expect(changes.pending).toEqual([rate(1), rate(4), { flow: "f", count: 2 }, { link: "l", qdisc: "pie" }]);
  await expect.poll(() => done.length).toBe(4);
  expect(sent).toEqual([rate(1), rate(4), { flow: "f", count: 2 }, { link: "l", qdisc: "pie" }]);
  expect(done[0]).toEqual({ ...rate(1), time_ns: 1 });
  expect(changes.pending).toEqual([]);
});

test("what is refused is told; what belongs to the former run is not", async () => {
  const told: unknown[] = [];
  const answers: ((time_ns: number) => void)[] = [];
  const changes = new Changes(
    (change) => ("flow" in change ? Promise.reject("no") : new Promise((resolve) => answers.push(resolve))),
    (change) => told.push(change),
    (error) => told.push(error),
  );
  changes.put({ flow: "f", count: 1 });
  await expect.poll(() => told).toEqual(["no"]);
  changes.put(rate(1));
  await expect.poll(() => answers.length).toBe(1);
  changes.clear();
  answers[0]?.(5);
  changes.put(rate(2));
  await expect.poll(() => answers.length).toBe(2);
  answers[1]?.(7);
  await expect.poll(() => told).toEqual(["no", { ...rate(2), time_ns: 7 }]);
});
