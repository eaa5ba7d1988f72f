/// The subresource that issues a client certificate for the namespace's cluster.
pub mod certificate;
/// A project and all projects above it.
pub mod lineage;
/// The subresource that issues passwords to pull from the registry.
pub mod pull_credential;
/// The subresource that moves a namespace to another project.
pub mod transfer;

use super::{
    TENANT, abandon_reason, add_finalizer, begin_deletion, check_annotations, check_cluster,
    decode_field_error, deletion_pending_message, ensure_tenant, format_usage, inherit_tenant,
    internal_decode_error, or_decode_field_error, project_key, read_both, ready_status, removes_finalizer,
    resource_list_json, set_tenant, text_or_dash,
};
use crate::allocations::Allocations;
use crate::clusters::{ClusterGrowth, Clusters, HostMatch};
use crate::finalizers::{self, TenantFinalizers};
use crate::refusal::{self, RefusedKind, RefusedObject};
use crate::role_bindings::AccountListing;
use crate::roles::Roles;
use apiserver::resource::Column;
use apiserver::strategy::{Strategy, WriteContext};
use apiserver::subresource::FieldPath;
use apiserver::{ObjectEndpoint, View};
use business_types::account;
use business_types::charge::{self, Confirmation, ConfirmationTarget};
use business_types::namespace::group_resource;
use business_types::refusal::BELOW_USED;
use business_types::{
    ChargedNamespace, NamespaceSpec, NamespaceStatus, Provenance, names, resources, validation,
};
use futures_util::future::BoxFuture;
use meta::field::{FieldError, FieldErrors, Path};
use meta::object::Object;
use meta::quantity::ResourceList;
use meta::status::Status;
use meta::validation::NameRule;
use serde_json::{Value, json};
use store::Key;
use store::quota::{Account, HoldChange, HoldState, Scope, Violation};

const CACHED_SPEC_HARD: &[&str] = &["status", "cachedSpecHard"];
const CLUSTER_NAME: &[&str] = &["spec", "clusterName"];
/// The record of which namespace of the cluster belongs to the object.
const CLUSTER_NAMESPACE: &[&str] = &["status", "clusterNamespace"];
/// The facts about the cluster, which the server sets, whatever a client sends.
pub const SERVER_FIELDS: &[FieldPath] =
    &[&["spec", "clusterType"], &["spec", "clusterVersion"], &["spec", "clusterDisplayName"]];
/// The reason of the hold that keeps the charge of a released namespace.
const RELEASED_REASON: &str =
    "the namespace was adopted and stays in its cluster; it counts until it is unused";
/// The reason of the hold of an abandoned charge whose object does not say the operator's reason any more.
const UNCONFIRMED_REASON: &str = "nobody has confirmed that the cluster's namespace is gone";
/// The most resources that may be charged: those in the spec, and as many again whose reduction the cluster has not
/// confirmed.
const CHARGED_MAX: usize = 2 * validation::RESOURCES_MAX;
/// The `generateName` of a namespace whose name cannot be derived from its spec.
const NAME_PREFIX: &str = "ns";

/// Columns of `kubectl get`.
pub const COLUMNS: &[Column] = &[
    Column::string("Cluster", "Name of the member cluster that the namespace lives in.", 0),
    Column::string("Namespace", "Name of the namespace in the member cluster.", 0),
    Column::string("Phase", "Where in its life the namespace is.", 0),
    Column::string("Ready", "Whether everything is as spec asks for.", 0),
    Column::string("Used/Hard", "What is consumed in the cluster, of what is granted, by resource.", 0),
    Column::string(
        "Charged",
        "What is charged to the project: the highest grant not yet confirmed lower.",
        1,
    ),
    Column::string("Tenant", "The tenant that owns the namespace.", 1),
    Column::string("Reason", "Why the namespace is in its phase.", 1),
    Column::string("Message", "Details of the phase.", 1),
];

/// The fields that refusals name.
pub static REFUSED: RefusedKind = RefusedKind {
    gvk: business_types::namespace::gvk,
    resource: group_resource,
    scope: "metadata.namespace",
    domain: "metadata.namespace",
    place: "spec.namespace",
    amount: |_cluster, key| Path::new("spec").child("hard").key(key),
};

/// Namespaces: validated against the member clusters, charged to their project by a high-water mark.
#[derive(Clone, Debug)]
pub struct NamespaceStrategy {
    clusters: Clusters,
    allocations: Allocations,
    roles: Roles,
    forbidden: Vec<String>,
    finalizers: TenantFinalizers,
}

/// A decoded namespace.
struct TypedNamespace {
    spec: NamespaceSpec,
    status: NamespaceStatus,
}

impl TypedNamespace {
    fn of(object: &Object) -> Result<Self, Status> {
        let spec = NamespaceSpec::of(object).map_err(internal_decode_error)?;
        let status = NamespaceStatus::of(object).map_err(internal_decode_error)?;
        Ok(Self { spec, status })
    }

    /// The charge, in the namespace's cluster.
    fn charged(&self) -> &ResourceList {
        self.status.charged(&self.spec)
    }

    /// Whether the namespace in the cluster was adopted and stays there. Then a hold keeps the charge when the object
    /// goes.
    fn is_released(&self) -> bool {
        let record = self.status.cluster_namespace.as_ref();
        record.is_some_and(|record| record.provenance == Provenance::Released)
    }
}

/// A list of another tenant that names service accounts of a namespace.
struct ForeignListing {
    listing: AccountListing,
    /// If they are the host cluster's: whether the namespace is there.
    host: HostMatch,
}

impl NamespaceStrategy {
    /// `roles` know which service accounts tenants list. `forbidden`: names in a member cluster that no namespace may
    /// claim; a trailing `*` matches any ending.
    pub fn new(
        clusters: Clusters,
        allocations: Allocations,
        roles: Roles,
        forbidden: Vec<String>,
        finalizers: TenantFinalizers,
    ) -> Self {
        Self { clusters, allocations, roles, forbidden, finalizers }
    }

    /// Whoever claims a namespace can create its service accounts. If another tenant lists one of them, he would get
    /// its roles. Tenants are refused, and operators get a warning.
    fn check_service_accounts(&self, cx: &mut WriteContext<'_>, spec: &NamespaceSpec) -> Option<FieldError> {
        let ForeignListing { listing, host } = self.foreign_listing(spec)?;
        let name = "lists of people outside this tenant name service accounts of a namespace of this name";
        let (why, gets) = match host {
            HostMatch::Host | HostMatch::Other => (format!("{name} there"), "gets"),
            HostMatch::Unknown => {
                let why = format!(
                    "{name} in the host cluster, and it is not known whether cluster {} is that: kube-system of \
                     the host cluster cannot be read, and the annotation {} of the MemberCluster does not say it",
                    spec.cluster_name,
                    names::HOST_CLUSTER_ANNOTATION
                );
                (why, "may get")
            }
        };
        if cx.sees_everything() {
            let AccountListing { tenant, object, .. } = listing;
            let who = format!("one is that of {object} in tenant {tenant}");
            cx.warnings.push(format!("spec.namespace: {why} ({who}): this tenant {gets} their roles"));
            return None;
        }
        let why = format!("{why}: an operator can make it");
        Some(FieldError::invalid(&Path::new("spec").child("namespace"), &json!(spec.namespace), &why))
    }

    /// A list of another tenant that grants roles to service accounts of this namespace. In a member cluster a list
    /// counts only if its tenant may use the cluster, or its object uses it from before.
    fn foreign_listing(&self, spec: &NamespaceSpec) -> Option<ForeignListing> {
        let NamespaceSpec { tenant_id, cluster_name, namespace, .. } = spec;
        let lists = |cluster: &str| self.roles.foreign_account_listings(tenant_id, cluster, namespace);
        let gives = |listing: &AccountListing| {
            listing.uses_cluster || self.clusters.allows(cluster_name, &listing.tenant)
        };
        if let Some(listing) = lists(cluster_name).into_iter().find(gives) {
            return Some(ForeignListing { listing, host: HostMatch::Other });
        }
        let host = self.clusters.host_match(cluster_name);
        let listing = lists("").into_iter().next().filter(|_| host != HostMatch::Other)?;
        Some(ForeignListing { listing, host })
    }

    /// Copies the facts about the cluster into the object. Those of an unknown cluster stay as they are.
    fn set_cluster_facts(&self, object: &mut Object) {
        let Some(cluster) = self.clusters.get(object.text(CLUSTER_NAME)) else { return };
        let texts = [&cluster.cluster_type, &cluster.version, &cluster.display_name];
        for (field, text) in SERVER_FIELDS.iter().zip(texts) {
            object.set(field, json!(text));
        }
    }

    /// Refuses growth in a cluster that is cordoned or being deleted.
    fn check_growth(&self, old: Option<&Object>, object: &Object) -> Result<(), Status> {
        // A namespace costs something in one cluster only. Where that is open, its account need not be decoded.
        if !self.clusters.is_closed(object.text(CLUSTER_NAME)) {
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

    /// Only a confirmation lowers the charge; nothing else in a status changes it.
    fn prepare_status(cx: &WriteContext<'_>, old: &Object, object: &mut Object) -> Result<(), Status> {
        let before = TypedNamespace::of(old)?;
        object.remove(certificate::CERTIFICATE);
        pull_credential::keep_unless_removed(old, object);
        if old.is_deleting() {
            object.set(&["status", "phase"], json!("Terminating"));
        }
        // The record identifies the namespace of the cluster by uid. It may be replaced, and is never removed.
        if object.get(CLUSTER_NAMESPACE).is_none() {
            object.copy_from(old, CLUSTER_NAMESPACE);
        }
        let proposed: Option<ResourceList> =
            object.decode(CACHED_SPEC_HARD).map_err(internal_decode_error)?;
        let observed = object.get(&["status", "observedGeneration"]).and_then(Value::as_i64);
        let confirmation = Confirmation {
            proposed: proposed.as_ref(),
            versioned: cx.versioned,
            observed_generation: observed,
        };
        let current = ConfirmationTarget {
            mark: before.charged(),
            hard: &before.spec.hard,
            generation: old.generation(),
            deleting: old.is_deleting(),
        };
        let mark = charge::confirm(current, confirmation)
            .map_err(|error| Status::conflict(&group_resource(), old.name(), &error.to_string()))?;
        object.set(CACHED_SPEC_HARD, resource_list_json(&mark));
        Ok(())
    }

    /// Our finalizer is removed when nothing is charged any more, or when an operator has abandoned the charge.
    fn prepare_finalize(cx: &WriteContext<'_>, old: &Object, object: &Object) -> Result<(), Status> {
        if !removes_finalizer(old, object, names::NAMESPACE_FINALIZER) {
            return Ok(());
        }
        let conflict = |why: &str| Status::conflict(&group_resource(), old.name(), why);
        if !old.is_deleting() {
            return Err(conflict("the finalizer \"namespace\" stays until the namespace is deleted"));
        }
        let before = TypedNamespace::of(old)?;
        if before.charged().is_empty() || before.is_released() {
            return Ok(());
        }
        match abandon_reason(old) {
            Some(reason) if cx.sees_everything() => {
                let (project, name) = (old.namespace(), old.name());
                tracing::warn!(
                    audit = true,
                    user = cx.caller.name,
                    project,
                    name,
                    reason,
                    "charge is abandoned"
                );
                Ok(())
            }
            _ => Err(conflict(
                "the namespace is still charged to its project: status.cachedSpecHard is empty once the cluster's \
                 namespace is seen gone",
            )),
        }
    }
}

impl Strategy for NamespaceStrategy {
    fn parent(&self, object: &Object) -> Option<Key> {
        project_key(object.namespace())
    }

    fn parent_missing(&self, object: &Object, parent: &Key) -> Option<Status> {
        let scope = Scope::new(account::PROJECT, &*parent.name);
        let subject = RefusedObject { name: object.name(), kind: &REFUSED, holds: Some(&scope) };
        let missing = Violation::ScopeMissing { scope: scope.clone() };
        Some(refusal::status(subject, &[missing], &self.allocations))
    }

    fn prepare_create(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        check_annotations(cx, None, object, &group_resource())?;
        set_tenant(cx, None, object);
        add_finalizer(object, names::NAMESPACE_FINALIZER);
        for field in SERVER_FIELDS {
            object.set(field, json!(""));
        }
        self.set_cluster_facts(object);
        let spec = NamespaceSpec::of(object).map_err(internal_decode_error)?;
        if object.name().is_empty() {
            if let Some(name) = names::derived_name(&spec.cluster_name, &spec.namespace) {
                object.set(&["metadata", "name"], json!(name));
                object.remove(&["metadata", "generateName"]);
            } else if object.text(&["metadata", "generateName"]).is_empty() {
                object.set(&["metadata", "generateName"], json!(NAME_PREFIX));
            }
        }
        object.set(&["status", "phase"], json!("Pending"));
        object.set(super::OBSERVED_GENERATION, json!(0));
        object.set(CACHED_SPEC_HARD, resource_list_json(&spec.hard));
        cx.warnings.extend(uncounted_warnings(&ResourceList::new(), &spec.hard));
        if !cx.sees_everything() {
            self.roles.check_synced()?;
        }
        self.clusters.check_synced()
    }

    fn validate_create(&self, cx: &mut WriteContext<'_>, object: &Object) -> FieldErrors {
        let spec = match NamespaceSpec::of(object) {
            Ok(spec) => spec,
            Err(error) => return decode_field_error(object, "spec", &error),
        };
        let mut errors = validation::namespace(&spec, &self.forbidden);
        if !spec.cluster_name.is_empty() {
            let path = Path::new("spec").child("clusterName");
            errors.extend(check_cluster(cx, &self.clusters, &path, &spec.cluster_name, &spec.tenant_id));
        }
        errors.extend(self.check_service_accounts(cx, &spec));
        if !cx.sees_everything() {
            errors.extend(self.finalizers.check_new(object, names::NAMESPACE_FINALIZER));
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
                self.set_cluster_facts(object);
                return Self::prepare_status(cx, old, object);
            }
            ObjectEndpoint::FINALIZE => return Self::prepare_finalize(cx, old, object),
            ObjectEndpoint::Main | ObjectEndpoint::Subresource(_) => {}
        }
        check_annotations(cx, Some(old), object, &group_resource())?;
        set_tenant(cx, Some(old), object);
        // The spec of an object that is being deleted is frozen, so it raises nothing.
        if !old.is_deleting() {
            let hard = NamespaceSpec::of(object).map_err(internal_decode_error)?.hard;
            let before = NamespaceSpec::of(old).map_err(internal_decode_error)?.hard;
            // All that is needed of the status, which may have many conditions and amounts.
            let mark: Option<ResourceList> = old.decode(CACHED_SPEC_HARD).map_err(internal_decode_error)?;
            let raised = charge::raise(mark.as_ref().unwrap_or(&before), &hard);
            object.set(CACHED_SPEC_HARD, resource_list_json(&raised));
            cx.warnings.extend(uncounted_warnings(&before, &hard));
        }
        self.check_growth(Some(old), object)
    }

    fn admit<'a>(
        &'a self,
        _cx: &'a mut WriteContext<'_>,
        view: View<'a>,
        old: Option<&'a Object>,
        object: &'a mut Object,
    ) -> Option<BoxFuture<'a, Result<(), Status>>> {
        if old.is_some() {
            return inherit_tenant(view, self.parent(object), object);
        }
        Some(Box::pin(async move {
            ensure_tenant(view, self.parent(object), object).await?;
            // Which clusters it may use depends on its tenant, which is known only now.
            let (cluster, tenant) = (object.text(CLUSTER_NAME), object.text(TENANT));
            if self.clusters.refresh_unless_allowed(view, &[cluster], tenant).await? {
                self.set_cluster_facts(object);
            }
            self.check_growth(None, object)
        }))
    }

    fn validate_update(&self, cx: &mut WriteContext<'_>, old: &Object, object: &Object) -> FieldErrors {
        match cx.endpoint {
            ObjectEndpoint::FINALIZE if !cx.sees_everything() => {
                finalizers::check_removal(old, object, names::NAMESPACE_FINALIZER)
            }
            ObjectEndpoint::FINALIZE => FieldErrors::new(),
            ObjectEndpoint::STATUS => match (NamespaceStatus::of(old), NamespaceStatus::of(object)) {
                (Ok(before), Ok(status)) => validation::namespace_status(object, &before, &status),
                (_, Err(error)) => {
                    let names = validation::unreadable_namespace_status(object);
                    or_decode_field_error(names, object, "status", &error)
                }
                (Err(error), _) => decode_field_error(old, "status", &error),
            },
            ObjectEndpoint::Main | ObjectEndpoint::Subresource(_) => {
                let (before, spec) = match read_both(old, object, "spec", NamespaceSpec::of) {
                    Ok(specs) => specs,
                    Err(errors) => return errors,
                };
                if old.is_deleting() && spec != before {
                    let why = "the namespace is being deleted: its spec cannot change";
                    return vec![FieldError::forbidden(&Path::new("spec"), why)];
                }
                validation::namespace_update(&before, &spec)
            }
        }
    }

    fn prepare_delete(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        begin_deletion(cx, object);
        Ok(())
    }

    fn waits_for(&self, object: &Object) -> Option<String> {
        deletion_pending_message(object, "namespace")
    }

    fn check_update(&self, cx: &WriteContext<'_>, old: &Object, new: &Object) -> Result<(), Status> {
        if cx.endpoint != ObjectEndpoint::Main {
            return Ok(());
        }
        let (before, after) = (TypedNamespace::of(old)?, TypedNamespace::of(new)?);
        check_charged_resources(&before, &after, new.name())?;
        check_not_below_used(&before, &after, new.name())
    }

    fn account(&self, object: &Object) -> Result<Account, Status> {
        account::of::<ChargedNamespace>(object).map_err(internal_decode_error)
    }

    /// Our finalizer leaves a charge only if an operator has abandoned it. Another finalizer may keep the object for
    /// longer; whoever removes that one decides nothing about the charge.
    fn hold(&self, _cx: &WriteContext<'_>, old: &Object) -> Option<HoldChange> {
        let typed = TypedNamespace::of(old).ok().filter(|typed| !typed.charged().is_empty())?;
        if typed.is_released() {
            return Some(HoldChange { state: HoldState::Released, reason: RELEASED_REASON.to_owned() });
        }
        let reason = abandon_reason(old).unwrap_or(UNCONFIRMED_REASON).to_owned();
        Some(HoldChange { state: HoldState::Abandoned, reason })
    }

    fn growth_warnings(&self, before: Option<&Account>, after: &Account) -> Vec<String> {
        self.allocations.warnings(before, after)
    }

    fn refusal(&self, cx: &WriteContext<'_>, object: &Object, violations: &[Violation]) -> Status {
        let moves = cx.endpoint == ObjectEndpoint::Subresource(names::TRANSFER);
        let kind = if moves { &transfer::REFUSED } else { &REFUSED };
        let project = Scope::new(account::PROJECT, object.namespace());
        let holds = (!cx.sees_everything()).then_some(&project);
        refusal::status(RefusedObject { name: object.name(), kind, holds }, violations, &self.allocations)
    }

    fn cells(&self, object: &Object, _now_unix_seconds: i64) -> Vec<Value> {
        let (Ok(spec), Ok(status)) = (NamespaceSpec::of(object), NamespaceStatus::of(object)) else {
            return vec![json!("-"); COLUMNS.len()];
        };
        vec![
            text_or_dash(&spec.cluster_name),
            text_or_dash(&spec.namespace),
            text_or_dash(status.phase.as_str()),
            text_or_dash(ready_status(&status.conditions)),
            json!(format_usage(&status.used, &spec.hard)),
            text_or_dash(
                &status
                    .charged(&spec)
                    .iter()
                    .map(|(key, amount)| format!("{key}: {amount}"))
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
            text_or_dash(&spec.tenant_id),
            text_or_dash(&status.reason),
            text_or_dash(&status.message),
        ]
    }

    fn allows_list_create(&self) -> bool {
        true
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }
}

/// Warnings about new grants of resources that no cluster counts.
fn uncounted_warnings<'a>(
    before: &'a ResourceList,
    hard: &'a ResourceList,
) -> impl Iterator<Item = String> + 'a {
    let granted = hard.iter().filter(move |(resource, amount)| before.get(*resource) != Some(*amount));
    granted.filter(|(resource, _)| resources::is_never_counted(resource)).map(|(resource, _)| {
        let device = resource.strip_prefix("limits.").unwrap_or(resource);
        format!("no cluster counts {resource}: write requests.{device}")
    })
}

/// Bounds the number of charged resources. Each is a row in every batch with the namespace. A resource that left the
/// spec stays charged until the cluster has confirmed it, so new names with each write would add up.
fn check_charged_resources(
    before: &TypedNamespace,
    after: &TypedNamespace,
    name: &str,
) -> Result<(), Status> {
    let charged = after.charged().len();
    if charged <= CHARGED_MAX || charged <= before.charged().len() {
        return Ok(());
    }
    let why = format!(
        "{charged} resources would be charged, and at most {CHARGED_MAX} can be: so many that are not asked for any more \
         are still charged; wait until the cluster has confirmed that they are not"
    );
    Err(Status::forbidden(&group_resource(), name, &why))
}

/// Refuses to lower an amount below what was last seen in use.
fn check_not_below_used(before: &TypedNamespace, after: &TypedNamespace, name: &str) -> Result<(), Status> {
    let short: Vec<_> = after
        .spec
        .hard
        .iter()
        .filter_map(|(resource, hard)| {
            let used = before.status.used.get(resource)?;
            let lowered = before.spec.hard.get(resource).is_none_or(|granted| hard < granted);
            (lowered && hard < used).then_some((resource, hard, used))
        })
        .collect();
    if short.is_empty() {
        return Ok(());
    }
    let cluster = &after.spec.cluster_name;
    let texts: Vec<String> = short
        .iter()
        .map(|(resource, hard, used)| {
            format!(
                "{resource}={hard} is less than what is used on cluster {cluster:?}: {used}; the smallest that fits is \
                 {used}"
            )
        })
        .collect();
    let causes = short
        .iter()
        .map(|(resource, hard, used)| meta::status::StatusCause {
            reason: BELOW_USED.to_owned(),
            message: format!(
                "cluster={cluster} resource={resource} requested={hard} used={used} fits={used}"
            ),
            field: Path::new("spec").child("hard").key(resource).to_string(),
        })
        .collect();
    Err(Status::forbidden(&group_resource(), name, &texts.join("; ")).with_causes(causes))
}
