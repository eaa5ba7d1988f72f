//! A login at an OpenID Connect provider: the authorization code flow with PKCE, and refreshing.

use crate::failure::{Failure, whole};
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

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The scope for which a provider issues a refresh token.
const OFFLINE: &str = "offline_access";

/// What rustls says of a certificate for which no authority vouches that is trusted.
pub(crate) const UNKNOWN_AUTHORITY: &str = "UnknownIssuer";
const AUTHORITY_HINT: &str = "; --issuer-ca names the authorities of the provider";

/// A provider, and this program as it is registered there.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    /// The authorities that vouch for the provider; else those of the system.
    pub(crate) authority: Option<PathBuf>,
    pub(crate) scopes: Vec<String>,
    /// How long it may take for one answer; zero is for ever.
    pub(crate) within: Duration,
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

/// What a provider answers to a refresh token.
pub(crate) enum Refreshed {
    Session(Session),
    /// It gives no new ID token, which `OpenID` Connect Core 12.2 allows.
    WithoutToken,
    /// The provider does not accept the token any more: only another login helps.
    Refused(Failure),
}

/// A login that waits for its code.
pub(crate) struct Begun {
    /// Where a browser goes.
    pub(crate) url: String,
    pub(crate) state: String,
    nonce: Nonce,
    verifier: PkceCodeVerifier,
}

/// The provider has been asked what it can do.
pub(crate) struct KnownProvider {
    client: KnownClient,
    client_id: String,
    transport: Transport,
    scopes: Vec<String>,
    /// Where it takes tokens back.
    revocation: Option<String>,
}

/// What providers publish beyond what `OpenID` Connect requires: RFC 8414.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct MoreMetadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revocation_endpoint: Option<String>,
}

impl AdditionalProviderMetadata for MoreMetadata {}

type Metadata = ProviderMetadata<
    MoreMetadata,
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

type KnownClient = CoreClient<
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// The provider could not be asked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct TransportError(String);

/// How providers are asked: by the proxy that the environment names, as kubectl asks its servers.
#[derive(Clone)]
struct Transport {
    direct: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    connector: HttpsConnector<HttpConnector>,
    tls: Arc<ClientConfig>,
    within: Duration,
}

type Answering = Pin<Box<dyn Future<Output = Result<HttpResponse, TransportError>> + Send>>;

impl Provider {
    /// Asks the provider what it can do.
    pub(crate) async fn known(&self, redirect: Option<&str>) -> Result<KnownProvider, Failure> {
        let wrong = |error: String| Failure::Usage(format!("--issuer {}: {error}", self.issuer));
        let issuer = IssuerUrl::new(self.issuer.clone()).map_err(|error| wrong(error.to_string()))?;
        if !is_guarded(issuer.url()) {
            return Err(wrong("a provider is asked by https".to_owned()));
        }
        let transport = Transport::new(self.authority.as_deref(), self.within)?;
        let metadata = Metadata::discover_async(issuer, &transport.caller())
            .await
            .map_err(|error| self.failed(&error))?;
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
        Ok(KnownProvider { client, client_id, transport, scopes, revocation })
    }

    fn failed(&self, error: &dyn std::error::Error) -> Failure {
        Failure::Stopped(format!("the provider {}: {}", self.issuer, whole(error)))
    }
}

impl KnownProvider {
    /// Begins a login.
    pub(crate) fn begin(&self) -> Begun {
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let flow = CoreAuthenticationFlow::AuthorizationCode;
        let request = self.client.authorize_url(flow, CsrfToken::new_random, Nonce::new_random);
        let scopes = self.scopes.iter().cloned().map(Scope::new);
        let request = request.add_scope(Scope::new(OFFLINE.to_owned())).add_scopes(scopes);
        let (url, state, nonce) = request.set_pkce_challenge(challenge).url();
        Begun { url: url.to_string(), state: state.secret().clone(), nonce, verifier }
    }

    /// Ends it with the code that the provider has sent.
    pub(crate) async fn end(&self, begun: Begun, code: String) -> Result<Session, Failure> {
        let request = self.client.exchange_code(AuthorizationCode::new(code));
        let request = request.map_err(|error| stopped(&error))?.set_pkce_verifier(begun.verifier);
        let answer =
            request.request_async(&self.transport.caller()).await.map_err(|error| stopped(&error))?;
        self.session(&answer, None, Some(&begun.nonce))
    }

    /// Another token by a session's refresh token. `keep` stores a new refresh token before anything can go wrong with
    /// the rest of the answer: the provider may take the old one no more.
    pub(crate) async fn refreshed(
        &self,
        session: &Session,
        refresh: &str,
        keep: impl FnOnce(&Session) -> Result<(), Failure>,
    ) -> Result<Refreshed, Failure> {
        let refresh = RefreshToken::new(refresh.to_owned());
        let request = self.client.exchange_refresh_token(&refresh).map_err(|error| stopped(&error))?;
        let answer = match request.request_async(&self.transport.caller()).await {
            Ok(answer) => answer,
            Err(error) if is_refusal(&error) => return Ok(Refreshed::Refused(stopped(&error))),
            Err(error) => return Err(stopped(&error)),
        };
        if let Some(new) = answer.refresh_token() {
            keep(&Session { refresh_token: Some(new.secret().clone()), ..session.clone() })?;
        }
        if answer.id_token().is_none() {
            return Ok(Refreshed::WithoutToken);
        }
        let fresh = self.session(&answer, Some(refresh), None)?;
        if fresh.subject != session.subject {
            let why = "the provider answered the ID token of somebody else".to_owned();
            return Ok(Refreshed::Refused(Failure::Stopped(why)));
        }
        Ok(Refreshed::Session(fresh))
    }

    /// Has the provider revoke a session's refresh token. Returns whether it publishes where (RFC 7009).
    pub(crate) async fn revoked(&self, refresh: &str) -> Result<bool, Failure> {
        let Some(endpoint) = &self.revocation else { return Ok(false) };
        let url = Url::parse(endpoint).map_err(|error| stopped(&error))?;
        if !is_guarded(&url) {
            return Err(Failure::Stopped(format!("the provider: {endpoint} is not asked by https")));
        }
        let body = Serializer::new(String::new())
            .append_pair("token", refresh)
            .append_pair("token_type_hint", "refresh_token")
            .append_pair("client_id", &self.client_id)
            .finish();
        let request = http::Request::post(url.as_str())
            .header(http::header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body.into_bytes())
            .map_err(|error| stopped(&error))?;
        let ask = self.transport.caller();
        let answer = ask(request).await.map_err(|error| stopped(&error))?;
        if answer.status().is_success() {
            return Ok(true);
        }
        Err(Failure::Stopped(format!("the provider: {endpoint} answered {}", answer.status())))
    }

    fn session(
        &self,
        answer: &CoreTokenResponse,
        former: Option<RefreshToken>,
        nonce: Option<&Nonce>,
    ) -> Result<Session, Failure> {
        let token = answer.id_token();
        let token = token.ok_or_else(|| Failure::Stopped("the provider answered no ID token".to_owned()))?;
        let verifier = self.client.id_token_verifier();
        // A refreshed token has no nonce, since no browser was involved.
        let claims = match nonce {
            Some(nonce) => token.claims(&verifier, nonce),
            None => token.claims(&verifier, |_: Option<&Nonce>| Ok(())),
        };
        let claims = claims.map_err(|error| stopped(&error))?;
        let refresh = answer.refresh_token().cloned().or(former);
        Ok(Session {
            id_token: token.to_string(),
            refresh_token: refresh.map(|refresh| refresh.secret().clone()),
            ends: claims.expiration().timestamp(),
            subject: claims.subject().to_string(),
        })
    }
}

/// Whether the provider has said that the refresh token is no good. Whatever else goes wrong there may pass.
fn is_refusal<E: std::error::Error + 'static>(error: &RequestTokenError<E, ErrorResponse>) -> bool {
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

/// Whether nobody on the way can read what is sent there.
fn is_guarded(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    url.scheme() == "https" || kubeconfig::is_own_machine(host)
}

fn stopped(error: &dyn std::error::Error) -> Failure {
    Failure::Stopped(format!("the provider: {}", whole(error)))
}

impl Transport {
    fn new(authority: Option<&Path>, within: Duration) -> Result<Self, Failure> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| stopped(&error))?
            .with_root_certificates(roots(authority)?)
            .with_no_client_auth();
        let tls = Arc::new(tls);
        let connector = HttpsConnector::from((plain(), Arc::clone(&tls)));
        let direct = Client::builder(TokioExecutor::new()).build(connector.clone());
        Ok(Self { direct, connector, tls, within })
    }

    /// The function that the library calls for each request. It follows no redirect.
    fn caller(&self) -> impl Fn(HttpRequest) -> Answering + use<> {
        let this = self.clone();
        move |request| {
            let this = this.clone();
            Box::pin(async move {
                let answered = this.answer(request);
                if this.within.is_zero() {
                    return answered.await;
                }
                tokio::time::timeout(this.within, answered)
                    .await
                    .map_err(|_elapsed| TransportError("it did not answer in time".to_owned()))?
            })
        }
    }

    async fn answer(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let request = request.map(|body| Full::new(Bytes::from(body)));
        let proxy = kubeconfig::environment_proxy(request.uri());
        let response = match &proxy {
            None => self.direct.request(request).await,
            Some(proxy) => self.sent_by(proxy, request).await,
        };
        let response = response.map_err(|error| {
            let by = proxy.map_or_else(String::new, |proxy| format!("by the proxy {}: ", proxy.uri()));
            let why = whole(&error);
            let advice = if why.contains(UNKNOWN_AUTHORITY) { AUTHORITY_HINT } else { "" };
            TransportError(format!("{by}{why}{advice}"))
        })?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| TransportError(error.to_string()))?.to_bytes();
        Ok(http::Response::from_parts(head, body.to_vec()))
    }

    async fn sent_by(
        &self,
        proxy: &Intercept,
        request: http::Request<Full<Bytes>>,
    ) -> Result<http::Response<Incoming>, legacy::Error> {
        let tls = Arc::clone(&self.tls);
        if let Some("socks5" | "socks5h") = proxy.uri().scheme_str() {
            let mut by = SocksV5::new(proxy.uri().clone(), plain());
            if let Some((user, password)) = proxy.raw_auth() {
                by = by.with_auth(user.to_owned(), password.to_owned());
            }
            return sent(HttpsConnector::from((by, tls)), request).await;
        }
        let mut by = Tunnel::new(proxy.uri().clone(), self.connector.clone());
        if let Some(credentials) = proxy.basic_auth() {
            by = by.with_auth(credentials.clone());
        }
        sent(HttpsConnector::from((by, tls)), request).await
    }
}

/// Connections without TLS, to whatever lies below it.
fn plain() -> HttpConnector {
    let mut plain = HttpConnector::new();
    plain.enforce_http(false);
    plain
}

async fn sent<C>(
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
