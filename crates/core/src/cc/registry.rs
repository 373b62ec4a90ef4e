//! The controllers, by the names that `net.ipv4.tcp_available_congestion_control` lists. To add one:
//! write its file, add its line to [`controllers!`].

use std::ops::{Deref, DerefMut};

use serde::Serialize;

use super::{
    Ack, CongestionControl, Controller, EcnWish, Pace, Role, Signals, Window, bbr, bbr3, cubic,
    cubic_sce, dctcp, dctcp_sce, own, prague, reno, reno_sce,
};
use crate::params::{self, Described, Gauge, Info, Refused};
use crate::prefetch;
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
    /// See [`Controller`].
    pub role: Role,
    pub look: u8,
    pub needs_ecn: bool,
    pub out_of_tree: bool,
    pub scalable_with: &'static [(&'static str, &'static str)],
    pub states: &'static [&'static str],
}

/// Knows the content of an ACK. It is built for each controller separately, so that it looks up only what
/// this controller uses.
pub trait AckInfo {
    fn ack(&self, w: &Window) -> Ack;
}

#[inline(always)]
fn tell<C: CongestionControl + ?Sized>(cc: &mut C, info: &impl AckInfo, w: &mut Window) -> Pace {
    cc.on_ack(&info.ack(w), w);
    cc.pace()
}

/// Finds a controller and reads its options.
///
/// # Errors
/// One sentence that names the controller, the option, the value and the fix.
pub fn parse(name: &str, options: &[(&str, &str)]) -> Result<ControllerConfig, Refused> {
    if let Some(own) = own::OwnController::parse(name, options) {
        return own.map(ControllerConfig::Own);
    }
    parse_named(name, options).unwrap_or_else(|| {
        let names = listing().into_iter().map(|entry| entry.info.name);
        let hint = params::hint(name, names, "the controllers are");
        Err(Refused::UnknownName { what: "congestion control", name: name.to_owned(), hint })
    })
}

/// Defines the enum of configurations and the functions over all of them.
macro_rules! controllers {
    ($($variant:ident($options:ty)),* $(,)?) => {
        /// The options of any controller.
        #[derive(Clone, PartialEq, Debug)]
        pub enum ControllerConfig {
            $($variant($options),)*
            Own(own::OwnController),
        }

        impl ControllerConfig {
            /// Name and value of every option.
            pub fn canonical(&self) -> Vec<(&'static str, String)> {
                match self {
                    $(ControllerConfig::$variant(options) => params::write_options(options),)*
                    ControllerConfig::Own(own) => own.canonical(),
                }
            }

            pub fn build(&self, rng: Rng) -> Cc {
                match self {
                    $(ControllerConfig::$variant(options) => Cc::$variant(options.build(rng)),)*
                    ControllerConfig::Own(own) => Cc::Other(own.build(rng)),
                }
            }

            /// Its states, see [`Controller::STATES`].
            pub fn states(&self) -> &'static [&'static str] {
                match self {
                    $(ControllerConfig::$variant(_) => <$options>::STATES,)*
                    ControllerConfig::Own(_) => &[],
                }
            }

            /// The columns of the time series that it adds.
            pub fn gauges(&self) -> Vec<Gauge> {
                match self {
                    $(ControllerConfig::$variant(options) => options.gauges(),)*
                    ControllerConfig::Own(own) => own.gauges(),
                }
            }
        }

        /// A controller at work. The compiler knows those of this list, and puts what happens per packet into
        /// the sender: the methods of [`Cc`] itself. All others go through [`CongestionControl`].
        pub enum Cc {
            $($variant(<$options as Controller>::Made),)*
            Other(Box<dyn CongestionControl>),
        }

        impl Cc {
            /// Tells the controller of an ACK; returns how it paces from there on.
            #[inline(always)]
            pub fn answer(&mut self, info: &impl AckInfo, w: &mut Window) -> Pace {
                match self {
                    $(Cc::$variant(c) => tell(c, info, w),)*
                    Cc::Other(c) => tell(&mut **c, info, w),
                }
            }
        }

        impl Cc {
            /// Burst and rate, as [`CongestionControl::pace`].
            #[inline(always)]
            pub fn pace(&self) -> Pace {
                match self {
                    $(Cc::$variant(c) => c.pace(),)*
                    Cc::Other(c) => c.pace(),
                }
            }
            /// Fetches it into the cache.
            pub fn fetch(&self) {
                match self {
                    $(Cc::$variant(c) => prefetch::lines(c),)*
                    Cc::Other(_) => {}
                }
            }
            /// As [`CongestionControl::signals`].
            #[inline(always)]
            pub fn signals(&mut self) -> Option<&mut dyn Signals> {
                match self {
                    $(Cc::$variant(c) => c.signals(),)*
                    Cc::Other(c) => c.signals(),
                }
            }
        }

        impl Deref for Cc {
            type Target = dyn CongestionControl;
            fn deref(&self) -> &Self::Target {
                match self {
                    $(Cc::$variant(c) => c,)*
                    Cc::Other(c) => &**c,
                }
            }
        }

        impl DerefMut for Cc {
            fn deref_mut(&mut self) -> &mut Self::Target {
                match self {
                    $(Cc::$variant(c) => c,)*
                    Cc::Other(c) => &mut **c,
                }
            }
        }

        /// All controllers with their options.
        pub fn listing() -> Vec<ControllerInfo> {
            vec![$(ControllerInfo {
                info: Info::of::<$options>(),
                ecn: match <$options>::default().build(Rng::stream(0, "listing", 0)).constants().ecn {
                    EcnWish::NotEct => "off",
                    EcnWish::Ect0Classic | EcnWish::Ect0Runs => "classic",
                    EcnWish::Ect0Sce => "sce",
                    EcnWish::Ect1AccEcn => "accecn",
                },
                role: <$options>::ROLE,
                look: <$options>::LOOK,
                needs_ecn: <$options>::NEEDS_ECN,
                out_of_tree: <$options>::OUT_OF_TREE,
                scalable_with: <$options>::SCALABLE_WITH,
                states: <$options>::STATES,
            }),*]
        }

        /// See [`Controller::GIVES_WAY`].
        pub fn gives_way(name: &str) -> bool {
            $((name == <$options>::NAME && <$options>::GIVES_WAY))||*
        }

        params::by_name! { options ControllerConfig: $($variant($options)),* }
    };
}
use controllers;
