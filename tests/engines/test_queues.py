"""`l4slab agree --queues`: the judge's laws, with the simulator in the kernel's place, and the way to a small file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from l4slab.base.errors import InputError
from l4slab.base.values import Keys
from l4slab.cli import main
from l4slab.tools.agreement import queues
from l4slab.tools.agreement.queues import drawing, judge, outcomes
from l4slab.tools.agreement.queues.cases import Case, read, text_of
from l4slab.tools.agreement.queues.outcomes import Left, Outcome

# Not those of the judge.
OTHER_SEEDS = 70_000


def document(qdisc: str, *packets: str, **more: object) -> Keys:
    return {"duration": "300ms", "packets": list(packets), "link": {"q": {"rate": "8Mbit", "qdisc": qdisc}}, **more}


def case_of(qdisc: str, *packets: str) -> Case:
    return read(document(qdisc, *packets))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Case, Outcome], Outcome]], None]:
    """Puts the simulator in the kernel's place, with other seeds and a fault."""

    def put(fault: Callable[[Case, Outcome], Outcome]) -> None:
        count = iter(range(OTHER_SEEDS, OTHER_SEEDS * 2))

        def on_kernel(cases: Sequence[Case], name: str = "") -> list[Outcome]:
            return [fault(one, outcomes.simulated(one, next(count))) for one in cases]

        monkeypatch.setattr(queues, "on_kernel", on_kernel)

    return put


def nothing(_: Case, outcome: Outcome) -> Outcome:
    return outcome


def test_what_a_fifo_does_with_packets() -> None:
    """8 Mbit/s is a byte per microsecond, and a burst of 1600 B lets two packets of 1000 B go at once."""
    case = case_of("pfifo limit 3", "10 at 1ms every 1us size 1000B ecn ect1")
    left = outcomes.simulated(case, 1).left
    assert [one.number for one in left] == [0, 1, 2, 3, 4]
    assert [round(one.at_ns, -3) for one in left] == [1_000_000, 1_001_000, 1_400_000, 2_400_000, 3_400_000]
    assert {one.ecn for one in left} == {1}


def test_all_segments_of_a_packet_come_before_one_leaves() -> None:
    """As in Linux, where random cases found it: a full queue loses all others, though the link is idle."""
    (left,) = outcomes.simulated(case_of("dualpi2 limit 1", "1 at 1ms size 3042B segment 1000B"), 1).left
    assert left.at_ns == 1_000_000


def test_segments_leave_by_their_number() -> None:
    """A queue that cuts packets lets each segment go; a FIFO the packet, which takes the time of all headers."""
    train = "2 at 1ms size 3042B segment 1000B"
    cut = outcomes.simulated(case_of("cake", train), 1).left
    whole = outcomes.simulated(case_of("pfifo", train, "1 at 2ms size 100B"), 1).left
    assert [one.number for one in cut] == [0, 0, 0, 1, 1, 1]
    assert [one.number for one in whole] == [0, 1, 2]
    # 3000 B of payload and three headers of 42 B each, twice, of which the burst has let 1600 B go before.
    assert whole[2].at_ns == 1_000_000 + (2 * 3126 - 1600) * 1000


@pytest.mark.parametrize(
    ("packets", "sentence"),
    [
        ("100 at", "is no train"),
        ("100 colour red", "is no train"),
        ("1 at 0us", "is not possible"),
        ("1 size 40B", "is not possible"),
        ("1 size 2000B", "does not fit into frames"),
        ("1 ecn maybe", "maybe"),
        ("1 size 3569B segment 500B ip 6", "does not fit"),
        ("1 at 1s", "after its end"),
    ],
)
def test_a_train_that_cannot_be_sent(packets: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read(document("pfifo", packets))


def test_number_and_seed_define_a_case() -> None:
    """Each is possible on both sides, and is written as a file that reads back."""
    first = [text_of(drawing.draw(number, 3).document) for number in range(1, 13)]
    assert first == [text_of(drawing.draw(number, 3).document) for number in range(1, 13)]
    assert len(set(first)) == len(first)
    for text in first:
        case = read(tomllib.loads(text))
        assert text_of(case.document) == text
        assert case.setup[0].startswith("qdisc replace dev out root handle 1: htb default 1")


def test_cases_among_some_kinds() -> None:
    """A queue that is not named is nowhere, and a tree's parents are those of all."""
    for number in range(1, 41):
        case = drawing.draw(number, 3, ("red", "codel"))
        assert not {"fq", "fq_codel", "cake", "pie", "dualpi2", "pfifo"} & {
            *text_of(case.document).replace('"', " ").split()
        }


def test_the_kernel_hears_of_changes_and_packets_in_order() -> None:
    """A change comes before a packet of the same time, as in the simulator."""
    change: list[Keys] = [{"time": "1ms", "link.q.qdisc": "pfifo limit 2"}]
    case = read({**document("pfifo", "2 every 1ms size 100B dscp 46 ecn ect1 ip 6"), "at": change})
    plan = list(outcomes._plan(4, case))
    assert plan[0] == "case 4 0"
    assert plan[-4:-1] == [
        "tc 1000000 qdisc change dev out parent 1:1 pfifo limit 2",
        "packet 1000000 0 0 100 185 1 0",
        "packet 2000000 1 0 100 185 1 0",
    ]


@pytest.mark.parametrize("tins", ["diffserv3", "diffserv8"])
def test_a_changed_cake_begins_with_its_first_tin(tins: str) -> None:
    """As in Linux, where a random case found it, unless it has all eight tins. The tin whose turn it was went on."""
    at = [{"time": "2.7ms", "link.q.qdisc": f"cake {tins} wash"}]
    case = read({**document(f"cake {tins}", "20 at 1ms", "20 at 1ms flow 10 dscp 46"), "at": at})
    unchanged = read(document(f"cake {tins}", "20 at 1ms", "20 at 1ms flow 10 dscp 46"))
    left = [[one.number for one in outcomes.simulated(one, 1).left] for one in (case, unchanged)]
    assert (left[0] == left[1]) == (tins == "diffserv8")


def test_sfq_has_no_more_flows_than_its_limit() -> None:
    """As in Linux, where a random case found it: the third flow gets no place."""
    case = case_of("sfq limit 2", "3 at 1ms", "1 at 1.1ms flow 5", "1 at 1.2ms flow 10")
    assert [one.number for one in outcomes.simulated(case, 2).left] == [0, 1, 2, 3]


@pytest.mark.parametrize("pie", ["pie tupdate 4ms", "fq_pie flows 1 tupdate 4ms"])
def test_a_new_pie_updates_after_half_a_second(pie: str) -> None:
    """As in Linux, where a random case found it. The PIE that a case begins with is older."""
    every = {"duration": "1600ms", "packets": ["1400 every 500us size 1000B"]}
    at = [{"time": "100ms", "link.q.qdisc": pie}]
    old, new = (document(pie) | every, document("pfifo limit 5000") | every | {"at": at})
    first = []
    for case in map(read, (old, new)):
        left = {one.number for one in outcomes.simulated(case, 1).left}
        # What waits is lost with the queue that is replaced, and came before.
        first.append(next(n for n, one in enumerate(case.packets) if n not in left and one.at_ns > 100_000_000))
    assert first[0] / 2 < 300
    assert first[1] / 2 > 100 + 512


@pytest.mark.parametrize("qdisc", ["pfifo limit 20", "fq_codel target 1ms interval 5ms", "pie target 1ms tupdate 4ms"])
def test_the_simulator_agrees_with_itself(qdisc: str, kernel: Callable[..., None]) -> None:
    kernel(nothing)
    case = case_of(qdisc, "150 every 500us ecn ect1", "50 every 300us flow 1 size 300B")
    assert queues.compare([case]) == [None]


def _one_less(case: Case, outcome: Outcome) -> Outcome:
    return replace(outcome, left=[one for one in outcome.left if one.number != 7])


def _late(case: Case, outcome: Outcome) -> Outcome:
    return replace(outcome, left=[one._replace(at_ns=one.at_ns + 5000 * (one.number == 3)) for one in outcome.left])


def _marked(case: Case, outcome: Outcome) -> Outcome:
    return replace(outcome, left=[one._replace(ecn=3) if one.number == 5 else one for one in outcome.left])


@pytest.mark.parametrize(("fault", "packet"), [(_one_less, 7), (_late, 3), (_marked, 5)])
def test_a_difference_of_one_packet_is_found(
    fault: Callable[[Case, Outcome], Outcome], packet: int, kernel: Callable[..., None]
) -> None:
    kernel(fault)
    (found,) = queues.compare([case_of("pfifo limit 20", "30 every 500us ecn ect1")])
    assert found is not None
    assert found.packet == packet
    assert found.kind == "packet"


def test_a_frequency_that_differs_is_found(kernel: Callable[..., None]) -> None:
    """A third of the losses is missing: no packet is always another one."""

    def fault(case: Case, outcome: Outcome) -> Outcome:
        gone = {one.number for one in outcome.left}
        back = [n for n in range(len(case.packets)) if n not in gone][::3]
        return replace(outcome, left=[*outcome.left, *(Left(case.packets[n].at_ns + 1, n, 0) for n in back)])

    kernel(fault)
    case = case_of("netem loss 30%", "200 every 500us size 300B")
    (found,) = queues.compare([case])
    assert found is not None
    assert found.kind == "frequency"


def test_what_no_queue_may_do() -> None:
    case = case_of("pfifo", "3 every 1ms")
    good = outcomes.simulated(case, 1)
    root = {"root": True, "packets": 3, "drops": 0, "qlen": 0}
    assert judge.broken(case, replace(good, counters=[root])) is None
    for outcome, words in [
        (replace(good, left=[good.left[0]._replace(ecn=3)]), "left with 3"),
        (replace(good, left=[*good.left, good.left[0]]), "leaves 2 times"),
        (replace(good, counters=[{**root, "packets": 2}]), "counts 2 packets sent"),
        (replace(good, counters=[{**root, "drops": 1}]), "1 drops"),
        (replace(good, refused=["Error: no. Command failed -:1"]), "tc refuses"),
        (Outcome([], stopped="the kernel panicked"), "panicked"),
    ]:
        found = judge.broken(case, outcome)
        assert found is not None
        assert words in found.what


def test_a_case_becomes_small(kernel: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change to a lower limit that is forgotten is left with that change and a burst. The same command judges nothing
    again.
    """

    def forgets(case: Case, outcome: Outcome) -> Outcome:
        return outcomes.simulated(replace(case, run={**case.run, "at": []}), 1)

    kernel(forgets)
    full = read({
        **document("pfifo limit 60", "80 every 100us ecn ect1", "20 at 30ms every 900us flow 1 size 300B"),
        "at": [{"time": "5ms", "link.q.qdisc": "pfifo limit 10"}, {"time": "90ms", "link.q.rate": "9Mbit"}],
    })  # fmt: skip
    monkeypatch.setattr(queues, "draw", lambda *_: full)
    (judged,) = queues.agree(1, 1, tmp_path)
    assert judged.difference is not None
    text = (tmp_path / "reduced" / "0001.toml").read_text()
    assert text.startswith("# case 1 of seed 1: packet ")
    assert len(text.splitlines()) <= 15
    small = tomllib.loads(text)
    assert len(small["packets"]) == len(small["at"]) == 1
    assert (tmp_path / "different" / "0001.toml").exists()
    assert json.loads((tmp_path / "queues.jsonl").read_text())["case"] == 1
    assert queues.agree(1, 1, tmp_path) == []


def test_the_command(capsys: pytest.CaptureFixture[str], kernel: Callable[..., None], tmp_path: Path) -> None:
    kernel(nothing)
    assert main(["agree", "--queues", "2", "--seed", "5", "--dry-run"]) == 0
    assert capsys.readouterr().out.count("packets = [") == 2
    file = tmp_path / "case.toml"
    file.write_text(text_of(document("pfifo limit 2", "5 every 1us")))
    assert main(["agree", str(file), "--queues", "3"]) == 0
    assert "3 of 3 queues agree" in capsys.readouterr().out
    kernel(_marked)
    file.write_text(text_of(document("pfifo limit 20", "9 every 1us ecn ect0")))
    assert main(["agree", str(file), "--queues", "1"]) == 1
    file.write_text("packets = 3\n")
    assert main(["agree", str(file), "--queues", "1"]) == 2
    assert main(["agree", "--queues", "1"]) == 2


def test_an_empty_band_of_prio_is_asked() -> None:
    """As in Linux, where a random case found it: a flow leaves its list then, and comes back with a full quantum."""
    document: Keys = {
        "duration": "200ms",
        "packets": [
            *("21 at 7ms every 100us size 70B flow 1", "1 at 9.2ms flow 1"),
            *("10 at 9.3ms size 70B flow 1", "1 at 9.3ms size 70B flow 2"),
        ],
        "link": {
            "q": {
                "rate": "8Mbit",
                "qdisc": "prio bands 2 priomap " + "0 " * 16,
                "class": {"1": {"qdisc": "fq_codel"}, "2": {"qdisc": "tbf rate 1mbit burst 3000 limit 30000"}},
                "filter": [{"class": "2", "dscp": "ef"}],
            }
        },
    }
    held_back = {**document, "packets": ["10 at 1ms flow 3 dscp 46", *document["packets"]]}  # type: ignore[misc]
    places = []
    for one in (document, held_back):
        case = read(one)
        order = [case.packets[left.number].flow for left in outcomes.simulated(case, 1).left]
        places.append([flow for flow in order if flow != 3].index(2) - 22)
    # Behind the packets that find the link idle, or behind all of the other's.
    assert places == [3, 10]


def test_a_parent_counts_what_waits_below_it() -> None:
    case = case_of("pfifo", "1 at 1ms")
    counters = [
        {"kind": "htb", "handle": "1:", "root": True, "qlen": 2, "packets": 1},
        {"kind": "prio", "handle": "2:", "parent": "1:1", "qlen": 2},
        {"kind": "pfifo", "handle": "f001:", "parent": "2:1", "qlen": 1},
        {"kind": "pfifo", "handle": "f002:", "parent": "2:2", "qlen": 0},
    ]
    wrong = judge.broken(case, Outcome([Left(1_000_000, 0, 0)], counters=counters))
    assert wrong is not None
    assert wrong.what == "prio 2: counts 2 packets that wait, and 1 wait below it"


def test_a_changed_cake_keeps_hosts_from_flows() -> None:
    """As in Linux, where a random case found it: a queue that a flow has is no other host's."""
    packets = ("20 at 1ms flow 0", "20 at 1ms flow 1", "10 at 5ms flow 0")
    at = [{"time": "4ms", "link.q.qdisc": "cake besteffort dsthost"}]
    case = read({**document("cake besteffort", *packets), "at": at})
    order = [one.number for one in outcomes.simulated(case, 1).left]
    # The first one to come after the change is of a new queue, and does not wait for one that is full.
    assert order.index(40) < 8


@pytest.mark.parametrize(("gap_ns", "tie"), [(0, False), (58, True), (1_199, True), (1_200, False)])
def test_a_tie_is_two_events_within_a_step_of_the_clock(gap_ns: int, tie: bool) -> None:
    """What comes after the difference does not count."""
    model = Outcome([Left(at, n, 0) for n, at in enumerate((10_000, 20_000, 20_000 + gap_ns, 30_000, 30_100))])
    assert judge.has_tie(model, judge.Difference("", packet=2)) == tie
    assert judge.has_tie(model, judge.Difference("", packet=4))
