"""The report as a person sees it: Chromium opens it from the disk, at the width of a desk and of a phone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import l4slab
import polars as pl
import pytest
from l4slab import experimentfile, sweep
from l4slab.base import metrics
from l4slab.campaign.store import Store
from l4slab.report import grids, runs, write_report

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("there is no Chromium on this machine", allow_module_level=True)

# The browser starts, and the report of a thousand runs is made, once per process of the tests.
pytestmark = pytest.mark.slow

DESK, PHONE = {"width": 1400, "height": 900}, {"width": 390, "height": 844}
CASES, TRIALS = 500, 2
FILE = """
title = "A thousand runs"
duration = "2s"
trials = 2
[link.l]
rate = "10Mbit"
qdisc = "pfifo limit {{n}}"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
[sweep]
n = [{levels}]
"""


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a thousand runs, which are files."""
    place = tmp_path_factory.mktemp("thousand")
    file = place / "x.toml"
    file.write_text(FILE.format(levels=", ".join(map(str, range(1, CASES + 1)))))
    experiment = experimentfile.load(file)
    plan = sweep.expand(experiment, "sim")
    labels = [{"experiment": "x", "run": run.id, "trial": run.trial, **run.factors} for run in plan.runs]
    rows: dict[str, list[dict[str, Any]]] = {
        "flows": [one | {"flow": "a", "cc": "cubic", "rate_mbps": one["n"] / 50} for one in labels],
        "links": [one | {"link": "l", "queue": "all", "rate_mbps": one["n"] / 50} for one in labels],
        "series": [one | {"flow": "a", "time_s": t, "rate_mbps": t + one["n"]} for one in labels for t in (1.0, 2.0)],
    }
    order = {"experiment": pl.String, "run": pl.String, "trial": pl.Int64, "n": pl.Int64}
    with Store(place / "out") as store:
        store.keep_experiment(experiment)
        for name, schema in metrics.TABLES.items():
            store.write(name, pl.DataFrame(rows.get(name, []), schema=order | schema, strict=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "MAX_EMBEDDED_ROWS", 0)
        patch.setattr(grids, "MAX_EMBEDDED_BYTES", 0)
        return write_report(place / "out", {"x": plan})


CLAIMS = """
[[claim]]
id = "not-there"
source = "a paper"
says = "The first words of this statement stand beside the verdict, and not below it."
sql = "select rate_mbps > 100 from flows"
[[claim]]
id = "there"
source = "a paper"
says = "This one is found."
sql = "select rate_mbps < 100 from flows"
"""


@pytest.fixture(scope="module")
def claims(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of one run with two statements, one of which is not found."""
    place = tmp_path_factory.mktemp("claims")
    file = place / "x.toml"
    file.write_text(FILE.format(levels="1").replace("trials = 2", "trials = 1") + CLAIMS)
    l4slab.run(file, out=place / "out")
    return write_report(place / "out")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Any]:
    """`visit(report, viewport, scheme)` opens a page; it must not ask for anything but files, nor fail."""
    opened, wrong = [], []

    def open_(report: Path, viewport: dict[str, int] = DESK, scheme: str = "light") -> Any:
        page = browser.new_page(viewport=viewport, color_scheme=scheme)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: asked.url.startswith(("file:", "blob:")) or wrong.append(asked.url))
        page.goto(report.as_uri())
        opened.append(page)
        return page

    yield open_
    for page in opened:
        page.close()
    assert not wrong


def test_the_tables_come_within_a_dozen_screens(thousand: Path, visit: Any) -> None:
    assert thousand.stat().st_size < 2_000_000
    for viewport in (DESK, PHONE):
        page = visit(thousand, viewport)
        top = page.evaluate("document.getElementById('results').getBoundingClientRect().top + scrollY")
        assert top < 12 * viewport["height"]
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_the_contents_list_stays_in_sight_and_is_a_menu_on_a_phone(thousand: Path, visit: Any) -> None:
    page = visit(thousand)
    page.get_by_role("navigation").get_by_text("How to reproduce").click()
    assert page.get_by_role("navigation").get_by_text("Results").is_visible()
    page = visit(thousand, PHONE)
    link = page.get_by_role("navigation").get_by_text("Results")
    assert not link.is_visible()
    page.get_by_text("Contents").click()
    link.click()
    assert page.evaluate("document.getElementById('results').getBoundingClientRect().top") < PHONE["height"] / 2


def test_any_run_opens_in_three_clicks(thousand: Path, visit: Any) -> None:
    page = visit(thousand)
    page.get_by_role("navigation").get_by_text("Results").click()
    page.locator(".tabulator-row").first.wait_for()
    assert page.locator("#shown").inner_text() == f"{CASES} rows"
    page.locator(".tabulator-header-filter input:visible").first.fill("= 321")  # as a paste does, without a key
    page.wait_for_function("document.getElementById('shown').textContent.startsWith('1 of')")
    page.locator(".tabulator-row").first.click()
    page.locator("#charts canvas").first.wait_for()
    assert page.locator("#run-title").inner_text() == "n = 321"
    first = page.locator("#run-note").inner_text()
    page.locator("#trial").select_option(label="2")
    page.wait_for_function("(first) => document.getElementById('run-note').textContent !== first", arg=first)
    page.get_by_role("button", name="Close").click()
    assert not page.locator("#run").is_visible()


def test_a_folded_case_is_drawn_when_it_is_unfolded(thousand: Path, visit: Any) -> None:
    for viewport in (DESK, PHONE):
        page = visit(thousand, viewport)
        page.locator("details.case").first.locator("canvas").first.wait_for()
        case = page.locator("details.case").nth(3)
        assert case.locator("canvas").count() == 0
        case.locator("summary").click()
        case.locator("canvas").first.wait_for()
        assert "the median of 2 trials" in case.inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_rows_sort_and_columns_hide(thousand: Path, visit: Any) -> None:
    page = visit(thousand)
    page.evaluate("document.getElementById('results').scrollIntoView()")
    heading = page.locator(".tabulator-col", has_text="rate on the wire (Mb/s)")
    heading.first.wait_for()
    heading.locator(".tabulator-col-title").click()
    heading.locator(".tabulator-col-title").click()
    assert str(CASES) in page.locator(".tabulator-row").first.inner_text()
    page.get_by_text("Columns", exact=True).click()
    page.get_by_label("rate on the wire (Mb/s)", exact=True).uncheck()
    assert not heading.is_visible()


def test_ink_follows_the_page_in_dark_mode_and_on_paper(thousand: Path, visit: Any) -> None:
    ink = "getComputedStyle(document.querySelector('.strips tbody th')).color"
    colours = [visit(thousand, DESK, scheme).evaluate(ink) for scheme in ("light", "dark")]
    assert colours[0] != colours[1]
    page = visit(thousand, DESK, "dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.get_by_role("navigation").is_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.querySelectorAll('main details:not([open]):not(.bulk):not(.columns)').length") == 0


def test_a_run_whose_file_is_gone_says_so(thousand: Path, visit: Any) -> None:
    page = visit(thousand)
    page.evaluate("location.hash = 'run=ffffffffffffffff'")
    page.wait_for_function("document.getElementById('run-note').textContent.includes('cannot be opened')")
    assert "/ffffffffffffffff.js is not beside this page" in page.locator("#run-note").inner_text()


@pytest.mark.parametrize("viewport", [DESK, {"width": 700, "height": 900}, PHONE], ids=["desk", "tablet", "phone"])
def test_a_verdict_covers_no_word_of_its_statement(viewport: dict[str, int], claims: Path, visit: Any) -> None:
    page = visit(claims, viewport)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    pairs = [
        [part.bounding_box() for part in (row.locator(".badge"), row.locator("> span:last-child"))]
        for row in page.locator(".claim > summary").all()
    ]
    assert len(pairs) == 2
    for badge, words in pairs:
        assert badge["x"] + badge["width"] <= words["x"] or badge["y"] + badge["height"] <= words["y"]
    assert len({words["x"] for _, words in pairs}) == 1


FIGURES = """
[[figure]]
id = "lines"
kind = "lines"
caption = "A line."
label = "y"
x_label = "x"
sql = "select x, 2 * x as y, 'p' as part, x - 0.5 as low, 3 * x as high, 2 * x as published from range(1, 9) t(x)"
[[figure]]
id = "cdf"
kind = "cdf"
caption = "A distribution."
x_log = true
sql = "select x as value, 'panel ' || x % 2 as panel, 'p' as part from range(1, 99) t(x)"
[[figure]]
id = "runs"
kind = "runs"
caption = "A run."
sql = "select run from flows"
[[figure]]
id = "heat"
kind = "heatmap"
caption = "A map."
sql = "select x as row, y as column, x * y / 3 as value from range(3) t(x), range(30) u(y)"
[[figure]]
id = "bars"
kind = "shares"
caption = "Bars."
sql = "select x as bar, y as part, 10 * (x + y) as value from range(1, 3) t(x), range(3) u(y)"
[[figure]]
id = "nothing"
kind = "lines"
caption = "Nothing."
sql = "select 1 as x, 2 as y where false"
"""


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a study that chooses a figure of each kind that the page draws."""
    place = tmp_path_factory.mktemp("figures")
    file, study = place / "x.toml", place / "study.toml"
    file.write_text(FILE.format(levels="1"))
    study.write_text(f'title = "Figures"\n{FIGURES}')
    l4slab.run([file, study], out=place / "out")
    return write_report(place / "out")


def test_the_page_draws_the_figures_that_a_study_chooses(figures: Path, visit: Any) -> None:
    for viewport in (DESK, PHONE):
        page = visit(figures, viewport)
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        drawn = [page.locator(f'.drawn[data-figure="{number}"]') for number in range(3)]
        for one, charts in zip(drawn, (1, 2, 2), strict=True):
            one.locator("canvas").nth(charts - 1).wait_for()
            assert one.locator("canvas").count() == charts
        assert "published" in drawn[0].locator(".legend").inner_text()
        assert "has nothing to draw" in page.locator("#figures").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_on_a_phone_the_first_column_of_a_wide_table_stays(figures: Path, visit: Any) -> None:
    page = visit(figures, PHONE)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    wide = page.locator(".wide", has=page.locator(".heat")).first
    assert wide.evaluate("(one) => one.scrollWidth > one.clientWidth")
    head = wide.locator("tbody th").first
    before = head.bounding_box()["x"]
    wide.evaluate("(one) => { one.scrollLeft = 400; }")
    assert abs(head.bounding_box()["x"] - before) < 2


def test_a_phone_shows_a_flow_below_another_with_its_numbers(thousand: Path, visit: Any) -> None:
    page = visit(thousand, PHONE)
    number = page.locator(".strips td.n").first.bounding_box()
    strip = page.locator(".strips td.strip").first.bounding_box()
    assert number["x"] >= 0
    assert number["x"] + number["width"] <= strip["x"] + 1, "no mark runs through a number"
    assert strip["x"] + strip["width"] <= PHONE["width"]
