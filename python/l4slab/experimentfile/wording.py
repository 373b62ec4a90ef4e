"""How mistakes of a file are reported: a sentence each that names file, line, table, key, value and remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic_core import ErrorDetails

from l4slab import _core
from l4slab.base.errors import InputError, nearest, suggest
from l4slab.base.values import Keys
from l4slab.experimentfile.misplaced import instead

# Where a table stands: ("link", its name), ("flow", its name), or what `numbered` gives.
Place = tuple[str, ...]


# A {name} in a value, which a sweep fills in: only then can it be checked.
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_INCOMPLETE = {"complete": False}


class Table(BaseModel):
    """A table of the file. Its values, and its defaults, are what a person would write.

    A field's `validation_alias` is its key in the file where Python cannot have that name, its `serialization_alias`
    its name in a run's description, which `model_dump(by_alias=True)` gives in ns, bit/s and bytes.
    """

    section: ClassVar[str] = ""  # of models whose tables are the whole of a [[section]]
    # Models are built when they are first used: a file uses few of them.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    def __init__(self, /, *unnamed: Any, **values: Any):
        """From Python. Raises InputError."""
        if unnamed:
            kind, key = type(self).__name__, next(iter(type(self).model_fields))
            raise InputError(f"{kind} takes its keys by name; write such as l4slab.{kind}({key}=...)")
        raw = {_key(type(self), name): value for name, value in values.items()}
        try:
            self.__pydantic_validator__.validate_python(raw, self_instance=self, context=_INCOMPLETE)
        except ValidationError as error:
            problem = _problem(type(self), _first(error), raw, (type(self).__name__,))
            raise InputError(problem.sentence({})) from None

    # As RootModel does: without it, `model_validate` would come here, too.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @field_validator("*", mode="wrap")
    @classmethod
    def _as_written(cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        if info.context is _INCOMPLETE and isinstance(value, str) and PLACEHOLDER.search(value):
            return value
        return handler(value)

    def written(self) -> dict[str, object]:
        """The values that the file sets, by key."""
        names = [name for name in type(self).model_fields if name in self.model_fields_set]
        values = {_key(type(self), name): getattr(self, name) for name in names}
        return {key: value for key, value in values.items() if value is not None}

    def mistake(self, raw: Keys) -> tuple[str, str] | None:
        """A mistake of several keys together: the key to name, or "", and a text that continues `key = value`.

        `raw` is the table as written.
        """


AnyTable = TypeVar("AnyTable", bound=Table)


@dataclass
class Problem(Exception):
    """A wrong value: the table it stands in, its key, and a text that continues `key = value`.

    `others` are further mistakes of the file.
    """

    place: Place
    key: str
    message: str
    others: list[Problem] = field(default_factory=list)

    def sentence(self, origin: Mapping[Place, str]) -> str:
        """With where it stands: the part of a sweep that set the value, or the table."""
        own = f'flow "{self.place[1]}"' if self.place[:1] == ("flow",) else ".".join(self.place)
        where = origin.get((*self.place, self.key.split(".")[0]), own)
        if not self.key:
            return f"{where} {self.message}".strip()
        is_dotted = where == ".".join(self.place) and not (len(self.place) == 1 and where.startswith("[["))
        joint = ": " if not is_dotted else "." if where else ""
        return f"{where}{joint}{self.key} {self.message}"


def numbered(section: str, number: int) -> Place:
    """The place of one of several tables, counted from 1."""
    return (f"[[{section}]] no. {number}",)


class Mistakes:
    """Collects the problems of tables that do not depend on each other."""

    def __init__(self) -> None:
        self._found: list[Problem] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Keep the problem of what is done here."""
        try:
            yield
        except Problem as problem:
            self._found += [problem, *problem.others]

    def tell(self) -> None:
        """Raise the first problem, with the others."""
        if self._found:
            first, *others = self._found
            raise Problem(first.place, first.key, first.message, others)


@contextmanager
def told(file: Path, origin: Mapping[Place, str] | None = None) -> Iterator[None]:
    """Make a `Problem` an InputError. `origin` is what has set a key, (section, name, key) -> text."""
    try:
        yield
    except Problem as problem:
        raise input_error(problem, file, origin or {}) from None


def input_error(problem: Problem, file: Path, origin: Mapping[Place, str]) -> InputError:
    """The error to raise for a problem, with those of the others. `origin` as of `told`."""

    def error(one: Problem, others: Iterable[InputError] = ()) -> InputError:
        return InputError(one.sentence(origin), file=file, at=_position(one, file, origin), others=others)

    return error(problem, map(error, problem.others))


_NUMBERED = re.compile(r"\[\[(.+)\]\] no\. (\d+)")


def _position(problem: Problem, file: Path, origin: Mapping[Place, str]) -> tuple[int, int] | None:
    """Line and column of the key, or of the table that lacks it; None for a value of a sweep, and where no file is."""
    if (*problem.place, problem.key.split(".")[0]) in origin:
        return None
    path: list[str] = []
    for part in problem.place:
        counted = _NUMBERED.fullmatch(part)
        path += [*counted[1].split("."), str(int(counted[2]) - 1)] if counted else [part.strip('"')]
    try:
        return _core.toml_position(file.read_text("utf-8-sig"), [*path, problem.key] if problem.key else path)
    except (OSError, ValueError):
        return None


def show(value: object) -> str:
    """A value as it is written in TOML, shortened."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= 80:
        return text
    return f'{text[:76]}..."' if text[0] == '"' else f"{text[:77]}..."


def keys_of(model: type[BaseModel]) -> list[str]:
    """The keys a table of this model may have, as written in the file."""
    return [_key(model, name) for name in model.model_fields]


def _key(model: type[BaseModel], name: str) -> str:
    """The key in the file of a field."""
    info = model.model_fields.get(name)
    return str(info.validation_alias or name) if info else name


def checked_by(parse: Callable[[object], object]) -> Callable[[object], object]:
    """A validator that leaves a value as it is written when `parse` takes it."""

    def check(value: object) -> object:
        parse(value)
        return value

    return check


_TYPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a table",
    "mapping_type": "a table",
    "sequence_str": "a list",
    "sequence_type": "a list",
}
_BOUNDS = {
    "greater_than_equal": "must be at least",
    "greater_than": "must be more than",
    "less_than_equal": "must be at most",
    "less_than": "must be less than",
}


def check(model: type[AnyTable], raw: object, place: Place) -> AnyTable:
    """`raw` as a `model`. Raises Problem."""
    written = _table(raw, place)
    try:
        table = model.model_validate(written)
    except ValidationError as error:
        raise _problems(model, error, written, place) from None
    if wrong := table.mistake(written):
        raise Problem(place, *wrong)
    return table


def check_written(model: type[Table], raw: object, place: Place, fixed: Iterable[str] = ()) -> Keys:
    """The table, of which the keys that are written so far are right: placeholders and missing ones come with a sweep.

    Raises Problem.

    A sweep cannot set the keys in `fixed`, so they cannot be placeholders.
    """
    table = _table(raw, place)
    fixed_keys = {key: table[key] for key in fixed if key in table}
    for written, context in ((table, _INCOMPLETE), (fixed_keys, None)):
        try:
            model.model_validate(written, context=context)
        except ValidationError as error:
            if _first(error)["type"] != "missing":
                raise _problems(model, error, written, place) from None
    return table


def _table(raw: object, place: Place) -> Keys:
    if not isinstance(raw, dict):
        raise Problem(place, "", "is not a table of keys and values")
    return raw


def _first(error: ValidationError) -> ErrorDetails:
    """The mistake to tell: a misspelt key is also missing under its right name, and the misspelling is it."""
    return min(error.errors(include_url=False), key=lambda mistake: mistake["type"] == "missing")


def _problems(model: type[Table], error: ValidationError, raw: Keys, place: Place) -> Problem:
    """All mistakes of a table, one for each key. What is missing may be what is misspelt, so it comes alone."""
    mistakes = error.errors(include_url=False)
    wrong = [one for one in mistakes if one["type"] != "missing"] or mistakes[:1]
    by_key = {one["loc"][:1]: one for one in reversed(wrong)}
    first, *others = [_problem(model, one, raw, place) for one in wrong if by_key[one["loc"][:1]] is one]
    first.others = others
    return first


def _suggest_key(key: str, valid: list[str], raw: Keys) -> str:
    """The remedy for a key that a table has not got: the nearest one, also where the table has that already."""
    if (close := nearest(key, valid)) in raw:
        return f'did you mean "{close}"? That is written already; keep one of them'
    return suggest(key, [name for name in valid if name not in raw] if close is None else valid)


def _problem(model: type[Table], mistake: ErrorDetails, raw: Keys, place: Place) -> Problem:
    path = [str(part) for part in mistake["loc"]]
    key, kind, context = ".".join(path), mistake["type"], mistake.get("ctx", {})
    info = next((i for n, i in model.model_fields.items() if path[0] == _key(model, n)), None)
    example = info.examples[0] if info and info.examples else None
    remedy = f"; write it such as {path[0]} = {example}" if example else ""
    if kind == "missing":
        return Problem(place, "", f"has no {key}{remedy.replace('write it', 'add it', 1)}")
    if kind == "extra_forbidden":
        valid = keys_of(model)
        section = model.section or place[0] if place else ""
        text = f"is not a key here; {instead(section, path[-1]) or _suggest_key(path[-1], valid, raw)}"
    elif kind == "value_error":
        text = str(context["error"])
    elif kind == "literal_error":
        values = [v.strip("' ") for v in context["expected"].replace(" or ", ", ").split(",")]
        given = mistake["input"]
        close = nearest(given, values) if isinstance(given, str) else None
        text = "is none of " + ", ".join(f'"{value}"' for value in values)
        text += f'; did you mean "{close}"?' if close else "; write one of them"
    elif kind == "is_instance_of":
        wanted = context["class"].removeprefix("Any")
        text = "is not a list" if wanted == "Sequence" else f"is not a {wanted}; write l4slab.{wanted}(...)"
    elif kind in _TYPES:
        quoted = f'; write it in quotes, such as {path[0]} = "..."' if kind == "string_type" else ""
        text = f"is not {_TYPES[kind]}{remedy or quoted}"
    elif kind in _BOUNDS:
        text = f"{_BOUNDS[kind]} {next(iter(context.values()))}"
    else:
        text = f"is not valid: {mistake['msg']}{remedy}"
    # pydantic gives the parsed number where a bound is broken; the user wants to see what is in the file.
    given = raw.get(key, mistake["input"])
    return Problem(place, key, f"= {show(given)} {text}")
