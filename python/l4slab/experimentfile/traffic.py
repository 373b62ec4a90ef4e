"""Kinds of traffic: a model for each `kind` of a flow, which also is what a run's description says about it.

A field's `serialization_alias` is its name in the description.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypedDict, cast

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from l4slab import _core, stacks
from l4slab.base import run
from l4slab.base.errors import suggest
from l4slab.base.units import RATE, SIZE, TIME
from l4slab.base.values import Keys
from l4slab.experimentfile import bounds
from l4slab.experimentfile.outside import Outside
from l4slab.experimentfile.tables import Duration, Interval, Quantity, Rate, Size, TimeOrZero
from l4slab.experimentfile.traces import is_beside
from l4slab.experimentfile.wording import Problem, Table, checked_by, show

# In a program's commands: the addresses of its server and client, the number of the client, a folder that is kept.
ADDRESSES = (SERVER, SERVER6, CLIENT, CLIENT6) = ("{server}", "{server6}", "{client}", "{client6}")
COMMAND_NAMES = (NUMBER, OUT, *_) = ("{number}", "{out}", *ADDRESSES)
COMMAND_KEYS = (".server", ".client")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

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


# In a description only where they are set.
_SELDOM = (
    "frames_total",
    "player_ns",
    "rate_bps",
    "block_bytes",
    "rto_min_ns",
    "mtu_bytes",
    "env",
    "stack",
    "station",
    "gso",
    "gro_ns",
)
# Of flows that events begin, the name of each key in a run's description.
_OF_EVENTS = {
    "events": "interval_ns",
    "event_flows": "flows",
    "event_flows_max": "most",
    "event_within": "within_ns",
    "life": "life_ns",
}
# Later than any run ends.
_FOR_EVER_NS = 2**62
# What a stack says instead of the file.
_OF_COMMANDS = ("server", "client", "sender")


class LookedUp(TypedDict, total=False):
    """The parts of a flow's description that depend on other files and on the core."""

    cc: str | None
    options: dict[str, str]
    transport: dict[str, str]
    rate_min_bps: int | None
    rate_start_bps: int | None
    files: dict[str, str]
    server: str
    client: str
    sender: Literal["client", "server"]
    stack: run.Stack
    env: dict[str, str]
    stop_ns: int


class AnyFlow(Table):
    """The keys of every flow. `summary`: the kind, in a line of `l4slab list`."""

    summary: ClassVar[str]

    name: str = Field(examples=['"l4s"'])
    kind: str = "tcp"
    count: int = Field(default=1, ge=0, le=bounds.COUNT, examples=["1"])
    start: TimeOrZero = Field(default="0s", serialization_alias="start_ns")
    stop: Duration | None = Field(default=None, serialization_alias="stop_ns")
    dscp: Dscp = Field(default=0, examples=['"ef"'])
    host: str | None = Field(default=None, min_length=1, examples=['"home"'])
    peer_host: str | None = Field(default=None, min_length=1, examples=['"server"'])
    path: list[str] | None = Field(default=None, examples=['["bottleneck"]'])
    station: str | None = Field(default=None, min_length=1, examples=['"phone"'])
    on: Duration | None = Field(default=None, examples=['"2s"'])
    off: Duration | None = Field(default=None, examples=['"1s"'])
    delay_trace: str | None = Field(default=None, examples=['"leo.csv"'])
    trace_repeat: bool = Field(default=True, examples=["false"])

    def mistake(self, raw: Keys) -> tuple[str, str] | None:
        if self.host is not None and self.host == self.peer_host:
            return "peer_host", f"= {show(self.peer_host)} is the host that sends; name another one"
        if (self.on is None) != (self.off is None):
            key, other = ("on", "off") if self.off is None else ("off", "on")
            return key, f"= {show(raw[key])} stands without {other}; say how long both are"
        if self.delay_trace is None and "trace_repeat" in raw:
            return "trace_repeat", f"= {show(raw['trace_repeat'])} is of a delay_trace; remove it"
        if self.stop is None or TIME.parse(self.stop) > TIME.parse(self.start):
            return None
        return "stop", f"= {show(raw['stop'])} is not after start = {show(raw.get('start', '0s'))}; stop it later"

    def described(self, outside: Outside) -> run.Flow:
        """The flow as engines take it; without `path`, all links, and without what its file adds to the delay and the
        numbers of its hosts. `outside` gets what it names. Raises Problem.
        """
        elsewhere = {"on", "off", "delay_trace", "trace_repeat", "host", "peer_host", "transport", *_OF_EVENTS}
        found = self.model_dump(by_alias=True, exclude=elsewhere)
        found = {key: value for key, value in found.items() if value not in (None, {}) or key not in _SELDOM}
        # The serialization aliases of a kind's model are the keys of the core's type of this kind.
        return cast(run.Flow, {**found, **self.looked_up(outside)})

    def looked_up(self, outside: Outside) -> LookedUp:
        """The parts of a flow's description that do not follow from its table alone. Raises Problem."""
        del outside
        return {}

    def written(self) -> dict[str, object]:
        written = super().written()
        return written if self.kind == "tcp" else {"name": self.name, "kind": self.kind} | written


class Tcp(AnyFlow):
    """The keys of flows that are TCP connections."""

    cc: str = Field(examples=['"cubic"'])
    rtt: Duration = Field(examples=['"10ms"'], serialization_alias="rtt_ns")
    ecn: TcpEcn | None = None
    peer_ecn: TcpEcn | None = None
    reverse_path: list[str] = Field(default=[], examples=['["bottleneck"]'])
    pace: Rate | None = Field(default=None, serialization_alias="pace_bps")
    receive_window: Size | None = Field(default=None, examples=['"3MB"'], serialization_alias="receive_window_bytes")
    rto_min: Annotated[str, Quantity(TIME, least=1_000_000, most=10**10)] | None = Field(
        default=None, examples=['"50ms"'], serialization_alias="rto_min_ns"
    )
    mtu: Annotated[str, Quantity(SIZE, least=68, most=9000)] | None = Field(
        default=None, examples=['"1500B"'], serialization_alias="mtu_bytes"
    )
    options: Mapping[str, Option] = Field(default={}, examples=['{ version = "0.7" }'])
    transport: Mapping[str, Option] = Field(default={}, examples=["{ initial_window = 20 }"])

    def looked_up(self, outside: Outside) -> LookedUp:
        """The options in their canonical form, unless somebody else than the core knows them; of `transport`, what
        differs from Linux.
        """
        place = ("flow", self.name)
        found = self._controlled(place, outside)
        try:
            rules = _core.canonical_transport({name: _option_text(value) for name, value in self.transport.items()})
        except ValueError as error:
            raise Problem(place, "transport", f"= {show(self.transport)}: {error}") from None
        return found | LookedUp(transport=dict(rules)) if rules else found

    def _controlled(self, place: tuple[str, str], outside: Outside) -> LookedUp:
        valid = [controller["name"] for controller in _core.controllers()]
        written = {name: _option_text(value) for name, value in self.options.items()}
        try:
            code = outside.find("controller", self.cc, place, "cc")
        except ValueError as error:
            raise Problem(place, "cc", f"= {show(self.cc)}: {error}") from None
        if code is not None:
            return {"cc": code, "options": written}
        if self.cc not in valid:
            if self.cc in (one["name"] for one in _core.media_controllers()):
                text = f'= {show(self.cc)} is a congestion control for media; write kind = "media" in its [[flow]]'
            else:
                text = f"= {show(self.cc)} is not a congestion control; {suggest(self.cc, valid)}"
            unknown = Problem(place, "cc", text)
            if not outside.note("controller", self.cc, unknown):
                raise unknown
            # A kernel knows the options of its modules.
            return {"options": written}
        try:
            options = _core.canonical_controller(self.cc, written)
        except ValueError as error:
            raise Problem(place, "options", f"= {show(self.options)}: {error}") from None
        return {"options": options}


class Flow(Tcp):
    """`count` TCP connections."""

    summary: ClassVar[str] = "TCP connections that send as much as they can, or a number of bytes"

    kind: Literal["tcp"] = "tcp"
    bytes: Size | None = None
    app_rate: Rate | None = Field(
        default=None, serialization_alias="rate_bps", description="What the application writes at most"
    )
    app_block: Size | None = Field(
        default=None,
        examples=['"128kB"'],
        serialization_alias="block_bytes",
        description="What the application writes at once",
    )
    gso: Annotated[bool | None, AfterValidator(lambda is_on: is_on or None)] = Field(default=None, examples=["true"])
    gro: Annotated[str, Quantity(TIME, least=0, most=10**8)] | None = Field(
        default=None, examples=['"50us"'], serialization_alias="gro_ns"
    )
    events: Interval | None = Field(default=None, examples=['"1/s"'])
    event_flows: float = Field(default=1, gt=0, le=1000, examples=["5"])
    event_flows_max: int = Field(default=1000, ge=1, le=1000, examples=["20"])
    event_within: TimeOrZero = Field(default="0s", examples=['"500ms"'])
    life: Duration | None = Field(default=None, examples=['"5s"'])

    def described(self, outside: Outside) -> run.Flow:
        found = super().described(outside)
        if self.events is not None:
            dumped = self.model_dump(include=set(_OF_EVENTS))
            found["count"] = 0
            # As in `AnyFlow.described`: these are the keys of the core's type.
            found["events"] = cast(run.Events, {name: dumped[key] for key, name in _OF_EVENTS.items()})
        return found

    def mistake(self, raw: Keys) -> tuple[str, str] | None:
        if (wrong := self._mistake_of_events(raw)) is not None:
            return wrong
        if self.bytes is not None and self.app_rate is not None:
            return "app_rate", f"= {show(raw['app_rate'])} stands beside bytes; remove one of them"
        if self.app_block is not None and self.app_rate is None:
            return "app_block", f"= {show(raw['app_block'])} needs app_rate, the rate at which blocks are written"
        return super().mistake(raw)

    def _mistake_of_events(self, raw: Keys) -> tuple[str, str] | None:
        if self.events is None:
            key = next((key for key in _OF_EVENTS if key in raw), None)
            return (
                None
                if key is None
                else (key, f'= {show(raw[key])} is of events, which begin flows; add events = "1/s"')
            )
        if self.life is None:
            text = 'begin flows that live for a fixed time; add life, such as life = "5s"'
            return "events", f"= {show(raw['events'])} {text}"
        key = next((key for key in ("count", "on", "off") if key in raw), None)
        return key and (key, f"= {show(raw[key])} stands beside events, which begin the flows; remove one of them")


class WebFlow(Tcp):
    """`count` sources of requests, each over a connection of its own; sizes have a bounded Pareto distribution."""

    summary: ClassVar[str] = "requests, each over its own connection, with sizes from a bounded Pareto distribution"

    kind: Literal["web"] = "web"
    requests: Interval = Field(examples=['"10/s"'], serialization_alias="interval_ns")
    size_alpha: float = Field(default=0.9, gt=0, le=100, examples=["0.9"])
    size_min: Size = Field(default="1kB", serialization_alias="size_min_bytes")
    size_max: Size = Field(default="1MB", serialization_alias="size_max_bytes")

    def mistake(self, raw: Keys) -> tuple[str, str] | None:
        if SIZE.parse(self.size_min) <= SIZE.parse(self.size_max):
            return super().mistake(raw)
        least, most = (show(raw.get(key, type(self).model_fields[key].default)) for key in ("size_min", "size_max"))
        return "size_min", f"= {least} is above size_max = {most}; make it smaller"


class VideoFlow(Tcp):
    """`count` connections with a frame at a time, and a viewer's messages (`controls`) upstream."""

    summary: ClassVar[str] = "connections that send frames, optionally with a viewer's messages upstream"

    kind: Literal["video"] = "video"
    rate: Rate = Field(examples=['"4Mbit"'], serialization_alias="rate_bps")
    frames: Interval = Field(default="60/s", serialization_alias="interval_ns")
    frame_spread: float = Field(default=0.15, ge=0, le=10, examples=["0.15"], serialization_alias="spread")
    controls: Interval | None = Field(default=None, serialization_alias="control_interval_ns")
    frames_total: int | None = Field(default=None, ge=1, le=10**9, examples=["30"])
    player: TimeOrZero | None = Field(default=None, examples=['"5s"'], serialization_alias="player_ns")


class PageFlow(Tcp):
    """`count` users who open pages: objects in two waves from 12 origins, over an HTTP/2 connection to each."""

    summary: ClassVar[str] = "web pages: 71 objects from 12 origins in two waves, over HTTP/2 connections"

    kind: Literal["page"] = "page"
    pages: Interval = Field(default="4/min", serialization_alias="interval_ns")
    scale: float = Field(default=1, ge=0.001, le=1000, examples=["1"])


class ResponsivenessFlow(Tcp):
    """`count` tests of responsiveness: load connections and probes until goodput and round trips are stable."""

    summary: ClassVar[str] = "tests of responsiveness: round trips per minute under load (RPM)"

    kind: Literal["responsiveness"] = "responsiveness"
    interval: Duration = Field(default="5s", serialization_alias="interval_ns")
    probes: Interval = Field(default="100/s", serialization_alias="probe_interval_ns")
    connections: int = Field(default=16, ge=1, le=64, examples=["16"])
    notsent: Annotated[str, Quantity(SIZE, most=2**30)] = Field(
        default="16kB", examples=['"128kB"'], serialization_alias="notsent_bytes"
    )
    idle: TimeOrZero = Field(default="2s", serialization_alias="idle_ns")


class CbrFlow(AnyFlow):
    """`count` unresponsive UDP sources; `packet` is the Ethernet frame, `batch` frames leave back to back."""

    summary: ClassVar[str] = "unresponsive UDP at a constant rate, with any ECN codepoint"

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

    summary: ClassVar[str] = "bulk senders of UDP Prague"

    kind: Literal["udp-prague"] = "udp-prague"
    rtt: Duration = Field(examples=['"10ms"'], serialization_alias="rtt_ns")
    packet: Annotated[str, Quantity(SIZE, least=192, most=9014)] = Field(
        default="1442B", serialization_alias="packet_bytes"
    )
    reverse_path: list[str] = Field(default=[], examples=['["bottleneck"]'])
    pace: Rate | None = Field(default=None, serialization_alias="pace_bps")


class MediaFlow(AnyFlow):
    """`count` senders of frames over RTP; `packet` is the Ethernet frame of a full packet."""

    summary: ClassVar[str] = "calls, games and remote desktops: frames over RTP"

    kind: Literal["media"] = "media"
    cc: str = Field(examples=['"none"'])
    rtt: Duration = Field(examples=['"30ms"'], serialization_alias="rtt_ns")
    rate_max: Rate = Field(examples=['"2500kbit"'], serialization_alias="rate_bps")
    rate_min: Rate = Field(default="150kbit", serialization_alias="rate_min_bps")
    rate_start: Rate = Field(default="1Mbit", serialization_alias="rate_start_bps")
    setup: TimeOrZero | None = Field(default=None, examples=['"100ms"'], serialization_alias="setup_ns")
    frames: Interval = Field(default="30/s", serialization_alias="interval_ns")
    encoder: Literal["even", "uniform", "lognormal", "rfc8593", "sharing", "vp8"] | None = None
    frame_spread: float = Field(default=0.15, ge=0, le=10, examples=["0.15"], serialization_alias="spread")
    reaction: TimeOrZero | None = Field(default=None, examples=['"100ms"'], serialization_alias="reaction_ns")
    keyframe_interval: Duration | None = Field(
        default=None, examples=['"2s"'], serialization_alias="keyframe_interval_ns"
    )
    keyframe_ratio: float = Field(default=5, ge=1, le=1000, examples=["5"])
    packet: Annotated[str, Quantity(SIZE, least=164, most=9014)] = Field(
        default="1264B", serialization_alias="packet_bytes"
    )
    ecn: Literal["not-ect", "ect0", "ect1"] | None = None
    feedback: Literal["ccfb", "twcc"] = "ccfb"
    feedback_interval: Duration | None = Field(
        default=None, examples=['"100ms"'], serialization_alias="feedback_interval_ns"
    )
    repair: Literal["none", "nack", "nack+fec"] | None = None
    deadline: Duration = Field(default="100ms", serialization_alias="deadline_ns")
    audio: Rate | None = Field(default=None, examples=['"20kbit"'], serialization_alias="audio_bps")
    reverse_path: list[str] = Field(default=[], examples=['["bottleneck"]'])
    options: Mapping[str, Option] = Field(default={}, examples=['{ pacing = "1.5" }'])

    def mistake(self, raw: Keys) -> tuple[str, str] | None:
        least, first, most = (RATE.parse(rate) for rate in (self.rate_min, self.rate_start, self.rate_max))
        for key, value in (("rate_min", least), ("rate_start", first)):
            if key in raw and value > most:
                return key, f"= {show(raw[key])} is above rate_max = {show(raw['rate_max'])}; make it smaller"
        if "rate_start" in raw and first < min(least, most):
            text = f"is below rate_min = {show(self.rate_min)}; make it larger, or rate_min smaller"
            return "rate_start", f"= {show(raw['rate_start'])} {text}"
        return super().mistake(raw)

    def looked_up(self, outside: Outside) -> LookedUp:
        """The options in their canonical form, and rates only of what adapts, within those of the encoder."""
        place = ("flow", self.name)
        valid = [controller["name"] for controller in _core.media_controllers()]
        options = {name: _option_text(value) for name, value in self.options.items()}
        try:
            code = outside.find("media", self.cc, place, "cc")
        except ValueError as error:
            raise Problem(place, "cc", f"= {show(self.cc)}: {error}") from None
        if code is None and self.cc not in valid:
            is_of_tcp = self.cc in (one["name"] for one in _core.controllers())
            remedy = f"it is one of TCP, and valid are {', '.join(valid)}" if is_of_tcp else suggest(self.cc, valid)
            raise Problem(place, "cc", f"= {show(self.cc)} is not a congestion control for media; {remedy}")
        if code is None:
            try:
                options = _core.canonical_media(self.cc, options)
            except ValueError as error:
                raise Problem(place, "options", f"= {show(self.options)}: {error}") from None
        least, first, most = (RATE.parse(rate) for rate in (self.rate_min, self.rate_start, self.rate_max))
        rates = (None, None) if self.cc == "none" else (min(least, most), min(first, most))
        found: LookedUp = {"options": options, "rate_min_bps": rates[0], "rate_start_bps": rates[1]}
        return found if code is None else {**found, "cc": code}


class ProgramFlow(AnyFlow):
    """`count` processes `client` and their `server` on the engine linux: programs of this machine, or a stack."""

    summary: ClassVar[str] = "programs of this machine, client and server, on the engine linux"

    kind: Literal["program"] = "program"
    server: str = Field(default="", examples=['"iperf3 -s"'])
    client: str = Field(default="", examples=['"iperf3 -c {server} -t 30 -J"'])
    stack: str | None = Field(default=None, examples=['"quinn"'], exclude=True)
    sender: Literal["client", "server"] = "client"
    rtt: Duration = Field(examples=['"10ms"'], serialization_alias="rtt_ns")
    cc: str | None = Field(default=None, examples=['"cubic"'])
    bytes: Size | None = Field(default=None, exclude=True)
    ecn: Literal["accecn", "classic", "off"] | None = None
    reverse_path: list[str] = Field(default=[], examples=['["bottleneck"]'])
    env: Mapping[str, Option] = Field(default={}, examples=['{ QLOGDIR = "{out}" }'])

    def mistake(self, raw: Keys) -> tuple[str, str] | None:
        if self.dscp:
            return "dscp", f"= {show(raw['dscp'])} is the program's affair; leave it out, and let the program set it"
        for name in self.env:
            if not _VARIABLE.fullmatch(name):
                return "env", f"has {show(name)}, which is no name of a variable; use letters, digits and _"
        return (self._mistake_of_commands(raw) if self.stack is None else self._mistake_of_a_stack(raw)) or (
            super().mistake(raw)
        )

    def _mistake_of_commands(self, raw: Keys) -> tuple[str, str] | None:
        for key in ("server", "client"):
            if key not in raw:
                return key, f'is missing; write the command of the {key}, or stack = "quic-go" instead of both'
            try:
                words = shlex.split(getattr(self, key))
            except ValueError as error:
                return key, f"= {show(raw[key])} cannot be split into words ({error}); quote it as for a shell"
            if not words:
                return key, f"= {show(raw[key])} names no program; write what you would type"
        if self.bytes is not None:
            return "bytes", f"= {show(raw['bytes'])} is of a stack; give the program its size in the client's command"
        if SERVER not in self.client and SERVER6 not in self.client:
            remedy = f"write {SERVER}, or {SERVER6} for IPv6, which stands for its address, where that belongs"
            return "client", f"= {show(raw['client'])} does not say where its server is; {remedy}"
        return None

    def _mistake_of_a_stack(self, raw: Keys) -> tuple[str, str] | None:
        for key in _OF_COMMANDS:
            if key in raw:
                return key, f"= {show(raw[key])} is what stack = {show(self.stack)} says itself; leave one of them out"
        return None

    def looked_up(self, outside: Outside) -> LookedUp:
        """The contents of the programs and of the files that commands and variables name, as far as they are there; of
        a stack, its commands.
        """
        values = [_option_text(value) for value in self.env.values()]
        if self.stack is not None:
            return {**self._of_the_stack(self.stack, outside.folder), "files": contents_of([], values)}
        return {"files": contents_of([self.server, self.client], values)}

    def _of_the_stack(self, name: str, folder: Path) -> LookedUp:
        place = ("flow", self.name)
        if "/" in name and not (is_beside(name) or Path(name).is_absolute()):
            text = f"= {show(name)} is not beside the experiment file, with which results keep it; give a whole path"
            raise Problem(place, "stack", text)
        try:
            stack = stacks.find(name, folder)
        except ValueError as error:
            raise Problem(place, "stack", f"= {show(name)} {error}") from None
        recipe = stack.recipe
        if recipe.kind != self.kind:
            text = f'= {show(name)} carries flows of another kind; write kind = "{recipe.kind}" with cc = '
            text += f'"{recipe.controllers[0]}" and no stack'
            raise Problem(place, "stack", text)
        cc = self.cc or recipe.controllers[0]
        if cc not in recipe.controllers:
            text = f"= {show(self.cc)} is not a controller of {stack.name}; {suggest(cc, recipe.controllers)}"
            raise Problem(place, "cc", text)
        if self.ecn is not None and not recipe.kernel:
            raise Problem(
                place, "ecn", f"= {show(self.ecn)} is of TCP, and {stack.name} decides for itself; leave it out"
            )
        if self.bytes is not None and stacks.BYTES not in recipe.client:
            text = f"= {show(self.bytes)} cannot be told to {stack.name}, which sends until it is ended; leave it out"
            raise Problem(place, "bytes", text)
        size = SIZE.parse(self.bytes) if self.bytes is not None else stacks.FOR_EVER
        words = {stacks.CC: cc, stacks.BYTES: str(size)}
        found: LookedUp = {
            "server": stacks.filled(recipe.server, words),
            "client": stacks.filled(recipe.client, words),
            "sender": recipe.sender,
            "stack": {"name": stack.name, "build": stack.id, "cc": cc},
            "cc": cc if recipe.kernel else None,
        }
        if env := {**recipe.env, **{name: _option_text(value) for name, value in self.env.items()}}:
            found["env"] = env
        if self.bytes is None and self.stop is None:
            found["stop_ns"] = _FOR_EVER_NS
        return found


class EndpointFlow(AnyFlow):
    """A flow whose two ends are in a test, which hands their packets over; `header` is added to each for its frame."""

    summary: ClassVar[str] = "ends in a test of a transport stack, for l4slab.Lab"

    kind: Literal["endpoint"] = "endpoint"
    rtt: Duration = Field(examples=['"10ms"'], serialization_alias="rtt_ns")
    mtu: Annotated[str, Quantity(SIZE, least=68, most=9000)] = Field(default="1500B", serialization_alias="mtu_bytes")
    header: Annotated[str, Quantity(SIZE, least=0, most=81)] = Field(default="42B", serialization_alias="header_bytes")
    reverse_path: list[str] = Field(default=[], examples=['["bottleneck"]'])

    def mistake(self, raw: Keys) -> tuple[str, str] | None:
        for key in ("count", "start", "stop", "on", "off"):
            if key in raw:
                what = "is not of an endpoint, which is one flow and sends whenever its program does"
                return key, f"= {show(raw[key])} {what}; leave it out"
        return super().mistake(raw)


def contents_of(commands: Iterable[str], values: Iterable[str] = ()) -> dict[str, str]:
    """16 hex digits of the contents, by the word that is a program or a file, or the value that is a file."""
    found = {}
    for words in [*map(shlex.split, commands), ["", *values]]:
        for number, word in enumerate(words):
            path = Path((shutil.which(word) if number == 0 else None) or word)
            with suppress(OSError):
                if path.is_file():
                    state = path.stat()
                    found[word] = _contents_of(path, state.st_size, state.st_mtime_ns)
    return found


@lru_cache
def _contents_of(path: Path, _size: int, _time_ns: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


# The registry: a kind of traffic is a model and its line here.
KINDS: dict[str, type[AnyFlow]] = {
    model.model_fields["kind"].default: model
    for model in (
        *(Flow, WebFlow, VideoFlow, PageFlow, ResponsivenessFlow),
        *(MediaFlow, CbrFlow, UdpPragueFlow, ProgramFlow),
        EndpointFlow,
    )
}


def flow_model(table: Keys, name: str) -> type[AnyFlow]:
    """The model for a flow's `kind`. Raises Problem."""
    kind = table.get("kind", "tcp")
    if not isinstance(kind, str) or kind not in KINDS:
        raise Problem(("flow", name), "kind", f"= {show(kind)} is not a kind of flow; {suggest(str(kind), KINDS)}")
    return KINDS[kind]
