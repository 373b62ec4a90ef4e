//! What packets meet between two hosts: links, impairments, and what rewrites their headers.

pub mod deadlines;
pub mod impair;
pub mod inbox;
pub mod link;
pub mod rewrite;
pub mod tap;
