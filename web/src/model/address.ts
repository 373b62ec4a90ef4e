/**
 * A run and the page's own settings in the address, behind the #: the dotted keys of an experiment file with units, to be
 * read and changed by hand, or `run=` with a stored description.
 */

import type { Run } from "../types";
import { entriesOf } from "./describe";
import { described } from "./described";
import type { Written } from "./keys";
import { resolve } from "./resolve";
import { nearest } from "./words";

export interface Address {
  /** None where the address describes no run. */
  run?: Run;
  /** The page's own settings, without "view.". */
  view: Map<string, string>;
  problems: string[];
}

/** What stands behind the #. */
export function writeAddress(run: Run, view: ReadonlyMap<string, string>): string {
  const pairs = entriesOf(run).map(({ place, key, value }) => [[...place, key].join("."), text(value)] as const);
  const own = [...view].map(([key, value]) => [`view.${key}`, value] as const);
  return [...pairs, ...own].map(([key, value]) => `${encode(key)}=${encode(value)}`).join("&");
}

function text(value: Written): string {
  return Array.isArray(value) ? value.map((name) => name.replaceAll(",", "%2C")).join(",") : String(value);
}

/** Reads what stands behind the #, with or without it. */
export function readAddress(hash: string): Address {
  const [pairs, problems] = pairsOf(hash);
  const view = new Map(pairs.filter(([key]) => key.startsWith("view.")).map(([key, value]) => [key.slice(5), value]));
  const rest = pairs.filter(([key]) => !key.startsWith("view."));
  const stored = rest.find(([key]) => key === "run");
  if (stored) {
    const from = fromBase64(stored[1]);
    const read = from === undefined ? undefined : described(from);
    if (!read)
      problems.push(
        `run = "${stored[1].slice(0, 20)}…" is not a run's description; copy the whole link from the report`,
      );
    else return { run: read.run, view, problems: [...problems, ...read.problems] };
    return { view, problems };
  }
  if (rest.length === 0) return { view, problems };
  const resolved = resolve(rest);
  return { run: resolved.run, view, problems: [...problems, ...resolved.problems] };
}

function pairsOf(hash: string): [(readonly [string, string])[], string[]] {
  const problems: string[] = [];
  const parts = hash
    .replace(/^#/, "")
    .split("&")
    .filter((part) => part.trim() !== "");
  const pairs = parts.flatMap((part) => {
    const split = part.indexOf("=");
    const [key, value] = [part.slice(0, split), part.slice(split + 1)].map(decode);
    if (split > 0 && key !== undefined && value !== undefined) return [[key, value] as const];
    problems.push(`"${part}" in the address is not key=value; ${remedy(part)}`);
    return [];
  });
  return [pairs, problems];
}

function remedy(part: string): string {
  return nearest(part, ["run", "duration"])
    ? `write a value, for example ${part}=…`
    : "write for example link.bottleneck.rate=100Mbit";
}

/** A space is +; what addresses and people can read stays. */
function encode(text: string): string {
  return encodeURIComponent(text)
    .replaceAll("%20", "+")
    .replace(/%(2C|2F|3A|3B|40|24|5B|5D)/g, (one) => decodeURIComponent(one));
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll("+", "%20"));
  } catch {
    return undefined;
  }
}

function fromBase64(text: string): string | undefined {
  try {
    const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(binary, (c) => c.charCodeAt(0)));
  } catch {
    return undefined;
  }
}
