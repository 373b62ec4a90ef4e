#![doc = include_str!("../README.md")]
//!
//! # Time
//!
//! [`Lab::now`] is the time since the start of the run. It moves in [`Lab::next_event`] and [`Lab::step`] alone, to the
//! next arrival or timer. A stack with an `Instant` of its own adds it to any instant.
//!
//! # Order
//!
//! At one instant packets come before timers, those of a flow that was described earlier first, and then those for its
//! far end; timers come in the order of their tokens. What ends send at one instant reaches a queue in the order of the
//! flows, whoever called first. So a run does not depend on the order of calls, but for those of one end.

mod lab;
mod setup;

pub use l4slab_core::ecn::Ecn;
pub use l4slab_core::error::ScenarioError as Error;
pub use l4slab_core::sim::Recording as Results;
pub use l4slab_core::sim::recording::{FlowRow, LinkRow, LossRow};
pub use lab::{EndId, Event, Lab, Packet, Sum};
pub use setup::Setup;
