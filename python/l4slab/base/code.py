"""Files of the user's own that an experiment file names: controllers and queues in Python or as a library.

`mine.py:Mine` of an experiment file becomes `mine.py:Mine#0123456789abcdef` in a run's description. The reference has
the hash of the file's content and of the modules beside it that it imports. Files are read here and never run;
`l4slab.own` runs them.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Literal

Kind = Literal["controller", "media", "queue"]  # "media": a controller of media

# A file, the name in it, and further words.
_NAMED = re.compile(r"(?P<file>[^\s:#]+\.(?:py|so))(?::(?P<thing>[^\s#]*))?(?=\s|$)\s*(?P<words>.*)", re.DOTALL)
HASH = "#"
# These modules come from the interpreter, even if a file of the same name exists.
_OTHERS = sys.stdlib_module_names | {"l4slab"}
PACKAGE = "__init__.py"


@dataclass(frozen=True)
class Code:
    """A controller or a queue that a run has, and its file."""

    kind: Kind
    reference: str
    content: bytes
    modules: Mapping[str, bytes] = field(default_factory=dict)  # beside it, by path as `file`

    @property
    def name(self) -> str:
        """As the experiment file has it."""
        return self.reference.partition(HASH)[0]

    @property
    def file(self) -> str:
        """The file's name."""
        return self.name.partition(":")[0]


def is_code(text: str) -> bool:
    """Whether a value of `cc` or `qdisc` names a file."""
    return _NAMED.fullmatch(text.strip()) is not None


def find(kind: Kind, text: str, folder: Path) -> tuple[str, Code] | None:
    """The value as a run's description has it, and the code; None where it names no file.

    Raises ValueError with one sentence.
    """
    named = _NAMED.fullmatch(text.strip())
    if named is None:
        return None
    file, thing, words = named["file"], named["thing"] or "", named["words"]
    if not file.endswith(".py"):
        # "./libmine.so:limit 100" is as good as "./libmine.so limit 100".
        thing, words = "", f"{thing} {words}"
    if kind != "queue" and words.strip():
        raise ValueError(f'{file} takes no words; write options = {{ name = "value" }} of the flow')
    content = read(file, folder)
    name = f"{file}:{thing}" if file.endswith(".py") else file
    modules = modules_beside(file, content, folder)
    whole = hashlib.sha256(content)
    for path, module in modules.items():
        whole.update(hashlib.sha256(path.encode()).digest() + hashlib.sha256(module).digest())
    reference = f"{name}{HASH}{whole.hexdigest()[:16]}"
    return f"{reference} {words.strip()}".strip(), Code(kind, reference, content, modules)


def read(file: str, folder: Path) -> bytes:
    """The content of a file in `folder`. Raises ValueError with one sentence."""
    path = Path(file)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError("it has to be beside the experiment file or in a folder there; move it")
    try:
        return (folder / path).read_bytes()
    except FileNotFoundError:
        raise ValueError(f"there is no file {folder / path}; look at its name and folder") from None
    except OSError as error:
        raise ValueError(f"{folder / path} cannot be read ({error.strerror or error}); see to that") from None


def modules_beside(file: str, content: bytes, folder: Path) -> dict[str, bytes]:
    """The modules beside a file that it imports, by path. Raises ValueError with one sentence."""
    if not file.endswith(".py"):
        return {}
    try:
        return _modules_of(file, content, folder)
    except OSError as error:
        raise ValueError(f"{error.filename} cannot be read ({error.strerror or error}); see to that") from None


def _modules_of(file: str, content: bytes, folder: Path) -> dict[str, bytes]:
    """The modules next to a file that it imports, directly or indirectly: contents by path in `folder`, like `file`."""
    here = PurePosixPath(file).parent
    found: dict[str, bytes] = {}
    # Contents and their package. The file itself is in none.
    waiting: list[tuple[bytes, list[str]]] = [(content, [])]
    while waiting:
        for name in _imported(*waiting.pop()):
            path = _path(here.joinpath(*name), folder)
            if path is None or path in found or path == file or name[0] in _OTHERS:
                continue
            found[path] = (folder / path).read_bytes()
            waiting.append((found[path], name if PurePosixPath(path).name == PACKAGE else name[:-1]))
    return dict(sorted(found.items()))


def _path(module: PurePosixPath, folder: Path) -> str | None:
    """Where in `folder` a module is; a package hides a module of its name."""
    paths = ((module / PACKAGE).as_posix(), f"{module.as_posix()}.py")
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
