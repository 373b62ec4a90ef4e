"""Kinds of traffic: a model for each `kind` of a flow, which also is what a run's description says about it.

A field's `serialization_alias` is its name in the description.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from l4slab import _core
from l4slab.errors import suggest
from l4slab.spec.tables import Duration, Interval, Quantity, Rate, Size, TimeOrZero
from l4slab.spec.wording import Problem, Table, checked_by, show
from l4slab.units import SIZE, TIME

_LARGEST_FRAME = 9014  # of jumbo frames

TcpEcn = Literal["accecn", "classic", "sce", "off"]

# Codepoints by name: RFC 2474, 2597, 3246, 5865, 8622 and 9956.
DSCP = (
    {f"cs{n}": n << 3 for n in range(8)}
    | {f"af{n}{drop}": (n << 3) + (drop << 1) for n in range(1, 5) for drop in range(1, 4)}
    | {"df": 0, "le": 1, "va": 44, "nqb": 45, "ef": 46}
)


def _dscp(value: object) -> int:
    if isinstance(value, str) and value.lower() in DSCP:
        return DSCP[value.lower()]
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if 0 <= value < 64:
            return value
        raise ValueError('has more than the six bits of a DSCP; write 0 to 63, or a name such as "ef"')
    if isinstance(value, str):
        raise ValueError(f"is no DSCP; {suggest(value.lower(), DSCP)}")
    raise ValueError('is no DSCP; write a number from 0 to 63, or a name such as "ef"')


def _option_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("is not an option value; write text or a number")


Dscp = Annotated[int | str, BeforeValidator(checked_by(_dscp)), PlainSerializer(_dscp)]
Option = Annotated[str | int | float | bool, BeforeValidator(checked_by(_option_text)), PlainSerializer(_option_text)]


class AnyFlow(Table):
    """What every flow has."""

    name: str = Field(examples=['"l4s"'])
    kind: str = "tcp"
    count: int = Field(default=1, ge=0, le=1_000_000, examples=["1"])
    start: TimeOrZero = Field(default="0s", serialization_alias="start_ns")
    stop: Duration | None = Field(default=None, serialization_alias="stop_ns")
    dscp: Dscp = Field(default=0, examples=['"ef"'])
    path: list[str] | None = Field(default=None, examples=['["bottleneck"]'])

    def mistake(self, raw: Mapping[str, Any]) -> tuple[str, str] | None:
        if self.stop is None or TIME.parse(self.stop) > TIME.parse(self.start):
            return None
        return "stop", f"= {show(raw['stop'])} is not after start = {show(raw.get('start', '0s'))}; stop it later"

    def described(self) -> dict[str, Any]:
        """The flow as engines take it; without `path`, all links. Raises Problem."""
        return self.model_dump(by_alias=True)

    def written(self) -> dict[str, Any]:
        written = super().written()
        return written if self.kind == "tcp" else {"name": self.name, "kind": self.kind} | written


class Tcp(AnyFlow):
    """What connections are like."""

    cc: str = Field(examples=['"cubic"'])
    rtt: Duration = Field(examples=['"10ms"'], serialization_alias="rtt_ns")
    ecn: TcpEcn | None = None
    peer_ecn: TcpEcn | None = None
    reverse_path: list[str] = Field(default=[], examples=['["bottleneck"]'])
    pace: Rate | None = Field(default=None, serialization_alias="pace_bps")
    receive_window: Size | None = Field(default=None, examples=['"3MB"'], serialization_alias="receive_window_bytes")
    options: Mapping[str, Option] = Field(default={}, examples=['{ version = "0.7" }'])

    def described(self) -> dict[str, Any]:
        """With the options in their canonical form."""
        place = ("flow", self.name)
        valid = [controller["name"] for controller in _core.controllers()]
        if self.cc not in valid:
            raise Problem(place, "cc", f"= {show(self.cc)} is not a congestion control; {suggest(self.cc, valid)}")
        try:
            written = {name: _option_text(value) for name, value in self.options.items()}
            options = _core.canonical_controller(self.cc, written)
        except ValueError as error:
            raise Problem(place, "options", f"= {show(self.options)}: {error}") from None
        return super().described() | {"options": options}


class Flow(Tcp):
    """`count` TCP connections."""

    kind: Literal["tcp"] = "tcp"
    bytes: Size | None = None


class WebFlow(Tcp):
    """`count` sources of requests, each over a connection of its own; sizes have a bounded Pareto distribution."""

    kind: Literal["web"] = "web"
    requests: Interval = Field(examples=['"10/s"'], serialization_alias="interval_ns")
    size_alpha: float = Field(default=0.9, gt=0, le=100, examples=["0.9"])
    size_min: Size = Field(default="1kB", serialization_alias="size_min_bytes")
    size_max: Size = Field(default="1MB", serialization_alias="size_max_bytes")

    def mistake(self, raw: Mapping[str, Any]) -> tuple[str, str] | None:
        if SIZE.parse(self.size_min) <= SIZE.parse(self.size_max):
            return super().mistake(raw)
        least, most = (show(raw.get(key, type(self).model_fields[key].default)) for key in ("size_min", "size_max"))
        return "size_min", f"= {least} is above size_max = {most}; make it smaller"


class VideoFlow(Tcp):
    """`count` connections with a frame at a time, and a viewer's messages (`controls`) upstream."""

    kind: Literal["video"] = "video"
    rate: Rate = Field(examples=['"4Mbit"'], serialization_alias="rate_bps")
    frames: Interval = Field(default="60/s", serialization_alias="interval_ns")
    frame_spread: float = Field(default=0.15, ge=0, le=10, examples=["0.15"], serialization_alias="spread")
    controls: Interval | None = Field(default=None, serialization_alias="control_interval_ns")


class CbrFlow(AnyFlow):
    """`count` unresponsive UDP sources; `packet` is the Ethernet frame, `batch` frames leave back to back."""

    kind: Literal["cbr"] = "cbr"
    rate: Rate = Field(examples=['"50Mbit"'], serialization_alias="rate_bps")
    rtt: TimeOrZero = Field(examples=['"10ms"'], serialization_alias="rtt_ns")
    ecn: Literal["not-ect", "ect0", "ect1"] = "not-ect"
    packet: Annotated[str, Quantity(SIZE, least=64, most=9014)] = Field(
        default="1514B", serialization_alias="packet_bytes"
    )
    batch: int = Field(default=1, ge=1, le=65_536, examples=["1"])


class UdpPragueFlow(AnyFlow):
    """`count` bulk senders of UDP Prague; `packet` is the largest Ethernet frame, `pace` a cap on the rate."""

    kind: Literal["udp-prague"] = "udp-prague"
    rtt: Duration = Field(examples=['"10ms"'], serialization_alias="rtt_ns")
    packet: Annotated[str, Quantity(SIZE, least=192, most=9014)] = Field(
        default="1442B", serialization_alias="packet_bytes"
    )
    reverse_path: list[str] = Field(default=[], examples=['["bottleneck"]'])
    pace: Rate | None = Field(default=None, serialization_alias="pace_bps")


# The registry: a kind of traffic is a model and its line here.
KINDS: dict[str, type[AnyFlow]] = {
    model.model_fields["kind"].default: model for model in (Flow, WebFlow, VideoFlow, CbrFlow, UdpPragueFlow)
}


def flow_model(table: Mapping[str, Any], name: str) -> type[AnyFlow]:
    """The model for a flow's `kind`. Raises Problem."""
    kind = table.get("kind", "tcp")
    if not isinstance(kind, str) or kind not in KINDS:
        raise Problem(("flow", name), "kind", f"= {show(kind)} is not a kind of flow; {suggest(str(kind), KINDS)}")
    return KINDS[kind]
