"""Published figures: what is accepted, what is measured, and the distance."""

from pathlib import Path

import polars as pl
import pytest
from l4slab import experimentfile
from l4slab.base.errors import InputError
from l4slab.cli import main
from l4slab.results import published
from l4slab.sweep import expand

EXPERIMENT = """
duration = "1s"
[link.l]
rate = "10Mbit"
qdisc = "pfifo"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
"""


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "x.toml"
    file.write_text(EXPERIMENT + text)
    return file


def tables(rates: list[float | None]) -> dict:
    from l4slab.base import metrics

    rows = [
        {"experiment": "x", "run": str(n), "trial": n, "flow": "a", "rate_mbps": rate}
        for n, rate in enumerate(rates, start=1)
    ]
    frames = {name: pl.DataFrame(schema=metrics.LABELS | schema) for name, schema in metrics.TABLES.items()}
    frames["flows"] = pl.DataFrame(rows, schema=metrics.LABELS | metrics.FLOWS)
    return frames


@pytest.mark.parametrize(
    ("rates", "measured", "distance", "within"),
    [
        ([9.0, 11.0], 10.0, 0.0, True),
        ([11.0], 11.0, 1.0, True),
        ([11.5], 11.5, 1.5, False),
        ([8.5], 8.5, -1.5, False),
        ([9.0, None], 9.0, -1.0, True),
        ([None], None, None, None),
        ([], None, None, None),
    ],
)
def test_distance(tmp_path: Path, rates, measured, distance, within) -> None:
    file = write(tmp_path, '[[published]]\nid = "r"\nflow = "a"\ncolumn = "rate_mbps"\nvalue = 10\ntolerance = 1\n')
    row = published.evaluate([experimentfile.load(file)], tables(rates)).row(0, named=True)
    assert (row["measured"], row["distance"], row["within"]) == (measured, distance, within)
    assert row["unit"] == "Mb/s"
    found = [rate for rate in rates if rate is not None]
    assert (row["measured_min"], row["measured_max"]) == (min(found, default=None), max(found, default=None))


def test_without_a_tolerance_there_is_a_distance_and_no_verdict(tmp_path: Path) -> None:
    file = write(
        tmp_path, '[[published]]\nid = "r"\nsql = "select avg(rate_mbps) from flows"\nvalue = 10\nunit = "Mb/s"\n'
    )
    row = published.evaluate([experimentfile.load(file)], tables([12.0])).row(0, named=True)
    assert (row["distance"], row["within"]) == (2.0, None)


def test_a_file_of_references(tmp_path: Path) -> None:
    (tmp_path / "cells.csv").write_text("# Source: a plot\nflow,rate\na,9.5\nb,3\n")
    sql = (
        "select flow as quantity, rate as published, rate_mbps as measured "
        "from reference left join flows using (flow) order by flow"
    )
    file = write(
        tmp_path, f'[[published]]\nid = "c"\nreference = "cells.csv"\nunit = "Mb/s"\ntolerance = 1\nsql = "{sql}"\n'
    )
    published.check([expand(experimentfile.load(file), "sim")])
    rows = published.evaluate([experimentfile.load(file)], tables([10.0]))
    assert rows["quantity"].to_list() == ["a", "b"]
    assert rows["distance"].to_list() == [0.5, None]
    assert rows["within"].to_list() == [True, None]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('id = "r"\nsql = "select 1"', ["value", "reference"]),
        ('id = "r"\nsql = "select 1"\nvalue = 1\nreference = "a.csv"', ["value", "reference"]),
        ('id = "r"\nvalue = 1', ["sql", "flow", "column"]),
        ('id = "r"\nvalue = 1\nflow = "a"', ["sql", "flow", "column"]),
        ('id = "r"\nvalue = 1\nflow = "a"\ncolumn = "rate_mbps"\nsql = "select 1"', ["sql"]),
        ('id = "r"\nvalue = "1"\nsql = "select 1"', ["value"]),
        ('id = "r"\nvalue = 1\ntolerance = -1\nsql = "select 1"', ["tolerance", "-1"]),
        ('id = "r"\nreference = "../a.csv"\nsql = "select 1"', ["reference", "../a.csv"]),
        ('id = "r"\nvalue = 1\nsql = "select 1"\ntolerence = 2', ["tolerence", "tolerance"]),
        (
            'id = "r"\nvalue = 1\nsql = "select 1"\n[[published]]\nid = "r"\nvalue = 1\nsql = "select 1"',
            ['"r"', "twice"],
        ),
    ],
)
def test_a_mistake_in_the_table_is_one_sentence(tmp_path: Path, text: str, names: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        experimentfile.load(write(tmp_path, f"[[published]]\n{text}\n")).tables(published.Published)
    message = str(caught.value)
    assert "published" in message
    assert "\n" not in message
    assert all(name in message for name in names), message


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("select nothing from flows", ["nothing"]),
        ("select flow from flows", ["flow", "number"]),
        ("select 1; select 2", ["one SELECT"]),
        ("drop table all_flows", ["SELECT"]),
        ("selekt 1", ["selekt"]),
    ],
)
def test_a_mistake_in_the_query_is_found_before_anything_runs(tmp_path: Path, sql: str, names: list[str]) -> None:
    file = write(tmp_path, f'[[published]]\nid = "r"\nvalue = 1\nsql = "{sql}"\n')
    with pytest.raises(InputError) as caught:
        published.check([expand(experimentfile.load(file), "sim")])
    assert all(name in str(caught.value) for name in names), str(caught.value)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (None, ["there is no such file", "beside"]),
        ("", ["not a CSV table"]),
        ("a,b\n1,2,3\n", ["not a CSV table"]),
        ("\xff", ["not a CSV table"]),
        ("flow\na\n", ["rate", "published"]),
    ],
)
def test_a_reference_that_cannot_be_read_is_one_sentence(tmp_path: Path, content: str | None, names, capsys) -> None:
    if content is not None:
        (tmp_path / "cells.csv").write_bytes(content.encode("latin-1"))
    sql = "select flow as quantity, rate as published, 1 as measured from reference"
    file = write(tmp_path, f'[[published]]\nid = "c"\nreference = "cells.csv"\nsql = "{sql}"\n')
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert all(name in message for name in [str(file), *names]), message
    assert not (tmp_path / "out").exists()


def test_a_results_folder_keeps_the_references_and_needs_no_others(tmp_path: Path, capsys) -> None:
    sql = "select flow as quantity, rate as published, rate_mbps as measured from reference join flows using (flow)"
    table = f'[[published]]\nid = "c"\nreference = "cells.csv"\nsql = "{sql}"\n'
    file = write(tmp_path, table)
    cells = tmp_path / "cells.csv"
    cells.write_text("flow,rate\na,9.5\n")
    out = tmp_path / "out"
    assert main(["run", str(file), "--out", str(out)]) == 0
    written = (out / "published.parquet").read_bytes()
    cells.unlink()
    (out / "published.parquet").unlink()
    assert main(["report", str(out)]) == 0
    assert (out / "published.parquet").read_bytes() == written
    # Another file of that name would take its place.
    other = tmp_path / "other" / "y.toml"
    other.parent.mkdir()
    other.write_text(EXPERIMENT + table)
    (other.parent / "cells.csv").write_text("flow,rate\na,3\n")
    capsys.readouterr()
    assert main(["run", str(other), "--out", str(out)]) == 2
    message = capsys.readouterr().err
    assert all(name in message for name in ["cells.csv", "rename", str(out)]), message


def test_a_study_file_describes_no_run(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text('title = "t"\nabout = "q"\n[[claim]]\nid = "c"\nsql = "select count(*) > 0 from flows"\n')
    study = experimentfile.load(file)
    assert study.is_study
    assert expand(study, "sim").runs == []
    # Anything of an experiment makes it one, and then it has to be complete.
    file.write_text('duration = "1s"\n[[claim]]\nid = "c"\nsql = "select true"\n')
    with pytest.raises(InputError, match="no link"):
        experimentfile.load(file)
