"""Packaged transport stacks: a folder each in `recipes/`, with a recipe, and a small client and server where needed.

`stack.toml` says how a stack is built, started and given its controller. A build is kept in the cache under the
recipe's name, version and digest. Reading a recipe looks at nothing but its folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from l4slab.base.errors import suggest
from l4slab.stacks.qlog import Form

FILE = "stack.toml"
# In the commands of a recipe: its build, the controller, how many bytes to send.
STACK, CC, BYTES = "{stack}", "{cc}", "{bytes}"
# And of one for calls: the encoder's rates, bit/s, and frames per second.
RATES = RATE_MIN, RATE_START, RATE_MAX = "{rate_min}", "{rate_start}", "{rate_max}"
FPS = "{fps}"
# How many there are, and the codepoint of a sender that may be Not-ECT: 1 or -1.
COUNT, ECT = "{count}", "{ect}"
# And of one for tests of responsiveness: their settings, as flags.
TEST = "{test}"
# What a client is told to send that is to send until it is ended.
FOR_EVER = 10**12
LOG = "QLOGDIR"  # the variable with the folder for a stack's qlog
BUILT = "built.json"  # of a build that is whole
_NAME = re.compile(r"[a-z][a-z0-9-]*")
# What a build leaves in the folder of a recipe is not part of it.
_NO_SOURCES = ("target", "__pycache__", "README.md")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The keys of `stack.toml`."""

    summary: str
    language: str
    version: str
    controllers: tuple[str, ...]  # the default first
    server: str
    client: str
    sender: Literal["client", "server"] = "client"
    env: Mapping[str, str] = field(default_factory=dict)
    qlog: Mapping[str, str] = field(default_factory=dict)  # of `qlog.Form`; empty where it writes none
    limits: bool = False  # its client writes at APP_RATE and rests within APP_PAUSE
    media: Mapping[str, str] = field(default_factory=dict)  # of one for calls: by controller, the options of its model
    responsiveness: bool = False  # a client and a server for tests of it
    kernel: bool = False  # TCP of the kernel, whose hosts have the controller
    ecn: str = ""
    note: str = ""
    source: str = ""  # of one whose source no registry has: the command that gets it
    needs: Mapping[str, str] = field(default_factory=dict)  # programs, and where they are to be had
    python: str = ""  # the least version of the interpreter that the build calls $PYTHON
    build: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Of the flows that it carries."""
        return "media" if self.media else "responsiveness" if self.responsiveness else "program"

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Recipe:
        """The recipe that a file has. Raises ValueError with a text that continues the file's name."""
        kinds = get_type_hints(cls)
        if unknown := next((key for key in document if key not in kinds), None):
            raise ValueError(f"{unknown} is not a key of a recipe; {suggest(unknown, kinds)}")
        required = [one.name for one in fields(cls) if one.default is MISSING and one.default_factory is MISSING]
        if lacking := next((key for key in required if key not in document), None):
            raise ValueError(f"{lacking} is missing; add it")
        return cls(**{key: _checked(key, value, kinds[key]) for key, value in document.items()})


def _checked(key: str, value: object, kind: Any) -> Any:
    """A value of the type of its key. Raises ValueError."""
    origin = get_origin(kind)
    if origin is Literal:
        if value in get_args(kind):
            return value
        raise ValueError(f"{key} = {value!r} is none of {', '.join(get_args(kind))}")
    if origin is tuple:
        if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
            return tuple(value)
        raise ValueError(f'{key} = {value!r} is no list of texts; write such as ["a", "b"]')
    if origin is not None:
        if isinstance(value, dict) and all(isinstance(one, str) for one in value.values()):
            return value
        raise ValueError(f'{key} = {value!r} is no table of texts; write such as {{ NAME = "value" }}')
    if isinstance(value, kind):
        return value
    raise ValueError(f"{key} = {value!r} is of another type; write {'true or false' if kind is bool else 'a text'}")


@dataclass(frozen=True)
class Stack:
    """A recipe, its name and its folder."""

    name: str
    folder: Path
    recipe: Recipe = field(hash=False)
    digest: str

    @property
    def id(self) -> str:
        """The name of its build."""
        return "-".join(part for part in (self.name, self.recipe.version, self.digest) if part)

    @property
    def build(self) -> Path:
        """Where its build is, or would be."""
        return cache() / self.id

    @property
    def is_built(self) -> bool:
        """Whether the build is there and whole."""
        return is_built(self.id)


def filled(command: str, words: Mapping[str, str]) -> str:
    """A command of a recipe, with values in place of its placeholders."""
    for placeholder, value in words.items():
        command = command.replace(placeholder, value)
    return command


def cache() -> Path:
    """Where builds are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "l4slab" / "stacks"


def is_built(build: str) -> bool:
    """Whether the build of this id is there and whole."""
    return (cache() / build / BUILT).is_file()


def form_of(build: str) -> Form | None:
    """The form of the qlog that this build writes; None where it writes none, or is not there."""
    try:
        written = json.loads((cache() / build / BUILT).read_bytes()).get("qlog")
    except (OSError, ValueError):
        return None
    return Form.of(written) if written else None


def states_of(build: str, cc: str) -> list[str]:
    """The states of a controller of this build that its recipe has."""
    form = form_of(build)
    return [] if form is None else form.names(cc)


def names() -> list[str]:
    """The packaged stacks."""
    with as_file(files("l4slab") / "stacks" / "recipes") as folder:
        return sorted(path.parent.name for path in folder.glob(f"*/{FILE}"))


def find(name: str, beside: Path | None = None) -> Stack:
    """The stack of this name, or of this folder, where it has a slash; relative to `beside`.

    Raises ValueError with a text that continues `stack = "NAME"`.
    """
    if "/" in name:
        folder = (beside or Path()) / name
        if not (folder / FILE).is_file():
            raise ValueError(
                f"there is no {folder / FILE}; give a folder with a recipe, or one of {', '.join(names())}"
            )
        return _read(folder.absolute(), folder.absolute().name)
    if name not in names():
        raise ValueError(f'is not a stack; {suggest(name, names())}; a folder of your own has a slash, "./{name}"')
    with as_file(files("l4slab") / "stacks" / "recipes") as recipes:
        return _read(recipes / name, name)


def _read(folder: Path, name: str) -> Stack:
    if not _NAME.fullmatch(name):
        raise ValueError(f"the folder's name {name} is not a stack's; use small letters, digits and -")
    found = sources(folder)
    return _parsed(folder, name, tuple((str(path.relative_to(folder)), path.read_bytes()) for path in found))


def sources(folder: Path) -> list[Path]:
    """The files of a recipe's folder that its digest is of."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if not {*path.relative_to(folder).parts} & {*_NO_SOURCES})


@lru_cache
def _parsed(folder: Path, name: str, sources: tuple[tuple[str, bytes], ...]) -> Stack:
    digest = hashlib.sha256()
    for path, content in sources:
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    file = folder / FILE
    try:
        recipe = Recipe.of(tomllib.loads(dict(sources)[FILE].decode()))
        Form.of(recipe.qlog)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"is {file}, which is not TOML: {error}; correct it") from None
    except ValueError as error:
        raise ValueError(f"is {file}, where {error} (docs/stacks.md)") from None
    return Stack(name, folder, recipe, digest.hexdigest()[:12])
