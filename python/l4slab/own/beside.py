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
from itertools import accumulate
from pathlib import Path, PurePosixPath
from types import ModuleType

# These are what they are, whatever lies beside a file.
_OTHERS = sys.stdlib_module_names | {"l4slab"}
_PACKAGE = "__init__.py"


def modules_of(file: str, content: bytes, folder: Path) -> dict[str, bytes]:
    """What a file imports from beside it, and what that imports: contents by path in `folder`, as `file` is one."""
    here = PurePosixPath(file).parent
    found: dict[str, bytes] = {}
    # Contents, and the package that each is in; the file itself is in none.
    waiting: list[tuple[bytes, list[str]]] = [(content, [])]
    while waiting:
        for name in _imported(*waiting.pop()):
            path = _path(here.joinpath(*name), folder)
            if path is None or path in found or path == file or name[0] in _OTHERS:
                continue
            found[path] = (folder / path).read_bytes()
            waiting.append((found[path], name if PurePosixPath(path).name == _PACKAGE else name[:-1]))
    return dict(sorted(found.items()))


def _path(module: PurePosixPath, folder: Path) -> str | None:
    """Where in `folder` a module is; a package hides a module of its name."""
    paths = ((module / _PACKAGE).as_posix(), f"{module.as_posix()}.py")
    return next((path for path in paths if (folder / path).is_file()), None)


def _imported(content: bytes, package: list[str]) -> Iterator[list[str]]:
    """The names, in parts, that may be modules by the import statements of a module in `package`; none of a file that
    is no Python, which is told when it is loaded.
    """
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        names: list[list[str]] = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level <= len(package):
            base = package[: len(package) + 1 - node.level] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            names = [[*base, alias.name] for alias in node.names]
        for name in names:
            # What is imported from a package comes after the package.
            yield from accumulate([part] for part in name)


class _Finder(MetaPathFinder, Loader):
    """Imports what was offered."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[str, bytes]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname in self.known:
            is_package = PurePosixPath(self.known[fullname][0]).name == _PACKAGE
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
        name = ".".join(packages if last == _PACKAGE else [*packages, last.removesuffix(".py")])
        other, known = _finder.known.setdefault(name, (path, content))
        if known != content:
            raise ValueError(f"{path} and {other} are different modules of one name in one run; rename one of them")


def forget() -> None:
    """Nothing is offered any more, and what was imported is imported anew."""
    offered = {name.partition(".")[0] for name in _finder.known}
    for name in [name for name in sys.modules if name.partition(".")[0] in offered]:
        del sys.modules[name]
    _finder.known.clear()
