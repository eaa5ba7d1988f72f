//! One strategy per kind: what differs between the kinds when an object is written.

/// Projects: a tree of quota budgets.
pub mod project;
/// Namespaces: each takes its quota from its project.
pub mod namespace;
/// Emigrations of namespaces to other projects.
pub mod nsemigration;
/// Image namespaces and chart groups: a project's prefixes in the registry.
pub mod registry;

/// Credentials: names and passwords for the registry.
pub mod registry_credential;

/// Platforms: the administrators of the tenants.
pub mod platform;
/// Config maps.
pub mod config_map;
/// Subresources of operators: lock, unlock, abandon.
pub mod operator_act;
/// Tenants: ceilings of the root projects.
pub mod tenant;
/// What a tenant's spec prescribes to its projects.
mod tenant_policy;
/// The limit on the number of people that a tenant's objects list.
mod people_limit;
/// Warnings about listed service accounts.
mod service_accounts;
/// Member clusters: the capacity that is granted to tenants.
pub mod member_cluster;
/// Templates: the objects that namespaces get beside their quota.
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
use store::quota::Account;
use store::{Key, Sight, Visibility};

const TENANT: &[&str] = &["spec", "tenantID"];
/// It is 0 on create. Compared with `metadata.generation`, that shows that no controller has reconciled the object yet.
const OBSERVED_GENERATION: &[&str] = &["status", "observedGeneration"];

/// Sets the tenant of an object: that of a caller who has one tenant. For a caller of several tenants the project
/// decides. An existing object keeps its tenant, also if an update does not name it.
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

/// Gives an object that names no tenant the tenant of its project. `None` if the object names one.
pub fn inherit_tenant<'a>(
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

/// The same, where the caller awaits anyway.
async fn ensure_tenant(view: View<'_>, project: Option<Key>, object: &mut Object) -> Result<(), Status> {
    match inherit_tenant(view, project, object) {
        Some(inherited) => inherited.await,
        None => Ok(()),
    }
}

/// The key of the project with this name; `None` for the empty name.
pub fn project_key(name: &str) -> Option<Key> {
    (!name.is_empty()).then(|| Key::new(PROJECT, "", name))
}

/// Adds our finalizer to those that the client has set.
fn add_finalizer(object: &mut Object, token: &str) {
    let mut tokens: Vec<&str> = object.strings(FINALIZERS).collect();
    if !tokens.contains(&token) {
        tokens.push(token);
    }
    let tokens = json!(tokens);
    object.set(FINALIZERS, tokens);
}

/// Refuses callers other than operators, even if a role in Kubernetes gives them all resources.
fn check_operator(cx: &WriteContext<'_>, object: &Object, gr: &GroupResource) -> Result<(), Status> {
    if cx.sees_everything() {
        return Ok(());
    }
    let why = format!("{} are written by operators only", gr.resource);
    Err(Status::forbidden(gr, object.name(), &why))
}

/// Checks the precondition on the uid. An empty `wanted` is no precondition.
fn check_uid(live: &Object, wanted: &str, gr: &GroupResource) -> Result<(), Status> {
    let uid = live.uid();
    if wanted.is_empty() || wanted == uid {
        return Ok(());
    }
    let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}");
    Err(Status::conflict(gr, live.name(), &why))
}

/// Refuses a change by which an object that is being deleted would cost or grant more than before.
fn check_no_growth_while_deleting(
    old: &Object,
    before: &Account,
    after: &Account,
    gr: &GroupResource,
) -> Result<(), Status> {
    if old.is_deleting() && after.outgrows(Some(before)) {
        return Err(Status::forbidden(gr, old.name(), "it is being deleted: nothing more is granted of it"));
    }
    Ok(())
}

/// Refuses changes of the annotations that only operators may set, because they grant something.
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

/// The error of a cluster that the tenant may not use. Only operators learn from it that the cluster exists.
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

/// Whether a write removes this finalizer.
fn removes_finalizer(old: &Object, object: &Object, token: &str) -> bool {
    old.strings(FINALIZERS).any(|held| held == token) && !object.strings(FINALIZERS).any(|held| held == token)
}

/// The answer to another DELETE of an object that still has finalizers.
fn deletion_pending_message(object: &Object, kind: &str) -> Option<String> {
    object.strings(FINALIZERS).next()?;
    Some(format!(
        "The system is ensuring all content is removed from this {kind}.  Upon completion, this {kind} will \
         automatically be purged by the system."
    ))
}

/// The reason that an operator has given for abandoning what the object stands for.
fn abandon_reason(object: &Object) -> Option<&str> {
    object.annotation(names::ABANDON_ANNOTATION).filter(|reason| !reason.is_empty())
}

fn begin_deletion(cx: &WriteContext<'_>, object: &mut Object) {
    object.set(&["status", "phase"], json!("Terminating"));
    object.set(&["status", "lastTransitionTime"], json!(cx.now));
}

/// The error of a stored or validated object that does not decode as its kind: a bug, never the client's mistake.
#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn internal_decode_error(error: serde_json::Error) -> Status {
    tracing::error!(%error, "an object does not read as its kind");
    Status::internal("the object cannot be read")
}

/// The error of a part of an object that does not decode as its kind. It is refused, because no rule can check it.
fn decode_field_error(object: &Object, part: &str, error: &serde_json::Error) -> FieldErrors {
    let value = object.get(&[part]).cloned().unwrap_or_default();
    vec![FieldError::invalid(&Path::new(part), &value, &error.to_string())]
}

/// The given errors, which are more precise, or else that of a part that does not decode.
fn or_decode_field_error(
    errors: FieldErrors,
    object: &Object,
    part: &str,
    error: &serde_json::Error,
) -> FieldErrors {
    if errors.is_empty() { decode_field_error(object, part, error) } else { errors }
}

/// Decodes a part of an object before and after a write.
fn read_both<T>(
    old: &Object,
    object: &Object,
    part: &str,
    read: fn(&Object) -> Result<T, serde_json::Error>,
) -> Result<(T, T), FieldErrors> {
    let read = |object: &Object| read(object).map_err(|error| decode_field_error(object, part, &error));
    Ok((read(old)?, read(object)?))
}

/// Whether a write leaves the spec of an object that is being deleted as it is. An earlier release may have stored a
/// spec that does not decode; the owners of finalizers must still be able to remove them.
fn keeps_spec_while_deleting(old: &Object, object: &Object) -> bool {
    old.is_deleting() && object.get(&["spec"]) == old.get(&["spec"])
}

fn resource_list_json(list: &ResourceList) -> Value {
    Value::Object(list.iter().map(|(key, amount)| (key.clone(), json!(amount.to_string()))).collect())
}

/// `pods: 3/10, requests.cpu: 500m/4`, in the order of the second list's keys; `-` if it is empty.
pub(crate) fn format_usage(part: &ResourceList, whole: &ResourceList) -> String {
    let shares: Vec<String> = whole
        .iter()
        .map(|(key, hard)| format!("{key}: {}/{hard}", part.get(key).copied().unwrap_or(Quantity::ZERO)))
        .collect();
    if shares.is_empty() { "-".to_owned() } else { shares.join(", ") }
}

/// `c1: pods: 3/10; c2: …`. `is_named` gets the number of clusters and says whether each is named.
fn format_usage_by_cluster(
    whole: &BTreeMap<String, HardQuantity>,
    part: &BTreeMap<String, UsedQuantity>,
    is_named: impl Fn(usize) -> bool,
) -> String {
    let none = ResourceList::new();
    let of = |(cluster, quota): (&String, &HardQuantity)| {
        let shares = format_usage(part.get(cluster).map_or(&none, |used| &used.used), &quota.hard);
        if is_named(whole.len()) { format!("{cluster}: {shares}") } else { shares }
    };
    let shown: Vec<String> = whole.iter().map(of).collect();
    if shown.is_empty() { "-".to_owned() } else { shown.join("; ") }
}

fn ready_status(conditions: &[business_types::Condition]) -> &str {
    business_types::condition::find(conditions, business_types::condition::READY)
        .map_or("Unknown", |c| &c.status)
}

pub(crate) fn text_or_dash(text: &str) -> Value {
    json!(if text.is_empty() { "-" } else { text })
}

/// Whether the caller administers a tenant, by the visibility of this request.
fn is_tenant_administrator(cx: &WriteContext<'_>, tenant: &str) -> bool {
    cx.visibility.of_tenant(tenant) == Some(&Sight::Whole)
}

/// The tenants that the caller administers.
fn administered_tenants<'a>(cx: &WriteContext<'a>) -> impl Iterator<Item = &'a str> {
    let sights = if let Visibility::Tenants(sights) = cx.visibility { &**sights } else { &[] };
    sights.iter().filter(|sight| sight.sight == Sight::Whole).map(|sight| &*sight.tenant)
}

/// Refuses (403) a caller who lacks a role in another project that the write concerns.
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
