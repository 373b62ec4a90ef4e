//! Controllers and queues for the simulator l4slab, compiled: `l4slab.h` for Rust.
//!
//! A library implements [`Controller`], [`Media`] or [`Queue`] and says so with `controller!`, `media!` or `queue!`. An experiment
//! file then says `cc = "./libmine.so"` or `qdisc = "./libmine.so limit 100"`. What the fields mean is told in `l4slab.h`.
#![allow(dead_code, unused_macros, unused_imports)]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;

/// Changes when a table below does.
pub const ABI: u32 = 2;
pub const NEVER: u64 = u64::MAX;

pub const NUMBER: u32 = 0;
pub const WHOLE: u32 = 1;
pub const TIME: u32 = 2;
pub const RATE: u32 = 3;
pub const SIZE: u32 = 4;
pub const SWITCH: u32 = 5;

pub const ECN_OFF: u32 = 0;
pub const ECN_CLASSIC: u32 = 1;
pub const ECN_ACCECN: u32 = 2;

pub const ON_ECN: u32 = 0;
pub const ON_LOSS: u32 = 1;
pub const ON_TIMEOUT: u32 = 2;
pub const ON_TAIL_LOSS: u32 = 3;

pub const NOT_ECT: u8 = 0;
pub const ECT1: u8 = 1;
pub const ECT0: u8 = 2;
pub const CE: u8 = 3;

#[repr(C)]
pub struct Parameter {
    pub keyword: *const c_char,
    pub kind: u32,
    pub standard: *const c_char,
    pub help: *const c_char,
    pub least: f64,
    pub most: f64,
}

impl Parameter {
    pub const fn new(keyword: &'static CStr, kind: u32, standard: &'static CStr, help: &'static CStr) -> Parameter {
        let (keyword, standard, help) = (keyword.as_ptr(), standard.as_ptr(), help.as_ptr());
        Parameter { keyword, kind, standard, help, least: 0.0, most: 0.0 }
    }
    pub const fn within(self, least: f64, most: f64) -> Parameter {
        Parameter { least, most, ..self }
    }
}

#[repr(C)]
pub struct Gauge {
    pub name: *const c_char,
    pub unit: *const c_char,
    pub help: *const c_char,
}

impl Gauge {
    pub const fn new(name: &'static CStr, unit: &'static CStr, help: &'static CStr) -> Gauge {
        Gauge { name: name.as_ptr(), unit: unit.as_ptr(), help: help.as_ptr() }
    }
}

/// A text of a table.
#[repr(transparent)]
pub struct Name(*const c_char);
unsafe impl Sync for Name {}

impl Name {
    pub const fn new(name: &'static CStr) -> Name {
        Name(name.as_ptr())
    }
}

#[repr(C)]
#[derive(Debug, Default)]
pub struct Ack {
    pub now_ns: u64,
    pub next_departure_ns: u64,
    pub pacing_rate: u64,
    pub rate_interval_ns: u64,
    pub lost_total: u64,
    pub acked: u32,
    pub ce: u32,
    pub delivered: u32,
    pub delivered_ce: u32,
    pub rtt_us: u32,
    pub srtt_us: u32,
    pub min_rtt_us: u32,
    pub in_flight: u32,
    pub prior_in_flight: u32,
    pub lost: u32,
    pub rate_delivered: u32,
    pub rate_prior_delivered: u32,
    pub rate_tx_in_flight: u32,
    pub rate_lost: u32,
    pub rate_delivered_ce: u32,
    pub rate_app_limited: bool,
    pub may_grow: bool,
    pub cwnd_limited: bool,
    pub reducing: bool,
    pub recovering: bool,
    pub repairing: bool,
    pub open: bool,
    pub paced: bool,
}

#[repr(C)]
#[derive(Debug, Default)]
pub struct Lost {
    pub now_ns: u64,
    pub tx_in_flight: u32,
    pub lost: u32,
    pub app_limited: bool,
}

#[repr(C)]
#[derive(Debug, Default)]
pub struct Window {
    pub cwnd: u32,
    pub ssthresh: u32,
    pub pacing_rate: u64,
    pub burst: u32,
    pub mss: u32,
    pub header: u32,
}

#[repr(C)]
#[derive(Copy, Clone, Debug)]
pub struct Fate {
    pub sent_ns: u64,
    /// NEVER: it was lost.
    pub arrived_ns: u64,
    pub size: u32,
    pub ce: u32,
}

#[repr(C)]
#[derive(Debug)]
pub struct Report {
    pub now_ns: u64,
    pub rtt_ns: u64,
    pub one_way_ns: u64,
    pub acked: u64,
    pub in_flight: u64,
    pub max_in_flight: u64,
    pub packets: *const Fate,
    pub packet_count: u32,
}

impl Report {
    pub fn packets(&self) -> &[Fate] {
        match self.packet_count {
            0 => &[],
            n => unsafe { std::slice::from_raw_parts(self.packets, n as usize) },
        }
    }
}

#[repr(C)]
#[derive(Debug, Default)]
pub struct Frame {
    pub now_ns: u64,
    pub interval_ns: u64,
    pub queue_age_ns: u64,
    pub queue_bytes: u64,
    pub last_bytes: u64,
}

#[repr(C)]
#[derive(Debug, Default)]
pub struct Rates {
    pub target_bps: f64,
    pub pacing_bps: f64,
    pub window: u64,
    pub min_bps: f64,
    pub max_bps: f64,
}

#[repr(C)]
#[derive(Debug)]
pub struct Packet {
    pub next: *mut Packet,
    pub arrived_ns: u64,
    pub id: u32,
    pub length: u32,
    pub flow: u32,
    pub ecn: u8,
    pub dscp: u8,
    pub band: Cell<u8>,
}

#[repr(C)]
pub struct Link {
    pub now_ns: u64,
    pub host: *mut c_void,
    pub drop: unsafe extern "C" fn(*mut Link, *const Packet, u32),
    pub mark: unsafe extern "C" fn(*mut Link, *const Packet) -> u32,
    pub random: unsafe extern "C" fn(*mut Link) -> f64,
}

impl Link {
    /// Gives a packet up.
    pub fn drop(&mut self, packet: &Packet) {
        unsafe { (self.drop)(self, packet, 0) }
    }
    /// The same because the buffer is full.
    pub fn overflow(&mut self, packet: &Packet) {
        unsafe { (self.drop)(self, packet, 1) }
    }
    /// The packet will leave with CE. False: it is Not-ECT, and then is normally dropped.
    pub fn mark(&mut self, packet: &Packet) -> bool {
        unsafe { (self.mark)(self, packet) != 0 }
    }
    /// Uniform in [0, 1).
    pub fn random(&mut self) -> f64 {
        unsafe { (self.random)(self) }
    }
}

/// The table of a controller, as C has it.
#[repr(C)]
pub struct ControllerTable {
    pub abi: u32,
    pub ecn: u32,
    pub governs_window: u32,
    pub summary: *const c_char,
    pub parameters: *const Parameter,
    pub parameter_count: u32,
    pub gauges: *const Gauge,
    pub gauge_count: u32,
    pub create: Option<unsafe extern "C" fn(*const f64, u64) -> *mut c_void>,
    pub destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    pub on_ack: Option<unsafe extern "C" fn(*mut c_void, *const Ack, *mut Window)>,
    pub on_congestion: Option<unsafe extern "C" fn(*mut c_void, u32, u64, *mut Window)>,
    pub on_recovered: Option<unsafe extern "C" fn(*mut c_void, *mut Window)>,
    pub on_undo: Option<unsafe extern "C" fn(*mut c_void, u32, *mut Window)>,
    pub on_established: Option<unsafe extern "C" fn(*mut c_void, u32, *mut Window)>,
    pub on_lost: Option<unsafe extern "C" fn(*mut c_void, *const Lost)>,
    pub probe: Option<unsafe extern "C" fn(*const c_void, *mut f64)>,
}
unsafe impl Sync for ControllerTable {}

/// The table of a controller of media, as C has it.
#[repr(C)]
pub struct MediaTable {
    pub abi: u32,
    pub ecn: u32,
    pub report_interval_ns: u64,
    pub summary: *const c_char,
    pub parameters: *const Parameter,
    pub parameter_count: u32,
    pub gauges: *const Gauge,
    pub gauge_count: u32,
    pub create: Option<unsafe extern "C" fn(*const f64, u64) -> *mut c_void>,
    pub destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    pub on_report: Option<unsafe extern "C" fn(*mut c_void, *const Report, *mut Rates)>,
    pub on_frame: Option<unsafe extern "C" fn(*mut c_void, *const Frame, *mut Rates)>,
    pub probe: Option<unsafe extern "C" fn(*const c_void, *mut f64)>,
}
unsafe impl Sync for MediaTable {}

/// The table of a queue, as C has it.
#[repr(C)]
pub struct QueueTable {
    pub abi: u32,
    pub summary: *const c_char,
    pub parameters: *const Parameter,
    pub parameter_count: u32,
    pub gauges: *const Gauge,
    pub gauge_count: u32,
    pub bands: *const *const c_char,
    pub band_count: u32,
    pub create: Option<unsafe extern "C" fn(*const f64, u64, u64) -> *mut c_void>,
    pub destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    pub enqueue: Option<unsafe extern "C" fn(*mut c_void, *mut Packet, *mut Link)>,
    pub dequeue: Option<unsafe extern "C" fn(*mut c_void, *mut Link) -> *mut Packet>,
    pub next_timer: Option<unsafe extern "C" fn(*const c_void) -> u64>,
    pub on_timer: Option<unsafe extern "C" fn(*mut c_void, *mut Link)>,
    pub probe: Option<unsafe extern "C" fn(*const c_void, *mut f64)>,
}
unsafe impl Sync for QueueTable {}

/// A congestion control.
pub trait Controller: Sized {
    /// One line.
    const SUMMARY: &'static CStr;
    const ECN: u32 = ECN_OFF;
    const GOVERNS_WINDOW: bool = false;
    /// `on_lost` is called, and ACKs tell `rate_tx_in_flight` and what follows.
    const HEARS_LOSSES: bool = false;
    const PARAMETERS: &'static [Parameter] = &[];
    const GAUGES: &'static [Gauge] = &[];
    /// `options`: a value per parameter.
    fn create(options: &[f64], seed: u64) -> Self;
    fn on_ack(&mut self, ack: &Ack, window: &mut Window);
    fn on_congestion(&mut self, why: u32, now_ns: u64, window: &mut Window);
    fn on_recovered(&mut self, _window: &mut Window) {}
    fn on_undo(&mut self, prior_cwnd: u32, window: &mut Window) {
        window.cwnd = window.cwnd.max(prior_cwnd);
    }
    fn on_established(&mut self, _granted: bool, _window: &mut Window) {}
    fn on_lost(&mut self, _lost: &Lost) {}
    /// A value per gauge.
    fn probe(&self, _gauges: &mut [f64]) {}
}

/// A congestion control of media.
pub trait Media: Sized {
    /// One line.
    const SUMMARY: &'static CStr;
    /// NOT_ECT, ECT0 or ECT1.
    const ECN: u8 = NOT_ECT;
    const REPORT_INTERVAL_NS: u64 = 0;
    const PARAMETERS: &'static [Parameter] = &[];
    const GAUGES: &'static [Gauge] = &[];
    /// `options`: a value per parameter.
    fn create(options: &[f64], seed: u64) -> Self;
    fn on_report(&mut self, report: &Report, rates: &mut Rates);
    fn on_frame(&mut self, _frame: &Frame, _rates: &mut Rates) {}
    /// A value per gauge.
    fn probe(&self, _gauges: &mut [f64]) {}
}

/// A queue. Packets are l4slab's: a reference is good until the packet is dropped or sent.
pub trait Queue: Sized {
    /// One line.
    const SUMMARY: &'static CStr;
    const PARAMETERS: &'static [Parameter] = &[];
    const GAUGES: &'static [Gauge] = &[];
    /// The queues inside that are reported apart; `packet.band.set(1)` in `enqueue` counts one in the second.
    const BANDS: &'static [Name] = &[];
    /// `parameters`: a value each.
    fn create(parameters: &[f64], rate_bps: u64, now_ns: u64) -> Self;
    fn enqueue(&mut self, packet: &'static Packet, link: &mut Link);
    fn dequeue(&mut self, link: &mut Link) -> Option<&'static Packet>;
    fn next_timer(&self) -> u64 {
        NEVER
    }
    fn on_timer(&mut self, _link: &mut Link) {}
    /// A value per gauge.
    fn probe(&self, _gauges: &mut [f64]) {}
}

/// `controller!(Mine);`: the library has this controller.
macro_rules! controller {
    ($mine:ty) => {
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static l4slab_controller: $crate::l4slab::ControllerTable = $crate::l4slab::Shim::<$mine>::CONTROLLER;
    };
}
/// `media!(Mine);`: the library has this controller of media.
macro_rules! media {
    ($mine:ty) => {
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static l4slab_media: $crate::l4slab::MediaTable = $crate::l4slab::Shim::<$mine>::MEDIA;
    };
}
/// `queue!(Mine);`: the library has this queue.
macro_rules! queue {
    ($mine:ty) => {
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static l4slab_queue: $crate::l4slab::QueueTable = $crate::l4slab::Shim::<$mine>::QUEUE;
    };
}
pub(crate) use {controller, media, queue};

/// The calls of C for an implementation of a trait.
pub struct Shim<T>(PhantomData<T>);

fn create<T>(made: T) -> *mut c_void {
    Box::into_raw(Box::new(made)).cast()
}
unsafe fn values<'a>(at: *const f64, count: usize) -> &'a [f64] {
    if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(at, count) } }
}
unsafe fn places<'a>(at: *mut f64, count: usize) -> &'a mut [f64] {
    if count == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(at, count) } }
}

impl<T> Shim<T> {
    unsafe extern "C" fn destroy(this: *mut c_void) {
        drop(unsafe { Box::from_raw(this.cast::<T>()) });
    }
}

impl<T: Controller> Shim<T> {
    pub const CONTROLLER: ControllerTable = ControllerTable {
        abi: ABI,
        ecn: T::ECN,
        governs_window: T::GOVERNS_WINDOW as u32,
        summary: T::SUMMARY.as_ptr(),
        parameters: T::PARAMETERS.as_ptr(),
        parameter_count: T::PARAMETERS.len() as u32,
        gauges: T::GAUGES.as_ptr(),
        gauge_count: T::GAUGES.len() as u32,
        create: Some(Self::create_controller),
        destroy: Some(Self::destroy),
        on_ack: Some(Self::on_ack),
        on_congestion: Some(Self::on_congestion),
        on_recovered: Some(Self::on_recovered),
        on_undo: Some(Self::on_undo),
        on_established: Some(Self::on_established),
        on_lost: if T::HEARS_LOSSES { Some(Self::on_lost) } else { None },
        probe: Some(Self::probe_controller),
    };
    unsafe extern "C" fn create_controller(options: *const f64, seed: u64) -> *mut c_void {
        create(T::create(unsafe { values(options, T::PARAMETERS.len()) }, seed))
    }
    unsafe extern "C" fn on_ack(this: *mut c_void, ack: *const Ack, window: *mut Window) {
        unsafe { (*this.cast::<T>()).on_ack(&*ack, &mut *window) }
    }
    unsafe extern "C" fn on_congestion(this: *mut c_void, why: u32, now_ns: u64, window: *mut Window) {
        unsafe { (*this.cast::<T>()).on_congestion(why, now_ns, &mut *window) }
    }
    unsafe extern "C" fn on_recovered(this: *mut c_void, window: *mut Window) {
        unsafe { (*this.cast::<T>()).on_recovered(&mut *window) }
    }
    unsafe extern "C" fn on_undo(this: *mut c_void, prior_cwnd: u32, window: *mut Window) {
        unsafe { (*this.cast::<T>()).on_undo(prior_cwnd, &mut *window) }
    }
    unsafe extern "C" fn on_established(this: *mut c_void, granted: u32, window: *mut Window) {
        unsafe { (*this.cast::<T>()).on_established(granted != 0, &mut *window) }
    }
    unsafe extern "C" fn on_lost(this: *mut c_void, lost: *const Lost) {
        unsafe { (*this.cast::<T>()).on_lost(&*lost) }
    }
    unsafe extern "C" fn probe_controller(this: *const c_void, gauges: *mut f64) {
        unsafe { (*this.cast::<T>()).probe(places(gauges, T::GAUGES.len())) }
    }
}

impl<T: Media> Shim<T> {
    pub const MEDIA: MediaTable = MediaTable {
        abi: ABI,
        ecn: T::ECN as u32,
        report_interval_ns: T::REPORT_INTERVAL_NS,
        summary: T::SUMMARY.as_ptr(),
        parameters: T::PARAMETERS.as_ptr(),
        parameter_count: T::PARAMETERS.len() as u32,
        gauges: T::GAUGES.as_ptr(),
        gauge_count: T::GAUGES.len() as u32,
        create: Some(Self::create_media),
        destroy: Some(Self::destroy),
        on_report: Some(Self::on_report),
        on_frame: Some(Self::on_frame),
        probe: Some(Self::probe_media),
    };
    unsafe extern "C" fn create_media(options: *const f64, seed: u64) -> *mut c_void {
        create(T::create(unsafe { values(options, T::PARAMETERS.len()) }, seed))
    }
    unsafe extern "C" fn on_report(this: *mut c_void, report: *const Report, rates: *mut Rates) {
        unsafe { (*this.cast::<T>()).on_report(&*report, &mut *rates) }
    }
    unsafe extern "C" fn on_frame(this: *mut c_void, frame: *const Frame, rates: *mut Rates) {
        unsafe { (*this.cast::<T>()).on_frame(&*frame, &mut *rates) }
    }
    unsafe extern "C" fn probe_media(this: *const c_void, gauges: *mut f64) {
        unsafe { (*this.cast::<T>()).probe(places(gauges, T::GAUGES.len())) }
    }
}

impl<T: Queue> Shim<T> {
    pub const QUEUE: QueueTable = QueueTable {
        abi: ABI,
        summary: T::SUMMARY.as_ptr(),
        parameters: T::PARAMETERS.as_ptr(),
        parameter_count: T::PARAMETERS.len() as u32,
        gauges: T::GAUGES.as_ptr(),
        gauge_count: T::GAUGES.len() as u32,
        bands: T::BANDS.as_ptr().cast(),
        band_count: T::BANDS.len() as u32,
        create: Some(Self::create_queue),
        destroy: Some(Self::destroy),
        enqueue: Some(Self::enqueue),
        dequeue: Some(Self::dequeue),
        next_timer: Some(Self::next_timer),
        on_timer: Some(Self::on_timer),
        probe: Some(Self::probe_queue),
    };
    unsafe extern "C" fn create_queue(parameters: *const f64, rate_bps: u64, now_ns: u64) -> *mut c_void {
        create(T::create(unsafe { values(parameters, T::PARAMETERS.len()) }, rate_bps, now_ns))
    }
    unsafe extern "C" fn enqueue(this: *mut c_void, packet: *mut Packet, link: *mut Link) {
        unsafe { (*this.cast::<T>()).enqueue(&*packet, &mut *link) }
    }
    unsafe extern "C" fn dequeue(this: *mut c_void, link: *mut Link) -> *mut Packet {
        let packet = unsafe { (*this.cast::<T>()).dequeue(&mut *link) };
        packet.map_or(std::ptr::null_mut(), |packet| std::ptr::from_ref(packet).cast_mut())
    }
    unsafe extern "C" fn next_timer(this: *const c_void) -> u64 {
        unsafe { (*this.cast::<T>()).next_timer() }
    }
    unsafe extern "C" fn on_timer(this: *mut c_void, link: *mut Link) {
        unsafe { (*this.cast::<T>()).on_timer(&mut *link) }
    }
    unsafe extern "C" fn probe_queue(this: *const c_void, gauges: *mut f64) {
        unsafe { (*this.cast::<T>()).probe(places(gauges, T::GAUGES.len())) }
    }
}
