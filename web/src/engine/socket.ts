import { toJson } from "../json";
import type { Answers, Engine, EngineName, Request } from "../types";
import { Refused } from "../types";
import { type Answer, Waiting } from "./waiting";

/** An engine of the server that gave the page, over a WebSocket of its own. */
export class SocketEngine implements Engine {
  private readonly waiting = new Waiting();
  /** Why it answers no more. */
  private gone: string | null = null;

  private constructor(
    readonly name: EngineName,
    private readonly socket: WebSocket,
  ) {
    socket.onmessage = ({ data }: MessageEvent<string>) => {
      const { id, ...answer } = JSON.parse(data) as { id: number } & Answer;
      this.waiting.answer(id, answer as Answer);
    };
    socket.onclose = ({ reason }) => this.end(reason || "the server of this page has ended; start l4slab live again");
  }

  /** Rejects with Refused where the server does not answer. */
  static open(name: EngineName, address: string): Promise<SocketEngine> {
    const socket = new WebSocket(`${address}&engine=${name}`);
    return new Promise((resolve, reject) => {
      socket.onopen = () => resolve(new SocketEngine(name, socket));
      socket.onclose = () => reject(new Refused(`the server of this page does not open the engine ${name}`));
    });
  }

  ask<R extends Request>(request: R): Promise<Answers[R["do"]]> {
    if (this.gone !== null) return Promise.reject(new Refused(this.gone));
    return this.waiting.ask<R>((id) => this.socket.send(toJson({ id, ...request })));
  }

  close(): void {
    this.end("the engine was closed");
    this.socket.close();
  }

  private end(why: string): void {
    this.gone ??= why;
    this.waiting.refuseAll(this.gone);
  }
}
