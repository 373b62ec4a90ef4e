"""Quality of Outcome: the draft's example, and flows of a run."""

import polars as pl
import pytest
from l4slab import InputError, Requirement, qoo
from l4slab.results.qoo import REQUIREMENTS, score

# draft-ietf-ippm-qoo: 4 Mb/s, 200 and 300 ms at best, 500 and 600 ms at worst, 1 and 5 % of losses.
NEEDS = Requirement({99: (200, 500), 99.9: (300, 600)}, (1, 5), 4)


@pytest.mark.parametrize(
    ("latency", "loss", "mbps", "wanted"),
    [
        ((350, 375), 2, 28, 50),
        ((100, 100), 2, 28, 75),
        ((100, 450), 0, 28, 50),
        ((100, 100), 0, 28, 100),
        ((600, 100), 0, 28, 0),
        ((100, 100), 0, 3.9, 0),
    ],
)
def test_the_worst_part_counts(latency: tuple[float, float], loss: float, mbps: float, wanted: float) -> None:
    assert score(NEEDS, dict(zip((99, 99.9), latency, strict=True)), loss, mbps) == pytest.approx(wanted)


def test_flows_get_a_column() -> None:
    flows = pl.DataFrame(
        {
            "frame_ms_p95": [200.0, None, 50.0],
            "frame_ms_p99": [200.0, None, 50.0],
            "drop_pct": [0.0, 0.0, 0.0],
            "goodput_mbps": [1.0, 50.0, 0.4],
        }
    )
    assert qoo(flows, "call")["qoo"].to_list() == [50.0, None, 0.0]
    assert qoo(flows, REQUIREMENTS["call"]).columns[-1] == "qoo"


def test_mistakes_are_sentences() -> None:
    flows = pl.DataFrame({"frame_ms_p99": [1.0], "drop_pct": [0.0], "goodput_mbps": [1.0]})
    with pytest.raises(InputError, match='"calls" is not a requirement; did you mean "call"'):
        qoo(flows, "calls")
    with pytest.raises(InputError, match="no column frame_ms_p95"):
        qoo(flows, "call")
    with pytest.raises(InputError, match=r"percentile 99\.9"):
        score(NEEDS, {99: 1.0}, 0, 10)
    with pytest.raises(InputError, match=r"latency\[50\] = \(100, 30\) .* put the smaller number first"):
        Requirement({50: (100, 30)}, (1, 5), 0.1)
