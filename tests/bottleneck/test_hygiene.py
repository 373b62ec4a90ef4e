"""Nothing is left after a kill, and what the machine or the user gets wrong is one sentence.

`L4SLAB_KILLS=100` kills so many runs, at random moments; CI kills a few.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from l4slab.cli import main
from l4slab.engines.real import forwarder
from l4slab.engines.real.engine import RealEngine

pytestmark = pytest.mark.alone

PYTHON = sys.executable
PROGRAMS = Path(__file__).parent / "programs"
KILLS = int(os.environ.get("L4SLAB_KILLS", "6"))
FILE = """
duration = "3s"
[link.one]
rate = "20Mbit"
qdisc = "dualpi2"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
path = ["one"]
"""


@pytest.fixture(scope="module")
def machine() -> None:
    can, text = forwarder.examine() if sys.platform.startswith("linux") else (False, "this is not Linux")
    if not can:
        pytest.skip(text)


def experiment(folder: Path, text: str = FILE) -> Path:
    file = folder / "x.toml"
    file.write_text(text)
    return file


def state_of_the_machine() -> dict[str, object]:
    """What a run must leave as it was: devices, routes, names of namespaces, mounts."""
    names = Path("/run/netns")
    return {
        "devices": sorted(path.name for path in Path("/sys/class/net").iterdir()),
        "routes": Path("/proc/net/route").read_text(),
        "names": sorted(path.name for path in names.iterdir()) if names.is_dir() else None,
        "mounts": sorted(
            line.split(" - ")[0].split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
        ),
    }


def descendants(pid: int) -> Iterator[int]:
    """A process and those that it has started, as far as they are there."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from descendants(int(child))


def becomes(true: Callable[[], bool]) -> bool:
    for _ in range(500):
        if true():
            return True
        time.sleep(0.02)
    return False


def marked(mark: str) -> list[str]:
    """Processes with this word in their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            is_ours = folder.name.isdigit() and mark.encode() in (folder / "environ").read_bytes()
            if is_ours and "Z" not in (folder / "stat").read_text().rpartition(")")[2].split()[0]:
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("machine")
def test_nothing_is_left_after_kills_at_random_moments(tmp_path: Path) -> None:
    """Of any process of a run of both kinds, from its start to its end."""
    file, choose = experiment(tmp_path), random.Random(1)
    before = state_of_the_machine()
    background = "(setsid sleep 100 &) ; sleep 100"
    commands = [["bottleneck", str(file), "--server", "sleep 100", "--", "sh", "-c", background]]
    if RealEngine().lacking() is None:
        commands.append(["run", str(file), "--engine", "real", "--out", str(tmp_path / "out")])
    for number in range(KILLS):
        mark = f"L4SLAB_TEST_MARK={os.getpid()}.{number}"
        process = subprocess.Popen(
            [PYTHON, "-m", "l4slab", *commands[number % len(commands)]],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **dict([mark.split("=")])},
        )
        time.sleep(choose.uniform(0.2, 3.5))
        victim = choose.choice(list(descendants(process.pid)))
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        if victim != process.pid:
            # A run goes on without one of its programs; in the end the user ends it.
            time.sleep(0.1)
            process.kill()
        process.wait()
        assert becomes(lambda mark=mark: not marked(mark)), marked(mark)  # type: ignore[misc]
    assert state_of_the_machine() == before


BOTTLENECK = ["bottleneck", "FILE"]
REAL = ["run", "FILE", "--engine", "real", "--out", "OUT"]
TRUE = ["--", "true"]
PROGRAM = 'kind = "program"\nserver = "SERVER"\nclient = "CLIENT"\nrtt = "10ms"\n'
RECEIVE = f"{shlex.quote(PYTHON)} {shlex.quote(str(PROGRAMS / 'receive.py'))} tcp {{server}}"


def with_program(server: str, client: str) -> tuple[str, str]:
    return ('cc = "cubic"\nrtt = "10ms"\n', PROGRAM.replace("SERVER", server).replace("CLIENT", client))


# Arguments, what becomes of FILE (two texts, the first one becomes the second), the exit status, and what is said.
MISTAKES: list[tuple[list[str], tuple[str, str], int, str]] = [
    ([*BOTTLENECK, *TRUE], ('path = ["one"]', 'path = ["two"]'), 2, "two"),
    ([*BOTTLENECK, *TRUE], ('rate = "20Mbit"', 'rate = "20Mbps"'), 2, "Mbps"),
    ([*BOTTLENECK, *TRUE], ('qdisc = "dualpi2"', 'qdisc = "dualpi3"'), 2, "dualpi3"),
    ([*BOTTLENECK, *TRUE], ('qdisc = "dualpi2"', 'qdisc = "dualpi2 target"'), 2, "target"),
    ([*BOTTLENECK, *TRUE], ('cc = "cubic"', 'cc = "cubik"'), 2, "cubik"),
    ([*BOTTLENECK, *TRUE], ("[[flow]]", "[flow]]"), 2, "x.toml"),
    ([*BOTTLENECK, *TRUE], (FILE, ""), 2, "x.toml"),
    (["bottleneck", "NOWHERE", *TRUE], ("", ""), 2, "nowhere.toml"),
    (["bottleneck", "FOLDER", *TRUE], ("", ""), 2, ""),
    ([*BOTTLENECK], ("", ""), 2, "name a COMMAND"),
    ([*BOTTLENECK, "--"], ("", ""), 2, "name a COMMAND"),
    ([*BOTTLENECK, "--", "no-such-program"], ("", ""), 2, "no-such-program cannot be started"),
    ([*BOTTLENECK, "--", ""], ("", ""), 2, "cannot be started"),
    ([*BOTTLENECK, "--", "FOLDER"], ("", ""), 2, "cannot be started"),
    ([*BOTTLENECK, "--", "FILE"], ("", ""), 2, "cannot be started"),
    ([*BOTTLENECK, "--", "false"], ("", ""), 1, "false has ended with status 1"),
    ([*BOTTLENECK, "--", "sh", "-c", "exit 7"], ("", ""), 7, "status 7"),
    ([*BOTTLENECK, "--", "sh", "-c", "kill -9 $$"], ("", ""), 137, "status 137"),
    ([*BOTTLENECK, "--server", "exit 3", *TRUE], ("", ""), 2, "has ended with status 3 before it listened"),
    ([*BOTTLENECK, "--server", "", *TRUE], ("", ""), 2, "--server"),
    ([*BOTTLENECK, "--server", "no-such-server", *TRUE], ("", ""), 2, "before it listened"),
    ([*BOTTLENECK, "--flow", "b", *TRUE], ("", ""), 2, 'there is no flow "b"'),
    ([*BOTTLENECK, "--flow", "", *TRUE], ("", ""), 2, "--flow"),
    ([*BOTTLENECK, "--where", "trial = 9", *TRUE], ("", ""), 2, ""),
    ([*BOTTLENECK, "--where", "no such sql", *TRUE], ("", ""), 2, "--where"),
    ([*BOTTLENECK, "--sysctl", "net.ipv4.no_such=1", *TRUE], ("", ""), 2, "net/ipv4/no_such=1 is refused"),
    ([*BOTTLENECK, "--sysctl", "net.ipv4.tcp_ecn=abc", *TRUE], ("", ""), 2, "is refused"),
    ([*BOTTLENECK, "--sysctl", "net.ipv4.tcp_ecn", *TRUE], ("", ""), 2, "--sysctl"),
    ([*BOTTLENECK, "--log", "/no/such/folder/x.log", *TRUE], ("", ""), 2, "cannot be written"),
    ([*BOTTLENECK, "--log", "FOLDER", *TRUE], ("", ""), 2, "cannot be written"),
    ([*BOTTLENECK, "--late", "1", *TRUE], ("", ""), 2, "--late 1 has no unit"),
    ([*BOTTLENECK, "--late", "0ms", *TRUE], ("", ""), 2, "must be above 0"),
    ([*BOTTLENECK, "--access", "fast", *TRUE], ("", ""), 2, "--access fast"),
    ([*BOTTLENECK, "--no-such", *TRUE], ("", ""), 2, "--no-such"),
    (["replay", "NOWHERE"], ("", ""), 2, "there is no such file; give"),
    (["replay", "FILE"], ("", ""), 2, "is no log"),
    (["replay", "FOLDER"], ("", ""), 2, ""),
    (REAL, ('cc = "cubic"', 'cc = "prague"'), 2, 'no congestion control "prague"'),
    (REAL, ('rtt = "10ms"', 'rtt = "10us"'), 2, "shorter than a scheduler keeps"),
    (REAL, ('qdisc = "dualpi2"', 'qdisc = "fq_codel flows"'), 2, "flows"),
    (REAL, ('rate = "20Mbit"\n', 'medium = "docsys"\n'), 2, "docsys"),
    (REAL, ('cc = "cubic"\n', 'kind = "media"\ncc = "scream"\nrate_max = "2Mbit"\n'), 2, "no packaged stack has"),
    (REAL, (FILE, f'{FILE}[impair.i]\nbefore = "one"\nnetem = "lost 1%"\n'), 2, "lost"),
    (REAL, (FILE, f'{FILE}mtu = "9000B"\n'), 2, ""),
    (REAL, (FILE, f'{FILE}options = {{ hystart = "off" }}\n'), 2, "modules"),
    ([*REAL[:-1], "FILE"], ("", ""), 2, ""),
    (REAL, with_program("no-such-server", "true {server}"), 2, "no program of this name"),
    (REAL, with_program("true", "/no/such {server}"), 2, "no such file"),
    (REAL, with_program("false", "true {server}"), 1, "server"),
    (REAL, with_program(RECEIVE, "false {server}"), 1, "ended with status 1"),
    (REAL, with_program(RECEIVE, "true {server}"), 1, "has sent nothing"),
]


@pytest.mark.slow
@pytest.mark.usefixtures("machine")
def test_fifty_mistakes_are_told_in_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them changes the machine or leaves a process."""
    monkeypatch.setattr(forwarder, "latest_ms", lambda _: 0.0)
    before = state_of_the_machine()
    is_there = RealEngine().lacking() is None
    wrong = []
    for number, (arguments, (old, new), status, said) in enumerate(MISTAKES):
        if arguments[0] == "run" and not is_there:
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        text = FILE.replace(old, new) if old else FILE
        file = experiment(folder, text.replace('"3s"', '"1s"'))
        names = {"FILE": file, "NOWHERE": folder / "nowhere.toml", "FOLDER": folder, "OUT": folder / "out"}
        found = main([str(names.get(word, word)) for word in arguments])
        err = capfd.readouterr().err.strip()
        lines = [line for line in err.splitlines() if line.startswith("l4slab") or "Traceback" in line]
        if found != status or said not in " ".join(err.split()) or "Traceback" in err or not lines:
            wrong.append(f"{arguments} {new!r}: status {found}, {err!r}")
    assert not wrong, "\n".join(wrong)
    assert len(MISTAKES) >= 50
    assert state_of_the_machine() == before


def _without_root(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command line in a user namespace of its own, after `line`."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-Urm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine refuses user namespaces")
    command = f"{shlex.quote(PYTHON)} -m l4slab bottleneck {shlex.quote(str(experiment(folder)))} -- true"
    return subprocess.run(
        [unshare, "-Urm", "sh", "-ec", line.replace("COMMAND", command)], check=False, capture_output=True, text=True
    )


@pytest.mark.slow
@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("mount --bind /dev/null /dev/net/tun; COMMAND", "/dev/net/tun"),
        ("mount -t tmpfs none /dev/net; COMMAND", "/dev/net/tun cannot be opened"),
        (
            "echo 0 >/proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-all --inh-caps=-all COMMAND",
            "this machine refuses user namespaces",
        ),
        ("echo 0 >/proc/sys/user/max_net_namespaces; COMMAND", "this machine refuses network namespaces"),
    ],
)
def test_what_the_machine_refuses_is_told(tmp_path: Path, line: str, said: str) -> None:
    done = _without_root(line, tmp_path)
    assert done.returncode == 1, done.stderr
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("machine")
def test_the_forwarder_has_no_privileges_when_it_forwards(tmp_path: Path) -> None:
    """The command looks at the process that has started it."""
    out = tmp_path / "status"
    # The files of /proc are the machine's, so the forwarder is not process 1 there.
    script = tmp_path / "look.py"
    script.write_text(
        "import json, pathlib, time\n"
        "time.sleep(0.3)\n"
        "own = pathlib.Path('/proc/self').resolve().name\n"
        "parent = next(l.split()[1] for l in open(f'/proc/{own}/status') if l.startswith('PPid'))\n"
        "caps = [l.split()[1] for l in open(f'/proc/{parent}/status') if l[:6] in ('CapEff', 'CapPrm')]\n"
        f"pathlib.Path({str(out)!r}).write_text(json.dumps(caps))\n"
    )
    assert main(["bottleneck", str(experiment(tmp_path)), "--late", "10s", "--", PYTHON, str(script)]) == 0
    assert [int(caps, 16) for caps in json.loads(out.read_text())] == [0, 0]
