"""The tables of an experiment that describe a run, but for its flows (`traffic`), and the quantities in them.

A field's `serialization_alias` is its name in a run's description.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from l4slab.spec.wording import Table, show
from l4slab.units import FREQUENCY, RATE, SIZE, TIME, Dimension


def _quantity(dimension: Dimension, *, zero: bool = False) -> BeforeValidator:
    def parse(text: object) -> int:
        value = dimension.parse(text)
        if value < 0 or (value == 0 and not zero):
            least = "must not be negative" if zero else "must be more than 0"
            raise ValueError(f'{least}; write a {dimension.name} such as "{dimension.example}"')
        return value

    return BeforeValidator(parse)


def _interval(frequency: int) -> int:
    interval = round(FREQUENCY.per_si * 10**9 / frequency)
    if interval < 1_000:
        raise ValueError('is more than once per microsecond; "1000000/s" is the most')
    return interval


Rate = Annotated[int, _quantity(RATE)]  # bit/s
Size = Annotated[int, _quantity(SIZE)]  # bytes
Duration = Annotated[int, _quantity(TIME)]  # ns
TimeOrZero = Annotated[int, _quantity(TIME, zero=True)]
# Written as a frequency: the mean time between events, ns.
Interval = Annotated[int, BeforeValidator(_interval), _quantity(FREQUENCY)]
Codepoint = Literal["not-ect", "ect0", "ect1", "ce"]
Captured = Literal["none", "first trial", "all trials"]

# What may change while it runs, and what may be swept at the top level: the rest, such as `title` and `trials`,
# describes the experiment, not a run.
AT_KEYS = ("rate", "qdisc")
TOP_FACTORS = ("duration", "warmup", "seed", "sample", "start_jitter")


class Top(Table):
    """The top-level keys. Times in ns."""

    title: str = ""
    about: str = ""
    duration: Duration = Field(examples=['"60s"'], serialization_alias="duration_ns")
    warmup: TimeOrZero = Field("0s", validate_default=True, serialization_alias="warmup_ns")
    seed: int = Field(1, ge=0, lt=2**63, examples=["1"])
    trials: int = Field(1, ge=1, le=1_000_000, examples=["5"])
    captures: Captured = Field("none", examples=['"first trial"'])
    sample: Duration = Field("100ms", validate_default=True, serialization_alias="sample_ns")
    start_jitter: TimeOrZero = Field("100ms", validate_default=True, serialization_alias="start_jitter_ns")
    subset: str = Field("", examples=['"rate <= 100e6"'])

    def mistake(self, raw: Mapping[str, Any]) -> tuple[str, str] | None:
        if self.warmup < self.duration:
            return None
        text = f"= {show(raw['warmup'])} is not shorter than duration = {show(raw['duration'])}"
        return "warmup", f"{text}; shorten the warmup or lengthen the duration"


class Link(Table):
    """A shaped link with one queue discipline. Rate in bit/s, burst in bytes."""

    rate: Rate = Field(examples=['"100Mbit"'], serialization_alias="rate_bps")
    qdisc: str = Field(examples=['"dualpi2"'])
    burst: Size = Field("1600B", validate_default=True, serialization_alias="burst_bytes")


class At(Table):
    """A change while it runs; the changed keys stand beside `time`, as dotted keys."""

    time: TimeOrZero = Field(examples=['"20s"'])


class Impair(Table):
    """netem in front of a link."""

    netem: str = Field(examples=['"delay 2ms"'])
    before: str = Field(examples=['"bottleneck"'])
    direction: Literal["forward", "reverse", "both"] = "forward"


class Rewrite(Table):
    """ECN field rewriting on one flow's path."""

    flow: str = Field(examples=['"tweaked"'])
    where: str = Field(examples=['"before:bottleneck"'])
    from_: Codepoint = Field(alias="from", examples=['"ect0"'])
    to: Codepoint = Field(examples=['"ect1"'])


class Skip(Table):
    """Combinations of a sweep that are left out."""

    section = "skip"
    when: str = Field(examples=["\"aqm = 'FIFO'\""])
    why: str = ""
