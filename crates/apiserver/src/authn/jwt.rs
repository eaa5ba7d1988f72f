use super::allowed_names::IssuerNames;
use super::claims::{ClaimRules, Claims};
use super::expression::{self, ISSUER_EVALUATIONS_MAX, NotEvaluated};
use super::jwks::{ALGORITHMS, KeySet};
use super::tenant;
use crate::cache::AnswerCache;
use crate::caller::{Caller, Via};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Longer tokens are refused without parsing them.
const TOKEN_LIMIT: usize = 16 * 1024;
/// How long a verified token is cached.
const TTL: Duration = Duration::from_mins(5);
/// How many verified tokens of an issuer are cached.
const CAPACITY: usize = 8192;
/// The bytes of memory that these may take: enough for the full number of callers of usual size.
const WEIGHT: usize = 32 * 1024 * 1024;
/// The bytes that a cached token takes in addition to its caller.
const SLOT_WEIGHT: usize = 256;
/// How many requests of an issuer's users may wait for the evaluation of tokens: those with the same token share one.
const WAITERS_MAX: usize = 256;
/// How far `nbf` may lie in the future, as in kube-apiserver. There is no leeway for `exp`.
const NBF_LEEWAY_SECONDS: i64 = 60;

type Verified = Result<Arc<Caller>, JwtFailure>;

/// Why a token has no caller. The text is for the log.
#[derive(Clone, Debug)]
pub(crate) enum JwtFailure {
    /// The token is invalid.
    Refused(Arc<str>),
    /// Too many requests wait for the issuer's keys, or for the evaluation of its tokens.
    Busy,
}

impl From<String> for JwtFailure {
    fn from(why: String) -> Self {
        Self::Refused(Arc::from(why))
    }
}

/// The rules for an issuer's tokens.
#[derive(Debug)]
pub(crate) struct IssuerRules {
    /// The exact value of the claim `iss`.
    pub(crate) url: String,
    /// The claim `aud` must hold one of these.
    pub(crate) audiences: Vec<String>,
    pub(crate) claims: ClaimRules,
    pub(crate) allowed_names: IssuerNames,
    /// Extra keys by which it names a tenant; empty if it may not.
    pub(crate) tenant_keys: Vec<String>,
    /// Whether kube-apiserver trusts it, too, so that its users are users of the cluster.
    pub(crate) is_cluster: bool,
}

/// A configured issuer with its keys.
#[derive(Debug)]
pub(crate) struct JwtIssuer {
    rules: Arc<IssuerRules>,
    validation: Validation,
    keys: Arc<KeySet>,
    /// The key is the token's hash and the generation of the key set.
    verified: AnswerCache<([u8; 32], u64), Verified>,
    waiters: Semaphore,
    evaluations: Arc<Semaphore>,
}

impl JwtIssuer {
    pub(crate) fn new(rules: IssuerRules, keys: Arc<KeySet>) -> Self {
        let mut validation = Validation::new(Algorithm::RS256);
        validation.set_issuer(&[&rules.url]);
        validation.set_audience(&rules.audiences);
        validation.set_required_spec_claims(&["iss", "aud"]);
        // Both are checked in `expires`, as kube-apiserver does.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        let verified = AnswerCache::new(CAPACITY, WEIGHT, |_key, verified: &Verified| match verified {
            Ok(caller) => caller.weight().saturating_add(SLOT_WEIGHT),
            Err(JwtFailure::Refused(why)) => why.len().saturating_add(SLOT_WEIGHT),
            Err(JwtFailure::Busy) => SLOT_WEIGHT,
        });
        let (waiters, evaluations) = (Semaphore::new(WAITERS_MAX), Semaphore::new(ISSUER_EVALUATIONS_MAX));
        Self {
            rules: Arc::new(rules),
            validation,
            keys,
            verified,
            waiters,
            evaluations: Arc::new(evaluations),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.rules.url
    }

    pub(crate) fn keys(&self) -> &Arc<KeySet> {
        &self.keys
    }

    /// The caller of a token that this issuer has signed, if it was verified a moment ago.
    pub(crate) fn verified_caller(&self, hash: [u8; 32]) -> Option<Arc<Caller>> {
        self.verified.get(&(hash, self.keys.generation()))?.ok()
    }

    /// The caller of a token. If its key is unknown, the keys are fetched again.
    pub(crate) async fn verify(&self, token: &str, hash: [u8; 32], now: i64) -> Verified {
        if token.len() > TOKEN_LIMIT {
            return Err(JwtFailure::from("too long".to_owned()));
        }
        let generation = self.keys.generation();
        let verified = self.verify_by_known_keys(token, (hash, generation), now).await;
        if !matches!(verified, Err(JwtFailure::Refused(_))) || !self.has_unknown_key(token) {
            return verified;
        }
        // Not within the cache, where all requests with the same token would wait as one. Boxed, as it is rare.
        Box::pin(self.keys.wait_for_refresh()).await.map_err(|_full| JwtFailure::Busy)?;
        let fetched = self.keys.generation();
        if fetched == generation {
            return verified;
        }
        self.verify_by_known_keys(token, (hash, fetched), now).await
    }

    /// Whether a token is of a form that is accepted, and signed by a key that is not known.
    fn has_unknown_key(&self, token: &str) -> bool {
        decode_header(token).is_ok_and(|header| {
            ALGORITHMS.contains(&header.alg) && self.keys.find(header.kid.as_deref(), header.alg).is_empty()
        })
    }

    /// The caller of a token, by the keys of a generation. A cached token is verified again when they have changed.
    async fn verify_by_known_keys(&self, token: &str, key: ([u8; 32], u64), now: i64) -> Verified {
        if let Some(verified) = self.verified.get(&key) {
            return verified;
        }
        let Ok(_waiter) = self.waiters.try_acquire() else { return Err(JwtFailure::Busy) };
        let fetch = || async {
            match self.check(token, now).await {
                Ok(caller) => {
                    let left = caller.expires.unwrap_or(now).saturating_sub(now);
                    let left = Duration::from_secs(u64::try_from(left).unwrap_or_default());
                    (Ok(Arc::new(caller)), left.min(TTL))
                }
                Err(failure) => (Err(failure), Duration::ZERO),
            }
        };
        self.verified.get_or_fetch(&key, fetch).await
    }

    async fn check(&self, token: &str, now: i64) -> Result<Caller, JwtFailure> {
        let claims = self.verified_claims(token)?;
        check_types(&claims)?;
        let expires = expires(&claims, now)?;
        let rules = Arc::clone(&self.rules);
        let caller = if rules.claims.has_expressions() {
            let work = move || rules.caller(&claims);
            expression::with_deep_stack_async(&self.evaluations, work).await.map_err(
                |failure| match failure {
                    NotEvaluated::Late => JwtFailure::Busy,
                    NotEvaluated::Broken => {
                        JwtFailure::from("an expression could not be evaluated".to_owned())
                    }
                },
            )?
        } else {
            rules.caller(&claims)
        };
        Ok(Caller { expires: Some(expires), ..caller? })
    }

    /// The claims of a token, if it was signed by one of the keys for this audience.
    fn verified_claims(&self, token: &str) -> Result<Claims, String> {
        let header = decode_header(token).map_err(|error| error.to_string())?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(format!("algorithm {:?} is not accepted", header.alg));
        }
        let mut validation = self.validation.clone();
        validation.algorithms = vec![header.alg];
        let mut refused = "signed by an unknown key".to_owned();
        for key in self.keys.find(header.kid.as_deref(), header.alg) {
            match decode::<Claims>(token, &key, &validation) {
                Ok(token) => return Ok(token.claims),
                Err(error) => {
                    refused = error.to_string();
                    if !matches!(error.kind(), ErrorKind::InvalidSignature) {
                        break;
                    }
                }
            }
        }
        Err(refused)
    }
}

impl IssuerRules {
    /// The caller that the claims of a verified token are mapped to.
    pub(crate) fn caller(&self, claims: &Claims) -> Result<Caller, String> {
        let mut caller = self.claims.caller(claims, &self.allowed_names)?;
        caller.tenant = tenant(&self.tenant_keys, &caller)?;
        caller.via = if self.is_cluster { Via::ClusterJwt } else { Via::Jwt };
        Ok(caller)
    }
}

/// Checks that claims defined by the standard have the right types, even if they are not used.
fn check_types(claims: &Claims) -> Result<(), String> {
    for claim in ["sub", "nonce", "at_hash"] {
        if claims.get(claim).is_some_and(|value| !value.is_string() && !value.is_null()) {
            return Err(format!("claim {claim:?} is no text"));
        }
    }
    seconds(claims, "iat")?;
    let sources = claims.get("_claim_sources").and_then(Value::as_object);
    let is_there = |source: &Value| {
        source.as_str().is_some_and(|name| sources.is_some_and(|sources| sources.contains_key(name)))
    };
    match claims.get("_claim_names") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(names)) if names.values().all(is_there) => Ok(()),
        Some(_) => Err("its distributed claims have no source".to_owned()),
    }
}

/// A claim with a time, in Unix seconds. As in Go, the number may be a string.
fn seconds(claims: &Claims, claim: &str) -> Result<Option<i64>, String> {
    let number = match claims.get(claim) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.parse::<f64>().ok().filter(|number| number.is_finite()),
        Some(value) => value.as_f64(),
    };
    #[expect(clippy::cast_possible_truncation, reason = "a saturating cast of seconds")]
    let seconds = number.map(|number| number as i64);
    seconds.map(Some).ok_or_else(|| format!("claim {claim:?} is no number"))
}

/// When the token ends, in Unix seconds. An error if it has ended or not begun.
fn expires(claims: &Claims, now: i64) -> Result<i64, String> {
    let end = seconds(claims, "exp")?.ok_or("it has no end")?;
    if end < now {
        return Err("it has ended".to_owned());
    }
    if seconds(claims, "nbf")?.is_some_and(|begin| begin > now.saturating_add(NBF_LEEWAY_SECONDS)) {
        return Err("it has not begun".to_owned());
    }
    Ok(end)
}

/// The issuer that an unverified token names. Use it only to find the issuer that verifies the token.
pub(crate) fn issuer_of(token: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct TokenClaims {
        iss: String,
    }
    let mut parts = token.split('.');
    let (_header, claims, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || token.len() > TOKEN_LIMIT {
        return None;
    }
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims).ok()?;
    serde_json::from_slice::<TokenClaims>(&claims).ok().map(|claims| claims.iss)
}

#[cfg(test)]
mod tests;
