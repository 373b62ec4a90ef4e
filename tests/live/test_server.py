"""The server of `l4slab live`: who may speak to it, what may be asked, and what is left of it."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from l4slab.base.errors import InputError
from l4slab.live import bounds
from l4slab.live import page as pages
from l4slab.live.server import Server
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from .conftest import ENGINES, PAGE, Client, serving, socket_of


def fetch(address: str, path: str | None = None, **headers: str) -> http.client.HTTPResponse:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=30)
    connection.request("GET", path or f"{parts.path}?{parts.query}", headers=headers)
    return connection.getresponse()


def gone(pid: int) -> bool:
    """Whether the process has ended, or does within a minute."""
    for _ in range(600):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def test_the_page_is_told_where_its_engines_are_and_may_load_nothing(address: str) -> None:
    answer = fetch(address)
    assert answer.status == 200
    assert answer.getheader("Content-Type") == "text/html; charset=utf-8"
    assert answer.getheader("Referrer-Policy") == "no-referrer"
    policy = dict(part.strip().split(" ", 1) for part in (answer.getheader("Content-Security-Policy") or "").split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == f"ws://{urlsplit(address).netloc}"
    assert "unsafe-inline" not in policy["script-src"]
    told = json.loads(answer.read().decode().split('type="application/json">')[1].split("</script>")[0])
    assert told["engines"] == ["native", "linux"]
    assert told["why_not"] == {"absent": "it is not there"}
    assert told["socket"] == socket_of(address).replace("engine=native&", "")


@pytest.mark.parametrize("query", ["", "?token=", "?token=wrong", "?token=%C3%BC"])
def test_nothing_is_given_without_the_token(address: str, query: str) -> None:
    answer = fetch(address, f"/{query}")
    assert answer.status == 403
    said = answer.read().decode()
    assert "the token is wrong or missing" in said
    assert "copy the whole address" in said


def test_the_page_begins_with_the_run_and_its_address_is_short(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(PAGE)
    run: Any = {"duration_ns": 10**9, "links": [{"name": "</script>"}]}
    with serving(Server(ENGINES, file, run)) as address:
        assert len(address) < 100
        text = fetch(address, f"/?{urlsplit(address).query}").read().decode()
        assert json.loads(text.split('type="application/json">')[1].split("</script>")[0])["run"] == run


@pytest.mark.parametrize(
    "host",
    [
        "attacker.example",
        "127.0.0.1.attacker.example:80",
        "",
        "127.0.0.1@attacker.example",
        "127.0.0.1:80; script-src *",
    ],
)
def test_a_name_that_points_here_is_not_ours(address: str, host: str) -> None:
    answer = fetch(address, Host=host)
    assert answer.status == 403
    assert "is not this server's" in answer.read().decode()


def test_a_forwarded_port_is(address: str) -> None:
    assert fetch(address, Host="localhost:9000").status == 200


def test_it_listens_on_this_machine_only(address: str) -> None:
    port = urlsplit(address).port or 0
    listening = [
        line.split()[1]
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(f":{port:04X}")
    ]
    assert listening == [f"0100007F:{port:04X}"]


@pytest.mark.parametrize(
    ("query", "origin", "status"),
    [
        ("engine=native&token={token}", "http://attacker.example", 403),
        ("engine=native&token={token}", None, 403),
        ("engine=native&token=wrong", "{own}", 403),
        ("engine=native", "{own}", 403),
        ("engine=abacus&token={token}", "{own}", 404),
    ],
)
def test_a_session_needs_token_origin_and_engine(address: str, query: str, origin: str | None, status: int) -> None:
    parts = urlsplit(address)
    token = parts.query.removeprefix("token=")
    own = f"http://{parts.netloc}"
    with pytest.raises(InvalidStatus) as refusal:
        connect(
            f"ws://{parts.netloc}/socket?{query.format(token=token)}",
            origin=Origin(origin.format(own=own)) if origin else None,
        )
    assert refusal.value.response.status_code == status


def test_requests_are_answered_in_order_each_page_by_its_own_process(visit: Callable[..., Client]) -> None:
    one, other = visit(), visit()
    for number in range(3):
        one.socket.send(json.dumps({"id": f"n{number}", "do": "x"}))
    answers = [json.loads(one.socket.recv(timeout=60)) for _ in range(3)]
    assert [answer["id"] for answer in answers] == ["n0", "n1", "n2"]
    assert [answer["ok"]["asked"] for answer in answers] == [1, 2, 3]
    assert "id" not in answers[0]["ok"]["request"]
    assert other.ask("print")["pid"] != answers[0]["ok"]["pid"]
    assert other.ask("x")["asked"] == 2


@pytest.mark.parametrize("message", ["", "[]", "{", "7", "[" * 100_000])
def test_what_is_no_request_is_refused(visit: Callable[..., Client], message: str) -> None:
    page = visit()
    page.socket.send(message)
    assert json.loads(page.socket.recv(timeout=60)) == {"refused": "the request is not a JSON object"}
    assert page.ask("x")["asked"] == 1


def test_an_engine_that_cannot_be_had_says_why(visit: Callable[..., Client]) -> None:
    assert visit("linux").ask("start") == "there is no kernel; build it with: l4slab linux build"
    assert visit("absent").ask("start") == "it is not there"


def test_a_page_that_is_closed_ends_its_process_amidst_an_answer(visit: Callable[..., Client], folder: Path) -> None:
    page, other = visit(), visit()
    pid, other_pid = page.ask("x")["pid"], other.ask("x")["pid"]
    page.socket.send(json.dumps({"id": 1, "do": "sleep", "seconds": 1000}))
    page.socket.close()
    assert gone(pid)
    assert other.ask("x")["pid"] == other_pid
    assert [file.name for file in folder.iterdir()] == [str(other_pid)]  # it was closed, not only killed


def test_a_connection_that_is_lost_ends_its_process(visit: Callable[..., Client]) -> None:
    page = visit()
    pid = page.ask("x")["pid"]
    page.socket.socket.close()
    assert gone(pid)


def test_a_message_that_is_too_long_ends_the_session(visit: Callable[..., Client]) -> None:
    page = visit()
    pid = page.ask("x")["pid"]
    page.socket.send(json.dumps({"do": "x", "more": "x" * bounds.MESSAGE_BYTES}))
    with pytest.raises(ConnectionClosedError) as closed:
        page.socket.recv(timeout=60)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009
    assert str(bounds.MESSAGE_BYTES) in closed.value.rcvd.reason
    assert gone(pid)


def test_requests_that_nobody_waits_for_end_the_session(visit: Callable[..., Client]) -> None:
    page = visit()
    pid = page.ask("x")["pid"]
    for _ in range(bounds.WAITING + 2):
        page.socket.send(json.dumps({"id": 1, "do": "sleep", "seconds": 1000}))
    with pytest.raises(ConnectionClosedError, match=f"more than {bounds.WAITING} requests wait"):
        page.socket.recv(timeout=60)
    assert gone(pid)


def test_memory_answer_and_defects_end_the_run_and_not_the_page(visit: Callable[..., Client]) -> None:
    page = visit()
    pid = page.ask("x")["pid"]
    assert "needed more than 1 GB of memory" in page.ask("allocate", bytes=3 << 30)
    assert gone(pid)
    assert page.ask("break") == "the engine broke off (SIGABRT); its last words: the last words"
    assert "the answer is longer than 64 MB" in page.ask("answer", bytes=bounds.ANSWER_BYTES + 1)
    assert page.ask("x")["asked"] == 1


def test_a_defect_ends_the_session_and_leaves_nothing(
    visit: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = visit()
    pid = page.ask("x")["pid"]
    monkeypatch.setattr(bounds.Bounds, "refusal", lambda *_: 1 / 0)
    page.socket.send(json.dumps({"id": 1, "do": "x"}))
    with pytest.raises(ConnectionClosedError):
        page.socket.recv(timeout=60)
    assert gone(pid)


def test_an_answer_that_takes_too_long_ends_the_run(page: Path, folder: Path) -> None:
    with serving(Server(ENGINES, page, answer_s=1.0)) as address:
        origin = Origin(f"http://{urlsplit(address).netloc}")
        with connect(socket_of(address), origin=origin) as socket:
            client = Client(socket)
            pid = client.ask("x")["pid"]
            assert "was not there after 1 s" in client.ask("sleep", seconds=1000)
            assert gone(pid)
            assert client.ask("x")["asked"] == 1


def test_so_many_sessions_at_once(visit: Callable[..., Client], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SESSIONS", 2)
    one, _other, third = visit(), visit(), visit()
    assert "there are 2 sessions already" in third.ask("x")
    pid = one.ask("x")["pid"]
    one.socket.close()
    assert gone(pid)
    assert visit().ask("x")["asked"] == 1


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_server_that_ends_leaves_no_process(page: Path, folder: Path, ending: signal.Signals) -> None:
    code = (
        # Who runs the tests may ignore a terminal that closes, as nohup does, or Ctrl-C, as a shell in the background.
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "
        "import sys; from pathlib import Path; from l4slab.live.server import Server, serve; "
        "from l4slab.engines.contract import Live; "
        "serve(Server({'native': Live('engines:Odd')}, Path(sys.argv[1])), 0, lambda a: print(a, flush=True))"
    )
    server = subprocess.Popen([sys.executable, "-c", code, str(page)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = server.stdout.readline().strip()
    origin = Origin(f"http://{urlsplit(address).netloc}")
    with connect(socket_of(address), origin=origin) as socket:
        client = Client(socket)
        pid = client.ask("x")["pid"]
        socket.send(json.dumps({"id": 2, "do": "sleep", "seconds": 1000}))
        server.send_signal(ending)
        status = server.wait(timeout=60)
        assert gone(pid)
    server.stdout.close()
    assert status == (-signal.SIGKILL if ending == signal.SIGKILL else 0)
    assert not list(folder.iterdir())


def test_a_port_that_is_taken_is_said(page: Path, address: str) -> None:
    port = urlsplit(address).port or 0
    with pytest.raises(InputError, match=f"--port = {port} cannot be used"):
        asyncio.run(Server(ENGINES, page).run(port, print, asyncio.Event()))


def run(**more: Any) -> dict[str, Any]:
    return {"do": "check", "run": {"links": [{"rate_bps": 1}], "flows": [{"count": 1}], **more}}


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (run(links=[{}] * 101), "the run has 101 links, and here it may have at most 100"),
        (run(flows=[{"count": 6000}] * 2), "the run has 12000 flows, and here it may have at most 10000"),
        (run(flows=[{"count": 0}] * 10_001), "the run has 10001 flows"),
        (
            run(links=[{"rate_bps": 200_000_000_000}]),
            "a rate of 200 Gbit/s is asked for, and here it may be at most 100",
        ),
        (run(flows=[{"kind": "cbr", "rate_bps": 200_000_000_000}]), "a rate of 200 Gbit/s"),
        (run(at=[{"rate_bps": 200_000_000_000}]), "a rate of 200 Gbit/s"),
        (run(at=[{"count": 10_001}]), "10001 flows are asked for"),
        ({"do": "change", "change": {"link": "l", "rate_bps": 2e12}}, "a rate of 2000 Gbit/s"),
        ({"do": "change", "change": {"flow": "a", "count": 1e9}}, "1000000000 flows are asked for"),
        ({"do": "change", "change": {"link": "l", "rate_bps": 10**4000}}, "a rate of 1e+291 Gbit/s"),
        ({"do": "advance", "until_ns": 10**400}, "a step of 1e+291 s"),
        ({"do": "batch", "run": {"duration_ns": 10**400}}, "a run of 1e+291 s"),
        (
            {"do": "batch", "run": {"duration_ns": 1001e9}},
            "a run of 1001 s is asked for, and here it may be at most 1000",
        ),
        ({"do": "batch", "run": {"duration_ns": 10e9, "sample_ns": 1000}}, "10000000 samples are asked for at once"),
        ({"do": "advance", "until_ns": 101e9}, "a step of 101 s is asked for, and here it may be at most 100 s"),
    ],
)
def test_bounds_are_said(request_: dict[str, Any], sentence: str) -> None:
    refusal = bounds.Bounds().refusal(request_)
    assert refusal is not None
    assert refusal.startswith(sentence)


@pytest.mark.parametrize(
    "request_",
    [
        {},
        run(),
        run(links=7, flows=None, at="x"),
        run(links=[7], flows=["x"], at=[None]),
        {"do": "batch", "run": []},
        {"do": "advance", "until_ns": "late"},
        {"do": "change", "change": {"link": "l", "rate_bps": True}},
        {"do": "batch", "run": {"duration_ns": 1000e9, "sample_ns": 100e6}},
    ],
)
def test_what_is_within_or_not_understood_goes_to_the_engine(request_: dict[str, Any]) -> None:
    assert bounds.Bounds().refusal(request_) is None


def test_a_step_is_from_where_the_run_is() -> None:
    session = bounds.Bounds()
    assert session.refusal({"do": "start", "run": {}, "watch": {"sample_ns": 20_000_000}}) is None
    for until_ns in (90e9, 180e9, 270e9):
        assert session.refusal({"do": "advance", "until_ns": until_ns}) is None
    assert session.refusal({"do": "watch", "watch": {"sample_ns": 1000}}) is None
    assert "samples" in (session.refusal({"do": "advance", "until_ns": 271e9}) or "")
    assert session.refusal({"do": "advance", "until_ns": 270.05e9}) is None
    assert session.refusal({"do": "start", "run": {}}) is None
    assert session.refusal({"do": "advance", "until_ns": 101e9}) is not None


def test_a_page_that_is_not_built_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pages, "built", lambda: None)
    with pytest.raises(InputError, match=r"is not built; build it with: \./dev\.sh page"):
        pages.document()
    other = tmp_path / "live.html"
    other.write_text("<title>something else</title>")
    with pytest.raises(InputError, match="has no place"):
        pages.document({"engines": []}, other)
