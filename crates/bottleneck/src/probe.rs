//! Measures how long packets wait in the ring of a TUN device before the forwarder reads them. A thread sends a small
//! datagram with the time in it now and then, to an address that only the forwarder knows. It never reaches a queue.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::frame::Unit;
use crate::system;

pub const ADDRESS: [u8; 4] = [10, 0, 0, 254];
const PORT: u16 = 9;
const MAGIC: u64 = 0x6c34_736c_6162_2e31;

/// A socket of the network namespace at hand.
pub fn socket(from: [u8; 4]) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::from(from), 0))?;
    socket.connect((Ipv4Addr::from(ADDRESS), PORT))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Sends probes from all namespaces until `stop`, 200 a second of all together, at uneven distances.
pub fn start(sockets: Vec<UdpSocket>, stop: Arc<AtomicBool>) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name("probe".to_owned()).spawn(move || {
        system::wake_sharply();
        let mut odd = 1_u64;
        while !stop.load(Ordering::Relaxed) {
            for socket in &sockets {
                odd = odd.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                thread::sleep(Duration::from_micros(2_000 + (odd >> 33) % 6_000));
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&MAGIC.to_be_bytes());
                bytes[8..].copy_from_slice(&system::clock().to_be_bytes());
                // A full ring is counted by the device.
                let _ = socket.send(&bytes);
            }
        }
    })
}

/// When a probe was sent; `None`: it is none.
pub fn sent_at(unit: &Unit) -> Option<u64> {
    let (to, port, payload) = unit.datagram()?;
    if to != ADDRESS || port != PORT || payload.len() != 16 {
        return None;
    }
    let number = |at: usize| u64::from_be_bytes(payload[at..at + 8].try_into().expect("8 bytes"));
    (number(0) == MAGIC).then(|| number(8))
}
