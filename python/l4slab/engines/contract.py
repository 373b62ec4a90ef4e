"""The interface of an engine: a function from a run to a recording, with a description of itself and its cost."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote

from l4slab import _core
from l4slab.base.code import Kind
from l4slab.base.errors import InputError, L4slabError
from l4slab.base.run import Run as Description

if TYPE_CHECKING:
    import polars as pl


# Of the rows of a time series, which are in the core, in Python's lists and in tables at once (measured).
_TABLES = 3.5


class EngineError(L4slabError):
    """The engine broke off a run that it should have finished."""


class LackingError(ValueError):
    """The engine lacks something that this run needs. It can still do other runs of the sweep."""


class MissingError(ValueError):
    """A run needs something that can be installed on this machine: a stack, a program, a congestion control of the
    kernel. All mistakes of the files are reported before it.
    """


@dataclass(frozen=True)
class Recording:
    """The results of one run: the tables without their label columns (see `l4slab.base.metrics`)."""

    flows: pl.DataFrame
    members: pl.DataFrame
    links: pl.DataFrame
    series: pl.DataFrame
    transfers: pl.DataFrame
    histograms: pl.DataFrame
    losses: pl.DataFrame


@dataclass(frozen=True)
class Captures:
    """The folder for a run's packet captures, which appears when they are complete, and the run's title in them."""

    folder: Path
    title: str


# lab/RUN/programs/FLOW-KIND.parquet, of a stack with a qlog: its packets at each link, and the log on their clock.
PACKETS, LOG = "packets", "log"


def file_name(flow: str) -> str:
    """A flow's name as the simulator writes it into the names of captures."""
    return quote(flow, safe="+").replace(".", "%2E").replace("~", "%7E")


@dataclass(frozen=True)
class Finding:
    """A line of `l4slab doctor`; where it is not `ok`, `text` says what to do.

    What is `absent` is needed by some commands only, and is no fault of the machine.
    """

    what: str
    ok: bool
    text: str
    absent: bool = False


@dataclass(frozen=True)
class Part:
    """A part of the memory of a run: what it is for (`Part` in crates/core/src/footprint.rs), the name of the link,
    impairment or flow, bytes, and how many packets, rows or flows these are.
    """

    kind: str
    name: str
    size: float
    count: float


@dataclass(frozen=True)
class Work:
    """The size of some runs: their number, the time that passes in them, the packets that cross their links (a packet
    counts at each link), the processor time that the simulator takes for them, and how many of the packets are of
    programs, about, and the time that passes in calls.
    """

    runs: int
    run_s: float
    packets: float
    simulator_s: float
    program_packets: float = 0.0
    calls_s: float = 0.0


# Columns of the samples on the page of `l4slab live`, beside those of the time series.
LIVE_MEMBERS = ("time_s", "flow", "member", "goodput_mbps", "cwnd_packets", "srtt_ms")
LIVE_TRANSFERS = (
    "flow", "kind", "start_s", "size_bytes", "completion_ms", "response_ms", "ideal_ms", "slowdown", "retransmits",
)  # fmt: skip


@dataclass(frozen=True)
class Live:
    """An engine on the page of `l4slab live`: its class (see `l4slab.live.session`), what the page calls it, whether
    flows can begin while it runs, how much memory its process may use (None: the page's limit, 0: no limit), and a
    sentence why it is not there, or None.
    """

    place: str
    title: str = ""
    adds_flows: bool = True
    memory_bytes: int | None = None
    lacking: Callable[[], str | None] = lambda: None


class Engine(ABC):
    """An engine. `l4slab.engines.registry` has its line; nothing else knows its name.

    `name` and `version()` are part of every run's id. The rest of the attributes are the same for all its variants.
    """

    name: str  # as --engine has it, with the variant: "linux:mine"
    title: ClassVar[str]  # for people: "simulator"
    virtual_time: ClassVar[bool] = True  # False: a run takes as long as it lasts, and others beside it disturb it
    is_exact: ClassVar[bool] = False  # the same description gives the same bits
    is_reference: ClassVar[bool] = False  # it shows what really happens, so a model is compared with it
    keeps_files: ClassVar[bool] = False  # `execute` writes into `keep`
    captured_bytes: ClassVar[float] = 60  # of captures, for each packet and half an ACK
    quick_s: ClassVar[float] = 60  # processor time of `l4slab check --quick`
    live: ClassVar[tuple[str, Live] | None] = None  # with the name that the page has for it

    def __init__(self, variant: str = "") -> None:
        """Raises InputError for an unknown variant."""
        if variant:
            raise InputError(f'--engine {self.name}:{variant} is not an engine; write "{self.name}"')

    @classmethod
    def variants(cls) -> list[str]:
        """The variants of this machine: what may follow the name and a colon."""
        return []

    def lacking(self) -> str | None:
        """A sentence where this machine cannot run it: what is missing, and how to get it."""
        return None

    def require(self) -> None:
        """Raises InputError where this machine cannot run it."""
        if (sentence := self.lacking()) is not None:
            raise InputError(sentence)

    @abstractmethod
    def version(self) -> str:
        """16 hex digits that change with whatever decides the results besides the run's description: the code that
        computes and records them. Empty where there is nothing to run with.
        """

    def knows(self, kind: Kind, name: str) -> bool:
        """Whether it has a congestion control or a queue of this name that the core does not define; a queue's name
        may have options behind it. Raises ValueError with one sentence where it has the queue and not these options.
        """
        del kind, name
        return False

    @abstractmethod
    def check(self, description: Description) -> None:
        """Raises ValueError with one sentence if this engine cannot do the run, LackingError if it could do other runs
        of the sweep, MissingError if only this machine cannot do it yet.
        """

    @abstractmethod
    def columns(self, description: Description) -> dict[str, pl.Schema]:
        """The columns of the tables that this run will give, without running it in full."""

    def normal(self, run_json: str) -> str:
        """The same text for runs whose results are the same, apart from columns that have no value."""
        return run_json

    @abstractmethod
    def estimate(self, work: Work) -> float:
        """Processor seconds that it takes for these runs."""

    def memory(self, run_json: str) -> list[Part]:
        """The memory that this run may need while it is computed, by its parts: by default what the simulator needs,
        which holds the same packets. Raises ValueError for a run that the core cannot read.
        """
        parts = [Part(*part) for part in _core.memory_parts(run_json)]
        return [replace(part, size=_TABLES * part.size) if part.kind == "samples" else part for part in parts]

    @abstractmethod
    def execute(self, run_json: str, keep: Path | None = None, captures: Captures | None = None) -> Recording:
        """Run it. Thread-safe. What a person may want to look at besides the tables goes into the folder `keep`.
        With `captures`, each packet is written down.

        Raises ValueError with one sentence for a description that it cannot run, EngineError where it breaks off.
        """

    def examine(self) -> Iterator[Finding]:
        """Its lines in `l4slab doctor`. A missing engine is no defect."""
        sentence = self.lacking()
        yield Finding(self.name, True, sentence or f"build {self.version()}", absent=sentence is not None)

    @classmethod  # noqa: B027  (an engine without processes has nothing to do)
    def stop(cls) -> None:
        """End at once the processes that its runs have started."""


def refuse_precision(description: Description, engine: str) -> None:
    """Raises ValueError for a run that is to end when it is precise, for an engine that looks at its results later."""
    if "precision" in description:
        raise ValueError(
            f"the {engine} engine knows its results only after a run, so it cannot end it by precision; leave "
            "precision out, or use the sim engine"
        )


def refuse_endpoints(description: Description, engine: str) -> None:
    """Raises ValueError for a run with ends that no engine has."""
    for flow in description["flows"]:
        if flow["kind"] == "endpoint":
            raise ValueError(
                f'flow "{flow["name"]}": the {engine} engine has no kind = "endpoint", whose ends are in a test; '
                "use l4slab.Lab in Python, or Lab of the crate l4slab"
            )


def digest(*parts: str | Path) -> str:
    """16 hex digits of texts and of the contents of source files, whose line endings do not count."""
    whole = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part.read_bytes().replace(b"\r\n", b"\n")
        whole.update(hashlib.sha256(content).digest())
    return whole.hexdigest()[:16]
