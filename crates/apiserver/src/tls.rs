use crate::authn::verdict::ChainVerdict;
use crate::caller::Caller;
use crate::connection_limit::ConnectionSlot;
use crate::error::Error;
use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::SocketAddr;
use std::sync::Arc;

/// Certificates of clients: the handshake proves that the client has the key. An authenticator checks the trust later.
pub mod client;
/// The serving certificate, read again when its files change.
pub mod serving;

pub use client::CaBundle;
pub use serving::{ServingCertificate, end_of_pem};

/// The crypto provider of this crate, independent of the process's default.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// How a handshake treats client certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientCertificates {
    /// Requested, not required.
    Requested,
    /// Not requested: a browser would ask its user for one.
    None,
}

/// TLS 1.2 and 1.3, HTTP/2 before HTTP/1.1.
pub(crate) fn server_config(
    certificate: Arc<ServingCertificate>,
    clients: ClientCertificates,
) -> Result<ServerConfig, Error> {
    let provider = provider();
    let verifier = client::AnyClientVerifier::new(&provider);
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| Error::credentials("TLS", error))?;
    let config = match clients {
        ClientCertificates::Requested => config.with_client_cert_verifier(Arc::new(verifier)),
        ClientCertificates::None => config.with_no_client_auth(),
    };
    let mut config = config.with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The other end of a connection.
#[derive(Debug)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// The chain that it presented. It has the key of the first certificate, but the chain is not verified.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The result of verifying the chain.
    pub(crate) verdict: ArcSwapOption<ChainVerdict>,
    slot: Option<ConnectionSlot>,
}

impl Peer {
    /// A peer with the chain that it presented.
    pub fn new(address: SocketAddr, certificates: Vec<CertificateDer<'static>>) -> Self {
        Self { address, certificates, verdict: ArcSwapOption::empty(), slot: None }
    }

    /// Adds the slot of its connection.
    pub(crate) fn with_slot(self, slot: ConnectionSlot) -> Self {
        Self { slot: Some(slot), ..self }
    }

    /// Records the caller of the connection.
    pub(crate) fn set_caller(&self, caller: &Caller) {
        if let Some(slot) = &self.slot {
            slot.set_caller(caller);
        }
    }

    /// Records that the connection serves only this caller from now on.
    pub(crate) fn note_upgrade(&self, caller: &Caller) {
        if let Some(slot) = &self.slot {
            slot.note_upgrade(caller);
        }
    }
}

/// The certificates of a PEM bundle, as DER. A bundle without any is an error.
pub fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(pem).map(|one| one.map(|one| one.to_vec())).collect();
    let found = found.map_err(|error| Error::credentials("certificates", error))?;
    if found.is_empty() {
        return Err(Error::credentials("certificates", "no certificate in the file"));
    }
    Ok(found)
}
