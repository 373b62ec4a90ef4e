/**
 * The last rows of a time series, as columns: rings of fixed size. Each value is written twice, half the array apart, so
 * that any stretch of rows is one piece of an array, which a chart reads without a copy.
 */
export class Table {
  private readonly columns = new Map<string, Float64Array>();
  private readonly times: Float64Array;
  private next = 0;
  private filled = 0;

  constructor(readonly capacity: number) {
    this.times = new Float64Array(2 * capacity);
  }

  get rows(): number {
    return this.filled;
  }

  /** The time of the newest row, or -Infinity. */
  get latest(): number {
    return this.filled ? (this.times[this.last()] as number) : Number.NEGATIVE_INFINITY;
  }

  clear(): void {
    this.columns.clear();
    this.next = 0;
    this.filled = 0;
  }

  /** Begins a row, in which all is missing. Times must not go back. */
  begin(time: number): void {
    const slot = this.next;
    this.next = (slot + 1) % this.capacity;
    this.filled = Math.min(this.filled + 1, this.capacity);
    this.times[slot] = this.times[slot + this.capacity] = time;
    for (const column of this.columns.values()) column[slot] = column[slot + this.capacity] = Number.NaN;
  }

  /** A value of the newest row. */
  set(key: string, value: number): void {
    let column = this.columns.get(key);
    if (!column) {
      column = new Float64Array(2 * this.capacity).fill(Number.NaN);
      this.columns.set(key, column);
    }
    const slot = this.last();
    column[slot] = column[slot + this.capacity] = value;
  }

  /** A value of the newest row; NaN if it is missing. */
  get(key: string): number {
    return this.columns.get(key)?.[this.last()] ?? Number.NaN;
  }

  has(key: string): boolean {
    return this.columns.has(key);
  }

  /** How many columns there are; it only grows until `clear`. */
  get width(): number {
    return this.columns.size;
  }

  /** Names of all columns. */
  keys(): IterableIterator<string> {
    return this.columns.keys();
  }

  /** How many of the newest rows are at `from` or later, and one before, so that a curve reaches the edge. */
  since(from: number): number {
    const end = this.last() + this.capacity + 1;
    let [low, high] = [end - this.filled, end];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.times[middle % (2 * this.capacity)] as number) < from) low = middle + 1;
      else high = middle;
    }
    return Math.min(end - low + 1, this.filled);
  }

  /** The times of the newest `count` rows. */
  time(count: number): Float64Array {
    return this.stretch(this.times, count);
  }

  /** The newest `count` values of a column, or undefined. */
  column(key: string, count: number): Float64Array | undefined {
    const column = this.columns.get(key);
    return column && this.stretch(column, count);
  }

  private last(): number {
    return (this.next + this.capacity - 1) % this.capacity;
  }

  private stretch(values: Float64Array, count: number): Float64Array {
    const end = this.last() + this.capacity + 1;
    return values.subarray(end - Math.min(count, this.filled), end);
  }
}
