use crate::error::Error;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use std::sync::Arc;
use std::time::Duration;

/// Accepts any client certificate whose private key the client has. Two CAs and tokens share one port, so the
/// authenticators verify the chain after the handshake.
#[derive(Debug)]
pub(crate) struct AnyClientVerifier {
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyClientVerifier {
    pub(crate) fn new(provider: &CryptoProvider) -> Self {
        Self { algorithms: provider.signature_verification_algorithms }
    }
}

impl ClientCertVerifier for AnyClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// A bundle of client CAs.
#[derive(Clone, Debug)]
pub struct CaBundle(Arc<dyn ClientCertVerifier>);

impl CaBundle {
    /// The CAs of a PEM bundle. A bundle without any is an error.
    pub fn from_pem(what: &str, pem: &[u8]) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| Error::credentials(what, error))?;
            roots.add(certificate).map_err(|error| Error::credentials(what, error))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), super::provider())
            .build()
            .map_err(|error| Error::credentials(what, error))?;
        Ok(Self(verifier))
    }

    /// Verifies that a chain leads to one of the CAs, is valid at this time, and is for client authentication.
    pub fn verify_client(&self, chain: &[CertificateDer<'_>], unix_seconds: i64) -> Result<(), String> {
        let (leaf, intermediates) = chain.split_first().ok_or("no certificate")?;
        let now =
            UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(unix_seconds).unwrap_or_default()));
        self.0.verify_client_cert(leaf, intermediates, now).map(drop).map_err(|error| error.to_string())
    }
}
