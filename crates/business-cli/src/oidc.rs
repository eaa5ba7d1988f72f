//! An OpenID Connect client: the authorization code flow with PKCE, refresh and revocation.

use crate::failure::{Failure, error_chain};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::client::legacy::{self, Client};
use hyper_util::client::proxy::matcher::Intercept;
use hyper_util::rt::TokioExecutor;
use openidconnect::core::{
    CoreAuthDisplay, CoreAuthenticationFlow, CoreClaimName, CoreClaimType, CoreClient, CoreClientAuthMethod,
    CoreErrorResponseType, CoreGrantType, CoreJsonWebKey, CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm, CoreResponseMode, CoreResponseType, CoreSubjectIdentifierType,
    CoreTokenResponse,
};
use openidconnect::url::Url;
use openidconnect::url::form_urlencoded::Serializer;
use openidconnect::{
    AdditionalProviderMetadata, AuthorizationCode, ClientId, CsrfToken, EndpointMaybeSet, EndpointNotSet,
    EndpointSet, HttpRequest, HttpResponse, IssuerUrl, Nonce, OAuth2TokenResponse as _, PkceCodeChallenge,
    PkceCodeVerifier, ProviderMetadata, RedirectUrl, RefreshToken, RequestTokenError, Scope,
    StandardErrorResponse, TokenResponse as _,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Limit of a response body.
const RESPONSE_BYTES_MAX: usize = 1 << 20;
/// The scope for which a provider issues a refresh token.
const OFFLINE_ACCESS_SCOPE: &str = "offline_access";

/// rustls' error for a certificate that no trusted authority has signed.
pub(crate) const UNKNOWN_AUTHORITY: &str = "UnknownIssuer";
const AUTHORITY_HINT: &str = "; --issuer-ca names the authorities of the provider";

/// A provider, and this program's registration as its client.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    /// The trusted certificate authorities; else those of the system.
    pub(crate) authority: Option<PathBuf>,
    pub(crate) scopes: Vec<String>,
    /// The timeout of one request; zero means none.
    pub(crate) timeout: Duration,
}

/// The tokens of a login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Session {
    pub(crate) id_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh_token: Option<String>,
    /// Seconds since 1970.
    pub(crate) ends: i64,
    pub(crate) subject: String,
}

/// The result of a refresh.
pub(crate) enum RefreshOutcome {
    Session(Session),
    /// The response has no new ID token, which `OpenID` Connect Core 12.2 allows.
    WithoutToken,
    /// The provider rejects the refresh token: the user has to log in again.
    Refused(Failure),
}

/// A login that waits for its authorization code.
pub(crate) struct PendingLogin {
    /// The address that the browser opens.
    pub(crate) url: String,
    pub(crate) state: String,
    nonce: Nonce,
    verifier: PkceCodeVerifier,
}

/// A provider whose metadata has been discovered.
pub(crate) struct DiscoveredProvider {
    client: DiscoveredClient,
    client_id: String,
    transport: Transport,
    scopes: Vec<String>,
    /// The revocation endpoint.
    revocation: Option<String>,
}

/// Metadata beyond `OpenID` Connect Discovery: RFC 8414.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ExtraMetadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revocation_endpoint: Option<String>,
}

impl AdditionalProviderMetadata for ExtraMetadata {}

type Metadata = ProviderMetadata<
    ExtraMetadata,
    CoreAuthDisplay,
    CoreClientAuthMethod,
    CoreClaimName,
    CoreClaimType,
    CoreGrantType,
    CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm,
    CoreJsonWebKey,
    CoreResponseMode,
    CoreResponseType,
    CoreSubjectIdentifierType,
>;

type ErrorResponse = StandardErrorResponse<CoreErrorResponseType>;

type DiscoveredClient = CoreClient<
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// The request to the provider failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct TransportError(String);

/// The HTTP client for providers. It uses the proxy of the environment, as kubectl does.
#[derive(Clone)]
struct Transport {
    direct: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    connector: HttpsConnector<HttpConnector>,
    tls: Arc<ClientConfig>,
    timeout: Duration,
}

type ResponseFuture = Pin<Box<dyn Future<Output = Result<HttpResponse, TransportError>> + Send>>;

impl Provider {
    /// Fetches the provider's metadata.
    pub(crate) async fn discover(&self, redirect: Option<&str>) -> Result<DiscoveredProvider, Failure> {
        let wrong = |error: String| Failure::Usage(format!("--issuer {}: {error}", self.issuer));
        let issuer = IssuerUrl::new(self.issuer.clone()).map_err(|error| wrong(error.to_string()))?;
        if !is_secure(issuer.url()) {
            return Err(wrong("a provider is asked by https".to_owned()));
        }
        let transport = Transport::new(self.authority.as_deref(), self.timeout)?;
        let metadata = Metadata::discover_async(issuer, &transport.http_client())
            .await
            .map_err(|error| self.discovery_failure(&error))?;
        let revocation = metadata.additional_metadata().revocation_endpoint.clone();
        let client =
            CoreClient::from_provider_metadata(metadata, ClientId::new(self.client_id.clone()), None);
        let client = match redirect {
            None => client,
            Some(redirect) => {
                let redirect = RedirectUrl::new(redirect.to_owned());
                client.set_redirect_uri(redirect.map_err(|error| wrong(error.to_string()))?)
            }
        };
        let (client_id, scopes) = (self.client_id.clone(), self.scopes.clone());
        Ok(DiscoveredProvider { client, client_id, transport, scopes, revocation })
    }

    fn discovery_failure(&self, error: &dyn std::error::Error) -> Failure {
        Failure::Other(format!("the provider {}: {}", self.issuer, error_chain(error)))
    }
}

impl DiscoveredProvider {
    /// Begins a login.
    pub(crate) fn begin(&self) -> PendingLogin {
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let flow = CoreAuthenticationFlow::AuthorizationCode;
        let request = self.client.authorize_url(flow, CsrfToken::new_random, Nonce::new_random);
        let scopes = self.scopes.iter().cloned().map(Scope::new);
        let request = request.add_scope(Scope::new(OFFLINE_ACCESS_SCOPE.to_owned())).add_scopes(scopes);
        let (url, state, nonce) = request.set_pkce_challenge(challenge).url();
        PendingLogin { url: url.to_string(), state: state.secret().clone(), nonce, verifier }
    }

    /// Completes a login with the authorization code.
    pub(crate) async fn finish(&self, pending: PendingLogin, code: String) -> Result<Session, Failure> {
        let request = self.client.exchange_code(AuthorizationCode::new(code));
        let request = request.map_err(|error| provider_failure(&error))?.set_pkce_verifier(pending.verifier);
        let answer = request
            .request_async(&self.transport.http_client())
            .await
            .map_err(|error| provider_failure(&error))?;
        self.session(&answer, None, Some(&pending.nonce))
    }

    /// Refreshes a session. `keep` stores a new refresh token before the rest of the response is checked, since the
    /// provider may accept the old one no more.
    pub(crate) async fn refresh(
        &self,
        session: &Session,
        refresh: &str,
        keep: impl FnOnce(&Session) -> Result<(), Failure>,
    ) -> Result<RefreshOutcome, Failure> {
        let refresh = RefreshToken::new(refresh.to_owned());
        let request =
            self.client.exchange_refresh_token(&refresh).map_err(|error| provider_failure(&error))?;
        let answer = match request.request_async(&self.transport.http_client()).await {
            Ok(answer) => answer,
            Err(error) if is_token_refused(&error) => {
                return Ok(RefreshOutcome::Refused(provider_failure(&error)));
            }
            Err(error) => return Err(provider_failure(&error)),
        };
        if let Some(new) = answer.refresh_token() {
            keep(&Session { refresh_token: Some(new.secret().clone()), ..session.clone() })?;
        }
        if answer.id_token().is_none() {
            return Ok(RefreshOutcome::WithoutToken);
        }
        let fresh = self.session(&answer, Some(refresh), None)?;
        if fresh.subject != session.subject {
            let why = "the provider answered the ID token of somebody else".to_owned();
            return Ok(RefreshOutcome::Refused(Failure::Other(why)));
        }
        Ok(RefreshOutcome::Session(fresh))
    }

    /// Revokes a session's refresh token (RFC 7009). Returns false if the provider has no revocation endpoint.
    pub(crate) async fn revoke(&self, refresh: &str) -> Result<bool, Failure> {
        let Some(endpoint) = &self.revocation else { return Ok(false) };
        let url = Url::parse(endpoint).map_err(|error| provider_failure(&error))?;
        if !is_secure(&url) {
            return Err(Failure::Other(format!("the provider: {endpoint} is not asked by https")));
        }
        let body = Serializer::new(String::new())
            .append_pair("token", refresh)
            .append_pair("token_type_hint", "refresh_token")
            .append_pair("client_id", &self.client_id)
            .finish();
        let request = http::Request::post(url.as_str())
            .header(http::header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body.into_bytes())
            .map_err(|error| provider_failure(&error))?;
        let ask = self.transport.http_client();
        let answer = ask(request).await.map_err(|error| provider_failure(&error))?;
        if answer.status().is_success() {
            return Ok(true);
        }
        Err(Failure::Other(format!("the provider: {endpoint} answered {}", answer.status())))
    }

    fn session(
        &self,
        answer: &CoreTokenResponse,
        former: Option<RefreshToken>,
        nonce: Option<&Nonce>,
    ) -> Result<Session, Failure> {
        let token = answer.id_token();
        let token = token.ok_or_else(|| Failure::Other("the provider answered no ID token".to_owned()))?;
        let verifier = self.client.id_token_verifier();
        // A refreshed token has no nonce, since no browser was involved.
        let claims = match nonce {
            Some(nonce) => token.claims(&verifier, nonce),
            None => token.claims(&verifier, |_: Option<&Nonce>| Ok(())),
        };
        let claims = claims.map_err(|error| provider_failure(&error))?;
        let refresh = answer.refresh_token().cloned().or(former);
        Ok(Session {
            id_token: token.to_string(),
            refresh_token: refresh.map(|refresh| refresh.secret().clone()),
            ends: claims.expiration().timestamp(),
            subject: claims.subject().to_string(),
        })
    }
}

/// Whether the provider rejects the refresh token. All other errors may be transient.
fn is_token_refused<E: std::error::Error + 'static>(error: &RequestTokenError<E, ErrorResponse>) -> bool {
    let RequestTokenError::ServerResponse(answer) = error else { return false };
    matches!(
        answer.error(),
        CoreErrorResponseType::InvalidGrant
            | CoreErrorResponseType::InvalidClient
            | CoreErrorResponseType::UnauthorizedClient
            | CoreErrorResponseType::UnsupportedGrantType
            | CoreErrorResponseType::InvalidRequest
            | CoreErrorResponseType::InvalidScope
    )
}

/// Whether the connection cannot be read on the way: https, or this machine.
fn is_secure(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    url.scheme() == "https" || kubeconfig::is_loopback(host)
}

fn provider_failure(error: &dyn std::error::Error) -> Failure {
    Failure::Other(format!("the provider: {}", error_chain(error)))
}

impl Transport {
    fn new(authority: Option<&Path>, timeout: Duration) -> Result<Self, Failure> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| provider_failure(&error))?
            .with_root_certificates(roots(authority)?)
            .with_no_client_auth();
        let tls = Arc::new(tls);
        let connector = HttpsConnector::from((plain_connector(), Arc::clone(&tls)));
        let direct = Client::builder(TokioExecutor::new()).build(connector.clone());
        Ok(Self { direct, connector, tls, timeout })
    }

    /// The HTTP client for the openidconnect library. It follows no redirect.
    fn http_client(&self) -> impl Fn(HttpRequest) -> ResponseFuture + use<> {
        let this = self.clone();
        move |request| {
            let this = this.clone();
            Box::pin(async move {
                let response = this.send(request);
                if this.timeout.is_zero() {
                    return response.await;
                }
                tokio::time::timeout(this.timeout, response)
                    .await
                    .map_err(|_elapsed| TransportError("it did not answer in time".to_owned()))?
            })
        }
    }

    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let request = request.map(|body| Full::new(Bytes::from(body)));
        let proxy = kubeconfig::environment_proxy(request.uri());
        let response = match &proxy {
            None => self.direct.request(request).await,
            Some(proxy) => self.send_through_proxy(proxy, request).await,
        };
        let response = response.map_err(|error| {
            let by = proxy.map_or_else(String::new, |proxy| format!("by the proxy {}: ", proxy.uri()));
            let why = error_chain(&error);
            let advice = if why.contains(UNKNOWN_AUTHORITY) { AUTHORITY_HINT } else { "" };
            TransportError(format!("{by}{why}{advice}"))
        })?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await;
        let body = body.map_err(|error| TransportError(error.to_string()))?.to_bytes();
        Ok(http::Response::from_parts(head, body.to_vec()))
    }

    async fn send_through_proxy(
        &self,
        proxy: &Intercept,
        request: http::Request<Full<Bytes>>,
    ) -> Result<http::Response<Incoming>, legacy::Error> {
        let tls = Arc::clone(&self.tls);
        if let Some("socks5" | "socks5h") = proxy.uri().scheme_str() {
            let mut by = SocksV5::new(proxy.uri().clone(), plain_connector());
            if let Some((user, password)) = proxy.raw_auth() {
                by = by.with_auth(user.to_owned(), password.to_owned());
            }
            return send_with(HttpsConnector::from((by, tls)), request).await;
        }
        let mut by = Tunnel::new(proxy.uri().clone(), self.connector.clone());
        if let Some(credentials) = proxy.basic_auth() {
            by = by.with_auth(credentials.clone());
        }
        send_with(HttpsConnector::from((by, tls)), request).await
    }
}

/// Plain TCP connections, on which TLS is layered.
fn plain_connector() -> HttpConnector {
    let mut plain_connector = HttpConnector::new();
    plain_connector.enforce_http(false);
    plain_connector
}

async fn send_with<C>(
    connector: C,
    request: http::Request<Full<Bytes>>,
) -> Result<http::Response<Incoming>, legacy::Error>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let client: Client<C, Full<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    client.request(request).await
}

fn roots(authority: Option<&Path>) -> Result<RootCertStore, Failure> {
    let mut roots = RootCertStore::empty();
    let Some(path) = authority else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let failed = |why: String| Failure::File { path: path.to_owned(), why };
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| failed(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| failed(error.to_string()))?;
        roots.add(certificate).map_err(|error| failed(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(failed("there is no certificate in it".to_owned()));
    }
    Ok(roots)
}
