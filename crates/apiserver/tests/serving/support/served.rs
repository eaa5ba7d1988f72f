use super::pki::{Ca, Identity};
use super::socket::{RefusedUpgrade, Socket};
use super::tokens::Signer;
use super::{AUDIENCE, ISSUER, TenantPolicy, client, write_serving};
use crate::{colours, inventory, names, widget, workshop};
use apiserver::Api;
use apiserver::authn::issuers::{IssuerSettings, JwtSettings};
use apiserver::authn::jwks::KeySource;
use apiserver::authz::Policy;
use apiserver::openapi::ApiInfo;
use apiserver::server::{Server, ServerParts, ServerSettings};
use axum::body::Body;
use http::{Method, Request};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use runtime::{Clock, Health, Metrics, Tasks};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{Kind, Store};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A server with the verbs of the library, over TLS and on a database.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) ca: Ca,
    pub(crate) master: Identity,
    pub(crate) tasks: Tasks,
    store_tasks: Tasks,
    dir: PathBuf,
    pub(crate) served: JoinHandle<Result<(), apiserver::Error>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.tasks.cancel();
        self.store_tasks.cancel();
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

/// A file of keys that goes with its test.
pub(crate) struct KeyFile(PathBuf);

impl AsRef<Path> for KeyFile {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// Settings of a server that trusts the keys of a signer, and the file of the keys.
pub(crate) fn with_issuer(signer: &Signer) -> (KeyFile, impl FnOnce(&mut ServerSettings)) {
    let file = KeyFile(std::env::temp_dir().join(format!("jwks-{}.json", uuid::Uuid::new_v4())));
    std::fs::write(&file, signer.key_set()).unwrap();
    let keys = KeySource::File(file.0.clone());
    let change = |settings: &mut ServerSettings| {
        let issuer = JwtSettings::new(ISSUER, vec![AUDIENCE.to_owned()], keys);
        settings.authentication.issuers = IssuerSettings::Inline(vec![issuer]);
    };
    (file, change)
}

pub(crate) const LIST: &str = "/apis/sample.example.io/v1/namespaces/n/widgets";

impl Served {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut ServerSettings)) -> Self {
        Self::start_by(Arc::new(TenantPolicy), None, change).await
    }

    pub(crate) async fn start_by(
        policy: Arc<dyn Policy>,
        kube: Option<kube::Client>,
        change: impl FnOnce(&mut ServerSettings),
    ) -> Self {
        let dir = std::env::temp_dir().join(format!("apiserver-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&dir).unwrap();
        let (ca, clients) = (Ca::new("serving"), Ca::new("clients"));
        write_serving(&dir, &ca);
        std::fs::write(dir.join("clients.crt"), clients.pem()).unwrap();
        let mut settings = ServerSettings::new(dir.join("tls.crt"), dir.join("tls.key"));
        settings.authentication.trust.client_ca_file = Some(dir.join("clients.crt"));
        change(&mut settings);

        let database = store::testing::database().await.unwrap();
        let (store_tasks, metrics) = (Tasks::new(), Metrics::new());
        let kinds: Vec<Arc<dyn Kind>> = vec![Arc::new(widget::Widgets), Arc::new(workshop::Workshops)];
        let store = Store::open(store::Config::new(database.url), kinds, &store_tasks, &metrics).unwrap();
        let number = |plural| store.kind_id(names::GROUP, plural).unwrap();
        let (widgets, workshops) = (number("widgets"), number("workshops"));
        store.until_synced().await;
        let routes = vec![inventory::route(store.clone(), widgets)];
        let (resources, draining) = (
            vec![
                Arc::new(colours::resource(widgets)),
                Arc::new(widget::resource(widgets, workshops)),
                Arc::new(workshop::resource(workshops)),
            ],
            CancellationToken::new(),
        );
        let about = ApiInfo { title: "Widgets".to_owned(), version: "v1".to_owned() };
        let api = Api::new(resources.clone(), store, Clock::system(), draining.clone(), &about).unwrap();
        let parts = ServerParts {
            handler: Arc::new(api),
            resources,
            routes,
            policy,
            kube,
            metrics,
            live: Health::new(),
            ready: Health::new(),
            draining,
            clock: Clock::system(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, tasks) = (listener.local_addr().unwrap(), Tasks::new());
        let server = Server::new(settings, parts).await.unwrap();
        let served = tokio::spawn(server.run(listener, tasks.clone()));
        let master = clients.client("root", &["system:masters"]);
        Self { address, ca, master, tasks, store_tasks, dir, served }
    }

    pub(crate) async fn open(&self, query: &str) -> Result<Socket, RefusedUpgrade> {
        self.open_with(query, &[]).await
    }

    pub(crate) async fn open_with(
        &self,
        query: &str,
        headers: &[(&str, &str)],
    ) -> Result<Socket, RefusedUpgrade> {
        let to = (self.address, &self.ca, Some(&self.master));
        Socket::open(to, &format!("{LIST}?watch=true&{query}"), headers).await
    }

    pub(crate) async fn create(&self, name: &str) {
        let body = json!({"metadata": {"name": name}, "spec": {"colour": "red"}});
        assert_eq!(self.ask(Method::POST, LIST, "application/json", &body).await.0, 201);
    }

    pub(crate) async fn ask(&self, method: Method, path: &str, content: &str, body: &Value) -> (u16, Value) {
        self.ask_by(None, method, path, content, body).await
    }

    /// Sends a request with a token; without one, with the certificate of `system:masters`.
    pub(crate) async fn ask_by(
        &self,
        token: Option<&str>,
        method: Method,
        path: &str,
        content: &str,
        body: &Value,
    ) -> (u16, Value) {
        let identity = if token.is_some() { None } else { Some(&self.master) };
        let tls = client::tls(self.address, &self.ca, identity, "http/1.1").await;
        let io = TokioIo::new(tls.unwrap());
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", content);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let answer = sender.send_request(request.body(Body::from(body.to_string())).unwrap()).await.unwrap();
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap())
    }
}
