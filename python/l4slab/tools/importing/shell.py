"""Scripts: lines of `tc`, command lines of mahimahi, and Mininet's links, with the values of variables."""

from __future__ import annotations

import ast
import operator
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from l4slab.tools.importing.device import Device
from l4slab.tools.importing.draft import PLAIN, Draft, Keys

_ASSIGNED = re.compile(r"^\s*(?:export\s+|local\s+|readonly\s+)?([A-Za-z_]\w*)=(.*)$")
_VARIABLE = re.compile(r"\$\{(\w+)(?::?-([^}]*))?\}|\$(\w+)")
_SUM = re.compile(r"\$\(\(([^()]+)\)\)")
_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv,
}  # fmt: skip
_QUEUES = {"droptail": "pfifo limit", "drophead": "pfifo_head_drop limit"}
_NAMED_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*[mM](?:bps|bit)|bw(\d+)")
_ENDLESS = "pfifo limit 1000000"


def lines_of(text: str, given: Mapping[str, str]) -> Iterator[tuple[int, str, list[str]]]:
    """The commands of a script: the line's number, its text, and the words, as far as variables are known."""
    known = dict(given)
    whole = re.sub(r"\\\n", lambda _: " \0", text)
    number = 0
    for line in whole.split("\n"):
        number += 1
        plain = line.replace("\0", "")
        begin = number
        number += line.count("\0")
        plain = plain.strip()
        if not plain or plain.startswith("#"):
            continue
        assigned = _ASSIGNED.match(plain)
        if assigned is not None and not re.search(r"\s(tc|mm-\w+)\s", plain):
            if assigned[1] not in given:
                value = _filled(assigned[2].split("#")[0].strip().strip("\"'"), known)
                known[assigned[1]] = value
            continue
        for part in re.split(r"&&|\|\||;|\|(?!\|)", plain):
            filled = _filled(part.strip(), known)
            try:
                words = shlex.split(filled, comments=True)
            except ValueError:
                words = filled.split()
            if words:
                yield begin, part.strip(), words


def _filled(text: str, known: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        name = found[1] or found[3]
        return known.get(name, found[2] if found[2] is not None else found[0])

    text = _VARIABLE.sub(value, text)
    return _SUM.sub(lambda found: _sum(re.sub(r"\b([A-Za-z_]\w*)\b", lambda n: known.get(n[0], n[0]), found[1])), text)


def _sum(text: str) -> str:
    """The value of a sum in whole numbers, or the text."""

    def of(node: ast.expr) -> float:
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
            return _OPERATIONS[type(node.op)](of(node.left), of(node.right))
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        raise ValueError

    try:
        return str(int(of(ast.parse(text.strip(), mode="eval").body)))
    except (ValueError, SyntaxError, ZeroDivisionError):
        return f"$(({text}))"


def is_tc(text: str) -> bool:
    """Whether a script has lines of `tc`."""
    return re.search(r"(\btc|\$\{?TC\}?)\s+(-\S+\s+)*(qdisc|class|filter)\b", text) is not None


def read_tc(text: str, draft: Draft, rate: str, given: Mapping[str, str]) -> None:
    """The links of the devices that a script sets up."""
    devices: dict[str, Device] = {}
    for number, part, words in lines_of(text, {"TC": "tc", **given}):
        where = f"line {number}, {part}"
        at = next((i for i, word in enumerate(words) if word.rsplit("/", 1)[-1] == "tc"), None)
        if at is None:
            continue
        words = words[at + 1 :]
        while words and words[0].startswith("-"):
            words = words[1:]
        if len(words) < 2 or words[1] in ("show", "ls", "list", "del", "delete"):
            continue
        unknown = [word for word in words if "$" in word]
        if "dev" in words[:-1]:
            place = words.index("dev") + 1
            words[place] = words[place].strip("${}").lower() if "$" in words[place] else words[place]
            unknown = [word for word in words if "$" in word]
        if unknown:
            draft.leave(where, f"{unknown[0]} has no value in the script; give it with --set")
            continue
        if "dev" not in words[:-1]:
            draft.leave(where, "it names no device")
            continue
        _take(devices, words, where)
    for device in devices.values():
        device.add_to(draft, rate)


def _take(devices: dict[str, Device], words: list[str], where: str) -> None:
    what, rest = words[0], words[2:]
    place = {"parent": "", "handle": "", "classid": "", "dev": ""}
    options: list[str] = []
    while rest:
        word = rest.pop(0)
        # The name of the queue, or what a filter looks at, ends the place.
        if word in place and not (options and word != "classid") and rest:
            place[word] = rest.pop(0)
        elif word in ("root", "ingress", "clsact", "egress") and not options:
            place["parent"] = place["parent"] or word
        elif what == "filter" and not options and word in ("protocol", "prio", "pref", "preference", "estimator"):
            rest = rest[1:]
        else:
            options.append(word)
            if what != "filter":
                options += rest
                rest = []
    device = devices.setdefault(place["dev"], Device(place["dev"]))
    if what == "qdisc" and (options or place["parent"] in ("ingress", "clsact")):
        device.qdiscs[place["parent"] or "root"] = (place["handle"] or "1:", " ".join(options) or place["parent"])
    elif what == "class" and options:
        device.classes[place["classid"]] = (place["parent"], options, where)
    elif what == "filter":
        if place["classid"]:
            options += ["classid", place["classid"]]
        device.filters.append((place["parent"] or "root", options, where))


def is_mahimahi(text: str) -> bool:
    """Whether it has a command line of mahimahi."""
    return re.search(r"\bmm-(link|delay|loss|onoff)\b", text) is not None


def read_mahimahi(text: str, draft: Draft, rate: str, given: Mapping[str, str]) -> None:
    """The links of the first command line: its shells stand one in the other."""
    del rate
    for number, part, words in lines_of(text, given):
        if not any(word.startswith("mm-") for word in words):
            continue
        if draft.links:
            draft.leave(f"line {number}, {part}", "one command line of mahimahi is one experiment; this is another")
            continue
        _shells(words, draft, f"line {number}, {part}")


def _shells(words: list[str], draft: Draft, where: str) -> None:
    rest, delay, losses = list(words), 0.0, {"uplink": 0.0, "downlink": 0.0}
    names = {"uplink": "up", "downlink": "down"}
    while rest:
        word = rest.pop(0)
        if word == "mm-delay" and rest:
            delay += _number(rest.pop(0), draft, where, "delay in ms")
        elif word == "mm-loss" and len(rest) > 1:
            way = rest.pop(0)
            losses[way] = 1 - (1 - losses.get(way, 0.0)) * (1 - _number(rest.pop(0), draft, where, "loss"))
        elif word == "mm-link":
            traces: list[str] = []
            options: dict[str, str] = {}
            while (
                rest and rest[0] != "--" and not rest[0].startswith("mm-") and (len(traces) < 2 or rest[0][:2] == "--")
            ):
                one = rest.pop(0)
                if one.startswith("--"):
                    key, _, value = one[2:].partition("=")
                    options[key] = value
                else:
                    traces.append(one)
            for way, trace in zip(names, traces, strict=False):
                link = draft.link(names[way])
                _trace(draft, trace, link.keys)
                link.keys["qdisc"] = draft.queue(
                    _mahimahi_queue(options.get(f"{way}-queue", "infinite"), options.get(f"{way}-queue-args", "")), way
                )
                link.comments.append(f"{way} of mm-link {trace}")
                draft.taken.append(f"mm-link, {way}, as link {names[way]}")
        elif word.startswith("mm-") and word not in ("mm-delay", "mm-loss", "mm-link"):
            draft.leave(word, "no part of an experiment stands for this shell")
    if not draft.links:
        for name in names.values():
            draft.link(name, rate="1Gbit", qdisc=PLAIN).comments.append("the command line has no mm-link")
    draft.reverse["up"] = "down"
    draft.rtt = f"{max(2 * delay, 0.1):g}ms"
    draft.taken.append(f"mm-delay, {delay:g} ms each way, as rtt = {draft.rtt}")
    for way, loss in losses.items():
        if loss:
            draft.impairs[f"loss_{names[way]}"] = {"netem": f"loss {100 * loss:g}%", "before": names[way]}
            draft.taken.append(f"mm-loss {way} as [impair.loss_{names[way]}]")


def _number(text: str, draft: Draft, where: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        draft.leave(where, f"the {what} ({text}) is not in the script; 0 stands there, or give it with --set")
        return 0.0


def _trace(draft: Draft, trace: str, keys: Keys) -> None:
    """The file of a link's opportunities, which comes along; without it a rate that its name may say."""
    path = Path(draft.source).parent / trace
    if path.is_file():
        draft.files[path.name] = path.read_text(encoding="utf-8")
        keys["rate_trace"] = path.name
        return
    found = _NAMED_RATE.search(Path(trace).name)
    keys["rate"] = f"{found[1] or found[2]}Mbit" if found else "12Mbit"
    said = "its name says this rate" if found else "12 Mbit/s stand in its place"
    draft.leave(trace, f"there is no such file beside {draft.source}; {said}")


def _mahimahi_queue(kind: str, arguments: str) -> str:
    told = dict(one.strip().split("=", 1) for one in arguments.split(",") if "=" in one)
    limit = f"{told['packets']}" if "packets" in told else ""
    if kind in _QUEUES:
        if not limit and "bytes" in told:
            return f"bfifo limit {told['bytes']}b"
        return f"{_QUEUES[kind]} {limit or '1000'}"
    words = {"codel": (("target", "target"), ("interval", "interval")), "pie": (("qdelay_ref", "target"),)}
    if kind not in words:
        return _ENDLESS
    times = " ".join(f"{to} {told[key]}ms" for key, to in words[kind] if key in told)
    return f"{kind} {f'limit {limit}' if limit else ''} {times}".strip()


_LINK = re.compile(r"addLink\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_OPTION = re.compile(r"(\w+)\s*=\s*(?:'([^']*)'|\"([^\"]*)\"|([\w.]+))")


def is_mininet(text: str) -> bool:
    """Whether it is a script of Mininet that shapes links."""
    return _LINK.search(text) is not None


def read_mininet(text: str, draft: Draft, rate: str, given: Mapping[str, str]) -> None:
    """A link for each `addLink` that shapes, in the order of the script."""
    known = {name: a or b or c for name, a, b, c in _OPTION.findall(re.sub(r"addLink\s*\(.*", "", text))} | dict(given)
    for found in _LINK.finditer(text):
        told = {name: known.get(c, c) or a or b for name, a, b, c in _OPTION.findall(found[1])}
        ends = [one.strip().strip("'\"") for one in found[1].split(",")[:2]]
        if not {"bw", "delay", "loss", "max_queue_size"} & told.keys():
            draft.leave(found[0], "it shapes nothing")
            continue
        numbers = {key: value for key, value in told.items() if not value.isidentifier()}
        for key in told.keys() - numbers.keys() - {"cls", "use_htb", "use_tbf", "use_hfsc"}:
            draft.leave(found[0], f"{key} = {told[key]} has no value in the script; give it with --set")
        link = draft.link("-".join(ends), rate=f"{numbers['bw']}Mbit" if "bw" in numbers else rate)
        link.keys["qdisc"] = draft.queue(f"pfifo limit {numbers.get('max_queue_size', '1000')}", found[0])
        name = draft.name_of(link)
        delay = numbers.get("delay", "")
        words = [f"delay {delay}" if delay else "", f"loss {numbers['loss']}%" if "loss" in numbers else ""]
        netem = " ".join(word for word in words if word)
        if netem:
            draft.impairs[name] = {"netem": netem, "before": name, "direction": "both"}
        link.comments.append(" ".join(found[0].split()))
        draft.taken.append(f"the link of {' and '.join(ends)} as link {name}")
