"""`l4slab packetdrill`: laws of TCP as scripts, what the judge refuses, and what is not applicable."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from l4slab.base.errors import InputError
from l4slab.cli import main
from l4slab.tools.packetdrill.judge import judge
from l4slab.tools.packetdrill.script import read
from l4slab.tools.packetdrill.words import words

LAWS = sorted((Path(__file__).parent / "laws").glob("*.pkt"))

# A law, and the same with a number that is wrong: line by line what makes the judge refuse it.
WRONG = [
    ("timeouts_double", r"\+0\.48~\+0\.51", "+0.24~+0.27", "no packet by"),
    ("timeouts_double", "tcpi_backoff == 3", "tcpi_backoff == 4", "assertion"),
    ("three_duplicates", r"1:1201\(1200\) ack 501", "1201:2401(1200) ack 501", "seq"),
    ("three_duplicates", r"0\.062 > \.", "0.062 > P.", "PSH"),
    ("slow_start", "tcpi_snd_cwnd == 40", "tcpi_snd_cwnd == 41", "assertion"),
    ("slow_start", r"12001:21601\(9600\)", "12001:22801(10800)", "length"),
    ("classic_ecn", r"\[ect0\] PW\.", "[ect0] P.", "AE, CWR and ECE"),
    ("classic_ecn", r"> \[ect0\] P\. 1:", "> [ect1] P. 1:", "ECN field"),
    ("accecn", r"\.6 1:1", ".5 1:1", "AE, CWR and ECE"),
    ("accecn", "ceb 1800", "ceb 900", "option ECN"),
    ("accecn_bleached", r"\[noecn\]", "[ect0]", "ECN field"),
    ("closed_window", r"4000:4000\(0\)", "4001:4001(0)", "seq"),
    ("syn_repeats", r"\+2~\+2\.2", "+1~+1.1", "no packet by"),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.stem)
def test_a_law_holds(law: Path) -> None:
    assert judge(read(law)) == ("pass", 0, "")


@pytest.mark.parametrize(("law", "right", "wrong", "why"), WRONG)
def test_the_judge_refuses_what_is_wrong(law: str, right: str, wrong: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.pkt"
    text = (Path(__file__).parent / "laws" / f"{law}.pkt").read_text()
    broken, count = re.subn(right, wrong, text, count=1)
    assert count == 1
    file.write_text(broken)
    status, line, said = judge(read(file))
    assert status == "fail"
    assert why in said
    # The line of the event, which code is a part of, or of a later one.
    found = re.search(right, text)
    assert found is not None
    before = text[: found.start()]
    event = before.rfind("%{") if before.rfind("%{") > before.rfind("}%") else found.start()
    assert line > text[:event].count("\n")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("0 socket(..., SOCK_DGRAM, IPPROTO_UDP) = 3", "a socket that is not TCP's"),
        ("0 < icmp unreachable frag_needed mtu 1200 [1:1001(1000)]", "another protocol"),
        ("0 < S 0:0(0) win 1000 <mss 1000,sackOK,FO abcd1234>", "the TCP option FO"),
        ("0 splice(3, NULL, 4, NULL, 10, 0) = 10", "the call splice()"),
        ("0 `sysctl -q net.ipv4.tcp_syncookies=2`", "the setting tcp_syncookies=2"),
        ("0 `reboot`", "the command reboot"),
        ("0 `sysctl -q net.ipv4.tcp_recovery=0`", "the setting tcp_recovery=0"),
    ],
)
def test_what_a_simulator_does_not_mean_is_not_applicable(line: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "one.pkt"
    file.write_text(f"// A comment.\n{line}\n")
    status, number, said = judge(read(file))
    assert (status, number) == ("skip", 2)
    assert why in said


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("0 frobnicate", "line 2: neither a packet"),
        ("listen(3, 1) = 0", "line 2: an event begins with its time"),
        ("0 listen(3, 1", r"line 2: listen( has no )"),
        ("0 `sysctl", "line 2: ` has no `"),
        ("0 < S 0:0(0) win 9 <mss>", "line 2: options <mss>"),
    ],
)
def test_what_is_not_the_language_is_refused_with_its_line(line: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.pkt"
    file.write_text(f"\n{line}\n")
    with pytest.raises(InputError, match=re.escape(why)):
        read(file)


def test_what_the_scripts_own_code_does_wrong_is_a_failure(tmp_path: Path) -> None:
    file = tmp_path / "code.pkt"
    law = LAWS[0].read_text()
    file.write_text(law.replace("assert tcpi_delivered_ce == 2", "assert tcpi_delivered_ce / 0 == 2"))
    status, _, said = judge(read(file))
    assert (status, said) == ("fail", "code: ZeroDivisionError: division by zero")
    file.write_text(law.replace("tcp_ecn=3", "tcp_congestion_control=quic"))
    status, _, said = judge(read(file))
    assert status == "skip"
    assert "quic" in said


def test_arguments() -> None:
    assert words("0x10") == 16
    assert words("[1, 4]") == [1, 4]
    assert words("{revents = POLLIN, fd = 4}") == {"revents": "POLLIN", "fd": 4}
    assert words("MSG_MORE | MSG_DONTWAIT") == "MSG_MORE | MSG_DONTWAIT"


def test_the_command_writes_tap_and_junit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    for law in LAWS[:2]:
        (folder / law.name).write_text(law.read_text())
    (folder / "zz.pkt").write_text("0 splice(3, NULL, 4, NULL, 10, 0) = 10\n")
    junit = tmp_path / "all.xml"
    assert main(["packetdrill", str(folder), "--junit", str(junit)]) == 0
    out = capsys.readouterr().out
    assert "1..3" in out
    assert "ok 3 - scripts zz # SKIP line 1: the call splice()" in out
    assert "# 2 passed, 0 failed, 1 skipped" in out
    assert len(ElementTree.parse(junit).findall(".//testcase")) == 3
    (folder / "zz.pkt").write_text("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n0 < S 0:0(0) win 1000 <sackOK>\n")
    assert main(["packetdrill", str(folder)]) == 0
    (folder / "zz.pkt").write_text(LAWS[0].read_text().replace("ceb 1800", "ceb 900"))
    assert main(["packetdrill", str(tmp_path)]) == 1


def test_a_file_that_is_no_script_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("")
    assert main(["packetdrill", str(file)]) == 2
    assert "is no script of packetdrill" in capsys.readouterr().err
