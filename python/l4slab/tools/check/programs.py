"""A program of one's own in the suite: in the place of the congestion control, its server and its client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from l4slab import stacks
from l4slab.base.values import Keys
from l4slab.experimentfile import keys_of
from l4slab.experimentfile.traffic import ProgramFlow

_FOR_EVER = "1h"  # it is ended with the run
_KERNELS_DEFAULT = "cubic"
_KEYS = frozenset(keys_of(ProgramFlow)) - {"bytes", "stack"}
# A table of an experiment, and what its keys of a flow begin with: nothing, or "flow.NAME." in a level of a sweep.
Place = tuple[Keys, str]


@dataclass(frozen=True)
class Program:
    """A server and a client, as a flow of `kind = "program"` has them; the client sends for as long as it is let.
    With `stack`, those of a packaged stack, which is built.
    """

    server: str = ""
    client: str = ""
    sender: Literal["client", "server"] = "client"
    env: Mapping[str, str] = field(default_factory=dict)
    stack: str | None = None

    def keys(self) -> frozenset[str]:
        """The keys that an experiment may set for its flow."""
        is_tcp = self.stack is None or stacks.find(self.stack).recipe.kernel
        return _KEYS if is_tcp else _KEYS - {"ecn"}

    def name(self, cc: str | None) -> str:
        """The subject that a card names."""
        if self.stack is not None:
            return f"{self.stack} {cc or stacks.find(self.stack).recipe.controllers[0]}"
        return self.client + (f" with {cc}" if cc else "")

    def flow(self, cc: str | None) -> Keys:
        """The keys of a flow, but for name and path."""
        if self.stack is not None:
            found: Keys = {"kind": "program", "stack": self.stack, "stop": _FOR_EVER}
            return found | ({"cc": cc} if cc else {}) | ({"env": dict(self.env)} if self.env else {})
        keys: Keys = {"kind": "program", "server": self.server, "client": self.client, "sender": self.sender}
        if self.env:
            keys["env"] = dict(self.env)
        return {**keys, "stop": _FOR_EVER, "cc": cc or _KERNELS_DEFAULT}


def _as_variables(document: dict[str, Any], flow: Keys, env: dict[str, str]) -> str | None:
    """An application that limits the flow, as variables of a stack's client; why that cannot be."""
    if (rate := flow.pop("app_rate", None)) is not None:
        env["APP_RATE"] = str(rate)
    before, rests = f"flow.{flow['name']}.", []
    for change in document.get("at", []):
        for key in [key for key in change if key.startswith(before)]:
            if key != f"{before}pause" or "state" in change:
                return "its application changes when a state comes, and a program does not see it"
            del change[key]
            rests.append(change["time"])
    if rests:
        env["APP_PAUSE"] = " ".join(rests)
        document["at"] = [change for change in document["at"] if change.keys() - {"time"}]
    return None


def put_in(document: dict[str, Any], places: Iterable[Place], program: Program, cc: str | None) -> str | None:
    """Put the program at these places of an experiment of the suite; why that cannot be."""
    flows = {flow["name"]: flow for flow in document["flow"]}
    variables: dict[str, dict[str, str]] = {name: {} for name in flows}
    limits = program.stack is not None and stacks.find(program.stack).recipe.limits
    for table, before in places:
        name = before.split(".")[1] if before else table["name"]
        for flow in flows.values() if name == "*" else [flows[name]]:
            if limits and (reason := _as_variables(document, flow, variables[flow["name"]])) is not None:
                return reason
            if (reason := _reason(flow, program.keys())) is not None:
                return reason
    for table, before in places:
        table.update({f"{before}{key}": value for key, value in program.flow(cc).items()})
        if not before and (more := variables[str(table["name"])]):
            table["env"] = {**program.env, **more}
    # What only TCP of the engine's own has cannot be varied.
    taken = tuple(f"flow.{name}." for name, flow in flows.items() if flow.get("kind") == "program")
    for factor, levels in document.get("sweep", {}).items():
        document["sweep"][factor] = [level for level in levels if not _asks_for_more(level, taken, program.keys())]
    return None


def _reason(flow: Keys, possible: frozenset[str]) -> str | None:
    if flow.get("kind", "tcp") != "tcp":
        return "it asks for transfers of given sizes, and a program sends what it will"
    other = [key for key in flow if key not in possible]
    return f"it needs {other[0]}, which is a program's own affair" if other else None


def _asks_for_more(level: object, taken: tuple[str, ...], possible: frozenset[str]) -> bool:
    keys = level if isinstance(level, dict) else ()
    return any(key.startswith(taken) and key.rpartition(".")[2] not in possible for key in keys)
