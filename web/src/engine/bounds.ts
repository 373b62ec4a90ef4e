/** What a request to the simulator in this page may ask for, as in the server of `l4slab live` (docs/live.md). */
import type { Request } from "../types";

const RATE_BPS = 100e9;
const FLOWS = 10_000;

interface Asked {
  rate_bps?: number | null;
  pace_bps?: number | null;
  count?: number | null;
}

/** Why a request is refused; null: it is not. */
export function refusal(request: Request): string | null {
  const run = "run" in request ? request.run : null;
  const change = "change" in request ? request.change : null;
  const tables: Asked[] = run ? [...run.links, ...run.flows, ...run.at] : change ? [change] : [];
  const rate = Math.max(0, ...tables.map((one) => Math.max(one.rate_bps ?? 0, one.pace_bps ?? 0)));
  if (rate > RATE_BPS) return `the rate is ${rate / 1e9} Gbit/s, and this page allows at most 100 Gbit/s`;
  const flows = run?.flows.reduce((sum, flow) => sum + flow.count, 0) ?? 0;
  const count = Math.max(flows, ...tables.map((one) => one.count ?? 0));
  return count > FLOWS ? `the run has ${count} flows, and this page allows at most ${FLOWS}` : null;
}
