use super::jwks::{ALGORITHMS, KeySet, KeySource};
use crate::cache::AnswerCache;
use crate::caller::{AUTHENTICATED, Caller, Via};
use crate::error::Error;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Longer tokens are refused unread.
const TOKEN_LIMIT: usize = 16 * 1024;
/// How long a verified token is believed without another look.
const TTL: Duration = Duration::from_mins(5);
/// How many verified tokens are remembered, an issuer.
const CAPACITY: usize = 8192;

/// An issuer of tokens and what its claims mean.
#[derive(Clone, Debug)]
pub struct JwtSettings {
    /// The claim `iss`, letter by letter.
    pub issuer: String,
    /// The claim `aud` must hold one of these.
    pub audiences: Vec<String>,
    /// Where its public keys are.
    pub keys: KeySource,
    /// The claim that names the tenant; a token without it is refused.
    pub tenant_claim: String,
    /// The claim that names the user.
    pub user_claim: String,
    /// The claim that lists the groups.
    pub groups_claim: String,
    /// Put before each user name.
    pub user_prefix: String,
    /// Put before each group.
    pub groups_prefix: String,
    /// How far clocks may differ.
    pub leeway: Duration,
}

impl JwtSettings {
    /// The usual claims: `sub`, `groups`, `tenantid`.
    pub fn new(issuer: impl Into<String>, audiences: Vec<String>, keys: KeySource) -> Self {
        Self {
            issuer: issuer.into(),
            audiences,
            keys,
            tenant_claim: "tenantid".to_owned(),
            user_claim: "sub".to_owned(),
            groups_claim: "groups".to_owned(),
            user_prefix: String::new(),
            groups_prefix: String::new(),
            leeway: Duration::from_secs(30),
        }
    }
}

type Verified = Result<Arc<Caller>, Arc<str>>;

/// A configured issuer with its keys.
#[derive(Debug)]
pub(crate) struct JwtIssuer {
    settings: JwtSettings,
    validation: Validation,
    keys: Arc<KeySet>,
    /// By the token's hash and the generation of the keys.
    verified: AnswerCache<([u8; 32], u64), Verified>,
}

impl JwtIssuer {
    pub(crate) async fn load(settings: JwtSettings) -> Result<Self, Error> {
        if settings.issuer.is_empty() || settings.audiences.is_empty() || settings.tenant_claim.is_empty() {
            return Err(Error::Settings(
                "a token issuer needs its name, an audience and a tenant claim".to_owned(),
            ));
        }
        let mut validation = Validation::new(Algorithm::RS256);
        validation.set_issuer(&[&settings.issuer]);
        validation.set_audience(&settings.audiences);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.validate_nbf = true;
        validation.leeway = settings.leeway.as_secs();
        let keys = Arc::new(KeySet::load(&settings.issuer, settings.keys.clone()).await?);
        Ok(Self { settings, validation, keys, verified: AnswerCache::new(CAPACITY) })
    }

    pub(crate) fn name(&self) -> &str {
        &self.settings.issuer
    }

    pub(crate) fn keys(&self) -> &Arc<KeySet> {
        &self.keys
    }

    /// Whose token it is. Tokens verified under keys that were replaced since are verified again.
    pub(crate) async fn verify(
        &self,
        token: &str,
        hash: [u8; 32],
        now: i64,
    ) -> Result<Arc<Caller>, Arc<str>> {
        if token.len() > TOKEN_LIMIT {
            return Err(Arc::from("too long"));
        }
        let key = (hash, self.keys.generation());
        let fetch = || async {
            match self.check(token).await {
                Ok(caller) => {
                    let left = caller.expires.unwrap_or(now).saturating_sub(now);
                    let left = Duration::from_secs(u64::try_from(left).unwrap_or_default());
                    (Ok(Arc::new(caller)), left.min(TTL))
                }
                Err(why) => (Err(Arc::from(why)), Duration::ZERO),
            }
        };
        self.verified.get_or_fetch(&key, fetch).await
    }

    async fn check(&self, token: &str) -> Result<Caller, String> {
        let header = decode_header(token).map_err(|error| error.to_string())?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(format!("algorithm {:?} is not accepted", header.alg));
        }
        let key =
            self.keys.find(header.kid.as_deref(), header.alg).await.ok_or("signed by an unknown key")?;
        let mut validation = self.validation.clone();
        validation.algorithms = vec![header.alg];
        let claims =
            decode::<Map<String, Value>>(token, &key, &validation).map_err(|error| error.to_string())?.claims;
        let expires = claims.get("exp").and_then(Value::as_f64).unwrap_or_default();
        #[expect(clippy::cast_possible_truncation, reason = "a saturating cast of seconds")]
        let expires = (expires as i64).saturating_add_unsigned(self.settings.leeway.as_secs());
        Ok(Caller { expires: Some(expires), ..self.caller(&claims)? })
    }

    fn caller(&self, claims: &Map<String, Value>) -> Result<Caller, String> {
        let text = |claim: &str| match claims.get(claim).and_then(Value::as_str) {
            // A NUL is nothing that PostgreSQL keeps as text.
            Some(text) if !text.is_empty() && !text.contains('\0') => Ok(text.to_owned()),
            _ => Err(format!("claim {claim:?} is missing or no text")),
        };
        let tenant = text(&self.settings.tenant_claim)?;
        let name = format!("{}{}", self.settings.user_prefix, text(&self.settings.user_claim)?);
        // An issuer of tenants' tokens speaks for no part of the cluster.
        if name.starts_with("system:") {
            return Err(format!("user name {name:?} is reserved"));
        }
        let mut groups: Vec<String> = match claims.get(&self.settings.groups_claim) {
            Some(Value::String(group)) => vec![format!("{}{group}", self.settings.groups_prefix)],
            Some(Value::Array(groups)) => groups
                .iter()
                .filter_map(Value::as_str)
                .map(|group| format!("{}{group}", self.settings.groups_prefix))
                .collect(),
            _ => Vec::new(),
        };
        groups.retain(|group| !group.starts_with("system:"));
        groups.push(AUTHENTICATED.to_owned());
        let extra = BTreeMap::from([(self.settings.tenant_claim.to_lowercase(), vec![tenant.clone()])]);
        Ok(Caller { name, groups, extra, tenant: Some(tenant), via: Via::Jwt, ..Caller::default() })
    }
}

/// The issuer that an unverified token names; only used to choose who verifies it.
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
