//! Certificates, a fake kube-apiserver, a handler that echoes its input, and clients.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails where its support does"
)]

pub(crate) mod client;
pub(crate) mod password_route;
pub(crate) mod issuer;
pub(crate) mod kube_api;
pub(crate) mod logs;
pub(crate) mod collector;
pub(crate) mod pki;
pub(crate) mod served;
pub(crate) mod socket;
pub(crate) mod tokens;

use apiserver::authn::issuers::{IssuerSettings, JwtSettings};
use apiserver::authn::{jwks::KeySource, trust};
use apiserver::authz::{AuthzVerdict, Policy, Right, RouteAccess, Ruling};
use apiserver::caller::{Caller, Via};
use apiserver::flow::Limits;
use apiserver::routes::{PathMatch, Route};
use apiserver::server::{Handler, Server, ServerParts, ServerSettings};
use apiserver::{RequestContext, RequestInfo, Verb};
use axum::body::{Body, Bytes};
use client::{Answer, Client};
use futures_util::StreamExt;
use http::{Method, Request, Response};
use kube_api::KubeApi;
use pki::{Ca, Identity};
use runtime::{Clock, Health, Metrics, Tasks};
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use store::Visibility;
use tokens::Signer;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub(crate) const ISSUER: &str = "https://tokens.example.io";
pub(crate) const AUDIENCE: &str = "widgets";
/// The resource path of most requests.
pub(crate) const WIDGETS: &str = "/apis/example.io/v1/namespaces/box/widgets";

/// Allows the administrators of a tenant everything but `finalize`. Reviews decide about all others, and operators.
pub(crate) struct TenantPolicy;

impl Policy for TenantPolicy {
    fn judge(&self, caller: &Caller, info: &RequestInfo, operator: bool) -> Ruling {
        let visibility = match &caller.tenant {
            _ if operator => Visibility::Everything,
            Some(tenant) => Visibility::tenant(tenant),
            None => Visibility::Nothing,
        };
        let rules = !operator && caller.tenant.is_some() && caller.in_group("tenant-admins");
        let verdict = match info.resource() {
            Some(asked) if rules && asked.subresource == "finalize" => {
                AuthzVerdict::Deny("finalize is the controller's".to_owned())
            }
            Some(_) if rules => AuthzVerdict::Allow,
            _ => AuthzVerdict::NoOpinion,
        };
        Ruling { verdict, visibility: Ok(visibility) }
    }

    fn operator_right(&self) -> Right {
        Right { verb: "operate", group: "example.io", resource: "widgets" }
    }
}

/// Answers with its input. A request for an object `panic` panics, one for `slow` waits to be released. A watch streams
/// until the server drains; that of an object `broken` panics after its first event.
#[derive(Clone)]
pub(crate) struct Echo {
    pub(crate) release: Arc<Semaphore>,
    pub(crate) waiting: Arc<AtomicUsize>,
    /// How many requests the handler got.
    pub(crate) handled: Arc<AtomicUsize>,
    pub(crate) draining: CancellationToken,
}

impl Handler for Echo {
    async fn handle(&self, cx: &mut RequestContext, request: Request<Body>) -> Response<Body> {
        self.handled.fetch_add(1, Ordering::SeqCst);
        let asked = cx.info.resource().unwrap().clone();
        match asked.object_name() {
            "panic" => panic!("on purpose"),
            "slow" => {
                self.waiting.fetch_add(1, Ordering::SeqCst);
                drop(self.release.acquire().await);
                self.waiting.fetch_sub(1, Ordering::SeqCst);
            }
            _ => {}
        }
        if asked.verb == Verb::Watch {
            return self.watch(asked.object_name() == "broken");
        }
        let body = json!({
            "user": cx.caller.name,
            "uid": cx.caller.uid,
            "groups": cx.caller.groups,
            "tenant": cx.caller.tenant,
            "via": format!("{:?}", cx.caller.via),
            "sees": shown(cx.access.visibility()),
            "verb": asked.verb.as_str(),
            "headers": request.headers().keys().map(http::HeaderName::as_str).collect::<Vec<_>>(),
        });
        Response::new(Body::from(body.to_string()))
    }
}

impl Echo {
    fn watch(&self, broken: bool) -> Response<Body> {
        let first = futures_util::stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(
            b"{\"type\":\"ADDED\"}\n",
        ))]);
        let draining = self.draining.clone();
        let rest = futures_util::stream::once(async move {
            // So that the first event is sent.
            tokio::task::yield_now().await;
            assert!(!broken, "on purpose");
            draining.cancelled().await;
            Ok(Bytes::from_static(b"{\"type\":\"BOOKMARK\"}\n"))
        });
        Response::new(Body::from_stream(first.chain(rest)))
    }
}

/// A server under test, and all that it trusts.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) serving_ca: Ca,
    pub(crate) client_ca: Ca,
    pub(crate) proxy_ca: Ca,
    pub(crate) signer: Signer,
    pub(crate) kube: Arc<KubeApi>,
    pub(crate) echo: Echo,
    pub(crate) tasks: Tasks,
    pub(crate) ready: Health,
    pub(crate) dir: PathBuf,
    pub(crate) served: tokio::task::JoinHandle<Result<(), apiserver::Error>>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.tasks.cancel();
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// Starts a server with changed settings and waits until it trusts the ConfigMap.
    pub(crate) async fn start_with(change: impl FnOnce(&mut ServerSettings)) -> Self {
        let world = Self::begin(KubeApi::new(), change).await;
        world.until_trusting().await;
        world
    }

    /// Starts a server whose kube-apiserver does not answer yet.
    pub(crate) async fn start_alone() -> Self {
        let kube = KubeApi::new();
        kube.down.store(true, Ordering::SeqCst);
        Self::begin(kube, |_| {}).await
    }

    /// Waits until the ConfigMap is read.
    pub(crate) async fn until_trusting(&self) {
        until("the ConfigMap is read", async || self.ready.report("readyz", false, &[]).ok).await;
    }

    async fn begin(kube: Arc<KubeApi>, change: impl FnOnce(&mut ServerSettings)) -> Self {
        let dir = std::env::temp_dir().join(format!("apiserver-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&dir).unwrap();
        let (serving_ca, client_ca, proxy_ca) =
            (Ca::new("serving"), Ca::new("clients"), Ca::new("front proxy"));
        let signer = Signer::new("key-1");
        write_serving(&dir, &serving_ca);
        std::fs::write(dir.join("jwks.json"), signer.key_set()).unwrap();
        kube.trust(&client_ca, &proxy_ca, &["aggregator"]);

        let mut settings = ServerSettings::new(dir.join("tls.crt"), dir.join("tls.key"));
        settings.reload_every = Duration::from_millis(50);
        settings.drain = Duration::from_mins(1);
        let keys = KeySource::File(dir.join("jwks.json"));
        let issuer = JwtSettings::new(ISSUER, vec![AUDIENCE.to_owned()], keys);
        settings.authentication.issuers = IssuerSettings::Inline(vec![issuer]);
        change(&mut settings);

        let draining = CancellationToken::new();
        let (release, waiting) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let handled = Arc::default();
        let echo = Echo { release, waiting, handled, draining: draining.clone() };
        let ready = Health::new();
        let parts = ServerParts {
            handler: echo.clone(),
            resources: Vec::new(),
            routes: documents(),
            policy: Arc::new(TenantPolicy),
            kube: Some(kube.client()),
            metrics: Metrics::new(),
            live: Health::new(),
            ready: ready.clone(),
            draining,
            clock: Clock::system(),
        };
        let server = Server::new(settings, parts).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tasks = Tasks::new();
        let served = tokio::spawn(server.run(listener, tasks.clone()));
        Self { address, serving_ca, client_ca, proxy_ca, signer, kube, echo, tasks, ready, dir, served }
    }

    pub(crate) async fn client(&self, identity: Option<&Identity>) -> Client {
        Client::connect(self.address, &self.serving_ca, identity, "http/1.1").await.unwrap()
    }

    /// One GET of the widgets on a new connection.
    pub(crate) async fn get(&self, identity: Option<&Identity>, headers: &[(&str, &str)]) -> Answer {
        self.client(identity).await.send(Method::GET, WIDGETS, headers).await
    }

    pub(crate) fn aggregator(&self) -> Identity {
        self.proxy_ca.client("aggregator", &[])
    }

    pub(crate) fn master(&self) -> Identity {
        self.client_ca.client("root", &["system:masters"])
    }

    pub(crate) async fn metrics(&self) -> String {
        let answer = self.client(Some(&self.master())).await.send(Method::GET, "/metrics", &[]).await;
        assert_eq!(answer.code, 200);
        answer.text
    }
}

/// Empty discovery documents: the tests check only who may read them.
fn documents() -> Vec<Route> {
    let of = |root: &str| {
        Route::document(root, RouteAccess::Authenticated, |_, _| Response::default())
            .with_path_match(PathMatch::Prefix)
    };
    vec![of("/apis"), of("/openapi"), password_route::route()]
}

pub(crate) fn write_serving(dir: &std::path::Path, ca: &Ca) {
    let identity = ca.server();
    std::fs::write(dir.join("tls.key"), identity.key_pem()).unwrap();
    std::fs::write(dir.join("tls.crt"), identity.chain_pem()).unwrap();
}

/// Polls until the condition is true; panics after thirty seconds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while !holds().await {
        assert!(tokio::time::Instant::now() < deadline, "{what} did not come true");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) fn few(limits: usize) -> Limits {
    Limits { reads: limits, writes: limits, watches: limits, ..Limits::default() }
}

pub(crate) fn via(answer: &Answer) -> Via {
    match answer.json()["via"].as_str().unwrap() {
        "FrontProxy" => Via::FrontProxy,
        "Certificate" => Via::Certificate,
        "Jwt" => Via::Jwt,
        "TokenReview" => Via::TokenReview,
        "Password" => Via::Password,
        "Impersonation" => Via::Impersonation,
        _ => Via::Anonymous,
    }
}

pub(crate) fn trust_file(path: PathBuf) -> trust::TrustSettings {
    trust::TrustSettings { client_ca_file: Some(path), proxy: None }
}

/// The visibility as a text: the tenants, if it is limited to some.
fn shown(visibility: &Visibility) -> String {
    match visibility {
        Visibility::Tenants(sights) => {
            sights.iter().map(|sight| &*sight.tenant).collect::<Vec<_>>().join(",")
        }
        other => format!("{other:?}"),
    }
}
