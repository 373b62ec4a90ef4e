/** The page: what is set up, the engine that runs it, and the address that holds it. */
import { Changes } from "./changes";
import { createClock } from "./clock/clock";
import { h } from "./controls/dom";
import { figures } from "./controls/figures";
import { offered, type Service, type Wanted, withStandby } from "./controls/groups";
import { Left } from "./controls/left";
import { Problems } from "./controls/problems";
import { top } from "./controls/top";
import { type Mode, speedOf, transport } from "./controls/transport";
import { serverFacts } from "./engine/server";
import { Engines } from "./engines";
import { toJson } from "./json";
import { type Address, readAddress, writeAddress } from "./model/address";
import { described } from "./model/described";
import { open, PRESETS, type Preset } from "./model/presets";
import { changed, folded, setAt, withMade } from "./model/run";
import { endedAt, notYet, toToml } from "./model/toml";
import type { Change, Clock, FlowSpec, LinkSpec, Report, Run, Status, TimedChange, View, ViewOptions } from "./types";
import { createView } from "./view/view";

const FIRST = PRESETS[0] as Preset;
const HOLD_MS = 250;

export class App {
  /** What the run began with, and what was changed by hand since. */
  private base: Run;
  private made: TimedChange[] = [];
  /** Groups that the engine has, and that nobody has added yet. */
  private silent = new Map<string, FlowSpec>();
  private preset: Preset | null = null;
  private speed = 1;
  private mode: Mode = "live";
  private written = "";
  private due = 0;
  private holding: ReturnType<typeof setTimeout> | undefined;

  private readonly problems = new Problems();
  private readonly engines = new Engines(() => this.show());
  private readonly left: Left;
  private readonly top: ReturnType<typeof top>;
  private readonly transport: ReturnType<typeof transport>;
  private readonly view: View;
  private readonly clock: Clock;
  private readonly changes = new Changes(
    (change) => this.send(change),
    (change) => this.tookEffect(change),
    (error) => this.refused(error),
  );

  constructor(root: HTMLElement) {
    this.base = open(FIRST).run as Run;
    this.left = new Left({
      change: (change) => this.change(change),
      anew: (edit) => this.anew(edit),
      add: (wanted, service) => this.add(wanted, service),
      check: (link) => this.check(link),
      vocabulary: () => this.engines.vocabulary,
    });
    const all = figures(() => this.report());
    this.top = top(this.engines.available, {
      preset: (id) => this.choose(id),
      engine: (name) => {
        this.problems.say(
          "engine",
          [this.engines.choose(name)].filter((one) => one !== null),
        );
        this.restart();
      },
      figures: () => void all.open(),
      save: () => void this.save(),
      copyLink: () => void this.copyLink(),
    });
    this.transport = transport({
      play: (on) => (on ? this.clock.resume() : this.clock.pause()),
      step: (by) => this.clock.step(by),
      restart: () => this.restart(),
      speed: (factor) => this.setSpeed(factor),
      mode: (mode) => this.setMode(mode),
    });
    const drawn = h("div", { id: "view" });
    this.view = createView(drawn, { chosen: () => this.hold() });
    this.clock = createClock(() => this.engines.open(), this.view);
    this.clock.onStatus((status) => this.status(status));
    root.replaceChildren(
      this.top.root,
      this.transport.root,
      this.problems.root,
      h("div", { className: "columns" }, drawer(this.left.root), drawn),
      all.root,
    );
    window.addEventListener("popstate", () => this.follow());
    document.addEventListener("keydown", (event) => this.key(event));
  }

  /** Begins with what the address, the server or nobody asks for. */
  begin(): void {
    const { run } = serverFacts();
    const told = run && described(toJson(run));
    this.follow(told?.run);
  }

  /** What is set now, and what has been asked for since, as if it had been so from the start. */
  private get set(): Run {
    const time_ns = this.clock.nowNs;
    return folded(
      this.took,
      this.changes.pending.map((change) => ({ ...change, time_ns })),
    );
  }

  /** What has taken effect, as if it had been so from the start. */
  private get took(): Run {
    return folded(this.base, this.made);
  }

  /** What is set at the instant that is shown, with what has been asked for since. */
  private get now(): Run {
    if (this.mode === "instant") return this.set;
    const latest = this.made.at(-1)?.time_ns ?? 0;
    const reached = setAt(withMade(this.base, this.made), Math.max(this.clock.nowNs, latest));
    return this.changes.pending.reduce(changed, reached);
  }

  private load(address: Address): void {
    const problems = [...address.problems];
    this.changes.clear();
    if (address.run) this.base = address.run;
    this.made = [];
    // A preset that was changed keeps its name in the address, so that it is called the same after a reload.
    this.preset =
      PRESETS.find((one) => isSame(this.base, open(one).run as Run)) ?? presetOf(address.view.get("preset")) ?? null;
    for (const [key, value] of address.view) {
      const wrong = this.setting(key, value);
      if (wrong) problems.push(wrong);
    }
    this.problems.say("address", problems);
    this.restart();
    this.holdNow();
  }

  /** One of the page's own settings from the address; gives what is wrong with it. */
  private setting(key: string, value: string): string | null {
    const choices: Record<string, readonly string[]> = { mode: ["live", "instant"], ...VIEW };
    if (key === "engine") return this.engines.choose(value);
    if (key === "preset")
      return presetOf(value) ? null : `view.preset = "${value}" is no preset; leave it out, or choose one above`;
    if (key === "speed") {
      try {
        this.setSpeed(speedOf(value));
        return null;
      } catch (error) {
        return `view.speed = "${value}" ${(error as Error).message}`;
      }
    }
    const valid = Object.hasOwn(choices, key) ? choices[key] : undefined;
    if (!valid)
      return `view.${key} = "${value}" is not a key here; valid are ${["engine", "preset", "speed", ...Object.keys(choices)].join(", ")}`;
    if (!valid.includes(value)) return `view.${key} = "${value}" is none of ${valid.join(", ")}; write one of them`;
    if (key === "mode") this.takeMode(value as Mode);
    else this.view.choose({ [key]: key === "window_s" ? Number(value) : value } as Partial<ViewOptions>);
    return null;
  }

  private restart(): void {
    this.base = this.set;
    this.made = [];
    this.changes.clear();
    this.problems.say("change", []);
    const run = this.offering(this.base);
    this.silent = new Map(run.flows.slice(this.base.flows.length).map((flow) => [flow.name, flow]));
    this.show();
    // What fails is in the clock's status.
    this.clock.start(run).catch(() => {});
  }

  /** With silent groups where they can begin to send while it runs. */
  private offering(run: Run): Run {
    return this.mode === "live" && this.engines.addsFlows ? withStandby(run) : run;
  }

  private anew(edit: (run: Run) => Run): void {
    this.base = edit(this.set);
    this.made = [];
    this.restart();
  }

  private change(change: Change): void {
    if (this.mode === "live") {
      this.changes.put(change);
      return;
    }
    // It holds for all the time that is shown, whatever was scheduled.
    this.base = folded(this.base, [{ ...change, time_ns: Number.POSITIVE_INFINITY }]);
    this.show();
    this.clock.change(this.base, change).then(
      () => this.problems.say("change", []),
      (error) => this.refused(error),
    );
  }

  private send(change: Change): Promise<number | null> {
    return this.clock.change(changed(this.offering(this.took), change), change);
  }

  private tookEffect(change: TimedChange): void {
    this.made.push(change);
    this.problems.say("change", []);
    this.show();
  }

  private refused(error: unknown): void {
    this.problems.say("change", [error instanceof Error ? error.message : String(error)]);
    this.show();
  }

  private add(wanted: Wanted, service: Service): void {
    const group = offered(this.set, wanted, service);
    const silent = this.silent.get(group.name);
    if (!silent) {
      this.anew((run) => ({ ...run, flows: [...run.flows, group] }));
      return;
    }
    this.base = { ...this.base, flows: [...this.base.flows, silent] };
    this.change({ flow: group.name, count: 1 });
  }

  /** Why the engine refuses a link. */
  private async check(link: LinkSpec): Promise<string | null> {
    const links = this.set.links.map((one) => (one.name === link.name ? link : one));
    try {
      const engine = await this.engines.open();
      await engine.ask({ do: "check", run: { ...this.set, links } });
      return null;
    } catch (error) {
      return String(error instanceof Error ? error.message : error).replace(/^the request is not valid: /, "");
    }
  }

  private choose(id: string): void {
    const preset = presetOf(id);
    if (!preset) return;
    // Back leads to what was there before.
    this.holdNow();
    history.pushState(null, "", location.href);
    const address = open(preset);
    this.load({ ...address, view: new Map([["speed", "1"], ...address.view]) });
  }

  private setSpeed(factor: number): void {
    this.speed = factor;
    this.clock.setSpeed(factor);
    this.transport.set(this.speed, this.mode);
    this.hold();
  }

  private setMode(mode: Mode): void {
    if (mode === this.mode) return;
    this.takeMode(mode);
    this.restart();
  }

  private takeMode(mode: Mode): void {
    this.base = this.set;
    this.made = [];
    this.changes.clear();
    this.mode = mode;
    this.clock.setMode(mode);
  }

  private status(status: Status): void {
    this.transport.status(status);
    this.problems.say("clock", status.state === "stopped" && status.says !== null ? [status.says] : []);
    const due = this.base.at.filter((change) => change.time_ns <= status.now_ns).length;
    if (due !== this.due) this.show();
    this.due = due;
  }

  /** Shows what is set, and holds it in the address. */
  private show(): void {
    this.left.set(this.now, this.set);
    this.top.set(this.preset, this.isChanged(), this.engines.name);
    this.transport.set(this.speed, this.mode);
    this.hold();
  }

  private isChanged(): boolean {
    return this.preset !== null && !isSame(this.set, open(this.preset).run as Run);
  }

  /** Browsers refuse an address that changes too often. */
  private hold(): void {
    this.holding ??= setTimeout(() => this.holdNow(), HOLD_MS);
  }

  private holdNow(): void {
    clearTimeout(this.holding);
    this.holding = undefined;
    const options = this.view.options;
    const chosen = Object.keys(VIEW).map((key) => [key, String(options[key as keyof ViewOptions])] as const);
    const view = new Map<string, string>([
      ["speed", `${this.speed}`],
      ["mode", this.mode],
      ["engine", this.engines.name],
      ...chosen,
    ]);
    if (this.preset && this.isChanged()) view.set("preset", this.preset.id);
    for (const [key, value] of view) if (USUAL.get(key) === value) view.delete(key);
    const hash = writeAddress(this.set, view);
    if (hash === this.written) return;
    this.written = hash;
    history.replaceState(null, "", `#${hash}`);
  }

  /** Back, forward, or an address that was pasted. */
  private follow(otherwise = open(FIRST).run as Run): void {
    if (this.written && location.hash.slice(1) === this.written) return;
    const address = readAddress(location.hash);
    // An address holds everything, but for the engine, which does not change a run.
    const view = new Map([...USUAL, ...address.view]);
    if (!address.view.has("engine")) view.delete("engine");
    this.load({ ...address, view, run: address.run ?? otherwise });
  }

  /** The figures so far, without the groups that nobody has added. */
  private async report(): Promise<Report> {
    const report = await this.clock.report();
    const { flows } = this.set;
    return { ...report, flows: report.flows.filter((row) => flows.some(({ name }) => name === row.flow)) };
  }

  /** The file ends where the engine is, which is a little later than what is shown. */
  private async save(): Promise<void> {
    let now_ns: number;
    try {
      ({ now_ns } = await this.clock.report());
    } catch (error) {
      this.top.note(error instanceof Error ? error.message : String(error));
      return;
    }
    const run = this.mode === "live" ? withMade(this.base, this.made) : { ...this.set, warmup_ns: 0 };
    const wrong = notYet(run, now_ns);
    if (wrong) {
      this.top.note(wrong);
      return;
    }
    const title = this.preset
      ? `${this.preset.title}${this.isChanged() ? ", changed" : ""}`
      : "Set up on the page of l4slab live";
    const file = new Blob([toToml(endedAt(run, now_ns), { title })], { type: "application/toml" });
    const link = h("a", { href: URL.createObjectURL(file), download: `${this.preset?.id ?? "live"}.toml` });
    link.click();
    URL.revokeObjectURL(link.href);
    this.top.note("saved");
  }

  private async copyLink(): Promise<void> {
    this.holdNow();
    try {
      await navigator.clipboard.writeText(location.href);
      this.top.note("copied");
    } catch {
      this.top.note("the browser does not allow it; copy the address from its address bar");
    }
  }

  private key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, button, summary, textarea"))
      return;
    const pressed = { " ": "play", ArrowRight: "step" }[event.key];
    if (!pressed) return;
    event.preventDefault();
    document.getElementById(pressed)?.click();
  }
}

/** On a small screen the controls are a sheet at its lower edge, beside what they change. */
function drawer(controls: HTMLElement): HTMLElement {
  const made = h("details", { id: "controls", className: "drawer" }, h("summary", {}, "Controls"), controls);
  const small = window.matchMedia("(max-width: 760px)");
  const follow = () => {
    made.open = !small.matches;
  };
  small.addEventListener("change", follow);
  follow();
  return made;
}

/** What the panels can be told in the address. */
const VIEW: Record<keyof ViewOptions, readonly string[]> = {
  window_s: ["5", "20", "60"],
  rates: ["flow", "service", "window"],
  delays: ["queue", "flow"],
  tail: ["cdf", "ccdf"],
};

/** What is not worth a word in the address. */
const USUAL = new Map([
  ["speed", "1"],
  ["mode", "live"],
  ["engine", "wasm"],
  ["window_s", "20"],
  ["rates", "flow"],
  ["delays", "queue"],
  ["tail", "cdf"],
]);

function presetOf(id: string | undefined): Preset | undefined {
  return PRESETS.find((one) => one.id === id);
}

function isSame(a: Run, b: Run): boolean {
  return writeAddress(a, new Map()) === writeAddress(b, new Map());
}
