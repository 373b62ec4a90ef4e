/** The engine that runs: chosen, opened when it is first asked for. */
import { availableEngines, openEngine } from "./engine";
import type { Engine, EngineName, Vocabulary } from "./types";

export class Engines {
  readonly available = availableEngines();
  name: EngineName;
  vocabulary: Vocabulary | null = null;
  private opened: { name: EngineName; engine: Promise<Engine> } | undefined;

  /** `told` is called when the lists of queues and controllers are there. */
  constructor(private readonly told: () => void) {
    this.name = this.available.find(({ why_not }) => why_not === undefined)?.name ?? "wasm";
  }

  get addsFlows(): boolean {
    return this.available.some((one) => one.name === this.name && one.adds_flows);
  }

  /** Takes another engine from now on; gives the sentence why it cannot be. */
  choose(name: string): string | null {
    const found = this.available.find((one) => one.name === name);
    if (!found)
      return `view.engine = "${name}" is no engine; valid are ${this.available.map((one) => one.name).join(", ")}`;
    if (found.why_not !== undefined)
      return `the engine ${name} is not available: ${found.why_not} (${this.name} is used instead)`;
    this.name = found.name;
    return null;
  }

  /** Rejects with Refused. */
  open(): Promise<Engine> {
    if (this.opened?.name !== this.name) {
      void this.opened?.engine.then((engine) => engine.close()).catch(() => {});
      const name = this.name;
      const engine = openEngine(name);
      this.opened = { name, engine };
      engine
        .then(
          async (one) => {
            this.vocabulary = await one.ask({ do: "vocabulary" });
            this.told();
          },
          () => {
            // The next one who asks tries anew.
            if (this.opened?.engine === engine) this.opened = undefined;
          },
        )
        .catch(() => {});
    }
    return this.opened?.engine as Promise<Engine>;
  }
}
