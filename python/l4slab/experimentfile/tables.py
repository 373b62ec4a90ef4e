"""The tables of an experiment that describe a run, but for its flows (`traffic`), and the quantities in them.

A field's `serialization_alias` is its name in a run's description.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from l4slab.base import run
from l4slab.base.units import FREQUENCY, RATE, SIZE, TIME, Dimension
from l4slab.base.values import Keys
from l4slab.experimentfile import bounds
from l4slab.experimentfile.wording import Table, checked_by, show

MOST = {RATE: bounds.RATE_BPS, TIME: bounds.TIME_NS, SIZE: bounds.SIZE_BYTES, FREQUENCY: FREQUENCY.parse("1000000/s")}


class _Described:
    """Marks a text that a run's description has as what `parse` makes of it."""

    def parse(self, text: object) -> Any:
        """Raises ValueError with the remedy."""
        raise NotImplementedError

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        described = core_schema.plain_serializer_function_ser_schema(self.parse)
        return core_schema.no_info_before_validator_function(
            checked_by(self.parse), handler(source), serialization=described
        )


@dataclass(frozen=True)
class Quantity(_Described):
    """Marks a text with a unit ("100Mbit"), which a run's description has as an integer in the base unit."""

    dimension: Dimension
    least: int = 1
    most: int | None = None

    def parse(self, text: object) -> int:
        """The integer. Raises ValueError with the remedy."""
        value = self.dimension.parse(text)
        if value < self.least and self.least <= 1:
            least = "must not be negative" if self.least == 0 else "must be more than 0"
            raise ValueError(f'{least}; write a {self.dimension.name} such as "{self.dimension.example}"')
        if value < self.least:
            raise ValueError(f"must be at least {self.dimension.text(self.least)}")
        most = self.most or MOST[self.dimension]
        if value > most:
            raise ValueError(f"must be at most {self.dimension.text(most)}")
        return value

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        units = "|".join(map(re.escape, self.dimension.units))
        if self.dimension.any_case:
            # The patterns of JSON Schema have no flags.
            units = re.sub("[a-zA-Z]", lambda letter: f"[{letter[0].lower()}{letter[0].upper()}]", units)
        return {"type": "string", "pattern": rf"^\s*\+?[0-9.]+([eE][+-]?[0-9]+)?\s*({units})\s*$"}


class _Often(Quantity):
    """Written as a frequency, described as the mean time between events in ns."""

    def parse(self, text: object) -> int:
        return round(FREQUENCY.per_si * 10**9 / super().parse(text))


class _Precise(_Described):
    """Marks "COLUMN ± HALF_WIDTH"; "+-" is the same in ASCII."""

    columns: tuple[run.PreciseColumn, ...] = get_args(run.PreciseColumn)
    pattern = rf"^\s*({'|'.join(columns)})\s*(?:±|\+-)\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*$"

    def parse(self, text: object) -> run.Precision:
        found = re.match(self.pattern, text) if isinstance(text, str) else None
        try:
            half_width = float(found[2]) if found else 0.0
        except ValueError:
            half_width = 0.0
        if found is None or not 0 < half_width < math.inf:
            columns = ", ".join(self.columns)
            raise ValueError(
                f"is not COLUMN ± HALF_WIDTH, with a column ({columns}) and a number above 0 in the column's unit; "
                'write it such as "share ± 0.01" or "share +- 0.01"'
            )
        return {"column": next(name for name in self.columns if name == found[1]), "half_width": half_width}

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "pattern": self.pattern}


Rate = Annotated[str, Quantity(RATE)]  # bit/s
Size = Annotated[str, Quantity(SIZE)]  # bytes
Burst = Annotated[str, Quantity(SIZE, most=bounds.BURST_BYTES)]
Duration = Annotated[str, Quantity(TIME)]  # ns
TimeOrZero = Annotated[str, Quantity(TIME, least=0)]
Interval = Annotated[str, _Often(FREQUENCY)]
Codepoint = Literal["not-ect", "ect0", "ect1", "ce"]
Captured = Literal["none", "first trial", "all trials"]

# What may change while it runs, and what may be swept at the top level: the rest, such as `title` and `trials`,
# describes the experiment, not a run.
AT_KEYS = ("rate", "qdisc", "policer")  # of a link
AT_FLOW_KEYS = ("rtt", "count", "rate")
AT_IMPAIR_KEYS = ("netem",)
TOP_FACTORS = ("duration", "warmup", "seed", "sample", "start_jitter")


class Top(Table):
    """The top-level keys."""

    title: str = ""
    about: str = ""
    duration: Duration = Field(examples=['"60s"'], serialization_alias="duration_ns")
    warmup: TimeOrZero = Field(default="0s", serialization_alias="warmup_ns")
    seed: int = Field(default=1, ge=0, lt=2**63, examples=["1"])
    trials: int = Field(default=1, ge=1, le=bounds.TRIALS, examples=["5"])
    captures: Captured = Field(default="none", examples=['"first trial"'])
    sample: Duration = Field(default="100ms", serialization_alias="sample_ns")
    start_jitter: TimeOrZero = Field(default="100ms", serialization_alias="start_jitter_ns")
    per_flow: bool = Field(default=False, examples=["true"])
    precision: Annotated[str, _Precise()] | None = Field(default=None, examples=['"share ± 0.01"'])
    subset: str = Field(default="", examples=['"rate <= 100e6"'])

    def mistake(self, raw: Keys) -> tuple[str, str] | None:
        duration = TIME.parse(self.duration)
        if TIME.parse(self.warmup) >= duration:
            text = f"= {show(raw['warmup'])} is not shorter than duration = {show(raw['duration'])}"
            return "warmup", f"{text}; shorten the warmup or lengthen the duration"
        if "start_jitter" in raw and TIME.parse(self.start_jitter) >= duration:
            text = f"= {show(raw['start_jitter'])} is not shorter than duration = {show(raw['duration'])}"
            return "start_jitter", f"{text}; flows would start after the end, so shorten it"
        if "sample" in raw and TIME.parse(self.sample) > duration:
            text = f"= {show(raw['sample'])} is longer than duration = {show(raw['duration'])}"
            return "sample", f"{text}; sample more often"
        return None


class Link(Table):
    """A shaped link with one queue discipline; its rate stands here or, over time, in a file (module `traces`). Or else
    a medium may serve a queue in each direction (module `media`).
    """

    rate: Rate | None = Field(default=None, examples=['"100Mbit"'], serialization_alias="rate_bps")
    rate_trace: str | None = Field(default=None, examples=['"lte.csv"'])
    trace_repeat: bool = Field(default=True, examples=["false"])
    medium: str | None = Field(default=None, examples=['"leo"'])
    qdisc: str = Field(examples=['"dualpi2"'])
    qdisc_up: str | None = Field(default=None, examples=['"pfifo limit 1000"'])
    policer: str | None = Field(default=None, examples=['"rate 100mbit burst 64kb"'])
    burst: Burst = Field(default="1600B", serialization_alias="burst_bytes")
    on_host: bool = Field(default=False, examples=["true"])
    # Of a qdisc that holds classes (module `classes`), by number, and in the order in which they are tried.
    classes: dict[str, Any] = Field(default={}, validation_alias="class")
    filters: list[Any] = Field(default=[], validation_alias="filter")
    stations: dict[str, Any] = Field(default={}, validation_alias="station")  # of a medium, by name

    def mistake(self, raw: Keys) -> tuple[str, str] | None:
        if self.medium is not None:
            for key in ("rate", "rate_trace", "trace_repeat", "burst"):
                if key in raw:
                    return key, f"= {show(raw[key])} stands beside medium, which says it; remove one of them"
            for key in ("class", "filter"):
                if key in raw:
                    return key, "is of a qdisc that holds classes, which no medium serves; use a qdisc without"
            if self.policer is not None:
                return "policer", f"= {show(raw['policer'])} is of a link with a rate, and no medium has one; remove it"
            if self.on_host:
                return "on_host", "= true is of a link with a rate, and no medium is in the sender's host; remove it"
            return None
        if self.on_host and self.policer is not None:
            text = "stands in the sender's host, whose TCP would learn of each drop; put it on another link"
            return "policer", f"= {show(raw['policer'])} {text}"
        for key in ("qdisc_up", "station"):
            if key in raw:
                return key, 'is of a link with a medium; add it, such as medium = "leo", or remove this'
        if self.rate is None and self.rate_trace is None:
            text = 'has no rate; add it, such as rate = "100Mbit", or rate_trace with the name of a file'
            return "", f'{text}, or medium such as "leo"'
        if self.rate is not None and self.rate_trace is not None:
            return "rate", f"= {show(raw['rate'])} stands beside rate_trace, which says it; remove one of them"
        if self.rate_trace is None and "trace_repeat" in raw:
            return "trace_repeat", f"= {show(raw['trace_repeat'])} is of a rate_trace; remove it"
        return None


class At(Table):
    """A change while it runs; the changed keys stand beside `time`, as dotted keys. With `state` it waits, from `time`
    on, for this state of the congestion control of `flow`, and then for `after`.
    """

    time: TimeOrZero | None = Field(
        default=None, examples=['"20s"'], serialization_alias="time_ns", description="When the change happens"
    )
    flow: str | None = Field(default=None, examples=['"l4s"'], description="The flow with the awaited state")
    state: str | None = Field(
        default=None, examples=['"drain"'], description="The state of its congestion control to wait for"
    )
    after: TimeOrZero | None = Field(default=None, examples=['"40ms"'], description="Time since that state was seen")

    def mistake(self, raw: Keys) -> tuple[str, str] | None:
        if self.state is not None and self.flow is None:
            text = f'= {show(raw["state"])} is a state of a flow; add its name, such as flow = "l4s"'
            return "state", text
        for key in ("flow", "after"):
            if self.state is None and key in raw:
                return key, f'= {show(raw[key])} stands without state; add it, such as state = "drain"'
        if self.state is None and self.time is None:
            return "", 'has no time; add it, such as time = "20s"'
        return None


class FlowChange(Table):
    """The values that may change of a flow; `count`: the number of its flows that send from now on."""

    rtt: TimeOrZero | None = Field(default=None, examples=['"20ms"'], serialization_alias="rtt_ns")
    count: int | None = Field(default=None, ge=0, le=bounds.COUNT, examples=["2"])
    rate: Rate | None = Field(default=None, serialization_alias="rate_bps")
    rate_max: Rate | None = Field(default=None, serialization_alias="rate_max_bps")  # of media
    app_rate: Rate | None = Field(default=None)  # of TCP that has one
    pause: bool | None = Field(default=None, examples=["true"])  # of media, and of TCP with an app_rate


class Impair(Table):
    """netem in front of a link; `in_order`: whatever the delays, nothing overtakes."""

    netem: str = Field(default="", examples=['"delay 2ms"'])
    before: str = Field(examples=['"bottleneck"'])
    direction: Literal["forward", "reverse", "both"] = "forward"
    in_order: bool = Field(default=False, examples=["true"])
    ack_thinning: int | None = Field(
        default=None, ge=2, le=1000, examples=["4"], description="Forward every Nth pure ACK"
    )
    ack_wait: Duration = Field(
        default="2ms", serialization_alias="ack_wait_ns", description="Forward an ACK after this time in any case"
    )

    def mistake(self, raw: Keys) -> tuple[str, str] | None:
        if not self.netem and self.ack_thinning is None:
            return "", 'has no netem; add it, such as netem = "delay 2ms", or ack_thinning = 4'
        if self.ack_thinning is not None and self.direction == "forward":
            return "direction", '= "forward" has no ACKs to thin; write direction = "reverse" or "both"'
        if self.ack_thinning is None and "ack_wait" in raw:
            return "ack_wait", f"= {show(raw['ack_wait'])} is of ack_thinning; remove it"
        return None


class Rewrite(Table):
    """ECN field rewriting on one flow's path."""

    flow: str = Field(examples=['"tweaked"'])
    where: str = Field(examples=['"before:bottleneck"'])
    from_: Codepoint = Field(validation_alias="from", examples=['"ect0"'])
    to: Literal[Codepoint, "drop"] = Field(examples=['"ect1"'])


class Skip(Table):
    """Combinations of a sweep that are left out."""

    section = "skip"
    when: str = Field(examples=["\"aqm = 'FIFO'\""], description="SQL condition over the factors")
    why: str = Field(default="", description="The reason, for the report")
