//! TCP from the bottleneck to the outside in two connections.
//!
//! `pasta` has no congestion control towards a namespace: what a queue drops it sends again at once, so a download through
//! a bottleneck would be a flood. Here the connection that crosses the bottleneck ends in the kernel of the server's
//! namespace, which is a real sender, and another one goes on through `pasta`.

use std::io::{self, copy};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::system;

const ANSWERS: Duration = Duration::from_secs(10);

/// Sockets of both families that take the connections which the kernel turns to their ports.
pub struct Relay(Vec<TcpListener>);

impl Relay {
    /// The ports: of IPv4, and of IPv6 where the kernel has that.
    pub fn open() -> io::Result<(Relay, [Option<u16>; 2])> {
        let v4 = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let v6 = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).ok();
        let port = |listener: &TcpListener| listener.local_addr().map(|at| at.port()).ok();
        let ports = [port(&v4), v6.as_ref().and_then(port)];
        Ok((Relay([Some(v4), v6].into_iter().flatten().collect()), ports))
    }

    /// Takes connections for as long as the process lives.
    pub fn run(self) {
        let threads = self.0.into_iter().map(|listener| thread::spawn(move || accept(&listener)));
        for thread in threads.collect::<Vec<_>>() {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener) {
    for inner in listener.incoming().flatten() {
        // One that cannot have a thread is closed.
        let _ = thread::Builder::new().spawn(move || connect(&inner));
    }
}

/// Ends when both directions have ended, or with the first error.
fn connect(inner: &TcpStream) -> io::Result<()> {
    let to: SocketAddr = system::original_destination(inner)?;
    let outer = TcpStream::connect_timeout(&to, ANSWERS)?;
    inner.set_nodelay(true)?;
    outer.set_nodelay(true)?;
    thread::scope(|scope| {
        let up = scope.spawn(|| forward(inner, &outer));
        let down = forward(&outer, inner);
        up.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())).and(down)
    })
}

fn forward(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    match copy(&mut from, &mut to) {
        Ok(_) => to.shutdown(Shutdown::Write),
        Err(e) => {
            // Neither end waits for the other one.
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            Err(e)
        }
    }
}
