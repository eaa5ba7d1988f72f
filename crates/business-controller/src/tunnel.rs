//! Checks the tunnel's server in the container beside this one. It reads its certificate only once, when it starts.
//! Here it is compared with the one in the file; the kubelet uses the result as the liveness probe of the server's
//! container, and restarts it if they differ.

use runtime::{CertificateEnd, Health, Metrics};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Name of the check: `/livez/tunnel`.
const CHECK: &str = "tunnel";
/// Time between two checks.
const PERIOD: Duration = Duration::from_secs(10);
/// Deadline of connecting and of the TLS handshake.
const DEADLINE: Duration = Duration::from_secs(5);
/// Agents speak gRPC.
const PROTOCOL: &[u8] = b"h2";

/// The tunnel's server.
#[derive(Clone, Debug)]
pub struct TunnelServer {
    /// Where agents dial it.
    pub address: SocketAddr,
    /// The file of its certificate.
    pub certificate_file: PathBuf,
}

/// Registers the metric of when its certificate expires.
pub fn register(metrics: &Metrics) -> CertificateEnd {
    CertificateEnd::register(
        metrics,
        "business_controller_tunnel_certificate_expiration_timestamp_seconds",
        "When the certificate ends that the tunnel's server shows",
    )
}

impl TunnelServer {
    /// Checks for ever, and sets the health check and the metric.
    #[expect(clippy::infinite_loop, reason = "the task is cancelled at the end of the program")]
    pub async fn watch(self, beside: Health, ends: CertificateEnd) {
        let verdict = Arc::new(Mutex::new(Ok(())));
        let told = Arc::clone(&verdict);
        beside.add(CHECK, move || told.lock().unwrap_or_else(PoisonError::into_inner).clone());
        loop {
            let shown = self.shown().await;
            if let Some(end) = shown.as_ref().ok().and_then(end_of) {
                ends.set(end);
            }
            let found = self.compare(shown).await;
            *verdict.lock().unwrap_or_else(PoisonError::into_inner) = found;
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// Compares the certificate with the file. If the file cannot be read, that is no failure: a restarted server could
    /// not read it either.
    async fn compare(&self, shown: Result<CertificateDer<'static>, String>) -> Result<(), String> {
        let shown = shown?;
        let file = self.certificate_file.display();
        let kept = match tokio::fs::read(&self.certificate_file).await {
            Ok(pem) => CertificateDer::from_pem_slice(&pem).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match kept {
            Ok(kept) if kept == shown => Ok(()),
            Ok(_) => Err(format!("it shows another certificate than {file} holds")),
            Err(error) => {
                tracing::warn!(error, "{file} cannot be compared with what the tunnel's server shows");
                Ok(())
            }
        }
    }

    async fn shown(&self) -> Result<CertificateDer<'static>, String> {
        match tokio::time::timeout(DEADLINE, self.shake_hands()).await {
            Ok(Ok(shown)) => shown.ok_or_else(|| "it shows no certificate".to_owned()),
            Ok(Err(error)) => Err(format!("{} does not answer: {error}", self.address)),
            Err(_elapsed) => Err(format!("{} does not answer within {DEADLINE:?}", self.address)),
        }
    }

    async fn shake_hands(&self) -> std::io::Result<Option<CertificateDer<'static>>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(std::io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
            .with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::from(self.address.ip());
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let (_, session) = stream.get_ref();
        Ok(session.peer_certificates().and_then(<[_]>::first).cloned().map(CertificateDer::into_owned))
    }
}

/// When a certificate ends, in seconds since 1970.
pub fn end_of(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

/// Accepts any certificate whose key the server has: it is only read, and nothing is sent to the server.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use rustls::ServerConfig;
    use rustls::pki_types::PrivatePkcs8KeyDer;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    struct Pair {
        pem: String,
        der: CertificateDer<'static>,
        key: KeyPair,
    }

    fn pair() -> Pair {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["business-tunnel.tke-business.svc".to_owned()]).unwrap();
        // It is to be told even when it has ended.
        params.not_after = date_time_ymd(2001, 9, 9);
        let certificate = params.self_signed(&key).unwrap();
        Pair { pem: certificate.pem(), der: certificate.der().clone(), key }
    }

    /// Shows the certificate that it was started with, for good.
    async fn server(pair: &Pair) -> SocketAddr {
        let key = PrivatePkcs8KeyDer::from(pair.key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_no_client_auth();
        let mut config = config.with_single_cert(vec![pair.der.clone()], key.into()).unwrap();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                drop(acceptor.accept(stream).await);
            }
        });
        address
    }

    #[tokio::test]
    async fn a_server_that_shows_another_certificate_than_the_file_is_told() {
        let (old, new) = (pair(), pair());
        let file = std::env::temp_dir().join(format!("tunnel-{}.crt", std::process::id()));
        std::fs::write(&file, &old.pem).unwrap();
        let server = TunnelServer { address: server(&old).await, certificate_file: file.clone() };
        let look = async || server.compare(server.shown().await).await;
        assert_eq!(look().await, Ok(()));
        assert_eq!(end_of(&server.shown().await.unwrap()), Some(999_993_600));
        std::fs::write(&file, &new.pem).unwrap();
        let told = look().await.unwrap_err();
        assert!(told.contains("another certificate"), "{told}");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(look().await, Ok(()), "it would not come up again without the file");
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_is_told() {
        let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let server = TunnelServer { address: nobody, certificate_file: PathBuf::from("/nowhere") };
        let told = server.shown().await.unwrap_err();
        assert!(told.contains("does not answer"), "{told}");
    }
}
