"""A custom controller, of TCP or of media, or queue in Python: a class in a file next to the experiment file.

`cc = "mine.py:Mine"` in a flow, `qdisc = "mine.py:MyQueue limit 100"` in a link. `l4slab new` writes a template, and
docs/own.md is the reference. `include/l4slab.h` describes compiled ones.

The way of such a class into a run: `files` reads the file and gives it a reference with the hash of its content, which
is part of the run's description. `worker`, a separate process, loads it, reports its declaration (`declared`) and
computes the runs. `processes` are these workers as the package sees them. `wrong` makes a sentence of an exception.
Only a worker runs the code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from l4slab._core import Ack, Fate, Frame, Link, Lost, Packet, Rates, Report, Window

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Ack", "Codepoint", "Congestion", "Controller", "Ecn", "Fate", "Frame", "Link", "Lost", "MediaController", "Packet",
    "Queue", "Rates", "Report", "Window", "choice", "gauge", "number", "rate", "size", "switch", "time", "whole",
]  # fmt: skip

Congestion = Literal["ecn", "loss", "timeout", "tail-loss"]
Ecn = Literal["off", "classic", "accecn"]
Codepoint = Literal["not-ect", "ect0", "ect1"]


@dataclass(frozen=True)
class Parameter:
    """A parameter as declared by `number` and similar functions. The class's objects have its value instead."""

    kind: str
    default: str
    help: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gauge:
    """A gauge as declared by `gauge`."""

    help: str
    unit: str = ""


def number(default: float, help: str, least: float | None = None, most: float | None = None) -> float:  # noqa: A002
    """A parameter that is a number, from `least` to `most`; `help` is one line."""
    return cast("float", Parameter("number", str(default), help, least, most))


def whole(default: int, help: str, least: int | None = None, most: int | None = None) -> int:  # noqa: A002
    """A parameter that is a whole number of 32 bits, from `least` to `most`."""
    return cast("int", Parameter("whole", str(default), help, least, most))


def time(default: str, help: str) -> int:  # noqa: A002
    """A parameter that is a time ("15ms"), which objects have in nanoseconds."""
    return cast("int", Parameter("time", default, help))


def rate(default: str, help: str) -> int:  # noqa: A002
    """A parameter that is a rate ("50mbit"), which objects have in bit/s."""
    return cast("int", Parameter("rate", default, help))


def size(default: str, help: str) -> int:  # noqa: A002
    """A parameter that is a size ("64k"), which objects have in bytes."""
    return cast("int", Parameter("size", default, help))


def switch(default: bool, help: str) -> bool:  # noqa: A002
    """A parameter that is on or off."""
    return cast("bool", Parameter("switch", "on" if default else "off", help))


def choice(default: str, choices: Sequence[str], help: str) -> str:  # noqa: A002
    """A parameter that is one of some words."""
    return cast("str", Parameter("choice", default, help, choices=tuple(choices)))


def gauge(help: str, unit: str = "") -> float | None:  # noqa: A002
    """A column of the time series with the attribute's value at each sample. None, the initial value, is no value.
    `unit` is "" for numbers and probabilities; otherwise the attribute's name should end in it.
    """
    return cast("float | None", Gauge(help, unit))


class Controller:
    """A congestion control: an object per connection.

    Parameters and gauges are attributes of the class, made by `number`, `gauge` and similar functions. When `__init__`
    is called, without arguments, the object has the parameters' values, and a `seed` for random numbers. TCP does loss
    detection, recovery, pacing and ECN feedback. A controller gets what TCP learned, and changes the window.
    """

    # What to ask of the peer, if the experiment file does not say: nothing, ECT(0), or ECT(1) with AccECN feedback.
    ecn: ClassVar[Ecn] = "off"
    # Whether the window during recovery is the controller's, too. Else TCP brings it down to ssthresh.
    governs_window: ClassVar[bool] = False
    seed: int

    def on_ack(self, ack: Ack, window: Window) -> None:
        """Every ACK with new information. A controller that leaves recovery to TCP must not grow `window.cwnd` unless
        `ack.may_grow`.
        """
        raise NotImplementedError

    def on_congestion(self, why: Congestion, now_ns: int, window: Window) -> None:
        """Once per round trip with congestion: sets `window.ssthresh`, towards which TCP then brings the window."""
        raise NotImplementedError

    def on_recovered(self, window: Window) -> None:
        """Recovery or reduction is over."""

    def on_undo(self, prior_cwnd: int, window: Window) -> None:
        """The reduction was not justified; `prior_cwnd` was the window before it, and is again without this method."""

    def on_established(self, granted: bool, window: Window) -> None:
        """The handshake is over; `granted` says whether ECN was negotiated as requested."""

    def on_lost(self, lost: Lost) -> None:
        """TCP has detected the loss of a segment. Called before the `on_ack` of the ACK that revealed it. ACKs carry
        `rate_tx_in_flight`, `rate_lost` and `rate_delivered_ce` only if the class has this method.
        """


class MediaController:
    """A congestion control of media: an object per flow with `kind = "media"`.

    Parameters, gauges and `seed` are as those of a `Controller`. l4slab does packets, pacing, feedback and loss
    detection. A controller gets what a feedback report told, and sets the rates that the encoder and the pacer have.
    """

    # What packets carry, if the flow does not say.
    ecn: ClassVar[Codepoint] = "not-ect"
    # Time between reports, if the flow does not say; 0: after 16 packets and each frame, at the latest after 40 ms.
    report_interval_ns: ClassVar[int] = 0
    seed: int

    def on_report(self, report: Report, rates: Rates) -> None:
        """Every feedback report that tells something new: sets `rates.target_bps`, and what else it wants."""
        raise NotImplementedError

    def on_frame(self, frame: Frame, rates: Rates) -> None:
        """The encoder is about to make a frame, of the target rate that holds after this call."""


class Queue:
    """A queue discipline: an object per link.

    Parameters and gauges are as those of a `Controller`. When `__init__` is called, without arguments, the object has
    the parameters' values and `link_rate_bps`. Packets are the queue's from `enqueue` until it drops them or `dequeue`
    returns them; it may keep them in any order.
    """

    # Names of inner queues with rows of their own, such as ("L", "C"): `packet.band = "C"` in `enqueue`. By default a
    # packet counts in the first.
    bands: ClassVar[Sequence[str]] = ()
    link_rate_bps: int

    def enqueue(self, packet: Packet, link: Link) -> None:
        """Keeps the packet, or drops it: `link.drop(packet)`."""
        raise NotImplementedError

    def dequeue(self, link: Link) -> Packet | None:
        """The packet to send; None: there is none, or it is not its time yet, and then `next_timer` says when to ask
        again. May drop and mark on the way: `link.mark(packet)`.
        """
        raise NotImplementedError

    def next_timer(self) -> int | None:
        """When `on_timer` is to be called, in ns; None: never. `dequeue` is tried after it."""

    def on_timer(self, link: Link) -> None:
        """The time has come."""
