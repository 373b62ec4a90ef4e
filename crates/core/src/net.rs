//! Network elements: small things that receive packets and wake up.

pub mod impair;
pub mod link;
pub mod pipe;
pub mod tap;
