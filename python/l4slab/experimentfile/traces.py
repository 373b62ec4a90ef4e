"""Files with a link's rate, or a path's additional delay, over time."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from pathlib import Path

from l4slab.base.errors import suggest
from l4slab.base.run import DelayTrace, RateTrace
from l4slab.experimentfile.wording import show

_TIME = {"time_s": 10**9, "time_ms": 10**6, "time_us": 10**3}
_RATE = {"rate_mbps": 10**6, "rate_kbps": 10**3, "rate_bps": 1, "rate_gbps": 10**9}  # bits, as in results
_RTT = {"rtt_ms": 10**6, "rtt_us": 10**3, "rtt_s": 10**9}
_MOST_LINES = 5_000_000
_MOST_BPS = 10**13
_MOST_MS = 100 * 366 * 86_400_000
FULL_FRAME = 1514  # bytes per opportunity: 1500 B of IP


def rate_trace(name: str, folder: Path, *, repeat: bool) -> RateTrace:
    """A link's rates as a run's description has them: `steps` of (ns, bit/s), or `opportunities` of (ns, packets).

    Raises ValueError that continues `rate_trace = name`.
    """
    lines = _lines(name, folder)
    number, first = lines[0]
    if "," in first or not first.isascii() or not first.lstrip("+-").isdigit():
        steps = _steps(lines, _RATE, "rate_trace")
        if not any(rate for _, rate in steps):
            raise ValueError("has no rate above 0; a link without any carries nothing, so remove the flow instead")
        _bounded(steps, lines)
        return {"file": Path(name).name, "steps": steps, "repeat_ns": _repeated(steps, repeat=repeat)}
    if not repeat:
        raise ValueError(
            "is in Mahimahi's format, which begins again at its end; leave repeat out, or write it as CSV with "
            "time_s,rate_mbps"
        )
    opportunities: dict[int, int] = {}
    last = 0
    for number, line in lines:
        if not line.isascii() or not line.isdigit():
            raise _wrong(number, line, "is not a time in whole milliseconds", "write one such as 15 on each line")
        time = int(line)
        if time > _MOST_MS:
            raise _wrong(number, line, "is a time beyond a hundred years", "look at its unit, which is a millisecond")
        if time < last:
            raise _wrong(number, line, f"is before {last}, the line above it", "sort the lines")
        opportunities[time] = opportunities.get(time, 0) + 1
        last = time
    if last == 0:
        raise _wrong(number, str(last), "is where it ends, so it takes no time", "end it with a later time")
    if max(opportunities.values()) > 1_000_000:
        raise ValueError("has more than a million opportunities in one millisecond; write it as CSV")
    of_ns = [[time * 10**6, count] for time, count in opportunities.items()]
    return {"file": Path(name).name, "opportunities": of_ns, "repeat_ns": last * 10**6}


def delay_trace(name: str, folder: Path, *, repeat: bool) -> DelayTrace:
    """The delay that a path adds to round trips, as in a run's description: `steps` of (ns, ns).

    Raises ValueError that continues `delay_trace = name`.
    """
    lines = _lines(name, folder)
    steps = _steps(lines, _RTT, "delay_trace")
    return {"file": Path(name).name, "steps": steps, "repeat_ns": _repeated(steps, repeat=repeat)}


def mean_bps(trace: RateTrace, duration_ns: int) -> int:
    """The mean rate of a link's trace: over one round, or over the run if the trace does not repeat."""
    end = trace["repeat_ns"] or duration_ns
    return max(round(_Carried(trace).round(end) * 1e9 / end), 1)


def bins(trace: RateTrace, duration_ns: int, bin_ns: int) -> list[tuple[float, float]]:
    """The mean rate of a link's trace in each bin of a run: (begin in s, Mb/s)."""
    edges = [*range(0, duration_ns, bin_ns), duration_ns]
    carried = _Carried(trace)
    bits = [carried.bits(edge) for edge in edges]
    return [
        (begin / 1e9, round((after - before) / (end - begin) * 1e3, 6))
        for begin, end, before, after in zip(edges, edges[1:], bits, bits[1:], strict=False)
    ]


class _Carried:
    """The bits that a trace carries up to a time."""

    def __init__(self, trace: RateTrace):
        self.repeat_ns: int | None = trace["repeat_ns"]
        at_once = trace.get("opportunities")
        self.steps = [(at, n * FULL_FRAME * 8, 0) for at, n in at_once] if at_once else []
        self.steps += [(at, 0, rate) for at, rate in trace.get("steps", ())]
        self.times = [at for at, _, _ in self.steps]
        self.before: list[float] = [0.0]
        for (at, once, rate), end in zip(self.steps, self.times[1:], strict=False):
            self.before.append(self.before[-1] + once + rate * (end - at) * 1e-9)

    def bits(self, time_ns: int) -> float:
        """Before a time."""
        if self.repeat_ns is None:
            return self._within(bisect_left(self.times, time_ns), time_ns)
        rounds, rest = divmod(time_ns, self.repeat_ns)
        return rounds * self.round(self.repeat_ns) + self._within(bisect_left(self.times, rest), rest)

    def round(self, time_ns: int) -> float:
        """Until a time, with what comes at that time."""
        return self._within(bisect_right(self.times, time_ns), time_ns)

    def _within(self, begun: int, time_ns: int) -> float:
        if begun == 0:
            return 0.0
        at, once, rate = self.steps[begun - 1]
        return float(self.before[begun - 1] + once + rate * (time_ns - at) * 1e-9)


def _lines(name: str, folder: Path) -> list[tuple[int, str]]:
    """The lines with their numbers, without comments and empty ones. Raises ValueError."""
    path = folder / name
    if not is_beside(name):
        raise ValueError("is not beside the experiment file, with which results keep it; put it there, or in a folder")
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise ValueError(
            f"names no file in {folder.resolve()}; give its path from there, or make one with: l4slab trace"
        ) from None
    except IsADirectoryError:
        raise ValueError("is a directory; give the path of a file") from None
    except UnicodeDecodeError:
        raise ValueError("is not a text file; write a time on each line, or time_s,rate_mbps") from None
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror or error}); check its permissions") from None
    stripped = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    lines = [(number, line) for number, line in stripped if line and not line.startswith("#")]
    if not lines:
        raise ValueError("is empty; write a time in ms on each line (Mahimahi), or CSV with a header line")
    if len(lines) > _MOST_LINES:
        raise ValueError(f"has {len(lines)} lines; {_MOST_LINES} are the most, so cut it")
    return lines


def is_beside(name: str) -> bool:
    """Whether a name is of a file next to the experiment file, or in a folder there."""
    return bool(name) and not Path(name).is_absolute() and ".." not in Path(name).parts


def _steps(lines: list[tuple[int, str]], units: Mapping[str, int], key: str) -> list[list[int]]:
    example = f"time_s,{next(iter(units))}"
    number, header = lines[0]
    names = [name.strip() for name in header.split(",")]
    if len(names) != 2 or names[0] not in _TIME:
        raise _wrong(number, header, "is not the header of a trace", f"write it such as {example}")
    if names[1] not in units:
        raise _wrong(number, header, f"has no unit that {key} knows", suggest(names[1], units))
    if len(lines) == 1:
        raise ValueError(f"has a header and no rows; write rows such as 0,{25 if units is _RATE else 40} below it")
    steps: list[list[int]] = []
    of_time, of_value = _TIME[names[0]], units[names[1]]
    for number, line in lines[1:]:
        cells = line.split(",")
        if len(cells) != 2:
            raise _wrong(number, line, f"has {len(cells)} values", f"write two, {example}")
        time, value = (
            _number(number, name, cell, of) for name, cell, of in zip(names, cells, (of_time, of_value), strict=True)
        )
        if not steps and time != 0:
            text = f"{names[0]} = {show(cells[0])}"
            raise _wrong(number, text, "is not 0, where a trace begins", "subtract it from all times")
        if steps and time <= steps[-1][0]:
            text = f"{names[0]} = {show(cells[0])}"
            raise _wrong(number, text, "is not after the line above it", "sort the lines, and keep one of each time")
        steps.append([time, value])
    return steps


def _number(number: int, name: str, cell: str, factor: int) -> int:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise _wrong(number, f"{name} = {show(cell)}", "is not a number", "write one such as 0.5")
    if value < 0:
        remedy = "let the trace begin at 0" if name in _TIME else "write 0 or more"
        raise _wrong(number, f"{name} = {show(cell)}", "is negative", remedy)
    if value * factor > 2**62:
        raise _wrong(number, f"{name} = {show(cell)}", "is too large", "look at its unit")
    return round(value * factor)


def _bounded(steps: list[list[int]], lines: list[tuple[int, str]]) -> None:
    for (_, rate), (number, line) in zip(steps, lines[1:], strict=True):
        if rate > _MOST_BPS:
            raise _wrong(number, line, "is a rate above 10 Tbit/s", "look at its unit")


def _repeated(steps: list[list[int]], *, repeat: bool) -> int | None:
    """When it begins again: at the time of the last step. One step holds."""
    if repeat and len(steps) > 1:
        if not any(value for _, value in steps[:-1]):
            raise ValueError("has only its last value above 0, where it begins again; add a row that ends it")
        return steps[-1][0]
    if not steps[-1][1]:
        raise ValueError("ends with 0 and does not begin again; write repeat = true, or a last value above 0")
    return None


def _wrong(number: int, text: str, what: str, remedy: str) -> ValueError:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return ValueError(f"has a mistake in line {number}: {shown} {what}; {remedy}")


def rounds(trace: RateTrace | DelayTrace, duration_ns: int) -> Iterator[tuple[int, int]]:
    """The steps of a whole run: (ns, value)."""
    period = trace["repeat_ns"]
    begin = 0
    while True:
        for at, value in trace["steps"]:
            if begin + at >= duration_ns:
                return
            if period is None or at < period:
                yield begin + at, value
        if period is None:
            return
        begin += period
