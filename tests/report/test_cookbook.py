"""The recipes of the documentation: each runs as it stands, has its page, and what it claims holds."""

from pathlib import Path

import pytest
from l4slab.api import campaign

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "examples" / "cookbook").glob("*.toml"))
PAGES = sorted((ROOT / "docs" / "cookbook").glob("*.md"))


def test_every_recipe_is_shown_and_claims_something() -> None:
    shown = "".join(page.read_text("utf-8") for page in PAGES)
    for plan in campaign.plan(RECIPES):
        name = f"cookbook/{plan.experiment.name}"
        assert f"{{experiment}} {name}\n" in shown
        assert f"{{verdicts}} {name}\n" in shown
        assert plan.experiment.document["claim"]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_what_a_recipe_claims_holds(recipe: Path) -> None:
    results = campaign.run(recipe)
    assert not results.failures
    assert results.claims.filter(verdict="holds").height == len(results.claims) > 0, results.claims
