"""A claim about runs that were not made has no verdict."""

from __future__ import annotations

import pytest
from l4slab.api import campaign
from l4slab.base import frames, metrics
from l4slab.base.packaged import studies
from l4slab.results import claims


@pytest.mark.slow
@pytest.mark.parametrize("name", studies())
def test_a_study_without_runs_has_no_verdict(name: str) -> None:
    plans = campaign.plan(studies()[name], memory="1024GiB")
    with claims.connect_empty(plans) as connection:
        tables = {table: frames.fetch(connection.table(f"all_{table}")) for table in metrics.TABLES}
    verdicts = claims.evaluate([plan.experiment for plan in plans], tables)
    assert {row["id"]: row["verdict"] for row in verdicts.to_dicts() if row["verdict"] != "undecided"} == {}
