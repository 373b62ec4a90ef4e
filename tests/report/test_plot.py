"""Figures show what is in the tables."""

import itertools
import re
import warnings

import polars as pl
import pytest
from l4slab import InputError, plot
from l4slab.report import save_figures
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
    assert labels == ["delivery rate (Mb/s)", "smoothed RTT (ms)"]
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
    look = plot.looks({"cubic": "cubic", "tweaked": "cubic"})
    assert marks[look["cubic"].marker] == pytest.approx([43.6, 9.7, 9.7, 26.0])
    assert marks[look["tweaked"].marker] == pytest.approx([6.1, 40.0, 40.0, 23.8])
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
    assert "Verdana" in svg  # beside the font that matplotlib brings


def grey(colour: str) -> float:
    red, green, blue = to_rgb(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def test_looks_differ_in_grey_or_in_dash_and_in_marker() -> None:
    senders = ["prague", "dctcp", "cubic", "reno", "bbr", "bbr3", "cubic-sce", "reno-sce", "dctcp-sce"]
    found = list(plot.looks({name: name for name in senders} | {"background": None}).values())
    for number, first in enumerate(found):
        for second in found[number + 1 :]:
            assert first.colour != second.colour
            assert first.dash != second.dash or abs(grey(first.colour) - grey(second.colour)) > 0.1
            assert first.marker != second.marker


def test_a_controller_looks_the_same_in_any_company_and_order() -> None:
    alone = plot.looks({"x": "cubic"})["x"]
    assert plot.looks({"a": "prague", "b": "reno", "c": "cubic"})["c"] == alone
    assert plot.looks({"c": "cubic", "b": "reno", "a": "prague"})["c"] == alone
    # What has no controller of its own among the figure's yields to what has.
    assert plot.looks({"tweaked": "cubic", "r": "reno"})["r"] == plot.looks({"r": "reno"})["r"]


def test_flows_of_one_controller_share_the_hue_and_can_be_told_apart() -> None:
    found = plot.looks({f"flow {n}": "prague" for n in range(9)} | {"other": "cubic"})
    other = found.pop("other")
    assert len({(look.colour, look.dash, look.marker) for look in found.values()}) == len(found)
    assert other.colour not in {look.colour for look in found.values()}


@pytest.mark.parametrize(
    ("names", "controller"),
    [
        (("Prague", "L4S", "L queue", "L", "prague 2"), "prague"),
        (("5 Not-ECT CUBIC", "CUBIC", "C queue", "Classic"), "cubic"),
        (("DCTCP", "marks of DCTCP"), "dctcp"),
        (("BBR", "a bbr flow"), "bbr"),
        (("cubic-sce", "SCE"), "cubic-sce"),
    ],
)
def test_a_name_that_tells_the_sender_looks_like_it(names: tuple[str, ...], controller: str) -> None:
    for name in names:
        assert plot.looks([name])[name].colour == plot.looks({"x": controller})["x"].colour, name


def test_queues_and_probabilities_look_like_their_senders(page) -> None:
    figure = plot.inside(of(page, "B"), trial=1)
    lines = {line.get_label(): line.get_color() for line in figure.axes[0].lines}
    assert lines["Classic"] == plot.looks({"x": "cubic"})["x"].colour
    assert lines["coupled L4S"] == plot.looks({"x": "prague"})["x"].colour


def test_a_page_gives_a_figure_its_ink(page) -> None:
    figure = plot.time_series(of(page, "A"), warmup_s=5)
    saved, shown = plot.to_svg(figure), plot.to_page(figure)
    assert "#ffffff" in saved
    for colour in ("#000000", "#ffffff", "#e3e3e3"):
        assert not re.search(rf"{colour}(?!\))", shown)  # but for what holds where the page has no variable
    assert 'fill="currentColor"' in shown
    assert "stroke: currentColor" in shown
    assert "var(--figure-grid" in shown
    assert "smoothed RTT (ms)</text>" in saved


def test_published_means_stand_in_the_time_series(page) -> None:
    published = pl.DataFrame({"flow": ["cubic"], "column": ["rate_mbps"], "published": [41.5]})
    figure = plot.time_series(of(page, "A"), warmup_s=20, published=published)
    marks = [list(line.get_ydata()) for line in figure.axes[0].lines if line.get_marker() == "D"]
    assert marks == [[41.5]]
    assert "published" in [text.get_text() for text in figure.legends[0].get_texts()]
    assert not [line for line in figure.axes[1].lines if line.get_marker() == "D"]


def test_a_published_mean_far_above_is_inside_its_panel(page) -> None:
    published = pl.DataFrame({"flow": ["cubic"], "column": ["rate_mbps"], "published": [4000.0]})
    figure = plot.time_series(of(page, "A"), warmup_s=20, published=published)
    assert figure.axes[0].get_ylim()[1] > 4000
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a layout without room
        plot.to_svg(figure)


def test_the_overview_has_a_row_per_flow(page) -> None:
    figure = plot.overview(page["flows"].filter(experiment="B"), capacities=[{"cubic": 50.0, "tweaked": 80.0}])
    rate, delay, signals = figure.axes
    assert [text.get_text() for text in rate.get_yticklabels()] == ["cubic", "tweaked"]
    assert [bar.get_width() for bar in rate.patches] == pytest.approx([9.7, 40.0])
    dashed = [lines for lines in rate.collections if lines.get_linestyle()[0][1] is not None]
    assert [lines.get_segments()[0].tolist() for lines in dashed] == [[[50, -0.5], [50, 0.5]], [[80, 0.5], [80, 1.5]]]
    drawn = {round(float(x), 6) for line in delay.lines for x in line.get_xdata()}
    assert drawn == {round(float(x), 6) for x in page["flows"].filter(experiment="B")["sojourn_ms_mean"].unique()}
    assert max(bar.get_width() for bar in signals.patches) == pytest.approx(6.1)
    assert plot.overview(page["flows"].clear()) is None


def test_a_delay_is_written_as_it_is_and_drawn_where_a_log_axis_begins(page) -> None:
    flows = page["flows"].filter(experiment="B", trial=1)

    def texts(mean: float, p99: float) -> tuple[list[str], list[float]]:
        one = flows.with_columns(sojourn_ms_mean=pl.lit(mean), sojourn_ms_p99=pl.lit(p99)).head(1)
        delay = plot.overview(one).axes[1]
        return [text.get_text() for text in delay.texts], [float(x) for line in delay.lines for x in line.get_xdata()]

    assert texts(0.0003, 5.0) == (["< 0.01 / 5"], [5, 0.01])
    assert texts(0.02, 5.0) == (["0.02 / 5"], [5, 0.02])
    assert texts(0.0003, 0.002) == (["none"], [0.01, 0.01])
    # A few packets of many may have all of the delay.
    assert texts(0.3, 0.002) == (["0.3 / < 0.01"], [0.01, 0.3])


def test_panels_of_an_overview_have_room_for_their_titles(page) -> None:
    flows = page["flows"].filter(experiment="B")
    name = "a very long flow name with spaces, of which there is no end"
    more = {"completion_ms_p50": 3874.0, "completion_ms_p99": 15974.0, "frame_ms_p50": 16.0, "frame_ms_p99": 900.0}
    counts = {"transfers": 100, "unfinished": 1121}
    wide = flows.with_columns(
        *(pl.lit(value).alias(column) for column, value in (more | counts).items()),
        flow=pl.when(flow="cubic").then(pl.lit(name)).otherwise("flow"),
    )
    figure = plot.overview(wide, capacities=[{name: 50.0}])
    assert [axis.get_title(loc="left") for axis in figure.axes] == [
        "rate\n(Mb/s)", "queue delay\nmean / P99\n(ms)", "completion\nmedian / P99\n(ms)",
        "frame latency\nmedian / P99\n(ms)", "CE / dropped\n(%)",
    ]  # fmt: skip
    plot.to_svg(figure)
    figure.draw_without_rendering()
    titles = [axis._left_title.get_window_extent() for axis in figure.axes]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(titles))
    assert titles[-1].x1 <= figure.bbox.x1
    assert figure.axes[0].get_yticklabels()[0].get_window_extent().x0 >= 0


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_name_that_the_font_lacks_warns_nobody(page, make_folder, kind: str) -> None:
    named = {
        name: frame.with_columns(flow=pl.lit("\u6d41")) if name == "flows" else frame for name, frame in page.items()
    }
    folder = make_folder(named)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert save_figures(folder, kind)


def test_what_a_case_is_called_takes_no_room_from_the_panels(page) -> None:
    def widths(label: str) -> list[float]:
        cases = [{"experiment": name} for name in ("A", "B")]
        figure = plot.overview(page["flows"], cases=cases, labels=[label, "B"])
        plot.to_svg(figure)
        return [axis.get_position().width for axis in figure.axes]

    assert widths("capacity_mbps = 1, base_rtt_ms = 2, beside = prague, rival = cubic, aqm = pfifo") == widths("A")


def test_a_capacity_that_varies_is_a_line(page) -> None:
    def lines(*steps: tuple[str, float, float]) -> dict[str, list[list[float]]]:
        capacity = pl.DataFrame(steps, ["flow", "time_s", "capacity_mbps"], orient="row")
        axis = plot.time_series(of(page, "A"), capacity=capacity).axes[0]
        return {
            text: [[*map(float, line.get_ydata())] for line in axis.lines if line.get_label() == text]
            for text in ["capacity"]
        }["capacity"]

    both = [(flow, time, rate) for flow in ("cubic", "tweaked") for time, rate in ((0.0, 50.0), (30.0, 10.0))]
    assert lines(*both) == [[50, 10, 10]]  # of one path, one line
    assert lines(*both[:2], ("tweaked", 0.0, 80.0)) == [[50, 10, 10]]
    assert lines(*both[:2], ("tweaked", 0.0, 80.0), ("tweaked", 5.0, 60.0)) == [[50, 10, 10], [80, 60, 60]]
    assert lines(("cubic", 0.0, 50.0), ("tweaked", 0.0, 50.0)) == []


def test_delays_are_the_sums_of_the_trials() -> None:
    rows = [
        {"flow": flow, "trial": trial, "quantity": "sojourn_ms", "low_ms": low, "high_ms": 2 * low, "count": count}
        for flow, trial, low, count in (
            ("a", 1, 1.0, 60), ("a", 2, 1.0, 30), ("a", 2, 4.0, 9), ("a", 1, 8.0, 1), ("b", 1, 0.001, 100),
        )
    ]  # fmt: skip
    figure = plot.delays(pl.DataFrame(rows), flows={"a": "prague", "b": "cubic"})
    below, above = figure.axes

    def points(axis, number: int) -> dict[float, float]:
        return dict(zip(*axis.lines[number].get_data(), strict=True))

    part, tail = points(below, 0), points(above, 0)
    assert [part[x] for x in (1.0, 2.0, 8.0, 16.0)] == [0, 90, 99, 100]
    assert [tail[x] for x in (1.0, 2.0, 8.0)] == pytest.approx([100, 10, 1])
    assert points(below, 1)[0.01] == 100  # what is shorter than can be told stands at the left end
    assert above.get_yscale() == "log"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    looks = plot.looks({"a": "prague", "b": "cubic"})
    assert [line.get_color() for line in below.lines] == [looks["a"].colour, looks["b"].colour]
    assert plot.delays(pl.DataFrame(rows), quantity="completion_ms") is None
    with pytest.raises(InputError, match='quantity = "rtt" has no distribution; did you mean "rtt_ms"'):
        plot.delays(pl.DataFrame(rows), quantity="rtt")
