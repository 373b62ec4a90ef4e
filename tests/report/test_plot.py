"""Figures show what is in the tables."""

import polars as pl
import pytest
from l4slab import plot
from l4slab.plot.style import COLOURS, DASHES
from matplotlib.colors import to_rgb


def of(page: dict[str, pl.DataFrame], experiment: str) -> pl.DataFrame:
    return page["series"].filter(pl.col("experiment") == experiment)


def drawn(axis, trial_rows: pl.DataFrame, column: str, scale: float = 1) -> bool:
    wanted = (scale * trial_rows[column]).to_list()
    return any(list(line.get_ydata()) == pytest.approx(wanted) for line in axis.lines if len(line.get_ydata()))


def test_time_series_draws_the_table(page) -> None:
    series = of(page, "B")
    figure = plot.time_series(series, trial=2, warmup_s=20)
    rate, rtt = figure.axes
    for flow in ("cubic", "tweaked"):
        rows = series.filter(pl.col("flow") == flow, pl.col("trial") == 2)
        assert drawn(rate, rows, "rate_mbps")
        assert drawn(rtt, rows, "srtt_ms")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["cubic", "tweaked"]
    labels = [axis.get_ylabel() for axis in figure.axes]
    assert labels == ["delivery rate (Mb/s)", "TCP RTT (ms)"]
    assert rtt.get_xlabel() == "time (s)"
    full = [line for line in rate.lines if line.get_alpha() is None]
    assert len(full) == 2
    assert len({(line.get_color(), line.get_linestyle()) for line in full}) == 2


def test_no_line_is_cut_off_in_the_measured_interval(page) -> None:
    series = of(page, "A").with_columns(
        pl.when(pl.col("time_s") < 1).then(500.0).otherwise(pl.col("srtt_ms")).alias("srtt_ms")
    )
    rate, rtt = plot.time_series(series, warmup_s=20).axes
    measured = series.filter(pl.col("time_s") >= 20)
    assert rtt.get_ylim()[1] > measured["srtt_ms"].max()
    assert rtt.get_ylim()[1] < 500
    assert "500" in rtt.texts[0].get_text()
    assert rate.get_ylim()[1] > series["rate_mbps"].max()


def test_inside_draws_percent_and_the_small_line_again(page) -> None:
    series = of(page, "B")
    figure = plot.inside(series, trial=1, warmup_s=20)
    every, classic = figure.axes
    rows = series.filter(pl.col("link").is_not_null(), pl.col("trial") == 1)
    for column in ("p_c", "p_l_coupled", "p_l_native"):
        assert drawn(every, rows, column, 100)
    assert drawn(classic, rows, "p_c", 100)
    assert every.get_ylim()[0] < 0 < series["p_l_coupled"].max() * 100 < every.get_ylim()[1]


def test_nothing_to_draw_is_no_figure(page) -> None:
    series = of(page, "A")
    bare = series.with_columns(
        pl.lit(None, dtype=pl.Float64).alias(c) for c in ("p_c", "p_l", "p_l_coupled", "p_l_native")
    )
    assert plot.inside(bare) is None
    assert plot.time_series(series.clear()) is None
    assert plot.time_series(series.filter(pl.col("flow").is_null())) is None
    assert plot.comparison(page["flows"].clear()) is None
    no_rtt = series.with_columns(pl.lit(None, dtype=pl.Float64).alias("srtt_ms"))
    assert len(plot.time_series(no_rtt).axes) == 1


def test_cases_stand_beside_each_other_on_the_same_scales(page: pl.DataFrame) -> None:
    cases = [of(page, name).with_columns(panel=pl.lit(name)) for name in ("A", "B")]
    alone = [plot.time_series(case.drop("panel")) for case in cases]
    figure = plot.time_series(pl.concat(cases))
    rows, columns = len(alone[0].axes), 2
    assert len(figure.axes) == rows * columns
    for row in range(rows):
        left, right = figure.axes[row * columns : (row + 1) * columns]
        assert left.get_ylim() == right.get_ylim()
        assert left.get_ylim()[1] == max(one.axes[row].get_ylim()[1] for one in alone)
        for axis, one in zip((left, right), alone, strict=True):
            drawn = {line.get_label(): list(line.get_ydata()) for line in axis.lines}
            assert drawn == {line.get_label(): list(line.get_ydata()) for line in one.axes[row].lines}
    assert [axis.get_title(loc="left") for axis in figure.axes[:2]] == ["A", "B"]


def test_a_probe_is_not_drawn_but_a_starved_flow_is(page: pl.DataFrame) -> None:
    case = of(page, "A")
    name = case.drop_nulls("flow")["flow"][0]
    flow = case.filter(pl.col("flow") == name)
    tiny = flow.with_columns(pl.lit(0.001).alias("rate_mbps"), pl.lit(0.001).alias("goodput_mbps"))
    probe = tiny.with_columns(pl.lit("ping").alias("flow"), pl.lit(None, pl.Float64).alias("srtt_ms"))
    starved = tiny.with_columns(pl.lit("starved").alias("flow"))
    legend = plot.time_series(pl.concat([case, probe, starved])).legends[0]
    labels = {text.get_text() for text in legend.get_texts()}
    assert "starved" in labels
    assert "ping" not in labels


def test_comparison_marks_mean_range_and_published(page) -> None:
    published = pl.DataFrame(
        {"experiment": ["A"], "flow": ["cubic"], "column": ["rate_mbps"], "published": [41.5], "reference": [None]}
    )
    figure = plot.comparison(page["flows"], published=published)
    rate, rtt = figure.axes
    marks = {line.get_marker(): [] for line in rate.lines}
    for line in rate.lines:
        marks[line.get_marker()] += list(line.get_xdata())
    assert marks["D"] == [41.5]
    assert marks["o"] == pytest.approx([43.6, 9.7, 9.7, 26.0])
    assert marks["s"] == pytest.approx([6.1, 40.0, 40.0, 23.8])
    assert not [line for line in rtt.lines if line.get_marker() == "D"]
    bars = [segment for bar in rate.collections for segment in bar.get_segments()]
    assert min(x for (x, _), _ in bars) == pytest.approx(6.08)


def test_median_trial_is_nearest_to_the_median(make_tables) -> None:
    tables = make_tables({"A": {"jitter": 4.0}}, trials=5)
    rates = {1: 10.0, 2: 30.0, 3: 19.0, 4: 20.0, 5: 50.0}
    series = (
        tables["series"]
        .filter(pl.col("experiment") == "A")
        .with_columns(
            pl.when(pl.col("flow").is_not_null()).then(pl.col("trial").replace_strict(rates)).alias("rate_mbps")
        )
    )
    assert plot.median_trial(series) == 4
    assert plot.median_trial(series.filter(pl.col("trial") != 4)) == 2
    assert plot.median_trial(series.clear()) == 1


def test_svg_is_the_same_every_time_and_names_no_date(page) -> None:
    svgs = {plot.to_svg(plot.time_series(of(page, "A"))) for _ in range(2)}
    assert len(svgs) == 1
    svg = svgs.pop()
    assert "dc:date" not in svg
    assert "Matplotlib v" not in svg
    # Glyphs are scaled by 0.01 and less; rounding such a factor would spoil every letter.
    assert "scale(0.0" in svg


def test_neighbouring_lines_differ_in_grey_or_in_style() -> None:
    def grey(colour: str) -> float:
        red, green, blue = to_rgb(colour)
        return 0.299 * red + 0.587 * green + 0.114 * blue

    looks = [(grey(COLOURS[n % len(COLOURS)]), str(DASHES[n % len(DASHES)])) for n in range(8)]
    for number, (first, style) in enumerate(looks):
        for second, other in looks[number + 1 :]:
            assert style != other or abs(first - second) > 0.05
    assert len(set(COLOURS)) == len(COLOURS)
