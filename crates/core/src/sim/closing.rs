//! Makes the rows of a [`Recording`] from the counters.

use super::accounts::{Counted, Group, Outcomes};
use super::recording::{FlowRow, Histogram, LinkRow, LossRow, MemberRow, Recording};
use super::{FlowSlot, Simulation};
use crate::aqm::service::Losses;
use crate::distribution::Distribution;
use crate::element::common_mode;
use crate::net::link::{Link, QueueReport};
use crate::net::tap::Tap;
use crate::probe::{Experience, Responsiveness, Transfer, TransferKind};
use crate::time::{Span, Time};

/// The recording so far, as if the run were over at `end`. The series has only rows that were not taken yet.
pub(super) fn recording<T: Tap>(sim: &mut Simulation<T>, end: Time) -> Recording {
    let transfers = transfers(sim);
    let series = std::mem::take(&mut sim.shown.series);
    let sim = &*sim;
    let of_groups = sim.groups.iter().map(|g| times(sim, &g.accounts, &transfers));
    let of_groups: Vec<Times> = of_groups.collect();
    let rows = sim.groups.iter().zip(&of_groups);
    let mut flows: Vec<FlowRow> =
        rows.map(|(g, times)| flow_row(sim, g, &g.accounts, times, end)).collect();
    let total: f64 = flows.iter().map(|f| f.goodput_mbps).sum();
    let share = |goodput_mbps: f64| (total > 0.0).then(|| goodput_mbps / total);
    let bulk = sim.groups.iter().filter(|g| g.is_bulk).flat_map(|g| sim.goodputs(&g.accounts));
    let jain_run = jain(bulk);
    for f in &mut flows {
        (f.share, f.jain_run) = (share(f.goodput_mbps), jain_run);
    }
    let mut members = Vec::new();
    for g in sim.groups.iter().filter(|_| sim.per_flow) {
        for (member, account) in (1..).zip(&g.accounts) {
            let accounts = std::slice::from_ref(account);
            let times = times(sim, accounts, &transfers);
            let row = flow_row(sim, g, accounts, &times, end);
            members.push(MemberRow {
                member,
                row: FlowRow { share: share(row.goodput_mbps), jain_run, ..row },
            });
        }
    }
    let mut histograms = Vec::new();
    for (i, times) in of_groups.iter().enumerate() {
        let of_flow = |(quantity, distribution): (_, &Distribution)| Histogram {
            quantity,
            flow: Some(i),
            link: None,
            queue: None,
            bins: distribution.bins(),
        };
        let quantities = [
            ("rtt_ms", &times.srtt),
            ("sojourn_ms", &times.sojourn),
            ("completion_ms", &times.completion),
            ("view_ms", &times.view),
            ("frame_ms", &times.frame),
        ];
        histograms.extend(quantities.map(of_flow));
    }
    let mut links = Vec::new();
    for (i, link) in sim.network.links().enumerate() {
        for queue in link.report(end) {
            links.push(link_row(&link.name, &queue));
            histograms.push(Histogram {
                quantity: "sojourn_ms",
                flow: None,
                link: Some(i),
                queue: Some(queue.name),
                bins: queue.sojourn.bins(),
            });
        }
    }
    let mut recording = Recording {
        flows,
        members,
        links,
        flow_names: sim.groups.iter().map(|g| g.name.clone()).collect(),
        link_names: sim.network.links().map(|l| l.name.clone()).collect(),
        series,
        transfers: transfers.into_iter().map(|(_, transfer)| transfer).collect(),
        histograms,
        losses: losses(sim),
        delivered_packets: sim.delivered_packets,
    };
    if let Some(estimate) = &sim.estimate {
        estimate.close(&mut recording);
    }
    recording
}

/// Where packets were lost: for each flow group in the order of its path, then packets without a group.
fn losses<T: Tap>(sim: &Simulation<T>) -> Vec<LossRow> {
    let at = |n: usize| {
        sim.network.link(n).map(Link::losses).or(sim.network.ledger(n).map(|l| &l.losses))
    };
    let places = || (0..sim.places.len()).filter_map(|n| Some((n, sim.places[n].as_str(), at(n)?)));
    let mut rows: Vec<LossRow> = Vec::new();
    let mut add = |flow: Option<&Group>, place: &str, losses: &Losses, group: Option<usize>| {
        let of = |account: Option<usize>| account.map(|account| sim.accounts[account].group);
        let lost = losses.iter().filter(|((account, _), _)| of(*account) == group);
        for ((_, why), packets) in lost {
            let flow = flow.map(|g| g.name.clone());
            let same =
                |r: &&mut LossRow| r.flow == flow && r.lost_at == place && r.lost_by == why.name();
            match rows.iter_mut().find(same) {
                Some(row) => row.lost_packets += packets,
                None => rows.push(LossRow {
                    flow,
                    lost_at: place.to_owned(),
                    lost_by: why.name(),
                    lost_packets: *packets,
                }),
            }
        }
    };
    for (number, g) in sim.groups.iter().enumerate() {
        for n in &g.forward.nodes {
            if let Some(losses) = at(*n) {
                add(Some(g), &sim.places[*n], losses, Some(number));
            }
        }
        add(Some(g), "receiver", &sim.ends.losses, Some(number));
    }
    places().for_each(|(_, place, losses)| add(None, place, losses, None));
    add(None, "sender", &sim.ends.losses, None);
    rows
}

/// Completed transfers in the order of their start, and the account of each.
fn transfers<T: Tap>(sim: &mut Simulation<T>) -> Vec<(usize, Transfer)> {
    sim.collect_transfers();
    let mut all = sim.transfers.clone();
    all.sort_by_key(|(slot, t)| (t.start, t.group, t.bytes, *slot));
    all.iter_mut().for_each(|(place, _)| *place = sim.slots[*place].account);
    all
}

impl<T: Tap> Simulation<T> {
    /// Takes the transfers that flows have completed since the last call.
    pub(super) fn collect_transfers(&mut self) {
        let mut found = Vec::new();
        for (i, slot) in self.slots.iter_mut().enumerate() {
            slot.flow.take_transfers(&mut found);
            for mut t in found.drain(..) {
                t.ideal = t.idle.map(|idle| {
                    let until = t.start + t.completion;
                    let (rate, burst) = self.groups[slot.group].fastest(t.start, until);
                    idle.time(rate, burst)
                });
                self.transfers.push((i, t));
            }
        }
    }
}

/// The row of a flow group, or of a flow, over the measured interval.
#[derive(Default)]
struct Times {
    srtt: Distribution,
    /// Of each packet in the links.
    sojourn: Distribution,
    completion: Distribution,
    view: Distribution,
    /// Of frames over RTP, and of these the time until their last packet left.
    frame: Distribution,
    sender_queue: Distribution,
    /// In ascending order.
    slowdowns: Vec<f64>,
    /// Of flows with an end: how many have ended, from when to when, and their bytes.
    ended: usize,
    own: Option<(Time, Time)>,
    own_bytes: u64,
}

fn times<T: Tap>(
    sim: &Simulation<T>,
    accounts: &[usize],
    transfers: &[(usize, Transfer)],
) -> Times {
    let mut all = Times::default();
    for i in accounts {
        let account = &sim.accounts[*i];
        all.srtt.merge(&account.srtt);
        let last = sim.network.link(sim.groups[account.group].first_and_last.1);
        let sojourn = last.and_then(|link| link.sojourn(*i));
        all.sojourn.merge(&sojourn.expect("the last link of the group's path"));
    }
    // Transfers that began in the warm-up do not count. Flows with an end do, because some runs consist of one.
    let counts = |t: &Transfer| t.kind == TransferKind::Flow || t.start >= sim.warmup;
    for (_, t) in transfers.iter().filter(|(account, t)| accounts.contains(account) && counts(t)) {
        if t.kind == TransferKind::Flow {
            let (start, end) = (t.start, t.start + t.completion);
            all.own = Some(all.own.map_or((start, end), |own| (own.0.min(start), own.1.max(end))));
            (all.ended, all.own_bytes) = (all.ended + 1, all.own_bytes + t.bytes.unwrap_or(0));
        }
        match t.kind {
            TransferKind::MediaFrame => {
                all.frame.record(t.completion);
                all.sender_queue.record(t.completion - t.response.unwrap_or_default());
            }
            TransferKind::Input => all.view.record(t.response.unwrap_or(t.completion)),
            _ => all.completion.record(t.completion),
        }
        all.slowdowns.extend(t.slowdown());
    }
    all.slowdowns.sort_by(f64::total_cmp);
    all
}

/// The smallest value that is not below a part `q` of all; they are in ascending order.
fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let rank = (q * values.len() as f64).ceil() as usize;
    values.get(rank.max(1) - 1).copied()
}

/// Jain's fairness index (R. Jain, D. Chiu, W. Hawe, "A quantitative measure of fairness and
/// discrimination", 1984): 1 if all are equal, 1/n if one has everything; nothing if nobody has anything.
fn jain(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum, squares) =
        values.fold((0.0, 0.0, 0.0), |(n, sum, squares), x| (n + 1.0, sum + x, squares + x * x));
    (squares > 0.0).then(|| sum * sum / (n * squares))
}

impl<T: Tap> Simulation<T> {
    /// Of each flow the bytes received in the measured interval.
    pub(super) fn goodputs(&self, accounts: &[usize]) -> impl Iterator<Item = f64> {
        let slots = self.slots_of(accounts);
        slots.map(|slot| (slot.flow.totals().received_bytes - slot.received_before) as f64)
    }
    fn slots_of(&self, accounts: &[usize]) -> impl Iterator<Item = &FlowSlot> {
        let places = accounts.iter().flat_map(|account| &self.accounts[*account].slots);
        places.map(|slot| &self.slots[*slot])
    }
}

/// Means of the time in media, in milliseconds: for access, in the air, and for reordering. Nothing if all are wires.
fn in_media<T: Tap>(sim: &Simulation<T>, g: &Group, accounts: &[usize]) -> Option<[f64; 3]> {
    let links = g.forward.nodes.iter().filter_map(|n| sim.network.link(*n));
    let of_link = |link: &Link| {
        let each = accounts.iter().map(|account| link.behind_queue(*account));
        let all = each.reduce(|all, one| {
            all.zip(one).map(|(mut all, one)| {
                all += one;
                all
            })
        })??;
        let mean = |sum: Span| sum.as_millis_f64() / all.packets as f64;
        (all.packets > 0).then(|| [mean(all.access), mean(all.air), mean(all.reorder)])
    };
    links.filter_map(of_link).reduce(|all, one| std::array::from_fn(|i| all[i] + one[i]))
}

fn flow_row<T: Tap>(
    sim: &Simulation<T>,
    g: &Group,
    accounts: &[usize],
    times: &Times,
    end: Time,
) -> FlowRow {
    let seconds = end.since(sim.warmup).as_secs_f64();
    let mbps = |bytes: u64| bytes as f64 * 8e-6 / seconds;
    let counted = sim.counted_together(accounts);
    let mut base = Counted::default();
    accounts.iter().for_each(|account| base += sim.accounts[*account].base);
    let packets = counted.packets - base.packets;
    let mut outcomes = Outcomes::default();
    accounts.iter().for_each(|account| outcomes += sim.outcomes(*account));
    let flows = || sim.slots_of(accounts).map(|slot| &slot.flow);
    let own = times.own.filter(|_| times.ended == flows().count());
    let mut row = FlowRow {
        flow: g.name.clone(),
        cc: g.cc.clone(),
        count: flows().count() as u32,
        goodput_mbps: mbps(counted.totals.received_bytes - base.totals.received_bytes),
        active_mbps: own
            .map(|(start, end)| times.own_bytes as f64 * 8e-6 / end.since(start).as_secs_f64()),
        rate_mbps: packets.bytes as f64 * 8e-6 / seconds,
        jain: jain(sim.goodputs(accounts)),
        offered_packets: outcomes.offered,
        sent_packets: outcomes.sent,
        delivered_packets: outcomes.delivered,
        lost_packets: outcomes.lost,
        waiting_packets: outcomes.waiting,
        ce_packets: outcomes.ce,
        dropped_packets: outcomes.dropped,
        ce_pct: percent(outcomes.ce, outcomes.sent),
        sce_pct: percent(outcomes.sce, outcomes.sent),
        drop_pct: percent(outcomes.dropped, outcomes.sent),
        retransmits: counted.totals.retransmitted - base.totals.retransmitted,
        unfinished: flows().map(|f| f.unfinished(sim.warmup)).sum(),
        ecn_mode: flows().filter_map(|f| f.ecn_mode()).fold(None, common_mode),
        ..FlowRow::default()
    };
    add_times(&mut row, times, in_media(sim, g, accounts));
    let experience = flows().filter_map(|f| f.experience(end)).reduce(|mut all, one| {
        all += one;
        all
    });
    if let Some(media) = &experience {
        add_media(&mut row, media, mbps);
    }
    add_responsiveness(&mut row, &flows().filter_map(|f| f.responsiveness()).collect::<Vec<_>>());
    row
}

/// `in_media`: of the mean sojourn, what is access, air and reordering.
fn add_times(row: &mut FlowRow, times: &Times, in_media: Option<[f64; 3]>) {
    let Times { srtt, sojourn, completion, view, frame, sender_queue, slowdowns, .. } = times;
    row.rtt_ms_mean = srtt.mean_ms();
    row.rtt_ms_p50 = srtt.quantile_ms(0.5);
    row.rtt_ms_p99 = srtt.quantile_ms(0.99);
    row.sojourn_ms_mean = sojourn.mean_ms();
    row.sojourn_ms_p50 = sojourn.quantile_ms(0.5);
    row.sojourn_ms_p99 = sojourn.quantile_ms(0.99);
    row.queue_ms_mean = sojourn.mean_ms().zip(in_media).map(|(all, parts)| {
        // Packets that a later link drops count in the parts only.
        (all - parts.iter().sum::<f64>()).max(0.0)
    });
    let part = |i: usize| in_media.map(|means| means[i]);
    (row.access_ms_mean, row.air_ms_mean, row.reorder_ms_mean) = (part(0), part(1), part(2));
    row.transfers = completion.count() as u32;
    row.completion_ms_p50 = completion.quantile_ms(0.5);
    row.completion_ms_p99 = completion.quantile_ms(0.99);
    row.slowdown_p50 = quantile(slowdowns, 0.5);
    row.slowdown_p99 = quantile(slowdowns, 0.99);
    row.view_ms_p50 = view.quantile_ms(0.5);
    row.view_ms_p99 = view.quantile_ms(0.99);
    row.frame_ms_mean = frame.mean_ms();
    row.frame_ms_p50 = frame.quantile_ms(0.5);
    row.frame_ms_p95 = frame.quantile_ms(0.95);
    row.frame_ms_p99 = frame.quantile_ms(0.99);
    row.frame_ms_max = frame.max_ms();
    row.sender_queue_ms_p50 = sender_queue.quantile_ms(0.5);
    row.sender_queue_ms_p99 = sender_queue.quantile_ms(0.99);
}

fn add_media(row: &mut FlowRow, media: &Experience, mbps: impl Fn(u64) -> f64) {
    row.frames = Some(media.frames);
    row.late_pct = percent(media.late, media.frames);
    row.lost_frames_pct = percent(media.lost, media.frames);
    row.freezes = Some(media.freezes);
    row.freeze_s = Some(media.frozen.as_secs_f64());
    row.media_mbps = Some(mbps(media.media_bytes));
    row.media_change_pct = media.change_pct();
    row.feedback_kbps = Some(1e3 * mbps(media.feedback_bytes));
}

/// Means over the tests of a group.
fn add_responsiveness(row: &mut FlowRow, tests: &[Responsiveness]) {
    let mean = |one: fn(&Responsiveness) -> Option<f64>| {
        let known: Vec<f64> = tests.iter().filter_map(one).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    row.active_mbps = row.active_mbps.or(mean(|t| t.active_mbps));
    row.rpm = mean(|t| t.rpm);
    row.rpm_foreign = mean(|t| t.foreign);
    row.rpm_self = mean(|t| t.own);
    row.rpm_confidence = tests.iter().map(|t| t.confidence).fold(None, common_mode);
    row.idle_ms_p50 = mean(|t| t.idle_ms);
    row.loaded_ms_p50 = mean(|t| t.loaded_ms_p50);
    row.loaded_ms_p95 = mean(|t| t.loaded_ms_p95);
}

fn link_row(link: &str, q: &QueueReport) -> LinkRow {
    let (c, seconds) = (&q.counts, q.in_force.as_secs_f64());
    LinkRow {
        link: link.to_owned(),
        queue: q.name.to_owned(),
        rate_mbps: c.sent_bytes as f64 * 8e-6 / seconds,
        utilisation: c.sent_bytes as f64 * 8.0 / q.capacity_bits,
        sojourn_ms_mean: q.sojourn.mean_ms(),
        sojourn_ms_p50: q.sojourn.quantile_ms(0.5),
        sojourn_ms_p99: q.sojourn.quantile_ms(0.99),
        sojourn_ms_max: q.sojourn.max_ms(),
        arrived_packets: c.arrived,
        sent_packets: c.sent,
        dropped_packets: c.dropped,
        dropped_overflow_packets: c.overflowed,
        marked_packets: c.marked,
        step_marked_packets: c.step_marked,
        ce_pct: percent(c.marked, c.arrived),
        sce_pct: percent(c.sce_marked, c.arrived),
        drop_pct: percent(c.dropped, c.arrived),
        backlog_packets_max: q.backlog_max,
        half_width: None,
    }
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}
