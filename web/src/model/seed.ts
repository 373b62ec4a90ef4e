/** A file has a seed, and each of its trials a seed that follows from it (`l4slab.sweep.trial_seed`). */
import { sha256 } from "@noble/hashes/sha2.js";
import { utf8ToBytes } from "@noble/hashes/utils.js";

export interface Trial {
  seed: bigint;
  trial: number;
}

// A hash has no inverse, so what a run's seed came from is kept.
const known = new Map<bigint, Trial>();

/** The seed of a trial of a file with this seed. */
export function trialSeed(seed: bigint, trial = 1): bigint {
  const hash = sha256(utf8ToBytes(`${seed}/${trial}`));
  const first = hash.slice(0, 8).reduce((value, byte) => (value << 8n) | BigInt(byte), 0n) >> 1n;
  known.set(first, { seed, trial });
  return first;
}

/** The file's seed and trial that give a run's seed, where they are small or have been asked for. */
export function trialOf(runSeed: bigint): Trial | undefined {
  if (!known.has(runSeed)) searchSmall();
  return known.get(runSeed);
}

let searched = false;

function searchSmall(): void {
  for (let seed = 0n; !searched && seed <= 20n; seed++)
    for (let trial = 1; trial <= 100; trial++) trialSeed(seed, trial);
  searched = true;
}
