/// A certificate for the namespace's cluster.
pub mod certificate;
/// A project and those above it.
pub mod line;
/// The subresource that issues passwords to pull from the registry.
pub mod pull_credential;
/// The subresource that moves a namespace to another project.
pub mod transfer;

use super::{
    abandon_reason, add_finalizer, amounts_value, begin_deletion, cannot_be_read, check_annotations,
    check_cluster, dash, drops_finalizer, or_cannot_be_read, project_key, read_both, ready, set_tenant,
    shares, take_tenant, unreadable, waiting,
};
use crate::allocations::Allocations;
use crate::clusters::{ClusterGrowth, Clusters};
use crate::finalizers::{self, TenantFinalizers};
use crate::refusal::{self, RefusedKind, RefusedObject};
use crate::role_bindings::AccountListing;
use crate::roles::Roles;
use apiserver::resource::Column;
use apiserver::strategy::{Strategy, WriteContext};
use apiserver::subresource::FieldPath;
use apiserver::{Part, View};
use business_types::account;
use business_types::charge::{self, Confirmation, Confirmed};
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

const CHARGED: &[&str] = &["status", "cachedSpecHard"];
/// The record of the namespace in the cluster.
const RECORD: &[&str] = &["status", "clusterNamespace"];
/// The facts about the cluster, which the server sets, whatever a client sends.
pub const SERVER_FIELDS: &[FieldPath] =
    &[&["spec", "clusterType"], &["spec", "clusterVersion"], &["spec", "clusterDisplayName"]];
/// Why the charge of an adopted namespace goes on counting.
const RELEASED: &str = "the namespace was adopted and stays in its cluster; it counts until it is unused";
/// The most resources that may be charged: those that are asked for, and as many again whose reduction the cluster has
/// not confirmed.
const CHARGED_MAX: usize = 2 * validation::RESOURCES_MAX;
/// What a namespace's name is generated from when it can be derived from nothing.
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

/// An object read as its kind.
struct Typed {
    spec: NamespaceSpec,
    status: NamespaceStatus,
}

impl Typed {
    fn of(object: &Object) -> Result<Self, Status> {
        let spec = NamespaceSpec::of(object).map_err(unreadable)?;
        let status = NamespaceStatus::of(object).map_err(unreadable)?;
        Ok(Self { spec, status })
    }

    /// What is charged, in the only cluster where it can be charged.
    fn mark(&self) -> &ResourceList {
        self.status.charged(&self.spec)
    }

    /// Whether the namespace in the cluster was adopted and stays: the charge is held when the object goes.
    fn is_released(&self) -> bool {
        let record = self.status.cluster_namespace.as_ref();
        record.is_some_and(|record| record.provenance == Provenance::Released)
    }
}

impl NamespaceStrategy {
    /// `roles` tell whose service accounts tenants list. `forbidden`: names in a member cluster that no namespace may claim;
    /// a trailing `*` stands for any ending.
    pub fn new(
        clusters: Clusters,
        allocations: Allocations,
        roles: Roles,
        forbidden: Vec<String>,
        finalizers: TenantFinalizers,
    ) -> Self {
        Self { clusters, allocations, roles, forbidden, finalizers }
    }

    /// Whoever claims a namespace makes its service accounts. Where another tenant lists one of them, he would have its
    /// roles. Operators are told; they may know who relies on it.
    fn check_accounts(&self, cx: &mut WriteContext<'_>, spec: &NamespaceSpec) -> Option<FieldError> {
        let listing = self.other_listing(spec)?;
        let why =
            "lists of people outside this tenant name service accounts of a namespace of this name there";
        if cx.sees_everything() {
            let AccountListing { tenant, object, .. } = listing;
            let who = format!("one is that of {object} in tenant {tenant}");
            cx.warnings.push(format!("spec.namespace: {why} ({who}): this tenant gets their roles"));
            return None;
        }
        let why = format!("{why}: an operator can make it");
        Some(FieldError::invalid(&Path::new("spec").child("namespace"), &json!(spec.namespace), &why))
    }

    /// A list of another tenant that gives roles to service accounts of this namespace. In a member cluster it gives none
    /// to those of a tenant that may not use the cluster, and has nothing there from before.
    fn other_listing(&self, spec: &NamespaceSpec) -> Option<AccountListing> {
        let NamespaceSpec { tenant_id, cluster_name, namespace, .. } = spec;
        let lists = |cluster: &str| self.roles.foreign_account_listings(tenant_id, cluster, namespace);
        let gives = |listing: &AccountListing| {
            listing.uses_cluster || self.clusters.allows(cluster_name, &listing.tenant)
        };
        let there = lists(cluster_name).into_iter().find(gives);
        let may_be_host = self.clusters.may_be_host(cluster_name);
        there.or_else(|| may_be_host.then(|| lists("")).into_iter().flatten().next())
    }

    /// Copies what is known of the cluster into the object. The facts about a cluster that is not known any more stay.
    fn describe(&self, object: &mut Object) {
        let Some(cluster) = self.clusters.get(object.text(&["spec", "clusterName"])) else { return };
        let texts = [&cluster.cluster_type, &cluster.version, &cluster.display_name];
        for (field, text) in SERVER_FIELDS.iter().zip(texts) {
            object.set(field, json!(text));
        }
    }

    /// A cluster that is cordoned or going takes nothing more.
    fn check_growth(&self, old: Option<&Object>, object: &Object) -> Result<(), Status> {
        let before = old.map(|old| self.account(old)).transpose()?;
        self.clusters.check_growth(ClusterGrowth {
            before: before.as_ref(),
            after: &self.account(object)?,
            resource: &group_resource(),
            name: object.name(),
        })
    }

    /// A confirmation may lower what is charged; nothing else that a status says changes it.
    fn prepare_status(cx: &WriteContext<'_>, old: &Object, object: &mut Object) -> Result<(), Status> {
        let before = Typed::of(old)?;
        object.remove(certificate::CERTIFICATE);
        pull_credential::keep_or_take(old, object);
        if old.is_deleting() {
            object.set(&["status", "phase"], json!("Terminating"));
        }
        // The record says whose the namespace in the cluster is. It is replaced by another one, but never removed.
        if object.get(RECORD).is_none() {
            object.copy_from(old, RECORD);
        }
        let said: Option<ResourceList> = object.decode(CHARGED).map_err(unreadable)?;
        let observed = object.get(&["status", "observedGeneration"]).and_then(Value::as_i64);
        let said =
            Confirmation { proposed: said.as_ref(), versioned: cx.versioned, observed_generation: observed };
        let object_now = Confirmed {
            mark: before.mark(),
            hard: &before.spec.hard,
            generation: old.generation(),
            deleting: old.is_deleting(),
        };
        let mark = charge::confirm(object_now, said)
            .map_err(|error| Status::conflict(&group_resource(), old.name(), &error.to_string()))?;
        object.set(CHARGED, amounts_value(&mark));
        Ok(())
    }

    /// Our token goes when nothing is charged any more, or when an operator has given the charge up.
    fn prepare_finalize(cx: &WriteContext<'_>, old: &Object, object: &Object) -> Result<(), Status> {
        if !drops_finalizer(old, object, names::NAMESPACE_FINALIZER) {
            return Ok(());
        }
        let conflict = |why: &str| Status::conflict(&group_resource(), old.name(), why);
        if !old.is_deleting() {
            return Err(conflict("the finalizer \"namespace\" stays until the namespace is deleted"));
        }
        let before = Typed::of(old)?;
        if before.mark().is_empty() || before.is_released() {
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
        self.describe(object);
        let spec = NamespaceSpec::of(object).map_err(unreadable)?;
        if object.name().is_empty() {
            if let Some(name) = names::derived_name(&spec.cluster_name, &spec.namespace) {
                object.set(&["metadata", "name"], json!(name));
                object.remove(&["metadata", "generateName"]);
            } else if object.text(&["metadata", "generateName"]).is_empty() {
                object.set(&["metadata", "generateName"], json!(NAME_PREFIX));
            }
        }
        object.set(&["status", "phase"], json!("Pending"));
        object.set(super::OBSERVED, json!(0));
        object.set(CHARGED, amounts_value(&spec.hard));
        cx.warnings.extend(uncounted(&ResourceList::new(), &spec.hard));
        if !cx.sees_everything() {
            self.roles.check_synced()?;
        }
        self.clusters.check_synced()
    }

    fn validate_create(&self, cx: &mut WriteContext<'_>, object: &Object) -> FieldErrors {
        let spec = match NamespaceSpec::of(object) {
            Ok(spec) => spec,
            Err(error) => return cannot_be_read(object, "spec", &error),
        };
        let mut errors = validation::namespace(&spec, &self.forbidden);
        if !spec.cluster_name.is_empty() {
            let path = Path::new("spec").child("clusterName");
            errors.extend(check_cluster(cx, &self.clusters, &path, &spec.cluster_name, &spec.tenant_id));
        }
        errors.extend(self.check_accounts(cx, &spec));
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
        match cx.part {
            Part::STATUS => {
                self.describe(object);
                return Self::prepare_status(cx, old, object);
            }
            Part::FINALIZE => return Self::prepare_finalize(cx, old, object),
            Part::Main | Part::Sub(_) => {}
        }
        check_annotations(cx, Some(old), object, &group_resource())?;
        set_tenant(cx, Some(old), object);
        // An object that is being deleted can be released; its spec is frozen and raises nothing.
        if !old.is_deleting() {
            let hard = NamespaceSpec::of(object).map_err(unreadable)?.hard;
            let before = Typed::of(old)?;
            object.set(CHARGED, amounts_value(&charge::raise(before.mark(), &hard)));
            cx.warnings.extend(uncounted(&before.spec.hard, &hard));
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
            return take_tenant(view, self.parent(object), object);
        }
        Some(Box::pin(async move {
            if let Some(taken) = take_tenant(view, self.parent(object), object) {
                taken.await?;
            }
            // Only its tenant tells which clusters it may use.
            self.check_growth(None, object)
        }))
    }

    fn validate_update(&self, cx: &mut WriteContext<'_>, old: &Object, object: &Object) -> FieldErrors {
        match cx.part {
            Part::FINALIZE if !cx.sees_everything() => {
                finalizers::check_removal(old, object, names::NAMESPACE_FINALIZER)
            }
            Part::FINALIZE => FieldErrors::new(),
            Part::STATUS => match (NamespaceStatus::of(old), NamespaceStatus::of(object)) {
                (Ok(before), Ok(status)) => validation::namespace_status(object, &before, &status),
                (_, Err(error)) => {
                    let names = validation::unreadable_namespace_status(object);
                    or_cannot_be_read(names, object, "status", &error)
                }
                (Err(error), _) => cannot_be_read(old, "status", &error),
            },
            Part::Main | Part::Sub(_) => {
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

    fn prepare_delete(&self, cx: &mut WriteContext<'_>, object: &mut Object) {
        begin_deletion(cx, object);
    }

    fn waits_for(&self, object: &Object) -> Option<String> {
        waiting(object, "namespace")
    }

    fn check_update(&self, cx: &WriteContext<'_>, old: &Object, new: &Object) -> Result<(), Status> {
        if cx.part != Part::Main {
            return Ok(());
        }
        let (before, after) = (Typed::of(old)?, Typed::of(new)?);
        check_charged(&before, &after, new.name())?;
        check_use(&before, &after, new.name())
    }

    fn account(&self, object: &Object) -> Result<Account, Status> {
        account::of::<ChargedNamespace>(object).map_err(unreadable)
    }

    fn hold(&self, cx: &WriteContext<'_>, old: &Object) -> Option<HoldChange> {
        let typed = Typed::of(old).ok().filter(|typed| !typed.mark().is_empty())?;
        if typed.is_released() {
            return Some(HoldChange { state: HoldState::Released, reason: RELEASED.to_owned() });
        }
        let reason = abandon_reason(old).filter(|_| cx.sees_everything())?.to_owned();
        Some(HoldChange { state: HoldState::Abandoned, reason })
    }

    fn growth_warnings(&self, before: Option<&Account>, after: &Account) -> Vec<String> {
        self.allocations.warnings(before, after)
    }

    fn refusal(&self, cx: &WriteContext<'_>, object: &Object, violations: &[Violation]) -> Status {
        let moves = cx.part == Part::Sub(names::TRANSFER);
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
            dash(&spec.cluster_name),
            dash(&spec.namespace),
            dash(status.phase.as_str()),
            dash(ready(&status.conditions)),
            json!(shares(&status.used, &spec.hard)),
            dash(
                &status
                    .charged(&spec)
                    .iter()
                    .map(|(key, amount)| format!("{key}: {amount}"))
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
            dash(&spec.tenant_id),
            dash(&status.reason),
            dash(&status.message),
        ]
    }

    fn are_created_together(&self) -> bool {
        true
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }
}

/// Grants that are new and limit nothing in the cluster.
fn uncounted<'a>(before: &'a ResourceList, hard: &'a ResourceList) -> impl Iterator<Item = String> + 'a {
    let granted = hard.iter().filter(move |(resource, amount)| before.get(*resource) != Some(*amount));
    granted.filter(|(resource, _)| resources::is_never_counted(resource)).map(|(resource, _)| {
        let device = resource.strip_prefix("limits.").unwrap_or(resource);
        format!("no cluster counts {resource}: write requests.{device}")
    })
}

/// Each resource that is charged is a row in every batch that the namespace is part of, and a resource that is not asked
/// for any more is charged until the cluster has confirmed it: without a bound, new names with each write would add up.
fn check_charged(before: &Typed, after: &Typed, name: &str) -> Result<(), Status> {
    let charged = after.mark().len();
    if charged <= CHARGED_MAX || charged <= before.mark().len() {
        return Ok(());
    }
    let why = format!(
        "{charged} resources would be charged, and at most {CHARGED_MAX} can be: so many that are not asked for any more \
         are still charged; wait until the cluster has confirmed that they are not"
    );
    Err(Status::forbidden(&group_resource(), name, &why))
}

/// An amount can be lowered only to what was last seen in use.
fn check_use(before: &Typed, after: &Typed, name: &str) -> Result<(), Status> {
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
