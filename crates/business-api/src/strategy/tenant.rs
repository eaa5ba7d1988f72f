use super::namespace_template::{check_template, newly_named_template};
use super::{
    check_no_growth_while_deleting, check_operator, decode_field_error, format_usage_by_cluster,
    internal_decode_error, ready_status, text_or_dash,
};
use super::{people_limit, service_accounts};
use crate::allocations::Allocations;
use crate::clusters::{ClusterGrowth, Clusters};
use crate::kind_ids::{MEMBER_CLUSTER, TENANT};
use crate::refusal::{self, RefusedKind, RefusedObject};
use crate::roles::Roles;
use apiserver::resource::Column;
use apiserver::strategy::{Strategy, WriteContext};
use apiserver::{ObjectEndpoint, View};
use business_types::registry::REGISTRY_DOMAIN;
use business_types::tenant::{self, ChargedTenant, TenantSpec, TenantStatus, group_resource, gvk};
use business_types::{SubjectKind, account, names};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use meta::field::{FieldError, FieldErrors, Path};
use meta::object::Object;
use meta::status::Status;
use meta::validation::NameRule;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use store::Key;
use store::quota::{Account, Grants, Scope, Violation};

/// The most tenants that a refusal names.
const NAMED_TENANTS_MAX: usize = 5;

/// Columns of `kubectl get`.
pub const COLUMNS: &[Column] = &[
    Column::string("Ready", "Whether the controller has looked at it, and nothing is wrong.", 0),
    Column::typed("Projects", "integer", "Its projects, at whatever depth.", 0),
    Column::typed("Namespaces", "integer", "Their namespaces.", 0),
    Column::string("Granted/Ceiling", "What its root projects are granted, of what they may be.", 0),
    Column::string("Display Name", "Name for people.", 1),
    Column::string("Administrators", "Who rules the tenant.", 1),
];

static REFUSED: RefusedKind = RefusedKind {
    gvk,
    resource: group_resource,
    scope: "metadata.name",
    domain: "spec.clusters",
    place: "metadata.name",
    amount: |cluster, key| Path::new("spec").child("clusters").key(cluster).child("hard").key(key),
};

/// Tenants: operators write them; their ceilings are charged to the member clusters.
#[derive(Clone, Debug)]
pub struct TenantStrategy {
    clusters: Clusters,
    allocations: Allocations,
    roles: Roles,
}

impl TenantStrategy {
    /// `allocations` know how full clusters are, `roles` how many people tenants list.
    pub fn new(clusters: Clusters, allocations: Allocations, roles: Roles) -> Self {
        Self { clusters, allocations, roles }
    }

    /// Refuses growth in a cluster that is cordoned or being deleted.
    fn check_growth(&self, old: Option<&Object>, object: &Object) -> Result<(), Status> {
        let before = old.map(|old| self.account(old)).transpose()?;
        // Only operators write tenants, so the error may name the cluster even if the tenant may not use it.
        let after = Account { tenant: String::new(), ..self.account(object)? };
        let (resource, name) = (&group_resource(), object.name());
        self.clusters.check_growth(ClusterGrowth { before: before.as_ref(), after: &after, resource, name })
    }

    /// Refuses unregistered clusters that the defaults name for the first time: every new root project would be refused
    /// because of them. The store is asked about a cluster that is unknown here: it may be newly registered.
    async fn check_defaults(
        &self,
        view: View<'_>,
        old: Option<&Object>,
        object: &Object,
    ) -> Result<(), Status> {
        let defaults = |object: &Object| {
            TenantSpec::of(object).map(|spec| spec.defaults.clusters).map_err(internal_decode_error)
        };
        let before = old.map(defaults).transpose()?.unwrap_or_default();
        let after = defaults(object)?;
        let named = after.keys().filter(|name| *name != REGISTRY_DOMAIN && !before.contains_key(*name));
        let named: Vec<&String> = named.collect();
        if named.is_empty() {
            return Ok(());
        }
        self.clusters.check_synced()?;
        let path = Path::new("spec").child("defaults").child("clusters");
        let mut errors = FieldErrors::new();
        for name in named.into_iter().filter(|name| !self.clusters.allows_operators(name)) {
            if view.unfiltered().get(&Key::new(MEMBER_CLUSTER, "", name.as_str())).await?.is_none() {
                errors.push(FieldError::not_found(&path.key(name), &json!(name)));
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&gvk(), object.name(), &errors)) }
    }

    /// A ceiling promises a part of a cluster. So it is refused where other tenants use the cluster without a ceiling.
    async fn check_no_unbounded_tenants(
        &self,
        view: View<'_>,
        old: Option<&Object>,
        object: &Object,
    ) -> Result<(), Status> {
        let before = old.map(|old| self.account(old)).transpose()?.and_then(|account| account.grants);
        let after = self.account(object)?.grants;
        let accepted = object.annotation(names::ACCEPT_UNBOUNDED_ANNOTATION).unwrap_or_default();
        let is_accepted =
            |cluster: &str| accepted.split(',').map(str::trim).any(|one| one == "*" || one == cluster);
        for cluster in
            Grants::raised_domains(before.as_ref(), after.as_ref()).filter(|cluster| !is_accepted(cluster))
        {
            let mut others = self.allocations.unbounded_tenants(cluster);
            others.remove(object.name());
            if others.is_empty() {
                continue;
            }
            // The allocations lag a moment behind: leave out tenants that have a ceiling by now.
            for tenant in view.unfiltered().latest().list(TENANT, None).await? {
                if others.contains(&*tenant.key.name) && has_ceiling(&tenant.body, cluster) {
                    others.remove(&*tenant.key.name);
                }
            }
            if !others.is_empty() {
                return Err(Status::forbidden(
                    &group_resource(),
                    object.name(),
                    &unbounded_message(cluster, &others),
                ));
            }
        }
        Ok(())
    }
}

fn unbounded_message(cluster: &str, others: &BTreeSet<String>) -> String {
    let named: Vec<&str> = others.iter().take(NAMED_TENANTS_MAX).map(String::as_str).collect();
    let more = others.len().saturating_sub(NAMED_TENANTS_MAX);
    format!(
        "cluster {cluster:?} is used without a ceiling by {}{}, so that nothing of it can be promised; give them one, or \
         accept that with the annotation {}: {cluster}",
        named.join(", "),
        if more > 0 { format!(" and {more} more tenants") } else { String::new() },
        names::ACCEPT_UNBOUNDED_ANNOTATION
    )
}

fn has_ceiling(body: &[u8], cluster: &str) -> bool {
    let account = account::of_stored::<ChargedTenant>(body).unwrap_or_default();
    account.grants.is_some_and(|grants| grants.domains.contains_key(cluster))
}

fn spec_errors(old: Option<&Object>, object: &Object) -> FieldErrors {
    let unread = |error| decode_field_error(object, "spec", &error);
    let before = old.and_then(|old| TenantSpec::of(old).ok());
    TenantSpec::of(object).map_or_else(unread, |spec| match &before {
        Some(before) => tenant::tenant_changed(before, &spec),
        None => tenant::tenant(&spec),
    })
}

impl Strategy for TenantStrategy {
    fn prepare_create(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        object.remove(&["status"]);
        object.set(super::OBSERVED_GENERATION, json!(0));
        check_operator(cx, object, &group_resource())?;
        self.check_growth(None, object)
    }

    fn admit<'a>(
        &'a self,
        cx: &'a mut WriteContext<'_>,
        view: View<'a>,
        old: Option<&'a Object>,
        object: &'a mut Object,
    ) -> Option<BoxFuture<'a, Result<(), Status>>> {
        if cx.endpoint != ObjectEndpoint::Main {
            return None;
        }
        let named = newly_named_template(old, object);
        let checks = async move {
            check_template(view, &gvk(), object, named).await?;
            self.check_defaults(view, old, object).await?;
            people_limit::check(&self.roles, &group_resource(), object.name(), old, object)?;
            cx.warnings
                .extend(service_accounts::warnings(view, &self.clusters, object.name(), old, object).await?);
            self.check_no_unbounded_tenants(view, old, object).await
        };
        Some(checks.boxed())
    }

    fn validate_create(&self, _cx: &mut WriteContext<'_>, object: &Object) -> FieldErrors {
        spec_errors(None, object)
    }

    fn prepare_update(
        &self,
        cx: &mut WriteContext<'_>,
        old: &Object,
        object: &mut Object,
    ) -> Result<(), Status> {
        check_operator(cx, object, &group_resource())?;
        self.check_growth(Some(old), object)
    }

    fn validate_update(&self, cx: &mut WriteContext<'_>, old: &Object, object: &Object) -> FieldErrors {
        match cx.endpoint {
            ObjectEndpoint::STATUS => TenantStatus::of(object).map_or_else(
                |error| decode_field_error(object, "status", &error),
                |status| tenant::tenant_status(&status),
            ),
            _ => spec_errors(Some(old), object),
        }
    }

    /// The ledger refuses to remove a tenant with projects. One that waits for a finalizer would be Terminating as long
    /// as it has some, and take no new ones.
    fn prepare_delete(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        match self.allocations.root_projects(object.name()) {
            0 => Ok(()),
            projects => {
                let scope = Scope::new(account::TENANT, object.name());
                let children = i64::try_from(projects).unwrap_or(i64::MAX);
                Err(self.refusal(cx, object, &[Violation::ScopeInUse { scope, children }]))
            }
        }
    }

    fn check_update(&self, _cx: &WriteContext<'_>, old: &Object, new: &Object) -> Result<(), Status> {
        check_no_growth_while_deleting(old, &self.account(old)?, &self.account(new)?, &group_resource())
    }

    fn account(&self, object: &Object) -> Result<Account, Status> {
        account::of::<ChargedTenant>(object).map_err(internal_decode_error)
    }

    fn growth_warnings(&self, before: Option<&Account>, after: &Account) -> Vec<String> {
        self.allocations.warnings(before, after)
    }

    fn refusal(&self, _cx: &WriteContext<'_>, object: &Object, violations: &[Violation]) -> Status {
        refusal::status(
            RefusedObject { name: object.name(), kind: &REFUSED, holds: None },
            violations,
            &self.allocations,
        )
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    fn cells(&self, object: &Object, _now_unix_seconds: i64) -> Vec<Value> {
        let (Ok(spec), Ok(status)) = (TenantSpec::of(object), TenantStatus::of(object)) else {
            return vec![Value::Null; COLUMNS.len()];
        };
        let people: Vec<String> = spec
            .administrators
            .iter()
            .map(|subject| match subject.kind {
                SubjectKind::User => subject.name.clone(),
                SubjectKind::Group => format!("group {}", subject.name),
                SubjectKind::ServiceAccount => format!("{}/{}", subject.namespace, subject.name),
            })
            .collect();
        vec![
            text_or_dash(ready_status(&status.conditions)),
            json!(status.projects),
            json!(status.namespaces),
            json!(format_usage_by_cluster(&spec.clusters, &status.clusters, |_| true)),
            text_or_dash(&spec.display_name),
            text_or_dash(&people.join(",")),
        ]
    }
}
