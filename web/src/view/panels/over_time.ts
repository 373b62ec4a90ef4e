/** The panels of curves over time: which curves they have. */
import { upOf } from "../../model/media";
import type { FlowSpec, ViewOptions } from "../../types";
import { type Look, lookOf, lookOfQueue, SERVICES } from "../roles";
import { hasFlowQueues, partiesOf, qdiscOf, queuesOf, type Scene, sending } from "../scene";
import { JOINED, MEMBERS_SHOWN, ONE, ofFlow, ofMember, ofQueue, ofService, SAMPLES_PER_WINDOW } from "../store";
import { type CurveOf, Curves } from "./curves";

const INK: Look = lookOf("other");
const CAPACITY: Look = { ...INK, dash: [1, 3] };

function nameOf(flow: FlowSpec): string {
  const what = "cc" in flow ? flow.cc : flow.kind;
  const word = flow.kind === "tcp" || !("cc" in flow) ? what : `${flow.kind}, ${what}`;
  return word === flow.name ? flow.name : `${flow.name} (${word})`;
}

/** Each flow of a group, thin where there are many; of web and video sources, the group. */
function perFlow(scene: Scene, quantity: "goodput_mbps" | "cwnd_packets"): CurveOf[] {
  const groups = sending(scene).filter((flow) => quantity === "goodput_mbps" || flow.kind !== "cbr");
  const many = groups.reduce((sum, flow) => sum + flow.count, 0) > 8;
  return groups.flatMap((flow): CurveOf[] => {
    const look = scene.looks.get(flow.name) ?? INK;
    const whole: CurveOf = { key: ofFlow(flow.name, quantity), look, label: nameOf(flow), ghost: true };
    const members = Array.from({ length: MEMBERS_SHOWN }, (_, i) => ofMember(flow.name, i + 1, quantity));
    const told = members.filter((key) => scene.store.fine.has(key));
    if (told.length < 2) return [whole];
    const thin = told.map((key): CurveOf => ({ key, look, width: many ? 1 : 1.6, alpha: many ? 0.55 : 1 }));
    const label = `${flow.count} × ${nameOf(flow)}, all`;
    // The sum is a number in the legend: as a curve it would dwarf the others.
    return [...thin, { ...whole, label, hidden: true }];
  });
}

export function ratePanel(scene: Scene, into: HTMLElement, choose: (rates: ViewOptions["rates"]) => void): Curves {
  const capacity = (): CurveOf => ({
    key: ofQueue(scene.link, "all", "capacity_mbps"),
    look: CAPACITY,
    width: 1.2,
    label: "link",
    unit: " Mb/s",
    // Where many share it, its rate would dwarf theirs.
    hidden: scene.options.rates === "flow" && sending(scene).reduce((sum, flow) => sum + flow.count, 0) > 8,
  });
  const found = (): CurveOf[] => {
    switch (scene.options.rates) {
      case "flow":
        return [...perFlow(scene, "goodput_mbps").map((curve) => ({ ...curve, unit: " Mb/s" })), capacity()];
      case "service":
        return [
          ...scene.roles.map((role): CurveOf => {
            const key = ofService(role, "goodput_mbps");
            return { key, look: lookOf(role), width: 2.2, label: SERVICES[role], unit: " Mb/s", ghost: true };
          }),
          capacity(),
        ];
      case "window":
        return perFlow(scene, "cwnd_packets");
    }
  };
  const curves = new Curves(scene, into, "rates", "Who gets what", "Mb/s", {}, "coarse", found);
  const say = () => {
    const span = (scene.window_s * JOINED) / SAMPLES_PER_WINDOW;
    const text = span >= 1 ? `${Number(span.toPrecision(2))} s` : `${Number((span * 1e3).toPrecision(2))} ms`;
    const what = scene.options.rates === "window" ? "packets" : "Mb/s";
    curves.panel.setUnit(`${what}, means of ${text}`);
  };
  const refresh = curves.refresh.bind(curves);
  curves.refresh = () => {
    say();
    refresh();
  };
  curves.panel.choice(
    "what to draw",
    [
      ["flow", "each flow"],
      ["service", "services"],
      ["window", "windows"],
    ],
    scene.options.rates,
    choose,
  );
  return curves;
}

/** Where each flow has its own queue, delays are told by flow. */
export function delaysByFlow(scene: Scene): boolean {
  return scene.options.delays === "flow" || hasFlowQueues(qdiscOf(scene));
}

export function delayPanel(scene: Scene, into: HTMLElement, choose: (delays: ViewOptions["delays"]) => void): Curves {
  const found = (): CurveOf[] => {
    if (delaysByFlow(scene)) {
      return sending(scene).map((flow): CurveOf => {
        const look = scene.looks.get(flow.name) ?? INK;
        return { key: ofFlow(flow.name, "sojourn_ms"), look, label: nameOf(flow), unit: " ms", ghost: true };
      });
    }
    const one = scene.store.fine.has(ofQueue(scene.link, ONE, "sojourn_ms")) ? [ONE] : [];
    return [...queuesOf(scene), ...one].flatMap((queue): CurveOf[] => {
      const look = lookOfQueue(queue);
      const [mean, least, most] = ["sojourn_ms", "sojourn_ms_min", "sojourn_ms_max"].map((quantity) =>
        ofQueue(scene.link, queue, quantity),
      ) as [string, string, string];
      return [
        { key: most, look, hidden: true, band: [most, least] },
        { key: least, look, hidden: true },
        { key: mean, look, width: 2, label: queue === ONE ? "one queue" : `queue ${queue}`, unit: " ms", ghost: true },
      ];
    });
  };
  const curves = new Curves(scene, into, "delays", "How long packets wait", "queueing delay, ms", {}, "fine", found);
  const press = curves.panel.choice(
    "whose delay",
    [
      ["queue", "queues"],
      ["flow", "flows"],
    ],
    scene.options.delays,
    choose,
  );
  const arrange = curves.arrange.bind(curves);
  curves.arrange = () => {
    press(delaysByFlow(scene) ? "flow" : "queue");
    arrange();
  };
  return curves;
}

function perParty(scene: Scene, quantity: string): CurveOf[] {
  return partiesOf(scene).map(({ name, look, key }) => ({
    key: key(quantity),
    look,
    label: name,
    unit: "/s",
    ghost: true,
  }));
}

export function markPanel(scene: Scene, into: HTMLElement): Curves {
  const found = () => perParty(scene, "ce_packets");
  return new Curves(scene, into, "marks", "CE marks", "packets per second", { to: 10 }, "coarse", found);
}

export function dropPanel(scene: Scene, into: HTMLElement): Curves {
  const found = () => perParty(scene, "dropped_packets");
  return new Curves(scene, into, "drops", "Drops", "packets per second", { to: 10 }, "coarse", found);
}

export function utilisationPanel(scene: Scene, into: HTMLElement): Curves {
  const found = (): CurveOf[] => {
    const key = (link: string) => ofQueue(link, "all", "utilisation_pct");
    const up = upOf(scene.link);
    const both = scene.store.fine.has(key(up));
    const label = both ? "to the users" : "of the link";
    const whole: CurveOf = { key: key(scene.link), look: INK, label, unit: " %", ghost: true };
    return both ? [whole, { ...whole, key: key(up), look: CAPACITY, width: 2, label: "from them" }] : [whole];
  };
  const y = { to: 100, most: 105 };
  return new Curves(scene, into, "utilisation", "Utilisation", "%", y, "coarse", found);
}

interface Law {
  gauge: string;
  label: string;
  look: Look;
  dots?: boolean;
}

// Probabilities of the laws, as the queues tell them.
const LAWS: Law[] = [
  { gauge: "p_prime", label: "p′, base", look: { ...INK, dash: [2, 2] } },
  { gauge: "p_l_native", label: "L, native", look: lookOf("scalable", 2), dots: true },
  { gauge: "p_l_coupled", label: "L, coupled", look: lookOf("scalable") },
  { gauge: "p_c", label: "C", look: lookOf("classic") },
  { gauge: "p_drop", label: "p of BLUE", look: lookOf("other", 1) },
  { gauge: "max_p", label: "max_p", look: lookOf("other", 3) },
];
// Where there is no probability, how far the law has gone.
const COUNTS: Law[] = [
  { gauge: "count", label: "signals in this episode", look: INK },
  { gauge: "cobalt_count", label: "signals in this episode", look: INK },
];

export function lawPanel(scene: Scene, into: HTMLElement): Curves {
  const has = ({ gauge }: Law) => scene.store.fine.has(ofQueue(scene.link, "all", gauge));
  const probabilities = () => LAWS.filter(has);
  const found = (): CurveOf[] => {
    const laws = probabilities();
    const isPart = laws.length > 0;
    return (isPart ? laws : COUNTS.filter(has)).map(({ gauge, label, look, dots = false }) => ({
      dots,
      key: ofQueue(scene.link, "all", gauge),
      look,
      label,
      factor: isPart ? 100 : 1,
      unit: isPart ? " %" : "",
      ghost: true,
    }));
  };
  const why = (): string | null => {
    if (scene.store.fine.rows < 2 || found().length) return null;
    const name = qdiscOf(scene).split(/\s+/)[0] ?? "";
    if (/^[pb]fifo/.test(name)) return `${name} has no AQM: it accepts every packet until it is full, then it drops.`;
    return `${name} reports no probability: it marks or drops by the delay or length of its queues.`;
  };
  const text = (value: number) => {
    const factor = probabilities().length ? 100 : 1;
    return String(Number((value * factor).toPrecision(4)));
  };
  // Of two probabilities one is often the square of the other: a logarithmic axis shows both.
  const y = { text, log: () => probabilities().length > 0, from: 1e-3, least: 1e-5 };
  const curves = new Curves(scene, into, "law", "The queue's controller", "", y, "coarse", found, why);
  const arrange = curves.arrange.bind(curves);
  curves.arrange = () => {
    arrange();
    curves.panel.setUnit(probabilities().length ? "probability of a mark or drop, %" : "");
  };
  return curves;
}
