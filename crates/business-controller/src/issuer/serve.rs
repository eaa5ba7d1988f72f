//! The listener: HTTPS for one client alone, which shows a certificate of its name by our CA.

use super::IssueRefusal;
use super::worker::IssueQueue;
use crate::error::Error;
use crate::tunnel;
use business_types::issue::{ISSUE_PATH, IssueRequest};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use meta::status::Status;
use runtime::{CertificateEnd, Metrics};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Open connections at a time.
const CONNECTIONS_MAX: usize = 64;
/// The deadline of the TLS handshake.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(5);
/// The deadline for reading a request.
const READ_DEADLINE: Duration = Duration::from_secs(5);
/// The deadline of a connection. A client that needs more certificates connects again.
const CONNECTION_DEADLINE: Duration = Duration::from_mins(1);
/// The maximal size of a request body.
const BODY_MAX: usize = 32 * 1024;
/// The pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(100);

/// Certificate files in PEM. They are read for each connection, so that new ones take effect at once.
#[derive(Clone, Debug)]
pub struct IssuerIdentity {
    pub certificate_file: PathBuf,
    pub key_file: PathBuf,
    /// The CA of the client's certificate.
    pub client_ca_file: PathBuf,
    /// The common name of the client's certificate.
    pub client_name: String,
}

/// Registers the metric of the server certificate's expiry.
pub fn register(metrics: &Metrics) -> CertificateEnd {
    CertificateEnd::register(
        metrics,
        "business_controller_issuer_certificate_expiration_timestamp_seconds",
        "When the certificate ends that the issuer of certificates shows",
    )
}

/// The expiry of the first certificate in a PEM file, which is the one that is shown.
pub fn end_of(pem: &[u8]) -> Option<i64> {
    tunnel::end_of(&CertificateDer::from_pem_slice(pem).ok()?)
}

/// Serves until the token is cancelled.
pub async fn run(listener: TcpListener, identity: IssuerIdentity, queue: IssueQueue, end: CancellationToken) {
    let identity = Arc::new(identity);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = end.cancelled() => break,
            Some(_ended) = connections.join_next() => {}
            taken = listener.accept(), if connections.len() < CONNECTIONS_MAX => match taken {
                Ok((stream, _peer)) => {
                    let serving = serve(stream, Arc::clone(&identity), queue.clone());
                    connections.spawn(async move {
                        if timeout(CONNECTION_DEADLINE, serving).await.is_err() {
                            tracing::debug!("a connection for certificates has taken too long");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "take a connection for certificates");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
    connections.shutdown().await;
}

async fn serve(stream: TcpStream, identity: Arc<IssuerIdentity>, queue: IssueQueue) {
    let config = match identity.config() {
        Ok(config) => config,
        Err(error) => {
            tracing::error!(error = error.text(), "certificates cannot be issued");
            return;
        }
    };
    let accepted = timeout(HANDSHAKE_DEADLINE, TlsAcceptor::from(config).accept(stream)).await;
    let Ok(Ok(stream)) = accepted else {
        tracing::warn!("somebody without a certificate of ours has asked for certificates");
        return;
    };
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).and_then(common_name);
    let is_authorized = shown.as_deref() == Some(&identity.client_name);
    if !is_authorized {
        tracing::warn!(name = shown, "a client of another name has asked for certificates");
    }
    let service = service_fn(|request| answer(request, &queue, is_authorized));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_DEADLINE)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection for certificates has ended");
    }
}

async fn answer(
    request: Request<Incoming>,
    queue: &IssueQueue,
    is_authorized: bool,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if !is_authorized {
        let why = "certificates are issued to business-api alone";
        return Ok(failure(&Status::failure(403, "Forbidden", why)));
    }
    if request.uri().path() != ISSUE_PATH {
        return Ok(failure(&Status::no_such_path()));
    }
    if request.method() != Method::POST {
        return Ok(failure(&Status::method_not_allowed()));
    }
    let outcome = match read(request).await {
        Ok(asked) => queue.issue(asked).await,
        Err(refusal) => Err(refusal),
    };
    Ok(
        match outcome.and_then(|issued| {
            serde_json::to_vec(&issued).map_err(|error| IssueRefusal::Unavailable(error.to_string()))
        }) {
            Ok(body) => respond(StatusCode::OK, body),
            Err(refusal) => failure(&refusal.status()),
        },
    )
}

async fn read(request: Request<Incoming>) -> Result<IssueRequest, IssueRefusal> {
    let body = Limited::new(request.into_body(), BODY_MAX).collect();
    let wrong = |why: String| IssueRefusal::Invalid(format!("the body cannot be read: {why}"));
    match timeout(READ_DEADLINE, body).await {
        Ok(Ok(body)) => serde_json::from_slice(&body.to_bytes()).map_err(|error| wrong(error.to_string())),
        Ok(Err(error)) => Err(wrong(error.to_string())),
        Err(_elapsed) => Err(wrong(format!("it took longer than {} s", READ_DEADLINE.as_secs()))),
    }
}

fn failure(status: &Status) -> Response<Full<Bytes>> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    respond(code, serde_json::to_vec(status).unwrap_or_default())
}

fn respond(code: StatusCode, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = code;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_rest, parsed) = X509Certificate::from_der(certificate).ok()?;
    let mut names = parsed.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?.to_owned();
    names.next().is_none().then_some(name)
}

impl IssuerIdentity {
    /// The TLS configuration from the files as they are now.
    pub fn config(&self) -> Result<Arc<ServerConfig>, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let wrong = |path: &Path, why: String| Error::Config(format!("{}: {why}", path.display()));
        let mut roots = RootCertStore::empty();
        for authority in certificates(&self.client_ca_file)? {
            roots.add(authority).map_err(|error| wrong(&self.client_ca_file, error.to_string()))?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(|error| wrong(&self.client_ca_file, error.to_string()))?;
        let key = PrivateKeyDer::from_pem_file(&self.key_file)
            .map_err(|error| wrong(&self.key_file, error.to_string()))?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| Error::Config(error.to_string()))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificates(&self.certificate_file)?, key)
            .map_err(|error| wrong(&self.certificate_file, error.to_string()))?;
        Ok(Arc::new(config))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let wrong = |why: String| Error::Config(format!("{}: {why}", path.display()));
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?.collect();
    let found = found.map_err(|error| wrong(error.to_string()))?;
    if found.is_empty() { Err(wrong("no certificate in the file".to_owned())) } else { Ok(found) }
}

#[cfg(test)]
mod tests;
