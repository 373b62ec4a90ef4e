//! The one table of parameters behind every queue and controller.
//!
//! A file lists its parameters once, with [`params!`](kinds): field, default, notation of the value, and source
//! of the default; the comment is the line of help. This list gives the struct and its `Default`, the parser,
//! the canonical form, the listing, the documentation, the error messages, and random values for tests.

pub mod declared;
pub mod kinds;

use std::any::Any;
use std::borrow::Cow;
use std::fmt::Debug;

use serde::Serialize;

use crate::rng::Rng;

/// Why a string or an option was refused, in one sentence with the remedy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    #[error(
        "the qdisc is empty; write what you would give to `tc qdisc replace … root`, for example \
         \"dualpi2 target 15ms\""
    )]
    Empty,
    #[error("there is no {what} \"{name}\"; {hint}")]
    UnknownName { what: &'static str, name: String, hint: String },
    #[error("{owner} has no {what} \"{keyword}\"; {hint}")]
    UnknownKeyword { owner: &'static str, what: &'static str, keyword: String, hint: String },
    #[error("{owner}: {keyword} has no value; it takes {expected}")]
    NoValue { owner: &'static str, keyword: String, expected: String },
    #[error("{owner}: {keyword} \"{value}\" is refused; {fix}")]
    BadValue { owner: &'static str, keyword: String, value: String, fix: String },
    #[error("{owner}: {keyword} is not modelled; {why}")]
    NotModelled { owner: &'static str, keyword: String, why: &'static str },
    #[error("{owner}: {keyword} is missing; {fix}")]
    Missing { owner: &'static str, keyword: &'static str, fix: &'static str },
}

/// A column of the time series that `probe` writes.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Gauge {
    pub name: &'static str,
    /// Empty for numbers and probabilities.
    pub unit: &'static str,
    pub help: &'static str,
}

pub const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Gauge {
    Gauge { name, unit, help }
}

/// A struct made by `params!`.
pub trait Table: Clone + Default + PartialEq + 'static {
    fn params() -> Vec<Param>;
}

/// Such a struct where its type does not matter. What reads and writes words is compiled once for all tables, not once
/// for each: that was half of the core's code.
pub trait Config: Any {
    fn copy(&self) -> Box<dyn Config>;
    fn equals(&self, other: &dyn Config) -> bool;
}

impl<C: Clone + PartialEq + 'static> Config for C {
    fn copy(&self) -> Box<dyn Config> {
        Box::new(self.clone())
    }
    fn equals(&self, other: &dyn Config) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }
}

/// The description that queues and controllers give of themselves.
pub trait Described: Table + Debug {
    /// As Linux calls it, where it has it.
    const NAME: &'static str;
    const SUMMARY: &'static str;
    /// A Linux kernel has it: mainline, or a controller as a module.
    const IN_LINUX: bool = true;
    /// The columns of the time series, whatever the parameters.
    const GAUGES: &'static [Gauge] = &[];
    /// Those that only some parameters bring, see [`Self::gauges`].
    const MORE_GAUGES: &'static [Gauge] = &[];
    /// The first keywords of the canonical form, if its order differs from that of the table.
    const ORDER: &'static [&'static str] = &[];
    /// An example of the words that must not be missing.
    const REQUIRED: &'static str = "";
    /// Keywords that may be abbreviated; an abbreviation stands for the first match.
    const ABBREVIATED: &'static [&'static str] = &[];
    /// Keywords that Linux knows, and why they have no meaning here or what to do instead.
    const NOT_MODELLED: &'static [(&'static str, &'static str)] = &[];
    /// Keywords whose value cannot change while the queue is in force, as Linux refuses it too.
    const FIXED: &'static [&'static str] = &[];
    /// Values of the first parameter that give others other defaults: versions.
    const PRESETS: &'static [Preset] = &[];

    /// Derives missing values and refuses contradictions.
    fn finish(&mut self, _given: &Given) -> Result<(), Refused> {
        Ok(())
    }
    /// A change is checked by itself before it is applied, as by `tc`. Without that only the whole is checked.
    const CHANGES_ALONE: bool = true;
    /// Called before the words of a change are read: resets the parameters that the given ones replace as a whole.
    fn renew(&mut self, _given: &Given) {}
    /// Called after that: derives and refuses as [`Self::finish`], but keeps unrelated parameters.
    fn finish_change(&mut self, given: &Given) -> Result<(), Refused> {
        self.finish(given)
    }
    /// For a queue whose `tc` sends the kernel more than the given words: its parameters after a change by words that
    /// alone mean `to`. `None`: only the named parameters change.
    fn merged(&self, _to: &Self, _given: &Given) -> Option<Result<Self, Refused>> {
        None
    }
    /// Do these parameters bring [`Self::MORE_GAUGES`]?
    fn has_more_gauges(&self) -> bool {
        false
    }
    /// The columns of the time series with these parameters.
    fn gauges(&self) -> Vec<Gauge> {
        let more = if self.has_more_gauges() { Self::MORE_GAUGES } else { &[] };
        [Self::GAUGES, more].concat()
    }
}

/// A value of the option `keyword` that gives other options other defaults.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Preset {
    pub keyword: &'static str,
    pub value: &'static str,
    pub sets: &'static [(&'static str, &'static str)],
}

/// One keyword.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub keyword: &'static str,
    /// What follows it (`TIME`, `PACKETS`, …); empty for a word that stands alone.
    pub value: &'static str,
    /// The same with its range: "it takes …".
    pub takes: Cow<'static, str>,
    /// The value that holds without the keyword, empty if there is none; of a word that stands alone,
    /// `yes` if it holds anyway.
    pub default: Cow<'static, str>,
    pub source: &'static str,
    pub help: &'static str,
    /// See [`Described::IN_LINUX`].
    pub in_linux: bool,
    /// The parameter of the kernel's module, and its numbers for words.
    pub module: Option<Module>,
}

/// A parameter of a kernel module.
#[derive(Copy, Clone, Debug, Serialize)]
pub struct Module {
    pub parameter: &'static str,
    pub values: &'static [(&'static str, &'static str)],
}

/// A field of a struct with the keywords that set it.
pub trait Field {
    fn rows(&self) -> &[Row];
    /// Takes the value of the keyword `row` from the words.
    fn read(&self, config: &mut dyn Config, row: usize, words: &mut Words) -> Result<(), Refused>;
    /// The words that say the field's value; `None` where they are left out.
    fn write(&self, config: &dyn Config) -> Option<String>;
    /// A random value of the keyword, and values that are refused.
    fn sample(&self, row: usize, rng: &mut Rng) -> String;
    fn beyond(&self, row: usize) -> &[String];
}

pub type Param = Box<dyn Field>;

/// The words still to be read.
pub struct Words<'a> {
    owner: &'static str,
    words: Vec<&'a str>,
    keyword: &'static str,
    /// What the table says of the keyword's value.
    takes: Cow<'static, str>,
}

impl<'a> Words<'a> {
    fn new(owner: &'static str, words: &[&'a str]) -> Self {
        let words = words.iter().rev().copied().collect();
        Words { owner, words, keyword: "", takes: "".into() }
    }
    /// Is there a further word, and does it begin so?
    pub fn next_begins(&self, so: impl Fn(char) -> bool) -> bool {
        self.words.last().is_some_and(|word| word.starts_with(so))
    }
    /// Takes the next word if `tc` reads it as this one, which may be abbreviated.
    pub fn take(&mut self, keyword: &'static str) -> bool {
        let here = self.words.last().is_some_and(|word| keyword.starts_with(word));
        if here {
            self.words.pop();
        }
        here
    }
    /// The next word, as `read` understands it; `expected` finishes the sentence "it takes …".
    pub fn value<T>(
        &mut self,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Refused> {
        let word = self.word(expected)?;
        read(word).ok_or_else(|| self.refuse(word, &format!("it takes {expected}")))
    }
    fn word(&mut self, expected: &str) -> Result<&'a str, Refused> {
        let (owner, keyword) = (self.owner, self.keyword);
        self.words.pop().ok_or_else(|| Refused::NoValue {
            owner,
            keyword: keyword.to_owned(),
            expected: expected.to_owned(),
        })
    }
    /// Refuses a value that contradicts others.
    pub fn refuse(&self, value: &str, fix: &str) -> Refused {
        let (owner, keyword) = (self.owner, self.keyword.to_owned());
        Refused::BadValue { owner, keyword, value: value.to_owned(), fix: fix.to_owned() }
    }
    /// A second value of a keyword, if the next word begins with a digit: so `tc` tells it from a
    /// keyword.
    pub fn further<T>(
        &mut self,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Refused> {
        let given = self.next_begins(|c| c.is_ascii_digit());
        given.then(|| self.value(expected, read)).transpose()
    }
}

/// The keywords that were given, in their order.
pub struct Given {
    owner: &'static str,
    keywords: Vec<&'static str>,
    /// The same with their values, as they were written.
    said: Vec<String>,
}

impl Given {
    pub fn has(&self, keyword: &str) -> bool {
        self.keywords.contains(&keyword)
    }
    /// Those of the list that were given.
    pub fn of(&self, list: &[&str]) -> Vec<&'static str> {
        self.keywords.iter().copied().filter(|keyword| list.contains(keyword)).collect()
    }
    /// A value that has no meaning together with the others.
    pub fn refuse(&self, keyword: &str, value: String, fix: String) -> Refused {
        Refused::BadValue { owner: self.owner, keyword: keyword.to_owned(), value, fix }
    }
    pub fn missing(&self, keyword: &'static str, fix: &'static str) -> Refused {
        Refused::Missing { owner: self.owner, keyword, fix }
    }
    fn check_fixed(
        &self,
        fixed: &[&str],
        params: &[Param],
        before: &dyn Config,
        after: &dyn Config,
    ) -> Result<(), Refused> {
        for param in params.iter().filter(|param| fixed.contains(&param.rows()[0].keyword)) {
            let (was, is) = (param.write(before), param.write(after));
            if was != is {
                let keyword = param.rows()[0].keyword;
                let (was, is) = (was.unwrap_or_default(), is.unwrap_or_default());
                // A value may be a word by itself.
                let is_word = param.rows().len() > 1;
                let value = |said: &str| match said.strip_prefix(keyword) {
                    Some(value) if !is_word => value.trim_start().to_owned(),
                    _ => said.to_owned(),
                };
                let before = if was.is_empty() { "at its default".to_owned() } else { value(&was) };
                let fix = format!("it is {before} and cannot change while it runs; leave it out");
                return Err(self.refuse(
                    if is_word { "the word" } else { keyword },
                    value(&is),
                    fix,
                ));
            }
        }
        Ok(())
    }
    /// What was written, without these keywords.
    fn without(&self, keywords: &[&str]) -> String {
        let said = self.keywords.iter().zip(&self.said);
        let kept = said.filter(|(keyword, _)| !keywords.contains(keyword));
        kept.map(|(_, said)| &**said).collect::<Vec<_>>().join(" ")
    }
}

/// The owner of the keywords, and facts about them that are not in the table.
pub(crate) struct Owner {
    pub name: &'static str,
    pub abbreviated: &'static [&'static str],
    pub not_modelled: &'static [(&'static str, &'static str)],
}

impl Owner {
    const fn of<C: Described>() -> Owner {
        Owner { name: C::NAME, abbreviated: C::ABBREVIATED, not_modelled: C::NOT_MODELLED }
    }
}

/// Reads keywords with their values.
pub fn read_words<'a, C: Described>(words: impl Iterator<Item = &'a str>) -> Result<C, Refused> {
    let mut config = C::default();
    let words: Vec<_> = words.collect();
    let given = words_into(&Owner::of::<C>(), &C::params(), &mut config, &words)?;
    config.finish(&given)?;
    Ok(config)
}

/// The same into the defaults of a table.
pub(crate) fn words_into(
    owner: &Owner,
    params: &[Param],
    config: &mut dyn Config,
    all: &[&str],
) -> Result<Given, Refused> {
    let mut words = Words::new(owner.name, all);
    let mut given = Given { owner: owner.name, keywords: Vec::new(), said: Vec::new() };
    let defaults = config.copy();
    while let Some(word) = words.words.pop() {
        let abbreviated = owner.abbreviated.iter().find(|k| k.starts_with(word));
        let keyword = abbreviated.copied().unwrap_or(word);
        let begin = all.len() - words.words.len();
        read_one(owner, params, &*defaults, keyword, config, &mut words, "keyword")?;
        let values = &all[begin..all.len() - words.words.len()];
        given.keywords.push(words.keyword);
        given.said.push([&[words.keyword], values].concat().join(" "));
    }
    Ok(given)
}

/// The parameters of a queue after a change, and the words of the change: each keyword in full, without unchangeable
/// ones that repeat the current value.
pub struct Changed<C> {
    pub config: C,
    pub words: String,
}

/// Changes parameters as `tc qdisc change` does: the words name the changes, and the rest stays.
///
/// # Errors
/// A sentence about the words alone, as from `tc`, or about the whole, as from the kernel.
pub fn change_words<'a, C: Described>(
    before: &C,
    words: impl Iterator<Item = &'a str>,
) -> Result<Changed<C>, Refused> {
    let (config, given) = differing(before, words)?;
    given.check_fixed(C::FIXED, &C::params(), before, &config)?;
    Ok(Changed { config, words: given.without(C::FIXED) })
}

/// The same of something that does not run yet, where every keyword may differ.
///
/// # Errors
/// As above.
pub fn differ_words<'a, C: Described>(
    before: &C,
    words: impl Iterator<Item = &'a str>,
) -> Result<C, Refused> {
    differing(before, words).map(|(config, _)| config)
}

fn differing<'a, C: Described>(
    before: &C,
    words: impl Iterator<Item = &'a str>,
) -> Result<(C, Given), Refused> {
    let (owner, params) = (Owner::of::<C>(), C::params());
    let words: Vec<_> = words.collect();
    let mut alone = C::default();
    let given = words_into(&owner, &params, &mut alone, &words)?;
    if C::CHANGES_ALONE {
        alone.finish(&given)?;
    }
    let config = match before.merged(&alone, &given) {
        Some(merged) => merged?,
        None => {
            let mut config = before.clone();
            config.renew(&given);
            words_into(&owner, &params, &mut config, &words)?;
            config.finish_change(&given)?;
            config
        }
    };
    Ok((config, given))
}

/// Reads options given by name.
pub fn read_options<C: Described>(options: &[(&str, &str)]) -> Result<C, Refused> {
    let mut config = C::default();
    let presets = C::PRESETS.iter().filter(|p| options.contains(&(p.keyword, p.value)));
    let sets: Vec<_> = presets.flat_map(|p| p.sets).copied().collect();
    let (owner, params) = (Owner::of::<C>(), C::params());
    options_into(&owner, &params, &mut config, &sets)?;
    let given = options_into(&owner, &params, &mut config, options)?;
    config.finish(&given)?;
    Ok(config)
}

/// The same into the defaults of a table.
pub(crate) fn options_into(
    owner: &Owner,
    params: &[Param],
    config: &mut dyn Config,
    options: &[(&str, &str)],
) -> Result<Given, Refused> {
    let mut given = Given { owner: owner.name, keywords: Vec::new(), said: Vec::new() };
    let defaults = config.copy();
    for &(name, value) in options {
        let mut words = Words::new(owner.name, &[value]);
        read_one(owner, params, &*defaults, name, config, &mut words, "option")?;
        given.keywords.push(words.keyword);
    }
    Ok(given)
}

fn read_one(
    owner: &Owner,
    params: &[Param],
    defaults: &dyn Config,
    keyword: &str,
    config: &mut dyn Config,
    words: &mut Words,
    what: &'static str,
) -> Result<(), Refused> {
    let unknown = keyword.to_owned();
    let Some((param, row)) = params.iter().find_map(|param| {
        param.rows().iter().position(|row| row.keyword == keyword).map(|row| (param, row))
    }) else {
        let not_modelled = owner.not_modelled.iter().find(|(name, _)| *name == keyword);
        let owner = owner.name;
        if let Some(&(_, why)) = not_modelled {
            return Err(Refused::NotModelled { owner, keyword: unknown, why });
        }
        let keywords = params.iter().flat_map(|param| param.rows().iter().map(|r| r.keyword));
        let hint = match params.is_empty() {
            true => "it takes none".to_owned(),
            false => hint(keyword, keywords, &format!("its {what}s are")),
        };
        return Err(Refused::UnknownKeyword { owner, what, keyword: unknown, hint });
    };
    words.keyword = param.rows()[row].keyword;
    param.read(config, row, words).map_err(|refused| match refused {
        Refused::BadValue { owner, keyword, value, mut fix } => {
            let default = default_of(&**param, row, defaults);
            if !default.is_empty() {
                fix += &format!(" (default {default})");
            }
            Refused::BadValue { owner, keyword, value, fix }
        }
        other => other,
    })
}

/// The words of all parameters that the canonical form prints, in its order.
fn written(
    mut params: Vec<Param>,
    order: &[&str],
    config: &dyn Config,
) -> impl Iterator<Item = (&'static str, String)> {
    params.sort_by_key(|param| order.iter().position(|k| *k == param.rows()[0].keyword));
    params.into_iter().filter_map(|param| Some((param.rows()[0].keyword, param.write(config)?)))
}

/// Every parameter that the canonical form prints, as words that read back.
pub(crate) fn words_of(params: Vec<Param>, order: &[&str], config: &dyn Config) -> String {
    written(params, order, config).map(|(_, words)| words).collect::<Vec<_>>().join(" ")
}

/// Its name and value.
pub(crate) fn options_of(
    params: Vec<Param>,
    order: &[&str],
    config: &dyn Config,
) -> Vec<(&'static str, String)> {
    let value =
        |(name, text): (&'static str, String)| (name, text[name.len()..].trim_start().to_owned());
    written(params, order, config).map(value).collect()
}

/// Every parameter with its value, as words that read back.
pub fn write_words<C: Described>(config: &C) -> String {
    words_of(C::params(), C::ORDER, config)
}

/// Name and value of every option.
pub fn write_options<C: Described>(config: &C) -> Vec<(&'static str, String)> {
    options_of(C::params(), C::ORDER, config)
}

/// A default that is computed when it is asked for.
const DERIVED: &str = "\0";

fn default_of(param: &dyn Field, row: usize, defaults: &dyn Config) -> Cow<'static, str> {
    let Row { keyword, value, default, .. } = &param.rows()[row];
    if default != DERIVED {
        return default.clone();
    }
    if value.is_empty() {
        let mut config = defaults.copy();
        let mut nothing = Words::new("", &[]);
        param.read(&mut *config, row, &mut nothing).expect("a word has no value");
        return if config.equals(defaults) { "yes" } else { "" }.into();
    }
    let text = param.write(defaults).unwrap_or_default();
    text.strip_prefix(keyword).unwrap_or_default().trim_start().to_owned().into()
}

/// The rows of a table with their defaults.
pub fn rows<C: Table>() -> Vec<Row> {
    rows_of(C::params(), &C::default())
}

/// Of each parameter that can change while it is in force, the keywords.
pub fn changeable<C: Described>() -> Vec<Vec<&'static str>> {
    let keywords = |param: &Param| param.rows().iter().map(|row| row.keyword).collect::<Vec<_>>();
    let all = C::params();
    all.iter().map(keywords).filter(|keywords| !C::FIXED.contains(&keywords[0])).collect()
}

pub(crate) fn rows_of(params: Vec<Param>, defaults: &dyn Config) -> Vec<Row> {
    let rows = params.into_iter().flat_map(|param| {
        let default = |i| default_of(&*param, i, defaults);
        let with = |(i, row): (usize, &Row)| Row { default: default(i), ..row.clone() };
        param.rows().iter().enumerate().map(with).collect::<Vec<_>>()
    });
    rows.collect()
}

/// A line of `l4slab list`.
#[derive(Clone, Debug, Serialize)]
pub struct Info {
    pub name: &'static str,
    pub summary: &'static str,
    pub in_linux: bool,
    pub parameters: Vec<Row>,
    /// An example of the words that must not be missing.
    pub required: &'static str,
    pub presets: &'static [Preset],
    pub gauges: Vec<Gauge>,
    pub not_modelled: &'static [(&'static str, &'static str)],
}

impl Info {
    pub fn of<C: Described>() -> Info {
        Info {
            name: C::NAME,
            summary: C::SUMMARY,
            in_linux: C::IN_LINUX,
            parameters: rows::<C>(),
            required: C::REQUIRED,
            presets: C::PRESETS,
            gauges: [C::GAUGES, C::MORE_GAUGES].concat(),
            not_modelled: C::NOT_MODELLED,
        }
    }
}

/// Random words: of each parameter with even chance, always where they are required.
pub fn random_words<C: Described>(rng: &mut Rng) -> String {
    random_words_of(C::params(), C::REQUIRED, rng)
}

fn random_words_of(params: Vec<Param>, required: &str, rng: &mut Rng) -> String {
    let required: Vec<_> = required.split_whitespace().collect();
    let mut words = Vec::new();
    for param in params {
        let rows = param.rows();
        if rows.iter().any(|row| required.contains(&row.keyword)) || rng.below(2) == 0 {
            let row = rng.below(rows.len() as u64) as usize;
            words.push(format!("{} {}", rows[row].keyword, param.sample(row, rng)));
        }
    }
    words.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// For each keyword: random words with it, and words with it that are refused.
pub fn samples<C: Described>(rng: &mut Rng) -> Vec<(String, Vec<String>)> {
    samples_of(&C::params(), rng)
}

fn samples_of(params: &[Param], rng: &mut Rng) -> Vec<(String, Vec<String>)> {
    let rows = params.iter().flat_map(|param| (0..param.rows().len()).map(move |row| (param, row)));
    let with = rows.map(|(param, row)| {
        let keyword = param.rows()[row].keyword;
        let say = |value: &str| format!("{keyword} {value}").trim_end().to_owned();
        let beyond = param.beyond(row).iter().map(|value| say(value)).collect();
        (say(&param.sample(row, rng)), beyond)
    });
    with.collect()
}

/// What a registry does by name with its lines: `parse_named` and `samples`, and `random_string` of what is written in words.
macro_rules! by_name {
    (words $config:ident: $($variant:ident($kind:ty)),*) => {
        params::by_name! { samples $($kind),* }

        /// A random string that [`parse`] reads, of the entry with this name.
        pub fn random_string(name: &str, rng: &mut Rng) -> String {
            let random = |rng: &mut Rng| {
                $(if name == <$kind>::NAME {
                    return format!("{name} {}", params::random_words::<$kind>(rng));
                })*
                panic!("{name} is not registered");
            };
            let strings = std::iter::repeat_with(|| random(rng));
            let mut valid = strings.take(10_000).filter(|text| parse(text).is_ok());
            valid.next().expect("values from the ranges of the table agree now and then")
        }

        fn parse_named<'a>(
            name: &str,
            words: impl Iterator<Item = &'a str>,
        ) -> Option<Result<$config, Refused>> {
            $(if name == <$kind>::NAME {
                return Some(params::read_words::<$kind>(words).map($config::$variant));
            })*
            None
        }
    };
    (options $config:ident: $($variant:ident($kind:ty)),*) => {
        params::by_name! { samples $($kind),* }

        fn parse_named(name: &str, options: &[(&str, &str)]) -> Option<Result<$config, Refused>> {
            $(if name == <$kind>::NAME {
                return Some(params::read_options(options).map($config::$variant));
            })*
            None
        }
    };
    (samples $($kind:ty),*) => {
        /// For each parameter of the entry with this name: words with a random value of it, and words that are refused.
        pub fn samples(name: &str, rng: &mut Rng) -> Vec<(String, Vec<String>)> {
            $(if name == <$kind>::NAME {
                return params::samples::<$kind>(rng);
            })*
            Vec::new()
        }
    };
}
pub(crate) use by_name;

/// "did you mean …?" if a candidate is near, else all of them.
pub fn hint(word: &str, candidates: impl Iterator<Item = &'static str>, all: &str) -> String {
    let candidates: Vec<_> = candidates.collect();
    match nearest(word, &candidates) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("{all} {}", candidates.join(", ")),
    }
}

/// The candidate with the fewest edits (Levenshtein), if at most half of the letters change.
pub fn nearest<'c>(word: &str, candidates: &[&'c str]) -> Option<&'c str> {
    let word = word.to_lowercase();
    let distance = |other: &str| {
        let mut row: Vec<usize> = (0..=other.chars().count()).collect();
        for (i, a) in word.chars().enumerate() {
            let mut diagonal = std::mem::replace(&mut row[0], i + 1);
            for (j, b) in other.chars().enumerate() {
                let edited = (diagonal + usize::from(a != b)).min(row[j] + 1).min(row[j + 1] + 1);
                diagonal = std::mem::replace(&mut row[j + 1], edited);
            }
        }
        row[row.len() - 1]
    };
    let near = candidates.iter().map(|c| (distance(c), *c)).min_by_key(|&(d, _)| d)?;
    (near.0 * 2 <= word.chars().count()).then_some(near.1)
}
