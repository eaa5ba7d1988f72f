//! The end of a namespace: delete the cluster's namespace if it is ours, wait until it is really gone, confirm
//! that nothing is charged any more, and let the object go.

use super::build;
use super::dereference::Place;
use super::kind::NamespaceView;
use super::status;
use super::validate::{Owner, owner};
use super::verdict::Situation;
use crate::context::Context;
use crate::error::{Error, Failure};
use crate::events::Topic;
use crate::member::{ClusterNamespace, ClusterQuota, Member};
use crate::outcome::Outcome;
use business_types::condition::reason;
use business_types::names;
use std::time::Duration;

/// A namespace that takes longer to go is shown as such, with what its cluster says holds it up.
const PATIENCE: Duration = Duration::from_secs(PATIENCE_SECONDS.unsigned_abs());
const PATIENCE_SECONDS: i64 = 30;

const BLOCKED: Topic = Topic::warning("DeletionBlocked", "Delete");
const REFUSED: Topic = Topic::warning("DeletionRefused", "Delete");
const RELEASED: Topic = Topic::normal("Released", "Delete");
const DELETED: Topic = Topic::normal("Deleted", "Delete");
const ABANDONED: Topic = Topic::warning("Abandoned", "Delete");

/// What to do about what is left in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Delete exactly this namespace.
    Delete {
        /// Its uid.
        uid: String,
    },
    /// It is being deleted: wait.
    Wait {
        /// What holds it up, as its cluster says.
        remaining: Vec<String>,
    },
    /// It was there before us: take our quota and our marks away.
    Release,
    /// It is ours by its uid, but labelled as somebody else's: a person has to decide.
    Blocked(String),
    /// Nothing of ours is there any more.
    Gone,
}

/// What to do about what is left in the cluster.
pub fn decide(object: &NamespaceView, there: Option<&ClusterNamespace>) -> Step {
    let Some(there) = there else { return Step::Gone };
    match owner(object, there) {
        Owner::Us { .. } if there.deleting => Step::Wait { remaining: there.remaining.clone() },
        Owner::Us { .. } if there.adopted => Step::Release,
        Owner::Us { .. } => Step::Delete { uid: there.uid.clone() },
        Owner::Another(who) if there.marks.uid.as_deref() == Some(&object.uid) => {
            Step::Blocked(format!("namespace {} was made by us but now belongs to {who}", there.name))
        }
        Owner::Another(_) | Owner::Nobody => Step::Gone,
    }
}

/// One pass over a namespace that is being deleted.
pub async fn run(cx: &Context, object: &NamespaceView, place: &Place) -> Result<Outcome, Error> {
    if NamespaceView::without(&object.spec.finalizers, names::NAMESPACE_FINALIZER).is_none() {
        return Ok(Outcome::Skipped);
    }
    if object.status.cached_spec_hard.as_ref().is_some_and(meta::quantity::ResourceList::is_empty)
        && is_confirmed(object)
    {
        return finalize(cx, object).await;
    }
    let member = &place.member;
    let name = &object.spec.namespace;
    // What the watch has seen saves a read while it is there; that it is gone is always asked.
    if let Some(seen) = &place.found.namespace {
        match decide(object, Some(seen)) {
            Step::Delete { uid } => return delete(cx, object, member, &uid).await,
            Step::Wait { remaining } => return wait(cx, object, &remaining).await,
            Step::Release | Step::Blocked(_) | Step::Gone => {}
        }
    }
    let there = member.api.namespace(name).await.map_err(Error::Member)?;
    match decide(object, there.as_ref()) {
        Step::Delete { uid } => delete(cx, object, member, &uid).await,
        Step::Wait { remaining } => wait(cx, object, &remaining).await,
        Step::Blocked(_) if is_abandoned(object) => abandon(cx, object).await,
        Step::Blocked(message) => {
            let situation =
                Situation::Deleting { reason: reason::NAMESPACE_CONFLICT, message: message.clone() };
            if status::write(cx, object, &situation).await?.is_some() {
                cx.events.report(object, BLOCKED, message);
            }
            Ok(Outcome::Refused)
        }
        Step::Release => {
            release(object, member, there.as_ref()).await?;
            cx.events.report(object, RELEASED, format!("namespace {name} was given back"));
            gone(cx, object, member).await
        }
        Step::Gone => {
            remove_quota(object, member, there.as_ref()).await?;
            gone(cx, object, member).await
        }
    }
}

/// The charge is {} because we have said so, not because nothing was ever asked for.
fn is_confirmed(object: &NamespaceView) -> bool {
    let conditions = &object.status.conditions;
    business_types::condition::find(conditions, business_types::condition::PROVISIONED)
        .is_some_and(|condition| condition.reason == reason::DELETING)
}

async fn delete(cx: &Context, object: &NamespaceView, member: &Member, uid: &str) -> Result<Outcome, Error> {
    match member.api.delete_namespace(&object.spec.namespace, uid).await {
        // A conflict is one that is being deleted already, or another one by now; the next look tells.
        Ok(()) | Err(Error::Member(Failure::Conflict(_))) => {}
        Err(Error::Member(Failure::Refused { code, message })) => {
            let message = format!("cluster {} refused the deletion with {code}: {message}", member.name);
            let situation = Situation::Deleting { reason: reason::REFUSED, message: message.clone() };
            if status::write(cx, object, &situation).await?.is_some() {
                cx.events.report(object, REFUSED, message);
            }
            return Ok(Outcome::Refused);
        }
        Err(error) => return Err(error),
    }
    Ok(Outcome::WaitingFor(PATIENCE))
}

async fn wait(cx: &Context, object: &NamespaceView, remaining: &[String]) -> Result<Outcome, Error> {
    let mut message = format!(
        "namespace {} of cluster {} is not gone yet",
        object.spec.namespace, object.spec.cluster_name
    );
    if !remaining.is_empty() {
        message.push_str(": ");
        message.push_str(&remaining.join("; "));
    } else if !object.has_been_going(PATIENCE_SECONDS, cx.clock.unix_seconds()) {
        return Ok(Outcome::WaitingFor(PATIENCE));
    }
    status::write(cx, object, &Situation::Deleting { reason: reason::CONTENT_REMAINING, message }).await?;
    Ok(Outcome::WaitingFor(super::RECHECK))
}

/// Gives an adopted namespace back: our quota first, so that nothing is left of us when the marks are gone.
async fn release(
    object: &NamespaceView,
    member: &Member,
    there: Option<&ClusterNamespace>,
) -> Result<(), Error> {
    remove_quota(object, member, there).await?;
    let Some(there) = there else { return Ok(()) };
    let body = build::release(&there.resource_version);
    match member.api.patch_namespace(&there.name, &body).await {
        Ok(_) | Err(Error::Member(Failure::NotFound)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Deletes a quota of ours in a namespace that stays.
async fn remove_quota(
    object: &NamespaceView,
    member: &Member,
    there: Option<&ClusterNamespace>,
) -> Result<(), Error> {
    let Some(there) = there else { return Ok(()) };
    let ours = |quota: &ClusterQuota| quota.marks.uid.as_deref() == Some(&object.uid);
    match member.api.quota(&there.name).await.map_err(Error::Member)?.filter(ours) {
        Some(quota) => member.api.delete_quota(&there.name, &quota.uid).await,
        None => Ok(()),
    }
}

/// Confirms that nothing is charged any more, as soon as no write that is under way can change that.
async fn gone(cx: &Context, object: &NamespaceView, member: &Member) -> Result<Outcome, Error> {
    if let Err(wait) = member.api.may_confirm() {
        return Ok(Outcome::WaitingFor(wait));
    }
    let written = status::write(cx, object, &Situation::Gone).await?;
    finalize(cx, written.as_ref().unwrap_or(object)).await
}

async fn finalize(cx: &Context, object: &NamespaceView) -> Result<Outcome, Error> {
    cx.fence.permit()?;
    let left =
        NamespaceView::without(&object.spec.finalizers, names::NAMESPACE_FINALIZER).unwrap_or_default();
    cx.business.finalize(object, &left).await?;
    let place = format!("namespace {} of cluster {}", object.spec.namespace, object.spec.cluster_name);
    let note = format!("nothing of ours is left in {place}");
    cx.events.report(object, DELETED, note);
    Ok(Outcome::Applied)
}

/// Whether an operator has given up what may be left in a cluster that does not answer.
pub fn is_abandoned(object: &NamespaceView) -> bool {
    object.annotations.get(names::ABANDON_ANNOTATION).is_some_and(|why| !why.is_empty())
}

/// Lets an object go whose charge is not confirmed gone: the server keeps counting it as abandoned.
pub async fn abandon(cx: &Context, object: &NamespaceView) -> Result<Outcome, Error> {
    let note =
        format!("namespace {} of cluster {} is abandoned", object.spec.namespace, object.spec.cluster_name);
    cx.events.report(object, ABANDONED, note);
    finalize(cx, object).await
}

#[cfg(test)]
mod tests;
