//! The controllers, by the names that `net.ipv4.tcp_available_congestion_control` lists. To add one:
//! write its file, add its line to [`controllers!`].

use serde::Serialize;

use super::{
    Ack, Congestion, CongestionControl, Controller, EcnWish, Feedback, LostSegment, Role, Window,
    bbr, bbr3, cubic, cubic_sce, dctcp, dctcp_sce, own, prague, reno, reno_sce,
};
use crate::params::{self, Described, Gauge, Info, Refused};
use crate::probe::Gauges;
use crate::rng::Rng;
use crate::time::Time;

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
}

/// Knows what an ACK told. It is put together for each controller apart, so that what this one does not
/// ask for is not looked up.
pub trait AckInfo {
    fn ack(&self, w: &Window) -> Ack;
}

/// What a controller has to say after an ACK.
pub struct Answer {
    pub holds_back: bool,
    pub pacing_rate: Option<u64>,
}

impl Answer {
    #[inline(always)]
    fn to<C: CongestionControl + ?Sized>(
        cc: &mut C,
        info: &impl AckInfo,
        w: &mut Window,
    ) -> Answer {
        cc.on_ack(&info.ack(w), w);
        Answer { holds_back: cc.holds_back(), pacing_rate: cc.pacing_rate() }
    }
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

/// Makes the enum of configurations and what goes through all of them.
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

            pub fn build(&self) -> Cc {
                match self {
                    $(ControllerConfig::$variant(options) => Cc::$variant(options.build()),)*
                    ControllerConfig::Own(own) => Cc::Other(own.build()),
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

        /// A controller at work: those of this list are known to the compiler, which puts what they do
        /// into the sender.
        pub enum Cc {
            $($variant(<$options as Controller>::Made),)*
            Other(Box<dyn CongestionControl>),
        }

        impl Cc {
            /// Tells the controller of an ACK.
            #[inline(always)]
            pub fn answer(&mut self, info: &impl AckInfo, w: &mut Window) -> Answer {
                match self {
                    $(Cc::$variant(c) => Answer::to(c, info, w),)*
                    Cc::Other(c) => Answer::to(&mut **c, info, w),
                }
            }
        }

        impl CongestionControl for Cc {
            #[inline(always)]
            fn on_feedback(&mut self, feedback: &Feedback) {
                match self {
                    $(Cc::$variant(c) => c.on_feedback(feedback),)*
                    Cc::Other(c) => c.on_feedback(feedback),
                }
            }
            #[inline(always)]
            fn on_ack(&mut self, ack: &Ack, w: &mut Window) {
                match self {
                    $(Cc::$variant(c) => c.on_ack(ack, w),)*
                    Cc::Other(c) => c.on_ack(ack, w),
                }
            }
            fn on_congestion(&mut self, why: Congestion, at: Time, w: &mut Window) {
                match self {
                    $(Cc::$variant(c) => c.on_congestion(why, at, w),)*
                    Cc::Other(c) => c.on_congestion(why, at, w),
                }
            }
            fn on_lost(&mut self, lost: &LostSegment, at: Time, w: &Window) {
                match self {
                    $(Cc::$variant(c) => c.on_lost(lost, at, w),)*
                    Cc::Other(c) => c.on_lost(lost, at, w),
                }
            }
            fn on_timeout(&mut self, lost_total: u64, w: &Window) {
                match self {
                    $(Cc::$variant(c) => c.on_timeout(lost_total, w),)*
                    Cc::Other(c) => c.on_timeout(lost_total, w),
                }
            }
            fn on_recovered(&mut self, w: &mut Window) {
                match self {
                    $(Cc::$variant(c) => c.on_recovered(w),)*
                    Cc::Other(c) => c.on_recovered(w),
                }
            }
            fn on_undo(&mut self, prior_cwnd: u32, w: &mut Window) {
                match self {
                    $(Cc::$variant(c) => c.on_undo(prior_cwnd, w),)*
                    Cc::Other(c) => c.on_undo(prior_cwnd, w),
                }
            }
            #[inline(always)]
            fn governs_window(&self) -> bool {
                match self {
                    $(Cc::$variant(c) => c.governs_window(),)*
                    Cc::Other(c) => c.governs_window(),
                }
            }
            fn answers_loss_while_reducing(&self) -> bool {
                match self {
                    $(Cc::$variant(c) => c.answers_loss_while_reducing(),)*
                    Cc::Other(c) => c.answers_loss_while_reducing(),
                }
            }
            #[inline(always)]
            fn pacing_rate(&self) -> Option<u64> {
                match self {
                    $(Cc::$variant(c) => c.pacing_rate(),)*
                    Cc::Other(c) => c.pacing_rate(),
                }
            }
            #[inline(always)]
            fn burst(&self) -> Option<u32> {
                match self {
                    $(Cc::$variant(c) => c.burst(),)*
                    Cc::Other(c) => c.burst(),
                }
            }
            #[inline(always)]
            fn min_burst(&self) -> u32 {
                match self {
                    $(Cc::$variant(c) => c.min_burst(),)*
                    Cc::Other(c) => c.min_burst(),
                }
            }
            #[inline(always)]
            fn holds_back(&self) -> bool {
                match self {
                    $(Cc::$variant(c) => c.holds_back(),)*
                    Cc::Other(c) => c.holds_back(),
                }
            }
            fn judges_flights(&self) -> bool {
                match self {
                    $(Cc::$variant(c) => c.judges_flights(),)*
                    Cc::Other(c) => c.judges_flights(),
                }
            }
            fn seed(&mut self, rng: Rng) {
                match self {
                    $(Cc::$variant(c) => c.seed(rng),)*
                    Cc::Other(c) => c.seed(rng),
                }
            }
            #[inline(always)]
            fn ecn(&self) -> EcnWish {
                match self {
                    $(Cc::$variant(c) => c.ecn(),)*
                    Cc::Other(c) => c.ecn(),
                }
            }
            fn on_established(&mut self, granted: bool, ack: &Ack, w: &mut Window) -> Option<Box<dyn CongestionControl>> {
                match self {
                    $(Cc::$variant(c) => c.on_established(granted, ack, w),)*
                    Cc::Other(c) => c.on_established(granted, ack, w),
                }
            }
            fn probe(&self, out: &mut dyn Gauges) {
                match self {
                    $(Cc::$variant(c) => c.probe(out),)*
                    Cc::Other(c) => c.probe(out),
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
                role: <$options>::ROLE,
                look: <$options>::LOOK,
                needs_ecn: <$options>::NEEDS_ECN,
                out_of_tree: <$options>::OUT_OF_TREE,
                scalable_with: <$options>::SCALABLE_WITH,
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
