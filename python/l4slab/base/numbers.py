"""How reports and figures write a number: as many digits as mean something, and never an exponent."""

from __future__ import annotations

import math

# A shorter queueing delay is none: the bins of the histograms are a thousandth of a millisecond at least.
NO_DELAY_MS = 0.01
_DECIMALS = 6  # at most


def number(value: float | None, unit: str = "", digits: int = 3) -> str:
    """A number to so many significant digits (integers in full), "" for None; in "ms", "0" for less than
    `NO_DELAY_MS`.
    """
    if value is None:
        return ""
    if isinstance(value, int):
        return written(f"{value:,}")
    if not math.isfinite(value):
        return str(value)
    if abs(value) < (NO_DELAY_MS if unit == "ms" else 1e-9):
        return "0"
    exponent = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    return written(f"{value:,.{min(max(0, digits - 1 - exponent), 3 if unit == 'ms' else _DECIMALS)}f}")


def counted(count: int, one: str, many: str = "") -> str:
    """A number of things: "1 run", "2 runs". `many` is the plural where that is not `one` with an s."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def plain(value: float) -> str:
    """A number as a person writes it, such as at an axis: without the zeros at its end."""
    text = f"{value:,.{max(_DECIMALS, 5 - math.floor(math.log10(abs(value))))}f}" if value else "0"
    return written(text.rstrip("0").rstrip(".") if "." in text else text)


def written(text: str) -> str:
    """With narrow spaces between thousands, and a minus that is one."""
    return text.replace(",", "\u202f").replace("-", "\u2212")
