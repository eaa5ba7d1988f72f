use crate::caller::{AUTHENTICATED, Caller, UNAUTHENTICATED, Via};
use crate::dialect::{BasicCredentials, Dialect, Judgement};
use crate::metrics::ServerMetrics;
use crate::tls::Peer;
use http::{HeaderMap, HeaderValue, header};
use runtime::Clock;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The trusted CAs and the headers of front proxies, replaced as a whole when they change.
pub mod trust;
/// The identity headers of a front proxy.
pub(crate) mod proxy;
/// The result of an authenticator.
pub(crate) mod outcome;
/// The result of verifying a certificate chain.
pub(crate) mod verdict;
/// Client certificates.
pub(crate) mod x509;
/// The file that configures the issuers of tokens.
pub mod config;
/// CEL expressions in that file.
pub(crate) mod expression;
/// Which names an issuer may give.
pub(crate) mod allowed_names;
/// The mapping of claims to a caller.
pub(crate) mod claims;
/// The configured issuers, reloaded when their file changes.
pub mod issuers;
/// JSON web tokens of the configured issuers.
pub(crate) mod jwt;
/// Public keys of a token issuer.
pub mod jwks;
/// HTTP requests to the servers of an issuer.
pub mod fetch;
/// Tokens among the subprotocols of a WebSocket.
pub(crate) mod subprotocol;
/// Bearer tokens that kube-apiserver reviews.
pub(crate) mod review;
/// Impersonation headers.
pub(crate) mod impersonation;

use impersonation::Impersonation;
use issuers::TokenIssuers;
use jwks::KeySource;
use jwt::JwtFailure;
use outcome::{AuthnError, AuthnOutcome};
use review::{TokenReviewFailure, TokenReviews};
use trust::TrustStore;
use verdict::ChainVerdict;

/// How callers are identified.
#[derive(Clone, Debug)]
pub struct AuthnSettings {
    /// Extra keys that name a caller's tenant, in lower case.
    pub tenant_keys: Vec<String>,
    /// Whether a request without credentials is authenticated as `system:anonymous`. The issuers' file can override
    /// this.
    pub anonymous: bool,
    /// Whether tokens of no configured issuer are sent to kube-apiserver for review.
    pub token_review: bool,
    /// Issuers of JSON web tokens.
    pub issuers: issuers::IssuerSettings,
    /// Trusted CAs from files, in addition to those in the ConfigMap of kube-apiserver.
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

/// Authenticates the caller, in the order of a Go API server: front proxy, client certificate, token, anonymous.
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
    /// The header `Authorization`.
    bearer: Option<HeaderValue>,
    /// The token, or what is wrong with it, among the subprotocols of a WebSocket.
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

/// An authenticated caller, and the tokens of his request.
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

    /// Authenticates a bearer token exactly as if a request had brought it. The error is for the log.
    pub async fn judge(&self, token: &str) -> Result<Arc<Caller>, String> {
        match self.authenticate_token(token).await {
            AuthnOutcome::Authenticated(caller) => Ok(caller),
            AuthnOutcome::NoCredentials => Err("no token".to_owned()),
            AuthnOutcome::Failed(why) => Err(why.to_string()),
        }
    }

    /// The source of an issuer's keys; `None` if the issuer is not configured.
    pub fn key_source(&self, issuer: &str) -> Option<KeySource> {
        self.issuers.load_table().key_source(issuer)
    }

    /// The anonymous caller: for a request without credentials, or where they are ignored.
    pub(crate) fn anonymous(&self) -> Authenticated {
        Authenticated { caller: Arc::clone(&self.anonymous), tokens: Tokens::default() }
    }

    /// Now, in Unix seconds.
    pub(crate) fn now(&self) -> i64 {
        self.clock.unix_seconds()
    }

    /// Authenticates a request. Credentials are removed from the headers, so that no handler sees them. A name and a
    /// password are used only if there is a dialect, which checks them.
    pub(crate) async fn authenticate(
        &self,
        peer: &Peer,
        headers: &mut HeaderMap,
        path: &str,
        dialect: Option<&dyn Dialect>,
    ) -> Result<Authenticated, AuthnError> {
        // In this order: once trust is complete, the trust that is loaded afterwards is complete, too.
        let complete = self.trust.is_complete();
        let trust = self.trust.load();
        let tokens = Tokens::take(headers);
        let mut outcome = self.union(peer, &trust, headers, &tokens, path).await;
        let shows_certificate = || x509::verdict(peer, &trust, self.now()).is_some();
        if !complete && !outcome.as_ref().is_ok_and(|caller| caller.is_known()) && shows_certificate() {
            outcome = Err(AuthnError::TrustNotLoaded);
        }
        if let (Some(dialect), Some(header)) = (dialect, &tokens.bearer)
            && !outcome.as_ref().is_ok_and(|caller| caller.is_known())
            && let Some(basic) = BasicCredentials::read(header)
        {
            outcome = Box::pin(self.authenticate_password(dialect, basic)).await;
        }
        if let Some(proxy) = &trust.proxy {
            proxy.strip(headers);
        }
        self.metrics.record_authentication(outcome.is_ok());
        let caller = outcome?;
        if caller.is_known() {
            self.metrics.record_authenticated_user();
        }
        Ok(Authenticated { caller, tokens })
    }

    /// Authenticates the same caller again by the same credentials. A caller named by a front proxy stays authenticated
    /// as long as the proxy's certificate is trusted.
    pub(crate) async fn reauthenticate(
        &self,
        peer: &Peer,
        before: &Authenticated,
    ) -> Result<Arc<Caller>, AuthnError> {
        let trust = self.trust.load();
        let invalid = || AuthnError::Invalid("the credentials do not hold any more".to_owned());
        let outcome = match before.caller.via {
            Via::Anonymous | Via::Impersonation => return Ok(Arc::clone(&before.caller)),
            Via::FrontProxy => {
                let verdict = x509::verdict(peer, &trust, self.now()).ok_or_else(invalid)?;
                return match verdict.proxy() {
                    Ok(()) => Ok(Arc::clone(&before.caller)),
                    Err(why) => Err(AuthnError::Invalid(format!("front proxy: {why}"))),
                };
            }
            // A route with a dialect, and so with passwords, is never a stream.
            Via::Password => return Err(invalid()),
            Via::Certificate => x509::verdict(peer, &trust, self.now()).ok_or_else(invalid)?.client(),
            Via::Jwt | Via::ClusterJwt | Via::TokenReview => {
                match before.tokens.iter().find_map(Result::ok) {
                    Some(token) => self.authenticate_token(token).await,
                    None => AuthnOutcome::NoCredentials,
                }
            }
        };
        match outcome {
            AuthnOutcome::Authenticated(caller) if caller.name == before.caller.name => Ok(caller),
            AuthnOutcome::Authenticated(_) | AuthnOutcome::NoCredentials => Err(invalid()),
            AuthnOutcome::Failed(error) => Err(error),
        }
    }

    async fn union(
        &self,
        peer: &Peer,
        trust: &trust::Trust,
        headers: &HeaderMap,
        tokens: &Tokens,
        path: &str,
    ) -> Result<Arc<Caller>, AuthnError> {
        let mut errors = Vec::new();
        let now = self.now();
        let verdict = x509::verdict(peer, trust, now);
        if let Some(verdict) = &verdict {
            for outcome in [self.authenticate_proxy(trust, verdict, headers), verdict.client()] {
                match outcome {
                    AuthnOutcome::Authenticated(caller) => {
                        if caller.via == Via::Certificate
                            && let Some(expires) = caller.expires
                        {
                            self.metrics.record_client_certificate(expires - now);
                        }
                        return Ok(caller);
                    }
                    AuthnOutcome::NoCredentials => {}
                    AuthnOutcome::Failed(why) => errors.push(why),
                }
            }
        }
        for token in tokens.iter() {
            let outcome = match token {
                Ok(token) => self.authenticate_token(token).await,
                Err(why) => AuthnOutcome::invalid(why),
            };
            match outcome {
                AuthnOutcome::Authenticated(caller) => return Ok(caller),
                AuthnOutcome::NoCredentials => {}
                AuthnOutcome::Failed(why) => errors.push(why),
            }
        }
        if errors.is_empty() && self.allows_anonymous(path) {
            return Ok(Arc::clone(&self.anonymous));
        }
        Err(AuthnError::of(&errors))
    }

    fn allows_anonymous(&self, path: &str) -> bool {
        let issuers = self.issuers.load_table();
        issuers.anonymous.as_ref().map_or(self.settings.anonymous, |anonymous| anonymous.allows(path))
    }

    async fn authenticate_password(
        &self,
        dialect: &dyn Dialect,
        basic: Result<BasicCredentials, &'static str>,
    ) -> Result<Arc<Caller>, AuthnError> {
        let invalid = |why: String| AuthnError::Invalid(why);
        let basic = basic.map_err(|why| invalid(why.to_owned()))?;
        match dialect.judge(&basic).await {
            Judgement::Known(caller) => {
                self.complete(Caller { via: Via::Password, ..*caller }).map_err(invalid)
            }
            Judgement::Wrong(why) => Err(invalid(format!("password of {:?}: {why}", basic.user))),
            Judgement::Token => match self.authenticate_token(&basic.password).await {
                AuthnOutcome::Authenticated(caller) => Ok(caller),
                AuthnOutcome::NoCredentials => Err(invalid("no token".to_owned())),
                AuthnOutcome::Failed(why) => Err(why),
            },
        }
    }

    fn authenticate_proxy(
        &self,
        trust: &trust::Trust,
        verdict: &ChainVerdict,
        headers: &HeaderMap,
    ) -> AuthnOutcome {
        let Some(proxy) = &trust.proxy else { return AuthnOutcome::NoCredentials };
        if let Err(why) = verdict.proxy() {
            return AuthnOutcome::invalid(format!("front proxy: {why}"));
        }
        match proxy.caller(headers) {
            None => AuthnOutcome::NoCredentials,
            Some(caller) => self.complete(caller).into(),
        }
    }

    async fn authenticate_token(&self, token: &str) -> AuthnOutcome {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        // Nearly all tokens were verified before: then their issuer need not be read out of their claims.
        let verified = self.issuers.load_table().verified_caller(hash);
        if let Some(caller) = verified {
            return AuthnOutcome::Authenticated(caller);
        }
        if let Some(issued_by) = jwt::issuer_of(token)
            && let Some(issuer) = self.issuers.load_table().find(&issued_by)
        {
            return match issuer.verify(token, hash, self.now()).await {
                Ok(caller) => AuthnOutcome::Authenticated(caller),
                Err(JwtFailure::Busy) => AuthnOutcome::Failed(AuthnError::TooManyReviews),
                Err(JwtFailure::Refused(why)) if issuer.keys().has_never_loaded() => {
                    let why = format!("the keys of {issued_by} have not been read yet: {why}");
                    AuthnOutcome::Failed(AuthnError::Unavailable(why))
                }
                Err(JwtFailure::Refused(why)) => {
                    AuthnOutcome::invalid(format!("token of {issued_by}: {why}"))
                }
            };
        }
        match &self.reviews {
            None => AuthnOutcome::invalid("token of an unknown issuer"),
            Some(reviews) => match reviews.review(token, hash, &self.metrics.delegated_authn).await {
                Ok(caller) => self.complete((*caller).clone()).into(),
                Err(TokenReviewFailure::Refused(why)) => AuthnOutcome::invalid(&*why),
                Err(TokenReviewFailure::Unanswered(why)) => {
                    AuthnOutcome::Failed(AuthnError::Unavailable(why.to_string()))
                }
                Err(TokenReviewFailure::Busy) => AuthnOutcome::Failed(AuthnError::TooManyReviews),
            },
        }
    }

    /// The caller that results from an impersonation, which must have been authorized before.
    pub(crate) fn impersonated_caller(&self, wanted: Impersonation) -> Result<Arc<Caller>, String> {
        self.complete(wanted.into_caller())
    }

    /// Adds the group `system:authenticated` and the tenant.
    fn complete(&self, mut caller: Caller) -> Result<Arc<Caller>, String> {
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

/// The tenant that is named by a caller's extra keys.
fn tenant(keys: &[String], caller: &Caller) -> Result<Option<String>, String> {
    let named = keys.iter().filter_map(|key| caller.extra.get(key)).flatten();
    let mut tenants = named.filter(|value| !value.is_empty());
    let Some(tenant) = tenants.next() else { return Ok(None) };
    if tenants.any(|other| other != tenant) {
        return Err(format!("user {:?} has several tenants", caller.name));
    }
    // PostgreSQL cannot store it in a text column.
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
