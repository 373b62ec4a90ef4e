//! The simulator of l4slab: hosts, links and queues as a deterministic packet-level simulation.
//! Pure Rust: no I/O, no threads, no clock, no hash order, no platform mathematics; the same
//! [`scenario::Run`] gives the same bits everywhere.
//!
//! A map of the crate, from the outside in:
//!
//! * [`scenario`] is what a run is; [`sim`] builds it from elements, runs the event loop and returns
//!   a [`sim::Recording`].
//! * [`net`]: a [`net::link::Link`] is a shaper and a queue; a [`net::pipe::Pipe`] is a delay.
//! * [`aqm`] is the interface of a queue discipline, one file per queue below it. [`params`] makes one
//!   table of the parameters of each queue and controller; [`tc`] reads and prints values as `tc` does.
//! * [`transport`] is TCP; [`cc`] is the interface of a congestion control, one file per controller
//!   below it. [`traffic`] is what is not TCP, and what applications ask of TCP.
//! * [`event`] orders wake-ups; [`packet`] is what moves; [`probe`] records; [`prefetch`] is for speed.
//! * [`time`], [`units`], [`ecn`], [`rng`], [`math`] are the small vocabulary of all of them.

pub mod aqm;
pub mod cc;
pub mod ecn;
pub mod event;
pub mod math;
pub mod net;
pub mod packet;
pub mod params;
pub mod prefetch;
pub mod probe;
pub mod rng;
pub mod scenario;
pub mod sim;
pub mod tc;
pub mod time;
pub mod traffic;
pub mod transport;
pub mod units;
