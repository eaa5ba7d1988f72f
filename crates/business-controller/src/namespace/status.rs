//! The status to show. What it says is pure; a write happens only when it says something new.

use super::access_state::{Access, Denied};
use super::kind::NamespaceView;
use super::template::state::TemplateState;
use super::verdict::{Enforcement, InPlace, NamespaceFinding, Situation};
use super::wake::wake_templates_of;
use crate::context::Context;
use crate::error::{CallFailure, Error};
use crate::kinds::ChangeSource;
use crate::member::others::OtherAccess;
use crate::member_cluster::wake_cluster;
use crate::merge::difference;
use crate::namespace_template::rollout::is_in_use;
use crate::project::wake::wake_project;
use crate::queue::Lane;
use business_types::condition::{
    self, ACCESS_READY, CLUSTER_REACHABLE, FALSE, OTHER_ACCESS, PROVISIONED, QUOTA_ENFORCED, READY, REPLACED,
    TEMPLATE_APPLIED, TERMINATING, TRANSFERRED, TRUE, UNKNOWN, reason,
};
use business_types::{ClusterNamespaceRecord, Condition, NamespacePhase, NamespaceStatus};
use meta::quantity::ResourceList;
use serde_json::json;

/// Why more is charged than is asked for and in use.
const COUNTING: &str = "what was in use when it was lowered stays charged until its cluster has counted again, which takes some minutes";

/// Writes the status if it says anything new; the object as it is then.
pub async fn write(
    cx: &Context,
    object: &NamespaceView,
    finding: &NamespaceFinding,
) -> Result<Option<NamespaceView>, Error> {
    let next = next(object, finding, &cx.now());
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
            wake_project(cx, &object.key.project, Lane::Later);
        }
        let used = |view: &NamespaceView| view.status.used.clone();
        if change.old.as_deref().map(used) != change.new.as_deref().map(used) {
            wake_cluster(cx, &object.spec.cluster_name, Lane::Later);
        }
        wake_templates_of(cx, change.old.as_deref(), change.new.as_deref());
    }
    Ok(Some(written))
}

/// Puts a namespace of the cluster on record, and says nothing else.
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

/// The status after what was found out. `now` is RFC 3339.
pub fn next(object: &NamespaceView, finding: &NamespaceFinding, now: &str) -> NamespaceStatus {
    let mut draft = Draft { status: object.status.clone(), object, now };
    draft.status.observed_generation = Some(object.generation);
    if finding.record.is_some() {
        draft.status.cluster_namespace.clone_from(&finding.record);
    }
    match &finding.situation {
        Situation::Unreachable { reason: why, message } => draft.unreachable(why, message),
        Situation::NotActive { message } => draft.failed(reason::NAMESPACE_TERMINATING, message),
        Situation::Refused { reason: why, message } => draft.failed(why, message),
        Situation::Ahead { message } => {
            draft.reached();
            draft.set(QUOTA_ENFORCED, FALSE, reason::AHEAD, message);
        }
        Situation::InPlace(quota) => draft.in_place(quota),
        Situation::Replaced { quota, message } => draft.replaced(quota, message),
        Situation::Deleting { reason: why, message } => {
            draft.reached();
            draft.set(TERMINATING, TRUE, why, message);
            draft.set(READY, FALSE, reason::DELETING, "");
            if *why == reason::REPLACED {
                draft.set(REPLACED, TRUE, why, message);
            }
        }
        Situation::Gone => draft.gone(),
    }
    match &finding.situation {
        Situation::Unreachable { .. } | Situation::Replaced { .. } | Situation::Gone => {}
        _ => draft.access(&finding.access),
    }
    draft.status
}

struct Draft<'a> {
    status: NamespaceStatus,
    object: &'a NamespaceView,
    now: &'a str,
}

impl Draft<'_> {
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

    /// A locked namespace stays locked, and one that is being deleted stays so.
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

    fn in_place(&mut self, in_place: &InPlace) {
        self.quota(in_place);
        self.set(PROVISIONED, TRUE, reason::PROVISIONED, "");
        self.not_replaced();
        self.others(in_place.others.as_ref());
        self.template(&in_place.template);
        if in_place.revokes_pull {
            self.status.pull_credential = None;
        }
        if is_in_use(self.object) || in_place.template.lets_begin() {
            self.set(READY, TRUE, reason::READY, "");
            self.explain("", "");
            self.move_to(NamespacePhase::Available);
            return;
        }
        let Told { value, reason: why, message } = told_of_template(&in_place.template);
        self.set(READY, FALSE, why, &message);
        self.explain(why, &message);
        if value == FALSE {
            self.move_to(NamespacePhase::Failed);
        }
    }

    /// While nothing is known, what was known last stays. Of a namespace that never had a template nothing is said.
    fn template(&mut self, template: &TemplateState) {
        match template {
            TemplateState::Unknown => return,
            // What was known of it stands until it is seen.
            TemplateState::ButPullSecret(state) if self.status.template.as_ref() == Some(state) => return,
            TemplateState::None => self.status.template = None,
            TemplateState::Applied(state) | TemplateState::ButPullSecret(state) => {
                self.status.template = Some(state.clone());
            }
            TemplateState::Undone { state, .. } | TemplateState::Invalid { state, .. } => {
                self.status.template.clone_from(state);
            }
            TemplateState::Waiting(_) | TemplateState::Missing(_) => {}
        }
        let was_told = condition::find(&self.status.conditions, TEMPLATE_APPLIED).is_some();
        if *template != TemplateState::None || was_told {
            let Told { value, reason: why, message } = told_of_template(template);
            self.set(TEMPLATE_APPLIED, value, why, &message);
        }
    }

    fn replaced(&mut self, in_place: &InPlace, message: &str) {
        self.quota(in_place);
        for type_ in [PROVISIONED, READY, ACCESS_READY] {
            self.set(type_, FALSE, reason::REPLACED, message);
        }
        self.set(REPLACED, TRUE, reason::REPLACED, message);
        self.explain(reason::REPLACED, message);
        self.move_to(NamespacePhase::Failed);
    }

    /// While nothing is known, what was known last stays, but for a cluster's silence that is over.
    fn access(&mut self, access: &Access) {
        match access {
            Access::Unknown => {
                let known = condition::find(&self.status.conditions, ACCESS_READY);
                if known.is_some_and(|known| known.status == UNKNOWN) {
                    self.set(ACCESS_READY, UNKNOWN, reason::PENDING, "the bindings were not looked at yet");
                }
            }
            Access::Held => {
                let why = "nobody is added before the namespace and its quota are in place";
                self.set(ACCESS_READY, UNKNOWN, reason::PENDING, why);
            }
            Access::Granted(omitted) => match omitted.message() {
                None => self.set(ACCESS_READY, TRUE, reason::GRANTED, ""),
                Some(message) => self.set(ACCESS_READY, TRUE, reason::UNNAMEABLE, &message),
            },
            Access::Failed(Denied { reason: why, message, .. }) => {
                self.set(ACCESS_READY, FALSE, why, message);
            }
        }
    }

    /// That nobody else has access is said where somebody had.
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

    fn quota(&mut self, in_place: &InPlace) {
        if let Some(charge) = &in_place.charge {
            self.status.cached_spec_hard = Some(charge.clone());
        }
        self.object.spec.namespace.clone_into(&mut self.status.resource_quota_name);
        if !in_place.quota.status_used.is_empty() {
            self.status.used = in_place.quota.status_used.clone();
        }
        self.reached();
        if in_place.marked && self.object.is_being_transferred() {
            self.set(TRANSFERRED, TRUE, reason::MARKED, "");
        }
        self.enforced(in_place);
    }

    fn enforced(&mut self, in_place: &InPlace) {
        let quota = &in_place.quota;
        let hard = &self.object.spec.hard;
        let charged = self.status.cached_spec_hard.as_ref();
        let above = charged.is_some_and(|charged| charged != hard);
        let over = quota.status_used.iter().any(|(key, used)| hard.get(key).is_some_and(|hard| used > hard));
        let (value, why, message) = match in_place.enforced {
            Enforcement::Counting | Enforcement::Enforced if over => (
                FALSE,
                reason::USED_ABOVE_HARD,
                "more is in use than granted; it stays charged until use has fallen",
            ),
            Enforcement::Counting if above => (FALSE, reason::NOT_ENFORCED, COUNTING),
            Enforcement::Enforced if above => {
                (FALSE, reason::NOT_ENFORCED, "the charge is about to be lowered")
            }
            Enforcement::Counting | Enforcement::Enforced => (TRUE, reason::ENFORCED, ""),
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

/// What a condition says.
struct Told {
    value: &'static str,
    reason: &'static str,
    message: String,
}

fn told_of_template(template: &TemplateState) -> Told {
    let told = |value, reason, message| Told { value, reason, message };
    match template {
        TemplateState::None => told(TRUE, reason::NO_TEMPLATE, String::new()),
        TemplateState::Unknown | TemplateState::ButPullSecret(_) => {
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
        TemplateState::Missing(name) => told(
            FALSE,
            reason::TEMPLATE_NOT_FOUND,
            format!("template {name} does not exist; what is in place stays"),
        ),
        TemplateState::Undone { undone, .. } => {
            let why = if undone.others { reason::REFUSED } else { reason::QUOTA_EXCEEDED };
            told(FALSE, why, undone.message.clone())
        }
        TemplateState::Invalid { message, .. } => told(FALSE, reason::INVALID_VALUE, message.clone()),
    }
}

#[cfg(test)]
mod tests;
