//! Hierarchical fair service curves (Linux `net/sched/sch_hfsc.c`, 7.2; Stoica, Zhang and Ng, SIGCOMM 1997).
//!
//! A curve says how many bytes a class gets within a time: one slope for `d`, another one afterwards. A class has up to
//! three. By the real-time curve (`rt`) of a leaf each packet has an eligible time and a deadline. Among the leaves whose
//! eligible time has come, the earliest deadline goes first. If there are none, the link-sharing curves (`ls`) decide:
//! from the root downwards the class with the smallest virtual time, which advances with its bytes. The upper limit (`ul`)
//! gives it a fit time, before which it gets nothing in this way. Bytes sent by deadline count for `ls` and `ul`, too.
//!
//! Times are ticks of 64 ns. Slopes have the kernel's scales and rounding, so that times are the same to the tick.

use serde::Deserialize;

use super::{ClassSpec, find, parse_id};
use crate::error::ScenarioError;
use crate::params::kinds::{Spec, grammar, params};
use crate::params::{self, Described, Given, Refused, Words};
use crate::tc;
use crate::time::Time;

/// A tick, as a power of two in ns (`PSCHED_SHIFT`).
const TICK: u32 = 6;
const TICKS_PER_SECOND: u64 = 1_000_000_000 >> TICK;
/// Scales of slopes, bytes per tick, and of their inverse.
const SLOPE: u32 = 30 - TICK;
const INVERSE: u32 = 8 + TICK;
/// The time of bytes that never come.
const NEVER: u64 = u64::MAX;

/// A curve as `tc` has it: bytes per second for so many microseconds, and then others.
#[derive(Copy, Clone, PartialEq, Eq, Default, Debug)]
pub struct Curve {
    m1: u32,
    d_us: u32,
    m2: u32,
}

params! {
    /// The curves of a class, as `tc class add … hfsc` takes them.
    pub struct CurvesConfig {
        /// real-time and link-sharing curve
        sc: Option<Curve> = None, curve().optional(), "";
        /// real-time curve: what the class gets whatever the others do
        rt: Option<Curve> = None, curve().optional(), "";
        /// link-sharing curve: its share of what is left
        ls: Option<Curve> = None, curve().optional(), "";
        /// upper limit of link sharing
        ul: Option<Curve> = None, curve().optional(), "";
    }
}

/// Whether this word is next, and its value, else 0.
fn optional(
    words: &mut Words,
    keyword: &'static str,
    takes: &str,
    read: impl FnOnce(&str) -> Option<u32>,
) -> Result<(bool, u32), Refused> {
    let given = words.take(keyword);
    Ok((given, if given { words.value(takes, read)? } else { 0 }))
}

/// `[m1 RATE] [d TIME] m2 RATE`, or `[umax SIZE] [dmax TIME] rate RATE`.
fn curve() -> Spec<Curve> {
    let takes = "[m1 RATE d TIME] m2 RATE or [umax SIZE dmax TIME] rate RATE";
    let per_second =
        |s: &str| tc::parse_rate(s).and_then(|rate| u32::try_from(rate.bps() / 8).ok());
    let us = |s: &str| tc::parse_time(s).and_then(|time| u32::try_from(time.0 / 1000).ok());
    let read = move |_: &Curve, words: &mut Words| {
        let mut one = Curve::default();
        let (has_m1, has_d);
        (has_m1, one.m1) = optional(words, "m1", "a rate", per_second)?;
        (has_d, one.d_us) = optional(words, "d", "a time", us)?;
        if words.take("m2") {
            one.m2 = words.value("a rate", per_second)?;
        } else if has_m1 || has_d {
            return Err(words.refuse("m1", "the second slope is missing; add it: m2 5mbit"));
        } else {
            let (_, umax) = optional(words, "umax", "a size", tc::parse_size)?;
            let (_, dmax) = optional(words, "dmax", "a time", us)?;
            if !words.take("rate") {
                return Err(words.refuse("", "the rate is missing; add it: rate 5mbit"));
            }
            one.m2 = words.value("a rate", per_second)?;
            if umax > 0 && dmax == 0 {
                return Err(words.refuse("umax", "it needs the time of these bytes; add dmax 10ms"));
            }
            one.first_segment(umax, dmax);
        }
        if one.m1 == 0 && one.m2 == 0 {
            return Err(words.refuse("0", "one of the slopes has to be above zero"));
        }
        Ok(one)
    };
    let told = |one: &Curve| {
        let bits = |slope: u32| u64::from(slope) * 8;
        let second = format!("m2 {}bit", bits(one.m2));
        Some(match (one.m1, one.d_us) {
            (0, 0) => second,
            (m1, us) => format!("m1 {}bit d {us}us {second}", bits(m1)),
        })
    };
    let samples = &["rate 5mbit", "m1 20mbit d 10ms m2 5mbit", "umax 1500b dmax 10ms rate 1mbit"];
    grammar("CURVE", takes, read, told, samples, &["m1 5mbit", "m2 0bit", "umax 1500b rate 1mbit"])
}

impl Curve {
    /// `umax` bytes within `dmax` us: at once if that is faster than the rate, or nothing until the rate is enough.
    fn first_segment(&mut self, umax: u32, dmax: u32) {
        let (bytes, us) = (f64::from(umax) * 1e6, f64::from(dmax));
        let slope = if dmax > 0 { (bytes / us).ceil() } else { 0.0 };
        if slope > f64::from(self.m2) {
            (self.m1, self.d_us) = (slope as u32, dmax);
        } else if self.m2 > 0 {
            self.d_us = (us - bytes / f64::from(self.m2)).ceil() as u32;
        }
    }
}

impl Described for CurvesConfig {
    const NAME: &'static str = "curves";
    const SUMMARY: &'static str = "service curves of a class of hfsc";
    const REQUIRED: &'static str = "sc rate 5mbit";

    fn finish(&mut self, given: &Given) -> Result<(), Refused> {
        if let Some(both) = self.sc.take() {
            // The later word of tc wins.
            let is_last = |word| given.of(&["sc", word]).last() == Some(&"sc");
            self.rt = if is_last("rt") { Some(both) } else { self.rt };
            self.ls = if is_last("ls") { Some(both) } else { self.ls };
        }
        if self.ls.is_none() && self.ul.is_some() {
            return Err(given.missing("ls", "ul limits the share; add ls rate 5mbit"));
        }
        if self.rt.is_none() && self.ls.is_none() {
            return Err(given.missing("sc", "add the curve of the class, such as sc rate 5mbit"));
        }
        Ok(())
    }
}

impl CurvesConfig {
    /// # Errors
    /// One sentence that names the keyword, the value and the fix.
    pub fn parse(text: &str) -> Result<CurvesConfig, Refused> {
        params::read_words(text.split_whitespace())
    }
    pub fn canonical(&self) -> String {
        params::write_words(self)
    }
}

impl<'de> Deserialize<'de> for CurvesConfig {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<CurvesConfig, D::Error> {
        CurvesConfig::parse(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// A number in a scale of so many bits, times another one.
fn scaled(one: u64, by: u64, bits: u32) -> u64 {
    let rest = one & ((1 << bits) - 1);
    (one >> bits).wrapping_mul(by).wrapping_add(rest.wrapping_mul(by) >> bits)
}

/// A slope in bytes per tick, and in ticks per byte.
#[derive(Copy, Clone, Debug)]
struct Slope {
    bytes: u64,
    ticks: u64,
}

impl Slope {
    fn new(per_second: u32) -> Slope {
        let per_second = u64::from(per_second);
        Slope {
            bytes: (per_second << SLOPE).div_ceil(TICKS_PER_SECOND),
            ticks: match per_second {
                0 => NEVER,
                some => (TICKS_PER_SECOND << INVERSE).div_ceil(some),
            },
        }
    }
    fn bytes_in(self, ticks: u64) -> u64 {
        scaled(ticks, self.bytes, SLOPE)
    }
    fn ticks_for(self, bytes: u64) -> u64 {
        match (bytes, self.ticks) {
            (0, _) => 0,
            (_, NEVER) => NEVER,
            (bytes, ticks) => scaled(bytes, ticks, INVERSE),
        }
    }
}

/// A curve from a point on: time and bytes at which it begins, and those of its first segment.
#[derive(Copy, Clone, Debug)]
struct ServiceCurve {
    at: u64,
    bytes: u64,
    /// Length and height of the first segment.
    ticks: u64,
    height: u64,
    slopes: [Slope; 2],
}

impl ServiceCurve {
    /// Sums wrap, as in the kernel, where the second slope is zero.
    fn new(curve: Curve) -> ServiceCurve {
        let slopes = [Slope::new(curve.m1), Slope::new(curve.m2)];
        let ticks = (u64::from(curve.d_us) * TICKS_PER_SECOND).div_ceil(1_000_000);
        ServiceCurve { at: 0, bytes: 0, ticks, height: slopes[0].bytes_in(ticks), slopes }
    }
    fn is_convex(&self) -> bool {
        self.slopes[0].bytes <= self.slopes[1].bytes
    }
    /// When it reaches these bytes.
    fn time_of(&self, bytes: u64) -> u64 {
        let end = self.bytes.wrapping_add(self.height);
        if bytes < self.bytes {
            self.at
        } else if bytes > end {
            let more = self.slopes[1].ticks_for(bytes - end);
            self.at.wrapping_add(self.ticks).wrapping_add(more)
        } else if self.height == 0 {
            self.at.wrapping_add(self.ticks)
        } else {
            self.at.wrapping_add(self.slopes[0].ticks_for(bytes - self.bytes))
        }
    }
    fn bytes_at(&self, time: u64) -> u64 {
        let end = self.at.wrapping_add(self.ticks);
        if time <= self.at {
            self.bytes
        } else if time <= end {
            self.bytes.wrapping_add(self.slopes[0].bytes_in(time - self.at))
        } else {
            let more = self.slopes[1].bytes_in(time - end);
            self.bytes.wrapping_add(self.height).wrapping_add(more)
        }
    }
    /// The lower one of this curve and `whole`, if that begins here (`rtsc_min`).
    fn lower(&mut self, whole: &ServiceCurve, at: u64, bytes: u64) {
        let here = self.bytes_at(at);
        if whole.is_convex() {
            if here >= bytes {
                (self.at, self.bytes) = (at, bytes);
            }
            return;
        }
        if here <= bytes {
            return;
        }
        let there = self.bytes_at(at.wrapping_add(whole.ticks));
        let (ticks, height) = if there >= bytes.wrapping_add(whole.height) {
            (whole.ticks, whole.height)
        } else {
            // They cross. What is left of the first segment is still before the second one.
            let steeper = whole.slopes[0].bytes - whole.slopes[1].bytes;
            let left = self.at.wrapping_add(self.ticks).saturating_sub(at);
            let ticks = (((here - bytes) << SLOPE) / steeper).wrapping_add(left);
            (ticks, whole.slopes[0].bytes_in(ticks))
        };
        *self = ServiceCurve { at, bytes, ticks, height, slopes: self.slopes };
    }
}

/// A curve as given, and how it goes on from where the class became active.
#[derive(Copy, Clone, Debug)]
struct Course {
    whole: ServiceCurve,
    now: ServiceCurve,
}

impl Course {
    fn new(curve: Curve, at: u64, bytes: u64) -> Course {
        let whole = ServiceCurve::new(curve);
        Course { whole, now: ServiceCurve { at, bytes, ..whole } }
    }
    fn begin(&mut self, at: u64, bytes: u64) {
        self.now.lower(&self.whole, at, bytes);
    }
}

/// The root is the first class, and has no parent.
#[derive(Debug, Default)]
struct Class {
    id: Option<u16>,
    parent: Option<usize>,
    leaf: Option<usize>,
    rt: Option<Course>,
    ls: Option<Course>,
    ul: Option<Course>,
    /// Bytes sent, and those among them that were sent by deadline.
    sent: u64,
    sent_by_deadline: u64,
    eligible_at: u64,
    deadline: u64,
    virtual_time: u64,
    fits_at: u64,
    /// By its own limit, and by those of the classes below it.
    fits_itself_at: u64,
    child_fits_at: u64,
    /// Smallest virtual time of a child that fitted, and the largest of any.
    least: u64,
    most: u64,
    /// What the virtual time was moved by, because the class did not fit.
    moved: u64,
    /// How many times it became active, and its parent's number of that when it did so last.
    period: u32,
    of_parent: u32,
    /// Leaf: whether it has packets. Others: how many children are active.
    active: u32,
    /// Active children, the last one that moved at the end.
    children: Vec<usize>,
}

/// The classes at work.
#[derive(Debug)]
pub struct Hfsc {
    classes: Vec<Class>,
    leaves: Vec<usize>,
    /// Leaves with packets and a real-time curve, the last one whose eligible time moved at the end.
    waiting: Vec<usize>,
}

/// Who sends, and whether by its deadline.
#[derive(Copy, Clone, Debug)]
pub struct Turn {
    pub leaf: usize,
    by_deadline: bool,
}

/// # Errors
/// One sentence.
pub fn check_curves<Q>(class: &ClassSpec<Q>) -> Result<(), ScenarioError> {
    match class.curves {
        Some(_) => Ok(()),
        None => Err(ScenarioError(format!("class {} of hfsc needs curves", class.id))),
    }
}

fn ticks(now: Time) -> u64 {
    now.0 >> TICK
}

impl Hfsc {
    /// `classes`: checked, and sorted by number; leaves are numbered in this order.
    pub fn new<Q>(classes: &[ClassSpec<Q>]) -> Hfsc {
        let mut hfsc =
            Hfsc { classes: vec![Class::default()], leaves: Vec::new(), waiting: Vec::new() };
        for (place, spec) in (1..).zip(classes) {
            let parent = spec.parent.as_deref().and_then(|id| find(classes, id));
            let is_leaf = spec.qdisc.is_some();
            let leaf = is_leaf.then_some(hfsc.leaves.len());
            hfsc.leaves.extend(is_leaf.then_some(place));
            let parent = Some(parent.map_or(0, |parent| parent + 1));
            let mut class = Class { id: parse_id(&spec.id), parent, leaf, ..Class::default() };
            class.set(spec.curves.as_ref(), 0);
            if !is_leaf {
                // Linux gives a class with others below it its real-time curve for sharing, too.
                class.ls = class.ls.or(class.rt);
            }
            hfsc.classes.push(class);
        }
        hfsc
    }

    /// Other curves of a class (`hfsc_change_class`); those that are not named stay. `length`: of the packet that is next.
    pub fn change(&mut self, to: &ClassSpec, now: Time, length: Option<u32>) {
        let (id, now) = (parse_id(&to.id), ticks(now));
        let Some(place) = self.classes.iter().position(|class| class.id == id && id.is_some())
        else {
            return;
        };
        let class = &mut self.classes[place];
        let (had_rt, had_ls) = (class.rt.is_some(), class.ls.is_some());
        class.set(to.curves.as_ref(), now);
        let Some(length) = length else { return };
        let class = &self.classes[place];
        let (has_rt, has_ls) = (class.rt.is_some(), class.ls.is_some());
        if has_rt {
            if !had_rt {
                self.begin_real_time(place, now);
            }
            self.set_deadline(place, length, true);
        }
        match has_ls {
            true if had_ls => self.advance(place, 0, false),
            true => self.begin_sharing(place, now),
            false => {}
        }
    }

    /// A leaf that was empty has packets, the first of this length. Returns whether the kernel looks at it.
    pub fn activate(&mut self, leaf: usize, length: u32, now: Time) -> bool {
        let place = self.leaves[leaf];
        let class = &self.classes[place];
        let (has_rt, has_ls) = (class.rt.is_some(), class.ls.is_some());
        if has_ls && class.active > 0 || self.waiting.contains(&place) {
            return false;
        }
        if has_rt {
            self.begin_real_time(place, ticks(now));
            self.set_deadline(place, length, true);
        }
        if has_ls {
            self.begin_sharing(place, ticks(now));
        }
        has_rt
    }

    /// The packets of a leaf are gone (`hfsc_qlen_notify`).
    pub fn emptied(&mut self, leaf: usize) {
        let place = self.leaves[leaf];
        if self.classes[place].active > 0 {
            self.advance(place, 0, true);
        }
        self.waiting.retain(|&other| other != place);
    }

    pub fn turn(&mut self, now: Time) -> Option<Turn> {
        let now = ticks(now);
        let eligible = self.waiting.iter().filter(|&&place| self.classes[place].eligible_at <= now);
        let first = eligible.min_by_key(|&&place| {
            let class = &self.classes[place];
            (class.deadline, class.eligible_at)
        });
        if let Some(leaf) = first.and_then(|&place| self.classes[place].leaf) {
            return Some(Turn { leaf, by_deadline: true });
        }
        let mut place = 0;
        if self.classes[place].child_fits_at > now {
            return None;
        }
        loop {
            if let Some(leaf) = self.classes[place].leaf {
                return Some(Turn { leaf, by_deadline: false });
            }
            let fitting = self.classes[place].children.iter().copied();
            let fitting = fitting.filter(|&child| self.classes[child].fits_at <= now);
            let child = fitting.min_by_key(|&child| self.classes[child].virtual_time)?;
            let Class { least, .. } = self.classes[place];
            self.classes[place].least = least.max(self.classes[child].virtual_time);
            place = child;
        }
    }

    /// When a class may send that may not now.
    pub fn next_event(&self) -> Time {
        let eligible = self.waiting.iter().map(|&place| self.classes[place].eligible_at).min();
        let fits = Some(self.classes[0].child_fits_at).filter(|&at| at != 0);
        let next = eligible.into_iter().chain(fits).min();
        next.filter(|&at| at != 0 && at <= NEVER >> TICK).map_or(Time::NEVER, |at| Time(at << TICK))
    }

    /// The leaf has sent so many bytes. `is_empty`: nothing else waits in it. Returns whether the kernel looks at its next
    /// packet, see [`Hfsc::looked`].
    pub fn sent(&mut self, turn: Turn, bytes: u32, is_empty: bool) -> bool {
        let place = self.leaves[turn.leaf];
        self.advance(place, bytes.into(), is_empty);
        let class = &mut self.classes[place];
        if turn.by_deadline {
            class.sent_by_deadline += u64::from(bytes);
        }
        let has_rt = class.rt.is_some();
        if has_rt && is_empty {
            self.waiting.retain(|&other| other != place);
        }
        has_rt && !is_empty
    }

    /// The next packet of the leaf that has sent.
    pub fn looked(&mut self, turn: Turn, length: u32) {
        self.set_deadline(self.leaves[turn.leaf], length, turn.by_deadline);
    }

    /// The real-time curve of a leaf begins anew (`init_ed`).
    fn begin_real_time(&mut self, place: usize, now: u64) {
        let class = &mut self.classes[place];
        if let Some(rt) = &mut class.rt {
            rt.begin(now, class.sent_by_deadline);
        }
    }

    /// Deadline of a leaf's next packet, and with `eligible` its eligible time, by which it is listed (`update_ed`).
    fn set_deadline(&mut self, place: usize, length: u32, eligible: bool) {
        let class = &mut self.classes[place];
        let Some(rt) = class.rt else { return };
        class.deadline = rt.now.time_of(class.sent_by_deadline + u64::from(length));
        if eligible {
            let mut curve = rt.now;
            if rt.whole.is_convex() {
                // Packets are eligible early enough to keep the steeper slope that follows.
                (curve.ticks, curve.height) = (0, 0);
            }
            class.eligible_at = curve.time_of(class.sent_by_deadline);
            self.waiting.retain(|&other| other != place);
            self.waiting.push(place);
        }
    }

    /// A class with a share becomes active, and with it those above it (`init_vf`).
    fn begin_sharing(&mut self, mut place: usize, now: u64) {
        let mut becomes_active = true;
        while let Some(above) = self.classes[place].parent {
            if becomes_active {
                self.classes[place].active += 1;
                becomes_active = self.classes[place].active == 1;
            }
            if becomes_active {
                let times =
                    self.classes[above].children.iter().map(|&n| self.classes[n].virtual_time);
                let last = times.max();
                let Class { least, most, period, active, .. } = self.classes[above];
                let class = &mut self.classes[place];
                match last {
                    // In the middle of the others, and not back within a period of the parent.
                    Some(last) => {
                        let middle = if least == 0 { last } else { least.wrapping_add(last) / 2 };
                        if period != class.of_parent || middle > class.virtual_time {
                            class.virtual_time = middle;
                        }
                    }
                    None => class.virtual_time = most,
                }
                let (begin, sent) = (class.virtual_time, class.sent);
                if let Some(ls) = &mut class.ls {
                    ls.begin(begin, sent);
                }
                (class.moved, class.fits_at) = (0, 0);
                class.period = class.period.wrapping_add(1);
                class.of_parent = period.wrapping_add(u32::from(active == 0));
                if let Some(ul) = &mut class.ul {
                    ul.begin(now, sent);
                    class.fits_itself_at = ul.now.time_of(sent);
                }
                if last.is_none() {
                    self.classes[above].least = 0;
                }
                self.classes[above].children.push(place);
            }
            let class = &mut self.classes[place];
            class.fits_at = class.fits_itself_at.max(class.child_fits_at);
            self.look_for_fitting(above);
            place = above;
        }
    }

    /// A class and those above it have sent so many bytes (`update_vf`). `is_empty`: the leaf has nothing left.
    fn advance(&mut self, place: usize, bytes: u64, is_empty: bool) {
        let mut becomes_passive = is_empty && self.classes[place].active > 0;
        let mut next = place;
        while let Some(above) = self.classes[next].parent {
            let (place, least) = (next, self.classes[above].least);
            next = above;
            let class = &mut self.classes[place];
            class.sent += bytes;
            let Some(ls) = class.ls.filter(|_| class.active > 0) else { continue };
            if becomes_passive {
                class.active -= 1;
                becomes_passive = class.active == 0;
            }
            class.virtual_time = ls.now.time_of(class.sent).wrapping_add(class.moved);
            if class.virtual_time < least {
                // It was left out because it did not fit.
                class.moved += least - class.virtual_time;
                class.virtual_time = least;
            }
            let virtual_time = class.virtual_time;
            if !becomes_passive {
                if let Some(ul) = class.ul {
                    class.fits_itself_at = ul.now.time_of(class.sent);
                }
                class.fits_at = class.fits_itself_at.max(class.child_fits_at);
            }
            let above = &mut self.classes[above];
            above.children.retain(|&other| other != place);
            if becomes_passive {
                above.most = above.most.max(virtual_time);
            } else {
                above.children.push(place);
            }
            self.look_for_fitting(next);
        }
    }

    /// When the first child of a class may get a share (`update_cfmin`).
    fn look_for_fitting(&mut self, place: usize) {
        let times = self.classes[place].children.iter().map(|&child| self.classes[child].fits_at);
        self.classes[place].child_fits_at = times.min().unwrap_or(0);
    }
}

impl Class {
    fn set(&mut self, curves: Option<&CurvesConfig>, now: u64) {
        let Some(curves) = curves else { return };
        let from =
            |curve: Option<Curve>, at, bytes| curve.map(|curve| Course::new(curve, at, bytes));
        self.rt = from(curves.rt, now, self.sent_by_deadline).or(self.rt);
        self.ls = from(curves.ls, self.virtual_time, self.sent).or(self.ls);
        self.ul = from(curves.ul, now, self.sent).or(self.ul);
    }
}
