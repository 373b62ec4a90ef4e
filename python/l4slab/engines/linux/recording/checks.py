"""Checks for known mistakes of laboratories."""

from __future__ import annotations

import re

import numpy as np

from l4slab.engines.linux import lab as labs
from l4slab.engines.linux.flows import expected_ecn_mode
from l4slab.engines.linux.recording import programs
from l4slab.engines.linux.recording.observed import (
    BACKWARD,
    CE,
    ECN_MODES,
    ESTABLISHED,
    CheckError,
    Observed,
    count_of,
    queue_under_test,
)

# The largest part of the time for which a buffer may hold a flow back: receive windows open in the first rounds.
_HELD = 0.1
# From when on an unlimited flow has filled a queue.
_FILLS_AFTER_NS, _FILLS_AFTER_RTTS = 20e9, 100
# Packets that are under way between two places while both are read.
_SLACK = 4
# Drops and losses inside a host, which no laboratory should have. UDP receivers do not read: theirs are not counted.
# PruneCalled counts calls of tcp_prune_queue, which may only join buffers; RcvPruned and OfoPruned count lost packets
# (Linux, net/ipv4/tcp_input.c).
_BAD_COUNTERS = (
    "TcpExt.ListenOverflows",
    "TcpExt.ListenDrops",
    "TcpExt.TCPBacklogDrop",
    "TcpExt.TCPRcvQDrop",
    "TcpExt.TCPOFODrop",
    "TcpExt.RcvPruned",
    "TcpExt.OfoPruned",
    "TcpExt.TCPZeroWindowDrop",
    "TcpExt.TCPMemoryPressures",
    "TcpExt.TCPAbortOnMemory",
    "Ip.InDiscards",
    "Ip.InHdrErrors",
    "Ip.InAddrErrors",
    "Ip.OutDiscards",
    "Ip.OutNoRoutes",
)
_CORRUPTION = ("Ip.InHdrErrors", "Ip.InAddrErrors", "Ip.OutNoRoutes", "Ip.InDiscards")


def check(observed: Observed) -> None:
    """Check for known mistakes of laboratories. Raises CheckError with one sentence."""
    programs.check(observed)
    tests = [_check_events, _check_queues, _check_hosts, _check_delays, _check_ends, _check_ecn, _check_bottleneck]
    if any(link.tells_drops for link in observed.links):
        # A host counts packets that came together as one.
        tests.remove(_check_ends)
    for test in tests:
        test(observed)


def _check_events(observed: Observed) -> None:
    for event in observed.events:
        if event[1] == "error":
            name = observed.lab.flows[int(event[2]) - 1].spec["name"]
            raise CheckError(f'a connection of flow "{name}" failed: {event[4]}')
        if event[1] in ("capture", "capture at", "capture impair") and int(event[4]):
            if event[1] == "capture impair":
                place = f"of impair {observed.lab.impair_of(observed.lab.impair_namespaces[int(event[2])])['name']}"
            elif event[1] == "capture":
                place = f"of link {observed.run['links'][int(event[2])]['name']}"
            else:
                place = f'at the sender of flow "{observed.lab.flows[int(event[2]) - 1].spec["name"]}"'
            raise CheckError(f"the capture {place} lost {event[4]} of {event[3]} packets; give it a shorter run")


def _check_queues(observed: Observed) -> None:
    for link in observed.links:
        if not link.tc:
            continue
        seen = queue_under_test(link.tc[-1][1])
        wanted = link.qdiscs[-1][1][0]
        if seen.get("kind") != wanted:
            raise CheckError(f"link {link.name} has the queue {seen.get('kind', 'none')} instead of {wanted}")
        joined = np.isin(link.packets["flow"], [flow.number for flow in observed.lab.flows if flow.has_gso])
        if (link.packets["len"][~joined] > labs.MTU_FRAME).any():
            raise CheckError(f"link {link.name} saw frames of {link.packets['len'].max()} bytes: an offload is on")
        capacity = link.capacity_bits(0, observed.run["duration_ns"])
        sent = float(link.packets["len"][link.left].astype(np.int64).sum()) * 8
        if sent > capacity * 1.001 + 8 * (link.spec["burst_bytes"] + 2 * labs.MTU_FRAME) * (1 + len(link.changes)):
            raise CheckError(f"link {link.name} sent {sent / capacity:.1%} of its rate: its shaper did not hold")
        marks = count_of(seen, "ecn-mark", "ecn_mark")
        if marks is not None and not any(change["qdisc"] for change in link.changes):
            captured = int(link.marked.sum())
            # dualpi2 counts a packet twice that both its coupling and its step mark, and CoDel one that both its law
            # and ce_threshold do, whose marks it counts apart.
            apart = count_of(seen, "ce_mark") or 0
            at_step = count_of(seen, "step-mark")
            twice = min(marks, apart) if at_step is None else at_step
            # A queue counts a packet that came with CE when it would have marked it.
            twice += int((link.left & (link.packets["ecn_in"] == CE)).sum())
            # Some queues mark what arrives: what waits at the end may be marked.
            waiting = int((~link.left & ~link.dropped).sum())
            marks += apart
            if not captured - _SLACK <= marks <= captured + twice + waiting + _SLACK:
                raise CheckError(f"the queue of link {link.name} counts {marks} CE marks and its captures {captured}")


def _check_hosts(observed: Observed) -> None:
    # A flipped bit of an IP header, or of the addresses before it, is found at the next hop.
    corrupted = labs.damages(observed.run)
    # What a program does not read, or sends to nowhere, is its own affair.
    of_programs = {host for flow in observed.lab.flows if flow.is_program for host in (flow.client, flow.server)}
    for name, counters in observed.counters.items():
        if name in of_programs:
            continue
        for counter in _BAD_COUNTERS:
            if counters.get(counter) and not (corrupted and counter in _CORRUPTION):
                raise CheckError(
                    f"host {name} counts {counters[counter]} {counter}: packets were lost outside the links"
                )
        if counters.get("softnet.dropped"):
            raise CheckError(f"the kernel's backlog dropped {counters['softnet.dropped']} packets outside the links")


def _check_delays(observed: Observed) -> None:
    for section in re.split(r"^# ", observed.teardown, flags=re.MULTILINE)[1:]:
        name, _, text = section.partition("\n")
        if name[0] not in "ds":
            continue
        for dropped in re.findall(r"qdisc netem .*?dropped (\d+)", text, re.DOTALL):
            if int(dropped):
                raise CheckError(f"the delay {name} dropped {dropped} packets; it must only delay")


def _check_ends(observed: Observed) -> None:
    """Check that packets that left the last link reached the receiver with their marks."""
    for flow in observed.lab.flows:
        if flow.is_program or flow.has_gso or flow.gro_ns is not None:
            continue  # what a host sends to itself is counted, and packets that were joined are counted once
        last = observed.path(flow)[-1]
        packets = last.packets[last.left & (last.packets["flow"] == flow.number) & (last.packets["kind"] < BACKWARD)]
        counters = observed.counters.get(flow.server, {})
        came = counters.get("Ip.InReceives")
        rules = [rule for rule in observed.run["rewrites"] if rule["flow"] == flow.spec["name"]]
        rewritten = any(rule["where"] == "after" for rule in rules)
        lost = any(rule["where"] == "after" and rule["to"] == "drop" for rule in rules)
        if came is not None and not lost and abs(came - len(packets)) > _SLACK:
            raise CheckError(f'{len(packets)} packets of flow "{flow.spec["name"]}" left its last link and {came} came')
        if any(flow.spec["name"] in one["flows"] and one["ecn"] == "copied" for one in observed.run.get("tunnels", ())):
            continue  # no mark leaves it
        marks, captured = counters.get("IpExt.InCEPkts"), int((packets["ecn_out"] == CE).sum())
        if marks is not None and not rewritten and abs(marks - captured) > _SLACK:
            raise CheckError(
                f'{captured} packets of flow "{flow.spec["name"]}" left its last link with CE, '
                f"and its receiver counts {marks}"
            )


def _check_ecn(observed: Observed) -> None:
    lost = any(link.dropped.any() for link in observed.links) or bool(observed.run.get("impairs"))
    for flow in observed.lab.flows:
        samples = observed.of_flow(flow)
        modes = {ECN_MODES[int(mode)] for mode in samples["ecn_mode"][samples["state"] == ESTABLISHED]} - {"pending"}
        wanted = expected_ecn_mode(flow.tcp["cc"], flow.ecn, flow.peer_ecn) if flow.tcp is not None else ""
        # A lost SYN is repeated without ECN: that is TCP, not the laboratory.
        if flow.is_tcp and modes and wanted not in modes and not lost:
            found = " and ".join(sorted(modes))
            raise CheckError(
                f'the ECN negotiation of flow "{flow.spec["name"]}" ended with {found} instead of {wanted}'
            )


def _check_bottleneck(observed: Observed) -> None:
    """Flows that only the links should limit were limited by them: they filled a queue, and no send buffer held them.
    (The receiver's window is TCP's own: after many losses what waits behind a hole may fill it.)
    """
    for flow in observed.lab.flows:
        spec = flow.tcp
        if spec is None or not flow.members:
            continue
        if any(limit is not None for limit in (spec["bytes"], spec["pace_bps"], spec.get("rate_bps"))):
            continue
        runs_ns = (spec["stop_ns"] or observed.run["duration_ns"]) - spec["start_ns"]
        samples = observed.of_flow(flow)
        held = float(samples["sndbuf_ms"].max()) * 1e6 if len(samples) else 0.0
        if held > _HELD * runs_ns:
            share = held / runs_ns
            raise CheckError(
                f'a send buffer held flow "{spec["name"]}" back for {share:.0%} of the time, not the links'
            )
        # After slow start a window may need long to grow to the size of a large path.
        if runs_ns < _FILLS_AFTER_NS + _FILLS_AFTER_RTTS * spec["rtt_ns"] or observed.run.get("impairs"):
            continue
        if any(rule["flow"] == spec["name"] and rule["to"] == "drop" for rule in observed.run["rewrites"]):
            continue
        by_name = {link.name: link for link in observed.links}
        for link in (by_name[name] for name in (*spec["path"], *flow.reverse_path)):
            longest = link.sojourn_ns.max() if len(link.packets) else 0
            lowest = min([link.spec["rate_bps"], *(c["rate_bps"] for c in link.changes if c["rate_bps"])])
            if longest > 2 * labs.MTU_FRAME * 8e9 / lowest or link.dropped.any():
                break
        else:
            raise CheckError(f'flow "{spec["name"]}" never filled a queue: something else than the links limited it')
