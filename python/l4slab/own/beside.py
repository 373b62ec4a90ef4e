"""Imports modules next to a user's file, again for each run."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import PurePosixPath
from types import ModuleType

from l4slab.base.code import PACKAGE


class _Finder(MetaPathFinder, Loader):
    """Imports the offered modules."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[str, bytes]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname in self.known:
            is_package = PurePosixPath(self.known[fullname][0]).name == PACKAGE
            return ModuleSpec(fullname, self, is_package=is_package)
        if any(name.startswith(f"{fullname}.") for name in self.known):
            # A folder without __init__.py.
            return ModuleSpec(fullname, None, is_package=True)
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__file__, content = self.known[module.__name__]
        exec(compile(content, module.__file__, "exec"), module.__dict__)  # noqa: S102


_finder = _Finder()


def offer(file: str, modules: Mapping[str, bytes]) -> None:
    """Let these be imported by `file`. Raises ValueError where another file has a different module of the same name."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    for path, content in modules.items():
        *packages, last = PurePosixPath(path).relative_to(PurePosixPath(file).parent).parts
        name = ".".join(packages if last == PACKAGE else [*packages, last.removesuffix(".py")])
        other, known = _finder.known.setdefault(name, (path, content))
        if known != content:
            raise ValueError(f"{path} and {other} are different modules of one name in one run; rename one of them")


def forget() -> None:
    """Withdraw all offered modules, and forget those that were imported."""
    offered = {name.partition(".")[0] for name in _finder.known}
    for name in [name for name in sys.modules if name.partition(".")[0] in offered]:
        del sys.modules[name]
    _finder.known.clear()
