//! What a tenant's spec prescribes to its projects: which people they may name, and the defaults of new root projects.

use super::{TENANT, internal_decode_error};
use crate::kind_ids;
use apiserver::View;
use business_types::project::gvk;
use business_types::tenant::{TenantSpec, foreign_identity};
use business_types::{AccessEntry, ProjectSpec, Subject};
use meta::field::{FieldErrors, Path};
use meta::object::Object;
use meta::status::Status;
use serde_json::json;
use std::collections::HashSet;
use store::Key;

const ACCESS: &[&str] = &["spec", "access"];
const CLUSTERS: &[&str] = &["spec", "clusters"];

/// Fills the tenant's defaults into a new root project, and refuses newly named people whose names are not of the
/// tenant. Returns whether the project's clusters come from the defaults.
pub(super) async fn admit(
    view: View<'_>,
    before: Option<&ProjectSpec>,
    object: &mut Object,
) -> Result<bool, Status> {
    let mut spec = ProjectSpec::of(object).map_err(internal_decode_error)?;
    let is_new_root = before.is_none() && spec.parent_project_name.is_empty();
    let lacks = is_new_root && (spec.clusters.is_empty() || spec.access.is_empty());
    if !lacks && new_entries(before, &spec).next().is_none() {
        return Ok(false);
    }
    let Some(tenant) = tenant_spec(view, object.text(TENANT)).await? else { return Ok(false) };
    let lacks_clusters = is_new_root && spec.clusters.is_empty() && !tenant.defaults.clusters.is_empty();
    if lacks_clusters {
        object.set(CLUSTERS, json!(tenant.defaults.clusters));
    }
    if is_new_root && spec.access.is_empty() && !tenant.defaults.access.is_empty() {
        object.set(ACCESS, json!(tenant.defaults.access));
        spec.access.clone_from(&tenant.defaults.access);
    }
    let path = Path::new("spec").child("access");
    let errors: FieldErrors = new_entries(before, &spec)
        .filter_map(|(index, entry)| foreign_identity(&tenant, &entry.subject, &path.index(index)))
        .collect();
    if errors.is_empty() { Ok(lacks_clusters) } else { Err(Status::invalid(&gvk(), object.name(), &errors)) }
}

/// The spec of a tenant; `None` without its object.
async fn tenant_spec(view: View<'_>, tenant: &str) -> Result<Option<TenantSpec>, Status> {
    if tenant.is_empty() {
        return Ok(None);
    }
    let found = view.unfiltered().latest().object(&Key::new(kind_ids::TENANT, "", tenant)).await?;
    found.map(|tenant| TenantSpec::of(&tenant)).transpose().map_err(internal_decode_error)
}

/// The new access entries, with their indices. How many an object may have is checked later.
fn new_entries<'a>(
    before: Option<&'a ProjectSpec>,
    after: &'a ProjectSpec,
) -> impl Iterator<Item = (usize, &'a AccessEntry)> {
    let named: HashSet<&Subject> =
        before.into_iter().flat_map(|before| &before.access).map(|entry| &entry.subject).collect();
    after.access.iter().enumerate().filter(move |(_, entry)| !named.contains(&entry.subject))
}
