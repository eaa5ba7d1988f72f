use super::namespace_template::{check_template, newly_named_template};
use super::people_limit::{self, PeopleIncrease, PeopleReservations};
use super::service_accounts;
use super::tenant_policy;
use super::{
    TENANT, add_finalizer, administered_tenants, begin_deletion, check_annotations, check_cluster,
    check_role, decode_field_error, deletion_pending_message, ensure_tenant, format_usage_by_cluster,
    inherit_tenant, internal_decode_error, is_tenant_administrator, or_decode_field_error, project_key,
    read_both, ready_status, removes_finalizer, set_tenant, text_or_dash,
};
use crate::allocations::Allocations;
use crate::clusters::{ClusterGrowth, Clusters};
use crate::finalizers::{self, TenantFinalizers};
use crate::refusal::{self, RefusedKind, RefusedObject};
use crate::rights::{GRANT, Role};
use crate::roles::Roles;
use apiserver::resource::Column;
use apiserver::strategy::{ExtraRight, Strategy, WriteContext};
use apiserver::{ObjectEndpoint, View};
use business_types::project::{group_resource, gvk};
use business_types::refusal::PROJECT_LOCKED;
use business_types::registry::REGISTRY_DOMAIN;
use business_types::{ChargedProject, HardQuantity, ProjectSpec, ProjectStatus, account, names, validation};
use futures_util::future::BoxFuture;
use meta::field::{FieldError, FieldErrors, Path};
use meta::object::Object;
use meta::status::{Status, StatusCause};
use meta::validation::NameRule;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use store::Key;
use store::quota::{Account, Grants, Scope, Violation};

const LOCKED: &[&str] = &["status", "locked"];
const PARENT: &[&str] = &["spec", "parentProjectName"];
/// The field that the refusal of a raise names.
const CLUSTERS: &str = "spec.clusters";

/// Columns of `kubectl get`.
pub const COLUMNS: &[Column] = &[
    Column::string("Phase", "Where in its life the project is.", 0),
    Column::string("Ready", "Whether everything is as spec asks for.", 0),
    Column::string("Tenant", "The tenant that owns the project.", 0),
    Column::string("Parent", "The project whose quota this one is carved out of.", 0),
    Column::string("Clusters", "Member clusters that the project may use.", 0),
    Column::string(
        "Allocated/Hard",
        "What is given to children, of what is granted, by cluster and resource.",
        0,
    ),
    Column::string("Display Name", "Name for people.", 1),
    Column::typed("Children", "integer", "Direct child projects.", 1),
    Column::typed("Namespaces", "integer", "Namespaces of the project.", 1),
    Column::typed("Locked", "boolean", "Whether an operator has locked the project.", 1),
    Column::string("Reason", "Why the project is in its phase.", 1),
    Column::string("Message", "Details of the phase.", 1),
];

/// The fields that refusals name.
pub static REFUSED: RefusedKind = RefusedKind {
    gvk,
    resource: group_resource,
    scope: "spec.parentProjectName",
    domain: "spec.hard",
    place: "metadata.name",
    amount: |cluster, key| Path::new("spec").child("clusters").key(cluster).child("hard").key(key),
};

/// Projects: validated against the member clusters; their hard limits are charged to their parent.
#[derive(Clone, Debug)]
pub struct ProjectStrategy {
    clusters: Clusters,
    allocations: Allocations,
    roles: Roles,
    finalizers: TenantFinalizers,
    reservations: PeopleReservations,
}

impl ProjectStrategy {
    /// `roles` tell administrators from members.
    pub fn new(
        clusters: Clusters,
        allocations: Allocations,
        roles: Roles,
        finalizers: TenantFinalizers,
    ) -> Self {
        Self { clusters, allocations, roles, finalizers, reservations: PeopleReservations::default() }
    }

    /// Enforces the limit on the people that the tenant lists.
    fn check_people(&self, old: Option<&Object>, object: &Object) -> Result<Option<PeopleIncrease>, Status> {
        people_limit::check(&self.roles, &group_resource(), object.text(TENANT), old, object)
    }

    /// Errors for clusters that are named for the first time and that the tenant may not use.
    fn check_clusters(
        &self,
        cx: &WriteContext<'_>,
        old: Option<&ProjectSpec>,
        spec: &ProjectSpec,
    ) -> FieldErrors {
        let path = Path::new("spec").child("clusters");
        newly_named_clusters(old, spec)
            .filter_map(|cluster| {
                check_cluster(cx, &self.clusters, &path.key(cluster), cluster, &spec.tenant_id)
            })
            .collect()
    }

    /// Reads the newest clusters if the tenant may not use one that is named for the first time, as far as is known
    /// here.
    async fn refresh_clusters(
        &self,
        view: View<'_>,
        before: Option<&ProjectSpec>,
        spec: &ProjectSpec,
    ) -> Result<(), Status> {
        let listed: BTreeSet<&String> =
            before.into_iter().flat_map(|before| &before.access).map(|entry| &entry.cluster).collect();
        let accounts = spec.access.iter().map(|entry| &entry.cluster);
        let names: Vec<&str> = newly_named_clusters(before, spec)
            .chain(accounts.filter(|cluster| !listed.contains(cluster)))
            .map(String::as_str)
            .collect();
        self.clusters.refresh_unless_allowed(view, &names, &spec.tenant_id).await.map(drop)
    }

    /// Refuses service accounts of newly named clusters that the tenant may not use. They would be bound nowhere, and
    /// would block tenants who may use the cluster.
    fn check_account_clusters(
        &self,
        cx: &WriteContext<'_>,
        object: &Object,
        new: &[(usize, String)],
    ) -> Result<(), Status> {
        if new.is_empty() {
            return Ok(());
        }
        self.clusters.check_synced()?;
        let path = Path::new("spec").child("access");
        let errors: FieldErrors = new
            .iter()
            .filter_map(|(index, cluster)| {
                let at = path.index(*index).child("cluster");
                check_cluster(cx, &self.clusters, &at, cluster, object.text(TENANT))
            })
            .collect();
        if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&gvk(), object.name(), &errors)) }
    }

    /// Refuses clusters that come from the tenant's defaults and that the tenant may not use.
    fn check_defaults(&self, object: &Object, spec: &ProjectSpec) -> Result<(), Status> {
        self.clusters.check_synced()?;
        let path = Path::new("spec").child("clusters");
        let why = "it comes from spec.defaults of the tenant, which cannot use it: name clusters yourself, or have an operator \
                   take it out there";
        let errors: FieldErrors = newly_named_clusters(None, spec)
            .filter(|cluster| !self.clusters.allows(cluster, &spec.tenant_id))
            .map(|cluster| FieldError::invalid(&path.key(cluster), &json!(cluster), why))
            .collect();
        if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&gvk(), object.name(), &errors)) }
    }

    fn prepare_main(&self, cx: &WriteContext<'_>, old: &Object, object: &mut Object) -> Result<(), Status> {
        check_annotations(cx, Some(old), object, &group_resource())?;
        set_tenant(cx, Some(old), object);
        let (before, after) = (spec_of(old)?, spec_of(object)?);
        // What the parent gives is changed by its administrators only.
        let is_same = before.clusters == after.clusters
            && before.template == after.template
            && before.parent_project_name == after.parent_project_name;
        if !is_same {
            for parent in BTreeSet::from([&before.parent_project_name, &after.parent_project_name]) {
                self.check_parent(cx, object, parent)?;
            }
        }
        Ok(())
    }

    /// Refuses growth in a cluster that is cordoned or being deleted.
    fn check_growth(&self, old: Option<&Object>, object: &Object, spec: &ProjectSpec) -> Result<(), Status> {
        // The accounts, for which both states are decoded, matter only in a closed cluster.
        if !spec.clusters.keys().any(|cluster| self.clusters.is_closed(cluster)) {
            return Ok(());
        }
        let before = old.map(|old| self.account(old)).transpose()?;
        self.clusters.check_growth(ClusterGrowth {
            before: before.as_ref(),
            after: &self.account(object)?,
            resource: &group_resource(),
            name: object.name(),
        })
    }

    /// Only who has the role admin in the parent may change a project's budget.
    fn check_parent(&self, cx: &WriteContext<'_>, object: &Object, parent: &str) -> Result<(), Status> {
        let refused = |why: &str| Status::forbidden(&group_resource(), object.name(), why);
        if !parent.is_empty() {
            return check_role(cx, &self.roles, Role::Admin, parent, refused);
        }
        if cx.sees_everything() || is_tenant_administrator(cx, object.text(TENANT)) {
            return Ok(());
        }
        Err(refused("projects without a parent are for administrators of the tenant"))
    }

    /// Sets the tenant of a new root project. A caller who administers several tenants has to name one.
    fn choose_tenant(cx: &WriteContext<'_>, object: &mut Object, requested: &str) -> Result<(), Status> {
        if cx.sees_everything() || cx.tenant().is_some() {
            return Ok(());
        }
        let ruled: Vec<&str> = administered_tenants(cx).collect();
        let chosen = match ruled.as_slice() {
            [] => return Ok(()),
            [one] if requested.is_empty() => *one,
            several => {
                let Some(tenant) = several.iter().find(|tenant| **tenant == requested) else {
                    let path = Path::new("spec").child("tenantID");
                    let error = FieldError::not_supported(&path, &json!(requested), several);
                    return Err(Status::invalid(&gvk(), object.name(), &vec![error]));
                };
                *tenant
            }
        };
        object.set(TENANT, json!(chosen));
        Ok(())
    }
}

fn spec_of(object: &Object) -> Result<ProjectSpec, Status> {
    ProjectSpec::of(object).map_err(internal_decode_error)
}

/// The clusters of service accounts that are named for the first time, with the indices of their entries.
fn new_account_clusters(
    before: Option<&ProjectSpec>,
    object: &Object,
) -> Result<Vec<(usize, String)>, Status> {
    let known: BTreeSet<&String> = before
        .into_iter()
        .flat_map(|before| before.clusters.keys().chain(before.access.iter().map(|entry| &entry.cluster)))
        .collect();
    let entries = spec_of(object)?.access.into_iter().map(|entry| entry.cluster).enumerate();
    Ok(entries.filter(|(_, cluster)| !cluster.is_empty() && !known.contains(cluster)).collect())
}

/// Refuses to raise the limits of a locked project. That its children do not grow is checked by the ledger.
fn check_not_locked(name: &str, before: &Account, after: &Account) -> Result<(), Status> {
    if !before.locked || !Grants::is_raised(before.grants.as_ref(), after.grants.as_ref()) {
        return Ok(());
    }
    let why = format!("project {name:?} has been locked by an operator: it does not grow");
    let cause = StatusCause {
        reason: PROJECT_LOCKED.to_owned(),
        message: format!("project={name}"),
        field: CLUSTERS.to_owned(),
    };
    Err(Status::forbidden(&group_resource(), name, &why).with_causes(vec![cause]))
}

fn newly_named_clusters<'a>(
    old: Option<&'a ProjectSpec>,
    spec: &'a ProjectSpec,
) -> impl Iterator<Item = &'a String> {
    let named = clusters(spec).map(|(name, _)| name);
    named.filter(move |cluster| old.is_none_or(|old| !old.clusters.contains_key(*cluster)))
}

/// Whether the new limits allow more than the old ones. An absent key is unlimited, and so is an absent registry; an
/// absent cluster cannot be used.
fn raises_limits(old: &ProjectSpec, new: &ProjectSpec) -> bool {
    let exceeds = |after: Option<&HardQuantity>, before: &HardQuantity| {
        let reaches = |key: &String| after.and_then(|after| after.hard.get(key));
        before.hard.iter().any(|(key, limit)| reaches(key).is_none_or(|hard| hard > limit))
    };
    let registry = old.clusters.get(REGISTRY_DOMAIN);
    registry.is_some_and(|before| exceeds(new.clusters.get(REGISTRY_DOMAIN), before))
        || clusters(new).any(|(cluster, quota)| match old.clusters.get(cluster) {
            None => true,
            Some(before) => exceeds(Some(quota), before),
        })
}

/// The quota on clusters, without the registry.
fn clusters(spec: &ProjectSpec) -> impl Iterator<Item = (&String, &HardQuantity)> {
    spec.clusters.iter().filter(|(name, _)| *name != REGISTRY_DOMAIN)
}

impl Strategy for ProjectStrategy {
    fn parent(&self, object: &Object) -> Option<Key> {
        project_key(object.text(PARENT))
    }

    fn parent_missing(&self, object: &Object, parent: &Key) -> Option<Status> {
        let subject = RefusedObject { name: object.name(), kind: &REFUSED, holds: None };
        let missing = Violation::ScopeMissing { scope: Scope::new(account::PROJECT, &*parent.name) };
        Some(refusal::status(subject, &[missing], &self.allocations))
    }

    fn prepare_create(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        check_annotations(cx, None, object, &group_resource())?;
        let (requested, parent) = (object.text(TENANT).to_owned(), object.text(PARENT).to_owned());
        set_tenant(cx, None, object);
        if parent.is_empty() {
            Self::choose_tenant(cx, object, &requested)?;
        }
        self.check_parent(cx, object, &parent)?;
        add_finalizer(object, names::PROJECT_FINALIZER);
        if object.name().is_empty() && object.text(&["metadata", "generateName"]).is_empty() {
            object.set(&["metadata", "generateName"], json!(names::PROJECT_NAME_PREFIX));
        }
        object.set(&["status", "phase"], json!("Pending"));
        object.set(super::OBSERVED_GENERATION, json!(0));
        Ok(())
    }

    fn validate_create(&self, cx: &mut WriteContext<'_>, object: &Object) -> FieldErrors {
        let spec = match ProjectSpec::of(object) {
            Ok(spec) => spec,
            Err(error) => return decode_field_error(object, "spec", &error),
        };
        let mut errors = validation::project(object.name(), &spec);
        errors.extend(self.check_clusters(cx, None, &spec));
        if !cx.sees_everything() {
            errors.extend(self.finalizers.check_new(object, names::PROJECT_FINALIZER));
        }
        errors
    }

    fn prepare_update(
        &self,
        cx: &mut WriteContext<'_>,
        old: &Object,
        object: &mut Object,
    ) -> Result<(), Status> {
        match cx.endpoint {
            ObjectEndpoint::STATUS => {
                if !cx.sees_everything() {
                    object.copy_from(old, LOCKED);
                }
                if old.is_deleting() {
                    object.set(&["status", "phase"], json!("Terminating"));
                }
                Ok(())
            }
            ObjectEndpoint::FINALIZE
                if removes_finalizer(old, object, names::PROJECT_FINALIZER) && !old.is_deleting() =>
            {
                let why = "the finalizer \"project\" stays until the project is deleted";
                Err(Status::conflict(&group_resource(), old.name(), why))
            }
            ObjectEndpoint::FINALIZE => Ok(()),
            ObjectEndpoint::Main | ObjectEndpoint::Subresource(_) => self.prepare_main(cx, old, object),
        }
    }

    fn admit<'a>(
        &'a self,
        cx: &'a mut WriteContext<'_>,
        view: View<'a>,
        old: Option<&'a Object>,
        object: &'a mut Object,
    ) -> Option<BoxFuture<'a, Result<(), Status>>> {
        if cx.endpoint != ObjectEndpoint::Main {
            return inherit_tenant(view, self.parent(object), object);
        }
        Some(Box::pin(async move {
            check_template(view, &gvk(), object, newly_named_template(old, object)).await?;
            ensure_tenant(view, self.parent(object), object).await?;
            let before = old.map(spec_of).transpose()?;
            // Before the defaults are filled in: only operators can name clusters there.
            let account_clusters = new_account_clusters(before.as_ref(), object)?;
            let has_default_clusters = tenant_policy::admit(view, before.as_ref(), object).await?;
            let spec = spec_of(object)?;
            self.refresh_clusters(view, before.as_ref(), &spec).await?;
            self.check_account_clusters(cx, object, &account_clusters)?;
            if has_default_clusters {
                self.check_defaults(object, &spec)?;
            }
            if newly_named_clusters(before.as_ref(), &spec).next().is_some() {
                self.clusters.check_synced()?;
            }
            self.check_growth(old, object, &spec)?;
            let tenant = object.text(TENANT);
            cx.warnings.extend(service_accounts::warnings(view, &self.clusters, tenant, old, object).await?);
            self.check_people(old, object).map(drop)
        }))
    }

    fn validate_update(&self, cx: &mut WriteContext<'_>, old: &Object, object: &Object) -> FieldErrors {
        match cx.endpoint {
            ObjectEndpoint::FINALIZE if !cx.sees_everything() => {
                finalizers::check_removal(old, object, names::PROJECT_FINALIZER)
            }
            ObjectEndpoint::FINALIZE => FieldErrors::new(),
            ObjectEndpoint::STATUS => match ProjectStatus::of(object) {
                Ok(status) => validation::project_status(object, &status),
                Err(error) => {
                    let phase = validation::phase(object, &business_types::ProjectPhase::NAMES);
                    or_decode_field_error(phase, object, "status", &error)
                }
            },
            ObjectEndpoint::Main | ObjectEndpoint::Subresource(_) => {
                let (before, spec) = match read_both(old, object, "spec", ProjectSpec::of) {
                    Ok(specs) => specs,
                    Err(errors) => return errors,
                };
                if old.is_deleting() && spec != before {
                    let why = "the project is being deleted: its spec cannot change";
                    return vec![FieldError::forbidden(&Path::new("spec"), why)];
                }
                let mut errors = validation::project_immutable_fields(&before, &spec);
                errors.extend(validation::project_changed(&before, object.name(), &spec));
                errors.extend(self.check_clusters(cx, Some(&before), &spec));
                errors
            }
        }
    }

    fn check_update(&self, _cx: &WriteContext<'_>, old: &Object, new: &Object) -> Result<(), Status> {
        check_not_locked(new.name(), &self.account(old)?, &self.account(new)?)
    }

    fn extra_right(&self, cx: &WriteContext<'_>, old: Option<&Object>, new: &Object) -> Option<ExtraRight> {
        let spec = ProjectSpec::of(new).ok().filter(|spec| spec.parent_project_name.is_empty())?;
        let old = old.and_then(|old| ProjectSpec::of(old).ok());
        let why = match &old {
            _ if cx.endpoint != ObjectEndpoint::Main => return None,
            None => "a project without a parent takes its budget from nobody",
            Some(old) if !old.parent_project_name.is_empty() => {
                "a project that leaves its parent keeps its budget"
            }
            Some(old) if raises_limits(old, &spec) => "a project without a parent raises its own budget",
            Some(_) => return None,
        };
        // Where its tenant has a ceiling, a root project takes its budget from the ceiling and needs no grant. A new
        // one that does not name the registry is not limited there, so one that names it takes nothing.
        let within = (!spec.tenant_id.is_empty()).then(|| {
            let before = old.iter().flat_map(|old| old.clusters.keys());
            let named = spec.clusters.keys().filter(|domain| old.is_some() || *domain != REGISTRY_DOMAIN);
            named.chain(before).cloned().collect::<BTreeSet<_>>().into_iter().collect()
        });
        Some(ExtraRight {
            verb: GRANT,
            why: format!("{why}: this needs the verb {GRANT:?} on projects"),
            within,
        })
    }

    fn prepare_delete(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        begin_deletion(cx, object);
        Ok(())
    }

    fn waits_for(&self, object: &Object) -> Option<String> {
        deletion_pending_message(object, "project")
    }

    fn account(&self, object: &Object) -> Result<Account, Status> {
        account::of::<ChargedProject>(object).map_err(internal_decode_error)
    }

    fn reserve(&self, cx: &WriteContext<'_>, old: Option<&Object>, new: &Object) -> Result<(), Status> {
        if cx.endpoint != ObjectEndpoint::Main || cx.dry_run {
            return Ok(());
        }
        match self.check_people(old, new)? {
            Some(increase) => self.reservations.reserve(&self.roles, new.text(TENANT), new, &increase),
            None => Ok(()),
        }
    }

    fn growth_warnings(&self, before: Option<&Account>, after: &Account) -> Vec<String> {
        self.allocations.warnings(before, after)
    }

    fn refusal(&self, cx: &WriteContext<'_>, object: &Object, violations: &[Violation]) -> Status {
        if !cx.dry_run {
            self.reservations.release(object.text(TENANT), object.name());
        }
        let own = Scope::new(account::PROJECT, object.name());
        let holds = (!cx.sees_everything()).then_some(&own);
        let subject = RefusedObject { name: object.name(), kind: &REFUSED, holds };
        refusal::status(subject, violations, &self.allocations)
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn cells(&self, object: &Object, _now_unix_seconds: i64) -> Vec<Value> {
        let (Ok(spec), Ok(status)) = (ProjectSpec::of(object), ProjectStatus::of(object)) else {
            return vec![Value::Null; COLUMNS.len()];
        };
        let clusters: Vec<&str> = clusters(&spec).map(|(name, _)| name.as_str()).collect();
        vec![
            text_or_dash(status.phase.as_str()),
            text_or_dash(ready_status(&status.conditions)),
            text_or_dash(&spec.tenant_id),
            text_or_dash(&spec.parent_project_name),
            text_or_dash(&clusters.join(",")),
            json!(format_usage_by_cluster(&spec.clusters, &status.clusters, |clusters| clusters > 1)),
            text_or_dash(&spec.display_name),
            json!(status.calculated_child_projects.len()),
            json!(status.calculated_namespaces.len()),
            json!(status.locked.unwrap_or_default()),
            text_or_dash(&status.reason),
            text_or_dash(&status.message),
        ]
    }
}
