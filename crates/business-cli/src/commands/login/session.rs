use super::OidcClient;
use crate::failure::{Failure, Outcome, seconds};
use crate::files;
use crate::oidc::{Provider, RefreshOutcome, Session};
use crate::plugin::PLUGIN;
use crate::screen::{note, print};
use clap::{Args, Command, FromArgMatches as _};
use kube::config::Kubeconfig;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A token that expires within this time is refreshed first.
const MARGIN_SECONDS: i64 = 30;
/// How long to wait for a session's lock: longer than a refresh takes.
const LOCK_WAIT: Duration = Duration::from_mins(1);
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// The mode of the lock file: that of the session file.
const LOCK_MODE: u32 = 0o600;
/// Separates context and kubeconfig in the name of a session.
const PATH_SEPARATOR: char = '@';
/// Characters of the digest of the kubeconfig's path.
const PATH_DIGEST_LENGTH: usize = 8;
/// Advice if a refresh failed and the provider did not reject the session.
const SESSION_KEPT: &str = "try again; the session is kept";

/// Print a fresh token for kubectl; `login` has it called
#[derive(Debug, Args)]
pub(crate) struct Token {
    #[command(flatten)]
    pub(super) client: OidcClient,
    /// The session of this name: a provider may have several of somebody
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
}

/// A context of a kubeconfig whose credential plugin is this program.
#[derive(Debug)]
pub(crate) struct LoginContext {
    pub(crate) name: String,
    pub(crate) token: Token,
}

impl LoginContext {
    /// The context of this name, if a login has made it.
    pub(crate) fn of(config: &Kubeconfig, name: &str) -> Option<Self> {
        let user = files::context(config, name)?.user.as_deref()?;
        let user = config.auth_infos.iter().find(|one| one.name == user)?.auth_info.as_ref()?;
        let exec = user.exec.as_ref()?;
        if !Path::new(exec.command.as_deref()?).ends_with(PLUGIN) {
            return None;
        }
        Some(Self { name: name.to_owned(), token: Token::of_args(exec.args.as_deref()?)? })
    }

    /// The other contexts that share this session.
    pub(crate) fn sharing(&self, config: &Kubeconfig) -> Vec<String> {
        let others = config.contexts.iter().filter(|one| one.name != self.name);
        let others = others.filter_map(|one| Self::of(config, &one.name));
        others.filter(|other| other.token.is_of_session(&self.token)).map(|other| other.name).collect()
    }
}

/// The name of a context's session: the context, and a digest of the kubeconfig's path, since two kubeconfigs may have
/// contexts of the same name for different people. An earlier login's session keeps its name, unless the client differs
/// or the kubeconfig was copied.
pub(super) fn session_name(
    there: &Kubeconfig,
    context: &str,
    client: &OidcClient,
    kubeconfig: &Path,
) -> Result<String, Failure> {
    let failed =
        |error: std::io::Error| Failure::File { path: kubeconfig.to_owned(), why: error.to_string() };
    let path_digest = std::path::absolute(kubeconfig).map_err(failed)?;
    let path_digest = Sha256::digest(path_digest.as_os_str().as_encoded_bytes());
    let path_digest = base64::Engine::encode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, path_digest);
    let path_digest: String = path_digest.chars().take(PATH_DIGEST_LENGTH).collect();
    let known = LoginContext::of(there, context).map(|known| known.token);
    let is_same = |token: &Token| token.client.is_same(client);
    let is_from_here = |session: &String| {
        session.rsplit_once(PATH_SEPARATOR).is_none_or(|(_, its_digest)| its_digest == path_digest)
    };
    let known = known.filter(is_same).and_then(|token| token.session).filter(is_from_here);
    Ok(known.unwrap_or_else(|| format!("{context}{PATH_SEPARATOR}{path_digest}")))
}

/// The file of a session.
pub(crate) struct SessionFile {
    path: PathBuf,
}

impl SessionFile {
    /// The file of the session of this name at this provider.
    pub(crate) fn of(provider: &Provider, session: &str) -> Result<Self, Failure> {
        let key = Sha256::digest(format!("{}\n{}\n{session}", provider.issuer, provider.client_id));
        let name = base64::Engine::encode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, key);
        Ok(Self { path: files::home()?.join(".kube/cache/business").join(format!("{name}.json")) })
    }

    /// Stores the session of a new login in place of an earlier one.
    pub(crate) async fn replace(&self, session: &Session) -> Result<(), Failure> {
        // Under the lock, since a concurrent refresh of the old session would overwrite this one.
        let lock = self.lock().await?;
        self.write(session)?;
        drop(lock);
        Ok(())
    }

    fn write(&self, session: &Session) -> Result<(), Failure> {
        let text = serde_json::to_string(session).map_err(|error| Failure::Other(error.to_string()))?;
        files::write_secret(&self.path, &text)
    }

    fn read(&self) -> Option<Session> {
        serde_json::from_slice(&std::fs::read(&self.path).ok()?).ok()
    }

    /// Locks the session: a provider may accept a refresh token only once.
    async fn lock(&self) -> Result<File, Failure> {
        self.lock_within(LOCK_WAIT).await
    }

    async fn lock_within(&self, wait: Duration) -> Result<File, Failure> {
        let path = self.path.with_extension("lock");
        let failed = |why: String| Failure::File { path: path.clone(), why };
        files::make_directory_of(&path).map_err(|error| failed(error.to_string()))?;
        let file = File::options().create(true).append(true).mode(LOCK_MODE).open(&path);
        let file = file.map_err(|error| failed(error.to_string()))?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(failed(error.to_string())),
                Err(TryLockError::WouldBlock) if begun.elapsed() < wait => {
                    tokio::time::sleep(LOCK_PAUSE).await;
                }
                Err(TryLockError::WouldBlock) => {
                    let why = format!(
                        "another program is at this session, and has not ended within {}: end it, and try again",
                        seconds(wait)
                    );
                    return Err(failed(why));
                }
            }
        }
    }

    /// Deletes the session, and revokes its refresh token if the provider allows that.
    async fn end(&self, provider: &Provider) -> Result<(), Failure> {
        if !self.path.exists() {
            note("nobody was logged in: there is no session");
            return Ok(());
        }
        let lock = self.lock().await?;
        if let Some(refresh) = self.read().and_then(|session| session.refresh_token) {
            match revoke(provider, &refresh).await {
                Ok(true) => note("the provider has taken the session's refresh token back"),
                Ok(false) => note(format_args!(
                    "the provider {} does not say where it takes tokens back: the session's is good there until it ends",
                    provider.issuer
                )),
                Err(failure) => note(format_args!(
                    "the session's refresh token was not taken back, and is good until it ends: {failure}"
                )),
            }
        }
        let removed = std::fs::remove_file(&self.path);
        removed.map_err(|error| Failure::File { path: self.path.clone(), why: error.to_string() })?;
        drop(lock);
        Ok(())
    }
}

async fn revoke(provider: &Provider, refresh: &str) -> Result<bool, Failure> {
    provider.discover(None).await?.revoke(refresh).await
}

impl Token {
    /// Parses the arguments that a login has written.
    fn of_args(args: &[String]) -> Option<Self> {
        if args.first()? != super::TOKEN_COMMAND {
            return None;
        }
        let known = Self::augment_args(Command::new(super::TOKEN_COMMAND)).try_get_matches_from(args).ok()?;
        Self::from_arg_matches(&known).ok()
    }

    fn session(&self) -> &str {
        self.session.as_deref().unwrap_or_default()
    }

    fn is_of_session(&self, other: &Self) -> bool {
        self.client.is_same(&other.client) && self.session() == other.session()
    }

    /// Ends its session.
    pub(crate) async fn end(&self) -> Result<(), Failure> {
        let provider = self.client.provider();
        SessionFile::of(&provider, self.session())?.end(&provider).await
    }

    pub(crate) async fn run(&self) -> Result<Outcome, Failure> {
        let session = self.valid_session().await?;
        let ends =
            jiff::Timestamp::from_second(session.ends).map_err(|error| Failure::Other(error.to_string()))?;
        let credential = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": {"token": session.id_token, "expirationTimestamp": ends.to_string()},
        });
        print(credential)?;
        Ok(Outcome::Done)
    }

    /// The session with a valid token, refreshed if needed.
    async fn valid_session(&self) -> Result<Session, Failure> {
        let provider = self.client.provider();
        let file = SessionFile::of(&provider, self.session())?;
        let is_valid = |session: &Session| session.ends > now() + MARGIN_SECONDS;
        let session = file.read().ok_or_else(|| self.login_required("nobody is logged in"))?;
        if is_valid(&session) {
            return Ok(session);
        }
        let lock = file.lock().await?;
        // Another process may have refreshed it meanwhile.
        let session = file.read().ok_or_else(|| self.login_required("nobody is logged in"))?;
        if is_valid(&session) {
            return Ok(session);
        }
        let refresh =
            session.refresh_token.as_deref().ok_or_else(|| self.login_required("the session has ended"))?;
        let keep = |session: &Session| file.write(session);
        let refreshed = async { provider.discover(None).await?.refresh(&session, refresh, keep).await };
        let fresh = match refreshed.await {
            Ok(RefreshOutcome::Session(fresh)) => fresh,
            Ok(RefreshOutcome::WithoutToken) if session.ends > now() => return Ok(session),
            Ok(RefreshOutcome::WithoutToken) => {
                return Err(
                    self.login_required("the provider gives no new ID token, and the last one has ended")
                );
            }
            Ok(RefreshOutcome::Refused(why)) => {
                return Err(self.login_required(&format!("the session was not refreshed ({why})")));
            }
            Err(failure @ Failure::Other(_)) => return Err(failure.with_advice(SESSION_KEPT)),
            Err(failure) => return Err(failure),
        };
        file.write(&fresh)?;
        drop(lock);
        Ok(fresh)
    }

    fn login_required(&self, why: &str) -> Failure {
        let context =
            |session: &str| session.rsplit_once(PATH_SEPARATOR).map_or(session, |(name, _)| name).to_owned();
        let name =
            self.session.as_deref().map_or_else(String::new, |name| format!(" --name {}", context(name)));
        Failure::Other(format!("{why}: log in again with `kubectl business login{name}`"))
    }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(command: &str, args: &serde_json::Value) -> Kubeconfig {
        let config = json!({
            "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"exec": {"command": command, "args": args}}}],
        });
        Kubeconfig::from_yaml(&config.to_string()).unwrap()
    }

    #[test]
    fn a_context_of_a_login_is_known_by_its_plugin() {
        let args = json!([
            "token",
            "--issuer=https://sso",
            "--client-id=k",
            "--scope=a",
            "--scope=b",
            "--session=prod"
        ]);
        let known = LoginContext::of(&config("/usr/bin/kubectl-business", &args), "prod").unwrap();
        let client = &known.token.client;
        assert_eq!((client.issuer.as_str(), client.client_id.as_str()), ("https://sso", "k"));
        assert_eq!((client.scope.join(" "), known.token.session()), ("a b".to_owned(), "prod"));
        assert!(LoginContext::of(&config("kubectl-business", &args), "prod").is_some());
        assert!(LoginContext::of(&config("kubectl-business", &args), "other").is_none());
        assert!(LoginContext::of(&config("kubelogin", &args), "prod").is_none());
        let other = json!(["get-token", "--issuer=https://sso", "--client-id=k"]);
        assert!(LoginContext::of(&config("kubectl-business", &other), "prod").is_none());
    }
    #[test]
    fn a_session_is_shared_with_no_copy_of_a_kubeconfig() {
        let client = |args: &serde_json::Value| {
            LoginContext::of(&config("kubectl-business", args), "prod").unwrap().token.client
        };
        let args = |session: &str| {
            json!(["token", "--issuer=https://sso", "--client-id=k", format!("--session={session}")])
        };
        let name = |session: &str, path: &str| {
            let there = config("kubectl-business", &args(session));
            session_name(&there, "prod", &client(&args(session)), Path::new(path)).unwrap()
        };
        let first = name("prod@elsewhere", "/home/a/config");
        assert!(first.starts_with("prod@") && first != "prod@elsewhere", "{first}");
        assert_eq!(name(&first, "/home/a/config"), first);
        assert_ne!(name(&first, "/home/a/copy"), first);
        assert_eq!(name("prod", "/home/a/config"), "prod");
    }

    #[test]
    fn contexts_of_one_session_are_known() {
        let args = json!(["token", "--issuer=https://sso", "--client-id=k", "--session=prod"]);
        let mut config = config("kubectl-business", &args);
        let mut also = config.contexts[0].clone();
        also.name = "also".to_owned();
        config.contexts.push(also);
        let known = LoginContext::of(&config, "prod").unwrap();
        assert_eq!(known.sharing(&config), ["also"]);
        config.auth_infos[0].auth_info.as_mut().unwrap().exec = None;
        assert!(known.sharing(&config).is_empty());
    }

    #[tokio::test]
    async fn another_program_is_not_waited_for_for_ever() {
        let directory = std::env::temp_dir().join(format!("business-cli-session-{}", std::process::id()));
        let file = SessionFile { path: directory.join("s.json") };
        let held = file.lock().await.unwrap();
        let why = file.lock_within(Duration::ZERO).await.unwrap_err().to_string();
        assert!(why.contains("s.lock") && why.contains("another program is at this session"), "{why}");
        drop(held);
        file.lock_within(Duration::ZERO).await.unwrap();
        std::fs::remove_dir_all(directory).unwrap();
    }
}
