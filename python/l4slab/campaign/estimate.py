"""How long a campaign will take, and how much it will store, before it runs."""

from __future__ import annotations

import io
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import inf
from typing import Any

import polars as pl

from l4slab.base.run import Run as Description
from l4slab.campaign import memory
from l4slab.campaign.alike import grouped
from l4slab.campaign.known import known
from l4slab.engines.contract import Recording, Work
from l4slab.engines.registry import DEFAULT, get_engine
from l4slab.experimentfile import bounds
from l4slab.sweep import Run, canonical_json

# Number of trial runs. They are shortened to this many packets of their links' capacity, but not below two seconds,
# because a queue may shape below its link.
_TRIED = 12
_PACKETS = 30_000
_SHORTEST_NS = 2 * 10**9
_LONGER_NS = 4 * _SHORTEST_NS
# Upper limits: packets of all trial runs together, however fast, and samples of each, however slow.
_MOST_PACKETS = 10_000_000
_MOST_SAMPLES = 20_000
# Transfers, frames and inputs that flows begin in a trial run.
_MOST_BEGUN = 200_000
_INTERVALS = ("interval_ns", "control_interval_ns", "probe_interval_ns")
# Enough rows that the overhead of a file counts for little, as in the tables.
_SAMPLES = 200
_PACKET_S = 0.3e-6  # of the simulator, for each packet on each link
_DAY_S = 24 * 3600
# Kinds of flows that are programs on the engines that are no simulators. Calls take the time of their encoders besides.
_PROGRAMS = ("program", "responsiveness")


@dataclass(frozen=True)
class Estimate:
    """Processor seconds, or those of the wall where the engine has no virtual time; bytes in the result tables (parts
    hold the same again) and in captures, and the bytes of memory that the largest run may need.
    """

    seconds: float
    size: float
    captures: float = 0
    memory: float = 0
    is_virtual: bool = True

    def times(self, factor: float) -> Estimate:
        """The estimate for `factor` times as many runs."""
        return replace(self, seconds=self.seconds * factor, size=self.size * factor, captures=self.captures * factor)

    def __str__(self) -> str:
        captures = f" and {_size(self.captures)} of captures" if self.captures else ""
        tables = f"{_size(self.size)} of tables and as much again of parts"
        memory = f"at most {_size(max(self.memory, 1e6))} of memory per run"
        kind = "processor time" if self.is_virtual else "the wall clock, one run after another"
        return f"about {_duration(self.seconds)} of {kind}, {memory}, {tables}{captures}"

    @property
    def warning(self) -> str | None:
        """A sentence if the time is more than a day."""
        return too_long(self.seconds, "These runs take about")


def too_long(seconds: float, what: str) -> str | None:
    """A sentence that begins with `what`, if the time is more than a day of processor time."""
    if seconds <= _DAY_S:
        return None
    remedy = "shorten duration, lower rates, or choose runs with --where"
    return f"{what} {seconds / _DAY_S:.3g} days of processor time; {remedy}."


def longest(runs: Sequence[Run]) -> float:
    """Processor seconds of these runs at most, without trying one: every link is full all the time."""
    packets = sum(bounds.packets(run.description) for run in runs)
    return get_engine(runs[0].engine).estimate(_work(runs, packets, _PACKET_S * packets)) if runs else 0.0


def _work(runs: Sequence[Run], packets: float, simulator_s: float) -> Work:
    """`packets` that links deliver, of which each flow of a run is taken to have as many as the others, and the
    simulator's processor seconds.
    """
    lasts_s = of_programs = calls_s = 0.0
    for run in runs:
        duration_s = run.description["duration_ns"] * 1e-9
        flows = run.description["flows"]
        lasts_s += duration_s
        of_programs += sum(flow["kind"] in _PROGRAMS for flow in flows) / max(len(flows), 1) / len(runs)
        calls_s += duration_s * sum(flow["count"] for flow in flows if flow["kind"] == "media")
    return Work(len(runs), lasts_s, packets, simulator_s, packets * of_programs, calls_s)


def estimate(runs: Sequence[Run]) -> Estimate:
    """From short versions of some of the runs, scaled by their durations and samples."""
    seconds = begun = packets = samples = 0.0
    series = []
    computed = [group[0] for group in grouped(runs)]
    tried = list(_tried(computed))
    for description, alike in tried:
        short, recording, once, steady, longer = _try(description, _MOST_PACKETS / len(tried))
        begun += once / len(tried)
        seconds += steady * longer * alike
        packets += sum(recording.links.filter(queue="all")["arrived_packets"]) * longer * alike
        series.append(recording.series)
        samples += _samples(short)
    if not series:
        return Estimate(0, 0)
    together = pl.concat(series, how="diagonal_relaxed")
    size = _stored(together) - _stored(together.clear())
    # A run has only a few rows of the other tables.
    tables = size / samples * sum(_samples(run.description) for run in runs) + 3000 * len(runs)
    engine = get_engine(runs[0].engine)
    seconds = engine.estimate(_work(computed, packets, seconds + begun * len(computed)))
    captures = engine.captured_bytes * packets * sum(run.captures for run in computed) / len(computed)
    largest = max(memory.needed(run) for run in computed)
    return Estimate(seconds, tables, captures, largest, engine.virtual_time)


def _tried(runs: Sequence[Run]) -> Iterator[tuple[Description, float]]:
    """Descriptions that stand for all runs, and for how many times its own packets each: at least one of every set of
    senders, as few runs of one that ignores losses may cost more than all others.
    """
    alike: dict[str, list[Run]] = {}
    for run in runs:
        senders = [(flow.get("cc"), flow.get("options")) for flow in run.description["flows"]]
        alike.setdefault(str(senders), []).append(run)
    # Many sets differ by a parameter that is swept: not each is worth a try.
    groups = list(alike.values()) if len(alike) <= 2 * _TRIED else [list(runs)]
    for group in groups:
        few = min(len(group), max(1, round(_TRIED * len(group) / len(runs))))
        yield from _quantiles([run.description for run in group], few)


def _quantiles(runs: Sequence[Description], few: int) -> Iterator[tuple[Description, float]]:
    """At most so many of these runs, each of which stands for as many packets as the others: in a sweep over rates, few
    runs have most of the packets.
    """
    ordered = sorted(runs, key=bounds.packets)
    reached = list(accumulate(map(bounds.packets, ordered)))
    each = reached[-1] / few
    chosen = Counter(bisect_left(reached, (n + 0.5) * each) for n in range(few))
    for place, parts in chosen.items():
        yield ordered[place], parts * each / bounds.packets(ordered[place])


def _try(description: Description, most_packets: float) -> tuple[Description, Recording, float, float, float]:
    """A short version of a run and its recording, the processor seconds that any version of it takes (for its set-up
    and its slow start), those that grow with its duration, and how many times as much of these the run takes.
    """
    for shortest_ns in (_SHORTEST_NS, _LONGER_NS):
        short = _shortened(description, most_packets, shortest_ns)
        half, _ = _executed(short | {"duration_ns": max(short["duration_ns"] // 2, 1)})
        took, recording = _executed(short)
        times = description["duration_ns"] / short["duration_ns"]
        longer = _longer(recording, times)
        # A deep queue overflows when slow start ends. A longer version tells that from drops that keep growing.
        if longer < 2 * times:
            break
    steady = max(2 * (took - half), 0)
    return short, recording, max(took - steady, 0), steady, longer


def _executed(description: Description) -> tuple[float, Recording]:
    """The processor seconds of a run, and its recording."""
    started = time.thread_time()
    recording = get_engine(DEFAULT).execute(canonical_json(description))
    return time.thread_time() - started, recording


def _longer(recording: Recording, longer: float) -> float:
    """How many times as much work a run is that lasts `longer` times as long as this one.

    The packets that links deliver grow with the time. Drops may grow faster, because a sender that ignores losses sends
    ever more. More drops in the last quarter than in the third are taken for a rate that keeps growing; until then
    queues fill.
    """
    flows = recording.series.filter(pl.col("flow").is_not_null())
    quarter = (4 * pl.col("time_s") / pl.col("time_s").max()).ceil()
    dropped = pl.col("dropped_packets")
    growth, sent = flows.select(
        dropped.filter(quarter == 4).sum() - dropped.filter(quarter == 3).sum(), pl.col("sent_packets").sum()
    ).row(0)
    return longer + float(8 * max(growth, 0) * (longer**2 - longer) / max(sent, 1))


def _samples(description: Description) -> float:
    return float(description["duration_ns"] / description["sample_ns"])


def _shortened(description: Description, most_packets: float, shortest_ns: int = _SHORTEST_NS) -> Description:
    """The first seconds of a run, with all flows from the start and without changes."""
    per_ns = bounds.packets(description) / description["duration_ns"]
    enough_ns = min(
        max(shortest_ns, _PACKETS / per_ns), most_packets / per_ns, _MOST_SAMPLES * description["sample_ns"]
    )
    begun = sum(map(_begun_per_ns, description["flows"]))
    enough_ns = min(enough_ns, _MOST_BEGUN / begun if begun else inf)
    duration = max(min(description["duration_ns"], int(enough_ns)), 1)
    flows = [known(flow) for flow in description["flows"]]
    for flow in flows:
        flow["start_ns"], flow["stop_ns"] = 0, None
    short: Description = {
        **description,
        "duration_ns": duration,
        "sample_ns": min(description["sample_ns"], max(duration // _SAMPLES, 1)),
        "warmup_ns": 0,
        "start_jitter_ns": 0,
        "flows": flows,
        "at": [],
    }
    short.pop("precision", None)
    return short


def _begun_per_ns(flow: Mapping[str, Any]) -> float:
    """Transfers, frames and inputs that a flow group begins."""
    return float(sum(flow["count"] / flow[key] for key in _INTERVALS if flow.get(key)))


def _stored(frame: pl.DataFrame) -> int:
    """Bytes of a table on the disk."""
    file = io.BytesIO()
    frame.write_parquet(file, compression="zstd")
    return file.tell()


def _duration(seconds: float) -> str:
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{_rough(seconds / unit)} {name}"
    return f"{max(seconds, 1):.0f} s"


def _rough(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _size(size: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{_rough(size / unit)} {name}"
    return f"{max(size / 1e3, 1):.0f} kB"
