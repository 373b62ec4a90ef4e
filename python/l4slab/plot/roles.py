"""The look of senders in every figure and in the interactive view: a hue, a line and a marker per role.

A role describes a sender's behaviour towards others: scalable (L4S), classic, BBR, SCE, unresponsive. It follows from
the congestion control, or from a name that stands for one ("L queue", "5 Not-ECT CUBIC"), never from the order of
appearance. The hues are Okabe and Ito's. Senders of one role differ in shade, dash, marker and hatching, so that grey
prints can be read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from l4slab import _core

Dash = tuple[float, ...]  # on, off, on, off, … in widths of the line; empty: solid

SOLID: Dash = ()
DOTS: Dash = (1.2, 0.8)
INK = "#000000"  # the colour of text: on a page it follows the text there (`style.to_page`)


class OnThePage(TypedDict):
    """Colour and dashes (pixels) of a line that the page's script draws; None is the colour of the page's text."""

    colour: str | None
    dash: list[float]


@dataclass(frozen=True)
class Look:
    """How a sender or queue is drawn."""

    colour: str
    dash: Dash
    marker: str
    hatch: str = ""

    @property
    def line(self) -> dict[str, Any]:
        """Settings of matplotlib for a line."""
        return {"color": self.colour, "linestyle": (0, self.dash) if self.dash else "-"}

    @property
    def on_the_page(self) -> OnThePage:
        """Colour and dashes (pixels) of a line that the page's script draws; None is the colour of the page's text."""
        colour = None if self.colour == INK else self.colour
        return {"colour": colour, "dash": [round(1.5 * part, 1) for part in self.dash]}

    @property
    def bar(self) -> dict[str, Any]:
        """Settings of matplotlib for a bar; the edges and hatches have the colour of the page."""
        return {"facecolor": self.colour, "hatch": self.hatch, "edgecolor": "#ffffff", "linewidth": 0.4}


# The first look of a role is its own, the others are for more of its kind in one figure.
ROLES: dict[str, tuple[Look, ...]] = {
    "scalable": (
        Look("#0072B2", SOLID, "o"),
        Look("#3A9AD9", (9, 1.5), "h", "...."),
        Look("#5B5FC7", (3, 1), "8", "oooo"),
    ),
    "classic": (
        Look("#D55E00", (5, 1.2), "s", "////"),
        Look("#E69F00", (2.2, 1), "p", "xxxx"),
        Look("#A84A00", (7, 1.2, 1.2, 1.2), "X", "\\\\\\\\"),
    ),
    "bbr": (
        Look("#009E73", (6, 1.2, 1.2, 1.2), "^", "++++"),
        Look("#4CC29C", (4, 1, 1, 1, 1, 1), "<", "||||"),
        Look("#00735A", (1.5, 1.5), ">", "----"),
    ),
    "sce": (
        Look("#CC79A7", DOTS, "v", "oooo"),
        Look("#A4508B", (3, 1, 1, 1), "*", "...."),
        Look("#E3A9C8", (6, 2), "1", "xx"),
    ),
    "unresponsive": (
        Look("#9A9A9A", (10, 1.2, 1.2, 1.2, 1.2, 1.2), "P"),
        Look("#6B6B6B", (4, 2), "x", "////"),
        Look("#C2C2C2", (1, 1.6), "+", "...."),
    ),
    # Names that stand for no sender: a whole queue, a probability, a case of one's own.
    "other": (
        Look(INK, SOLID, "X"),
        Look("#009E73", (6, 1.2, 1.2, 1.2), "^", "////"),
        Look("#CC79A7", DOTS, "v", "...."),
        Look("#E69F00", (5, 1.2), "<", "xxxx"),
        Look("#56B4E9", (9, 1.5), "o", "\\\\\\\\"),
    ),
}

# Role, and the place in it that a controller has wherever it is drawn.
CONTROLLERS: dict[str, tuple[str, int]] = {
    entry["name"]: (entry["role"] or "unresponsive", entry["look"])
    for entry in (*_core.controllers(), *_core.media_controllers())
}

# Words in the names of flows, queues and classes; the first that is found decides.
_NAMES: tuple[tuple[str, tuple[str, int]], ...] = (
    (r"(?i)reno.sce", ("sce", 1)),
    (r"(?i)dctcp.sce", ("sce", 2)),
    (r"(?i)\bsce\b", ("sce", 0)),
    (r"(?i)udp.prague", ("scalable", 2)),
    (r"(?i)\budp\b|unresponsive|\bcbr\b|\bping\b", ("unresponsive", 0)),
    (r"(?i)\bbbr3", ("bbr", 1)),
    (r"(?i)\bbbr", ("bbr", 0)),
    (r"(?i)dctcp|scream", ("scalable", 1)),
    (r"(?i)prague|l4s|scalable|\bL queue\b", ("scalable", 0)),
    (r"(?i)(?<!not-)\bec[nt] cubic|cubic (with|and) ecn", ("classic", 1)),
    (r"(?i)reno", ("classic", 2)),
    (r"(?i)cubic|classic|not-ect|\bC queue\b", ("classic", 0)),
    (r"^L$", ("scalable", 0)),
    (r"^C$", ("classic", 0)),
)
_LAW = re.compile(r"\b(law|ideal)\b", re.IGNORECASE)


def place_of(name: str, controller: str | None = None) -> tuple[str, int]:
    """Role, and the place in it, of a sender with this controller, or of what has this name."""
    if controller in CONTROLLERS:
        return CONTROLLERS[controller]
    for pattern, place in _NAMES:
        if re.search(pattern, name):
            return place
    return "other", 0


# Names alone, or each flow with its congestion control (the column `cc`) or with its look.
Senders = Sequence[str] | Mapping[str, str | None] | Mapping[str, Look]


def looks(names: Senders) -> dict[str, Look]:
    """How each name is drawn in a figure with all of them.

    A flow without a congestion control is unresponsive unless its name says more. Several of one place get further
    looks of their role, in their order. A name with the word "law" or "ideal" is dotted and has no marker. Looks that
    the mapping gives stay.
    """
    places: dict[str, tuple[str, int]] = {}
    given = dict(names) if isinstance(names, Mapping) else {}
    if given and all(isinstance(look, Look) for look in given.values()):
        return given  # type: ignore[return-value]
    for name in names:
        controller = given.get(name)
        role, number = place_of(name, controller)  # type: ignore[arg-type]
        if role == "other" and name in given and controller is None:
            role = "unresponsive"
        places[name] = role, number
    free = {role: _free([place for place in places.values() if place[0] == role]) for role in ROLES}
    found: dict[str, Look] = {}
    taken: set[tuple[str, int]] = set()
    for name, place in places.items():
        if _LAW.search(name):
            found[name] = replace(ROLES[place[0]][place[1]], dash=DOTS, marker="")
            continue
        if place in taken:
            place = place[0], next(free[place[0]])
        taken.add(place)
        found[name] = _look(*place)
    return found


def looks_of_flows(flows: Iterable[tuple[str, str | None]]) -> dict[tuple[str, str | None], Look]:
    """How each flow is drawn in every figure of the same results, from all its pairs of name and congestion control.

    A flow has one look as long as it has one controller. With another controller it has a look of that one's role.
    """
    seen: Counter[str] = Counter()
    names: dict[tuple[str, str | None], str] = {}
    for flow, cc in dict.fromkeys(flows):
        # The same name again gets an end that no pattern of names sees.
        names[flow, cc] = flow + "\0" * seen[flow]
        seen[flow] += 1
    found = looks({name: cc for (_, cc), name in names.items()})
    return {pair: found[name] for pair, name in names.items()}


def _free(wanted: Iterable[tuple[str, int]]) -> Iterator[int]:
    """Places of a role that no controller of the figure has for itself, without end."""
    own = {number for _, number in wanted}
    return (number for number in range(10**6) if number not in own)


def _look(role: str, number: int) -> Look:
    """The look of a place; beyond those of the role, shades come again with the dashes and markers of the next."""
    of_role = ROLES[role]
    turn, place = divmod(number, len(of_role))
    other = of_role[(place + turn) % len(of_role)]
    return Look(of_role[place].colour, other.dash, other.marker, other.hatch)
