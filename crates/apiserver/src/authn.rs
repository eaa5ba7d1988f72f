use crate::caller::{AUTHENTICATED, Caller, UNAUTHENTICATED, Via};
use crate::dialect::{Basic, Dialect, Judgement};
use crate::metrics::ServerMetrics;
use crate::tls::Peer;
use http::{HeaderMap, HeaderValue, header};
use runtime::Clock;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The CAs and headers that identities are believed by, swapped whole when they change.
pub mod trust;
/// Identity headers of a front proxy.
pub(crate) mod proxy;
/// What one authenticator says.
pub(crate) mod opinion;
/// The verdict on a certificate.
pub(crate) mod verdict;
/// Client certificates.
pub(crate) mod x509;
/// The file that configures the issuers of tokens.
pub mod config;
/// CEL expressions in that file.
pub(crate) mod expression;
/// The names that an issuer may give.
pub(crate) mod territory;
/// From the claims of a token to a caller.
pub(crate) mod claims;
/// The issuers as they are now.
pub mod issuers;
/// Bearer tokens that are JSON web tokens of a configured issuer.
pub(crate) mod jwt;
/// Public keys of a token issuer.
pub mod jwks;
/// Requests to the servers of an issuer.
pub mod fetch;
/// Tokens among the subprotocols of a WebSocket.
pub(crate) mod subprotocol;
/// Bearer tokens that kube-apiserver reviews.
pub(crate) mod review;
/// Callers that act as somebody else.
pub(crate) mod impersonation;

use impersonation::Impersonation;
use issuers::TokenIssuers;
use jwks::KeySource;
use opinion::{Opinion, Unauthenticated};
use review::{TokenReviewFailure, TokenReviews};
use trust::TrustStore;
use verdict::ChainVerdict;

/// How callers are identified.
#[derive(Clone, Debug)]
pub struct AuthnSettings {
    /// Extra keys that name a caller's tenant, in lower case.
    pub tenant_keys: Vec<String>,
    /// Whether a request without any credentials goes on as `system:anonymous`, unless the issuers' file says it.
    pub anonymous: bool,
    /// Whether tokens of no configured issuer are sent to kube-apiserver for review.
    pub token_review: bool,
    /// Issuers of JSON web tokens.
    pub issuers: issuers::IssuerSettings,
    /// Trust that is configured; the ConfigMap of kube-apiserver adds to it.
    pub trust: trust::TrustSettings,
}

impl Default for AuthnSettings {
    fn default() -> Self {
        Self {
            tenant_keys: vec!["tenantid".to_owned()],
            anonymous: true,
            token_review: true,
            issuers: issuers::IssuerSettings::default(),
            trust: trust::TrustSettings::default(),
        }
    }
}

/// Finds out who the caller is, in the order of a Go API server: front proxy, client certificate, token, anonymous.
#[derive(Debug)]
pub struct Authenticator {
    settings: AuthnSettings,
    trust: Arc<TrustStore>,
    issuers: Arc<TokenIssuers>,
    reviews: Option<TokenReviews>,
    anonymous: Arc<Caller>,
    clock: Clock,
    metrics: Arc<ServerMetrics>,
}

/// The tokens of a request, taken out of its headers.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tokens {
    /// `Authorization`
    bearer: Option<HeaderValue>,
    /// Among the subprotocols of a WebSocket.
    offered: Option<Result<String, &'static str>>,
}

impl Tokens {
    fn take(headers: &mut HeaderMap) -> Self {
        Self { bearer: headers.remove(header::AUTHORIZATION), offered: subprotocol::take(headers) }
    }

    fn iter(&self) -> impl Iterator<Item = Result<&str, &'static str>> {
        let offered = self.offered.as_ref().map(|token| token.as_deref().map_err(|why| *why));
        self.bearer.as_ref().and_then(bearer).map(Ok).into_iter().chain(offered)
    }
}

/// The caller, and the tokens by which he is known.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Authenticated {
    pub(crate) caller: Arc<Caller>,
    pub(crate) tokens: Tokens,
}

impl Authenticator {
    pub(crate) fn new(
        mut settings: AuthnSettings,
        trust: Arc<TrustStore>,
        issuers: Arc<TokenIssuers>,
        reviews: Option<TokenReviews>,
        clock: Clock,
        metrics: Arc<ServerMetrics>,
    ) -> Self {
        settings.tenant_keys.iter_mut().for_each(|key| key.make_ascii_lowercase());
        let reviews = reviews.filter(|_| settings.token_review);
        let anonymous = Caller {
            name: "system:anonymous".to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Caller::default()
        };
        Self { settings, trust, issuers, reviews, anonymous: Arc::new(anonymous), clock, metrics }
    }

    /// The caller that a bearer token identifies, exactly as if a request had brought it. The error is for the log.
    pub async fn judge(&self, token: &str) -> Result<Arc<Caller>, String> {
        match self.by_token(token).await {
            Opinion::Known(caller) => Ok(caller),
            Opinion::None => Err("no token".to_owned()),
            Opinion::Error(why) => Err(why.to_string()),
        }
    }

    /// Where the keys of an issuer come from; `None` if it is not configured.
    pub fn key_source(&self, issuer: &str) -> Option<KeySource> {
        self.issuers.load_table().key_source(issuer)
    }

    /// A caller without credentials, or whose credentials are not looked at.
    pub(crate) fn nobody(&self) -> Authenticated {
        Authenticated { caller: Arc::clone(&self.anonymous), tokens: Tokens::default() }
    }

    /// Now, in Unix seconds.
    pub(crate) fn now(&self) -> i64 {
        self.clock.unix_seconds()
    }

    /// The caller. Credentials are removed from the headers, so that nothing behind can use them again. A name and a
    /// password count only if a dialect judges them.
    pub(crate) async fn authenticate(
        &self,
        peer: &Peer,
        headers: &mut HeaderMap,
        path: &str,
        dialect: Option<&dyn Dialect>,
    ) -> Result<Authenticated, Unauthenticated> {
        // In this order: if trust was complete, then the trust that is read next is, too.
        let complete = self.trust.is_complete();
        let trust = self.trust.load();
        let tokens = Tokens::take(headers);
        let mut outcome = self.union(peer, &trust, headers, &tokens, path).await;
        let shows_certificate = || x509::verdict(peer, &trust, self.now()).is_some();
        if !complete && !outcome.as_ref().is_ok_and(|caller| caller.is_known()) && shows_certificate() {
            outcome = Err(Unauthenticated::Starting);
        }
        if let (Some(dialect), Some(header)) = (dialect, &tokens.bearer)
            && !outcome.as_ref().is_ok_and(|caller| caller.is_known())
            && let Some(basic) = Basic::read(header)
        {
            outcome = Box::pin(self.by_password(dialect, basic)).await;
        }
        if let Some(proxy) = &trust.proxy {
            proxy.strip(headers);
        }
        self.metrics.authenticated(outcome.is_ok());
        let caller = outcome?;
        if caller.is_known() {
            self.metrics.user();
        }
        Ok(Authenticated { caller, tokens })
    }

    /// The same caller, later, by the same credentials. A front proxy's word holds while it is trusted.
    pub(crate) async fn again(
        &self,
        peer: &Peer,
        before: &Authenticated,
    ) -> Result<Arc<Caller>, Unauthenticated> {
        let trust = self.trust.load();
        let nobody = || Unauthenticated::Invalid("the credentials do not hold any more".to_owned());
        let opinion = match before.caller.via {
            Via::Anonymous | Via::Impersonation => return Ok(Arc::clone(&before.caller)),
            Via::FrontProxy => {
                let verdict = x509::verdict(peer, &trust, self.now()).ok_or_else(nobody)?;
                return match verdict.proxy() {
                    Ok(()) => Ok(Arc::clone(&before.caller)),
                    Err(why) => Err(Unauthenticated::Invalid(format!("front proxy: {why}"))),
                };
            }
            // Nobody who is known by a password is served a stream.
            Via::Password => return Err(nobody()),
            Via::Certificate => x509::verdict(peer, &trust, self.now()).ok_or_else(nobody)?.client(),
            Via::Jwt | Via::ClusterJwt | Via::TokenReview => {
                match before.tokens.iter().find_map(Result::ok) {
                    Some(token) => self.by_token(token).await,
                    None => Opinion::None,
                }
            }
        };
        match opinion {
            Opinion::Known(caller) if caller.name == before.caller.name => Ok(caller),
            Opinion::Known(_) | Opinion::None => Err(nobody()),
            Opinion::Error(error) => Err(error),
        }
    }

    async fn union(
        &self,
        peer: &Peer,
        trust: &trust::Trust,
        headers: &HeaderMap,
        tokens: &Tokens,
        path: &str,
    ) -> Result<Arc<Caller>, Unauthenticated> {
        let mut errors = Vec::new();
        let now = self.now();
        let verdict = x509::verdict(peer, trust, now);
        if let Some(verdict) = &verdict {
            for opinion in [self.by_proxy(trust, verdict, headers), verdict.client()] {
                match opinion {
                    Opinion::Known(caller) => {
                        if caller.via == Via::Certificate {
                            self.metrics.certificate(verdict.until_unix_seconds - now);
                        }
                        return Ok(caller);
                    }
                    Opinion::None => {}
                    Opinion::Error(why) => errors.push(why),
                }
            }
        }
        for token in tokens.iter() {
            let opinion = match token {
                Ok(token) => self.by_token(token).await,
                Err(why) => Opinion::invalid(why),
            };
            match opinion {
                Opinion::Known(caller) => return Ok(caller),
                Opinion::None => {}
                Opinion::Error(why) => errors.push(why),
            }
        }
        if errors.is_empty() && self.lets_in_anybody(path) {
            return Ok(Arc::clone(&self.anonymous));
        }
        Err(Unauthenticated::of(&errors))
    }

    fn lets_in_anybody(&self, path: &str) -> bool {
        let issuers = self.issuers.load_table();
        issuers.anonymous.as_ref().map_or(self.settings.anonymous, |anonymous| anonymous.allows(path))
    }

    async fn by_password(
        &self,
        dialect: &dyn Dialect,
        basic: Result<Basic, &'static str>,
    ) -> Result<Arc<Caller>, Unauthenticated> {
        let invalid = |why: String| Unauthenticated::Invalid(why);
        let basic = basic.map_err(|why| invalid(why.to_owned()))?;
        match dialect.judge(&basic).await {
            Judgement::Known(caller) => {
                self.finish(Caller { via: Via::Password, ..*caller }).map_err(invalid)
            }
            Judgement::Wrong(why) => Err(invalid(format!("password of {:?}: {why}", basic.user))),
            Judgement::Token => match self.by_token(&basic.password).await {
                Opinion::Known(caller) => Ok(caller),
                Opinion::None => Err(invalid("no token".to_owned())),
                Opinion::Error(why) => Err(why),
            },
        }
    }

    fn by_proxy(&self, trust: &trust::Trust, verdict: &ChainVerdict, headers: &HeaderMap) -> Opinion {
        let Some(proxy) = &trust.proxy else { return Opinion::None };
        if let Err(why) = verdict.proxy() {
            return Opinion::invalid(format!("front proxy: {why}"));
        }
        match proxy.caller(headers) {
            None => Opinion::None,
            Some(caller) => self.finish(caller).into(),
        }
    }

    async fn by_token(&self, token: &str) -> Opinion {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(issued_by) = jwt::issuer_of(token)
            && let Some(issuer) = self.issuers.load_table().find(&issued_by)
        {
            return match issuer.verify(token, hash, self.now()).await {
                Ok(caller) => Opinion::Known(caller),
                Err(why) if issuer.keys().are_unread() => {
                    let why = format!("the keys of {issued_by} have not been read yet: {why}");
                    Opinion::Error(Unauthenticated::Unanswered(why))
                }
                Err(why) => Opinion::invalid(format!("token of {issued_by}: {why}")),
            };
        }
        match &self.reviews {
            None => Opinion::invalid("token of an unknown issuer"),
            Some(reviews) => match reviews.review(token, hash, &self.metrics.delegated_authn).await {
                Ok(caller) => self.finish((*caller).clone()).into(),
                Err(TokenReviewFailure::Refused(why)) => Opinion::invalid(&*why),
                Err(TokenReviewFailure::Unanswered(why)) => {
                    Opinion::Error(Unauthenticated::Unanswered(why.to_string()))
                }
                Err(TokenReviewFailure::Busy) => Opinion::Error(Unauthenticated::Busy),
            },
        }
    }

    /// The caller that an impersonation makes of somebody. Whether he may was asked before.
    pub(crate) fn assume(&self, wanted: Impersonation) -> Result<Arc<Caller>, String> {
        self.finish(wanted.into_caller())
    }

    /// Adds the group `system:authenticated`, and the tenant.
    fn finish(&self, mut caller: Caller) -> Result<Arc<Caller>, String> {
        if caller.name != self.anonymous.name
            && !caller.in_group(AUTHENTICATED)
            && !caller.in_group(UNAUTHENTICATED)
        {
            caller.groups.push(AUTHENTICATED.to_owned());
        }
        caller.tenant = tenant(&self.settings.tenant_keys, &caller)?.or(caller.tenant);
        Ok(Arc::new(caller))
    }
}

/// The tenant that a caller's extra keys name.
fn tenant(keys: &[String], caller: &Caller) -> Result<Option<String>, String> {
    let named = keys.iter().filter_map(|key| caller.extra.get(key)).flatten();
    let mut tenants = named.filter(|value| !value.is_empty());
    let Some(tenant) = tenants.next() else { return Ok(None) };
    if tenants.any(|other| other != tenant) {
        return Err(format!("user {:?} has several tenants", caller.name));
    }
    // PostgreSQL cannot store it in a text.
    if tenant.contains('\0') {
        return Err(format!("the tenant of user {:?} is no text", caller.name));
    }
    Ok(Some(tenant.clone()))
}

/// The token of `Bearer TOKEN`.
fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, token) = value.to_str().ok()?.trim().split_once(' ')?;
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
            assert_eq!(bearer(&HeaderValue::from_static(value)), want, "{value}");
        }
    }
}
