import type { Run } from "./types";

/** JSON in which a bigint is a number with all its digits. */
export function toJson(value: unknown): string {
  const marked = JSON.stringify(value, (_, part) => (typeof part === "bigint" ? `\u0000${part}` : part));
  return marked.replace(/"\\u0000(-?\d+)"/g, "$1");
}

/** A run's description from JSON, its seed with all its digits. Throws SyntaxError. */
export function runFromJson(text: string): Run {
  // Inside a JSON string the quotes would be escaped, so that only the key can match.
  const quoted = text.replace(/("seed"\s*:\s*)(\d+)/g, '$1"$2"');
  return JSON.parse(quoted, (key, part) => (key === "seed" && typeof part === "string" ? BigInt(part) : part));
}
