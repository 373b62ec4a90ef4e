import type { Answers, Request } from "../types";
import { Refused } from "../types";

/** What an engine says to one request. */
export type Answer = { ok: unknown } | { refused: string };

interface Asked {
  resolve(ok: unknown): void;
  reject(reason: Refused): void;
}

/** Requests without an answer yet, by number. */
export class Waiting {
  private readonly asked = new Map<number, Asked>();
  private last = 0;

  /** Sends a request under a number of its own; the promise is its answer's. */
  ask<R extends Request>(send: (id: number) => void): Promise<Answers[R["do"]]> {
    const id = ++this.last;
    return new Promise((resolve, reject) => {
      this.asked.set(id, { resolve: resolve as (ok: unknown) => void, reject });
      send(id);
    });
  }

  answer(id: number, answer: Answer): void {
    const asked = this.asked.get(id);
    this.asked.delete(id);
    if ("refused" in answer) asked?.reject(new Refused(answer.refused));
    else asked?.resolve(answer.ok);
  }

  refuseAll(sentence: string): void {
    const all = [...this.asked.values()];
    this.asked.clear();
    for (const { reject } of all) reject(new Refused(sentence));
  }
}
