"""Quantities with their unit written out, as exact integers in the base unit.

Rates are in bit/s, times in ns, sizes in bytes. The suffixes are those of `tc` where they mean one thing
only; `Mbps` (megabits to most people, megabytes to `tc`) and bare numbers are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache

from l4slab.base.errors import suggest

_QUANTITY = re.compile(r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([^\d\s.].*?)?\s*")
# An exact number with a longer exponent, or more digits, takes seconds and gigabytes.
_LONG = re.compile(r"[0-9.]{400}|[eE][+-]?0*[1-9][0-9]{3}")
_LARGEST = 2**63 - 1  # what Parquet and the core hold


@dataclass(frozen=True, eq=False)
class Dimension:
    """A kind of quantity: its name, an example, its suffixes and the integers per SI unit."""

    name: str
    example: str
    units: dict[str, int]
    per_si: int = 1
    any_case: bool = False

    def parse(self, text: object) -> int:
        """`text` ("100Mbit", "15ms") as an integer in the base unit, rounded to the nearest.

        Raises ValueError with the remedy.
        """
        if isinstance(text, bool) or not isinstance(text, int | float | str):
            raise ValueError(f'is not a {self.name}; write it with its unit, such as "{self.example}"')
        if not isinstance(text, str):
            raise ValueError(self._no_unit())
        return self._parse(text)

    # Thousands of classes say the same few rates.
    @lru_cache(maxsize=1 << 12)  # noqa: B019, since a dimension lives as long as the program
    def _parse(self, text: str) -> int:
        match = _QUANTITY.fullmatch(text)
        if match is None:
            digits = ", with the digits 0 to 9" if re.search(r"(?![0-9])\d", text) else ""
            raise ValueError(f'is not a {self.name}; write a number and a unit{digits}, such as "{self.example}"')
        if not match[2]:
            raise ValueError(self._no_unit())
        number, unit = match[1], match[2]
        factor = self.units.get(unit)
        if factor is None and self.any_case:
            factor = {name.lower(): value for name, value in self.units.items()}.get(unit.lower())
        if factor is None:
            raise ValueError(self._wrong_unit(number, unit))
        if _LONG.search(number):
            raise ValueError(f'has too many digits for a {self.name}; write it such as "{self.example}"')
        value = round(Fraction(number) * factor)
        if abs(value) > _LARGEST:
            raise ValueError(f"is too large for a {self.name}")
        if value == 0 and Fraction(number) != 0:
            raise ValueError(f"is too small for a {self.name}; the smallest is 1{next(iter(self.units))}")
        return value

    def _no_unit(self) -> str:
        units = ", ".join(self._plain_units())
        return f'has no unit; write it out, such as "{self.example}" (units: {units})'

    def text(self, value: int) -> str:
        """`value` of the base unit in the largest unit that needs no fraction and two digits at least."""
        fitting = [
            (unit, factor) for unit, factor in self.units.items() if value % factor == 0 and value >= 10 * factor
        ]
        unit, factor = max(fitting or list(self.units.items())[:1], key=lambda one: one[1])
        return f"{value // factor}{unit}"

    def si(self, text: str) -> float:
        """`text` in bit/s, seconds or bytes."""
        return self.parse(text) / self.per_si

    def _plain_units(self) -> list[str]:
        """The suffixes without their variants."""
        return [unit for unit in self.units if unit.removeprefix("/").isalpha() and unit.isascii()]

    def _wrong_unit(self, number: str, unit: str) -> str:
        if self.name == "rate" and re.fullmatch(r"[kKmMgGtT]?[bB](ps|/s)", unit):
            prefix = unit[0].upper().replace("K", "k") if len(unit) > 2 and unit[0] not in "bB" else ""
            return (
                f'is ambiguous (bits or bytes?); write "{number}{prefix}bit" for bits per second, '
                "and multiply by 8 if you mean bytes per second"
            )
        if self.name == "rate" and (found := re.fullmatch(r"([kKmMgGtT]?)(i?)(?:B|[bB]ytes?)(?:ps|/s)?", unit)):
            prefix = found[1].upper().replace("K", "k")
            bits = 8 * float(number) * (1.024 ** (1 + "kMGT".index(prefix)) if found[2] and prefix else 1)
            bits_text = f'"{bits:.10g}{prefix}bit" for as many bytes per second'
            return f'is in bytes, and a rate is in bits; write {bits_text}, or "{number}{prefix}bit" if you mean bits'
        if self.name == "size" and (found := re.fullmatch(r"([kKmMgGtT]?)(?:bits?)", unit)):
            prefix = found[1].upper().replace("K", "k")
            return f'is in bits, and a size is in bytes; write "{float(number) / 8:.10g}{prefix}B"'
        if re.fullmatch(r",\d+.*", unit):
            return f'has a comma; write a point, "{number}.{unit[1:]}"'
        if self.name == "size" and unit in ("K", "KB", "kb", "k"):
            return f'is ambiguous; write "{number}kB" for 1000s or "{number}KiB" for 1024s of bytes'
        if self.name == "time" and unit in ("m", "M"):
            return f'is ambiguous; write "{number}min" for minutes or "{number}ms" for milliseconds'
        return f'has no {self.name} unit "{unit}"; {suggest(unit, self._plain_units())}'


RATE = Dimension(
    "rate",
    "100Mbit",
    {p + s: f for p, f in [("", 1), ("k", 10**3), ("M", 10**6), ("G", 10**9), ("T", 10**12)] for s in ("bit", "bit/s")},
    any_case=True,
)
TIME = Dimension(
    "time",
    "15ms",
    {
        "ns": 1,
        "us": 10**3,
        "µs": 10**3,
        "μs": 10**3,
        "ms": 10**6,
        "s": 10**9,
        "min": 60 * 10**9,
        "h": 3600 * 10**9,
    },
    per_si=10**9,
)
SIZE = Dimension(
    "size",
    "1500B",
    {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
)

# In millionths per minute, so that both units are whole.
FREQUENCY = Dimension("frequency", "10/s", {"/min": 10**6, "/s": 60 * 10**6}, per_si=60 * 10**6)


def si(value: object) -> object:
    """As SQL expressions see it: "5ms" is 0.005, "100Mbit" is 1e8, "64kB" is 64000.0, "10/s" is 10.0, others stay."""
    return _si(value) if isinstance(value, str) else value


@cache
def _si(value: str) -> float | str:
    for dimension in (TIME, RATE, SIZE, FREQUENCY):
        try:
            return dimension.si(value)
        except ValueError:
            continue
    return value
