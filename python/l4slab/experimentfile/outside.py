"""Names in an experiment file that point outside: custom code, and queues and controllers of a kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from l4slab.base.code import Code, Kind, find
from l4slab.experimentfile.wording import Place, Problem

# The name of a module that is no file.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class Use:
    """Where an experiment file names code: the table's `place`, the `key`, the value as `written` there and as
    `described` in a run.
    """

    code: Code
    place: Place
    key: str
    written: str
    described: str


@dataclass
class Outside:
    """Names in a file that the core does not define."""

    folder: Path
    uses: list[Use] = field(default_factory=list)
    # Queues and controllers of a kernel, and what is wrong with the file where the engine has none of this name.
    names: dict[tuple[Kind, str], Problem] = field(default_factory=dict)

    def find(self, kind: Kind, text: str, place: Place, key: str) -> str | None:
        """The value as a run's description has it, where it names a file; else None.

        Raises ValueError with one sentence.
        """
        if (found := find(kind, text, self.folder)) is None:
            return None
        described, code = found
        self.uses.append(Use(code, place, key, text, described))
        return described

    def note(self, kind: Kind, name: str, problem: Problem) -> bool:
        """Whether a kernel may have something of this name. An engine decides; `problem` is told where it has not."""
        if not _NAME.fullmatch(name.partition(" ")[0]):
            return False
        self.names.setdefault((kind, name), problem)
        return True
