//! The notation of values: the kinds of parameters that `params!` lists, and kinds that a queue
//! adds with [`value`] and [`grammar`].

use std::any::Any;
use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::rc::Rc;

use super::{Config, DERIVED, Field, Module, Param, Refused, Row, Table, Words};
use crate::rng::Rng;
use crate::tc;
use crate::time::Span;
use crate::units::Rate;

/// The notation of a value of type `T`: a keyword with a value, single words, or either.
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

/// A field of `params!`.
#[derive(Copy, Clone, Debug)]
pub struct Meta {
    pub keyword: &'static str,
    pub help: &'static str,
    pub source: &'static str,
}

/// Where a field stands in its struct.
pub type Place<T> = Rc<dyn Fn(&mut dyn Config) -> &mut T>;

/// The place that `field` finds in a `C`.
pub fn place<C: 'static, T: ?Sized>(field: impl Fn(&mut C) -> &mut T + 'static) -> Place<T> {
    Rc::new(move |config| {
        let config = (config as &mut dyn Any).downcast_mut();
        field(config.expect("a table is asked about its own struct"))
    })
}

/// [`Spec`], or [`nested`].
pub trait Says<T> {
    fn of(self, meta: Meta, place: Place<T>) -> Vec<Param>;
}

struct Placed<T> {
    spec: Spec<T>,
    place: Place<T>,
    rows: Vec<Row>,
}

impl<T: 'static> Says<T> for Spec<T> {
    fn of(self, meta: Meta, place: Place<T>) -> Vec<Param> {
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

impl<T> Field for Placed<T> {
    fn rows(&self) -> &[Row] {
        &self.rows
    }
    fn read(&self, config: &mut dyn Config, row: usize, words: &mut Words) -> Result<(), Refused> {
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
    fn write(&self, config: &dyn Config) -> Option<String> {
        let mut config = config.copy();
        let value = (self.place)(&mut *config);
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

impl<T> Placed<T> {
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

impl<D: Table> Says<D> for Nested {
    fn of(self, _: Meta, place: Place<D>) -> Vec<Param> {
        let place: Place<dyn Config> = Rc::new(move |config| place(config));
        let inside = |param| Box::new(Inside { param, place: place.clone() }) as Param;
        D::params().into_iter().map(inside).collect()
    }
}

/// A parameter of a struct within another.
pub(super) struct Inside {
    pub param: Param,
    pub place: Place<dyn Config>,
}

impl Field for Inside {
    fn rows(&self) -> &[Row] {
        self.param.rows()
    }
    fn read(&self, config: &mut dyn Config, row: usize, words: &mut Words) -> Result<(), Refused> {
        self.param.read((self.place)(config), row, words)
    }
    fn write(&self, config: &dyn Config) -> Option<String> {
        self.param.write((self.place)(&mut *config.copy()))
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
    /// The placeholder of the value in the listing.
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

/// No words of its own: [`Described::finish`](super::Described::finish) sets it, or [`Spec::also`] does.
pub fn unsaid<T: 'static>() -> Spec<T> {
    Spec::new(None)
}

/// A value with its own reader and writer. `samples` are valid values, `beyond` are values that it
/// refuses.
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

/// A time in `tc`'s units, whole microseconds. `tc` ignores a zero below a minimum of 1 µs.
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

/// Makes a struct, its `Default` and its [`Table`] from one list of
/// `field: Type = default, notation, "source of the default";`. The comment is the line of help.
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
            fn params() -> Vec<$crate::params::Param> {
                #[allow(unused_mut)]
                let mut all = Vec::new();
                $(all.extend($crate::params::kinds::Says::of(
                    $says,
                    $crate::params::kinds::Meta {
                        keyword: stringify!($field),
                        help: concat!($($help),*).trim_ascii(),
                        source: concat!($($source)?),
                    },
                    $crate::params::kinds::place(|config: &mut Self| &mut config.$field),
                ));)*
                all
            }
        }
    };
}
pub(crate) use params;
