//! The rivals: a custom resource with the same schema on the same kube-apiserver, and an empty backend
//! behind the same aggregator, which is the ceiling of what can come through it.

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kit::Endpoint;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Group of the custom resource.
pub(crate) const CRD: &str = "rival.bench.example.com";
/// Group of the empty backend.
pub(crate) const EMPTY: &str = "empty.bench.example.com";

/// Installs the custom resource and waits until it is served.
pub(crate) async fn install_crd(kube: &Endpoint) -> Result<()> {
    let quantities = json!({"type": "object", "additionalProperties": {
        "anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true}});
    let strings = |names: &[&str]| -> serde_json::Map<String, Value> {
        names.iter().map(|n| ((*n).to_owned(), json!({"type": "string"}))).collect()
    };
    let mut spec = strings(&[
        "tenantID",
        "clusterName",
        "namespace",
        "clusterVersion",
        "clusterType",
        "clusterDisplayName",
    ]);
    spec.insert("hard".to_owned(), quantities.clone());
    spec.insert("finalizers".to_owned(), json!({"type": "array", "items": {"type": "string"}}));
    let mut status = strings(&["phase", "reason", "message", "lastTransitionTime", "resourceQuotaName"]);
    status.insert("used".to_owned(), quantities.clone());
    status.insert("cachedSpecHard".to_owned(), quantities);
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("rivals.{CRD}")},
        "spec": {
            "group": CRD, "scope": "Namespaced",
            "names": {"plural": "rivals", "singular": "rival", "kind": "Rival"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": spec},
                    "status": {"type": "object", "properties": status},
                }}},
            }],
        },
    });
    let mut connection = kube.connect().await?;
    connection.ensure("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rival"}});
    connection.ensure("/api/v1/namespaces", &namespace).await?;
    wait_for(kube, &format!("/apis/{CRD}/v1/rivals?limit=1")).await
}

/// The collection of rivals.
pub(crate) fn crd_path() -> String {
    crd_path_in("rival")
}

/// The same in a namespace.
pub(crate) fn crd_path_in(namespace: &str) -> String {
    format!("/apis/{CRD}/v1/namespaces/{namespace}/rivals")
}

/// Starts the empty backend in this process, registers it, and waits until the aggregator serves it.
pub(crate) async fn install_empty_backend(kube: &Endpoint) -> Result<()> {
    let names = vec!["empty.default.svc".to_owned(), "127.0.0.1".to_owned()];
    let certified = rcgen::generate_simple_self_signed(names)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(serve_empty(listener, TlsAcceptor::from(Arc::new(tls))));

    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "empty", "namespace": "default"},
        "spec": {"type": "ExternalName", "externalName": "127.0.0.1", "ports": [{"port": port}]}});
    let api_service = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": format!("v1.{EMPTY}")},
        "spec": {"group": EMPTY, "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10,
            "insecureSkipTLSVerify": true, "service": {"name": "empty", "namespace": "default", "port": port}}});
    let mut connection = kube.connect().await?;
    let api_services = "/apis/apiregistration.k8s.io/v1/apiservices";
    for (path, name) in
        [(api_services, format!("v1.{EMPTY}")), ("/api/v1/namespaces/default/services", "empty".to_owned())]
    {
        // What an earlier run left points at a port that is closed.
        connection.call(Method::DELETE, &format!("{path}/{name}"), Bytes::new()).await?;
    }
    connection.json(Method::POST, "/api/v1/namespaces/default/services", &service).await?;
    connection.json(Method::POST, api_services, &api_service).await?;
    wait_for(kube, &format!("/apis/{EMPTY}/v1/namespaces/rival/things")).await
}

/// The collection of the empty backend.
pub(crate) fn empty_path() -> String {
    format!("/apis/{EMPTY}/v1/namespaces/rival/things")
}

async fn wait_for(kube: &Endpoint, path: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let status = kube.connect().await?.call(Method::GET, path, Bytes::new()).await?.0;
        if status.is_success() {
            return Ok(());
        }
        if Instant::now() > deadline {
            anyhow::bail!("GET {path} still answers {status}");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn serve_empty(listener: TcpListener, acceptor: TlsAcceptor) {
    while let Ok((tcp, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let stream = acceptor.accept(tcp).await.context("handshake")?;
            let served = auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service_fn(answer_empty))
                .await;
            served.map_err(|error| anyhow::anyhow!(error))
        });
    }
}

/// Answers a POST with its own body and everything else with a small document: the least a backend can do.
async fn answer_empty(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let post = request.method() == Method::POST;
    let body =
        request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let resources = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{EMPTY}/v1"), "resources": []});
    let (status, body) =
        if post { (StatusCode::CREATED, body) } else { (StatusCode::OK, Bytes::from(resources.to_string())) };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    Ok(response)
}
