//! A server of one's own, and clients of every sort.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use business_api::certificates::CertificateIssuer;
use business_api::config::{Cli, Command};
use business_api::kinds::{KINDS, KindTable};
use business_api::serve::Program;
use clap::Parser;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use runtime::Metrics;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use served::Installation;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use store::testing::{self, Database};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

pub(crate) const GROUP: &str = "/apis/business.tkestack.io/v1";
const DEADLINE: Duration = Duration::from_secs(30);

/// One or more replicas on one database, and the keys to them.
pub(crate) struct World {
    pub(crate) replicas: Vec<SocketAddr>,
    /// What each replica counts.
    metrics: Vec<Metrics>,
    pub(crate) database: Database,
    installation: Installation,
    tls: TlsConnector,
    operator: TlsConnector,
    stranger: TlsConnector,
    kubernetes: TlsConnector,
    service_account: TlsConnector,
}

/// Somebody at one replica.
#[derive(Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    tls: TlsConnector,
    /// The header of that name.
    authorization: Option<String>,
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    /// The body, when the code is the expected one.
    #[track_caller]
    pub(crate) fn expect(self, code: u16) -> Value {
        assert_eq!(self.code, code, "{:#}", self.body);
        self.body
    }

    /// `(reason, field)` of each cause.
    pub(crate) fn causes(&self) -> Vec<(String, String)> {
        let causes = self.body["details"]["causes"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        causes.iter().map(|cause| (text(&cause["reason"]), text(&cause["field"]))).collect()
    }

    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }

    /// Names of a list's items.
    #[track_caller]
    pub(crate) fn names(&self) -> Vec<String> {
        assert_eq!(self.code, 200, "{:#}", self.body);
        let items = self.body["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with_replicas(1).await
    }

    pub(crate) async fn with_replicas(count: usize) -> Self {
        Self::ready(count, &["--tenant-grant"], KINDS).await
    }

    /// Replicas with these flags beside the usual ones.
    pub(crate) async fn with_replicas_and(count: usize, flags: &[&str]) -> Self {
        Self::ready(count, flags, KINDS).await
    }

    /// One replica with these flags beside the usual ones.
    pub(crate) async fn with_settings(flags: &[&str]) -> Self {
        Self::ready(1, flags, KINDS).await
    }

    /// One replica with these flags beside the usual ones, for which somebody issues certificates.
    pub(crate) async fn with_issuer(flags: &[&str], issuer: Arc<dyn CertificateIssuer>) -> Self {
        let database = testing::database().await.unwrap();
        let world = Self::start_with(database, 1, flags, KINDS, Some(issuer)).await;
        world.until_ready().await;
        world
    }

    /// One replica that serves other kinds.
    pub(crate) async fn with_kinds(kinds: KindTable) -> Self {
        Self::ready(1, &["--tenant-grant"], kinds).await
    }

    async fn ready(count: usize, flags: &[&str], kinds: KindTable) -> Self {
        let world = Self::start(testing::database().await.unwrap(), count, flags, kinds).await;
        world.until_ready().await;
        world
    }

    /// One replica that may not be ready: its database is wherever it is.
    pub(crate) async fn started(database: Database, flags: &[&str]) -> Self {
        Self::start(database, 1, flags, KINDS).await
    }

    async fn start(database: Database, count: usize, flags: &[&str], kinds: KindTable) -> Self {
        Self::start_with(database, count, flags, kinds, None).await
    }

    async fn start_with(
        database: Database,
        count: usize,
        flags: &[&str],
        kinds: KindTable,
        issuer: Option<Arc<dyn CertificateIssuer>>,
    ) -> Self {
        let installation = Installation::new(database.clone());
        let program = Program { kinds, issuer, ..Program::default() };
        let (mut replicas, mut metrics) = (Vec::new(), Vec::new());
        for _replica in 0..count {
            let replica = installation.serve(program.clone(), flags).await;
            replicas.push(replica.api);
            metrics.push(replica.metrics);
        }
        let authority = &installation.authority;
        let caller = |name: &str, group: &str| authority.connector(Some(&authority.caller(name, &[group])));
        Self {
            replicas,
            metrics,
            database,
            tls: authority.connector(None),
            operator: caller("operator", "system:masters"),
            kubernetes: caller("system:kube-controller-manager", "kubernetes"),
            service_account: caller("system:serviceaccount:ci:deployer", "system:masters"),
            stranger: caller("eve", "somebody"),
            installation,
        }
    }

    pub(crate) async fn until_ready(&self) {
        for replica in 0..self.replicas.len() {
            let client = self.operator_at(replica);
            until("the server is ready", async || client.get("/readyz").await.code == 200).await;
        }
    }

    /// Makes a member cluster, or changes it, and waits until every replica knows.
    pub(crate) async fn register(&self, cluster: Value, status: Value) {
        let operator = self.operator();
        let path = format!("/memberclusters/{}", cluster["metadata"]["name"].as_str().unwrap());
        if operator.get(&path).await.code == 200 {
            operator.patch(&path, json!({"spec": cluster["spec"]})).await.expect(200);
        } else {
            operator.post("/memberclusters", cluster).await.expect(201);
        }
        operator.patch(&format!("{path}/status"), json!({"status": status})).await.expect(200);
        let name = path.rsplit('/').next().unwrap();
        for replica in 0..self.replicas.len() {
            let client = self.operator_at(replica);
            until("the cluster is known, and no other name is good", async || {
                client.names(name).await && !client.names("nowhere").await
            })
            .await;
        }
    }

    /// Clusters were compared with the objects of a revision.
    pub(crate) async fn compared(&self, clusters: &[&str], revision: u64) {
        let status = json!({"comparison": {"revision": revision}});
        for name in clusters {
            self.register(member_cluster(name, &["*"]), status.clone()).await;
        }
    }

    /// A metric without labels of the first replica.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.metrics[0].encode();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{name} is not in {text}")).parse().unwrap()
    }

    /// Sees and may do everything.
    pub(crate) fn operator(&self) -> Client {
        self.operator_at(0)
    }

    pub(crate) fn operator_at(&self, replica: usize) -> Client {
        Client { address: self.replicas[replica], tls: self.operator.clone(), authorization: None }
    }

    /// Somebody at another replica.
    pub(crate) fn at(&self, replica: usize, client: &Client) -> Client {
        Client { address: self.replicas[replica], ..client.clone() }
    }

    /// Known by a certificate, but with neither tenant nor right.
    pub(crate) fn stranger(&self) -> Client {
        Client { address: self.replicas[0], tls: self.stranger.clone(), authorization: None }
    }

    /// Known by a certificate, without a tenant: he is what projects make of his name.
    pub(crate) fn host_user(&self, name: &str) -> Client {
        let authority = &self.installation.authority;
        let tls = authority.connector(Some(&authority.caller(name, &["somebody"])));
        Client { tls, ..self.stranger() }
    }

    /// A part of Kubernetes that sees everything.
    pub(crate) fn kubernetes(&self) -> Client {
        Client { address: self.replicas[0], tls: self.kubernetes.clone(), authorization: None }
    }

    /// An operator's program.
    pub(crate) fn service_account(&self) -> Client {
        Client { address: self.replicas[0], tls: self.service_account.clone(), authorization: None }
    }

    /// Rules a tenant.
    pub(crate) fn admin(&self, tenant: &str) -> Client {
        self.user(&format!("admin-{tenant}"), tenant, &["tenant-admins"])
    }

    /// The same under a name of his own.
    pub(crate) fn administrator(&self, name: &str, tenant: &str) -> Client {
        self.user(name, tenant, &["tenant-admins"])
    }

    /// A tenant's user without any role.
    pub(crate) fn member(&self, name: &str, tenant: &str) -> Client {
        self.user(name, tenant, &[])
    }

    fn user(&self, name: &str, tenant: &str, groups: &[&str]) -> Client {
        let claims = json!({"sub": name, "groups": groups, "tenantid": tenant});
        Client { authorization: Some(format!("Bearer {}", self.token(claims))), ..self.nobody() }
    }

    /// Without any credentials.
    pub(crate) fn nobody(&self) -> Client {
        Client { address: self.replicas[0], tls: self.tls.clone(), authorization: None }
    }

    /// With a token of these claims.
    pub(crate) fn bearer(&self, claims: Value) -> Client {
        Client { authorization: Some(format!("Bearer {}", self.token(claims))), ..self.nobody() }
    }

    /// With a name and a password.
    pub(crate) fn basic(&self, user: &str, password: &str) -> Client {
        let encoded = BASE64_STANDARD.encode(format!("{user}:{password}"));
        Client { authorization: Some(format!("Basic {encoded}")), ..self.nobody() }
    }

    pub(crate) fn token(&self, claims: Value) -> String {
        self.installation.signer.token(claims)
    }

    /// Ledger, claims and objects agree.
    pub(crate) async fn assert_books_agree(&self) {
        self.assert_books_of(KINDS).await;
    }

    /// The same with the kinds of another program.
    pub(crate) async fn assert_books_of(&self, kinds: KindTable) {
        let line = format!("business-api audit --database-url {}", self.database.url);
        let Command::Audit(settings) = Cli::parse_from(line.split(' ')).command else { panic!("not audit") };
        let finding = business_api::audit::run_with(&settings, kinds).await.unwrap();
        assert!(finding.consistent, "{}", finding.text);
        assert!(!finding.text.contains("were not compared"), "{}", finding.text);
    }
}

/// A member cluster that these tenants may use.
pub(crate) fn member_cluster(name: &str, tenants: &[&str]) -> Value {
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "MemberCluster", "metadata": {"name": name},
        "spec": {"tenants": tenants},
    })
}

/// Polls a condition; fails the test when it does not come true in time.
pub(crate) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let polled = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(DEADLINE, polled).await.is_ok(), "in time: {what}");
}

impl Client {
    /// Whether a project may name a cluster.
    async fn names(&self, cluster: &str) -> bool {
        let mut body = project("naming", json!({}));
        body["spec"]["clusters"] = json!({cluster: {"hard": {}}});
        self.post("/projects?dryRun=All", body).await.code != 422
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "application/json", None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, "application/json", Some(body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.send(Method::PUT, path, "application/json", Some(body)).await
    }

    /// A merge patch.
    pub(crate) async fn patch(&self, path: &str, body: Value) -> Answer {
        self.send(Method::PATCH, path, "application/merge-patch+json", Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, "application/json", None).await
    }

    /// Reads, changes, and puts back, with the version that was read.
    pub(crate) async fn replace(
        &self,
        path: &str,
        subresource: &str,
        change: impl FnOnce(&mut Value),
    ) -> Answer {
        let mut object = self.get(path).await.expect(200);
        change(&mut object);
        self.put(&format!("{path}{subresource}"), object).await
    }

    /// In a form that is asked for.
    pub(crate) async fn get_as(&self, path: &str, accept: &str) -> Answer {
        self.ask(Method::GET, path, "", Some(accept), None).await
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        content: &str,
        body: Option<Value>,
    ) -> Answer {
        self.ask(method, path, content, None, body.map(|body| body.to_string())).await
    }

    /// With whatever body, in a form that is asked for.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        content: &str,
        accept: Option<&str>,
        body: Option<String>,
    ) -> Answer {
        let content = body.as_ref().map(|_body| (header::CONTENT_TYPE.as_str(), content));
        let accept = accept.map(|accept| (header::ACCEPT.as_str(), accept));
        let headers: Vec<(&str, &str)> = content.into_iter().chain(accept).collect();
        self.ask_with(method, path, &headers, body).await
    }

    /// With exactly these headers, beside those of a connection and of the credentials.
    pub(crate) async fn ask_with(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Answer {
        let mut request = self.request(method, path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let bytes = body.map(Bytes::from).unwrap_or_default();
        self.clone().kept().await.answer(request.body(Full::new(bytes)).unwrap()).await
    }

    fn request(&self, method: Method, path: &str) -> http::request::Builder {
        let whole =
            if ["/apis", "/readyz", "/registry/", "/openapi/"].iter().any(|root| path.starts_with(root)) {
                path.to_owned()
            } else {
                format!("{GROUP}{path}")
            };
        let request = Request::builder().method(method).uri(whole).header(header::HOST, "localhost");
        match &self.authorization {
            Some(authorization) => request.header(header::AUTHORIZATION, authorization),
            None => request,
        }
    }

    /// The same on one connection that is kept.
    pub(crate) async fn kept(self) -> Kept {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let tls = self.tls.connect(name, stream).await.unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(tls)).await.unwrap();
        let driver = tokio::spawn(async move {
            let _ended = connection.await;
        });
        Kept { client: self, sender, driver: AbortOnDropHandle::new(driver) }
    }
}

/// Somebody on one connection.
pub(crate) struct Kept {
    client: Client,
    sender: SendRequest<Full<Bytes>>,
    driver: AbortOnDropHandle<()>,
}

impl Kept {
    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        let request = self.client.request(Method::GET, path).body(Full::default()).unwrap();
        self.answer(request).await
    }

    async fn answer(&mut self, request: Request<Full<Bytes>>) -> Answer {
        assert!(!self.driver.is_finished(), "the connection is gone");
        let response = self.sender.send_request(request).await.unwrap();
        let code = response.status().as_u16();
        let warnings = response.headers().get_all(header::WARNING).iter();
        let warnings = warnings.map(|value| value.to_str().unwrap_or_default().to_owned()).collect();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        Answer { code, body: serde_json::from_slice(&bytes).unwrap_or_else(|_| text()), warnings }
    }
}

/// A project's body; `hard` is what it gets on cluster c1.
#[expect(clippy::needless_pass_by_value, reason = "callers write a literal")]
pub(crate) fn project(name: &str, hard: Value) -> Value {
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "Project", "metadata": {"name": name},
        "spec": {"displayName": name, "clusters": {"c1": {"hard": hard}}}
    })
}

/// A child project's body.
pub(crate) fn child(name: &str, parent: &str, hard: Value) -> Value {
    let mut body = project(name, hard);
    body["spec"]["parentProjectName"] = json!(parent);
    body
}

/// A namespace's body on cluster c1; its name becomes `c1-<namespace>`.
#[expect(clippy::needless_pass_by_value, reason = "callers write a literal")]
pub(crate) fn namespace(namespace: &str, hard: Value) -> Value {
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "Namespace", "metadata": {},
        "spec": {"clusterName": "c1", "namespace": namespace, "hard": hard}
    })
}

/// The collection of a project's namespaces.
pub(crate) fn namespaces(project: &str) -> String {
    format!("/namespaces/{project}/namespaces")
}
