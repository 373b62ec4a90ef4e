import { expect, test } from "vitest";
import { runFromJson, toJson } from "./json";

test("a seed of 64 bits keeps its digits both ways", () => {
  const text = '{"seed":18446744073709551615,"links":[{"name":"\\"seed\\":1"}]}';
  const run = runFromJson(text);
  expect(run.seed).toBe(18446744073709551615n);
  expect(toJson(run)).toBe(text);
});

test("text that looks like a marked number stays text", () => {
  expect(JSON.parse(toJson({ name: "12", other: "\\u00005" }))).toEqual({ name: "12", other: "\\u00005" });
});
