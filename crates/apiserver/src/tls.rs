use crate::error::Error;
use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;
use std::sync::Arc;

/// Certificates of clients: proof of possession in the handshake, trust when somebody asks.
pub mod client;
/// The serving certificate, read again when its files change.
pub mod serving;

pub use client::Authority;
pub use serving::ServingCertificate;

/// The one implementation of cryptography, whatever the process's default is.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// TLS 1.2 and 1.3, HTTP/2 before HTTP/1.1; a client certificate is asked for, not demanded.
pub(crate) fn server_config(certificate: Arc<ServingCertificate>) -> Result<ServerConfig, Error> {
    let provider = provider();
    let verifier = client::AnyClient::new(&provider);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| Error::credentials("TLS", error))?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The other end of a connection.
#[derive(Debug)]
pub struct Peer {
    /// Where it is.
    pub address: SocketAddr,
    /// The chain it presented and whose first key it holds; not yet trusted.
    pub certificates: Vec<CertificateDer<'static>>,
    /// What the authenticators made of the chain.
    pub(crate) verdict: ArcSwapOption<crate::authn::x509::Verdict>,
}

impl Peer {
    /// A peer with the chain it presented.
    pub fn new(address: SocketAddr, certificates: Vec<CertificateDer<'static>>) -> Self {
        Self { address, certificates, verdict: ArcSwapOption::empty() }
    }
}
