//! The calls to an identity provider: the authorization code flow with PKCE, refreshing, and logging out.

use super::session::{PendingLogin, Session};
use super::settings::ConsoleIssuer;
use apiserver::authn::fetch;
use apiserver::authn::fetch::IssuerAuthorities;
use apiserver::authn::jwks::KeySource;
use futures_util::future::BoxFuture;
use http::{Request, StatusCode, header};
use openidconnect::core::{
    CoreAuthenticationFlow, CoreClient, CoreErrorResponseType, CoreIdToken, CoreIdTokenVerifier,
    CoreJsonWebKeySet, CoreJwsSigningAlgorithm, CoreRevocableToken, CoreTokenResponse,
};
use openidconnect::{
    AsyncHttpClient, AuthType, AuthUrl, AuthorizationCode, ClaimsVerificationError, ClientId, ClientSecret,
    CsrfToken, EndSessionUrl, EndpointNotSet, EndpointSet, HttpRequest, HttpResponse, IssuerUrl,
    LogoutRequest, Nonce, OAuth2TokenResponse as _, PkceCodeChallenge, PkceCodeVerifier,
    PostLogoutRedirectUrl, RedirectUrl, RefreshToken, RequestTokenError, RevocationUrl, Scope,
    StandardErrorResponse, TokenResponse as _, TokenUrl,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::str::FromStr as _;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Signatures by a private key alone, as the API accepts them.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// How long the metadata of a provider is cached.
const DISCOVERY_TTL: Duration = Duration::from_mins(1);
/// A failure is cached for the requests that wait already: otherwise each would wait for all before it.
const FAILURE_TTL: Duration = Duration::from_secs(2);
/// A longer ID token is not sent as a hint: providers and their proxies refuse URLs of more than some thousand bytes.
const ID_TOKEN_HINT_BYTES_MAX: usize = 1500;
/// Statuses that mean "try again later". The body may look like an OAuth error, and the library would take it for one.
const RETRYABLE_STATUSES: [StatusCode; 4] = [
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::BAD_GATEWAY,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];

type OidcClient = CoreClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointSet>;
type TokenRequestError = RequestTokenError<apiserver::Error, StandardErrorResponse<CoreErrorResponseType>>;

/// Why a call to a provider failed.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum ProviderError {
    /// It did not answer, or not as a provider does.
    #[error("the identity provider does not answer as it should: {0}")]
    Unreachable(String),
    /// It refused, or its answer cannot be trusted.
    #[error("the identity provider did not accept the login: {0}")]
    Refused(String),
    /// The settings of the console do not allow it.
    #[error("{0}")]
    Settings(String),
}

/// The metadata that a provider publishes.
#[derive(Clone, Debug, Deserialize)]
struct Discovery {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    end_session_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    /// RFC 9207.
    authorization_response_iss_parameter_supported: Option<bool>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

/// The HTTP client for a provider's servers.
struct ProviderClient(IssuerAuthorities);

impl<'c> AsyncHttpClient<'c> for ProviderClient {
    type Error = apiserver::Error;
    type Future = BoxFuture<'c, Result<HttpResponse, apiserver::Error>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(async move {
            let url = request.uri().to_string();
            let answer = fetch::send(request, &self.0).await?;
            if RETRYABLE_STATUSES.contains(&answer.status()) {
                return Err(apiserver::Error::Issuer { url, why: answer.status().to_string() });
            }
            Ok(answer)
        })
    }
}

impl ProviderClient {
    async fn get<T: DeserializeOwned>(&self, url: &str) -> Result<T, ProviderError> {
        let failed = |why: String| ProviderError::Unreachable(format!("{url}: {why}"));
        let request = Request::get(url).header(header::ACCEPT, "application/json").body(Vec::new());
        let request = request.map_err(|error| failed(error.to_string()))?;
        let answer = self.call(request).await;
        let answer = answer.map_err(|error| ProviderError::Unreachable(error.to_string()))?;
        if !answer.status().is_success() {
            return Err(failed(answer.status().to_string()));
        }
        serde_json::from_slice(answer.body()).map_err(|error| failed(error.to_string()))
    }
}

/// A provider with its metadata.
pub(super) struct Provider<'a> {
    settings: &'a ConsoleIssuer,
    http: ProviderClient,
    discovery: Discovery,
}

/// A cache of a provider's metadata, so that many logins do not fetch it as often.
#[derive(Debug, Default)]
pub(super) struct DiscoveryCache(Mutex<Option<CachedDiscovery>>);

#[derive(Debug)]
struct CachedDiscovery {
    source: KeySource,
    outcome: Result<Discovery, ProviderError>,
    at: Instant,
}

impl DiscoveryCache {
    /// Concurrent calls share one fetch.
    async fn get(
        &self,
        source: KeySource,
        fetch_discovery: impl Future<Output = Result<Discovery, ProviderError>>,
    ) -> Result<Discovery, ProviderError> {
        let mut last = self.0.lock().await;
        if let Some(cached) = &*last
            && cached.source == source
            && cached.at.elapsed() < if cached.outcome.is_ok() { DISCOVERY_TTL } else { FAILURE_TTL }
        {
            return cached.outcome.clone();
        }
        let outcome = fetch_discovery.await;
        *last = Some(CachedDiscovery { source, outcome: outcome.clone(), at: Instant::now() });
        outcome
    }
}

/// The tokens from a provider.
pub(super) struct ProviderTokens {
    pub(super) token: String,
    pub(super) refresh: Option<String>,
    /// The user that they belong to, as the provider names him.
    pub(super) subject: String,
}

/// An authorization request, and what must be remembered for its callback.
pub(super) struct AuthorizationRequest {
    pub(super) url: String,
    pub(super) state: String,
    pub(super) nonce: String,
    pub(super) verifier: String,
}

impl<'a> Provider<'a> {
    /// Fetches the provider's metadata. `source` is where the API gets the provider's keys: the same certificate
    /// authorities are trusted for both.
    pub(super) async fn discover(
        settings: &'a ConsoleIssuer,
        source: KeySource,
        last: &DiscoveryCache,
    ) -> Result<Self, ProviderError> {
        let usual = format!("{}/.well-known/openid-configuration", settings.issuer.trim_end_matches('/'));
        let (url, authorities) = match source.clone() {
            KeySource::Discovery { url, authorities } => (url.unwrap_or(usual), authorities),
            KeySource::Url { authorities, .. } => (usual, authorities),
            KeySource::File(_) => (usual, IssuerAuthorities::System),
        };
        let http = ProviderClient(authorities);
        let discovery = last.get(source, http.get::<Discovery>(&url)).await?;
        if discovery.issuer != settings.issuer {
            let text = format!("its configuration is that of {:?}", discovery.issuer);
            return Err(ProviderError::Unreachable(text));
        }
        Ok(Self { settings, http, discovery })
    }

    /// Whether all of its authorization responses name the issuer (RFC 9207).
    pub(super) fn sends_issuer(&self) -> bool {
        self.discovery.authorization_response_iss_parameter_supported == Some(true)
    }

    /// The URL at which the browser logs in, with what must be remembered until the callback.
    pub(super) fn authorization_request(
        &self,
        redirect: &str,
    ) -> Result<AuthorizationRequest, ProviderError> {
        let client = self.client(CoreJsonWebKeySet::default())?;
        let redirect = redirect_url(redirect)?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let flow = CoreAuthenticationFlow::AuthorizationCode;
        let scopes = self.settings.scopes.iter().filter(|scope| *scope != "openid");
        let (url, state, nonce) = client
            .set_redirect_uri(redirect)
            .authorize_url(flow, CsrfToken::new_random, Nonce::new_random)
            .add_scopes(scopes.cloned().map(Scope::new))
            .set_pkce_challenge(challenge)
            .url();
        Ok(AuthorizationRequest {
            url: url.to_string(),
            state: state.into_secret(),
            nonce: nonce.secret().clone(),
            verifier: verifier.into_secret(),
        })
    }

    /// Redeems an authorization code for tokens.
    pub(super) async fn redeem(
        &self,
        login: &PendingLogin,
        code: &str,
    ) -> Result<ProviderTokens, ProviderError> {
        let client =
            self.authenticated(self.keys().await?).await?.set_redirect_uri(redirect_url(&login.redirect)?);
        let answer = client
            .exchange_code(AuthorizationCode::new(code.to_owned()))
            .set_pkce_verifier(PkceCodeVerifier::new(login.verifier.clone()))
            .request_async(&self.http)
            .await
            .map_err(token_request_error)?;
        let token =
            answer.id_token().ok_or_else(|| ProviderError::Refused("it gave no ID token".to_owned()))?;
        let nonce = Nonce::new(login.nonce.clone());
        let claims = token.claims(&verifier(&client), &nonce).map_err(|error| invalid_id_token(&error))?;
        Ok(tokens_of(&answer, token, claims.subject().as_str()))
    }

    /// Gets a new ID token for a session.
    pub(super) async fn refresh(&self, session: &Session) -> Result<ProviderTokens, ProviderError> {
        let no = |why: &str| ProviderError::Refused(why.to_owned());
        let refresh = session.refresh.clone().ok_or_else(|| no("there is nothing to refresh it with"))?;
        let client = self.authenticated(self.keys().await?).await?;
        let refresh = RefreshToken::new(refresh);
        let answer = client
            .exchange_refresh_token(&refresh)
            .request_async(&self.http)
            .await
            .map_err(token_request_error)?;
        let token = answer.id_token().ok_or_else(|| no("it gives no ID token for a refresh token"))?;
        let claims = token
            .claims(&verifier(&client), |_: Option<&Nonce>| Ok(()))
            .map_err(|error| invalid_id_token(&error))?;
        if claims.subject().as_str() != session.subject {
            return Err(no("it gave a token of somebody else"));
        }
        let tokens = tokens_of(&answer, token, &session.subject);
        Ok(ProviderTokens { refresh: tokens.refresh.or(session.refresh.clone()), ..tokens })
    }

    /// Revokes the session's refresh token, if the provider supports that.
    pub(super) async fn revoke(&self, session: &Session) -> Result<(), ProviderError> {
        let Discovery { revocation_endpoint: Some(url), .. } = self.discovery.clone() else { return Ok(()) };
        let Some(refresh) = session.refresh.clone() else { return Ok(()) };
        let failed = |why: String| ProviderError::Unreachable(why);
        let url = RevocationUrl::new(url).map_err(|error| failed(error.to_string()))?;
        let client = self.authenticated(CoreJsonWebKeySet::default()).await?.set_revocation_url(url);
        let token = CoreRevocableToken::RefreshToken(RefreshToken::new(refresh));
        let request = client.revoke_token(token).map_err(|error| failed(error.to_string()))?;
        let answer = request.request_async(&self.http).await;
        answer.map_err(|error| failed(error.to_string()))
    }

    /// The URL at which the browser also logs out at the provider.
    pub(super) fn logout_url(&self, session: &Session, back: &str) -> Option<String> {
        let url = EndSessionUrl::new(self.discovery.end_session_endpoint.clone()?).ok()?;
        let back = PostLogoutRedirectUrl::new(back.to_owned()).ok()?;
        let mut request = LogoutRequest::from(url)
            .set_client_id(ClientId::new(self.settings.client_id.clone()))
            .set_post_logout_redirect_uri(back);
        if session.token.len() <= ID_TOKEN_HINT_BYTES_MAX {
            request = request.set_id_token_hint(&CoreIdToken::from_str(&session.token).ok()?);
        }
        Some(request.http_get_url().to_string())
    }

    async fn keys(&self) -> Result<CoreJsonWebKeySet, ProviderError> {
        self.http.get(&self.discovery.jwks_uri).await
    }

    /// The client, with its secret if it has one.
    async fn authenticated(&self, keys: CoreJsonWebKeySet) -> Result<OidcClient, ProviderError> {
        let client = self.client(keys)?;
        let Some(secret) = self.secret().await? else { return Ok(client) };
        let by = if self.supports_basic_auth() { AuthType::BasicAuth } else { AuthType::RequestBody };
        Ok(client.set_client_secret(ClientSecret::new(secret)).set_auth_type(by))
    }

    fn client(&self, keys: CoreJsonWebKeySet) -> Result<OidcClient, ProviderError> {
        let Discovery { issuer, authorization_endpoint, token_endpoint, .. } = self.discovery.clone();
        let wrong = |error| ProviderError::Unreachable(format!("a URL in its configuration: {error}"));
        let id = ClientId::new(self.settings.client_id.clone());
        Ok(CoreClient::new(id, IssuerUrl::new(issuer).map_err(wrong)?, keys)
            .set_auth_uri(AuthUrl::new(authorization_endpoint).map_err(wrong)?)
            .set_token_uri(TokenUrl::new(token_endpoint).map_err(wrong)?))
    }

    /// Whether the token endpoint accepts basic authentication, which is the default.
    fn supports_basic_auth(&self) -> bool {
        let methods = &self.discovery.token_endpoint_auth_methods_supported;
        methods.is_empty() || methods.iter().any(|method| method == "client_secret_basic")
    }

    async fn secret(&self) -> Result<Option<String>, ProviderError> {
        let Some(file) = &self.settings.client_secret_file else { return Ok(None) };
        match tokio::fs::read_to_string(file).await {
            Ok(secret) => Ok(Some(secret.trim().to_owned())),
            Err(error) => Err(ProviderError::Settings(format!("read {}: {error}", file.display()))),
        }
    }
}

fn verifier(client: &OidcClient) -> CoreIdTokenVerifier<'_> {
    client.id_token_verifier().set_allowed_algs(ALGORITHMS)
}

fn redirect_url(url: &str) -> Result<RedirectUrl, ProviderError> {
    RedirectUrl::new(url.to_owned()).map_err(|error| ProviderError::Settings(format!("{url}: {error}")))
}

fn tokens_of(answer: &CoreTokenResponse, token: &CoreIdToken, subject: &str) -> ProviderTokens {
    let refresh = answer.refresh_token().map(|token| token.secret().clone());
    ProviderTokens { token: token.to_string(), refresh, subject: subject.to_owned() }
}

fn token_request_error(error: TokenRequestError) -> ProviderError {
    match error {
        RequestTokenError::ServerResponse(why) => ProviderError::Refused(why.to_string()),
        RequestTokenError::Request(why) => ProviderError::Unreachable(why.to_string()),
        RequestTokenError::Parse(why, _answer) => ProviderError::Unreachable(why.to_string()),
        RequestTokenError::Other(why) => ProviderError::Unreachable(why),
    }
}

fn invalid_id_token(error: &ClaimsVerificationError) -> ProviderError {
    ProviderError::Refused(format!("its ID token is not good: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn who_waits_for_a_provider_that_is_away_waits_once() {
        let (last, asked) = (DiscoveryCache::default(), AtomicUsize::new(0));
        let get = || {
            last.get(KeySource::File("keys".into()), async {
                asked.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Err(ProviderError::Unreachable("no answer".to_owned()))
            })
        };
        assert!(join_all((0..50).map(|_| get())).await.iter().all(Result::is_err));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}
