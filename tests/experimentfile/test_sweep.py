"""The laws of a sweep: how many runs, which, in which order, and what makes two of them the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from l4slab import experimentfile, sweep
from l4slab.base.errors import InputError
from l4slab.engines.sim import SimEngine
from l4slab.sweep import Plan, trial_seed

BASE = """
duration = "1s"
[link.bottleneck]
rate = "10Mbit"
qdisc = "pfifo limit 100"
[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
[[flow]]
name = "b"
cc = "reno"
rtt = "10ms"
"""


def plan(tmp_path: Path, text: str, name: str = "x") -> Plan:
    file = tmp_path / f"{name}.toml"
    file.write_text(text)
    return sweep.expand(experimentfile.load(file), "sim")


def test_no_sweep_is_one_run(tmp_path: Path) -> None:
    (run,) = plan(tmp_path, BASE).runs
    assert run.factors == {}
    assert run.trial == 1
    assert re.fullmatch("[0-9a-f]{16}", run.id)
    description = dict(run.description)
    assert description.pop("seed") == trial_seed(1, 1)
    flow = {
        "kind": "tcp",
        "count": 1,
        "rtt_ns": 10_000_000,
        "start_ns": 0,
        "stop_ns": None,
        "dscp": 0,
        "bytes": None,
        "ecn": None,
        "peer_ecn": None,
        "path": ["bottleneck"],
        "reverse_path": [],
        "pace_bps": None,
        "receive_window_bytes": None,
    }
    for resolved, (name, cc) in zip(description.pop("flows"), [("a", "cubic"), ("b", "reno")], strict=True):
        resolved = dict(resolved)
        assert isinstance(resolved.pop("options"), dict)
        assert resolved == flow | {"name": name, "cc": cc}
    (link,) = description.pop("links")
    assert link.pop("qdisc").startswith("pfifo")
    assert link == {"name": "bottleneck", "rate_bps": 10_000_000, "burst_bytes": 1600}
    assert description == {
        "duration_ns": 1_000_000_000,
        "warmup_ns": 0,
        "sample_ns": 100_000_000,
        "start_jitter_ns": 100_000_000,
        "at": [],
        "rewrites": [],
    }


def test_every_key_is_resolved(tmp_path: Path) -> None:
    text = """
    title = "t"
    duration = "2s"
    warmup = "500ms"
    seed = 7
    sample = "50ms"
    start_jitter = "0s"
    [link.up]
    rate = "1Gbit"
    qdisc = "pfifo"
    burst = "3kB"
    [link.down]
    rate = "10Mbit"
    qdisc = "bfifo"
    [[flow]]
    name = "a"
    cc = "prague"
    rtt = "10ms"
    count = 3
    start = "100ms"
    stop = "1s"
    dscp = "AF41"
    bytes = "1MB"
    ecn = "classic"
    peer_ecn = "off"
    path = ["down"]
    reverse_path = ["up"]
    pace = "5Mbit"
    [[flow]]
    name = "u"
    kind = "cbr"
    rate = "1Mbit"
    packet = "500B"
    batch = 2
    rtt = "0s"
    ecn = "ect1"
    dscp = 45
    stop = "2s"
    [[at]]
    time = "1500ms"
    "link.up.rate" = "2Gbit"
    [[at]]
    time = "1s"
    link.down.rate = "5Mbit"
    link.down.qdisc = "pfifo limit 7"
    [[rewrite]]
    flow = "a"
    where = "after:down"
    from = "ect0"
    to = "ect1"
    """
    (run,) = plan(tmp_path, text).runs
    d = run.description
    assert d["duration_ns"] == 2 * 10**9
    assert d["warmup_ns"] == 5 * 10**8
    assert d["sample_ns"] == 5 * 10**7
    assert d["start_jitter_ns"] == 0
    assert [link["burst_bytes"] for link in d["links"]] == [3000, 1600]
    tcp, cbr = d["flows"]
    assert (tcp["count"], tcp["start_ns"], tcp["stop_ns"], tcp["bytes"]) == (3, 10**8, 10**9, 10**6)
    assert (tcp["ecn"], tcp["peer_ecn"], tcp["path"], tcp["reverse_path"]) == ("classic", "off", ["down"], ["up"])
    assert tcp["pace_bps"] == 5 * 10**6
    assert (tcp["dscp"], cbr["dscp"]) == (34, 45)
    assert (cbr["kind"], cbr["rate_bps"], cbr["packet_bytes"], cbr["batch"]) == ("cbr", 10**6, 500, 2)
    assert "cc" not in cbr
    assert (cbr["ecn"], cbr["rtt_ns"], cbr["path"]) == ("ect1", 0, ["up", "down"])
    assert cbr["stop_ns"] is None, "a stop at the end of the run is no stop"
    assert [(c["time_ns"], c["link"], c["rate_bps"]) for c in d["at"]] == [
        (10**9, "down", 5 * 10**6),
        (15 * 10**8, "up", 2 * 10**9),
    ]
    assert d["at"][0]["qdisc"].startswith("pfifo limit 7")
    assert d["at"][1]["qdisc"] is None
    assert d["rewrites"] == [{"flow": "a", "where": "after", "link": "down", "from": "ect0", "to": "ect1"}]


def test_full_factorial_in_file_order(tmp_path: Path) -> None:
    text = (
        "trials = 2\n" + BASE + '[sweep]\n"flow.a.rtt" = ["5ms", "20ms"]\n"link.*.rate" = ["1Mbit", "2Mbit", "4Mbit"]'
    )
    runs = plan(tmp_path, text).runs
    assert [(r.factors["flow.a.rtt"], r.factors["link.*.rate"], r.trial) for r in runs] == [
        (rtt, rate, trial) for rtt in ("5ms", "20ms") for rate in ("1Mbit", "2Mbit", "4Mbit") for trial in (1, 2)
    ]
    assert len({r.id for r in runs}) == 12
    for run in runs:
        assert run.description["flows"][0]["rtt_ns"] == {"5ms": 5, "20ms": 20}[run.factors["flow.a.rtt"]] * 10**6
        assert run.description["flows"][1]["rtt_ns"] == 10**7
        assert run.description["links"][0]["rate_bps"] == int(run.factors["link.*.rate"][0]) * 10**6


def test_a_key_for_one_flow_beats_one_for_all(tmp_path: Path) -> None:
    runs = plan(tmp_path, BASE + '[sweep]\n"flow.a.rtt" = ["1ms"]\n"flow.*.rtt" = ["2ms", "3ms"]').runs
    assert [[flow["rtt_ns"] for flow in run.description["flows"]] for run in runs] == [
        [10**6, 2 * 10**6],
        [10**6, 3 * 10**6],
    ]


def test_a_sweep_may_complete_what_the_file_leaves_out(tmp_path: Path) -> None:
    text = BASE.replace('qdisc = "pfifo limit 100"', "").replace('cc = "reno"', "")
    text += '[sweep]\n"link.bottleneck.qdisc" = ["pfifo", "bfifo"]\n"flow.b.cc" = ["reno", "cubic"]'
    assert len(plan(tmp_path, text).runs) == 4


def test_top_level_keys_and_options_can_be_swept(tmp_path: Path) -> None:
    runs = plan(tmp_path, BASE + '[sweep]\nduration = ["1s", "2s"]\nseed = [1, 2]').runs
    assert [run.description["duration_ns"] for run in runs] == [10**9, 10**9, 2 * 10**9, 2 * 10**9]
    assert runs[0].description["seed"] == runs[2].description["seed"] != runs[1].description["seed"]


def test_captures_are_no_part_of_a_run(tmp_path: Path) -> None:
    sweep_of_two = BASE + '[sweep]\n"flow.*.rtt" = ["5ms", "20ms"]'
    plain = plan(tmp_path, "trials = 3\n" + sweep_of_two).runs
    assert not any(run.captures for run in plain)
    for setting, trials in (("none", ()), ("first trial", (1,)), ("all trials", (1, 2, 3))):
        runs = plan(tmp_path, f'trials = 3\ncaptures = "{setting}"\n{sweep_of_two}').runs
        assert [run.id for run in runs] == [run.id for run in plain]
        assert [run.json for run in runs] == [run.json for run in plain]
        assert [run.captures for run in runs] == [run.trial in trials for run in runs]


def test_trials_share_their_seeds_across_levels(tmp_path: Path) -> None:
    runs = plan(tmp_path, "trials = 3\n" + BASE + '[sweep]\n"flow.*.rtt" = ["5ms", "20ms"]').runs
    seeds = {(run.factors["flow.*.rtt"], run.trial): run.description["seed"] for run in runs}
    assert len(set(seeds.values())) == 3
    for trial in (1, 2, 3):
        assert seeds["5ms", trial] == seeds["20ms", trial] == trial_seed(1, trial)


def test_adding_a_trial_or_a_level_keeps_the_other_runs(tmp_path: Path) -> None:
    few = plan(tmp_path, "trials = 2\n" + BASE + '[sweep]\n"flow.*.rtt" = ["5ms"]')
    many = plan(tmp_path, "trials = 3\n" + BASE + '[sweep]\n"flow.*.rtt" = ["2ms", "5ms"]')
    assert {run.id for run in few.runs} < {run.id for run in many.runs}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('duration = "1s"', 'title = "another"\nduration = "1000ms"'),
        ('duration = "1s"', 'duration = "1s"\nwarmup = "0s"\nseed = 1\ntrials = 1'),
        ('rate = "10Mbit"', 'rate = "0.01Gbit"'),
        ('cc = "reno"', 'cc = "reno"\npath = ["bottleneck"]\ncount = 1'),
        ('qdisc = "pfifo limit 100"', 'qdisc = "pfifo  limit  100"'),
    ],
)
def test_the_id_does_not_depend_on_how_it_is_written(tmp_path: Path, old: str, new: str) -> None:
    assert old in BASE
    (run,) = plan(tmp_path, BASE).runs
    (same,) = plan(tmp_path, BASE.replace(old, new), "y").runs
    assert run.id == same.id


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('duration = "1s"', 'duration = "2s"'),
        ('duration = "1s"', 'duration = "1s"\nseed = 2'),
        ('duration = "1s"', 'duration = "1s"\nwarmup = "1ms"'),
        ('rate = "10Mbit"', 'rate = "11Mbit"'),
        ('qdisc = "pfifo limit 100"', 'qdisc = "pfifo limit 101"'),
        ('cc = "reno"', 'cc = "cubic"'),
        ('name = "b"', 'name = "c"'),
    ],
)
def test_the_id_depends_on_what_is_run(tmp_path: Path, old: str, new: str) -> None:
    assert old in BASE
    (run,) = plan(tmp_path, BASE).runs
    (other,) = plan(tmp_path, BASE.replace(old, new), "y").runs
    assert run.id != other.id


def test_the_id_depends_on_the_engine(tmp_path: Path) -> None:
    (run,) = plan(tmp_path, BASE).runs
    (other,) = sweep.expand(experimentfile.load(tmp_path / "x.toml"), "linux").runs
    assert run.id != other.id
    assert run.json == other.json


def test_the_id_depends_on_the_build_of_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run,) = plan(tmp_path, BASE).runs
    monkeypatch.setattr(SimEngine, "version", lambda _: "another")
    (other,) = plan(tmp_path, BASE).runs
    assert run.id != other.id
    assert run.json == other.json


BUNDLES = """
[sweep]
n_bdp = [0.5, 2]
threshold = ["1ms", "5ms"]
[[sweep.aqm]]
level = "FIFO"
"link.bottleneck.qdisc" = "pfifo limit {packets}"
[[sweep.aqm]]
level = "DualPI2"
"link.bottleneck.qdisc" = "dualpi2 limit {packets} target {threshold}"
[let]
bdp = "rate * rtt / 8"
packets = "floor(n_bdp * bdp / 1500) + 1"
"""


def test_bundles_let_and_placeholders(tmp_path: Path) -> None:
    expanded = plan(tmp_path, BASE + BUNDLES)
    # 10 Mbit/s and 10 ms are 12500 bytes: 8.33 packets.
    limits = {0.5: 5, 2: 17}
    assert expanded.combinations == 8
    for run in expanded.runs:
        qdisc = run.description["links"][0]["qdisc"]
        assert f"limit {limits[run.factors['n_bdp']]} " in f"{qdisc} ".replace("p ", " ")
        assert qdisc.startswith({"FIFO": "pfifo", "DualPI2": "dualpi2"}[run.factors["aqm"]])


def test_factors_without_effect_collapse_and_the_user_is_told(tmp_path: Path) -> None:
    expanded = plan(tmp_path, BASE + BUNDLES)
    assert expanded.collapsed == 2
    levels = [(r.factors["n_bdp"], r.factors["threshold"], r.factors["aqm"]) for r in expanded.runs]
    assert levels == [
        (0.5, None, "FIFO"),
        (0.5, "1ms", "DualPI2"),
        (0.5, "5ms", "DualPI2"),
        (2, None, "FIFO"),
        (2, "1ms", "DualPI2"),
        (2, "5ms", "DualPI2"),
    ]
    (note,) = expanded.notes()
    assert "2 of 8" in note
    assert "threshold" in note
    assert "n_bdp" not in note


def test_a_level_that_equals_only_some_others_keeps_its_name(tmp_path: Path) -> None:
    text = BASE + '[sweep]\nn = [1, 1.2, 7]\n[let]\nlimit = "floor(n)"'
    text = text.replace("limit 100", "limit {limit}")
    expanded = plan(tmp_path, text)
    assert [run.factors["n"] for run in expanded.runs] == [1, 7]
    assert expanded.collapsed == 1


def test_skip(tmp_path: Path) -> None:
    text = (
        BASE + BUNDLES + "[[skip]]\nwhen = \"n_bdp * rtt < threshold + 0.001 and aqm <> 'FIFO'\"\nwhy = 'unreachable.'"
    )
    expanded = plan(tmp_path, text)
    assert expanded.skipped == {"unreachable": 1}
    assert (0.5, "5ms", "DualPI2") not in [
        (run.factors["n_bdp"], run.factors["threshold"], run.factors["aqm"]) for run in expanded.runs
    ]
    assert len(expanded.runs) == 5


def test_a_plain_name_needs_one_value(tmp_path: Path) -> None:
    text = BASE.replace('cc = "reno"\nrtt = "10ms"', 'cc = "reno"\nrtt = "20ms"')
    text = text.replace("limit 100", "limit {n}")
    with pytest.raises(InputError, match="differs between links or flows"):
        plan(tmp_path, text + '[let]\nn = "rtt * 1000"')
    (run,) = plan(tmp_path, text + "[let]\nn = '\"flow.b.rtt\" * 1000'").runs
    assert "limit 20" in run.description["links"][0]["qdisc"]


def test_a_udp_prague_flow_has_its_own_keys(tmp_path: Path) -> None:
    flow = '[[flow]]\nname = "u"\nkind = "udp-prague"\nrtt = "7ms"\npace = "2Mbit"\npacket = "500B"\n'
    (run,) = plan(tmp_path, BASE + flow).runs
    u = run.description["flows"][-1]
    common = {"name": "u", "count": 1, "start_ns": 0, "stop_ns": None, "dscp": 0, "path": ["bottleneck"]}
    own = {"kind": "udp-prague", "rtt_ns": 7_000_000, "pace_bps": 2_000_000, "packet_bytes": 500, "reverse_path": []}
    assert u == common | own


def test_a_null_value_is_refused_only_where_it_is_used(tmp_path: Path) -> None:
    text = BASE.replace("limit 100", "limit {n}") + '[sweep]\nk = [1, 2]\n[let]\nn = "case when k > 1 then k end"'
    with pytest.raises(InputError, match="NULL"):
        plan(tmp_path, text)
    assert len(plan(tmp_path, text + '\n[[skip]]\nwhen = "k = 1"').runs) == 1


def test_a_wildcard_passes_over_flows_that_have_no_such_key(tmp_path: Path) -> None:
    text = (
        BASE
        + '[[flow]]\nname = "u"\nkind = "cbr"\nrate = "1Mbit"\nrtt = "1ms"\n[sweep]\n"flow.*.cc" = ["reno", "cubic"]'
    )
    flows = [run.description["flows"] for run in plan(tmp_path, text).runs]
    assert [[flow.get("cc") for flow in group] for group in flows] == [["reno", "reno", None], ["cubic", "cubic", None]]


def test_a_pattern_names_several_flows(tmp_path: Path) -> None:
    flow = '[[flow]]\nname = "{}"\ncc = "reno"\nrtt = "1ms"\n'
    text = BASE + flow.format("x-1") + flow.format("x-2") + '[sweep]\n"flow.x-*.rtt" = ["2ms", "3ms"]\n'
    found = [{flow["name"]: flow["rtt_ns"] for flow in run.description["flows"]} for run in plan(tmp_path, text).runs]
    assert [(one["x-1"], one["x-2"]) for one in found] == [(2_000_000, 2_000_000), (3_000_000, 3_000_000)]
    assert len({tuple(rtt for name, rtt in one.items() if "x-" not in name) for one in found}) == 1
    with pytest.raises(InputError, match="names no flow"):
        plan(tmp_path, text.replace("x-*", "z-*"))


def test_expressions_see_defaults_in_si_units(tmp_path: Path) -> None:
    video = '[[flow]]\nname = "v"\nkind = "video"\ncc = "cubic"\nrate = "1Mbit"\nrtt = "10ms"\n'
    let = '[let]\nn = "frames + 10 * sample + burst + start"\n'
    (run,) = plan(tmp_path, BASE.replace("limit 100", "limit {n}") + video + let).runs
    assert "limit 1661" in run.description["links"][0]["qdisc"]


def test_a_large_factorial_expands_quickly(tmp_path: Path) -> None:
    rtts = ", ".join(f'"{n}ms"' for n in range(1, 61))
    rates = ", ".join(f'"{n}Mbit"' for n in range(1, 51))
    text = (
        f'trials = 10\n{BASE}[sweep]\n"flow.*.rtt" = [{rtts}]\n"link.*.rate" = [{rates}]\n[[skip]]\nwhen = "rate < 0"'
    )
    runs = plan(tmp_path, text).runs
    assert len({run.id for run in runs}) == 30_000


def test_dscp_by_name_and_number(tmp_path: Path) -> None:
    levels = ["cs0", "df", "le", "cs1", "af11", "af13", "af43", "va", "nqb", "ef", "EF", "cs7", "63", 0, 63]
    text = BASE + f'\n[sweep]\n"flow.a.dscp" = {levels}\n'
    runs = plan(tmp_path, text).runs
    by_level = [run.description["flows"][0]["dscp"] for run in runs]
    assert sorted(set(by_level)) == [0, 1, 8, 10, 14, 38, 44, 45, 46, 56, 63]
    assert all(run.description["flows"][1]["dscp"] == 0 for run in runs)


@pytest.mark.parametrize("name", ["alpha", "Sojourn_ms_min"])
def test_a_factor_does_not_hide_a_column_of_its_runs(tmp_path: Path, name: str) -> None:
    factor = f'[[sweep.{name}]]\nlevel = "near"\n"flow.a.rtt" = "5ms"\n'
    dctcp = BASE.replace('"cubic"', '"dctcp"')
    with pytest.raises(InputError, match=rf"sweep\.{name} is the name of a column .* choose another name"):
        plan(tmp_path, dctcp + factor)


def test_a_gauge_that_no_run_has_is_free(tmp_path: Path) -> None:
    assert plan(tmp_path, BASE + '[[sweep.alpha]]\nlevel = "near"\n"flow.a.rtt" = "5ms"\n').factors == {
        "alpha": ["near"]
    }


def test_a_factor_does_not_hide_a_gauge_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from l4slab.own import Controller, gauge\n"
        "class Mine(Controller):\n"
        '    mood = gauge("of today")\n'
        "    def on_ack(self, ack, window): pass\n"
        "    def on_congestion(self, why, now_ns, window): pass\n"
    )
    with pytest.raises(InputError, match=r"sweep\.mood is the name of a column"):
        plan(tmp_path, BASE.replace('"cubic"', '"mine.py:Mine"') + '[[sweep.mood]]\nlevel = 1\n"flow.a.rtt" = "5ms"\n')
