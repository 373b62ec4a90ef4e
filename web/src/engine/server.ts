import { runFromJson } from "../json";
import type { EngineName, Run } from "../types";

/** What the server of `l4slab live` tells the page; a file server tells nothing. */
export interface Facts {
  /** Of the WebSocket, with its token. */
  socket?: string;
  engines?: EngineName[];
  /** Of the engines that the server has not got. */
  why_not?: Readonly<Record<EngineName, string>>;
  /** What the page begins with. */
  run?: Run;
}

export function serverFacts(): Facts {
  return factsFromJson(document.getElementById("server")?.textContent ?? "{}");
}

export function factsFromJson(text: string): Facts {
  // Only a run has a seed in it.
  return runFromJson(text) as Facts;
}
