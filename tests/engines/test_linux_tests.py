"""`l4slab linux test`: which tests a file has, what counts as passed, and what is written."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from l4slab.base.errors import InputError
from l4slab.cli import main
from l4slab.engines.linux import kernels
from l4slab.tools.kerneltests import Ended, Judged, KernelTest, Result, boots, by_status, packetdrill, tap
from l4slab.tools.kerneltests.collecting import collect

needs_kernel = pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build")
CASE: dict[str, Any] = {
    "id": "0001",
    "name": "a queue that is there",
    "plugins": {"requires": "nsPlugin"},
    "setup": [["$TC qdisc del dev $DUMMY root", 0, 2]],
    "cmdUnderTest": "$TC qdisc add dev $DUMMY root pfifo",
    "expExitCode": "0",
    "verifyCmd": "$TC qdisc show dev $DUMMY",
    "matchPattern": "^qdisc pfifo",
    "matchCount": "1",
}


def told(_what: str, _part: float | None) -> None:
    """Progress that nobody watches."""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A packetdrill in the PATH."""
    path = tmp_path / "bin" / "packetdrill"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    return path


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def names(*given: Path | str) -> list[str]:
    return [f"{test.group} {test.name}" for test in collect(list(map(str, given)), kernels.DEFAULT, None, told)]


def test_a_script_is_a_test_in_each_version_of_ip_that_it_has(tmp_path: Path, program: Path) -> None:
    every = write(tmp_path / "net" / "every.pkt", "// for all\n")
    only = write(tmp_path / "net" / "only.pkt", "--ip_version=ipv4\n--ip_version=ipv6\n")
    assert names(every) == ["net every ipv4", "net every ipv6", "net every ipv4-mapped-ipv6"]
    assert names(only) == ["net only ipv4", "net only ipv6"]
    (first, *_) = collect([str(only)], kernels.DEFAULT, None, told)
    assert first.script.startswith(f"cd {only.parent} && exec {program} --ip_version=ipv4 ")
    assert first.script.endswith(" only.pkt")
    other = write(tmp_path / "other.pkt", "--ip_version=ipx\n")
    with pytest.raises(InputError, match=r"other\.pkt: --ip_version=ipx is unknown; valid are ipv4"):
        names(other)


def test_a_folder_has_scripts_cases_and_what_its_makefile_calls_a_test(tmp_path: Path, program: Path) -> None:
    write(
        tmp_path / "Makefile",
        "TEST_PROGS := first.sh \\\n\tsecond.sh gone.sh\nTEST_PROGS += third.sh\nTEST_FILES := lib.sh\n",
    )
    for name in ("first", "second", "third", "lib"):
        write(tmp_path / f"{name}.sh")
    write(tmp_path / "below" / "b.pkt", "--ip_version=ipv4\n")
    write(tmp_path / "tc" / "a.json", json.dumps([CASE, CASE | {"id": "0002"}]))
    write(tmp_path / "tc" / "other.json", '{"a": 1}')
    group = tmp_path.name
    label = f"{CASE['name']}"
    assert names(tmp_path) == [
        *(f"{group} {name}" for name in ("first", "second", "third")),
        "below b ipv4",
        f"tc/a 0001 {label}",
        f"tc/a 0002 {label}",
    ]
    # By its name everything is a test, and nothing is one twice.
    assert names(tmp_path / "lib.sh", tmp_path / "lib.sh") == [f"{group} lib"]


def test_a_name_that_is_not_here_is_one_of_the_kernels_tests(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(InputError, match=r"net/packetdrill is not here, and there is no .*l4slab linux build"):
        names("net/packetdrill")
    for kernel, folder in ((kernels.DEFAULT, kernels.cache()), ("mine", kernels.folder_of("mine"))):
        tests = folder / "source/tools/testing/selftests/net/packetdrill"
        write(tests / f"{kernel}.pkt", "--ip_version=ipv4\n")
        (test,) = collect(["net/packetdrill"], kernel, None, told)
        assert test.name == f"{kernel} ipv4"
    with pytest.raises(InputError, match=r"^nothing is not here, nor in "):
        names("nothing")


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.txt", "", r"a\.txt: is no test; give a script of packetdrill"),
        ("a.json", "{", r"a\.json: it is no JSON"),
        ("a.json", "{}", r'a\.json: is no file of tc-testing: its cases have "cmdUnderTest"'),
        ("a.json", json.dumps([CASE | {"expExitCode": "x"}]), r"a\.json: case 0001 .* cannot be read"),
        ("empty/a", "", "empty has no test"),
    ],
)
def test_what_is_no_test_is_refused(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(InputError, match=sentence):
        names(path.parent if path.parent != tmp_path else path)


def test_packetdrill_is_asked_for_where_a_script_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packetdrill.shutil, "which", lambda _: None)
    script = write(tmp_path / "a.pkt")
    with pytest.raises(InputError, match=r"packetdrill is not in PATH; .*--packetdrill"):
        names(script)
    shell = write(tmp_path / "a.sh")
    assert names(shell) == [f"{tmp_path.name} a"]
    with pytest.raises(InputError, match="--packetdrill is given, but no script"):
        collect([str(shell)], kernels.DEFAULT, tmp_path, told)
    with pytest.raises(InputError, match="is no source of packetdrill"):
        collect([str(script)], kernels.DEFAULT, tmp_path, told)


def judge(case: dict[str, Any], tmp_path: Path) -> KernelTest:
    (test,) = collect([str(write(tmp_path / "a.json", json.dumps([case])))], kernels.DEFAULT, None, told)
    return test


@pytest.mark.parametrize(
    ("change", "files", "status", "why"),
    [
        ({}, {"exit": "0\n", "verify": "qdisc pfifo 8001:\n"}, "pass", ""),
        ({}, {"exit": "0\n", "verify": ""}, "fail", "is there 0 times, expected 1, in: no output"),
        ({}, {"exit": "0\n", "verify": "qdisc pfifo\nqdisc pfifo\n"}, "fail", "is there 2 times"),
        ({}, {"exit": "2\n"}, "fail", "the command has status 2, expected 0"),
        ({}, {"setup": "0\n"}, "fail", "step 0 of its setup"),
        ({"expExitCode": "2", "matchCount": "0"}, {"exit": "2\n", "verify": ""}, "pass", ""),
        ({"matchJSON": [{"kind": "pfifo"}]}, {"exit": "0", "verify": '[{"kind": "pfifo", "x": 1}]'}, "pass", ""),
        ({"matchJSON": [{"kind": "fq"}]}, {"exit": "0", "verify": '[{"kind": "pfifo"}]'}, "fail", "it is not in"),
        ({"matchJSON": [{"a": {"b": 1}}]}, {"exit": "0", "verify": '[{"a": {"b": 2, "c": 1}}]'}, "fail", "it is not"),
        ({"matchJSON": []}, {"exit": "0", "verify": "[]"}, "pass", ""),
    ],
)  # fmt: skip
def test_a_case_passes_with_its_status_and_its_pattern(
    tmp_path: Path, change: dict[str, Any], files: dict[str, str], status: str, why: str
) -> None:
    judged = judge(CASE | change, tmp_path).judge(Ended(0, "", files=files))
    assert judged.status == status
    assert why in judged.why


def test_a_case_that_needs_what_is_not_here_is_skipped(tmp_path: Path) -> None:
    assert judge(CASE, tmp_path).skip == ""
    for change, why in (
        ({"plugins": {"requires": ["nsPlugin", "scapyPlugin"]}}, "needs scapyPlugin"),
        ({"skip": "yes"}, "the file skips it"),
        ({"setup": ["ip link show $DEV2"]}, "needs $DEV2"),
    ):
        assert judge(CASE | change, tmp_path).skip == why


def test_the_exit_status_of_kselftest() -> None:
    assert by_status(Ended(0, "all well")).status == "pass"
    assert by_status(Ended(4, "a\nno nc here\n")) == Judged("skip", "no nc here")
    assert by_status(Ended(1, "")) == Judged("fail", "exit status 1: it said nothing")


def result(*judged: Judged, name: str = "a") -> Result:
    ended = Ended(1, "".join(f"line {number}\n" for number in range(30)), "kernel says\n")
    return Result(KernelTest("net", name, "", 1), judged, [ended] * len(judged))


def test_tap_has_the_last_lines_of_a_failure() -> None:
    assert tap.heading(3) == "TAP version 13\n1..3"
    good, bad = Judged("pass"), Judged("fail", "exit status 1: line 29")
    assert tap.lines(1, result(good, name="a #1")) == "ok 1 - net a 1"
    assert tap.lines(2, result(Judged("skip", "no nc"))) == "ok 2 - net a # SKIP no nc"
    first, why, count, *rest = tap.lines(3, result(good, bad, good)).splitlines()
    assert (first, why, count) == ("not ok 3 - net a", f"# {bad.why}", "# passed 2 of 3 times")
    assert rest == [*(f"# test: line {number}" for number in range(20, 30)), "# kernel: kernel says"]
    assert tap.count([result(good), result(bad), result(good, bad)]) == "1 passed, 2 failed, 0 skipped"


@pytest.fixture
def booted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[Path, Judged], tuple[int, ElementTree.Element]]:
    """Runs a script with this outcome; the exit status and JUnit."""

    def run(script: Path, judged: Judged) -> tuple[int, ElementTree.Element]:
        monkeypatch.setattr(kernels, "ready", lambda name: None)
        monkeypatch.setattr(
            boots, "run", lambda tests, *_: (Result(one, [judged], [Ended(0, "said")]) for one in tests)
        )
        junit = tmp_path / "junit.xml"
        status = main(["linux", "test", str(script), "--junit", str(junit)])
        return status, ElementTree.parse(junit).getroot()

    return run


def test_the_exit_status_and_junit(
    tmp_path: Path,
    booted: Callable[[Path, Judged], tuple[int, ElementTree.Element]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = write(tmp_path / "net" / "a.sh")
    for judged, status, tag in (
        (Judged("pass"), 0, None),
        (Judged("skip", "no nc"), 0, "skipped"),
        (Judged("fail", "no"), 1, "failure"),
    ):
        ended, root = booted(script, judged)
        assert ended == status
        (case,) = root.iter("testcase")
        assert (case.get("classname"), case.get("name")) == ("net", "a")
        assert [child.tag for child in case] == ([tag] if tag else [])
        assert capsys.readouterr().out.startswith("TAP version 13\n1..1\n")
    assert "test: said" in "".join(case.itertext())


def test_a_kernel_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["linux", "test", str(write(tmp_path / "a.sh")), "--kernel", "nowhere"]) == 2
    assert "there is no kernel nowhere" in capsys.readouterr().err


def test_each_test_has_namespaces_and_a_limit() -> None:
    tests = [(KernelTest("net", "a", "true", 60), 0), (KernelTest("net", "b", "true", 1.5), 0)]
    lines = boots.boot_script(tests).splitlines()
    assert lines[-4:-2] == ["t 0 60", "t 1 1.5"]
    script = boots.one_script({"PATH": "/my/bin", "WORD": "it's"})
    assert "PATH=/dev/out/bin:/my/bin:/dev/out/last" in script
    assert re.search("""'WORD=it'"'"'s'""", script)


def shell_test(path: Path, text: str) -> Path:
    return write(path, f"set -e\n{text}\n")


@needs_kernel
@pytest.mark.slow
def test_a_program_that_polls_by_a_system_call_ends(capfd: pytest.CaptureFixture[str]) -> None:
    program = """
import os, time
def ticks():
    return os.times().elapsed
began = time.monotonic()
for _ in range(3):
    before = ticks()
    while ticks() == before:
        pass
took = time.monotonic() - began
assert 0.02 <= took < 0.2, took
# Who has slept does not poll: its calls take no time.
time.sleep(1)
before = time.monotonic_ns()
for _ in range(20_000):
    os.getppid()
print(time.monotonic_ns() - before)
"""
    assert main(["linux", "exec", "--", sys.executable, "-c", program]) == 0
    assert capfd.readouterr().out == "256\n"


@needs_kernel
@pytest.mark.slow
def test_the_processors_are_the_kernels_own(capfd: pytest.CaptureFixture[str]) -> None:
    words = "cat /sys/devices/system/cpu/online; getconf _NPROCESSORS_ONLN; nproc"
    assert main(["linux", "exec", "--", "sh", "-c", words]) == 0
    assert capfd.readouterr().out.split() == ["0", "1", "1"]


@needs_kernel
@pytest.mark.slow
def test_tests_in_one_boot_do_not_meet(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "mine"
    good = (
        'test -z "$(ls /tmp | grep left)" && touch /tmp/left && ip link add here type dummy && sleep 3600 &\nsleep 1\n'
    )
    shell_test(folder / "a.sh", good + "ip link show here && test -e /tmp/left")
    shell_test(folder / "b.sh", good + "ip link show here && test -e /tmp/left")
    shell_test(folder / "c.sh", 'echo "went wrong" >&2; echo "kernel: a message" >/dev/kmsg || true; exit 3')
    shell_test(folder / "d.sh", "echo no device; exit 4")
    shell_test(folder / "e.sh", "sleep 10000")
    shell_test(
        folder / "g.sh",
        "tc qdisc add dev lo root dualpi2; tc qdisc show dev lo | grep -q dualpi2; nstat -az >/dev/null",
    )
    (folder / "Makefile").write_text("TEST_PROGS := a.sh b.sh c.sh d.sh e.sh g.sh\n")
    for jobs in ("1", "2"):
        assert main(["linux", "test", str(folder), "--jobs", jobs]) == 1
        said = capfd.readouterr().out.splitlines()
        assert [line for line in said if not line.startswith("#")] == [
            *("TAP version 13", "1..6", "ok 1 - mine a", "ok 2 - mine b", "not ok 3 - mine c"),
            *("ok 4 - mine d # SKIP no device", "not ok 5 - mine e", "ok 6 - mine g"),
        ], said
        assert "# test: went wrong" in said
        assert "# it was stopped after 3600 s of virtual time" in said


@needs_kernel
@pytest.mark.slow
def test_a_test_that_computes_for_ever_is_stopped_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    busy = shell_test(tmp_path / "busy.sh", "while :; do :; done")
    after = shell_test(tmp_path / "after.sh", "true")
    assert main(["linux", "test", str(busy), str(after), "--jobs", "1", "--timeout", "15"]) == 1
    said = capfd.readouterr().out
    assert "# it was stopped after 15 s of the wall clock" in said
    assert f"ok 2 - {tmp_path.name} after" in said


# A server sends both segments as one packet, as a card cuts it.
SCRIPT = """\
--ip_version=ipv4
 0.0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0.0 setsockopt(3, SOL_SOCKET, SO_REUSEADDR, [1], 4) = 0
+0.0 bind(3, ..., ...) = 0
+0.0 listen(3, 1) = 0
+0.1 < S 0:0(0) win 8000 <mss 1000>
+0.0 > S. 0:0(0) ack 1 <mss 1460>
+0.02 < . 1:1(0) ack 1 win 8000
+0.0 accept(3, ..., ...) = 4
+0.1 write(4, ..., 2000) = 2000
+0.0 > P. 1:2001(2000) ack 1
+{rtt} < . 1:1(0) ack 2001 win 8000
+0.0 %{{ assert tcpi_unacked == 0 and {low} < tcpi_rtt < {high}, tcpi_rtt }}%
"""


@needs_kernel
@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("packetdrill") is None and "PACKETDRILL" not in os.environ,
    reason="no packetdrill in PATH, and PACKETDRILL names no folder of its source",
)
def test_scripts_of_packetdrill(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "net" / "a.pkt", SCRIPT.format(rtt="0.02", low=15_000, high=25_000))
    write(tmp_path / "net" / "b.pkt", SCRIPT.format(rtt="0.02", low=0, high=1))
    write(
        tmp_path / "net" / "c.pkt",
        SCRIPT.format(rtt="0.02", low=15_000, high=25_000).replace("2001(2000)", "1001(1000)"),
    )
    source = ["--packetdrill", os.environ["PACKETDRILL"]] if "PACKETDRILL" in os.environ else []
    assert main(["linux", "test", str(tmp_path / "net"), *source, "--repeat", "2"]) == 1
    said = capfd.readouterr().out.splitlines()
    assert [line for line in said if not line.startswith("#")][2:] == [
        *("ok 1 - net a ipv4", "not ok 2 - net b ipv4", "not ok 3 - net c ipv4"),
    ]
    assert said.count("# passed 0 of 2 times") == 2
    # The place in the script.
    assert any(line.startswith("# c.pkt:11: ") for line in said), said
