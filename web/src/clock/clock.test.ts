import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Answers, Clock, Engine, Request, Run, Status, View } from "../types";
import { Refused } from "../types";
import { DEFAULTS } from "../view/scene";
import { createClock } from "./clock";

const run = { duration_ns: 60e9, links: [{ name: "b", rate_bps: 1e8 }], flows: [], at: [] } as unknown as Run;
const changed = (rate_bps: number) => ({ ...run, links: [{ name: "b", rate_bps }] }) as unknown as Run;

let frames: ((wall: number) => void)[] = [];
let wall = 0;

beforeEach(() => {
  frames = [];
  wall = 0;
  vi.stubGlobal("window", {});
  vi.stubGlobal("requestAnimationFrame", (frame: (wall: number) => void) => frames.push(frame));
  vi.spyOn(performance, "now").mockImplementation(() => wall);
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

/** Settles promises. */
const settle = async () => {
  for (let i = 0; i < 20; i += 1) await Promise.resolve();
};

async function watch(ms: number): Promise<void> {
  for (const end = wall + ms; wall < end; ) {
    wall += 16;
    for (const frame of frames.splice(0)) frame(wall);
    await settle();
  }
}

/** An engine that answers when it is told to, and remembers what it was asked. */
class FakeEngine implements Engine {
  readonly name = "wasm";
  readonly asked: Request[] = [];
  waiting: (() => void)[] = [];
  /** Answers at once. */
  isQuick = true;
  refuses: string | null = null;

  ask<R extends Request>(request: R): Promise<Answers[R["do"]]> {
    this.asked.push(request);
    return new Promise((resolve, reject) => {
      const answer = () => {
        if (this.refuses) return reject(new Refused(this.refuses));
        const now_ns =
          request.do === "advance" ? request.until_ns : request.do === "batch" ? request.run.duration_ns : 0;
        resolve({ now_ns, time_ns: 7, gauges: [], flows: [], links: [] } as unknown as Answers[R["do"]]);
      };
      if (this.isQuick) answer();
      else this.waiting.push(answer);
    });
  }
  close(): void {}
  of<D extends Request["do"]>(what: D): Extract<Request, { do: D }>[] {
    return this.asked.filter((one) => one.do === what) as Extract<Request, { do: D }>[];
  }
}

const view = () => {
  const told = { show: [] as Run[], add: 0, replace: 0, frames: [] as number[], clear: 0 };
  const made: View = {
    show: (shown) => told.show.push(shown),
    add: () => {
      told.add += 1;
    },
    replace: () => {
      told.replace += 1;
    },
    frame: (now_ns) => told.frames.push(now_ns),
    clear: () => {
      told.clear += 1;
    },
    options: DEFAULTS,
    choose: () => {},
  };
  return { told, made };
};

function begin(): { engine: FakeEngine; clock: Clock; told: ReturnType<typeof view>["told"]; status: Status[] } {
  const engine = new FakeEngine();
  const { told, made } = view();
  const clock = createClock(async () => engine, made);
  const status: Status[] = [];
  clock.onStatus((one) => status.push(one));
  return { engine, clock, told, status };
}

test("virtual time follows the wall clock, and one request is under way at a time", async () => {
  const { engine, clock, told } = begin();
  await clock.start(run);
  await watch(2000);
  expect(clock.nowNs).toBeGreaterThan(1.9e9);
  expect(clock.nowNs).toBeLessThan(2.1e9);
  expect(told.frames.every((at, i) => i === 0 || at >= (told.frames[i - 1] as number))).toBe(true);
  engine.isQuick = false;
  const before = engine.of("advance").length;
  await watch(500);
  expect(engine.of("advance").length).toBe(before + 1);
});

test("while another engine opens, the former one is not asked", async () => {
  const [former, next] = [new FakeEngine(), new FakeEngine()];
  let open: (engine: Engine) => void = () => {};
  let opening: Promise<Engine> = Promise.resolve(former);
  const clock = createClock(() => opening, view().made);
  const status: Status[] = [];
  clock.onStatus((one) => status.push(one));
  await clock.start(run);
  await watch(500);
  opening = new Promise((resolve) => {
    open = resolve;
  });
  former.refuses = "the engine was closed";
  const before = former.asked.length;
  const started = clock.start(run);
  await watch(500);
  expect(former.asked.length).toBe(before);
  open(next);
  await started;
  await watch(1000);
  expect(clock.nowNs).toBeGreaterThan(0.9e9);
  expect(status.filter(({ says }) => says !== null)).toEqual([]);
});

test("pause stands still, and a step goes on from there", async () => {
  const { clock, status } = begin();
  await clock.start(run);
  await watch(500);
  clock.pause();
  const at = clock.nowNs;
  await watch(500);
  expect(clock.nowNs).toBe(at);
  clock.step(0.25);
  await watch(500);
  expect(clock.nowNs).toBeCloseTo(at + 0.25e9, -1);
  expect(status.at(-1)?.state).toBe("paused");
  clock.resume();
  await watch(500);
  expect(clock.nowNs).toBeGreaterThan(at + 0.7e9);
});

test("an engine that cannot keep up is told in words", async () => {
  const { engine, clock, status } = begin();
  await clock.start(run);
  engine.isQuick = false;
  // A ms of the run takes three, whatever is asked.
  let known = 0;
  for (let i = 0; i < 200; i += 1) {
    await watch(16);
    const until = engine.of("advance").at(-1)?.until_ns ?? 0;
    const [answer] = engine.waiting;
    if (!answer || engine.waiting.length > 2) continue;
    await watch(((until - known) / 1e6) * 3);
    known = until;
    for (const one of engine.waiting.splice(0)) one();
    await settle();
  }
  const { achieved, says } = status.at(-1) as Status;
  expect(achieved).toBeLessThan(0.9);
  expect(says).toMatch(/^this page runs slower than the wall clock: 0\.\d+x$/);
});

test("a change takes effect, or is refused and nothing has changed", async () => {
  const { engine, clock, told, status } = begin();
  await clock.start(run);
  expect(await clock.change(changed(5e6), { link: "b", rate_bps: 5e6 })).toBe(7);
  expect(told.show.at(-1)?.links[0]?.rate_bps).toBe(5e6);
  engine.refuses = "rate must be above 0";
  await expect(clock.change(changed(0), { link: "b", rate_bps: 0 })).rejects.toThrow(Refused);
  expect(told.show.at(-1)?.links[0]?.rate_bps).toBe(5e6);
  // Whoever asked says it.
  expect(status.at(-1)?.says).toBe(null);
});

test("a change waits for the run to begin, and belongs to that run alone", async () => {
  const { engine, clock } = begin();
  engine.isQuick = false;
  const first = clock.start(run);
  const change = clock.change(changed(5e6), { link: "b", rate_bps: 5e6 });
  await settle();
  expect(engine.asked.map((one) => one.do)).toEqual(["start"]);
  engine.isQuick = true;
  engine.waiting.shift()?.();
  await first;
  expect(await change).toBe(7);
  engine.isQuick = false;
  void clock.start(run);
  const late = clock.change(changed(6e6), { link: "b", rate_bps: 6e6 });
  void clock.start(changed(6e6));
  await settle();
  for (const answer of engine.waiting) answer();
  expect(await late).toBe(null);
  expect(engine.of("change").length).toBe(1);
});

test("instant mode: moves while a batch is under way become one, the newest", async () => {
  const { engine, clock, told } = begin();
  clock.setMode("instant");
  await clock.start(run);
  expect(engine.of("batch").map((one) => one.run.duration_ns)).toEqual([20e9]);
  engine.isQuick = false;
  const moves = [1e6, 2e6, 3e6, 4e6].map((rate) => clock.change(changed(rate), { link: "b", rate_bps: rate }));
  await settle();
  while (engine.waiting.length) {
    for (const answer of engine.waiting.splice(0)) answer();
    await settle();
  }
  expect(await Promise.all(moves)).toEqual([null, null, null, null]);
  expect(engine.of("batch").map((one) => one.run.links[0]?.rate_bps)).toEqual([1e8, 1e6, 4e6]);
  expect(told.replace).toBe(3);
  expect(engine.of("start")).toEqual([]);
  // The figures are those of the batch.
  expect(await clock.report()).toEqual({ now_ns: 20e9, flows: [], links: [] });
  expect(engine.of("report")).toEqual([]);
});

test("answers to a former run's requests are left out", async () => {
  const { engine, clock, told } = begin();
  await clock.start(run);
  await watch(200);
  engine.isQuick = false;
  await watch(100);
  const former = engine.waiting.splice(0);
  engine.isQuick = true;
  await clock.start(run);
  const added = told.add;
  for (const answer of former) answer();
  await settle();
  expect(told.add).toBe(added);
  expect(clock.nowNs).toBe(0);
});

test("what the engine refuses at the start stops the clock, with its sentence", async () => {
  const { engine, clock, status } = begin();
  engine.refuses = "there is no link";
  await expect(clock.start(run)).rejects.toThrow(Refused);
  expect(status.at(-1)).toMatchObject({ state: "stopped", says: "there is no link" });
});
