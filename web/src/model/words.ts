/** Sentences about what is wrong. */

/** The remedy for a misspelt name: the nearest valid one, or all of them. */
export function suggest(word: string, valid: Iterable<string>): string {
  const names = [...valid];
  const name = nearest(word, names);
  if (name !== undefined) return `did you mean "${name}"?`;
  if (names.length === 1) return `the only valid one is "${names[0]}"`;
  return names.length > 0 ? `valid are ${names.join(", ")}` : "none is allowed here";
}

/** The valid name that `word` most likely stands for. */
export function nearest(word: string, valid: readonly string[]): string | undefined {
  const lower = word.toLowerCase();
  const likeness = (name: string) => 1 - distance(lower, name.toLowerCase()) / Math.max(word.length, name.length, 1);
  const best = [...valid].sort((a, b) => likeness(b) - likeness(a))[0];
  return best !== undefined && likeness(best) >= 0.5 ? best : undefined;
}

/** Levenshtein's: insertions, deletions and replacements from one to the other. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
