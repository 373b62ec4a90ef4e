/** What samples hold at a speed: enough to see, and no more than a frame can take. */
import { rateOf } from "../model/media";
import type { Run, ViewOptions, Watch } from "../types";
import { SAMPLES_PER_WINDOW } from "../view/store";

// More events are a blur, and reading them costs more than drawing.
const EVENTS_PER_FRAME = 700;
const FRAMES_PER_S = 60;
const PACKET_BITS = 1514 * 8;
// A rate is the mean over some samples, and says nothing over less than a score of packets.
const PACKETS_PER_SAMPLE = 4;
// Of a batch run, which is answered at once.
const BATCH_SAMPLES = 500;

/** Packets that all links together could send in a second. */
export function packetsPerSecond(run: Run): number {
  return run.links.reduce((sum, link) => sum + rateOf(link) / PACKET_BITS, 0);
}

/** Single packets are told where a frame can take what happens to them: arrival, and leaving or drop. */
export function tellsPackets(run: Run, speed: number): boolean {
  return (2 * packetsPerSecond(run) * speed) / FRAMES_PER_S <= EVENTS_PER_FRAME;
}

export function watchOf(run: Run, speed: number, options: ViewOptions): Watch {
  const slowest_bps = Math.min(...run.links.map(rateOf));
  const least_ns = (PACKETS_PER_SAMPLE * PACKET_BITS * 1e9) / slowest_bps;
  const sample_ns = (options.window_s * speed * 1e9) / SAMPLES_PER_WINDOW;
  return {
    sample_ns: Math.round(Math.max(least_ns, sample_ns)),
    members: options.rates !== "service",
    histograms: false,
    packets: tellsPackets(run, speed),
    air: run.links.some(({ medium }) => medium),
  };
}

export function batchWatch(run: Run, options: ViewOptions): Watch {
  return {
    sample_ns: Math.round((options.window_s * 1e9) / BATCH_SAMPLES),
    members: options.rates !== "service",
    histograms: true,
    packets: false,
    air: run.links.some(({ medium }) => medium),
  };
}
