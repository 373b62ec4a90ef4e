"""The declaration of a class: its parameters and gauges, and whether it has the required methods.

Here code of one's own is loaded, so only a worker comes here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from l4slab.base.code import Kind
from l4slab.base.errors import one_line, suggest
from l4slab.base.values import Keys
from l4slab.own import Controller, Gauge, MediaController, Parameter, Queue
from l4slab.own.wrong import sentence

_BASES: dict[str, type] = {"controller": Controller, "media": MediaController, "queue": Queue}
_NEEDED = {"controller": ("on_ack", "on_congestion"), "media": ("on_report",), "queue": ("enqueue", "dequeue")}
_OPTIONAL = {
    "controller": ("on_recovered", "on_undo", "on_established", "on_lost"),
    "media": ("on_frame",),
    "queue": ("next_timer", "on_timer"),
}
_WISHES = {"controller": ("off", "classic", "accecn"), "media": ("not-ect", "ect0", "ect1")}
# An hour between reports.
_MOST_INTERVAL = 3_600_000_000_000


_SAID = {"controller": "controller", "media": "controller of media", "queue": "queue"}


class Refused(ValueError):
    """The file or the class cannot be used, in one sentence."""


@dataclass(frozen=True)
class Declared:
    """A class as the core takes it."""

    declaration: Keys
    methods: list[str]
    ecn: str
    governs_window: bool
    report_interval_ns: int
    make: Callable[..., Any]


def module(file: str, content: bytes) -> ModuleType:
    """The file as a module that nobody else has. Raises Refused."""
    made = ModuleType(file.rpartition("/")[2].removesuffix(".py"))
    made.__file__ = file
    try:
        exec(compile(content, file, "exec"), made.__dict__)  # noqa: S102
    except BaseException as error:
        remedy = ""
        if isinstance(error, ModuleNotFoundError) and error.name is not None:
            remedy = f"; put {error.name.replace('.', '/')}.py beside {file}, or install it"
        raise Refused(f"{sentence(error, file)}{remedy}") from None
    return made


def classes(file: str, content: bytes) -> list[tuple[str, str]]:
    """The classes of a file that can be used, as controller or queue and its name. Raises Refused."""
    return [(kind, name) for kind in _BASES for name in _names(kind, module(file, content))]


def _names(kind: str, found: ModuleType) -> list[str]:
    own = (item for item in vars(found).items() if isinstance(item[1], type) and item[1].__module__ == found.__name__)
    return [name for name, one in own if issubclass(one, _BASES[kind]) and one is not _BASES[kind]]


def declare(kind: Kind, file: str, name: str, content: bytes) -> Declared:
    """The declaration of the class `name` of a file. Raises Refused."""
    found = module(file, content)
    base, names = _BASES[kind], _names(kind, found)
    there = f"class Mine({base.__name__}): ... of l4slab.own"
    if not name:
        remedy = f"write {file}:{names[0]}" if names else f"write {there}"
        raise Refused(f"{file} is named without its class; {remedy}")
    one = vars(found).get(name)
    if one is None:
        remedy = suggest(name, names) if names else f"it has none; write {there}"
        raise Refused(f"{file} has no {_SAID[kind]} {name}; {remedy}")
    called = f"{file}:{name}"
    if kind == "controller" and isinstance(one, type) and issubclass(one, MediaController):
        raise Refused(f'{called} is a controller of media; give it to a flow of kind = "media", or to check --media')
    if not isinstance(one, type) or not issubclass(one, base):
        raise Refused(f"{called} is no {_SAID[kind]}; write class {name}({base.__name__}), from l4slab.own")
    _check_methods(kind, called, one)
    attributes = {key: getattr(one, key) for key in reversed(dir(one))}
    order = [key for ancestor in reversed(one.__mro__) for key in vars(ancestor)]
    declared = {key: attributes[key] for key in dict.fromkeys(order) if key in attributes}
    parameters = {key: value for key, value in declared.items() if isinstance(value, Parameter)}
    gauges = {key: value for key, value in declared.items() if isinstance(value, Gauge)}
    declaration: Keys = {
        "name": called,
        "summary": one_line((inspect.getdoc(one) or "").partition("\n\n")[0]).rstrip("."),
        "parameters": [_parameter(called, key, value) for key, value in parameters.items()],
        "bands": [*_bands(called, getattr(one, "bands", ()))],
        "gauges": [{"name": key, "unit": value.unit, "help": one_line(value.help)} for key, value in gauges.items()],
    }
    ecn = getattr(one, "ecn", "off")
    if (wishes := _WISHES.get(kind)) and ecn not in wishes:
        raise Refused(f'{called}: ecn = {ecn!r} is refused; it is "{wishes[0]}", "{wishes[1]}" or "{wishes[2]}"')
    interval = getattr(one, "report_interval_ns", 0)
    if type(interval) is not int or not 0 <= interval <= _MOST_INTERVAL:
        text = "it is a whole number of nanoseconds, such as 100_000_000"
        raise Refused(f"{called}: report_interval_ns = {interval!r} is refused; {text}")
    methods = [method for method in _OPTIONAL[kind] if getattr(one, method) is not getattr(base, method)]
    if "next_timer" in methods and "on_timer" not in methods:
        raise Refused(f"{called} has next_timer and no on_timer; define it: {_signature(base, 'on_timer')}")
    make = _maker(kind, one, list(gauges))
    return Declared(declaration, methods, ecn, bool(getattr(one, "governs_window", False)), interval, make)


def _check_methods(kind: str, called: str, one: type) -> None:
    base = _BASES[kind]
    try:
        inspect.signature(one).bind()
    except TypeError:
        text = f"{called}: __init__ is called without arguments, and takes some"
        raise Refused(f'{text}; declare parameters as attributes of the class, such as number(0.5, "help")') from None
    except ValueError:
        pass  # Compiled by somebody else: it has no signature.
    for method in (*_NEEDED[kind], *_OPTIONAL[kind]):
        own, wanted = getattr(one, method), getattr(base, method)
        if own is wanted:
            if method in _NEEDED[kind]:
                raise Refused(f"{called} has no {method}; define it: {_signature(base, method)}")
            continue
        count = len(inspect.signature(wanted).parameters)
        try:
            inspect.signature(own).bind(*range(count))
        except TypeError:
            text = f"{called}: {method} does not take the {count - 1} arguments that it is called with"
            raise Refused(f"{text}; define it: {_signature(base, method)}") from None
        except ValueError:
            continue  # Compiled by somebody else: it has no signature.


def _bands(called: str, bands: Any) -> list[str]:
    if isinstance(bands, str) or not all(isinstance(name, str) for name in bands):
        raise Refused(f'{called}: bands = {bands!r} is refused; write names, such as ("L", "C")')
    return list(bands)


def _signature(base: type, method: str) -> str:
    names = ", ".join(inspect.signature(getattr(base, method)).parameters)
    return f"def {method}({names})"


def _parameter(called: str, keyword: str, parameter: Parameter) -> Keys:
    for bound in (parameter.least, parameter.most):
        if bound is not None and not isinstance(bound, int | float):
            raise Refused(f"{called}: the range of {keyword} has {bound!r}, which is no number; write one")
    return {
        "keyword": keyword,
        "help": one_line(str(parameter.help)),
        "kind": parameter.kind,
        "default": str(parameter.default),
        "least": parameter.least,
        "most": parameter.most,
        "choices": [str(word) for word in parameter.choices],
    }


def _maker(kind: str, one: Any, gauges: list[str]) -> Callable[..., Any]:
    given = "link_rate_bps" if kind == "queue" else "seed"

    def make(parameters: dict[str, Any], number: int) -> Any:
        made = one.__new__(one)
        vars(made).update(parameters)
        vars(made).update(dict.fromkeys(gauges))
        vars(made)[given] = number
        made.__init__()
        return made

    return make
