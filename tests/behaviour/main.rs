//! How whole runs behave: negotiation, repair of losses, paths of several links, and what holds in
//! every run. Meant for `cargo test --profile optimised`; `-- --nocapture` prints what was measured.

// Expected values may come from the platform's mathematics; what is compared has tolerances.
#![allow(clippy::disallowed_methods)]

mod bbr;
mod bbr3;
mod changes;
mod impair;
mod invariants;
#[path = "../laws/lab.rs"]
mod lab;
mod multilink;
mod negotiation;
mod offload;
mod own_host;
mod receive_window;
mod recovery;
mod traces;
mod tunnel;
