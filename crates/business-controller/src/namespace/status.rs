//! The status to show. What it says is pure; a write happens only when it says something new.

use super::confirm;
use super::validate::Refusal;
use crate::business::difference;
use crate::context::Context;
use crate::error::{Error, Failure};
use crate::member::ClusterQuota;
use crate::objects::{Kind as _, NamespaceView};
use business_types::condition::{
    self, CLUSTER_REACHABLE, FALSE, PROVISIONED, QUOTA_ENFORCED, READY, TERMINATING, TRUE, UNKNOWN, reason,
};
use business_types::{Condition, NamespacePhase, NamespaceStatus};
use meta::quantity::ResourceList;
use std::sync::Arc;

/// What a pass has found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Situation {
    /// The cluster does not answer or is not known.
    Unreachable {
        /// One word.
        reason: &'static str,
        /// For a person.
        message: String,
    },
    /// The namespace in the cluster is being deleted although nobody asked us.
    NotActive {
        /// For a person.
        message: String,
    },
    /// It cannot be.
    Refused(Refusal),
    /// Namespace and quota are as asked for.
    InPlace {
        /// The quota.
        quota: Arc<ClusterQuota>,
        /// The lower charge that is confirmed with it.
        charge: Option<ResourceList>,
    },
    /// Being deleted, and something is left in the cluster.
    Deleting {
        /// One word.
        reason: &'static str,
        /// For a person.
        message: String,
    },
    /// Being deleted, and seen gone from the cluster: nothing is charged any more.
    Gone,
}

/// Writes the status if it says anything new; the object as it is then.
pub async fn write(
    cx: &Context,
    object: &NamespaceView,
    situation: &Situation,
) -> Result<Option<NamespaceView>, Error> {
    let next = next(object, situation, &cx.now());
    if next == object.status {
        return Ok(None);
    }
    let json = |status: &NamespaceStatus| {
        serde_json::to_value(status).map_err(|error| Failure::Unavailable(error.to_string()))
    };
    let Some(patch) = difference(&json(&object.status)?, &json(&next)?) else { return Ok(None) };
    cx.fence.permit()?;
    let written: NamespaceView = cx.business.patch_status(object, patch).await?;
    if let Some(change) = NamespaceView::seen(&cx.objects, written.clone(), false) {
        let charge = |view: &NamespaceView| view.status.cached_spec_hard.clone();
        if change.old.as_deref().map(charge) != change.new.as_deref().map(charge) {
            cx.wake_project(&object.namespace, crate::queue::Lane::Later);
        }
    }
    Ok(Some(written))
}

/// The status after what was found out. `now` is RFC 3339.
pub fn next(object: &NamespaceView, situation: &Situation, now: &str) -> NamespaceStatus {
    let mut status = object.status.clone();
    status.observed_generation = Some(object.generation);
    let set = |status: &mut NamespaceStatus, type_: &str, value: &str, why: &str, message: &str| {
        let condition = Condition::new(type_, value, why, message).at(object.generation);
        condition::set(&mut status.conditions, condition, now);
    };
    match situation {
        Situation::Unreachable { reason: why, message } => {
            set(&mut status, CLUSTER_REACHABLE, FALSE, why, message);
            set(&mut status, READY, UNKNOWN, why, message);
            if object.deleting {
                set(&mut status, TERMINATING, TRUE, why, message);
            } else if status.phase == NamespacePhase::Pending {
                (*why).clone_into(&mut status.reason);
                message.clone_into(&mut status.message);
            }
        }
        Situation::NotActive { message } => {
            let why = reason::NAMESPACE_TERMINATING;
            reached(&mut status, object, now);
            set(&mut status, PROVISIONED, FALSE, why, message);
            set(&mut status, QUOTA_ENFORCED, UNKNOWN, why, message);
            set(&mut status, READY, FALSE, why, message);
            move_to(&mut status, NamespacePhase::Failed, (why, message), now);
        }
        Situation::Refused(refusal) => {
            let (why, message) = (refusal.reason, refusal.message.as_str());
            reached(&mut status, object, now);
            set(&mut status, PROVISIONED, FALSE, why, message);
            set(&mut status, QUOTA_ENFORCED, UNKNOWN, why, message);
            set(&mut status, READY, FALSE, why, message);
            move_to(&mut status, NamespacePhase::Failed, (why, message), now);
        }
        Situation::InPlace { quota, charge } => in_place(&mut status, object, (quota, charge.as_ref()), now),
        Situation::Deleting { reason: why, message } => {
            reached(&mut status, object, now);
            set(&mut status, TERMINATING, TRUE, why, message);
            set(&mut status, READY, FALSE, reason::DELETING, "");
        }
        Situation::Gone => {
            reached(&mut status, object, now);
            set(&mut status, TERMINATING, TRUE, reason::DELETING, "the namespace is gone from the cluster");
            set(&mut status, PROVISIONED, FALSE, reason::DELETING, "");
            set(&mut status, QUOTA_ENFORCED, FALSE, reason::DELETING, "");
            set(&mut status, READY, FALSE, reason::DELETING, "");
            status.used = ResourceList::new();
            status.cached_spec_hard = Some(ResourceList::new());
        }
    }
    status
}

fn in_place(
    status: &mut NamespaceStatus,
    object: &NamespaceView,
    (quota, charge): (&ClusterQuota, Option<&ResourceList>),
    now: &str,
) {
    let generation = object.generation;
    if let Some(charge) = charge {
        status.cached_spec_hard = Some(charge.clone());
    }
    object.spec.namespace.clone_into(&mut status.resource_quota_name);
    if !quota.status_used.is_empty() {
        status.used = quota.status_used.clone();
    }
    let charged = status.cached_spec_hard.as_ref();
    let above = charged.is_some_and(|charged| charged != &object.spec.hard);
    let over =
        quota.status_used.iter().any(|(key, used)| object.spec.hard.get(key).is_some_and(|hard| used > hard));
    let enforced = match confirm::is_enforced(object, quota) {
        true if over => Condition::new(
            QUOTA_ENFORCED,
            FALSE,
            reason::USED_ABOVE_HARD,
            "more is in use than granted; it stays charged until use has fallen",
        ),
        true if above => {
            Condition::new(QUOTA_ENFORCED, FALSE, reason::NOT_ENFORCED, "the charge is about to be lowered")
        }
        true => Condition::new(QUOTA_ENFORCED, TRUE, reason::ENFORCED, ""),
        false => Condition::new(
            QUOTA_ENFORCED,
            FALSE,
            reason::NOT_ENFORCED,
            "written to the cluster; its quota admission does not count with it yet",
        ),
    };
    reached(status, object, now);
    condition::set(&mut status.conditions, enforced.at(generation), now);
    let provisioned = Condition::new(PROVISIONED, TRUE, reason::PROVISIONED, "");
    condition::set(&mut status.conditions, provisioned.at(generation), now);
    condition::set(
        &mut status.conditions,
        Condition::new(READY, TRUE, reason::READY, "").at(generation),
        now,
    );
    move_to(status, NamespacePhase::Available, ("", ""), now);
}

/// The cluster answers.
fn reached(status: &mut NamespaceStatus, object: &NamespaceView, now: &str) {
    let condition = Condition::new(CLUSTER_REACHABLE, TRUE, reason::REACHABLE, "").at(object.generation);
    condition::set(&mut status.conditions, condition, now);
}

/// A locked namespace stays locked, and one that is being deleted stays so.
fn move_to(status: &mut NamespaceStatus, phase: NamespacePhase, (why, message): (&str, &str), now: &str) {
    why.clone_into(&mut status.reason);
    message.clone_into(&mut status.message);
    if status.phase == phase || matches!(status.phase, NamespacePhase::Locked | NamespacePhase::Terminating) {
        return;
    }
    status.phase = phase;
    status.last_transition_time = Some(now.to_owned());
}

#[cfg(test)]
mod tests;
