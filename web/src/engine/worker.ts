/** The core in a worker of its own, so that the page draws while it computes. */
import { Core, Stopped } from "./module";

export type ToWorker = { module: WebAssembly.Module } | { id: number; request: string };
/** `stopped`: the core's last words; this worker is of no more use. */
export type FromWorker = { id: number; answer: string } | { stopped: string };

let core: Promise<Core> | undefined;

self.onmessage = async ({ data }: MessageEvent<ToWorker>) => {
  if ("module" in data) {
    core = Core.of(data.module);
    return;
  }
  try {
    const answer = (await core)?.ask(data.request) ?? "";
    self.postMessage({ id: data.id, answer } satisfies FromWorker);
  } catch (error) {
    const words = error instanceof Stopped ? error.message : String(error);
    self.postMessage({ stopped: words } satisfies FromWorker);
  }
};
