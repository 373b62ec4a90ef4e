"""Directives that put results into a page: what it says of an experiment is what that gave while the page was built.

    ```{experiment} cookbook/incast     the file in examples/
    ```{results} cookbook/incast        a table: the body is SQL over the result tables
    ```{verdicts} cookbook/incast       the file's claims with their verdicts
    ```{figures} dualq [ID ...]         the figures that the files choose, else the overview
    ```{live}                           the page of l4slab live, which the site holds where it is built

A name with a slash is a file below examples/, any other a study. Results are kept in results/docs and results/STUDY and
are not computed again. A draft (`sphinx-build -t draft`) leaves out studies of minutes that have no results yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import l4slab
from docutils import nodes
from docutils.parsers.rst import directives
from l4slab.base import packaged
from l4slab.live import page
from l4slab.report import drawings
from l4slab.report.results import load
from l4slab.results import claims
from matplotlib.figure import Figure
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]
QUICK = ("fast-lane",)
_log = logging.getLogger(__name__)


class Results(SphinxDirective):
    """A table made by SQL; what the other directives share."""

    has_content = True
    required_arguments = 1
    optional_arguments = 100
    option_spec: ClassVar[dict[str, Any]] = {"caption": directives.unchanged}

    @property
    def files(self) -> list[Path]:
        name = self.arguments[0]
        if "/" not in name:
            return packaged.study(name)
        file = ROOT / "examples" / f"{name}.toml"
        self.env.note_dependency(str(file))
        return [file]

    @property
    def folder(self) -> Path:
        name = self.arguments[0]
        return ROOT / "results" / (Path("docs") / name if "/" in name else name)

    def computed(self) -> l4slab.Results | None:
        """The results, computed where they are not there; None for what a draft leaves out."""
        name, folder = self.arguments[0], self.folder
        left_out = "/" not in name and name not in QUICK and not (folder / "flows.parquet").is_file()
        if left_out and self.env.app.tags.has("draft"):
            return None
        done = _done.get(name)
        if done is None:
            _log.info("running %s", name)
            done = _done[name] = l4slab.run(self.files, folder, subset=True, captures=False)
            if done.failures:
                raise self.error(f"{len(done.failures)} runs of {name} failed: {done.failures[0][1]}")
        return done

    def run(self) -> list[nodes.Node]:
        if (results := self.computed()) is None:
            return self.omitted()
        table = results.sql("\n".join(self.content))
        return self.markdown(_table(table.columns, table.rows()))

    def omitted(self) -> list[nodes.Node]:
        return self.markdown("*(Not in a draft: `./dev.sh docs` computes this.)*")

    def markdown(self, text: str) -> list[nodes.Node]:
        return self.parse_text_to_nodes(text)


_done: dict[str, l4slab.Results] = {}


class Experiment(Results):
    """The experiment file itself."""

    def run(self) -> list[nodes.Node]:
        (file,) = self.files
        name = file.relative_to(ROOT)
        return self.markdown(f"`{name}`:\n\n```toml\n{file.read_text('utf-8')}```\n")


class Verdicts(Results):
    """The claims, a list for each kind with its count, each claim with its verdict and its evidence."""

    def run(self) -> list[nodes.Node]:
        if (results := self.computed()) is None:
            return self.omitted()
        parts = []
        for counted in claims.tally(results.claims):
            rows = results.claims.filter(kind=counted.kind).select("verdict", "says", "evidence").rows()
            table = _table(["verdict", "statement", "evidence"], ((v, s, _evidence(e)) for v, s, e in rows))
            parts.append(f"**{counted.text}.**\n\n{table}")
        return self.markdown("\n".join(parts))


class Figures(Results):
    """The figures that the files choose, as parts of the page."""

    def run(self) -> list[nodes.Node]:
        if (results := self.computed()) is None:
            return self.omitted()
        wanted = self.arguments[1:]
        made: list[nodes.Node] = []
        for one in drawings.of_the_study(load(self.folder, {})):
            if not wanted or one.id in wanted:
                made += self.drawn(one.figure, f"{one.caption or one.id}{f' ({one.source})' if one.source else ''}")
        if not made and (drawing := results.plot.overview()) is not None:
            made = self.drawn(drawing, "Who gets which rate, who waits how long, what is marked and lost.")
        return made

    def drawn(self, drawing: Figure, caption: str) -> list[nodes.Node]:
        svg = drawings.element(drawing, caption, self.env.new_serialno("figure"))
        (below,) = self.markdown(caption)
        below["classes"].append("caption-of-results")  # type: ignore[index]
        return [nodes.raw("", f'<div class="figure-of-results">{svg}</div>', format="html"), below]


class Live(SphinxDirective):
    """A link to the page."""

    def run(self) -> list[nodes.Node]:
        if _live_page() is None:
            _log.info("the page of l4slab live is not built, and the site does without")
            return []
        return [nodes.raw("", f'<p><a href="{_LIVE}"><strong>Open the page</strong></a></p>', format="html")]


_LIVE = "_static/live-page.html"


def _live_page() -> str | None:
    if page.built() is None:
        return None
    text = page.document()
    return text if page.simulates(text) else None


def _keep_live_page(app: Sphinx, failed: Exception | None) -> None:
    if failed is None and (text := _live_page()) is not None and app.builder.format == "html":
        (Path(app.outdir) / _LIVE).write_text(text, encoding="utf-8")


def _evidence(text: str) -> str:
    import json

    return ", ".join(f"{name} {_cell(value)}" for name, value in json.loads(text).items())


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = f"{value:.3g}" if isinstance(value, float) and abs(value) < 1000 else str(value)
    return text.replace("|", "\\|")


def _table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    columns = list(columns)
    lines = [columns, ["---"] * len(columns), *([_cell(value) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the directives known to Sphinx."""
    for name, kind in (("results", Results), ("experiment", Experiment), ("verdicts", Verdicts), ("figures", Figures)):
        app.add_directive(name, kind)
    app.add_directive("live", Live)
    app.connect("build-finished", _keep_live_page)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
