"""Flows of programs: what is asked of the laboratory, what is refused, and what is read from captures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from l4slab.base.errors import InputError
from l4slab.cli import main
from l4slab.engines.linux import engine, lab, recording
from l4slab.engines.linux.live import described
from l4slab.engines.linux.recording import PACKET, CheckError, Observed
from l4slab.engines.linux.recording.observed import Link
from l4slab.engines.real import hosts
from l4slab.engines.registry import get_engine
from l4slab.experimentfile import load
from l4slab.sweep import expand

from .conftest import CUBIC, ONE_LINK, Describe, of_controls

PROGRAM = """
[[flow]]
name = "p"
kind = "program"
server = "python3 -m http.server 80"
client = "sh -c 'curl -o {out}/{number} http://{server}/a%20b'"
sender = "server"
rtt = "20ms"
"""
NS = 1_000_000


def plan(run: dict[str, Any]) -> list[str]:
    return lab.build(run).plan


def test_the_server_is_where_the_sender_is_asked_to_be(describe: Describe) -> None:
    run = describe(ONE_LINK + PROGRAM + "count = 2\n")
    server, *clients = [line.split() for line in plan(run) if line.startswith("program ")]
    assert [words[3:7] for words in (server, *clients)] == [
        ["server", "1", "1", "c1"],
        ["client", "1", "0", "s1"],
        ["client", "2", "0", "s1"],
    ]
    assert Path(server[9]).name == "python3"
    assert clients[1][-1] == "curl%20-o%20/dev/out/2%20http://10.208.0.1/a%2520b"
    assert "host s1" in plan(run), "the client's host tells how long the handshake took"
    turned = describe(ONE_LINK + PROGRAM.replace('sender = "server"\n', ""))
    assert [line.split()[5:7] for line in plan(turned) if " server 1 " in line] == [["0", "s1"]]


def test_its_hosts_have_the_settings_of_the_file(describe: Describe) -> None:
    def settings(more: str) -> str:
        return lab.script(lab.build(describe(ONE_LINK + PROGRAM + more)))

    assert "tcp_ecn" not in settings("")
    assert "tcp_congestion_control" not in settings("")
    assert settings('cc = "prague"').count("echo prague >/proc/sys/net/ipv4/tcp_congestion_control") == 2
    assert settings('cc = "prague"').count("echo 3 >/proc/sys/net/ipv4/tcp_ecn") == 2
    assert settings('cc = "cubic"\necn = "off"').count("echo 0 >/proc/sys/net/ipv4/tcp_ecn") == 2


def test_ipv6_is_only_where_a_command_asks_for_it(describe: Describe) -> None:
    assert "ipv6" not in lab.script(lab.build(describe(ONE_LINK + PROGRAM + CUBIC)))
    run = describe(ONE_LINK + PROGRAM.replace("{server}", "[{server6}]") + CUBIC)
    made = lab.build(run)
    (client,) = [line for line in made.plan if " client 1 " in line]
    assert client.endswith("http://[fd00::ad0:1]/a%2520b")
    parts = [part.partition(" ")[::2] for part in lab.script(made).split("ip netns exec ")[1:]]
    assert {name for name, script in parts if "ipv6" in script} == {"c1", "d1", "k1", "x1", "s1"}
    on_machine = hosts.pairs(lab.build(run))
    assert on_machine[0][0]["ipv6"] == [0xFD, *11 * [0], 10, 208, 0, 1]
    assert "ipv6" not in on_machine[1][1]


@pytest.mark.parametrize("sender", ["client", "server"])
def test_a_server_can_name_its_client(describe: Describe, sender: str) -> None:
    program = PROGRAM.replace("-m http.server 80", "{client} {client6} {server}")
    program = program.replace('sender = "server"', f'sender = "{sender}"')
    lines = lab.build(describe(ONE_LINK + program + CUBIC)).plan
    server = next(line for line in lines if " server 1 " in line).split()
    client = next(line for line in lines if " client 1 " in line)
    source, destination = ("10.208.0.1", "10.224.0.1")
    own, other = (source, destination) if sender == "client" else (destination, source)
    assert [server[-3], server[-1]] == [own, other]
    assert server[-2] == ("fd00::ad0:1" if sender == "client" else "fd00::ae0:1")
    assert f"http://{other}/" in client


def test_it_ends_at_the_latest_with_the_run(describe: Describe) -> None:
    stop = describe(ONE_LINK + PROGRAM + 'stop = "1h"')["flows"][0]["stop_ns"]
    assert stop == 4000 * NS, "a client that has a stop need not end by itself"


def test_the_contents_of_what_the_commands_name_are_part_of_the_run(describe: Describe, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    text = ONE_LINK + PROGRAM.replace("python3 -m http.server 80", f"{sys.executable} {script}")
    script.write_text("1")
    before = describe(text)
    assert set(before["flows"][0]["files"]) == {sys.executable, str(script), "sh"}
    script.write_text("2")
    assert describe(text) != before


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("python3 -m", "pyton9 -m", 'server = "pyton9 -m http.server 80": no program of this name is in PATH'),
        ("python3 -m", "/no/python -m", "there is no such file; install /no/python, or give its path"),
        ("{server}", "10.0.0.1", "does not say where its server is; write {server}"),
        ("a%20b'", "a%20b", "cannot be split into words"),
        ('"python3 -m http.server 80"', '" "', "names no program"),
        ("{number}", "{numer}", "has {numer}, which is neither a factor nor in [let]"),
        ('sender = "server"', 'cc = "nothing"', 'this kernel has no congestion control "nothing"'),
        ('sender = "server"', 'dscp = "ef"', 'dscp = "ef" is the program\'s affair'),
        ('sender = "server"', 'env = { "A B" = "1" }', 'has "A B", which is no name of a variable'),
        ('sender = "server"', 'sender = "me"', 'sender = "me" is none of "client", "server"'),
    ],
)
def test_what_cannot_be_run_is_refused(describe: Describe, old: str, new: str, sentence: str) -> None:
    with pytest.raises((InputError, ValueError)) as refused:
        engine.refuse(describe(ONE_LINK + PROGRAM.replace(old, new)), of_controls("reno", "cubic"))
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_who_has_no_programs_says_so(tmp_path: Path, describe: Describe, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.toml"
    file.write_text('duration = "1s"\n' + ONE_LINK + PROGRAM)
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert 'flow "p": the sim engine has no kind = "program", which needs a kernel; give --engine linux' in said
    with pytest.raises(ValueError, match='flow "p": programs cannot be watched live'):
        described(describe(ONE_LINK + PROGRAM))


@pytest.mark.parametrize("key", ["count", "rate"])
def test_what_a_program_is_stays_while_it_runs(describe: Describe, key: str) -> None:
    with pytest.raises(InputError, match="cannot change while it runs"):
        describe(f'{ONE_LINK}{PROGRAM}[[at]]\ntime = "1s"\n"flow.p.{key}" = 1\n')


def test_its_columns_are_there_where_a_program_is(describe: Describe) -> None:
    columns = get_engine("linux").columns(describe(ONE_LINK + PROGRAM))["flows"]
    assert {"handshake_ms_p50", "ect1_packets", "connections"} <= set(columns)
    assert "handshake_ms_p50" not in get_engine("linux").columns(describe(ONE_LINK + CUBIC))["flows"]


# -- what is read ------------------------------------------------------------------------------------------------------


def observed(run: dict[str, Any], packets: list[tuple[Any, ...]], events: list[str]) -> Observed:
    """`packets`: (in ms, out ms or 0, connection, sequence number, payload bytes, ECN, and ECN behind the queue)."""
    array = np.zeros(len(packets), PACKET)
    for row, (came, left, conn, number, size, ecn, *behind) in zip(array, packets, strict=True):
        row["in_ns"], row["out_ns"], row["conn"], row["number"] = came * NS, left * NS, conn, number
        row["flow"], row["kind"], row["headers"], row["len"] = 1, size > 0, 66, 66 + size
        row["ecn_in"], row["ecn_out"] = ecn, (behind or [ecn])[0]
    made = lab.build(run)
    link = Link("one", array, [], run["links"][0], [], run["duration_ns"])
    return Observed(made, [link], np.empty(0, recording.SAMPLE), [], [event.split() for event in events])


CONNECTIONS = ["0 connection 1 0 tcp 80 5000 20000000 0", "5000000 connection 1 1 udp 80 5000 0 0"]
EVENTS = [
    "1000000 program 1 1 client start",
    "2001000000 program 1 1 client exit 0",
    "2500000000 program 1 1 server stopped 15",
]


def test_payload_that_had_come_before_is_no_goodput(describe: Describe) -> None:
    wrap = 2**32
    packets = [
        (1100, 1101, 0, wrap - 1000, 1000, 2),
        (1200, 1201, 0, 0, 1000, 2),
        (1300, 0, 0, 1000, 1000, 2),  # dropped
        (1400, 1401, 0, 2000, 1000, 2),
        (1500, 1501, 0, 1000, 1000, 2),  # sent again, and comes for the first time
        (1600, 1601, 0, 500, 1000, 2),  # in vain
        (1700, 1701, 0, 2500, 1000, 3),  # half of it has come
        (1800, 1801, 1, 7, 1000, 1),  # of UDP, all
        (1900, 1901, 1, 7, 1000, 0),
        (1950, 1951, 0, 3500, 0, 0),
    ]
    seen = observed(describe(ONE_LINK + PROGRAM), packets, CONNECTIONS + EVENTS)
    seen.links[0].packets["fresh"] = [1000, 1000, 0, 1000, 1000, 0, 500, 1000, 1000, 0]  # as lab.c counts
    recording.checks.programs.check(seen)
    (row,) = recording.rows(seen)[0]
    assert row["goodput_mbps"] == pytest.approx((4500 + 2000) * 8e-6 / 3)
    assert row["retransmits"] == 3, "the segment that was dropped, the one in vain, and the one that is half new"
    assert (row["not_ect_packets"], row["ect0_packets"], row["ect1_packets"]) == (1, 6, 1)
    assert (row["connections"], row["handshake_ms_p50"]) == (2, 20)
    assert (row["transfers"], row["completion_ms_p50"]) == (1, 2000)
    assert row["cc"] == "program"
    found = recording.tables(seen)
    assert found.transfers.select("flow", "kind", "start_s", "size_bytes", "completion_ms").row(0) == (
        *("p", "program"),
        *(pytest.approx(0.001), 6500, pytest.approx(2000)),
    )
    assert found.series.filter(flow="p")["goodput_mbps"].sum() == pytest.approx(6500 * 8e-6 / 0.1)


@pytest.mark.parametrize(
    ("events", "sentence"),
    [
        (["1000000 program 1 1 client start"], "has not ended when the run does, after 4 s; make the run longer"),
        ([EVENTS[0], "2000000000 program 1 1 client exit 3"], 'ended with status 3 at 2.000 s: "I give up"'),
        ([*EVENTS[:2], "2000000000 program 1 1 server signal 11"], 'the server of flow "p" ended with SIGSEGV'),
    ],
)
def test_a_program_that_dies_or_never_ends_fails(describe: Describe, events: list[str], sentence: str) -> None:
    seen = observed(describe(ONE_LINK + PROGRAM), [], events)
    seen.said["p.client.1.err"] = "I give up"
    with pytest.raises(CheckError) as failed:
        recording.check(seen)
    assert sentence in str(failed.value)


def test_a_program_that_is_ended_need_not_end(describe: Describe) -> None:
    seen = observed(describe(ONE_LINK + PROGRAM + 'stop = "4s"'), [(1100, 1101, 0, 0, 10, 0)], EVENTS[:1])
    recording.checks.programs.check(seen)


@pytest.mark.parametrize(
    ("sender", "connections", "sentence"),
    [
        ("client", [], 'the client of flow "p" has sent nothing: no packet with payload came to link one'),
        ("client", [], ': "nobody there"; see whether it uses the address {server}'),
        ("server", [], 'the server of flow "p" has sent nothing'),
        ("client", CONNECTIONS, 'it has a connection; if the server is to send the data, write sender = "server"'),
        ("server", CONNECTIONS, 'if the client is to send the data, write sender = "client"'),
    ],
)
def test_a_program_that_sends_nothing_fails(
    describe: Describe, sender: str, connections: list[str], sentence: str
) -> None:
    run = describe(ONE_LINK + PROGRAM.replace('sender = "server"', f'sender = "{sender}"'))
    seen = observed(run, [(1100, 1101, 0, 0, 0, 0)] if connections else [], connections + EVENTS)
    seen.said[f"p.{sender}.1.out"] = "nobody there"
    with pytest.raises(CheckError) as failed:
        recording.checks.programs.check(seen)
    assert sentence in str(failed.value)
    assert "\n" not in str(failed.value)


def test_a_client_that_was_never_started_need_not_send(describe: Describe) -> None:
    recording.checks.programs.check(observed(describe(ONE_LINK + PROGRAM), [], EVENTS[2:]))


def test_what_the_sender_set_is_no_mark(describe: Describe) -> None:
    packets = [
        (1100, 1101, 0, 0, 1000, 3),  # CE from the sender
        (1200, 1201, 0, 1000, 1000, 2, 3),  # the queue's mark
        (1300, 1301, 0, 2000, 1000, 2),
        (1400, 1401, 0, 3000, 1000, 1),
    ]
    run = describe(ONE_LINK + PROGRAM)
    seen = observed(run, packets, CONNECTIONS + EVENTS)
    (row,), (link,) = recording.rows(seen)
    assert (row["ce_packets"], row["ce_pct"], link["marked_packets"], link["ce_pct"]) == (1, 25, 1, 25)
    assert recording.tables(seen).series.filter(flow="p")["ce_packets"].sum() == 1
    # Over a second link, which has marked nothing.
    two = describe(ONE_LINK + '[link.two]\nrate = "20Mbit"\nqdisc = "pfifo limit 100"\n' + PROGRAM)
    first = observed(two, packets, CONNECTIONS + EVENTS)
    behind = observed(two, [(*one[:2], *one[2:5], one[-1]) for one in packets], []).links[0]
    behind.packets["in_ns"] += NS
    behind.packets["out_ns"] += 2 * NS
    behind.name, behind.spec = "two", two["links"][1]
    for packet, other in zip(first.links[0].packets, behind.packets, strict=True):
        packet["id"] = other["id"] = packet["number"] // 1000
    first.links.append(behind)
    (row,), links = recording.rows(first)
    assert (row["ce_packets"], row["ce_pct"]) == (1, 25)
    assert [one["marked_packets"] for one in links] == [1, 0]
    assert recording.tables(first).series.filter(flow="p")["ce_packets"].sum() == 1


def test_its_environment_is_part_of_the_run_and_of_the_plan(describe: Describe, tmp_path: Path) -> None:
    file = tmp_path / "settings"
    file.write_text("1")
    env = f'env = {{ QLOGDIR = "{{out}}", WHO = "a b", NUMBER = "{{number}}", N = 4, FROM = "{file}" }}'
    run = describe(ONE_LINK + PROGRAM + env)
    assert run["flows"][0]["env"] == {
        "QLOGDIR": "{out}", "WHO": "a b", "NUMBER": "{number}", "N": "4", "FROM": str(file),
    }  # fmt: skip
    lines = [line for line in plan(run) if line.startswith(("program ", "setting "))]
    assert [line.split()[0] for line in lines] == (["program"] + ["setting"] * 5) * 2
    assert lines[1:4] == ["setting QLOGDIR=/dev/out", "setting WHO=a%20b", "setting NUMBER=1"]
    assert "env" not in describe(ONE_LINK + PROGRAM)["flows"][0]
    file.write_text("2")
    assert describe(ONE_LINK + PROGRAM + env) != run


def test_its_environment_may_be_swept(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    sweep = '[sweep]\n"flow.p.env.MODE" = ["a", "b"]\n'
    file.write_text('duration = "1s"\n' + ONE_LINK + PROGRAM + sweep)
    runs = expand(load(file), "linux").runs
    assert [run.description["flows"][0]["env"] for run in runs] == [{"MODE": "a"}, {"MODE": "b"}]
    assert runs[0].id != runs[1].id


def test_a_description_of_a_program_is_json(describe: Describe) -> None:
    json.dumps(describe(ONE_LINK + PROGRAM))
