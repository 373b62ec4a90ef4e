"""Modules beside a file of one's own, which it imports.

The package finds them by the `import` statements, without running anything, and reads them (`modules_of`): their
contents are part of the run's description. A worker imports them from what was read (`offer`), anew for each run.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path, PurePosixPath
from types import ModuleType

# These are what they are, whatever lies beside a file.
_OTHERS = sys.stdlib_module_names | {"l4slab"}


def modules_of(file: str, content: bytes, folder: Path) -> dict[str, bytes]:
    """What a file imports from beside it, and what that imports: contents by path in `folder`, as `file` is one."""
    found: dict[str, bytes] = {}
    waiting = [content]
    while waiting:
        for name in _imported(waiting.pop()):
            path = PurePosixPath(file).with_name(f"{name}.py").as_posix()
            if name in _OTHERS or path in found or path == file or not (folder / path).is_file():
                continue
            found[path] = (folder / path).read_bytes()
            waiting.append(found[path])
    return dict(sorted(found.items()))


def _imported(content: bytes) -> Iterator[str]:
    """The names of modules in import statements; none of a file that is no Python, which is told when it is loaded."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            yield node.module.partition(".")[0]


class _Finder(MetaPathFinder, Loader):
    """Imports what was offered."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[str, bytes]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        return ModuleSpec(fullname, self) if fullname in self.known else None

    def exec_module(self, module: ModuleType) -> None:
        module.__file__, content = self.known[module.__name__]
        exec(compile(content, module.__file__, "exec"), module.__dict__)  # noqa: S102


_finder = _Finder()


def offer(modules: Mapping[str, bytes]) -> None:
    """Let these be imported. Raises ValueError where another file has a different module of the same name."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    for path, content in modules.items():
        name = PurePosixPath(path).stem
        other, known = _finder.known.setdefault(name, (path, content))
        if known != content:
            raise ValueError(f"{path} and {other} are different modules of one name in one run; rename one of them")


def forget() -> None:
    """Nothing is offered any more, and what was imported is imported anew."""
    for name in _finder.known:
        sys.modules.pop(name, None)
    _finder.known.clear()
