"""The core as WebAssembly (`./dev.sh page`) beside the native one, and the page that holds it."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from l4slab import _core
from l4slab.live import page

ROOT = Path(__file__).parents[2]
WEB, MODULE = ROOT / "web", ROOT / "web" / "core.wasm"
PATH = os.pathsep.join([os.environ["PATH"], str(Path(sys.executable).parent)])

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def node() -> str:
    """A Node.js, where there is a module to run in it."""
    found = shutil.which("node", path=PATH)
    if found is None or not MODULE.is_file():
        pytest.skip("the core was not compiled to WebAssembly: ./dev.sh page")
    return found


@pytest.fixture(scope="module")
def lines(node: str, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that answers lines."""
    script = tmp_path_factory.mktemp("lines") / "lines.mjs"
    bundler = WEB / "node_modules/.bin/rolldown"
    command = [bundler, "tools/lines.ts", "--platform", "node", "--format", "esm", "--file", str(script)]
    subprocess.run(command, cwd=WEB, check=True, capture_output=True, env=os.environ | {"PATH": PATH})
    return [node, str(script), str(MODULE)]


def asked(lines: list[str], requests: list[str]) -> tuple[list[str], list[float]]:
    """Answers of the module, and how many milliseconds each took."""
    done = subprocess.run(lines, input="\n".join(requests), capture_output=True, text=True, check=True)
    return done.stdout.splitlines(), [float(line) for line in done.stderr.splitlines()]


def run(
    flows: list[dict[str, Any]], qdisc: str = "dualpi2", rate: int = 100_000_000, seconds: int = 60
) -> dict[str, Any]:
    link = {"name": "bottleneck", "rate_bps": rate, "qdisc": qdisc}
    common = {"rtt_ns": 10_000_000, "path": ["bottleneck"]}
    described = [{"name": f"f{n}"} | common | flow for n, flow in enumerate(flows)]
    return {"duration_ns": seconds * 1_000_000_000, "seed": 2**64 - 1, "links": [link], "flows": described}


TWO = [{"cc": "prague"}, {"cc": "cubic"}]
ALL = {"sample_ns": 20_000_000, "members": True, "histograms": True, "packets": True}


def a_session() -> list[dict[str, Any]]:
    """Everything that can be asked."""
    web = {"kind": "web", "cc": "cubic", "interval_ns": 20_000_000}
    web |= {"size_alpha": 0.9, "size_min_bytes": 1000, "size_max_bytes": 1_000_000}
    udp = {"kind": "cbr", "rate_bps": 10_000_000, "ecn": "not-ect", "packet_bytes": 1514, "batch": 1}
    changes = [
        {"link": "bottleneck", "rate_bps": 5_000_000},
        {"flow": "f0", "rtt_ns": 40_000_000},
        {"flow": "f1", "count": 3},
        {"link": "bottleneck", "qdisc": "pie"},
        {"flow": "f3", "rate_bps": 1_000_000},
        {"flow": "f1", "count": 0},
    ]
    steps: list[dict[str, Any]] = [{"do": "report"}, {"do": "vocabulary"}]
    steps.append({"do": "start", "run": run([*TWO, web, udp], rate=20_000_000), "watch": ALL})
    for number, change in enumerate(changes, start=1):
        steps += [{"do": "advance", "until_ns": number * 700_000_000}, {"do": "change", "change": change}]
    steps += [{"do": "watch", "watch": ALL | {"packets": False}}, {"do": "advance", "until_ns": 10_000_000_000}]
    return [*steps, {"do": "report"}, {"do": "batch", "run": run(TWO, seconds=1), "watch": ALL}, {"do": "nothing"}]


def everything() -> list[dict[str, Any]]:
    """A second of each queue and of each controller."""
    queues = [queue["name"] for queue in _core.qdiscs() if not queue["required"]]
    controllers = [controller["name"] for controller in _core.controllers()]
    runs = [run(TWO, qdisc=name, seconds=1) for name in queues]
    runs += [run([{"cc": name}], seconds=1) for name in controllers]
    return [{"do": "batch", "run": one, "watch": ALL} for one in runs]


@pytest.mark.parametrize("requests", [a_session(), everything()], ids=["session", "everything"])
def test_the_module_answers_as_the_native_core_to_the_letter(lines: list[str], requests: list[dict[str, Any]]) -> None:
    texts = [json.dumps(request) for request in requests]
    native = _core.Live()
    wanted = [native.ask(text) for text in texts]
    found, _ = asked(lines, texts)
    refusals = [number for number, text in enumerate(wanted) if "refused" in json.loads(text)]
    assert refusals == [
        n for n, request in enumerate(requests) if request == {"do": "nothing"} or (n, request["do"]) == (0, "report")
    ]
    assert found == wanted


def test_how_fast_it_is(lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A minute of two flows at 100 Mb/s: told, not judged, as that depends on the machine."""
    batch = {"do": "batch", "run": run(TWO), "watch": {"sample_ns": 20_000_000}}
    answers, took = asked(lines, [json.dumps(batch)] * 5)
    assert sum(row["delivered_packets"] for row in json.loads(answers[0])["ok"]["flows"]) > 400_000
    with capsys.disabled():
        times = ", ".join(f"{ms:.0f}" for ms in took)
        print(f"\n60 s of Prague and CUBIC at 100 Mb/s as WebAssembly: {times} ms")


@pytest.fixture(scope="module")
def document() -> str:
    if page.built() is None:
        pytest.skip("the page was not built: ./dev.sh page")
    return page.document()


def test_the_page_names_no_other_host(document: str) -> None:
    addresses = set(re.findall(r"[a-z]{2,}://[\w.\[]+", document))
    # The name of a vocabulary, which nobody opens.
    assert addresses <= {"http://www.w3.org"}
    assert not re.search(r"""(?:src|href)=["']?(?:\w+:)?//""", document)


def test_the_page_holds_the_module_that_was_built_and_no_path_of_its_builder(document: str, node: str) -> None:
    (packed,) = re.findall(r"H4sIAAAA[\w+/=]+", document)
    module = gzip.decompress(base64.b64decode(packed))
    assert module == MODULE.read_bytes()
    assert str(Path.home()).encode() not in module
    assert str(ROOT).encode() not in module
