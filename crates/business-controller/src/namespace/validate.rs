//! What has to be done in the member cluster. Pure: what there is and what is asked for, to a verdict.

use super::dereference::Found;
use super::kind::NamespaceView;
use super::verdict::{NamespaceStep, Plan, QuotaStep, Refusal, Situation, Verdict};
use crate::member::{ClusterNamespace, ClusterQuota};
use business_types::names;
use std::sync::Arc;

/// What has to be done.
pub fn validate(object: &NamespaceView, found: &Found, forbidden: &[String]) -> Verdict {
    let name = &object.spec.namespace;
    if names::is_forbidden(name, forbidden) {
        return Refusal::conflict(format!("namespace {name} may not be used"));
    }
    let namespace = match &found.namespace {
        None => NamespaceStep::Create,
        Some(there) => match owner(object, there) {
            Owner::Us { .. } | Owner::Nobody if there.deleting => {
                return Verdict::Wait(being_deleted(object, there));
            }
            Owner::Us { marked: true } => NamespaceStep::Keep,
            Owner::Us { marked: false } => NamespaceStep::Restore { from: Arc::clone(there) },
            Owner::Nobody if has_consent(object, there) => NamespaceStep::Adopt { from: Arc::clone(there) },
            Owner::Nobody => {
                return Refusal::conflict(format!(
                    "namespace {name} exists in cluster {} and is not ours: annotate it with {}={}/{} to have it \
                     adopted",
                    object.spec.cluster_name,
                    names::ADOPT_ANNOTATION,
                    object.key.project,
                    object.key.name
                ));
            }
            Owner::Another(who) => {
                return Refusal::conflict(format!(
                    "namespace {name} of cluster {} belongs to {who}",
                    object.spec.cluster_name
                ));
            }
        },
    };
    let quota = if namespace == NamespaceStep::Create { &None } else { &found.quota };
    match quota {
        None => Verdict::Proceed(Plan { namespace, quota: QuotaStep::Create }),
        Some(there) => quota_step(object, found, there, namespace),
    }
}

fn quota_step(
    object: &NamespaceView,
    found: &Found,
    there: &Arc<ClusterQuota>,
    namespace: NamespaceStep,
) -> Verdict {
    let name = &object.spec.namespace;
    if there.scoped {
        return Refusal::conflict(format!(
            "ResourceQuota {name} counts only some objects: it has scopes, which cannot be changed; delete it to have \
             it created anew"
        ));
    }
    let ours = there.marks.uid.as_deref() == Some(&object.uid);
    if ours && !found.generation_is_false && there.generation.is_some_and(|theirs| theirs > object.generation)
    {
        return Verdict::Recheck;
    }
    let written_from_this = ours && there.generation == Some(object.generation);
    let quota = if written_from_this && is_marked(object, &there.marks) && there.spec_hard == object.spec.hard
    {
        QuotaStep::Keep { seen: Arc::clone(there) }
    } else {
        QuotaStep::Update { from: Arc::clone(there), drift: written_from_this }
    };
    Verdict::Proceed(Plan { namespace, quota })
}

/// Whose a namespace of a member cluster is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Our object's; `marked` when its labels are right.
    Us {
        /// Whether its labels are right.
        marked: bool,
    },
    /// Not marked as anybody's.
    Nobody,
    /// Somebody else's.
    Another(String),
}

/// Whose a namespace of a member cluster is, from the view of one of our objects.
pub fn owner(object: &NamespaceView, there: &ClusterNamespace) -> Owner {
    let other_project =
        there.marks.project.as_deref().filter(|project| *project != object.key.project.as_ref());
    match (there.marks.uid.as_deref(), other_project) {
        (_, Some(project)) => Owner::Another(format!("project {project}, as its label says")),
        (Some(uid), None) if uid == object.uid => Owner::Us { marked: is_marked(object, &there.marks) },
        (Some(uid), None) => Owner::Another(format!("the object with uid {uid}, as its annotation says")),
        (None, None) => Owner::Nobody,
    }
}

fn is_marked(object: &NamespaceView, marks: &crate::member::observed::Marks) -> bool {
    marks.project.as_deref() == Some(&*object.key.project)
        && marks.namespace.as_deref() == Some(&*object.key.name)
}

fn has_consent(object: &NamespaceView, there: &ClusterNamespace) -> bool {
    let by_cluster = there.adopt.as_deref() == Some(&format!("{}/{}", object.key.project, object.key.name));
    let by_operator = object.annotations.get(names::ADOPT_ANNOTATION).is_some_and(|value| value == "true");
    by_cluster || by_operator
}

fn being_deleted(object: &NamespaceView, there: &ClusterNamespace) -> Situation {
    let mut message = format!(
        "namespace {} of cluster {} is being deleted",
        object.spec.namespace, object.spec.cluster_name
    );
    if !there.remaining.is_empty() {
        message.push_str(": ");
        message.push_str(&there.remaining.join("; "));
    }
    Situation::NotActive { message }
}

#[cfg(test)]
mod tests;
