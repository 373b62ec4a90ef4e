//! TCP as Linux 7.2 does it, without the parts that a simulation of bulk data never reaches:
//! urgent data, resets, TIME-WAIT. [`endpoint`] is one host's end under a clock from outside. [`rtp`] is the feedback of media.

pub mod delivery;
pub mod ecn;
pub mod endpoint;
mod handshake;
pub mod options;
pub mod rack;
pub mod receiver;
pub mod rtp;
pub mod rtt;
pub mod scoreboard;
mod send_queue;
pub mod sender;
pub mod stream;
pub mod undo;
mod wheel;
