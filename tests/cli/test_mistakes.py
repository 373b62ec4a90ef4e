"""Every mistake of a user: exit status 2 and one sentence that names the file, the key, the value and the remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from l4slab.api import campaign
from l4slab.cli import main

CLAIM = '[[claim]]\nid = "c"\nsql = "select true"'
GOOD = """
duration = "1s"

[link.bottleneck]
rate = "10Mbit"
qdisc = "pfifo limit 100"

[[flow]]
name = "a"
cc = "cubic"
rtt = "10ms"
"""

# What is changed in GOOD (old, new), and what the sentence must mention.
CHANGED = {
    "unknown key": (('duration = "1s"', 'duration = "1s"\nwarmpu = "0s"'), ["warmpu", '"0s"', '"warmup"']),
    "unknown link key": (('rate = "10Mbit"', 'rat = "10Mbit"'), ["link.bottleneck.rat", '"10Mbit"', '"rate"']),
    "unknown flow key": (('cc = "cubic"', 'ccc = "cubic"'), ['flow "a"', "ccc", '"cubic"', '"cc"']),
    "unknown section": (("[[flow]]", "[[flows]]"), ["flows", '"flow"']),
    "misspelt controller": (('"cubic"', '"cubik"'), ['flow "a"', "cc", '"cubik"', '"cubic"']),
    "a program in a sweep on the simulator": (
        (
            'rtt = "10ms"',
            'rtt = "10ms"\n[[flow]]\nname = "b"\nkind = "program"\nserver = "iperf3 -s"\n'
            'client = "iperf3 -c {server}"\nrtt = "10ms"\n[sweep]\n"link.bottleneck.rate" = ["10Mbit", "20Mbit"]',
        ),
        ['flow "b"', "the sim engine has no", '"program"', "give --engine linux"],
    ),
    "controller for media": (('"cubic"', '"gcc"'), ['flow "a"', 'cc = "gcc"', 'write kind = "media"']),
    "controller of TCP for media": (
        ('cc = "cubic"', 'cc = "cubic"\nkind = "media"\nrate_max = "1Mbit"'),
        ['flow "a"', 'cc = "cubic"', "it is one of TCP", "scream"],
    ),
    "unknown qdisc": (('"pfifo limit 100"', '"pfiffo"'), ["link.bottleneck.qdisc", '"pfiffo"', "pfifo"]),
    "unknown qdisc option": (('"pfifo limit 100"', '"pfifo limt 5"'), ["link.bottleneck.qdisc", "limt", "limit"]),
    "Mbps": (('"10Mbit"', '"100Mbps"'), ["link.bottleneck.rate", '"100Mbps"', '"100Mbit"', "multiply by 8"]),
    "MB/s": (('"10Mbit"', '"10MB/s"'), ["link.bottleneck.rate", '"10MB/s"', "multiply by 8"]),
    "a title without quotes": (
        ('duration = "1s"', 'title = 5\nduration = "1s"'),
        ["title = 5 is not text", "in quotes"],
    ),
    "bare rate": (('"10Mbit"', "10"), ["link.bottleneck.rate", "10", "has no unit", '"100Mbit"']),
    "rate as bare text": (('"10Mbit"', '"10"'), ["link.bottleneck.rate", '"10"', "has no unit"]),
    "bare time": (('duration = "1s"', "duration = 1"), ["duration", "= 1 ", "has no unit"]),
    "wrong time unit": (('rtt = "10ms"', 'rtt = "10msec"'), ['flow "a"', "rtt", '"10msec"', '"ms"']),
    "ambiguous minutes": (('duration = "1s"', 'duration = "1m"'), ["duration", '"1m"', '"1min"']),
    "negative rate": (('"10Mbit"', '"-5Mbit"'), ["link.bottleneck.rate", '"-5Mbit"', "more than 0"]),
    "zero rate": (('"10Mbit"', '"0Mbit"'), ["link.bottleneck.rate", '"0Mbit"', "more than 0"]),
    "zero duration": (('duration = "1s"', 'duration = "0ms"'), ["duration", '"0ms"', "more than 0"]),
    "negative start": (('rtt = "10ms"', 'rtt = "10ms"\nstart = "-1s"'), ["start", '"-1s"', "negative"]),
    "unknown dscp": (('rtt = "10ms"', 'rtt = "10ms"\ndscp = "af14"'), ['flow "a"', "dscp", '"af14"', '"af1']),
    "dscp of a ToS": (('rtt = "10ms"', 'rtt = "10ms"\ndscp = 184'), ['flow "a"', "dscp", "= 184 ", "0 to 63"]),
    "dscp is true": (('rtt = "10ms"', 'rtt = "10ms"\ndscp = true'), ['flow "a"', "dscp", "= true ", '"ef"']),
    "negative count": (('rtt = "10ms"', 'rtt = "10ms"\ncount = -1'), ['flow "a"', "count", "= -1 ", "at least 0"]),
    "count is text": (('rtt = "10ms"', 'rtt = "10ms"\ncount = "2"'), ["count", '"2"', "whole number"]),
    "captures of a wrong kind": (
        ('duration = "1s"', 'duration = "1s"\ncaptures = "first"'),
        ["captures", "first", 'did you mean "first trial"'],
    ),
    "fractional trials": (('duration = "1s"', 'duration = "1s"\ntrials = 1.5'), ["trials", "1.5", "whole number"]),
    "trials that a sweep sets": (
        ('duration = "1s"', 'duration = "1s"\ntrials = "{n}"'),
        ["trials", '"{n}"', "whole number"],
    ),
    "negative seed": (('duration = "1s"', 'duration = "1s"\nseed = -1'), ["seed", "-1", "at least 0"]),
    "no duration": (('duration = "1s"', ""), ["duration", "add it"]),
    "no rate": (('rate = "10Mbit"', ""), ["link.bottleneck", "rate", "add it"]),
    "no qdisc": (('qdisc = "pfifo limit 100"', ""), ["link.bottleneck", "qdisc", "add it"]),
    "no cc": (('cc = "cubic"', ""), ['flow "a"', "cc", "add it"]),
    "no rtt": (('rtt = "10ms"', ""), ['flow "a"', "rtt", "add it"]),
    "no name": (('name = "a"', ""), ["[[flow]] no. 1", "name", "add it"]),
    "no link": (('[link.bottleneck]\nrate = "10Mbit"\nqdisc = "pfifo limit 100"', ""), ["no link", "[link.NAME]"]),
    "no flow": (('[[flow]]\nname = "a"\ncc = "cubic"\nrtt = "10ms"', ""), ["no flow", "[[flow]]"]),
    "rtt as long as the run": (('rtt = "10ms"', 'rtt = "1s"'), ['flow "a"', "rtt", '"1s"', "duration"]),
    "sample longer than the run": (
        ('duration = "1s"', 'duration = "1s"\nsample = "2s"'),
        ["sample", '"2s"', "more often"],
    ),
    "no closing quote": (('"10Mbit"', '"10Mbit'), ["line 5", 'close the quote, such as rate = "10Mbit"']),
    "flow as table and list": (
        ("[[flow]]", '[flow]\nname = "b"\ncc = "cubic"\nrtt = "10ms"\n[[flow]]'),
        ["write [[flow]] each time, not [flow]"],
    ),
    "flow is a table": (("[[flow]]", "[flow]"), ["flow", "[[flow]]"]),
    "two flows of one name": (
        ("[[flow]]", '[[flow]]\nname = "a"\ncc = "cubic"\nrtt = "10ms"\n[[flow]]'),
        ["[[flow]] no. 2", "name", '"a"', "its own name"],
    ),
    "two links of one name": (
        ("[[flow]]", '[link.bottleneck]\nrate = "1Mbit"\n[[flow]]'),
        ["TOML", "bottleneck", "its own name"],
    ),
    "name with a dot": (('name = "a"', 'name = "a.b"'), ["[[flow]] no. 1", "name"]),
    "path to no link": (
        ('rtt = "10ms"', 'rtt = "10ms"\npath = ["botleneck"]'),
        ['flow "a"', "path", '"botleneck"', '"bottleneck"'],
    ),
    "reverse path to no link": (
        ('rtt = "10ms"', 'rtt = "10ms"\nreverse_path = ["up"]'),
        ['flow "a"', "reverse_path", '"up"', "bottleneck"],
    ),
    "empty path": (('rtt = "10ms"', 'rtt = "10ms"\npath = []'), ['flow "a"', "path", "[]", "bottleneck"]),
    "path is text": (('rtt = "10ms"', 'rtt = "10ms"\npath = "bottleneck"'), ["path", '"bottleneck"', "list"]),
    "link crossed twice": (
        ('rtt = "10ms"', 'rtt = "10ms"\npath = ["bottleneck", "bottleneck"]'),
        ["path", "twice", "once"],
    ),
    "jitter too long": (
        ('duration = "1s"', 'duration = "1s"\nstart_jitter = "1s"'),
        ["start_jitter", '"1s"', "duration", "shorten"],
    ),
    "a sign twice": (('duration = "1s"', 'duration = = "1s"'), ["line", "correct the line"]),
    "warmup too long": (
        ('duration = "1s"', 'duration = "1s"\nwarmup = "1s"'),
        ["warmup", '"1s"', "duration", "shorten"],
    ),
    "stop before start": (
        ('rtt = "10ms"', 'rtt = "10ms"\nstart = "500ms"\nstop = "200ms"'),
        ['flow "a"', "stop", '"200ms"', '"500ms"', "later"],
    ),
    "start after the end": (('rtt = "10ms"', 'rtt = "10ms"\nstart = "2s"'), ["start", '"2s"', "earlier"]),
    "unknown ecn": (('rtt = "10ms"', 'rtt = "10ms"\necn = "acecn"'), ['flow "a"', "ecn", '"acecn"', '"accecn"']),
    "codepoint as tcp's ecn": (('rtt = "10ms"', 'rtt = "10ms"\necn = "ect1"'), ["ecn", '"ect1"', "accecn"]),
    "unknown option": (
        ('rtt = "10ms"', 'rtt = "10ms"\noptions = { warp = "9" }'),
        ['flow "a"', "options", "warp"],
    ),
    "unknown kind": (('cc = "cubic"', 'kind = "udp"'), ['flow "a"', "kind", '"udp"', "tcp"]),
    "web without requests": (('cc = "cubic"', 'cc = "cubic"\nkind = "web"'), ['flow "a"', "requests", '"10/s"']),
    "web without cc": (('cc = "cubic"', 'kind = "web"\nrequests = "9/s"'), ['flow "a"', "cc", "add it"]),
    "bare requests": (
        ('cc = "cubic"', 'cc = "cubic"\nkind = "web"\nrequests = 10'),
        ['flow "a"', "requests", "= 10 ", "has no unit", '"10/s"'],
    ),
    "requests in Hz": (
        ('cc = "cubic"', 'cc = "cubic"\nkind = "web"\nrequests = "10Hz"'),
        ['flow "a"', "requests", '"10Hz"', "/s"],
    ),
    "no requests": (
        ('cc = "cubic"', 'cc = "cubic"\nkind = "web"\nrequests = "0/s"'),
        ['flow "a"', "requests", '"0/s"', "more than 0"],
    ),
    "too many requests": (
        ('cc = "cubic"', 'cc = "cubic"\nkind = "web"\nrequests = "1e9/s"'),
        ['flow "a"', "requests", '"1e9/s"', "at most 1000000/s"],
    ),
    "sizes the wrong way round": (
        ('cc = "cubic"', 'cc = "cubic"\nkind = "web"\nrequests = "9/s"\nsize_min = "2MB"'),
        ['flow "a"', "size_min", '"2MB"', 'size_max = "1MB"'],
    ),
    "no alpha": (
        ('cc = "cubic"', 'cc = "cubic"\nkind = "web"\nrequests = "9/s"\nsize_alpha = 0.0'),
        ['flow "a"', "size_alpha", "= 0.0 ", "more than 0"],
    ),
    "web with bytes": (
        ('cc = "cubic"', 'cc = "cubic"\nkind = "web"\nrequests = "9/s"\nbytes = "1MB"'),
        ['flow "a"', "bytes", '"1MB"', "not a key here"],
    ),
    "video without rate": (('cc = "cubic"', 'cc = "cubic"\nkind = "video"'), ['flow "a"', "rate", "add it"]),
    "events without life": (
        ('cc = "cubic"', 'cc = "cubic"\nevents = "9/s"'),
        ['flow "a"', "events", '"9/s"', "add life"],
    ),
    "life without events": (('cc = "cubic"', 'cc = "cubic"\nlife = "9s"'), ['flow "a"', "life", '"9s"', "add events"]),
    "events beside count": (
        ('cc = "cubic"', 'cc = "cubic"\nevents = "9/s"\nlife = "1s"\ncount = 2'),
        ['flow "a"', "count", "= 2 ", "remove one of them"],
    ),
    "no frame": (
        ('cc = "cubic"', 'cc = "cubic"\nkind = "video"\nrate = "4Mbit"\nframes_total = 0'),
        ['flow "a"', "frames_total", "= 0 ", "at least 1"],
    ),
    "bare frames": (
        ('cc = "cubic"', 'cc = "cubic"\nkind = "video"\nrate = "4Mbit"\nframes = 60'),
        ['flow "a"', "frames", "= 60 ", "has no unit"],
    ),
    "negative spread": (
        ('cc = "cubic"', 'cc = "cubic"\nkind = "video"\nrate = "4Mbit"\nframe_spread = -0.1'),
        ['flow "a"', "frame_spread", "-0.1", "at least 0"],
    ),
    "cbr with cc": (
        ('cc = "cubic"', 'kind = "cbr"\nrate = "1Mbit"\ncc = "cubic"'),
        ['flow "a"', "cc", '"cubic"', "not a key here"],
    ),
    "udp-prague with ecn": (
        ('cc = "cubic"', 'kind = "udp-prague"\necn = "classic"'),
        ['flow "a"', "ecn", '"classic"', "not a key here"],
    ),
    "udp-prague too small": (('cc = "cubic"', 'kind = "udp-prague"\npacket = "100B"'), ["packet", '"100B"', "192"]),
    "cbr without rate": (('cc = "cubic"', 'kind = "cbr"'), ['flow "a"', "rate", "add it"]),
    "tiny packet": (('cc = "cubic"', 'kind = "cbr"\nrate = "1Mbit"\npacket = "10B"'), ["packet", '"10B"', "64"]),
    "ambiguous size": (('rtt = "10ms"', 'rtt = "10ms"\nbytes = "10KB"'), ["bytes", '"10KB"', '"10kB"', '"10KiB"']),
    "time that is text": (('rtt = "10ms"', 'rtt = "soon"'), ["rtt", '"soon"', '"15ms"']),
    "quantity without quotes": (('rtt = "10ms"', "rtt = 10ms"), ["line 11", 'in quotes, "10ms"']),
    "typographic quotes": (('"10ms"', "“10ms”"), ["line 11", "straight quotes"]),
    "rate in bytes": (('"10Mbit"', '"10MByte"'), ["link.bottleneck.rate", '"10MByte"', "is in bytes", '"80Mbit"']),
    "comma": (('"10Mbit"', '"10,5Mbit"'), ["link.bottleneck.rate", '"10,5Mbit"', '"10.5Mbit"']),
    "delay of a link": (
        ('rate = "10Mbit"', 'rate = "10Mbit"\ndelay = "5ms"'),
        ["link.bottleneck.delay", '"5ms"', "rtt"],
    ),
    "loss of a link": (('rate = "10Mbit"', 'rate = "10Mbit"\nloss = "1%"'), ["link.bottleneck.loss", "[impair.NAME]"]),
    "buffer of a link": (('rate = "10Mbit"', 'rate = "10Mbit"\nbuffer = 9'), ["link.bottleneck.buffer", "pfifo limit"]),
    "controller of a link": (('rate = "10Mbit"', 'rate = "10Mbit"\ncc = "reno"'), ["link.bottleneck.cc", "[[flow]]"]),
    "rate of a TCP flow": (('rtt = "10ms"', 'rtt = "10ms"\nrate = "5Mbit"'), ['flow "a"', "rate", "pace", '"cbr"']),
    "qdisc of a flow": (('rtt = "10ms"', 'rtt = "10ms"\nqdisc = "pie"'), ['flow "a"', "qdisc", "[link.NAME]"]),
    "captures are true": (
        ('duration = "1s"', 'duration = "1s"\ncaptures = true'),
        ["captures = true", '"first trial"'],
    ),
    "link without a name": (("[link.bottleneck]", "[link]"), ["link.rate", '"10Mbit"', "[link.NAME]"]),
    "links as a list": (("[link.bottleneck]", "[[link]]"), ["link", "[link.NAME]"]),
    "shaper in classes": (
        ('"pfifo limit 100"', '"htb rate 10mbit"'),
        ["link.bottleneck.qdisc", '"htb rate 10mbit"', "its keywords are default"],
    ),
    "qdisc that is not modelled": (('"pfifo limit 100"', '"gred"'), ['"gred" cannot be', "not modelled", "red"]),
    "a command for a class": (
        ('"pfifo limit 100"', '"tc qdisc add dev eth0 parent 1:10 handle 10: pie limit 9"'),
        ["link.bottleneck.qdisc", 'write "pie limit 9"'],
    ),
    "a command with a handle": (
        ('"pfifo limit 100"', '"root handle 1: fq_codel"'),
        ["is a command", 'write "fq_codel"'],
    ),
    "qfq": (('"pfifo limit 100"', '"qfq"'), ['"qfq" cannot be', "htb"]),
    "a whole command": (
        ('"pfifo limit 100"', '"tc qdisc add dev eth0 root pie limit 9"'),
        ["link.bottleneck.qdisc", 'write "pie limit 9"'],
    ),
    "space before a unit": (('"pfifo limit 100"', '"pie target 5 ms"'), ['"pie target 5 ms"', 'write "5ms"']),
    "a word of fq": (('"pfifo limit 100"', '"fq bands 3"'), ["bands", "not modelled", "no priority"]),
    "huge": (('rtt = "10ms"', 'rtt = "99999999999999s"'), ["rtt", "too large"]),
}

# What is added to GOOD, and what the sentence must mention.
ADDED = {
    "at beyond the end": ('[[at]]\ntime = "2s"\n"link.bottleneck.rate" = "5Mbit"', ["[[at]] no. 1", '"2s"', "earlier"]),
    "at without time": ('[[at]]\n"link.bottleneck.rate" = "5Mbit"', ["[[at]] no. 1", "time", "add it"]),
    "at without change": ('[[at]]\ntime = "0.5s"', ["[[at]] no. 1", "link.bottleneck.rate"]),
    "at on no link": (
        '[[at]]\ntime = "0.5s"\n"link.botleneck.rate" = "5Mbit"',
        ["[[at]] no. 1", "link.botleneck.rate", '"bottleneck"'],
    ),
    "at of another key": ('[[at]]\ntime = "0.5s"\nlink.bottleneck.burst = "5kB"', ["burst", '"5kB"', "rate"]),
    "at with a bad qdisc": ('[[at]]\ntime = "0.5s"\nlink.bottleneck.qdisc = "pfiffo"', ["qdisc", '"pfiffo"', "pfifo"]),
    "at with a bad rate": ('[[at]]\ntime = "0.5s"\nlink.bottleneck.rate = "5Mbps"', ["rate", '"5Mbps"', '"5Mbit"']),
    "rewrite of no flow": (
        '[[rewrite]]\nflow = "b"\nwhere = "before:bottleneck"\nfrom = "ect0"\nto = "ect1"',
        ["[[rewrite]] no. 1", "flow", '"b"', "a"],
    ),
    "rewrite at no link": (
        '[[rewrite]]\nflow = "a"\nwhere = "before:botleneck"\nfrom = "ect0"\nto = "ect1"',
        ["where", '"before:botleneck"', '"bottleneck"'],
    ),
    "rewrite nowhere": (
        '[[rewrite]]\nflow = "a"\nwhere = "bottleneck"\nfrom = "ect0"\nto = "ect1"',
        ["where", '"bottleneck"', '"before:bottleneck"'],
    ),
    "rewrite of an unknown codepoint": (
        '[[rewrite]]\nflow = "a"\nwhere = "before:bottleneck"\nfrom = "ect"\nto = "ect1"',
        ["from", '"ect"', "ect0"],
    ),
    "rewrite to itself": (
        '[[rewrite]]\nflow = "a"\nwhere = "before:bottleneck"\nfrom = "ect1"\nto = "ect1"',
        ["to", '"ect1"', "another"],
    ),
    "impair before no link": (
        '[impair.wifi]\nnetem = "delay 1ms"\nbefore = "botleneck"',
        ["impair.wifi.before", '"botleneck"', '"bottleneck"'],
    ),
    "impair direction": (
        '[impair.wifi]\nnetem = "delay 1ms"\nbefore = "bottleneck"\ndirection = "forwards"',
        ["impair.wifi.direction", '"forwards"', '"forward"'],
    ),
    "impair in words that tc does not have": (
        '[impair.wifi]\nnetem = "dealy 1ms"\nbefore = "bottleneck"',
        ["impair.wifi.netem", '"dealy 1ms"', '"delay"'],
    ),
    "empty sweep": ('[sweep]\n"flow.a.rtt" = []', ['sweep."flow.a.rtt"', "[]", "at least one"]),
    "sweep is no list": ('[sweep]\n"flow.a.rtt" = "5ms"', ['sweep."flow.a.rtt"', '"5ms"', "list"]),
    "sweep over no flow": ('[sweep]\n"flow.b.rtt" = ["5ms"]', ["flow.b.rtt", '"b"', "a"]),
    "sweep over no key": ('[sweep]\n"flow.a.rt" = ["5ms"]', ["flow.a.rt", '"rt"', '"rtt"']),
    "sweep over no section": ('[sweep]\n"flows.a.rtt" = ["5ms"]', ["flows.a.rtt", "flow.a.rtt"]),
    "sweep with a bad level": ('[sweep]\n"flow.*.cc" = ["cubic", "pragu"]', ['sweep."flow.*.cc"', '"pragu"', "prague"]),
    "sweep with a bare level": ('[sweep]\n"flow.*.rtt" = [5, 10]', ['sweep."flow.*.rtt"', "5", "has no unit"]),
    "sweep with a bad kind": (
        '[sweep]\n"flow.a.kind" = ["tcp", "tcpx"]\n[let]\nx = "rtt"',
        ['sweep."flow.a.kind"', '"tcpx"', '"tcp"'],
    ),
    "level twice": ('[sweep]\n"flow.*.rtt" = ["5ms", "5ms"]', ["flow.*.rtt", '"5ms"', "twice"]),
    "factor without use": ("[sweep]\nn = [1, 2]", ["sweep.n", "changes nothing", "{n}"]),
    "factor meant as a key": ('[sweep]\nrtt = ["5ms"]', ["sweep.rtt", '"flow.*.rtt"']),
    "factor with the name of a result": ('[sweep]\nshare = [1]\n[let]\nx = "share"', ["sweep.share", "another name"]),
    "bundle without level": (
        '[[sweep.aqm]]\n"link.bottleneck.qdisc" = "pfifo"',
        ["sweep.aqm", "level", "add"],
    ),
    "bundle with a bad level": (
        '[[sweep.aqm]]\nlevel = "x"\n"link.bottleneck.qdisc" = "pfiffo"',
        ['sweep.aqm level "x"', '"pfiffo"', "pfifo"],
    ),
    "bundle over no key": (
        '[[sweep.aqm]]\nlevel = "x"\n"link.bottleneck.qdsc" = "pfifo"',
        ['sweep.aqm level "x"', "qdsc", '"qdisc"'],
    ),
    "unknown placeholder": (
        '[[sweep.aqm]]\nlevel = "x"\n"link.bottleneck.qdisc" = "pfifo limit {packet}"\n[let]\npackets = "5"',
        ["{packet}", '"packets"'],
    ),
    "broken let": ('[let]\nx = "1 +"', ["let.x", '"1 +"', "it ends too early"]),
    "let of an unknown name": ('[let]\nx = "rt * 2"', ["let.x", '"rt * 2"', '"rt"', '"rtt"']),
    "dotted key without quotes": (
        '[let]\nx = "flow.a.rtt * 2"',
        ["let.x", '"flow.a.rtt * 2"', 'double quotes: write "flow.a.rtt"'],
    ),
    "dotted key with the words of a message": (
        '[let]\nx = "flow.a.rtt in full"',
        ["let.x", '"flow.a.rtt in full"', 'double quotes: write "flow.a.rtt"'],
    ),
    "dotted key in a claim": (
        '[sweep]\n"flow.a.rtt" = ["5ms"]\n[[claim]]\nid = "x"\nsql = "select max(flow.a.rtt = \'5ms\') from flows"',
        ['claim "x"', 'double quotes: write "flow.a.rtt"'],
    ),
    "let of a later value": ('[let]\nx = "y"\ny = "1"', ["let.x", '"y"', "move it above"]),
    "netem said twice": (
        '[impair.wifi]\nnetem = "netem delay 1ms"\nbefore = "bottleneck"',
        ["impair.wifi.netem", '"netem delay 1ms"', 'write "delay 1ms"'],
    ),
    "text of a claim in the quotes of names": (
        "[[claim]]\nid = 'x'\nsql = 'select min(share) > 0 from flows where flow = \"a\"'",
        ['claim "x"', "single quotes, 'a'"],
    ),
    "finding expected to fail": (
        '[[claim]]\nid = "x"\nkind = "found"\nexpect = false\nsql = "select true"',
        ["expect = false", "finding"],
    ),
    "let of an ambiguous name": (
        '[[flow]]\nname = "b"\ncc = "cubic"\nrtt = "20ms"\n[let]\nx = "rtt * 2"',
        ["let.x", '"rtt"', "flow.a.rtt"],
    ),
    "broken skip": ('[[skip]]\nwhen = "rtt >"', ["[[skip]] no. 1", '"rtt >"', "it ends too early"]),
    "skip is no condition": ('[[skip]]\nwhen = "rtt"', ["[[skip]] no. 1", "true or false"]),
    "NUL in a swept key": (
        '[sweep]\n"x\\u0000y" = [1, 2]\n[let]\nz = "1"',
        ["sweep has", '"x\\u0000y"', "NUL", "remove it"],
    ),
    "NUL in the name of a bundle": (
        '[[sweep."a\\u0000"]]\nlevel = "x"\n"link.bottleneck.qdisc" = "pfifo"',
        ['"a\\u0000"', "NUL"],
    ),
    "NUL in a level": ('[sweep]\n"flow.a.cc" = ["cubic", "re\\u0000no"]', ["sweep.flow.a.cc", '"re\\u0000no"', "NUL"]),
    "NUL in SQL": ('[[skip]]\nwhen = "rtt > 0\\u0000"', ["skip.when", '"rtt > 0\\u0000"', "NUL"]),
    "NUL in a flow's name": ('[[flow]]\nname = "b\\u0000"\ncc = "cubic"\nrtt = "1ms"', ["flow.name", "NUL"]),
    "all skipped": ('[[skip]]\nwhen = "rtt > 0"', ["[[skip]]", "relax"]),
    "view of no name": ('[view]\nAll = "select 1"', ["view", "All", "small letters"]),
    "view with a table's name": ('[view]\nflows = "select 1"\n' + CLAIM, ["view.flows", "another name"]),
    "view that is no text": ("[view]\nx = 1", ["view", "x = 1", "select"]),
    "view with broken SQL": ('[view]\nx = "selec 1"\n' + CLAIM, ["view.x", '"selec 1"', "syntax"]),
    "claim without id": ('[[claim]]\nsql = "select true"', ["[[claim]] no. 1", "id", "add it"]),
    "claim without sql": ('[[claim]]\nid = "x"', ["[[claim]] no. 1", "sql", "add it"]),
    "two claims of one id": (
        '[[claim]]\nid = "x"\nsql = "select true"\n[[claim]]\nid = "x"\nsql = "select true"',
        ['"x"', "twice", "its own id"],
    ),
    "claim with broken SQL": ('[[claim]]\nid = "x"\nsql = "selec true"', ['claim "x"', '"selec true"', "syntax"]),
    "claim over no column": (
        '[[claim]]\nid = "x"\nsql = "select avg(goodput) > 1 from flows"',
        ['claim "x"', "goodput", "goodput_mbps"],
    ),
    "claim over no table": ('[[claim]]\nid = "x"\nsql = "select true from flow"', ['claim "x"', "flow", "flows"]),
    "claim over no function": (
        '[[claim]]\nid = "x"\nsql = "select averge(share) > 1 from flows"',
        ['there is no function "averge"; did you mean "avg"?'],
    ),
    "claim that forgets group by": (
        '[[claim]]\nid = "x"\nsql = "select avg(share) > 1, flow from flows"',
        ['column "flow" has a value per row beside an aggregate', 'max("flow")'],
    ),
    "claim with an aggregate of rows": (
        '[[claim]]\nid = "x"\nsql = "select true from flows where avg(share) > 1"',
        ['claim "x"', "having"],
    ),
    "claim on no table": ('[[claim]]\nid = "x"\nsql = "select share > 1"', ['no table to take "share" from']),
    "claim that adds text": (
        '[[claim]]\nid = "x"\nsql = "select flow + 1 > 1 from flows"',
        ["+(VARCHAR, INTEGER_LITERAL) does not work; take columns and numbers of matching types\n"],
    ),
    "claim on a factor's last word": (
        '[sweep]\n"flow.a.cc" = ["cubic"]\n"link.bottleneck.qdisc" = ["pfifo", "codel"]\n'
        '[[claim]]\nid = "x"\nsql = "select count(*) > 1 from flows where qdisc = \'codel\'"',
        ['there is no column "qdisc"', 'the whole key in double quotes: "link.bottleneck.qdisc"'],
    ),
    "figure of text": (
        "[[figure]]\nid = 'f'\nkind = 'shares'\nsql = \"select flow as bar, flow as part, cc as value from flows\"",
        ['figure "f"', "VARCHAR in its column value", "number"],
    ),
    "limits the wrong way round": (
        "[[figure]]\nid = 'f'\nkind = 'lines'\nlimits = [5, 1]\nsql = 'select time_s as x, rate_mbps as y from series'",
        ["limits = [5, 1]", "lower end first"],
    ),
    "published of no flow": (
        "[[published]]\nid = 'p'\nvalue = 1\nflow = 'aa'\ncolumn = 'share'",
        ['published "p"', '"aa"', 'did you mean "a"'],
    ),
    "claim of two queries": ('[[claim]]\nid = "x"\nsql = "select true; select false"', ['claim "x"', "one SELECT"]),
    "claim that writes": ('[[claim]]\nid = "x"\nsql = "drop view flows"', ['claim "x"', "one SELECT"]),
    "claim without verdict": (
        '[[claim]]\nid = "x"\nsql = "select avg(share) from flows"',
        ['claim "x"', "DOUBLE", "comparison"],
    ),
    "claim on files": (
        '[[claim]]\nid = "x"\nsql = "select true from read_csv(\'x.csv\')"',
        ['claim "x"', "disabled"],
    ),
    "claim key": ('[[claim]]\nid = "x"\nsqll = "select true"', ["[[claim]] no. 1", "sqll", '"sql"']),
}


def sentence(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("l4slab: ")
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err
    return captured.err


def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, mentions: list[str]) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    assert main(["run", str(file), "--out", str(out)]) == 2
    message = sentence(capsys)
    assert str(file) in message
    for mention in mentions:
        assert mention in message
    assert not out.exists()


def test_the_file_that_the_mistakes_change_is_right(tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(GOOD)
    assert main(["run", str(file), "--dry-run"]) == 0


@pytest.mark.parametrize("case", CHANGED)
def test_wrong_value(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (old, new), mentions = CHANGED[case]
    assert old in GOOD
    refused(tmp_path, capsys, GOOD.replace(old, new, 1), mentions)


@pytest.mark.parametrize("case", ADDED)
def test_wrong_table(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    added, mentions = ADDED[case]
    refused(tmp_path, capsys, f"{GOOD}\n{added}\n", mentions)


FILES = {
    "not UTF-8": (GOOD.encode() + b"\n# caf\xe9\n", ["line 13", "not UTF-8", "save"]),
    "empty": (b"", ["empty", "[[flow]]"]),
    "only comments": (b"# nothing\n", ["no link", "[link.NAME]"]),
    "not TOML": (b"duration = \n", ["not valid TOML", "line 1", "correct"]),
    "NUL": (b"\0\0\0", ["not valid TOML", "correct"]),
    "JSON": (b'{"duration": "1s"}\n', ["not valid TOML", "looks like JSON", "[link.bottleneck]"]),
    "YAML": (b"duration: 1s\n", ["not valid TOML", "write key = value"]),
    "UTF-16": (GOOD.encode("utf-16"), ["line 1", "not UTF-8", "save"]),
    "key twice": (b'duration = "1s"\nduration = "2s"\n', ["not valid TOML", "its own name"]),
}


@pytest.mark.parametrize("case", FILES)
def test_wrong_file(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, mentions = FILES[case]
    file = tmp_path / "experiment.toml"
    file.write_bytes(content)
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 2
    message = sentence(capsys)
    for mention in [str(file), *mentions]:
        assert mention in message


def test_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tmp_path / "none.toml"), "--out", str(tmp_path / "out")]) == 2
    assert "none.toml: there is no such file" in sentence(capsys)


def test_directory_instead_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert f"{tmp_path}: is a directory" in sentence(capsys)


def test_two_files_of_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / name / "x.toml" for name in ("a", "b")]
    for file in files:
        file.parent.mkdir()
        file.write_text(GOOD)
    assert main(["run", *map(str, files), "--out", str(tmp_path / "out")]) == 2
    message = sentence(capsys)
    assert all(str(file) in message for file in files)
    assert "rename" in message


ARGUMENTS = {
    "no out": (["run", "FILE", "FILE2"], ["--out", "several files"]),
    "no file": (["run", "--out", "OUT"], ["FILE", "--help"]),
    "unknown option": (["run", "FILE", "--ouT", "OUT"], ["--ouT", "--out"]),
    "unknown command": (["runn", "FILE"], ["runn", "did you mean 'run'?"]),
    "unknown engine": (["run", "FILE", "--out", "OUT", "--engine", "ns3"], ["--engine ns3", "sim"]),
    "no kernel yet": (["run", "FILE", "--out", "OUT", "--engine", "linux"], ["--engine linux", "l4slab linux build"]),
    "no workers": (["run", "FILE", "--out", "OUT", "--workers", "0"], ["--workers 0", "1 or more"]),
    "workers is text": (["run", "FILE", "--out", "OUT", "--workers", "two"], ["--workers", "two"]),
    "two executors": (["run", "FILE", "--out", "OUT", "--workers", "1", "--dask", "x"], ["--workers", "--dask"]),
    "out is a file": (["run", "FILE", "--out", "FILE"], ["is a file", "--out"]),
    "report on no results": (["report", "OUT"], ["OUT", "not a results folder"]),
    "no kernel for a study": (["reproduce", "overload", "--engine", "linux"], ["--engine linux", "l4slab linux build"]),
    "out below a file": (["run", "FILE", "--out", "FILE/y"], ["FILE/y", "FILE is a file"]),
    "out far below a file": (["run", "FILE", "--out", "FILE/y/z"], ["FILE/y/z", "FILE is a file"]),
    "empty out": (["run", "FILE", "--out", ""], ["--out is empty"]),
    "empty dask": (["run", "FILE", "--dask", ""], ["--dask is empty"]),
    "many workers": (["run", "FILE", "--workers", "1001"], ["--workers 1001", "at most 1000"]),
    "endless file": (["run", "/dev/zero"], ["/dev/zero", "more than 16 MiB"]),
    "empty where": (["run", "FILE", "--where", " "], ["--where is empty"]),
    "a study is no file": (["run", "fast-lane"], ["fast-lane", "l4slab reproduce fast-lane"]),
    "a file is no study": (["reproduce", "x.toml"], ["x.toml", "l4slab run x.toml"]),
    "one file twice": (["run", "FILE", "FILE", "--out", "OUT"], ["FILE", "given twice"]),
    "init on a folder": (["init", "."], ["is a folder", "l4slab init mine"]),
    "init nowhere": (["init", "no/where"], ["no/where.toml", "cannot be written"]),
    "compare with nothing": (["compare", "OUT", "OUT"], ["OUT", "not a results folder"]),
    "compare at a URL": (["compare", "s3://a/b", "OUT"], ["s3://a/b", "copy the .parquet files"]),
    "export of nothing": (["export", "OUT"], ["OUT", "l4slab report OUT"]),
    "export to a format": (["export", "OUT", "--xlsx"], ["--xlsx", "l4slab export --help"]),
    "unknown study": (["reproduce", "fast-line"], ["fast-line", "fast-lane"]),
    "no comparison": (["agree", "nothing"], ["nothing is neither", "access, bbr, bfifo", "l4slab list comparisons"]),
    "a comparison's near name": (["agree", "dulpi2"], ["dulpi2", 'did you mean "dualpi2"?']),
    "an unknown column": (
        ["run", "FILE", "--where", "durations = 1"],
        ['there is no "durations"', 'did you mean "duration" or', "or a factor (trial)?"],
    ),
    "unknown list": (["list", "qdisc"], ["qdisc", '"qdiscs"']),
    "nothing that can be listed": (["list", "zzz"], ["zzz", '"l4slab list"', "qdiscs"]),
}


UNITLESS = {
    "fq_codel target 5": '"target 5", which tc reads as "target 5us"; write that, or "target 5ms"',
    "codel target 5 interval 100 limit 100": '"target 5us" and "interval 100us"; write that, or "target 5ms" and',
    "cake bandwidth 1000000": 'reads as "bandwidth 1000000bit"; write that',
    "dualpi2 step_thresh 5": 'reads as "step_thresh 5us"',
    "dualpi2 classic_protection 25": 'reads as "classic_protection 25%"',
    "netem loss 0.01": '"loss 0.01", which tc reads as "loss 0.01%"; write that',
    "netem delay 10ms 2 25": '"delay 2" and "delay 25", which tc reads as "delay 2ns" and "delay 25%"',
    "tbf rate 8000000 burst 1600 limit 3000": 'reads as "rate 8000000bit"',
    "tc qdisc add dev eth0 root pie target 20": 'its qdisc is wrong: it has no unit in "target 20"',
}


@pytest.mark.parametrize("qdisc", UNITLESS)
def test_a_number_without_a_unit_is_refused(qdisc: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.toml"
    file.write_text(GOOD.replace("pfifo limit 100", qdisc))
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 2
    message = sentence(capsys)
    assert f'link.bottleneck.qdisc = "{qdisc}' in message
    assert UNITLESS[qdisc] in message


WITHOUT_UNIT = {
    "a medium": (
        '[link.air]\nmedium = "leo pop 5"\nqdisc = "pfifo"\n',
        'link.air.medium = "leo pop 5" has no unit in "pop 5"',
    ),
    "a change": ('[[at]]\ntime = "0.5s"\n"link.bottleneck.qdisc" = "pie target 9"\n', 'has no unit in "target 9"'),
    "an impairment": (
        '[impair.w]\nnetem = "delay 5"\nbefore = "bottleneck"\n',
        'impair.w.netem = "delay 5" has no unit',
    ),
    "a change of one": (
        '[impair.w]\nnetem = "delay 5ms"\nbefore = "bottleneck"\n[[at]]\ntime = "0.5s"\n"impair.w.netem" = "delay 9"\n',
        '"delay 9" has no unit in "delay 9"',
    ),
    "a change of a medium": (
        '[link.air]\nmedium = "leo"\nqdisc = "pfifo"\n[[at]]\ntime = "0.5s"\n"link.air.medium" = "leo pop 5"\n',
        'link.air.medium = "leo pop 5" has no unit',
    ),
}


@pytest.mark.parametrize("case", WITHOUT_UNIT)
def test_every_text_in_words_of_tc_needs_units(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, mentioned = WITHOUT_UNIT[case]
    file = tmp_path / "x.toml"
    file.write_text(GOOD + text)
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 2
    assert mentioned in sentence(capsys)


# From `tc -s qdisc show` of iproute2 6.1, and what it means.
SHOWN = {
    "qdisc fq_codel 0: dev eth0 root refcnt 2 limit 10240p flows 1024 quantum 1514 target 5ms interval 100ms "
    "memory_limit 32Mb ecn drop_batch 64": "fq_codel",
    "fq_codel 8002: root refcnt 2 limit 10240p flows 1024 quantum 1514 target 5ms ce_threshold 999us interval 100ms "
    "memory_limit 32Mb ecn drop_batch 64": "fq_codel ce_threshold 999us",
    "qdisc codel 8003: root refcnt 2 limit 1000p target 5ms interval 100ms ecn \n"
    " Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0) \n backlog 0b 0p requeues 0": "codel ecn",
    "qdisc cake 8004: dev eth1 root refcnt 2 bandwidth 10Mbit diffserv3 triple-isolate nonat nowash no-ack-filter "
    "split-gso rtt 100ms raw overhead 0": "cake bandwidth 10mbit",
    "qdisc tbf 1: root refcnt 2 rate 10Mbit burst 1695b/1 mpu 0b lat 50.0ms linklayer ethernet": (
        "tbf rate 10mbit burst 1695 latency 50ms"
    ),
    "qdisc tbf 8007: root refcnt 2 rate 10Mbit burst 5Kb peakrate 12Mbit minburst 1599b lat 5.76ms": (
        "tbf rate 10mbit burst 5kb peakrate 12mbit mtu 1599 latency 5.76ms"
    ),
    "qdisc pfifo 8008: parent 1:1 limit 1000p": "pfifo",
    "qdisc bfifo 8009: root refcnt 2 limit 100Kb": "bfifo limit 100k",
    "qdisc pfifo_fast 0: root refcnt 2 bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1": "pfifo_fast",
    "qdisc pie 800c: root refcnt 2 limit 1000p target 15ms tupdate 16ms alpha 2 beta 20 ecn bytemode": (
        "pie tupdate 16ms ecn bytemode"
    ),
    "qdisc fq 800e: root refcnt 2 limit 10000p flow_limit 100p buckets 1024 orphan_mask 1023 bands 3 priomap 1 2 2 2 1 "
    "2 0 0 1 1 1 1 1 1 1 1 weights 589824 196608 65536 quantum 3028b initial_quantum 15140b maxrate 10Mbit "
    "low_rate_threshold 550Kbit refill_delay 40ms ce_threshold 5ms timer_slack 10us horizon 10s horizon_drop": (
        "fq maxrate 10mbit ce_threshold 5ms timer_slack 10us horizon 10s horizon_drop"
    ),
    "qdisc red 8010: root refcnt 2 limit 60000b min 5000b max 15000b harddrop adaptive avpkt 1000": (
        "red limit 60000 min 5000 max 15000 avpkt 1000 harddrop adaptive"
    ),
    "qdisc sfq 8012: root refcnt 2 limit 127p quantum 1514b depth 127 headdrop divisor 1024 perturb 10sec \n"
    "  prob_mark 0 prob_mark_head 0 prob_drop 0": "sfq headdrop perturb 10",
    "qdisc netem 8013: root refcnt 2 limit 1000 delay 10ms  5ms 25% loss 1%": "netem delay 10ms 5ms 25% loss 1%",
    "qdisc netem 8014: root refcnt 2 limit 1000 delay 10ms loss gemodel p 1% r 10% 1-h 100% 1-k 0% duplicate 1% "
    "reorder 25% 50% corrupt 0.1% rate 5Mbit gap 5": (
        "netem delay 10ms loss gemodel 1% 10% duplicate 1% reorder 25% 50% gap 5 corrupt 0.1% rate 5mbit"
    ),
    "qdisc netem 8016: root refcnt 2 limit 1000 delay 100ms  10ms loss state p13 1% p31 2% p32 0% p23 100% p14 0%": (
        "netem delay 100ms 10ms loss state 1% 2%"
    ),
    "qdisc netem 8015: root limit 512 slot 800us 10ms packets 42": "netem slot 800us 10ms packets 42 limit 512",
    "qdisc fq_pie 8019: root refcnt 2 limit 10240p flows 1024 target 15ms tupdate 16ms alpha 2 beta 20 quantum 1514b "
    "memory_limit 32Mb ecn_prob 10 ecn": "fq_pie tupdate 16ms ecn",
    "qdisc dualpi2 8017: dev eth0 root refcnt 2 limit 10000p memlimit 30280000B target 15ms tupdate 16ms "
    "alpha 0.16015625 beta 3.19921875 l4s_ect coupling_factor 2 drop_on_overload step_thresh 1ms min_qlen_step 0p "
    "drop_dequeue split_gso classic_protection 10%": "dualpi2",
}


@pytest.mark.parametrize("shown", SHOWN)
def test_what_tc_shows_is_read(shown: str, tmp_path: Path) -> None:
    texts = []
    for text in (shown, SHOWN[shown]):
        file = tmp_path / "x.toml"
        file.write_text(GOOD.replace('"pfifo limit 100"', json.dumps(text)))
        (plan,) = campaign.plan([file])
        texts.append(plan.runs[0].description["links"][0]["qdisc"])
    assert texts[0] == texts[1]


NOT_SHOWN = {
    "qdisc mq 0: dev eth0 root": "mq hands packets to the several queues of a network card",
    "qdisc noqueue 0: dev lo root refcnt 2": "a link here always has a queue",
    "qdisc codel 1: root limit 9p\nqdisc pie 2: parent 1:1 limit 9p": "are several queues; write the first as qdisc",
    '[{"kind":"fq_codel","handle":"0:","root":true,"options":{"limit":10240}}]': "is JSON of tc -j; write the line",
    "qdisc red 800f: root refcnt 2 limit 60000b min 5000b max 15000b ecn": "red: avpkt is missing",
    "tc class add dev eth0 parent 1: classid 1:10 htb rate 5mbit": "write it as a table [link.NAME.class.ID]",
    "tc -s qdisc del dev eth0 root": "is a command without a queue",
}


@pytest.mark.parametrize("shown", NOT_SHOWN)
def test_what_cannot_be_read_of_it(shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.toml"
    file.write_text(GOOD.replace('"pfifo limit 100"', json.dumps(shown)))
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 2
    assert NOT_SHOWN[shown] in sentence(capsys)


@pytest.mark.parametrize("qdisc", ["fq_codel target 5ms", "dualpi2 step_thresh 5p", "pfifo limit 5", "codel ecn"])
def test_a_unit_needs_no_remark(qdisc: str, tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(GOOD.replace("pfifo limit 100", qdisc))
    assert campaign.plan([file])[0].notes() == []


@pytest.mark.parametrize("case", ARGUMENTS)
def test_wrong_arguments(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("FILE").write_text(GOOD)
    arguments, mentions = ARGUMENTS[case]
    assert main(arguments) == 2
    message = sentence(capsys)
    for mention in mentions:
        assert mention in message
    assert not Path("OUT").exists()
