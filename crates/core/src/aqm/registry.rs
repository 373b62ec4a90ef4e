//! All queue disciplines by name. To add one: write its file, add its line to [`qdiscs!`].

use serde::Serialize;

use super::{
    Aqm, Pkt, cake, cnq, codel, curvy_red, deltic, docsis, dualpi2, dualpi2_rfc9332, fifo, fq,
    fq_codel, fq_pie, lfq_cobalt, netem, pi2, pie, red, tbf, twin_codel_af,
};
use crate::tc::{self, Args, Param, TcError};
use crate::time::Time;
use crate::units::Rate;

qdiscs! {
    Pfifo(fifo::Pfifo),
    Bfifo(fifo::Bfifo),
    PfifoHeadDrop(fifo::PfifoHeadDrop),
    Red(red::RedConfig),
    Codel(codel::CodelConfig),
    FqCodel(fq_codel::FqCodelConfig),
    Fq(fq::FqConfig),
    DualPi2(dualpi2::DualPi2Config),
    Docsis(docsis::DocsisConfig),
    Cake(cake::CakeConfig),
    CnqCobalt(cnq::CnqCobalt),
    CnqCodelAf(cnq::CnqCodelAf),
    LfqCobalt(lfq_cobalt::LfqCobaltConfig),
    TwinCodelAf(twin_codel_af::TwinCodelAfConfig),
    Deltic(deltic::DelticConfig),
    DualPi2Rfc9332(dualpi2_rfc9332::DualPi2Rfc9332),
    CurvyRed(curvy_red::CurvyRed),
    Pi2(pi2::Pi2Config),
    Pie(pie::PieConfig),
    FqPie(fq_pie::FqPieConfig),
    Netem(netem::NetemConfig),
    Tbf(tbf::TbfConfig),
}

/// What the file of a queue provides: its parameters, and how to make the queue from them.
pub trait Qdisc: Sized + Clone + PartialEq + std::fmt::Debug {
    /// As `tc` calls it.
    const NAME: &'static str;
    const SUMMARY: &'static str;
    const PARAMS: &'static [Param];
    /// An example of the words without which `tc` refuses the qdisc.
    const REQUIRED: &'static str = "";
    /// Reads the words after the name; refuses what `tc` or the kernel would refuse.
    fn parse(args: &mut Args) -> Result<Self, TcError>;
    /// Every parameter with its value, so that equal queues print alike; `parse` reads it back.
    fn canonical(&self) -> String;
    fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>>;
}

/// Where a queue is put: some derive parameters from the rate, and timers start at `now`.
#[derive(Copy, Clone, Debug)]
pub struct LinkInfo {
    pub rate: Rate,
    pub now: Time,
}

/// A line of `l4slab list qdiscs`.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
pub struct QdiscInfo {
    pub name: &'static str,
    pub summary: &'static str,
    pub parameters: &'static [Param],
    /// An example of the words that must not be missing.
    pub required: &'static str,
}

/// Reads what one would give to `tc qdisc replace … root`.
///
/// # Errors
/// One sentence that names the qdisc, the keyword, the value and the fix.
pub fn parse(text: &str) -> Result<QdiscConfig, TcError> {
    let mut words = text.split_whitespace();
    let name = words.next().ok_or(TcError::Empty)?;
    parse_named(name, words).unwrap_or_else(|| {
        let names = listing().into_iter().map(|info| info.name);
        Err(TcError::UnknownQdisc {
            name: name.to_owned(),
            hint: tc::hint(name, names, "the qdiscs are"),
        })
    })
}

/// Makes the enum of configurations and the three functions that go through all of them.
macro_rules! qdiscs {
    ($($variant:ident($config:ty)),* $(,)?) => {
        /// The parameters of any queue.
        #[derive(Clone, PartialEq, Debug)]
        pub enum QdiscConfig {
            $($variant($config)),*
        }

        impl QdiscConfig {
            /// The name and every parameter with its value; [`parse`] reads it back.
            pub fn canonical(&self) -> String {
                match self {
                    $(QdiscConfig::$variant(config) => {
                        format!("{} {}", <$config as Qdisc>::NAME, config.canonical())
                    })*
                }
            }

            pub fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
                match self {
                    $(QdiscConfig::$variant(config) => config.build(link)),*
                }
            }
        }

        /// All qdiscs with their parameters.
        pub fn listing() -> Vec<QdiscInfo> {
            vec![$(QdiscInfo {
                name: <$config as Qdisc>::NAME,
                summary: <$config as Qdisc>::SUMMARY,
                parameters: <$config as Qdisc>::PARAMS,
                required: <$config as Qdisc>::REQUIRED,
            }),*]
        }

        fn parse_named(
            name: &str,
            words: std::str::SplitWhitespace<'_>,
        ) -> Option<Result<QdiscConfig, TcError>> {
            $(if name == <$config as Qdisc>::NAME {
                let params = <$config as Qdisc>::PARAMS;
                let mut args = Args::new(<$config as Qdisc>::NAME, params, words);
                return Some(<$config as Qdisc>::parse(&mut args).map(QdiscConfig::$variant));
            })*
            None
        }
    };
}
use qdiscs;
