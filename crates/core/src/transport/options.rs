//! Rules of TCP in which implementations differ; a flow may set each of them otherwise.

use crate::cc::INITIAL_WINDOW;
use crate::params::kinds::{choice, count, fraction, params, switch};
use crate::params::{self, Described};

/// RACK's reordering window is kept in these parts of the smallest RTT.
const PARTS: f64 = 256.0;

params! {
    #[derive(Copy)]
    pub struct Options {
        /// first window, segments
        initial_window: u32 = INITIAL_WINDOW, count(1..=1000), "RFC 6928";
        /// the window halves per timeout in which the application writes nothing
        idle_restart: bool = true, switch(), "Linux; RFC 5681, 4.1";
        /// the window grows only while it limits the flow ("off": also while the application or pacing does)
        window_validation: bool = true, switch(), "Linux; RFC 7661";
        /// segments leave at the pacing rate: "cc" if the controller paces, "on", "off"
        pacing: Pacing = Pacing::Controller, choice("cc|on|off", [
            ("cc", Pacing::Controller),
            ("on", Pacing::On),
            ("off", Pacing::Off),
        ]), "Linux";
        /// most segments that leave back to back; 0: as many as the pacing rate asks for
        burst: u32 = 0, count(0..=1000), "Linux";
        /// the window falls with what is delivered ("off": at once)
        prr: bool = true, switch(), "Linux; RFC 6937";
        /// RACK's reordering window at first, as a part of the smallest RTT
        reordering_window: f64 = 0.25, fraction(), "RFC 8985, 6.2";
        /// a probe is sent where a transfer's last segments are not acknowledged
        tail_probe: bool = true, switch(), "Linux; RFC 8985, 7";
        /// the receiver acknowledges at the latest after so many segments
        ack_every: u32 = 2, count(1..=64), "RFC 5681, 4.2";
    }
}

/// Who decides that segments are paced.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Pacing {
    Controller,
    On,
    Off,
}

impl Described for Options {
    const NAME: &'static str = "transport";
    const SUMMARY: &'static str = "rules of TCP in which implementations differ";
    const IN_LINUX: bool = false;
}

impl Options {
    /// # Errors
    /// One sentence that names the option, the value and the fix.
    pub fn read(options: &[(&str, &str)]) -> Result<Options, params::Refused> {
        params::read_options(options)
    }
    /// Most segments of a burst.
    pub fn most(&self) -> u32 {
        if self.burst == 0 { u32::MAX } else { self.burst }
    }
    /// RACK's reordering window, 256ths of the smallest RTT.
    pub fn reordering_parts(&self) -> u32 {
        (self.reordering_window * PARTS) as u32
    }
}
