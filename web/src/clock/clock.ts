/** The clock: pulls samples from the engine at a steady frame rate and lets the view draw them. */
import { type Change, type Clock, type Engine, Refused, type Report, type Run, type Status, type View } from "../types";
import { frames, tellAnswer, tellFrame } from "./frames";
import { Pace } from "./pace";
import { type StepBy, Stepping } from "./stepping";
import { batchWatch, watchOf } from "./watching";

const HISTOGRAMS_MS = 300;
const STATUS_MS = 200;
// While nothing moves, the page is drawn as often: a new size, a new theme.
const IDLE_MS = 250;
// No request asks for more.
const MOST_NS = 10e9;

export function createClock(engineFor: () => Promise<Engine>, view: View): Clock {
  const pace = new Pace();
  const stepping = new Stepping();
  let engine: Engine | null = null;
  let run: Run | null = null;
  let speed = 1;
  let mode: "live" | "instant" = "live";
  let state: Status["state"] = "stopped";
  let says: string | null = null;
  /** Answers to a former run's requests are not for this one. */
  let turn = 0;
  let isAsking = false;
  let watched = "";
  let histogramsAt = 0;
  let wantedBatch: Run | null = null;
  let isBatching = false;
  let instant_ns = 0;
  let instantReport: Report | null = null;
  let whole: Report | null = null;
  let last = performance.now();
  let drawn = 0;
  let applied_ms = 0;
  let told = 0;
  let former = "";
  /** The beginning of the newest run. */
  let started: Promise<void> = Promise.reject(new Refused("nothing runs yet"));
  started.catch(() => {});
  const listeners: ((status: Status) => void)[] = [];

  function fails(error: unknown): void {
    says = error instanceof Error ? error.message : String(error);
    tell();
  }

  function sentence(): string | null {
    if (says !== null || state !== "running" || mode === "instant") return says;
    if (pace.achieved === 0 || pace.achieved > 0.9 * speed) return null;
    const reached = Number(pace.achieved.toPrecision(2));
    return pace.achieved < 1 && speed >= 1
      ? `this page runs slower than the wall clock: ${reached}x`
      : `this engine reaches ${reached}x here, not ${speed}x`;
  }

  function tell(): void {
    told = performance.now();
    frames.achieved = pace.achieved;
    const now_ns = mode === "instant" ? instant_ns : pace.head_ns;
    const status: Status = { now_ns, state, speed, achieved: pace.achieved, says: sentence() };
    const key = JSON.stringify(status);
    if (key === former) return;
    former = key;
    for (const listener of listeners) listener(status);
  }

  /** Asks for samples up to an instant, and says what they are to hold where that is something else than before. */
  async function advance(until_ns: number): Promise<void> {
    if (!engine || !run) return;
    const mine = turn;
    isAsking = true;
    const begun = performance.now();
    const watch = watchOf(run, speed, view.options);
    watch.packets ||= stepping.wantsPackets;
    watch.histograms = begun - histogramsAt > HISTOGRAMS_MS;
    if (watch.histograms) histogramsAt = begun;
    try {
      const key = JSON.stringify(watch);
      // Answers come in order, so nobody waits for this one alone.
      const changed = key === watched ? null : engine.ask({ do: "watch", watch });
      changed?.then(() => pace.answeredIdly(performance.now() - begun)).catch(() => {});
      watched = key;
      const [samples] = await Promise.all([engine.ask({ do: "advance", until_ns }), changed]);
      if (mine !== turn) return;
      pace.answered(samples.now_ns, performance.now() - begun, engine?.worked_ms);
      const from = performance.now();
      view.add(samples);
      if (samples.packets) stepping.tell(samples.packets.time_ns, pace.head_ns);
      applied_ms += performance.now() - from;
    } catch (error) {
      if (mine !== turn) return;
      state = "stopped";
      fails(error);
    } finally {
      if (mine === turn) isAsking = false;
    }
  }

  function move(wall: number, elapsed: number, of: Run): void {
    let until: number | null;
    if (state === "running") {
      pace.frame(elapsed, speed);
      until = pace.next(speed);
    } else {
      const { sample_ns } = watchOf(of, speed, view.options);
      const { head_ns, wants } = stepping.glide(wall, pace.head_ns, pace.known_ns, sample_ns);
      pace.head_ns = head_ns;
      until = wants;
    }
    if (until !== null && !isAsking) void advance(Math.round(Math.min(until, pace.known_ns + MOST_NS)));
  }

  function tick(): void {
    requestAnimationFrame(tick);
    const wall = performance.now();
    const elapsed = wall - last;
    last = wall;
    const isMoving = mode === "live" && (state === "running" || stepping.isOn);
    if (run && isMoving) move(wall, elapsed, run);
    if (run && (isMoving || wall - drawn > IDLE_MS)) {
      drawn = wall;
      if (mode === "instant") view.frame(instant_ns, 1);
      else view.frame(pace.head_ns, speed);
      // The samples that came since the last frame count, too.
      if (isMoving) tellFrame(performance.now() - wall + applied_ms);
      applied_ms = 0;
    }
    if (wall - told > STATUS_MS) tell();
  }

  /** Runs the newest description as a whole; those that came while one was under way are left out. */
  async function batch(wanted: Run): Promise<void> {
    wantedBatch = wanted;
    if (isBatching) return;
    isBatching = true;
    try {
      while (wantedBatch && mode === "instant") {
        const begun = performance.now();
        const duration_ns = Math.min(wantedBatch.duration_ns, view.options.window_s * 1e9);
        const next: Run = { ...wantedBatch, duration_ns, warmup_ns: 0 };
        wantedBatch = null;
        engine ??= await engineFor();
        const samples = await engine.ask({ do: "batch", run: next, watch: batchWatch(next, view.options) });
        if (mode !== "instant") return;
        says = null;
        instant_ns = samples.now_ns;
        instantReport = { now_ns: samples.now_ns, flows: samples.flows, links: samples.links };
        whole = { now_ns: samples.now_ns, flows: samples.flows, links: samples.links };
        view.show(next);
        view.replace(samples);
        view.frame(instant_ns, 1);
        tellAnswer(performance.now() - begun);
        tell();
      }
    } finally {
      isBatching = false;
    }
  }

  function start(wanted: Run): Promise<void> {
    started = begin(wanted);
    return started;
  }

  async function begin(wanted: Run): Promise<void> {
    run = wanted;
    says = null;
    turn += 1;
    const mine = turn;
    stepping.reset();
    // Until it has begun, nobody is asked for samples: the former engine may be gone already.
    isAsking = true;
    try {
      engine = await engineFor();
      if (mode === "instant") return await batch(wanted);
      const watch = watchOf(wanted, speed, view.options);
      await engine.ask({ do: "start", run: wanted, watch });
      if (mine !== turn) return;
      watched = JSON.stringify(watch);
    } catch (error) {
      if (mine === turn) {
        state = "stopped";
        fails(error);
      }
      throw error;
    }
    pace.reset();
    view.clear();
    view.show(wanted);
    histogramsAt = 0;
    isAsking = false;
    if (state === "stopped") state = "running";
    tell();
  }

  /** Rejects with Refused; whoever asked says so. */
  async function change(wanted: Run, one: Change): Promise<number | null> {
    if (mode === "instant") {
      run = wanted;
      await batch(wanted);
      return null;
    }
    const mine = turn;
    await started;
    // The run that followed began with what was asked for.
    if (mine !== turn) return null;
    if (!engine) throw new Refused("nothing runs yet");
    const { time_ns } = await engine.ask({ do: "change", change: one });
    run = wanted;
    says = null;
    view.show(wanted, time_ns);
    return time_ns;
  }

  requestAnimationFrame(tick);
  window.l4slabFrames = frames;

  return {
    start,
    change,
    setSpeed(wanted: number): void {
      speed = Math.min(100, Math.max(0.01, wanted));
      pace.pause();
      tell();
    },
    pause(): void {
      if (state === "running") state = "paused";
      pace.pause();
      tell();
    },
    resume(): void {
      if (state === "paused") state = "running";
      stepping.stop();
      tell();
    },
    step(by: StepBy): void {
      if (mode !== "live" || state === "stopped") return;
      state = "paused";
      pace.pause();
      stepping.begin(by, pace.head_ns);
      tell();
    },
    setMode(wanted: "live" | "instant"): void {
      if (wanted === mode) return;
      mode = wanted;
      says = null;
      isAsking = false;
      view.clear();
      if (run) start(run).catch(fails);
    },
    get nowNs(): number {
      return mode === "instant" ? instant_ns : pace.head_ns;
    },
    async report(): Promise<Report> {
      if (mode === "instant" && whole) return whole;
      if (mode === "instant" && instantReport) return instantReport;
      if (!engine || mode === "instant") throw new Refused("nothing runs yet");
      return engine.ask({ do: "report" });
    },
    onStatus(listener: (status: Status) => void): void {
      listeners.push(listener);
    },
  };
}
