"""`l4slab conform`: a controller is conformant with itself, and planted deviations show in the numbers of the law."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean

import polars as pl
import pytest
from l4slab import cli
from l4slab.tools import conform
from l4slab.tools.conform import cells, envelope, laws
from l4slab.tools.why.quantities import Trial

# CUBIC by RFC 9438, with the factor on a loss as a parameter.
MINE = Path(__file__).with_name("mine.py").read_text()
SQUARE = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]


def trial(windows: Sequence[float], step_s: float = 0.01, rtt_ms: float = 20.0) -> Trial:
    """The trace of a window."""
    times = [round((number + 1) * step_s, 6) for number in range(len(windows))]
    series = pl.DataFrame({"time_s": times, "flow": "tested", "cwnd_packets": windows, "srtt_ms": rtt_ms})
    return Trial(pl.DataFrame(), pl.DataFrame(), series)


def sawtooth(peaks: Sequence[float], factor: Callable[[float, float], float], growth: float) -> list[float]:
    """A window that grows by `growth` per sample up to each peak, and falls to its `factor` of peak and last peak."""
    found, window, last = [], peaks[0] / 2, float("inf")
    for peak in peaks:
        while window < peak:
            found.append(window)
            window += growth
        found.append(peak)
        window, last = factor(peak, last) * peak, peak
    return [*found, window, window + growth]


# -- the envelope -----------------------------------------------------------------------------------------------------


def test_overlaps_of_squares_are_their_areas() -> None:
    moved = [(x + 0.5, y + 0.5) for x, y in SQUARE]
    assert envelope.overlap(SQUARE, SQUARE) == 1
    assert envelope.overlap(SQUARE, moved) == pytest.approx(0.25 / 1.75)
    assert envelope.overlap(SQUARE, [(x + 2, y) for x, y in SQUARE]) == 0
    assert envelope.area(envelope.hull([*SQUARE, (0.5, 0.5), (0.5, 0.0)])) == 1


def test_the_area_of_an_intersection_is_that_of_random_points_within() -> None:
    draw = random.Random(1)
    for _ in range(20):
        one, other = (envelope.hull([(draw.random(), draw.random()) for _ in range(12)]) for _side in range(2))
        both = envelope.area(envelope.intersection(one, other))
        assert both == pytest.approx(envelope.area(envelope.intersection(other, one)))
        points = [(draw.random(), draw.random()) for _ in range(4000)]
        inside = sum(within(one, point) and within(other, point) for point in points)
        # Six standard deviations of a share of 4000: a false alarm in 20 pairs has a probability below 1e-7.
        assert abs(inside / 4000 - both) < 6 * (0.25 / 4000) ** 0.5


def within(corners: envelope.Hull, point: envelope.Point) -> bool:
    """Whether adding the point leaves the hull as it is."""
    return envelope.area(envelope.hull([*corners, point])) <= envelope.area(corners) + 1e-12


def test_equal_clouds_are_rarely_called_different_and_others_always() -> None:
    draw = random.Random(1)

    def side(shift: float) -> list[list[envelope.Hull]]:
        points = [[(draw.gauss(shift, 1), draw.gauss(0, 1)) for _ in range(30)] for _ in range(5)]
        return [[envelope.trimmed(one) for one in points]]

    # With 5 and 5 trials an exact test at 1 in 100 gives a false alarm in at most 2 of 252 cases: 8 or more of 60 have
    # a probability below 1e-7.
    assert sum(envelope.overlaps(side(0), side(0), 0.01).p <= 0.01 for _ in range(60)) < 8
    found = envelope.overlaps(side(0), side(4), 0.01)
    assert found.p <= 0.01
    assert found.found < found.least < found.usual


# -- the numbers of the law -------------------------------------------------------------------------------------------


def test_cuts_are_those_of_the_trace() -> None:
    # Each second peak is below the one before, so that fast convergence applies to it.
    peaks = [100.0, 80.0] * 4
    plain = laws.of_rivals([trial(sawtooth(peaks, lambda _p, _l: 0.7, 0.5))], [0.02], "tested", 0)
    assert plain[laws.CUT] == pytest.approx(0.7)
    assert plain[laws.LOWER_CUT] == pytest.approx(0.7)
    quinn = sawtooth(peaks, lambda peak, last: 0.595 if peak < last else 0.7, 0.5)
    found = laws.of_rivals([trial(quinn)], [0.02], "tested", 0)
    assert (found[laws.CUT], found[laws.LOWER_CUT]) == pytest.approx((0.7, 0.595))


def test_growth_per_round_trip_is_that_of_the_trace() -> None:
    windows = sawtooth([30.0] * 8, lambda _p, _l: 0.5, 0.25)
    # A sample is half a round trip.
    assert laws.per_round(trial(windows, rtt_ms=20.0), "tested", 0)[laws.PER_ROUND] == pytest.approx(0.5, rel=0.03)


def test_a_cubic_grows_as_the_law_says() -> None:
    def way(peak: float, c: float) -> list[float]:
        k = (0.3 * peak / c) ** (1 / 3)
        steps = int(k / 0.01)
        return [peak - c * (k - 0.01 * step) ** 3 for step in range(steps)]

    for c, ratio in ((0.4, 1.0), (0.8, 2 ** (1 / 3))):
        # Above the last maximum each time, so that W_max is the peak.
        windows = [100.0, *way(100, c), 120.0, *way(120, c), 140.0, *way(140, c), 160.0, *way(160, c)]
        found = laws.of_rivals([trial(windows)], [0.06], "tested", 0)
        assert found[laws.CUBIC] == pytest.approx(ratio, rel=0.05)


def test_a_cubic_below_the_maximum_returns_to_the_lowered_one() -> None:
    # Cut from 70 to 49. W_max is 0.85 of 70 by fast convergence, and 70 without it.
    for w_max, ratio in ((59.5, 1.0), (70.0, 1.75)):
        k = ((w_max - 49) / 0.4) ** (1 / 3)
        back = [w_max - 0.4 * (k - 0.01 * step) ** 3 for step in range(int(k / 0.01))]
        windows = [100.0, *(70 + 1e-5 * step for step in range(600)), *back]
        found = laws.narrowed(trial(windows, rtt_ms=60.0), "tested", 0, [6.0])
        # The way that counts is half of that from 49 to 59.5, at which the higher curve is earlier.
        assert found[laws.LOWER_CUBIC] == pytest.approx(ratio, rel=0.05)


def test_a_rest_is_the_window_after_it() -> None:
    windows = [50.0] * 600 + [50.0] * 1000 + [75.0] * 300
    assert laws.rest(trial(windows), "tested", (6, 16))[laws.RESTED] == pytest.approx(1.5)


# -- answers ----------------------------------------------------------------------------------------------------------


def test_a_short_path_shows_the_factor_of_a_custom_cubic(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    place = next(one for one in cells.places(cells.candidate("cubic", {})) if one.kind == "short")
    bench = conform.Bench([place], "cubic", None, lambda _what, _part: None)

    def number(name: str, options: dict[str, str]) -> float:
        (found,) = bench.measured(cells.candidate(name, options), 1, 1).numbers().values()
        return found[0]

    mine = f"{tmp_path / 'mine.py'}:Mine"
    assert number(mine, {}) == pytest.approx(number("cubic", {}), abs=laws.LAWS[laws.PER_ROUND].tolerance)
    # 3 (1 - beta) / (1 + beta) is 1 for beta = 0.5 (RFC 9438, 4.3).
    assert number(mine, {"beta": "0.5"}) > 1.5 * number("cubic", {})


def test_a_double_cut_shows_below_the_maximum_only() -> None:
    # In small windows a segment is much, and large ones are cut seldom.
    place = next(one for one in cells.places(cells.candidate("cubic", {})) if one.buffer_bdp == 2)
    bench = conform.Bench([place], "cubic", None, lambda _what, _part: None)
    found = bench.measured(cells.candidate("cubic", {"double_cut": "on"}), 2, 1).numbers()
    # 0.7, and 0.7 of (1 + 0.7)/2; the same run each time.
    assert found["law", laws.CUT] == pytest.approx([0.7] * 2, abs=laws.LAWS[laws.CUT].tolerance)
    assert found["law", laws.LOWER_CUT] == pytest.approx([0.595] * 2, abs=laws.LAWS[laws.LOWER_CUT].tolerance)


@pytest.mark.parametrize("option", ["fast_convergence=off", "c=0.6", "k_of_beta=on"])
def test_a_link_that_becomes_slower_shows_the_cubic_below_the_maximum(option: str) -> None:
    place = next(one for one in cells.places(cells.candidate("cubic", {})) if one.kind == "narrow")
    bench = conform.Bench([place], "cubic", None, lambda _what, _part: None)
    sides = [cells.candidate("cubic", options) for options in ({}, dict([option.split("=")]))]
    usual, changed = (bench.measured(side, 8, 1).numbers()["law", laws.LOWER_CUBIC] for side in sides)
    tolerance = laws.LAWS[laws.LOWER_CUBIC].tolerance
    assert abs(mean(usual) - mean(changed)) > tolerance
    assert max(usual) - min(usual) < tolerance


def test_an_envelope_moves_by_what_a_switch_changes() -> None:
    place = cells.places(cells.candidate("cubic", {}))[0]
    bench = conform.Bench([place], "cubic", None, lambda _what, _part: None)
    found = bench.measured(cells.candidate("cubic", {}), 2, 1)
    by = {(place.name, "goodput_mbps"): 1.0, (place.name, "rtt_ms_mean"): -2.0}
    (usual,), (moved,) = found.hulls(), conform.Moved(found.where, found.trials, by).hulls()
    assert moved == [[(x + 1, y - 2) for x, y in hull] for hull in usual]


@pytest.mark.slow
def test_cubic_is_conformant_with_itself() -> None:
    found = conform.conform("cubic")
    assert (found.verdict, found.status) == ("conformant", 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "option", ["beta=0.5", "c=0.6", *(f"{name}=off" for name in ("idle_epoch", "reno_friendly", "fast_convergence"))]
)
def test_the_switch_that_was_set_is_named_alone(option: str) -> None:
    name, value = option.split("=")
    found = conform.conform("cubic", options={name: value})
    assert (found.verdict, found.status) == ("conformant but for", 1)
    assert [one.switches for one in found.causes] == [{f"cubic {name}"}]


# -- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cubbic"], ["cubbic", "--reference", "cubic"]),
        (["nowhere.py:Mine"], ["nowhere.py", "mine.py:Mine"]),
        (["mine.py:Mine"], ["mine.py:Mine", "--reference CC"]),
        (["quinn:cubbic"], ["cubbic", "cubic"]),
        (["quinn:cubic", "--option", "beta=0.5"], ["quinn:cubic", "--option"]),
        (["linux:nowhere:cubic"], ["nowhere", "kernel"]),
        (["cubic", "--trials", "2"], ["--trials"]),
    ],
)
def test_a_mistake_is_a_sentence(
    arguments: list[str],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    assert cli.main(["conform", *arguments]) == 2
    told = capsys.readouterr().err
    assert all(word in told for word in words), told
