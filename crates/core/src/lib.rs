//! The simulator of l4slab: hosts, links and queues as a deterministic packet-level simulation.
//! Pure Rust: no I/O, no threads, no clock, no hash order, no platform mathematics; the same
//! [`scenario::Run`] gives the same bits everywhere.
//!
//! A map of the crate, from the outside in:
//!
//! * [`scenario`] is what a run is; [`sim`] wires its elements, lets them run over windows of time, and
//!   returns a [`sim::Recording`]. [`element`] is what an element is, and how a packet travels.
//! * [`live`] watches and changes a run in progress.
//! * [`traffic`] are the elements at the ends of paths: TCP in bulk, CBR, UDP Prague, web, video,
//!   media over RTP.
//! * [`net`] are those between them: a [`net::link::Link`] is a queue and a token bucket, a
//!   [`net::impair::Impair`] a netem.
//! * [`transport`] is TCP, and RTP's feedback; [`cc`] is the interface of a congestion control, one file per controller
//!   below it; [`cc::media`] is that of a media controller.
//! * [`aqm`] is the interface of a queue discipline, one file per queue below it, and how a link serves
//!   it. [`params`] makes one table of the parameters of each queue and controller; [`tc`] reads and
//!   prints values as `tc` does.
//! * [`own`] registers custom controllers and queues.
//! * [`packet`] is what moves, with the [`sack`] blocks that it carries, what is [`inside`] of a tunnel, and [`offload`]
//!   several as one; [`probe`] and
//!   [`distribution`] record.
//! * [`time`], [`units`], [`ecn`], [`rng`], [`math`], [`windowed`], [`error`] are the small vocabulary of all
//!   of them.
//!
//! The modules of a folder depend on each other without a circle. This holds for the ones above, too.

pub mod aqm;
pub mod cc;
pub mod distribution;
pub mod ecn;
pub mod element;
pub mod error;
pub mod footprint;
pub mod inside;
pub mod live;
pub mod math;
pub mod net;
pub mod offload;
pub mod own;
pub mod packet;
pub mod params;
mod prefetch;
pub mod probe;
pub mod rng;
pub mod sack;
pub mod scenario;
pub mod sim;
pub mod tc;
pub mod time;
pub mod traffic;
pub mod transport;
pub mod units;
pub mod windowed;
