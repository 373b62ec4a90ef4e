"""The matrix of stacks: its file, and what it says of results. No kernel is booted here, but by the slow test."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from l4slab import stacks
from l4slab.api.experiment import load
from l4slab.api.results import Results
from l4slab.base.errors import InputError
from l4slab.cli import main
from l4slab.cli import matrix as command
from l4slab.engines.linux import kernels
from l4slab.engines.linux.engine import LinuxEngine
from l4slab.results import claims
from l4slab.sweep import expand
from l4slab.tools import matrix
from l4slab.tools.matrix import page
from l4slab.tools.matrix.page import Moved

RECIPE = """
summary = "echoes"
language = "sh"
version = "1"
controllers = ["cubic", "reno"]
build = ["cp transfer $OUT/"]
server = "{stack}/transfer server"
client = "{stack}/transfer client {server} {cc} {bytes}"
"""


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A stack that is built, in an otherwise empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "stack.toml").write_text(RECIPE)
    (folder / "transfer").write_text("#!/bin/sh\n")
    (folder / "transfer").chmod(0o755)
    assert main(["stacks", "build", "./mine"]) == 0
    return "./mine"


def asked(names: list[str], **more: Any) -> matrix.Asked:
    given: dict[str, Any] = {"queues": ["pfifo limit 67", "dualpi2"], "against": ["alone", "cubic"], "trials": 2}
    return matrix.Asked(matrix.rows(names), **(given | more))


def runs(one: matrix.Asked) -> list[Any]:
    return [run for file in matrix.experiments(one) for run in expand(load(file, {}), "linux").runs]


def test_every_row_meets_every_queue_and_rival(mine: str) -> None:
    found = runs(asked([mine]))
    assert len(found) == 2 * 2 * 2 * 2
    assert {run.factors["stack"] for run in found} == {"mine cubic", "mine reno"}
    alone = [run.description["flows"] for run in found if run.factors["against"] == "alone"]
    assert all(flows[1]["count"] == 0 for flows in alone)
    assert [row.level for row in asked([f"{mine}:reno"]).rows] == ["mine reno"]


def test_the_file_of_a_cell_gives_the_runs_of_the_matrix(mine: str) -> None:
    one = asked([mine], against=["alone", "prague", f"{mine}:reno", "itself"])
    both = [run.description["flows"] for run in runs(one) if run.factors["against"] == "itself"]
    assert both
    assert all(flows[0]["stack"] == flows[1]["stack"] for flows in both)
    ids = {(run.factors["stack"], run.factors["qdisc"], run.factors["against"], run.trial): run.id for run in runs(one)}
    for row in one.rows:
        for queue in one.queues:
            for rival in one.against:
                of_cell = expand(load(matrix.cell_document(one, row, queue, rival), {}), "linux").runs
                # Where the rival of this name is the stack itself, the run has the first of both names.
                names = [rival, f"{mine}:reno"] if row.cc == "reno" and rival == "itself" else [rival]
                expected = [ids[row.level, queue, names[-1], trial] for trial in (1, 2)]
                assert [run.id for run in of_cell] == expected
    assert {cell.state for cell in matrix.matrix([one], results(one)).cells} == {"measured"}


def test_the_proof_is_run_even_where_nobody_asks_for_a_fifo_or_for_being_alone(mine: str) -> None:
    one = asked([mine], queues=["dualpi2"], against=["cubic"], trials=1)
    assert one.proof == "pfifo limit 67"
    places = {(run.factors["qdisc"], run.factors["against"]) for run in runs(one)}
    assert places == {("dualpi2", "cubic"), ("pfifo limit 67", "alone")}


def test_each_path_is_a_file_with_a_fifo_of_its_own(mine: str, tmp_path: Path) -> None:
    paths = matrix.on_paths(asked([mine], queues=[]), ["20Mbit", "50Mbit"], ["20ms"])
    assert [one.name for one in paths] == ["matrix-20Mbit-20ms", "matrix-50Mbit-20ms"]
    assert [one.proof for one in paths] == ["pfifo limit 67", "pfifo limit 167"]
    (only,) = matrix.on_paths(asked([mine], queues=[]), ["20Mbit"], ["20ms"])
    assert [run.id for run in runs(only)] == [run.id for run in runs(paths[0])]
    slow, fast = (results(one, goodput_mbps=19.0) for one in paths)
    both = Results(None, {name: pl.concat([slow.tables[name], fast.tables[name]]) for name in ("flows", "claims")})
    found = matrix.matrix(paths, both)
    # 19 Mb/s fill the one link and not the other.
    assert {(cell.path, cell.state) for cell in found.cells} == {("20Mbit 20ms", "measured"), ("50Mbit 20ms", "runner")}
    text = page.write(found, tmp_path, "l4slab matrix ./mine", "linux", {}).read_text()
    for cell in found.cells:
        assert f'href="cells/{cell.name}.toml"' in text
        assert expand(load(tmp_path / "cells" / f"{cell.name}.toml", {}), "linux").runs[0].id == cell.runs[0]


def test_transfers_have_runs_of_their_own_in_each_cell(mine: str, tmp_path: Path) -> None:
    one = asked([mine], bytes="1MB", warmup="4s")
    whole = results(one)
    transfers = [run for run in runs(one) if run.experiment == "matrix-transfer"]
    assert len(transfers) == len(runs(one)) / 2
    assert {run.description["flows"][0]["start_ns"] for run in transfers} == {4_000_000_000}
    lost = next(run for run in transfers if run.factors["against"] == "cubic")
    flows = whole.flows.filter(pl.col("run") != lost.id).with_columns(completion_ms_p50=400.0 + 10 * pl.col("trial"))
    found = matrix.matrix([one], Results(None, {**whole.tables, "flows": flows}, [(lost, "the client has not ended")]))
    for cell in found.cells:
        is_lost = (cell.row, cell.queue, cell.against) == tuple(
            lost.factors[name] for name in ("stack", "qdisc", "against")
        )
        assert cell.state == "measured"
        assert page.completion_of(cell) == ("none: the client has not ended" if is_lost else "415 (410 to 420) ms")
    page.write(found, tmp_path, "l4slab matrix ./mine", "linux", {})
    cell = found.cells[0]
    of_cell = expand(load(tmp_path / "cells" / f"{cell.name}--transfer.toml", {}), "linux").runs
    assert [run.id for run in of_cell] == cell.transfer_runs


def test_a_client_without_an_end_has_no_transfers(mine: str, tmp_path: Path) -> None:
    recipe = tmp_path / "mine" / "stack.toml"
    recipe.write_text(RECIPE.replace(" {bytes}", ""))
    assert main(["stacks", "build", mine]) == 0
    one = asked([mine], bytes="1MB")
    assert [run.experiment for run in runs(one)] == ["matrix"] * len(runs(one))
    found = matrix.matrix([one], results(one))
    assert {page.completion_of(cell) for cell in found.cells} == {None}
    page.write(found, tmp_path, "l4slab matrix ./mine", "linux", {})
    assert not list((tmp_path / "cells").glob("*--transfer.toml"))


def test_a_cell_says_what_the_kernel_has_not_got(mine: str) -> None:
    one = asked([f"{mine}:reno"], queues=["docsis_ll"], against=["alone"])
    found = matrix.matrix([one], results(one, only_fifo=True))
    assert [(cell.state, cell.why) for cell in found.cells] == [("not run", "no Linux kernel has docsis_ll")]


def results(one: matrix.Asked, out: Path | None = None, only_fifo: bool = False, **numbers: Any) -> Results:
    """What an engine would have said, with these numbers of the tested flow instead of good ones."""
    good = {"goodput_mbps": 19.0, "packet_bytes_mean": 1390.0, "packet_bytes_max": 1392}
    table = []
    for run in runs(one):
        if only_fifo and run.factors["qdisc"] != one.proof:
            continue
        levels = {"experiment": run.experiment, "run": run.id, "trial": run.trial, **run.factors}
        alone = run.factors["against"] == "alone"
        same = {"sojourn_ms_mean": 15.0, "sojourn_ms_p99": 20.0, "ce_pct": 0.1, "drop_pct": 0.0}
        share = 1.0 if alone else 0.5 + 0.01 * run.trial
        table.append({**levels, "flow": "tested", **same, **good, "share": share, **numbers})
        table.append({**levels, "flow": "rival", **same, "goodput_mbps": 0.0 if alone else 9.0, "share": 1 - share})
    flows = pl.DataFrame(table).cast({"packet_bytes_mean": pl.Float64, "packet_bytes_max": pl.Int64})
    experiment = load(matrix.experiments(one)[0], {})
    tables = {"flows": flows, "claims": claims.evaluate([experiment], {"flows": flows})}
    return Results(out, tables)


def test_cells_have_means_and_the_range_of_the_share(mine: str) -> None:
    one = asked([mine])
    found = matrix.matrix([one], results(one))
    assert found.is_whole
    cell = next(cell for cell in found.cells if cell.against == "cubic")
    assert cell.state == "measured"
    assert cell.share == pytest.approx(0.515)
    assert (cell.share_min, cell.share_max) == (0.51, 0.52)
    assert len(cell.runs) == 2


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ({"goodput_mbps": 17.9}, "alone it fills 90% of the link"),
        ({"goodput_mbps": 2.3}, "alone it fills 12% of the link"),
        ({"packet_bytes_mean": 850.0}, "with packets of 850 B on average and 1392 B at most"),
    ],
)
def test_a_runner_that_does_not_fill_the_link_with_full_packets_makes_its_cells_runner(
    mine: str, numbers: dict[str, float], why: str
) -> None:
    one = asked([mine])
    found = matrix.matrix([one], results(one, **numbers))
    assert {proof.verdict for proof in found.proofs} == {"not proven"}
    assert {cell.state for cell in found.cells} == {"runner"}
    assert all(why in cell.why for cell in found.cells)
    assert not found.is_whole


def test_a_cell_in_which_nothing_arrives_is_stalled(mine: str) -> None:
    one = asked([mine])
    whole = results(one)
    stopped = pl.when(pl.col("against") == "cubic", flow="tested").then(0.0).otherwise("goodput_mbps")
    flows = whole.flows.with_columns(goodput_mbps=stopped)
    found = matrix.matrix([one], Results(None, {**whole.tables, "flows": flows}))
    assert {cell.state for cell in found.cells if cell.against == "cubic"} == {"stalled"}
    assert {cell.state for cell in found.cells if cell.against == "alone"} == {"measured"}


def test_a_runner_from_which_nothing_arrives_has_run_and_is_not_proven(mine: str) -> None:
    one = asked([mine])
    found = matrix.matrix([one], results(one, goodput_mbps=0.0, packet_bytes_mean=None, packet_bytes_max=None))
    assert {proof.verdict for proof in found.proofs} == {"not proven"}
    assert all("nothing arrived" in proof.why for proof in found.proofs)
    assert {cell.state for cell in found.cells} == {"runner"}


def test_a_log_that_calls_the_sender_limited_makes_its_cells_runner(mine: str, tmp_path: Path) -> None:
    (tmp_path / "mine" / "stack.toml").write_text(RECIPE + 'qlog = { limited = "application_limited" }\n')
    assert main(["stacks", "build", mine]) == 0
    one = asked([f"{mine}:reno"], qlog=True)
    assert all(run.description["flows"][0]["env"] == {"QLOGDIR": "{out}"} for run in runs(one))
    assert matrix.matrix([one], results(one, app_limited_pct=1.0)).is_whole
    found = matrix.matrix([one], results(one, app_limited_pct=60.0))
    assert {cell.state for cell in found.cells} == {"runner"}
    assert "its log calls it limited by the application in 60% of the time" in found.cells[0].why
    row = one.rows[0]
    of_cell = expand(load(matrix.cell_document(one, row, "dualpi2", "cubic"), {}), "linux").runs
    assert {run.id for run in of_cell} <= {run.id for run in runs(one)}


def test_a_run_that_failed_is_told_in_its_cell_and_the_others_are_measured(mine: str) -> None:
    one = asked([mine])
    whole = results(one)
    lost = next(run for run in runs(one) if run.factors["qdisc"] == "dualpi2")
    flows = whole.flows.filter(pl.col("run") != lost.id)
    found = matrix.matrix([one], Results(None, {**whole.tables, "flows": flows}, [(lost, "the client died")]))
    states = {(cell.row, cell.queue, cell.against): cell.state for cell in found.cells}
    place = (lost.factors["stack"], "dualpi2", lost.factors["against"])
    assert states.pop(place) == "not run"
    assert set(states.values()) == {"measured"}
    assert next(cell.why for cell in found.cells if cell.state == "not run") == "the client died"


def test_the_page_leads_from_each_cell_to_file_command_and_run(mine: str, tmp_path: Path) -> None:
    one = asked([mine])
    found = matrix.matrix([one], results(one))
    moved: list[Moved] = [
        {"cell": "mine reno", "place": "tested", "quantity": "share", "before": "0.5", "after": "0.1"}
    ]
    file = page.write(found, tmp_path, "l4slab matrix ./mine", "linux", {"Moved": moved, "Different": []})
    text = file.read_text()
    for cell in found.cells:
        assert f'href="cells/{cell.name}.toml"' in text
        assert f"l4slab run cells/{cell.name}.toml --engine linux" in text
        assert all(f'href="report.html#run={run}"' in text for run in cell.runs)
        assert expand(load(tmp_path / "cells" / f"{cell.name}.toml", {}), "linux").runs[0].id == cell.runs[0]
    assert "0.515 (0.510 to 0.520)" in text
    assert "Changes from the baseline" in text
    assert "<script" not in text
    assert not re.search(r"https?://", text)


def written(found: Results, folder: Path) -> str:
    """The tables as a results folder has them."""
    folder.mkdir()
    flows = found.flows
    flows.write_parquet(folder / "flows.parquet")
    found.claims.write_parquet(folder / "claims.parquet")
    labels = ["experiment", "run", "trial", "stack", "qdisc", "against"]
    links = flows.filter(flow="tested").select(*labels, link=pl.lit("bottleneck"), queue=pl.lit("all"), utilisation=0.9)
    links.write_parquet(folder / "links.parquet")
    return str(folder)


def test_a_baseline_is_compared_by_the_rules_of_compare(mine: str, tmp_path: Path) -> None:
    one = asked([mine], trials=6)
    before = written(results(one), tmp_path / "before")
    after = written(results(one, sojourn_ms_mean=30.0), tmp_path / "after")
    differences, judged = command._compared(before, after, "tested.sojourn_ms_mean +10%")
    assert differences is not None
    assert {change.quantity for change in differences.moved} == {"sojourn_ms_mean"}
    assert {change.place for change in differences.moved} == {"tested"}
    assert len(judged) == 8
    assert all(one.fails for one in judged)
    found = matrix.matrix([one], results(one))
    text = command._written(found, after, "l4slab matrix", "linux", differences, judged).read_text()
    assert "Beyond the limits" in text
    assert "mine cubic, dualpi2, alone" in text
    same, none = command._compared(before, before, None)
    assert same is not None
    assert (same.moved, same.different, none) == ([], [], [])


def test_a_runner_that_was_proven_and_is_no_more_is_worse(mine: str, tmp_path: Path) -> None:
    one = asked([mine], trials=1)
    before = written(results(one), tmp_path / "before")
    after = written(results(one, goodput_mbps=2.3), tmp_path / "after")
    differences, _ = command._compared(before, after, None)
    assert differences is not None
    assert [verdict.worse for verdict in differences.verdicts] == [True, True]


def test_a_verdict_is_told_to_ci_per_runner(mine: str) -> None:
    one = asked([mine])
    told = command.outcome("l4slab matrix", matrix.matrix([one], results(one, goodput_mbps=2.3)), None, [])
    assert [verdict.status for verdict in told.verdicts] == ["fail", "fail"]
    assert told.line == "0 of 2 runners are proven; 0 of 8 cells are measured"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["quin"], 'quin is not a stack; did you mean "quinn"?'),
        (["./mine:prague"], "names prague, which is not a controller of mine; valid are cubic, reno"),
        (["./mine", "--rate", "20Mbps"], "--rate 20Mbps: "),
        (["./mine", "--queue", "fq_code"], "fq_code"),
        (["./mine", "--fail-on", "share 5%"], "--fail-on needs --baseline"),
        (["./mine", "--baseline", "nowhere"], "is not a results folder"),
        (["./mine", "--rate", "20Mbit", "--rate", "5"], "--rate 5: has no unit"),
        (["./mine", "--bytes", "many"], "many"),
        (["./mine", "--out", "s3://x"], "the matrix writes a folder"),
        ([], "no stack is built; build some with: l4slab stacks build aioquic"),
    ],
)
def test_a_mistake_is_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["matrix", *words, "--dry-run"]) == 2
    said = capsys.readouterr().err
    assert sentence in " ".join(said.split())
    assert "Traceback" not in said


@pytest.mark.parametrize("words", [["quinn"], ["./mine", "--against", "quinn:cubic"]])
def test_a_stack_that_is_not_built_is_said_after_all_mistakes(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["matrix", *words, "--dry-run"]) == 0
    assert "build it with: l4slab stacks build quinn" in " ".join(capsys.readouterr().out.split())
    monkeypatch.setattr(LinuxEngine, "lacking", lambda _: None)
    for mistake, sentence in (([], "l4slab stacks build quinn"), (["--queue", "fq_code"], "fq_code")):
        assert main(["matrix", *words, *mistake, "--out", str(tmp_path / "out")]) == 2
        assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_dry_run_counts_the_runs(mine: str, capsys: pytest.CaptureFixture[str]) -> None:
    if kernels.installed() is not None:
        pytest.skip("a kernel refuses these programs, or not, by its own controllers")
    assert main(["matrix", mine, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs_to_do"] == 8


@pytest.mark.slow
def test_tcp_of_the_kernel_as_a_stack_is_its_own_flow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    if kernels.installed() is None or not stacks.find("kernel").is_built:
        pytest.skip("needs a kernel (l4slab linux build) and the stack (l4slab stacks build kernel)")
    one = asked(["kernel:cubic"], queues=["pfifo limit 67"], against=["alone"], trials=1, duration="10s")
    found = matrix.run([one], tmp_path / "out")
    (proof,) = found.proofs
    assert proof.verdict == "proven"
    assert proof.packet_bytes_mean == pytest.approx(1514, rel=0.01)
    own = {**matrix.cell_document(one, one.rows[0], "pfifo limit 67", "cubic")}
    own["flow"] = [{"name": "tested", "cc": "cubic", "rtt": "20ms"}]
    import l4slab

    flows = l4slab.run(own, engine="linux").flows
    assert found.cells[0].goodput_mbps == pytest.approx(flows["goodput_mbps"].item(), rel=0.005)
    assert found.cells[0].sojourn_ms_mean == pytest.approx(flows["sojourn_ms_mean"].item(), rel=0.05)


def test_a_matrix_without_a_kernel_says_what_is_missing(mine: str, capsys: pytest.CaptureFixture[str]) -> None:
    if kernels.installed() is not None:
        pytest.skip("a kernel of a wheel is there")
    assert main(["matrix", mine]) == 2
    assert "l4slab linux build" in " ".join(capsys.readouterr().err.split())


def test_rows_of_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="no stack is built"):
        matrix.rows([])
