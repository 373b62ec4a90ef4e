"""The simulator's core, written in Rust (crates/py)."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

class Module(TypedDict):
    """A parameter of a kernel's module, and its numbers by the option's words."""

    parameter: str
    values: list[tuple[str, str]]

class Parameter(TypedDict):
    keyword: str
    value: str
    takes: str
    default: str
    source: str
    help: str
    in_linux: bool
    module: Module | None

class Preset(TypedDict):
    keyword: str
    value: str
    sets: list[tuple[str, str]]

class Gauge(TypedDict):
    name: str
    unit: str
    help: str

class Described(TypedDict):
    """A queue or a controller: `required` is an example of what must be written."""

    name: str
    summary: str
    in_linux: bool
    parameters: list[Parameter]
    required: str
    presets: list[Preset]
    gauges: list[Gauge]
    not_modelled: list[tuple[str, str]]

class Qdisc(Described):
    """How it separates flows, also with some words; which packets it marks, and how `tc` counts overflow."""

    separation: str
    separation_with: list[tuple[str, str]]
    marking: str | dict[str, list[str]]
    overflow: str | dict[str, str]
    is_fifo: bool
    drops_waiting: bool
    limits_packets: bool

class Controller(Described):
    """`look`: its place among those of its role; `scalable_with`: options, with their value; `states`: of its state
    machine.
    """

    ecn: Literal["off", "classic", "accecn", "sce"]
    role: str
    look: int
    needs_ecn: bool
    out_of_tree: bool
    scalable_with: list[tuple[str, str]]
    states: list[str]

class Media(Described):
    """A media controller: its packets carry `ecn`; None as its role: it answers nothing."""

    ecn: Literal["not-ect", "ect0", "ect1"]
    role: str | None
    look: int

class Own(Described):
    """Of the user's own, where a controller asks for `ecn`."""

    ecn: NotRequired[str]

class Medium(Described):
    """What serves the queues of a link in place of a wire."""

    of_stations: list[str]
    changeable: list[list[str]]

class Facts(TypedDict):
    """What a queue's words say: its parameters, and of a queue of the core's how it separates flows and marks."""

    name: str
    parameters: dict[str, str]
    separation: str | None
    marks: bool | None
    splits: bool

# Rows, or values by column.
_Cell = str | int | float | bool | None
Tables = dict[str, list[dict[str, _Cell]] | dict[str, list[_Cell] | bytes]]

def simulate(run_json: str, captures: Path | None = None, title: str = "") -> Tables:
    """Run a resolved description.

    With a folder `captures`, packets are written down there, in files that call the run `title`.
    Releases the GIL. Raises ValueError with one sentence, and OSError where captures cannot be written.
    """

class Live:
    """A run that is watched and changed while it goes on."""

    def ask(self, request: str) -> str:
        """Answer a request, both JSON: {"ok": {...}} or {"refused": "one sentence"}. Releases the GIL."""

def gauges(run_json: str) -> list[str]:
    """Columns of the time series that the queues and controllers of a run add. Raises ValueError."""

def normal(run_json: str) -> str:
    """A description that runs with the same results share. Raises ValueError."""

def memory_parts(run_json: str) -> list[tuple[str, str, float, float]]:
    """The memory that a run may take, by its parts: what it is for, the name of the link, impairment or flow, bytes,
    and how many packets, rows or flows these are. Raises ValueError.
    """

def idle_completion_ms(size_bytes: int, rtt_ns: int, rate_bps: int, burst_bytes: int, mtu_bytes: int = 1500) -> float:
    """How long a TCP transfer takes on an idle path whose slowest link has this rate and burst: the handshake, slow
    start, and the rate.
    """

class FrameExperience(TypedDict):
    """What the viewer of frames has experienced."""

    frames: int  # captured in the measured interval, and their outcome is known
    late: int
    lost: int
    freezes: int
    frozen_ns: int
    media_bytes: int
    # Sum of the differences between what the encoder made in successive seconds, and of what it made in the later ones.
    rate_changes: int
    change_seconds_bytes: int

def frame_experience(
    frames: list[tuple[int, int, int | None]], deadline_ns: int, warmup_ns: int, stop_ns: int, end_ns: int
) -> FrameExperience:
    """What the viewer of frames has experienced, as the simulator counts it. `frames`: of each, in the order of
    capture, when it was captured, its bytes, and when all of it had come; all times in ns of the run.
    """

def qdiscs() -> list[Qdisc]:
    """Queue disciplines: name, summary, in_linux, required, gauges (name, unit, help), not_modelled (keyword, reason)
    and parameters (keyword, value, takes, default, source, help, in_linux, module); also how it separates flows
    (separation, separation_with), which packets it marks (marking), how `tc` counts overflow (overflow), and
    which packets it drops (is_fifo, drops_waiting, limits_packets).
    """

def controllers() -> list[Controller]:
    """The same of congestion controls; also ecn, presets (keyword, value, sets), role, look (its place among those of
    its role), needs_ecn, out_of_tree, scalable_with (options, with their value), and states.
    """

def transport() -> Described:
    """Rules of TCP in which implementations differ, as parameters: the keys of `transport` of a flow."""

def canonical_transport(options: dict[str, str]) -> list[tuple[str, str]]:
    """Those of these rules that differ from Linux's, in their canonical form. Raises ValueError."""

def media_controllers() -> list[Media]:
    """The same of media controllers; also ecn, the codepoint that their packets carry by default, role and look."""

def media() -> list[Medium]:
    """The same of media in the place of wires; also of_stations, the words in which stations may differ, and
    changeable, the keywords of each parameter that can change while the medium runs.
    """

def canonical_medium(text: str) -> tuple[str, int, int]:
    """The words of a medium with every default written out, and the rates in bit/s that queues take for those of their
    links, towards the users and from them. Raises ValueError with one sentence.
    """

def check_station(medium: str, text: str) -> str:
    """The words of a station that differs from its medium in these, with every default written out. Raises ValueError
    with one sentence.
    """

def change_medium(medium: str, text: str, is_station: bool) -> str:
    """The words of a medium, or of a station, that is changed by these while it runs. Raises ValueError with one
    sentence.
    """

def canonical_qdisc(text: str) -> str:
    """A tc qdisc string with every option and default written out. Raises ValueError with one sentence."""

def qdisc_as_read(text: str) -> str:
    """What `tc qdisc show` prints as `tc` reads it: without the place, the statistics and units that it does not take.
    Other text stays as it is.
    """

def tc_rate(text: str) -> int:
    """bit/s of a rate in tc's units. Raises ValueError with one sentence."""

def tc_size(text: str) -> int:
    """Bytes of a size in tc's units. Raises ValueError with one sentence."""

def qdisc_samples(name: str, seed: int) -> list[str]:
    """Random words of each parameter of a queue, values from its whole range; empty for an unknown name."""

def split_stab(text: str) -> tuple[str | None, str]:
    """The size table before the qdisc in the words of a link, without "stab" and with every parameter written out; None
    without. And the words of the qdisc. Raises ValueError with one sentence.
    """

def qdisc_facts(text: str) -> Facts:
    """The same as a structure: `name`, `parameters` (the words after each keyword), `separation` ("single", "coupled",
    "dual", "per-flow", "approximate", "shaper") and `marks` (whether it sets CE); the last two are None of a queue of
    the user's own. Raises ValueError with one sentence.
    """

class ChangingQdisc:
    """A queue of an experiment file while it runs. Raises ValueError for words of tc that are wrong."""

    def __init__(self, text: str) -> None: ...
    def change(self, text: str) -> str:
        """Change it by words of tc; what a run's description has of that: of another kind the canonical form, of the
        same kind what is named, as `tc qdisc change` takes it. Raises ValueError with one sentence.
        """

def policer() -> Described:
    """The parameters of a policer, as `qdiscs` has those of queues."""

def canonical_policer(text: str) -> str:
    """The words of a policer, without "police" and with every parameter. Raises ValueError with one sentence."""

def canonical_curves(text: str) -> str:
    """The curves of a class of hfsc in their full form. Raises ValueError with one sentence."""

def trees() -> list[Described]:
    """Queues that hold classes, as `qdiscs` has the others."""

def toml_position(text: str, path: Sequence[str]) -> tuple[int, int] | None:
    """Line and column, from 1, of the last part of `path` that the text has; None if it has none, or is not TOML.

    A part is a key, dotted or not, or a table of a list: its `name`, or else its number, from 0.
    """

def canonical_tree(text: str) -> str:
    """The same as `canonical_qdisc` of a queue that holds classes; of tbf, with the class that it may have."""

def lives(flow: str, seed: int, duration_ns: int) -> list[tuple[int, int]]:
    """When the flows that a flow group's events begin start and stop, in ns.

    `flow` is the group as in a run's description, in JSON. Raises ValueError with one sentence.
    """

def canonical_controller(name: str, options: dict[str, str]) -> dict[str, str]:
    """A controller's options with every default. Raises ValueError with one sentence."""

def canonical_media(name: str, options: dict[str, str]) -> dict[str, str]:
    """The same of a media controller."""

def usual_encoder(name: str, options: dict[str, str]) -> str:
    """What `encoder` of a call with this controller is where it does not say. Raises ValueError with one sentence."""

class Ack:
    """What one ACK told. Counts are segments. Good until the call returns: the next ACK is told by the same object."""

    now_ns: int
    acked: int  # newly delivered, cumulatively or by SACK
    ce: int  # of which reported as marked
    delivered: int  # totals of the connection
    delivered_ce: int
    rtt_us: int | None  # of the newest segment acknowledged
    srtt_us: int
    min_rtt_us: int
    in_flight: int
    prior_in_flight: int  # before this ACK
    lost: int  # newly found lost, and all so far
    lost_total: int
    next_departure_ns: int  # the pacing clock
    pacing_rate: int  # that TCP uses now, bytes of payload per second
    rate_delivered: int  # delivery rate: so many segments in rate_interval_ns; 0 ns: no sample
    rate_interval_ns: int
    rate_prior_delivered: int
    rate_app_limited: bool
    rate_tx_in_flight: int  # with on_lost only, else 0: in flight when that segment left, and since then
    rate_lost: int  # found lost
    rate_delivered_ce: int  # and reported as marked
    may_grow: bool  # TCP neither recovers nor reduces, and the ACK acknowledges new data
    cwnd_limited: bool  # the window held the sender back in the last round trip
    reducing: bool  # TCP is bringing the window down itself
    recovering: bool
    repairing: bool  # lost segments are being sent again
    open: bool  # no loss, reordering or mark is being dealt with
    paced: bool

class Lost:
    """A segment newly found lost. Good until the call returns."""

    now_ns: int
    tx_in_flight: int  # segments in flight when it was sent, itself included
    lost: int  # segments found lost since then, itself included
    app_limited: bool  # the window was not used up then

class Window:
    """What a controller answers with; every call finds what holds. A value that it cannot be raises TypeError."""

    cwnd: int  # segments, 1 to 1 000 000
    ssthresh: int
    pacing_rate: int | None  # bytes of payload per second; None: TCP does not pace, or at a rate of its own
    burst: int | None  # segments sent back to back when paced; None: TCP's rule
    @property
    def mss(self) -> int: ...  # payload of a full segment, bytes
    @property
    def header(self) -> int: ...  # IP and TCP headers of a segment, bytes
    @property
    def in_slow_start(self) -> bool: ...
    def slow_start(self, acked: int) -> int:
        """A segment per segment acknowledged, up to ssthresh; what is left of `acked`."""

class Fate:
    """What became of a packet of media."""

    sent_ns: int
    arrived_ns: int | None  # None: it was lost
    size: int  # of the RTP packet, bytes
    ce: bool  # it arrived marked

class Report:
    """What a feedback report told. Sizes are bytes of RTP packets."""

    now_ns: int
    rtt_ns: int  # of the newest packet that has arrived, without the time that the receiver held the report
    one_way_ns: int  # of the same packet, from the sender to the receiver
    acked: int  # by so much the newest packet that has arrived moved on; lost ones before it included
    in_flight: int  # sent after that packet
    max_in_flight: int  # the most that this was since the report before
    packets: tuple[Fate, ...]  # whose fate is new, in the order in which they were sent

class Frame:
    """The moment before the encoder makes a frame."""

    now_ns: int
    interval_ns: int  # between frames
    queue_age_ns: int  # how long the oldest frame has waited that has not left in full
    queue_bytes: int  # media that waits
    last_bytes: int  # the frame before

class Rates:
    """What a controller of media answers with; every call finds what holds. A value that it cannot be raises
    TypeError.
    """

    target_bps: float  # that the encoder should produce; l4slab keeps it between min_bps and max_bps
    pacing_bps: float | None  # of RTP packets, while frames wait; None: 1.5 times the target
    window: int | None  # bytes of RTP packets that may be in flight; None: any number
    @property
    def min_bps(self) -> float: ...  # of the encoder
    @property
    def max_bps(self) -> float: ...

class Packet:
    """A packet in a queue, until it is dropped or sent."""

    @property
    def length(self) -> int: ...  # bytes of the Ethernet frame
    @property
    def flow(self) -> int: ...  # the same for all packets of one transport flow, spread over 32 bits
    @property
    def ecn(self) -> Literal["not-ect", "ect0", "ect1", "ce"]: ...  # as it arrived
    @property
    def dscp(self) -> int: ...
    @property
    def arrived_ns(self) -> int: ...
    @property
    def band(self) -> str | None:
        """The inner queue that it is counted in; None: the queue declares none. Set in `enqueue`, of the packet that
        arrives. Raises ValueError.
        """

    @band.setter
    def band(self, name: str) -> None: ...

class Link:
    """What a queue can do, during one of its calls."""

    @property
    def now_ns(self) -> int: ...
    def drop(self, packet: Packet, overflow: bool = False) -> None:
        """Give a packet up: the new one, or any other in the queue; `overflow`: because the buffer is full."""

    def mark(self, packet: Packet) -> bool:
        """The packet will leave with CE. False: it is Not-ECT, and then is normally dropped."""

    def random(self) -> float:
        """Uniform in [0, 1), from the run's seed."""

def declare_own(kind: str, reference: str, declaration: str) -> None:
    """Make a controller (of TCP, or of "media") or a queue known by what it declares, as JSON: its runs can be
    described, and not computed. Raises ValueError.
    """

def own_info(kind: str, reference: str) -> Own | None:
    """What is declared, as an entry of `controllers()`."""

def load_class(
    kind: str,
    reference: str,
    declaration: str,
    make: Callable[..., Any],
    methods: list[str],
    constants: tuple[str, bool, int],
) -> None:
    """As declare_own, of a class whose objects `make` gives. `constants`: ecn, governs_window (of TCP) and
    report_interval_ns (of media). Raises ValueError.
    """

def load_library(kind: str, file: Path, reference: str, name: str) -> tuple[str, str]:
    """The same of a library: what it declares, and a controller's wish for ECN. Raises ValueError with what goes
    on after its name.
    """

def own_call() -> int:
    """The number of the call of code of one's own that is under way; 0: none is."""

def run_bottleneck(options: str) -> str:
    """Run a command behind a bottleneck in real time; options and answer as JSON, see l4slab.engines.real.forwarder.

    The process must have one thread, and is of no other use afterwards.
    """

def drop_reasons() -> list[str]: ...
def packets_of_log(path: Path, wanted: str, folder: Path) -> str:
    """Write packets.N.bin of each link of a log; the answer as JSON, with the connections of programs."""

def pass_packets(
    run_json: str, packets: list[tuple[int, int, int, int, int, int, int]], end_ns: int
) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    """What the path of a run does with packets, in the order of their times. Each is when it is sent (ns), its flow
    group, the bytes of its frame and of its payload, ECN field, DSCP, and the payload of each of its segments, 0 for
    one without. Those that left before `end_ns`, and those that were lost: when, the place among all that were sent,
    the ECN field (or the hop of a loss). Raises ValueError with one sentence.
    """

def replay_log(path: Path) -> str:
    """Compare a log of a bottleneck with the simulator; the answer as JSON."""

def version() -> str: ...
def source_hash() -> str:
    """32 hex digits that change with the sources of the core, and with nothing else."""

class Endpoint:
    """A host's end of a connection under a clock from outside, ns, for packetdrill."""

    def __init__(self, cc: str, ecn: str, mss: int, timestamps: bool, settings: Mapping[str, int]) -> None:
        """`ecn` is off, classic or accecn; `mss` the payload of a full segment, bytes. Raises ValueError."""

    def start(self, now: int, is_client: bool) -> None:
        """Open the connection, or wait for a peer that does."""

    def run(self, until: int) -> None:
        """Let time pass, exclusively."""

    def deadline(self) -> int:
        """When something is to happen without anybody."""

    def write(self, now: int, size: int) -> None: ...
    def finish(self, now: int) -> None: ...
    def abort(self) -> None: ...
    def set_option(self, setting: int) -> None:
        """Another `tcp_ecn_option`."""

    def is_established(self) -> bool: ...
    def arrive(self, now: int, arrival: Mapping[str, Any]) -> None:
        """A packet, by the fields of the core's `Arrival`. Raises TypeError."""

    def take_sent(self) -> list[dict[str, Any]]:
        """What was sent since the last call."""

    def info(self, now: int) -> dict[str, int]:
        """Fields of `tcp_info` without `tcpi_`."""

    def received(self) -> tuple[int, int, str]:
        """Bytes that have arrived, segments in sequence, and how ECN was negotiated."""

class Lab:
    """A run whose endpoints are outside. Ends are numbers, two of each endpoint: near and far. Codepoints are the two
    bits of the header. Raises ValueError with one sentence.
    """

    def __init__(self, run_json: str) -> None: ...
    def endpoints(self) -> list[str]:
        """Their names, in the order of their ends."""

    def now_ns(self) -> int: ...
    def most_bytes(self, end: int) -> int: ...
    def send(self, end: int, data: bytes, ecn: int, dscp: int | None, ports: tuple[int, int]) -> None: ...
    def receive(self, end: int) -> tuple[bytes, int, int, tuple[int, int]] | None:
        """Bytes, codepoint, DSCP and ports of the packet that has arrived longest ago."""

    def wake_at(self, at_ns: int, token: int) -> None: ...
    def cancel(self, token: int) -> None: ...
    def step(self, until_ns: int) -> tuple[bool, int] | None:
        """The next event before that time: whether a packet has arrived, and the end or the timer's token."""

    def sum(self, end: int) -> tuple[int, int, int, int, int]:
        """Packets of both ends of this flow: sent, copied by the network, arrived, lost, in flight."""

    def finish(self) -> dict[str, Any]:
        """End the run; the same as `simulate` returns."""

class Steps:
    """A run that goes on in steps, while somebody outside holds the window of a flow (cc = "held-ect1#steps" or
    "held#steps") or the parameters of a queue.
    """

    def __init__(self, run_json: str) -> None:
        """Begin. Raises ValueError with one sentence."""

    def advance(self, step_ns: int) -> int:
        """Run on; the time that has been reached, ns."""

    def step(self, step_ns: int, cwnd: int) -> tuple[int, int, int, int, int, int, int, int]:
        """Run on with a window of the flow, segments, which holds from its next ACK on. The time, ns, and what its
        newest ACK told: payload of a segment, bytes; segments delivered, marked and lost so far; smoothed and least
        RTT, us; segments in flight.
        """

    def queues(self, link: str) -> list[tuple[str, int, int, int, int, int, int, int]]:
        """The queues of a link since this was last asked, first all of it: name, packets that arrived, left, were
        marked and dropped, bytes that left, the sum of their times in the queue in ns, packets that wait. Raises
        ValueError.
        """

    def change_qdisc(self, link: str, qdisc: str) -> None:
        """Other parameters of a link's queue while packets wait (`tc qdisc change`). Raises ValueError."""
