//! The media controllers by name. To add one: write its file, add its line to [`media_controllers!`].

use serde::Serialize;

use super::{
    EncoderModel, MediaController, MediaOptions, Rates, Repair, Reports, fixed, gcc, nada, own,
    prague, scream,
};
use crate::cc::Role;
use crate::ecn::Ecn;
use crate::params::{self, Described, Gauge, Info, Refused};
use crate::rng::Rng;
use crate::time::Span;

media_controllers! {
    None(fixed::Options),
    Scream(scream::Options),
    Gcc(gcc::Options),
    Nada(nada::Options),
    Prague(prague::Options),
}

/// An entry of `l4slab list controllers`.
#[derive(Clone, Debug, Serialize)]
pub struct MediaInfo {
    #[serde(flatten)]
    pub info: Info,
    /// What its packets carry where the flow does not say.
    pub ecn: Ecn,
    /// What it is to other traffic, and its place among those of its role.
    pub role: Option<Role>,
    pub look: u8,
}

/// Finds a media controller and reads its options.
///
/// # Errors
/// One sentence that names the controller, the option, the value and the fix.
pub fn parse(name: &str, options: &[(&str, &str)]) -> Result<MediaConfig, Refused> {
    if let Some(own) = own::OwnMedia::parse(name, options) {
        return own.map(MediaConfig::Own);
    }
    parse_named(name, options).unwrap_or_else(|| {
        let names = listing().into_iter().map(|entry| entry.info.name);
        let hint = params::hint(name, names, "the media controllers are");
        Err(Refused::UnknownName { what: "media controller", name: name.to_owned(), hint })
    })
}

/// Makes the enum of configurations and what goes through all of them.
macro_rules! media_controllers {
    ($($variant:ident($options:ty)),* $(,)?) => {
        /// The options of any media controller.
        #[derive(Clone, PartialEq, Debug)]
        pub enum MediaConfig {
            $($variant($options),)*
            Own(own::OwnMedia),
        }

        impl MediaConfig {
            pub fn name(&self) -> &'static str {
                match self {
                    $(MediaConfig::$variant(_) => <$options>::NAME,)*
                    MediaConfig::Own(own) => own.name(),
                }
            }
            /// Name and value of every option.
            pub fn canonical(&self) -> Vec<(&'static str, String)> {
                match self {
                    $(MediaConfig::$variant(options) => params::write_options(options),)*
                    MediaConfig::Own(own) => own.canonical(),
                }
            }
            pub fn build(&self, rates: Rates, ecn: Ecn, rng: Rng) -> Box<dyn MediaController> {
                match self {
                    $(MediaConfig::$variant(options) => options.build(rates, ecn),)*
                    MediaConfig::Own(own) => own.build(rates, rng),
                }
            }
            /// The columns of the time series that it adds.
            pub fn gauges(&self) -> Vec<Gauge> {
                match self {
                    $(MediaConfig::$variant(options) => options.gauges(),)*
                    MediaConfig::Own(own) => own.gauges(),
                }
            }
            pub fn ecn(&self) -> Ecn {
                match self {
                    $(MediaConfig::$variant(_) => <$options>::ECN,)*
                    MediaConfig::Own(own) => own.wishes().ecn,
                }
            }
            pub fn reports(&self) -> Reports {
                match self {
                    $(MediaConfig::$variant(options) => options.reports(),)*
                    MediaConfig::Own(own) => own.wishes().reports,
                }
            }
            pub fn lost_after(&self) -> Option<u32> {
                match self {
                    $(MediaConfig::$variant(options) => options.lost_after(),)*
                    MediaConfig::Own(_) => None,
                }
            }
            pub fn repair(&self) -> Repair {
                match self {
                    $(MediaConfig::$variant(options) => options.repair(),)*
                    MediaConfig::Own(_) => Repair::None,
                }
            }
            pub fn encoder(&self) -> EncoderModel {
                match self {
                    $(MediaConfig::$variant(options) => options.encoder(),)*
                    MediaConfig::Own(_) => EncoderModel::Even,
                }
            }
            pub fn setup(&self, rtt: Span) -> Span {
                match self {
                    $(MediaConfig::$variant(options) => options.setup(rtt),)*
                    MediaConfig::Own(_) => Span::ZERO,
                }
            }
        }

        /// All media controllers with their options.
        pub fn listing() -> Vec<MediaInfo> {
            vec![$(MediaInfo {
                info: Info::of::<$options>(),
                ecn: <$options>::ECN,
                role: <$options>::ROLE,
                look: <$options>::LOOK,
            }),*]
        }

        params::by_name! { options MediaConfig: $($variant($options)),* }
    };
}
use media_controllers;
