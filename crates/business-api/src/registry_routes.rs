//! The HTTP routes for the OCI registry.

/// `/registry/token`: tokens for the OCI registry.
pub mod registry_token;
/// `/registry/events`: takes the registry's notifications of changes.
pub mod registry_events;
/// `/registry/jwks`: the keys that tokens are signed with.
pub mod registry_jwks;

use crate::config::Registry;
use crate::kinds::KindTable;
use crate::roles::Roles;
use crate::token_server::accounts::{AccountPurpose, RegistryAccount};
use crate::token_server::change_marks::{Marker, PendingMarks};
use crate::token_server::credentials::Credentials;
use crate::token_server::keys::TokenKeys;
use crate::token_server::last_used::{self, LastUsedSender};
use crate::token_server::prefix_index::PrefixIndex;
use anyhow::{Context, Result};
use apiserver::routes::Route;
use business_types::names::{CHART_GROUPS, GROUP, IMAGE_NAMESPACES};
use business_types::{ChartGroup, ImageNamespace, RegistryKind};
use prometheus_client::metrics::counter::Counter;
use registry_events::EventsRoute;
use registry_token::TokenRoute;
use runtime::{Clock, Metrics, Tasks};
use std::path::Path;
use store::Store;
use tokio::sync::Mutex;

/// What the routes depend on.
#[derive(Clone, Copy, Debug)]
pub struct RegistryRoutes<'a> {
    /// The objects.
    pub store: &'a Store,
    /// Their kinds.
    pub kinds: KindTable,
    /// The roles of people in the projects.
    pub roles: &'a Roles,
    /// The clock.
    pub clock: &'a Clock,
    /// Metrics of notifications that cannot be decoded.
    pub metrics: &'a Metrics,
    /// Where their tasks run.
    pub tasks: &'a Tasks,
}

impl RegistryRoutes<'_> {
    /// The routes; none without a key to sign with.
    pub fn routes(self, settings: &Registry) -> Result<Vec<Route>> {
        let undecodable = self.metrics.register(
            "business_registry_events_unread",
            "Notifications of the registry that could not be read",
            Counter::default(),
        );
        let Some(file) = &settings.registry_token_key_file else { return Ok(Vec::new()) };
        let keys = TokenKeys::load(file).context("--registry-token-key-file")?;
        self.tasks.spawn("registry keys", keys.clone().follow());
        let prefixes = self.prefix_indices()?;
        let mut routes = vec![registry_jwks::route(keys.clone())];
        if let Some(file) = &settings.registry_events_credentials {
            let account =
                self.account(AccountPurpose::Events, file).context("--registry-events-credentials")?;
            routes.push(self.events(account, prefixes.clone(), undecodable).route());
        }
        let controller = settings.registry_controller_credentials.as_deref();
        let controller = controller.map(|file| self.account(AccountPurpose::Controller, file)).transpose();
        let token_route = TokenRoute {
            service: settings.registry_service.clone(),
            issuer: settings.registry_issuer.clone(),
            keys,
            prefixes,
            credentials: self.credentials(controller.context("--registry-controller-credentials")?)?,
            roles: self.roles.clone(),
            store: self.store.clone(),
            clock: self.clock.clone(),
        };
        routes.push(token_route.route());
        Ok(routes)
    }

    fn account(self, purpose: AccountPurpose, file: &Path) -> Result<RegistryAccount> {
        let account = RegistryAccount::load(purpose, file)?;
        self.tasks.spawn("registry account", account.clone().follow());
        Ok(account)
    }

    fn prefix_indices(self) -> Result<Vec<PrefixIndex>> {
        let kinds =
            [(IMAGE_NAMESPACES, ImageNamespace::DISPLAY_NAME), (CHART_GROUPS, ChartGroup::DISPLAY_NAME)];
        let mut all = Vec::new();
        for (plural, words) in kinds {
            let kind = self.store.kind_id(GROUP, plural).context("the registry's kinds are not served")?;
            let index = PrefixIndex::new(kind, words);
            self.tasks.spawn("registry prefixes", index.clone().follow(self.store.clone()));
            all.push(index);
        }
        Ok(all)
    }

    fn credentials(self, controller: Option<RegistryAccount>) -> Result<Credentials> {
        let (uses, receiver) = LastUsedSender::channel();
        self.tasks.spawn("uses of credentials", last_used::write_all(self.store.clone(), receiver));
        Credentials::new(self.store.clone(), uses, controller, self.clock.clone())
            .context("no credentials are served")
    }

    fn events(
        self,
        account: RegistryAccount,
        prefixes: Vec<PrefixIndex>,
        undecodable: Counter,
    ) -> EventsRoute {
        let pending_marks = PendingMarks::default();
        let marker = Marker { store: self.store.clone(), kinds: self.kinds, clock: self.clock.clone() };
        self.tasks.spawn("events of the registry", marker.clone().run(pending_marks.clone()));
        EventsRoute { account, prefixes, pending_marks, marker, undecodable, body_lock: Mutex::default() }
    }
}
