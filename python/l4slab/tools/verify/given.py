"""What is to be verified: a results folder, or a report alone, which holds its experiment files and its digests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from l4slab import _core
from l4slab.api.campaign import plans_of
from l4slab.base import damage, paths
from l4slab.base.errors import InputError
from l4slab.campaign import digests, remote
from l4slab.campaign.store import DIGESTS, SIGN, Store, digest_of_file, digests_of
from l4slab.report import provenance
from l4slab.sweep import Run
from l4slab.tools.verify import pages
from l4slab.tools.verify.findings import Finding, of_texts, shown, table_of

_REMEDY = 'give a DIR that "l4slab run --out DIR" has written, or its report.html'


@dataclass(frozen=True)
class Given:
    """What was given. `folder` has its experiment files; with `is_folder`, also tables and finished runs.

    `page` is its report, None where it has none, or with `broken`, one that cannot be read: a sentence.
    """

    place: str
    folder: Path
    is_folder: bool
    page: pages.Page | None
    broken: str | None = None

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What the report says about its origin, else the folder; empty where neither does."""
        found = table_of({} if self.page is None else self.page.data.get(provenance.ELEMENT))
        return found or digests_of(self.folder)

    def digests(self) -> Mapping[str, str]:
        """The digest of each run, by id."""
        return table_of(self.provenance.get("runs"))

    def tables(self, name: str) -> pl.DataFrame:
        """`flows` or `links`, with the digits that the report has where there is no folder; empty where it has none."""
        if self.is_folder:
            path = self.folder / f"{name}.parquet"
            return pl.read_parquet(path) if damage.is_readable(path) else pl.DataFrame()
        rows = pages.rows({} if self.page is None else self.page.data.get(f"{pages.TABLE}{name}", {}))
        frame = pl.DataFrame(rows, infer_schema_length=None)
        first = ["experiment", "run", "engine", "trial"]
        return frame.select(*first, pl.exclude(first)) if rows else frame

    def of_another_build(self, key: str = "") -> str | None:
        """A sentence where another build than this one wrote it, or with other libraries, else None.

        `key` is a library that counts, too.
        """
        build, version, libraries = (self.provenance.get(name) for name in ("build", "l4slab", "libraries"))
        if not build or not isinstance(libraries, dict):
            return "it does not say which build of l4slab wrote it; versions before 0.3 do not"
        names = ("polars", "duckdb", *filter(None, [key]))
        theirs, ours = ({name: one.get(name) for name in names} for one in (libraries, digests.libraries()))
        if build == digests.build() and theirs == ours:
            return None
        there, here = (" and ".join(f"{name} {one}" for name, one in of.items()) for of in (theirs, ours))
        remedy = f"pip install {' '.join(f'{name}=={one}' for name, one in {'l4slab': version, **theirs}.items())}"
        if version == _core.version() and build != digests.build():
            remedy += " (of a version in development: its commit)"
        return (
            f"l4slab {version} (build {build}) with {there} wrote it, and this is l4slab {_core.version()} (build "
            f"{digests.build()}) with {here}; the right one is: {remedy}"
        )


def read(place: str, scratch: Path) -> Given:
    """What is at this place. `scratch` takes the experiment files of a report. Raises InputError."""
    if remote.is_url(place):
        raise InputError("is a URL, and verify reads files of this machine; copy the folder or the page", file=place)
    path = paths.usable(place)
    if path.is_dir():
        return _folder(place, path)
    if not path.is_file():
        raise InputError(f"is neither a folder nor a file; {_REMEDY}", file=place)
    if path.name == pages.FILE and (path.parent / "experiments").is_dir() and (path.parent / "parts").is_dir():
        return _folder(str(path.parent), path.parent)
    page = _page(path)
    found = page.data.get(provenance.ELEMENT)
    if not isinstance(found, dict) or not isinstance(found.get("files"), dict) or not found.get("runs"):
        raise InputError(
            "does not hold its experiment files and digests, as reports of before 0.3; give the folder", file=place
        )
    if found.get("left_out"):
        named = ", ".join(map(str, found["left_out"]))
        raise InputError(f"is too small a place for {named}, which its runs need; give the folder", file=place)
    _unpack(found["files"], scratch / "experiments", place)
    (scratch / SIGN).touch()
    return Given(place, scratch, False, page)


def _folder(place: str, folder: Path) -> Given:
    store = Store(folder)
    store.check_kinds()
    if not store.experiment_files():
        raise InputError(f"is not a results folder; {_REMEDY}", file=place)
    report = folder / pages.FILE
    try:
        return Given(place, folder, True, _page(report) if report.is_file() else None)
    except InputError as error:
        return Given(place, folder, True, None, error.message)


def _page(path: Path) -> pages.Page:
    try:
        return pages.read(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise paths.told(error, path) from None
    except ValueError as error:
        raise InputError(f"is not a report of l4slab ({error}); {_REMEDY}", file=path) from None


def _unpack(files: Mapping[str, Any], folder: Path, place: str) -> None:
    for name, packed in files.items():
        file = folder / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise InputError(f"holds a file {shown(name)}, which would be outside of its folder", file=place)
        try:
            content = provenance.unpacked(packed)
        except (ValueError, TypeError):
            raise InputError(f"holds {name} in a form that cannot be unpacked; give the folder", file=place) from None
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def of_files(given: Given) -> Iterator[Finding]:
    """Experiment files that changed after their runs, and files that the report holds and the folder has not."""
    folder = given.folder / "experiments"
    if given.broken is not None:
        yield Finding(pages.FILE, (), given.broken, "a report")
    there, here = given.provenance, digests_of(given.folder)
    for key in ("l4slab", "build", "libraries") if given.is_folder and here else ():
        if here.get(key) != there.get(key):
            yield Finding(DIGESTS, (key,), shown(here.get(key)), f"{shown(there.get(key))}, as {pages.FILE} says")
    kept = table_of(there.get("files"))
    for name, packed in kept.items() if given.is_folder else ():
        path, file = folder / name, f"experiments/{name}"
        try:
            wanted = provenance.unpacked(packed)
        except (ValueError, TypeError):
            continue  # the page differs, which is found there
        if not path.is_file():
            yield Finding(file, (), "nothing", f"a file, which {pages.FILE} holds")
        elif path.read_bytes() != wanted:
            texts = (path.read_bytes().decode("utf-8", "replace"), wanted.decode("utf-8", "replace"))
            yield of_texts(file, (_line(*texts),), *texts)
    for path in Store(given.folder).experiment_files():
        try:
            of = json.loads(path.with_suffix(".runs").read_bytes())["of"]
        except (OSError, ValueError, KeyError, TypeError):
            yield Finding(f"experiments/{path.stem}.runs", (), "nothing that can be read", "the ids of the runs")
            continue
        if of != digest_of_file(path.read_bytes()) and path.name not in kept:
            yield Finding(f"experiments/{path.name}", ("SHA-256",), digest_of_file(path.read_bytes()), of)


def _line(found: str, again: str) -> str:
    lines = enumerate(zip(found.splitlines(), again.splitlines(), strict=False), 1)
    return next((f"line {number}" for number, (a, b) in lines if a != b), "")


def planned(given: Given) -> dict[str, Run]:
    """The runs that the files describe, by the ids that they have in what was given. An id contains the build of its
    engine: those are of the build that ran it. Raises InputError.
    """
    store = Store(given.folder)
    found: dict[str, Run] = {}
    for plan in plans_of(store, store.experiment_files()):
        version = _version_of(given.folder, plan.experiment.name)
        for run in plan.runs:
            found.setdefault((run if version in (None, run.version) else replace(run, version=version)).id, run)
    return found


def _version_of(folder: Path, experiment: str) -> str | None:
    try:
        kept = json.loads((folder / "experiments" / f"{experiment}.runs").read_bytes())
        return str(kept["engines"][0][1])
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None
