/**
 * Who looks like what, as in the figures (`python/l4slab/plot/roles.py`): a hue, a dash and a marker per role. The role
 * follows from the congestion control, never from the order of appearance.
 */
import { CONTROLLERS, MEDIA } from "../model/short";
import type { FlowSpec } from "../types";

export type Role = "scalable" | "classic" | "bbr" | "sce" | "unresponsive" | "other";
export type Marker = "circle" | "square" | "triangle" | "down" | "plus" | "cross";

export interface Look {
  readonly colour: string;
  /** On, off, … in CSS pixels; empty: solid. */
  readonly dash: readonly number[];
  readonly marker: Marker;
}

/** The colour of text, which follows the theme. */
export const INK = "ink";

const LOOKS: Record<Role, readonly Look[]> = {
  scalable: [
    { colour: "#0072B2", dash: [], marker: "circle" },
    { colour: "#3A9AD9", dash: [16, 3], marker: "circle" },
    { colour: "#5B5FC7", dash: [6, 2], marker: "circle" },
  ],
  classic: [
    { colour: "#D55E00", dash: [9, 3], marker: "square" },
    { colour: "#E69F00", dash: [4, 2], marker: "square" },
    { colour: "#A84A00", dash: [12, 3, 2, 3], marker: "square" },
  ],
  bbr: [
    { colour: "#009E73", dash: [11, 3, 3, 3], marker: "triangle" },
    { colour: "#4CC29C", dash: [8, 2, 2, 2, 2, 2], marker: "triangle" },
  ],
  sce: [
    { colour: "#CC79A7", dash: [2, 2], marker: "down" },
    { colour: "#A4508B", dash: [6, 2, 2, 2], marker: "down" },
    { colour: "#E3A9C8", dash: [12, 4], marker: "down" },
  ],
  unresponsive: [
    { colour: "#9A9A9A", dash: [14, 2, 2, 2, 2, 2], marker: "plus" },
    { colour: "#6B6B6B", dash: [8, 4], marker: "plus" },
    { colour: "#C2C2C2", dash: [2, 3], marker: "plus" },
  ],
  other: [
    { colour: INK, dash: [], marker: "cross" },
    { colour: "#009E73", dash: [11, 3, 3, 3], marker: "triangle" },
    { colour: "#CC79A7", dash: [2, 2], marker: "down" },
    { colour: "#E69F00", dash: [9, 3], marker: "square" },
  ],
};

/** What a service is called. */
export const SERVICES: Readonly<Record<Role, string>> = {
  scalable: "L4S",
  classic: "Classic",
  bbr: "BBR",
  sce: "SCE",
  unresponsive: "Unresponsive",
  other: "Other",
};

/** Look number `n` of a role; beyond those it has, shades come again with the next dashes. */
export function lookOf(role: Role, n = 0): Look {
  const looks = LOOKS[role];
  const shade = looks[n % looks.length] as Look;
  const dash = looks[(n + Math.floor(n / looks.length)) % looks.length] as Look;
  return { ...shade, dash: dash.dash };
}

function placeOf(flow: FlowSpec): readonly [Role, number] {
  if (flow.kind === "cbr") return ["unresponsive", 0];
  if (flow.kind === "udp-prague") return ["scalable", 2];
  const found = (flow.kind === "media" ? MEDIA : CONTROLLERS).get(flow.cc);
  if (found?.role === null) return ["unresponsive", found.look];
  return found ? [found.role as Role, found.look] : ["other", 0];
}

export function roleOf(flow: FlowSpec): Role {
  return placeOf(flow)[0];
}

/** How each flow group is drawn: of several with one controller, the later ones get further looks of their role. */
export function looksOf(flows: readonly FlowSpec[]): Map<string, Look> {
  const taken = new Set<string>();
  const own = new Set(flows.map((flow) => placeOf(flow).join()));
  const found = new Map<string, Look>();
  for (const flow of flows) {
    const [role, first] = placeOf(flow);
    let place = first;
    if (taken.has(`${role},${place}`)) {
      place = 0;
      while (taken.has(`${role},${place}`) || own.has(`${role},${place}`)) place += 1;
    }
    taken.add(`${role},${place}`);
    found.set(flow.name, lookOf(role, place));
  }
  return found;
}

/** The queues of a link: L and C look like the services they are for. */
export function lookOfQueue(queue: string): Look {
  if (queue === "L") return lookOf("scalable");
  if (queue === "C") return lookOf("classic");
  if (queue === "all" || queue === "one") return lookOf("other");
  return lookOf("other", queue === "sparse" || queue === "class0" ? 1 : 2);
}
