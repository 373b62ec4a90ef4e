//! The controllers, by the names that `net.ipv4.tcp_available_congestion_control` lists. To add one:
//! write its file, add its line to [`controllers!`].

use serde::Serialize;

use super::{
    CongestionControl, Controller, EcnWish, bbr, bbr3, cubic, cubic_sce, dctcp, dctcp_sce, prague,
    reno, reno_sce,
};
use crate::params::{self, Described, Gauge, Info, Refused};
use crate::rng::Rng;

controllers! {
    Bbr(bbr::Options),
    Bbr3(bbr3::Options),
    Reno(reno::Options),
    Cubic(cubic::Options),
    Dctcp(dctcp::Options),
    Prague(prague::Options),
    RenoSce(reno_sce::Options),
    CubicSce(cubic_sce::Options),
    DctcpSce(dctcp_sce::Options),
}

/// An entry of `l4slab list controllers`.
#[derive(Clone, Debug, Serialize)]
pub struct ControllerInfo {
    #[serde(flatten)]
    pub info: Info,
    /// What it asks for with default options.
    pub ecn: &'static str,
}

/// Finds a controller and reads its options.
///
/// # Errors
/// One sentence that names the controller, the option, the value and the fix.
pub fn parse(name: &str, options: &[(&str, &str)]) -> Result<ControllerConfig, Refused> {
    parse_named(name, options).unwrap_or_else(|| {
        let names = listing().into_iter().map(|entry| entry.info.name);
        let hint = params::hint(name, names, "the controllers are");
        Err(Refused::UnknownName { what: "congestion control", name: name.to_owned(), hint })
    })
}

/// Makes the enum of configurations and what goes through all of them.
macro_rules! controllers {
    ($($variant:ident($options:ty)),* $(,)?) => {
        /// The options of any controller.
        #[derive(Clone, PartialEq, Debug)]
        pub enum ControllerConfig {
            $($variant($options)),*
        }

        impl ControllerConfig {
            /// Name and value of every option.
            pub fn canonical(&self) -> Vec<(&'static str, String)> {
                match self {
                    $(ControllerConfig::$variant(options) => params::write_options(options)),*
                }
            }

            pub fn build(&self) -> Box<dyn CongestionControl> {
                match self {
                    $(ControllerConfig::$variant(options) => options.build()),*
                }
            }

            /// The columns of the time series that it adds.
            pub fn gauges(&self) -> Vec<Gauge> {
                match self {
                    $(ControllerConfig::$variant(options) => options.gauges()),*
                }
            }
        }

        /// All controllers with their options.
        pub fn listing() -> Vec<ControllerInfo> {
            vec![$(ControllerInfo {
                info: Info::of::<$options>(),
                ecn: match <$options>::default().build().ecn() {
                    EcnWish::NotEct => "off",
                    EcnWish::Ect0Classic | EcnWish::Ect0Runs => "classic",
                    EcnWish::Ect0Sce => "sce",
                    EcnWish::Ect1AccEcn => "accecn",
                },
            }),*]
        }

        /// For each option of a controller: words with a random value of it, and words that are refused.
        pub fn samples(name: &str, rng: &mut Rng) -> Vec<(String, Vec<String>)> {
            $(if name == <$options>::NAME {
                return params::samples::<$options>(rng);
            })*
            Vec::new()
        }

        fn parse_named(
            name: &str,
            options: &[(&str, &str)],
        ) -> Option<Result<ControllerConfig, Refused>> {
            $(if name == <$options>::NAME {
                return Some(params::read_options(options).map(ControllerConfig::$variant));
            })*
            None
        }
    };
}
use controllers;
