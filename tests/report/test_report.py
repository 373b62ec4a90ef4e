"""report.html: complete, self-contained, the same bytes every time, and sound where data is missing."""

import itertools
import re
from pathlib import Path

import duckdb
import polars as pl
import pytest
from l4slab.api import campaign
from l4slab.base import metrics, numbers
from l4slab.report import tables, write_report
from l4slab.report.results import load
from l4slab.results import claims

from .pages import Page, Report


@pytest.fixture(scope="session")
def study_page(page: dict[str, pl.DataFrame], tmp_path_factory: pytest.TempPathFactory) -> str:
    from l4slab.base.packaged import study

    from .conftest import folder

    return write_report(folder(tmp_path_factory.mktemp("r"), study("fast-lane"), page)).read_text("utf-8")


def experiment(tmp_path: Path, extra: str = "", name: str = "x.toml") -> Path:
    file = tmp_path / name
    file.write_text(
        'title = "<script>alert(1)</script> & more"\nduration = "1s"\n[link.l]\nrate = "10Mbit"\nqdisc = "pfifo"\n'
        f'[[flow]]\nname = "a"\ncc = "cubic"\nrtt = "10ms"\n{extra}'
    )
    return file


def empty() -> dict[str, pl.DataFrame]:
    return {name: pl.DataFrame(schema=metrics.LABELS | schema) for name, schema in metrics.TABLES.items()}


@pytest.mark.slow
def test_the_same_folder_gives_the_same_bytes(page, make_folder) -> None:
    folder = make_folder(page)
    first = write_report(folder).read_bytes()
    (folder / "report.html").unlink()
    assert write_report(folder).read_bytes() == first


def test_it_needs_no_network(study_page: str) -> None:
    page = Page(study_page)
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "object", "embed", "base")
        for name in ("src", "srcset", "href", "xlink:href", "action", "poster"):
            assert (attributes.get(name) or "#").startswith("#"), (tag, attributes)
    styles = "".join(re.findall(r"<style[^>]*>(.*?)</style>", study_page, re.DOTALL))
    assert not re.search(r"@import|url\((?!#)", styles)
    # The table library can fetch; `test_browser` looks whether it does.
    own = page.scripts[-1][1]
    assert "use strict" in own
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(|WebSocket", own)
    assert "sourceMappingURL" not in study_page


def test_it_says_nothing_about_when_and_where(study_page: str, tmp_path: Path) -> None:
    assert str(tmp_path.parent.parent) not in study_page
    assert not re.search(r"<dc:date>|<metadata>", study_page)


def test_ids_are_unique_and_links_lead_somewhere(study_page: str) -> None:
    page = Page(study_page)
    assert not page.open
    assert len(page.ids) == len(set(page.ids))
    links = [str(a["href"]) for a in page.all("a")]
    targets = {link[1:] for link in links if not link.startswith("#run=")} | set(
        re.findall(r"url\(#([^)]+)\)", study_page)
    )
    targets |= {str(a["xlink:href"])[1:] for a in page.all("use")}
    assert targets <= set(page.ids)


def test_figures_have_a_text_and_tables_have_headings(study_page: str) -> None:
    page = Page(study_page)
    assert not page.all("svg")
    assert len([one for one in page.all("div") if "data-case" in one]) == 4
    assert page.all("html")[0]["lang"] == "en"
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels))


def test_the_study_is_all_there(study_page: str) -> None:
    text = " ".join(Page(study_page).text.split())
    for part in [
        "Does DualPI2 offer a fast lane?",
        "Which of the two camps",
        "22 of 22 statements of the study reproduced",
        "2 of 2 disputed statements refuted",
        "l4slab reproduce fast-lane",
        "The control to B: the tweaked flow",
    ]:
        assert part.lower() in text.lower(), part


def test_a_verdict_that_differs_from_the_study_stands_out(make_tables, make_folder) -> None:
    folder = make_folder(make_tables({"A": {"cubic": 10, "tweaked": 40}}))
    text = write_report(folder).read_text("utf-8")
    loaded = load(folder)
    lists = {one["kind"]: one for one in tables.lists(loaded, tables.verdicts(loaded))}
    surprising = {row["id"] for row in lists["statement"]["unexpected"]}
    assert "A-smaller-share" in surprising
    assert "summary-same-throughput" not in surprising
    assert {row["id"] for row in lists["disputed"]["unexpected"]} == {
        "objection-fast-lane",
        "objection-easily-exploited",
    }
    page = " ".join(Page(text).text.split())
    assert "0 of 2 disputed statements refuted; 2 not" in page
    # Before the figures and everything else: what was not found, with its evidence.
    assert text.index('class="unexpected"') < text.index("A-smaller-share") < text.index('<section id="figures">')


def test_agreement_shows_the_distance(make_tables, make_folder) -> None:
    folder = make_folder(make_tables({"A": {"cubic": 46.0, "tweaked": 4.5}}))
    rows = {(row["experiment"], row["quantity"]): row for row in tables.agreement(load(folder))}
    outside = rows["A", "rate of the plain CUBIC flow (Mb/s)"]
    assert (outside["published"], outside["measured"], outside["distance"]) == ("43.6", "46.00", "+2.40")
    assert outside["within"] is False
    inside = rows["A", "rate of the tweaked flow (Mb/s)"]
    assert (inside["distance"], inside["within"]) == ("\u22121.60", True)
    # Left of the middle, inside the shaded third on that side.
    assert 100 / 6 < inside["at"] < 50 < 500 / 6 < outside["at"]
    page = write_report(folder).read_text("utf-8")
    assert "21 of 22" in page
    assert ">outside<" in page


def test_missing_runs_are_named(study_page: str) -> None:
    assert "8 of 20 runs are missing" in study_page


def test_the_part_that_a_study_does_by_default_is_no_alarm(make_folder, tmp_path: Path) -> None:
    file = experiment(tmp_path)
    file.write_text('trials = 4\nsubset = "trial <= 2"\n' + file.read_text())
    (plan,) = campaign.plan([file], subset=True)
    rows = [{"experiment": "x", "run": run.id, "trial": run.trial, "flow": "a"} for run in plan.todo]
    made = empty()
    made["flows"] = pl.DataFrame(rows, schema=made["flows"].schema)
    text = write_report(make_folder(made, [file])).read_text("utf-8")
    assert "2 of 4 runs" in text
    assert "done by default" in text
    assert "missing" not in Page(text).text
    # Of these, one that is not there is missing.
    made["flows"] = made["flows"].head(1)
    assert "1 of 2 runs are missing" in write_report(make_folder(made, [file])).read_text("utf-8")


def test_nothing_at_all(make_folder, tmp_path: Path) -> None:
    folder = make_folder(empty(), [experiment(tmp_path)])
    for name in ("claims", "published"):
        (folder / f"{name}.parquet").unlink()
    text = write_report(folder).read_text("utf-8")
    assert "1 of 1 run is missing" in text
    assert not Page(text).all("svg")
    assert "alert(1)" in text
    assert "<script>alert" not in text


def test_a_queue_without_probabilities_and_a_flow_without_rtt(make_folder, tmp_path: Path) -> None:
    made = empty()
    label = {"experiment": "x", "run": "r", "trial": 1}
    made["flows"] = pl.DataFrame([label | {"flow": "a", "cc": "cbr", "rate_mbps": 5.0}], schema=made["flows"].schema)
    samples = [label | {"flow": "a", "time_s": t / 10, "rate_mbps": 5.0} for t in range(1, 11)]
    made["series"] = pl.DataFrame(samples, schema=made["series"].schema)
    folder = make_folder(made, [experiment(tmp_path)])
    page = Page(write_report(folder).read_text("utf-8"))
    assert not page.all("svg")
    assert "a (cbr) got 5.00 Mb/s of 10.0." in page.text
    assert "Verdict" not in page.text


def test_a_sweep_has_a_figure_per_level(make_folder, tmp_path: Path) -> None:
    file = experiment(tmp_path, '[sweep]\n"flow.a.rtt" = ["5ms", "10ms"]\n')
    made = {}
    for name, frame in empty().items():
        labels = {"experiment": pl.String, "run": pl.String, "trial": pl.Int64, "flow.a.rtt": pl.String}
        rows = []
        for number, level in enumerate(["5ms", "10ms"]):
            label = {"experiment": "x", "run": f"r{number}", "trial": 1, "flow.a.rtt": level}
            if name == "flows":
                rows.append(label | {"flow": "a", "cc": "cubic", "rate_mbps": 9.0, "rtt_ms_mean": 7.0})
            if name == "series":
                rows += [
                    label | {"flow": "a", "time_s": t / 10, "rate_mbps": 9.0, "srtt_ms": 7.0} for t in range(1, 11)
                ]
        made[name] = pl.DataFrame(rows, schema=labels | dict(frame.schema) | labels)
        made[name] = made[name].select(*labels, *(c for c in frame.columns if c not in labels))
    folder = make_folder(made, [file])
    page = Page(write_report(folder).read_text("utf-8"))
    assert not page.all("svg")
    cases = Report(folder).index["cases"]
    assert len(cases) == 2
    assert all(case["runs"] == [case["drawn"]] for case in cases)
    assert "rtt = 5ms" in page.text
    assert [case.level_text for case in load(folder).cases] == ["rtt = 5ms", "rtt = 10ms"]


def test_queries_read_of_a_file_what_they_need(tmp_path: Path) -> None:
    """DuckDB reads a result file itself, by columns, and joins it to what is small; other files it cannot read."""
    frame = pl.DataFrame({"run": ["r"] * 9, "time_s": [0.1] * 9}, schema_overrides=metrics.TABLES["series"])
    frame.write_parquet(tmp_path / "it's.parquet")
    frame.write_csv(tmp_path / "other.csv")
    with claims.connect_to({"series": tmp_path / "it's.parquet"}) as connection:
        plan = connection.execute("explain select sum(time_s) from all_series").fetchall()[0][1]
        assert "READ_PARQUET" in plan
        assert "time_s" in plan
        assert "run" not in plan.replace("rows", "")
        for place in ("other.csv", "it's.parquet"):
            query = f"select * from read_csv('{str(tmp_path / place).replace(chr(39), 2 * chr(39))}')"
            with pytest.raises(duckdb.PermissionException) if place == "other.csv" else pytest.raises(duckdb.Error):
                connection.execute(query)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""), (0, "0"), (1e-12, "0"), (43.613, "43.6"), (0.01234, "0.0123"), (12345.6, "12\u202f346"),
        (-1.5, "\u22121.50"), (0.000123, "0.000123"), (99.96, "100"), (1203, "1\u202f203"), (5, "5"),
        (float("inf"), "inf"),
    ],
)  # fmt: skip
def test_numbers(value, text) -> None:
    assert numbers.number(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.00102, "0"), (0.0123, "0.012"), (0.123, "0.123"), (12.34, "12.3")])
def test_delays_below_a_hundredth_of_a_millisecond_are_none(value, text) -> None:
    assert numbers.number(value, "ms") == text
    assert tables.shown(value, "sojourn_ms_p50") == text


@pytest.mark.parametrize(
    ("value", "text"), [(1e6, "1\u202f000\u202f000"), (1e-5, "0.00001"), (12.5, "12.5"), (0, "0"), (-3, "\u22123")]
)
def test_axes_have_no_exponents(value, text) -> None:
    assert numbers.plain(value) == text


def test_what_happened_in_words(make_folder, tmp_path: Path) -> None:
    """Many capacities are told by their range, transfers are whole, and a delay of nothing is none."""
    (tmp_path / "many.csv").write_text("time_s,rate_mbps\n" + "".join(f"{t / 10},{8 + t % 7}\n" for t in range(100)))
    file = experiment(tmp_path)
    text = file.read_text()
    file.write_text(
        text.replace("[link.", "trials = 2\n[link.", 1).replace('rate = "10Mbit"', 'rate_trace = "many.csv"', 1)
    )
    made = empty()
    delays = {"sojourn_ms_p50": 0.00102, "sojourn_ms_p99": 0.00102, "ce_pct": 0.0, "drop_pct": 0.0}
    done = {"transfers": 10, "completion_ms_p50": 20.0, "completion_ms_p99": 30.0}
    made["flows"] = pl.DataFrame(
        [
            {"experiment": "x", "run": f"r{trial}", "trial": trial, "flow": "a", "rate_mbps": 5.0, "unfinished": trial}
            | delays
            | done
            for trial in (1, 2)
        ],
        schema=made["flows"].schema | {"unfinished": pl.Int64},
    )
    made["links"] = pl.DataFrame(
        [{"experiment": "x", "run": "r1", "trial": 1, "link": "l", "queue": "all", "sojourn_ms_max": 0.001}],
        schema=made["links"].schema,
    )
    page = Page(write_report(make_folder(made, [file])).read_text("utf-8"))
    assert "no queueing delay; none were marked, none lost; half of its 10 transfers per trial took less" in page.text
    assert "in 2 trials 3 transfers were incomplete at the end" in page.text
    assert "its capacity changed" in page.text
    assert "between 8.00 and 14.0 Mb/s; nothing waited in its queue" in page.text
    assert "→" not in page.text.split("What happened")[1].split("Results")[0]


@pytest.mark.parametrize(
    ("column", "text"),
    [("rtt_ms_p99", "rtt p99 (ms)"), ("ce_pct", "ce (%)"), ("share", "share"), ("rate_mbps", "rate on the wire (Mb/s)"),
     ("backlog_packets_max", "backlog packets max"), ("retransmits", "retransmits")],
)  # fmt: skip
def test_headings(column, text) -> None:
    assert tables.heading(column) == text
