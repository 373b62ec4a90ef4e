//! TCP as Linux 7.2 does it, without the parts that a simulation of bulk data never reaches:
//! receive window limits, urgent data, TIME-WAIT.

mod client;
pub mod ecn;
mod handshake;
mod passive;
pub mod receiver;
pub mod recovery;
pub mod rtt;
pub mod scoreboard;
pub mod sender;
pub mod stream;
mod wheel;
pub mod windowed;
