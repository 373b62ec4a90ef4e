/** A stored description, as JSON, to a run: every key of the page's model, with what is not told at its default. */

import { runFromJson } from "../json";
import type { FlowSpec, LinkSpec, Run } from "../types";
import { AT, IMPAIR, type Key, keysOf, LINK, NOT_HELD, TOP } from "./keys";
import { usualPath } from "./media";
import type { Resolved } from "./resolve";
import { trialSeed } from "./seed";
import { shortOptions, shortQdisc } from "./short";

type Json = Record<string, unknown>;

/** What the two sides of a medium have besides. */
const OF_SIDES = ["medium", "stations", "up_of"];

/** None where it is not a run's description at all. */
export function described(json: string): Resolved | undefined {
  let raw: unknown;
  try {
    raw = runFromJson(json);
  } catch {
    return undefined;
  }
  if (!isTable(raw) || !isTables(raw.links) || !isTables(raw.flows) || raw.links.length === 0) return undefined;
  const problems: string[] = [];
  const fill = (keys: readonly Key[], table: Json, place: string, others: readonly string[] = []): Json => {
    for (const key of Object.keys(table)) {
      if (table[key] === null || others.includes(key) || keys.some(({ field }) => field === key)) continue;
      const known = Object.values(NOT_HELD)
        .flatMap((one) => Object.values(one))
        .find(({ field }) => field === key);
      if (known) {
        problems.push(`${place}${key} is not supported on this page; ${known.instead}`);
        continue;
      }
      problems.push(
        `${place}${key} = ${JSON.stringify(table[key])} is unknown to this page, which leaves it out; use the page of the same version`,
      );
    }
    return Object.fromEntries(
      keys.map(({ field, type, default: usual, example }) => {
        const instead = usual === null ? null : type.read(usual ?? example);
        return [field, table[field] ?? instead];
      }),
    );
  };
  const top = fill(TOP, raw, "", ["seed", "links", "flows", "at", "rewrites", "impairs", "tunnels"]);
  if (isTables(raw.tunnels)) problems.push("tunnels are not supported on this page; flows run without them");
  if (top.per_flow !== true) delete top.per_flow;
  const links = raw.links.map((link) => ({
    name: String(link.name),
    ...fill(LINK, { ...link, qdisc: shortQdisc(String(link.qdisc)) }, `link ${link.name}: `, ["name", ...OF_SIDES]),
    ...Object.fromEntries(OF_SIDES.filter((key) => link[key]).map((key) => [key, link[key]])),
  })) as LinkSpec[];
  const isHere = ({ name, kind }: Json): boolean => {
    const elsewhere: Record<string, string> = {
      program: "programs run with l4slab run --engine linux",
      endpoint: "ends of a test run with l4slab.Lab",
    };
    const where = elsewhere[String(kind)];
    if (where === undefined) return true;
    problems.push(`flow ${name}: ${where} and not on a page; it is left out`);
    return false;
  };
  const flows = raw.flows.filter(isHere).map((flow) => {
    const filled = fill(keysOf(flow.kind), flow, `flow ${flow.name}: `, ["name"]);
    const options = "cc" in filled && {
      options: shortOptions(String(filled.cc), filled.options as Record<string, string>, flow.kind === "media"),
    };
    return {
      name: String(flow.name),
      ...filled,
      ...options,
      path: filled.path ?? usualPath(links),
    } as unknown as FlowSpec;
  });
  const impairs = isTables(raw.impairs) ? raw.impairs : [];
  const changes = (isTables(raw.at) ? raw.at : []).filter(({ impair }) => typeof impair !== "string");
  if (isTables(raw.at) && changes.length < raw.at.length)
    problems.push("this page does not support changes of an impair and leaves them out");
  const run = {
    ...top,
    seed: typeof raw.seed === "bigint" ? raw.seed : trialSeed(1n),
    links,
    flows,
    at: changes.flatMap((change) => {
      const fields = ["time_ns", "link", "flow", "medium", "stations"];
      fields.push(...[...AT.link, ...AT.flow].map(({ field }) => field));
      const set = Object.entries(change).filter(([key, value]) => value !== null && fields.includes(key));
      // Of a change that the page has not, only its time and its place are left.
      if (set.length < 3) return [];
      return [
        Object.fromEntries(set.map(([key, value]) => [key, key === "qdisc" ? shortQdisc(String(value)) : value])),
      ];
    }),
    rewrites: isTables(raw.rewrites) ? raw.rewrites : [],
    ...(impairs.length > 0
      ? {
          impairs: impairs.map((one) => ({
            name: String(one.name),
            ...fill(IMPAIR, one, `impair ${one.name}: `, ["name"]),
          })),
        }
      : {}),
  } as unknown as Run;
  return { run, problems };
}

function isTable(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isTables(value: unknown): value is Json[] {
  return Array.isArray(value) && value.every(isTable);
}
