//! A watch ends when its caller's credential or right ends, or when what he sees changes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails where this does"
)]

use crate::support::client::{Client, tls};
use crate::support::kube_api::KubeApi;
use crate::support::pki::Ca;
use crate::support::served::{KeyFile, LIST, Served, with_issuer};
use crate::support::tokens::{Signer, now};
use crate::support::until;
use apiserver::authz::{AuthzVerdict, Policy, Right, Ruling};
use apiserver::server::ServerSettings;
use apiserver::{Caller, RequestInfo};
use axum::body::Body;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::{Method, Request};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{Sight, TenantSight, Visibility};
use tokio::sync::watch;

const WAIT: Duration = Duration::from_secs(30);
/// A wait that is shorter than a review may take.
const REVIEW_WAIT: Duration = Duration::from_secs(5);

/// Allows every caller with a tenant everything. He sees the given namespaces of his tenant.
struct NamespacePolicy {
    namespaces: Mutex<Arc<BTreeSet<String>>>,
    changes: watch::Sender<u64>,
    /// The namespaces that are shown as soon as somebody waits for `settle`.
    pending: Mutex<Option<Vec<&'static str>>>,
}

impl Policy for NamespacePolicy {
    fn judge(&self, caller: &Caller, _: &RequestInfo, operator: bool) -> Ruling {
        let verdict = if caller.tenant.is_some() { AuthzVerdict::Allow } else { AuthzVerdict::NoOpinion };
        let visibility = match &caller.tenant {
            Some(tenant) => {
                let sight = Sight::Namespaces(Arc::clone(&self.namespaces.lock().unwrap()));
                Visibility::tenants([TenantSight { tenant: Arc::from(tenant.as_str()), sight }])
            }
            None if operator => Visibility::Everything,
            None => Visibility::Nothing,
        };
        Ruling { verdict, visibility: Ok(visibility) }
    }

    fn operator_right(&self) -> Right {
        Right { verb: "operate", group: "sample.example.io", resource: "widgets" }
    }

    fn changes(&self, caller: &Caller) -> Option<watch::Receiver<u64>> {
        caller.tenant.is_some().then(|| self.changes.subscribe())
    }

    fn settle(&self) -> Option<BoxFuture<'_, ()>> {
        if self.pending.lock().unwrap().is_none() {
            return None;
        }
        let settled = async move {
            tokio::task::yield_now().await;
            let pending = self.pending.lock().unwrap().take();
            if let Some(namespaces) = pending {
                self.show(&namespaces);
            }
        };
        Some(settled.boxed())
    }
}

impl NamespacePolicy {
    fn of(namespaces: &[&str]) -> Arc<Self> {
        let (namespaces, changes) = (Mutex::new(set(namespaces)), watch::Sender::new(0));
        Arc::new(Self { namespaces, changes, pending: Mutex::default() })
    }

    fn show(&self, namespaces: &[&str]) {
        *self.namespaces.lock().unwrap() = set(namespaces);
        self.changes.send_modify(|changes| *changes += 1);
    }
}

fn set(namespaces: &[&str]) -> Arc<BTreeSet<String>> {
    Arc::new(namespaces.iter().map(|namespace| (*namespace).to_owned()).collect())
}

/// An open watch, event by event.
struct WatchClient {
    body: Incoming,
    rest: Vec<u8>,
    _client: Client,
}

impl WatchClient {
    async fn open(served: &Served, headers: &[(&str, &str)]) -> Self {
        let mut client = Client::connect(served.address, &served.ca, None, "http/1.1").await.unwrap();
        let mut request = Request::builder().uri(format!("{LIST}?watch=true")).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = client.start(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), 200);
        Self { body: answer.into_body(), rest: Vec::new(), _client: client }
    }

    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(WAIT, self.body.frame()).await.expect("something in time")?;
            self.rest.extend(frame.unwrap().into_data().unwrap());
        }
    }

    /// The Status that ends the stream.
    async fn failure(&mut self) -> Value {
        let event = self.next().await.expect("the stream says why it ends");
        assert_eq!(event["type"], "ERROR", "{event}");
        assert_eq!(self.next().await, None, "and ends");
        event["object"].clone()
    }
}

fn bearer(token: &str) -> [(&'static str, String); 1] {
    [("authorization", format!("Bearer {token}"))]
}

/// The keys of a signer in a file, and a server that checks everything again at short intervals.
fn with_frequent_rechecks(signer: &Signer) -> (KeyFile, impl FnOnce(&mut ServerSettings)) {
    let (file, trust) = with_issuer(signer);
    let change = |settings: &mut ServerSettings| {
        trust(settings);
        settings.reload_every = Duration::from_millis(50);
        settings.recheck_every = Duration::from_millis(50);
        settings.review_ttl = Duration::ZERO;
    };
    (file, change)
}

/// The same, but the server checks callers again only after a change.
fn with_rechecks_on_change(signer: &Signer) -> (KeyFile, impl FnOnce(&mut ServerSettings)) {
    let (file, often) = with_frequent_rechecks(signer);
    let change = |settings: &mut ServerSettings| {
        often(settings);
        settings.recheck_every = Duration::from_hours(1);
    };
    (file, change)
}

async fn watch_by(served: &Served, token: &str) -> WatchClient {
    let [(name, value)] = bearer(token);
    WatchClient::open(served, &[(name, &value)]).await
}

/// A watch of bob, whom kube-apiserver knows by the token `good`. His right is checked again at short intervals.
async fn watch_by_bob() -> (Arc<KubeApi>, KeyFile, Served, WatchClient) {
    let kube = KubeApi::new();
    kube.know_token("good", json!({"username": "bob", "groups": ["system:authenticated"]}));
    kube.allow(|spec| spec["user"] == "bob");
    kube.trust(&Ca::new("clients"), &Ca::new("proxy"), &[]);
    let signer = Signer::new("key-1");
    let (file, change) = with_frequent_rechecks(&signer);
    let served = Served::start_by(NamespacePolicy::of(&["n"]), Some(kube.client()), change).await;
    let watch = watch_by(&served, "good").await;
    (kube, file, served, watch)
}

#[tokio::test]
async fn a_watch_ends_with_its_token() {
    let signer = Signer::new("key-1");
    let (_file, change) = with_frequent_rechecks(&signer);
    let served = Served::start_by(NamespacePolicy::of(&["n"]), None, change).await;
    let mut watch = watch_by(&served, &signer.token(|claims| claims["exp"] = json!(now() + 10))).await;
    assert_eq!(watch.next().await, None, "without a word: a new token goes on where it was");
}

#[tokio::test]
async fn a_watch_ends_when_the_key_of_its_token_is_no_longer_trusted() {
    let signer = Signer::new("key-1");
    let (file, change) = with_frequent_rechecks(&signer);
    let served = Served::start_by(NamespacePolicy::of(&["n"]), None, change).await;
    let mut watch = watch_by(&served, &signer.token(|_| {})).await;
    std::fs::write(&file, Signer::new("key-2").key_set()).unwrap();
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn who_sees_something_else_has_to_list_again() {
    let signer = Signer::new("key-1");
    let (_file, change) = with_rechecks_on_change(&signer);
    let sight = NamespacePolicy::of(&["n"]);
    let served = Served::start_by(Arc::<NamespacePolicy>::clone(&sight), None, change).await;
    for (what, namespaces) in [("taken away", vec![]), ("added", vec!["n", "m"])] {
        sight.show(&["n"]);
        let mut watch = watch_by(&served, &signer.token(|_| {})).await;
        sight.show(&["n"]);
        served.create(&format!("of-nobody-{}", namespaces.len())).await;
        sight.show(&namespaces);
        let status = watch.failure().await;
        assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")), "{what}");
    }
}

#[tokio::test]
async fn the_event_that_takes_the_sight_of_itself_away_is_not_shown() {
    let signer = Signer::new("key-1");
    let (_file, change) = with_rechecks_on_change(&signer);
    let sight = NamespacePolicy::of(&["n"]);
    let served = Served::start_by(Arc::<NamespacePolicy>::clone(&sight), None, change).await;
    let create = async |name: &str| {
        let body =
            json!({"metadata": {"name": name, "annotations": {"tenant": "acme"}}, "spec": {"colour": "red"}});
        assert_eq!(served.ask(Method::POST, LIST, "application/json", &body).await.0, 201);
    };
    let mut watch = watch_by(&served, &signer.token(|_| {})).await;
    create("a").await;
    assert_eq!(watch.next().await.unwrap()["object"]["metadata"]["name"], "a");
    *sight.pending.lock().unwrap() = Some(vec!["n"]);
    create("b").await;
    assert_eq!(watch.next().await.unwrap()["object"]["metadata"]["name"], "b", "a change to the same");
    *sight.pending.lock().unwrap() = Some(vec![]);
    create("secret").await;
    assert_eq!(watch.failure().await["code"], 410);
}

#[tokio::test]
async fn who_does_not_read_meanwhile_is_not_told_afterwards() {
    let signer = Signer::new("key-1");
    let (_file, change) = with_frequent_rechecks(&signer);
    let sight = NamespacePolicy::of(&["n"]);
    let served = Served::start_by(Arc::<NamespacePolicy>::clone(&sight), None, change).await;
    let tls = tls(served.address, &served.ca, None, "h2").await.unwrap();
    let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(16)
        .handshake::<_, Body>(TokioIo::new(tls))
        .await
        .unwrap();
    tokio::spawn(connection);
    let [(name, value)] = bearer(&signer.token(|_| {}));
    let uri = format!("https://localhost{LIST}?watch=true");
    let request = Request::builder().uri(uri).header(name, value).body(Body::empty()).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    let create = async |name: &str| {
        let body =
            json!({"metadata": {"name": name, "annotations": {"tenant": "acme"}}, "spec": {"colour": "red"}});
        assert_eq!(served.ask(Method::POST, LIST, "application/json", &body).await.0, 201);
    };
    for name in ["a", "b", "c"] {
        create(name).await;
    }
    sight.show(&[]);
    create("secret").await;
    let told = tokio::time::timeout(WAIT, answer.into_body().collect()).await.unwrap().unwrap().to_bytes();
    let told = String::from_utf8_lossy(&told);
    assert!(told.contains("\"a\"") && told.contains("Expired") && !told.contains("secret"), "{told}");
}

#[tokio::test]
async fn a_watch_ends_with_its_right_and_not_with_kube_apiserver() {
    let (kube, _file, served, mut watch) = watch_by_bob().await;
    kube.down.store(true, Ordering::SeqCst);
    served.create("a").await;
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED", "nobody says that he may not");
    kube.down.store(false, Ordering::SeqCst);
    served.create("b").await;
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");

    kube.allow(|spec| spec["resourceAttributes"]["verb"] == "operate");
    let status = watch.failure().await;
    assert_eq!((&status["code"], &status["reason"]), (&json!(403), &json!("Forbidden")));
    assert!(status["message"].as_str().unwrap().contains("\"bob\" cannot watch resource \"widgets\""));

    kube.allow(|spec| spec["user"] == "bob");
    let mut watch = watch_by(&served, "good").await;
    kube.forget_token("good");
    assert_eq!(watch.next().await.unwrap()["object"]["metadata"]["name"], "a");
    assert_eq!(watch.next().await.unwrap()["object"]["metadata"]["name"], "b");
    assert_eq!(watch.next().await, None, "the token is nobody's any more");
}

#[tokio::test]
async fn events_go_on_while_it_is_being_asked_whether_they_may() {
    let (kube, _file, served, mut watch) = watch_by_bob().await;
    let held = kube.hold_tokens().await;
    let before = kube.token_reviews.load(Ordering::SeqCst);
    until("somebody asks", async || kube.token_reviews.load(Ordering::SeqCst) > before).await;
    served.create("a").await;
    let event = tokio::time::timeout(REVIEW_WAIT, watch.next()).await.expect("before the review ends");
    assert_eq!(event.unwrap()["type"], "ADDED");
    drop(held);
}

#[tokio::test]
async fn a_socket_ends_as_a_stream_does() {
    let signer = Signer::new("key-1");
    let (_file, change) = with_frequent_rechecks(&signer);
    let sight = NamespacePolicy::of(&["n"]);
    let served = Served::start_by(Arc::<NamespacePolicy>::clone(&sight), None, change).await;
    let token = bearer(&signer.token(|_| {}))[0].1.clone();
    let path = format!("{LIST}?watch=true");
    let to = (served.address, &served.ca, None);
    let mut socket =
        crate::support::socket::Socket::open(to, &path, &[("authorization", &token)]).await.unwrap();
    sight.show(&[]);
    let crate::support::socket::SocketMessage::Event(event) = socket.next().await else {
        panic!("an event is due")
    };
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!(socket.next().await, crate::support::socket::SocketMessage::Close(1000));
}

/// Reads until the peer closes.
async fn is_closed(stream: &mut tokio_rustls::client::TlsStream<tokio::net::TcpStream>) -> bool {
    use tokio::io::AsyncReadExt;
    let mut byte = [0];
    matches!(
        tokio::time::timeout(Duration::from_millis(20), stream.read(&mut byte)).await,
        Ok(Ok(0) | Err(_))
    )
}

#[tokio::test]
async fn connections_of_nobody_keep_none_out_who_is_known() {
    let served = Served::start_with(|settings| {
        settings.connections = 6;
        settings.unauthenticated_connections = 3;
    })
    .await;
    let mut known = Client::connect(served.address, &served.ca, Some(&served.master), "h2").await.unwrap();
    assert_eq!(known.send(Method::GET, LIST, &[]).await.code, 200);
    let mut idle = Vec::new();
    for _ in 0..8 {
        idle.push(tls(served.address, &served.ca, None, "http/1.1").await.unwrap());
    }
    assert_eq!(known.send(Method::GET, LIST, &[]).await.code, 200);
    let mut new = Client::connect(served.address, &served.ca, Some(&served.master), "h2").await.unwrap();
    assert_eq!(new.send(Method::GET, LIST, &[]).await.code, 200);
    let mut first = idle.remove(0);
    until("the first ones have made room", async || is_closed(&mut first).await).await;
}
