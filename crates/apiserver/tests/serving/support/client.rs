use super::pki::{Ca, Identity};
use axum::body::Body;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// One connection.
pub(crate) enum Client {
    Http1(hyper::client::conn::http1::SendRequest<Body>),
    Http2(hyper::client::conn::http2::SendRequest<Body>),
}

/// An answer with its whole body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn user(&self) -> String {
        assert_eq!(self.code, 200, "{}", self.text);
        self.json()["user"].as_str().unwrap().to_owned()
    }
}

/// Opens a TLS connection with this ALPN protocol.
pub(crate) async fn tls(
    address: SocketAddr,
    ca: &Ca,
    identity: Option<&Identity>,
    protocol: &str,
) -> Result<TlsStream<TcpStream>, String> {
    handshake(rustls::DEFAULT_VERSIONS, address, ca, identity, protocol).await
}

async fn handshake(
    versions: &[&'static rustls::SupportedProtocolVersion],
    address: SocketAddr,
    ca: &Ca,
    identity: Option<&Identity>,
    protocol: &str,
) -> Result<TlsStream<TcpStream>, String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match identity {
        None => config.with_no_client_auth(),
        // Without the check that certificate and key match: a stolen certificate comes with another key.
        Some(identity) => {
            let key = provider.key_provider.load_private_key(identity.key()).unwrap();
            let certified = rustls::sign::CertifiedKey::new(identity.chain(), key);
            config.with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)))
        }
    };
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let tcp = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let name = ServerName::try_from("localhost").unwrap();
    let tls =
        TlsConnector::from(Arc::new(config)).connect(name, tcp).await.map_err(|error| error.to_string())?;
    assert_eq!(tls.get_ref().1.alpn_protocol(), Some(protocol.as_bytes()));
    Ok(tls)
}

impl Client {
    pub(crate) async fn connect(
        address: SocketAddr,
        ca: &Ca,
        identity: Option<&Identity>,
        protocol: &str,
    ) -> Result<Self, String> {
        Self::connect_by(rustls::DEFAULT_VERSIONS, address, ca, identity, protocol).await
    }

    pub(crate) async fn connect_by(
        versions: &[&'static rustls::SupportedProtocolVersion],
        address: SocketAddr,
        ca: &Ca,
        identity: Option<&Identity>,
        protocol: &str,
    ) -> Result<Self, String> {
        let tls = handshake(versions, address, ca, identity, protocol).await?;
        if protocol == "h2" {
            let (sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(tls))
                    .await
                    .map_err(|error| error.to_string())?;
            tokio::spawn(connection);
            return Ok(Self::Http2(sender));
        }
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls))
            .await
            .map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        Ok(Self::Http1(sender))
    }

    pub(crate) async fn start(&mut self, request: Request<Body>) -> Result<Response<Incoming>, hyper::Error> {
        match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }

    pub(crate) async fn try_send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Answer, hyper::Error> {
        let uri = match self {
            Self::Http1(_) => path.to_owned(),
            Self::Http2(_) => format!("https://localhost{path}"),
        };
        let mut request = Request::builder().method(method).uri(uri).header("accept", "application/json");
        if matches!(self, Self::Http1(_)) {
            request = request.header("host", "localhost");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.start(request.body(Body::empty()).unwrap()).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer {
            code: head.status.as_u16(),
            headers: head.headers,
            text: String::from_utf8_lossy(&body).into(),
        })
    }

    pub(crate) async fn send(&mut self, method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.try_send(method, path, headers).await.unwrap()
    }
}
