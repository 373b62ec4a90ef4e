//! quinn-proto at the ends of an endpoint: what a program with sockets does for it, under the lab's clock.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use l4slab::{Ecn, EndId, Event, Lab, Packet};
use quinn_proto::congestion::ControllerFactory;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint,
    EndpointConfig, ServerConfig, StreamId, TransportConfig,
};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519, SerialNumber};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{RootCertStore, crypto};

const CHUNK: [u8; 65536] = [0; 65536];

/// A QUIC host with one connection.
struct Host {
    end: EndId,
    is_client: bool,
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    stream: Option<StreamId>,
    received: u64,
}

/// A client at the near end of `flow` sends on one stream for as long as the lab lasts, with this congestion control.
/// Returns the bytes that its server has read.
pub fn upload<C>(lab: &mut Lab, flow: &str, controller: C) -> u64
where
    C: ControllerFactory + Send + Sync + 'static,
{
    let ends = lab.ends(flow).expect("an endpoint of this name");
    // The stack's clock: any instant will do for the start.
    let start = Instant::now();
    let (client, server) = configurations(controller);
    let [mut near, mut far] = [Host::new(ends[0], None), Host::new(ends[1], Some(server))];
    let peer = address(ends[1]);
    near.connection = Some(near.endpoint.connect(start, client, peer, "lab").expect("a connection"));
    near.drive(lab, start);
    while let Some(event) = lab.next_event() {
        let end = match event {
            Event::Arrival(end) => end.number(),
            Event::Timer(token) => token as usize,
        };
        let host = if end == ends[0].number() { &mut near } else { &mut far };
        host.take(lab, start);
        host.drive(lab, start);
    }
    far.received
}

impl Host {
    fn new(end: EndId, server: Option<Arc<ServerConfig>>) -> Host {
        let mut config = EndpointConfig::default();
        config.rng_seed(Some([end.number() as u8; 32]));
        let is_client = server.is_none();
        let endpoint = Endpoint::new(Arc::new(config), server, true, None);
        Host { end, is_client, endpoint, connection: None, stream: None, received: 0 }
    }

    /// What has arrived, and timers that are due.
    fn take(&mut self, lab: &mut Lab, start: Instant) {
        let (now, from) = (start + lab.now(), address(self.end.peer()));
        while let Some(packet) = lab.receive(self.end) {
            let ecn = EcnCodepoint::from_bits(packet.ecn.bits());
            let (data, mut answer) = (BytesMut::from(&packet.bytes[..]), Vec::new());
            match self.endpoint.handle(now, from, None, ecn, data, &mut answer) {
                Some(DatagramEvent::ConnectionEvent(_, event)) => {
                    self.connection.as_mut().expect("it is known").1.handle_event(event);
                }
                Some(DatagramEvent::NewConnection(incoming)) => {
                    self.connection = self.endpoint.accept(incoming, now, &mut answer, None).ok();
                }
                Some(DatagramEvent::Response(_)) | None => {}
            }
        }
        if let Some((_, connection)) = &mut self.connection
            && connection.poll_timeout().is_some_and(|at| at <= now)
        {
            connection.handle_timeout(now);
        }
    }

    /// What the application and the connection do about it.
    fn drive(&mut self, lab: &mut Lab, start: Instant) {
        let now = start + lab.now();
        let Some((handle, connection)) = &mut self.connection else { return };
        while connection.poll().is_some() {}
        if !connection.is_handshaking() {
            self.stream = self.stream.or_else(|| match self.is_client {
                true => connection.streams().open(Dir::Uni),
                false => connection.streams().accept(Dir::Uni),
            });
        }
        match self.stream {
            Some(id) if self.is_client => while connection.send_stream(id).write(&CHUNK).is_ok() {},
            Some(id) => {
                let mut stream = connection.recv_stream(id);
                if let Ok(mut chunks) = stream.read(true) {
                    while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                        self.received += chunk.bytes.len() as u64;
                    }
                    let _ = chunks.finalize();
                }
            }
            None => {}
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        let mut bytes = Vec::new();
        while let Some(sent) = connection.poll_transmit(now, 1, &mut bytes) {
            let ecn = Ecn::from_bits(sent.ecn.map_or(0, |ecn| ecn as u8));
            let packet = Packet::new(std::mem::take(&mut bytes)).ecn(ecn);
            // A probe for a larger MTU than the flow has is lost, as on a wire.
            let _ = lab.send(self.end, packet);
        }
        let token = self.end.number() as u64;
        lab.cancel(token);
        if let Some(at) = connection.poll_timeout() {
            lab.wake_at(at.duration_since(start), token);
        }
    }
}

fn address(end: EndId) -> SocketAddr {
    (Ipv4Addr::new(10, 0, 0, end.number() as u8 + 1), 4433).into()
}

/// Keys and certificates of a fixed length: the ciphertext is random, and the times are not.
fn configurations<C>(controller: C) -> (ClientConfig, Arc<ServerConfig>)
where
    C: ControllerFactory + Send + Sync + 'static,
{
    let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
    let mut params = CertificateParams::new(vec!["lab".to_owned()]).expect("a name");
    params.serial_number = Some(SerialNumber::from(1));
    let certificate = params.self_signed(&key).expect("a certificate").der().clone();
    let provider = Arc::new(crypto::ring::default_provider());
    let tls13 = &[&rustls::version::TLS13];
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).expect("a root");
    let client = rustls::ClientConfig::builder_with_provider(provider.clone());
    let client = client.with_protocol_versions(tls13).expect("TLS 1.3");
    let client = client.with_root_certificates(roots).with_no_client_auth();
    let server = rustls::ServerConfig::builder_with_provider(provider);
    let server = server.with_protocol_versions(tls13).expect("TLS 1.3").with_no_client_auth();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let server = server.with_single_cert(vec![certificate], key.into()).expect("a key for it");
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(Arc::new(controller));
    transport.max_idle_timeout(Some(Duration::from_secs(30).try_into().expect("a short time")));
    let mut of_client =
        ClientConfig::new(Arc::new(QuicClientConfig::try_from(client).expect("TLS 1.3")));
    of_client.transport_config(Arc::new(transport));
    let of_server = Arc::new(QuicServerConfig::try_from(server).expect("TLS 1.3"));
    (of_client, Arc::new(ServerConfig::with_crypto(of_server)))
}
