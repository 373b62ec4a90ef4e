//! Each queue step by step against its RFC and against Linux, with vectors computed by hand, and what
//! every queue of the registry must hold.

// Expected values may come from the platform's mathematics; what is compared has tolerances.
#![allow(clippy::disallowed_methods)]

mod ack_filter;
mod cake;
mod changes;
mod choke;
mod codel;
mod curvy_red;
mod docsis;
mod dualpi2;
mod dualpi2_rfc9332;
mod fq;
mod fq_codel;
mod fq_pie;
mod harness;
mod hfsc;
mod hhf;
mod htb;
mod netem;
mod parameters;
mod pfifo_fast;
mod pi2;
mod pie;
mod police;
mod qdiscs;
mod red;
mod rounds;
mod sce;
mod sfb;
mod sfq;
mod stab;
mod tbf;
mod tc;
