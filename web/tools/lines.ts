/**
 * The core as WebAssembly without a page: a request on each line of the standard input, its answer on each line of the
 * output, and on the standard error how many milliseconds it took.
 */
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Core } from "../src/engine/module";

const [file = ""] = process.argv.slice(2);
const core = await Core.of(await WebAssembly.compile(readFileSync(file)));
for await (const request of createInterface({ input: process.stdin })) {
  const begin = performance.now();
  const answer = core.ask(request);
  console.error((performance.now() - begin).toFixed(1));
  console.log(answer);
}
