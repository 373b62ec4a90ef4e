"""Every optional key alone goes the whole way; what would take too much memory or time is said before it runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from l4slab.api import campaign
from l4slab.api.experiment import to_toml
from l4slab.base.units import RATE
from l4slab.campaign.estimate import longest, too_long
from l4slab.cli import main
from l4slab.engines.registry import get_engine
from l4slab.experimentfile.tables import Impair, Link, Top
from l4slab.experimentfile.traffic import KINDS
from l4slab.experimentfile.tunnels import Tunnel
from l4slab.experimentfile.wording import keys_of
from l4slab.report.setup import settings

REQUIRED = {
    "cc": "cubic",
    "rtt": "10ms",
    "rate": "1Mbit",
    "requests": "20/s",
    "server": "true",
    "client": "true {server}",
    "rate_max": "1Mbit",
}
# Values of keys that have no default from which a value follows.
VALUES: dict[str, Any] = {
    "about": "x", "subset": "trial = 1", "captures": "first trial", "ecn": "classic", "peer_ecn": "classic",
    "receive_window": "1MB", "pace": "1Mbit", "rto_min": "50ms", "mtu": "1280B", "bytes": "100kB", "stop": "300ms",
    "host": "home", "peer_host": "server", "path": ["b"], "reverse_path": ["b"], "options": {"hystart": "off"},
    "delay_trace": "d.csv", "rate_trace": "r.csv", "controls": "50/s", "netem": "delay 1ms", "ack_thinning": 4,
    "ack_wait": "1ms", "direction": "reverse", "in_order": True, "per_flow": True, "title": "x", "on": "100ms",
    "off": "100ms", "trace_repeat": False, "dscp": "ef", "start": "10ms", "count": 2, "trials": 2, "warmup": "100ms",
    "reaction": "100ms", "keyframe_interval": "200ms", "feedback_interval": "100ms", "audio": "20kbit",
    "medium": "leo", "qdisc_up": "pfifo", "station": "phone", "app_rate": "1Mbit", "gso": True, "gro": "50us",
    "app_block": "128KiB", "precision": "share +- 0.1", "repair": "nack", "setup": "100ms", "encoder": "vp8",
    "policer": "rate 1mbit burst 20kb", "kind": "wireguard", "flows": ["a"], "links": ["b"], "overhead": "60B",
    "padding": "16B", "replay_window": 64, "events": "20/s", "life": "100ms", "frames_total": 3, "player": "100ms",
}  # fmt: skip
# Keys of a link that are tables.
TABLES = ("class", "filter")
# What a key needs beside it.
WITH = {
    "on": "off",
    "off": "on",
    "ack_wait": "ack_thinning",
    "trace_repeat": "delay_trace",
    "ack_thinning": "direction",
    "qdisc_up": "medium",
    "app_block": "app_rate",
    "events": "life",
    "life": "events",
    "event_flows": "events",
    "event_flows_max": "events",
    "event_within": "events",
}


def document(kind: str = "tcp") -> dict[str, Any]:
    flow = {"name": "a", "kind": kind}
    flow |= {
        key: REQUIRED[key] for key, field in KINDS[kind].model_fields.items() if field.is_required() and key != "name"
    }
    if kind == "media":
        flow["cc"] = "none"
    return {"duration": "500ms", "link": {"b": {"rate": "2Mbit", "qdisc": "dualpi2"}}, "flow": [flow]}


def cases() -> Iterator[Any]:
    for kind in KINDS:
        if kind not in ("program", "endpoint"):
            yield from (pytest.param(kind, "flow", key, id=f"{kind}.{key}") for key in keys_of(KINDS[kind]))
    for section, model in (("top", Top), ("link", Link), ("impair", Impair), ("tunnel", Tunnel)):
        yield from (pytest.param("tcp", section, key, id=f"{section}.{key}") for key in keys_of(model))


def value(kind: str, section: str, key: str) -> Any:
    """What is tried for a key: that of the table, or else its default."""
    if section == "tunnel" and key in ("ecn", "dscp"):
        return {"ecn": "copied", "dscp": "copied"}[key]
    model: Any = {"top": Top, "link": Link, "impair": Impair, "tunnel": Tunnel}.get(section, KINDS[kind])
    fields = model.model_fields.items()
    default = next((field.default for name, field in fields if key in (name, field.validation_alias)), None)
    return "ect1" if key == "ecn" and kind in ("cbr", "media") else VALUES.get(key, default)


def test_there_is_a_value_to_try_for_every_key() -> None:
    without = {
        key
        for kind, section, key in (case.values for case in cases())
        if key not in REQUIRED and key not in TABLES and value(kind, section, key) is None
    }
    assert without == set()


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "section", "key"), list(cases()))
def test_every_key_goes_the_whole_way(
    kind: str, section: str, key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = document(kind)
    if section == "impair":
        made["impair"] = {"x": {"before": "b"}}
    if section == "tunnel":
        made["tunnel"] = {"x": {}}
    table = {"top": made, "flow": made["flow"][0], "link": made["link"]["b"]}.get(section)
    table = made[section]["x"] if table is None else table
    for one in (key, WITH.get(key), WITH.get(WITH.get(key, ""))):
        if one == "delay_trace" and section == "link":
            one = "rate_trace"
        if one is not None and one not in table and one not in TABLES and (section, one) != ("link", "station"):
            table[one] = value(kind, section, one)
    if "rate_trace" in table or (section == "link" and "medium" in table):
        del table["rate"]
    if section == "flow" and "station" in table:
        made["link"]["b"] = {"medium": "wifi", "qdisc": "dualpi2"}
    if section == "impair" and "ack_thinning" not in table:
        table.setdefault("netem", "delay 1ms")
    if section == "tunnel":
        table.setdefault("kind", "wireguard")
    if key == "precision":
        made["duration"] = "40s"
    if key == "options":
        table["options"] = {"pacing": "1.5"} if kind == "media" else {}
    (tmp_path / "d.csv").write_text("time_s,rtt_ms\n0,10\n0.1,12\n0.2,10\n")
    (tmp_path / "r.csv").write_text("time_s,rate_mbps\n0,2\n0.1,1\n0.2,2\n")
    file = tmp_path / "x.toml"
    file.write_text(to_toml(made))
    assert main(["run", str(file), "--dry-run"]) == 0, capsys.readouterr().err
    (plan,) = campaign.plan([file])
    assert settings(plan.runs[0].description)
    # The linux engine describes the set-up, or says in a sentence what it cannot do.
    with suppress(ValueError):
        get_engine("linux").check(plan.runs[0].description)
    assert main(["run", str(file), "--out", str(tmp_path / "out"), "--workers", "1"]) == 0, capsys.readouterr().err


TOO_LARGE = {
    "rate": ('rate = "10Mbit"', 'rate = "1e9Gbit"', "must be at most 1000Gbit"),
    "rate of cbr": (
        "[[flow]]",
        '[[flow]]\nname = "u"\nkind = "cbr"\nrate = "1e9Gbit"\nrtt = "20ms"\n[[flow]]',
        'flow "u": rate = "1e9Gbit" must be at most 1000Gbit',
    ),
    "years": ('duration = "5s"', 'duration = "100000h"', "must be at most 168h"),
    "rtt": ('rtt = "20ms"', 'rtt = "200h"', "must be at most 168h"),
    "count": ('rtt = "20ms"', 'rtt = "20ms"\ncount = 1000000', "must be at most 100000"),
    "trials": ('duration = "5s"', 'duration = "5s"\ntrials = 1000000', "must be at most 100000"),
    "runs": (
        'duration = "5s"',
        'duration = "5s"\ntrials = 90000\nseed = 1\n[sweep]\nseed = [1, 2, 3]',
        "more than 250000 runs",
    ),
}
# What would need more memory than there is: the file, and what the sentence says of the key that needs most.
TOO_MUCH = {
    "samples": (
        'duration = "5s"',
        'duration = "5s"\nsample = "1ns"',
        'sample = "1ns": a run may need ',
        "lengthen it, or shorten duration",
    ),
    "queue": (
        '"pfifo"\n[[flow]]',
        '"pfifo limit 4294967295"\n[[flow]]\nname = "u"\nkind = "cbr"\nrate = "500Gbit"\nrtt = "1ms"\n[[flow]]',
        'link.b.qdisc = "pfifo limit 4294967295": a run may need ',
        "lower its limit, or the rates of flows, or duration",
    ),
    "flight": (
        "[[flow]]",
        '[[flow]]\nname = "u"\nkind = "cbr"\nrate = "900Gbit"\nrtt = "4s"\npacket = "64B"\n[[flow]]',
        'flow "u": rtt = "4000ms": a run may need ',
        "shorten it, or lower rates",
    ),
    "flows": ('rtt = "20ms"', 'rtt = "20ms"\ncount = 100000', 'flow "t": count = 100000: a run may need ', "lower it"),
    "per flow": (
        'duration = "5s"\n',
        'duration = "5s"\nper_flow = true\n',
        "per_flow = true: a run may need ",
        "leave it out, or lower count",
    ),
    "requests": (
        "[[flow]]",
        '[[flow]]\nname = "w"\nkind = "web"\ncc = "reno"\nrequests = "1000000/s"\nrtt = "9ms"\n[[flow]]',
        'flow "w": requests = "1000000/s": a run may need ',
        "let it begin fewer, or lower count or duration",
    ),
}
FILE = 'duration = "5s"\n[link.b]\nrate = "10Mbit"\nqdisc = "pfifo"\n[[flow]]\nname = "t"\ncc = "cubic"\nrtt = "20ms"\n'


FILTERED = FILE.replace(
    'qdisc = "pfifo"\n', 'qdisc = "htb default 1"\n[link.b.class.1]\nrate = "5Mbit"\nqdisc = "fq"\n'
)
IMPAIRED = FILE + '[impair.w]\nnetem = "delay 1ms"\nbefore = "b"\n'
# Of each key that changes or decides something while it runs: the file, what is added, and what the sentence says.
ELSEWHERE = {
    "at: time": (FILE, '[[at]]\ntime = "200h"\n"link.b.rate" = "1Mbit"', 'time = "200h" must be at most 168h'),
    "at: rate": (FILE, '[[at]]\ntime = "1s"\n"link.b.rate" = "1e9Gbit"', 'link.b.rate = "1e9Gbit" must be at most'),
    "at: qdisc": (FILE, '[[at]]\ntime = "1s"\n"link.b.qdisc" = "pfifo limit 99999999999"', "at most 4294967295"),
    "at: rtt": (FILE, '[[at]]\ntime = "1s"\n"flow.t.rtt" = "200h"', 'flow.t.rtt = "200h" must be at most 168h'),
    "at: rtt of TCP": (FILE, '[[at]]\ntime = "1s"\n"flow.t.rtt" = "0ms"', 'flow.t.rtt = "0ms" must be more than 0'),
    "at: rtt and run": (FILE, '[[at]]\ntime = "1s"\n"flow.t.rtt" = "5s"', 'flow.t.rtt = "5s" is not shorter than'),
    "at: count": (FILE, '[[at]]\ntime = "1s"\n"flow.t.count" = 100001', "flow.t.count = 100001 must be at most"),
    "at: counts": (FILE, '[[at]]\ntime = "1s"\n"flow.t.count" = 70000', "count brings more than 60000 flows"),
    "on and off": (
        FILE,
        '[[flow]]\nname = "o"\ncc = "reno"\nrtt = "9ms"\ncount = 40000\non = "1s"\noff = "1s"',
        'flow "o": on brings more than 60000 flows',
    ),
    "at: netem": (IMPAIRED, '[[at]]\ntime = "1s"\n"impair.w.netem" = "loss 101%"', "from 0% to 100%"),
    "at: empty netem": (IMPAIRED, '[[at]]\ntime = "1s"\n"impair.w.netem" = ""', 'impair.w.netem = "" changes nothing'),
    "rewrite: to": (
        FILE,
        '[[rewrite]]\nflow = "t"\nwhere = "before:b"\nfrom = "ect0"\nto = "x"',
        '[[rewrite]] no. 1: to = "x" is none of "not-ect", "ect0", "ect1", "ce", "drop"',
    ),
    "link: burst": (FILE.replace("[[flow]]", 'burst = "5GB"\n[[flow]]'), "", 'burst = "5GB" must be at most'),
    "class: burst": (FILTERED.replace('"fq"', '"fq"\nburst = "5GB"'), "", 'class.1.burst = "5GB" must be at most'),
    "class: cburst": (FILTERED.replace('"fq"', '"fq"\ncburst = "5GB"'), "", 'class.1.cburst = "5GB" must be at most'),
    "class: quantum": (FILTERED.replace('"fq"', '"fq"\nquantum = "5GB"'), "", 'class.1.quantum = "5GB" must be'),
    "class: rate": (FILTERED.replace('"5Mbit"', '"2000Gbit"'), "", 'class.1.rate = "2000Gbit" must be at most'),
    "at: class": (FILTERED, '[[at]]\ntime = "1s"\n"link.b.class.1.burst" = "5GB"', 'burst = "5GB" must be at most'),
    "filter": (FILTERED.replace("[[flow]]", '[[link.b.filter]]\ndscp = 64\nclass = "1"\n[[flow]]'), "", "0 to 63"),
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_what_changes_has_the_bounds_of_the_tables(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, added, says = ELSEWHERE[case]
    (tmp_path / "x.toml").write_text(f"{file}\n{added}\n")
    assert main(["run", str(tmp_path / "x.toml"), "--dry-run"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("l4slab: ")
    assert told.count("\n") == 1
    assert says in told


NUMBERS = [
    "١٠Mbit",
    "1٠Mbit",
    "１０Mbit",
    f"{'9' * 5000}Mbit",
    "1e99999999Mbit",
    "1e-99999999Mbit",
    "²Mbit",
    "1e400Mbit",
]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_has_few_digits_of_ours(number: str) -> None:
    with pytest.raises(ValueError, match=r"digits|is not a rate|too large"):
        RATE.parse(number)


@pytest.mark.parametrize("case", TOO_LARGE)
def test_what_is_too_large_is_refused(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, says = TOO_LARGE[case]
    (tmp_path / "x.toml").write_text(FILE.replace(old, new, 1))
    assert main(["run", str(tmp_path / "x.toml"), "--dry-run"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert says in told


@pytest.mark.parametrize("case", TOO_MUCH)
def test_what_needs_too_much_memory_names_what_needs_most(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, says, remedy = TOO_MUCH[case]
    text = FILE.replace(old, new, 1)
    if case == "per flow":
        text = text.replace('rtt = "20ms"', 'rtt = "20ms"\ncount = 5000')
    (tmp_path / "x.toml").write_text(text)
    monkeypatch.setenv("L4SLAB_MEMORY", "250MiB")
    assert main(["run", str(tmp_path / "x.toml"), "--dry-run"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert says in told
    assert remedy in told


CAKES = (
    'duration = "4s"\n[link.b]\nrate = "1Gbit"\nqdisc = "htb default 1"\n'
    + "".join(
        f'[link.b.class.{n:x}]\nrate = "20Mbit"\nqdisc = "cake diffserv4 memlimit 100kb"\n' for n in range(1, 1001)
    )
    + '[[flow]]\nname = "t"\ncc = "cubic"\nrtt = "20ms"\n'
)


def test_a_tree_of_a_thousand_cakes_fits_in_little_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.toml").write_text(CAKES)
    command = ["run", str(tmp_path / "x.toml"), "--dry-run", "--workers", "1"]
    assert main([*command, "--memory", "250MiB"]) == 0, capsys.readouterr().err


def test_the_bound_is_shared_by_the_runs_at_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = FILE.replace('"pfifo"', '"pfifo limit 1000000"').replace('duration = "5s"', 'duration = "60s"\ntrials = 4')
    (tmp_path / "x.toml").write_text(text.replace("10Mbit", "100Mbit"))
    command = ["run", str(tmp_path / "x.toml"), "--dry-run", "--memory", "200MiB"]
    assert main([*command, "--workers", "1"]) == 0
    assert main([*command, "--workers", "4"]) == 2
    assert "4 runs at a time; lower its limit, or the rates of flows, or duration, give fewer --workers, or" in (
        capsys.readouterr().err
    )
    assert main([*command[:3], "--memory", "lots"]) == 2
    assert capsys.readouterr().err.startswith("l4slab: --memory lots is not a size")


def test_days_of_processor_time_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = FILE.replace('"10Mbit"', '"100Gbit"').replace('"5s"', '"160h"\nsample = "10s"')
    (tmp_path / "x.toml").write_text(text)
    runs = campaign.plan([tmp_path / "x.toml"])[0].runs
    warning = too_long(longest(runs), "These runs take")
    assert warning is not None
    assert "days of processor time" in warning
    assert too_long(3600, "These runs take") is None


def test_every_kind_of_traffic_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "traffic", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["traffic"]
    assert [entry["name"] for entry in listed] == list(KINDS)


def test_acks_need_no_memory_that_the_queue_before_them_holds_back(tmp_path: Path) -> None:
    # The links are far faster than the shapers of their queues, which have no limit (ect1, scenario 2).
    queue = 'rate = "10Gbit"\nqdisc = "twin_codel_af bandwidth 50mbit"\n'
    flow = 'name = "a"\ncc = "cubic"\nrtt = "20ms"\nreceive_window = "3MB"\npath = ["there"]\nreverse_path = ["back"]\n'
    file = tmp_path / "x.toml"
    file.write_text(f'duration = "60s"\n[link.there]\n{queue}[link.back]\n{queue}[[flow]]\n{flow}')
    assert main(["run", str(file), "--dry-run", "--memory", "100MB", "--workers", "1"]) == 0
