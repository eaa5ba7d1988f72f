//! The calls to an identity provider: the authorization code flow with PKCE, refreshing, and logging out.

use super::session::{Login, Session};
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

/// Signatures by a private key alone, as the API takes them.
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

const DISCOVERED_FOR: Duration = Duration::from_mins(1);
/// A failure is kept for those who wait already: each would wait for all before it.
const FAILED_FOR: Duration = Duration::from_secs(2);
/// A longer ID token goes into no URL: providers and what stands before them refuse URLs of more than some thousand bytes.
const HINT_BYTES_MAX: usize = 1500;
/// "Not now". The body may have the form of a refusal, which the library then takes it for.
const NOT_NOW: [StatusCode; 4] = [
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::BAD_GATEWAY,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];

type Client = CoreClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointSet>;
type Refused = RequestTokenError<apiserver::Error, StandardErrorResponse<CoreErrorResponseType>>;

/// Why a provider gives nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum ProviderError {
    /// It did not answer as a provider does, now.
    #[error("the identity provider does not answer as it should: {0}")]
    Unreachable(String),
    /// It said no, or what it said is not to be believed.
    #[error("the identity provider did not accept the login: {0}")]
    Refused(String),
    /// The console is not set up as it must be for this.
    #[error("{0}")]
    Settings(String),
}

/// What a provider publishes about itself.
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

/// How its servers are asked.
struct Wire(IssuerAuthorities);

impl<'c> AsyncHttpClient<'c> for Wire {
    type Error = apiserver::Error;
    type Future = BoxFuture<'c, Result<HttpResponse, apiserver::Error>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(async move {
            let url = request.uri().to_string();
            let answer = fetch::send(request, &self.0).await?;
            if NOT_NOW.contains(&answer.status()) {
                return Err(apiserver::Error::Issuer { url, why: answer.status().to_string() });
            }
            Ok(answer)
        })
    }
}

impl Wire {
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

/// A provider, as it is now.
pub(super) struct Provider<'a> {
    settings: &'a ConsoleIssuer,
    wire: Wire,
    discovery: Discovery,
}

/// What a provider published last, so that many logins do not make us ask it as often.
#[derive(Debug, Default)]
pub(super) struct LastDiscovery(Mutex<Option<Said>>);

#[derive(Debug)]
struct Said {
    source: KeySource,
    outcome: Result<Discovery, ProviderError>,
    at: Instant,
}

impl LastDiscovery {
    /// One call asks for all that wait.
    async fn get(
        &self,
        source: KeySource,
        ask: impl Future<Output = Result<Discovery, ProviderError>>,
    ) -> Result<Discovery, ProviderError> {
        let mut last = self.0.lock().await;
        if let Some(said) = &*last
            && said.source == source
            && said.at.elapsed() < if said.outcome.is_ok() { DISCOVERED_FOR } else { FAILED_FOR }
        {
            return said.outcome.clone();
        }
        let outcome = ask.await;
        *last = Some(Said { source, outcome: outcome.clone(), at: Instant::now() });
        outcome
    }
}

/// The tokens that a provider gave.
pub(super) struct Given {
    pub(super) token: String,
    pub(super) refresh: Option<String>,
    /// The user that they belong to, as the provider names him.
    pub(super) subject: String,
}

/// A login that can be sent on its way.
pub(super) struct Begun {
    pub(super) url: String,
    pub(super) state: String,
    pub(super) nonce: String,
    pub(super) verifier: String,
}

impl<'a> Provider<'a> {
    /// Asks the provider for its metadata. `source` is where the API finds its keys: the same authorities vouch for
    /// both.
    pub(super) async fn discover(
        settings: &'a ConsoleIssuer,
        source: KeySource,
        last: &LastDiscovery,
    ) -> Result<Self, ProviderError> {
        let usual = format!("{}/.well-known/openid-configuration", settings.issuer.trim_end_matches('/'));
        let (url, authorities) = match source.clone() {
            KeySource::Discovery { url, authorities } => (url.unwrap_or(usual), authorities),
            KeySource::Url { authorities, .. } => (usual, authorities),
            KeySource::File(_) => (usual, IssuerAuthorities::System),
        };
        let wire = Wire(authorities);
        let discovery = last.get(source, wire.get::<Discovery>(&url)).await?;
        if discovery.issuer != settings.issuer {
            let text = format!("its configuration is that of {:?}", discovery.issuer);
            return Err(ProviderError::Unreachable(text));
        }
        Ok(Self { settings, wire, discovery })
    }

    /// Whether all of its answers to a login name the issuer.
    pub(super) fn names_itself(&self) -> bool {
        self.discovery.authorization_response_iss_parameter_supported == Some(true)
    }

    /// Where the browser goes to log in, and what is to be remembered until it comes back.
    pub(super) fn begin(&self, redirect: &str) -> Result<Begun, ProviderError> {
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
        Ok(Begun {
            url: url.to_string(),
            state: state.into_secret(),
            nonce: nonce.secret().clone(),
            verifier: verifier.into_secret(),
        })
    }

    /// Redeems a code.
    pub(super) async fn redeem(&self, login: &Login, code: &str) -> Result<Given, ProviderError> {
        let client =
            self.authenticated(self.keys().await?).await?.set_redirect_uri(redirect_url(&login.redirect)?);
        let answer = client
            .exchange_code(AuthorizationCode::new(code.to_owned()))
            .set_pkce_verifier(PkceCodeVerifier::new(login.verifier.clone()))
            .request_async(&self.wire)
            .await
            .map_err(refused)?;
        let token =
            answer.id_token().ok_or_else(|| ProviderError::Refused("it gave no ID token".to_owned()))?;
        let nonce = Nonce::new(login.nonce.clone());
        let claims = token.claims(&verifier(&client), &nonce).map_err(|error| unbelieved(&error))?;
        Ok(given(&answer, token, claims.subject().as_str()))
    }

    /// A new ID token for a session.
    pub(super) async fn refresh(&self, session: &Session) -> Result<Given, ProviderError> {
        let no = |why: &str| ProviderError::Refused(why.to_owned());
        let refresh = session.refresh.clone().ok_or_else(|| no("there is nothing to refresh it with"))?;
        let client = self.authenticated(self.keys().await?).await?;
        let refresh = RefreshToken::new(refresh);
        let answer =
            client.exchange_refresh_token(&refresh).request_async(&self.wire).await.map_err(refused)?;
        let token = answer.id_token().ok_or_else(|| no("it gives no ID token for a refresh token"))?;
        let claims = token
            .claims(&verifier(&client), |_: Option<&Nonce>| Ok(()))
            .map_err(|error| unbelieved(&error))?;
        if claims.subject().as_str() != session.subject {
            return Err(no("it gave a token of somebody else"));
        }
        let given = given(&answer, token, &session.subject);
        Ok(Given { refresh: given.refresh.or(session.refresh.clone()), ..given })
    }

    /// Makes the session's refresh token worthless, where the provider can do that.
    pub(super) async fn revoke(&self, session: &Session) -> Result<(), ProviderError> {
        let Discovery { revocation_endpoint: Some(url), .. } = self.discovery.clone() else { return Ok(()) };
        let Some(refresh) = session.refresh.clone() else { return Ok(()) };
        let failed = |why: String| ProviderError::Unreachable(why);
        let url = RevocationUrl::new(url).map_err(|error| failed(error.to_string()))?;
        let client = self.authenticated(CoreJsonWebKeySet::default()).await?.set_revocation_url(url);
        let token = CoreRevocableToken::RefreshToken(RefreshToken::new(refresh));
        let request = client.revoke_token(token).map_err(|error| failed(error.to_string()))?;
        let answer = request.request_async(&self.wire).await;
        answer.map_err(|error| failed(error.to_string()))
    }

    /// Where the browser goes to log out there, too.
    pub(super) fn end(&self, session: &Session, back: &str) -> Option<String> {
        let url = EndSessionUrl::new(self.discovery.end_session_endpoint.clone()?).ok()?;
        let back = PostLogoutRedirectUrl::new(back.to_owned()).ok()?;
        let mut request = LogoutRequest::from(url)
            .set_client_id(ClientId::new(self.settings.client_id.clone()))
            .set_post_logout_redirect_uri(back);
        if session.token.len() <= HINT_BYTES_MAX {
            request = request.set_id_token_hint(&CoreIdToken::from_str(&session.token).ok()?);
        }
        Some(request.http_get_url().to_string())
    }

    async fn keys(&self) -> Result<CoreJsonWebKeySet, ProviderError> {
        self.wire.get(&self.discovery.jwks_uri).await
    }

    /// With the client's secret, where it has one.
    async fn authenticated(&self, keys: CoreJsonWebKeySet) -> Result<Client, ProviderError> {
        let client = self.client(keys)?;
        let Some(secret) = self.secret().await? else { return Ok(client) };
        let by = if self.takes_basic() { AuthType::BasicAuth } else { AuthType::RequestBody };
        Ok(client.set_client_secret(ClientSecret::new(secret)).set_auth_type(by))
    }

    fn client(&self, keys: CoreJsonWebKeySet) -> Result<Client, ProviderError> {
        let Discovery { issuer, authorization_endpoint, token_endpoint, .. } = self.discovery.clone();
        let wrong = |error| ProviderError::Unreachable(format!("a URL in its configuration: {error}"));
        let id = ClientId::new(self.settings.client_id.clone());
        Ok(CoreClient::new(id, IssuerUrl::new(issuer).map_err(wrong)?, keys)
            .set_auth_uri(AuthUrl::new(authorization_endpoint).map_err(wrong)?)
            .set_token_uri(TokenUrl::new(token_endpoint).map_err(wrong)?))
    }

    /// A provider that does not say so takes it.
    fn takes_basic(&self) -> bool {
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

fn verifier(client: &Client) -> CoreIdTokenVerifier<'_> {
    client.id_token_verifier().set_allowed_algs(ALGORITHMS)
}

fn redirect_url(url: &str) -> Result<RedirectUrl, ProviderError> {
    RedirectUrl::new(url.to_owned()).map_err(|error| ProviderError::Settings(format!("{url}: {error}")))
}

fn given(answer: &CoreTokenResponse, token: &CoreIdToken, subject: &str) -> Given {
    let refresh = answer.refresh_token().map(|token| token.secret().clone());
    Given { token: token.to_string(), refresh, subject: subject.to_owned() }
}

fn refused(error: Refused) -> ProviderError {
    match error {
        RequestTokenError::ServerResponse(why) => ProviderError::Refused(why.to_string()),
        RequestTokenError::Request(why) => ProviderError::Unreachable(why.to_string()),
        RequestTokenError::Parse(why, _answer) => ProviderError::Unreachable(why.to_string()),
        RequestTokenError::Other(why) => ProviderError::Unreachable(why),
    }
}

fn unbelieved(error: &ClaimsVerificationError) -> ProviderError {
    ProviderError::Refused(format!("its ID token is not good: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn who_waits_for_a_provider_that_is_away_waits_once() {
        let (last, asked) = (LastDiscovery::default(), AtomicUsize::new(0));
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
