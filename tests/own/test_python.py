"""Controllers and queues in Python: their laws in closed form, and what is said of mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import l4slab
import pytest
from l4slab import experimentfile, sweep
from l4slab.cli import main
from l4slab.own.files import used
from l4slab.own.worker import MEMORY

Folder = Callable[..., Path]

AIMD = (files("l4slab.own") / "templates" / "controller.py").read_text().replace("CLASS", "Mine")

EVERY = """
from collections import deque

from l4slab.own import Link, Packet, Queue, gauge, whole


class Every(Queue):
    \"\"\"First in, first out; gives every so manieth packet up, or marks it.\"\"\"

    limit = whole(1000, "packets that it holds", least=1)
    period = whole(0, "one of so many packets; 0: none")
    seen = gauge("packets so far")

    def __init__(self) -> None:
        self.waiting: deque[Packet] = deque()
        self.seen = 0

    def enqueue(self, packet: Packet, link: Link) -> None:
        self.seen += 1
        if len(self.waiting) >= self.limit:
            link.drop(packet, overflow=True)
        elif self.period and self.seen % self.period == 0 and not link.mark(packet):
            link.drop(packet)
        else:
            self.waiting.append(packet)

    def dequeue(self, link: Link) -> Packet | None:
        return self.waiting.popleft() if self.waiting else None
"""


@pytest.mark.parametrize(
    ("increase", "beta", "ecn"), [(1.0, 0.5, "off"), pytest.param(2.0, 0.8, "classic", marks=pytest.mark.slow)]
)
def test_the_window_of_an_aimd_follows_the_law(experiment: Folder, increase: float, beta: float, ecn: str) -> None:
    # Under periodic losses or marks the window is a sawtooth from beta W to W, whose area is 1 / p: its mean is
    # sqrt(increase (1 + beta) / (2 (1 - beta) p)), which is sqrt(3/2 / p) for Reno (Mathis et al. 1997).
    period = 40_000
    options = f'ecn = "{ecn}"\noptions = {{ increase = {increase}, beta = {beta} }}\n'
    file = experiment(
        {"mine.py": AIMD, "every.py": EVERY}, options,
        duration="60s", warmup="20s", rate="1Gbit", rtt="20ms",
        cc="mine.py:Mine", qdisc=f"every.py:Every period {period}",
    )  # fmt: skip
    flow = l4slab.run(file).flows.row(0, named=True)
    window = flow["goodput_mbps"] * 1e6 / 8 / 1448 * flow["rtt_ms_mean"] / 1e3
    assert window == pytest.approx(math.sqrt(increase * (1 + beta) / (2 * (1 - beta)) * period), rel=0.03)
    share = "drop_pct" if ecn == "off" else "ce_pct"
    assert flow[share] == pytest.approx(100 / period, rel=0.05)


def test_an_aimd_that_is_reno_is_told_apart_from_it_by_nothing_but_its_name(experiment: Folder) -> None:
    results = {}
    for cc in ("mine.py:Mine", "reno"):
        file = experiment({"mine.py": AIMD}, duration="40s", qdisc="pfifo limit 20", cc=cc)
        flow = l4slab.run(file).flows.row(0, named=True)
        results[cc] = [flow[name] for name in ("goodput_mbps", "rtt_ms_mean", "sent_packets", "drop_pct")]
    assert results["mine.py:Mine"][:3] == pytest.approx(results["reno"][:3], rel=0.03)
    # Some 200 losses.
    assert results["mine.py:Mine"][3] == pytest.approx(results["reno"][3], rel=0.2)


def test_options_and_words_are_read_recorded_and_part_of_the_run(experiment: Folder, tmp_path: Path) -> None:
    file = experiment(
        {"mine.py": AIMD, "every.py": EVERY},
        "options = { beta = 0.7 }\n",
        cc="mine.py:Mine",
        qdisc="every.py:Every period 0",
    )
    (run,) = sweep.expand(experimentfile.load(file), "sim").runs
    assert run.description["flows"][0]["options"] == {"increase": "1", "beta": "0.7"}
    reference, words = run.description["links"][0]["qdisc"].split(" ", 1)
    assert (reference.partition("#")[0], words) == ("every.py:Every", "limit 1000 period 0")

    results = l4slab.run(file, tmp_path / "out")
    assert set(results.flows["cc"]) == {"mine.py:Mine"}
    series = results.series
    assert 0 <= series["credit"].drop_nulls().max() < 1
    assert series["seen"].drop_nulls().max() > 1000
    # The folder has the files, so that its report can be written again, also without the originals.
    (tmp_path / "mine.py").unlink()
    assert l4slab.open(tmp_path / "out").flows.equals(results.flows)
    assert (tmp_path / "out" / "experiments" / "mine.py").read_text() == AIMD
    assert main(["report", str(tmp_path / "out")]) == 0


def test_a_queue_of_ones_own_comes_into_a_class_while_it_runs(experiment: Folder) -> None:
    change = '[link.bottleneck.class.1]\nrate = "5Mbit"\nqdisc = "pfifo"\n'
    change += '[[at]]\ntime = "1s"\n"link.bottleneck.class.1.qdisc" = "every.py:Every limit 3"\n'
    file = experiment({"every.py": EVERY}, change, qdisc="htb default 1")
    (run,) = sweep.expand(experimentfile.load(file), "sim").runs
    assert [one.file for one in used(run.description)] == ["every.py"]
    backlog = l4slab.run(file).series.filter(queue="1").sort("time_s")["backlog_packets"]
    assert backlog[9] > 3
    assert 0 < max(backlog[10:]) <= 3


def test_other_words_for_a_queue_of_ones_own_keep_what_waits(experiment: Folder) -> None:
    udp = '[[flow]]\nname = "u"\nkind = "cbr"\nrate = "15Mbit"\nrtt = "10ms"\n'
    change = '[[at]]\ntime = "1s"\n"link.bottleneck.qdisc" = "every.py:Every limit 90"\n'
    file = experiment({"every.py": EVERY}, udp + change, qdisc="every.py:Every limit 50 period 0")
    (run,) = sweep.expand(experimentfile.load(file), "sim").runs
    # What is not named stays.
    assert run.description["at"][0]["qdisc"].partition(" ")[2] == "limit 90"
    results = l4slab.run(file)
    link = results.links.row(0, named=True)
    assert link["dropped_packets"] == link["dropped_overflow_packets"] > 0
    backlog = results.series.filter(queue="all").sort("time_s")["backlog_packets"]
    assert min(backlog[5:]) > 40
    assert max(backlog[:10]) <= 50 < max(backlog[10:]) <= 90


def test_the_same_run_gives_the_same_bits_and_another_content_another_run(experiment: Folder) -> None:
    keys = {"cc": "mine.py:Mine", "qdisc": "every.py:Every"}
    file = experiment({"mine.py": AIMD, "every.py": EVERY}, **keys)
    (first,) = sweep.expand(experimentfile.load(file), "sim").runs
    once, again = l4slab.run(file), l4slab.run(file, workers=1)
    assert once.flows.equals(again.flows)
    assert once.series.equals(again.series)
    file = experiment({"mine.py": AIMD.replace("/ window.cwnd", "/ window.cwnd / 1"), "every.py": EVERY}, **keys)
    (second,) = sweep.expand(experimentfile.load(file), "sim").runs
    assert first.id != second.id


IMPORTS = AIMD.replace("from l4slab.own", "from growth import growth\nfrom l4slab.own", 1).replace(
    "self.increase * acked / window.cwnd", "growth(self.increase * acked, window.cwnd)"
)
GROWTH = "import factor\ndef growth(acked, cwnd):\n    return factor.FACTOR * acked / cwnd\n"


def test_the_modules_beside_a_file_that_it_imports_are_part_of_the_run(experiment: Folder, tmp_path: Path) -> None:
    keys = {"cc": "mine.py:Mine", "qdisc": "pfifo limit 20"}
    files = {"mine.py": AIMD, "growth.py": GROWTH, "factor.py": "FACTOR = 1\n", "idle.py": "nothing imports this"}
    alone = l4slab.run(experiment(files, **keys))
    file = experiment({"mine.py": IMPORTS}, **keys)
    (first,) = sweep.expand(experimentfile.load(file), "sim").runs
    (own,) = used(first.description)
    assert list(own.modules) == ["factor.py", "growth.py"]
    results = l4slab.run(file, tmp_path / "out")
    assert results.series["cwnd_packets"].equals(alone.series["cwnd_packets"])
    kept = {path.name for path in (tmp_path / "out" / "experiments").glob("*.py")}
    assert kept == {"mine.py", "growth.py", "factor.py"}
    # The worker that has run the first has imported the module already.
    file = experiment({"factor.py": "FACTOR = 2\n"}, **keys)
    (second,) = sweep.expand(experimentfile.load(file), "sim").runs
    assert first.id != second.id
    assert not l4slab.run(file).series["cwnd_packets"].equals(results.series["cwnd_packets"])


LAWS = {
    "laws/__init__.py": "from .steps import *\n",
    "laws/steps.py": "from laws import base\n\n\ndef growth(acked, cwnd):\n    return base.law(acked, cwnd)\n",
    "laws/base/__init__.py": "from .. import factor\nfrom .deep.inside import part\n\n\ndef law(acked, cwnd):\n"
    "    return factor.FACTOR * part(acked, cwnd)\n",
    "laws/factor.py": "FACTOR = 1\n",
    "laws/base/deep/inside.py": "def part(acked, cwnd):\n    return acked / cwnd\n",  # a folder without __init__.py
    "laws/idle.py": "nothing imports this",
}


@pytest.mark.parametrize("statement", ["import laws", "from laws.steps import growth", "import laws.steps as laws"])
def test_packages_beside_a_file_are_part_of_the_run(experiment: Folder, tmp_path: Path, statement: str) -> None:
    for name in LAWS:
        (tmp_path / "own" / name).parent.mkdir(parents=True, exist_ok=True)
    name = "growth" if "growth" in statement else "laws.growth"
    mine = IMPORTS.replace("from growth import growth", statement).replace("growth(self", f"{name}(self")
    keys = {"cc": "own/mine.py:Mine", "qdisc": "pfifo limit 20"}
    file = experiment({"own/mine.py": mine} | {f"own/{path}": text for path, text in LAWS.items()}, **keys)
    (first,) = sweep.expand(experimentfile.load(file), "sim").runs
    (own,) = used(first.description)
    assert set(own.modules) == {f"own/{path}" for path in LAWS} - {"own/laws/idle.py"}
    results = l4slab.run(file, tmp_path / "out")
    alone = l4slab.run(experiment({"mine.py": AIMD}, **keys | {"cc": "mine.py:Mine"}))
    assert results.series["cwnd_packets"].equals(alone.series["cwnd_packets"])
    # The folder has them all, so it can be run again elsewhere.
    assert (tmp_path / "out/experiments/own/laws/base/deep/inside.py").is_file()
    file = experiment({"own/laws/factor.py": "FACTOR = 2\n"}, **keys)
    (second,) = sweep.expand(experimentfile.load(file), "sim").runs
    assert first.id != second.id
    assert not l4slab.run(file).series["cwnd_packets"].equals(results.series["cwnd_packets"])


def test_what_cannot_be_imported_is_a_sentence(experiment: Folder, tmp_path: Path) -> None:
    file = experiment({"mine.py": IMPORTS, "growth.py": "from nowhere import it"}, cc="mine.py:Mine")
    with pytest.raises(
        l4slab.InputError, match=r"No module named 'nowhere'; put nowhere\.py beside mine\.py, or install it"
    ):
        sweep.expand(experimentfile.load(file), "sim")
    (tmp_path / "laws").mkdir()
    file = experiment(
        {"mine.py": IMPORTS.replace("growth", "laws.nowhere", 1), "laws/__init__.py": ""}, cc="mine.py:Mine"
    )
    with pytest.raises(l4slab.InputError, match=r"'laws\.nowhere'; put laws/nowhere\.py beside mine\.py"):
        sweep.expand(experimentfile.load(file), "sim")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "growth.py").write_text(GROWTH.replace("import factor", f"# {folder}"))
    file = experiment(
        {"a/mine.py": IMPORTS, "b/mine.py": EVERY + "import growth"}, cc="a/mine.py:Mine", qdisc="b/mine.py:Every"
    )
    with pytest.warns(UserWarning, match="1 run failed"):
        ((_, reason),) = l4slab.run(file).failures
    assert "growth.py and a/growth.py are different modules of one name in one run" in reason or (
        "growth.py and b/growth.py are different modules of one name in one run" in reason
    )


HEAD = "from l4slab.own import *\n"
CONTROLLER = HEAD + (
    "class Mine(Controller):\n"
    "    def on_ack(self, ack, window):\n"
    "        {0}\n"
    "    def on_congestion(self, why, now_ns, window):\n"
    "        pass\n"
)
QUEUE = HEAD + (
    "class Mine(Queue):\n"
    "    def __init__(self):\n"
    "        self.waiting = []\n"
    "    def enqueue(self, packet, link):\n"
    "        self.waiting.append(packet)\n"
    "    def dequeue(self, link):\n"
    "        {0}\n"
)

REFUSED = {
    "class Mine(:\n": "mine.py, line 1: SyntaxError: invalid syntax",
    "import nothere\n": (
        "mine.py, line 1, in <module>: ModuleNotFoundError: No module named 'nothere'; "
        "put nothere.py beside mine.py, or install it"
    ),
    HEAD + "class Mine: pass\n": "mine.py:Mine is no controller; write class Mine(Controller), from l4slab.own",
    HEAD + "class Mini(Controller): pass\n": 'mine.py has no controller Mine; did you mean "Mini"?',
    HEAD + "class Mine(Controller):\n    def on_ack(self, ack, window): pass\n": (
        "mine.py:Mine has no on_congestion; define it: def on_congestion(self, why, now_ns, window)"
    ),
    CONTROLLER.format("pass").replace("why, now_ns, ", ""): (
        "mine.py:Mine: on_congestion does not take the 3 arguments that it is called with; define it: "
        "def on_congestion(self, why, now_ns, window)"
    ),
    CONTROLLER.format("pass") + "    beta = number(3, 'h', 0, 1)\n": (
        'mine.py:Mine: the default "3" of beta is refused; it takes a number from 0 to 1'
    ),
    CONTROLLER.format("pass") + "    def __init__(self, a): pass\n": (
        "mine.py:Mine: __init__ is called without arguments, and takes some; declare parameters as attributes of the "
        'class, such as number(0.5, "help")'
    ),
    CONTROLLER.format("pass") + "    flow = gauge('h')\n": (
        'mine.py:Mine: the gauge "flow" is the name of a column that every time series has; choose another name'
    ),
    CONTROLLER.format("pass") + "    sent_packets = gauge('h')\n": (
        'mine.py:Mine: the gauge "sent_packets" is the name of a column that every time series has; choose another name'
    ),
    CONTROLLER.format("pass") + "    def on_lost(self): pass\n": (
        "mine.py:Mine: on_lost does not take the 1 arguments that it is called with; define it: def on_lost(self, lost)"
    ),
    CONTROLLER.format("pass") + "    ecn = 'l4s'\n": (
        'mine.py:Mine: ecn = \'l4s\' is refused; it is "off", "classic" or "accecn"'
    ),
}


@pytest.mark.parametrize("source", REFUSED, ids=range(len(REFUSED)))
def test_a_class_that_cannot_be_used_is_a_sentence(
    experiment: Folder, capsys: pytest.CaptureFixture[str], source: str
) -> None:
    file = experiment({"mine.py": source}, cc="mine.py:Mine")
    assert main(["run", str(file), "--dry-run"]) == 2
    said = capsys.readouterr().err
    assert said == f'l4slab: {file}:9:1: flow "a": cc = "mine.py:Mine": {REFUSED[source]}\n'


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"cc": "other.py:Mine"}, 'flow "a": cc = "other.py:Mine": there is no file {0}/other.py; look at its name'),
        ({"cc": "../mine.py:Mine"}, 'cc = "../mine.py:Mine": it has to be beside the experiment file'),
        ({"cc": "mine.py"}, 'cc = "mine.py": mine.py is named without its class; write mine.py:Mine'),
        ({"qdisc": "mine.py:Mine"}, 'link.bottleneck.qdisc = "mine.py:Mine": mine.py:Mine is no queue; write class'),
        ({"qdisc": "bands.py:Bands"}, 'bands.py:Bands: the band "all" is there already; give it another name'),
        ({"qdisc": "every.py:Every periods 1"}, 'every.py:Every has no keyword "periods"; did you mean "period"?'),
        ({"qdisc": "every.py:Every limit 0"}, 'limit "0" is refused; it takes a whole number from 1 to'),
    ],
)
def test_a_wrong_name_or_word_is_a_sentence(experiment: Folder, keys: dict[str, str], said: str) -> None:
    sources = {"mine.py": CONTROLLER.format("pass"), "every.py": EVERY}
    sources["bands.py"] = QUEUE.format("pass").replace("Mine", "Bands") + "    bands = ('L', 'all')\n"
    file = experiment(sources, **keys)
    with pytest.raises(l4slab.InputError) as error:
        l4slab.run(file)
    assert said.format(file.parent) in str(error.value)


FAILS = {
    "self.n = getattr(self, 'n', 0) + 1; 1 / (10 - self.n)": (
        "mine.py, line 4, in on_ack: ZeroDivisionError: division by zero"
    ),
    "window.cwnd = 2 * 0.75": (
        "mine.py, line 4, in on_ack: TypeError: window.cwnd = 1.5: it is a whole number from 1 to 1000000; write int(…)"
    ),
    "while True: pass": (
        "mine.py, line 4, in on_ack: a call has not returned after 3 s of processor time; look for a loop without end"
    ),
    # It does not touch what it takes.
    "self.kept = [*getattr(self, 'kept', []), bytes(1 << 30)]": (
        f"mine.py, line 4, in on_ack: MemoryError: it has taken the {MEMORY / 2**30:.1f} GiB that it may take; "
        "look for what grows without end"
    ),
    "return window.cwnd + 1": "mine.py:Mine: on_ack gave 11; it returns nothing and sets window.cwnd",
    "self.g = 'much'\n    g = gauge('h')": "mine.py:Mine: the gauge g is 'much'; it is a number or None",
    "import os; os._exit(0)": "mine.py:Mine ended its process",
    "import ctypes; ctypes.string_at(0)": "mine.py, line 4, in on_ack: it made its process die of SIGSEGV",
}


@pytest.mark.slow
def test_a_call_that_waits_for_ever_is_ended_though_it_uses_no_processor(experiment: Folder) -> None:
    file = experiment({"mine.py": CONTROLLER.format("import time; time.sleep(1e6)")}, cc="mine.py:Mine")
    with pytest.warns(UserWarning, match="1 run failed"):
        ((_, reason),) = l4slab.run(file).failures
    assert reason == "mine.py, line 4, in on_ack: a call has not returned after 30 s; look for what it waits for"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(body, marks=pytest.mark.slow if "while True" in body else (), id=str(i))
        for i, body in enumerate(FAILS)
    ],
)
def test_what_goes_wrong_takes_its_run_with_it_and_no_other(experiment: Folder, body: str) -> None:
    both = {"mine.py": CONTROLLER.format(body), "good.py": AIMD}
    file = experiment(both, '[sweep]\nwhose = ["mine", "good"]\n', cc="{whose}.py:Mine")
    with pytest.warns(UserWarning, match="1 run failed"):
        results = l4slab.run(file)
    assert [reason for _, reason in results.failures] == [FAILS[body]]
    assert list(results.flows["cc"]) == ["good.py:Mine"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 3", "mine.py:Mine: dequeue gave 3; it gives a Packet or None"),
        ("return self.waiting[0]", "mine.py:Mine: dequeue: this packet is not in the queue any more"),
        (
            "link.drop(self.waiting[0]); link.mark(self.waiting[0])",
            "mine.py, line 8, in dequeue: ValueError: mark: this",
        ),
        ("self.waiting[0].band = 'L'", 'packet.band = "L": the queue\'s bands are none; write bands = ('),
        (
            "self.waiting[0].band = 'L'\n    bands = ('C', 'L')",
            "packet.band: enqueue says the band of a packet, once and for all",
        ),
        ("return None\n    def next_timer(self): return 7\n    def on_timer(self, link): pass", "wants its timer at"),
    ],
)
def test_a_queue_that_loses_count_is_a_sentence(experiment: Folder, body: str, said: str) -> None:
    file = experiment({"mine.py": QUEUE.format(body)}, qdisc="mine.py:Mine")
    with pytest.warns(UserWarning, match="1 run failed"):
        ((_, reason),) = l4slab.run(file).failures
    assert said in reason


TWO = """
from collections import deque

from l4slab.own import Link, Packet, Queue


class Two(Queue):
    \"\"\"ECT(1) first; what is too much for one of the two is dropped.\"\"\"

    bands = ("C", "L")

    def __init__(self) -> None:
        self.waiting: dict[str | None, deque[Packet]] = {"C": deque(), "L": deque()}

    def enqueue(self, packet: Packet, link: Link) -> None:
        if packet.ecn == "ect1":
            packet.band = "L"
        self.waiting[packet.band].append(packet)
        if len(self.waiting[packet.band]) > 20:
            link.drop(self.waiting[packet.band].popleft(), overflow=True)

    def dequeue(self, link: Link) -> Packet | None:
        waiting = self.waiting["L"] or self.waiting["C"]
        return waiting.popleft() if waiting else None
"""

UDP = """
[[flow]]
name = "{0}"
kind = "cbr"
rate = "{1}"
ecn = "{2}"
rtt = "10ms"
"""


def test_the_queues_inside_are_reported_apart(experiment: Folder) -> None:
    # Something is left for C.
    flows = 'pace = "3Mbit"\n' + UDP.format("l", "4Mbit", "ect1") + UDP.format("c", "8Mbit", "not-ect")
    file = experiment({"two.py": TWO}, flows, duration="4s", qdisc="two.py:Two", cc="prague")
    results = l4slab.run(file)
    links = {row["queue"]: row for row in results.links.iter_rows(named=True)}
    assert set(links) == {"all", "C", "L"}
    by_flow = {row["flow"]: row for row in results.flows.iter_rows(named=True)}
    # Whose data is ECT(1) goes to L, but for the handshake.
    assert links["L"]["sent_packets"] == pytest.approx(
        by_flow["l"]["delivered_packets"] + by_flow["a"]["delivered_packets"], abs=25
    )
    assert links["C"]["dropped_packets"] == by_flow["c"]["dropped_packets"] > 0
    assert links["L"]["sojourn_ms_p50"] < links["C"]["sojourn_ms_p50"]
    for count in ("arrived_packets", "sent_packets", "dropped_packets"):
        assert links["all"][count] == links["C"][count] + links["L"][count]


LOSSES = """
from l4slab.own import Ack, Congestion, Controller, Lost, Window, gauge


class Losses(Controller):
    \"\"\"Slow start, then half for losses; counts what it hears.\"\"\"

    heard = gauge("segments found lost that it was told one by one")
    told = gauge("the same by ACKs")
    most = gauge("the most that were in flight when a segment left that was lost")
    flight = gauge("the same, of the newest segment acknowledged")

    def __init__(self) -> None:
        self.heard = self.told = self.most = self.flight = 0

    def on_ack(self, ack: Ack, window: Window) -> None:
        self.told = ack.lost_total
        self.flight = max(self.flight, ack.rate_tx_in_flight)
        if ack.may_grow and window.slow_start(ack.acked):
            window.cwnd += 1

    def on_lost(self, lost: Lost) -> None:
        assert lost.now_ns > 0 and lost.lost > 0
        self.heard += 1
        self.most = max(self.most, lost.tx_in_flight)

    def on_congestion(self, why: Congestion, now_ns: int, window: Window) -> None:
        window.ssthresh = max(window.cwnd // 2, 2)
"""


def test_each_segment_that_is_found_lost_is_told(experiment: Folder) -> None:
    file = experiment({"losses.py": LOSSES}, duration="5s", qdisc="pfifo limit 20", cc="losses.py:Losses")
    last = l4slab.run(file).series.drop_nulls("heard").row(-1, named=True)
    assert last["heard"] == last["told"] > 10
    # A window that fills the path of 8 packets and the queue of 20.
    assert 28 <= last["most"] <= 2 * 28 + 10
    assert 28 <= last["flight"] <= 2 * 28 + 10


def test_the_kernel_cannot_run_it(experiment: Folder) -> None:
    file = experiment({"mine.py": AIMD}, cc="mine.py:Mine")
    with pytest.raises(l4slab.InputError, match=r"mine\.py:Mine is code for the simulator, which no kernel can run"):
        l4slab.run(file, engine="linux")


def test_nothing_of_it_runs_in_the_process_that_plans(experiment: Folder) -> None:
    source = "import os\nassert os.environ.get('PYTHONHASHSEED') == '0', 'not a worker'\n" + CONTROLLER.format("pass")
    file = experiment({"mine.py": source}, cc="mine.py:Mine")
    (run,) = sweep.expand(experimentfile.load(file), "sim").runs
    (own,) = used(run.description)
    assert (own.name, own.file) == ("mine.py:Mine", "mine.py")


def test_a_listing_has_its_parameters_and_gauges(experiment: Folder, capsys: Any) -> None:
    file = experiment({"mine.py": AIMD})
    assert main(["list", str(file.parent / "mine.py")]) == 0
    said = capsys.readouterr().out
    for text in ("mine.py:Mine", "Additive increase, multiplicative decrease", "beta NUMBER", "credit"):
        assert text in said
    assert "a number from 0.1 to 0.9 (default 0.5)" in said
