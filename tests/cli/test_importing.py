"""`l4slab import`: each format becomes an experiment that runs, and comments say what was left out."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
from pathlib import Path

import polars as pl
import pytest
from l4slab import experimentfile, plot, sweep
from l4slab.cli import main

FILES = Path(__file__).with_name("imported")
# By file: what the experiment has, and what is left out.
EXPECTED = {
    "tc-show.txt": (
        ['qdisc = "htb default 30 r2q 10"', "[link.eth0.class.30]", "cake bandwidth 85Mbit"], ["lo:", "mq:"]
    ),
    "tc-show.json": (
        ['netem = "limit 1000 delay 100000us 10000us loss 1%"', "bandwidth 85000000bit"], ["lo:", "eth3:"]
    ),
    "shaper.sh": (
        ['policer = "rate 8mbit burst 10k drop"', 'host = "10.0.0.5"', 'dscp = "ef"', "tbf rate 10mbit burst 32kbit"],
        ["line 22", "$UNKNOWN", "dport", "fw classid", "hfsc"],
    ),
    "mahimahi.sh": (
        ['rate = "12Mbit"', 'rate = "48Mbit"', "pfifo limit 426", "codel limit 100 target 5ms", "loss 1%"], []
    ),
    "mininet.txt": (['rate = "10Mbit"', 'netem = "delay 5ms loss 2%"', "pfifo limit 100"], ["addLink(h2, s1)"]),
    "sqm": (["besteffort overhead 44 atm", "ack-filter", "stab overhead 22 htb default 1"], ["foo bar", "simple.qos"]),
    "autorate.sh": (["cake bandwidth 20000kbit"], ["5000 to 80000"]),
    "libreqos/ShapedDevices.csv": (
        ['host = "circuit-1001"', 'ceil = "155Mbit"', 'ceil = "20Mbit"', "# class 1: Site_1"],
        ["Nowhere", "node Empty"],
    ),
    "lumos5g.csv": (["rate_trace"], ["1 rows", "column nrStatus"]),
    "ucc5g.csv": (["rate_trace"], ["column UL_bitrate"]),
    "pensieve.txt": (["rate_trace"], []),
    "mm-link.txt": (["rate_trace"], []),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_an_imported_file_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(FILES, tmp_path / "files")
    monkeypatch.chdir(tmp_path)
    assert main(["import", f"files/{name}", "--out", "x.toml"]) == 0
    text = Path("x.toml").read_text(encoding="utf-8")
    taken, left = EXPECTED[name]
    for one in taken:
        assert one in text
    comments = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    for one in left:
        assert one in comments.partition("Left out:")[2]
    assert main(["run", "x.toml", "--duration", "200ms", "--out", "results"]) == 0


def rates(file: str, *options: str) -> list[tuple[float, float]]:
    assert main(["import", file, "--out", "x.toml", *options]) == 0
    run = sweep.describe(experimentfile.load(Path("x.toml")), {})
    return [(at / 1e9, bps / 1e6) for at, bps in run["links"][0]["rate_trace"]["steps"]]


def test_a_trace_has_the_rates_of_its_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(FILES, tmp_path / "files")
    monkeypatch.chdir(tmp_path)
    assert rates("files/lumos5g.csv") == [(0, 300), (1, 420.5), (2, 100)]
    Path("x.toml").unlink()
    # A row without a rate is none; kbit/s.
    assert rates("files/ucc5g.csv") == [(0, 32), (2, 64)]
    Path("x.toml").unlink()
    columns = ("--time", "utc", "--rate", "downlink throughput:kbps")
    assert rates("files/starlink.csv", *columns) == [(0, 0.15), (1, 0.09)]


def test_a_capture_has_the_rate_of_its_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    packets = b"".join(struct.pack("<IIII", 100, n * 5000, 4, 1514) + b"abcd" for n in range(60))
    header = b"\xd4\xc3\xb2\xa1" + struct.pack("<HHIIII", 2, 4, 0, 0, 65535, 1)
    Path("a.pcap").write_bytes(header + packets)
    found = rates("a.pcap")
    # 200 frames a second; after them nothing.
    assert found[0][1] == pytest.approx(200 * 1514 * 8e-6)
    assert [rate for _, rate in found][-1] == 0
    assert sum(rate for _, rate in found) * 0.1 == pytest.approx(60 * 1514 * 8e-6, rel=1e-4)


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("a,b\n1,2\n", (), "has the columns a, b, and --time names no column and --rate names no column"),
        ("a,b\n1,2\n", ("--time", "a", "--rate", "b"), "does not say its unit"),
        ("a,b\nx,2\n1,y\n2,3\n", ("--time", "a", "--rate", "b:mbps"), "has 2 rows that cannot be read: line 2"),
        ("", (), "is empty"),
        ("nothing\n", (), "is in no format that is known"),
        ("tc qdisc add dev eth0 root tbf rate $R burst 5k limit 5k\n", (), "$R has no value in the script"),
        ("Circuit ID,Download Min Mbps\n1,2\n", (), "'download max mbps'"),
    ],
)
def test_mistakes_are_told_at_once(
    content: str,
    options: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.csv").write_text(content)
    assert main(["import", "f.csv", *options]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not Path("f.toml").exists()


def test_a_variable_may_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.sh").write_text("tc qdisc add dev eth0 root tbf rate $R burst 5k limit 5k\n")
    assert main(["import", "a.sh", "--set", "R=3mbit"]) == 0
    assert "tbf rate 3mbit burst 5k" in Path("a.toml").read_text()


def test_files_of_flent_become_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, values in (("a", [1.0, 2.0, None]), ("b", [3.0, 4.0, 5.0])):
        document = {
            "version": 4,
            "metadata": {"TITLE": "a test", "SERIES_META": {"TCP download::1": {"CONG_CONTROL": "cubic"}}},
            "x_values": [0.0, 0.2, 0.4],
            "results": {"TCP download::1": values, "TCP download sum": values, "Ping (ms) ICMP": [10.0, 11.0, 30.0]},
        }
        Path(f"{name}.flent.gz").write_bytes(gzip.compress(json.dumps(document).encode()))
        assert main(["import", f"{name}.flent.gz", "--out", name]) == 0
    flows = pl.read_parquet("a/flows.parquet")
    assert flows.select("flow", "goodput_mbps", "rtt_ms_mean").rows() == [
        ("TCP download::1", 1.5, None), ("Ping (ms) ICMP", None, 17.0),
    ]  # fmt: skip
    capsys.readouterr()
    assert main(["compare", "a", "b", "--json"]) == 0
    (change,) = json.loads(capsys.readouterr().out)["different"]
    assert (change["quantity"], change["mean_before"], change["mean_after"]) == ("goodput_mbps", 1.5, 4.0)
    if plot.AVAILABLE:
        assert plot.time_series(pl.read_parquet("b/series.parquet")) is not None
