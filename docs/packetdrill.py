"""Writes the tables of docs/packetdrill.md.

    .venv/bin/python docs/packetdrill.py KERNEL OWN [TAP]

KERNEL is `tools/testing/selftests/net/packetdrill` of the kernel's source, OWN the folder `tcp` of packetdrill's tests,
and TAP what `l4slab linux test` prints for both. None of them is part of l4slab.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

from l4slab.tools import packetdrill
from l4slab.tools.kerneltests import Result

PAGE = Path(__file__).resolve().parent / "packetdrill.md"
BEGIN, END = "<!-- written by docs/packetdrill.py -->\n", "<!-- end -->\n"
# What the simulator's TCP is to do as Linux does: congestion control, recovery, ECN, timeouts, limits.
ASKED = {
    "accecn", "cubic", "cwnd_moderation", "dsack", "ecn", "fast_recovery", "fast_retransmit", "limited_transmit",
    "notsent_lowat", "rto", "sack", "slow_start", "tcp_info",
}  # fmt: skip
# What a reason says, and what it is called in the table.
REASONS = [
    (r"FASTOPEN|fastopen|TCP option FO|fast open|sendto\(\) that blocks", "TCP Fast Open"),
    (r"ZEROCOPY", "zero copy"),
    (r"without SACK", "a connection without SACK"),
    (r"MSG_EOR|MSG_MORE|TCP_CORK", "the boundaries of writes (`MSG_EOR`, `MSG_MORE`, `TCP_CORK`)"),
    (r"TIMESTAMPING|TCP_INQ|USER_TIMEOUT|MAXSEG|base_mss|NOTSENT_LOWAT|ioctl", "other socket options and calls"),
    (r"SNDBUF|send buffer", "the size of the send buffer"),
    (r"reset", "a reset by the host"),
    (r"TCP option md5", "MD5"),
    (r"tcpi_", "fields of `tcp_info` that the model does not have"),
    (
        r"command|setting|queue in the host",
        "settings of the host beside TCP (`nstat`, `ethtool`, SYN cookies, shrinking windows)",
    ),
]
CAUSES = {
    "sack-shift-sacked-7-3-4-8-9-fack": "Linux passes with `HZ` 1000; with 250 RACK's timer comes at 31.7 ms",
    "sack-shift-sacked-7-5-6-8-9-fack": "as the one above",
    "fr-4pkt-fack-last-mss": "asks for 40 ms of an older RACK",
    "cubic-bulk-166k": "asks that HyStart leaves slow start at 48 segments; Linux 7.2 leaves at 36",
    "cubic-bulk-166k-idle-restart": "as `cubic-bulk-166k`",
    "cwnd-moderation-ecn-enter-cwr-no-moderation-700": "asks for 4 segments of an older PRR; Linux 7.2 has 5",
    "dsack_mult": "one packet repeats three that came before: the receiver takes whole segments, one by one",
    "accecn_close_local_close_then_remote_fin": "the ACK of a host in TIME-WAIT, which the model does not have",
}


def group(result: Result) -> str:
    """The kernel's scripts are in one folder, and their names begin with a group."""
    if result.test.group != "packetdrill":
        return result.test.group if result.test.group not in ("client", "server", "opt34") else "fastopen"
    name = result.test.name.removeprefix("tcp_")
    long = next((one for one in sorted(ASKED, key=len, reverse=True) if name.startswith(one)), None)
    return long or name.split("_")[0].split("-")[0]


def title(result: Result) -> str:
    """Its name without the group."""
    return result.test.name.removeprefix("tcp_").removeprefix(f"{group(result)}_")


def on_linux(tap: str) -> Mapping[tuple[str, str], bool]:
    """Whether each script passes there with IPv4, or with IPv6 if it has no other form."""
    verdicts: dict[tuple[str, str], bool] = {}
    for line in tap.splitlines():
        if found := re.match(r"(ok|not ok) \d+ - (\S+) (\S+) (ipv4|ipv6)$", line):
            verdicts.setdefault((found[2], found[3]), found[1] == "ok")
    return verdicts


def table(rows: list[list[str]]) -> str:
    """Markdown; the first row is the heading."""
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return "".join(f"| {' | '.join(row)} |\n" for row in lines)


def counts(results: list[Result], linux: Mapping[tuple[str, str], bool]) -> str:
    """A row per group of those that are asked for, and of all."""
    groups: dict[str, list[Result]] = defaultdict(list)
    for one in results:
        groups[group(one)].append(one)
    rows = [["scripts", "all", "apply", "pass", "fail", "same verdict as Linux 7.2"]]

    def row(name: str, some: list[Result]) -> list[str]:
        number = Counter(one.status for one in some)
        applied = [one for one in some if one.status != "skip"]
        known = [one for one in applied if (one.test.group, one.test.name) in linux]
        same = sum((one.status == "pass") == linux[one.test.group, one.test.name] for one in known)
        cells = [len(some), len(applied), number["pass"], number["fail"]]
        return [name, *map(str, cells), f"{same} of {len(known)}" if known else "–"]

    asked = [one for one in results if group(one) in ASKED]
    rows += [row(f"`{name}`", some) for name, some in sorted(groups.items()) if name in ASKED]
    rows.append(row("**these**", asked))
    rows.append(row("others", [one for one in results if group(one) not in ASKED]))
    rows.append(row("**all**", results))
    return table(rows)


def failures(results: list[Result], linux: Mapping[tuple[str, str], bool]) -> str:
    """A row per script that fails, of those that are asked for."""
    rows = [["script", "Linux 7.2", "why"]]
    for one in results:
        if one.status == "fail" and group(one) in ASKED:
            verdict = linux.get((one.test.group, one.test.name))
            says = {True: "passes", False: "fails, too", None: "–"}[verdict]
            cause = CAUSES.get(title(one)) or CAUSES.get(one.test.name.removeprefix("tcp_")) or ""
            rows.append([f"`{one.test.name}`", says, cause])
    return table(rows)


def reasons(results: list[Result]) -> str:
    """A row per reason why scripts do not apply."""
    number: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for one in results:
        if one.status == "skip":
            name = next((name for pattern, name in REASONS if re.search(pattern, one.why)), "other calls and packets")
            number[name] += 1
            asked[name] += group(one) in ASKED
    rows = [["what the script asks for", "scripts", "of the first table"]]
    return table(rows + [[name, str(n), str(asked[name])] for name, n in number.most_common()])


def main(kernel: str, own: str, tap: str = "") -> None:
    """Runs all scripts and writes the page."""
    linux = on_linux(Path(tap).read_text()) if tap else {}
    results = list(packetdrill.run(packetdrill.collect([kernel, own], "default")))
    parts = [
        counts(results, linux),
        f"### Scripts that fail\n\n{failures(results, linux)}",
        f"### What is not applicable\n\n{reasons(results)}",
    ]
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{chr(10).join(parts)}\n{END}{rest.partition(END)[2]}", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
