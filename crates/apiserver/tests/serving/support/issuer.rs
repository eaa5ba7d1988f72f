use super::pki::Ca;
use super::tokens::Signer;
use super::{AUDIENCE, World};
use apiserver::authn::issuers::IssuerSettings;
use http::Method;
use rustls::ServerConfig;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub(crate) const TENANT: &str = "business.example.io/tenantid";

pub(crate) fn file(jwt: &[Value], anonymous: Option<&Value>) -> String {
    let mut file = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": jwt,
    });
    if let Some(anonymous) = anonymous {
        file["anonymous"] = anonymous.clone();
    }
    file.to_string()
}

pub(crate) fn mappings(prefix: &str) -> Value {
    json!({
        "username": {"claim": "sub", "prefix": prefix},
        "groups": {"expression": format!("claims.?groups.orValue([]).map(g, '{prefix}' + g)")},
    })
}

pub(crate) async fn world(text: &str, naming: &[&str]) -> (World, PathBuf) {
    world_of_cluster(text, naming, &[]).await
}

/// The issuers in `of_cluster` are also accepted by kube-apiserver.
pub(crate) async fn world_of_cluster(text: &str, naming: &[&str], of_cluster: &[&str]) -> (World, PathBuf) {
    let path = std::env::temp_dir().join(format!("issuers-{}.yaml", uuid::Uuid::new_v4()));
    std::fs::write(&path, text).unwrap();
    let naming_tenants = naming.iter().map(|&url| url.to_owned()).collect();
    let settings = IssuerSettings::File {
        path: path.clone(),
        naming_tenants,
        of_cluster: of_cluster.iter().map(|&url| url.to_owned()).collect(),
    };
    let world = World::start_with(|all| {
        all.authentication.tenant_keys = vec![TENANT.to_owned()];
        all.authentication.issuers = settings;
    })
    .await;
    (world, path)
}

/// Replaces the file at once, as a mounted ConfigMap changes.
pub(crate) fn write(path: &Path, text: &str) {
    let next = path.with_extension("next");
    std::fs::write(&next, text).unwrap();
    std::fs::rename(next, path).unwrap();
}

/// The user that the server finds for a token.
pub(crate) async fn ask(world: &World, token: &str) -> Result<Value, u16> {
    let bearer = format!("Bearer {token}");
    let answer = world.client(None).await.send(Method::GET, "/whoami", &[("authorization", &bearer)]).await;
    if answer.code == 200 { Ok(answer.json()["status"]["userInfo"].clone()) } else { Err(answer.code) }
}

pub(crate) async fn name(world: &World, token: &str) -> String {
    ask(world, token).await.unwrap()["username"].as_str().unwrap().to_owned()
}

/// An issuer that serves its two documents over TLS on this machine.
pub(crate) struct Issuer {
    pub(crate) url: String,
    pub(crate) ca: Ca,
    pub(crate) signer: Signer,
    keys: Arc<Mutex<String>>,
}

impl Issuer {
    pub(crate) async fn start(key: &str) -> Self {
        let (ca, signer) = (Ca::new("issuer"), Signer::new(key));
        let identity = ca.server();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(identity.chain(), identity.key()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let keys = Arc::new(Mutex::new(signer.key_set()));
        tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), url.clone(), Arc::clone(&keys)));
        Self { url, ca, signer, keys }
    }

    /// Replaces the key.
    pub(crate) fn rotate(&mut self, key: &str) {
        self.signer = Signer::new(key);
        *self.keys.lock().unwrap() = self.signer.key_set();
    }

    pub(crate) fn token(&self, change: impl FnOnce(&mut Value)) -> String {
        self.signer.token(|claims| {
            claims["iss"] = json!(self.url);
            change(claims);
        })
    }

    /// Its entry in a file, with these mappings.
    pub(crate) fn entry(&self, mappings: &Value) -> Value {
        let issuer = json!({"url": self.url, "audiences": [AUDIENCE], "certificateAuthority": self.ca.pem()});
        json!({ "issuer": issuer, "claimMappings": mappings })
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, url: String, keys: Arc<Mutex<String>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let Ok(stream) = acceptor.accept(stream).await else { continue };
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        if stream.read_line(&mut line).await.is_err() {
            continue;
        }
        let body = if line.contains("/.well-known/openid-configuration") {
            json!({"issuer": url, "jwks_uri": format!("{url}/keys")}).to_string()
        } else {
            keys.lock().unwrap().clone()
        };
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        drop(stream.write_all(format!("{head}{body}").as_bytes()).await);
        drop(stream.shutdown().await);
    }
}
