"""Media in the place of wires, from the experiment file to the tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import l4slab
import pytest
from l4slab import _core, experimentfile, sweep
from l4slab.cli import main
from l4slab.engines.linux.engine import LinuxEngine

FILE = """
duration = "3s"
[link.wan]
rate = "200Mbit"
qdisc = "pfifo"
[link.home]
medium = "wifi ac80 mcs 7"
qdisc = "fq_codel target 20ms"
qdisc_up = "pfifo limit 500"
[link.home.station.far]
medium = "mcs 1 per 0.05"
[[flow]]
name = "near"
cc = "cubic"
rtt = "20ms"
[[flow]]
name = "far"
cc = "cubic"
rtt = "20ms"
station = "far"
path = ["home.up", "wan"]
[[flow]]
name = "ping"
kind = "cbr"
rate = "100kbit"
rtt = "20ms"
path = ["home"]
[[at]]
time = "1s"
"link.home.qdisc" = "pfifo limit 100"
"link.home.qdisc_up" = "fq_codel"
"link.home.medium" = "wifi mcs 4"
"link.home.station.far.medium" = "mcs 0"
"""


def written(folder: Path, text: str = FILE) -> Path:
    file = folder / "media.toml"
    file.write_text(text)
    return file


def described(file: Path) -> dict[str, Any]:
    return sweep.describe(experimentfile.load(file), {})


def test_a_medium_is_two_links(tmp_path: Path) -> None:
    run = described(written(tmp_path))
    wan, down, up = run["links"]
    assert (wan["name"], down["name"], up["name"]) == ("wan", "home", "home.up")
    words, down_bps, up_bps = _core.canonical_medium("wifi ac80 mcs 7")
    assert down["medium"] == words
    assert down["stations"] == {"far": "mcs 1 per 0.05"}
    assert up["up_of"] == "home"
    assert (down["rate_bps"], up["rate_bps"]) == (down_bps, up_bps)
    assert up["qdisc"].startswith("pfifo limit 500")
    near, far, _ = run["flows"]
    # Without a path downstream over all links, and ACKs return over the other side of each medium.
    assert (near["path"], near["reverse_path"]) == (["wan", "home"], ["home.up"])
    assert (far["path"], far["reverse_path"], far["station"]) == (["home.up", "wan"], ["home"], "far")
    assert [change["link"] for change in run["at"]] == ["home", "home.up"]
    assert (run["at"][0]["medium"], run["at"][0]["stations"]) == ("wifi mcs 4", {"far": "mcs 0"})


def test_a_medium_runs(tmp_path: Path) -> None:
    results = l4slab.run(written(tmp_path))
    home = results.series.filter(link="home", queue="all")
    assert home["air_ms"].drop_nulls().min() > 0
    assert 0 < home["airtime_pct"].mean() < 100


MISTAKES = {
    "a rate": ('medium = "wifi ac80 mcs 7"', 'medium = "leo"\nrate = "1Mbit"', ["rate", "1Mbit", "beside medium"]),
    "an unknown medium": ('"wifi ac80 mcs 7"', '"wify"', ["link.home.medium", "wify", 'did you mean "wifi"']),
    "an unknown word": ('"wifi ac80 mcs 7"', '"wifi ac80 mcss 7"', ["link.home.medium", "mcss", 'did you mean "mcs"']),
    "a value": ('"wifi ac80 mcs 7"', '"wifi ac80 mcs 11"', ["link.home.medium", "mcs", "11", "ac80 has 0 to 9"]),
    "aql without queues": (
        "ac80 mcs 7",
        "ac80 fifo aql",
        ["link.home.medium", "fifo", "aql limits queues of stations"],
    ),
    "limits without aql": ("ac80 mcs 7", "ac80 aql-low 2ms", ["link.home.medium", "aql-low", "2ms", "the word aql"]),
    "limits in disorder": ("ac80 mcs 7", "ac80 aql aql-low 20ms", ["aql-low", "20ms", "aql-high is 12ms"]),
    "control without a signal": ("ac80 mcs 7", "ac80 rate minstrel", ["rate", "minstrel", "it needs snr"]),
    "two sources of losses": ("ac80 mcs 7", "ac80 snr 20 per 0.1", ["per", "0.1", "losses follow from snr"]),
    "a variation of nothing": ("ac80 mcs 7", "ac80 sd 3", ["sd", "3", "it needs snr"]),
    "a shared word of a station": ("mcs 1 per 0.05", "retry 2", ["station.far", "retry", "may differ in nss, mcs"]),
    "a rate in bytes": ('"wifi ac80 mcs 7"', '"leo down 10mbps"', ["link.home.medium", "down", "10mbps", "10mbit"]),
    "a station that no flow has": (
        "[link.home.station.far]",
        "[link.home.station.fra]",
        ["link.home", "station.fra", 'did you mean "far"'],
    ),
    "a station of a wire": ("[link.home.station.far]", "[link.wan.station.far]", ["link.wan", "station", "medium"]),
    "classes": ('"fq_codel target 20ms"', '"prio"', ["link.home.qdisc", "prio", "holds classes"]),
    "a rate that changes": (
        '"link.home.qdisc" = "pfifo limit 100"',
        '"link.home.rate" = "5Mbit"',
        ["link.home.rate", "has a medium", "link.home.qdisc"],
    ),
    "another medium that comes": (
        '"wifi mcs 4"',
        '"leo"',
        ["[[at]]", "link.home.medium", "another medium cannot come while it runs; begin with wifi"],
    ),
    "a word that stays": (
        '"wifi mcs 4"',
        '"wifi mcs 4 ax80"',
        ["link.home.medium", "ax80", "it is ac80 and cannot change while it runs"],
    ),
    "a word of a station that stays": (
        '.medium" = "mcs 0"',
        '.medium" = "retry 1"',
        ["link.home.station.far.medium", "no station keyword", "retry", "may differ in nss"],
    ),
    "a station that changes and is not there": (
        'home.station.far.medium" = "mcs 0"',
        'home.station.fra.medium" = "mcs 0"',
        ["link.home.station.fra.medium", 'did you mean "far"'],
    ),
    "nobody's station": ('path = ["home.up", "wan"]', 'path = ["wan"]', ["station", "far", "crosses none"]),
    "a name": ('path = ["home"]', 'path = ["home.down"]', ["home.down", "names no link"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, mentions = MISTAKES[name]
    assert old in FILE
    file = written(tmp_path, FILE.replace(old, new))
    assert main(["run", str(file), "--dry-run"]) == 2
    told = capsys.readouterr().err
    for mention in ["media.toml", *mentions]:
        assert mention in told, told


def test_no_kernel_has_media(tmp_path: Path) -> None:
    of_stations = ('[link.home.station.far]\nmedium = "mcs 1 per 0.05"\n', 'station = "far"\n')
    text = FILE.replace('"link.home.station.far.medium" = "mcs 0"\n', "")
    for words in of_stations:
        text = text.replace(words, "")
    run = described(written(tmp_path, text))
    with pytest.raises(ValueError, match='link "home": no kernel has the medium wifi in virtual time'):
        LinuxEngine().check(run)
