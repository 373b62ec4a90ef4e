"""Types of values in TOML and JSON, and of rows of tables."""

from __future__ import annotations

# A value as TOML and JSON have it, and a table of them by key.
Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]
Keys = dict[str, Value]

# A cell of a result table, and a row by column.
Cell = str | int | float | bool | None
Row = dict[str, Cell]
