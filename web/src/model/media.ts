/** Links that a medium serves: one towards the users, and one from them, which is named after it. */
import type { LinkSpec, Run } from "../types";

export type MediumKind = "wifi" | "nr" | "docsis" | "leo";

/** A rate that is not known to the page before the core says it, for how often the page looks. */
const USUAL_BPS = 100e6;

export const upOf = (link: string): string => `${link}.up`;

/** The kind of the medium of a link; null: a wire. */
export function mediumOf(run: Run, link: string): MediumKind | null {
  const one = run.links.find(({ name }) => name === link);
  const down = one?.up_of ? run.links.find(({ name }) => name === one.up_of) : one;
  const word = down?.medium?.trim().split(/\s+/)[0];
  return word ? ((word === "lte" ? "nr" : word) as MediumKind) : null;
}

export function rateOf(link: LinkSpec): number {
  return link.rate_bps || USUAL_BPS;
}

/** The path of a flow that names none: all links towards users. */
export function usualPath(links: readonly LinkSpec[]): string[] {
  return links.filter((link) => !link.up_of).map(({ name }) => name);
}

/** The links of its ACKs where it names none: the other side of each medium on its path. */
export function wayBack(links: readonly LinkSpec[], path: readonly string[]): string[] {
  const other = new Map(
    links.flatMap(({ name, up_of }) =>
      up_of
        ? ([
            [name, up_of],
            [up_of, name],
          ] as const)
        : [],
    ),
  );
  return [...path].reverse().flatMap((link) => other.get(link) ?? []);
}

/** The words of each station that differs. */
export function stationsOf(link: LinkSpec): [station: string, words: string][] {
  return Object.entries(link.stations ?? {});
}
