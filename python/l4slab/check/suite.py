"""The suite's experiments, with the congestion control that is judged put in."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from l4slab import sweep
from l4slab.claims import Claim
from l4slab.engines import LackingError, get_engine
from l4slab.errors import InputError, suggest
from l4slab.experiment import Experiment, load, to_toml
from l4slab.studies import requirements

# In the files: `cc = "{controller}"`, and what `controller` is in [let].
_NAME = "controller"
_PLACEHOLDER = f"{{{_NAME}}}"


@dataclass(frozen=True)
class Suite:
    """Experiments for one congestion control, the claims that they make, and why some will not be measured."""

    cc: str
    options: Mapping[str, str]
    experiments: list[Experiment]
    claims: list[tuple[str, Claim]]  # with the experiment's name, in the order of the files
    lacking: dict[str, str] = field(default_factory=dict)  # by experiment


def suite(cc: str, options: Mapping[str, str] | None = None, only: Sequence[str] = ()) -> Suite:
    """The requirements, or `only` those of these ids, for this congestion control. Raises InputError."""
    options = options or {}
    _check_controller(cc, options)
    documents = {file.stem: tomllib.loads(file.read_text(encoding="utf-8")) for file in requirements()}
    known = [claim["id"] for document in documents.values() for claim in document["claim"]]
    for name in only:
        if name not in known:
            raise InputError(f"--item {name} is not a requirement; {suggest(name, known)}")
    experiments, claims = [], []
    if only:  # figures compare experiments of which some are left out
        documents = {name: {**document, "figure": []} for name, document in documents.items()}
    for name, document in documents.items():
        document["claim"] = [claim for claim in document["claim"] if not only or claim["id"] in only]
        if not document["claim"]:
            continue
        if _NAME in document.get("let", {}):
            document["let"][_NAME] = "'" + cc.replace("'", "''") + "'"
            _set_options(document, options)
        else:
            document["title"] = f"l4slab check {cc}{told(options)}"
        experiments.append(Experiment.from_toml(to_toml(document), name))
        claims += [(name, claim) for claim in experiments[-1].claims]
    return Suite(cc, dict(options), experiments, claims)


def told(options: Mapping[str, str]) -> str:
    """Options as they are given on the command line."""
    return "".join(f" --option {name}={value}" for name, value in options.items())


def possible(asked: Suite, engine: str) -> Suite:
    """The suite without the experiments that the engine cannot run, which `lacking` tells.

    Raises InputError where it has not got the congestion control.
    """
    runner = get_engine(engine)
    (alone,) = sweep.expand(load(_alone(asked.cc, asked.options), {}), engine).runs
    try:
        runner.check(alone.description)
    except ValueError as error:
        raise InputError(f"cannot be checked with --engine {engine}: {error}", key=asked.cc) from None
    kept: list[Experiment] = []
    lacking: dict[str, str] = {}
    for experiment in asked.experiments:
        plan = sweep.expand(load(experiment, {}), engine)
        reasons: dict[str, bool] = {}  # whether other runs of the experiment are possible
        ran = 0
        for run in plan.runs:
            try:
                runner.check(run.description)
                ran += 1
            except LackingError as error:
                reasons.setdefault(str(error), True)
            except ValueError as error:
                reasons[str(error)] = False
        if reasons:
            lacking[experiment.name] = f"engine {engine}: {next(iter(reasons))}"
        if all(reasons.values()) and (ran or not plan.runs):
            kept.append(experiment)
    return replace(asked, experiments=kept, lacking=lacking)


def _check_controller(cc: str, options: Mapping[str, str]) -> None:
    """Raises InputError unless there is such a congestion control with these options."""
    try:
        sweep.expand(load(_alone(cc, options), {}), "sim")
    except InputError as error:
        raise InputError(error.message.removeprefix('flow "tested": ')) from None


def _alone(cc: str, options: Mapping[str, str]) -> dict[str, Any]:
    """An experiment of nothing but the congestion control."""
    flow: dict[str, Any] = {"name": "tested", "cc": cc, "rtt": "10ms"} | ({"options": dict(options)} if options else {})
    return {"duration": "1s", "link": {"bottleneck": {"rate": "1Mbit", "qdisc": "pfifo"}}, "flow": [flow]}


def _set_options(document: dict[str, Any], options: Mapping[str, str]) -> None:
    """Beside each place where the congestion control is named."""
    if not options:
        return
    for flow in document["flow"]:
        if flow.get("cc") == _PLACEHOLDER:
            flow["options"] = dict(options)
    for levels in document.get("sweep", {}).values():
        for level in levels:
            if isinstance(level, dict):
                named = [key for key, value in level.items() if key.endswith(".cc") and value == _PLACEHOLDER]
                level |= {f"{key.removesuffix('.cc')}.options": dict(options) for key in named}
