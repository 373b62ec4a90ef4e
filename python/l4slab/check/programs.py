"""A program of one's own in the suite: in the place of the congestion control, its server and its client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from l4slab.spec import keys_of
from l4slab.spec.traffic import ProgramFlow

# In the suite's files: `cc = "{controller}"`, and what `controller` is in [let].
NAME = "controller"
PLACEHOLDER = f"{{{NAME}}}"
_FOR_EVER = "1h"  # it is ended with the run


@dataclass(frozen=True)
class Program:
    """A server and a client, as a flow of `kind = "program"` has them; the client sends for as long as it is let."""

    server: str
    client: str
    sender: Literal["client", "server"] = "client"

    def name(self, cc: str | None) -> str:
        """What a card says that it is of."""
        return self.client + (f" with {cc}" if cc else "")

    def flow(self, cc: str | None) -> dict[str, Any]:
        """The keys of a flow, but for name and path."""
        keys = {"kind": "program", "server": self.server, "client": self.client, "sender": self.sender}
        return keys | {"stop": _FOR_EVER} | ({"cc": cc} if cc else {})


def put_in(document: dict[str, Any], program: Program, cc: str | None) -> str | None:
    """Put the program where an experiment of the suite has the congestion control; why that cannot be."""
    del document["let"][NAME]
    flows = {flow["name"]: flow for flow in document["flow"]}
    of_programs = {*keys_of(ProgramFlow)}
    for flow in flows.values():
        if flow.get("cc") == PLACEHOLDER:
            if (reason := _reason(flow, of_programs)) is not None:
                return reason
            del flow["cc"]
            flow |= program.flow(cc)
    for factor, levels in document.get("sweep", {}).items():
        for level in [level for level in levels if isinstance(level, dict)]:
            for key in [key for key, value in level.items() if value == PLACEHOLDER]:
                place = key.removesuffix(".cc")
                name = place.removeprefix("flow.")
                for flow in flows.values() if name == "*" else [flows[name]]:
                    if (reason := _reason(flow, of_programs)) is not None:
                        return reason
                del level[key]
                level |= {f"{place}.{one}": value for one, value in program.flow(cc).items()}
        # What only TCP of the engine's own has cannot be varied.
        kept = [level for level in levels if not _asks_for(level, flows, of_programs)]
        document["sweep"][factor] = kept
    return None


def _reason(flow: Mapping[str, Any], of_programs: Iterable[str]) -> str | None:
    if flow.get("kind", "tcp") != "tcp":
        return "it asks for transfers of given sizes, and a program sends what it will"
    other = [key for key in flow if key not in of_programs]
    return f"it needs {other[0]}, which is a program's own affair" if other else None


def _asks_for(level: object, flows: Mapping[str, Mapping[str, Any]], of_programs: Iterable[str]) -> bool:
    if not isinstance(level, dict):
        return False
    programs = [f"flow.{name}." for name, flow in flows.items() if flow.get("kind") == "program"]
    return any(key.startswith(tuple(programs)) and key.rpartition(".")[2] not in of_programs for key in level)
