use super::OidcClient;
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::oidc::{Provider, Session};
use crate::screen::print;
use clap::Args;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// A token that ends sooner is refreshed first.
const MARGIN_SECONDS: i64 = 30;

/// Print a fresh token for kubectl; `login` has it called
#[derive(Debug, Args)]
pub(crate) struct Token {
    #[command(flatten)]
    client: OidcClient,
}

/// Where the session at a provider is kept.
pub(crate) struct SessionFile {
    path: PathBuf,
}

impl SessionFile {
    pub(crate) fn of(provider: &Provider) -> Result<Self, Failure> {
        let key = Sha256::digest(format!("{}\n{}", provider.issuer, provider.client_id));
        let name = base64::Engine::encode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, key);
        Ok(Self { path: files::home()?.join(".kube/cache/business").join(format!("{name}.json")) })
    }

    pub(crate) fn keep(&self, session: &Session) -> Result<(), Failure> {
        let text = serde_json::to_string(session).map_err(|error| Failure::Stopped(error.to_string()))?;
        files::write_secret(&self.path, &text)
    }

    fn read(&self) -> Option<Session> {
        serde_json::from_slice(&std::fs::read(&self.path).ok()?).ok()
    }

    /// One program at a time refreshes: a provider may take a refresh token once only.
    fn locked(&self) -> Result<File, Failure> {
        let path = self.path.with_extension("lock");
        let failed = |error: std::io::Error| Failure::File { path: path.clone(), why: error.to_string() };
        let file = File::options().create(true).append(true).open(&path).map_err(failed)?;
        file.lock().map_err(failed)?;
        Ok(file)
    }
}

impl Token {
    pub(crate) async fn run(&self) -> Result<Outcome, Failure> {
        let provider = self.client.provider();
        let session = current(&provider).await?;
        let ends = jiff::Timestamp::from_second(session.ends)
            .map_err(|error| Failure::Stopped(error.to_string()))?;
        let credential = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": {"token": session.id_token, "expirationTimestamp": ends.to_string()},
        });
        print(credential)?;
        Ok(Outcome::Done)
    }
}

/// A session whose token is still good, refreshed where it has to be.
async fn current(provider: &Provider) -> Result<Session, Failure> {
    let file = SessionFile::of(provider)?;
    let again = |why: &str| Failure::Stopped(format!("{why}: log in again with `kubectl business login`"));
    let good = |session: &Session| session.ends > now() + MARGIN_SECONDS;
    let session = file.read().ok_or_else(|| again("nobody is logged in"))?;
    if good(&session) {
        return Ok(session);
    }
    let lock = file.locked()?;
    // Another one may have refreshed it meanwhile.
    let session = file.read().ok_or_else(|| again("nobody is logged in"))?;
    if good(&session) {
        return Ok(session);
    }
    let refresh = session.refresh_token.ok_or_else(|| again("the session has ended"))?;
    let fresh = provider.known(None).await?.refreshed(&refresh).await;
    let fresh = fresh.map_err(|failure| again(&format!("the session was not refreshed ({failure})")))?;
    file.keep(&fresh)?;
    drop(lock);
    Ok(fresh)
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
