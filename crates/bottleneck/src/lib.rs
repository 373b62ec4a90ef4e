//! A bottleneck in real time: real packets cross the links and queues of the simulator.
//!
//! * [`frame`] splits what a TUN device gives into the packets of the wire, and joins them again on the way out.
//! * [`forward`] is the loop: packets are stamped once, [`l4slab_core::sim::transit`] decides what happens to them, and
//!   what leaves is written when it is due.
//! * [`setup`] makes the namespaces and starts the programs; [`outside`] is the way to the networks of the machine;
//!   [`system`] has the calls to Linux.
//! * [`log`] is the file of arrivals, departures and losses; [`replay`] compares it with the simulator on any machine, and
//!   [`packets`] tells from it what each link saw.

// Times come from the clock of the machine here: that is the purpose of the crate.
#![allow(clippy::disallowed_types)]

pub mod frame;
pub mod log;
pub mod packets;
pub mod replay;

#[cfg(target_os = "linux")]
pub mod forward;
#[cfg(target_os = "linux")]
pub mod outside;
#[cfg(target_os = "linux")]
pub mod probe;
#[cfg(target_os = "linux")]
pub mod relay;
#[cfg(target_os = "linux")]
pub mod setup;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub mod system;

/// Why it did not work, in one sentence.
#[derive(Debug)]
pub struct Refused {
    pub sentence: String,
    /// The user has to change the input, not the machine.
    pub is_input: bool,
}

impl Refused {
    pub fn machine(sentence: impl Into<String>) -> Refused {
        Refused { sentence: sentence.into(), is_input: false }
    }
    pub fn input(sentence: impl Into<String>) -> Refused {
        Refused { sentence: sentence.into(), is_input: true }
    }
}
