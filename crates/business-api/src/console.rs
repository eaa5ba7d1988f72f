//! The web console: a page of static files, and a login whose session lives in the browser's cookies alone.
//!
//! ```text
//! gate ─▶ cookies, seal ─▶ session ─▶ the API, with its bearer token
//!   └───▶ handlers: login ─▶ provider ─▶ callback;  refresh, logout;  files
//! ```
//!
//! Requests of the page go through the same authenticator and policy as all others. A session gives exactly the rights
//! of its ID token.

/// The settings of the console.
pub mod settings;
/// The handlers of the console's own paths.
mod handlers;
/// Pages that the server generates, without scripts.
mod html;
/// The texts of these pages, in each language.
mod messages;
/// The static files of the page.
mod files;
/// The client of identity providers.
mod provider;
/// Checks the sender of each request.
mod gate;
/// The cookies.
mod cookies;
/// The session in the cookies.
mod session;
/// Encryption of the cookies, so that nobody else can read or forge a session.
mod seal;

use crate::config::{ConsoleCertificate, ConsoleSettings};
use anyhow::{Context, Result, ensure};
use apiserver::authn::Authenticator;
use apiserver::authz::RouteAccess;
use apiserver::flow::Class;
use apiserver::routes::{GET, PathMatch, Route};
use apiserver::server::SecondaryListener;
use files::Files;
use gate::ConsoleGate;
use handlers::{ConsoleHandler, Endpoint};
use http::Method;
use provider::DiscoveryCache;
use runtime::{CertificateExpiry, Clock, Tasks};
use seal::SealingKeys;
use settings::{ConsoleIssuer, Origin};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

const ROOT: &str = "/console";
const CONFIG: &str = "/console/config";
const LOGIN: &str = "/console/login";
/// The callback. Each of several issuers has a path below it.
const CALLBACK: &str = "/console/callback";
const SESSION: &str = "/console/session";
const REFRESH: &str = "/console/refresh";
const LOGOUT: &str = "/console/logout";
const POST: &[Method] = &[Method::POST];

/// The console, ready to be opened.
#[derive(Debug)]
pub struct Console {
    issuers: Vec<ConsoleIssuer>,
    /// The provider's metadata, by the name of the issuer.
    discovery_caches: HashMap<String, DiscoveryCache>,
    origins: Vec<Origin>,
    keys: SealingKeys,
    files: Files,
    lifetime: Duration,
    clock: Clock,
}

impl Console {
    /// Reads the files of the settings. `None` if the console is not enabled.
    pub fn load(settings: &ConsoleSettings, clock: &Clock, tasks: &Tasks) -> Result<Option<Self>> {
        let (true, Some(issuers)) = (settings.console, &settings.console_issuers) else { return Ok(None) };
        let issuers = settings::issuers(issuers).context("--console-issuers")?;
        let key_file = settings.console_key_file.as_ref().context("--console-key-file is missing")?;
        let keys = SealingKeys::load(key_file).context("--console-key-file")?;
        ensure!(!settings.console_origin.is_empty(), "--console-origin is missing");
        tasks.spawn("keys of the console", keys.clone().follow());
        let discovery_caches = issuers.iter().map(|issuer| (issuer.name.clone(), DiscoveryCache::default()));
        Ok(Some(Self {
            discovery_caches: discovery_caches.collect(),
            issuers,
            origins: settings.console_origin.clone(),
            keys,
            files: settings.console_files.clone().map_or(Files::Embedded, Files::Directory),
            lifetime: settings.console_session_lifetime,
            clock: clock.clone(),
        }))
    }

    /// Checks that the API accepts tokens of each issuer.
    pub fn check(&self, authenticator: &Authenticator) -> Result<()> {
        for ConsoleIssuer { name, issuer, .. } in &self.issuers {
            ensure!(
                authenticator.key_source(issuer).is_some(),
                "--console-issuers: {name}: {issuer:?} is no issuer of the authentication configuration"
            );
        }
        Ok(())
    }

    /// The socket for browsers. `certificate_end` gets the expiry of its certificate.
    pub fn secondary_listener(
        self,
        listener: TcpListener,
        files: ConsoleCertificate,
        certificate_end: CertificateExpiry,
    ) -> Result<SecondaryListener> {
        let gate = ConsoleGate::new(self.origins.clone(), self.keys.clone(), self.clock.clone())?;
        Ok(SecondaryListener {
            listener,
            certificate_file: files.certificate,
            key_file: files.key,
            certificate_end,
            filter: Arc::new(gate),
            routes: self.routes(),
        })
    }

    fn routes(self) -> Vec<Route> {
        let console = Arc::new(self);
        [
            (ROOT, Endpoint::Files, GET, RouteAccess::PublicUnauthenticated, Class::Exempt),
            (CONFIG, Endpoint::Config, GET, RouteAccess::PublicUnauthenticated, Class::Exempt),
            (LOGIN, Endpoint::Login, GET, RouteAccess::PublicUnauthenticated, Class::Read),
            (CALLBACK, Endpoint::Callback, GET, RouteAccess::PublicUnauthenticated, Class::Read),
            (SESSION, Endpoint::Session, GET, RouteAccess::Authenticated, Class::Exempt),
            (REFRESH, Endpoint::Refresh, POST, RouteAccess::PublicUnauthenticated, Class::Read),
            (LOGOUT, Endpoint::Logout, POST, RouteAccess::PublicUnauthenticated, Class::Read),
        ]
        .into_iter()
        .map(|(path, endpoint, methods, access, class)| Route {
            path: path.to_owned(),
            path_match: if matches!(path, ROOT | CALLBACK) { PathMatch::Prefix } else { PathMatch::Exact },
            methods,
            access,
            reads_store: false,
            class,
            dialect: None,
            listed: Vec::new(),
            handler: Arc::new(ConsoleHandler { console: Arc::clone(&console), endpoint }),
        })
        .collect()
    }
}
