/** Engines behind one interface: the core in this page, and what the page's server has. */
import packed from "virtual:core";
import known from "../generated/keys.json";
import type { Engine, EngineName } from "../types";
import { Refused } from "../types";
import { serverFacts } from "./server";
import { SocketEngine } from "./socket";
import { WasmEngine } from "./wasm";
import CoreWorker from "./worker?worker&inline";

export interface Available {
  name: EngineName;
  title: string;
  /** Flows can begin while it runs. */
  adds_flows: boolean;
  /** Why it cannot be opened, in a sentence. */
  why_not?: string;
}

let compiled: Promise<WebAssembly.Module> | undefined;

export function availableEngines(): Available[] {
  const wasm = { title: "the simulator in this page", adds_flows: true };
  return Object.entries({ wasm, ...known.engines }).map(([name, about]) => {
    const why_not = whyNot(name);
    return { name, ...about, ...(why_not === null ? {} : { why_not }) };
  });
}

/** Rejects with Refused. */
export async function openEngine(name: EngineName): Promise<Engine> {
  const why_not = whyNot(name);
  if (why_not !== null) throw new Refused(why_not);
  const { socket } = serverFacts();
  if (name !== "wasm") return SocketEngine.open(name, socket ?? "");
  compiled ??= unpacked(packed ?? "").then((bytes) => WebAssembly.compile(bytes));
  return new WasmEngine(await compiled, () => new CoreWorker());
}

function whyNot(name: EngineName): string | null {
  if (name === "wasm") {
    if (packed === null) return "this page was built without the simulator in it; see ./dev.sh page";
    if (typeof WebAssembly === "undefined") return "this browser has no WebAssembly";
    return null;
  }
  const { engines = [], why_not = {} } = serverFacts();
  return engines.includes(name) ? null : (why_not[name] ?? "it needs the server of l4slab live, on your own machine");
}

/** Bytes from base64 of gzip. */
async function unpacked(text: string): Promise<ArrayBuffer> {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}
