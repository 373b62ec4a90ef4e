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
    look: "At first both flows share one FIFO and wait about 40 ms. After 5 s the router gets DualPI2. Prague (L4S) reduces a little at each of many marks and waits less than 1 ms. CUBIC (Classic) still reduces a lot at once, which needs a queue of about 15 ms.",
    source: "examples/picture.toml, with the change after 5 s",
    address: `
      link.bottleneck.rate=50Mbit  link.bottleneck.qdisc=pfifo+limit+200
      at.1.time=5s  at.1.link.bottleneck.qdisc=dualpi2
      flow.l4s.cc=prague  flow.l4s.rtt=20ms
      flow.classic.cc=cubic  flow.classic.rtt=20ms`,
  }),
  preset({
    id: "call",
    group: "Calls and games",
    title: "A call next to an upload",
    look: "The upload fills the FIFO, so frames of both calls take up to a quarter of a second and are late. After 8 s the router gets DualPI2. Then frames of both calls are in time, and the L4S call has the higher rate.",
    source: "examples/call.toml, at 10 Mb/s, with a FIFO at first",
    address: `
      link.uplink.rate=10Mbit  link.uplink.qdisc=pfifo+limit+200
      at.1.time=8s  at.1.link.uplink.qdisc=dualpi2
      flow.l4s-call.kind=media  flow.l4s-call.cc=scream  flow.l4s-call.rtt=25ms  flow.l4s-call.rate_max=2500kbit
      flow.call.kind=media  flow.call.cc=gcc  flow.call.rtt=25ms  flow.call.rate_max=2500kbit
      flow.upload.cc=cubic  flow.upload.rtt=25ms`,
  }),
  preset({
    id: "game",
    group: "Calls and games",
    title: "A cloud game next to two downloads",
    look: "A cloud game sends 60 frames per second, which are late after 50 ms. FQ-CoDel gives the game a queue of its own. After 8 s one FIFO serves all: the downloads fill it, frames are late from 11 s on, and the game's rate falls.",
    source: "60 frames per second of at most 20 Mb/s; queues of Linux",
    address: `
      link.home.rate=50Mbit  link.home.qdisc=fq_codel
      at.1.time=8s  at.1.link.home.qdisc=pfifo+limit+400
      flow.game.kind=media  flow.game.cc=scream  flow.game.rtt=20ms  flow.game.rate_max=20Mbit  flow.game.frames=60/s  flow.game.deadline=50ms
      flow.downloads.cc=cubic  flow.downloads.rtt=20ms  flow.downloads.count=2`,
  }),
  preset({
    id: "home-wifi",
    group: "Media",
    title: "Wi-Fi: a far station, a near one and a call",
    look: "One channel for all. The access point sends A-MPDUs of up to 256 packets, and ACKs need the channel, too. The far station's transmissions take long at its low rate. After 8 s FQ-CoDel with a queue per station replaces the FIFOs.",
    source: "l4slab init --preset home-wifi; mac80211's values",
    address: `
      link.home.medium=wifi+ax80+nss+2+mcs+7+per+0.01  link.home.qdisc=pfifo+limit+1000
      link.home.station.far.medium=mcs+2+per+0.05
      at.1.time=8s  at.1.link.home.qdisc=fq_codel+target+20ms+interval+100ms+quantum+300
      flow.call.kind=media  flow.call.cc=gcc  flow.call.rtt=30ms  flow.call.rate_max=2500kbit  flow.call.station=phone
      flow.classic.cc=cubic  flow.classic.rtt=20ms  flow.classic.station=laptop
      flow.l4s.cc=prague  flow.l4s.rtt=20ms  flow.l4s.station=far
      flow.upload.cc=cubic  flow.upload.rtt=20ms  flow.upload.station=laptop  flow.upload.path=home.up
      view.speed=0.2`,
  }),
  preset({
    id: "5g",
    group: "Media",
    title: "5G: which slot was granted to whom",
    look: "Each slot is downlink or uplink. One phone has what is left of a downlink slot. A block that fails comes again by HARQ, and all that follows waits for it. After 8 s DualPI2 with a step of 10 ms replaces the base station's FIFO.",
    source: "l4slab init --preset 5g, without its handovers; srsRAN's values",
    address: `
      link.cell.medium=nr+40MHz+cqi+11+walk  link.cell.qdisc=bfifo+limit+6172672  link.cell.qdisc_up=pfifo+limit+1000
      link.cell.station.far.medium=cqi+6
      at.1.time=8s  at.1.link.cell.qdisc=dualpi2+step_thresh+10ms
      flow.call.kind=media  flow.call.cc=gcc  flow.call.rtt=30ms  flow.call.rate_max=2500kbit  flow.call.station=phone
      flow.classic.cc=cubic  flow.classic.rtt=20ms  flow.classic.station=laptop
      flow.l4s.cc=prague  flow.l4s.rtt=20ms  flow.l4s.station=far
      flow.upload.cc=cubic  flow.upload.rtt=20ms  flow.upload.station=laptop  flow.upload.path=cell.up
      view.speed=0.2`,
  }),
  preset({
    id: "cable",
    group: "Media",
    title: "Cable: requests and grants of a modem",
    look: "Upstream each packet waits for a request and a grant in a later MAP interval. A game sends a packet every 16 ms. It is in the low-latency service flow, which has proactive grants: it needs no request, and most of these grants are empty.",
    source: "examples/cable.toml, with proactive grants",
    address: `
      link.modem.medium=docsis+up+20mbit+down+200mbit+ggr+2mbit  link.modem.qdisc=docsis_ll
      flow.game.kind=cbr  flow.game.rate=50kbit  flow.game.packet=192B  flow.game.rtt=20ms  flow.game.dscp=nqb  flow.game.path=modem.up
      flow.upload.cc=cubic  flow.upload.rtt=20ms  flow.upload.path=modem.up
      flow.download.cc=cubic  flow.download.rtt=20ms
      view.speed=0.2`,
  }),
  preset({
    id: "leo",
    group: "Media",
    title: "Satellite: another path every 15 seconds",
    look: "Every 15 s the terminal gets another satellite: the delay jumps, and so does the rate. Some packets are lost then, and some at random. CUBIC and Prague take each loss for congestion and leave most of the link to BBR, which does not.",
    source: "l4slab init --preset leo, with a BBR download",
    address: `
      link.dish.medium=leo+down+280mbit+up+19mbit  link.dish.qdisc=bfifo+limit+3500000  link.dish.qdisc_up=bfifo+limit+237500
      flow.l4s.cc=prague  flow.l4s.rtt=20ms
      flow.classic.cc=cubic  flow.classic.rtt=20ms
      flow.bbr.cc=bbr  flow.bbr.rtt=20ms
      view.speed=4`,
  }),
  preset({
    id: "fast-lane-A",
    group: "Is the L queue a fast lane?",
    title: "A: marked ECT(1), and answers marks",
    look: "After 10 s a second CUBIC flow claims to be L4S. It gets less, not more: the L queue marks often, for senders that reduce a little at each mark, and CUBIC reduces a lot.",
    source: `${OBJECTION}, experiment A`,
    study: { file: "fast-lane/A", levels: {} },
    address: `${FAST_LANE}
      rewrite.1.flow=tweaked  rewrite.1.where=before:bottleneck  rewrite.1.from=ect0  rewrite.1.to=ect1`,
  }),
  preset({
    id: "fast-lane-B",
    group: "Is the L queue a fast lane?",
    title: "B: marked ECT(1), ignores marks",
    look: "Now the second flow does not see its marks, so it never slows down and takes its 40 Mb/s. Compare with C: the same flow without ECT(1).",
    source: `${OBJECTION}, experiment B`,
    study: { file: "fast-lane/B", levels: {} },
    address: `${FAST_LANE}
      rewrite.1.flow=tweaked  rewrite.1.where=before:bottleneck  rewrite.1.from=ect0  rewrite.1.to=ect1
      rewrite.2.flow=tweaked  rewrite.2.where=after:bottleneck  rewrite.2.from=ce  rewrite.2.to=ect1`,
  }),
  preset({
    id: "fast-lane-C",
    group: "Is the L queue a fast lane?",
    title: "C (control): Classic, ignores marks",
    look: "In the Classic queue the flow that ignores marks takes the same 40 Mb/s. So ignoring marks is the cause, not the label.",
    source: `${OBJECTION}, control experiment C`,
    study: { file: "fast-lane/C", levels: {} },
    address: `${FAST_LANE}
      rewrite.1.flow=tweaked  rewrite.1.where=after:bottleneck  rewrite.1.from=ce  rewrite.1.to=ect0`,
  }),
  preset({
    id: "fast-lane-D",
    group: "Is the L queue a fast lane?",
    title: "D (control): Classic, answers marks",
    look: "Two plain CUBIC flows, one of them paced to at most 40 Mb/s, share the link as usual.",
    source: `${OBJECTION}, control experiment D`,
    study: { file: "fast-lane/D", levels: {} },
    address: FAST_LANE,
  }),
  preset({
    id: "overload",
    group: "Unresponsive traffic",
    title: "DualPI2: 144 Mb/s of ECT(1) UDP into 100 Mb/s",
    look: "Nothing slows this UDP flow down. Its label puts it into the L queue, where packets now wait about 15 ms, as in a Classic queue, because DualPI2 drops there too. Flows that answer marks or drops get next to nothing in either queue.",
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
    look: "CoDel marks packets of senders with ECN and drops others. The UDP flow fills the buffer of 10 240 packets, about 0.9 s, and all other flows starve.",
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
    look: "CoDel drops a little more often each time. After about 100 s the queue is empty. Then CoDel forgets its drop rate and starts over.",
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
    look: "One queue marks both flows alike. At a mark Prague reduces a little and CUBIC by a third of its window, so CUBIC is left with a small part. With dualpi2 or fq_codel both get their share.",
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
    look: "A packet takes 1.5 ms to send, longer than DualPI2's step of 1 ms. So every L4S packet that waits behind one packet is marked, and within seconds Prague is left with about a quarter of the link.",
    source: "sch_dualpi2 of Linux 7.2, min_qlen_step 0",
    address: `${LOW_RATE}  link.bottleneck.qdisc=dualpi2`,
  }),
  preset({
    id: "low-rate-step",
    group: "Low rates",
    title: "The same with min_qlen_step 2",
    look: "The step spares packets that find fewer than two others in the L queue, as in the module of L4STeam. Prague has its half back.",
    source: "sch_dualpi2 of Linux 7.2, min_qlen_step 2",
    address: `${LOW_RATE}  link.bottleneck.qdisc=dualpi2+min_qlen_step+2`,
  }),
  preset({
    id: "dualq",
    group: "2015",
    title: "The DualQ demonstration",
    look: "DCTCP and CUBIC share 40 Mb/s, each with a long flow and 100 web requests per second. The low-latency requests complete in a fraction of the time.",
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
