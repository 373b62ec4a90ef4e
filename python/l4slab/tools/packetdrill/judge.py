"""Runs a script against the simulator's TCP in virtual time, and says whether it did what the script says."""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any

from l4slab.tools.kerneltests import Status
from l4slab.tools.packetdrill.connection import FIELDS, START_NS, NotApplicable, Sysctls
from l4slab.tools.packetdrill.script import Call, Code, Event, Foreign, Options, Script, Segment, Shell
from l4slab.tools.packetdrill.sockets import Failed, Sockets

_TOLERANCE_US = 4000.0
_TOLERANCE_SHARE = 0.125
_PATIENCE_US = 100e6
"""How long a packet is waited for that may come at any time."""


def judge(script: Script) -> tuple[Status, int, str]:
    """pass, fail or skip (not applicable), and the line that says why."""
    run = _Run(script)
    event: Event | None = None
    try:
        for number, event in enumerate(script.events):
            run.step(number, event)
        run.finish()
    except NotApplicable as why:
        return "skip", event.line if event else 0, str(why)
    except Failed as why:
        return "fail", event.line if event else 0, str(why)
    return "pass", 0, ""


class _Run:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.tolerance = float(script.options.get("tolerance_usecs", _TOLERANCE_US))
        self.tick_us = float(script.options.get("tcp_ts_tick_usecs", 0))
        self.now, self.before, self.is_anchored = 0.0, 0.0, False
        self.sysctls = Sysctls()
        self.sockets = Sockets(self)
        self.queue: deque[tuple[float, Segment]] = deque()
        self.names: dict[str, Any] = dict(_NAMES)
        self.place = 0

    # --- time ----------------------------------------------------------------------------------

    def step(self, number: int, event: Event) -> None:
        self.place = number
        kind, what = event.when.kind, event.what
        is_anchored = isinstance(what, Segment) and what.inbound
        begin = 0.0
        if event.when.relative or kind == "any":
            begin = self.before if is_anchored and self.is_anchored else self.now
        at, until = begin + event.when.at, begin + event.when.until
        tolerance = max(self.tolerance, _TOLERANCE_SHARE * (at - self.before))
        if isinstance(what, Segment) and not what.inbound:
            self._expect(what, at if kind != "any" else self.now, until, tolerance, is_any=kind == "any")
        else:
            self._advance(max(at, self.now))
            self._do(what, begin)
        self.before, self.is_anchored = (at if kind != "any" else self.now), is_anchored

    def _advance(self, until: float) -> None:
        self.now = max(self.now, until)
        if (connection := self.sockets.connection) is not None:
            connection.end.run(self.ns)
            self._collect()
        self.sockets.look()

    @property
    def ns(self) -> int:
        return START_NS + round(self.now * 1000)

    def _collect(self) -> None:
        if (connection := self.sockets.connection) is not None:
            self.queue += (((at - START_NS) / 1000, segment) for at, segment in connection.take())

    def finish(self) -> None:
        self.sockets.finish()

    # --- events --------------------------------------------------------------------------------

    def _do(self, what: Segment | Call | Shell | Code | Foreign, begin: float) -> None:
        match what:
            case Segment():
                self.sockets.arrive(what)
            case Call():
                self.sockets.call(what, begin)
            case Shell():
                self._shell(what.text)
            case Code():
                self._code(what.text)
            case Foreign():
                raise NotApplicable(f"a packet of another protocol or with urgent data: {what.text.strip()}")
        self._collect()
        self.sockets.look()

    def _shell(self, text: str) -> None:
        for line in re.split(r"[\n;]|&&", text.replace("\\\n", " ")):
            words = line.split("#")[0].split()
            if not words or any(words[0].endswith(name) for name in _WITHOUT_EFFECT) or line.strip() in _AS_BY_DEFAULT:
                continue
            if words[0] == "tc":
                self._set_queue(words)
                continue
            pairs = re.findall(r"(?:net[./]ipv4[./])tcp_(\w+)=(\"[^\"]*\"|'[^']*'|\S+)", line)
            if not pairs:
                if words[0] in ("sysctl",) or words[0].endswith("set_sysctls.py"):
                    raise NotApplicable(f"the setting {' '.join(words[1:])}")
                raise NotApplicable(f"the command {' '.join(words)[:60]}")
            for name, value in pairs:
                self._set(name, value.strip("\"'"))

    def _set_queue(self, words: Sequence[str]) -> None:
        """`fq` paces what the host sends. A `pfifo` without a limit does nothing to it."""
        if words[-2:] != ["root", "fq"] and words[-2:] != ["root", "pfifo"]:
            raise NotApplicable(f"a queue in the host: {' '.join(words)}")
        self.sysctls = Sysctls({**self.sysctls.values, "paces": str(int(words[-1] == "fq"))})

    def _set(self, name: str, value: str) -> None:
        is_usual = value == _AS_LINUX.get(name)
        if name not in _SETTINGS and name not in _SETTINGS_WITHOUT_EFFECT and not is_usual:
            raise NotApplicable(f"the setting tcp_{name}={value}")
        self.sysctls = Sysctls({**self.sysctls.values, name: value})
        if name == "ecn_option" and self.sockets.connection is not None:
            self.sockets.connection.end.set_option(int(value))

    def _code(self, text: str) -> None:
        connection = self.sockets.connection
        if connection is None:
            raise Failed("code without a connection")
        self.names |= connection.info(self.ns) | {"tcpi_state": self.sockets.state()}
        lines = text.split("\n")
        first = next((line for line in lines if line.strip()), "")
        indent = len(first) - len(first.lstrip())
        source = "\n".join(line[indent:] if not line[:indent].strip() else line for line in lines)
        try:
            # What it prints would be lines of TAP.
            with redirect_stdout(io.StringIO()):
                exec(source + "\n\n", self.names)  # noqa: S102
        except AssertionError as error:
            raise Failed(f"the assertion does not hold: {error}") from None
        except NameError as error:
            if (name := re.search(r"'(tcpi_\w+|[A-Z_0-9]+)'", str(error))) is not None:
                raise NotApplicable(f"{name[1]}, which the model does not have") from None
            raise Failed(f"code: {error}") from None
        except Exception as error:
            raise Failed(f"code: {type(error).__name__}: {error}") from None

    # --- what the host sends -------------------------------------------------------------------

    def _expect(self, want: Segment, at: float, until: float, tolerance: float, *, is_any: bool) -> None:
        if want.has("R"):
            raise NotApplicable("a reset by the host")
        latest = self.now + _PATIENCE_US if is_any else until + tolerance
        self._wait(latest)
        if not self.queue:
            raise Failed(f"no packet by {latest / 1e6:.6f} s where {_show(want)} was expected")
        when, got = self._next(want.length)
        self.now = max(self.now, when)
        if (why := self._difference(want, got)) is not None:
            raise Failed(f"{why}: expected {_show(want)}, got {_show(got)} at {when / 1e6:.6f} s")
        if not is_any and not at - tolerance <= when <= until + tolerance:
            span = f"{at / 1e6:.6f}" + (f" to {until / 1e6:.6f}" if until > at else "")
            raise Failed(f"{_show(want)} was expected at {span} s, and came at {when / 1e6:.6f} s")

    def _wait(self, latest: float) -> None:
        """Until there is a packet, or it is too late for one."""
        connection = self.sockets.connection
        while not self.queue and connection is not None:
            due = (connection.end.deadline() - START_NS) / 1000
            if due > latest:
                return
            self.now = max(self.now, due)
            connection.end.run(self.ns + 1)
            self._collect()
            self.sockets.look()

    def _next(self, length: int) -> tuple[float, Segment]:
        """The next packet; segments that leave together are one, up to so much payload."""
        when, first = self.queue.popleft()
        last = first
        total = first.length
        while total < length and self.queue and first.length:
            at, more = self.queue[0]
            if at != when or more.seq != first.seq + total or not more.length:
                break
            self.queue.popleft()
            total, last = total + more.length, more
        letters = set(first.flags) | set(last.flags) & {"F", "P"}
        flags = "".join(sorted(letters - ({"P"} - set(last.flags))))
        return when, replace(first, length=total, flags=flags)

    def _difference(self, want: Segment, got: Segment) -> str | None:
        """What of a packet is not as the script says; None: nothing."""
        for letter, name in (("S", "SYN"), ("F", "FIN"), (".", "ACK"), ("P", "PSH")):
            if want.has(letter) != got.has(letter):
                return name
        for name in ("seq", "length", "bits"):
            if getattr(want, name) != getattr(got, name):
                return name if name != "bits" else "AE, CWR and ECE"
        if want.ack is not None and want.ack != got.ack:
            return "ack"
        field = want.ecn.split(",")[-1].strip()
        if field in FIELDS and field != got.ecn:
            return "ECN field"
        return None if want.options is None else self._option_difference(want.options, got.options or Options())

    def _option_difference(self, want: Options, got: Options) -> str | None:
        if want.other:
            raise NotApplicable(f"the TCP option {want.other[0]}")
        for name in ("mss", "sack_ok", "sack"):
            if getattr(want, name) != getattr(got, name):
                return f"option {name}"
        if (want.wscale is None) != (got.wscale is None):
            return "option wscale"
        if (want.stamps is None) != (got.stamps is None):
            return "option TS"
        if want.stamps is not None and got.stamps is not None and self.sockets.connection is not None:
            told = self.sockets.connection.stamps.meet(want.stamps[0], got.stamps[0])
            allowed = max(self.tolerance, _TOLERANCE_SHARE * self.now)
            if self.tick_us and abs(told - want.stamps[0]) * self.tick_us > allowed:
                return f"option TS val {told}"
            if want.stamps[1] != got.stamps[1]:
                return f"option TS ecr {got.stamps[1]}"
        if (want.accecn is None) != (got.accecn is None):
            return "option ECN"
        if want.accecn is not None and any((got.accecn or {}).get(name) != v for name, v in want.accecn.items()):
            return "option ECN"
        return None


def _show(one: Segment) -> str:
    """As the scripts write it."""
    words = [f"[{one.ecn}]"] if one.ecn else []
    words += ["".join(sorted(one.flags)), f"{one.seq}:{one.seq + one.length}({one.length})"]
    words += [f"ack {one.ack}"] if one.ack is not None else []
    options = one.options or Options()
    told = [f"mss {options.mss}"] if options.mss else []
    told += ["sackOK"] * options.sack_ok + (["wscale"] if options.wscale is not None else [])
    told += [f"TS val {options.stamps[0]} ecr {options.stamps[1]}"] if options.stamps else []
    told += ["ECN " + " ".join(f"{k} {v}" for k, v in options.accecn.items())] if options.accecn else []
    told += ["sack " + " ".join(f"{a}:{b}" for a, b in options.sack)] if options.sack else []
    return " ".join(words) + (f" <{','.join(told)}>" if told else "")


_SETTINGS = (
    "congestion_control",
    "ecn",
    "timestamps",
    "sack",
    "slow_start_after_idle",
    "ecn_option",
    "ecn_fallback",
    "min_tso_segs",
)
_SETTINGS_WITHOUT_EFFECT = (
    "tso_win_divisor", "early_retrans", "rmem", "wmem", "pacing_ss_ratio", "pacing_ca_ratio", "invalid_ratelimit",
    "ecn_option_beacon", "notsent_lowat", "syn_retries", "synack_retries", "no_metrics_save",
)  # fmt: skip
_AS_LINUX = {"fack": "0", "dsack": "1", "frto": "2", "recovery": "1", "reordering": "3", "mtu_probing": "0"}
_WITHOUT_EFFECT = ("defaults.sh", "sysctl_restore_${PPID}.sh")
_AS_BY_DEFAULT = ("echo 3 > /sys/module/tcp_cubic/parameters/hystart_detect",)
_NAMES = {
    **{f"TCP_CA_{name}": n for n, name in enumerate(("Open", "Disorder", "CWR", "Recovery", "Loss"))},
    **{
        f"TCPI_OPT_{name}": 1 << n
        for n, name in enumerate(("TIMESTAMPS", "SACK", "WSCALE", "ECN", "ECN_SEEN", "SYN_DATA"))
    },
    **{
        f"TCP_{name}": n
        for n, name in enumerate(
            ("ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE", "CLOSE_WAIT",
             "LAST_ACK", "LISTEN", "CLOSING"), 1
        )
    },
    "TCP_INFINITE_SSTHRESH": 0x7FFFFFFF,
}  # fmt: skip
