use super::fetch::{self, IssuerAuthorities};
use crate::error::Error;
use crate::tls::serving::read;
use arc_swap::ArcSwap;
use http::Request;
use jsonwebtoken::jwk::{AlgorithmParameters, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, TryAcquireError, watch};
use tokio::time::Instant;

/// Asymmetric signatures only: whoever can verify a token must not be able to sign one.
pub(crate) const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// How often keys are fetched from a URL.
const URL_REFRESH_INTERVAL: Duration = Duration::from_mins(5);
/// How often keys are read from a file, or from a URL that has never answered.
const FILE_REFRESH_INTERVAL: Duration = Duration::from_secs(5);
/// A token with an unknown key id causes no fetch for this time after the last one.
const REFRESH_COOLDOWN: Duration = Duration::from_secs(5);
/// How long such a token waits for the fetch.
const REFRESH_WAIT: Duration = Duration::from_secs(3);
/// How many requests may wait for it: nobody has verified their tokens, so they count against no limit of a caller.
const WAITERS_MAX: usize = 256;
/// The most keys that are tried for one token.
const KEYS_TRIED_MAX: usize = 16;

/// The source of an issuer's public keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A file with a JSON web key set.
    File(PathBuf),
    /// A URL of a JSON web key set; plain HTTP only on this machine.
    Url {
        /// The URL.
        url: String,
        /// The CAs that vouch for its server.
        authorities: IssuerAuthorities,
    },
    /// The URL that a discovery document names.
    Discovery {
        /// Where that is, if not at `ISSUER/.well-known/openid-configuration`.
        url: Option<String>,
        /// The CAs that vouch for its server.
        authorities: IssuerAuthorities,
    },
}

/// The keys of one issuer, kept up to date.
#[derive(Debug)]
pub(crate) struct KeySet {
    issuer: String,
    source: KeySource,
    current: ArcSwap<Keys>,
    refresh_requested: Notify,
    waiters: Semaphore,
    /// Counts fetches, so that a waiting request sees the one it asked for end.
    fetches: watch::Sender<u64>,
    last_fetch: Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct Keys {
    generation: u64,
    document: Vec<u8>,
    keys: Vec<VerificationKey>,
}

#[derive(Clone, Debug)]
struct VerificationKey {
    id: Option<String>,
    algorithm: Option<Algorithm>,
    key: Arc<DecodingKey>,
}

impl KeySet {
    /// Reads the keys. A file must exist; a URL may become available later.
    pub(crate) async fn load(issuer: &str, source: KeySource) -> Result<Self, Error> {
        let set = Self {
            issuer: issuer.to_owned(),
            source,
            current: ArcSwap::default(),
            refresh_requested: Notify::new(),
            waiters: Semaphore::new(WAITERS_MAX),
            fetches: watch::Sender::new(0),
            last_fetch: Mutex::new(None),
        };
        match (set.fetch().await, &set.source) {
            (Ok(_), _) => {}
            (Err(error @ Error::Settings(_)), _) | (Err(error), KeySource::File(_)) => return Err(error),
            (Err(error), _) => tracing::warn!(%error, "no keys yet, its tokens are refused"),
        }
        Ok(set)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.current.load().generation
    }

    /// Whether no keys have been loaded so far.
    pub(crate) fn has_never_loaded(&self) -> bool {
        self.generation() == 0
    }

    /// The keys with this id, or without an id all that fit the algorithm.
    pub(crate) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Vec<Arc<DecodingKey>> {
        self.current.load().find(id, algorithm)
    }

    /// Has the keys fetched again, unless that was done a moment ago, and waits for it. An error if too many wait.
    pub(crate) async fn wait_for_refresh(&self) -> Result<(), TryAcquireError> {
        let mut fetches = self.fetches.subscribe();
        let was_fetched_recently = self
            .last_fetch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some_and(|at| at.elapsed() < REFRESH_COOLDOWN);
        if was_fetched_recently {
            return Ok(());
        }
        let _waiter = self.waiters.try_acquire()?;
        self.refresh_requested.notify_one();
        // Without an answer in time the keys stay as they are.
        drop(tokio::time::timeout(REFRESH_WAIT, fetches.changed()).await);
        Ok(())
    }

    /// Fetches the keys for ever, at intervals and on request.
    pub(crate) async fn follow(self: Arc<Self>) {
        loop {
            let interval = match self.source {
                KeySource::Url { .. } | KeySource::Discovery { .. } if !self.has_never_loaded() => {
                    URL_REFRESH_INTERVAL
                }
                _ => FILE_REFRESH_INTERVAL,
            };
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                () = self.refresh_requested.notified() => {}
            }
            match self.fetch().await {
                Ok(true) => tracing::info!(issuer = self.issuer, "signing keys reloaded"),
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "the signing keys stay as they are"),
            }
            self.fetches.send_modify(|count| *count += 1);
        }
    }

    async fn fetch(&self) -> Result<bool, Error> {
        let document = match &self.source {
            KeySource::File(path) => read(path).await,
            KeySource::Url { url, authorities } => self.get(url, authorities).await,
            KeySource::Discovery { url, authorities } => self.discover(url.as_deref(), authorities).await,
        };
        *self.last_fetch.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let document = document?;
        let current = self.current.load();
        if current.document == document {
            return Ok(false);
        }
        let keys = parse(&document).map_err(|error| Error::key_set(&self.issuer, error))?;
        self.current.store(Arc::new(Keys { generation: current.generation + 1, document, keys }));
        Ok(true)
    }

    async fn discover(&self, url: Option<&str>, authorities: &IssuerAuthorities) -> Result<Vec<u8>, Error> {
        #[derive(serde::Deserialize)]
        struct Configuration {
            issuer: String,
            jwks_uri: String,
        }
        let usual = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let document = self.get(url.unwrap_or(&usual), authorities).await?;
        let configuration: Configuration =
            serde_json::from_slice(&document).map_err(|error| Error::key_set(&self.issuer, error))?;
        if configuration.issuer != self.issuer {
            return Err(Error::key_set(&self.issuer, "its configuration is another issuer's"));
        }
        self.get(&configuration.jwks_uri, authorities).await
    }

    async fn get(&self, url: &str, authorities: &IssuerAuthorities) -> Result<Vec<u8>, Error> {
        let wrong = |error: &dyn Display| Error::key_set(&self.issuer, error);
        let request = Request::get(url).body(Vec::new()).map_err(|error| wrong(&error))?;
        let response = fetch::send(request, authorities).await.map_err(|error| wrong(&error))?;
        if !response.status().is_success() {
            return Err(wrong(&response.status()));
        }
        Ok(response.into_body())
    }
}

impl Keys {
    fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Vec<Arc<DecodingKey>> {
        let matching = self.keys.iter().filter(|key| {
            key.key.family() == algorithm.family()
                && key.algorithm.is_none_or(|own| own == algorithm)
                && id.is_none_or(|id| key.id.as_deref() == Some(id))
        });
        matching.take(KEYS_TRIED_MAX).map(|key| Arc::clone(&key.key)).collect()
    }
}

/// For fuzzing: how many keys the parser finds.
#[cfg(feature = "fuzzing")]
pub(crate) fn count(document: &[u8]) -> Result<usize, String> {
    parse(document).map(|keys| keys.len())
}

/// The keys for verifying signatures. Others in the set are ignored.
fn parse(document: &[u8]) -> Result<Vec<VerificationKey>, String> {
    #[derive(serde::Deserialize)]
    struct Set {
        keys: Vec<serde_json::Value>,
    }
    let set: Set = serde_json::from_slice(document).map_err(|error| error.to_string())?;
    let mut keys = Vec::new();
    for value in set.keys {
        let wrapped = serde_json::json!({ "keys": [value] });
        let Ok(JwkSet { keys: parsed }) = serde_json::from_value(wrapped) else { continue };
        for jwk in parsed {
            let algorithm = jwk.common.key_algorithm.map(Algorithm::try_from);
            let symmetric = matches!(jwk.algorithm, AlgorithmParameters::OctetKey(_));
            let for_signatures = !matches!(jwk.common.public_key_use, Some(PublicKeyUse::Encryption));
            let accepted = match &algorithm {
                None => true,
                Some(Ok(algorithm)) => ALGORITHMS.contains(algorithm),
                Some(Err(_)) => false,
            };
            if let Ok(key) = DecodingKey::from_jwk(&jwk)
                && !symmetric
                && for_signatures
                && accepted
            {
                let algorithm = algorithm.and_then(Result::ok);
                keys.push(VerificationKey { id: jwk.common.key_id, algorithm, key: Arc::new(key) });
            }
        }
    }
    if keys.is_empty() { Err("no key for signatures in it".to_owned()) } else { Ok(keys) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn only_so_many_wait_for_the_keys_of_a_server_that_does_not_answer() {
        let url = "https://127.0.0.1:1/keys".to_owned();
        let source = KeySource::Url { url, authorities: IssuerAuthorities::System };
        let set = KeySet::load("https://issuer.example.org", source).await.unwrap();
        *set.last_fetch.lock().unwrap() = None;
        let mut waiting: Vec<_> = (0..WAITERS_MAX).map(|_| Box::pin(set.wait_for_refresh())).collect();
        assert!(waiting.iter_mut().all(|one| one.as_mut().now_or_never().is_none()));
        assert_eq!(set.wait_for_refresh().now_or_never(), Some(Err(TryAcquireError::NoPermits)));
        set.fetches.send_modify(|count| *count += 1);
        for one in waiting {
            assert_eq!(one.await, Ok(()));
        }
        assert_eq!(set.wait_for_refresh().now_or_never(), None, "their places are free");
    }
}
