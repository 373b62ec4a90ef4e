"""Random cases: a queue or a tree of them, its options and their extremes, changes while packets wait, and packets."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from l4slab import _core
from l4slab.base.errors import InputError
from l4slab.base.values import Keys, Value
from l4slab.tools.agreement.queues.cases import LINK, Case, read

_TRIES = 200
# What a person would write, so that things happen with a few hundred packets. Options that are not here are drawn from
# their whole range only.
_USUAL: dict[str, Sequence[str]] = {
    "limit": ("1", "2", "5", "20", "60", "200"),
    "target": ("200us", "1ms", "5ms", "15ms"),
    "interval": ("5ms", "20ms", "100ms"),
    "tupdate": ("1ms", "4ms", "15ms", "16ms"),
    "ce_threshold": ("0us", "300us", "1ms", "5ms"),
    "flows": ("1", "64", "1024"),
    "quantum": ("200", "1514", "3028"),
    "initial_quantum": ("1514", "15140"),
    "flow_limit": ("1", "5", "30"),
    "drop_batch": ("1", "3", "64"),
    "depth": ("2", "10", "127"),
    "maxrate": ("1mbit", "4mbit"),
    "bandwidth": ("3mbit", "8mbit", "50mbit"),
    "rtt": ("5ms", "50ms", "100ms"),
    "step_thresh": ("200us", "1ms", "5ms"),
    "min_qlen_step": ("0", "1", "5"),
    "coupling_factor": ("1", "2", "4"),
    "classic_protection": ("1%", "10%", "50%"),
    "ecn_prob": ("1", "10", "99"),
    "probability": ("0.02", "0.2", "1"),
    "min": ("3000", "9000", "20000"),
    "max": ("10000", "30000", "60000"),
    "avpkt": ("100", "1000"),
    "burst": ("3000", "8000", "40000"),
    "rate": ("2mbit", "6mbit", "30mbit"),
    "latency": ("1ms", "20ms"),
    "delay": ("100us", "3ms", "3ms 1ms"),
    "loss": ("1%", "20%"),
    "duplicate": ("5%",),
    "reorder": ("20%",),
    "memlimit": ("20000", "100000"),
    "memory_limit": ("20000", "100000"),
}
# Where a keyword has another meaning than in most queues.
_OWN: dict[tuple[str, str], Sequence[str]] = {
    ("choke", "min"): ("1", "3", "10"),
    ("choke", "max"): ("2", "6", "30"),
    ("choke", "burst"): ("1", "3", "15", "40"),
    ("sfb", "target"): ("1", "3", "10"),
    ("sfb", "max"): ("2", "5", "20"),
    ("sfb", "increment"): ("0", "0.01", "0.2", "1"),
    ("sfb", "decrement"): ("0", "0.01", "0.2"),
    ("sfb", "rehash"): ("0", "13", "50"),
    ("sfb", "db"): ("0", "5", "40"),
    ("sfb", "penalty_rate"): ("0", "100", "2000"),
    ("sfb", "penalty_burst"): ("0", "1", "10"),
    ("hhf", "hh_limit"): ("1", "2", "2048"),
    ("hhf", "reset_timeout"): ("1us", "10ms", "40ms"),
    ("hhf", "evict_timeout"): ("1us", "10ms", "100ms"),
    ("hhf", "admit_bytes"): ("1", "5000", "40000"),
    ("hhf", "non_hh_weight"): ("1", "2", "7"),
}
# Sizes in bytes where most have packets.
_BYTES = {("bfifo", "limit"): 1514, ("red", "limit"): 3000, ("tbf", "limit"): 1514, ("red", "burst"): 0}
# A corrupt packet may have lost its number, and packets of the generator are UDP and belong to no socket.
_NOT = {"corrupt", "seed", "ack-filter", "ack-filter-aggressive", "nat", "fwmark", "slot", "distribution", "perturb",
        "adaptative", "autorate-ingress", "timer_slack", "linklayer", "memory", "horizon"}  # fmt: skip
_PRIORITIES = ("pfifo_fast", "prio")
# Queues that hold classes, the usual one more often.
TREES = ("prio", "htb", "htb", "hfsc", "drr", "ets")
_CODEPOINTS = ("not-ect", "ect0", "ect1", "ce")


def draw(number: int, seed: int, among: Sequence[str] = ()) -> Case:
    """The case with this number, from 1, of a seed. `among`: the kinds of queues; default: all. Those that hold classes
    are for the root. Raises InputError.
    """
    rng = random.Random(f"queues/{seed}/{number}")  # noqa: S311
    why: Exception | None = None
    for _ in range(_TRIES):
        try:
            return read(_document(rng, among), f"case {number}")
        except (InputError, ValueError) as error:
            why = error
    raise InputError(f"no case {number} of seed {seed} is possible: {why}")


def kinds() -> list[str]:
    """Queues that simulator and kernel have."""
    return [entry["name"] for entry in _core.qdiscs() if entry["in_linux"] and entry["name"] != "pfifo_fast"]


def _document(rng: random.Random, among: Sequence[str]) -> Keys:
    # In whole bytes per second, as tc has them.
    rate = int(10 ** rng.uniform(6, 7.7)) // 8000 * 8000
    roots = [name for name in among if name in TREES]
    among = [name for name in among if name not in TREES] or kinds()
    link: Keys = {"rate": f"{rate}bit"}
    classes: dict[str, Value] = {}
    length_ms = rng.choice((20, 60, 200))
    if rng.random() < 0.7 and not roots:
        link["qdisc"] = queue(rng, rng.choice(among))
        leaves = {"qdisc": str(link["qdisc"])}
    else:
        classes = _tree(rng, link, rate, rng.choice(roots or TREES), among)
        link["class"] = classes
        leaves = {
            f"class.{name}.qdisc": str(one["qdisc"])
            for name, one in classes.items()
            if isinstance(one, dict) and "qdisc" in one
        }
        _filters(rng, link, [name.split(".")[1] for name in leaves])
    changes = rng.choice((0, 0, 0, 1, 1, 3))
    at: list[Value] = [_change(rng, leaves, classes, rate, length_ms, among) for _ in range(changes)]
    # What memory a packet with segments takes depends on the host.
    plain = bool(classes) or any(word in f"{link} {at}" for word in ("tbf", "mem"))
    # The simulator cuts them during the whole run, or never.
    changed = [str(value) for one in at if isinstance(one, dict) for key, value in one.items() if key.endswith("qdisc")]
    plain = plain or len({_core.qdisc_facts(text)["splits"] for text in (str(link["qdisc"]), *changed)}) > 1
    # Its bands by priority, which a router takes from the DSCP, are not in the model.
    has_dscp = re.search(r"\bfq\b", f"{link} {at}") is None
    trains: list[Value] = [_train(rng, rate, length_ms, plain, has_dscp) for _ in range(rng.randint(1, 6))]
    document: Keys = {"duration": f"{length_ms + 400}ms", "packets": trains, "link": {LINK: link}}
    return document | ({"at": sorted(at, key=_time)} if at else {})


def _part(rate: int, part: float) -> str:
    return f"{int(rate * part) // 8000 * 8000 or 8000}bit"


def _time(change: Value) -> float:
    return float(str(change["time"]).removesuffix("us")) if isinstance(change, dict) else 0.0


def queue(rng: random.Random, name: str) -> str:
    """Words of a queue that the core reads."""
    entry = next(one for one in _core.qdiscs() if one["name"] == name)
    required = entry["required"].split()
    possible = {one["keyword"] for one in entry["parameters"] if one["in_linux"]} - _NOT
    for _ in range(_TRIES):
        words = [name]
        samples = [text.split() for text in _core.qdisc_samples(name, rng.getrandbits(60))]
        wanted = [keyword for keyword, *_ in samples if keyword in required]
        wanted += rng.sample(sorted(possible), min(rng.choice((0, 1, 2, 3, 5)), len(possible)))
        # What a limit does is what most changes are about.
        if "limit" in possible and rng.random() < 0.4:
            wanted.append("limit")
        for keyword, *value in samples:
            if keyword not in wanted:
                continue
            usual = _usual(rng, name, keyword)
            words += [keyword, *(usual.split() if usual and rng.random() < 0.8 else value)]
        try:
            # The kernel may let packets of fq wait for so much longer.
            text = " ".join([*words, *(["timer_slack", "0"] if name == "fq" else [])])
            _core.canonical_qdisc(text)
        except ValueError:
            continue
        return text
    return f"{name} {' '.join(required)}".strip()


def _usual(rng: random.Random, name: str, keyword: str) -> str:
    if (values := _OWN.get((name, keyword), _USUAL.get(keyword))) is None:
        return ""
    value = rng.choice(values)
    unit = _BYTES.get((name, keyword), 1)
    if unit == 0:
        return str(rng.choice((5, 20, 55)))
    return str(int(value) * unit) if unit > 1 and value.isdigit() else value


def _tree(rng: random.Random, link: Keys, rate: int, root: str, among: Sequence[str]) -> dict[str, Value]:
    def leaf() -> str:
        return queue(rng, rng.choice(among))

    if root == "prio":
        bands = rng.randint(2, 4)
        priomap = [rng.randrange(bands) for _ in range(16)]
        link["qdisc"] = f"prio bands {bands} priomap {' '.join(map(str, priomap))}"
        return {str(n + 1): {"qdisc": leaf()} for n in range(bands)}
    if root in ("drr", "ets"):
        names = ("1", "2", "3", "4")[: rng.randint(1, 4)]
        quanta = [rng.choice((70, 500, 1514, 6000)) for _ in names]
        if root == "drr":
            link["qdisc"] = "drr"
            return {name: {"quantum": f"{n}B", "qdisc": leaf()} for name, n in zip(names, quanta, strict=True)}
        strict = rng.randint(0, len(names))
        lists = {
            "quanta": quanta[: rng.randint(0, len(names) - strict)],
            "priomap": [rng.randrange(len(names)) for _ in range(rng.randint(0, 16))],
        }
        words = [f"{key} {' '.join(map(str, values))}" for key, values in lists.items() if values]
        link["qdisc"] = " ".join([f"ets bands {len(names)} strict {strict}", *words])
        return {name: {"qdisc": leaf()} for name in names}
    link["qdisc"] = f"{root} default 10"
    found: dict[str, Value] = {}
    parent = rng.random() < 0.5
    if parent:
        found["1"] = {"rate": _part(rate, rng.choice((0.5, 0.9)))} if root == "htb" else {"curves": _curves(rng, rate)}
    for name in ("10", "20", "30")[: rng.randint(1, 3)]:
        one: Keys = {"qdisc": leaf()}
        found[name] = one
        if parent:
            one["parent"] = "1"
        if root == "hfsc":
            one["curves"] = _curves(rng, rate)
            continue
        one["rate"] = _part(rate, rng.uniform(0.05, 0.9))
        if rng.random() < 0.5:
            one["ceil"] = f"{rate}bit"
        if rng.random() < 0.4:
            one["prio"] = rng.randint(0, 3)
        if rng.random() < 0.4:
            one["quantum"] = f"{rng.choice((1000, 1514, 6000))}B"
        if rng.random() < 0.4:
            one["burst"], one["cburst"] = (f"{rng.choice((1514, 1600, 5000, 20000))}B" for _ in range(2))
    return found


def _curves(rng: random.Random, rate: int) -> str:
    """Of a class of hfsc."""

    def curve() -> str:
        slope, first = (_part(rate, rng.uniform(0.02, 0.9)) for _ in range(2))
        ms = rng.choice((1, 5, 30))
        forms = (f"rate {slope}", f"m1 {first} d {ms}ms m2 {slope}", f"m1 0bit d {ms}ms m2 {slope}")
        return rng.choice((*forms, f"umax {rng.choice((300, 1514, 6000))} dmax {ms}ms rate {slope}"))

    kinds_of = rng.choice((("sc",), ("ls",), ("rt",), ("rt", "ls"), ("sc", "ul"), ("ls", "ul"), ("rt", "ls", "ul")))
    return " ".join(f"{kind} {curve()}" for kind in kinds_of)


def _filters(rng: random.Random, link: Keys, leaves: Sequence[str]) -> None:
    filters: list[Value] = []
    for _ in range(rng.randint(0, 3)):
        one: Keys = {"class": rng.choice(leaves)}
        if rng.random() < 0.6:
            one["ecn"] = rng.choice(_CODEPOINTS)
        if rng.random() < 0.5 or len(one) == 1:
            one["dscp"] = rng.choice(("cs1", "ef", "af41"))
        filters.append(one)
    if link["qdisc"] == "drr" and rng.random() < 0.8:
        filters.append({"class": rng.choice(leaves)})
    if filters:
        link["filter"] = filters


def _change(
    rng: random.Random,
    leaves: dict[str, str],
    classes: dict[str, Value],
    rate: int,
    length_ms: int,
    among: Sequence[str],
) -> Keys:
    when = f"{rng.randint(1000, length_ms * 1000)}us"
    numbers = [name for name, one in classes.items() if isinstance(one, dict) and "rate" in one]
    quanta = [name for name, one in classes.items() if isinstance(one, dict) and set(one) == {"quantum", "qdisc"}]
    curves = [name for name, one in classes.items() if isinstance(one, dict) and "curves" in one]
    if curves and rng.random() < 0.4:
        return {"time": when, f"link.{LINK}.class.{rng.choice(curves)}.curves": _curves(rng, rate)}
    if quanta and rng.random() < 0.3:
        return {"time": when, f"link.{LINK}.class.{rng.choice(quanta)}.quantum": f"{rng.choice((70, 800, 4000))}B"}
    if numbers and rng.random() < 0.4:
        new = _part(rate, rng.uniform(0.05, 0.9))
        name = rng.choice(numbers)
        return {"time": when, f"link.{LINK}.class.{name}.rate": new, f"link.{LINK}.class.{name}.ceil": f"{rate}bit"}
    if not classes and rng.random() < 0.2:
        return {"time": when, f"link.{LINK}.rate": _part(rate, rng.choice((0.3, 2)))}
    where, before = rng.choice(sorted(leaves.items()))
    kind = before.split()[0] if rng.random() < 0.75 else rng.choice(among)
    leaves[where] = queue(rng, kind)
    return {"time": when, f"link.{LINK}.{where}": leaves[where]}


def _train(rng: random.Random, rate: int, length_ms: int, plain: bool, has_dscp: bool) -> str:
    """`plain`: of IPv4, as filters and priorities are, and without segments, which the simulator cuts for all classes
    or none.
    """
    size = rng.choice((64, 200, 590, 1514, 1514, rng.randint(70, 1514)))
    at = rng.randint(1000, length_ms * 700) + rng.random()
    count = int(10 ** rng.uniform(0, 2.4))
    # From a burst to half the rate of the link.
    gap = rng.choice((0.0, 0.2, 0.7, 1.0, 2.0)) * size * 8e6 / rate
    words = [str(count), f"at {at:.3f}us"]
    if count > 1:
        words.append(f"every {max(gap * rng.uniform(0.9, 1.1), 0):.3f}us")
    ip = "6" if not plain and rng.random() < 0.2 else "4"
    if not plain and rng.random() < 0.08:
        segment = rng.choice((500, 1400))
        size = segment * rng.randint(2, 20) + (62 if ip == "6" else 42) + rng.randint(8, segment - 1)
        words.append(f"segment {segment}B")
    flow = rng.choice((4, 5)) if ip == "6" else rng.choice((0, 0, 1, 2, 3))
    words += [f"size {max(size, 70)}B", f"flow {flow}"]
    words.append(f"ecn {rng.choice((*_CODEPOINTS[:3] * 3, *_CODEPOINTS))}")
    if has_dscp and rng.random() < 0.3:
        words.append(f"dscp {rng.choice((8, 46, 34, 10, 63))}")
    if ip == "6":
        words.append("ip 6")
    return " ".join(words)
