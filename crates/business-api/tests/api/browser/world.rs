//! A server with a console, and browsers at it.

use super::provider::{CLIENT, Provider, SECRET};
use crate::support::until;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use business_api::serve::Program;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use runtime::{Clock, Tasks};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use served::{Authority, Issued, Replica};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use store::testing;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

pub(crate) const ORIGIN: &str = "https://console.test:8443";
pub(crate) const PROJECTS: &str = "/apis/business.tkestack.io/v1/projects";
/// How a page of ours asks.
pub(crate) const OURS: [(&str, &str); 2] = [("origin", ORIGIN), ("x-business-console", "1")];
const SCRIPT: &str = "console.log('a script that is worth being compressed, a script that is worth it')";

pub(crate) struct World {
    pub(crate) provider: Provider,
    pub(crate) api: SocketAddr,
    pub(crate) console: Option<SocketAddr>,
    pub(crate) authority: Authority,
    pub(crate) directory: PathBuf,
    tasks: Tasks,
}

impl Drop for World {
    fn drop(&mut self) {
        self.tasks.cancel();
        let _gone = std::fs::remove_dir_all(&self.directory);
    }
}

pub(crate) fn key(byte: u8) -> String {
    BASE64_STANDARD.encode([byte; 32])
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(&[]).await
    }

    pub(crate) async fn with(flags: &[&str]) -> Self {
        Self::made(flags, Program::default(), None).await
    }

    /// In which time stands still until the clock is moved.
    pub(crate) async fn at(clock: &Clock) -> Self {
        Self::made(&[], Program { clock: clock.clone(), ..Program::default() }, None).await
    }

    /// In which people log in at another provider, too.
    pub(crate) async fn beside(other: &Provider) -> Self {
        Self::made(&[], Program::default(), Some(other)).await
    }

    async fn made(flags: &[&str], program: Program, other: Option<&Provider>) -> Self {
        let provider = Provider::start().await;
        let mut providers = vec![("corp", "Corporation", &provider)];
        providers.extend(other.map(|other| ("other", "Others", other)));
        let directory = std::env::temp_dir().join(format!("console-test-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(directory.join("page/assets")).unwrap();
        let authority = Authority::new("test-ca");
        let server = authority.server("server", &["console.test"]);
        let file = |name: &str, text: &str| {
            std::fs::write(directory.join(name), text).unwrap();
            directory.join(name).display().to_string()
        };
        file("page/index.html", "<!doctype html><title>Console</title>");
        file("page/assets/app-5a1c.js", SCRIPT);
        file("page/assets/app-5a1c.js.br", "as brotli");
        file("page/assets/app-5a1c.js.gz", "as gzip");
        let database = testing::database().await.unwrap();
        let mut line = vec![
            "--no-kubernetes".to_owned(),
            "--tenant-grant".to_owned(),
            "--tenant-admin-group=corp:tenant-admins".to_owned(),
            format!("--database-url={}", database.url),
            format!("--tls-cert-file={}", file("tls.crt", &server.certificate)),
            format!("--tls-private-key-file={}", file("tls.key", &server.key)),
            format!("--client-ca-file={}", file("ca.crt", &authority.pem)),
            format!("--authentication-config={}", file("authentication.yaml", &authentication(&providers))),
            format!(
                "--tenant-issuers={}",
                providers.iter().map(|(_, _, it)| it.url.as_str()).collect::<Vec<_>>().join(",")
            ),
            format!(
                "--console-issuers={}",
                file("issuers.yaml", &issuers(&providers, &file("secret", SECRET)))
            ),
            format!("--console-origin={ORIGIN},https://other.test"),
            format!("--console-key-file={}", file("keys", &key(1))),
            format!("--console-files={}", directory.join("page").display()),
        ];
        line.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let tasks = Tasks::new();
        let Replica { api, console, .. } = served::start(line, program, tasks.clone()).await;
        let world = Self { provider, api, console, authority, directory, tasks };
        let master = world.authority.caller("root", &["system:masters"]);
        let mut master = world.browser_at(world.api, Some(&master));
        until("the server is ready", async || master.get("/readyz", &[]).await.code == 200).await;
        world
    }

    /// A browser that has never been here.
    pub(crate) fn browser(&self) -> Browser {
        self.browser_at(self.console.unwrap(), None)
    }

    /// A browser at the socket of the API.
    pub(crate) fn browser_at(&self, address: SocketAddr, identity: Option<&Issued>) -> Browser {
        Browser { address, tls: self.authority.connector(identity), cookies: BTreeMap::new() }
    }

    /// A browser with a session.
    pub(crate) async fn logged_in(&self) -> Browser {
        let mut browser = self.browser();
        let answer = self.log_in(&mut browser, "/console/projects").await;
        assert_eq!(answer.code, 200, "{}", answer.text);
        browser
    }

    /// From the button to the page.
    pub(crate) async fn log_in(&self, browser: &mut Browser, page: &str) -> Answer {
        let back = self.way_back(browser, page).await;
        browser.come_back(&back).await
    }

    /// From the button to where the provider sends the browser.
    pub(crate) async fn way_back(&self, browser: &mut Browser, page: &str) -> String {
        self.provider.authorize(&browser.sent_to("corp", page).await).strip_prefix(ORIGIN).unwrap().to_owned()
    }
}

/// With the names by which the console's file has them.
type Providers<'a> = [(&'a str, &'a str, &'a Provider)];

fn authentication(providers: &Providers<'_>) -> String {
    let issuer = |(name, _, provider): &(&str, &str, &Provider)| {
        json!({
            "issuer": {
                "url": provider.url, "audiences": [CLIENT], "certificateAuthority": provider.authority.pem,
            },
            "claimMappings": {
                "username": {"claim": "sub", "prefix": format!("{name}:")},
                "groups": {"claim": "groups", "prefix": format!("{name}:")},
                "extra": [{"key": "business.tkestack.io/tenantid", "valueExpression": "claims.tenantid"}],
            },
        })
    };
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
        "jwt": providers.iter().map(issuer).collect::<Vec<_>>(),
    })
    .to_string()
}

fn issuers(providers: &Providers<'_>, secret_file: &str) -> String {
    let issuer = |(name, display_name, provider): &(&str, &str, &Provider)| {
        json!({
            "name": name, "displayName": display_name, "issuer": provider.url, "clientID": CLIENT,
            "clientSecretFile": secret_file, "scopes": ["profile", "offline_access"],
        })
    };
    json!({"issuers": providers.iter().map(issuer).collect::<Vec<_>>()}).to_string()
}

/// A browser: it keeps cookies.
#[derive(Clone)]
pub(crate) struct Browser {
    address: SocketAddr,
    tls: TlsConnector,
    pub(crate) cookies: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.text);
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

impl Browser {
    /// With exactly these headers and the cookies.
    pub(crate) async fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send(Method::GET, path, headers, None).await
    }

    /// As a page of ours does it.
    pub(crate) async fn ask(&mut self, path: &str) -> Answer {
        self.get(path, &[("sec-fetch-site", "same-origin")]).await
    }

    /// As a page of ours does it.
    pub(crate) async fn post(&mut self, path: &str, body: Option<Value>) -> Answer {
        self.send(Method::POST, path, &OURS, body).await
    }

    /// The provider's page that the button of an issuer leads to.
    pub(crate) async fn sent_to(&mut self, issuer: &str, page: &str) -> String {
        let answer = self.get(&format!("/console/login?issuer={issuer}&return={page}"), &[]).await;
        assert_eq!(answer.code, 302, "{}", answer.text);
        answer.header("location").to_owned()
    }

    /// The provider's redirect: a browser leaves its Strict cookies out.
    pub(crate) async fn come_back(&mut self, path: &str) -> Answer {
        let kept = self.cookies.clone();
        self.cookies.retain(|name, _| name == "__Host-business-login");
        let answer =
            self.get(path, &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]).await;
        let new = std::mem::replace(&mut self.cookies, kept);
        self.cookies.remove("__Host-business-login");
        self.cookies.extend(new);
        answer
    }

    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Answer {
        let mut request = self.request(method, path, headers);
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let response = self.exchange(request.body(Full::new(bytes)).unwrap()).await;
        let (head, body) = response.into_parts();
        for cookie in head.headers.get_all(header::SET_COOKIE) {
            self.take(cookie.to_str().unwrap());
        }
        let text = String::from_utf8_lossy(&body.collect().await.unwrap().to_bytes()).into_owned();
        Answer { code: head.status.as_u16(), headers: head.headers, text }
    }

    /// A watch over a WebSocket, or the answer instead.
    pub(crate) async fn watch(
        &mut self,
        headers: &[(&str, &str)],
    ) -> Result<WebSocketStream<TokioIo<Upgraded>>, u16> {
        let handshake = [
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let all: Vec<_> = handshake.iter().chain(headers).copied().collect();
        let request = self.request(Method::GET, &format!("{PROJECTS}?watch=true"), &all);
        let response = self.exchange(request.body(Full::default()).unwrap()).await;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(response.status().as_u16());
        }
        let upgraded = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
        Ok(WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await)
    }

    fn request(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> http::request::Builder {
        let mut request =
            Request::builder().method(method).uri(path).header(header::HOST, "console.test:8443");
        if !self.cookies.is_empty() {
            let pairs: Vec<String> =
                self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
            request = request.header(header::COOKIE, pairs.join("; "));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> http::Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let tls = self.tls.connect(ServerName::try_from("console.test").unwrap(), stream).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(tls)).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        sender.send_request(request).await.unwrap()
    }

    fn take(&mut self, cookie: &str) {
        let (pair, attributes) = cookie.split_once(';').unwrap();
        let (name, value) = pair.split_once('=').unwrap();
        assert!(pair.len() <= 4096 && name.starts_with("__Host-"), "{cookie}");
        assert!(attributes.ends_with("; Path=/; Secure; HttpOnly"), "{cookie}");
        let site = if name == "__Host-business-login" { "SameSite=Lax" } else { "SameSite=Strict" };
        assert!(attributes.contains(site), "{cookie}");
        if attributes.contains("Max-Age=0") {
            self.cookies.remove(name);
        } else {
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
    }
}
