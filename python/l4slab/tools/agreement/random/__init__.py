"""`l4slab agree --random N`: scenarios drawn from the whole language, run on simulator and kernel, and judged.

The scenarios are points of the tables `[search]` of the packaged files in `suites/random/`, or of given files. Number
and seed alone determine a scenario, so a longer list begins like a shorter one.

DIR/scenarios/0001.toml   each scenario, and how it was drawn
DIR/runs.jsonl            the results of each run (`random.runs`)
DIR/scenarios.parquet     a row per scenario (`SCENARIOS`)
DIR/random.parquet        a row per scenario and quantity (`QUANTITIES`)
DIR/reduced/0001.toml     the smallest scenario found in which the engines still differ
DIR/random.html           one page
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

import polars as pl
from rich.console import Console

from l4slab import experimentfile, sweep
from l4slab.api.campaign import Interrupted
from l4slab.api.experiment import to_toml
from l4slab.base import system
from l4slab.base.errors import InputError
from l4slab.base.paths import usable
from l4slab.base.progress import reporting
from l4slab.base.values import Keys
from l4slab.campaign.executors import Failure
from l4slab.campaign.remote import is_url
from l4slab.engines.registry import DEFAULT, KERNEL, get_engine
from l4slab.report.results import replace
from l4slab.tools.agreement.random import page
from l4slab.tools.agreement.random.judge import LOOKS, Row, assess
from l4slab.tools.agreement.random.runs import Runs
from l4slab.tools.agreement.random.scenarios import Found, Judged, Scenario
from l4slab.tools.search.reduce import reduce
from l4slab.tools.search.space import Space

# Seeds of scenarios are below; the simulator in the kernel's place has one from here on, so that its trials are others.
_OTHER_SEEDS = 1_000_000
# Documents that are judged to reduce one.
REDUCED = 60
# Draws of one scenario until simulator and kernel can run it.
_DRAWS = 200

SCENARIOS: dict[str, pl.DataType] = {
    "scenario": pl.String(),
    "family": pl.String(),  # the file it was drawn from
    "levels": pl.String(),
    "verdict": pl.String(),  # equivalent | different | undecided | failed
    "kernel_trials": pl.Int64(),
    "quantities": pl.Int64(),  # that were judged
    "not_equivalent": pl.Int64(),
    "worst": pl.String(),  # quantity and place
    "reason": pl.String(),  # of a run that failed
}
QUANTITIES: dict[str, pl.DataType] = {
    "scenario": pl.String(),
    **{name: pl.String() for name in ("flow", "link", "queue", "quantity")},
    "kernel": pl.Float64(),  # mean over the trials
    "simulator": pl.Float64(),
    "sd": pl.Float64(),  # of single trials, both engines together
    "margin": pl.Float64(),
    "p_equivalent": pl.Float64(),
    "p_different": pl.Float64(),
    "verdict": pl.String(),
}


def draw(files: Sequence[Path], count: int, seed: int) -> list[Scenario]:
    """The first `count` scenarios of a seed that simulator and kernel can run. Raises InputError."""
    spaces = {file.stem: Space.of(experimentfile.load(file)) for file in files}
    return [_draw(spaces, number, seed) for number in range(1, count + 1)]


def _draw(spaces: Mapping[str, Space], number: int, seed: int) -> Scenario:
    # The files take turns, each turn in another order.
    turn, place = divmod(number - 1, len(spaces))
    order = sorted(spaces)
    random.Random(f"{seed}/turn/{turn}").shuffle(order)  # noqa: S311
    family = order[place]
    rng = random.Random(f"{seed}/{number}")  # noqa: S311
    reason = ""
    for _ in range(_DRAWS):
        levels = spaces[family].draw(rng)
        document = dict(spaces[family].document(levels)) | {"seed": rng.randrange(1, _OTHER_SEEDS)}
        document["title"] = f"{document.get('title', family)}, no. {number} of seed {seed}"
        try:
            for engine in (DEFAULT, KERNEL):
                runs_of(document, engine, 1)
        except ValueError as error:
            reason = str(error)
            continue
        return Scenario(number, family, levels, document)
    raise InputError(f"has no scenario that both engines can run: {reason}", file=spaces[family].experiment.file)


def runs_of(document: Keys, engine: str, trials: int) -> list[sweep.Run]:
    """The runs of these trials. Raises ValueError where the engine cannot do them."""
    experiment = experimentfile.parse(to_toml(document).encode(), Path("scenario"), trials)
    runs = sweep.expand(experiment, engine).runs
    get_engine(engine).check(runs[0].description)
    return runs


def compare(document: Keys, engine: str, runs: Runs, trials: int) -> list[Row] | Failure:
    """Judge a document by so many trials on the kernel, or on the engine in its place: one of `LOOKS`."""
    of_simulator = runs_of(document, DEFAULT, LOOKS[trials])
    simulator = runs.trials(of_simulator)
    if isinstance(simulator, Failure):
        return simulator
    of_kernel = runs_of(document, engine, trials)
    if of_kernel[0].id == of_simulator[0].id:
        of_kernel = runs_of({**document, "seed": int(str(document.get("seed", 1))) + _OTHER_SEEDS}, engine, trials)
    kernel = runs.trials(of_kernel)
    return kernel if isinstance(kernel, Failure) else assess(kernel, simulator)


def _judge(scenario: Scenario, engine: str, runs: Runs, trials: int) -> Judged:
    rows = compare(scenario.document, engine, runs, trials)
    if isinstance(rows, Failure):
        return Judged(scenario, failure=rows.reason)
    return Judged(scenario, rows, trials)


def smaller(judged: Judged, engine: str, runs: Runs, at_most: int = REDUCED) -> Keys:
    """The smallest document found in which the engines still differ where they differ most in this one."""
    place = judged.rows[0].place

    def differs(document: Keys) -> bool:
        # What two trials find equivalent needs no more of them.
        for trials in sorted(LOOKS)[:2]:
            rows = compare(document, engine, runs, trials)
            if isinstance(rows, Failure):
                return False
            verdicts = {row.place: row.verdict for row in rows}
            if verdicts.get(place) != "undecided":
                break
        return verdicts.get(place) == "different"

    return reduce(judged.scenario.document, differs, at_most, keep=("seed",))


def agree(
    files: Sequence[Path],
    count: int,
    seed: int,
    out: Path | str,
    engine: str = KERNEL,
    workers: int | None = None,
    console: Console | None = None,
    reduced: bool = True,
    told: Callable[[Judged], None] = lambda _: None,
) -> Found:
    """Draw scenarios, run and judge them, and reduce those that differ; runs that are known are not repeated.

    `told` hears of each time that one is judged.

    Raises InputError, StoreError, and Interrupted on Ctrl-C.
    """
    if is_url(out):
        raise InputError(f"--out {out} is not a folder; give one of this machine")
    folder = usable(out)
    if folder.exists() and not folder.is_dir():
        raise InputError("is a file; give --out a folder", file=folder)
    if workers is not None and workers < 1:
        raise InputError(f"--workers {workers} is not possible; give 1 or more")
    workers = workers or system.cores()
    scenarios = draw(files, count, seed)
    get_engine(engine).require()
    (folder / "scenarios").mkdir(parents=True, exist_ok=True)
    for scenario in scenarios:
        _write(folder / "scenarios" / f"{scenario.name}.toml", scenario, seed)
    runs = Runs(folder / "runs.jsonl")
    judged: dict[int, Judged] = {}
    with reporting(console or Console(quiet=True), count, workers) as reporter:
        for one in _each(scenarios, engine, runs, workers):
            judged[one.scenario.number] = one
            told(one)
            reporter.update(sum(one.is_settled for one in judged.values()))
    found = Found(folder, seed, engine, [judged[scenario.number] for scenario in scenarios])
    write(found)
    for one in found.judged if reduced else ():
        path = folder / "reduced" / f"{one.scenario.name}.toml"
        if one.verdict == "different" and not path.exists():
            path.parent.mkdir(exist_ok=True)
            text = f"# {path.stem} of seed {seed}, {one.rows[0]}\n" + to_toml(smaller(one, engine, runs))
            replace(path, lambda file, text=text: file.write_text(text, encoding="utf-8"))
    return found


def _each(scenarios: Sequence[Scenario], engine: str, runs: Runs, workers: int) -> Iterator[Judged]:
    """Every scenario once for each look that it needs, those with the fewest trials first."""
    executor = ThreadPoolExecutor(workers, thread_name_prefix="l4slab")
    try:
        for look in LOOKS:
            waiting: set[Future[Judged]] = {executor.submit(_judge, one, engine, runs, look) for one in scenarios}
            scenarios = []
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for one in (future.result() for future in done):
                    if one.verdict == "undecided":
                        scenarios.append(one.scenario)
                    yield one
            scenarios.sort(key=lambda one: one.number)
    except KeyboardInterrupt:
        raise Interrupted("interrupted; finished runs are kept, and the same command does the rest") from None
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _write(path: Path, scenario: Scenario, seed: int) -> None:
    levels = ", ".join(f"{name} = {level}" for name, level in scenario.levels.items())
    text = f"# Drawn from {scenario.family}.toml, seed {seed}, number {scenario.number}: {levels}\n"
    replace(path, lambda file: file.write_text(text + to_toml(scenario.document), encoding="utf-8"))


def write(found: Found) -> None:
    """The tables and the page."""
    scenarios, quantities = [], []
    for one in found.judged:
        name, wrong = one.scenario.name, [row for row in one.rows if row.verdict != "equivalent"]
        scenarios.append({
            "scenario": name,
            "family": one.scenario.family,
            "levels": ", ".join(f"{key} = {level}" for key, level in one.scenario.levels.items()),
            "verdict": one.verdict,
            "kernel_trials": one.kernel_trials,
            "quantities": len(one.rows),
            "not_equivalent": len(wrong),
            "worst": str(wrong[0].place) if wrong else None,
            "reason": one.failure,
        })  # fmt: skip
        quantities += [
            {"scenario": name, **row.place._asdict()} | {key: getattr(row, key) for key in list(QUANTITIES)[5:]}
            for row in one.rows
        ]
    for file, rows, schema in (("scenarios", scenarios, SCENARIOS), ("random", quantities, QUANTITIES)):
        table = pl.DataFrame(rows, schema=schema)
        replace(found.folder / f"{file}.parquet", table.write_parquet)
    page.write(found)
