//! A run whose endpoints are in Python: [`l4slab::Lab`].

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use l4slab::{Ecn, EndId, Event, Packet};
use l4slab_core::error::ScenarioError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::{refused, tables};

/// Ends are numbers, two of each endpoint: the near one and the far one.
#[pyclass]
pub struct Lab {
    lab: Mutex<Option<l4slab::Lab>>,
    ends: Vec<EndId>,
}

/// Bytes, the codepoint, the DSCP, and the ports of the source and the destination.
type Arrived<'py> = (Bound<'py, PyBytes>, u8, u8, [u16; 2]);

impl Lab {
    fn with<R>(
        &self,
        act: impl FnOnce(&mut l4slab::Lab) -> Result<R, ScenarioError>,
    ) -> PyResult<R> {
        let over = || refused("the lab has finished; begin another one");
        act(self.lock().as_mut().ok_or_else(over)?).map_err(refused)
    }
    fn lock(&self) -> MutexGuard<'_, Option<l4slab::Lab>> {
        self.lab.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Lab {
    /// A ValueError says what is wrong with the description.
    #[new]
    fn new(run_json: &str) -> PyResult<Lab> {
        let lab = l4slab::Lab::from_run(run_json).map_err(refused)?;
        let of = |name: &String| lab.ends(name).map_err(refused);
        let ends: Vec<_> = lab.endpoints().iter().map(of).collect::<PyResult<_>>()?;
        Ok(Lab { ends: ends.concat(), lab: Mutex::new(Some(lab)) })
    }
    fn endpoints(&self) -> PyResult<Vec<String>> {
        self.with(|lab| Ok(lab.endpoints().to_vec()))
    }
    fn now_ns(&self) -> PyResult<u64> {
        self.with(|lab| Ok(lab.now().as_nanos() as u64))
    }
    fn most_bytes(&self, end: usize) -> PyResult<usize> {
        self.with(|lab| Ok(lab.most_bytes(self.ends[end])))
    }
    /// An end sends now; a ValueError says what it cannot send.
    fn send(
        &self,
        end: usize,
        bytes: &[u8],
        ecn: u8,
        dscp: Option<u8>,
        ports: [u16; 2],
    ) -> PyResult<()> {
        let packet = Packet { bytes: bytes.to_vec(), ecn: Ecn::from_bits(ecn), dscp, ports };
        self.with(|lab| lab.send(self.ends[end], packet))
    }
    /// The packet that has arrived at an end longest ago.
    fn receive<'py>(&self, py: Python<'py>, end: usize) -> PyResult<Option<Arrived<'py>>> {
        let packet = self.with(|lab| Ok(lab.receive(self.ends[end])))?;
        Ok(packet.map(|p| {
            (PyBytes::new(py, &p.bytes), p.ecn.bits(), p.dscp.unwrap_or_default(), p.ports)
        }))
    }
    fn wake_at(&self, at_ns: u64, token: u64) -> PyResult<()> {
        self.with(|lab| {
            lab.wake_at(Duration::from_nanos(at_ns), token);
            Ok(())
        })
    }
    fn cancel(&self, token: u64) -> PyResult<()> {
        self.with(|lab| {
            lab.cancel(token);
            Ok(())
        })
    }
    /// The next event before `until_ns` and not after the end of the run: whether a packet has arrived, and the end or the
    /// token. Other Python threads go on meanwhile.
    fn step(&self, py: Python<'_>, until_ns: u64) -> PyResult<Option<(bool, u64)>> {
        let step = || self.with(|lab| Ok(lab.step(Duration::from_nanos(until_ns))));
        Ok(py.detach(step)?.map(|event| match event {
            Event::Arrival(end) => (true, end.number() as u64),
            Event::Timer(token) => (false, token),
        }))
    }
    /// Packets sent, copied, arrived, lost and in flight of an end's flow.
    fn sum(&self, end: usize) -> PyResult<[u64; 5]> {
        let sum = self.with(|lab| Ok(lab.sum(self.ends[end])))?;
        Ok([sum.sent, sum.copied, sum.arrived, sum.lost, sum.in_flight])
    }
    /// Ends the run; what `simulate` returns.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        // Without results it goes on.
        self.with(|lab| lab.require_results())?;
        let lab = self.lock().take().ok_or_else(|| refused("the lab has finished"))?;
        tables(py, &lab.finish().map_err(refused)?)
    }
}
