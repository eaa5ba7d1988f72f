//! The web console: a page of static files, and a login whose session lives in the browser's cookies alone.
//!
//! ```text
//! gate ─▶ cookies, seal ─▶ session ─▶ the API, as by its bearer token
//!   └───▶ pages: login ─▶ provider ─▶ callback;  refresh, logout;  files
//! ```
//!
//! What a page requests goes through the same authenticator and the same policy as any other request: a session is
//! worth exactly what the ID token in it is worth.

/// What the console is told about.
pub mod settings;
/// The console's own paths.
mod pages;
/// Pages without a script.
mod html;
/// The texts of these pages.
mod words;
/// The page's files.
mod files;
/// The identity providers.
mod provider;
/// Checks who makes a request.
mod gate;
/// What a browser keeps.
mod cookies;
/// The session that the cookies carry.
mod session;
/// Encryption, so that nobody else can read or make a session.
mod seal;

use crate::config::{ConsoleCertificate, ConsoleSettings};
use anyhow::{Context, Result, ensure};
use apiserver::authn::Authenticator;
use apiserver::authz::Admits;
use apiserver::flow::Class;
use apiserver::routes::{GET, Reach, Route};
use apiserver::server::SideDoor;
use files::Files;
use gate::ConsoleGate;
use http::Method;
use pages::{ConsolePage, Page};
use provider::LastDiscovery;
use runtime::{CertificateEnd, Clock, Tasks};
use seal::SealingKeys;
use settings::{ConsoleIssuer, Origin};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

const ROOT: &str = "/console";
const CONFIG: &str = "/console/config";
const LOGIN: &str = "/console/login";
/// Below it lies a path for each issuer.
const CALLBACK: &str = "/console/callback";
const SESSION: &str = "/console/session";
const REFRESH: &str = "/console/refresh";
const LOGOUT: &str = "/console/logout";
const POST: &[Method] = &[Method::POST];

/// The console, ready to be opened.
#[derive(Debug)]
pub struct Console {
    issuers: Vec<ConsoleIssuer>,
    /// By the name of the issuer.
    discovered: HashMap<String, LastDiscovery>,
    origins: Vec<Origin>,
    keys: SealingKeys,
    files: Files,
    lifetime: Duration,
    clock: Clock,
}

impl Console {
    /// Reads its files. None where it is not wanted.
    pub fn load(settings: &ConsoleSettings, clock: &Clock, tasks: &Tasks) -> Result<Option<Self>> {
        let (true, Some(issuers)) = (settings.console, &settings.console_issuers) else { return Ok(None) };
        let issuers = settings::issuers(issuers).context("--console-issuers")?;
        let key_file = settings.console_key_file.as_ref().context("--console-key-file is missing")?;
        let keys = SealingKeys::load(key_file).context("--console-key-file")?;
        ensure!(!settings.console_origin.is_empty(), "--console-origin is missing");
        tasks.spawn("keys of the console", keys.clone().follow());
        let discovered = issuers.iter().map(|issuer| (issuer.name.clone(), LastDiscovery::default()));
        Ok(Some(Self {
            discovered: discovered.collect(),
            issuers,
            origins: settings.console_origin.clone(),
            keys,
            files: settings.console_files.clone().map_or(Files::Embedded, Files::Directory),
            lifetime: settings.console_session_lifetime,
            clock: clock.clone(),
        }))
    }

    /// Whether the API believes each of its issuers.
    pub fn check(&self, authenticator: &Authenticator) -> Result<()> {
        for ConsoleIssuer { name, issuer, .. } in &self.issuers {
            ensure!(
                authenticator.key_source(issuer).is_some(),
                "--console-issuers: {name}: {issuer:?} is no issuer of the authentication configuration"
            );
        }
        Ok(())
    }

    /// The socket for browsers. `certificate_end` is told when its certificate ends.
    pub fn door(
        self,
        listener: TcpListener,
        files: ConsoleCertificate,
        certificate_end: CertificateEnd,
    ) -> Result<SideDoor> {
        let gate = ConsoleGate::new(self.origins.clone(), self.keys.clone(), self.clock.clone())?;
        Ok(SideDoor {
            listener,
            certificate_file: files.certificate,
            key_file: files.key,
            certificate_end,
            gate: Arc::new(gate),
            routes: self.routes(),
        })
    }

    fn routes(self) -> Vec<Route> {
        let console = Arc::new(self);
        [
            (ROOT, Page::Files, GET, Admits::Unasked, Class::Exempt),
            (CONFIG, Page::Config, GET, Admits::Unasked, Class::Exempt),
            (LOGIN, Page::Login, GET, Admits::Unasked, Class::Read),
            (CALLBACK, Page::Callback, GET, Admits::Unasked, Class::Read),
            (SESSION, Page::Session, GET, Admits::Authenticated, Class::Exempt),
            (REFRESH, Page::Refresh, POST, Admits::Unasked, Class::Read),
            (LOGOUT, Page::Logout, POST, Admits::Unasked, Class::Read),
        ]
        .into_iter()
        .map(|(path, page, methods, admits, class)| Route {
            path: path.to_owned(),
            reach: if matches!(path, ROOT | CALLBACK) { Reach::Tree } else { Reach::Path },
            methods,
            admits,
            sees: false,
            class,
            dialect: None,
            listed: Vec::new(),
            handler: Arc::new(ConsolePage { console: Arc::clone(&console), page }),
        })
        .collect()
    }
}
