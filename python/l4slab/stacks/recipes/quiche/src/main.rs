// A transfer over QUIC with quiche: `server CERTIFICATE KEY`, `client ADDRESS BYTES CC`; qlog into QLOGDIR. One
// thread, one socket.
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
const MTU: usize = 1350;
fn config() -> quiche::Config {
    let mut c = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    c.set_application_protos(&[b"transfer"]).unwrap();
    c.verify_peer(false);
    c.set_max_recv_udp_payload_size(1500);
    c.set_max_send_udp_payload_size(MTU);
    let w = 1 << 30;
    c.set_initial_max_data(w);
    c.set_max_connection_window(w);
    c.set_max_stream_window(w);
    c.set_initial_max_stream_data_bidi_local(w);
    c.set_initial_max_stream_data_bidi_remote(w);
    c.set_initial_max_streams_bidi(10);
    // More waits in the stack than its window takes, so that its window and its pace decide, not this loop.
    c.set_send_capacity_factor(20.0);
    c.set_max_idle_timeout(30000);
    c
}
/// An application that writes at APP_RATE ("5Mbit") and rests within APP_PAUSE ("10s 16s"); without them, one that always has data.
struct App { bytes_per_s: f64, pause: (f64, f64) }
impl App {
    fn new() -> App {
        let told = |name: &str| std::env::var(name).unwrap_or_default();
        let pause: Vec<f64> = told("APP_PAUSE").split('s').filter_map(|time| time.trim().parse().ok()).collect();
        App {
            bytes_per_s: told("APP_RATE").strip_suffix("Mbit").map_or(f64::INFINITY, |rate| rate.parse::<f64>().unwrap() * 1e6 / 8.0),
            pause: if let [from, to] = pause[..] { (from, to) } else { (0.0, 0.0) },
        }
    }
    /// How much more it has written until then, and what it would have is forgotten where the stack has not taken a block.
    fn more(&self, time: Duration, taken: &mut f64) -> u64 {
        const BLOCK: f64 = 65536.0;
        if !self.is_limited() { return u64::MAX; }
        let (now, (from, to)) = (time.as_secs_f64(), self.pause);
        let written = self.bytes_per_s * (now - (now.min(to) - from).max(0.0));
        *taken = taken.max(written - BLOCK);
        (written - *taken) as u64
    }
    fn is_limited(&self) -> bool { self.bytes_per_s.is_finite() }
}
/// Until a packet comes or the time is over. A socket's own timeout is in ticks of the kernel, too coarse for pacing.
fn sleep(sock: &UdpSocket, wait: Duration) {
    let mut one = libc::pollfd { fd: sock.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let time = libc::timespec { tv_sec: wait.as_secs() as _, tv_nsec: wait.subsec_nanos() as _ };
    unsafe { libc::ppoll(&mut one, 1, &time, std::ptr::null()) };
}
fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    let server = a[0] == "server";
    let sock = UdpSocket::bind(if server { "0.0.0.0:4433" } else { "0.0.0.0:0" }).unwrap();
    sock.set_nonblocking(true).unwrap();
    let local = sock.local_addr().unwrap();
    let mut config = config();
    let mut size: u64 = 0;
    let mut conn: Option<quiche::Connection> = None;
    if server {
        config.load_cert_chain_from_pem_file(&a[1]).unwrap();
        config.load_priv_key_from_pem_file(&a[2]).unwrap();
    } else {
        let to: SocketAddr = format!("{}:4433", a[1]).parse().unwrap();
        size = a[2].parse().unwrap();
        config.set_cc_algorithm_name(&a[3]).unwrap();
        let mut c = quiche::connect(Some("l4slab"), &quiche::ConnectionId::from_ref(&[7; 16]), local, to, &mut config).unwrap();
        if let Ok(folder) = std::env::var("QLOGDIR") {
            let file = std::fs::File::create(format!("{folder}/client.sqlog")).unwrap();
            let file = std::io::BufWriter::with_capacity(1 << 13, file);
            c.set_qlog_with_level(Box::new(file), "l4slab".into(), "bulk".into(), quiche::QlogLevel::Extra);
        }
        conn = Some(c);
    }
    let mut buf = [0u8; 65536];
    let mut out = [0u8; MTU];
    let zeros = [0u8; 65536];
    let mut left = size;
    let mut came = 0u64;
    let begun = Instant::now();
    let app = App::new();
    let mut written = 0f64;
    let mut first = true;
    let mut held: Option<(usize, quiche::SendInfo)> = None;
    loop {
        // when to wake: the stack's timer, or the departure time of the packet that is held back for pacing
        let now = Instant::now();
        let mut wait = conn.as_ref().and_then(|c| c.timeout()).unwrap_or(Duration::from_secs(3600));
        if let Some((_, i)) = &held { wait = wait.min(i.at.saturating_duration_since(now)); }
        if app.is_limited() { wait = wait.min(Duration::from_millis(1)); }
        if first && !server { wait = Duration::ZERO; first = false; }
        if !wait.is_zero() {
            sleep(&sock, wait);
        }
        let mut got = sock.recv_from(&mut buf).ok();
        if let Some(c) = conn.as_mut() { if got.is_none() && c.timeout() == Some(Duration::ZERO) { c.on_timeout(); } }
        while let Some((n, from)) = got {
            if conn.is_none() && server {
                let h = quiche::Header::from_slice(&mut buf[..n], 16).unwrap();
                if h.ty == quiche::Type::Initial {
                    conn = Some(quiche::accept(&quiche::ConnectionId::from_ref(&[9; 16]), None, local, from, &mut config).unwrap());
                    came = 0;
                }
            }
            if let Some(c) = conn.as_mut() { let _ = c.recv(&mut buf[..n], quiche::RecvInfo { from, to: local }); }
            got = sock.recv_from(&mut buf).ok();
        }
        let Some(c) = conn.as_mut() else { continue };
        for s in c.readable().collect::<Vec<_>>() {
            while let Ok((n, fin)) = c.stream_recv(s, &mut buf) {
                came += n as u64;
                if fin && server { c.stream_send(s, &came.to_be_bytes(), true).unwrap(); println!("{came} bytes came"); }
                if fin && !server { println!("transfer {:.3} s, {:?}", begun.elapsed().as_secs_f64(), c.stats()); c.close(true, 0, b"done").ok(); }
            }
        }
        loop {
            // as much as the stream takes, but only whole packets
            while !server && c.is_established() && left > 0 && c.stream_capacity(0).unwrap_or(if left == size { MTU } else { 0 }) >= MTU {
                let may = app.more(begun.elapsed(), &mut written);
                if may < MTU as u64 { break }
                let n = left.min(zeros.len() as u64).min(may) as usize;
                match c.stream_send(0, &zeros[..n], left == n as u64) { Ok(m) => { left -= m as u64; written += m as f64 } Err(_) => break }
            }
            if held.is_none() { match c.send(&mut out) { Ok(x) => held = Some(x), Err(_) => break } }
            let (n, i) = held.unwrap();
            if i.at > Instant::now() + Duration::from_micros(20) { break }
            let _ = sock.send_to(&out[..n], i.to);
            held = None;
        }
        // A client ends when its close has left. Until quiche calls the connection closed, three timeouts pass.
        if !server && c.local_error().is_some() && held.is_none() { return }
        if c.is_closed() { if !server { return } conn = None; held = None }
    }
}
