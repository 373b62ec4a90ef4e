"""What is compared: files, results folders, engines, builds of a kernel, stacks, and a kernel's controllers.

A side has trials, and is named as the user named it. The model beside both is the experiment of a file on the engine
`sim`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import polars as pl

from l4slab import experimentfile, stacks
from l4slab.base.errors import InputError
from l4slab.base.paths import usable
from l4slab.base.values import Keys, Value
from l4slab.engines.registry import DEFAULT, ENGINES, KERNEL, get_engine
from l4slab.results.differences import read
from l4slab.sweep import levels_of
from l4slab.tools.matrix import fifo, rows
from l4slab.tools.search.documents import tables
from l4slab.tools.why.quantities import Trial, table_of

# A controller of the kernel, `kernel:cubic`.
_KERNEL_CC = "kernel"
# Where no file is given for a stack: the path of `l4slab matrix`.
_RATE, _RTT = "20Mbit", "20ms"
TESTED = "tested"


@dataclass(frozen=True)
class Side:
    """One of the two. `document` is the experiment, `file` where it is; without trials it has not run yet."""

    name: str
    engine: str
    document: Keys
    file: Path
    trials: Sequence[Trial] = ()
    stands_for: Keys | None = None

    @property
    def model(self) -> Keys:
        """The same for the simulator, where a program stands for one of its controllers."""
        return self.document if self.stands_for is None else self.stands_for

    @property
    def is_simulated(self) -> bool:
        return get_engine(self.engine).is_exact


def sides(a: str, b: str, file: Path | None, changes: Mapping[str, Value]) -> tuple[Side, Side]:
    """The two sides. `changes` as in `run --set`. Raises InputError."""
    return _side(a, file, changes), _side(b, file, changes)


def _side(name: str, file: Path | None, changes: Mapping[str, Value]) -> Side:
    head, colon, cc = name.partition(":")
    if head in ENGINES:
        if file is None:
            raise InputError(f"{name} is an engine; give the experiment FILE behind the two sides")
        return Side(name, name, *_document(file, changes))
    if colon and cc and (head in (_KERNEL_CC, *stacks.names()) or "/" in head):
        return _of_stack(name, head, cc, file, changes)
    path = Path(name)
    if path.is_dir():
        return _of_folder(name, usable(path))
    if path.is_file():
        return Side(name, DEFAULT, *_document(path, changes))
    raise InputError(
        f"{name} is no side; give an experiment file, a results folder, an engine (sim, linux, linux:NAME), "
        "STACK:CC or kernel:CC"
    )


def _document(file: Path, changes: Mapping[str, Value]) -> tuple[Keys, Path]:
    experiment = experimentfile.load(file, changes=changes)
    if experiment.is_study:
        raise InputError("is a study, which describes no run; give an experiment file", file=file)
    several = [factor for factor, levels in levels_of(experiment).items() if len(levels) > 1]
    if several:
        raise InputError(
            f"has several levels; choose one, such as --set {several[0]}={levels_of(experiment)[several[0]][0]}",
            file=file,
            key=f"sweep.{several[0]}",
        )
    return cast(Keys, tomllib.loads(experiment.source.decode())), file


def _of_folder(name: str, folder: Path) -> Side:
    found = {table: read(folder, table) for table in ("flows", "links")}
    found["series"] = pl.read_parquet(folder / "series.parquet")
    files = sorted((folder / "experiments").glob("*.toml"))
    labels = found["flows"].columns
    factors = labels[labels.index("trial") + 1 : labels.index("flow")]
    cells = found["flows"].select("experiment", *factors).n_unique()
    if len(files) != 1 or cells != 1:
        raise InputError(f"has {cells} cells; give a folder with the results of one", file=name)
    engine = str(found["flows"]["engine"][0])
    return Side(name, engine, cast(Keys, tomllib.loads(files[0].read_text())), files[0], table_of(found))


def _of_stack(name: str, head: str, cc: str, file: Path | None, changes: Mapping[str, Value]) -> Side:
    document, place = _document(file, changes) if file is not None else (_usual(cc), Path("why.toml"))
    flow = next(iter(tables(document, "flow").values()))
    if head == _KERNEL_CC:
        return Side(name, KERNEL, _with_flow(document, flow | {"cc": cc}), place)
    (row,) = rows([name])
    kept: Keys = {key: flow[key] for key in ("name", "rtt", "path", "reverse_path", "start", "stop") if key in flow}
    program = _with_flow(document, {**kept, "kind": "program", "stack": row.given, "cc": cc})
    return Side(name, KERNEL, program, place, (), _with_flow(document, kept | {"cc": cc}))


def _with_flow(document: Keys, flow: Keys) -> Keys:
    others = list(tables(document, "flow").values())[1:]
    return {**document, "flow": [flow, *others]}


def _usual(cc: str) -> Keys:
    return {
        "duration": "30s",
        "warmup": "5s",
        "trials": 5,
        "start_jitter": _RTT,
        "link": {"bottleneck": {"rate": _RATE, "qdisc": fifo(_RATE, _RTT)}},
        "flow": [{"name": TESTED, "cc": cc, "rtt": _RTT}],
    }
