//! Network elements: small things that receive packets and wake up.

pub mod link;
pub mod pipe;
