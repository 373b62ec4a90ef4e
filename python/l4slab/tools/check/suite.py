"""The suite's experiments, with the congestion control that is judged put in."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from l4slab import _core, stacks, sweep
from l4slab.api import campaign
from l4slab.api.experiment import Experiment, load, to_toml
from l4slab.base.code import is_code
from l4slab.base.errors import InputError, suggest
from l4slab.base.packaged import queue_requirements, requirements
from l4slab.base.progress import duration_text
from l4slab.base.values import Keys
from l4slab.campaign.estimate import longest
from l4slab.engines.contract import LackingError, MissingError
from l4slab.engines.registry import DEFAULT, KERNEL, get_engine
from l4slab.results.claims import Claim, quoted
from l4slab.tools.check import programs, queues
from l4slab.tools.check.programs import Place, Program

# In the files: `cc = "{controller}"`, and what `controller` is in [let].
_NAME = "controller"
_PLACEHOLDER = f"{{{_NAME}}}"
# Files about the states of BBR's draft.
_OF_STATES = "bbr-"


@dataclass(frozen=True)
class Suite:
    """Experiments for one congestion control or queue, the claims that they make, and why some will not be measured."""

    cc: str  # as it is told, of a program its name, or the queue
    tested: Keys  # keys of a flow with it
    experiments: list[Experiment]
    claims: list[tuple[str, Claim]]  # with the experiment's name, in the order of the files
    lacking: dict[str, str] = field(default_factory=dict)  # by experiment
    apart: dict[str, str] = field(default_factory=dict)  # by experiment, why it is not meant for this one
    link: Keys | None = None  # keys of a link with the queue that is judged; None: a congestion control is
    let: Keys = field(default_factory=dict)  # values that they name

    @property
    def kind(self) -> Literal["congestion control", "queue"]:
        """What is judged."""
        return "queue" if self.link is not None else "congestion control"


def suite(
    cc: str | None,
    options: Mapping[str, str] | None = None,
    only: Sequence[str] = (),
    program: Program | None = None,
    media: bool = False,
) -> Suite:
    """The requirements, or `only` those of these ids, for this congestion control or program. Raises InputError.

    With a `program`, `cc` is the congestion control of its TCP connections; None is the kernel's default. With `media`,
    `cc` is a congestion control for media.
    """
    options = options or {}
    if (cc or "").endswith(".toml"):
        raise InputError(f'"{cc}" is not a congestion control; to check an experiment file: l4slab run {cc} --dry-run')
    path, _, thing = (cc or "").rpartition("/")
    if path and is_code(cc or "") and (path.startswith("/") or ".." in path.split("/")):
        raise InputError(f'cc = "{cc}" is in another folder; go there: cd {path} && l4slab check {thing}')
    of_media = {one["name"] for one in _core.media_controllers()} - {one["name"] for one in _core.controllers()}
    if not media and program is None and cc in of_media:
        raise InputError(f'cc = "{cc}" is a congestion control for media; judge it with: l4slab check --media {cc}')
    if media and program is not None:
        raise InputError("--media judges a congestion control of the simulator; leave the program out")
    alone = _controller(cc or "", options) if program is None else program.flow(cc)
    if media:
        alone = {"kind": "media", **alone, "rate_max": "1500kbit"}
    if program is not None and options:
        raise InputError("--option is of a congestion control; tell the program in its command")
    _check(alone)
    told_as = cc or "" if program is None else program.name(cc)
    experiments, claims, lacking, apart = [], [], {}, {}
    for name, document in _documents(requirements(media), only).items():
        if name.startswith(_OF_STATES) and (reason := _no_states(cc or "", program)) is not None:
            apart[name] = reason
        elif name.startswith(_OF_STATES) and program is not None and (reason := _not_logged(cc, program)):
            lacking[name] = reason
        elif _NAME not in document.get("let", {}):
            document["title"] = f"l4slab check {'--media ' if media else ''}{told_as}{told(options)}"
        elif program is None:
            document["let"][_NAME] = quoted(cc or "")
            # Losses of a call are judged, its rate is that of the media, and all controllers have the same frames.
            keys: Keys = {"repair": "none", "encoder": "even", "setup": "0ms"} if media else {}
            if options:
                keys["options"] = dict(options)
            for table, before in _places(document):
                table.update({f"{before}{key}": value for key, value in keys.items()})
        else:
            del document["let"][_NAME]
            if (reason := programs.put_in(document, _places(document), program, cc)) is not None:
                lacking[name] = reason
        experiment = Experiment.from_toml(to_toml(document), name)
        claims += [(name, claim) for claim in experiment.claims]
        if name not in lacking and name not in apart:
            experiments.append(experiment)
    return Suite(told_as, alone, experiments, claims, lacking, apart)


def suite_of_queue(queue: str, only: Sequence[str] = ()) -> Suite:
    """The requirements, or `only` those of these ids, for a queue: see `queues.keys_of`. Raises InputError."""
    link, let = queues.keys_of(queue)
    asked = Suite(queue, {"cc": "cubic"}, [], [], link=link, let=let)
    sweep.expand(load(_alone(asked.tested, link, let), {}), DEFAULT)
    for name, document in _documents(queue_requirements(), only).items():
        if queues.NAME not in document.get("let", {}):
            document["title"] = f"l4slab check --queue {queue!r}"
        elif (reason := queues.put_in(document, link, let)) is not None:
            asked.apart[name] = reason
        experiment = Experiment.from_toml(to_toml(document), name)
        asked.claims.extend((name, claim) for claim in experiment.claims)
        if name not in asked.apart:
            asked.experiments.append(experiment)
    return asked


def _documents(files: Sequence[Path], only: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The files of a suite by name, with the claims that are wanted. Raises InputError."""
    documents = {file.stem: tomllib.loads(file.read_text(encoding="utf-8")) for file in files}
    known = [claim["id"] for document in documents.values() for claim in document.get("claim", [])]
    for name in only:
        if name not in known:
            raise InputError(f"--item {name} is not a requirement; {suggest(name, known)}")
    if only:  # figures compare experiments of which some are left out
        documents = {name: {**document, "figure": []} for name, document in documents.items()}
    for document in documents.values():
        document["claim"] = [claim for claim in document.get("claim", []) if not only or claim["id"] in only]
    return {name: document for name, document in documents.items() if document["claim"]}


def _no_states(cc: str, program: Program | None) -> str | None:
    """Why the states of BBR's draft are not to be seen."""
    states = {one["name"]: one["states"] for one in _core.controllers()}
    if program is None and cc not in states:
        return "it tells no states"
    if "bbr" not in cc.lower():
        return "it is no BBR"
    if program is None and "probe_bw_up" not in states[cc]:
        return "its states are not those of the draft"
    return None


def _not_logged(cc: str | None, program: Program) -> str | None:
    """Why there is no log with the states of a program."""
    if stacks.LOG not in program.env:
        return f"it is told from a log; give --env {stacks.LOG}={{out}} for a stack that logs its states"
    stack = None if program.stack is None else stacks.find(program.stack)
    if stack is not None and stack.is_built and cc is not None and not stacks.states_of(stack.id, cc):
        return f"the log of {program.name(cc)} has no states"
    return None


def told(options: Mapping[str, str]) -> str:
    """Options as they are given on the command line."""
    return "".join(f" --option {name}={value}" for name, value in options.items())


def possible(asked: Suite, engine: str) -> Suite:
    """The suite without the experiments that the engine cannot run, which `lacking` tells.

    Raises InputError where it has not got the congestion control or the queue.
    """
    runner = get_engine(engine)
    (alone,) = sweep.expand(load(_alone(asked.tested, asked.link, asked.let), {}), engine).runs
    try:
        with suppress(MissingError):  # that is told when it is to run
            runner.check(alone.description)
    except ValueError as error:
        raise InputError(f"cannot be checked with --engine {engine}: {error}", key=asked.cc) from None
    kept: list[Experiment] = []
    lacking = dict(asked.lacking)
    for experiment in asked.experiments:
        plan = sweep.expand(load(experiment, {}), engine)
        reasons: dict[str, bool] = {}  # whether other runs of the experiment are possible
        ran = 0
        for run in plan.runs:
            try:
                with suppress(MissingError):
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


def quick(asked: Suite, engine: str, seconds: float | None = None) -> Suite:
    """The experiments that take so many seconds of processor time together, the shortest first; `lacking` names others.
    None: as many as the engine has for it. Raises InputError.

    An experiment counts by the packets that its links can carry, so the choice is the same on every machine and for
    every congestion control.
    """
    most_s = get_engine(engine).quick_s if seconds is None else seconds
    plans = campaign.plan(asked.experiments, engine)
    took = {plan.experiment.name: longest(plan.runs) for plan in plans}
    lacking, spent = dict(asked.lacking), 0.0
    for name, each in sorted(took.items(), key=lambda one: one[1]):
        spent += each
        if spent > most_s:
            lacking[name] = f"left out by --quick: up to {duration_text(each)} of processor time"
    # The figures compare experiments, of which some are left out.
    kept = [one.model_copy(update={"figures": []}) for one in asked.experiments if one.name not in lacking]
    return replace(asked, experiments=kept, lacking=lacking)


def _check(tested: Keys) -> None:
    """Raises InputError unless a flow may be so."""
    try:
        sweep.expand(load(_alone(tested), {}), KERNEL if "client" in tested else DEFAULT)
    except InputError as error:
        raise InputError(error.message.removeprefix('flow "tested": ')) from None


def _controller(cc: str, options: Mapping[str, str]) -> Keys:
    return {"cc": cc, "options": dict(options)} if options else {"cc": cc}


def _alone(tested: Keys, link: Keys | None = None, let: Keys | None = None) -> Keys:
    """An experiment of nothing but the congestion control, or the queue of a link."""
    flow: Keys = {"name": "tested", **tested, "rtt": "10ms"}
    return {
        "duration": "1s",
        "let": {"mbit": "20", **(let or {})},
        "link": {"bottleneck": {"rate": "{mbit}Mbit", "qdisc": "pfifo", **(link or {})}},
        "flow": [flow],
    }


def _places(document: Mapping[str, Any]) -> list[Place]:
    """Where the congestion control is named."""
    levels = [one for level in document.get("sweep", {}).values() for one in level if isinstance(one, dict)]
    found = [(flow, "") for flow in document["flow"]]
    found += [(level, key.removesuffix("cc")) for level in levels for key in level if key.endswith(".cc")]
    return [(table, before) for table, before in found if table.get(f"{before}cc") == _PLACEHOLDER]
