/** A link: its rate and its queue. */
import { type Key, LINK } from "../model/keys";
import { print, RATE } from "../model/units";
import type { Change, Described, LinkSpec, Run, Vocabulary } from "../types";
import { h, sentence, slug } from "./dom";
import { keyField, labelled, slider, text, typingInto } from "./fields";
import { mediumFields } from "./medium";
import { logarithmic } from "./scale";

const RATES = logarithmic(100e3, 10e9);
const RATE_KEY = LINK.find(({ key }) => key === "rate") as Key;
const BURST_KEY = LINK.find(({ key }) => key === "burst") as Key;

/** One click for what people compare first. */
const COMMON: readonly (readonly [label: string, qdisc: string])[] = [
  ["FIFO", "pfifo"],
  ["CoDel", "codel ecn"],
  ["PIE", "pie ecn"],
  ["FQ-CoDel", "fq_codel"],
  ["CAKE", "cake"],
  ["DualPI2", "dualpi2"],
];

export interface LinkActions {
  change(change: Change): void;
  anew(edit: (run: Run) => Run): void;
  /** Why the engine refuses a link, or null. */
  check(link: LinkSpec): Promise<string | null>;
  vocabulary(): Vocabulary | null;
}

export interface LinkPanel {
  root: HTMLElement;
  set(link: LinkSpec): void;
}

export function linkPanel(
  link: LinkSpec,
  single: boolean,
  stations: readonly string[],
  actions: LinkActions,
): LinkPanel {
  const { name } = link;
  const id = `link-${slug(name)}`;
  let now: LinkSpec | undefined;
  const rate = slider({
    id: `${id}-rate`,
    label: "Rate",
    scale: RATES,
    print: (value) => print(value, RATE),
    read: (text) => RATE_KEY.type.read(text) as number,
    put: (rate_bps) => actions.change({ link: name, rate_bps }),
  });
  const queue = qdiscField(`${id}-qdisc`, actions.vocabulary, async (qdisc) => {
    if (!now || qdisc === now.qdisc) return null;
    const refused = await actions.check({ ...now, qdisc });
    if (refused === null) actions.change({ link: name, qdisc });
    return refused;
  });
  const burst = keyField(BURST_KEY, { id: `${id}-burst`, label: "burst", anew: true }, (value) =>
    actions.anew((run) => ({
      ...run,
      links: run.links.map((link) => (link.name === name ? { ...link, burst_bytes: value as number } : link)),
    })),
  );
  if (link.medium || link.up_of) {
    const medium = text({
      id: `${id}-medium`,
      label: "Medium",
      help: "as in an experiment file",
      anew: true,
      put: (words) =>
        actions.anew((run) => ({
          ...run,
          links: run.links.map((one) => (one.name === name ? { ...one, medium: words } : one)),
        })),
    });
    const words = mediumFields(id, link, stations, actions.change);
    const way = link.up_of ? `Link ${link.up_of}, from the users` : `Link ${name}, to the users`;
    return {
      root: h(
        "section",
        { className: "card link" },
        h("h2", {}, way),
        link.medium && medium.root,
        ...words.roots,
        queue.root,
      ),
      set(link) {
        now = link;
        medium.set(link.medium ?? "");
        words.set(link);
        queue.set(link.qdisc);
      },
    };
  }
  const more = h(
    "details",
    { id: `${id}-more` },
    h("summary", {}, "More"),
    h("div", { className: "more" }, burst.root),
  );
  return {
    root: h(
      "section",
      { className: "card link" },
      h("h2", {}, single ? "Link" : `Link ${name}`),
      rate.root,
      queue.root,
      more,
    ),
    set(link) {
      now = link;
      rate.set(link.rate_bps);
      queue.set(link.qdisc);
      burst.set(link.burst_bytes);
    },
  };
}

/** Any tc string, completed from the list of queues and their keywords. */
function qdiscField(id: string, vocabulary: () => Vocabulary | null, put: (qdisc: string) => Promise<string | null>) {
  const list = h("datalist", { id: `${id}-list` });
  const input = h("input", { type: "text", id, autocomplete: "off", spellcheck: false, className: "qdisc" });
  input.setAttribute("list", list.id);
  const wrong = sentence(`${id}-wrong`);
  const help = h("p", { className: "help", id: `${id}-help` });
  input.setAttribute("aria-describedby", `${wrong.id} ${help.id}`);
  // A queue chosen again is set up as it was: "pfifo limit 200", not "pfifo".
  const written = new Map<string, string>();
  const chips = COMMON.map(([label, qdisc]) => {
    const kind = kindOf(qdisc);
    const chip = h("button", { type: "button", id: `${id}-${kind}`, title: `tc qdisc … ${qdisc}` }, label);
    chip.addEventListener("click", () => void apply(written.get(kind) ?? qdisc));
    return [kind, chip] as const;
  });
  const complete = () => {
    const options = completions(input.value, vocabulary()?.qdiscs ?? []);
    list.replaceChildren(...options.map(([value, label]) => h("option", { value, label })));
  };
  const told = (qdisc: string) => {
    const kind = kindOf(qdisc);
    for (const [of, chip] of chips)
      chip.setAttribute("aria-pressed", String(of === (kind === "bfifo" ? "pfifo" : kind)));
    help.textContent = vocabulary()?.qdiscs.find(({ name }) => name === kind)?.summary ?? "";
  };
  async function apply(qdisc: string): Promise<void> {
    input.value = qdisc;
    wrong.say(withoutUnit(qdisc, vocabulary()?.qdiscs ?? []) ?? (await put(qdisc.trim())));
  }
  input.addEventListener("focus", complete);
  input.addEventListener("input", complete);
  input.addEventListener("change", () => void apply(input.value));
  const isTyping = typingInto(input);
  const keys = h(
    "div",
    { className: "chips", role: "group", ariaLabel: "Common queues" },
    ...chips.map(([, chip]) => chip),
  );
  return {
    root: h(
      "div",
      { className: "field queue" },
      labelled({ id, label: "Queue", help: "as for tc qdisc replace … root" }),
      keys,
      input,
      list,
      wrong,
      help,
    ),
    set(qdisc: string) {
      written.set(kindOf(qdisc) === "bfifo" ? "pfifo" : kindOf(qdisc), qdisc);
      if (document.activeElement !== input || (wrong.hidden && !isTyping())) input.value = qdisc;
      told(qdisc);
    },
  };
}

function kindOf(qdisc: string): string {
  return qdisc.trim().split(/\s+/)[0] ?? "";
}

/** The unit that people mean, by what a parameter's value is called. */
const USUAL = [
  ["TIME", "ms"],
  ["RATE", "mbit"],
  ["PERCENT", "%"],
] as const;

interface Parameter {
  keyword: string;
  value: string;
  default: string;
  help: string;
}

/** Which time, rate or percentage has no unit, and what to write, as an experiment file is refused. */
export function withoutUnit(text: string, qdiscs: readonly Described[]): string | null {
  const [name, ...words] = text.trim().split(/\s+/);
  const parameters = (qdiscs.find((one) => one.name === name)?.parameters ?? []) as Parameter[];
  for (const [place, word] of words.entries()) {
    const keyword = words[place - 1];
    const value = parameters.find((one) => one.keyword === keyword)?.value ?? "";
    // A bare number counts bytes where a parameter takes them, too.
    const unit =
      value.includes("|BYTES") || value.includes("BYTES|")
        ? undefined
        : USUAL.find(([kind]) => value.includes(kind))?.[1];
    if (unit && /^\d+(\.\d+)?$/.test(word) && Number(word) !== 0)
      return `"${keyword} ${word}" has no unit; write one, such as "${keyword} ${word}${unit}"`;
  }
  return null;
}

/** What may stand in the place of the last word, with what precedes it, and a line about each. */
export function completions(text: string, qdiscs: readonly Described[]): [string, string][] {
  const words = text.trimStart().split(/\s+/);
  const kind = qdiscs.find(({ name }) => name === words[0]);
  if (words.length < 2 || !kind) {
    return qdiscs.map(({ name, summary, required }) => [`${name} ${required ?? ""}`.trim(), summary]);
  }
  const before = words.slice(0, -1);
  const parameters = (kind.parameters ?? []) as Parameter[];
  const previous = parameters.find(({ keyword }) => keyword === before.at(-1));
  if (previous?.value) {
    const shown = previous.default ? `${before.join(" ")} ${previous.default}` : `${before.join(" ")} `;
    return [[shown, `${previous.value}: ${previous.help}`]];
  }
  return parameters
    .filter(({ keyword }) => !before.includes(keyword))
    .map(({ keyword, value, default: usual, help }) => [
      [...before, keyword, ...(value && usual ? [usual] : [])].join(" "),
      help,
    ]);
}
