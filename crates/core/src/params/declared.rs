//! Tables that are declared while the program runs: the parameters and gauges of a custom controller or
//! queue. They are printed, read, refused and listed like those of `params!`.
//!
//! Declarations stay until the process ends, so that their names can be used like built-in ones. A process
//! has only a few.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::kinds::{self, Inside, MICROSECOND, Meta, Says, Spec, TIME_MAX};
use super::{Changed, Config, Gauge, Info, Owner, Param, Refused, Words};
use crate::rng::Rng;
use crate::tc;
use crate::time::Span;
use crate::units::Rate;

/// The declaration of a custom controller or queue.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// Its name in an experiment file, such as `mine.py:Mine`.
    pub name: String,
    pub summary: String,
    pub parameters: Vec<Parameter>,
    pub gauges: Vec<DeclaredGauge>,
    /// The queues inside a queue that are reported apart; none: it is one.
    #[serde(default)]
    pub bands: Vec<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    pub keyword: String,
    pub help: String,
    pub kind: Kind,
    /// As it is written.
    pub default: String,
    /// The range, of numbers and whole numbers; of sizes in bytes, of times in nanoseconds.
    #[serde(default)]
    pub least: Option<f64>,
    #[serde(default)]
    pub most: Option<f64>,
    /// Of a choice.
    #[serde(default)]
    pub choices: Vec<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredGauge {
    pub name: String,
    pub unit: String,
    pub help: String,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Number,
    Whole,
    Time,
    Rate,
    Size,
    Switch,
    Choice,
}

/// A value of a declared parameter.
#[derive(Copy, Clone, PartialEq, Debug)]
pub enum Value {
    Number(f64),
    Whole(u32),
    Time(Span),
    Rate(Rate),
    Size(u32),
    Switch(bool),
    Choice(&'static str),
}

impl Value {
    /// Nothing yet.
    fn of(kind: Kind) -> Value {
        match kind {
            Kind::Number => Value::Number(0.0),
            Kind::Whole => Value::Whole(0),
            Kind::Time => Value::Time(Span::ZERO),
            Kind::Rate => Value::Rate(Rate::from_bps(0)),
            Kind::Size => Value::Size(0),
            Kind::Switch => Value::Switch(false),
            Kind::Choice => Value::Choice(""),
        }
    }
}

/// A declaration whose names live as long as the process.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    pub summary: &'static str,
    parameters: Vec<Slot>,
    pub gauges: Vec<Gauge>,
    pub bands: &'static [&'static str],
    defaults: Vec<Value>,
}

/// A parameter, and the place of its value.
#[derive(Clone, Debug)]
struct Slot {
    meta: Meta,
    kind: Kind,
    range: RangeInclusive<f64>,
    choices: &'static [&'static str],
    index: usize,
}

/// The parameters of a declared controller or queue.
#[derive(Clone, Debug)]
pub struct Values {
    pub table: &'static Table,
    values: Vec<Value>,
}

impl PartialEq for Values {
    fn eq(&self, other: &Values) -> bool {
        std::ptr::eq(self.table, other.table) && self.values == other.values
    }
}

/// Their numbers fit into a byte, with one to spare.
const MOST_BANDS: usize = 64;

fn keep(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// Checks a name that is used in tables, words and columns.
fn check_name(what: &str, name: &str) -> Result<(), String> {
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    if begins && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
        return Ok(());
    }
    Err(format!("{what} \"{name}\" has a name with more than small letters, digits and _"))
}

/// Checks the names of inner queues.
fn check_bands(bands: &[String]) -> Result<(), String> {
    if bands.len() > MOST_BANDS {
        return Err(format!("declares {} bands; it can have {MOST_BANDS}", bands.len()));
    }
    for (place, name) in bands.iter().enumerate() {
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(format!(
                "the band \"{name}\" has a name that is not of letters, digits and _"
            ));
        }
        if name == "all" || bands[..place].contains(name) {
            return Err(format!("the band \"{name}\" is there already; give it another name"));
        }
    }
    Ok(())
}

impl Table {
    /// Keeps a declaration.
    ///
    /// # Errors
    /// One sentence that names the parameter or the gauge, and the fix.
    pub fn declare(declaration: Declaration) -> Result<&'static Table, String> {
        let Declaration { name, summary, parameters, gauges, bands } = declaration;
        check_bands(&bands)?;
        let mut slots: Vec<Slot> = Vec::new();
        for parameter in &parameters {
            check_name("the parameter", &parameter.keyword)?;
            if parameters.iter().filter(|p| p.keyword == parameter.keyword).count() > 1 {
                return Err(format!("the parameter \"{}\" is declared twice", parameter.keyword));
            }
        }
        for gauge in &gauges {
            check_name("the gauge", &gauge.name)?;
        }
        let mut given = Vec::new();
        for (index, p) in parameters.into_iter().enumerate() {
            let (least, most) = range_of(p.kind);
            let range = p.least.unwrap_or(least).max(least)..=p.most.unwrap_or(most).min(most);
            if range.is_empty() {
                return Err(format!("the parameter \"{}\" has a range without a value", p.keyword));
            }
            let choices: Vec<_> = p.choices.into_iter().map(keep).collect();
            if p.kind == Kind::Choice && choices.is_empty() {
                return Err(format!("the parameter \"{}\" has no choices", p.keyword));
            }
            let meta = Meta { keyword: keep(p.keyword), help: keep(p.help), source: "declared" };
            given.push((meta.keyword, p.default));
            slots.push(Slot { meta, kind: p.kind, range, choices: choices.leak(), index });
        }
        let gauge =
            |g: DeclaredGauge| Gauge { name: keep(g.name), unit: keep(g.unit), help: keep(g.help) };
        let defaults = slots.iter().map(|slot| Value::of(slot.kind)).collect();
        let mut table = Table {
            name: keep(name),
            summary: keep(summary),
            parameters: slots,
            gauges: gauges.into_iter().map(gauge).collect(),
            bands: bands.into_iter().map(keep).collect::<Vec<_>>().leak(),
            defaults,
        };
        // The defaults are read as if they were written in a file.
        for (slot, (keyword, default)) in table.parameters.iter().zip(&given) {
            let mut value = table.defaults[slot.index];
            let default: Vec<_> = default.split_whitespace().collect();
            let mut words = Words::new(table.name, &default);
            words.keyword = keyword;
            let param = slot.param();
            param.read(&mut value, 0, &mut words).map_err(|refused| match refused {
                Refused::BadValue { value, fix, .. } => {
                    format!("the default \"{value}\" of {keyword} is refused; {fix}")
                }
                _ => format!("the parameter \"{keyword}\" has no default; give it one"),
            })?;
            table.defaults[slot.index] = value;
        }
        Ok(Box::leak(Box::new(table)))
    }

    fn owner(&self) -> Owner {
        Owner { name: self.name, abbreviated: &[], not_modelled: &[] }
    }
    fn params(&self) -> Vec<Param> {
        let inside = self.parameters.iter().map(|slot| {
            let index = slot.index;
            let place = kinds::place(move |values: &mut Values| {
                &mut values.values[index] as &mut dyn Config
            });
            Box::new(Inside { param: slot.param(), place }) as Param
        });
        inside.collect()
    }
    fn defaults(&'static self) -> Values {
        Values { table: self, values: self.defaults.clone() }
    }

    /// Reads keywords with their values.
    pub fn read_words<'a>(
        &'static self,
        words: impl Iterator<Item = &'a str>,
    ) -> Result<Values, Refused> {
        let mut values = self.defaults();
        let words: Vec<_> = words.collect();
        super::words_into(&self.owner(), &self.params(), &mut values, &words)?;
        Ok(values)
    }
    /// Values after a change by words, and these.
    pub fn change_words<'a>(
        &'static self,
        before: &Values,
        words: impl Iterator<Item = &'a str>,
    ) -> Result<Changed<Values>, Refused> {
        let mut config = before.clone();
        let words: Vec<_> = words.collect();
        let given = super::words_into(&self.owner(), &self.params(), &mut config, &words)?;
        Ok(Changed { config, words: given.without(&[]) })
    }
    /// Reads options given by name.
    pub fn read_options(&'static self, options: &[(&str, &str)]) -> Result<Values, Refused> {
        let mut values = self.defaults();
        super::options_into(&self.owner(), &self.params(), &mut values, options)?;
        Ok(values)
    }
    /// Its line of `l4slab list`.
    pub fn info(&'static self) -> Info {
        Info {
            name: self.name,
            summary: self.summary,
            in_linux: false,
            parameters: super::rows_of(self.params(), &self.defaults()),
            required: "",
            presets: &[],
            gauges: self.gauges.clone(),
            not_modelled: &[],
        }
    }
}

impl Values {
    /// Keyword and value of every parameter, in the order of the declaration.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, Value)> {
        let table = self.table;
        table.parameters.iter().map(|slot| (slot.meta.keyword, self.values[slot.index]))
    }
    /// Every parameter with its value, as options.
    pub fn write_options(&self) -> Vec<(&'static str, String)> {
        super::options_of(self.table.params(), &[], self)
    }
    /// The same as words.
    pub fn write_words(&self) -> String {
        super::words_of(self.table.params(), &[], self)
    }
}

/// The maximum of a kind of parameter, in the units of `Parameter::least`.
fn range_of(kind: Kind) -> (f64, f64) {
    match kind {
        Kind::Number => (f64::MIN, f64::MAX),
        Kind::Time => (0.0, TIME_MAX.0 as f64),
        _ => (0.0, f64::from(u32::MAX)),
    }
}

impl Slot {
    /// The notation of its value.
    fn param(&self) -> Param {
        let (least, most) = (*self.range.start(), *self.range.end());
        let whole = least as u32..=most as u32;
        match self.kind {
            Kind::Number => self.of(number(least, most), |value| match value {
                Value::Number(n) => n,
                _ => unreachable!(),
            }),
            Kind::Whole => self.of(kinds::count(whole), |value| match value {
                Value::Whole(n) => n,
                _ => unreachable!(),
            }),
            Kind::Size => self.of(kinds::size(whole), |value| match value {
                Value::Size(n) => n,
                _ => unreachable!(),
            }),
            Kind::Time => {
                let least = Span((least as u64).next_multiple_of(MICROSECOND.0));
                self.of(kinds::time(least..=Span(most as u64)), |value| match value {
                    Value::Time(t) => t,
                    _ => unreachable!(),
                })
            }
            Kind::Rate => self.of(kinds::rate(), |value| match value {
                Value::Rate(r) => r,
                _ => unreachable!(),
            }),
            Kind::Switch => self.of(kinds::switch(), |value| match value {
                Value::Switch(b) => b,
                _ => unreachable!(),
            }),
            Kind::Choice => self.of(choice(self.choices), |value| match value {
                Value::Choice(word) => word,
                _ => unreachable!(),
            }),
        }
    }
    fn of<T: 'static>(&self, spec: Spec<T>, place: fn(&mut Value) -> &mut T) -> Param {
        let mut all = spec.of(self.meta, kinds::place(place));
        all.pop().expect("a parameter with a value has one field")
    }
}

/// A number of the range.
fn number(least: f64, most: f64) -> Spec<f64> {
    let takes = match (least == f64::MIN, most == f64::MAX) {
        (true, true) => "a number".to_owned(),
        (false, true) => format!("a number from {least} on"),
        (true, false) => format!("a number up to {most}"),
        (false, false) => format!("a number from {least} to {most}"),
    };
    let read = move |text: &str| {
        let (n, unit) = tc::parse_float(text)?;
        (unit.is_empty() && (least..=most).contains(&n)).then_some(n)
    };
    let sample = move |rng: &mut Rng| {
        let (low, high) = (least.max(-1e6), most.min(1e6));
        (low + (high - low) * rng.unit()).to_string()
    };
    kinds::value("NUMBER", takes, read, f64::to_string, sample, vec!["1x".to_owned()])
}

/// One of the words.
fn choice(words: &'static [&'static str]) -> Spec<&'static str> {
    let takes = match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.concat(),
    };
    let sample = |rng: &mut Rng| words[rng.below(words.len() as u64) as usize].to_owned();
    let read = |text: &str| words.iter().find(|word| **word == text).copied();
    let write = |word: &&'static str| (*word).to_owned();
    kinds::value("WORD", takes, read, write, sample, vec!["none_of_these".to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(parameters: &str) -> Result<&'static Table, String> {
        let text = format!(
            r#"{{"name": "x.py:X", "summary": "s", "gauges": [], "parameters": [{parameters}]}}"#
        );
        Table::declare(serde_json::from_str(&text).expect("a declaration"))
    }

    #[test]
    fn declared_parameters_are_said_and_refused_as_built_in_ones() {
        let table = table(
            r#"{"keyword": "beta", "help": "h", "kind": "number", "default": "0.5", "least": 0, "most": 1},
               {"keyword": "target", "help": "h", "kind": "time", "default": "15ms"},
               {"keyword": "limit", "help": "h", "kind": "whole", "default": "1000", "least": 1},
               {"keyword": "mode", "help": "h", "kind": "choice", "default": "a", "choices": ["a", "b"]}"#,
        );
        let table = table.expect("all of it is right");
        let values = table.read_words("limit 7 target 5ms".split(' ')).expect("words");
        assert_eq!(values.write_words(), "beta 0.5 target 5ms limit 7 mode a");
        let refused = |words: &str| {
            table.read_words(words.split(' ')).expect_err("it is to be refused").to_string()
        };
        assert_eq!(
            refused("beta 2"),
            "x.py:X: beta \"2\" is refused; it takes a number from 0 to 1 (default 0.5)"
        );
        assert_eq!(refused("mode c"), "x.py:X: mode \"c\" is refused; it takes a or b (default a)");
        assert_eq!(
            refused("limits 3"),
            "x.py:X has no keyword \"limits\"; did you mean \"limit\"?"
        );
        assert_eq!(table.info().parameters[1].default, "15ms");
    }

    #[test]
    fn a_declaration_that_contradicts_itself_is_a_sentence() {
        let wrong = table(r#"{"keyword": "n", "help": "h", "kind": "whole", "default": "-1"}"#);
        let text = wrong.expect_err("no whole number");
        assert!(text.starts_with("the default \"-1\" of n is refused; it takes a whole"), "{text}");
        let twice = r#"{"keyword": "n", "help": "h", "kind": "whole", "default": "1"}"#;
        assert!(table(&format!("{twice}, {twice}")).is_err_and(|text| text.contains("twice")));
        let name = r#"{"keyword": "N x", "help": "h", "kind": "whole", "default": "1"}"#;
        assert!(table(name).is_err_and(|text| text.contains("small letters")));
    }
}
