use crate::support::{Answer, until};
use business_api::serve::Program;
use http::{Method, Request, Response, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use runtime::Tasks;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use served::{AUDIENCE, Authority, ISSUER, Issued, Signer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use store::testing;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

/// The program with a kube-apiserver that answers its reviews, and every kind of caller.
pub(super) struct World {
    address: SocketAddr,
    serving: Authority,
    clients: Authority,
    proxies: Authority,
    signing: Signer,
    tasks: Tasks,
    directory: PathBuf,
}

impl Drop for World {
    fn drop(&mut self) {
        self.tasks.cancel();
        let _gone = std::fs::remove_dir_all(&self.directory);
    }
}

/// Somebody, by certificate, token and headers.
pub(super) struct Caller {
    address: SocketAddr,
    tls: TlsConnector,
    headers: Vec<(String, String)>,
}

impl World {
    pub(super) async fn start() -> Self {
        let directory = std::env::temp_dir().join(format!("business-api-matrix-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&directory).unwrap();
        let database = testing::database().await.unwrap();
        let [serving, clients, proxies] = ["serving", "clients", "front proxy"].map(Authority::new);
        let signing = Signer::default();
        let kube = kube_apiserver(&clients.pem, &proxies.pem).await;
        let server = serving.server("server", &["127.0.0.1"]);
        let file = |name: &str, text: &str| {
            std::fs::write(directory.join(name), text).unwrap();
            directory.join(name).to_string_lossy().into_owned()
        };
        let line = [
            format!("--database-url={}", database.url),
            format!("--kubeconfig={}", file("kubeconfig", &kubeconfig(kube))),
            format!("--tls-cert-file={}", file("tls.crt", &server.certificate)),
            format!("--tls-private-key-file={}", file("tls.key", &server.key)),
            "--tenant-grant".to_owned(),
            format!("--jwt-issuer={ISSUER}"),
            format!("--jwt-audience={AUDIENCE}"),
            format!("--jwt-jwks-file={}", file("jwks.json", &signing.key_set().to_string())),
        ];
        let tasks = Tasks::new();
        let address = served::start(line.to_vec(), Program::default(), tasks.clone()).await.api;
        Self { address, serving, clients, proxies, signing, tasks, directory }
    }

    /// Each kind of caller under its column's name.
    pub(super) fn callers(&self) -> Vec<(&'static str, Caller)> {
        let stranger = Signer::default();
        let root = [("x-remote-user", "root"), ("x-remote-group", "system:masters")];
        let tenant_key = "x-remote-extra-business.tkestack.io%2Ftenantid";
        let alice = [("impersonate-user", "alice"), ("impersonate-extra-tenantid", "acme")];
        vec![
            ("masters", self.masters()),
            ("operator", self.proxied(&[("x-remote-user", "operator")])),
            ("viewer", self.proxied(&[("x-remote-user", "viewer")])),
            ("kcm", self.proxied(&[("x-remote-user", "system:kube-controller-manager")])),
            (
                "admin-prox",
                self.proxied(&[
                    ("x-remote-user", "ann"),
                    ("x-remote-group", "tenant-admins"),
                    (tenant_key, "acme"),
                ]),
            ),
            ("admin", self.tenant_admin("acme")),
            ("admin-plf", self.member("nora", "acme")),
            ("member", self.member("alice", "acme")),
            ("as-member", self.caller(Some(&self.clients.caller("root", &["system:masters"])), &alice)),
            ("no-member", self.member("bob", "acme")),
            ("other", self.tenant_admin("umbrella")),
            ("eve-cert", self.caller(Some(&self.clients.caller("eve", &["somebody"])), &[])),
            ("eve-forged", self.caller(Some(&self.clients.caller("eve", &["somebody"])), &root)),
            ("eve-as", self.caller(Some(&self.clients.caller("eve", &["somebody"])), &alice)),
            ("anonymous", self.caller(None, &[])),
            ("forged-hdr", self.caller(None, &root)),
            ("expired", self.bearer(&self.signing, |claims| claims["exp"] = json!(1))),
            ("no-tenant", self.bearer(&self.signing, |claims| claims["tenantid"] = json!(""))),
            ("forged-jwt", self.bearer(&stranger, |_| {})),
            ("foreign", self.bearer(&stranger, |claims| claims["iss"] = json!("https://elsewhere.test"))),
        ]
    }

    /// Whoever is known by the objects that name him, under his column's name, through kube-apiserver and directly.
    pub(super) fn named(&self) -> Vec<(&'static str, [Caller; 2])> {
        let people: [(&str, &str, &[&str]); 9] = [
            ("t-admin", "tara", &[]),
            ("p-admin", "pat", &[]),
            ("p-edit", "ed", &[]),
            ("p-view", "vi", &[]),
            ("inherited", "top-admin", &[]),
            ("by-group", "somebody", &["devs"]),
            ("elsewhere", "zed", &[]),
            ("two", "both", &[]),
            ("sa", "system:serviceaccount:gitops:argocd", &[]),
        ];
        let both = people.map(|(column, name, groups)| {
            let mut headers = vec![("x-remote-user", name)];
            headers.extend(groups.iter().map(|group| ("x-remote-group", *group)));
            let directly = self.caller(Some(&self.clients.caller(name, groups)), &[]);
            (column, [self.proxied(&headers), directly])
        });
        both.into_iter().collect()
    }

    /// Somebody of a tenant whose role in Kubernetes lets him read all tenants.
    pub(super) fn auditor(&self, tenant: &str) -> Caller {
        let tenant_key = "x-remote-extra-business.tkestack.io%2Ftenantid";
        self.proxied(&[("x-remote-user", "auditor"), (tenant_key, tenant)])
    }

    pub(super) fn masters(&self) -> Caller {
        self.caller(Some(&self.clients.caller("root", &["system:masters"])), &[])
    }

    pub(super) fn tenant_admin(&self, tenant: &str) -> Caller {
        self.bearer(&self.signing, |claims| {
            claims["tenantid"] = json!(tenant);
            claims["groups"] = json!(["tenant-admins"]);
        })
    }

    pub(super) fn member(&self, name: &str, tenant: &str) -> Caller {
        self.bearer(&self.signing, |claims| {
            claims["sub"] = json!(name);
            claims["tenantid"] = json!(tenant);
        })
    }

    fn proxied(&self, headers: &[(&str, &str)]) -> Caller {
        self.caller(Some(&self.proxies.caller("aggregator", &[])), headers)
    }

    fn bearer(&self, key: &Signer, change: impl FnOnce(&mut Value)) -> Caller {
        let mut claims = json!({"sub": "ann", "tenantid": "acme", "groups": []});
        change(&mut claims);
        let token = key.token(claims);
        self.caller(None, &[("authorization", &format!("Bearer {token}"))])
    }

    fn caller(&self, identity: Option<&Issued>, headers: &[(&str, &str)]) -> Caller {
        let tls = self.serving.connector(identity);
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Caller { address: self.address, tls, headers }
    }
}

impl Caller {
    pub(super) async fn until_ready(&self) {
        until("the server is ready", async || self.get("/readyz").await.code == 200).await;
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.send(&Method::GET, path, None).await
    }

    pub(super) async fn send(&self, method: &Method, path: &str, body: Option<Value>) -> Answer {
        let response = self.ask(method, path, body).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| text());
        Answer { code, body, warnings: Vec::new() }
    }

    /// The code of a stream, which is not read.
    pub(super) async fn begin(&self, path: &str) -> u16 {
        self.ask(&Method::GET, path, None).await.status().as_u16()
    }

    async fn ask(&self, method: &Method, path: &str, body: Option<Value>) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let tls = self.tls.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(tls)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        if body.is_some() {
            let patch = *method == Method::PATCH;
            let content = if patch { "application/merge-patch+json" } else { "application/json" };
            request = request.header(header::CONTENT_TYPE, content);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        sender.send_request(request.body(Full::new(bytes)).unwrap()).await.unwrap()
    }
}

/// As much of kube-apiserver as is asked: whom to trust, and RBAC by a few names.
async fn kube_apiserver(clients: &str, proxies: &str) -> SocketAddr {
    let data = json!({
        "client-ca-file": clients,
        "requestheader-client-ca-file": proxies,
        "requestheader-username-headers": r#"["X-Remote-User"]"#,
        "requestheader-group-headers": r#"["X-Remote-Group"]"#,
        "requestheader-extra-headers-prefix": r#"["X-Remote-Extra-"]"#,
        "requestheader-allowed-names": r#"["aggregator"]"#,
    });
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system", "resourceVersion": "1"},
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let map = map.clone();
            let service = service_fn(move |request| answer(request, map.clone()));
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
            );
        }
    });
    address
}

type Body = BoxBody<Bytes, Infallible>;

async fn answer(request: Request<Incoming>, map: Value) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let review = || serde_json::from_slice::<Value>(&body).unwrap();
    let of_map = head.uri.path().ends_with("/configmaps/extension-apiserver-authentication");
    let reply = match head.uri.path() {
        "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
            let spec = review()["spec"].clone();
            let allowed = rbac(&spec);
            json!({"spec": spec, "status": {"allowed": allowed}})
        }
        "/apis/authentication.k8s.io/v1/tokenreviews" => {
            json!({"spec": {"token": ""}, "status": {"authenticated": false}})
        }
        _ if of_map => map,
        _ if head.uri.query().is_some_and(|query| query.contains("watch=true")) => {
            let silence = futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>();
            return Ok(Response::new(BodyExt::boxed(StreamBody::new(silence))));
        }
        _ => json!({"metadata": {"resourceVersion": "1"}, "items": [map]}),
    };
    Ok(Response::new(Full::new(Bytes::from(reply.to_string())).boxed()))
}

/// The operator may do everything with our kinds, the viewer read, the auditor read all tenants, kube-controller-manager
/// what its roles say.
fn rbac(spec: &Value) -> bool {
    let asked = &spec["resourceAttributes"];
    let verb = asked["verb"].as_str().unwrap_or_default();
    let reads = matches!(verb, "get" | "list" | "watch");
    let ours = asked["group"] == "business.tkestack.io";
    match spec["user"].as_str().unwrap_or_default() {
        "operator" => ours,
        "viewer" => ours && reads,
        "auditor" => ours && (reads || verb == "operate"),
        "system:kube-controller-manager" => ours && (reads || matches!(verb, "delete" | "deletecollection")),
        _ => false,
    }
}

fn kubeconfig(address: SocketAddr) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    })
    .to_string()
}
