"""From a run to the laboratory's commands, and what it refuses."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from l4slab import _core
from l4slab.api import campaign
from l4slab.base.errors import InputError
from l4slab.base.packaged import comparisons
from l4slab.cli import main
from l4slab.engines.contract import LackingError
from l4slab.engines.linux import engine, flows, lab
from l4slab.engines.linux.rng import Stream

from .conftest import CUBIC, ONE_LINK, TWO_LINKS, Describe, of_controls

CONTROLS = ("reno", "cubic", "dctcp", "bbr")


def lines(made: lab.Lab, pattern: str) -> list[str]:
    return [line for line in lab.script(made).splitlines() if re.search(pattern, line)]


def edges(made: lab.Lab) -> set[tuple[str, str]]:
    return set(made.edges)


def test_the_random_streams_are_the_simulators() -> None:
    # From crates/core/src/rng.rs: Rng::stream(42, "l4s", 3).
    stream = Stream(42, "l4s", 3)
    assert (stream.u64(), stream.below(100_000_000), stream.below(7)) == (8098660307851447358, 86079143, 1)
    assert Stream(1, "a", 0).below(0) == 0


def test_a_flow_goes_over_its_delay_and_its_link_and_its_acks_straight_back(describe: Describe) -> None:
    made = lab.build(describe(ONE_LINK + CUBIC))
    assert edges(made) == {("c1", "d1"), ("d1", "k1"), ("k1", "x1"), ("x1", "s1"), ("s1", "c1")}
    # Half of the base RTT before the links and half on the way back.
    assert lines(made, "netem") == [
        "qdisc replace dev to_k1 root netem delay 10000000ns limit 1000000",
        "qdisc replace dev to_c1 root netem delay 10000000ns limit 1000000",
    ]
    assert lines(made, "htb rate") == [
        "class replace dev out parent 1: classid 1:1 "
        "htb rate 10000000bit ceil 10000000bit burst 1600b cburst 1600b quantum 3028"
    ]
    assert lines(made, "handle 2:") == ["qdisc replace dev out parent 1:1 handle 2: pfifo limit 50"]


def test_paths_over_several_links_and_acks_over_links(describe: Describe) -> None:
    flow = CUBIC + 'path = ["two", "one"]\nreverse_path = ["two"]\n'
    other = flow.replace('"a"', '"b"').replace('path = ["two", "one"]', 'path = ["one"]', 1)
    made = lab.build(describe(TWO_LINKS + flow + other))
    assert {("d1", "k2"), ("x2", "k1"), ("x1", "s1"), ("s1", "k2"), ("x2", "c1")} <= edges(made)
    assert {("d2", "k1"), ("x1", "s2"), ("s2", "k2"), ("x2", "c2")} <= edges(made)
    # Each destination has one way out of each namespace, whatever the direction.
    assert made.routes["x2"] == {"10.224.0.1": "to_k1", "10.208.0.1": "to_c1", "10.208.0.2": "to_c2"}
    assert made.routes["k2"] == {"10.224.0.1": "out", "10.208.0.1": "out", "10.208.0.2": "out"}


def test_a_flow_without_delay_has_no_netem(describe: Describe) -> None:
    udp = '[[flow]]\nname = "u"\nkind = "cbr"\nrate = "1Mbit"\nrtt = "0ms"\necn = "ect1"\ndscp = "ef"\n'
    udp += 'packet = "500B"\nbatch = 4\n'
    made = lab.build(describe(ONE_LINK + udp, start_jitter='"0s"'))
    assert edges(made) == {("c1", "k1"), ("k1", "x1"), ("x1", "s1")}
    assert not lines(made, "netem")
    never = 2**64 - 1
    assert made.plan[-1] == f"udp 1 0 10000 c1 10.208.0.1 s1 10.224.0.1 0 {never} 1000000 185 500 4"


def test_what_the_ends_are_told(describe: Describe) -> None:
    flow = CUBIC + 'count = 2\nstart = "1s"\nstop = "3s"\nbytes = "1MB"\npace = "8Mbit"\npeer_ecn = "off"\n'
    flow += 'dscp = "cs1"\n'
    run = describe(ONE_LINK + flow)
    made = lab.build(run)
    starts = [start for start, _ in lab.lives(run, run["flows"][0])]
    assert all(1_000_000_000 <= start < 1_100_000_000 for start in starts)
    assert starts[0] != starts[1]
    assert [line for line in made.plan if line.startswith("tcp")] == [
        f"tcp 1 {n} {10000 + n} c1 10.208.0.1 s1 10.224.0.1 {starts[n]} 3000000000 956406 1000000 32 cubic cubic 0 0"
        for n in range(2)
    ]
    assert "time 4000000000 1000000000 100000000" in made.plan
    assert "link 0 k1 out" in made.plan
    assert not [line for line in made.plan if line.startswith("host")]
    # tcp_ecn of sender and receiver.
    assert lines(made, "tcp_ecn$") == ["echo 1 >/proc/sys/net/ipv4/tcp_ecn", "echo 0 >/proc/sys/net/ipv4/tcp_ecn"]


def test_an_application_is_told_its_rate_its_block_and_its_changes(describe: Describe) -> None:
    flow = CUBIC + 'app_rate = "8Mbit"\napp_block = "128KiB"\n'
    at = '[[at]]\ntime = "1s"\n"flow.a.pause" = true\n[[at]]\ntime = "2s"\n"flow.a.app_rate" = "2Mbit"\n'
    plan = lab.build(describe(ONE_LINK + flow + at)).plan
    (line,) = [line for line in plan if line.startswith("tcp")]
    assert line.endswith("cubic cubic 8000000 131072")
    assert [line for line in plan if line.startswith("at")] == [
        "at 1000000000 pause 1 1", "at 2000000000 rate 1 2000000",
    ]  # fmt: skip


@pytest.mark.parametrize(("ecn", "payload"), [("classic", 1448), ("accecn", 1436)])
def test_a_pace_counts_frames(describe: Describe, ecn: str, payload: int) -> None:
    made = lab.build(describe(ONE_LINK + CUBIC.replace("classic", ecn) + 'pace = "8Mbit"\n'))
    (line,) = [line for line in made.plan if line.startswith("tcp")]
    assert int(line.split()[10]) == 8_000_000 * payload // 1514 // 8


@pytest.mark.parametrize(
    ("cc", "ecn", "peer", "mode"),
    [
        ("cubic", "accecn", "accecn", "accecn"),
        ("cubic", "accecn", "classic", "classic"),
        ("cubic", "classic", "accecn", "classic"),
        ("cubic", "classic", "off", "off"),
        ("cubic", "off", "accecn", "off"),
        ("dctcp", "classic", "classic", "classic"),
        ("dctcp", "classic", "accecn", "off"),
        ("dctcp", "accecn", "classic", "classic"),
    ],
)
def test_how_a_negotiation_ends(cc: str, ecn: str, peer: str, mode: str) -> None:
    assert flows.expected_ecn_mode(cc, ecn, peer) == mode


def test_with_captures_each_sender_is_looked_at(describe: Describe) -> None:
    made = lab.build(describe(ONE_LINK + CUBIC + CUBIC.replace('"a"', '"b"')), pcap=True)
    assert [line for line in made.plan if line.startswith("host")] == ["host c1 1", "host c2 2"]


def test_changes_of_one_kind_keep_the_queue(describe: Describe) -> None:
    changes = """
[[at]]
time = "2s"
"link.one.rate" = "5Mbit"
[[at]]
time = "3s"
"link.one.qdisc" = "pfifo limit 50"
[[at]]
time = "3.5s"
"link.one.qdisc" = "codel target 1ms"
[[at]]
time = "3.6s"
"link.one.qdisc" = "codel limit 9"
[[at]]
time = "3.7s"
"link.one.qdisc" = "codel"
"""
    made = lab.build(describe(ONE_LINK + CUBIC + changes))
    at = [line for line in made.plan if line.startswith("at ")]
    assert at[0].startswith("at 2000000000 do k1 tc class change dev out parent 1: classid 1:1 htb rate 5000000bit")
    assert at[1] == "at 3000000000 do k1 tc qdisc change dev out parent 1:1 pfifo limit 50"
    assert at[2].startswith(
        "at 3500000000 do k1 tc qdisc replace dev out parent 1:1 handle 3: codel limit 1000 target 1ms"
    )
    # A change that names nothing changes nothing.
    assert at[3:] == ["at 3600000000 do k1 tc qdisc change dev out parent 1:1 codel limit 9"]


FLOW_CHANGES = """
[[at]]
time = "1s"
"flow.a.count" = 3
[[at]]
time = "2s"
"flow.a.count" = 1
"flow.a.rtt" = "5ms"
"flow.u.rate" = "2Mbit"
[[at]]
time = "3s"
"flow.a.count" = 2
"""


def test_changes_of_flows(describe: Describe) -> None:
    udp = '[[flow]]\nname = "u"\nkind = "cbr"\nrate = "1Mbit"\nrtt = "10ms"\n'
    run = describe(ONE_LINK + CUBIC + "count = 2\n" + udp + FLOW_CHANGES, start_jitter='"0s"')
    second = 1_000_000_000
    # When the number falls, those that began last end; those that come later are others.
    assert lab.lives(run, run["flows"][0]) == [
        (0, lab.NEVER),
        (0, 2 * second),
        (second, 2 * second),
        (3 * second, lab.NEVER),
    ]
    made = lab.build(run)
    assert made.flows[0].members == 4
    # A shorter delay does not let packets overtake others.
    order = "rate 20tbit limit 1000000"
    assert [line for line in made.plan if line.startswith("at ")] == [
        f"at 2000000000 do d1 tc qdisc change dev to_k1 root netem delay 2500000ns {order}",
        f"at 2000000000 do s1 tc qdisc change dev to_c1 root netem delay 2500000ns {order}",
        "at 2000000000 rate 2 2000000",
    ]
    assert [line for line in lines(made, "netem") if "20tbit" in line] == [
        f"qdisc replace dev to_{there} root netem delay 10000000ns {order}" for there in ("k1", "c1")
    ]
    assert sum("netem" in line for line in lines(made, "netem")) == 3


def test_rewriting_before_and_after_a_link(describe: Describe) -> None:
    rules = "".join(
        f'[[rewrite]]\nflow = "a"\nwhere = "{where}"\nfrom = "{old}"\nto = "{new}"\n'
        for where, old, new in [("before:one", "ect0", "ect1"), ("after:two", "ce", "not-ect")]
    )
    made = lab.build(describe(TWO_LINKS + CUBIC + rules))
    assert [f.split(" action")[0] for f in made.edges["d1", "k1"].filters] == [
        "filter add dev to_k1 egress protocol ip flower dst_ip 10.224.0.1 ip_tos 0x2/0x3"
    ]
    assert "munge ip tos set 0x1 retain 0x3" in made.edges["d1", "k1"].filters[0]
    assert "ip_tos 0x3/0x3" in made.edges["x2", "s1"].filters[0]
    assert not made.edges["x1", "k2"].filters


def test_a_black_hole_for_a_codepoint_is_a_filter_that_drops(describe: Describe) -> None:
    hole = '[[rewrite]]\nflow = "a"\nwhere = "before:one"\nfrom = "ect0"\nto = "drop"\n'
    (filtered,) = lab.build(describe(TWO_LINKS + CUBIC + hole)).edges["d1", "k1"].filters
    assert filtered.endswith("ip_tos 0x2/0x3 action drop")


def test_rules_of_two_places_on_one_wire_are_composed() -> None:
    rules: list[dict[str, Any]] = [
        {"flow": "a", "where": "after", "link": "one", "from": "ect0", "to": "ect1"},
        {"flow": "a", "where": "after", "link": "one", "from": "ect1", "to": "ce"},
        {"flow": "a", "where": "before", "link": "two", "from": "ect1", "to": "not-ect"},
        {"flow": "b", "where": "after", "link": "one", "from": "ce", "to": "ect0"},
    ]
    places = [("after", "one"), ("before", "two")]
    # ECT(0) becomes ECT(1) by the first rule of the first place, then Not-ECT; ECT(1) becomes CE.
    assert lab.composed_rewrites("a", rules, places) == {"ect0": "not-ect", "ect1": "ce"}


def test_impairments_stand_before_their_link(describe: Describe) -> None:
    impair = '[impair.w]\nnetem = "delay 1ms"\nbefore = "two"\ndirection = "both"\n'
    made = lab.build(describe(TWO_LINKS + CUBIC + impair))
    assert {("x1", "i1"), ("i1", "k2"), ("s1", "j1"), ("j1", "y1"), ("y1", "c1")} <= edges(made)
    assert lines(made, "netem limit 1000 delay 1ms") == [
        "qdisc replace dev to_k2 root netem limit 1000 delay 1ms",
        "qdisc replace dev to_y1 root netem limit 1000 delay 1ms",
    ]


def test_the_script_is_shell(describe: Describe) -> None:
    script = lab.script(lab.build(describe(TWO_LINKS + CUBIC)))
    assert subprocess.run(["sh", "-n"], input=script, text=True).returncode == 0
    names = re.findall(r"(?:to|from)_\w+", script)
    assert max(map(len, names)) < 16


def test_options_of_controllers_become_module_parameters(describe: Describe) -> None:
    run = describe(ONE_LINK + CUBIC + 'options = { hystart = "off" }\n')
    assert lab.module_parameters(run) == {"tcp_cubic/hystart": "0"}
    assert "echo 0 >/sys/module/tcp_cubic/parameters/hystart" in lab.script(lab.build(run))
    prague = describe(ONE_LINK + CUBIC.replace("cubic", "prague").replace('ecn = "classic"\n', ""))
    assert lab.module_parameters(prague) | {} == {
        "tcp_prague/prague_rtt_target": "25000",
        "tcp_prague/prague_rtt_transition": "4",
        "tcp_prague/prague_alpha_mode": "0",
        "tcp_prague/prague_cwnd_mode": "2",
        "tcp_prague/prague_cwnd_transit": "4",
        "tcp_prague/prague_burst_shift": "12",
        "tcp_prague/prague_max_tso_segs": "0",
        "tcp_prague/prague_ecn_fallback": "0",
    }


PRAGUE = '[[flow]]\nname = "a"\ncc = "prague"\nrtt = "20ms"\n'
REFUSED = {
    "no such control": (PRAGUE, ['flow "a"', '"prague"', "reno, cubic"]),
    "an option without parameter": (CUBIC + 'options = { beta_ecn = "0.8" }\n', ['flow "a"', "beta_ecn", "sim engine"]),
    "different options": (
        CUBIC + CUBIC.replace('"a"', '"b"') + 'options = { hystart = "off" }\n',
        ['"a"', '"b"', "different options"],
    ),
    "large packets": (
        '[[flow]]\nname = "u"\nkind = "cbr"\nrate = "1Mbit"\nrtt = "1ms"\npacket = "9000B"\n',
        ['flow "u"', "1514B"],
    ),
    "a host with SCE": (
        CUBIC + 'peer_ecn = "sce"\n',
        ['flow "a"', "no Linux kernel has SCE", '"classic"', "sim engine"],
    ),
    "too many connections": (CUBIC + "count = 60000\n", ['flow "a"', "count = 50000"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_it_cannot_do_is_refused_by_name(case: str, describe: Describe) -> None:
    flows, mentions = REFUSED[case]
    with pytest.raises(ValueError, match=r"^[^\n]+$") as refusal:
        engine.refuse(describe(ONE_LINK + flows), of_controls(*CONTROLS))
    for mention in mentions:
        assert mention in str(refusal.value)


@pytest.mark.parametrize("cc", ["reno-sce", "cubic-sce", "dctcp-sce"])
def test_senders_that_no_kernel_has_are_left_out(cc: str, describe: Describe) -> None:
    flow = CUBIC.replace("cubic", cc)
    assert cc in flow
    for kernel in (of_controls(*CONTROLS), None):
        with pytest.raises(LackingError, match=f"^no Linux kernel has {cc}$"):
            engine.refuse(describe(ONE_LINK + flow), kernel)


def test_an_unknown_kernel_is_asked_when_it_runs(describe: Describe) -> None:
    engine.refuse(describe(ONE_LINK + PRAGUE), None)
    engine.refuse(describe(ONE_LINK + PRAGUE), of_controls(*CONTROLS, "prague"))


def test_prague_without_ecn_is_refused(describe: Describe) -> None:
    run = describe(ONE_LINK + PRAGUE + 'ecn = "off"\n')
    with pytest.raises(ValueError, match="prague always asks for ECN"):
        engine.refuse(run, of_controls(*CONTROLS, "prague"))


PI2_OR_PIE = """
duration = "1s"
[link.one]
rate = "10Mbit"
qdisc = "pie"
[[flow]]
name = "a"
cc = "cubic"
rtt = "20ms"
[sweep]
"link.one.qdisc" = ["pie", "pi2"]
"""


def test_queues_that_no_kernel_has_are_left_out_of_a_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.toml"
    file.write_text(PI2_OR_PIE)
    (plan,) = campaign.plan([file], "linux")
    assert [run.description["links"][0]["qdisc"].split()[0] for run in plan.runs] == ["pie"]
    assert main(["run", str(file), "--engine", "linux", "--dry-run"]) == 0
    assert "x: 1 run is left out: no Linux kernel has pi2." in capsys.readouterr().out
    sce = '["cake", "cake sce", "cake sce-thresh 4", "cake sce-single", "cake no-sce besteffort"]'
    file.write_text(PI2_OR_PIE.replace('["pie", "pi2"]', sce))
    (plan,) = campaign.plan([file], "linux")
    assert len(plan.runs) == 2
    assert all("sce" not in run.description["links"][0]["qdisc"] for run in plan.runs)
    assert main(["run", str(file), "--engine", "linux", "--dry-run"]) == 0
    out = capsys.readouterr().out
    for word in ("sce", "sce-thresh", "sce-single"):
        assert f"x: 1 run is left out: no Linux kernel has cake {word}." in out
    change = '[[at]]\ntime = "0.5s"\nlink.one.qdisc = "pi2"\n[sweep]'
    file.write_text(PI2_OR_PIE.replace("[sweep]", change).replace('["pie", "pi2"]', '["pie"]'))
    with pytest.raises(InputError, match="no run that the engine linux can do: no Linux kernel has pi2"):
        campaign.plan([file], "linux")
    file.write_text(PI2_OR_PIE.replace('["pie", "pi2"]', '["pi2 target 1ms", "pi2"]'))
    with pytest.raises(InputError, match="no run that the engine linux can do: no Linux kernel has pi2"):
        campaign.plan([file], "linux")


def test_a_queue_is_on_both_engines_or_is_refused(describe: Describe) -> None:
    queues = {entry["name"]: entry["in_linux"] for entry in _core.qdiscs()}
    simulator_only = {name for name, in_linux in queues.items() if not in_linux}
    assert simulator_only
    for name in simulator_only:
        run = describe(ONE_LINK + CUBIC)
        run["links"][0]["qdisc"] = f"{name} limit 5"
        with pytest.raises(LackingError, match=name):
            engine.refuse(run, of_controls(*CONTROLS))
    # Every other one is compared with the kernel; pfifo is the queue of the TCP comparisons.
    compared = {name.rpartition("-")[0] for name in comparisons()}
    assert queues.keys() - simulator_only - compared == {"pfifo"}
