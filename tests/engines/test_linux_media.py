"""Calls on the engine linux: whose programs carry them, what is refused, and what their lines about frames say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import l4slab
import numpy as np
import pytest
from l4slab import stacks
from l4slab.base.errors import InputError
from l4slab.cli import main
from l4slab.engines.linux import carried, engine, kernels, lab, recording
from l4slab.engines.linux.recording import CheckError, Observed, calls
from l4slab.engines.linux.recording.observed import Link

from .conftest import ONE_LINK, Describe, built, of_controls

CALL = """
[[flow]]
name = "c"
kind = "media"
cc = "gcc"
rtt = "20ms"
rate_max = "2Mbit"
deadline = "50ms"
"""
MS = 1_000_000
ZERO = 1_700_000_000_000_000_000  # the realtime clock at the start of the run


def test_a_call_is_carried_by_the_stack_whose_model_it_is(describe: Describe) -> None:
    run = carried.carried(describe(ONE_LINK + CALL + 'rate_start = "400kbit"\nframes = "25/s"\ncount = 2\n'))
    (flow,) = run["flows"]
    assert flow["kind"] == "program"
    assert flow["stack"]["build"] == stacks.find("libwebrtc").id
    clients = [line.split() for line in lab.build(run).plan if " client " in line and line.startswith("program ")]
    assert [words[-6:] for words in clients] == [
        [number, "gcc", "150000", "400000", "2000000", "25"] for number in ("1", "2")
    ]
    options = (
        'threshold = "draft", loss = "draft", probing = "off", acked_window = "500ms", pacing = 2.5, skipping = "off", '
        'burst = "5ms"'
    )
    (flow,) = carried.carried(describe(ONE_LINK + CALL + f"options = {{ {options} }}\n"))["flows"]
    assert flow["stack"]["name"] == "pion"
    scream = CALL.replace('cc = "gcc"', 'cc = "scream"\noptions = { variant = "libwebrtc" }')
    (flow,) = carried.carried(describe(ONE_LINK + scream))["flows"]
    assert flow["server"].endswith("server scream")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            'cc = "gcc"',
            'cc = "nada"',
            'no packaged stack has what cc = "nada" with its options is the model of; write cc',
        ),
        (
            'cc = "gcc"',
            'cc = "gcc"\noptions = { burst = "0ms" }',
            'cc = "scream" with options = { variant = "libwebrtc" }',
        ),
        ('rtt = "20ms"', 'rtt = "20ms"\naudio = "20kbit"', "libwebrtc decides about audio itself; leave it out"),
        ('rtt = "20ms"', 'rtt = "20ms"\ndscp = "ef"', "libwebrtc decides about dscp itself"),
        ('rtt = "20ms"', 'rtt = "20ms"\necn = "ect1"', "libwebrtc decides about ecn itself"),
        ('rtt = "20ms"', 'rtt = "20ms"\nrepair = "nack"', "libwebrtc decides about repair itself"),
        ('rtt = "20ms"', 'rtt = "20ms"\nencoder = "even"', 'the encoder of libwebrtc is "vp8", not "even"; leave'),
    ],
)
def test_what_no_stack_can_do_is_refused(describe: Describe, old: str, new: str, sentence: str) -> None:
    with pytest.raises((InputError, ValueError)) as refused:
        engine.refuse(describe(ONE_LINK + CALL.replace(old, new)), of_controls("reno", "cubic"))
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_documentation_writes_the_options_of_each_stack(describe: Describe) -> None:
    text = (Path(__file__).parents[2] / "docs/stacks.md").read_text()
    rows = re.findall(r"^\| `(\"\w+\")` \| (?:none|`(.*)`) \| `([\w-]+)` \|$", text, re.MULTILINE)
    assert {name for _, _, name in rows} == {name for name in stacks.names() if stacks.find(name).recipe.media}
    for cc, options, name in rows:
        call = CALL.replace('"gcc"', f"{cc}\noptions = {options or '{}'}")
        (flow,) = carried.carried(describe(ONE_LINK + call))["flows"]
        assert flow["kind"] == "program"
        assert flow["stack"]["name"] == name


def test_a_stack_for_calls_is_no_bulk_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.toml"
    flow = '[[flow]]\nname = "p"\nkind = "program"\nstack = "libwebrtc"\nrtt = "20ms"\n'
    file.write_text('duration = "1s"\n' + ONE_LINK + flow)
    assert main(["run", str(file), "--engine", "linux", "--out", str(tmp_path / "out")]) == 2
    assert 'stack = "libwebrtc" carries flows of another kind; write kind = "media"' in " ".join(
        capsys.readouterr().err.split()
    )
    assert main(["matrix", "libwebrtc", "--dry-run"]) == 2
    assert 'libwebrtc carries flows of kind = "media"' in " ".join(capsys.readouterr().err.split())


def test_only_the_chosen_runs_need_a_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A machine with a kernel and without libwebrtc would refuse the other run, too.
    monkeypatch.setattr(stacks, "is_built", lambda _build: True)
    file = tmp_path / "x.toml"
    sweep = '[[sweep.sender]]\nlevel = "a"\n[[sweep.sender]]\nlevel = "b"\n"flow.c.cc" = "nada"\n'
    file.write_text('duration = "1s"\n' + ONE_LINK + CALL + sweep)
    command = ["run", str(file), "--engine", "linux", "--dry-run"]
    assert main(command) == 2
    assert 'cc = "nada"' in capsys.readouterr().err
    assert main([*command, "--where", "sender = 'a'"]) == 0


# -- what is read ------------------------------------------------------------------------------------------------------


def line(call: int, timestamp: int, ms: float, size: int) -> str:
    return f"{call} {timestamp} {ZERO + round(ms * MS)} {size}\n"


def observed(describe: Describe, folder: Path, more: str = "") -> Observed:
    made = lab.build(carried.carried(describe(ONE_LINK + CALL + more)))
    events = [f"{100 * MS} program 1 {number} client start".split() for number in (1, 2)]
    # What the server and its start are about is no client's.
    events += [["1", "program", "1", "1", "server", "start"], f"{4000 * MS} program 1 1 client stopped 15".split()]
    link = Link("one", np.empty(0, recording.PACKET), [], made.run["links"][0], [], made.run["duration_ns"])
    seen = Observed(made, [link], np.empty(0, recording.SAMPLE), [], events)
    seen.calls = calls.read(made, folder, events)
    return seen


def test_lines_about_frames_become_what_a_viewer_sees(describe: Describe, tmp_path: Path) -> None:
    # Captured every 40 ms from 200 ms on; each takes 30 ms, but one in ten takes 60, and one in ten never comes.
    sent, came = line(1, 0, 100, 0), ""
    for n in range(95):
        at = 200 + 40 * n
        sent += line(1, 3600 * n, at, 5000)
        if n % 10 != 9:
            came += line(1, 3600 * n, at + (60 if n % 10 == 4 else 30), 5000)
    (tmp_path / "c.client.1.out").write_text(sent)
    (tmp_path / "c.server.1.out").write_text(came)
    seen = observed(describe, tmp_path)
    row = calls.of_flow(seen, seen.lab.flows[0])
    # Of those from 1 s on, the last one is at 3.96 s, and too late to tell.
    assert row["frames"] == 74
    assert row["late_pct"] == pytest.approx(100 * 7 / 74)
    assert row["lost_frames_pct"] == pytest.approx(100 * 7 / 74)
    assert (row["frame_ms_p50"], row["frame_ms_p95"], row["frame_ms_max"]) == (30, 60, 60)
    assert row["media_mbps"] == pytest.approx(75 * 5000 * 8e-6 / 3)
    rows = calls.transfers(seen, seen.lab.flows[0])
    assert rows[0] == {"flow": "c", "kind": "frame", "start_s": 0.2, "size_bytes": 5000, "completion_ms": 30.0}


def test_each_call_of_a_flow_has_its_own_frames(describe: Describe, tmp_path: Path) -> None:
    for call, latency in ((1, 10), (2, 20)):
        lines = line(call, 0, 100, 0) + "".join(line(call, 7 + n, 1000 + 40 * n, 1000) for n in range(50))
        (tmp_path / f"c.client.{call}.out").write_text(lines)
        with (tmp_path / "c.server.1.out").open("a") as server:
            server.writelines(line(call, 7 + n, 1000 + 40 * n + latency, 1000) for n in range(50))
    seen = observed(describe, tmp_path, "count = 2\n")
    row = calls.of_flow(seen, seen.lab.flows[0])
    assert (row["frames"], row["frame_ms_mean"], row["lost_frames_pct"]) == (100, 15, 0)


def test_what_is_no_line_about_a_frame_is_told(describe: Describe, tmp_path: Path) -> None:
    (tmp_path / "c.server.1.out").write_text("")
    (tmp_path / "c.client.1.out").write_text("1 2 3\n")
    with pytest.raises(CheckError, match=r"c\.client\.1\.out has a line that is not about a frame"):
        observed(describe, tmp_path)
    (tmp_path / "c.client.1.out").write_text("hello\n")
    with pytest.raises(CheckError, match=r"c\.client\.1\.out has no lines about frames"):
        observed(describe, tmp_path)


# -- on the kernel -----------------------------------------------------------------------------------------------------

SPEED = """
duration = "20s"
warmup   = "8s"
[link.b]
rate = "20Mbit"
qdisc = "fq_codel"
[[flow]]
name = "call"
kind = "media"
cc = "gcc"
rtt = "25ms"
rate_max = "4Mbit"
rate_start = "300kbit"
reaction = "0ms"
packet = "1188B"
[[sweep.sender]]
level = "gcc"
[[sweep.sender]]
level = "scream"
"flow.call.cc" = "scream"
"flow.call.options" = { variant = "libwebrtc" }
[sweep]
"link.b.qdisc" = ["fq_codel", "dualpi2"]
"""


@pytest.mark.slow
@pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
def test_libwebrtc_and_its_models_agree(tmp_path: Path) -> None:
    built("libwebrtc")
    (tmp_path / "calls.toml").write_text(SPEED)
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for name in ("sim", "linux"):
        flows = l4slab.run(tmp_path / "calls.toml", engine=name).flows
        for row in flows.iter_rows(named=True):
            found[name, row["sender"], row["link.b.qdisc"]] = row
    for sender in ("gcc", "scream"):
        for qdisc in ("fq_codel", "dualpi2"):
            model, real = (found[name, sender, qdisc] for name in ("sim", "linux"))
            assert model["cc"] == real["cc"] == sender
            # STUN and DTLS are Not-ECT.
            assert (real["ect1_packets"] > 10 * real["not_ect_packets"]) == (sender == "scream")
            assert model["goodput_mbps"] == pytest.approx(real["goodput_mbps"], rel=0.2)
            assert model["sojourn_ms_p50"] == pytest.approx(real["sojourn_ms_p50"], rel=0.3, abs=3)
            assert model["frame_ms_p50"] == pytest.approx(real["frame_ms_p50"], rel=0.3, abs=3)
            assert (real["lost_frames_pct"], real["freezes"]) == (0, 0)
