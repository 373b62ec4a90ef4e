//! Custom controllers and queues: code that is registered in the core while the program runs.
//!
//! An experiment file says `cc = "mine.py:Mine"` or `qdisc = "./libmine.so limit 100"`. Code outside of the
//! core resolves such a name once and registers it here:
//!
//! 1. The package reads the file. Its content's hash goes into the run's description,
//!    `mine.py:Mine#0123456789abcdef`, and so into the run's id; the description stays plain text.
//! 2. A worker process, never the user's own, loads the code and reports its declaration: a [`Table`] of
//!    parameters and gauges, of the same kinds as built-in ones.
//! 3. The table and, in a worker, the code are registered here under that reference
//!    ([`cc::own`](crate::cc::own), [`aqm::own`](crate::aqm::own)). From then on the registries of built-in
//!    ones read, complete, list and build it like any other.
//! 4. Worker processes compute the runs that need it, one run at a time each. So a Python controller has an
//!    interpreter to itself, and code that crashes or never returns takes only one run with it.
//! 5. An error in the code ends the run with one sentence, see [`fail`]. Otherwise such a run is like any
//!    other: `transport` and links call the same traits.
//!
//! The core has neither Python nor dynamic libraries. It knows makers ([`Registry`]), which other crates
//! provide. Without these crates, as in the browser, no such name is registered.

use std::collections::BTreeMap;
use std::panic;
use std::sync::{Arc, RwLock};

use crate::params::Refused;
use crate::params::declared::Table;

/// The payload with which [`fail`] unwinds: why custom code failed, in one sentence.
#[derive(Debug)]
pub struct Failure(pub String);

/// Ends the current run. The traits that users implement return no errors, because a sender or a link
/// could not handle one. A caller that runs simulations with such code catches the unwinding.
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

/// The entry registered under a reference.
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

/// Custom code, by reference.
pub struct Registry<M: ?Sized>(RwLock<BTreeMap<String, Arc<Entry<M>>>>);

impl<M: ?Sized> Registry<M> {
    pub const fn new() -> Registry<M> {
        Registry(RwLock::new(BTreeMap::new()))
    }
    /// Adds an entry, or replaces the one with this reference.
    pub fn register(&self, reference: &str, table: &'static Table, maker: Option<Box<M>>) {
        let mut all = self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        all.insert(reference.to_owned(), Arc::new(Entry { table, maker }));
    }
    /// The table declared under this reference.
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
