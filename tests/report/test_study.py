"""The claims of the fast-lane study: each says what the page says, and each can come out the other way."""

import math

import polars as pl
import pytest
from l4slab import experimentfile
from l4slab.base.packaged import study
from l4slab.results import claims, published

from . import studies

EXPERIMENTS = [experimentfile.load(file) for file in study("fast-lane")]
CLAIMS = {claim.id: claim for experiment in EXPERIMENTS for claim in experiment.tables(claims.Claim)}

# What would have to be measured for a claim's verdict to turn: values of `conftest.PAGE` that differ.
TURNS = {
    "A-does-not-reproduce": {"A": {"cubic": 10, "tweaked": 40}},
    "A-smaller-share": {"A": {"cubic": 30, "tweaked": 20}},
    "A-coupled-marking-explains": {"A": {"native": 0.01}},
    "A-no-native-marking": {"A": {"native": 0.0001}},
    "B-reproduces-objection": {"B": {"cubic": 25, "tweaked": 25}},
    "B-tweaked-gets-40": {"B": {"tweaked": 38.9}},
    "B-as-expected-when-paced": {"B": {"jitter": 3}},
    "B-no-native-marking": {"B": {"native": 0.0001}},
    "D-pacing-is-a-cap": {"D": {"cubic": 10, "tweaked": 40}},
    "D-behaves-as-normal": {"D": {"cubic": 35, "tweaked": 15}},
    "objection-fast-lane": {"A": {"cubic": 10, "tweaked": 40}},
    "objection-easily-exploited": {"A": {"cubic": 10, "tweaked": 40}},
    "control-was-needed": {"C": {"cubic": 25, "tweaked": 25}},
    "controls-are-controls": {"C": {"l_packets": 500}},
    "B-needs-congestion-control-disabled": {"A": {"cubic": 10, "tweaked": 40}},
    "C-unresponsiveness-not-dualpi2": {"C": {"cubic": 26, "tweaked": 24}},
    "C-same-advantage-in-either-queue": {"C": {"cubic": 15, "tweaked": 35}},
    "summary-no-evidence": {"A": {"cubic": 10, "tweaked": 40}},
    "summary-suppressing-reproduces": {"B": {"cubic": 25, "tweaked": 25}},
    "only-without-response-at-the-pace": {"A": {"cubic": 10, "tweaked": 40}},
    "summary-lane-no-faster": {"C": {"cubic": 20, "tweaked": 30}},
    "summary-no-more-harm": {"B": {"cubic": 5, "tweaked": 45}},
    "summary-same-throughput": {"C": {"tweaked": 38}},
    "summary-lower-delay": {"B": {"tweaked_rtt": 36}},
    "summary-at-no-ones-expense": {"B": {"cubic_rtt": 45}},
    "B-squeezes-by-congestion": {"B": {"p_l": 0.013}},
    "B-ignores-coupled-congestion": {"B": {"tweaked": 30}},
    "coupled-is-aggressive": {"B": {"ce_pct": 1.0}},
}


def verdicts(tables: dict[str, pl.DataFrame], *names: str) -> dict[str, str]:
    return studies.verdicts(EXPERIMENTS, tables, *names)


def test_ids_are_unique_across_the_files() -> None:
    ids = [claim.id for experiment in EXPERIMENTS for claim in experiment.tables(claims.Claim)]
    ids += [figure.id for experiment in EXPERIMENTS for figure in experiment.tables(published.Published)]
    assert len(ids) == len(set(ids))


def test_every_statement_says_where_it_stands() -> None:
    assert all(claim.says and (claim.source or claim.kind == "found") for claim in CLAIMS.values())


def test_the_page_itself_gives_every_verdict_that_it_states(page: dict[str, pl.DataFrame]) -> None:
    stated = {name: "fails" if claim.listed == "disputed" else "holds" for name, claim in CLAIMS.items()}
    assert verdicts(page) == stated


def test_every_claim_has_a_case_that_turns_it() -> None:
    assert set(TURNS) == set(CLAIMS)


@pytest.mark.parametrize("name", TURNS)
def test_a_claim_turns(name: str, make_tables) -> None:
    turned = "holds" if CLAIMS[name].listed == "disputed" else "fails"
    assert verdicts(make_tables(TURNS[name]), name)[name] == turned


@pytest.mark.parametrize("missing", ["A", "B", "C", "D"])
def test_no_claim_holds_about_an_experiment_that_was_not_run(missing: str, page: dict[str, pl.DataFrame]) -> None:
    rest = {name: table.filter(pl.col("experiment") != missing) for name, table in page.items()}
    of_missing = [claim.id for e in EXPERIMENTS if e.name == missing for claim in e.tables(claims.Claim)]
    found = verdicts(rest)
    assert {found[name] for name in of_missing} <= {"undecided"}
    nothing = {name: table.clear() for name, table in page.items()}
    assert not {name for name, verdict in verdicts(nothing).items() if verdict == "holds"}


def test_published_figures_are_within_tolerance_of_themselves(page: dict[str, pl.DataFrame]) -> None:
    table = published.evaluate(EXPERIMENTS, page)
    in_files = table.filter(pl.col("reference").is_null(), pl.col("column").is_not_null())
    assert len(in_files) == 16
    assert table.filter(pl.col("reference").is_null()).height == 22
    assert in_files["within"].all()
    assert in_files["distance"].abs().max() < 1e-9


def reference() -> pl.DataFrame:
    file = study("fast-lane")[0].parent / "fast_lane_summary.csv"
    return pl.read_csv(file, comment_prefix="#").filter(pl.col("window") == "after_join_20-60s")


def test_figures_in_the_files_are_those_of_the_reference() -> None:
    means = {(row["experiment"], row["series"]): row["mean"] for row in reference().iter_rows(named=True)}
    series = {"rate_mbps": "rate_mbps", "rtt_ms_mean": "tcp_rtt_ms"}
    flows = {"cubic": "cubic_50", "tweaked": "tweaked"}
    names = {"classic": "ce_prob_C_pct", "coupled": "ce_prob_L_coupled_pct", "native": "ce_prob_L_native_pct"}
    for experiment in EXPERIMENTS:
        for figure in experiment.tables(published.Published):
            if figure.value is None:
                continue
            if figure.flow and figure.column:
                name = f"{flows[figure.flow]}_{series[figure.column]}"
            else:
                name = names[figure.id.split("-")[1]]
            # The files round to what the plots can be read to.
            digits = 2 if name.endswith("C_pct") else 1
            assert math.isclose(figure.value, means[experiment.name, name], abs_tol=0.51 * 10**-digits), figure.id


def test_the_reference_gives_a_row_per_statistic(page: dict[str, pl.DataFrame]) -> None:
    count = reference().height
    table = published.evaluate(EXPERIMENTS, page)
    rows = table.filter(pl.col("reference").is_not_null())
    assert len(rows) == 4 * count
    assert rows["distance"].null_count() == 0
