/** Links that a medium serves: one towards the users, and one from them, which is named after it. */
import known from "../generated/media.json";
import type { LinkSpec, Run } from "../types";

export type MediumKind = "wifi" | "nr" | "docsis" | "leo";

/** A keyword of a medium. */
export interface Word {
  readonly keyword: string;
  /** What follows the keyword; empty for one that stands alone. */
  readonly value: string;
  readonly default: string;
  readonly help: string;
}

/** A parameter that can change while the medium runs. */
export interface Parameter {
  /** The keywords that set it. */
  readonly words: readonly Word[];
  /** Stations may differ in it. */
  readonly of_station: boolean;
}

interface Kind {
  /** How many values follow each keyword. */
  readonly values: Readonly<Record<string, number>>;
  readonly changing: readonly Parameter[];
}

const KINDS = known as unknown as Readonly<Record<MediumKind, Kind>>;

/** Parameters that the core replaces by another one, by their keywords. */
const REPLACED: Readonly<Partial<Record<MediumKind, Readonly<Record<string, string>>>>> = {
  nr: { cqi: "rate", rate: "cqi" },
};

/** A rate that is not known to the page before the core says it, for how often the page looks. */
const USUAL_BPS = 100e6;

export const upOf = (link: string): string => `${link}.up`;

/** The kind of the medium of a link; null: a wire. */
export function mediumOf(run: Run, link: string): MediumKind | null {
  const one = run.links.find(({ name }) => name === link);
  const down = one?.up_of ? run.links.find(({ name }) => name === one.up_of) : one;
  return kindOf(down?.medium ?? "");
}

/** The kind that the words of a medium begin with. */
export function kindOf(medium: string): MediumKind | null {
  const word = wordsOf(medium)[0];
  return word ? ((word === "lte" ? "nr" : word) as MediumKind) : null;
}

/** The parameters of a kind of medium that can change while it runs. */
export function changingOf(kind: MediumKind | null): readonly Parameter[] {
  return (kind && KINDS[kind]?.changing) || [];
}

/** What words say of a parameter, such as ["mcs", "3"]; none where it is at its default. */
export function saidOf(kind: MediumKind | null, words: string, parameter: Parameter): string[] | undefined {
  return statements(kind, wordsOf(words)).find(([keyword]) => parameter.words.some((one) => one.keyword === keyword));
}

/** The words of a medium after a change, which begins with its name and names what changes. */
export function changedMedium(before: string, change: string): string {
  const kind = kindOf(before);
  const [name = "", ...words] = wordsOf(before);
  return [name, ...changedStatements(kind, words, wordsOf(change).slice(1))].join(" ");
}

/** The same of a station of a medium of this kind. */
export function changedStation(kind: MediumKind | null, before: string, change: string): string {
  return changedStatements(kind, wordsOf(before), wordsOf(change)).join(" ");
}

/** What is left of the words of a change where a later change set the same; the name of a medium stays. */
export function withoutWords(kind: MediumKind | null, words: string, later: string): string {
  const gone = new Set(statements(kind, wordsOf(later)).map(([keyword = ""]) => parameterOf(kind, keyword)));
  const left = statements(kind, wordsOf(words)).filter(
    ([keyword = ""], i) => (i === 0 && kindOf(keyword) === kind) || !gone.has(parameterOf(kind, keyword)),
  );
  return left.flat().join(" ");
}

/** Names the parameters that words set: the same name for keywords of the same parameter. */
export function parametersOf(kind: MediumKind | null, words: string): string[] {
  return statements(kind, wordsOf(words)).map(([keyword = ""]) => parameterOf(kind, keyword));
}

function wordsOf(text: string): string[] {
  return text
    .trim()
    .split(/\s+/)
    .filter((word) => word !== "");
}

/** Each keyword with its values. */
function statements(kind: MediumKind | null, words: readonly string[]): string[][] {
  const found: string[][] = [];
  for (let at = 0; at < words.length; ) {
    const end = at + 1 + ((kind && KINDS[kind]?.values[words[at] ?? ""]) || 0);
    found.push(words.slice(at, end));
    at = end;
  }
  return found;
}

function parameterOf(kind: MediumKind | null, keyword: string): string {
  const found = changingOf(kind).find(({ words }) => words.some((one) => one.keyword === keyword));
  return found?.words[0]?.keyword ?? keyword;
}

function changedStatements(kind: MediumKind | null, before: readonly string[], change: readonly string[]): string[] {
  const of = ([keyword = ""]: readonly string[]) => parameterOf(kind, keyword);
  const all = statements(kind, before);
  for (const one of statements(kind, change)) {
    const replaced = [of(one), (kind && REPLACED[kind]?.[of(one)]) || ""];
    const at = all.findIndex((other) => replaced.includes(of(other)));
    all.splice(at < 0 ? all.length : at, at < 0 ? 0 : 1, one);
  }
  return all.flat();
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

/** The stations that flows of the run name, and those with words of their own; none of a medium without stations. */
export function stationNames(run: Run, link: LinkSpec): string[] {
  if (!changingOf(kindOf(link.medium ?? "")).some(({ of_station }) => of_station)) return [];
  const named = run.flows.flatMap(({ station }) => station ?? []);
  return [...new Set([...Object.keys(link.stations ?? {}), ...named])].sort();
}

/** The words of each station that differs. */
export function stationsOf(link: LinkSpec): [station: string, words: string][] {
  return Object.entries(link.stations ?? {});
}
