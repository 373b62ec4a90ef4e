//! The simulator's packets as bytes on the wire, and files that programs such as Wireshark
//! read: everything of l4slab that writes to a disk and is not a result table.
//!
//! * [`frame`] puts headers in front of a payload: Ethernet, IPv4, TCP or UDP, with checksums.
//! * [`wire`] knows what a simulated packet lacks: addresses, ports and byte sequence numbers.
//! * [`pcapng`] writes frames with times to a file.
//! * [`captures`] puts them together: two files per flow group of a run.

pub mod captures;
pub mod frame;
pub mod pcapng;
pub mod wire;
