"""A run's set-up in words, with every default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from l4slab.base.run import Change, Class, DelayTrace, Filter, Flow, Link, RateTrace, Run
from l4slab.results import many


def settings(told: Run) -> list[tuple[str, str]]:
    """A run's description as pairs (setting, value)."""
    rows = [("duration", _time(told["duration_ns"])), ("left out of the figures", _time(told["warmup_ns"]))]
    rows += [("sample", _time(told["sample_ns"])), ("start jitter", f"0 to {_time(told['start_jitter_ns'])}")]
    for link in told["links"]:
        stab = f"stab {table} " if (table := link.get("stab")) else ""
        settings = [*_rate_of(link), stab + link["qdisc"], f"burst {link['burst_bytes']} B"]
        settings += [f"police {policer}"] if (policer := link.get("policer")) else []
        settings += ["in the sender's host"] if link.get("on_host") else []
        rows.append((f"link {link['name']}", ", ".join(settings)))
        name, classes, filters = f"link {link['name']}", link.get("classes", []), link.get("filters", [])
        rows += [(f"{name}, class {one['id']}", _class(one)) for one in classes[: _few(classes)]]
        rows += [(name, f"{more} more classes")] if (more := len(classes) - _few(classes)) else []
        rows += [(f"{name}, class {one['class']}", f"for {_fits(one, told)}") for one in filters[: _few(filters)]]
        rows += [(name, f"{more} more filters")] if (more := len(filters) - _few(filters)) else []
    rows += [(f"flow {flow['name']}", _flow(flow, told)) for flow in told["flows"]]
    for rewrite in told["rewrites"]:
        where = f"{rewrite['where']} {rewrite['link']}"
        rows.append((f"rewrite on {rewrite['flow']}", f"{rewrite['from']} to {rewrite['to']}, {where}"))
    for change in told["at"]:
        changed = [_rate(rate)] if (rate := change.get("rate_bps")) else []
        changed += [qdisc] if (qdisc := change.get("qdisc")) else []
        changed += [f"police {policer}"] if (policer := change.get("policer")) else []
        changed += [f"RTT {_time(rtt)}"] if (rtt := change.get("rtt_ns")) is not None else []
        changed += [f"{count} flows"] if (count := change.get("count")) is not None else []
        changed += [netem] if (netem := change.get("netem")) else []
        changed += ["pauses" if pause else "resumes"] if (pause := change.get("pause")) is not None else []
        what = change.get("link") or change.get("flow") or change.get("impair")
        parts = [f"{what}: {', '.join(changed)}"] if changed else []
        parts += [f"{what}, class {one['id']}: {_class(one)}" for one in change.get("classes", ())]
        rows += [(_when(change), part) for part in parts]
    for impair in told.get("impairs", []):
        where = f"before {impair['before']}, {impair['direction']}"
        if "ack_thinning" in impair:
            where += f", one of {impair['ack_thinning']} ACKs, after {_time(impair['ack_wait_ns'])} at the latest"
        rows.append((f"impair {impair['name']}", f"{impair['netem']}, {where}"))
    for tunnel in told.get("tunnels", []):
        overhead, window = f"{tunnel['overhead_bytes']} B of overhead", tunnel["replay_window"]
        words = [str(kind)] if (kind := tunnel.get("kind")) else []
        words += [f"{', '.join(tunnel['flows'])} over {', '.join(tunnel['links'])}", overhead]
        words += [f"padded to {tunnel['padding_bytes']} B"] if tunnel["padding_bytes"] > 1 else []
        words += [f"MTU {tunnel['mtu_bytes']} B", f"ECN {tunnel['ecn']}"]
        words += ["DSCP copied"] if tunnel["copies_dscp"] else []
        words += [f"replay window {window}"] if window else []
        rows.append((f"tunnel {tunnel['name']}", ", ".join(words)))
    return rows


def _few(all_: Sequence[Class] | Sequence[Filter]) -> int:
    """How many of these stand for all."""
    return many.WORST if len(all_) >= many.MANY else len(all_)


def _when(change: Change) -> str:
    if (awaited := change.get("state")) is None:
        return f"at {_time(change['time_ns'])}"
    after = f", {_time(awaited['after_ns'])} later" if awaited["after_ns"] else ""
    since = f" from {_time(change['time_ns'])} on" if change["time_ns"] else ""
    return f"when {awaited['flow']} is in {awaited['name']}{since}{after}"


def _rate_of(link: Link) -> list[str]:
    if (medium := link.get("medium")) is not None:
        stations = [f"station {name}: {words}" for name, words in link.get("stations", {}).items()]
        return [medium, *stations]
    if (down := link.get("up_of")) is not None:
        return [f"upstream of {down}"]
    if (trace := link.get("rate_trace")) is None:
        return [_rate(link["rate_bps"])]
    return [f"{_trace(trace)}, {_rate(link['rate_bps'])} on average"]


def _class(one: Class) -> str:
    parts = [f"below class {one['parent']}"] if "parent" in one else []
    if "rate_bps" in one:
        parts += [_rate(one["rate_bps"]), f"up to {_rate(one['ceil_bps'])}", f"prio {one['prio']}"]
        parts += [f"burst {one['burst_bytes']} B", f"cburst {one['cburst_bytes']} B"]
    if (qdisc := one.get("qdisc")) is not None:
        parts += [f"quantum {one['quantum_bytes']} B"] if "quantum_bytes" in one else []
        parts += [qdisc]
    return ", ".join(parts)


def _fits(one: Filter, told: Run) -> str:
    parts = [f"DSCP {one['dscp']}"] if "dscp" in one else []
    parts += [ecn] if (ecn := one.get("ecn")) is not None else []
    parts += [_host(host, told)] if (host := one.get("host")) is not None else []
    parts += [f"police {policer}"] if (policer := one.get("policer")) is not None else []
    return ", ".join(parts)


def _host(number: int, told: Run) -> str:
    named = number - len(told["flows"])
    return f"host {told['hosts'][named]}" if named >= 0 else f"the host of flow {told['flows'][number]['name']}"


def _trace(trace: RateTrace | DelayTrace) -> str:
    return f"{trace['file']} ({'again every ' + _time(trace['repeat_ns']) if trace['repeat_ns'] else 'once'})"


def _flow(flow: Flow, told: Run) -> str:
    parts = [f"{flow['count']} ×"] if flow["count"] > 1 else []
    if flow["kind"] == "program" and (stack := flow.get("stack")) is not None:
        parts += [f"{stack['build']} with {stack['cc']}"]
    else:
        parts += [str(flow.get("cc") or flow["kind"])]
    if flow["kind"] == "tcp":
        parts += [f"writes {_rate(rate)}"] if (rate := flow.get("rate_bps")) is not None else []
    elif "rate_bps" in flow:
        parts += [_rate(flow["rate_bps"])]
    if "packet_bytes" in flow:
        parts += [f"packets of {'up to ' if flow['kind'] in ('udp-prague', 'media') else ''}{flow['packet_bytes']} B"]
    parts += [f"RTT {_time(flow['rtt_ns'])}"]
    if (trace := flow.get("delay_trace")) is not None:
        parts += [f"and what {_trace(trace)} adds"]
    if "peer_ecn" in flow:
        parts += [f"RTO at least {_time(rto)}"] if (rto := flow.get("rto_min_ns")) is not None else []
        parts += [f"MTU {flow['mtu_bytes']} B"] if "mtu_bytes" in flow else []
    if flow["kind"] == "tcp":
        parts += ["segmentation offload"] if flow.get("gso") else []
        parts += [f"segments joined every {_time(gro)}"] if (gro := flow.get("gro_ns")) is not None else []
    if "ecn" in flow:
        parts += [f"ECN {flow['ecn'] or 'as the controller wants'}"]
    if "peer_ecn" in flow:
        parts += [f"peer ECN {flow['peer_ecn']}"] if flow["peer_ecn"] else []
    if flow["start_ns"]:
        parts += [f"from {_time(flow['start_ns'])}"]
    if flow["stop_ns"]:
        parts += [f"until {_time(flow['stop_ns'])}"]
    if "bytes" in flow:
        parts += [f"{flow['bytes']} B"] if flow["bytes"] else []
    if "pace_bps" in flow:
        parts += [f"paced at {_rate(flow['pace_bps'])}"] if flow["pace_bps"] else []
    if "receive_window_bytes" in flow:
        parts += [f"receive window {flow['receive_window_bytes']} B"] if flow["receive_window_bytes"] else []
    parts += [f"{key} {value}" for key, value in flow["options"].items()] if "options" in flow else []
    rules: Mapping[str, object] = dict(flow)
    parts += [f"transport {rules['transport']}"] if "transport" in rules else []
    parts += [f"{name}={value}" for name, value in flow.get("env", {}).items()] if flow["kind"] == "program" else []
    parts += [f"over {' '.join(flow['path'])}"]
    parts += [f"from {_host(host, told)}"] if (host := flow.get("host")) is not None else []
    parts += [f"to {_host(host, told)}"] if (host := flow.get("peer_host")) is not None else []
    if reverse := flow.get("reverse_path"):
        parts += [f"ACKs over {' '.join(reverse)}"]
    return ", ".join(parts).replace("×,", "×")


def _rate(bps: int) -> str:
    for factor, unit in ((10**9, "Gbit"), (10**6, "Mbit"), (10**3, "kbit")):
        if bps >= factor:
            return f"{bps / factor:g}{unit}"
    return f"{bps}bit"


def _time(ns: int) -> str:
    for factor, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if ns >= factor:
            return f"{ns / factor:g}{unit}"
    return f"{ns}ns" if ns else "0s"
