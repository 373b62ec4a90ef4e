/** Time: pause, step, restart, speed, and whether the run goes on live or is repeated at once. */
import { parse, TIME, Wrong } from "../model/units";
import type { Status } from "../types";
import { h } from "./dom";
import { choice, slider } from "./fields";
import { logarithmic } from "./scale";

export type Mode = "live" | "instant";

export interface TransportActions {
  play(on: boolean): void;
  step(by: number | "packet"): void;
  restart(): void;
  speed(factor: number): void;
  mode(mode: Mode): void;
}

export interface Transport {
  root: HTMLElement;
  set(speed: number, mode: Mode): void;
  status(status: Status): void;
}

const SPEEDS = logarithmic(0.01, 100);
const STEPS = ["packet", "100us", "1ms", "10ms", "100ms", "1s", "10s"];

export function speedOf(text: string): number {
  const match = /^\s*(\d+\.?\d*|\.\d+)\s*[x×]?\s*$/.exec(text);
  const speed = Number(match?.[1]);
  if (!match) throw new Wrong("is not a speed; write for example 0.5 or 10x");
  if (speed < 0.01 || speed > 100) throw new Wrong("must be from 0.01 to 100");
  return speed;
}

export function transport(actions: TransportActions): Transport {
  let running = true;
  const button = (id: string, label: string, title: string, act: () => void) => {
    const made = h("button", { type: "button", id, title }, label);
    made.addEventListener("click", act);
    return made;
  };
  const play = button("play", "Pause", "Pause or resume (space)", () => actions.play(!running));
  const wide = choice({
    id: "step-size",
    label: "by",
    options: STEPS.map((step) => [step, step === "packet" ? "one packet" : step] as const),
    put: () => {},
  });
  wide.root.classList.add("only-wide");
  wide.set("packet");
  const stepSize = () => {
    const by = wide.root.querySelector("select")?.value ?? "packet";
    return by === "packet" ? by : parse(by, TIME) / 1e9;
  };
  const step = button("step", "Step", "Pause and advance by one step (→ on the page)", () => actions.step(stepSize()));
  const restart = button("restart", "Restart", "Begin at 0 s with the current settings", actions.restart);
  const speed = slider({
    id: "speed",
    label: "Speed",
    scale: SPEEDS,
    print: (value) => `${value}×`,
    read: speedOf,
    put: actions.speed,
  });
  const modes = (["live", "instant"] as const).map((mode) => {
    const made = button(`mode-${mode}`, mode === "live" ? "Live" : "Instant", MODES[mode], () => actions.mode(mode));
    return [mode, made] as const;
  });
  const now = h("output", { id: "now", className: "now", title: "virtual time" }, "0.00 s");
  const slow = h("span", { id: "achieved", className: "help" });
  const keys = h("div", { className: "chips", role: "group", ariaLabel: "Mode" }, ...modes.map(([, made]) => made));
  const live = h("div", { className: "while-live" }, play, step, wide.root, speed.root);
  return {
    root: h("section", { className: "transport", ariaLabel: "Time" }, keys, live, restart, now, slow),
    set(factor, mode) {
      speed.set(factor);
      for (const [of, made] of modes) made.setAttribute("aria-pressed", String(of === mode));
      live.hidden = mode === "instant";
      restart.textContent = mode === "instant" ? "Run again" : "Restart";
    },
    status({ now_ns, state, speed: asked, says }) {
      running = state === "running";
      play.textContent = running ? "Pause" : "Play";
      now.textContent = `${(now_ns / 1e9).toFixed(asked < 0.2 || state === "paused" ? 4 : 2)} s`;
      slow.textContent = state === "stopped" ? "" : (says ?? "");
    },
  };
}

const MODES: Record<Mode, string> = {
  live: "Time keeps running, and each change takes effect at once",
  instant: "Each change simulates the whole time again; the previous curves stay as a ghost",
};
