use crate::connection::{ConnectionFlags, duration};
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::kubeconfigs::Kubeconfigs;
use crate::oidc::{Provider, Session};
use crate::plugin::PLUGIN;
use crate::screen::{note, sanitize};
use clap::Args;
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The server's name for the user who has logged in.
mod whoami;
/// The redirect URI's listener.
mod callback;
/// Sessions on disk, and the credential plugin that reads them.
pub(crate) mod session;

use callback::Callback;
use session::{LoginContext, SessionFile};
use whoami::Whoami;

/// The default name of a login's context.
pub(crate) const DEFAULT_CONTEXT: &str = "business";
/// Prefix of the names of users and clusters that a login writes; the context's name follows.
const ENTRY_PREFIX: &str = "business-login/";
/// Default timeout of a request to the provider.
const PROVIDER_TIMEOUT: Duration = Duration::from_secs(20);
const NO_IMPERSONATION: &str = "--as and --as-group are of no use here: whoever logs in at the provider is who he is there; give them to \
                      the commands that follow";
/// The command that is the credential plugin.
const TOKEN_COMMAND: &str = "token";
/// kubectl's hint if it does not find this program.
const INSTALL_HINT: &str = "kubectl-business is not where it was at the login: have it on PATH (`kubectl krew install business`, \
                            or docs/command-line.md), and log in again with `kubectl-business login`";

const EXAMPLES: &str = "\
Examples:
  kubectl business login --issuer https://sso.example.org --client-id kubernetes --server https://api.example.org:6443 \\
    --certificate-authority ca.crt
  kubectl business login --issuer https://sso.example.org --client-id kubernetes     # for the cluster of the login before, or of the current context
  kubectl business login --issuer https://sso.example.org --client-id kubernetes --print-url
  kubectl business login                         # once more, into the current context
  kubectl business login --name carol            # as somebody else, beside it

The provider knows the client as a public one that may be sent back to http://127.0.0.1/callback at any port, or at the one
that --listen-port says, with PKCE. kubectl then gets fresh tokens by itself, as long as the provider refreshes them.";

/// Log in at an identity provider, and write a context for it into the kubeconfig
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Login {
    /// The provider's address; else that of the context that is logged into again
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// This program's name at the provider; else that of the context that is logged into again
    #[arg(long, value_name = "NAME")]
    client_id: Option<String>,
    /// The authorities of the provider; else those of the system
    #[arg(long, value_name = "FILE")]
    issuer_ca: Option<PathBuf>,
    /// A scope to ask for beside those that every login needs; repeat it for several
    #[arg(long, value_name = "NAME")]
    scope: Vec<String>,
    /// Print the address and open no browser
    #[arg(long)]
    print_url: bool,
    /// The port of 127.0.0.1 that the provider sends the browser back to; else that of the context that is logged into
    /// again, or any free one (0)
    #[arg(long, value_name = "PORT")]
    listen_port: Option<u16>,
    /// The API server; else that of the context that is logged into again, or of the current one
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The authorities of the API server
    #[arg(long, value_name = "FILE", requires = "server")]
    certificate_authority: Option<PathBuf>,
    /// What the context is to be called; else `business`, or as the one that is logged into again
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How long to wait until somebody has logged in
    #[arg(long, default_value = "5m", value_name = "TIME", value_parser = duration)]
    timeout: Duration,
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
    /// The port that the next login is to listen at; `token` has no use for it
    #[arg(long, hide = true, value_name = "PORT")]
    listen_port: Option<u16>,
}

impl OidcClient {
    /// Whether it is the same client of the same provider.
    fn is_same(&self, other: &Self) -> bool {
        self.issuer == other.issuer && self.client_id == other.client_id
    }

    pub(crate) fn provider(&self) -> Provider {
        Provider {
            issuer: self.issuer.clone(),
            client_id: self.client_id.clone(),
            authority: self.issuer_ca.clone(),
            scopes: self.scope.clone(),
            timeout: PROVIDER_TIMEOUT,
        }
    }

    /// The arguments of the credential plugin, for a session of this name.
    fn args(&self, session: &str) -> Result<Vec<String>, Failure> {
        let mut args = vec![TOKEN_COMMAND.to_owned(), format!("--issuer={}", self.issuer)];
        args.push(format!("--client-id={}", self.client_id));
        if let Some(authority) = &self.issuer_ca {
            let whole = authority.canonicalize();
            let whole =
                whole.map_err(|error| Failure::File { path: authority.clone(), why: error.to_string() })?;
            args.push(format!("--issuer-ca={}", whole.display()));
        }
        args.extend(self.scope.iter().map(|scope| format!("--scope={scope}")));
        args.extend(self.listen_port.filter(|port| *port != 0).map(|port| format!("--listen-port={port}")));
        args.push(format!("--session={session}"));
        Ok(args)
    }
}

impl Login {
    /// `connection`: its context names the cluster, and its namespace is the project of the new context.
    pub(crate) async fn run(&self, connection: &ConnectionFlags) -> Result<Outcome, Failure> {
        if connection.impersonate.is_some() || !connection.as_group.is_empty() {
            return Err(Failure::Usage(NO_IMPERSONATION.to_owned()));
        }
        let context = connection.context.as_deref();
        let listed = Kubeconfigs::read(connection.kubeconfig.as_deref())?;
        let there = &listed.all;
        let known = self.previous_login(there, context);
        let client = self.client(known.as_ref().map(|known| &known.token.client))?;
        let again = known.as_ref().map(|known| known.name.as_str());
        // A login for the cluster of another context gets a context of its own.
        let same = again.filter(|again| context.is_none_or(|context| context == *again));
        let name = self.name.as_deref().or(same).unwrap_or(DEFAULT_CONTEXT);
        let file = listed.file_of(name)?;
        let replaces_login = self.replaces_login(there, name, context, file)?;
        let cluster = self.cluster(there, context.or(again).or(replaces_login.then_some(name)))?;
        let kept = session::session_name(there, name, &client, file)?;
        let session_file = SessionFile::of(&client.provider(), &kept)?;
        let namespace = files::context(there, name).and_then(|context| context.namespace.as_deref());
        let namespace = connection.namespace.as_deref().or(namespace);
        let added = entries(name, &kept, &client, &cluster, namespace)?;
        // A file that cannot be written is noticed before the browser opens.
        files::can_be_changed(file)?;
        let session = self.session(&client, connection.request_timeout).await?;
        session_file.replace(&session).await?;
        listed.add(file, added)?;
        let server = cluster.get("server").and_then(Value::as_str).unwrap_or_default();
        let context = format!("the context {name} of {} is the current one", file.display());
        // Access lists take the server's name for a user, not the provider's.
        match whoami::ask(&cluster, &session.id_token, connection.request_timeout).await {
            Whoami::Known(who) => {
                note(format_args!("logged in as {} for {server}; {context}", sanitize(&who)));
            }
            Whoami::Rejected => {
                return Err(Failure::Other(format!(
                    "{server} refuses the token of this login: does it accept the issuer {} with the audience {}? The login is \
                     written: {context}",
                    client.issuer, client.client_id
                )));
            }
            Whoami::Unavailable(why) => {
                note(format_args!("logged in at {} for {server}; {context}", client.issuer));
                note(format_args!("{server} could not be asked who that is there: {}", sanitize(&why)));
            }
        }
        if session.refresh_token.is_none() {
            note(format_args!(
                "the provider gave no refresh token: the session ends at {}; log in again then",
                jiff::Timestamp::from_second(session.ends).unwrap_or_default()
            ));
        }
        Ok(Outcome::Done)
    }

    /// Whether the context that is written is that of an earlier login. Fails if it is not of a login, or of a login
    /// for another cluster: it would be overwritten.
    fn replaces_login(
        &self,
        there: &Kubeconfig,
        name: &str,
        context: Option<&str>,
        file: &Path,
    ) -> Result<bool, Failure> {
        let is_of_login = LoginContext::of(there, name).is_some();
        let is_there = there.contexts.iter().any(|one| one.name == name);
        if is_there && !is_of_login {
            return Err(Failure::Usage(format!(
                "the context {name} of {} is of no login, and is not replaced: --name says what the new one is called; \
                 `kubectl config delete-context {name}` makes room for it",
                file.display()
            )));
        }
        let is_another = self.name.is_none() && context.is_some_and(|context| context != name);
        if is_another && is_of_login {
            return Err(Failure::Usage(format!(
                "the context {name} of {} is that of a login to another cluster: --name says what the new one is called",
                file.display()
            )));
        }
        Ok(is_of_login)
    }

    /// The context of an earlier login, the one that is named, else the current one. Its values are the defaults.
    fn previous_login(&self, there: &Kubeconfig, context: Option<&str>) -> Option<LoginContext> {
        if self.issuer.is_some() && self.client_id.is_some() {
            return None;
        }
        let current = there.current_context.as_deref();
        let named = [self.name.as_deref(), context, current, Some(DEFAULT_CONTEXT)];
        named.into_iter().flatten().find_map(|name| LoginContext::of(there, name))
    }

    /// The OIDC client of this call's flags, with the earlier login's values as defaults.
    fn client(&self, known: Option<&OidcClient>) -> Result<OidcClient, Failure> {
        let unsaid = || {
            Failure::Usage(
                "say at which provider, and by which name this program is known there: --issuer and --client-id; they may be \
                 left out where `login` has made the context already (--name, else the current one)"
                    .to_owned(),
            )
        };
        let issuer = self.issuer.as_ref().or(known.map(|known| &known.issuer)).ok_or_else(unsaid)?;
        let client_id = self.client_id.as_ref().or(known.map(|known| &known.client_id)).ok_or_else(unsaid)?;
        // Another provider has other certificate authorities, scopes and ports.
        let same = known.filter(|known| known.issuer == *issuer);
        let scope = same.filter(|_| self.scope.is_empty()).map_or(&self.scope, |same| &same.scope);
        Ok(OidcClient {
            issuer: issuer.clone(),
            client_id: client_id.clone(),
            issuer_ca: self.issuer_ca.clone().or_else(|| same?.issuer_ca.clone()),
            scope: scope.clone(),
            listen_port: self.listen_port.or_else(|| same?.listen_port),
        })
    }

    /// `timeout`: of one request to the provider.
    async fn session(&self, client: &OidcClient, timeout: Duration) -> Result<Session, Failure> {
        let callback = Callback::listen(client.listen_port.unwrap_or_default()).await?;
        let provider = Provider { timeout, ..client.provider() };
        let provider = provider.discover(Some(&callback.url())).await?;
        let pending = provider.begin();
        note(format_args!("log in here:\n\n  {}\n", pending.url));
        if !self.print_url {
            open_browser(&pending.url);
        }
        let code = callback.code(&pending.state, self.timeout).await?;
        provider.finish(pending, code).await
    }

    /// The cluster that the context is for.
    fn cluster(&self, known: &Kubeconfig, context: Option<&str>) -> Result<Value, Failure> {
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
        let context = context.or(known.current_context.as_deref()).ok_or_else(none)?;
        let cluster = &files::context(known, context).ok_or_else(none)?.cluster;
        let found =
            known.clusters.iter().find(|one| one.name == *cluster).and_then(|one| one.cluster.as_ref());
        serde_json::to_value(found.ok_or_else(none)?).map_err(|error| Failure::Other(error.to_string()))
    }
}

/// The entries that are added to a kubeconfig.
fn entries(
    name: &str,
    session: &str,
    client: &OidcClient,
    cluster: &Value,
    namespace: Option<&str>,
) -> Result<Kubeconfig, Failure> {
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": plugin()?, "args": client.args(session)?,
        "interactiveMode": "Never", "installHint": INSTALL_HINT,
    });
    // With the prefix, no foreign user or cluster of the same name is replaced.
    let own = format!("{ENTRY_PREFIX}{name}");
    let mut context = json!({"cluster": own, "user": own});
    if let (Some(namespace), Some(map)) = (namespace, context.as_object_mut()) {
        map.insert("namespace".to_owned(), json!(namespace));
    }
    let added = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [{"name": own, "cluster": cluster}],
        "users": [{"name": own, "user": {"exec": exec}}],
        "contexts": [{"name": name, "context": context}],
    });
    Kubeconfig::from_yaml(&added.to_string()).map_err(|error| Failure::Other(error.to_string()))
}

/// The command for kubectl to call: the bare name if PATH leads to this very file, since a plugin manager keeps each
/// version in a place of its own, and removes the old one.
fn plugin() -> Result<String, Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::Other(error.to_string()))?;
    let listed = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&listed).filter(|directory| directory.is_absolute());
    let found = directories.map(|directory| directory.join(PLUGIN)).find(|path| path.is_file());
    let found = found.and_then(|path| path.canonicalize().ok());
    let is_it = found.is_some() && found == own.canonicalize().ok();
    Ok(if is_it { PLUGIN.to_owned() } else { own.display().to_string() })
}

/// Opens a page on the desktop. The address was printed for machines without one.
fn open_browser(url: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let quiet = Stdio::null;
    let _no_desktop = Command::new(opener).arg(url).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
}
