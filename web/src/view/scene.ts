/** What every panel sees. */
import { rateOf } from "../model/media";
import { separationOf } from "../model/short";
import type { FlowSpec, Run, ViewOptions } from "../types";
import { type Counts, keyOf, total } from "./distribution";
import { type Look, lookOf, type Role, SERVICES } from "./roles";
import { ofFlow, ofService, type Store } from "./store";
import { figures } from "./theme";

export const DEFAULTS: ViewOptions = { window_s: 20, rates: "flow", delays: "queue", tail: "cdf" };

export interface Scene {
  run: Run | null;
  store: Store;
  /** What was before the last change, in instant mode. */
  ghost: Store | null;
  looks: Map<string, Look>;
  roles: Role[];
  /** The link that is shown. */
  link: string;
  options: ViewOptions;
  /** The instant that is shown, and how far the curves reach back, in seconds of the run. */
  now_s: number;
  window_s: number;
  /** When something was changed by hand; -Infinity if nothing was. */
  changed_s: number;
  /** Virtual seconds per second. */
  speed: number;
}

export interface Drawn {
  /** Which curves there are: after a new run, a new queue, another choice. */
  arrange(): void;
  /** At each frame. */
  draw(): void;
  /** A few times a second: numbers in words, distributions. */
  refresh(): void;
  /** Colours changed. */
  redraw(): void;
}

/** The slowest of the links that data takes: one that only ACKs take is no bottleneck, however slow. */
export function bottleneckOf({ links, flows }: Run): string {
  const taken = new Set(flows.flatMap(({ count, path }) => (count > 0 ? path : [])));
  const open = links.filter(({ name }) => taken.has(name));
  return (open.length ? open : links).reduce((a, b) => (rateOf(b) < rateOf(a) ? b : a)).name;
}

/** The time that numbers and distributions are of: the window, or what came since the last change within it. */
export interface Measured {
  from_s: number;
  isSinceChange: boolean;
  counts: Map<string, Counts>;
  words: string;
}

export function measured({ run, store, now_s, window_s, changed_s }: Scene): Measured {
  const scheduled = (run?.at ?? []).map(({ time_ns }) => time_ns * 1e-9).filter((time_s) => time_s <= now_s);
  const change_s = Math.max(changed_s, ...scheduled);
  if (change_s > Math.max(0, now_s - window_s)) {
    const counts = store.distributions.since(change_s);
    return { from_s: change_s, isSinceChange: true, counts, words: "since the change" };
  }
  const counts = store.distributions.last(window_s);
  // At first there is less than the window.
  const words = `last ${figures(Math.min(window_s, Math.max(0, now_s)), 1)} s`;
  return { from_s: now_s - window_s, isSinceChange: false, counts, words };
}

/** Flow groups that send, or did within the window. */
export function sending({ run, store, now_s, window_s }: Scene): FlowSpec[] {
  const sent = (flow: string) => (store.sent.get(flow) ?? Number.NEGATIVE_INFINITY) > now_s - window_s;
  return (run?.flows ?? []).filter((flow) => flow.count > 0 || sent(flow.name));
}

/** Who is told apart in sums: the services, or the groups where all are of one service. */
export interface Party {
  name: string;
  look: Look;
  key(quantity: string): string;
}

const GROUPS_APART = 4;

export function partiesOf(scene: Scene): Party[] {
  const flows = sending(scene);
  if (scene.roles.length === 1 && flows.length > 1 && flows.length <= GROUPS_APART) {
    return flows.map(({ name }) => ({
      name,
      look: scene.looks.get(name) ?? lookOf("other"),
      key: (quantity) => ofFlow(name, quantity),
    }));
  }
  return scene.roles.map((role) => ({
    name: SERVICES[role],
    look: lookOf(role),
    key: (quantity) => ofService(role, quantity),
  }));
}

/** The link's qdisc at the instant that is shown. */
export function qdiscOf(scene: Scene): string {
  const { run, link, now_s } = scene;
  let qdisc = run?.links.find((one) => one.name === link)?.qdisc ?? "";
  for (const change of run?.at ?? []) {
    if ("link" in change && change.link === link && change.qdisc && change.time_ns <= now_s * 1e9) qdisc = change.qdisc;
  }
  return qdisc;
}

/** Queues inside the link's qdiscs, of all that were in force; none where all packets stood in one. */
export function queuesOf(scene: Scene): string[] {
  return (scene.store.queues.get(scene.link) ?? []).filter((queue) => queue !== "all");
}

/** Queues of which there are counts, or all packets if there are none inside. */
export function countedOf(scene: Scene, counts: ReadonlyMap<string, Counts>): { queue: string; key: string }[] {
  const of = (queue: string) => ({
    queue,
    key: keyOf({ quantity: "sojourn_ms", flow: null, link: scene.link, queue }),
  });
  const inside = queuesOf(scene).map(of);
  const some = inside.filter(({ key }) => total(counts.get(key) ?? new Float64Array()) > 0);
  return some.length ? some : [of("all")];
}

/** Whether each flow has a queue of its own there. */
export function hasFlowQueues(qdisc: string): boolean {
  return separationOf(qdisc) === "per-flow";
}
