"""What `l4slab linux build` finds, fetches and says, without a network or a compiler."""

from __future__ import annotations

from pathlib import Path

import pytest
from l4slab.base.errors import InputError
from l4slab.cli import main
from l4slab.engines.linux import archive, build, compiling, kernels, tools
from l4slab.engines.registry import get_engine


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("L4SLAB_KERNEL", raising=False)
    return tmp_path / "l4slab" / "linux"


def test_the_archive_is_the_one_of_the_machines_sources() -> None:
    targets = """\
http://mirror.example/tools/|stable|
http://mirror.example/debian-security/|bookworm-security|Debian
http://mirror.example/debian/|bookworm-updates|Debian
http://mirror.example/debian/|bookworm|Debian
"""
    assert archive.archive_of(targets) == "http://mirror.example/debian"
    # Before the first update apt does not know the origin.
    assert archive.archive_of("http://other.example/debian/|trixie|\n") == "http://other.example/debian"
    assert archive.archive_of("http://mirror.example/ubuntu/|noble|Ubuntu\n") is None


def test_the_newest_source_that_is_new_enough() -> None:
    found = ["linux-source-7.2 - Linux kernel source", "linux-source-7.10 - Linux", "linux-source-6.12 - Linux"]
    assert archive.newest_source(found) == "linux-source-7.10"
    assert archive.newest_source(["linux-source-7.1 - Linux", "linux-source - Linux"]) is None


def test_options_that_the_kernel_does_not_take() -> None:
    wanted = "# a comment\nCONFIG_A=y\nCONFIG_B=y\nCONFIG_C=n\n"
    assert compiling.unset_options(wanted, "CONFIG_A=y\n# CONFIG_B is not set\n") == ["CONFIG_B"]


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build.shutil, "which", lambda tool: None if tool in ("flex", "gcc") else "/bin/" + tool)
    sentence = tools.missing(tools.TOOLS)
    assert sentence == "gcc, flex are missing; install with: sudo apt-get install gcc libc6-dev flex"


def test_the_source_is_patched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("arch/um", "net/ipv4", "drivers/net", "include/net"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "arch/um/Kconfig").write_text("config HZ\n\tint\n\tdefault 100\n")
    (tmp_path / "net/ipv4/Makefile").write_text("obj-y := route.o\n")
    (tmp_path / "drivers/net/veth.c").write_text("{\n\tskb_tx_timestamp(skb);\n}\n")
    (tmp_path / "include/net/tcp.h").write_text("{\n\tu32 (*min_tso_segs)(struct sock *sk);\n}\n")
    (tmp_path / "net/ipv4/tcp_output.c").write_text("{\n\ttso_segs = tcp_tso_autosize(sk, mss_now, min_tso);\n}\n")
    module = tmp_path / "module"
    module.mkdir()
    (module / "tcp_prague.c").write_text("int x;\n")
    monkeypatch.setattr(compiling, "PRAGUE", module / "tcp_prague.c")
    for _ in range(2):
        compiling.patch(tmp_path)
        assert (tmp_path / "arch/um/Kconfig").read_text() == "config HZ\n\tint\n\tdefault 250\n"
        assert (tmp_path / "net/ipv4/Makefile").read_text() == "obj-y := route.o\nobj-y += tcp_prague.o\n"
        veth = "{\n\tskb->tstamp = 0;\n\tskb->tstamp_type = 0;\n\tskb_tx_timestamp(skb);\n}\n"
        assert (tmp_path / "drivers/net/veth.c").read_text() == veth
        assert (tmp_path / "include/net/tcp.h").read_text().count("(*tso_segs)") == 1
        assert (tmp_path / "net/ipv4/tcp_output.c").read_text().count("ca_ops->tso_segs(sk, mss_now)") == 1
    assert (tmp_path / "net/ipv4/tcp_prague.c").read_text() == "int x;\n"


def _with_clock(source: Path) -> dict[Path, str]:
    """Files of a source in which the clock's calls fit, by path."""
    found: dict[Path, str] = {}
    for name, stands, _ in compiling._CLOCK_EDITS:
        found[source / name] = found.get(source / name, "") + stands
    return found


def test_the_clock_is_shared_where_all_of_it_fits(tmp_path: Path) -> None:
    for path, text in _with_clock(tmp_path).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for _ in range(2):
        compiling._share_clock(tmp_path)
        for name, _, becomes in compiling._CLOCK_EDITS:
            assert (tmp_path / name).read_text().count(becomes) == 1
    for name, folders in compiling._CLOCK_FILES.items():
        assert {(tmp_path / folder / name).read_bytes() for folder in folders} == {
            (compiling.CLOCK / name).read_bytes()
        }
    assert {*compiling._CLOCK_FILES} == {path.name for path in compiling.CLOCK.iterdir()}


@pytest.mark.parametrize("other", sorted({name for name, *_ in compiling._CLOCK_EDITS}))
def test_a_source_in_which_the_clock_does_not_fit_is_left_alone(tmp_path: Path, other: str) -> None:
    files = _with_clock(tmp_path)
    files[tmp_path / other] = "another version\n"
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    compiling._share_clock(tmp_path)
    assert {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == files


def test_without_a_kernel(cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels.installed() is None
    with pytest.raises(InputError, match="l4slab linux build"):
        get_engine("linux").require()
    monkeypatch.setattr(build.shutil, "which", lambda _: None)
    assert main(["linux", "build"]) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "flex" in message
    assert "sudo apt-get install" in message


def test_a_kernel_of_ones_own(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("L4SLAB_KERNEL", str(tmp_path / "linux"))
    assert kernels.installed() == kernels.Kernel(tmp_path / "linux", "", None, cache / "root")
    with pytest.raises(tools.BuildError, match=r"--kernel .* is not a program"):
        build.build(lambda what, part: None, kernel=tmp_path / "nowhere")


def test_two_builds_do_not_meet(cache: Path) -> None:
    cache.mkdir(parents=True)
    with build._only_one(cache), pytest.raises(tools.BuildError, match="another build"):
        build.build(lambda what, part: None)
