//! Traffic that is not TCP.

pub mod cbr;
