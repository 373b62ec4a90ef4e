//! All queue disciplines by name. To add one: write its file, add its line to [`qdiscs!`].

use std::any::Any;

use serde::{Deserialize, Serialize, Serializer};

use super::{
    Aqm, LinkInfo, Marking, Overflow, Pkt, Qdisc, Room, Separation, cake, choke, cnq, codel,
    curvy_red, deltic, docsis, dualpi2, dualpi2_rfc9332, fifo, fq, fq_codel, fq_pie, hhf,
    lfq_cobalt, netem, own, pfifo_fast, pi2, pie, printed, red, sfb, sfq, tbf, twin_codel_af,
};
use crate::params::{self, Changed, Described, Gauge, Info, Refused};
use crate::rng::Rng;

qdiscs! {
    Pfifo(fifo::Pfifo),
    Bfifo(fifo::Bfifo),
    PfifoHeadDrop(fifo::PfifoHeadDrop),
    PfifoFast(pfifo_fast::PfifoFastConfig),
    Red(red::RedConfig),
    Choke(choke::ChokeConfig),
    Sfb(sfb::SfbConfig),
    Hhf(hhf::HhfConfig),
    Codel(codel::CodelConfig),
    FqCodel(fq_codel::FqCodelConfig),
    Fq(fq::FqConfig),
    Sfq(sfq::SfqConfig),
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

/// An entry of `l4slab list qdiscs`. See [`Qdisc`].
#[derive(Clone, Debug, Serialize)]
pub struct QdiscInfo {
    #[serde(flatten)]
    pub info: Info,
    pub separation: Separation,
    pub separation_with: &'static [(&'static str, Separation)],
    pub marking: Marking,
    pub overflow: Overflow,
    pub is_fifo: bool,
    pub drops_waiting: bool,
    pub limits_packets: bool,
}

/// A queue as a structure: what [`QdiscConfig::canonical`] prints.
#[derive(Clone, Debug, Serialize)]
pub struct QdiscFacts {
    pub name: String,
    /// Every parameter by its keyword, with the words after it, in the order of the canonical form.
    #[serde(serialize_with = "as_map")]
    pub parameters: Vec<(String, String)>,
    /// None of a queue of the user's own.
    pub separation: Option<Separation>,
    pub marks: Option<bool>,
    /// It cuts packets of several segments when they come.
    pub splits: bool,
}

fn as_map<S: Serializer>(pairs: &[(String, String)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

/// Reads the arguments of `tc qdisc replace … root`, or a line of `tc qdisc show`.
///
/// # Errors
/// One sentence that names the qdisc, the keyword, the value and the fix.
pub fn parse(text: &str) -> Result<QdiscConfig, Refused> {
    let mut words = text.split_whitespace();
    let name = words.next().ok_or(Refused::Empty)?;
    if let Some(own) = own::OwnQdisc::parse(name, words) {
        return own.map(QdiscConfig::Own);
    }
    let text = printed::as_read(text);
    let mut words = text.split_whitespace();
    let name = words.next().ok_or(Refused::Empty)?;
    parse_named(name, words).unwrap_or_else(|| {
        let names = listing().into_iter().map(|entry| entry.info.name);
        let hint = params::hint(name, names, "the qdiscs are");
        Err(Refused::UnknownName { what: "qdisc", name: name.to_owned(), hint })
    })
}

impl QdiscConfig {
    /// Its name, its parameters and what it does with them.
    pub fn facts(&self) -> QdiscFacts {
        let canonical = self.canonical();
        let entry = listing().into_iter().find(|entry| entry.info.name == self.name());
        let is_keyword = |word: &str| match &entry {
            Some(entry) => entry.info.parameters.iter().any(|parameter| parameter.keyword == word),
            None => true,
        };
        let mut parameters: Vec<(String, String)> = Vec::new();
        for word in canonical.split_whitespace().skip(1) {
            match parameters.last_mut() {
                Some((_, words)) if !is_keyword(word) => {
                    *words = format!("{words} {word}").trim_start().to_owned();
                }
                _ => parameters.push((word.to_owned(), String::new())),
            }
        }
        let has = |words: &str| format!("{canonical} ").contains(&format!(" {words} "));
        let separation = entry.as_ref().map(|entry| {
            let with = entry.separation_with.iter().find(|(words, _)| has(words));
            with.map_or(entry.separation, |&(_, separation)| separation)
        });
        let marks = entry.as_ref().map(|entry| match entry.marking {
            Marking::Never => false,
            Marking::Always => true,
            Marking::With(keywords) => keywords.iter().any(|keyword| has(keyword)),
        });
        let splits = self.splits();
        QdiscFacts { name: self.name().to_owned(), parameters, separation, marks, splits }
    }

    /// Changes the current queue by these words. With the same name, parameters that they do not name stay
    /// (`tc qdisc change`). With another name, they give all parameters (`tc qdisc replace`). Also returns the words
    /// of the change for the engines.
    ///
    /// # Errors
    /// One sentence that names the qdisc, the keyword, the value and the fix.
    pub fn changed(&self, text: &str) -> Result<Changed<QdiscConfig>, Refused> {
        let text = &*printed::as_read(text);
        let words = text.split_whitespace();
        let same = words.clone().next() == Some(self.name());
        let found = same.then(|| self.changed_by(words.skip(1))).transpose()?;
        Ok(match found {
            Some(Changed { config, words }) => {
                let words = format!("{} {words}", self.name()).trim_end().to_owned();
                Changed { config, words }
            }
            None => {
                let config = parse(text)?;
                Changed { words: config.canonical(), config }
            }
        })
    }
}

impl TryFrom<String> for QdiscConfig {
    type Error = Refused;
    fn try_from(text: String) -> Result<QdiscConfig, Refused> {
        parse(&text)
    }
}

/// Defines the enum of configurations and the functions over all of them.
macro_rules! qdiscs {
    ($($variant:ident($config:ty)),* $(,)?) => {
        /// The parameters of any queue.
        #[derive(Clone, PartialEq, Debug, Deserialize)]
        #[serde(try_from = "String")]
        pub enum QdiscConfig {
            $($variant($config),)*
            Own(own::OwnQdisc),
        }

        impl QdiscConfig {
            /// The name and every parameter with its value; [`parse`] reads it back.
            pub fn canonical(&self) -> String {
                match self {
                    $(QdiscConfig::$variant(config) => {
                        let words = params::write_words(config);
                        format!("{} {words}", <$config>::NAME).trim_end().to_owned()
                    })*
                    QdiscConfig::Own(own) => own.canonical(),
                }
            }

            pub fn name(&self) -> &str {
                match self {
                    $(QdiscConfig::$variant(_) => <$config>::NAME,)*
                    QdiscConfig::Own(own) => own.name(),
                }
            }

            fn changed_by<'a>(
                &self,
                words: impl Iterator<Item = &'a str> + Clone,
            ) -> Result<Changed<QdiscConfig>, Refused> {
                match self {
                    $(QdiscConfig::$variant(config) => {
                        let Changed { config, words } = params::change_words(config, words)?;
                        Ok(Changed { config: QdiscConfig::$variant(config), words })
                    })*
                    QdiscConfig::Own(own) => {
                        let Changed { config, words } = own.changed(words)?;
                        Ok(Changed { config: QdiscConfig::Own(config), words })
                    }
                }
            }

            pub fn build<P: Pkt + Send + 'static>(&self, link: LinkInfo) -> Box<dyn Aqm<P>> {
                match self {
                    $(QdiscConfig::$variant(config) => config.build(link),)*
                    QdiscConfig::Own(own) => own.build(link),
                }
            }

            pub fn room(&self, link: LinkInfo) -> Room {
                match self {
                    $(QdiscConfig::$variant(config) => config.room(link),)*
                    QdiscConfig::Own(_) => Room::ENDLESS,
                }
            }

            /// It cuts packets of several segments when they come.
            pub fn splits(&self) -> bool {
                match self {
                    $(QdiscConfig::$variant(config) => config.splits(),)*
                    QdiscConfig::Own(_) => false,
                }
            }

            /// The parameters themselves, for [`Aqm::change`].
            pub fn parameters(&self) -> &dyn Any {
                match self {
                    $(QdiscConfig::$variant(config) => config,)*
                    QdiscConfig::Own(own) => own,
                }
            }

            /// The columns of the time series that it adds.
            pub fn gauges(&self) -> Vec<Gauge> {
                match self {
                    $(QdiscConfig::$variant(config) => config.gauges(),)*
                    QdiscConfig::Own(own) => own.gauges(),
                }
            }
        }

        /// All qdiscs with their parameters.
        pub fn listing() -> Vec<QdiscInfo> {
            vec![$(QdiscInfo {
                info: Info::of::<$config>(),
                separation: <$config>::SEPARATION,
                separation_with: <$config>::SEPARATION_WITH,
                marking: <$config>::MARKING,
                overflow: <$config>::OVERFLOW,
                is_fifo: <$config>::IS_FIFO,
                drops_waiting: <$config>::DROPS_WAITING,
                limits_packets: <$config>::LIMITS_PACKETS,
            }),*]
        }

        params::by_name! { words QdiscConfig: $($variant($config)),* }
    };
}
use qdiscs;
