//! A plain HTTPS client for measurements and comparisons: one HTTP/1.1 connection each, so that N clients are N
//! connections for every server; or many answers over one HTTP/2 connection.

#![expect(clippy::indexing_slicing, reason = "a JSON value answers null for what it does not hold")]

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A server and who we are to it, as a kubeconfig says.
#[derive(Clone, Debug)]
pub struct Endpoint {
    host: String,
    authority: String,
    tls: Arc<rustls::ClientConfig>,
    token: Option<String>,
}

impl Endpoint {
    /// Reads the current context of a kubeconfig.
    pub fn from_kubeconfig(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let config: Value = serde_yaml_ng::from_str(&text)?;
        let current = config["current-context"].as_str().unwrap_or_default();
        let context = &named(&config, "contexts", current)?["context"];
        let cluster =
            &named(&config, "clusters", context["cluster"].as_str().unwrap_or_default())?["cluster"];
        let user = &named(&config, "users", context["user"].as_str().unwrap_or_default())?["user"];
        let server = cluster["server"].as_str().context("no server")?;
        let authority =
            server.strip_prefix("https://").context("server is not https")?.trim_end_matches('/').to_owned();
        let host = authority.rsplit_once(':').map_or(authority.as_str(), |(host, _)| host).to_owned();

        let mut roots = rustls::RootCertStore::empty();
        let ca = material(cluster, "certificate-authority", path)?.context("no certificate authority")?;
        for certificate in CertificateDer::pem_slice_iter(&ca) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let tls = match (material(user, "client-certificate", path)?, material(user, "client-key", path)?) {
            (Some(certificate), Some(key)) => {
                let chain = CertificateDer::pem_slice_iter(&certificate).collect::<Result<Vec<_>, _>>()?;
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&key)?)?
            }
            _ => builder.with_no_client_auth(),
        };
        let token = user["token"].as_str().map(str::to_owned);
        Ok(Self { host, authority, tls: Arc::new(tls), token })
    }

    async fn dial(&self, tls: Arc<rustls::ClientConfig>) -> Result<TokioIo<TlsStream<TcpStream>>> {
        let tcp = TcpStream::connect(&self.authority)
            .await
            .with_context(|| format!("connect {}", self.authority))?;
        tcp.set_nodelay(true)?;
        let name = ServerName::try_from(self.host.clone())?;
        Ok(TokioIo::new(TlsConnector::from(tls).connect(name, tcp).await?))
    }

    /// Opens one HTTP/2 connection.
    pub async fn share(&self) -> Result<SharedConnection> {
        let mut tls = rustls::ClientConfig::clone(&self.tls);
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let stream = self.dial(Arc::new(tls)).await?;
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
        Ok(SharedConnection { endpoint: self.clone(), sender, _driver: Arc::new(Driver::of(connection)) })
    }

    fn authorized(&self, request: http::request::Builder) -> http::request::Builder {
        match &self.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    /// Opens one connection.
    pub async fn connect(&self) -> Result<Connection> {
        let stream = self.dial(Arc::clone(&self.tls)).await?;
        let (sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
        Ok(Connection { endpoint: self.clone(), sender, _driver: Driver::of(connection) })
    }
}

fn named<'a>(config: &'a Value, list: &str, name: &str) -> Result<&'a Value> {
    config[list]
        .as_array()
        .into_iter()
        .flatten()
        .find(|item| item["name"] == name)
        .with_context(|| format!("no {name:?} among {list}"))
}

fn material(section: &Value, name: &str, kubeconfig: &Path) -> Result<Option<Vec<u8>>> {
    if let Some(data) = section[format!("{name}-data")].as_str() {
        return Ok(Some(base64::engine::general_purpose::STANDARD.decode(data)?));
    }
    match section[name].as_str() {
        Some(file) => {
            let folder = kubeconfig.parent().unwrap_or_else(|| Path::new("."));
            Ok(Some(std::fs::read(folder.join(file))?))
        }
        None => Ok(None),
    }
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    endpoint: Endpoint,
    sender: SendRequest<Full<Bytes>>,
    _driver: Driver,
}

/// What moves a connection's bytes; it ends with the connection.
#[derive(Debug)]
struct Driver(tokio::task::JoinHandle<()>);

impl Driver {
    fn of(connection: impl Future<Output = hyper::Result<()>> + Send + 'static) -> Self {
        Self(tokio::spawn(async move {
            // The requester sees the failure of a broken connection itself.
            drop(connection.await);
        }))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One HTTP/2 connection, for many requests at once; it ends with its last copy.
#[derive(Clone, Debug)]
pub struct SharedConnection {
    endpoint: Endpoint,
    sender: http2::SendRequest<Full<Bytes>>,
    _driver: Arc<Driver>,
}

impl SharedConnection {
    /// Sends a GET and hands the answer over with its body unread.
    pub async fn open(&mut self, path: &str) -> Result<http::Response<Incoming>> {
        let request = Request::get(format!("https://{}{path}", self.endpoint.authority))
            .header("accept", "application/json");
        self.sender.ready().await?;
        let request = self.endpoint.authorized(request).body(Full::new(Bytes::new()))?;
        Ok(self.sender.send_request(request).await?)
    }
}

impl Connection {
    /// Sends a request and hands the answer over with its body unread. A PATCH is a merge patch.
    pub async fn open(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<http::Response<Incoming>> {
        let content =
            if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        self.open_as(method, path, content, body).await
    }

    /// The same with a media type.
    pub async fn open_as(
        &mut self,
        method: Method,
        path: &str,
        content: &str,
        body: Bytes,
    ) -> Result<http::Response<Incoming>> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.endpoint.authority)
            .header("content-type", content)
            .header("accept", "application/json");
        let request = self.endpoint.authorized(request);
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::new(body))?).await?)
    }

    /// Sends a request as it is; only the host and the token are added.
    pub async fn send(&mut self, mut request: Request<Full<Bytes>>) -> Result<http::Response<Incoming>> {
        let headers = request.headers_mut();
        headers.insert("host", self.endpoint.authority.parse()?);
        if let Some(token) = &self.endpoint.token {
            headers.insert("authorization", format!("Bearer {token}").parse()?);
        }
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Sends a request and reads the whole answer.
    pub async fn call(&mut self, method: Method, path: &str, body: Bytes) -> Result<(StatusCode, Bytes)> {
        let response = self.open(method, path, body).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }

    /// Sends a JSON request and reads a JSON answer; anything but a success is an error.
    pub async fn json(&mut self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let shown = method.clone();
        let (status, answer) = self.call(method, path, bytes).await?;
        ensure!(status.is_success(), "{shown} {path}: {status}: {}", String::from_utf8_lossy(&answer));
        Ok(serde_json::from_slice(&answer)?)
    }

    /// The same, where an object may be there already.
    pub async fn ensure(&mut self, path: &str, object: &Value) -> Result<()> {
        let (status, answer) = self.call(Method::POST, path, Bytes::from(object.to_string())).await?;
        if !status.is_success() && status != StatusCode::CONFLICT {
            bail!("POST {path}: {status}: {}", String::from_utf8_lossy(&answer));
        }
        Ok(())
    }
}

/// The lines of an answer, as they come. Its connection has to stay.
#[derive(Debug)]
pub struct Lines {
    body: Incoming,
    buffer: Vec<u8>,
}

impl Lines {
    /// Those of this answer.
    pub fn of(response: http::Response<Incoming>) -> Self {
        Self { body: response.into_body(), buffer: Vec::new() }
    }

    /// The next one, its end included; `None` at the end of the answer. A line without an end is none.
    pub async fn line(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.buffer.drain(..=end).collect()));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            if let Ok(data) = frame?.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }
}
