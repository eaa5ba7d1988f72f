//! Computes the status of a namespace (pure), and writes it if it differs.

use super::access_state::{AccessFailure, AccessState};
use super::enqueue::enqueue_templates_of;
use super::kind::NamespaceView;
use super::template::state::TemplateState;
use super::verdict::{Enforcement, NamespaceState, Provisioned, StatusInput};
use crate::context::Context;
use crate::error::{CallFailure, Error};
use crate::kinds::ChangeSource;
use crate::member::ClusterQuota;
use crate::member::others::OtherAccess;
use crate::member_cluster::enqueue_cluster;
use crate::merge::difference;
use crate::namespace_template::rollout::is_in_use;
use crate::project::enqueue::enqueue_project;
use crate::queue::Lane;
use business_types::condition::{
    self, ACCESS_READY, CLUSTER_REACHABLE, FALSE, OTHER_ACCESS, PROVISIONED, QUOTA_ENFORCED, READY, REPLACED,
    TEMPLATE_APPLIED, TERMINATING, TRANSFERRED, TRUE, UNKNOWN, reason,
};
use business_types::{ClusterNamespaceRecord, Condition, NamespacePhase, NamespaceStatus};
use meta::quantity::ResourceList;
use serde_json::json;

/// Why the charge is higher than what is asked for and in use.
const COUNTING: &str = "what was in use when it was lowered stays charged until its cluster has counted again, which takes some minutes";

/// More is in use than is granted: it was in use when the amount was lowered.
const CHARGED: &str = "more is in use than granted; it stays charged until use has fallen";
/// The same, but it was never charged: it was in use before a namespace was adopted, or its cluster was restored.
const UNCHARGED: &str = "more is in use than granted, and than this object is charged; nothing more is let in until use has fallen";

/// Writes the status if it differs. Returns the object as it is after the write.
pub async fn write(
    cx: &Context,
    object: &NamespaceView,
    input: &StatusInput,
) -> Result<Option<NamespaceView>, Error> {
    let next = next(object, input, &cx.now());
    if next == object.status {
        return Ok(None);
    }
    let json = |status: &NamespaceStatus| {
        serde_json::to_value(status).map_err(|error| CallFailure::Unavailable(error.to_string()))
    };
    let Some(patch) = difference(&json(&object.status)?, &json(&next)?) else { return Ok(None) };
    cx.fence_of(&object.spec.cluster_name).permit()?;
    let written = cx.business.patch_status(object, patch).await?;
    if let Some(change) = cx.objects.namespaces.upsert(written.clone(), ChangeSource::OwnWrite) {
        let charge = |view: &NamespaceView| view.status.cached_spec_hard.clone();
        if change.old.as_deref().map(charge) != change.new.as_deref().map(charge) {
            enqueue_project(cx, &object.key.project, Lane::Later);
        }
        let used = |view: &NamespaceView| view.status.used.clone();
        if change.old.as_deref().map(used) != change.new.as_deref().map(used) {
            enqueue_cluster(cx, &object.spec.cluster_name, Lane::Later);
        }
        enqueue_templates_of(cx, change.old.as_deref(), change.new.as_deref());
    }
    Ok(Some(written))
}

/// Writes only the record of the cluster's namespace.
pub async fn record(
    cx: &Context,
    object: &NamespaceView,
    record: &ClusterNamespaceRecord,
) -> Result<(), Error> {
    cx.fence_of(&object.spec.cluster_name).permit()?;
    let written = cx.business.patch_status(object, json!({ "clusterNamespace": record })).await?;
    cx.objects.namespaces.upsert(written, ChangeSource::OwnWrite);
    Ok(())
}

/// The next status. `now` is RFC 3339.
pub fn next(object: &NamespaceView, input: &StatusInput, now: &str) -> NamespaceStatus {
    let mut builder = StatusBuilder { status: object.status.clone(), object, now };
    builder.status.observed_generation = Some(object.generation);
    if input.record.is_some() {
        builder.status.cluster_namespace.clone_from(&input.record);
    }
    match &input.state {
        NamespaceState::Unreachable { reason: why, message } => builder.unreachable(why, message),
        NamespaceState::NotActive { message } => builder.failed(reason::NAMESPACE_TERMINATING, message),
        NamespaceState::Refused { reason: why, message } => builder.failed(why, message),
        NamespaceState::Ahead { message } => {
            builder.reached();
            builder.set(QUOTA_ENFORCED, FALSE, reason::AHEAD, message);
        }
        NamespaceState::Provisioned(quota) => builder.provisioned(quota),
        NamespaceState::Replaced { quota, message } => builder.replaced(quota, message),
        NamespaceState::Deleting { reason: why, message } => {
            builder.reached();
            builder.set(TERMINATING, TRUE, why, message);
            builder.set(READY, FALSE, reason::DELETING, "");
            if *why == reason::REPLACED {
                builder.set(REPLACED, TRUE, why, message);
            }
        }
        NamespaceState::Gone => builder.gone(),
    }
    match &input.state {
        NamespaceState::Unreachable { .. } | NamespaceState::Replaced { .. } | NamespaceState::Gone => {}
        _ => builder.access(&input.access),
    }
    builder.status
}

struct StatusBuilder<'a> {
    status: NamespaceStatus,
    object: &'a NamespaceView,
    now: &'a str,
}

impl StatusBuilder<'_> {
    fn set(&mut self, type_: &str, value: &str, why: &str, message: &str) {
        let condition = Condition::new(type_, value, why, message).at(self.object.generation);
        condition::set(&mut self.status.conditions, condition, self.now);
    }

    /// The cluster answers.
    fn reached(&mut self) {
        self.set(CLUSTER_REACHABLE, TRUE, reason::REACHABLE, "");
    }

    fn explain(&mut self, why: &str, message: &str) {
        why.clone_into(&mut self.status.reason);
        message.clone_into(&mut self.status.message);
    }

    /// Sets the phase. Locked and Terminating stay.
    fn move_to(&mut self, phase: NamespacePhase) {
        let stays = matches!(self.status.phase, NamespacePhase::Locked | NamespacePhase::Terminating);
        if self.status.phase != phase && !stays {
            self.status.phase = phase;
            self.status.last_transition_time = Some(self.now.to_owned());
        }
    }

    fn unreachable(&mut self, why: &str, message: &str) {
        self.set(CLUSTER_REACHABLE, FALSE, why, message);
        self.set(READY, UNKNOWN, why, message);
        self.set(ACCESS_READY, UNKNOWN, why, message);
        if condition::find(&self.status.conditions, OTHER_ACCESS).is_some() {
            self.set(OTHER_ACCESS, UNKNOWN, why, message);
        }
        if self.object.is_deleting() {
            self.set(TERMINATING, TRUE, why, message);
        } else if self.status.phase == NamespacePhase::Pending {
            self.explain(why, message);
        }
    }

    fn failed(&mut self, why: &str, message: &str) {
        self.reached();
        self.set(PROVISIONED, FALSE, why, message);
        self.set(QUOTA_ENFORCED, UNKNOWN, why, message);
        self.set(READY, FALSE, why, message);
        self.explain(why, message);
        self.move_to(NamespacePhase::Failed);
    }

    fn provisioned(&mut self, provisioned: &Provisioned) {
        self.quota(provisioned);
        self.set(PROVISIONED, TRUE, reason::PROVISIONED, "");
        self.not_replaced();
        self.others(provisioned.others.as_ref());
        self.template(&provisioned.template);
        if provisioned.revokes_pull {
            self.status.pull_credential = None;
        }
        if is_in_use(self.object) || provisioned.template.allows_use() {
            self.set(READY, TRUE, reason::READY, "");
            self.explain("", "");
            self.move_to(NamespacePhase::Available);
            return;
        }
        let ConditionText { value, reason: why, message } = template_condition(&provisioned.template);
        self.set(READY, FALSE, why, &message);
        self.explain(why, &message);
        if value == FALSE {
            self.move_to(NamespacePhase::Failed);
        }
    }

    /// If nothing is known, the last known state stays. If the namespace never had a template, nothing is said.
    fn template(&mut self, template: &TemplateState) {
        match template {
            TemplateState::Unknown => return,
            // The last known condition stays until the pull secret is seen.
            TemplateState::PullSecretUnknown(state) if self.status.template.as_ref() == Some(state) => return,
            TemplateState::None => self.status.template = None,
            TemplateState::Applied(state) | TemplateState::PullSecretUnknown(state) => {
                self.status.template = Some(state.clone());
            }
            TemplateState::Failed { state, .. } | TemplateState::Invalid { state, .. } => {
                self.status.template.clone_from(state);
            }
            TemplateState::Waiting(_) | TemplateState::NotFound(_) => {}
        }
        let was_told = condition::find(&self.status.conditions, TEMPLATE_APPLIED).is_some();
        if *template != TemplateState::None || was_told {
            let ConditionText { value, reason: why, message } = template_condition(template);
            self.set(TEMPLATE_APPLIED, value, why, &message);
        }
    }

    fn replaced(&mut self, provisioned: &Provisioned, message: &str) {
        self.quota(provisioned);
        for type_ in [PROVISIONED, READY, ACCESS_READY] {
            self.set(type_, FALSE, reason::REPLACED, message);
        }
        self.set(REPLACED, TRUE, reason::REPLACED, message);
        self.explain(reason::REPLACED, message);
        self.move_to(NamespacePhase::Failed);
    }

    /// If nothing is known, the last known condition stays. The exception is that of a cluster which answers again.
    fn access(&mut self, access: &AccessState) {
        match access {
            AccessState::Unknown => {
                let known = condition::find(&self.status.conditions, ACCESS_READY);
                if known.is_some_and(|known| known.status == UNKNOWN) {
                    self.set(ACCESS_READY, UNKNOWN, reason::PENDING, "the bindings were not looked at yet");
                }
            }
            AccessState::Pending => {
                let why = "nobody is added before the namespace and its quota are in place";
                self.set(ACCESS_READY, UNKNOWN, reason::PENDING, why);
            }
            AccessState::Granted(omitted) => match omitted.message() {
                None => self.set(ACCESS_READY, TRUE, reason::GRANTED, ""),
                Some(message) => self.set(ACCESS_READY, TRUE, reason::UNNAMEABLE, &message),
            },
            AccessState::Failed(AccessFailure { reason: why, message, .. }) => {
                self.set(ACCESS_READY, FALSE, why, message);
            }
        }
    }

    /// That nobody else has access is shown only if somebody had.
    fn others(&mut self, others: Option<&OtherAccess>) {
        match others {
            Some(others) if others.count > 0 => {
                self.set(OTHER_ACCESS, TRUE, reason::OTHER_BINDINGS, &others.message());
            }
            Some(_) if condition::find(&self.status.conditions, OTHER_ACCESS).is_some() => {
                self.set(OTHER_ACCESS, FALSE, reason::NONE_SEEN, "");
            }
            Some(_) | None => {}
        }
    }

    fn not_replaced(&mut self) {
        if condition::find(&self.status.conditions, REPLACED).is_some() {
            self.set(REPLACED, FALSE, reason::IN_PLACE, "");
        }
    }

    fn quota(&mut self, provisioned: &Provisioned) {
        if let Some(charge) = &provisioned.charge {
            self.status.cached_spec_hard = Some(charge.clone());
        }
        self.object.spec.namespace.clone_into(&mut self.status.resource_quota_name);
        let ClusterQuota { status_used: used, spec_hard, .. } = &*provisioned.quota;
        // The last figures stay until a new quota was counted. One that limits nothing counts nothing.
        if !used.is_empty() || spec_hard.is_empty() {
            self.status.used.clone_from(used);
        }
        self.reached();
        if provisioned.marked && self.object.is_being_transferred() {
            self.set(TRANSFERRED, TRUE, reason::MARKED, "");
        }
        self.enforced(provisioned);
    }

    fn enforced(&mut self, provisioned: &Provisioned) {
        let quota = &provisioned.quota;
        let hard = &self.object.spec.hard;
        let charged = self.status.cached_spec_hard.as_ref();
        let above = charged.is_some_and(|charged| charged != hard);
        let is_charged = || {
            let charged = self.status.charged(&self.object.spec);
            quota.status_used.iter().all(|(key, used)| charged.get(key).is_none_or(|charged| used <= charged))
        };
        let over = quota.status_used.iter().any(|(key, used)| hard.get(key).is_some_and(|hard| used > hard));
        let (value, why, message) = match provisioned.enforced {
            Enforcement::AwaitingRecount | Enforcement::Enforced if over => {
                (FALSE, reason::USED_ABOVE_HARD, if is_charged() { CHARGED } else { UNCHARGED })
            }
            Enforcement::AwaitingRecount if above => (FALSE, reason::NOT_ENFORCED, COUNTING),
            Enforcement::Enforced if above => {
                (FALSE, reason::NOT_ENFORCED, "the charge is about to be lowered")
            }
            Enforcement::AwaitingRecount | Enforcement::Enforced => (TRUE, reason::ENFORCED, ""),
            Enforcement::Pending => (
                FALSE,
                reason::NOT_ENFORCED,
                "written to the cluster; its quota admission does not count with it yet",
            ),
        };
        self.set(QUOTA_ENFORCED, value, why, message);
    }

    fn gone(&mut self) {
        self.reached();
        self.set(TERMINATING, TRUE, reason::DELETING, "the namespace is gone from the cluster");
        self.template(&TemplateState::None);
        for type_ in [PROVISIONED, QUOTA_ENFORCED, READY, ACCESS_READY] {
            self.set(type_, FALSE, reason::DELETING, "");
        }
        self.not_replaced();
        self.status.used = ResourceList::new();
        self.status.pull_credential = None;
        self.status.cached_spec_hard = Some(ResourceList::new());
    }
}

/// The text of a condition.
struct ConditionText {
    value: &'static str,
    reason: &'static str,
    message: String,
}

fn template_condition(template: &TemplateState) -> ConditionText {
    let told = |value, reason, message| ConditionText { value, reason, message };
    match template {
        TemplateState::None => told(TRUE, reason::NO_TEMPLATE, String::new()),
        TemplateState::Unknown | TemplateState::PullSecretUnknown(_) => {
            told(UNKNOWN, reason::PENDING, "what is in the cluster was not listed yet".to_owned())
        }
        TemplateState::Applied(state) => {
            told(TRUE, reason::APPLIED, format!("template {} is in place", state.name))
        }
        TemplateState::Waiting(name) => told(
            UNKNOWN,
            reason::WAITING_FOR_WAVE,
            format!("the newest state of template {name} comes with a later wave"),
        ),
        TemplateState::NotFound(name) => told(
            FALSE,
            reason::TEMPLATE_NOT_FOUND,
            format!("template {name} does not exist; what is in place stays"),
        ),
        TemplateState::Failed { failure, .. } => {
            let why = if failure.has_other_causes { reason::REFUSED } else { reason::QUOTA_EXCEEDED };
            told(FALSE, why, failure.message.clone())
        }
        TemplateState::Invalid { message, .. } => told(FALSE, reason::INVALID_VALUE, message.clone()),
    }
}

#[cfg(test)]
mod tests;
