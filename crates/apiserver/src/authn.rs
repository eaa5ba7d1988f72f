use crate::metrics::ServerMetrics;
use crate::tls::Peer;
use http::{HeaderMap, header};
use runtime::Clock;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The CAs and headers that identities are believed by, swapped whole when they change.
pub mod trust;
/// Identity headers of a front proxy.
pub(crate) mod proxy;
/// Client certificates.
pub(crate) mod x509;
/// Bearer tokens that are JSON web tokens of a configured issuer.
pub mod jwt;
/// Public keys of a token issuer.
pub mod jwks;
/// Tokens among the subprotocols of a WebSocket.
pub(crate) mod subprotocol;
/// Bearer tokens that kube-apiserver reviews.
pub(crate) mod review;
/// Callers that act as somebody else.
pub(crate) mod impersonation;

use impersonation::Wanted;
use jwt::Issuer;
use review::TokenReviews;
use trust::TrustStore;

/// Who asks, after authentication.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Caller {
    /// User name.
    pub name: String,
    /// User id, when the authenticator knows one.
    pub uid: String,
    /// Groups; `system:authenticated` included.
    pub groups: Vec<String>,
    /// Extra keys as received: lower case, percent-decoded.
    pub extra: BTreeMap<String, Vec<String>>,
    /// The tenant that the authenticator found, by the configured extra keys or token claim.
    pub tenant: Option<String>,
    /// How the caller came.
    pub via: Via,
}

/// How a caller was authenticated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Via {
    /// Not at all: `system:anonymous`.
    #[default]
    Anonymous,
    /// Through kube-apiserver, as a front proxy.
    FrontProxy,
    /// A client certificate.
    Certificate,
    /// A JSON web token of a configured issuer.
    Jwt,
    /// A token that kube-apiserver reviewed.
    TokenReview,
    /// Somebody who may act as this one.
    Impersonation,
}

impl Caller {
    /// Whether the caller belongs to a group.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}

/// How callers are told apart.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Extra keys that name a caller's tenant, in lower case.
    pub tenant_keys: Vec<String>,
    /// Whether a request without any credentials goes on as `system:anonymous`.
    pub anonymous: bool,
    /// Whether tokens of no configured issuer are sent to kube-apiserver for review.
    pub token_review: bool,
    /// Issuers of JSON web tokens.
    pub issuers: Vec<jwt::Settings>,
    /// Trust that is configured; the ConfigMap of kube-apiserver adds to it.
    pub trust: trust::Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tenant_keys: vec!["tenantid".to_owned()],
            anonymous: true,
            token_review: true,
            issuers: Vec::new(),
            trust: trust::Settings::default(),
        }
    }
}

/// What one authenticator says. An error does not stop the next one; but if nobody knows the caller, it does
/// not leave him anonymous either.
pub(crate) enum Opinion {
    /// The caller.
    Known(Arc<Caller>),
    /// No credentials of this kind.
    None,
    /// Credentials that do not hold; the text is for the log.
    Error(String),
}

/// Tells who asks, in the order of a Go API server: front proxy, client certificate, token, anonymous.
#[derive(Debug)]
pub struct Authenticator {
    settings: Settings,
    trust: Arc<TrustStore>,
    issuers: Vec<Issuer>,
    reviews: Option<TokenReviews>,
    anonymous: Arc<Caller>,
    clock: Clock,
    metrics: Arc<ServerMetrics>,
}

/// Nobody is known; the answer is 401.
#[derive(Debug, thiserror::Error)]
#[error("unauthorized: {0}")]
pub struct Unauthenticated(String);

impl Authenticator {
    pub(crate) fn new(
        mut settings: Settings,
        trust: Arc<TrustStore>,
        issuers: Vec<Issuer>,
        kube: Option<kube::Client>,
        clock: Clock,
        metrics: Arc<ServerMetrics>,
    ) -> Self {
        settings.tenant_keys.iter_mut().for_each(|key| key.make_ascii_lowercase());
        let reviews = kube.filter(|_| settings.token_review).map(TokenReviews::new);
        let anonymous = Caller {
            name: "system:anonymous".to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Caller::default()
        };
        Self { settings, trust, issuers, reviews, anonymous: Arc::new(anonymous), clock, metrics }
    }

    /// The keys of the issuers, to be followed.
    pub(crate) fn key_sets(&self) -> impl Iterator<Item = Arc<jwks::KeySet>> + '_ {
        self.issuers.iter().map(|issuer| Arc::clone(issuer.keys()))
    }

    /// The caller. Credentials are taken out of the headers, so that nothing behind can believe them again.
    pub async fn authenticate(
        &self,
        peer: &Peer,
        headers: &mut HeaderMap,
    ) -> Result<Arc<Caller>, Unauthenticated> {
        let trust = self.trust.load();
        let offered = subprotocol::take(headers);
        let outcome = self.union(peer, &trust, headers, offered).await;
        headers.remove(header::AUTHORIZATION);
        if let Some(proxy) = &trust.proxy {
            proxy.strip(headers);
        }
        self.metrics.authenticated(outcome.is_ok());
        if outcome.as_ref().is_ok_and(|caller| caller.via != Via::Anonymous) {
            self.metrics.user();
        }
        outcome
    }

    async fn union(
        &self,
        peer: &Peer,
        trust: &trust::Trust,
        headers: &HeaderMap,
        offered: Option<Result<String, &'static str>>,
    ) -> Result<Arc<Caller>, Unauthenticated> {
        let mut errors = Vec::new();
        let now = self.clock.unix_seconds();
        let verdict = x509::verdict(peer, trust, now);
        if let Some(verdict) = &verdict {
            for opinion in [self.by_proxy(trust, verdict, headers), verdict.client()] {
                match opinion {
                    Opinion::Known(caller) => {
                        if caller.via == Via::Certificate {
                            self.metrics.certificate(verdict.until_unix_seconds() - now);
                        }
                        return Ok(caller);
                    }
                    Opinion::None => {}
                    Opinion::Error(why) => errors.push(why),
                }
            }
        }
        let offered = offered.as_ref().map(|token| token.as_deref().map_err(|why| *why));
        for token in bearer(headers).map(Ok).into_iter().chain(offered) {
            let opinion = match token {
                Ok(token) => self.by_token(token).await,
                Err(why) => Opinion::Error(why.to_owned()),
            };
            match opinion {
                Opinion::Known(caller) => return Ok(caller),
                Opinion::None => {}
                Opinion::Error(why) => errors.push(why),
            }
        }
        if errors.is_empty() && self.settings.anonymous {
            return Ok(Arc::clone(&self.anonymous));
        }
        Err(Unauthenticated(errors.join("; ")))
    }

    fn by_proxy(&self, trust: &trust::Trust, verdict: &x509::Verdict, headers: &HeaderMap) -> Opinion {
        let Some(proxy) = &trust.proxy else { return Opinion::None };
        if let Err(why) = verdict.proxy() {
            return Opinion::Error(format!("front proxy: {why}"));
        }
        match proxy.caller(headers) {
            None => Opinion::None,
            Some(caller) => self.finish(caller),
        }
    }

    async fn by_token(&self, token: &str) -> Opinion {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(issued_by) = jwt::issuer_of(token)
            && let Some(issuer) = self.issuers.iter().find(|issuer| issuer.name() == issued_by)
        {
            return match issuer.verify(token, hash, self.clock.unix_seconds()).await {
                Ok(caller) => Opinion::Known(caller),
                Err(why) => Opinion::Error(format!("token of {issued_by}: {why}")),
            };
        }
        match &self.reviews {
            None => Opinion::Error("token of an unknown issuer".to_owned()),
            Some(reviews) => match reviews.review(token, hash, &self.metrics.delegated_authn).await {
                Ok(caller) => self.finish((*caller).clone()),
                Err(why) => Opinion::Error(why),
            },
        }
    }

    /// Who a caller becomes that acts as somebody else. Whether he may was asked before.
    pub(crate) fn assume(&self, wanted: Wanted) -> Result<Arc<Caller>, String> {
        match self.finish(wanted.into_caller()) {
            Opinion::Known(caller) => Ok(caller),
            Opinion::Error(why) => Err(why),
            Opinion::None => Err("nobody is named".to_owned()),
        }
    }

    /// Adds the group of everybody who is known, and the tenant.
    fn finish(&self, mut caller: Caller) -> Opinion {
        if caller.name != self.anonymous.name
            && !caller.in_group(AUTHENTICATED)
            && !caller.in_group(UNAUTHENTICATED)
        {
            caller.groups.push(AUTHENTICATED.to_owned());
        }
        let mut tenants = self
            .settings
            .tenant_keys
            .iter()
            .filter_map(|key| caller.extra.get(key))
            .flatten()
            .filter(|value| !value.is_empty());
        if let Some(tenant) = tenants.next() {
            if tenants.any(|other| other != tenant) {
                return Opinion::Error(format!("user {:?} has several tenants", caller.name));
            }
            caller.tenant = Some(tenant.clone());
        }
        Opinion::Known(Arc::new(caller))
    }
}

/// The group of everybody who is known.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of everybody else.
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The token of `Authorization: Bearer`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.split(' ').next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_token_is_read_whatever_the_case_of_its_scheme() {
        for (value, want) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            ("Bearer abc def", Some("abc")),
            ("Bearer", None),
            ("Bearer  abc", None),
            ("Basic abc", None),
        ] {
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
            assert_eq!(bearer(&headers), want, "{value}");
        }
    }
}
