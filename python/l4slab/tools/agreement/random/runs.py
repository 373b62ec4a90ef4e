"""The judged quantities of single runs, kept in `DIR/runs.jsonl`, a line per run.

A run's id depends on its description, the engine and the engine's build. So a new build of the simulator runs again,
and the kernel's results stay.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from l4slab.base.errors import StoreError
from l4slab.campaign.executors import Failure, compute
from l4slab.engines.contract import Recording
from l4slab.sweep import Run
from l4slab.tools.agreement.random.judge import MARGINS, Place, Trials, Value

_KEYS = {"flows": ("flow",), "links": ("link", "queue")}
_PACKETS = {"flows": "sent_packets", "links": "arrived_packets"}


class Runs:
    """Runs by id, computed where they are not known. For several threads at once."""

    def __init__(self, path: Path):
        self._path = path
        self._lock = Lock()
        self._values: dict[str, dict[Place, Value]] = {}
        self.computed = 0
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            lines = []
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror or error}; check the folder") from None
        for line in lines:
            try:
                run, values = json.loads(line)
            except ValueError:  # a kill has torn it
                continue
            self._values[run] = {Place(*place): Value(*value) for place, value in values}

    def trials(self, runs: Sequence[Run]) -> Trials | Failure:
        """The values of these runs, in their order; a failure where one gives no recording."""
        found: Trials = {}
        outcomes = []
        for run in runs:
            outcome = self._of(run)
            if isinstance(outcome, Failure):
                return Failure(f"{run.engine}, trial {run.trial}: {outcome.reason}")
            outcomes.append(outcome)
        none = Value(None, None)
        for place in dict.fromkeys(place for values in outcomes for place in values):
            found[place] = [values.get(place, none) for values in outcomes]
        return found

    def _of(self, run: Run) -> dict[Place, Value] | Failure:
        if (known := self._values.get(run.id)) is not None:
            return known
        outcome = compute(run.engine, run.version, run.json)
        if isinstance(outcome, Failure):
            return outcome
        values = values_of(outcome)
        self._keep(run.id, values)
        return values

    def _keep(self, run: str, values: dict[Place, Value]) -> None:
        line = json.dumps([run, [[place, [one.value, one.packets]] for place, one in values.items()]])
        with self._lock:
            self._values[run] = values
            self.computed += 1
            try:
                with self._path.open("a", encoding="utf-8") as file:
                    # What a kill has torn ends here.
                    file.write(("" if _ends_a_line(self._path) else "\n") + line + "\n")
            except OSError as error:
                raise StoreError(f"{self._path}: {error.strerror or error}; free some space") from None


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def values_of(recording: Recording) -> dict[Place, Value]:
    """The quantities that are judged."""
    found = {}
    for table, quantities in MARGINS.items():
        for row in getattr(recording, table).iter_rows(named=True):
            keys = {name: row.get(name) if name in _KEYS[table] else None for name in ("flow", "link", "queue")}
            for quantity in quantities:
                found[Place(**keys, quantity=quantity)] = Value(row.get(quantity), row.get(_PACKETS[table]))
    return found
