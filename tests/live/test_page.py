"""The page as a person uses it: Chromium, the server of `l4slab live`, all engines, and the page without a server."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import l4slab
import pytest
from l4slab.engines.linux import kernels
from l4slab.engines.real import forwarder
from l4slab.live import page as pages

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
BUILT = pages.built()
ALONE = BUILT is not None and pages.simulates(BUILT.read_text("utf-8"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
    pytest.mark.skipif(BUILT is None, reason="the page is not built (./dev.sh page)"),
]
needs_module = pytest.mark.skipif(not ALONE, reason="the page was built without the simulator in it")
ENGINES = [
    pytest.param("wasm", marks=needs_module),
    "native",
    pytest.param("linux", marks=pytest.mark.skipif(kernels.installed() is None, reason="no kernel is built")),
]
SIMULATORS = ENGINES[:2]
DESK = {"width": 1400, "height": 950}
FILE = """
title = "A file of one's own"
duration = "30s"
[link.bottleneck]
rate = "30Mbit"
qdisc = "pfifo"
[[flow]]
name = "mine"
cc = "reno"
rtt = "15ms"
[[sweep.aqm]]
level = "CoDel"
"link.bottleneck.qdisc" = "codel"
[[sweep.aqm]]
level = "PIE"
"link.bottleneck.qdisc" = "pie"
"""


class Page:
    """A tab with the page in it."""

    def __init__(self, tab: Any):
        self.tab = tab

    def seconds(self) -> float:
        """Virtual time that is shown."""
        return float(self.tab.locator("#now").inner_text().split()[0])

    def runs_until(self, seconds: float) -> None:
        """Wait for virtual time."""
        self.tab.wait_for_function("(s) => parseFloat(document.getElementById('now').textContent) > s", arg=seconds)

    def has(self, id_: str) -> str:
        return str(self.tab.locator(f"#{id_}").input_value())

    def type(self, id_: str, text: str) -> None:
        """Into the field beside a slider, or any other."""
        self.tab.locator(f"#{id_}").fill(text)
        self.tab.locator(f"#{id_}").press("Enter")

    def problems(self) -> str:
        return "; ".join(self.tab.locator("#problems li").all_inner_texts())

    def hash(self, *held: str) -> str:
        """What the address holds, when it holds these words and what was done last."""
        for words in held:
            self.tab.wait_for_function("(words) => location.hash.includes(words)", arg=words)
        self.tab.wait_for_timeout(400)
        return urlsplit(self.tab.url).fragment

    def choose(self, engine: str) -> None:
        self.tab.locator("#engine").click()
        self.tab.locator(f"#engine-{engine}").check()
        self.tab.keyboard.press("Escape")
        assert self.tab.locator("#engine").inner_text().startswith(f"Engine: {engine}")

    def rates(self) -> dict[str, float]:
        """Of what the legend of the rates names, the newest value in Mb/s."""
        text = self.tab.locator(".legend").filter(has_text="Mb/s").first.inner_text()
        found = re.findall(r"^(.+?)\s+([\d.]+) Mb/s$", text, re.MULTILINE)
        return {name.strip().split(" (")[0]: float(value) for name, value in found}

    def figures(self) -> dict[str, list[dict[str, Any]]]:
        """The tables that the page shows, a row per flow or queue."""
        self.tab.locator("#show-figures").click()
        self.tab.locator("#figures table").nth(1).wait_for()
        tables = self.tab.evaluate(
            """() => [...document.querySelectorAll('#figures table')].map((table) => [table.dataset.table,
              [...table.tHead.rows[0].cells].slice(1).map((cell) => cell.textContent),
              [...table.tBodies[0].rows].map((row) => [row.cells[0].textContent,
                [...row.cells].slice(1).map((cell) => JSON.parse(cell.dataset.value))])])"""
        )
        self.tab.locator("#figures-close").click()
        return {
            name: [dict([("name", head), *((key, cells[i]) for key, cells in rows)]) for i, head in enumerate(heads)]
            for name, heads, rows in tables
        }

    def saved(self, folder: Path) -> Path:
        """The experiment file that the page gives."""
        with self.tab.expect_download() as download:
            self.tab.locator("#save").click()
        file = folder / "saved.toml"
        download.value.save_as(file)
        return file


@contextmanager
def live(*arguments: str) -> Iterator[str]:
    """`l4slab live`, and the address that it prints."""
    command = [sys.executable, "-m", "l4slab", "live", "--no-open", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        process.stdout.close()


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with live() as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Page]]:
    """`visit(address)` opens a page. It must say nothing on the console, and ask nobody but its own server."""
    opened, wrong = [], []

    def open_(address: str, viewport: dict[str, int] = DESK, scheme: str = "light") -> Page:
        tab = browser.new_page(viewport=viewport, color_scheme=scheme)
        own = urlsplit(address)

        def asked(request: Any) -> None:
            url = urlsplit(request.url)
            if url.scheme not in ("blob", "data", "file") and url.netloc != own.netloc:
                wrong.append(request.url)

        tab.on("console", lambda message: wrong.append(message.text))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("request", asked)
        tab.on("websocket", asked)
        start = time.perf_counter()
        tab.goto(address)
        tab.locator("canvas").first.wait_for()
        print(f"drawn after {time.perf_counter() - start:.2f} s")
        opened.append(tab)
        return Page(tab)

    yield open_
    for tab in opened:
        tab.close()
    assert not wrong


@pytest.mark.parametrize("engine", ENGINES)
def test_each_engine_is_chosen_on_the_page_and_runs(served: str, visit: Callable[..., Page], engine: str) -> None:
    page = visit(served)
    page.choose(engine)
    page.tab.locator("#restart").click()
    page.runs_until(2)
    rates = page.rates()
    assert 40 < rates["l4s"] + rates["classic"] < 55
    assert ("view.engine" in page.hash()) == (engine != "wasm")
    assert page.problems() == ""


@pytest.mark.parametrize("engine", ENGINES)
def test_curves_follow_what_is_moved(served: str, visit: Callable[..., Page], engine: str) -> None:
    page = visit(f"{served}#link.bottleneck.rate=40Mbit&link.bottleneck.qdisc=dualpi2&flow.l4s.cc=prague&"
                 f"flow.l4s.rtt=10ms&flow.classic.cc=cubic&flow.classic.rtt=10ms&view.engine={engine}")  # fmt: skip
    page.runs_until(2)
    assert sum(page.rates()[flow] for flow in ("l4s", "classic")) > 25
    page.type("link-bottleneck-rate-typed", "5Mbit")
    page.runs_until(page.seconds() + 2)
    rates = page.rates()
    assert rates["l4s"] + rates["classic"] < 6
    assert rates["link"] == 5
    before = page.has("link-bottleneck-rate-typed")
    for _ in range(3):
        page.tab.locator("#link-bottleneck-rate").press("ArrowRight")
    assert page.has("link-bottleneck-rate-typed") != before
    page.tab.locator("#link-bottleneck-qdisc-pfifo").click()
    page.type("flow-classic-rtt-typed", "40ms")
    page.type("flow-l4s-count-typed", "3")
    page.runs_until(page.seconds() + 1)
    assert page.hash("flow.l4s.count=3", "flow.classic.rtt=40ms", "qdisc=pfifo")
    assert page.problems() == ""


def test_the_page_shows_a_running_bottleneck(visit: Callable[..., Page], tmp_path: Path) -> None:
    """Its address opens the engine real; what is drawn is a program's packets, and a slider moves their queue."""
    can, why_not = forwarder.examine() if sys.platform.startswith("linux") else (False, "this is not Linux")
    if not can:
        pytest.skip(why_not)
    file = tmp_path / "home.toml"
    file.write_text(FILE.split("[[sweep.aqm]]", maxsplit=1)[0].replace("30Mbit", "20Mbit"))
    programs = Path(__file__).parents[1] / "bottleneck" / "programs"
    send, receive = (f"{sys.executable} {programs / name} udp" for name in ("send.py", "receive.py"))
    command = [sys.executable, "-m", "l4slab", "bottleneck", str(file), "--live", "--late", "10s", "--server", receive]
    process = subprocess.Popen(
        [*command, "--", *f"{send} 10.0.0.2 30000 30e6".split()], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        page = visit(process.stderr.readline().strip())
        assert page.tab.locator("#engine").inner_text().startswith("Engine: real")
        page.runs_until(2)
        assert 15 < page.rates()["mine"] <= 21
        page.type("link-bottleneck-rate-typed", "5Mbit")
        page.runs_until(page.seconds() + 2)
        assert page.rates()["mine"] < 6
        assert page.problems() == ""
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


@pytest.mark.parametrize("engine", SIMULATORS)
def test_every_preset_loads_and_runs(served: str, visit: Callable[..., Page], engine: str) -> None:
    page = visit(f"{served}#view.engine={engine}")
    presets = page.tab.evaluate("[...document.querySelectorAll('#preset option[value]')].map((one) => one.value)")
    addresses = set()
    for preset in filter(None, presets):
        page.tab.locator("#preset").select_option(preset)
        addresses.add(page.hash())
        assert page.has("preset") == preset
        page.runs_until(0.2)
        assert page.problems() == "", preset
    assert len(addresses) == len([one for one in presets if one]) >= 10


def test_the_address_is_the_set_up(served: str, visit: Callable[..., Page]) -> None:
    page = visit(f"{served}#view.engine=native")
    page.type("link-bottleneck-rate-typed", "12.5Mbit")
    page.type("link-bottleneck-qdisc", "dualpi2 target 20ms")
    page.type("flow-l4s-rtt-typed", "7ms")
    page.tab.locator("#flow-classic-cc").select_option("reno")
    page.tab.locator("#add-classic").select_option("udp")
    page.type("speed-typed", "0.5")
    held = page.hash("rate=12.5Mbit", "qdisc=dualpi2", "rtt=7ms", "cc=reno", "kind=cbr", "view.speed=0.5")
    again = visit(f"{served}#{held}")
    assert again.hash() == held
    ids = (
        "[...document.querySelectorAll('.controls input, .controls select, #speed')].map((one) => [one.id, one.value])"
    )
    assert again.tab.evaluate(ids) == page.tab.evaluate(ids)
    assert again.has("flow-classic-cc") == "reno"
    assert "dualpi2 target 20ms" in again.has("link-bottleneck-qdisc")
    again.tab.go_back()
    assert again.problems() == ""


def figures_of(file: Path) -> dict[str, list[dict[str, Any]]]:
    """What `l4slab run` gives, in the form of the page's tables."""
    results = l4slab.run(file)
    names = {"flows": ["flow"], "links": ["link", "queue"]}
    tables = {}
    for table, keys in names.items():
        frame = getattr(results, table)
        frame = frame.filter(trial=frame["trial"].max())
        columns = [
            name
            for name in frame.columns
            if frame[name].count() and name not in ("experiment", "run", "engine", "trial")
        ]
        rows = json.loads(frame.select(columns).write_json())
        tables[table] = [
            {"name": ", ".join(row[key] for key in keys), **{k: v for k, v in row.items() if k not in keys}}
            for row in rows
        ]
    return tables


@pytest.mark.parametrize("engine", SIMULATORS)
def test_a_saved_file_gives_the_figures_of_the_page(
    served: str, visit: Callable[..., Page], tmp_path: Path, engine: str
) -> None:
    page = visit(f"{served}#view.engine={engine}")
    page.tab.locator("#play").click()
    page.tab.wait_for_timeout(500)
    page.tab.locator("#restart").click()
    page.tab.locator("#play").click()
    page.runs_until(0.6)
    page.type("link-bottleneck-rate-typed", "20Mbit")
    page.type("flow-classic-rtt-typed", "30ms")
    page.tab.locator("#add-l4s").select_option("long")
    page.tab.locator("#add-classic").select_option("web")
    page.runs_until(page.seconds() + 1)
    page.tab.locator("#link-bottleneck-qdisc-dualpi2").click()
    page.type("flow-l4s-count-typed", "4")
    page.runs_until(page.seconds() + 1)
    page.type("flow-l4s-count-typed", "2")
    page.runs_until(page.seconds() + 1)
    page.tab.locator("#play").click()
    page.tab.wait_for_timeout(1000)
    shown = page.figures()
    file = page.saved(tmp_path)
    assert file.read_text().count("[[at]]") >= 6
    assert {row["name"] for row in shown["flows"]} >= {"l4s", "classic", "l4s-2", "web-classic"}
    assert figures_of(file) == shown
    assert page.problems() == ""


@pytest.mark.parametrize("engine", SIMULATORS)
@pytest.mark.parametrize("preset", ["start", "fast-lane-A"])
def test_instant_mode_answers_at_once_and_its_file_gives_the_same(
    served: str, visit: Callable[..., Page], tmp_path: Path, engine: str, preset: str
) -> None:
    page = visit(f"{served}#view.engine={engine}")
    page.tab.locator("#preset").select_option(preset)
    page.tab.locator("#mode-instant").click()
    page.runs_until(19)
    before = page.figures()
    page.type("link-bottleneck-rate-typed", "12Mbit")
    page.tab.wait_for_timeout(1500)
    shown = page.figures()
    assert shown != before
    assert figures_of(page.saved(tmp_path)) == shown
    assert page.problems() == ""


def test_a_file_is_what_the_page_begins_with(visit: Callable[..., Page], tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(FILE)
    with live(str(file), "--where", "aqm = 'PIE'") as address:
        # The run waits at the server: an address with all of it has thousands of characters.
        assert len(address) < 100
        page = visit(address)
        page.runs_until(0.3)
        assert page.hash().startswith("duration=30s&link.bottleneck.rate=30Mbit&link.bottleneck.qdisc=pie")
        assert page.has("flow-mine-cc") == "reno"
        assert page.problems() == ""


@contextmanager
def file_server(folder: Path) -> Iterator[str]:
    """Any web server."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@needs_module
@pytest.mark.parametrize("place", ["a file server", "the disk"])
def test_the_page_needs_no_server_of_ours(visit: Callable[..., Page], tmp_path: Path, place: str) -> None:
    file, out = tmp_path / "mine.toml", tmp_path / "page.html"
    file.write_text(FILE)
    command = [sys.executable, "-m", "l4slab", "live", str(file), "--out", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with file_server(tmp_path) as address:
        page = visit(f"{address}/page.html" if place == "a file server" else out.as_uri())
        page.runs_until(1)
        assert page.has("flow-mine-cc") == "reno"
        assert 20 < page.rates()["mine"] < 31
        assert page.tab.locator("#engine-native").is_disabled()
        assert page.problems() == ""


@needs_module
def test_a_run_of_a_report_is_changed(visit: Callable[..., Page], tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(FILE.replace("30s", "2s"))
    results = l4slab.run(file, out=tmp_path / "out")
    tab = visit((tmp_path / "out" / "live.html").as_uri()).tab
    (run,) = results.flows.filter(trial=1).rows(named=True)[1:]
    tab.goto(f"{(tmp_path / 'out' / 'report.html').as_uri()}#run={run['run']}")
    tab.get_by_text("Change this run").click()
    page = Page(tab)
    page.runs_until(0.3)
    assert page.hash("link.bottleneck.qdisc=pie")
    assert page.problems() == ""
    page.tab.locator("#mode-instant").click()
    page.runs_until(1.9)
    (shown,) = page.figures()["flows"]
    assert shown["goodput_mbps"] == run["goodput_mbps"]


def test_a_change_begins_the_means_anew_and_the_preset_says_so(served: str, visit: Callable[..., Page]) -> None:
    page = visit(f"{served}#view.engine=native")
    preset = page.has("preset")
    page.runs_until(1)
    note, look = page.tab.locator(".headline .of"), page.tab.locator("#look")
    (seconds,) = re.findall(r"^Means of the last ([\d.]+) s$", note.inner_text())
    assert 0 < float(seconds) < 20, "no longer than the run so far, and the note may be a moment behind its clock"
    page.tab.locator("#link-bottleneck-qdisc-codel").click()
    page.tab.get_by_text("Means since the change", exact=True).wait_for()
    assert look.inner_text().startswith("Changed from the preset")
    assert not page.tab.locator("#source").is_visible()
    page.tab.locator("#preset").select_option(preset)
    page.tab.locator("#source").wait_for()
    assert not look.inner_text().startswith("Changed")


def test_on_a_phone_the_controls_are_within_reach_of_what_they_change(served: str, visit: Callable[..., Page]) -> None:
    height = 844
    page = visit(f"{served}#view.engine=native", {"width": 390, "height": height})
    rate, queue = page.tab.locator("#link-bottleneck-rate"), page.tab.locator(".panel-queue canvas")
    assert not rate.is_visible()
    page.tab.get_by_text("Controls", exact=True).click()
    page.tab.evaluate("scrollTo(0, document.querySelector('.transport').offsetTop)")
    for place in (rate, queue):
        box = place.bounding_box()
        assert box is not None
        assert 0 <= box["y"] < height


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 1024, 390])
def test_nothing_scrolls_sideways(served: str, visit: Callable[..., Page], width: int, scheme: str) -> None:
    page = visit(f"{served}#view.engine=native", {"width": width, "height": 900}, scheme)
    page.runs_until(1)
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= width


def test_the_page_names_no_other_host() -> None:
    assert BUILT is not None
    text = BUILT.read_text("utf-8")
    hosts = {urlsplit(address).netloc for address in re.findall(r"(?:https?|wss?)://[\w.:%-]+", text)}
    assert hosts <= {"www.w3.org"}  # of names, which nobody asks
    print(f"{len(text.encode()) / 1000:.0f} kB")
