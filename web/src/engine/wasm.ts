import { toJson } from "../json";
import type { Answers, Engine, Request } from "../types";
import { Refused } from "../types";
import { refusal } from "./bounds";
import { Waiting } from "./waiting";
import type { FromWorker, ToWorker } from "./worker";

/** The core in a worker. Where it stops at a fault of its own, a fresh one takes its place. */
export class WasmEngine implements Engine {
  readonly name = "wasm";
  worked_ms: number | undefined;
  private readonly waiting = new Waiting();
  private worker: Worker | null;

  constructor(
    private readonly module: WebAssembly.Module,
    private readonly makeWorker: () => Worker,
  ) {
    this.worker = this.fresh();
  }

  ask<R extends Request>(request: R): Promise<Answers[R["do"]]> {
    const worker = this.worker;
    const why = worker === null ? "the engine was closed" : refusal(request);
    if (worker === null || why !== null) return Promise.reject(new Refused(why ?? ""));
    return this.waiting.ask<R>((id) => worker.postMessage({ id, request: toJson(request) } satisfies ToWorker));
  }

  close(): void {
    this.worker?.terminate();
    this.worker = null;
    this.waiting.refuseAll("the engine was closed");
  }

  private fresh(): Worker {
    const worker = this.makeWorker();
    worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
      if ("stopped" in data) this.replace(data.stopped);
      else {
        this.worked_ms = data.worked_ms;
        this.waiting.answer(data.id, JSON.parse(data.answer));
      }
    };
    worker.onerror = (event) => {
      event.preventDefault();
      this.replace(event.message || "its worker could not be started");
    };
    worker.postMessage({ module: this.module } satisfies ToWorker);
    return worker;
  }

  private replace(words: string): void {
    this.worker?.terminate();
    this.worker = this.fresh();
    this.waiting.refuseAll(`the simulator failed and restarts: ${words.replace(/\s+/g, " ")}`);
  }
}
