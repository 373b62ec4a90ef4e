//! `spec/laws.md` as tests: every closed form with its tolerance. Meant for `cargo test --profile optimised`,
//! where all of them take about half a minute on two cores; `-- --nocapture` prints what was measured.

// Expected values may come from the platform's mathematics; what is compared has tolerances.
#![allow(clippy::disallowed_methods)]

mod access;
mod cake;
mod classes;
mod coupling;
mod docsis;
mod jitter;
mod lab;
mod media;
mod overload;
mod pages;
mod pie_family;
mod policer;
mod prague;
mod queueing;
mod rates;
mod recording;
mod responsiveness;
mod sce;
mod sce_senders;
mod step;
mod timing;
mod udp_prague;
mod utilisation;
mod waits;
mod web;
