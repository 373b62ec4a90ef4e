//! Controllers and queues of one's own: what comes to the core from outside while the program runs.
//!
//! An experiment file says `cc = "mine.py:Mine"` or `qdisc = "./libmine.so limit 100"`. What that means is
//! found out once, outside of the core, and told to it:
//!
//! 1. The package reads the file. Its content's hash goes into the run's description,
//!    `mine.py:Mine#0123456789abcdef`, and so into the run's id; the description stays plain text.
//! 2. A worker process, never the one that the user talks to, loads the code and says what it declares: a
//!    [`Table`] of parameters and gauges, made of the same kinds as those of built-in ones.
//! 3. Table and, in a worker, code are registered here under that reference
//!    ([`cc::own`](crate::cc::own), [`aqm::own`](crate::aqm::own)). From then on the registries of built-in
//!    ones read, complete, list and build it like any other.
//! 4. Runs that need it are computed by worker processes, one run at a time in each: a Python
//!    controller has an interpreter to itself, and code that crashes or never returns takes one run with it.
//! 5. What goes wrong in it is one sentence and ends the run, see [`fail`]. A run is not told apart in any
//!    other way: `transport` and links call the same traits.
//!
//! The core has neither Python nor dynamic libraries: it knows makers ([`Registry`]), which other crates
//! bring. Without them, as in the browser, there is nothing under such a name.

use std::collections::BTreeMap;
use std::panic;
use std::sync::{Arc, RwLock};

use crate::params::Refused;
use crate::params::declared::Table;

/// Why code of one's own cannot go on, in one sentence: what [`fail`] unwinds with.
#[derive(Debug)]
pub struct Failure(pub String);

/// Ends the run at hand. None of the traits that somebody implements can return an error, and none
/// should: there is nothing that a sender or a link could do about it. Whoever runs simulations with such
/// code catches the unwinding.
#[cold]
pub fn fail(sentence: String) -> ! {
    panic::resume_unwind(Box::new(Failure(sentence)))
}

/// A name, and behind this character the hash of the file.
pub const HASH: char = '#';

/// A reference as an experiment file has it: without the hash.
pub fn written(reference: &str) -> &str {
    reference.split(HASH).next().unwrap_or(reference)
}

/// What was registered under a reference.
#[derive(Debug)]
pub struct Entry<M: ?Sized> {
    pub table: &'static Table,
    /// Makes it; `None` where only its table is known.
    pub maker: Option<Box<M>>,
}

impl<M: ?Sized> Entry<M> {
    pub fn maker(&self) -> &M {
        let name = self.table.name;
        let text = || format!("{name} is not loaded here; l4slab run computes runs that have it");
        self.maker.as_deref().unwrap_or_else(|| fail(text()))
    }
}

/// What has come from outside, by reference.
pub struct Registry<M: ?Sized>(RwLock<BTreeMap<String, Arc<Entry<M>>>>);

impl<M: ?Sized> Registry<M> {
    pub const fn new() -> Registry<M> {
        Registry(RwLock::new(BTreeMap::new()))
    }
    /// Adds it, or takes the place of what has this reference.
    pub fn register(&self, reference: &str, table: &'static Table, maker: Option<Box<M>>) {
        let mut all = self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        all.insert(reference.to_owned(), Arc::new(Entry { table, maker }));
    }
    /// What is declared under this reference.
    pub fn table(&self, reference: &str) -> Option<&'static Table> {
        let all = self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        all.get(reference).map(|entry| entry.table)
    }
    /// Finds it; `None`: that is not the name of anything that comes from outside.
    pub fn find(
        &self,
        what: &'static str,
        reference: &str,
    ) -> Option<Result<Arc<Entry<M>>, Refused>> {
        if !reference.contains(HASH) {
            return None;
        }
        let all = self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let hint = "it is code of one's own, which only l4slab run has";
        Some(all.get(reference).cloned().ok_or_else(|| Refused::UnknownName {
            what,
            name: written(reference).to_owned(),
            hint: hint.to_owned(),
        }))
    }
}

impl<M: ?Sized> Default for Registry<M> {
    fn default() -> Registry<M> {
        Registry::new()
    }
}
