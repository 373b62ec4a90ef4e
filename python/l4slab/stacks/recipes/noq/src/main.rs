//! A transfer over QUIC with noq: `noq-transfer server`, `noq-transfer client ADDRESS BYTES [cubic|newreno|bbr3]`.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use noq::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};
use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq::{ClientConfig, ConnectionId, Endpoint, PathId, QlogConfig, QlogFactory, ServerConfig, Side, TransportConfig};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{ring, verify_tls12_signature, verify_tls13_signature, CryptoProvider};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

const PORT: u16 = 4433;
const PROTOCOL: &[u8] = b"transfer";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server"] => server().await,
        ["client", address, bytes] => client(address, bytes.parse()?, "cubic").await,
        ["client", address, bytes, controller] => client(address, bytes.parse()?, controller).await,
        _ => Err("usage: noq-transfer server | client ADDRESS BYTES [cubic|newreno|bbr3]".into()),
    }
}

/// Windows that never limit.
fn transport() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.stream_receive_window((1u32 << 30).into());
    config.receive_window((1u32 << 30).into());
    config.send_window(1 << 30);
    config
}

async fn server() -> Result<(), Box<dyn Error>> {
    let made = rcgen::generate_simple_self_signed(vec!["l4slab".into()])?;
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut tls = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    tls.alpn_protocols = vec![PROTOCOL.into()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport()));
    let endpoint = Endpoint::server(config, SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)))?;
    while let Some(incoming) = endpoint.accept().await {
        let connection = incoming.await?;
        let (mut send, mut receive) = connection.accept_bi().await?;
        let mut came = 0u64;
        while let Some(chunk) = receive.read_chunk(usize::MAX).await? {
            came += chunk.len() as u64;
        }
        send.write_all(&came.to_be_bytes()).await?;
        send.finish()?;
        println!("{came} bytes came");
        connection.closed().await;
    }
    Ok(())
}

async fn client(address: &str, bytes: u64, controller: &str) -> Result<(), Box<dyn Error>> {
    let mut tls = rustls::ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(Arc::new(ring::default_provider()))))
        .with_no_client_auth();
    tls.alpn_protocols = vec![PROTOCOL.into()];
    let mut transport = transport();
    let factory: Arc<dyn ControllerFactory + Send + Sync> = match controller {
        "cubic" => Arc::new(CubicConfig::default()),
        "newreno" => Arc::new(NewRenoConfig::default()),
        "bbr3" => Arc::new(Bbr3Config::default()),
        _ => return Err(format!("{controller} is not a controller of noq; write cubic, newreno or bbr3").into()),
    };
    transport.congestion_controller_factory(factory);
    if let Ok(folder) = std::env::var("QLOGDIR") {
        transport.qlog_factory(Arc::new(Log(PathBuf::from(folder))));
    }
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport));
    let endpoint = Endpoint::client(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?;
    endpoint.set_default_client_config(config);
    let begun = Instant::now();
    let connection = endpoint.connect(SocketAddr::new(address.parse()?, PORT), "l4slab")?.await?;
    let ready = begun.elapsed();
    let (mut send, mut receive) = connection.open_bi().await?;
    // All that waits in the send window is one piece of memory: a copy of it would be a gigabyte.
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(ZEROS.len() as u64);
        send.write_chunk(Bytes::from_static(&ZEROS[..now as usize])).await?;
        left -= now;
    }
    send.finish()?;
    let answer = receive.read_to_end(8).await?;
    assert_eq!(answer, bytes.to_be_bytes());
    let stats = connection.path_stats(PathId::ZERO).unwrap_or_default();
    println!(
        "{{\"handshake_s\": {:.6}, \"transfer_s\": {:.6}, \"bytes\": {bytes}, \"lost_packets\": {}, \"congestion_events\": {}}}",
        ready.as_secs_f64(),
        begun.elapsed().as_secs_f64(),
        stats.lost_packets,
        stats.congestion_events
    );
    connection.close(0u32.into(), b"done");
    // The close leaves at once. Until noq is idle, three timeouts pass, and the time of the transfer would have them.
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    Ok(())
}

/// Each event is a write otherwise, which costs more than the stack.
struct Log(PathBuf);

impl QlogFactory for Log {
    fn for_connection(&self, _: Side, _: SocketAddr, _: ConnectionId, _: Instant) -> Option<QlogConfig> {
        let file = std::fs::File::create(self.0.join("client.sqlog")).ok()?;
        Some(QlogConfig::new(Box::new(std::io::BufWriter::with_capacity(1 << 13, file))))
    }
}

/// The two are alone in their network.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
