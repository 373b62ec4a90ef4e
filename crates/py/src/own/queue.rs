//! A queue that is a class in Python.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use l4slab_core::aqm::own::{Cx, Law, Seen};
use l4slab_core::aqm::{Aqm, DropReason, LinkInfo, own};
use l4slab_core::ecn::Ecn;
use l4slab_core::packet;
use l4slab_core::params::declared::{Table, Values};
use l4slab_core::probe::Gauges;
use l4slab_core::rng::Rng;
use l4slab_core::time::Time;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::{attributes, call, tell};

/// A packet, from `enqueue` until it is dropped or `dequeue` has returned it.
#[pyclass(module = "l4slab._core", frozen)]
pub struct Packet {
    id: u32,
    codepoint: Ecn,
    /// It is in the queue.
    is_here: AtomicBool,
    bands: &'static [&'static str],
    band: AtomicU8,
    /// `enqueue` has not returned yet.
    arrives: AtomicBool,
    #[pyo3(get)]
    length: u32,
    #[pyo3(get)]
    flow: u32,
    #[pyo3(get)]
    dscp: u8,
    #[pyo3(get)]
    arrived_ns: u64,
}

#[pymethods]
impl Packet {
    /// As an experiment file calls it.
    #[getter]
    fn ecn(&self) -> &'static str {
        match self.codepoint {
            Ecn::NotEct => "not-ect",
            Ecn::Ect0 => "ect0",
            Ecn::Ect1 => "ect1",
            Ecn::Ce => "ce",
        }
    }
    /// The inner queue that it is counted in; `None`: the queue declares none.
    #[getter]
    fn band(&self) -> Option<&'static str> {
        self.bands.get(usize::from(self.band.load(Relaxed))).copied()
    }
    #[setter]
    fn set_band(&self, name: &str) -> PyResult<()> {
        let Some(band) = self.bands.iter().position(|band| *band == name) else {
            let bands = match self.bands {
                [] => "none; write bands = (\"L\", \"C\") in the class".to_owned(),
                bands => bands.join(", "),
            };
            let text = format!("packet.band = \"{name}\": the queue's bands are {bands}");
            return Err(PyValueError::new_err(text));
        };
        if !self.arrives.load(Relaxed) {
            let text = "packet.band: enqueue says the band of a packet, once and for all";
            return Err(PyValueError::new_err(text));
        }
        self.band.store(band as u8, Relaxed);
        Ok(())
    }
}

impl Packet {
    /// It leaves the queue.
    fn leave(&self, event: &str) -> PyResult<u32> {
        match self.is_here.swap(false, Relaxed) {
            true => Ok(self.id),
            false => Err(PyValueError::new_err(format!(
                "{event}: this packet is not in the queue any more; it was sent or dropped before"
            ))),
        }
    }
}

enum Event {
    Band(u32, u8),
    Mark(u32),
    Drop(u32, DropReason),
}

/// The link as a queue sees it during one of its calls.
#[pyclass(module = "l4slab._core")]
pub struct Link {
    #[pyo3(get)]
    now_ns: u64,
    rng: Option<Rng>,
    /// Done when the call returns, in this order.
    events: Vec<Event>,
}

#[pymethods]
impl Link {
    /// Gives a packet up.
    #[pyo3(signature = (packet, overflow=false))]
    fn drop(&mut self, packet: &Packet, overflow: bool) -> PyResult<()> {
        let why = if overflow { DropReason::Overflow } else { DropReason::Aqm };
        self.events.push(Event::Drop(packet.leave("drop")?, why));
        Ok(())
    }
    /// The packet will leave with CE; false for Not-ECT, which then is normally dropped.
    fn mark(&mut self, packet: &Packet) -> PyResult<bool> {
        if !packet.is_here.load(Relaxed) {
            packet.leave("mark")?;
        }
        self.events.push(Event::Mark(packet.id));
        Ok(packet.codepoint.is_capable())
    }
    /// Uniform in [0, 1), from the run's seed.
    fn random(&mut self) -> f64 {
        self.rng.as_mut().map_or(0.0, Rng::unit)
    }
}

pub struct Maker {
    table: &'static Table,
    make: Py<PyAny>,
    methods: Vec<String>,
}

impl Maker {
    pub fn new(table: &'static Table, make: Py<PyAny>, methods: Vec<String>) -> Maker {
        Maker { table, make, methods }
    }
}

impl own::Maker for Maker {
    fn make(&self, parameters: &Values, link: LinkInfo) -> Box<dyn Aqm<packet::Packet>> {
        let name = self.table.name;
        let law = call(name, |py| {
            let parameters = attributes(py, parameters)?;
            let object = self.make.bind(py).call1((parameters, link.rate.bps()))?;
            let optional = |name: &str| -> PyResult<Option<Py<PyAny>>> {
                let has = self.methods.iter().any(|method| method == name);
                has.then(|| Ok(object.getattr(name)?.unbind())).transpose()
            };
            Ok(Queue {
                table: self.table,
                link: Py::new(py, Link { now_ns: link.now.0, rng: None, events: Vec::new() })?,
                enqueue: object.getattr("enqueue")?.unbind(),
                dequeue: object.getattr("dequeue")?.unbind(),
                next_timer: optional("next_timer")?,
                on_timer: optional("on_timer")?,
                object: object.unbind(),
                events: Vec::new(),
                is_seeded: false,
            })
        });
        Box::new(own::Own::new(name, self.table.bands, law, link.now))
    }
}

/// A link's queue.
struct Queue {
    table: &'static Table,
    object: Py<PyAny>,
    link: Py<Link>,
    enqueue: Py<PyAny>,
    dequeue: Py<PyAny>,
    next_timer: Option<Py<PyAny>>,
    on_timer: Option<Py<PyAny>>,
    /// Empty between calls.
    events: Vec<Event>,
    is_seeded: bool,
}

impl Queue {
    /// Calls a method with the link, and does what it asked for.
    fn call<R>(
        &mut self,
        now: Time,
        cx: &mut dyn Cx,
        method: impl FnOnce(&Queue, &Bound<'_, Link>) -> PyResult<R>,
    ) -> R {
        // The link's stream belongs to the call that is told it; of Python's numbers it gives the seed.
        let rng = (!self.is_seeded).then(|| {
            Rng::stream((cx.random() * (1_u64 << 53) as f64) as u64, "a queue in Python", 0)
        });
        self.is_seeded = true;
        let mut events = std::mem::take(&mut self.events);
        let done = call(self.table.name, |py| {
            let link = self.link.bind(py);
            {
                let mut shown = link.borrow_mut();
                shown.now_ns = now.0;
                if rng.is_some() {
                    shown.rng = rng;
                }
            }
            let done = method(self, link)?;
            std::mem::swap(&mut link.borrow_mut().events, &mut events);
            Ok(done)
        });
        for event in events.drain(..) {
            match event {
                Event::Band(id, band) => cx.band(id, usize::from(band)),
                Event::Mark(id) => drop(cx.mark(id)),
                Event::Drop(id, why) => cx.drop(id, why),
            }
        }
        self.events = events;
        done
    }
}

impl Law for Queue {
    fn enqueue(&mut self, now: Time, packet: &Seen, cx: &mut dyn Cx) {
        let shown = Packet {
            id: packet.id,
            codepoint: packet.ecn,
            is_here: AtomicBool::new(true),
            bands: self.table.bands,
            band: AtomicU8::new(0),
            arrives: AtomicBool::new(true),
            length: packet.frame_len,
            flow: packet.flow_hash,
            dscp: packet.dscp,
            arrived_ns: packet.enqueued_at.0,
        };
        self.call(now, cx, |queue, link| {
            let py = link.py();
            let shown = Bound::new(py, shown)?;
            queue.enqueue.bind(py).call1((&shown, link))?;
            let shown = shown.get();
            shown.arrives.store(false, Relaxed);
            let band = shown.band.load(Relaxed);
            if band > 0 {
                link.borrow_mut().events.insert(0, Event::Band(shown.id, band));
            }
            Ok(())
        });
    }
    fn dequeue(&mut self, now: Time, cx: &mut dyn Cx) -> Option<u32> {
        self.call(now, cx, |queue, link| {
            let given = queue.dequeue.bind(link.py()).call1((link,))?;
            if given.is_none() {
                return Ok(None);
            }
            let Ok(packet) = given.cast::<Packet>() else {
                let given = given.repr()?;
                let text = format!("dequeue gave {given}; it gives a Packet or None");
                return Err(PyTypeError::new_err(text));
            };
            packet.get().leave("dequeue").map(Some)
        })
    }
    fn next_timer(&self) -> Time {
        let Some(method) = &self.next_timer else { return Time::NEVER };
        let at = call(self.table.name, |py| method.bind(py).call0()?.extract::<Option<u64>>());
        at.map_or(Time::NEVER, Time)
    }
    fn on_timer(&mut self, now: Time, cx: &mut dyn Cx) {
        self.call(now, cx, |queue, link| match &queue.on_timer {
            Some(method) => method.bind(link.py()).call1((link,)).map(drop),
            None => Ok(()),
        });
    }
    fn probe(&self, out: &mut dyn Gauges) {
        tell(self.table.name, self.table, &self.object, out);
    }
}
