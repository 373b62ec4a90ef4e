"""Types of arguments that users give from Python."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin

from l4slab.base.errors import InputError

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")
_NAMES = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    Path: "a path",
    Mapping: "a dict",
    Sequence: "a list",
    NoneType: "None",
}


def checked(*names: str) -> Callable[[Callable[_Given, _Result]], Callable[_Given, _Result]]:
    """Have a function raise InputError where one of these arguments is not of the type that it is annotated with."""

    def decorate(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        @wraps(function)
        def call(*args: _Given.args, **keywords: _Given.kwargs) -> _Result:
            given = inspect.signature(function).bind(*args, **keywords).arguments
            for name in names:
                if name in given:
                    _check(name, given[name], _hint(function, name))
            return function(*args, **keywords)

        return call

    return decorate


def _hint(function: Callable[..., Any], name: str) -> Any:
    """The type of one argument: others may have names that only the type checker knows."""
    annotation = inspect.signature(function).parameters[name].annotation
    return eval(annotation, vars(sys.modules[function.__module__]))  # noqa: S307  (our own source)


def _check(name: str, value: Any, hint: Any) -> None:
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    types = [get_origin(member) or member for member in members]
    # True is an int for Python, and text a sequence.
    fits = isinstance(value, tuple(types)) and not (isinstance(value, bool) and bool not in types)
    if isinstance(value, str | bytes) and str not in types:
        fits = False
    if float in types and isinstance(value, int) and not isinstance(value, bool):
        fits = True
    if not fits:
        wanted = [_NAMES.get(one, f"a {one.__name__}") for one in types]
        most = ", ".join(wanted[:-1])
        remedy = f"{most} or {wanted[-1]}" if most else wanted[-1]
        raise InputError(f"{name} = {value!r:.80} is of the type {type(value).__name__}; give {remedy}")
