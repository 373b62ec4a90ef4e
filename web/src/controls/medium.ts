/** Controls of a medium: what can change while it runs, of all its users and of single stations. */
import { changingOf, kindOf, type MediumKind, type Parameter, saidOf } from "../model/media";
import { type Printed, parse, print, RATE, TIME, Wrong } from "../model/units";
import type { Change, LinkSpec } from "../types";
import { h, slug } from "./dom";
import { choice, type Field, slider, text } from "./fields";
import { logarithmic } from "./scale";

/** A parameter that has a slider. */
interface Slider {
  readonly label: string;
  readonly scale: readonly number[];
  /** None: a plain number. */
  readonly dimension?: Printed;
  /** Where the words say nothing. */
  readonly usual: number;
}

const numbers = (least: number, most: number) => Array.from({ length: most - least + 1 }, (_, i) => least + i);
const PROBABILITIES = [0, ...logarithmic(0.001, 1)];
const RATES = logarithmic(1e6, 1e9);
const DELAYS = [0, ...logarithmic(1e6, 1e9)];

/** What people change first; the rest is folded away. */
export const SLIDERS: Readonly<Record<MediumKind, Readonly<Record<string, Slider>>>> = {
  wifi: {
    mcs: { label: "MCS", scale: numbers(0, 11), usual: 7 },
    nss: { label: "Streams", scale: numbers(1, 8), usual: 1 },
    per: { label: "MPDU loss", scale: PROBABILITIES, usual: 0 },
  },
  nr: {
    cqi: { label: "CQI", scale: numbers(1, 15), usual: 12 },
    layers: { label: "Layers", scale: numbers(1, 8), usual: 1 },
    bler: { label: "Block errors", scale: PROBABILITIES, usual: 0.1 },
    share: { label: "Share of slots: 1 of", scale: numbers(1, 20), usual: 1 },
  },
  docsis: {
    down: { label: "Downstream", scale: RATES, dimension: RATE, usual: 200e6 },
    up: { label: "Upstream", scale: RATES, dimension: RATE, usual: 50e6 },
    ggr: { label: "Proactive grants", scale: [0, ...logarithmic(100e3, 500e6)], dimension: RATE, usual: 0 },
    load: { label: "Other modems", scale: [0, ...logarithmic(1e6, 600e6)], dimension: RATE, usual: 0 },
  },
  leo: {
    down: { label: "Download", scale: RATES, dimension: RATE, usual: 280e6 },
    up: { label: "Upload", scale: RATES, dimension: RATE, usual: 19e6 },
    pop: { label: "To the PoP", scale: DELAYS, dimension: TIME, usual: 10e6 },
    jitter: { label: "Frame wait", scale: DELAYS, dimension: TIME, usual: 10e6 },
    loss: { label: "Loss", scale: [0, ...logarithmic(0.0001, 1)], usual: 0.0002 },
  },
};

interface Fields {
  roots: HTMLElement[];
  set(link: LinkSpec): void;
}

/** Those of a link's medium and of its stations; none of a link without a medium of its own. */
export function mediumFields(
  id: string,
  link: LinkSpec,
  stations: readonly string[],
  change: (change: Change) => void,
): Fields {
  const kind = kindOf(link.medium ?? "");
  const all = wordFields(id, kind, changingOf(kind), (words) =>
    change({ link: link.name, medium: `${kind} ${words}` }),
  );
  const ofStation = changingOf(kind).filter(({ of_station }) => of_station);
  const each = stations.map((station) => {
    const of = `${id}-station-${slug(station)}`;
    const fields = wordFields(of, kind, ofStation, (words) =>
      change({ link: link.name, stations: { [station]: words } }),
    );
    const said = h("span", { className: "unusual" });
    const root = h("details", { id: of }, h("summary", {}, `Station ${station} `, said), ...fields.roots);
    return { station, fields, said, root };
  });
  return {
    roots: [...all.roots, ...each.map(({ root }) => root)],
    set(now) {
      const medium = now.medium ?? "";
      all.set(medium, medium);
      for (const { station, fields, said } of each) {
        const own = now.stations?.[station] ?? "";
        fields.set(own, medium);
        said.textContent = own;
      }
    },
  };
}

/** A control for each parameter. `put` gets words such as "mcs 3". */
function wordFields(
  id: string,
  kind: MediumKind | null,
  parameters: readonly Parameter[],
  put: (words: string) => void,
): { roots: HTMLElement[]; set(own: string, medium: string): void } {
  const made = parameters.map((parameter) => {
    const keyword = parameter.words[0]?.keyword ?? "";
    const slides = kind ? SLIDERS[kind][keyword] : undefined;
    return { parameter, isMain: slides !== undefined, field: wordField(`${id}-${keyword}`, parameter, slides, put) };
  });
  const more = made.filter(({ isMain }) => !isMain);
  const folded = h(
    "details",
    { id: `${id}-words` },
    h("summary", {}, "More of the medium"),
    h("div", { className: "more" }, ...more.map(({ field }) => field.root)),
  );
  return {
    roots: [
      ...made.filter(({ isMain }) => isMain).map(({ field }) => field.root),
      ...(more.length > 0 ? [folded] : []),
    ],
    set(own, medium) {
      for (const { parameter, field } of made)
        field.set(saidOf(kind, own, parameter) ?? saidOf(kind, medium, parameter));
    },
  };
}

/** `set` gets the keyword with its values, or undefined where the parameter is at its default. */
function wordField(
  id: string,
  { words }: Parameter,
  slides: Slider | undefined,
  put: (words: string) => void,
): Field<string[] | undefined> {
  const [first] = words;
  const { keyword = "", value = "", help = "" } = first ?? {};
  if (slides) {
    const { label, scale, dimension, usual } = slides;
    const write = (number: number) => (dimension ? written(number, dimension) : String(number));
    const read = (typed: string) => (dimension ? parse(typed, dimension) : plain(typed));
    const field = slider({
      id,
      label,
      help,
      scale,
      print: write,
      read,
      put: (number) => put(`${keyword} ${write(number)}`),
    });
    return { root: field.root, set: (said) => field.set(said ? numberOf(said, read, usual) : usual) };
  }
  if (words.every((one) => one.value === "")) {
    const options = words.map((one) => [one.keyword, one.keyword] as const);
    const usual = words.find((one) => one.default === "yes")?.keyword ?? "";
    const field = choice({ id, label: options.map(([word]) => word).join(", "), help, options, put });
    return { root: field.root, set: (said) => field.set(said?.[0] ?? usual) };
  }
  if (value.includes("|")) {
    const options = value.split("|").map((word) => [word, word] as const);
    const field = choice({ id, label: keyword, help, options, put: (chosen) => put(`${keyword} ${chosen}`) });
    return { root: field.root, set: (said) => field.set(said?.[1] ?? first?.default ?? "") };
  }
  const field = text({
    id,
    label: keyword,
    help,
    placeholder: first?.default ?? "",
    put(typed) {
      if (typed === "") throw new Wrong("cannot go back to its default while it runs; write a value");
      put(words.some((one) => one.value === "" && one.keyword === typed) ? typed : `${keyword} ${typed}`);
    },
  });
  return { root: field.root, set: (said) => field.set(said?.slice(said.length > 1 ? 1 : 0).join(" ") ?? "") };
}

/** As tc writes quantities. */
function written(value: number, dimension: Printed): string {
  if (value === 0) return dimension === RATE ? "0bit" : "0us";
  return print(value, dimension).toLowerCase();
}

function plain(typed: string): number {
  const value = typed.trim() === "" ? Number.NaN : Number(typed);
  if (Number.isNaN(value)) throw new Wrong("is not a number");
  return value;
}

/** A value that the page cannot read is shown as the default. */
function numberOf(said: readonly string[], read: (typed: string) => number, usual: number): number {
  try {
    return read(said[1] ?? "");
  } catch (error) {
    if (!(error instanceof Wrong)) throw error;
    return usual;
  }
}
