use crate::authn::verdict::ChainVerdict;
use crate::caller::Caller;
use crate::error::Error;
use crate::places::Place;
use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::SocketAddr;
use std::sync::Arc;

/// Certificates of clients: the handshake proves possession, and trust is checked when an authenticator asks.
pub mod client;
/// The serving certificate, read again when its files change.
pub mod serving;

pub use client::Authority;
pub use serving::{ServingCertificate, end_of_pem};

/// The implementation of cryptography, whatever the process's default is.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// How a handshake treats client certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientCertificates {
    /// Asked for, not demanded.
    AskedFor,
    /// Not asked for: a browser would ask its user.
    None,
}

/// TLS 1.2 and 1.3, HTTP/2 before HTTP/1.1.
pub(crate) fn server_config(
    certificate: Arc<ServingCertificate>,
    clients: ClientCertificates,
) -> Result<ServerConfig, Error> {
    let provider = provider();
    let verifier = client::AnyClient::new(&provider);
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| Error::credentials("TLS", error))?;
    let config = match clients {
        ClientCertificates::AskedFor => config.with_client_cert_verifier(Arc::new(verifier)),
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
    /// The chain it presented and whose first key it holds; not yet trusted.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The authenticators' verdict on the chain.
    pub(crate) verdict: ArcSwapOption<ChainVerdict>,
    place: Option<Place>,
}

impl Peer {
    /// A peer with the chain it presented.
    pub fn new(address: SocketAddr, certificates: Vec<CertificateDer<'static>>) -> Self {
        Self { address, certificates, verdict: ArcSwapOption::empty(), place: None }
    }

    /// Adds the place of its connection.
    pub(crate) fn at(self, place: Place) -> Self {
        Self { place: Some(place), ..self }
    }

    /// Notes the caller at the other end.
    pub(crate) fn known(&self, caller: &Caller) {
        if let Some(place) = &self.place {
            place.known(caller);
        }
    }

    /// Notes that the connection goes on as one caller's own.
    pub(crate) fn upgraded(&self, caller: &Caller) {
        if let Some(place) = &self.place {
            place.upgraded(caller);
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
