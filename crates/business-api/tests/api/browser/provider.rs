//! An identity provider that logs in whoever it is told to, at once.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rcgen::KeyPair;
use rustls::ServerConfig;
use serde_json::{Value, json};
use served::{Authority, key_set};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

pub(crate) const CLIENT: &str = "business-console";
pub(crate) const SECRET: &str = "s3cret:+/";

/// What it does, and what it has seen.
#[derive(Default)]
pub(crate) struct Conduct {
    /// Claims of whoever logs in.
    pub(crate) person: Value,
    /// How long its ID tokens last.
    pub(crate) lifetime: u64,
    /// Takes the place of the nonce that was asked for.
    pub(crate) nonce: Option<String>,
    /// Takes the place of its refresh tokens; an empty one is none.
    pub(crate) refresh: Option<String>,
    /// It says that its answers to a login say whose they are.
    pub(crate) names_itself: bool,
    /// It answers 500.
    pub(crate) is_down: bool,
    /// It gives no tokens, and answers this in OAuth's words.
    pub(crate) not_now: Option<StatusCode>,
    codes: HashMap<String, HashMap<String, String>>,
    sessions: Vec<String>,
    pub(crate) revoked: Vec<String>,
    given: Option<String>,
}

pub(crate) struct Provider {
    pub(crate) url: String,
    pub(crate) authority: Authority,
    pub(crate) conduct: Arc<Mutex<Conduct>>,
    _served: AbortOnDropHandle<()>,
}

struct Desk {
    url: String,
    signing: EncodingKey,
    keys: Value,
    conduct: Arc<Mutex<Conduct>>,
}

impl Provider {
    pub(crate) async fn start() -> Self {
        let authority = Authority::new("test-ca");
        let issued = authority.server("provider", &["localhost"]);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config =
            config.with_no_client_auth().with_single_cert(issued.chain(), issued.private_key()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let signing = KeyPair::generate().unwrap();
        let conduct = Arc::new(Mutex::new(Conduct { person: alice(), lifetime: 600, ..Conduct::default() }));
        let desk = Arc::new(Desk {
            url: url.clone(),
            signing: EncodingKey::from_ec_pem(signing.serialize_pem().as_bytes()).unwrap(),
            keys: key_set(&signing),
            conduct: Arc::clone(&conduct),
        });
        let served = tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), desk));
        Self { url, authority, conduct, _served: AbortOnDropHandle::new(served) }
    }

    pub(crate) fn now_it(&self, change: impl FnOnce(&mut Conduct)) {
        change(&mut self.conduct.lock().unwrap());
    }

    /// The ID token that it gave last.
    pub(crate) fn last_token(&self) -> String {
        self.conduct.lock().unwrap().given.clone().unwrap()
    }

    /// The way back that a browser is sent, which asks for a login at a URL.
    pub(crate) fn authorize(&self, location: &str) -> String {
        let (url, query) = location.split_once('?').unwrap();
        assert_eq!(url, format!("{}/authorize", self.url));
        let asked = form(query);
        for (key, value) in
            [("response_type", "code"), ("client_id", CLIENT), ("code_challenge_method", "S256")]
        {
            assert_eq!(asked[key], value, "{key}");
        }
        assert_eq!(asked["scope"], "openid profile offline_access");
        let (code, state, back) =
            (uuid::Uuid::new_v4().to_string(), asked["state"].clone(), asked["redirect_uri"].clone());
        self.conduct.lock().unwrap().codes.insert(code.clone(), asked);
        format!("{back}?code={code}&state={state}")
    }
}

/// An administrator of the tenant `acme`.
pub(crate) fn alice() -> Value {
    json!({"sub": "alice", "groups": ["tenant-admins"], "tenantid": "acme"})
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, desk: Arc<Desk>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, desk) = (acceptor.clone(), Arc::clone(&desk));
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |request| {
                let desk = Arc::clone(&desk);
                async move { Ok::<_, Infallible>(desk.answer(request).await) }
            });
            let served =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            drop(served.await);
        });
    }
}

impl Desk {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let asked = form(std::str::from_utf8(&body).unwrap());
        let client = head.headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
        let mut conduct = self.conduct.lock().unwrap();
        if conduct.is_down {
            return answered(StatusCode::INTERNAL_SERVER_ERROR, &json!({}));
        }
        if let Some(code) = conduct.not_now
            && head.uri.path() == "/token"
        {
            return answered(code, &json!({"error": "temporarily_unavailable"}));
        }
        match head.uri.path() {
            "/.well-known/openid-configuration" => {
                answered(StatusCode::OK, &self.configuration(conduct.names_itself))
            }
            "/keys" => answered(StatusCode::OK, &self.keys),
            _ if client.as_deref() != Some(&basic()) => {
                answered(StatusCode::UNAUTHORIZED, &json!({"error": "invalid_client"}))
            }
            "/token" => match self.token(&mut conduct, &asked) {
                Some(tokens) => answered(StatusCode::OK, &tokens),
                None => answered(StatusCode::BAD_REQUEST, &json!({"error": "invalid_grant"})),
            },
            "/revoke" => {
                let token = asked["token"].clone();
                conduct.sessions.retain(|session| *session != token);
                conduct.revoked.push(token);
                answered(StatusCode::OK, &json!({}))
            }
            other => panic!("{other}"),
        }
    }

    fn configuration(&self, names_itself: bool) -> Value {
        let url = &self.url;
        json!({
            "issuer": url, "authorization_endpoint": format!("{url}/authorize"),
            "token_endpoint": format!("{url}/token"), "jwks_uri": format!("{url}/keys"),
            "revocation_endpoint": format!("{url}/revoke"), "end_session_endpoint": format!("{url}/end"),
            "authorization_response_iss_parameter_supported": names_itself,
        })
    }

    /// A code is good once, and so is a refresh token.
    fn token(&self, conduct: &mut Conduct, asked: &HashMap<String, String>) -> Option<Value> {
        let nonce = if asked["grant_type"] == "authorization_code" {
            let login = conduct.codes.remove(&asked["code"])?;
            let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(asked["code_verifier"].as_bytes()));
            let fits = challenge == login["code_challenge"] && asked["redirect_uri"] == login["redirect_uri"];
            fits.then(|| conduct.nonce.clone().or(login.get("nonce").cloned()))?
        } else {
            let place = conduct.sessions.iter().position(|session| *session == asked["refresh_token"])?;
            conduct.sessions.remove(place);
            None
        };
        let refresh = conduct.refresh.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        conduct.sessions.push(refresh.clone());
        let mut claims = conduct.person.clone();
        if let Some(nonce) = nonce {
            claims["nonce"] = json!(nonce);
        }
        let token = self.sign(claims, conduct.lifetime);
        conduct.given = Some(token.clone());
        let mut answer = json!({
            "access_token": "unused", "token_type": "Bearer", "expires_in": conduct.lifetime, "id_token": token,
        });
        if !refresh.is_empty() {
            answer["refresh_token"] = json!(refresh);
        }
        Some(answer)
    }

    fn sign(&self, mut claims: Value, lifetime: u64) -> String {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        claims["iss"] = json!(self.url);
        claims["aud"] = json!(CLIENT);
        claims["iat"] = json!(now);
        claims["exp"] = json!(now + lifetime);
        let header = Header { kid: Some("k1".to_owned()), ..Header::new(Algorithm::ES256) };
        jsonwebtoken::encode(&header, &claims, &self.signing).unwrap()
    }
}

/// As RFC 6749 has it: both are written as in a form first.
fn basic() -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{CLIENT}:s3cret%3A%2B%2F")))
}

fn form(text: &str) -> HashMap<String, String> {
    apiserver::request::query::pairs(text)
        .map(|(key, value)| (key.into_owned(), value.into_owned()))
        .collect()
}

fn answered(code: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
    response
}
