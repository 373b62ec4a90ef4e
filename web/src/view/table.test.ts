import { expect, test } from "vitest";
import { Table } from "./table";

test("the last rows are one piece, however often the ring went round", () => {
  const table = new Table(4);
  for (let row = 0; row < 11; row += 1) {
    table.begin(row);
    if (row % 2 === 0) table.set("even", row);
    const count = Math.min(row + 1, 4);
    expect([...table.time(9)]).toEqual(Array.from({ length: count }, (_, i) => row - count + 1 + i));
    expect([...(table.column("even", 2) ?? [])]).toEqual(
      row === 0 ? [0] : row % 2 ? [row - 1, Number.NaN] : [Number.NaN, row],
    );
  }
  expect(table.rows).toBe(4);
  expect(table.latest).toBe(10);
  expect(table.column("odd", 2)).toBeUndefined();
});

test("since counts the rows from a time on, and one before", () => {
  const table = new Table(5);
  expect(table.since(0)).toBe(0);
  for (let row = 1; row <= 12; row += 1) {
    table.begin(row * 10);
    const held = Math.min(row, 5);
    for (let from = 0; from <= 130; from += 5) {
      const inside = [...table.time(9)].filter((time) => time >= from).length;
      expect(table.since(from)).toBe(Math.min(inside + 1, held));
    }
  }
});

test("a column that begins late is missing before", () => {
  const table = new Table(3);
  table.begin(0);
  table.begin(1);
  table.set("a", 7);
  expect([...(table.column("a", 3) ?? [])]).toEqual([Number.NaN, 7]);
  expect(table.get("a")).toBe(7);
  expect(table.get("b")).toBeNaN();
});
