//! Our library serving the kind, in this process, on a PostgreSQL of its own.

use super::kind;
use anyhow::{Context, Result, anyhow, ensure};
use apiserver::authz::{AuthzVerdict, Policy, Right, Ruling};
use apiserver::openapi::ApiInfo;
use apiserver::server::{Server, ServerParts, ServerSettings};
use apiserver::{Api, Caller, RequestInfo};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Method;
use kit::Endpoint;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use runtime::{Clock, Health, Metrics, Tasks};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Kind, Store, Visibility};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const READY: Duration = Duration::from_mins(2);

/// Allows everything to every authenticated client.
struct AllowAuthenticated;

impl Policy for AllowAuthenticated {
    fn judge(&self, caller: &Caller, _: &RequestInfo, _: bool) -> Ruling {
        let known = caller.in_group("system:authenticated");
        let verdict = if known { AuthzVerdict::Allow } else { AuthzVerdict::NoOpinion };
        Ruling { verdict, visibility: Ok(Visibility::Everything) }
    }

    fn operator_right(&self) -> Right {
        Right { verb: "operate", group: kind::GROUP, resource: kind::PLURAL }
    }
}

/// A running server.
pub(crate) struct Library {
    pub(crate) endpoint: Endpoint,
    serving: Tasks,
    tasks: Tasks,
    files: PathBuf,
}

impl Library {
    /// Starts it on a port of its own.
    pub(crate) async fn start() -> Result<Self> {
        let files = std::env::temp_dir().join(format!("differential-{}", std::process::id()));
        std::fs::create_dir_all(&files)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let endpoint = credentials(&files, port)?;
        let database = store::testing::database().await.map_err(|error| anyhow!("{error}"))?;
        let (tasks, metrics, clock) = (Tasks::new(), Metrics::new(), Clock::system());
        let kinds: Vec<Arc<dyn Kind>> = vec![Arc::new(kind::Items)];
        let store = Store::open(store::Config::new(database.url), kinds, &tasks, &metrics)?;
        let id = store.kind_id(kind::GROUP, kind::PLURAL).context("the kind has no number")?;
        let resources = vec![Arc::new(kind::resource(id))];
        let draining = CancellationToken::new();
        let about = ApiInfo { title: "Items".to_owned(), version: "v1".to_owned() };
        let api = Api::new(resources.clone(), store, clock.clone(), draining.clone(), &about)?;
        let mut settings = ServerSettings::new(files.join("tls.crt"), files.join("tls.key"));
        settings.authentication.trust.client_ca_file = Some(files.join("ca.crt"));
        let parts = ServerParts {
            handler: Arc::new(api),
            resources,
            routes: Vec::new(),
            policy: Arc::new(AllowAuthenticated),
            kube: None,
            metrics,
            live: Health::new(),
            ready: Health::new(),
            draining,
            clock,
        };
        let serving = Tasks::new();
        let server = Server::new(settings, parts).await?;
        let own = serving.clone();
        tasks.spawn("server", async move {
            if let Err(error) = server.run(listener, own).await {
                crate::say(&format!("the server ended: {error}"));
            }
        });
        ready(&endpoint).await?;
        Ok(Self { endpoint, serving, tasks, files })
    }

    /// Stops it.
    pub(crate) async fn stop(self) -> Result<()> {
        self.serving.cancel();
        self.tasks.cancel();
        self.tasks.join(Duration::from_secs(10)).await?;
        std::fs::remove_dir_all(&self.files)?;
        Ok(())
    }
}

/// Waits until the store has read what there is.
async fn ready(endpoint: &Endpoint) -> Result<()> {
    let path = format!("/apis/{}/v1/{}", kind::GROUP, kind::PLURAL);
    let deadline = Instant::now() + READY;
    while !endpoint.connect().await?.call(Method::GET, &path, Bytes::new()).await?.0.is_success() {
        ensure!(Instant::now() < deadline, "the library's server does not get ready");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// An authority, a serving and a client certificate, and the kubeconfig that holds them.
fn credentials(files: &Path, port: u16) -> Result<Endpoint> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "ca");
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let issue = |name: &str| -> Result<(String, String)> {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages =
            vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth, rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        Ok((params.signed_by(&key, &ca)?.pem(), key.serialize_pem()))
    };
    let (server, client) = (issue("server")?, issue("client")?);
    std::fs::write(files.join("ca.crt"), ca.pem())?;
    std::fs::write(files.join("tls.crt"), server.0)?;
    std::fs::write(files.join("tls.key"), server.1)?;
    let data = |pem: &str| STANDARD.encode(pem);
    let kubeconfig = json!({
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": format!("https://127.0.0.1:{port}"),
            "certificate-authority-data": data(&ca.pem())}}],
        "users": [{"name": "u", "user": {"client-certificate-data": data(&client.0), "client-key-data": data(&client.1)}}],
    });
    let path = files.join("kubeconfig");
    std::fs::write(&path, kubeconfig.to_string())?;
    Endpoint::from_kubeconfig(&path)
}
