//! The one table of parameters behind every queue and controller.
//!
//! A file lists its parameters once, with [`params!`]: field, default, how the value is said, and where
//! the default comes from; the comment is the line of help. From that list follow the struct and its
//! `Default`, reading, the canonical form, the listing, the documentation, the sentence of a refusal,
//! and random values for tests.

use std::borrow::Cow;
use std::fmt::Debug;
use std::ops::RangeInclusive;

use serde::Serialize;

use crate::rng::Rng;
use crate::tc;
use crate::time::Span;
use crate::units::Rate;

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

/// A struct made by [`params!`].
pub trait Table: Clone + Default + PartialEq + 'static {
    fn params() -> Vec<Param<Self>>;
}

/// What queues and controllers tell of themselves.
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
    /// The first keywords of the parameters as the canonical form has them, where that is not the
    /// order of the table.
    const ORDER: &'static [&'static str] = &[];
    /// An example of the words that must not be missing.
    const REQUIRED: &'static str = "";
    /// Keywords that may be abbreviated; an abbreviation means the first that it fits.
    const ABBREVIATED: &'static [&'static str] = &[];
    /// Keywords that Linux knows, and why they have no meaning here or what to do instead.
    const NOT_MODELLED: &'static [(&'static str, &'static str)] = &[];
    /// Values of the first parameter that give others other defaults: versions.
    const PRESETS: &'static [Preset] = &[];

    /// Derives what was not given and refuses what contradicts itself.
    fn finish(&mut self, _given: &Given) -> Result<(), Refused> {
        Ok(())
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

/// A field of `C` with the keywords that set it.
pub trait Field<C> {
    fn rows(&self) -> &[Row];
    /// Takes the value of the keyword `row` from the words.
    fn read(&self, config: &mut C, row: usize, words: &mut Words) -> Result<(), Refused>;
    /// The words that say the field's value; `None` where they are left out.
    fn write(&self, config: &C) -> Option<String>;
    /// A random value of the keyword, and values that are refused.
    fn sample(&self, row: usize, rng: &mut Rng) -> String;
    fn beyond(&self, row: usize) -> &[String];
}

pub type Param<C> = Box<dyn Field<C>>;

/// The words still to be read.
pub struct Words<'a> {
    owner: &'static str,
    words: Vec<&'a str>,
    keyword: &'static str,
    /// What the table says of the keyword's value.
    takes: Cow<'static, str>,
}

impl<'a> Words<'a> {
    fn new(owner: &'static str, words: impl Iterator<Item = &'a str>) -> Self {
        let mut words: Vec<_> = words.collect();
        words.reverse();
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
        let (owner, keyword) = (self.owner, self.keyword.to_owned());
        let Some(word) = self.words.pop() else {
            return Err(Refused::NoValue { owner, keyword, expected: expected.to_owned() });
        };
        read(word).ok_or_else(|| {
            let fix = format!("it takes {expected}");
            Refused::BadValue { owner, keyword, value: word.to_owned(), fix }
        })
    }
    /// Refuses a value for what it means beside others.
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
}

impl Given {
    pub fn has(&self, keyword: &str) -> bool {
        self.keywords.contains(&keyword)
    }
    /// Those of the list that were given.
    pub fn of(&self, list: &[&str]) -> Vec<&'static str> {
        self.keywords.iter().copied().filter(|keyword| list.contains(keyword)).collect()
    }
    /// A value that means nothing beside the others.
    pub fn refuse(&self, keyword: &str, value: String, fix: String) -> Refused {
        Refused::BadValue { owner: self.owner, keyword: keyword.to_owned(), value, fix }
    }
    pub fn missing(&self, keyword: &'static str, fix: &'static str) -> Refused {
        Refused::Missing { owner: self.owner, keyword, fix }
    }
}

/// Reads keywords with their values.
pub fn read_words<'a, C: Described>(words: impl Iterator<Item = &'a str>) -> Result<C, Refused> {
    let params = C::params();
    let (mut config, mut words) = (C::default(), Words::new(C::NAME, words));
    let mut given = Given { owner: C::NAME, keywords: Vec::new() };
    while let Some(word) = words.words.pop() {
        let keyword = C::ABBREVIATED.iter().find(|k| k.starts_with(word)).copied().unwrap_or(word);
        read_one(&params, keyword, &mut config, &mut words, "keyword")?;
        given.keywords.push(words.keyword);
    }
    config.finish(&given)?;
    Ok(config)
}

/// Reads options given by name.
pub fn read_options<C: Described>(options: &[(&str, &str)]) -> Result<C, Refused> {
    let params = C::params();
    let mut config = C::default();
    let mut given = Given { owner: C::NAME, keywords: Vec::new() };
    let presets = C::PRESETS.iter().filter(|p| options.contains(&(p.keyword, p.value)));
    let sets = presets.flat_map(|p| p.sets).map(|set| (set, false));
    for (&(name, value), said) in sets.chain(options.iter().map(|option| (option, true))) {
        let mut words = Words::new(C::NAME, std::iter::once(value));
        read_one(&params, name, &mut config, &mut words, "option")?;
        if said {
            given.keywords.push(words.keyword);
        }
    }
    config.finish(&given)?;
    Ok(config)
}

fn read_one<C: Described>(
    params: &[Param<C>],
    keyword: &str,
    config: &mut C,
    words: &mut Words,
    what: &'static str,
) -> Result<(), Refused> {
    let (owner, unknown) = (C::NAME, keyword.to_owned());
    let Some((param, row)) = params.iter().find_map(|param| {
        param.rows().iter().position(|row| row.keyword == keyword).map(|row| (param, row))
    }) else {
        if let Some(&(_, why)) = C::NOT_MODELLED.iter().find(|(name, _)| *name == keyword) {
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
            let default = default_of(param, row);
            if !default.is_empty() {
                fix += &format!(" (default {default})");
            }
            Refused::BadValue { owner, keyword, value, fix }
        }
        other => other,
    })
}

/// What the parameters with a value to be said say, in the order of the canonical form.
fn written<C: Described>(config: &C) -> impl Iterator<Item = (&'static str, String)> + use<'_, C> {
    let mut params = C::params();
    params.sort_by_key(|param| C::ORDER.iter().position(|k| *k == param.rows()[0].keyword));
    params.into_iter().filter_map(|param| Some((param.rows()[0].keyword, param.write(config)?)))
}

/// Every parameter with its value, as words that read back.
pub fn write_words<C: Described>(config: &C) -> String {
    written(config).map(|(_, words)| words).collect::<Vec<_>>().join(" ")
}

/// Name and value of every option.
pub fn write_options<C: Described>(config: &C) -> Vec<(&'static str, String)> {
    written(config).map(|(name, text)| (name, text[name.len()..].trim_start().to_owned())).collect()
}

fn default_of<C: Table>(param: &Param<C>, row: usize) -> Cow<'static, str> {
    let Row { keyword, value, default, .. } = &param.rows()[row];
    if default != DERIVED {
        return default.clone();
    }
    if value.is_empty() {
        let mut config = C::default();
        let mut nothing = Words::new("", std::iter::empty());
        param.read(&mut config, row, &mut nothing).expect("a word has no value");
        return if config == C::default() { "yes" } else { "" }.into();
    }
    let text = param.write(&C::default()).unwrap_or_default();
    text.strip_prefix(keyword).unwrap_or_default().trim_start().to_owned().into()
}

/// The rows of a table with their defaults.
pub fn rows<C: Table>() -> Vec<Row> {
    let rows = C::params().into_iter().flat_map(|param| {
        let with = |(i, row): (usize, &Row)| Row { default: default_of(&param, i), ..row.clone() };
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
    let required: Vec<_> = C::REQUIRED.split_whitespace().collect();
    let mut words = Vec::new();
    for param in C::params() {
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
    let params = C::params();
    let rows = params.iter().flat_map(|param| (0..param.rows().len()).map(move |row| (param, row)));
    let with = rows.map(|(param, row)| {
        let keyword = param.rows()[row].keyword;
        let say = |value: &str| format!("{keyword} {value}").trim_end().to_owned();
        let beyond = param.beyond(row).iter().map(|value| say(value)).collect();
        (say(&param.sample(row, rng)), beyond)
    });
    with.collect()
}

/// How a value of type `T` is said: a keyword with a value, words that stand alone, or either.
pub struct Spec<T> {
    value: Option<Value<T>>,
    words: Vec<Word<T>>,
    keywords: Vec<&'static str>,
    default: Option<&'static str>,
    in_linux: bool,
    module: Option<Module>,
}

/// Of the value so far and the words to come.
type Read<T> = Box<dyn Fn(&T, &mut Words) -> Result<T, Refused>>;
/// `None`: it is not said.
type Write<T> = Box<dyn Fn(&T) -> Option<String>>;

struct Value<T> {
    value: &'static str,
    takes: Cow<'static, str>,
    read: Read<T>,
    write: Write<T>,
    sample: Box<dyn Fn(&mut Rng) -> String>,
    beyond: Vec<String>,
}

struct Word<T> {
    keyword: &'static str,
    help: &'static str,
    effect: Box<dyn Fn(&mut T)>,
    /// Does the word say this value?
    says: Box<dyn Fn(&T) -> bool>,
}

/// What [`params!`] knows of a field.
pub struct Meta {
    pub keyword: &'static str,
    pub help: &'static str,
    pub source: &'static str,
}

/// [`Spec`], or [`nested`].
pub trait Says<T> {
    fn of<C: Clone + 'static>(self, meta: Meta, place: fn(&mut C) -> &mut T) -> Vec<Param<C>>;
}

struct Placed<C, T> {
    spec: Spec<T>,
    place: fn(&mut C) -> &mut T,
    rows: Vec<Row>,
}

/// Computed when it is asked for.
const DERIVED: &str = "\0";

impl<T: 'static> Says<T> for Spec<T> {
    fn of<C: Clone + 'static>(self, meta: Meta, place: fn(&mut C) -> &mut T) -> Vec<Param<C>> {
        let Meta { keyword, help, source } = meta;
        let default = Cow::Borrowed(self.default.unwrap_or(DERIVED));
        let (in_linux, module) = (self.in_linux, self.module);
        let row = |keyword, value, takes, help| Row {
            keyword,
            value,
            takes,
            default: default.clone(),
            source,
            help,
            in_linux,
            module,
        };
        let mut rows = Vec::new();
        if let Some(value) = &self.value {
            let keywords = if self.keywords.is_empty() { &[keyword][..] } else { &self.keywords };
            for &name in keywords {
                rows.push(row(name, value.value, value.takes.clone(), help));
            }
        }
        for word in &self.words {
            rows.push(row(word.keyword, "", Cow::Borrowed(""), word.help));
        }
        if rows.is_empty() {
            return Vec::new();
        }
        vec![Box::new(Placed { spec: self, place, rows })]
    }
}

impl<C: Clone, T> Field<C> for Placed<C, T> {
    fn rows(&self) -> &[Row] {
        &self.rows
    }
    fn read(&self, config: &mut C, row: usize, words: &mut Words) -> Result<(), Refused> {
        let place = (self.place)(config);
        match self.word(row) {
            Ok(word) => (word.effect)(place),
            Err(value) => {
                words.takes = value.takes.clone();
                *place = (value.read)(place, words)?;
            }
        }
        Ok(())
    }
    fn write(&self, config: &C) -> Option<String> {
        let mut config = config.clone();
        let value = (self.place)(&mut config);
        if let Some(word) = self.spec.words.iter().find(|word| (word.says)(value)) {
            return Some(word.keyword.to_owned());
        }
        let text = (self.spec.value.as_ref()?.write)(value)?;
        Some(format!("{} {text}", self.rows[0].keyword))
    }
    fn sample(&self, row: usize, rng: &mut Rng) -> String {
        self.word(row).map_or_else(|value| (value.sample)(rng), |_| String::new())
    }
    fn beyond(&self, row: usize) -> &[String] {
        self.word(row).map_or_else(|value| &value.beyond[..], |_| &[])
    }
}

impl<C, T> Placed<C, T> {
    fn word(&self, row: usize) -> Result<&Word<T>, &Value<T>> {
        let values = self.rows.len() - self.spec.words.len();
        match &self.spec.value {
            Some(value) if row < values => Err(value),
            _ => Ok(&self.spec.words[row - values]),
        }
    }
}

/// A field that has a table of its own.
pub struct Nested;

pub fn nested() -> Nested {
    Nested
}

struct Inside<C, D> {
    param: Param<D>,
    place: fn(&mut C) -> &mut D,
}

impl<D: Table> Says<D> for Nested {
    fn of<C: Clone + 'static>(self, _: Meta, place: fn(&mut C) -> &mut D) -> Vec<Param<C>> {
        let inside = |param| Box::new(Inside { param, place }) as Param<C>;
        D::params().into_iter().map(inside).collect()
    }
}

impl<C: Clone, D> Field<C> for Inside<C, D> {
    fn rows(&self) -> &[Row] {
        self.param.rows()
    }
    fn read(&self, config: &mut C, row: usize, words: &mut Words) -> Result<(), Refused> {
        self.param.read((self.place)(config), row, words)
    }
    fn write(&self, config: &C) -> Option<String> {
        self.param.write((self.place)(&mut config.clone()))
    }
    fn sample(&self, row: usize, rng: &mut Rng) -> String {
        self.param.sample(row, rng)
    }
    fn beyond(&self, row: usize) -> &[String] {
        self.param.beyond(row)
    }
}

impl<T: 'static> Spec<T> {
    fn new(value: Option<Value<T>>) -> Spec<T> {
        Spec {
            value,
            words: Vec::new(),
            keywords: Vec::new(),
            default: None,
            in_linux: true,
            module: None,
        }
    }
    /// The keywords, where the field's name is not the only one or not one; the first is canonical.
    pub fn called(mut self, keywords: &[&'static str]) -> Self {
        self.keywords = keywords.to_vec();
        self
    }
    /// Says the default in words, where it follows from other parameters; empty for none.
    pub fn default(mut self, text: &'static str) -> Self {
        self.default = Some(text);
        self
    }
    /// Finishes "it takes …" in other words.
    pub fn takes(mut self, takes: &'static str) -> Self {
        let value = self.value.as_mut().expect("words take nothing");
        value.takes = takes.into();
        self
    }
    /// What stands for the value in the listing.
    pub fn shown(mut self, value: &'static str) -> Self {
        self.value.as_mut().expect("words have no value").value = value;
        self
    }
    /// No Linux kernel has it.
    pub fn not_in_linux(mut self) -> Self {
        self.in_linux = false;
        self
    }
    /// The parameter of the kernel's module, and its numbers for words.
    pub fn module(
        mut self,
        parameter: &'static str,
        values: &'static [(&'static str, &'static str)],
    ) -> Self {
        self.module = Some(Module { parameter, values });
        self
    }
    /// A word that reads as `value` and says it.
    pub fn or(self, keyword: &'static str, value: T, help: &'static str) -> Self
    where
        T: Clone + PartialEq,
    {
        let other = value.clone();
        self.word(keyword, move |v| *v = value.clone(), move |v| *v == other, help)
    }
    /// A word that reads so and that the canonical form does not need.
    pub fn also(
        self,
        keyword: &'static str,
        effect: impl Fn(&mut T) + 'static,
        help: &'static str,
    ) -> Self {
        self.word(keyword, effect, |_| false, help)
    }
    /// A word that does something, and is printed where it says the value.
    pub fn word(
        mut self,
        keyword: &'static str,
        effect: impl Fn(&mut T) + 'static,
        says: impl Fn(&T) -> bool + 'static,
        help: &'static str,
    ) -> Self {
        let (effect, says) = (Box::new(effect), Box::new(says));
        self.words.push(Word { keyword, help, effect, says });
        self
    }
    /// The value as read, brought into the bounds of the kernel.
    pub fn fitted(self, fit: impl Fn(T) -> T + 'static) -> Self
    where
        T: Clone + Default,
    {
        self.mapped(fit, |v| Some(v.clone()))
    }
    /// A value that may be absent, and then is not said.
    pub fn optional(self) -> Spec<Option<T>>
    where
        T: Clone + Default,
    {
        self.mapped(Some, Clone::clone)
    }
    /// A value read as a `T`; where `back` gives `None` it is not said.
    pub fn mapped<U: 'static>(
        self,
        to: impl Fn(T) -> U + 'static,
        back: impl Fn(&U) -> Option<T> + 'static,
    ) -> Spec<U>
    where
        T: Default,
    {
        let value = self.value.map(|value| {
            let Value { value, takes, read, write, sample, beyond } = value;
            Value {
                value,
                takes,
                read: Box::new(move |_: &U, words: &mut Words| read(&T::default(), words).map(&to))
                    as _,
                write: Box::new(move |v: &U| back(v).and_then(|v| write(&v))) as _,
                sample,
                beyond,
            }
        });
        let Spec { keywords, default, in_linux, module, .. } = self;
        Spec { keywords, default, in_linux, module, ..Spec::new(value) }
    }
}

/// Words only, each standing for a value.
pub fn words<T, const N: usize>(words: [(&'static str, T, &'static str); N]) -> Spec<T>
where
    T: Clone + PartialEq + 'static,
{
    words
        .into_iter()
        .fold(Spec::new(None), |spec, (keyword, value, help)| spec.or(keyword, value, help))
}

/// No words of its own: [`Described::finish`] sets it, or [`Spec::also`] does.
pub fn unsaid<T: 'static>() -> Spec<T> {
    Spec::new(None)
}

/// What only its reader and writer understand. `samples` are values that it takes, `beyond` some that
/// it refuses.
pub fn grammar<T: 'static>(
    shown: &'static str,
    takes: impl Into<Cow<'static, str>>,
    read: impl Fn(&T, &mut Words) -> Result<T, Refused> + 'static,
    write: impl Fn(&T) -> Option<String> + 'static,
    samples: &'static [&'static str],
    beyond: &'static [&'static str],
) -> Spec<T> {
    let sample = |rng: &mut Rng| samples[rng.below(samples.len() as u64) as usize].to_owned();
    Spec::new(Some(Value {
        value: shown,
        takes: takes.into(),
        read: Box::new(read),
        write: Box::new(write),
        sample: Box::new(sample),
        beyond: beyond.iter().map(|&text| text.to_owned()).collect(),
    }))
}

/// A value of one word.
pub fn value<T: 'static>(
    shown: &'static str,
    takes: impl Into<Cow<'static, str>>,
    read: impl Fn(&str) -> Option<T> + 'static,
    write: impl Fn(&T) -> String + 'static,
    sample: impl Fn(&mut Rng) -> String + 'static,
    beyond: Vec<String>,
) -> Spec<T> {
    Spec::new(Some(Value {
        value: shown,
        takes: takes.into(),
        read: Box::new(move |_, words| words.value(&words.takes.clone(), &read)),
        write: Box::new(move |v| Some(write(v))),
        sample: Box::new(sample),
        beyond,
    }))
}

/// One of the words, which are shown as `shown`.
pub fn choice<T: Clone + PartialEq + 'static, const N: usize>(
    shown: &'static str,
    words: [(&'static str, T); N],
) -> Spec<T> {
    let names = words.each_ref().map(|(name, _)| *name);
    let takes = match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    };
    let printed = words.clone();
    value(
        shown,
        takes,
        move |s| words.iter().find(|(name, _)| *name == s).map(|(_, v)| v.clone()),
        move |v| {
            let name = printed.iter().find(|(_, other)| other == v).map(|(name, _)| *name);
            name.expect("every value has a word").to_owned()
        },
        move |rng| names[rng.below(N as u64) as usize].to_owned(),
        vec!["none_of_these".to_owned()],
    )
}

/// `on` or `off`.
pub fn switch() -> Spec<bool> {
    let read = |s: &str| match s {
        "on" | "true" | "1" => Some(true),
        "off" | "false" | "0" => Some(false),
        _ => None,
    };
    let name = |on: bool| if on { "on" } else { "off" }.to_owned();
    let sample = move |rng: &mut Rng| name(rng.below(2) == 0);
    value("on|off", "on or off", read, move |&on| name(on), sample, vec!["maybe".to_owned()])
}

/// Spread evenly over the orders of magnitude within the range.
fn random_in(range: &RangeInclusive<u64>, rng: &mut Rng) -> u64 {
    let (min, span) = (*range.start(), range.end() - range.start());
    let bits = rng.below(u64::from(64 - span.leading_zeros()) + 1);
    let offset = if bits == 0 { 0 } else { rng.u64() >> (64 - bits) };
    min + offset.min(span)
}

fn whole<T>(range: RangeInclusive<T>, read: fn(&str) -> Option<u32>) -> Spec<T>
where
    T: Copy + Into<u64> + TryFrom<u32> + std::fmt::Display + 'static,
{
    let (min, max): (u64, u64) = ((*range.start()).into(), (*range.end()).into());
    let mut beyond = vec![(max + 1).to_string(), "-1".to_owned(), "x".to_owned()];
    beyond.extend(min.checked_sub(1).map(|below| below.to_string()));
    value(
        "NUMBER",
        format!("a whole number from {min} to {max}"),
        move |s| {
            read(s).filter(|&n| (min..=max).contains(&n.into())).and_then(|n| n.try_into().ok())
        },
        T::to_string,
        move |rng| random_in(&(min..=max), rng).to_string(),
        beyond,
    )
}

/// A whole decimal number.
pub fn count<T>(range: RangeInclusive<T>) -> Spec<T>
where
    T: Copy + Into<u64> + TryFrom<u32> + std::fmt::Display + 'static,
{
    whole(range, tc::parse_count)
}

/// A whole number in C's notation (`16`, `0x10`, `020`).
pub fn number<T>(range: RangeInclusive<T>) -> Spec<T>
where
    T: Copy + Into<u64> + TryFrom<u32> + std::fmt::Display + 'static,
{
    whole(range, tc::parse_count_any_base)
}

/// A whole number with a sign.
pub fn signed(range: RangeInclusive<i32>) -> Spec<i32> {
    let (min, max) = range.into_inner();
    let width = 0..=u64::from(max.abs_diff(min));
    value(
        "NUMBER",
        format!("a whole number from {min} to {max}"),
        move |s| s.parse().ok().filter(|n| (min..=max).contains(n)),
        i32::to_string,
        move |rng| (min + random_in(&width, rng) as i32).to_string(),
        vec![(i64::from(max) + 1).to_string(), (i64::from(min) - 1).to_string()],
    )
}

/// A time in `tc`'s units, whole microseconds. A zero below a minimum of 1 µs is what `tc` ignores.
pub fn time(range: RangeInclusive<Span>) -> Spec<Span> {
    let (min, max) = range.into_inner();
    let us = min.as_micros()..=max.as_micros();
    let mut takes = "a time such as 15ms, 500us or 1s".to_owned();
    let mut beyond = vec!["-1ms".to_owned(), "5parsecs".to_owned(), "5000s".to_owned()];
    if min > Span::ZERO {
        takes = takes.replace("a time", "a time above zero");
        beyond.push(tc::format_time(min - Span::from_micros(1)));
    }
    if max < TIME_MAX {
        takes += &format!(", at most {}", round_down(max));
        beyond.push(tc::format_time(max + Span::from_micros(1)));
    }
    value(
        "TIME",
        takes,
        move |s| tc::parse_time(s).filter(|t| (min..=max).contains(t)),
        |&t| tc::format_time(t),
        move |rng| format!("{}us", random_in(&us, rng)),
        beyond,
    )
}

/// A whole number of seconds says a long time well enough.
fn round_down(time: Span) -> String {
    let whole = Span::from_secs(time.as_micros() / 1_000_000);
    tc::format_time(if time > Span::from_secs(60) { whole } else { time })
}

/// The longest time of 32 bits of microseconds, and the shortest.
pub const TIME_MAX: Span = Span::from_micros(u32::MAX as u64);
pub const MICROSECOND: Span = Span::from_micros(1);

/// A time above zero.
pub fn some_time() -> Spec<Span> {
    time(MICROSECOND..=TIME_MAX)
}

/// A time, or zero.
pub fn any_time() -> Spec<Span> {
    time(Span::ZERO..=TIME_MAX)
}

/// A size in bytes, in `tc`'s units, at least `min` and at most `max`.
pub fn size(range: RangeInclusive<u32>) -> Spec<u32> {
    let (min, max) = range.into_inner();
    let mut takes = "a size such as 1514 or 64k (k is 1024)".to_owned();
    let mut beyond = vec!["-1".to_owned(), "5parsecs".to_owned(), "5g".to_owned()];
    if min > 0 {
        takes = takes.replace("a size", "a size above zero");
        beyond.push((min - 1).to_string());
    }
    if max < u32::MAX {
        takes += &format!(", at most {max}");
        beyond.push((u64::from(max) + 1).to_string());
    }
    value(
        "BYTES",
        takes,
        move |s| tc::parse_size(s).filter(|n| (min..=max).contains(n)),
        u32::to_string,
        move |rng| random_in(&(min.into()..=max.into()), rng).to_string(),
        beyond,
    )
}

/// A rate above zero, of 32 bits of bytes per second.
pub fn rate() -> Spec<Rate> {
    let fits = |rate: &Rate| (1..u64::from(u32::MAX)).contains(&(rate.bps() / 8));
    rate_if("a rate above zero such as 50mbit, below 34359mbit", fits, &["0", "40gbit", "5m"])
}

/// A rate that fits.
pub fn rate_if(
    takes: &'static str,
    fits: fn(&Rate) -> bool,
    beyond: &[&'static str],
) -> Spec<Rate> {
    let read = move |s: &str| tc::parse_rate(s).filter(fits);
    let sample = |rng: &mut Rng| format!("{}bit", 8 * random_in(&(1..=1_000_000_000), rng));
    let beyond = beyond.iter().map(|&text| text.to_owned()).collect();
    value("RATE", takes, read, |&rate| tc::format_rate(rate), sample, beyond)
}

/// A whole percentage.
pub fn percent(range: RangeInclusive<u8>) -> Spec<u8> {
    let (min, max) = range.into_inner();
    value(
        "PERCENTAGE",
        format!("a percentage from {min}% to {max}%"),
        move |s| tc::parse_percent(s).filter(|p| (min..=max).contains(p)),
        |p| format!("{p}%"),
        move |rng| format!("{}%", random_in(&(min.into()..=max.into()), rng)),
        vec!["101%".to_owned(), "-1%".to_owned(), "x".to_owned()],
    )
}

/// A number that `fits`; samples are between the two numbers of `range`.
pub fn real(
    shown: &'static str,
    takes: &'static str,
    fits: fn(f64) -> bool,
    range: (f64, f64),
) -> Spec<f64> {
    value(
        shown,
        takes,
        move |s| tc::parse_float(s).filter(|&(n, unit)| unit.is_empty() && fits(n)).map(|(n, _)| n),
        f64::to_string,
        move |rng| format!("{:.4}", range.0 + (range.1 - range.0) * rng.unit()),
        vec!["-1".to_owned(), "1x".to_owned()],
    )
}

/// A number between 0 and 1, neither of them.
pub fn fraction() -> Spec<f64> {
    real("FRACTION", "a number between 0 and 1", |x| x > 0.0 && x < 1.0, (0.01, 0.99))
}

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

/// Makes a struct, its `Default` and its [`Table`] from one list of
/// `field: Type = default, how it is said, "source of the default";`. The comment is the line of help.
macro_rules! params {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[doc = $help:literal])* $field:ident: $type:ty = $default:expr, $says:expr $(, $source:literal)?;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Debug)]
        $vis struct $name {
            $($(#[doc = $help])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default),* }
            }
        }

        impl $crate::params::Table for $name {
            fn params() -> Vec<$crate::params::Param<Self>> {
                #[allow(unused_mut)]
                let mut all = Vec::new();
                $(all.extend($crate::params::Says::of(
                    $says,
                    $crate::params::Meta {
                        keyword: stringify!($field),
                        help: concat!($($help),*).trim_ascii(),
                        source: concat!($($source)?),
                    },
                    |config: &mut Self| &mut config.$field,
                ));)*
                all
            }
        }
    };
}
pub(crate) use params;
