use crate::failure::{Failure, Outcome};
use crate::files;
use crate::oidc::{Provider, Session};
use crate::screen::note;
use clap::Args;
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the provider sends the browser back to.
mod callback;
/// Sessions on disk, and the credential plugin that reads them.
pub(crate) mod session;

use callback::Callback;
use session::SessionFile;

const EXAMPLES: &str = "\
Examples:
  kubectl business login --issuer https://sso.example.org --client-id kubernetes --server https://api.example.org:6443 \\
    --certificate-authority ca.crt
  kubectl business login --issuer https://sso.example.org --client-id kubernetes     # for the cluster of the current context
  kubectl business login --issuer https://sso.example.org --client-id kubernetes --print-url

The provider knows the client as a public one that may be sent back to http://127.0.0.1/callback at any port, with PKCE.
kubectl then gets fresh tokens by itself, as long as the provider refreshes them.";

/// Log in at an identity provider, and write a context for it into the kubeconfig
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Login {
    #[command(flatten)]
    client: OidcClient,
    /// Print the address and open no browser
    #[arg(long)]
    print_url: bool,
    /// The port of 127.0.0.1 that the provider sends the browser back to; any free one if it is left out
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    listen_port: u16,
    /// The API server; else that of the current context
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The authorities of the API server
    #[arg(long, value_name = "FILE", requires = "server")]
    certificate_authority: Option<PathBuf>,
    /// What the context is to be called
    #[arg(long, default_value = "business", value_name = "NAME")]
    name: String,
}

/// Who asks whom.
#[derive(Clone, Debug, Args)]
pub(crate) struct OidcClient {
    /// The provider's address
    #[arg(long, value_name = "URL")]
    issuer: String,
    /// This program's name at the provider
    #[arg(long, value_name = "NAME")]
    client_id: String,
    /// The authorities of the provider; else those of the system
    #[arg(long, value_name = "FILE")]
    issuer_ca: Option<PathBuf>,
    /// A scope to ask for beside those that every login needs; repeat it for several
    #[arg(long, value_name = "NAME")]
    scope: Vec<String>,
}

impl OidcClient {
    pub(crate) fn provider(&self) -> Provider {
        Provider {
            issuer: self.issuer.clone(),
            client_id: self.client_id.clone(),
            authority: self.issuer_ca.clone(),
            scopes: self.scope.clone(),
        }
    }

    /// The same as arguments of the credential plugin.
    fn args(&self) -> Result<Vec<String>, Failure> {
        let mut args = vec!["token".to_owned(), format!("--issuer={}", self.issuer)];
        args.push(format!("--client-id={}", self.client_id));
        if let Some(authority) = &self.issuer_ca {
            let whole = authority.canonicalize();
            let whole =
                whole.map_err(|error| Failure::File { path: authority.clone(), why: error.to_string() })?;
            args.push(format!("--issuer-ca={}", whole.display()));
        }
        args.extend(self.scope.iter().map(|scope| format!("--scope={scope}")));
        Ok(args)
    }
}

impl Login {
    /// `own`: the kubeconfig of `--kubeconfig`, `context`: the one whose cluster is meant.
    pub(crate) async fn run(&self, own: Option<&Path>, context: Option<&str>) -> Result<Outcome, Failure> {
        let file = files::kubeconfig(own)?;
        let cluster = self.cluster(&file, context)?;
        let session = self.session().await?;
        SessionFile::of(&self.client.provider())?.keep(&session)?;
        let plugin = std::env::current_exe().map_err(|error| Failure::Stopped(error.to_string()))?;
        let exec = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "command": plugin, "args": self.client.args()?,
            "interactiveMode": "Never",
        });
        let name = &self.name;
        let added = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": name,
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"exec": exec}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        });
        let added =
            Kubeconfig::from_yaml(&added.to_string()).map_err(|error| Failure::Stopped(error.to_string()))?;
        files::merge_into(&file, added)?;
        note(format_args!(
            "logged in as {}; the context {name} of {} is the current one",
            session.subject,
            file.display()
        ));
        Ok(Outcome::Done)
    }

    async fn session(&self) -> Result<Session, Failure> {
        let callback = Callback::listen(self.listen_port).await?;
        let provider = self.client.provider().known(Some(&callback.url())).await?;
        let begun = provider.begin();
        note(format_args!("log in here:\n\n  {}\n", begun.url));
        if !self.print_url {
            open(&begun.url);
        }
        let code = callback.code(&begun.state).await?;
        provider.end(begun, code).await
    }

    /// The cluster that the context is for.
    fn cluster(&self, file: &Path, context: Option<&str>) -> Result<Value, Failure> {
        if let Some(server) = &self.server {
            let mut cluster = json!({ "server": server });
            if let (Some(path), Some(map)) = (&self.certificate_authority, cluster.as_object_mut()) {
                let pem = std::fs::read(path);
                let pem =
                    pem.map_err(|error| Failure::File { path: path.clone(), why: error.to_string() })?;
                let encoded = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, pem);
                map.insert("certificate-authority-data".to_owned(), json!(encoded));
            }
            return Ok(cluster);
        }
        let none = || {
            Failure::Usage("say which server: --server, or a kubeconfig with a current context".to_owned())
        };
        let known = Kubeconfig::read_from(file).map_err(|_missing| none())?;
        let context = context.or(known.current_context.as_deref()).ok_or_else(none)?;
        let named =
            known.contexts.iter().find(|one| one.name == context).and_then(|one| one.context.as_ref());
        let cluster = &named.ok_or_else(none)?.cluster;
        let found =
            known.clusters.iter().find(|one| one.name == *cluster).and_then(|one| one.cluster.as_ref());
        serde_json::to_value(found.ok_or_else(none)?).map_err(|error| Failure::Stopped(error.to_string()))
    }
}

/// Has the desktop open a page. Where there is none, the address was printed.
fn open(url: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let quiet = Stdio::null;
    let _no_desktop = Command::new(opener).arg(url).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
}
