//! Decides what has to be done in the member cluster, from the observed state and the desired one. Pure.

use super::confirm;
use super::kind::NamespaceView;
use super::target::ObservedState;
use super::verdict::{
    MarkCause, NamespaceRefusal, NamespaceState, NamespaceStep, NamespaceVerdict, PlaceOwner, Plan,
    QuotaStep, QuotaUpdateCause, StatusInput, record_of,
};
use crate::member::marks::Marks;
use crate::member::template_metadata::TemplateMetadata;
use crate::member::{ClusterNamespace, ClusterQuota};
use crate::seal::{Origin, Sealed, VerifiedSeal};
use business_types::{ClusterNamespaceRecord, Provenance, names};
use std::sync::Arc;

/// If a cluster's namespace is older than our object by more than this, in seconds, it was not made for the object. It
/// allows for clocks that differ.
const CLOCK_SKEW_MAX: i64 = 300;

/// The desired state.
#[derive(Clone, Copy, Debug)]
pub struct WantedNamespace<'a> {
    pub object: &'a NamespaceView,
    pub project_uid: &'a str,
    /// The API and the cluster were asked: both the object and the observed state are the newest.
    pub is_newest: bool,
    /// Names of namespaces that are never ours.
    pub forbidden: &'a [String],
    /// Labels and annotations of the template; `None` leaves them as they are.
    pub template_metadata: Option<&'a TemplateMetadata>,
}

/// Decides what has to be done.
pub fn validate(wanted: WantedNamespace<'_>, found: &ObservedState) -> NamespaceVerdict {
    let object = wanted.object;
    let name = &object.spec.namespace;
    if names::is_forbidden(name, wanted.forbidden) {
        return NamespaceVerdict::Refuse(NamespaceRefusal::conflict(format!(
            "namespace {name} may not be used"
        )));
    }
    let Some(there) = &found.namespace else {
        let namespace = NamespaceStep::Create;
        return NamespaceVerdict::Proceed(Plan { namespace, quota: QuotaStep::Create, origin: Origin::Made });
    };
    let owner = place_owner(object, there, found);
    if there.deleting {
        return NamespaceVerdict::Wait(terminating_input(object, there, owner));
    }
    match owner {
        PlaceOwner::Ours(origin) if object.status.is_imported() => take_over(object, there, found, origin),
        // A living object has released nothing: the end of its release was lost with the database's history.
        PlaceOwner::Ours(Origin::Released) => plan_update(wanted, found, there, Origin::Adopted),
        PlaceOwner::Ours(origin) => plan_update(wanted, found, there, origin),
        PlaceOwner::Replaced | PlaceOwner::Foreign | PlaceOwner::Unclear if has_consent(object, there) => {
            if object.status.is_imported() && !is_excess_held(object, found) {
                return NamespaceVerdict::Ahead { message: imported_ahead_message(object) };
            }
            NamespaceVerdict::Adopt { uid: there.uid.clone() }
        }
        PlaceOwner::Replaced if may_be_deleted(object, &there.uid) => {
            NamespaceVerdict::DeleteReplaced { there: Arc::clone(there) }
        }
        PlaceOwner::Replaced => plan_update(wanted, found, there, Origin::Replaced),
        PlaceOwner::Foreign => NamespaceVerdict::Refuse(NamespaceRefusal {
            record: Some(ClusterNamespaceRecord { uid: there.uid.clone(), provenance: Provenance::Foreign }),
            ..conflict_refusal(object)
        }),
        PlaceOwner::Unclear => NamespaceVerdict::Refuse(conflict_refusal(object)),
    }
}

/// Whose the namespace at the object's place is.
pub fn place_owner(object: &NamespaceView, there: &ClusterNamespace, found: &ObservedState) -> PlaceOwner {
    let record = object.status.cluster_namespace.as_ref();
    match record.map(|record| (record.provenance, record.uid == there.uid)) {
        Some((Provenance::Imported, _))
            if has_project_label_of(object, &there.marks) && is_not_sealed_for_another(object, found) =>
        {
            // Its label makes it the object's. If it carries our seal, it was taken over before, the record was
            // restored, and the seal decides.
            return owner_by_seal(object, found).unwrap_or(PlaceOwner::Ours(Origin::Made));
        }
        Some((Provenance::Made, true)) => return PlaceOwner::Ours(Origin::Made),
        Some((Provenance::Adopted, true)) => return PlaceOwner::Ours(Origin::Adopted),
        Some((Provenance::Released, true)) => return PlaceOwner::Ours(Origin::Released),
        Some((Provenance::Foreign, true)) => return PlaceOwner::Foreign,
        Some((Provenance::Made | Provenance::Adopted | Provenance::Released, false)) => {
            return owner_by_bound_seal(object, found).unwrap_or(PlaceOwner::Replaced);
        }
        // It may have been the object's and have lost its labels. Only a namespace that was never made for the object
        // is somebody else's.
        Some((Provenance::Imported, _)) => return PlaceOwner::Unclear,
        // The record names another foreign namespace, and says nothing of this one.
        Some((Provenance::Foreign, false)) | None => {}
    }
    // Nothing is on record: an answer may have been lost. Only a seal can show that this was made for the object.
    match owner_by_seal(object, found) {
        Some(owner) => owner,
        None if found.never_created || is_older(there, object) => PlaceOwner::Foreign,
        None => PlaceOwner::Unclear,
    }
}

/// The owner according to a seal for the object, if there is one.
fn owner_by_seal(object: &NamespaceView, found: &ObservedState) -> Option<PlaceOwner> {
    let ours = found.namespace_seal.as_ref().filter(|opened| opened.sealed.object == object.uid)?;
    Some(match ours.sealed.origin {
        Origin::Replaced => PlaceOwner::Replaced,
        origin => PlaceOwner::Ours(origin),
    })
}

/// The owner according to seals for the object that are bound to this very namespace, although another one is on
/// record: the record was lost, or was never written. A seal without the namespace's uid may be a copy. It counts only
/// if it names the uid on record as the one before.
fn owner_by_bound_seal(object: &NamespaceView, found: &ObservedState) -> Option<PlaceOwner> {
    let recorded = object.status.cluster_namespace.as_ref().map(|record| &record.uid);
    let is_bound = |sealed: &Sealed| {
        sealed.namespace_uid.is_some() || sealed.after.is_some() && sealed.after.as_ref() == recorded
    };
    let origins = || {
        let opened = [&found.quota_seal, &found.namespace_seal].into_iter().flatten();
        let sealed = opened.map(|opened| &opened.sealed).filter(|sealed| sealed.object == object.uid);
        sealed.filter(|sealed| is_bound(sealed)).map(|sealed| sealed.origin)
    };
    if origins().any(|origin| origin == Origin::Replaced) {
        return Some(PlaceOwner::Replaced);
    }
    origins().next().map(PlaceOwner::Ours)
}

/// Takes over the namespace of an imported object: it goes on record before anything is written to it. This happens
/// only when the excess over the charge is held.
fn take_over(
    object: &NamespaceView,
    there: &ClusterNamespace,
    found: &ObservedState,
    origin: Origin,
) -> NamespaceVerdict {
    if !is_excess_held(object, found) {
        return NamespaceVerdict::Ahead { message: imported_ahead_message(object) };
    }
    let provenance = match origin {
        // A living object has released nothing.
        Origin::Adopted | Origin::Released => Provenance::Adopted,
        Origin::Made | Origin::Replaced => Provenance::Made,
    };
    NamespaceVerdict::TakeOver { uid: there.uid.clone(), provenance }
}

/// Whether what the quota of an imported object's namespace lets in beyond the charge is held, if there is any.
fn is_excess_held(object: &NamespaceView, found: &ObservedState) -> bool {
    let beyond = found.quota.as_ref().map(|quota| confirm::excess(object, quota, None)).unwrap_or_default();
    beyond.is_empty() || found.is_excess_reported
}

fn imported_ahead_message(object: &NamespaceView) -> String {
    format!(
        "the quota of namespace {} in cluster {} lets in more than this object is charged: the excess is held against \
         the project before the namespace is taken over",
        object.spec.namespace, object.spec.cluster_name
    )
}

/// Whether the namespace at an imported object's place is about to become the object's: by its label, or by consent.
pub fn is_about_to_be_taken_over(object: &NamespaceView, there: &ClusterNamespace) -> bool {
    object.status.is_imported() && (has_project_label_of(object, &there.marks) || has_consent(object, there))
}

/// Whether the label is that of the object's project. The former system asks for no more: it never renews the label
/// with the object's name, which stays when a cluster gets another name there. Anybody can write the label: it counts
/// only once, for an imported object.
fn has_project_label_of(object: &NamespaceView, marks: &Marks) -> bool {
    marks.project.as_deref() == Some(&*object.key.project)
}

/// Whether no seal says that it is another object's.
fn is_not_sealed_for_another(object: &NamespaceView, found: &ObservedState) -> bool {
    found.namespace_seal.as_ref().is_none_or(|opened| opened.sealed.object == object.uid)
}

/// Whether it existed before the object.
fn is_older(there: &ClusterNamespace, object: &NamespaceView) -> bool {
    there.created != 0 && there.created.saturating_add(CLOCK_SKEW_MAX) < object.created
}

/// The refusal for a namespace that is not the object's. It does not say whose it is: that may be another tenant.
fn conflict_refusal(object: &NamespaceView) -> NamespaceRefusal {
    let (project, name) = (&object.key.project, &object.key.name);
    NamespaceRefusal::conflict(format!(
        "namespace {} exists in cluster {} and was not made for this object; to have it taken over, annotate it there \
         with {}={project}/{name}",
        object.spec.namespace,
        object.spec.cluster_name,
        names::ADOPT_ANNOTATION,
    ))
}

fn has_consent(object: &NamespaceView, there: &ClusterNamespace) -> bool {
    let by_cluster = there.adopt.as_deref() == Some(&object.key.to_string());
    let by_operator = object.annotations.get(names::ADOPT_ANNOTATION).is_some_and(|value| value == "true");
    by_cluster || by_operator
}

/// Whether an operator has consented to the deletion of exactly this namespace, which somebody else has made.
pub fn may_be_deleted(object: &NamespaceView, uid: &str) -> bool {
    object.annotations.get(names::DELETE_REPLACED_ANNOTATION).is_some_and(|consent| consent == uid)
}

fn terminating_input(object: &NamespaceView, there: &ClusterNamespace, owner: PlaceOwner) -> StatusInput {
    let mut message = format!(
        "namespace {} of cluster {} is being deleted",
        object.spec.namespace, object.spec.cluster_name
    );
    if !there.remaining.is_empty() {
        message.push_str(": ");
        message.push_str(&there.remaining.join("; "));
    }
    let record = match owner {
        PlaceOwner::Ours(origin) => record_of(&there.uid, origin),
        PlaceOwner::Replaced | PlaceOwner::Foreign | PlaceOwner::Unclear => None,
    };
    StatusInput { record, ..NamespaceState::NotActive { message }.into() }
}

/// Plans the update of a namespace that stays.
pub fn plan_update(
    wanted: WantedNamespace<'_>,
    found: &ObservedState,
    there: &Arc<ClusterNamespace>,
    origin: Origin,
) -> NamespaceVerdict {
    let mark = |cause| NamespaceStep::Mark { from: Arc::clone(there), cause };
    let opened = found.namespace_seal.as_ref();
    let is_right = opened.is_some_and(|opened| is_identity(wanted, &opened.sealed, origin))
        && is_marked(wanted.object, &there.marks)
        && there.marks.adopted == origin.is_adopted();
    let could_be_newer = opened.is_some_and(|o| !o.is_current || o.sealed.namespace_uid.is_none());
    let step = if !is_right {
        // The first sight of a replacement is no drift.
        let known = opened.is_some_and(|opened| opened.sealed.origin == origin);
        let first = origin == Origin::Replaced && !known;
        // The mark of a replacement stays, and would keep us from deleting our own namespace. So the API and the
        // cluster are asked first.
        if first && !wanted.is_newest {
            return NamespaceVerdict::Recheck;
        }
        let moved = wanted.object.is_being_transferred();
        let cause = if moved { MarkCause::Transfer } else { MarkCause::Drift };
        mark(if first { MarkCause::Replacement } else { cause })
    } else if origin != Origin::Replaced
        && wanted
            .template_metadata
            .is_some_and(|template_metadata| *template_metadata != there.template_metadata)
    {
        mark(MarkCause::Template)
    } else if could_be_newer && found.quiet {
        mark(MarkCause::Reseal)
    } else {
        NamespaceStep::Keep { uid: there.uid.clone() }
    };
    plan_quota(wanted, found, step, origin)
}

/// Whether the seal says whose it is. Amounts and generation are in the quota's seal.
fn is_identity(wanted: WantedNamespace<'_>, sealed: &Sealed, origin: Origin) -> bool {
    let WantedNamespace { object, project_uid, .. } = wanted;
    sealed.object == object.uid
        && sealed.origin == origin
        && sealed.tenant == object.spec.tenant_id
        && sealed.project == *object.key.project
        && sealed.project_uid == project_uid
}

pub fn is_marked(object: &NamespaceView, marks: &Marks) -> bool {
    has_project_label_of(object, marks)
        && marks.namespace.as_deref() == Some(&*object.key.name)
        && marks.uid.as_deref() == Some(&object.uid)
}

/// Plans the quota, after the step of the namespace was decided.
pub fn plan_quota(
    wanted: WantedNamespace<'_>,
    found: &ObservedState,
    namespace: NamespaceStep,
    origin: Origin,
) -> NamespaceVerdict {
    let object = wanted.object;
    let Some(there) = &found.quota else {
        return NamespaceVerdict::Proceed(Plan { namespace, quota: QuotaStep::Create, origin });
    };
    if there.scoped {
        let name = &object.spec.namespace;
        return NamespaceVerdict::Refuse(NamespaceRefusal::conflict(format!(
            "ResourceQuota {name} counts only some objects: it has scopes, which cannot be changed; delete it to have \
             it created anew"
        )));
    }
    let opened = found.quota_seal.as_ref().filter(|opened| opened.sealed.object == object.uid);
    let is_proof =
        |sealed: &&Sealed| sealed.generation > object.generation || confirm::is_beyond_charge(object, sealed);
    if let Some(sealed) = opened.map(|opened| &opened.sealed).filter(is_proof) {
        if !wanted.is_newest {
            return NamespaceVerdict::Recheck;
        }
        // The quota is lowered to what the object asks for only when the excess is held. Until then, its seal proves
        // the excess.
        if !confirm::excess(object, there, Some(&sealed.hard)).is_empty() && !found.is_excess_reported {
            return NamespaceVerdict::Ahead { message: ahead_message(object) };
        }
    }
    let quota = quota_step(wanted, found, there, opened, origin);
    NamespaceVerdict::Proceed(Plan { namespace, quota, origin })
}

fn quota_step(
    wanted: WantedNamespace<'_>,
    found: &ObservedState,
    there: &Arc<ClusterQuota>,
    opened: Option<&VerifiedSeal>,
    origin: Origin,
) -> QuotaStep {
    let object = wanted.object;
    let is_sealed = |sealed: &Sealed| {
        is_identity(wanted, sealed, origin)
            && sealed.generation == object.generation
            && sealed.hard == object.spec.hard
    };
    let update = |cause| QuotaStep::Update { from: Arc::clone(there), cause };
    match opened {
        Some(opened) if is_sealed(&opened.sealed) => {
            let is_kept = confirm::are_equal_as_stored(&there.spec_hard, &object.spec.hard);
            let same = is_kept && is_marked(object, &there.marks);
            match (same, opened.is_current || !found.quiet) {
                (true, true) => QuotaStep::Keep { seen: Arc::clone(there) },
                (true, false) => update(QuotaUpdateCause::Reseal),
                (false, _) => update(QuotaUpdateCause::Drift),
            }
        }
        Some(_) => update(QuotaUpdateCause::SpecChanged),
        None => update(QuotaUpdateCause::Drift),
    }
}

fn ahead_message(object: &NamespaceView) -> String {
    format!(
        "the quota of namespace {} in cluster {} was written from a state of this object with a larger charge, as \
         after a restore: the excess is held against the project before the quota is lowered",
        object.spec.namespace, object.spec.cluster_name
    )
}

#[cfg(test)]
mod tests;
