/** The right side of the page: the panels, and the samples that they draw. */
import "uplot/dist/uPlot.min.css";
import "./view.css";
import type { Run, Samples, View, ViewOptions } from "../types";
import { element } from "./panel";
import { AirPanel } from "./panels/air";
import { Completion } from "./panels/completion";
import { Distribution } from "./panels/distribution";
import { Frames } from "./panels/frames";
import { Headline } from "./panels/headline";
import { delayPanel, dropPanel, lawPanel, markPanel, ratePanel, utilisationPanel } from "./panels/over_time";
import { Picture } from "./queue/picture";
import { looksOf, type Role, roleOf, SERVICES } from "./roles";
import { bottleneckOf, DEFAULTS, type Drawn, type Scene, sending } from "./scene";
import { Store } from "./store";
import { followTheme } from "./theme";

export interface ViewHooks {
  /** The reader chose in a panel. */
  chosen?(options: Readonly<ViewOptions>): void;
  /** Something must be drawn anew although nothing moves. */
  stale?(): void;
}

// Numbers and distributions change a few times a second: what is faster cannot be read.
const REFRESH_MS = 250;
// Time for curves in a frame; where they need more, each is drawn less often.
const BUDGET_MS = 7;

export function createView(root: HTMLElement, hooks: ViewHooks = {}): View {
  root.classList.add("view");
  const panels = element("div", "panels");
  root.replaceChildren(panels);

  const scene: Scene = {
    run: null,
    store: new Store(),
    ghost: null,
    looks: new Map(),
    roles: [],
    link: "",
    options: { ...DEFAULTS },
    now_s: 0,
    window_s: DEFAULTS.window_s,
    changed_s: Number.NEGATIVE_INFINITY,
    speed: 1,
  };
  let spare = new Store();
  let shape = "";
  let refreshed = 0;
  let frames = 0;
  let cost_ms = 0;

  const choose = (options: Partial<ViewOptions>) => {
    Object.assign(scene.options, options);
    shape = "";
    refreshed = 0;
    for (const press of presses) press();
    hooks.chosen?.(scene.options);
    hooks.stale?.();
  };

  const headline = new Headline(scene, panels);
  const picture = new Picture(scene, panels);
  const air = new AirPanel(scene, panels);
  const frameTimes = new Frames(scene, panels);
  const rates = ratePanel(scene, panels, (rates) => choose({ rates }));
  const delays = delayPanel(scene, panels, (delays) => choose({ delays }));
  const distribution = new Distribution(scene, panels, (tail) => choose({ tail }));
  const completion = new Completion(scene, panels);
  const curves = [
    rates,
    delays,
    markPanel(scene, panels),
    dropPanel(scene, panels),
    lawPanel(scene, panels),
    utilisationPanel(scene, panels),
  ];
  const drawn: Drawn[] = [headline, picture, air, frameTimes, ...curves, distribution, completion];
  const pressWindow = picture.panel.choice(
    "time that the curves show",
    [
      ["5", "5 s"],
      ["20", "20 s"],
      ["60", "60 s"],
    ],
    String(DEFAULTS.window_s),
    (window) => choose({ window_s: Number(window) as ViewOptions["window_s"] }),
  );
  const offerLinks = picture.panel.selection("link that the page shows", (link) => {
    scene.link = link;
    choose({});
  });
  const presses = [() => pressWindow(String(scene.options.window_s))];
  followTheme(root, () => {
    for (const one of drawn) one.redraw();
    shape = "";
    hooks.stale?.();
  });

  /** What decides which curves there are. */
  function shapeNow(): string {
    const { fine, queues } = scene.store;
    const flows = sending(scene).map((flow) => `${flow.name} ${flow.count}`);
    return [fine.width, ...[...queues.values()].flat(), ...flows].join();
  }

  /** The panels learn which flows, queues and gauges there are. */
  function arrange(): void {
    const present = sending(scene).map(roleOf);
    scene.roles = (Object.keys(SERVICES) as Role[]).filter((role) => present.includes(role));
    for (const one of drawn) one.arrange();
  }

  return {
    get options() {
      return scene.options;
    },
    choose,
    show(run: Run, changed_ns = Number.NEGATIVE_INFINITY): void {
      scene.run = run;
      scene.changed_s = changed_ns * 1e-9;
      scene.store.show(run);
      scene.looks = looksOf(run.flows);
      const names = run.links.map(({ name }) => name);
      if (!names.includes(scene.link)) scene.link = bottleneckOf(run);
      offerLinks(names, scene.link);
      shape = "";
    },
    add(samples: Samples): void {
      scene.store.add(samples);
      picture.add(samples);
    },
    replace(samples: Samples): void {
      const former = scene.store;
      scene.store = spare;
      scene.store.clear();
      if (scene.run) scene.store.show(scene.run);
      scene.store.add(samples);
      picture.add(samples);
      scene.ghost = former.fine.rows ? former : null;
      spare = former;
      shape = "";
      refreshed = 0;
    },
    frame(now_ns: number, speed: number): void {
      scene.now_s = now_ns * 1e-9;
      scene.speed = speed;
      scene.window_s = scene.options.window_s * speed;
      const begun = performance.now();
      const now = shapeNow();
      if (now !== shape) {
        shape = now;
        arrange();
      }
      frames += 1;
      picture.draw();
      air.draw();
      completion.draw();
      frameTimes.draw();
      const stride = Math.max(1, Math.min(4, Math.ceil(cost_ms / BUDGET_MS)));
      const from = performance.now();
      let many = 0;
      curves.forEach((one, i) => {
        if (stride > 1 && (frames + i) % stride !== 0) return;
        one.draw();
        many += 1;
      });
      if (many) cost_ms += (((performance.now() - from) / many) * curves.length - cost_ms) * 0.1;
      if (begun - refreshed > REFRESH_MS) {
        refreshed = begun;
        for (const one of drawn) one.refresh();
      }
    },
    clear(): void {
      scene.store.clear();
      scene.ghost = null;
      picture.clear();
      shape = "";
    },
  };
}
