//! Custom controllers (see [`crate::own`]).

use std::fmt;
use std::sync::Arc;

use super::{CongestionControl, Window};
use crate::own::{Entry, Registry, fail};
use crate::params::declared::Values;
use crate::params::{Gauge, Refused};
use crate::rng::Rng;

/// Makes the controller of a connection.
pub trait Maker: Send + Sync {
    fn make(&self, options: &Values, rng: Rng) -> Box<dyn CongestionControl>;
}

/// The largest window that a custom controller may set, segments: 120 ms at 100 Gbit/s. A runaway algorithm
/// gives an error instead of using up the memory.
pub const MOST_WINDOW: u32 = 1_000_000;

/// Ends the run if the controller `name` has set an invalid window.
pub fn check_window(name: &str, w: &Window) {
    if !(1..=MOST_WINDOW).contains(&w.cwnd) {
        let cwnd = w.cwnd;
        fail(format!("{name} sets cwnd to {cwnd}; a window is 1 to {MOST_WINDOW} segments"));
    }
}

/// All of them.
pub static CONTROLLERS: Registry<dyn Maker> = Registry::new();

/// A custom controller, with its options.
#[derive(Clone)]
pub struct OwnController {
    entry: Arc<Entry<dyn Maker>>,
    options: Values,
}

impl OwnController {
    /// Finds a controller and reads its options; `None`: the name is of another kind.
    pub fn parse(name: &str, options: &[(&str, &str)]) -> Option<Result<OwnController, Refused>> {
        let found = CONTROLLERS.find("congestion control", name)?;
        Some(found.and_then(|entry| {
            let options = entry.table.read_options(options)?;
            Ok(OwnController { entry, options })
        }))
    }
    pub fn canonical(&self) -> Vec<(&'static str, String)> {
        self.options.write_options()
    }
    pub fn gauges(&self) -> Vec<Gauge> {
        self.entry.table.gauges.clone()
    }
    pub fn build(&self, rng: Rng) -> Box<dyn CongestionControl> {
        self.entry.maker().make(&self.options, rng)
    }
}

impl PartialEq for OwnController {
    fn eq(&self, other: &OwnController) -> bool {
        self.options == other.options
    }
}

impl fmt::Debug for OwnController {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("OwnController").field("options", &self.options).finish_non_exhaustive()
    }
}
