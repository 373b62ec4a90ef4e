/** The core in a worker of its own, so that the page draws while it computes. */
import { Core, Stopped } from "./module";

export type ToWorker = { module: WebAssembly.Module } | { id: number; request: string };
/** `stopped`: the core's last words; this worker is of no more use. */
export type FromWorker = { id: number; answer: string; worked_ms: number } | { stopped: string };

let core: Promise<Core> | undefined;

self.onmessage = async ({ data }: MessageEvent<ToWorker>) => {
  if ("module" in data) {
    core = Core.of(data.module);
    return;
  }
  try {
    const ready = await core;
    const begun = performance.now();
    const answer = ready?.ask(data.request) ?? "";
    self.postMessage({ id: data.id, answer, worked_ms: performance.now() - begun } satisfies FromWorker);
  } catch (error) {
    const words = error instanceof Stopped ? error.message : String(error);
    self.postMessage({ stopped: words } satisfies FromWorker);
  }
};
