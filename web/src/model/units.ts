/**
 * Quantities with their unit written out, as exact integers in the base unit: bit/s, ns, bytes.
 *
 * Suffixes and sentences are those of `l4slab.base.units`.
 */
import { suggest } from "./words";

/** A sentence that continues `key = value`. */
export class Wrong extends Error {}

/** A kind of quantity: `units` are the suffixes and the base units that each is. */
export interface Dimension {
  readonly name: "rate" | "time" | "size" | "frequency";
  readonly example: string;
  readonly units: ReadonlyMap<string, number>;
  readonly anyCase?: boolean;
}

/** One that `print` writes. */
export type Printed = Dimension & { readonly name: "rate" | "time" | "size" };

const PREFIXES: readonly [string, number][] = [["", 1], ["k", 1e3], ["M", 1e6], ["G", 1e9], ["T", 1e12]]; // biome-ignore format: a table

export const RATE: Printed = {
  name: "rate",
  example: "100Mbit",
  units: new Map(PREFIXES.flatMap(([p, f]) => [[`${p}bit`, f] as const, [`${p}bit/s`, f] as const])),
  anyCase: true,
};

export const TIME: Printed = {
  name: "time",
  example: "15ms",
  units: new Map([["ns", 1], ["us", 1e3], ["µs", 1e3], ["μs", 1e3], ["ms", 1e6], ["s", 1e9], ["min", 6e10], ["h", 36e11]]), // biome-ignore format: a table
};

export const SIZE: Printed = {
  name: "size",
  example: "1500B",
  units: new Map([["B", 1], ["kB", 1e3], ["MB", 1e6], ["GB", 1e9], ["KiB", 2 ** 10], ["MiB", 2 ** 20], ["GiB", 2 ** 30]]), // biome-ignore format: a table
};

/** In millionths per minute, so that both units are whole. */
export const FREQUENCY: Dimension = {
  name: "frequency",
  example: "10/s",
  units: new Map([["/min", 1e6], ["/s", 60e6]]), // biome-ignore format: a table
};

const QUANTITY = /^\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s.].*?)?\s*$/;

/** "100Mbit", "15ms" as an integer in the base unit, rounded to the nearest. Throws `Wrong` with the remedy. */
export function parse(text: string, dimension: Dimension): number {
  const { name, example, units } = dimension;
  const match = QUANTITY.exec(text);
  if (!match) throw new Wrong(`is not a ${name}; write a number and a unit, such as "${example}"`);
  const [, number = "", unit] = match;
  if (!unit) throw new Wrong(`has no unit; write it out, such as "${example}" (units: ${plain(units).join(", ")})`);
  const factor = units.get(unit) ?? (dimension.anyCase ? lowered(units).get(unit.toLowerCase()) : undefined);
  if (factor === undefined) throw new Wrong(wrongUnit(number, unit, dimension));
  const [value, isZero] = product(number, factor);
  if (!Number.isSafeInteger(value)) throw new Wrong(`is too large for a ${name}`);
  if (value === 0 && !isZero) throw new Wrong(`is too small for a ${name}; the smallest is 1${[...units.keys()][0]}`);
  return value;
}

/** `number` times `factor`, exactly, to the nearest integer, half to even; and whether the number is 0. */
function product(number: string, factor: number): [number, boolean] {
  const [mantissa = "", exponent = "0"] = number.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.replace(/^[+-]/, "").split(".");
  const digits = BigInt(`${whole}${fraction}` || "0");
  const power = Number(exponent) - fraction.length;
  if (digits === 0n) return [0, true];
  if (power > 400) return [Number.POSITIVE_INFINITY, false];
  if (power < -400) return [0, false];
  const above = digits * BigInt(factor) * 10n ** BigInt(Math.max(power, 0));
  const below = 10n ** BigInt(Math.max(-power, 0));
  const [quotient, twice] = [above / below, 2n * (above % below)];
  const up = twice > below || (twice === below && quotient % 2n === 1n);
  const value = Number(up ? quotient + 1n : quotient);
  return [mantissa.startsWith("-") && value > 0 ? -value : value, false];
}

function plain(units: ReadonlyMap<string, number>): string[] {
  return [...units.keys()].filter((unit) => /^\/?[A-Za-z]+$/.test(unit));
}

function lowered(units: ReadonlyMap<string, number>): Map<string, number> {
  return new Map([...units].map(([unit, factor]) => [unit.toLowerCase(), factor]));
}

function wrongUnit(number: string, unit: string, { name, units }: Dimension): string {
  if (name === "rate" && /^[kKmMgGtT]?[bB](ps|\/s)$/.test(unit)) {
    const prefix =
      unit.length > 2 && !"bB".includes(unit.charAt(0)) ? unit.charAt(0).toUpperCase().replace("K", "k") : "";
    return `is ambiguous (bits or bytes?); write "${number}${prefix}bit" for bits per second, and multiply by 8 if you mean bytes per second`;
  }
  const bytes = name === "rate" && /^([kKmMgGtT]?)(i?)(?:B|[bB]ytes?)(?:ps|\/s)?$/.exec(unit);
  if (bytes) {
    const prefix = (bytes[1] ?? "").toUpperCase().replace("K", "k");
    const bits = 8 * Number(number) * (bytes[2] && prefix ? 1.024 ** (1 + "kMGT".indexOf(prefix)) : 1);
    return `is in bytes, and a rate is in bits; write "${shortened(bits)}${prefix}bit" for as many bytes per second, or "${number}${prefix}bit" if you mean bits`;
  }
  const bits = name === "size" && /^([kKmMgGtT]?)bits?$/.exec(unit);
  if (bits) {
    const prefix = (bits[1] ?? "").toUpperCase().replace("K", "k");
    return `is in bits, and a size is in bytes; write "${shortened(Number(number) / 8)}${prefix}B"`;
  }
  if (/^,\d+/.test(unit)) return `has a comma; write a point, "${number}.${unit.slice(1)}"`;
  if (name === "size" && ["K", "KB", "kb", "k"].includes(unit)) {
    return `is ambiguous; write "${number}kB" for 1000s or "${number}KiB" for 1024s of bytes`;
  }
  if (name === "time" && (unit === "m" || unit === "M")) {
    return `is ambiguous; write "${number}min" for minutes or "${number}ms" for milliseconds`;
  }
  return `has no ${name} unit "${unit}"; ${suggest(unit, plain(units))}`;
}

function shortened(value: number): string {
  return String(Number(value.toPrecision(10)));
}

const PRINTED: Record<Printed["name"], readonly [string, number][]> = {
  rate: [["Tbit", 12], ["Gbit", 9], ["Mbit", 6], ["kbit", 3], ["bit", 0]],
  time: [["s", 9], ["ms", 6], ["us", 3], ["ns", 0]],
  size: [["GB", 9], ["MB", 6], ["kB", 3], ["B", 0]],
}; // biome-ignore format: a table

/** An integer in the base unit as text that `parse` reads as the same integer. */
export function print(value: number, dimension: Printed): string {
  const table = PRINTED[dimension.name];
  // Frames are told in bytes ("1514B"): a size takes a larger unit only where it is short in it.
  const most = dimension === SIZE ? 1 : 12;
  for (const [unit, power] of table) {
    if (Math.abs(value) < 10 ** power) continue;
    const text = shifted(value, power);
    if ((text.split(".")[1] ?? "").length <= most) return `${text}${unit}`;
  }
  return `${value}${table.at(-1)?.[0]}`;
}

/** `value` times 10 to the power of -`power`, in decimals. */
function shifted(value: number, power: number): string {
  const digits = String(Math.abs(value)).padStart(power + 1, "0");
  const fraction = digits.slice(digits.length - power).replace(/0+$/, "");
  const whole = digits.slice(0, digits.length - power);
  return `${value < 0 ? "-" : ""}${whole}${power > 0 && fraction ? `.${fraction}` : ""}`;
}

/** The mean time in ns between events of a frequency. Throws `Wrong`. */
export function parseInterval(text: string): number {
  const often = parse(text, FREQUENCY);
  if (often < 1) throw new Wrong(`must be more than 0; write a frequency such as "${FREQUENCY.example}"`);
  const interval = halfToEven(6e16 / often);
  if (interval < 1000) throw new Wrong('is more than once per microsecond; "1000000/s" is the most');
  return interval;
}

/** The shortest frequency whose interval is this. */
export function printInterval(interval: number): string {
  const perSecond = 1e9 / interval;
  for (let digits = 1; digits <= 15; digits++) {
    const text = `${Number(perSecond.toPrecision(digits))}/s`;
    if (perSecond >= 0.1 && !text.includes("e") && parseInterval(text) === interval) return text;
  }
  return `${shifted(halfToEven(6e16 / interval), 6)}/min`;
}

function halfToEven(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  return below + (rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? 1 : 0);
}
