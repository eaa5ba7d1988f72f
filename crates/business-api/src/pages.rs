//! What is served beside the kinds.

/// `/registry/token`: tokens for the OCI registry.
pub mod registry_token;
/// `/registry/events`: what the registry tells of changes.
pub mod registry_events;
/// `/registry/jwks`: the keys that tokens are signed with.
pub mod registry_jwks;

use crate::config::Registry;
use crate::kinds::KindTable;
use crate::roles::Roles;
use crate::token_server::accounts::{Duty, RegistryAccount};
use crate::token_server::credentials::Credentials;
use crate::token_server::heard::{Heard, Marker};
use crate::token_server::keys::TokenKeys;
use crate::token_server::prefixes::Prefixes;
use crate::token_server::uses::{self, Uses};
use anyhow::{Context, Result};
use apiserver::routes::Route;
use business_types::names::{CHART_GROUPS, GROUP, IMAGE_NAMESPACES};
use business_types::{ChartGroup, ImageNamespace, RegistryKind};
use prometheus_client::metrics::counter::Counter;
use registry_events::EventsPage;
use registry_token::TokenPage;
use runtime::{Clock, Metrics, Tasks};
use std::path::Path;
use store::Store;
use tokio::sync::Mutex;

/// What the pages of the registry need.
#[derive(Clone, Copy, Debug)]
pub struct RegistryPages<'a> {
    /// The objects.
    pub store: &'a Store,
    /// Their kinds.
    pub kinds: KindTable,
    /// The roles of people in the projects.
    pub roles: &'a Roles,
    /// The clock.
    pub clock: &'a Clock,
    /// Where it is counted what cannot be read.
    pub metrics: &'a Metrics,
    /// Where their tasks run.
    pub tasks: &'a Tasks,
}

impl RegistryPages<'_> {
    /// The routes; none without a key to sign with.
    pub fn routes(self, settings: &Registry) -> Result<Vec<Route>> {
        let unread = self.metrics.register(
            "business_registry_events_unread",
            "Notifications of the registry that could not be read",
            Counter::default(),
        );
        let Some(file) = &settings.registry_token_key_file else { return Ok(Vec::new()) };
        let keys = TokenKeys::load(file).context("--registry-token-key-file")?;
        self.tasks.spawn("registry keys", keys.clone().follow());
        let prefixes = self.prefixes()?;
        let mut routes = vec![registry_jwks::route(keys.clone())];
        if let Some(file) = &settings.registry_events_credentials {
            let account = self.account(Duty::Events, file).context("--registry-events-credentials")?;
            routes.push(self.events(account, prefixes.clone(), unread).route());
        }
        let controller = settings.registry_controller_credentials.as_deref();
        let controller = controller.map(|file| self.account(Duty::Controller, file)).transpose();
        let page = TokenPage {
            service: settings.registry_service.clone(),
            issuer: settings.registry_issuer.clone(),
            keys,
            prefixes,
            credentials: self.credentials(controller.context("--registry-controller-credentials")?)?,
            roles: self.roles.clone(),
            store: self.store.clone(),
            clock: self.clock.clone(),
        };
        routes.push(page.route());
        Ok(routes)
    }

    fn account(self, duty: Duty, file: &Path) -> Result<RegistryAccount> {
        let account = RegistryAccount::load(duty, file)?;
        self.tasks.spawn("registry account", account.clone().follow());
        Ok(account)
    }

    fn prefixes(self) -> Result<Vec<Prefixes>> {
        let kinds = [(IMAGE_NAMESPACES, ImageNamespace::WORDS), (CHART_GROUPS, ChartGroup::WORDS)];
        let mut all = Vec::new();
        for (plural, words) in kinds {
            let kind = self.store.kind_id(GROUP, plural).context("the registry's kinds are not served")?;
            let prefixes = Prefixes::new(kind, words);
            self.tasks.spawn("registry prefixes", prefixes.clone().follow(self.store.clone()));
            all.push(prefixes);
        }
        Ok(all)
    }

    fn credentials(self, controller: Option<RegistryAccount>) -> Result<Credentials> {
        let (uses, told) = Uses::channel();
        self.tasks.spawn("uses of credentials", uses::write_all(self.store.clone(), told));
        Credentials::new(self.store.clone(), uses, controller, self.clock.clone())
            .context("no credentials are served")
    }

    fn events(self, account: RegistryAccount, prefixes: Vec<Prefixes>, unread: Counter) -> EventsPage {
        let heard = Heard::default();
        let marker = Marker { store: self.store.clone(), kinds: self.kinds, clock: self.clock.clone() };
        self.tasks.spawn("events of the registry", marker.clone().run(heard.clone()));
        EventsPage { account, prefixes, heard, marker, unread, reading: Mutex::default() }
    }
}
