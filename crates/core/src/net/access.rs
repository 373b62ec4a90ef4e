//! All media by name. To add one: write its file, add its line to [`media!`].

pub mod docsis;
pub mod leo;
pub mod nr;
pub mod process;
pub mod wifi;

use std::any::Any;

use serde::Serialize;

use super::air::Way;
use super::medium::Medium;
use super::parts::Parts;
use crate::net::link;
use crate::params::{self, Described, Gauge, Info, Refused};
use crate::rng::Rng;
use crate::units::Rate;

/// Stations of one medium.
pub const MOST_STATIONS: usize = 1000;

media! {
    Leo(leo::LeoConfig),
    Wifi(wifi::WifiConfig),
    Docsis(docsis::DocsisConfig),
    Nr(nr::NrConfig),
}

/// Words of a medium that may stand in place of its name.
const ALSO: [(&str, &str); 1] = [("lte", "nr")];

/// A medium as it is listed, parsed and built.
pub trait MediumKind: Described {
    /// It has stations, which may differ from each other in these words.
    const OF_STATIONS: &'static [&'static str] = &[];

    /// The link rate that queues assume, towards the users and from them.
    fn rates(&self) -> [Rate; 2];
    /// The parts of a queue that it serves apart.
    fn parts(&self, _way: Way, _users: &Subscribers) -> Parts {
        Parts::default()
    }
    fn build(&self, place: &Place, users: &Subscribers) -> Box<dyn Medium>;
}

/// Names the random streams of a medium.
#[derive(Copy, Clone, Debug)]
pub struct Place {
    pub seed: u64,
    pub number: u64,
}

impl Place {
    /// A stream for each purpose and contender, so that one more does not change another's draws.
    pub fn stream(&self, name: &str, index: u64) -> Rng {
        Rng::stream(self.seed, name, self.number << 32 | index)
    }
}

/// Who shares a medium.
#[derive(Clone, Debug, Default)]
pub struct Subscribers {
    /// The station of each flow group.
    pub of_group: Vec<u16>,
    /// The medium's parameters as they are for each station.
    pub stations: Vec<MediumConfig>,
    /// Their names: of a flow without a station, its own.
    pub names: Vec<String>,
}

/// A medium as it is after a change.
#[derive(Clone, Debug)]
pub struct ChangedMedium {
    pub config: MediumConfig,
    /// The parameters as they are for each station.
    pub stations: Vec<MediumConfig>,
}

/// An entry of `l4slab list media`.
#[derive(Clone, Debug, Serialize)]
pub struct MediumInfo {
    #[serde(flatten)]
    pub info: Info,
    /// The words in which stations may differ.
    pub of_stations: &'static [&'static str],
    /// Of each parameter that can change while the medium runs, the keywords.
    pub changeable: Vec<Vec<&'static str>>,
}

/// Reads the words of a medium.
///
/// # Errors
/// One sentence that names the medium, the keyword, the value and the fix.
pub fn parse(text: &str) -> Result<MediumConfig, Refused> {
    let mut words = text.split_whitespace();
    let (name, word) = name_of(words.next().unwrap_or_default());
    let config = parse_named(name, word.into_iter().chain(words)).unwrap_or_else(|| {
        let names = listing().into_iter().map(|entry| entry.info.name);
        let hint = params::hint(name, names, "the media are");
        Err(Refused::UnknownName { what: "medium", name: name.to_owned(), hint })
    })?;
    refuse_bytes(config.name(), text)?;
    Ok(config)
}

/// No `tc` reads these words, to which `mbps` is a million bytes per second. Elsewhere it is a million bits.
fn refuse_bytes(owner: &'static str, words: &str) -> Result<(), Refused> {
    let words: Vec<_> = words.split_whitespace().collect();
    let is_bytes =
        |word: &str| word.starts_with(|c: char| c.is_ascii_digit()) && word.ends_with("bps");
    match words.windows(2).find(|pair| is_bytes(&pair[1].to_lowercase())) {
        None => Ok(()),
        Some(pair) => Err(Refused::BadValue {
            owner,
            keyword: pair[0].to_owned(),
            value: pair[1].to_owned(),
            fix: format!(
                "write bits per second, such as {}",
                pair[1].to_lowercase().replace("bps", "bit")
            ),
        }),
    }
}

/// The name that a first word stands for, and a further word.
fn name_of(word: &str) -> (&str, Option<&str>) {
    let also = ALSO.into_iter().find(|(short, _)| *short == word);
    also.map_or((word, None), |(short, of)| (of, Some(short)))
}

impl MediumConfig {
    /// The medium that runs, changed by these words, which begin with its name.
    ///
    /// # Errors
    /// One sentence that names the medium, the keyword, the value and the fix.
    pub fn change(&self, text: &str) -> Result<MediumConfig, Refused> {
        let mut words = text.split_whitespace();
        let (name, word) = name_of(words.next().unwrap_or_default());
        if name != self.name() {
            let fix = format!(
                "another medium cannot come while it runs; begin with {} and write what changes",
                self.name()
            );
            let (keyword, value) = ("medium".to_owned(), name.to_owned());
            return Err(Refused::BadValue { owner: self.name(), keyword, value, fix });
        }
        refuse_bytes(self.name(), text)?;
        self.changed(&word.into_iter().chain(words).collect::<Vec<_>>().join(" "))
    }
    /// A station of it that runs, changed by these words.
    ///
    /// # Errors
    /// The same.
    pub fn change_station(&self, words: &str) -> Result<MediumConfig, Refused> {
        self.check_of_station(words)?;
        self.changed(words)
    }
    pub fn has_stations(&self) -> bool {
        !self.of_stations().is_empty()
    }
    /// The parameters of a station that differs in these words.
    ///
    /// # Errors
    /// One sentence that names the medium, the keyword, the value and the fix.
    pub fn of_station(&self, words: &str) -> Result<MediumConfig, Refused> {
        self.check_of_station(words)?;
        self.differing(words)
    }
    fn check_of_station(&self, words: &str) -> Result<(), Refused> {
        refuse_bytes(self.name(), words)?;
        let valid = self.of_stations();
        let entry = listing().into_iter().find(|entry| entry.info.name == self.name());
        let parameters = entry.map(|entry| entry.info.parameters).unwrap_or_default();
        let shared = words.split_whitespace().find(|word| {
            parameters.iter().any(|row| row.keyword == *word) && !valid.contains(word)
        });
        if let Some(keyword) = shared {
            let hint = match valid.is_empty() {
                true => "it has no stations".to_owned(),
                false => format!("a station may differ in {}", valid.join(", ")),
            };
            return Err(Refused::UnknownKeyword {
                owner: self.name(),
                what: "station keyword",
                keyword: keyword.to_owned(),
                hint,
            });
        }
        Ok(())
    }
}

/// Makes the enum of configurations and what goes through all of them.
macro_rules! media {
    ($($variant:ident($config:ty)),* $(,)?) => {
        /// The parameters of any medium.
        #[derive(Clone, PartialEq, Debug)]
        pub enum MediumConfig {
            $($variant($config),)*
        }

        impl MediumConfig {
            pub fn name(&self) -> &'static str {
                match self {
                    $(MediumConfig::$variant(_) => <$config>::NAME,)*
                }
            }
            fn of_stations(&self) -> &'static [&'static str] {
                match self {
                    $(MediumConfig::$variant(_) => <$config>::OF_STATIONS,)*
                }
            }
            /// The name and every parameter with its value; [`parse`] reads it back.
            pub fn canonical(&self) -> String {
                match self {
                    $(MediumConfig::$variant(config) => {
                        let words = params::write_words(config);
                        format!("{} {words}", <$config>::NAME).trim_end().to_owned()
                    })*
                }
            }
            fn changed(&self, words: &str) -> Result<MediumConfig, Refused> {
                match self {
                    $(MediumConfig::$variant(config) => {
                        let changed = params::change_words(config, words.split_whitespace())?;
                        Ok(MediumConfig::$variant(changed.config))
                    })*
                }
            }
            fn differing(&self, words: &str) -> Result<MediumConfig, Refused> {
                match self {
                    $(MediumConfig::$variant(config) => {
                        let differs = params::differ_words(config, words.split_whitespace())?;
                        Ok(MediumConfig::$variant(differs))
                    })*
                }
            }
            /// The parameters themselves, for [`Medium::change`].
            pub fn parameters(&self) -> &dyn Any {
                match self {
                    $(MediumConfig::$variant(config) => config,)*
                }
            }
            /// The link rate that queues assume, towards the users and from them.
            pub fn rates(&self) -> [Rate; 2] {
                match self {
                    $(MediumConfig::$variant(config) => config.rates(),)*
                }
            }
            pub fn parts(&self, way: Way, users: &Subscribers) -> Parts {
                match self {
                    $(MediumConfig::$variant(config) => config.parts(way, users),)*
                }
            }
            pub fn build(&self, place: &Place, users: &Subscribers) -> Box<dyn Medium> {
                match self {
                    $(MediumConfig::$variant(config) => config.build(place, users),)*
                }
            }
            /// The columns of the time series that it adds.
            pub fn gauges(&self) -> Vec<Gauge> {
                let own = match self {
                    $(MediumConfig::$variant(config) => config.gauges(),)*
                };
                [link::GAUGES, &own].concat()
            }
        }

        /// All media with their parameters.
        pub fn listing() -> Vec<MediumInfo> {
            vec![$(MediumInfo {
                info: Info::of::<$config>(),
                of_stations: <$config>::OF_STATIONS,
                changeable: params::changeable::<$config>(),
            }),*]
        }

        params::by_name! { words MediumConfig: $($variant($config)),* }
    };
}
use media;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_bits_per_second() {
        let message = parse("leo down 280Mbps up 19mbit").unwrap_err().to_string();
        assert_eq!(
            message,
            "leo: down \"280Mbps\" is refused; write bits per second, such as 280mbit"
        );
        assert!(parse("leo down 280mbit up 19mbit").unwrap().change("leo down 10mbps").is_err());
    }
}
