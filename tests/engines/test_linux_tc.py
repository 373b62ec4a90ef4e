"""Command lines of `tc`: l4slab's reading accepts and refuses what the kernel and its `tc` accept and refuse."""

from __future__ import annotations

import pytest
from l4slab import _core
from l4slab.engines.linux import kernels
from l4slab.tools.kerneltests import Ended, KernelTest, boots

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(kernels.installed() is None, reason="no kernel: l4slab linux build"),
]
# By the grammar of each queue's manual page: each keyword, values at the ends of its range and beyond, values without
# their unit, keywords twice, without a value, of another queue and misspelt.
LINES = """
pfifo | pfifo limit 0 | pfifo limit 1 | pfifo limit 4294967295 | pfifo limit 1k | pfifo limit -1 | pfifo limit
pfifo limit x | pfifo limt 10 | pfifo 10 | pfifo limit 5 limit 6 | pfifo limit 1.5
bfifo | bfifo limit 0 | bfifo limit 1500 | bfifo limit 64kb | bfifo limit 1mb | bfifo limit 10x | bfifo limit 1500b
pfifo_head_drop | pfifo_head_drop limit 20 | pfifo_head_drop limit | pfifo_fast | pfifo_fast limit 10
red | red limit 150000 | red limit 150000 avpkt 1000 | red limit 60kb min 15kb max 45kb avpkt 1000
red limit 60kb min 15kb max 45kb avpkt 1000 burst 20 | red limit 60kb min 15kb max 45kb avpkt 1000 burst 0
red limit 60kb avpkt 1000 probability 0.1 ecn | red limit 60kb avpkt 1000 probability 2 | red limit 60kb avpkt 0
red limit 60kb avpkt 1000 probability 0.5 bandwidth 10mbit | red limit 60kb avpkt 1000 bandwidth 10
red limit 60kb avpkt 1000 adaptive | red limit 60kb avpkt 1000 ecn harddrop | red limit 60kb avpkt 1000 ecn nodrop
red limit 60kb avpkt 1000 nodrop | red limit 60kb min 50kb max 40kb avpkt 1000 | red limit 60kb avpkt 1000 noecn
red limit 60kb min 30kb max 30kb avpkt 1000 burst 50
choke | choke limit 1000 | choke limit 1000 bandwidth 10mbit | choke bandwidth 10mbit | choke limit 100 bandwidth x
choke limit 100 min 10 max 40 bandwidth 10mbit ecn | choke limit 100 max 200 bandwidth 10mbit | choke limit x
choke limit 100 min 50 max 50 bandwidth 10mbit | choke limit 131071 bandwidth 100mbit
choke limit 131072 bandwidth 100mbit | choke limit 100 bandwidth 10mbit burst 2 | choke limit 20 bandwidth 10mbit
choke limit 100 bandwidth 10mbit avpkt 500 burst 40 probability 0.2 | choke limit 100 bandwidth 10mbit harddrop
choke limit 100 bandwidth 10mbit probability 2 | choke limit 100 bandwidth 10mbit noecn
sfb | sfb limit 100 | sfb limit 0 | sfb max 10 target 5 | sfb target 0 | sfb rehash 1000 db 100 | sfb rehash 1s
sfb db x | sfb increment 0.1 decrement 0.01 | sfb increment 1 | sfb increment 1.5 | sfb decrement -1
sfb penalty_rate 100
sfb penalty_burst 0 | sfb penalty_rate 0 | sfb ecn | sfb limit | sfb penalty_rate 1mbit
hhf | hhf limit 100 | hhf limit x | hhf quantum 300 | hhf quantum 2147483648 | hhf quantum 3k | hhf hh_limit 2048
hhf hh_limit 2049 | hhf reset_timeout 40ms | hhf reset_timeout x | hhf evict_timeout 1s | hhf admit_bytes 128000
hhf admit_bytes 128k | hhf non_hh_weight 3 | hhf non_hh_weight 1418418 | hhf non_hh_weight 1418417 | hhf ecn
hhf limit 0 | hhf hh_limit 0 | hhf reset_timeout 0
codel | codel limit 1 | codel limit 0 | codel target 5ms | codel target 5 | codel target 0 | codel interval 100ms
codel target 5ms interval 100ms ecn | codel ce_threshold 1ms | codel ce_threshold 0ms | codel noecn | codel ecn noecn
codel target | codel target x | codel target 5parsecs | codel limit -4 | codel targt 5ms | codel flows 3
codel target 1s
fq_codel | fq_codel limit 1000 flows 1 | fq_codel flows 0 | fq_codel flows 65536 | fq_codel flows 65537
fq_codel quantum 300 | fq_codel quantum 1 | fq_codel quantum 0 | fq_codel target 5ms interval 100ms noecn
fq_codel ce_threshold 2ms | fq_codel ce_threshold_selector 0x01/0x03 ce_threshold 1ms | fq_codel memory_limit 32mb
fq_codel ce_threshold_selector 0x01 ce_threshold 1ms | fq_codel drop_batch 1 | fq_codel drop_batch 0
fq_codel memory_limit x | fq_codel limit 0 | fq_codel quantum 1048576 | fq_codel quantum 1048577 | fq_codel depth 3
fq | fq limit 100 | fq limit 0 | fq flow_limit 10 | fq buckets 1024 | fq buckets 262144 | fq buckets 262145
fq buckets 1 | fq buckets 0 | fq orphan_mask 0 | fq orphan_mask 0x3ff | fq quantum 1514 | fq quantum 0
fq initial_quantum 15140 | fq pacing | fq nopacing | fq maxrate 10mbit | fq maxrate 10 | fq maxrate x
fq low_rate_threshold 1mbit | fq refill_delay 20ms | fq ce_threshold 1ms | fq horizon 2s | fq horizon_drop
fq horizon_cap | fq timer_slack 10us | fq horizon_cap horizon_drop | fq target 5ms | fq maxrate | fq quantum 1514b
pie | pie limit 100 | pie limit 0 | pie target 15ms | pie tupdate 15ms | pie alpha 2 beta 20 | pie alpha 32
pie beta 33
pie ecn | pie noecn | pie bytemode | pie nobytemode | pie dq_rate_estimator | pie no_dq_rate_estimator | pie alpha
pie target x | pie flows 3 | pie ecn bytemode target 20ms tupdate 10ms limit 500
fq_pie | fq_pie limit 1000 | fq_pie flows 1 | fq_pie flows 0 | fq_pie flows 65536 | fq_pie flows 65537
fq_pie target 15ms tupdate 15ms alpha 2 beta 20 | fq_pie quantum 1514 | fq_pie memory_limit 32mb | fq_pie ecn_prob 50
fq_pie ecn_prob 101 | fq_pie ecn | fq_pie noecn | fq_pie bytemode | fq_pie dq_rate_estimator | fq_pie limit 0
fq_pie quantum 0 | fq_pie target
sfq | sfq limit 100 | sfq limit 1 | sfq limit 2 | sfq perturb 10 | sfq perturb 0 | sfq quantum 1514 | sfq depth 20
sfq depth 128 | sfq flows 100 | sfq flows 65537 | sfq divisor 512 | sfq divisor 500 | sfq divisor 65536
sfq divisor 131072
sfq headdrop | sfq redflowlimit 100000 min 8000 max 60000 probability 0.2 ecn | sfq redflowlimit x
sfq limit 3000 flows 512 divisor 16384 redflowlimit 100000 min 8000 max 60000 probability 0.20 ecn headdrop
sfq harddrop | sfq quantum 0 | sfq quantum 10 | sfq flows 0 | sfq perturb x | sfq limit
dualpi2 | dualpi2 limit 1000 | dualpi2 limit 0 | dualpi2 target 10ms | dualpi2 tupdate 10ms | dualpi2 alpha 0.2
dualpi2 alpha 0.2 beta 3 | dualpi2 max_rtt 100ms | dualpi2 max_rtt 100ms typical_rtt 20ms | dualpi2 typical_rtt 20ms
dualpi2 coupling_factor 2 | dualpi2 coupling_factor 0 | dualpi2 coupling_factor 255 | dualpi2 coupling_factor 256
dualpi2 step_thresh 1ms | dualpi2 step_thresh 5p | dualpi2 step_thresh 5 | dualpi2 step_thresh x
dualpi2 min_qlen_step 2 | dualpi2 drop_on_overload | dualpi2 overflow | dualpi2 drop_enqueue | dualpi2 drop_dequeue
dualpi2 classic_protection 10% | dualpi2 classic_protection 101% | dualpi2 classic_protection 0% | dualpi2 any_ect
dualpi2 l4s_ect | dualpi2 split_gso | dualpi2 no_split_gso | dualpi2 memlimit 1000000 | dualpi2 memlimit 0
dualpi2 target x | dualpi2 targt 10ms | dualpi2 target | dualpi2 overflow drop_on_overload | dualpi2 ecn
cake | cake bandwidth 50mbit | cake bandwidth 0 | cake unlimited | cake bandwidth x | cake rtt 50ms | cake metro
cake besteffort | cake precedence | cake diffserv3 | cake diffserv4 | cake diffserv8 | cake diffserv5 | cake flowblind
cake srchost | cake dsthost | cake hosts | cake flows | cake dual-srchost | cake dual-dsthost | cake triple-isolate
cake nat | cake nonat | cake wash | cake nowash | cake split-gso | cake no-split-gso | cake ack-filter
cake ack-filter-aggressive | cake no-ack-filter | cake memlimit 1mb | cake fwmark 0xff | cake ingress | cake egress
cake overhead 18 | cake overhead -64 | cake overhead -65 | cake overhead 256 | cake overhead 257 | cake mpu 64
cake mpu 257
cake atm | cake ptm | cake noatm | cake raw | cake conservative | cake docsis | cake ethernet | cake ether-vlan
cake pppoe-ptm | cake bridged-llcsnap | cake pppoa-vcmux | cake datacentre | cake lan | cake regional | cake internet
cake oceanic | cake satellite | cake interplanetary | cake bandwidth 50mbit autorate-ingress | cake bandwidth
cake limit 3
tbf rate 10mbit burst 10kb limit 30kb | tbf rate 10mbit burst 10kb latency 50ms | tbf rate 10mbit burst 10kb
tbf rate 10mbit limit 30kb | tbf burst 10kb limit 30kb | tbf rate 10mbit burst 10kb limit 30kb latency 50ms | tbf
tbf rate 10mbit burst 10kb limit 30kb peakrate 20mbit mtu 2000 | tbf rate 10mbit burst 10kb limit 30kb peakrate 20mbit
tbf rate 10mbit burst 10kb limit 30kb mpu 64 | tbf rate 10mbit buffer 10kb limit 30kb | tbf rate x burst 10kb limit 30kb
tbf rate 10mbit burst 10kb limit 30kb overhead 10 | tbf rate 10mbit burst 10kb limit 30kb ecn
netem | netem delay 10ms | netem delay 10ms 2ms | netem delay 10ms 2ms 25% | netem delay 10ms 2ms distribution normal
netem delay 10ms distribution normal | netem delay 10 | netem delay x | netem delay | netem loss 1% | netem loss 101%
netem loss 1% 25% | netem loss random 1% | netem loss state 1% | netem loss state 1% 2% 3% 4% 5% | netem loss gemodel 1%
netem loss gemodel 1% 10% 70% 0.1% | netem loss 1% ecn | netem ecn | netem duplicate 1% | netem corrupt 1%
netem delay 10ms reorder 25% | netem reorder 25% | netem delay 10ms reorder 25% 50% gap 5 | netem rate 10mbit
netem rate 10mbit 20 | netem rate 10mbit 20 53 5 | netem slot 1ms 5ms | netem slot 1ms 5ms packets 10 bytes 10000
netem slot distribution normal 5ms 1ms | netem limit 100 | netem limit 0 | netem limit x | netem seed 5 | netem gap 5
netem delay 10ms 2ms distribution pareto | netem delay 10ms 2ms distribution nothing | netem target 3ms
"""
# `tc` takes these: it leaves a zero out or makes a queue that holds nothing, and does not look at two values of RED.
STRICTER = """
red limit 60kb min 15kb max 45kb avpkt 1000 burst 0 | red limit 60kb avpkt 1000 probability 2
choke limit 100 bandwidth 10mbit probability 2 | hhf limit 0 | hhf hh_limit 0
hhf reset_timeout 0 | codel limit 0 | codel target 0 | fq_codel flows 0 | fq_codel quantum 0
fq_codel drop_batch 0 | fq_codel limit 0 | fq buckets 0 | pie limit 0 | fq_pie flows 0 | fq_pie limit 0
fq_pie quantum 0 | dualpi2 limit 0 | dualpi2 memlimit 0
"""
# `tc qdisc show` prints it with this unit, and what that prints is read, too.
AS_SHOWN = {"fq quantum 1514b"}
# A queue, and a change of it.
CHANGES = """
pfifo -> pfifo limit 5 | bfifo -> bfifo limit 3000 | pfifo -> pfifo limit x | codel -> codel target 10ms
fq_codel -> fq_codel target 10ms | fq_codel -> fq_codel flows 10 | fq_codel -> fq_codel limit 5
fq_codel -> fq_codel noecn | fq -> fq maxrate 10mbit | fq -> fq buckets 512 | fq -> fq quantum 0
pie -> pie target 20ms
pie -> pie alpha 3 | fq_pie -> fq_pie flows 10 | fq_pie -> fq_pie target 10ms | sfq -> sfq perturb 5
sfq -> sfq divisor 512 | sfq -> sfq limit 1 | dualpi2 -> dualpi2 target 5ms | dualpi2 -> dualpi2 coupling_factor 0
dualpi2 -> dualpi2 step_thresh 2p | cake -> cake bandwidth 10mbit | cake -> cake rtt x | cake -> cake besteffort
red limit 60kb avpkt 1000 -> red limit 90kb avpkt 1000 | red limit 60kb avpkt 1000 -> red limit 90kb
choke limit 100 bandwidth 10mbit -> choke limit 200 bandwidth 10mbit
choke limit 100 bandwidth 10mbit -> choke limit 200
sfb -> sfb limit 5 | sfb -> sfb increment 2 | hhf -> hhf limit 5 | hhf quantum 3000 -> hhf non_hh_weight 1418417
tbf rate 10mbit burst 10kb limit 30kb -> tbf rate 20mbit burst 10kb limit 30kb
tbf rate 10mbit burst 10kb limit 30kb -> tbf rate 20mbit | netem delay 10ms -> netem delay 20ms
netem delay 10ms -> netem delay x | netem delay 10ms -> netem loss 1%
"""


def split(text: str) -> list[str]:
    return [line.strip() for row in text.strip().splitlines() for line in row.split("|")]


def run(script: str) -> Ended:
    """A script on the kernel, with a device `dut`."""
    test = KernelTest("tc", "lines", f"ip link add dut type dummy; ip link set dut up\n{script}", 600)
    (result,) = boots.run([test], kernels.DEFAULT, 1, 1, 600)
    (ended,) = result.ended
    assert ended is not None, result.why
    assert result.status == "pass", result.details()
    return ended


def accepts(line: str) -> bool:
    try:
        _core.canonical_qdisc(line)
    except ValueError:
        return False
    return True


def test_each_line_is_accepted_or_refused_as_by_tc() -> None:
    lines = split(LINES)
    script = [
        f"tc qdisc add dev dut root {line}; echo $? >$OUT/{number}; tc qdisc del dev dut root"
        for number, line in enumerate(lines)
    ]
    files = run("\n".join([*script, "exit 0"])).files
    accepted = {line for number, line in enumerate(lines) if int(files[str(number)]) == 0}
    assert {line for line in lines if accepts(line)} == accepted - set(split(STRICTER)) | AS_SHOWN
    assert 200 < len(accepted) < len(lines) - 50


def test_each_change_is_accepted_or_refused_as_by_tc() -> None:
    changes = [tuple(line.split(" -> ")) for line in split(CHANGES)]
    script = [
        f"tc qdisc add dev dut root {line} && {{ tc qdisc change dev dut root {change}; echo $? >$OUT/{number}; "
        "tc qdisc del dev dut root; }"
        for number, (line, change) in enumerate(changes)
    ]
    files = run("\n".join([*script, "exit 0"])).files
    accepted = {change: int(files[str(number)]) == 0 for number, change in enumerate(changes)}

    def is_taken(line: str, change: str) -> bool:
        try:
            _core.ChangingQdisc(line).change(change)
        except ValueError:
            return False
        return True

    assert {change: is_taken(*change) for change in changes} == accepted
    assert 10 < sum(accepted.values()) < len(changes) - 5
