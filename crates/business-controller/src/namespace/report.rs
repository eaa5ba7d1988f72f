//! Events and metrics for what a pass over a namespace has done.

use super::kind::NamespaceView;
use super::verdict::{MarkCause, NamespaceState, NamespaceStep, Plan, QuotaStep, QuotaUpdateCause};
use crate::context::Context;
use crate::events::Topic;
use crate::metrics::{Drift, DriftLabels};
use crate::seal::Origin;
use business_types::access::AccessRole;
use business_types::condition::{
    self, CLUSTER_REACHABLE, PROVISIONED as PROVISIONED_CONDITION, REPLACED, reason,
};
use business_types::{Condition, NamespacePhase, names};

const UNREACHABLE: Topic = Topic::warning("ClusterUnreachable", "Provision");
const TERMINATING: Topic = Topic::warning("NamespaceTerminating", "Provision");
const PROVISIONED: Topic = Topic::normal("Provisioned", "Provision");
const FAILED: Topic = Topic::warning("Failed", "Provision");
const RECREATED: Topic = Topic::warning("NamespaceRecreated", "Repair");
const REPAIRED: Topic = Topic::warning("DriftRepaired", "Repair");
const HAS_BEEN_REPLACED: Topic = Topic::warning("NamespaceReplaced", "Repair");
const TRANSFERRED: Topic = Topic::normal("Transferred", "Transfer");
/// A cluster has refused a requested deletion.
pub const DELETION_REFUSED: Topic = Topic::warning("DeletionRefused", "Delete");
const REPLACED_DELETED: Topic = Topic::warning("ReplacedDeleted", "Repair");

/// The namespace of an object in its cluster, for messages.
pub fn place(object: &NamespaceView) -> String {
    format!("namespace {} of cluster {}", object.spec.namespace, object.spec.cluster_name)
}

/// Reports that the cluster has just become unreachable.
pub fn unreachable(cx: &Context, object: &NamespaceView, state: &NamespaceState) {
    let was = condition::find(&object.status.conditions, CLUSTER_REACHABLE).is_none_or(Condition::is_true);
    if let (true, NamespaceState::Unreachable { message, .. }) = (was, state) {
        cx.events.report(object, UNREACHABLE, message.clone());
    }
}

pub fn terminating(cx: &Context, object: &NamespaceView, state: &NamespaceState) {
    if let NamespaceState::NotActive { message } = state {
        cx.events.report(object, TERMINATING, message.clone());
    }
}

pub fn failed(cx: &Context, object: &NamespaceView, message: String) {
    cx.events.report(object, FAILED, message);
}

/// The message about a namespace that replaced ours.
pub fn replaced(object: &NamespaceView, uid: &str, undeleted: Option<&str>) -> String {
    let what = format!(
        "{} is not the one that was made for this object: somebody has made another (uid {uid}). It has the quota and stays \
         charged.",
        place(object),
    );
    match undeleted {
        Some(why) => format!("{what} An operator has consented to its deletion: {why}"),
        None => format!(
            "{what} It is deleted when an operator annotates this object with {}={uid}",
            names::DELETE_REPLACED_ANNOTATION
        ),
    }
}

/// Reports that as an event, once.
pub fn is_replaced(cx: &Context, object: &NamespaceView, uid: &str, undeleted: Option<&str>) {
    let topic = match undeleted {
        Some(_) => DELETION_REFUSED,
        None if condition::find(&object.status.conditions, REPLACED).is_some_and(Condition::is_true) => {
            return;
        }
        None => HAS_BEEN_REPLACED,
    };
    cx.events.report(object, topic, replaced(object, uid, undeleted));
}

pub fn replaced_deleted(cx: &Context, object: &NamespaceView) {
    let note =
        format!("{}, which somebody had made in the place of ours, is deleted with consent", place(object));
    cx.events.report(object, REPLACED_DELETED, note);
}

/// Reports that bindings of these roles were changed or deleted by somebody, and restored.
pub fn bindings_restored(cx: &Context, object: &NamespaceView, roles: &[AccessRole]) {
    let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
    let note = format!("RoleBindings of {} were restored: {}", place(object), names.join(", "));
    cx.metrics.drift.get_or_create(&DriftLabels { what: Drift::Binding }).inc();
    cx.events.report(object, REPAIRED, note);
}

/// Reports that what a template puts there was changed or deleted by somebody, and restored.
pub fn template_restored(cx: &Context, object: &NamespaceView, what: &[String]) {
    let what = if what.is_empty() { "labels and annotations".to_owned() } else { what.join(", ") };
    let note = format!("what the template puts into {} was restored: {what}", place(object));
    cx.metrics.drift.get_or_create(&DriftLabels { what: Drift::Template }).inc();
    cx.events.report(object, REPAIRED, note);
}

/// Reports that the cluster shows the new project of a moved namespace.
pub fn transferred(cx: &Context, object: &NamespaceView) {
    let note = format!("{} is marked as project {}'s", place(object), object.key.project);
    cx.events.report(object, TRANSFERRED, note);
}

/// Reports what a plan has done.
pub fn done(cx: &Context, object: &NamespaceView, plan: &Plan) {
    let place = place(object);
    let was_deleted = object.status.reason == reason::NAMESPACE_TERMINATING;
    // An imported namespace has a phase already.
    let is_known = condition::find(&object.status.conditions, PROVISIONED_CONDITION).is_some();
    if (object.status.phase != NamespacePhase::Available || !is_known) && !was_deleted {
        if !plan.is_empty() && plan.origin != Origin::Replaced {
            let note = if plan.origin == Origin::Adopted {
                format!("adopted {place}")
            } else {
                format!("{place} is in place")
            };
            cx.events.report(object, PROVISIONED, note);
        }
        return;
    }
    let drifted = |what: Drift, topic: Topic, note: String| {
        cx.metrics.drift.get_or_create(&DriftLabels { what }).inc();
        cx.events.report(object, topic, note);
    };
    match plan.namespace {
        NamespaceStep::Create => {
            drifted(Drift::Namespace, RECREATED, format!("{place} was gone; it was created anew"));
            return;
        }
        NamespaceStep::Mark { cause: MarkCause::Drift, .. } => {
            drifted(Drift::Marks, REPAIRED, format!("marks of {place} were restored"));
        }
        NamespaceStep::Keep { .. } | NamespaceStep::Mark { .. } => {}
    }
    if let QuotaStep::Create | QuotaStep::Update { cause: QuotaUpdateCause::Drift, .. } = plan.quota
        && plan.origin != Origin::Replaced
    {
        drifted(Drift::Quota, REPAIRED, format!("the ResourceQuota of {place} was repaired"));
    }
}
