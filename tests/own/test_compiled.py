"""Controllers and queues in C and Rust: what `l4slab new` writes, their laws, and libraries that cannot be used."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import l4slab
import polars as pl
import pytest
from l4slab.cli import main

from . import test_python

Folder = Callable[..., Path]

INCLUDE = str(files("l4slab.own") / "include")

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
needs_cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason="no cargo")


def build(source: str, library: Path) -> None:
    """Compile C, without a warning."""
    file = library.with_suffix(".c")
    file.write_text(source)
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-I{INCLUDE}"]
    subprocess.run(["cc", *flags, "-o", library, file], check=True)


def template(name: str) -> str:
    return (files("l4slab.own") / "templates" / name).read_text().replace("NAME", "mine")


@pytest.mark.parametrize("what", ["controller", pytest.param("media", marks=pytest.mark.slow), "queue"])
@pytest.mark.parametrize(
    "language",
    ["python", pytest.param("c", marks=needs_cc), pytest.param("rust", marks=[needs_cargo, pytest.mark.slow])],
)
def test_what_is_written_works_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], what: str, language: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", what, f"--{language}", "my_own"]) == 0
    said = capsys.readouterr().out
    commands = said.partition("go on with: ")[2].strip().split(" && ")
    assert commands[0] == "cd my_own"
    for command in commands[1:-1]:
        words = command.replace("python3", sys.executable).split()
        done = subprocess.run(words, cwd=tmp_path / "my_own", check=True, capture_output=True, text=True)
    assert done.stdout.count("by the law") == 2
    assert commands[-1] == "l4slab run my_own.toml"
    assert main(["run", "my_own/my_own.toml", "--dry-run"]) == 0
    assert main(["new", what, f"--{language}", "my_own"]) == 2
    assert "is there already and is left alone" in capsys.readouterr().err


SCALABLE = """
from l4slab.own import Ack, Congestion, Controller, Window


class Scalable(Controller):
    \"\"\"Half a segment less for each mark, one more per round trip.\"\"\"

    ecn = "accecn"
    governs_window = True

    def __init__(self) -> None:
        self.window = 10.0

    def on_ack(self, ack: Ack, window: Window) -> None:
        self.window += ack.acked / self.window - 0.5 * ack.ce
        self.window = max(self.window, 2.0)
        window.cwnd = int(self.window)

    def on_congestion(self, why: Congestion, now_ns: int, window: Window) -> None:
        window.ssthresh = window.cwnd
"""


@needs_cc
def test_the_marks_of_a_step_in_c_follow_the_law_of_a_scalable_flow(experiment: Folder, tmp_path: Path) -> None:
    # Where the window neither grows nor shrinks in the long run, half a segment per mark takes away what 1 / W per ACK
    # adds: two marks per round trip, p = 2 / W, whatever pattern the marks have.
    build(template("queue.c"), tmp_path / "libstep.so")
    file = experiment(
        {"scalable.py": SCALABLE}, duration="40s", warmup="10s", rate="50Mbit", rtt="20ms",
        cc="scalable.py:Scalable", qdisc="./libstep.so:limit 1000 threshold 2ms",
    )  # fmt: skip
    results = l4slab.run(file)
    flow = results.flows.row(0, named=True)
    cwnd = results.series.filter(pl.col("flow") == "a", pl.col("time_s") > 10)["cwnd_packets"].mean()
    # What is cut off to whole segments is half of one on average.
    assert flow["ce_pct"] / 100 == pytest.approx(2 / (cwnd + 0.5), rel=0.01)
    assert flow["sojourn_ms_mean"] < 2
    assert results.series["step_marks"].drop_nulls().max() > 1000


@needs_cc
def test_other_words_for_a_queue_in_c_keep_what_waits(experiment: Folder, tmp_path: Path) -> None:
    build(template("queue.c"), tmp_path / "libstep.so")
    udp = '[[flow]]\nname = "u"\nkind = "cbr"\nrate = "15Mbit"\nrtt = "10ms"\n'
    change = '[[at]]\ntime = "1s"\n"link.bottleneck.qdisc" = "./libstep.so:limit 90"\n'
    results = l4slab.run(experiment({}, udp + change, qdisc="./libstep.so:limit 50"))
    link = results.links.row(0, named=True)
    assert link["dropped_packets"] == link["dropped_overflow_packets"] > 0
    backlog = results.series.filter(queue="all").sort("time_s")["backlog_packets"]
    assert max(backlog[:10]) <= 50 < max(backlog[10:]) <= 90


@needs_cc
def test_an_aimd_in_c_is_the_same_as_in_python_to_the_bit(experiment: Folder, tmp_path: Path) -> None:
    build(template("controller.c"), tmp_path / "libmine.so")
    source = (files("l4slab.own") / "templates" / "controller.py").read_text().replace("CLASS", "Mine")
    found = []
    for cc in ("mine.py:Mine", "./libmine.so"):
        options = "options = { beta = 0.7, increase = 2 }\n"
        file = experiment({"mine.py": source}, options, duration="10s", qdisc="pfifo limit 20", cc=cc)
        results = l4slab.run(file)
        found.append((results.flows.drop("run", "cc"), results.series.drop("run")))
    assert found[0][0].equals(found[1][0])
    assert found[0][1].equals(found[1][1])


# The classes Two and Losses of the tests in Python.
TWO = """
#include <stdlib.h>
#include "l4slab.h"

struct two { struct l4slab_fifo waiting[2]; };

static void *create(const double *parameters, uint64_t rate_bps, uint64_t now_ns) {
    (void)parameters, (void)rate_bps, (void)now_ns;
    return calloc(1, sizeof(struct two));
}
static void enqueue(void *self, struct l4slab_packet *packet, struct l4slab_link *link) {
    struct l4slab_fifo *waiting = &((struct two *)self)->waiting[packet->ecn == L4SLAB_ECT1];
    packet->band = BAND;
    l4slab_push(waiting, packet);
    if (waiting->packets > 20)
        l4slab_overflow(link, l4slab_pop(waiting));
}
static struct l4slab_packet *dequeue(void *self, struct l4slab_link *link) {
    struct l4slab_fifo *waiting = ((struct two *)self)->waiting;
    (void)link;
    struct l4slab_packet *packet = l4slab_pop(waiting[1].first ? &waiting[1] : &waiting[0]);
    if (packet)
        packet->band = 7; /* too late to count */
    return packet;
}
static const char *const bands[] = { "C", "L" };

L4SLAB_QUEUE = {
    .abi = L4SLAB_ABI, .summary = "ECT(1) first", .bands = bands, .band_count = 2,
    .create = create, .destroy = free, .enqueue = enqueue, .dequeue = dequeue,
};
"""

LOSSES = """
#include <stdlib.h>
#include "l4slab.h"

struct losses { double heard, told, most, flight; };

static void *create(const double *options, uint64_t seed) {
    (void)options, (void)seed;
    return calloc(1, sizeof(struct losses));
}
static void on_ack(void *self, const struct l4slab_ack *ack, struct l4slab_window *window) {
    struct losses *it = self;
    uint32_t left = ack->acked;
    it->told = (double)ack->lost_total;
    if (ack->rate_tx_in_flight > it->flight)
        it->flight = ack->rate_tx_in_flight;
    if (!ack->may_grow)
        return;
    while (left && window->cwnd < window->ssthresh)
        window->cwnd++, left--;
    window->cwnd += left > 0;
}
static void on_lost(void *self, const struct l4slab_lost *lost) {
    struct losses *it = self;
    it->heard += 1;
    if (lost->tx_in_flight > it->most)
        it->most = lost->tx_in_flight;
}
static void on_congestion(void *self, uint32_t why, uint64_t now_ns, struct l4slab_window *window) {
    (void)self, (void)why, (void)now_ns;
    window->ssthresh = window->cwnd / 2 > 2 ? window->cwnd / 2 : 2;
}
static void probe(const void *self, double *gauges) {
    const struct losses *it = self;
    gauges[0] = it->heard, gauges[1] = it->told, gauges[2] = it->most, gauges[3] = it->flight;
}
static const struct l4slab_gauge gauges[] = {
    { "heard", "", "" }, { "told", "", "" }, { "most", "", "" }, { "flight", "", "" },
};

L4SLAB_CONTROLLER = {
    .abi = L4SLAB_ABI, .summary = "counts losses", .gauges = gauges, .gauge_count = 4, .create = create,
    .destroy = free, .on_ack = on_ack, .on_congestion = on_congestion, .on_lost = on_lost, .probe = probe,
};
"""


@needs_cc
def test_bands_and_losses_in_c_are_the_same_as_in_python_to_the_bit(experiment: Folder, tmp_path: Path) -> None:
    build(TWO.replace("BAND", "packet->ecn == L4SLAB_ECT1"), tmp_path / "libtwo.so")
    build(LOSSES, tmp_path / "liblosses.so")
    sources = {"two.py": test_python.TWO, "losses.py": test_python.LOSSES}
    more = test_python.UDP.format("l", "4Mbit", "ect1")
    found = []
    for qdisc, cc in (("two.py:Two", "losses.py:Losses"), ("./libtwo.so", "./liblosses.so")):
        results = l4slab.run(experiment(sources, more, duration="5s", qdisc=qdisc, cc=cc))
        found.append((results.flows.drop("run", "cc"), results.links.drop("run"), results.series.drop("run")))
    assert found[0][2]["heard"].max() > 10
    assert all(python.equals(c) for python, c in zip(*found, strict=True))


@needs_cc
def test_a_band_that_was_not_declared_is_a_sentence(experiment: Folder, tmp_path: Path) -> None:
    build(TWO.replace("BAND", "2"), tmp_path / "libtwo.so")
    with pytest.warns(UserWarning, match="1 run failed"):
        ((_, reason),) = l4slab.run(experiment({}, qdisc="./libtwo.so")).failures
    assert reason == "./libtwo.so puts a packet into band 2; it declares 2, from 0 on"


EMPTY = "int nothing;\n"
WRONG_ABI = '#include "l4slab.h"\nL4SLAB_CONTROLLER = { .abi = 7 };\nL4SLAB_QUEUE = { .abi = 7 };\n'
UNKNOWN = "int none_has_it(void);\nint calls(void) { return none_has_it(); }\n"
WRONG_DEFAULT = template("queue.c").replace('"1ms"', '"1parsec"')
LACKS = '#include "l4slab.h"\nL4SLAB_CONTROLLER = { .abi = L4SLAB_ABI };\nL4SLAB_QUEUE = { .abi = L4SLAB_ABI };\n'


@needs_cc
@pytest.mark.parametrize(
    ("source", "keys", "said"),
    [
        (
            EMPTY,
            {"cc": "./lib.so"},
            'flow "a": cc = "./lib.so": ./lib.so has no controller: the symbol l4slab_controller',
        ),
        (EMPTY, {"qdisc": "./lib.so"}, "./lib.so has no queue: the symbol l4slab_queue is missing; write L4SLAB_QUEUE"),
        (WRONG_ABI, {"cc": "./lib.so"}, "./lib.so was built for version 7 of the ABI, and this l4slab has version 2; "),
        (LACKS, {"cc": "./lib.so"}, "./lib.so has no create in its table l4slab_controller; set it to a function"),
        (
            LACKS,
            {"qdisc": "./lib.so:limit 3"},
            "./lib.so has no create in its table l4slab_queue; set it to a function",
        ),
        (
            WRONG_DEFAULT,
            {"qdisc": "./lib.so"},
            './lib.so declares something wrong: the default "1parsec" of threshold is refused; it takes a time',
        ),
        (
            UNKNOWN,
            {"cc": "./lib.so"},
            "./lib.so cannot be loaded (undefined symbol: none_has_it); build it as a shared",
        ),
        (None, {"cc": "./lib.so"}, "./lib.so cannot be loaded (file too short); build it as a shared library for this"),
        (None, {"cc": "./none.so"}, "there is no file"),
    ],
)
def test_a_library_that_cannot_be_used_is_a_sentence(
    experiment: Folder, tmp_path: Path, source: str | None, keys: dict[str, str], said: str
) -> None:
    if source is None:
        (tmp_path / "lib.so").write_bytes(b"no library")
    else:
        build(source, tmp_path / "lib.so")
    with pytest.raises(l4slab.InputError) as error:
        l4slab.run(experiment({}, **keys))
    assert said in str(error.value)


FAULTS = {
    "for (;;) { }": "lib.so: a call has not returned after 3 s of processor time; look for a loop without end",
    "*(volatile int *)0 = 1;": "lib.so made its process die of SIGSEGV",
    "window->cwnd = 0; return;": "lib.so sets cwnd to 0; a window is 1 to 1000000 segments",
}


@needs_cc
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(body, marks=pytest.mark.slow if body.startswith("for") else (), id=str(i))
        for i, body in enumerate(FAULTS)
    ],
)
def test_what_goes_wrong_in_c_takes_its_run_with_it_and_no_other(experiment: Folder, tmp_path: Path, body: str) -> None:
    build(template("controller.c"), tmp_path / "good.so")
    head, tail = template("controller.c").split("    uint32_t acked = ack->acked;\n")
    build(f"{head}    uint32_t acked = ack->acked;\n    {body}\n{tail}", tmp_path / "lib.so")
    file = experiment({}, '[sweep]\nwhose = ["lib", "good"]\n', cc="{whose}.so")
    with pytest.warns(UserWarning, match="1 run failed"):
        results = l4slab.run(file)
    assert [reason for _, reason in results.failures] == [FAULTS[body]]
    assert list(results.flows["cc"]) == ["good.so"]


@needs_cc
def test_the_code_of_the_documentation_works(experiment: Folder, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "own.md").read_text()
    controller, queue = re.findall("```python\n(.*?)```", text, re.DOTALL)
    (c,) = re.findall("```c\n(.*?)```", text, re.DOTALL)
    (tmp_path / "mine.c").write_text(c)
    command = re.findall("^cc -.*", text, re.MULTILINE)[0].split()
    subprocess.run([*command, "-I", INCLUDE], cwd=tmp_path, check=True)
    options = "options = { beta = 0.6 }\n"
    for cc, more in (("mine.py:Mine", options), ("./libmine.so", ""), ("prague", "")):
        sources = {"mine.py": controller, "step.py": queue}
        file = experiment(sources, more, duration="5s", warmup="2s", cc=cc, qdisc="step.py:Step limit 50")
        assert l4slab.run(file).flows["goodput_mbps"][0] > 7


def test_files_of_one_name_that_differ_are_not_one_campaign(experiment: Folder, tmp_path: Path) -> None:
    first = experiment({"mine.py": template("controller.py").replace("CLASS", "Mine")}, cc="mine.py:Mine")
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.py").write_text((tmp_path / "mine.py").read_text() + "# another\n")
    (other / "y.toml").write_text(first.read_text())
    with pytest.raises(l4slab.InputError, match=r"names mine\.py, which is not the file of that name beside"):
        l4slab.run([first, other / "y.toml"])
