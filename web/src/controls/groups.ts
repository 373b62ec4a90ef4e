/** The groups of flows that one can add to a service. */
import { usualPath, wayBack } from "../model/media";
import type { FlowSpec, Run } from "../types";

export type Service = "l4s" | "classic";
export type Wanted = "long" | "web" | "downloads" | "video" | "call" | "game" | "udp";

interface Offered {
  title: string;
  is(flow: FlowSpec): boolean;
}

/** What the encoder of a call makes at most, bit/s; what makes more is a game. */
const CALL_MOST = 5e6;

const oneSize = (flow: FlowSpec) => flow.kind === "web" && flow.size_min_bytes === flow.size_max_bytes;

/** The first that fits is what a group is called. */
export const KINDS: Record<Wanted, Offered> = {
  long: { title: "long flows", is: (flow) => flow.kind === "tcp" && flow.bytes === null },
  downloads: { title: "downloads", is: oneSize },
  web: { title: "web load", is: (flow) => flow.kind === "web" },
  video: { title: "video", is: (flow) => flow.kind === "video" },
  call: { title: "call", is: (flow) => flow.kind === "media" && flow.rate_bps <= CALL_MOST },
  game: { title: "cloud game", is: (flow) => flow.kind === "media" },
  udp: { title: "unresponsive UDP", is: (flow) => flow.kind === "cbr" },
};

/** A group more for the run, set up as its service is. */
export function offered(run: Run, wanted: Wanted, service: Service): FlowSpec {
  const usual = service === "l4s" ? "prague" : "cubic";
  const word = wanted === "long" ? service : `${wanted}-${service}`;
  const path = usualPath(run.links);
  const reverse_path = wayBack(run.links, path);
  const base = {
    name: unused(
      word,
      run.flows.map(({ name }) => name),
    ),
    count: 1,
    start_ns: 0,
    stop_ns: null,
    dscp: 0,
    path,
    rtt_ns: run.flows.find(({ rtt_ns }) => rtt_ns > 0)?.rtt_ns ?? 20e6,
  };
  const tcp = {
    ...base,
    cc: usual,
    ecn: null,
    peer_ecn: null,
    reverse_path,
    pace_bps: null,
    receive_window_bytes: null,
    options: {},
  };
  const web = { ...tcp, kind: "web" as const, size_alpha: 0.9 };
  const media = {
    ...base,
    kind: "media" as const,
    cc: service === "l4s" ? "scream" : "gcc",
    ecn: null,
    reverse_path,
    options: {},
    rate_min_bps: 150e3,
    rate_start_bps: 1e6,
    setup_ns: null,
    encoder: null,
    spread: 0.15,
    reaction_ns: null,
    keyframe_interval_ns: null,
    keyframe_ratio: 5,
    packet_bytes: 1264,
    feedback: "ccfb" as const,
    feedback_interval_ns: null,
    repair: null,
    audio_bps: null,
  };
  const made: Record<Wanted, FlowSpec> = {
    long: { ...tcp, kind: "tcp", bytes: null },
    web: { ...web, interval_ns: 100e6, size_min_bytes: 1000, size_max_bytes: 1e6 },
    downloads: { ...web, interval_ns: 2e9, size_min_bytes: 1e6, size_max_bytes: 1e6 },
    video: { ...tcp, kind: "video", rate_bps: 4e6, interval_ns: 16_666_667, spread: 0.15, control_interval_ns: null },
    call: { ...media, rate_bps: 2.5e6, interval_ns: 33_333_333, deadline_ns: 100e6 },
    game: { ...media, rate_bps: 20e6, interval_ns: 16_666_667, deadline_ns: 50e6 },
    udp: {
      ...base,
      kind: "cbr",
      rate_bps: 10e6,
      ecn: service === "l4s" ? "ect1" : "not-ect",
      packet_bytes: 1514,
      batch: 1,
    },
  };
  return made[wanted];
}

/** What the laboratory of a kernel has no flow of. */
const SIMULATED: readonly Wanted[] = ["call", "game"];

/**
 * The run with every group that can be added to it, silent: so that flows can come while it runs.
 */
export function withStandby(run: Run): Run {
  const silent = (["l4s", "classic"] as const).flatMap((service) =>
    (Object.keys(KINDS) as Wanted[])
      .filter((wanted) => !SIMULATED.includes(wanted))
      .map((wanted) => ({ ...offered(run, wanted, service), count: 0 })),
  );
  return { ...run, flows: [...run.flows, ...silent] };
}

function unused(word: string, names: readonly string[]): string {
  let name = word;
  for (let number = 2; names.includes(name); number++) name = `${word}-${number}`;
  return name;
}
