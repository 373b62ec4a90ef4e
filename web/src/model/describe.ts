/** A run as the keys and values of an experiment file; what is at its default is left out. */

import type { Run } from "../types";
import { AT, FLOW, IMPAIR, type Key, LINK, REWRITE, TIME_OF_CHANGE, TOP, type Written } from "./keys";
import { stationsOf, upOf, usualPath, wayBack } from "./media";
import { trialOf } from "./seed";

/** A key of a table: `place` is [] at the top, else a section and the name or number of one of its tables. */
export interface Entry {
  place: readonly [] | readonly [section: Section, name: string];
  key: string;
  value: Written;
}

export type Section = "link" | "flow" | "impair" | "rewrite" | "at";

/** Every key of a run that is not at its default, in the order of a file. */
export function entriesOf(run: Run): Entry[] {
  const links = usualPath(run.links);
  return [
    ...table([], TOP, { ...run }),
    ...seedOf(run),
    ...run.links.flatMap((link) => (link.up_of ? [] : linkOf(run, link))),
    ...run.flows.flatMap((flow) => {
      const { name, options, path, ...values } = { options: {}, ...flow };
      const place = ["flow", name] as const;
      const own = path.length === links.length && path.every((link, i) => link === links[i]) ? null : path;
      const back = wayBack(run.links, path);
      const way = "reverse_path" in flow ? flow.reverse_path : [];
      const isUsual = way.length === back.length && way.every((link, i) => link === back[i]);
      const reverse_path = isUsual ? null : way;
      return [
        ...table(place, FLOW[flow.kind], { ...values, path: own, reverse_path }),
        // No link of its own, where without the key it had some.
        ...("reverse_path" in flow && !isUsual && way.length === 0 ? [{ place, key: "reverse_path", value: [] }] : []),
        ...Object.entries(options).map(([option, value]) => ({ place, key: `options.${option}`, value })),
      ];
    }),
    ...(run.impairs ?? []).flatMap((impair) => table(["impair", impair.name], IMPAIR, { ...impair })),
    ...run.rewrites.flatMap((rewrite, i) =>
      table(["rewrite", `${i + 1}`], REWRITE, { ...rewrite, where: `${rewrite.where}:${rewrite.link}` }),
    ),
    ...run.at.flatMap((change, i) => {
      const place = ["at", `${i + 1}`] as const;
      const [section, name] = "link" in change ? (["link", change.link] as const) : (["flow", change.flow] as const);
      const down = section === "link" && run.links.find((link) => link.name === name)?.up_of;
      const keyOf = (key: string) => (down ? `link.${down}.${key}_up` : `${section}.${name}.${key}`);
      const settings = table(place, AT[section], { ...change });
      return [
        ...table(place, [TIME_OF_CHANGE], { ...change }),
        ...settings.map((entry) => ({ ...entry, key: keyOf(entry.key) })),
        ...(change.medium ? [{ place, key: keyOf("medium"), value: change.medium }] : []),
        ...Object.entries(change.stations ?? {}).map(([of, value]) => ({
          place,
          key: keyOf(`station.${of}.medium`),
          value,
        })),
      ];
    }),
  ];
}

/** A link, or with a medium both of its sides. */
function linkOf(run: Run, link: Run["links"][number]): Entry[] {
  const place = ["link", link.name] as const;
  if (!link.medium) return table(place, LINK, { ...link });
  const up = run.links.find(({ name }) => name === upOf(link.name));
  const entries: Entry[] = [
    { place, key: "medium", value: link.medium },
    ...table(place, LINK, { ...link, rate_bps: null }),
  ];
  if (up && up.qdisc !== link.qdisc) entries.push({ place, key: "qdisc_up", value: up.qdisc });
  return [...entries, ...stationsOf(link).map(([of, value]) => ({ place, key: `station.${of}.medium`, value }))];
}

function table(place: Entry["place"], keys: readonly Key[], values: Record<string, unknown>): Entry[] {
  return keys.flatMap(({ key, field, type, default: usual }) => {
    const value = values[field];
    if (value === undefined || value === null || type.name === "options") return [];
    // In a change there is no default: it says what changes.
    if (place[0] !== "at" && typeof usual === "string" && same(value, type.read(usual))) return [];
    return [{ place, key, value: type.write(value) }];
  });
}

function same(a: unknown, b: unknown): boolean {
  return a === b || (Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((v, i) => v === b[i]));
}

function seedOf(run: Run): Entry[] {
  const from = trialOf(run.seed);
  if (!from) return [{ place: [], key: "run_seed", value: `${run.seed}` }];
  const entries: Entry[] = [];
  if (from.seed !== 1n) entries.push({ place: [], key: "seed", value: `${from.seed}` });
  if (from.trial !== 1) entries.push({ place: [], key: "trial", value: from.trial });
  return entries;
}
