/** What crates/wasm exports. */
interface Exports {
  memory: WebAssembly.Memory;
  text_alloc(bytes: number): number;
  text_free(at: number, bytes: number): void;
  ask(at: number, bytes: number): number;
  last_words(): number;
}

/** The instance stopped at a fault of its own and is of no more use. */
export class Stopped extends Error {
  override name = "Stopped";
}

/** The core as WebAssembly: one session. */
export class Core {
  private readonly exports: Exports;

  private constructor(instance: WebAssembly.Instance) {
    this.exports = instance.exports as unknown as Exports;
  }

  static async of(module: WebAssembly.Module): Promise<Core> {
    return new Core(await WebAssembly.instantiate(module));
  }

  /** Answers a request, both JSON. Throws Stopped. */
  ask(request: string): string {
    const text = new TextEncoder().encode(request);
    try {
      const at = this.exports.text_alloc(text.length);
      new Uint8Array(this.exports.memory.buffer, at, text.length).set(text);
      return this.take(this.exports.ask(at, text.length));
    } catch (error) {
      if (!(error instanceof WebAssembly.RuntimeError || error instanceof RangeError)) throw error;
      throw new Stopped(this.take(this.exports.last_words()) || "it ran out of memory");
    }
  }

  /** The text that a pair of address and length at `place` tells. Its memory goes back. */
  private take(place: number): string {
    const pair = new Uint32Array(this.exports.memory.buffer, place, 2);
    const [at = 0, bytes = 0] = pair;
    if (bytes === 0) return "";
    const text = new TextDecoder().decode(new Uint8Array(this.exports.memory.buffer, at, bytes));
    this.exports.text_free(at, bytes);
    return text;
  }
}
