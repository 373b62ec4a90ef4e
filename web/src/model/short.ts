/** What a stored description has written out, in the words that a person would write. */
import known from "../generated/defaults.json";

const QDISCS: ReadonlyMap<string, string> = new Map(Object.entries(known.qdiscs));

type Options = Readonly<Record<string, string>>;

interface Defaults {
  usual: Options;
  presets: Readonly<Record<string, Readonly<Record<string, Options>>>>;
  /** None of one that answers nothing. */
  role: string | null;
  /** Its place among those of its role. */
  look: number;
}

interface Controller extends Defaults {
  /** Options, with their value, that make it scalable. */
  scalable_with: Options;
}

interface MediaController extends Defaults {
  /** The codepoint of its packets where the flow tells none. */
  ecn: string;
}

/** What the core says of each congestion control. */
export const CONTROLLERS: ReadonlyMap<string, Controller> = new Map(Object.entries(known.controllers));

/** The same of those for media. */
export const MEDIA: ReadonlyMap<string, MediaController> = new Map(
  Object.entries(known.media as unknown as Record<string, MediaController>),
);

interface Separation {
  usual: string;
  /** Words of the queue, and what it is with them. */
  with: Readonly<Record<string, string>>;
}

const SEPARATIONS: ReadonlyMap<string, Separation> = new Map(
  Object.entries<Separation>(known.separations as unknown as Record<string, Separation>),
);

/** How a queue separates the flows that share it; none of a queue that the core does not have. */
export function separationOf(qdisc: string): string | undefined {
  const found = SEPARATIONS.get(qdisc.split(/\s+/)[0] ?? "");
  const words = Object.keys(found?.with ?? {}).find((one) => `${qdisc} `.includes(` ${one} `));
  return words === undefined ? found?.usual : found?.with[words];
}

/** The short form of a queue that has one. */
export function shortQdisc(qdisc: string): string {
  return QDISCS.get(qdisc) ?? qdisc;
}

/** The options that are not at their default, where some of them set the defaults of others. */
export function shortOptions(cc: string, options: Options, isMedia = false): Record<string, string> {
  const found = (isMedia ? MEDIA : CONTROLLERS).get(cc);
  if (!found) return { ...options };
  const setting = Object.keys(found.presets).filter((key) => options[key] !== found.usual[key]);
  const usual = setting.reduce((all, key) => found.presets[key]?.[options[key] ?? ""] ?? all, found.usual);
  return Object.fromEntries(
    Object.entries(options).filter(([key, value]) => setting.includes(key) || usual[key] !== value),
  );
}
