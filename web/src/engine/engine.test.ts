import { expect, test, vi } from "vitest";
import type { Run, Watch } from "../types";
import { Refused } from "../types";
import { factsFromJson } from "./server";
import { SocketEngine } from "./socket";
import { WasmEngine } from "./wasm";
import type { FromWorker, ToWorker } from "./worker";

const watch: Watch = { sample_ns: 1, members: false, histograms: false, packets: false, air: false };

/** A worker that keeps what it is sent; the test answers. */
class FakeWorker {
  onmessage: ((event: { data: FromWorker }) => void) | null = null;
  onerror: ((event: { message: string; preventDefault(): void }) => void) | null = null;
  readonly sent: ToWorker[] = [];
  ended = false;
  postMessage(message: ToWorker): void {
    this.sent.push(message);
  }
  terminate(): void {
    this.ended = true;
  }
  says(data: FromWorker): void {
    this.onmessage?.({ data });
  }
}

function wasm(): { engine: WasmEngine; workers: FakeWorker[] } {
  const workers: FakeWorker[] = [];
  const engine = new WasmEngine({} as WebAssembly.Module, () => {
    workers.push(new FakeWorker());
    return workers.at(-1) as unknown as Worker;
  });
  return { engine, workers };
}

test("answers go to the requests that they are of, whatever their order", async () => {
  const { engine, workers } = wasm();
  const [first, second] = [engine.ask({ do: "watch", watch }), engine.ask({ do: "advance", until_ns: 5 })];
  workers[0]?.says({ id: 2, answer: '{"refused": "no run was started"}', worked_ms: 1 });
  workers[0]?.says({ id: 1, answer: '{"ok": {}}', worked_ms: 1 });
  await expect(second).rejects.toEqual(new Refused("no run was started"));
  await expect(first).resolves.toEqual({});
});

test("what would stop the page for minutes is refused", async () => {
  const { engine, workers } = wasm();
  const sent = workers[0]?.sent.length;
  const run = { links: [{ rate_bps: 1e12 }], flows: [{ count: 1 }], at: [] } as unknown as Run;
  await expect(engine.ask({ do: "check", run })).rejects.toThrow("the rate is 1000 Gbit/s");
  const change = { flow: "a", count: 20_000 };
  await expect(engine.ask({ do: "change", change })).rejects.toThrow("the run has 20000 flows");
  expect(workers[0]?.sent.length).toBe(sent);
});

test("a fault of the simulator is a sentence, and the next request goes to a fresh worker", async () => {
  const { engine, workers } = wasm();
  const lost = [engine.ask({ do: "report" }), engine.ask({ do: "vocabulary" })];
  workers[0]?.says({ stopped: "panicked at sim.rs:1:1:\nno such thing" });
  for (const one of lost) await expect(one).rejects.toThrow("panicked at sim.rs:1:1: no such thing");
  expect(workers[0]?.ended).toBe(true);
  const next = engine.ask({ do: "vocabulary" });
  expect(workers[1]?.sent).toEqual([{ module: {} }, { id: 3, request: '{"do":"vocabulary"}' }]);
  workers[1]?.says({ id: 3, answer: '{"ok": {"version": "1"}}', worked_ms: 1 });
  await expect(next).resolves.toEqual({ version: "1" });
});

test("a closed engine refuses", async () => {
  const { engine, workers } = wasm();
  const asked = engine.ask({ do: "report" });
  engine.close();
  await expect(asked).rejects.toThrow(Refused);
  await expect(engine.ask({ do: "report" })).rejects.toThrow("closed");
  expect(workers[0]?.ended).toBe(true);
});

class FakeSocket {
  static last: FakeSocket;
  onopen: (() => void) | null = null;
  onclose: ((event: { reason: string }) => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  readonly sent: string[] = [];
  constructor(readonly address: string) {
    FakeSocket.last = this;
  }
  send(text: string): void {
    this.sent.push(text);
  }
  close(): void {}
}

test("an engine of the server: one socket, numbered requests, a sentence when it is gone", async () => {
  vi.stubGlobal("WebSocket", FakeSocket);
  const opening = SocketEngine.open("native", "ws://here/socket?token=t");
  const socket = FakeSocket.last;
  expect(socket.address).toBe("ws://here/socket?token=t&engine=native");
  socket.onopen?.();
  const engine = await opening;
  const asked = engine.ask({ do: "advance", until_ns: 7 });
  expect(socket.sent).toEqual(['{"id":1,"do":"advance","until_ns":7}']);
  socket.onmessage?.({ data: '{"id":1,"ok":{"now_ns":7}}' });
  await expect(asked).resolves.toEqual({ now_ns: 7 });
  const lost = engine.ask({ do: "report" });
  socket.onclose?.({ reason: "" });
  await expect(lost).rejects.toThrow("the server of this page has ended");
  await expect(engine.ask({ do: "report" })).rejects.toThrow("the server of this page has ended");
  const none = SocketEngine.open("linux", "ws://here/socket?token=t");
  FakeSocket.last.onclose?.({ reason: "" });
  await expect(none).rejects.toThrow(Refused);
  vi.unstubAllGlobals();
});

test("what the server tells keeps the digits of a seed", () => {
  const facts = factsFromJson('{"socket":"ws://here","engines":["native"],"run":{"seed":9007199254740993}}');
  expect(facts.run?.seed).toBe(9007199254740993n);
});
