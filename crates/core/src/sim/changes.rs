//! Changes during a run: at the times in the run's description, or on request.

use std::collections::VecDeque;

use super::Simulation;
use crate::aqm::netem::NetemConfig;
use crate::aqm::police::PoliceConfig;
use crate::aqm::registry::QdiscConfig;
use crate::aqm::tree::ClassSpec;
use crate::element::Outbox;
use crate::error::ScenarioError;
use crate::net::access::ChangedMedium;
use crate::net::link::Link;
use crate::net::tap::Tap;
use crate::scenario::{Change, Run, Whole};
use crate::time::{Span, Time};
use crate::units::Rate;

/// Something that happens to a link or to a flow group.
pub(super) enum Event {
    Rate(usize, Rate),
    Qdisc(usize, QdiscConfig),
    Class(usize, Box<ClassSpec>),
    Policer(usize, Box<PoliceConfig>),
    Medium(usize, Box<ChangedMedium>),
    Rtt(usize, Span),
    Count(usize, u32),
    /// A flow of a group begins that stops then.
    Begin(usize, Time),
    FlowRate(usize, u64),
    Pause(usize, bool),
    Netem(usize, NetemConfig),
    /// The step of a group's delay trace with this number.
    Delay(usize, usize),
}

/// A change that waits for a state.
struct Trigger {
    group: usize,
    state: String,
    not_before: Time,
    after: Span,
    events: Vec<Event>,
}

/// What will happen.
pub(super) struct Plan {
    /// In the order of time.
    agenda: VecDeque<(Time, Event)>,
    triggers: Vec<Trigger>,
    /// When the states that triggers wait for are looked at.
    pub next_look: Time,
}

impl Plan {
    pub fn new(run: &Run) -> Result<Plan, ScenarioError> {
        let triggers = triggers(run)?;
        let first = triggers.iter().map(|trigger| trigger.not_before).min();
        Ok(Plan { agenda: agenda(run)?.into(), triggers, next_look: first.unwrap_or(Time::NEVER) })
    }
    /// When something is to be done.
    pub fn next(&self) -> Time {
        self.agenda.front().map_or(Time::NEVER, |(at, _)| *at).min(self.next_look)
    }
    /// The next change, if its time has come.
    pub fn take_due(&mut self, now: Time) -> Option<Event> {
        self.agenda.front().filter(|(at, _)| *at <= now)?;
        self.agenda.pop_front().map(|(_, event)| event)
    }
    /// Behind what is planned for the same time.
    fn add(&mut self, at: Time, event: Event) {
        let place = self.agenda.partition_point(|(other, _)| *other <= at);
        self.agenda.insert(place, (at, event));
    }
}

/// How often states are looked at, while a change waits for one.
const LOOK: Span = Span::from_millis(1);

/// The changes that wait for a state.
fn triggers(run: &Run) -> Result<Vec<Trigger>, ScenarioError> {
    let mut triggers = Vec::new();
    for (change, whole) in run.at.iter().zip(run.whole()?) {
        if let Some(state) = &change.state {
            triggers.push(Trigger {
                group: run.group(&state.flow)?,
                state: state.name.clone(),
                not_before: Time(change.time_ns),
                after: Span(state.after_ns),
                events: events(run, change, whole)?,
            });
        }
    }
    Ok(triggers)
}

/// The steps of a change, in the order of execution.
pub(super) fn events(
    run: &Run,
    change: &Change,
    whole: Whole,
) -> Result<Vec<Event>, ScenarioError> {
    run.check_change(change)?;
    let mut events = Vec::new();
    if let Some(link) = &change.link {
        let link = run.link(link)?;
        events.extend(change.rate_bps.map(|bps| Event::Rate(link, Rate::from_bps(bps))));
        events.extend(whole.qdisc.map(|qdisc| Event::Qdisc(link, qdisc)));
        let policer = change.policer.clone();
        events.extend(policer.map(|policer| Event::Policer(link, Box::new(policer))));
        events.extend(whole.medium.map(|medium| Event::Medium(link, Box::new(medium))));
        events.extend(whole.classes.into_iter().map(|class| Event::Class(link, Box::new(class))));
    }
    if let Some(flow) = &change.flow {
        let group = run.group(flow)?;
        events.extend(change.rtt_ns.map(|rtt| Event::Rtt(group, Span(rtt))));
        events.extend(change.rate_bps.map(|bps| Event::FlowRate(group, bps)));
        events.extend(change.pause.map(|is_paused| Event::Pause(group, is_paused)));
        events.extend(change.count.map(|count| Event::Count(group, count)));
    }
    if let Some(impair) = &change.impair {
        let impair = run.impair(impair)?;
        events.extend(whole.netem.map(|netem| Event::Netem(impair, netem)));
    }
    Ok(events)
}

/// Planned changes, in the order of time.
pub(super) fn agenda(run: &Run) -> Result<Vec<(Time, Event)>, ScenarioError> {
    let mut agenda = Vec::new();
    for (change, whole) in run.at.iter().zip(run.whole()?).filter(|(c, _)| c.state.is_none()) {
        let at = Time(change.time_ns);
        agenda.extend(events(run, change, whole)?.into_iter().map(|event| (at, event)));
    }
    let traces =
        run.flows.iter().enumerate().filter_map(|(i, f)| Some((i, f.delay_trace.as_ref()?)));
    for (group, trace) in traces {
        // Step 0 of a trace applies from the beginning.
        agenda.extend(trace.step(1).map(|(at, _)| (at, Event::Delay(group, 1))));
    }
    for (group, flow) in run.flows.iter().enumerate() {
        let lives = flow.lives(run.seed, run.duration_ns).into_iter();
        agenda.extend(lives.map(|(begin, stop)| (begin, Event::Begin(group, stop))));
    }
    agenda.sort_by_key(|(at, _)| *at);
    Ok(agenda)
}

impl<T: Tap> Simulation<T> {
    /// Performs the last change of `run`, this simulation's description, at the current time. Returns that
    /// time: the same change planned for it gives the same bits.
    ///
    /// # Errors
    /// One sentence that names the part and the fix.
    pub fn change(&mut self, run: &Run) -> Result<Time, ScenarioError> {
        let (Some(change), Some(whole)) = (run.at.last(), run.whole()?.pop()) else {
            return Ok(self.now);
        };
        for event in events(run, change, whole)? {
            self.perform(event);
        }
        Ok(self.now)
    }

    /// Plans the changes whose state has come.
    #[cold]
    pub(super) fn look_at_states(&mut self) {
        let waiting = std::mem::take(&mut self.plan.triggers);
        let (come, waiting): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|t| t.not_before <= self.now && self.is_in(t));
        for trigger in come {
            let at = self.now + trigger.after;
            for event in trigger.events {
                self.plan.add(at, event);
            }
        }
        self.plan.next_look = match waiting.is_empty() {
            true => Time::NEVER,
            false => self.now + LOOK,
        };
        self.plan.triggers = waiting;
    }

    /// Whether the group's first active flow is in that state, as the time series says.
    fn is_in(&self, trigger: &Trigger) -> bool {
        let mut first = None;
        for account in &self.groups[trigger.group].accounts {
            for slot in &self.accounts[*account].slots {
                self.slots[*slot].flow.senders(&mut |sender| _ = first.get_or_insert(sender.state));
            }
        }
        first.flatten() == Some(&trigger.state[..])
    }

    /// Other parameters of a link's queue, or another queue.
    pub fn set_qdisc(&mut self, link: usize, qdisc: QdiscConfig) {
        self.perform(Event::Qdisc(link, qdisc));
    }

    /// A link at the current time.
    pub fn link_mut(&mut self, number: usize) -> &mut Link {
        self.network.link_mut(number)
    }

    pub(super) fn perform(&mut self, event: Event) {
        match event {
            Event::Rate(link, rate) => {
                self.network.link_mut(link).set_rate(self.now, rate);
                self.record_rates();
                self.measure_window();
            }
            Event::Qdisc(link, qdisc) => {
                let now = self.now;
                let change = |link: &mut Link, out: &mut Outbox| link.set_qdisc(now, &qdisc, out);
                self.network.change_link(link, &mut self.out, change);
                self.tell_hosts();
            }
            Event::Class(link, class) => self.change_class(link, &class),
            Event::Policer(link, policer) => self.network.link_mut(link).police(self.now, &policer),
            Event::Medium(link, medium) => self.change_medium(link, &medium),
            Event::Rtt(group, rtt) => self.set_rtt(group, rtt, self.groups[group].added),
            Event::Delay(group, step) => self.follow_delay(group, step),
            Event::Netem(impair, netem) => {
                for n in self.impairs[impair].clone() {
                    self.network.impair_mut(n).change(self.now, netem.clone());
                }
            }
            Event::Count(group, count) => self.set_count(group, count as usize),
            Event::Begin(group, stop) => self.begin(group, stop),
            Event::FlowRate(group, bps) => {
                for i in self.groups[group].active.clone() {
                    self.slots[i].flow.set_rate(self.now, bps);
                    self.wake(i);
                }
                self.groups[group].rate_bps = Some(bps);
            }
            Event::Pause(group, is_paused) => {
                for i in self.groups[group].active.clone() {
                    self.slots[i].flow.pause(self.now, is_paused);
                    self.wake(i);
                }
                self.groups[group].is_paused = is_paused;
            }
        }
    }

    /// A function of its own, because `perform` is inlined into the loop over windows, where more code costs
    /// instructions per packet.
    #[cold]
    #[inline(never)]
    fn change_class(&mut self, link: usize, class: &ClassSpec) {
        let now = self.now;
        let change = |link: &mut Link, out: &mut Outbox| link.change_class(now, class, out);
        self.network.change_link(link, &mut self.out, change);
        self.tell_hosts();
    }

    #[cold]
    #[inline(never)]
    fn change_medium(&mut self, link: usize, to: &ChangedMedium) {
        let Some(sides) = self.network.change_medium(link, self.now, to) else { return };
        for (side, rate) in sides.into_iter().zip(to.config.rates()) {
            self.network.link_mut(side).set_rate(self.now, rate);
        }
        self.record_rates();
        self.measure_window();
    }

    /// The sending end of a flow may have something to do now.
    fn wake(&mut self, i: usize) {
        let delay = self.groups[self.slots[i].group].forward.delay;
        self.senders.advance(i, self.now + delay);
    }

    fn follow_delay(&mut self, group: usize, step: usize) {
        let g = &self.groups[group];
        let trace = g.delay_trace.as_ref().expect("it has one");
        let (added, base) = (trace.step(step).expect("it was planned").1, g.rtt);
        let (next, before) = (trace.step(step + 1), g.added);
        if let Some((at, _)) = next {
            self.plan.add(at, Event::Delay(group, step + 1));
        }
        if added != before {
            self.set_rtt(group, base, added);
        }
    }

    fn set_rtt(&mut self, group: usize, rtt: Span, added: Span) {
        // Completed transfers are compared with the path that they had.
        self.collect_transfers();
        let g = &mut self.groups[group];
        for path in [&mut g.forward, &mut g.back] {
            path.not_before = path.not_before.max(self.now + path.delay);
        }
        g.set_rtt(rtt, added);
        let path = g.path();
        for i in g.accounts.iter().flat_map(|account| &self.accounts[*account].slots) {
            self.slots[*i].flow.set_path(&path);
            // Its next time to run was computed with the former delay.
            self.senders.set(*i, self.now + g.forward.delay);
        }
        self.measure_window();
    }

    fn set_count(&mut self, group: usize, count: usize) {
        while self.groups[group].active.len() > count {
            let i = self.groups[group].active.pop().expect("more than none");
            self.slots[i].flow.stop(self.now);
            self.wake(i);
        }
        while self.groups[group].active.len() < count {
            self.begin(group, Time::NEVER);
        }
    }

    /// A flow of a group begins, as the others of the group are now.
    fn begin(&mut self, group: usize, stop: Time) {
        self.add_flow(group, self.now, stop);
        let slot = self.slots.last_mut().expect("just added");
        if let Some(bps) = self.groups[group].rate_bps {
            slot.flow.set_rate(self.now, bps);
        }
        if self.groups[group].is_paused {
            slot.flow.pause(self.now, true);
        }
    }
}
