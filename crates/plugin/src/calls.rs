//! Symbols of a library, its tables, and calls of its functions.
//!
//! A table that was found has the right version and every function that it needs, its texts are read
//! once, and the library stays loaded as long as somebody has one of its objects.

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::sync::Arc;

use libloading::os::unix;

use super::guard::watched;
use super::l4slab::{
    ABI, Ack, ControllerTable, Frame, Gauge, Link, Lost, MediaTable, Packet, QueueTable, Rates,
    Report, Window,
};
use super::{Declaration, DeclaredGauge, Kind, Parameter};

/// A library that is loaded.
#[derive(Clone)]
pub struct Library(Arc<libloading::Library>);

impl Library {
    pub fn open(file: &Path) -> Result<Library, String> {
        // Now: a symbol that nobody has is found missing here, not by the call that needs it.
        // SAFETY: the user asks for this library to be run.
        let library = unsafe { unix::Library::open(Some(file), unix::RTLD_NOW | unix::RTLD_LOCAL) };
        library.map(|library| Library(Arc::new(library.into()))).map_err(|error| {
            let text = match &error {
                libloading::Error::DlOpen { source } => source.to_string(),
                other => other.to_string(),
            };
            let why = text.strip_prefix(&format!("{}: ", file.display())).unwrap_or(&text);
            format!(
                "cannot be loaded ({why}); build it as a shared library for this machine, with all that it needs"
            )
        })
    }
    pub fn controller(&self) -> Result<Api<ControllerTable>, String> {
        // SAFETY: the version is the first field of every version's table, and is looked at first.
        let table = unsafe { self.table::<ControllerTable>("controller", "l4slab_controller")? };
        let missing = [
            ("create", table.create.is_none()),
            ("destroy", table.destroy.is_none()),
            ("on_ack", table.on_ack.is_none()),
            ("on_congestion", table.on_congestion.is_none()),
        ];
        self.complete("l4slab_controller", table, &missing)
    }
    pub fn media(&self) -> Result<Api<MediaTable>, String> {
        // SAFETY: as above.
        let table = unsafe { self.table::<MediaTable>("controller of media", "l4slab_media")? };
        let missing = [
            ("create", table.create.is_none()),
            ("destroy", table.destroy.is_none()),
            ("on_report", table.on_report.is_none()),
        ];
        self.complete("l4slab_media", table, &missing)
    }
    pub fn queue(&self) -> Result<Api<QueueTable>, String> {
        // SAFETY: as above.
        let table = unsafe { self.table::<QueueTable>("queue", "l4slab_queue")? };
        let missing = [
            ("create", table.create.is_none()),
            ("destroy", table.destroy.is_none()),
            ("enqueue", table.enqueue.is_none()),
            ("dequeue", table.dequeue.is_none()),
            (
                "on_timer, which next_timer needs,",
                table.next_timer.is_some() && table.on_timer.is_none(),
            ),
        ];
        self.complete("l4slab_queue", table, &missing)
    }

    unsafe fn table<T>(&self, what: &str, name: &str) -> Result<&'static T, String> {
        // SAFETY: the symbol is a table, by its name.
        let symbol = unsafe { self.0.get::<*const T>(name.as_bytes()) };
        let lacks = |_| {
            let table = name.to_uppercase();
            format!(
                "has no {what}: the symbol {name} is missing; write {table} = {{ … }} of l4slab.h"
            )
        };
        let table = *symbol.map_err(lacks)?;
        // SAFETY: see the caller. Each version of the table begins so.
        let abi = unsafe { *table.cast::<u32>() };
        if abi != ABI {
            return Err(format!(
                "was built for version {abi} of the ABI, and this l4slab has version {ABI}; build it again with \
                 the l4slab.h of this version"
            ));
        }
        // SAFETY: `Api` keeps the library loaded.
        Ok(unsafe { &*table })
    }

    fn complete<T>(
        &self,
        name: &str,
        table: &'static T,
        missing: &[(&str, bool)],
    ) -> Result<Api<T>, String> {
        match missing.iter().find(|(_, is_missing)| *is_missing) {
            Some((function, _)) => {
                Err(format!("has no {function} in its table {name}; set it to a function"))
            }
            None => Ok(Api { library: self.clone(), table }),
        }
    }
}

/// A table of a library that is loaded.
pub struct Api<T: 'static> {
    library: Library,
    table: &'static T,
}

impl<T> Clone for Api<T> {
    fn clone(&self) -> Self {
        Api { library: self.library.clone(), table: self.table }
    }
}

/// The pointer that `create` returned.
pub struct Object {
    this: *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
    _library: Library,
}

// SAFETY: an object is used by one thread at a time, and l4slab.h says that it shares nothing.
unsafe impl Send for Object {}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: `this` came from the same table.
        watched(|| unsafe { (self.destroy)(self.this) });
    }
}

/// SAFETY: null, or a text that ends with NUL.
unsafe fn text(at: *const c_char, what: &str) -> Result<String, String> {
    if at.is_null() {
        return Err(format!("has no {what}: it is NULL; write a text, \"\" for none"));
    }
    // SAFETY: see above.
    let text = unsafe { CStr::from_ptr(at) }.to_str();
    text.map(str::to_owned).map_err(|_| format!("has a {what} that is not UTF-8; write it so"))
}

/// SAFETY: so many entries, or null for none.
unsafe fn entries<'a, T>(at: *const T, count: u32) -> &'a [T] {
    let count = if at.is_null() { 0 } else { count as usize };
    // SAFETY: see above.
    if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(at, count) } }
}

fn declaration(name: &str, head: &Head) -> Result<Declaration, String> {
    // SAFETY: texts of a table end with NUL.
    let summary = unsafe { text(head.summary, "summary")? };
    let mut declared = Vec::new();
    // SAFETY: here and below, the table says how many there are.
    for p in unsafe { entries(head.parameters, head.parameter_count) } {
        // SAFETY: as above.
        let [keyword, default, help] = unsafe {
            [
                text(p.keyword, "keyword of a parameter")?,
                text(p.standard, "default of a parameter")?,
                text(p.help, "help of a parameter")?,
            ]
        };
        let kinds = [Kind::Number, Kind::Whole, Kind::Time, Kind::Rate, Kind::Size, Kind::Switch];
        let kind = kinds.get(p.kind as usize).copied().ok_or_else(|| {
            format!(
                "has the parameter {keyword} of kind {}; it is 0 to 5 of enum l4slab_kind",
                p.kind
            )
        })?;
        let range = p.least != 0.0 || p.most != 0.0;
        let (least, most) = (range.then_some(p.least), range.then_some(p.most));
        declared.push(Parameter { keyword, help, kind, default, least, most, choices: Vec::new() });
    }
    let mut columns = Vec::new();
    for g in unsafe { entries(head.gauges, head.gauge_count) } {
        // SAFETY: as above.
        let [name, unit, help] = unsafe {
            [
                text(g.name, "name of a gauge")?,
                text(g.unit, "unit of a gauge")?,
                text(g.help, "help of a gauge")?,
            ]
        };
        columns.push(DeclaredGauge { name, unit, help });
    }
    let mut bands = Vec::new();
    for band in unsafe { entries(head.bands, head.band_count) } {
        // SAFETY: as above.
        bands.push(unsafe { text(*band, "name of a band")? });
    }
    Ok(Declaration { name: name.to_owned(), summary, parameters: declared, gauges: columns, bands })
}

const COMPLETE: &str = "a table is complete";

/// What the tables of controllers, media controllers and queues have alike.
pub struct Head {
    summary: *const c_char,
    parameters: *const super::l4slab::Parameter,
    parameter_count: u32,
    gauges: *const Gauge,
    gauge_count: u32,
    bands: *const *const c_char,
    band_count: u32,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    probe: Option<unsafe extern "C" fn(*const c_void, *mut f64)>,
}

pub trait Table {
    fn head(&self) -> Head;
}

macro_rules! table {
    ($table:ty, $bands:expr) => {
        impl Table for $table {
            fn head(&self) -> Head {
                let (bands, band_count) = $bands(self);
                Head {
                    summary: self.summary,
                    parameters: self.parameters,
                    parameter_count: self.parameter_count,
                    gauges: self.gauges,
                    gauge_count: self.gauge_count,
                    bands,
                    band_count,
                    destroy: self.destroy,
                    probe: self.probe,
                }
            }
        }
    };
}

table!(ControllerTable, |_| (std::ptr::null(), 0));
table!(MediaTable, |_| (std::ptr::null(), 0));
table!(QueueTable, |table: &QueueTable| (table.bands, table.band_count));

impl<T: Table> Api<T> {
    pub fn declaration(&self, name: &str) -> Result<Declaration, String> {
        declaration(name, &self.table.head())
    }
    pub fn probe(&self, object: &Object, values: &mut [f64]) {
        if let Some(call) = self.table.head().probe {
            // SAFETY: the object is of this table, and there is a place per gauge.
            watched(|| unsafe { call(object.this, values.as_mut_ptr()) });
        }
    }
    /// What `create` returned, unless that was null.
    fn object(&self, this: *mut c_void) -> Option<Object> {
        let destroy = self.table.head().destroy.expect(COMPLETE);
        (!this.is_null()).then(|| Object { this, destroy, _library: self.library.clone() })
    }
}

impl Api<ControllerTable> {
    pub fn ecn(&self) -> u32 {
        self.table.ecn
    }
    pub fn governs_window(&self) -> bool {
        self.table.governs_window != 0
    }
    pub fn hears_losses(&self) -> bool {
        self.table.on_lost.is_some()
    }
    pub fn on_lost(&self, object: &Object, lost: &Lost) {
        if let Some(call) = self.table.on_lost {
            // SAFETY: the object is of this table.
            watched(|| unsafe { call(object.this, lost) });
        }
    }
    pub fn create(&self, options: &[f64], seed: u64) -> Option<Object> {
        let create = self.table.create.expect(COMPLETE);
        // SAFETY: a value per parameter.
        self.object(watched(|| unsafe { create(options.as_ptr(), seed) }))
    }
    #[inline(always)]
    pub fn on_ack(&self, object: &Object, ack: &Ack, w: &mut Window) {
        let call = self.table.on_ack.expect(COMPLETE);
        // SAFETY: here and below, the object is of this table.
        watched(|| unsafe { call(object.this, ack, w) });
    }
    pub fn on_congestion(&self, object: &Object, why: u32, now_ns: u64, w: &mut Window) {
        let call = self.table.on_congestion.expect(COMPLETE);
        watched(|| unsafe { call(object.this, why, now_ns, w) });
    }
    pub fn on_recovered(&self, object: &Object, w: &mut Window) {
        if let Some(call) = self.table.on_recovered {
            watched(|| unsafe { call(object.this, w) });
        }
    }
    pub fn on_undo(&self, object: &Object, prior_cwnd: u32, w: &mut Window) {
        match self.table.on_undo {
            Some(call) => watched(|| unsafe { call(object.this, prior_cwnd, w) }),
            None => w.cwnd = w.cwnd.max(prior_cwnd),
        }
    }
    pub fn on_established(&self, object: &Object, granted: bool, w: &mut Window) {
        if let Some(call) = self.table.on_established {
            watched(|| unsafe { call(object.this, u32::from(granted), w) });
        }
    }
}

impl Api<MediaTable> {
    pub fn ecn(&self) -> u32 {
        self.table.ecn
    }
    pub fn report_interval_ns(&self) -> u64 {
        self.table.report_interval_ns
    }
    pub fn create(&self, options: &[f64], seed: u64) -> Option<Object> {
        let create = self.table.create.expect(COMPLETE);
        // SAFETY: a value per parameter.
        self.object(watched(|| unsafe { create(options.as_ptr(), seed) }))
    }
    pub fn on_report(&self, object: &Object, report: &Report, rates: &mut Rates) {
        let call = self.table.on_report.expect(COMPLETE);
        // SAFETY: here and below, the object is of this table.
        watched(|| unsafe { call(object.this, report, rates) });
    }
    pub fn on_frame(&self, object: &Object, frame: &Frame, rates: &mut Rates) {
        if let Some(call) = self.table.on_frame {
            watched(|| unsafe { call(object.this, frame, rates) });
        }
    }
}

impl Api<QueueTable> {
    pub fn create(&self, parameters: &[f64], rate_bps: u64, now_ns: u64) -> Option<Object> {
        let create = self.table.create.expect(COMPLETE);
        // SAFETY: a value per parameter.
        self.object(watched(|| unsafe { create(parameters.as_ptr(), rate_bps, now_ns) }))
    }
    #[inline(always)]
    pub fn enqueue(&self, object: &Object, packet: *mut Packet, link: &mut Link) {
        let call = self.table.enqueue.expect(COMPLETE);
        // SAFETY: here and below, the object is of this table, and packets stay where they are.
        watched(|| unsafe { call(object.this, packet, link) });
    }
    #[inline(always)]
    pub fn dequeue(&self, object: &Object, link: &mut Link) -> *mut Packet {
        let call = self.table.dequeue.expect(COMPLETE);
        watched(|| unsafe { call(object.this, link) })
    }
    pub fn next_timer(&self, object: &Object) -> u64 {
        self.table.next_timer.map_or(u64::MAX, |call| watched(|| unsafe { call(object.this) }))
    }
    pub fn on_timer(&self, object: &Object, link: &mut Link) {
        if let Some(call) = self.table.on_timer {
            watched(|| unsafe { call(object.this, link) });
        }
    }
}
