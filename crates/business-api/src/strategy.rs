//! What differs by kind.

/// Projects: a tree of budgets.
pub mod project;
/// Namespaces: what is carved out of them.
pub mod namespace;
/// Emigrations of namespaces to other projects.
pub mod nsemigration;
/// Image namespaces and chart groups: a project's places in the registry.
pub mod registry;

/// Credentials: names and passwords for the registry.
pub mod registry_credential;

/// Platforms: the administrators of the tenants.
pub mod platform;
/// Config maps: texts and bytes under names.
pub mod config_map;
/// What operators do by subresources.
pub mod operator_act;
/// Tenants: ceilings of the root projects.
pub mod tenant;
/// What a tenant says of its projects.
mod tenant_terms;
/// Limits how many people a tenant's objects may list.
mod listed;
/// Where the service accounts live that they list.
mod listed_accounts;
/// Member clusters: what there is to give.
pub mod member_cluster;
/// Templates: what namespaces are given beside their quota.
pub mod namespace_template;

pub use config_map::ConfigMapStrategy;
pub use member_cluster::MemberClusterStrategy;
pub use namespace::NamespaceStrategy;
pub use namespace_template::NamespaceTemplateStrategy;
pub use nsemigration::NsEmigrationStrategy;
pub use platform::PlatformStrategy;
pub use project::ProjectStrategy;
pub use registry::RegistryStrategy;
pub use tenant::TenantStrategy;

use crate::clusters::Clusters;
use crate::finalizers::FINALIZERS;
use crate::kind_ids::PROJECT;
use crate::rights::Role;
use crate::roles::Roles;
use apiserver::View;
use apiserver::strategy::WriteContext;
use business_types::{HardQuantity, UsedQuantity, names};
use futures_util::future::BoxFuture;
use meta::field::{FieldError, FieldErrors, Path};
use meta::gvk::GroupResource;
use meta::object::Object;
use meta::quantity::{Quantity, ResourceList};
use meta::status::Status;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use store::{Key, Sight, Visibility};

const TENANT: &[&str] = &["spec", "tenantID"];
/// Set to 0 on create: compared with metadata.generation it shows that no controller has looked yet.
const OBSERVED: &[&str] = &["status", "observedGeneration"];

/// Objects of a caller of one tenant are that tenant's. For a caller of several, the project decides. An object that is
/// there stays its tenant's, also if an update does not name the tenant.
pub fn set_tenant(cx: &WriteContext<'_>, old: Option<&Object>, object: &mut Object) {
    match (cx.tenant(), old) {
        (Some(tenant), _) => object.set(TENANT, json!(tenant)),
        (None, Some(old)) if !cx.sees_everything() || object.text(TENANT).is_empty() => {
            object.copy_from(old, TENANT);
        }
        (None, None) if !cx.sees_everything() => drop(object.remove(TENANT)),
        (None, _) => {}
    }
}

/// An object that is made without naming a tenant belongs to the tenant of its project.
pub fn take_tenant<'a>(
    view: View<'a>,
    project: Option<Key>,
    object: &'a mut Object,
) -> Option<BoxFuture<'a, Result<(), Status>>> {
    let project = project.filter(|_| object.text(TENANT).is_empty())?;
    Some(Box::pin(async move {
        let found = view.get(&project).await?;
        if let Some(tenant) = found.as_ref().and_then(|entry| entry.attributes.tenant.as_deref()) {
            object.set(TENANT, json!(tenant));
        }
        Ok(())
    }))
}

/// The key of the project of a name; `None` for the empty name.
pub fn project_key(name: &str) -> Option<Key> {
    (!name.is_empty()).then(|| Key::new(PROJECT, "", name))
}

/// Keeps the finalizers that were given and adds ours.
fn add_finalizer(object: &mut Object, token: &str) {
    let mut tokens: Vec<&str> = object.strings(FINALIZERS).collect();
    if !tokens.contains(&token) {
        tokens.push(token);
    }
    let tokens = json!(tokens);
    object.set(FINALIZERS, tokens);
}

/// Only operators write this. A caller with a tenant may not, even if a role in Kubernetes names all resources.
fn by_operators(cx: &WriteContext<'_>, object: &Object, gr: &GroupResource) -> Result<(), Status> {
    if cx.sees_everything() {
        return Ok(());
    }
    let why = format!("{} are written by operators only", gr.resource);
    Err(Status::forbidden(gr, object.name(), &why))
}

/// Whether the object that is meant is still there: `wanted` is its uid, or empty for any of the name.
fn check_uid(live: &Object, wanted: &str, gr: &GroupResource) -> Result<(), Status> {
    let uid = live.uid();
    if wanted.is_empty() || wanted == uid {
        return Ok(());
    }
    let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}");
    Err(Status::conflict(gr, live.name(), &why))
}

/// Annotations that grant something are an operator's.
fn check_annotations(
    cx: &WriteContext<'_>,
    old: Option<&Object>,
    object: &Object,
    gr: &GroupResource,
) -> Result<(), Status> {
    if cx.sees_everything() {
        return Ok(());
    }
    let changed = |key: &&&str| object.annotation(key) != old.and_then(|old| old.annotation(key));
    match names::OPERATOR_ANNOTATIONS.iter().find(changed) {
        Some(key) => {
            Err(Status::forbidden(gr, object.name(), &format!("annotation {key:?} is set by operators only")))
        }
        None => Ok(()),
    }
}

/// What is wrong with a cluster that the tenant may not use. Who sees everything is told that it is there.
fn check_cluster(
    cx: &WriteContext<'_>,
    clusters: &Clusters,
    path: &Path,
    name: &str,
    tenant: &str,
) -> Option<FieldError> {
    if clusters.allows(name, tenant) {
        return None;
    }
    let mut error = FieldError::not_found(path, &json!(name));
    if cx.sees_everything() && clusters.allows_operators(name) {
        let why = format!("for tenant {tenant:?}: spec.tenants of the membercluster does not list it");
        error.message = [error.message, why].join(" ");
    }
    Some(error)
}

/// Whether a write through `finalize` takes this token away.
fn drops_finalizer(old: &Object, object: &Object, token: &str) -> bool {
    old.strings(FINALIZERS).any(|held| held == token) && !object.strings(FINALIZERS).any(|held| held == token)
}

/// The answer to another DELETE of an object that somebody still cleans up.
fn waiting(object: &Object, kind: &str) -> Option<String> {
    object.strings(FINALIZERS).next()?;
    Some(format!(
        "The system is ensuring all content is removed from this {kind}.  Upon completion, this {kind} will \
         automatically be purged by the system."
    ))
}

/// Why what the object stands for is given up, where somebody says it.
fn abandon_reason(object: &Object) -> Option<&str> {
    object.annotation(names::ABANDON_ANNOTATION).filter(|reason| !reason.is_empty())
}

fn begin_deletion(cx: &WriteContext<'_>, object: &mut Object) {
    object.set(&["status", "phase"], json!("Terminating"));
    object.set(&["status", "lastTransitionTime"], json!(cx.now));
}

/// A stored or checked object that does not read as its own kind: a defect, never the client's.
#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn unreadable(error: serde_json::Error) -> Status {
    tracing::error!(%error, "an object does not read as its kind");
    Status::internal("the object cannot be read")
}

/// The error of a part of an object that does not read as its kind's: what no rule can look at is refused.
fn cannot_be_read(object: &Object, part: &str, error: &serde_json::Error) -> FieldErrors {
    let value = object.get(&[part]).cloned().unwrap_or_default();
    vec![FieldError::invalid(&Path::new(part), &value, &error.to_string())]
}

/// The same, unless the rules for its texts have told it better.
fn or_cannot_be_read(
    told: FieldErrors,
    object: &Object,
    part: &str,
    error: &serde_json::Error,
) -> FieldErrors {
    if told.is_empty() { cannot_be_read(object, part, error) } else { told }
}

/// A part of an object before and after a write.
fn read_both<T>(
    old: &Object,
    object: &Object,
    part: &str,
    read: fn(&Object) -> Result<T, serde_json::Error>,
) -> Result<(T, T), FieldErrors> {
    let read = |object: &Object| read(object).map_err(|error| cannot_be_read(object, part, &error));
    Ok((read(old)?, read(object)?))
}

/// Whether a write of what is being deleted leaves its spec as it is. An earlier release may have stored a spec that does
/// not read; whoever has a finalizer at it has to get it off.
fn only_lets_go(old: &Object, object: &Object) -> bool {
    old.is_deleting() && object.get(&["spec"]) == old.get(&["spec"])
}

fn amounts_value(list: &ResourceList) -> Value {
    Value::Object(list.iter().map(|(key, amount)| (key.clone(), json!(amount.to_string()))).collect())
}

/// `pods: 3/10, requests.cpu: 500m/4`, in the order of the second list's keys; `-` for nothing to show.
pub(crate) fn shares(part: &ResourceList, whole: &ResourceList) -> String {
    let shares: Vec<String> = whole
        .iter()
        .map(|(key, hard)| format!("{key}: {}/{hard}", part.get(key).copied().unwrap_or(Quantity::ZERO)))
        .collect();
    if shares.is_empty() { "-".to_owned() } else { shares.join(", ") }
}

/// `c1: pods: 3/10; c2: …`; the cluster is named where `is_named` says so of their number.
fn shares_by_cluster(
    whole: &BTreeMap<String, HardQuantity>,
    part: &BTreeMap<String, UsedQuantity>,
    is_named: impl Fn(usize) -> bool,
) -> String {
    let none = ResourceList::new();
    let of = |(cluster, quota): (&String, &HardQuantity)| {
        let shares = shares(part.get(cluster).map_or(&none, |used| &used.used), &quota.hard);
        if is_named(whole.len()) { format!("{cluster}: {shares}") } else { shares }
    };
    let shown: Vec<String> = whole.iter().map(of).collect();
    if shown.is_empty() { "-".to_owned() } else { shown.join("; ") }
}

fn ready(conditions: &[business_types::Condition]) -> &str {
    business_types::condition::find(conditions, business_types::condition::READY)
        .map_or("Unknown", |c| &c.status)
}

pub(crate) fn dash(text: &str) -> Value {
    json!(if text.is_empty() { "-" } else { text })
}

/// Whether the caller rules a tenant, as far as this request goes.
fn rules(cx: &WriteContext<'_>, tenant: &str) -> bool {
    cx.visibility.of_tenant(tenant) == Some(&Sight::Whole)
}

/// The tenants that the caller rules.
fn ruled_tenants<'a>(cx: &WriteContext<'a>) -> impl Iterator<Item = &'a str> {
    let sights = if let Visibility::Tenants(sights) = cx.visibility { &**sights } else { &[] };
    sights.iter().filter(|sight| sight.sight == Sight::Whole).map(|sight| &*sight.tenant)
}

/// 403 to a caller without a role in a project that the write also concerns.
fn check_role(
    cx: &WriteContext<'_>,
    roles: &Roles,
    least: Role,
    project: &str,
    refused: impl FnOnce(&str) -> Status,
) -> Result<(), Status> {
    if roles.in_project(cx.caller, cx.visibility, project).is_some_and(|role| role >= least) {
        return Ok(());
    }
    Err(refused(&format!("this needs the role {} in project {project:?}", least.label())))
}

#[cfg(test)]
mod tests;
