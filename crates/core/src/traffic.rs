//! Traffic: what is not TCP, and what applications ask of TCP.

pub mod cbr;
pub mod poisson;
pub mod video;
pub mod web;
