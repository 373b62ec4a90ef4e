"""Kernels beside the default one: what they are built of, how they are named, and how two of them are compared."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from l4slab.base.errors import InputError
from l4slab.cli import main
from l4slab.cli.agreeing import kernels_outcome
from l4slab.engines.contract import LackingError, MissingError
from l4slab.engines.linux import build, compiling, kernels, lab, user_land
from l4slab.engines.linux.tools import BuildError
from l4slab.engines.registry import engines, get_engine
from l4slab.results import chance
from l4slab.tools.agreement import compare, kernels_page
from l4slab.tools.agreement.changes import Comparison, compared

from .conftest import CUBIC, ONE_LINK, Describe


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with the default kernel and one called `mine`, which has a controller and a queue more."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("L4SLAB_KERNEL", raising=False)
    for name, stamp in (
        (kernels.DEFAULT, {"version": "7.2.1", "controls": ["reno", "cubic"]}),
        ("mine", {"version": "7.2.1", "controls": ["reno", "cubic", "mine"], "qdiscs": ["our_aqm"], "made_from": "me"}),
    ):
        folder = kernels.folder_of(name)
        folder.mkdir(parents=True)
        (folder / "linux").write_bytes(name.encode())
        (folder / "linux").chmod(0o755)
        (folder / "kernel.json").write_text(json.dumps(stamp))
    (kernels.cache() / "root.json").write_text(json.dumps({"packages": user_land.PACKAGES}))
    return kernels.cache()


def test_each_kernel_is_an_engine(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [name for name in engines() if name.startswith("linux")] == ["linux", "linux:mine"]
    assert get_engine("linux:mine").name == "linux:mine"
    assert get_engine("linux:mine").version() != get_engine("linux").version()
    with pytest.raises(InputError, match=r"nothing is not a kernel in the cache; .*mine"):
        get_engine("linux:nothing")
    assert main(["linux", "list", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["kernels"]
    assert [kernel["name"] for kernel in told] == ["default", "mine"]


def test_a_dry_run_is_told_of_each_kernel(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.toml").write_text('title = "x"\nduration = "1s"\n' + ONE_LINK + CUBIC)
    words = ["run", str(tmp_path / "x.toml"), "--dry-run", "--out", str(tmp_path / "out"), "--engine"]
    assert main([*words, "linux"]) == 0
    default = capsys.readouterr().out
    assert main([*words, "linux:mine"]) == 0
    assert capsys.readouterr().out == default


def test_what_only_a_kernel_has_can_be_written(cache: Path, describe: Describe) -> None:
    text = ONE_LINK.replace("pfifo limit 50", "our_aqm") + CUBIC.replace('"cubic"', '"mine"\noptions = { keep = 512 }')
    run = describe(text)
    get_engine("linux:mine").check(run)
    made = lab.build(run, own_defaults=True)
    assert "echo 512 >/sys/module/tcp_mine/parameters/keep" in lab.script(made)
    assert "parent 1:1 handle 2: our_aqm" in lab.script(made)
    assert "rate_mbps" in get_engine("linux:mine").columns(run)["links"]
    with pytest.raises(LackingError, match="this kernel has no queue our_aqm"):
        get_engine("linux").check(run)
    with pytest.raises(MissingError, match='this kernel has no congestion control "mine"'):
        get_engine("linux").check(describe(ONE_LINK + CUBIC.replace('"cubic"', '"mine"')))
    with pytest.raises(InputError, match='qdisc = "our_aqm": there is no qdisc "our_aqm"'):
        describe(text, engine="sim")
    for key, value in (("pfifo limit 50", "our_aqn"), ('"cubic"', '"mime"')):
        with pytest.raises(InputError):
            describe((ONE_LINK + CUBIC).replace(key, value))
    with pytest.raises(InputError, match=r'tc does not know the options of our_aqm, .*; write "our_aqm"'):
        describe(ONE_LINK.replace("pfifo", "our_aqm") + CUBIC)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("dualpi2", "dualpi2"),
        ("dualpi2 target 15ms step_thresh 2ms", "dualpi2 step_thresh 2ms"),
        ("pfifo limit 100", "pfifo limit 100"),
        ("fq_codel noecn", "fq_codel noecn"),
        ("tbf rate 10mbit burst 10kb limit 100kb", "tbf rate 10mbit burst 10240b limit 102400b"),
    ],
)
def test_what_is_at_its_default_is_for_the_kernel_to_say(describe: Describe, written: str, told: str) -> None:
    run = describe(ONE_LINK.replace("pfifo limit 50", written) + CUBIC.replace('"cubic"', '"prague"'))
    assert lab.build(run, own_defaults=True).edges["k1", "x1"].root[-1].endswith(f"handle 2: {told}")
    assert "tcp_prague/parameters" not in lab.script(lab.build(run, own_defaults=True))
    assert "tcp_prague/parameters" in lab.script(lab.build(run))


# -- building ----------------------------------------------------------------------------------------------------------


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_c", ".c")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (1e9, 1e9))


def test_only_what_differs_from_the_source_is_compiled_again(tmp_path: Path) -> None:
    source, tree = tmp_path / "source", tmp_path / "tree"
    write(source, net__a_c="a", net__b_c="b", net__old_c="o", drivers__gpu__x_c="x", Makefile="m")
    write(source, **{"l4slab-build__a.o": "object"})
    (source / ".git").mkdir()
    compiling.mirror(source, tree)
    assert not (tree / "drivers/gpu/x.c").exists()
    assert not (tree / ".git").exists()
    assert (tree / "l4slab-build/a.o").stat().st_mtime == 1e9
    # A patch of the last build, which this one does not have, and an object of its own.
    write(tree, net__b_c="patched", net__added_c="new")
    write(tree, **{"l4slab-build__a.o": "another"})
    write(source, net__a_c="A")
    (source / "net/old.c").unlink()
    compiling.mirror(source, tree)
    assert [(tree / f"net/{name}.c").read_text() for name in "ab"] == ["A", "b"]
    assert {path.name for path in (tree / "net").iterdir()} == {"a.c", "b.c"}
    assert (tree / "net/b.c").stat().st_mtime > 1e9, "its object is of what was patched"
    assert (tree / "Makefile").stat().st_mtime == 1e9
    assert (tree / "l4slab-build/a.o").read_text() == "another"


def test_modules_are_compiled_in_and_out_again(tmp_path: Path) -> None:
    tree, module = tmp_path / "tree", tmp_path / "ours"
    write(tree, net__Makefile="obj-y += core/\n")
    write(module, tcp_mine_c="", sch_ours_c='static struct Qdisc_ops ops = {\n\t.id\t= "our_aqm",\n};', **{"x.h": ""})
    assert compiling.add_modules([module], tree) == ["our_aqm"]
    assert (tree / "net/Makefile").read_text() == "obj-y += core/\nobj-y += l4slab/\n"
    assert (tree / "net/l4slab/Makefile").read_text() == "obj-y += ours/\n"
    assert "obj-y += tcp_mine.o sch_ours.o\n" in (tree / "net/l4slab/ours/Makefile").read_text()
    assert (tree / "net/l4slab/ours/x.h").is_file()
    assert compiling.add_modules([], tree) == []
    assert (tree / "net/Makefile").read_text() == "obj-y += core/\n"
    with pytest.raises(BuildError, match=r"has no tcp_\*\.c and no sch_\*\.c"):
        compiling.add_modules([tmp_path / "tree"], tree)


def test_a_patch_that_does_not_fit_is_a_sentence(tmp_path: Path) -> None:
    write(tmp_path / "tree", net__a_c="one\ntwo\n")
    patch = tmp_path / "x.patch"
    patch.write_text("--- a/net/a.c\n+++ b/net/a.c\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n")
    compiling.apply(patch, tmp_path / "tree")
    assert (tmp_path / "tree/net/a.c").read_text() == "one\nthree\n"
    with pytest.raises(BuildError, match="does not fit the source") as failed:
        compiling.apply(patch, tmp_path / "tree")
    assert "\n" not in str(failed.value)


def test_a_patch_may_change_prague(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tmp_path / "linux"
    write(
        tree,
        net__ipv4__tcp_input_c="",
        net__Makefile="",
        net__ipv4__Makefile="",
    )
    for name, (stands, _) in compiling._EDITS.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(stands)
    write(tree, arch__um__Kconfig="config HZ\n\tint\n\tdefault 100\n", prague__tcp_prague_c="one\n")
    patch = tmp_path / "x.patch"
    patch.write_text("--- a/net/ipv4/tcp_prague.c\n+++ b/net/ipv4/tcp_prague.c\n@@ -1 +1 @@\n-one\n+two\n")
    compiled = []

    def compile_kernel(tree: Path, *_: object) -> Path:
        compiled.append((tree / "net/ipv4/tcp_prague.c").read_text())
        raise BuildError("compiled")

    monkeypatch.setattr(build, "make_laboratory", lambda *_: None)
    monkeypatch.setattr(user_land, "is_renewed", lambda _: True)
    monkeypatch.setattr(build, "missing", lambda _: None)
    monkeypatch.setattr(compiling, "PRAGUE", tree / "prague/tcp_prague.c")
    monkeypatch.setattr(compiling, "compile_kernel", compile_kernel)
    for _ in range(2):  # the second build finds the tree of the first
        with pytest.raises(BuildError, match="compiled"):
            build.build(lambda what, part: None, wanted=build.Wanted("x", tree, (patch,)))
    assert compiled == ["two\n", "two\n"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--name", "x"], "--name is for another kernel"),
        (["--kernel", "/bin/true", "--source", "."], "--kernel is a kernel that is built already"),
        (["--source", ".", "--name", "../x"], "is no name of a kernel"),
        (["--patch", "/nowhere"], "does not exist"),
    ],
)
def test_what_cannot_be_built(cache: Path, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str) -> None:
    assert main(["linux", "build", *words]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_a_source_is_one_of_a_kernel(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "make_laboratory", lambda *_: None)
    monkeypatch.setattr(user_land, "is_renewed", lambda _: True)
    monkeypatch.setattr(build, "missing", lambda _: None)
    with pytest.raises(BuildError, match="is no source of a Linux kernel"):
        build.build(lambda what, part: None, wanted=build.Wanted("x", tmp_path))


# -- comparing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "p"),
    [
        # Tables of Student's distribution: t = 2.306 and 8 degrees of freedom; 4.604 and 4.
        ((2.306 * 0.4**0.5, 1.0, 1.0, 5, 5), 0.05),
        ((4.604 * 0.2**0.5, 1.0, 0.0, 5, 5), 0.01),
        ((0.0, 1.0, 1.0, 5, 5), 1.0),
        ((0.1, 0.0, 0.0, 5, 5), 0.0),
    ],
)
def test_welchs_test(row: tuple[Any, ...], p: float) -> None:
    assert chance.welch(*row) == pytest.approx(p, rel=1e-3)


def side(
    cells: dict[str, list[float | None]], packets: int = 1000, quantity: str = "sojourn_ms_mean", samples: int = 0
) -> compare.Side:
    """Delays of one flow, by level of the factor `qdisc`: a value per trial. An RTT is of so many samples, where it is
    one.
    """
    labels, flows = [], []
    for level, values in cells.items():
        for trial, value in enumerate(values, start=1):
            labels.append({"experiment": "x", "run": f"{level}{trial}", "trial": trial, "qdisc": level})
            row = {"run": f"{level}{trial}", "flow": "f", "sent_packets": packets, quantity: value}
            row["rtt_samples"] = None if value is None else samples
            flows.append(dict.fromkeys(compare.metrics.COMPARED["flows"]) | row)
    links = {name: [] for name in ("run", "link", "queue", "arrived_packets", *compare.metrics.COMPARED["links"])}
    of_flows = pl.DataFrame(flows).cast({quantity: pl.Float64})
    return compare.Side(pl.DataFrame(labels), of_flows, pl.DataFrame(links).cast({"run": pl.String}))


def test_the_spread_of_the_trials_says_what_has_changed(tmp_path: Path) -> None:
    one = {
        "moved": [5.0, 5.1, 4.9, 5.05, 4.95],
        "within": [10.0, 12.0, 11.0, 13.0, 9.0],
        "tiny": [1.0, 1.0, 1.0, 1.0, 1.0],
    }
    other = one | {
        "moved": [7.0, 7.1, 6.9, 7.05, 6.95],
        "within": [11.0, 13.0, 12.0, 14.0, 10.0],
        "tiny": [1.001] * 5,
    }
    rows = compared(side(one), side(other))
    assert dict(rows.select("qdisc", "changed").iter_rows()) == {"moved": True, "within": False, "tiny": False}
    result = Comparison(tmp_path, rows, pl.DataFrame(), [])
    assert not result.same
    kernels_page.write(result, ("mine", "default"), ("Linux 7.2, my.patch", "Linux 7.2"), [])
    page = " ".join((tmp_path / "kernels.html").read_text().split())
    assert "<strong>1 of 3 cells have changed</strong> between default and mine" in page
    changed = page[page.index('id="changed"') : page.index('id="cells"')]
    assert "x: qdisc moved" in changed
    assert "5.00 ± 0.0791" in changed
    assert "7.00 ± 0.0791" in changed
    assert "-28.6 %" in changed, "of the value against which it is held"
    assert "within" not in changed
    assert result.worst()["qdisc"].to_list() == ["moved"]
    assert result.worst()["difference"].item() == pytest.approx(-2)
    statuses = {one.id: one.status for one in kernels_outcome(result, ("mine", "default")).verdicts}
    assert statuses == {"x: qdisc moved": "fail", "x: qdisc within": "pass", "x: qdisc tiny": "pass"}
    assert Comparison(Path(), compared(side(one), side(one)), pl.DataFrame(), []).same
    few = compared(side(one, packets=10), side(other, packets=10))
    assert few.is_empty(), "values of a few packets are none"


def test_an_rtt_that_one_trial_happens_to_have_is_no_change() -> None:
    def rtts(values: list[float | None], samples: int) -> compare.Side:
        return side({"pfifo": values}, quantity="rtt_ms_mean", samples=samples)

    none: list[float | None] = [None] * 5
    by_chance = compared(rtts([*none[:4], 20.0], samples=3), rtts(none, samples=0))
    assert by_chance.is_empty()
    has_it = compared(rtts([20.0, 21.0, 20.5, 19.5, 20.0], samples=40), rtts(none, samples=0))
    assert has_it["changed"].to_list() == [True]


@pytest.mark.parametrize("trials", [3, 5])
def test_from_where_on_a_change_shows(trials: int) -> None:
    # Ten cells of which one differs: by a little less than what shows, and by a little more.
    spread = [(place - (trials - 1) / 2) for place in range(trials)]
    unit = (sum(one**2 for one in spread) / (trials - 1)) ** 0.5

    def cells(shift: float) -> compare.Side:
        return side({f"{n}": [100 + one / unit + shift * (n == 0) for one in spread] for n in range(10)})

    result = Comparison(Path(), compared(cells(0), cells(0)), pl.DataFrame(), [])
    assert result.trials == trials
    least = result.shows_from(trials)
    for factor, changes in ((0.98, 0), (1.02, 1)):
        assert compared(cells(0), cells(factor * least))["changed"].sum() == changes


@pytest.mark.slow
def test_chance_is_not_a_change() -> None:
    import numpy as np

    # A hundred comparisons of a kernel with itself, of twenty cells each: Holm allows one in a hundred.
    random = np.random.default_rng(1)
    changed = 0
    for _ in range(100):
        both = [side({f"{n}": random.normal(10, 1, 5).tolist() for n in range(20)}) for _ in range(2)]
        changed += bool(compared(*both)["changed"].any())
    assert changed <= 4


def test_what_cannot_be_compared(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.toml"
    file.write_text('duration = "1s"\n' + ONE_LINK + CUBIC)

    def said(*words: str) -> str:
        assert main(["agree", str(file), "--out", str(tmp_path / "out"), *words]) == 2
        return " ".join(capsys.readouterr().err.split())

    assert "trials = 1 shows no spread; give --trials 5" in said("--kernel", "mine")
    assert "--kernel mine is compared with itself" in said("--kernel", "mine", "--against", "mine")
    assert "nothing is not a kernel in the cache" in said("--kernel", "nothing", "--trials", "5")
