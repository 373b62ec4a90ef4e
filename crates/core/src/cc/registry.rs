//! The controllers, by the names that `net.ipv4.tcp_available_congestion_control` lists. Adding one
//! is one file and one line here; the listing, option checks and documentation follow.

use serde::Serialize;
use thiserror::Error;

use super::{CongestionControl, EcnWish};
use crate::tc;

/// All controllers.
pub const CONTROLLERS: &[Controller] = &[
    super::bbr::CONTROLLER,
    super::bbr3::CONTROLLER,
    super::reno::CONTROLLER,
    super::cubic::CONTROLLER,
    super::dctcp::CONTROLLER,
    super::prague::CONTROLLER,
    super::reno_sce::CONTROLLER,
    super::cubic_sce::CONTROLLER,
    super::dctcp_sce::CONTROLLER,
];

/// An option of a controller: a kernel module parameter where one exists.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Param {
    #[serde(rename = "keyword")]
    pub name: &'static str,
    pub default: &'static str,
    pub help: &'static str,
}

/// A value of an option that gives other options other defaults: a version.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Preset {
    #[serde(skip)]
    pub cc: &'static str,
    #[serde(rename = "keyword")]
    pub option: &'static str,
    pub value: &'static str,
    pub sets: &'static [(&'static str, &'static str)],
}

const PRESETS: &[Preset] = super::prague::VERSIONS;

/// A controller's entry.
pub struct Controller {
    pub name: &'static str,
    pub summary: &'static str,
    pub parameters: &'static [Param],
    pub build: fn(&Options) -> Result<Box<dyn CongestionControl>, CcError>,
}

/// What is wrong with a controller's name or options, in one sentence.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CcError {
    #[error("unknown congestion control \"{name}\": {hint}")]
    UnknownController { name: String, hint: String },
    #[error("{cc} has no option \"{name}\": {hint}")]
    UnknownOption { cc: &'static str, name: String, hint: String },
    #[error("{cc} option {name} = \"{value}\": {fix}")]
    BadValue { cc: &'static str, name: &'static str, value: String, fix: String },
}

/// Options as given, completed with defaults.
#[derive(Clone, Debug)]
pub struct Options {
    cc: &'static str,
    values: Vec<(&'static str, String)>,
}

impl Options {
    fn raw(&self, name: &'static str) -> (&'static str, &str) {
        let (n, v) = self
            .values
            .iter()
            .find(|(n, _)| *n == name)
            .unwrap_or_else(|| panic!("{} declares no option {name}", self.cc));
        (n, v)
    }
    /// An option whose value others forbid.
    pub fn refuse(&self, name: &'static str, fix: &str) -> CcError {
        let (n, v) = self.raw(name);
        self.bad(n, v, fix.to_owned())
    }
    fn bad(&self, name: &'static str, value: &str, fix: String) -> CcError {
        CcError::BadValue { cc: self.cc, name, value: value.to_owned(), fix }
    }
    /// A number strictly between 0 and 1.
    pub fn fraction(&self, name: &'static str) -> Result<f64, CcError> {
        let (n, v) = self.raw(name);
        match v.parse::<f64>() {
            Ok(x) if x > 0.0 && x < 1.0 => Ok(x),
            _ => Err(self.bad(n, v, "give a number between 0 and 1".into())),
        }
    }
    /// A whole number in `range`.
    pub fn integer(
        &self,
        name: &'static str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, CcError> {
        let (n, v) = self.raw(name);
        match v.parse::<u64>() {
            Ok(x) if range.contains(&x) => Ok(x),
            _ => Err(self.bad(
                n,
                v,
                format!("give a whole number from {} to {}", range.start(), range.end()),
            )),
        }
    }
    /// A time such as `25ms`, in microseconds.
    pub fn micros(&self, name: &'static str) -> Result<u64, CcError> {
        let (n, v) = self.raw(name);
        tc::parse_time(v)
            .map(|s| s.as_micros())
            .ok_or_else(|| self.bad(n, v, "give a time with its unit, such as \"25ms\"".into()))
    }
    /// `on` or `off` (also `true`/`false`, `1`/`0`).
    pub fn switch(&self, name: &'static str) -> Result<bool, CcError> {
        let (n, v) = self.raw(name);
        match v {
            "on" | "true" | "1" => Ok(true),
            "off" | "false" | "0" => Ok(false),
            _ => Err(self.bad(n, v, "give \"on\" or \"off\"".into())),
        }
    }
    /// One of `allowed`.
    pub fn choice(
        &self,
        name: &'static str,
        allowed: &[&'static str],
    ) -> Result<&'static str, CcError> {
        let (n, v) = self.raw(name);
        allowed
            .iter()
            .copied()
            .find(|a| *a == v)
            .ok_or_else(|| self.bad(n, v, format!("give one of {}", allowed.join(", "))))
    }
    /// Name and value of every option, defaults included.
    pub fn resolved(&self) -> Vec<(String, String)> {
        self.values.iter().map(|(n, v)| ((*n).to_owned(), v.clone())).collect()
    }
}

/// Finds a controller by name.
pub fn find(name: &str) -> Result<&'static Controller, CcError> {
    CONTROLLERS.iter().find(|c| c.name == name).ok_or_else(|| {
        let names = CONTROLLERS.iter().map(|c| c.name);
        let hint = tc::hint(name, names, "the controllers are");
        CcError::UnknownController { name: name.to_owned(), hint }
    })
}

impl Controller {
    /// Completes the given options with defaults and checks all of them.
    pub fn options<'a>(
        &self,
        given: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Options, CcError> {
        let mut values: Vec<_> =
            self.parameters.iter().map(|p| (p.name, p.default.to_owned())).collect();
        let given: Vec<(&str, &str)> = given.into_iter().collect();
        let presets = self.presets().filter(|p| given.contains(&(p.option, p.value)));
        for (name, value) in presets.flat_map(|p| p.sets).chain(&given) {
            let slot = values.iter_mut().find(|(n, _)| n == name).ok_or_else(|| {
                let hint = if self.parameters.is_empty() {
                    "it takes none".to_owned()
                } else {
                    tc::hint(name, self.parameters.iter().map(|p| p.name), "its options are")
                };
                CcError::UnknownOption { cc: self.name, name: (*name).to_owned(), hint }
            })?;
            slot.1 = (*value).to_owned();
        }
        let options = Options { cc: self.name, values };
        (self.build)(&options)?;
        Ok(options)
    }
    fn presets(&self) -> impl Iterator<Item = &'static Preset> {
        PRESETS.iter().filter(|p| p.cc == self.name)
    }
    /// Codepoint and feedback that it wants with default options.
    pub fn ecn(&self) -> EcnWish {
        let defaults = self.options([]).expect("defaults are valid");
        (self.build)(&defaults).expect("defaults are valid").ecn()
    }
}

/// An entry of `l4slab list controllers`.
#[derive(Clone, Debug, Serialize)]
pub struct ControllerInfo {
    pub name: &'static str,
    pub summary: &'static str,
    pub ecn: &'static str,
    pub parameters: &'static [Param],
    pub presets: Vec<&'static Preset>,
}

/// All controllers with their options.
pub fn listing() -> Vec<ControllerInfo> {
    CONTROLLERS
        .iter()
        .map(|c| ControllerInfo {
            name: c.name,
            summary: c.summary,
            ecn: match c.ecn() {
                EcnWish::NotEct => "off",
                EcnWish::Ect0Classic | EcnWish::Ect0Runs => "classic",
                EcnWish::Ect0Sce => "sce",
                EcnWish::Ect1AccEcn => "accecn",
            },
            parameters: c.parameters,
            presets: c.presets().collect(),
        })
        .collect()
}
