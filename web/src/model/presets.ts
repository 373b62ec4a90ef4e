/** Set-ups to begin with. Each is an address; those of studies are the studies' runs. */
import { type Address, readAddress } from "./address";

export interface Preset {
  id: string;
  group: string;
  title: string;
  /** What to look at. */
  look: string;
  source: string;
  /** Whose run it is: a study's file, and the levels of its sweep. */
  study?: { file: string; levels: Record<string, string | number> };
  address: string;
}

const FAST_LANE = `
  duration=60s
  link.bottleneck.rate=50Mbit  link.bottleneck.qdisc=dualpi2
  flow.cubic.cc=cubic  flow.cubic.rtt=20ms  flow.cubic.ecn=classic
  flow.tweaked.cc=cubic  flow.tweaked.rtt=20ms  flow.tweaked.ecn=classic  flow.tweaked.start=10s  flow.tweaked.pace=40Mbit
  view.speed=2`;

const LOW_RATE = `
  flow.l4s.cc=prague  flow.l4s.rtt=10ms
  flow.classic.cc=cubic  flow.classic.rtt=10ms  flow.classic.ecn=classic
  link.bottleneck.rate=8Mbit`;

const BYSTANDERS = `
  flow.not-ect.count=5  flow.not-ect.cc=cubic  flow.not-ect.rtt=10ms  flow.not-ect.ecn=off
  flow.ect.count=5  flow.ect.rtt=10ms`;

const OBJECTION = "L4STeam, Disproof of 'Throughput Bonus' or 'Fast-Lane' Objection (2022)";
const OVERLOADED = "L4STeam, Overload results (2021)";

export const PRESETS: readonly Preset[] = [
  preset({
    id: "start",
    group: "Start here",
    title: "One queue for all, then two",
    look: "At first both flows stand in one FIFO, and both wait some 40 ms. After 5 s the router gets DualPI2: Prague (L4S) makes a small step at each of many marks and waits less than 1 ms; CUBIC (Classic) goes on in large steps, which take a queue of some 15 ms.",
    source: "examples/picture.toml, with the change after 5 s",
    address: `
      link.bottleneck.rate=50Mbit  link.bottleneck.qdisc=pfifo+limit+200
      at.1.time=5s  at.1.link.bottleneck.qdisc=dualpi2
      flow.l4s.cc=prague  flow.l4s.rtt=20ms
      flow.classic.cc=cubic  flow.classic.rtt=20ms`,
  }),
  preset({
    id: "fast-lane-A",
    group: "Is the L queue a fast lane?",
    title: "A: marked ECT(1), and answers marks",
    look: "After 10 s a second CUBIC flow claims to be L4S. It gets less, not more: the L queue is marked for senders that answer gently, and CUBIC halves.",
    source: `${OBJECTION}, experiment A`,
    study: { file: "fast-lane/A", levels: {} },
    address: `${FAST_LANE}
      rewrite.1.flow=tweaked  rewrite.1.where=before:bottleneck  rewrite.1.from=ect0  rewrite.1.to=ect1`,
  }),
  preset({
    id: "fast-lane-B",
    group: "Is the L queue a fast lane?",
    title: "B: marked ECT(1), ignores marks",
    look: "Now its marks are hidden from it, so it answers nothing and takes its 40 Mb/s. Compare C: the same greed without ECT(1).",
    source: `${OBJECTION}, experiment B`,
    study: { file: "fast-lane/B", levels: {} },
    address: `${FAST_LANE}
      rewrite.1.flow=tweaked  rewrite.1.where=before:bottleneck  rewrite.1.from=ect0  rewrite.1.to=ect1
      rewrite.2.flow=tweaked  rewrite.2.where=after:bottleneck  rewrite.2.from=ce  rewrite.2.to=ect1`,
  }),
  preset({
    id: "fast-lane-C",
    group: "Is the L queue a fast lane?",
    title: "C: the control: Classic, ignores marks",
    look: "In the Classic queue the flow that answers nothing takes the same 40 Mb/s: the greed does it, not the label.",
    source: `${OBJECTION}, control experiment C`,
    study: { file: "fast-lane/C", levels: {} },
    address: `${FAST_LANE}
      rewrite.1.flow=tweaked  rewrite.1.where=after:bottleneck  rewrite.1.from=ce  rewrite.1.to=ect0`,
  }),
  preset({
    id: "fast-lane-D",
    group: "Is the L queue a fast lane?",
    title: "D: the control: Classic, answers marks",
    look: "Two plain CUBIC flows, one of them paced to at most 40 Mb/s, share the link as usual.",
    source: `${OBJECTION}, control experiment D`,
    study: { file: "fast-lane/D", levels: {} },
    address: FAST_LANE,
  }),
  preset({
    id: "overload",
    group: "Unresponsive traffic",
    title: "DualPI2: 144 Mb/s of ECT(1) UDP into 100 Mb/s",
    look: "Nobody can slow this UDP flow down. The L queue, in which its label puts it, waits as long as a Classic one otherwise does, some 15 ms, because DualPI2 now drops there, too. Whoever answers marks or drops, in either queue, is left with next to nothing.",
    source: `${OVERLOADED}, figure 1`,
    study: { file: "overload/loads", levels: { aqm: "DualPI2", udp: "ECT", load_mbps: 140 } },
    address: `${BYSTANDERS}  flow.ect.cc=prague  flow.ect.ecn=accecn
      link.bottleneck.rate=100Mbit  link.bottleneck.qdisc=dualpi2
      flow.udp.kind=cbr  flow.udp.rate=144Mbit  flow.udp.packet=1512B  flow.udp.ecn=ect1  flow.udp.rtt=10ms`,
  }),
  preset({
    id: "overload-codel",
    group: "Unresponsive traffic",
    title: "CoDel: 144 Mb/s of ECT(0) UDP into 100 Mb/s",
    look: "CoDel marks what says that it knows ECN and drops the rest. The flood fills the buffer of 10 240 packets, some 0.9 s, and everybody else starves.",
    source: `${OVERLOADED}, figures 1 to 4`,
    study: { file: "overload/loads", levels: { aqm: "CoDel", udp: "ECT", load_mbps: 140 } },
    address: `${BYSTANDERS}  flow.ect.cc=cubic  flow.ect.ecn=classic
      link.bottleneck.rate=100Mbit  link.bottleneck.qdisc=fq_codel+flows+1
      flow.udp.kind=cbr  flow.udp.rate=144Mbit  flow.udp.packet=1512B  flow.udp.ecn=ect0  flow.udp.rtt=10ms`,
  }),
  preset({
    id: "codel-cycle",
    group: "Unresponsive traffic",
    title: "CoDel's cycle of 100 s",
    look: "CoDel drops a little more often each time, until after some 100 s the queue is empty; then it forgets what it has learned and starts over.",
    source: `${OVERLOADED}, figure 5`,
    study: { file: "overload/codel-cycle", levels: {} },
    address: `duration=240s  ${BYSTANDERS}  flow.ect.cc=cubic  flow.ect.ecn=classic
      link.bottleneck.rate=100Mbit  link.bottleneck.qdisc=fq_codel+flows+1
      flow.udp.kind=cbr  flow.udp.rate=205.714286Mbit  flow.udp.packet=1512B  flow.udp.rtt=10ms
      view.speed=20`,
  }),
  preset({
    id: "partial-deployment",
    group: "Deployment",
    title: "Prague meets CUBIC in a queue with classic ECN",
    look: "One queue marks both alike. Prague takes a mark for a small hint, CUBIC for a third of its window: CUBIC is left with a small part. Choose dualpi2, or fq_codel, and both have their share.",
    source: "NYU, L4S in Practice (2024): CoDel with a threshold of 5 ms, 2 BDP, 100 Mb/s, 10 ms",
    study: {
      file: "deployment/single",
      levels: {
        n_bdp: 2, capacity_mbps: 100, base_rtt_ms: 10, ecn_threshold_ms: 5, aqm: "CoDel", fallback: "off",
        l4s_receiver: "AccECN", legacy_receiver: "classic ECN",
      },
    }, // biome-ignore format: levels in lines
    address: `
      link.bottleneck.rate=100Mbit
      link.bottleneck.qdisc=codel+limit+167+target+20ms+interval+100ms+ecn+ce_threshold+5ms
      flow.prague.cc=prague  flow.prague.rtt=10ms  flow.prague.peer_ecn=accecn
      flow.cubic.cc=cubic  flow.cubic.rtt=10ms  flow.cubic.ecn=classic  flow.cubic.peer_ecn=classic`,
  }),
  preset({
    id: "low-rate",
    group: "Low rates",
    title: "Linux's DualPI2 at 8 Mb/s",
    look: "A packet takes 1.5 ms to send, longer than DualPI2's step of 1 ms: whatever waits behind one packet is marked, and within some seconds Prague is left with about a quarter of the link.",
    source: "sch_dualpi2 of Linux 7.2, min_qlen_step 0",
    address: `${LOW_RATE}  link.bottleneck.qdisc=dualpi2`,
  }),
  preset({
    id: "low-rate-step",
    group: "Low rates",
    title: "The same with min_qlen_step 2",
    look: "The step leaves alone what finds fewer than two packets in the L queue, as the module of L4STeam did: Prague has its half back.",
    source: "sch_dualpi2 of Linux 7.2, min_qlen_step 2",
    address: `${LOW_RATE}  link.bottleneck.qdisc=dualpi2+min_qlen_step+2`,
  }),
  preset({
    id: "dualq",
    group: "2015",
    title: "The DualQ demonstration",
    look: "DCTCP and CUBIC, a long flow and 100 web requests a second each, over 40 Mb/s: the low-latency requests come back in a fraction of the time.",
    source: "De Schepper, Tsang, Bondarenko, Briscoe, DualQ Coupled AQM (2015), dynamic test scenarios",
    study: { file: "dualq/web", levels: { aqm: "Curvy RED", sender: "DCTCP", long: "1 + 1", load: 100 } },
    address: `
      link.bottleneck.rate=40Mbit  link.bottleneck.qdisc=curvy_red+any_ect  link.bottleneck.burst=1514B
      flow.long-low.cc=dctcp  flow.long-low.rtt=7ms  flow.long-low.start=1s
      flow.long-classic.cc=cubic  flow.long-classic.rtt=7ms  flow.long-classic.ecn=off  flow.long-classic.start=1s
      flow.low.kind=web  flow.low.cc=dctcp  flow.low.rtt=7ms  flow.low.requests=100/s
      flow.classic.kind=web  flow.classic.cc=cubic  flow.classic.rtt=7ms  flow.classic.ecn=off  flow.classic.requests=100/s`,
  }),
];

function preset(one: Preset): Preset {
  return { ...one, address: one.address.trim().split(/\s+/).join("&") };
}

/** What a preset sets up. */
export function open(one: Preset): Address {
  return readAddress(one.address);
}
