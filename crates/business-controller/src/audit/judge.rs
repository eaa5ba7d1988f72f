//! Judges a scanned namespace: it is read again, now that our objects were listed. Marks prove nothing; what counts is
//! whether an object for the place exists, whether something is held for it, and the seals.

use super::lost::LostNamespace;
use super::scan::{self, ScannedNamespace, SealedPlace};
use super::survey::{HoldingProject, ProjectSurvey};
use crate::acquisition::GenerationSnapshot;
use crate::context::Context;
use crate::error::{CallFailure, Error};
use crate::kinds::{ObjectKey as _, ProjectKey, revision};
use crate::member::marks::Marks;
use crate::member::{ClusterNamespace, ClusterQuota};
use crate::namespace::kind::{BusinessNamespace, NamespaceView};
use crate::namespace::{build, confirm, validate};
use crate::seal::{Keyring, Origin, Sealed};
use business_types::{Orphan, OrphanState, Provenance, Stranger};
use meta::quantity::{Quantity, ResourceList};
use std::sync::Arc;

/// Resources that are reported of a stranger, which is charged to nobody: whoever controls the cluster chooses how many
/// its quota has.
const STRANGER_RESOURCES_MAX: usize = 32;

/// Resources of which a namespace has one even if nobody uses it: the config map and the service account that
/// Kubernetes puts into each, and our quota.
const ALWAYS_ONE: [&str; 5] =
    ["configmaps", "count/configmaps", "count/serviceaccounts", "resourcequotas", "count/resourcequotas"];

/// The judgement of a scanned namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// There is nothing to report.
    Nothing,
    /// It may use what no object is charged for, and this project answers for it.
    Orphan { project: String, orphan: Orphan },
    /// The same, but the project that answers for it does not exist.
    OrphanWithoutProject(Orphan),
    /// It carries our marks without a valid seal.
    Stranger(Stranger),
}

impl Judgement {
    fn is_lost(&self) -> bool {
        match self {
            Self::Orphan { orphan, .. } | Self::OrphanWithoutProject(orphan) => {
                orphan.state == OrphanState::Lost
            }
            Self::Nothing | Self::Stranger(_) => false,
        }
    }
}

/// A judgement, and the namespace if roles are to be withdrawn there.
#[derive(Debug)]
pub struct Judged {
    pub judgement: Judgement,
    pub lost: Option<LostNamespace>,
}

impl From<Judgement> for Judged {
    fn from(judgement: Judgement) -> Self {
        Self { judgement, lost: None }
    }
}

/// What a judgement is made from.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    pub cx: &'a Context,
    pub survey: &'a ProjectSurvey,
    pub keyring: &'a Keyring,
    /// All our namespaces, listed before the clusters were scanned.
    pub snapshot: &'a GenerationSnapshot,
}

/// The state of the namespace now.
struct LiveState {
    namespace: ClusterNamespace,
    quota: Option<ClusterQuota>,
    /// What each was sealed with, if we have written it for this very namespace.
    namespace_sealed: Option<Sealed>,
    quota_sealed: Option<Sealed>,
}

impl Evidence<'_> {
    /// The generation of the object that a seal was made for, if it exists: it is in the snapshot, or newer. The uid
    /// decides, since it may be in another project than the sealed one by now.
    fn living(&self, scanned: &ScannedNamespace, sealed: &Sealed) -> Option<i64> {
        self.snapshot.generations.get(&sealed.object).copied().or_else(|| {
            let there = self.sealed_for(scanned, sealed).filter(|view| self.is_newer(view));
            there.map(|view| view.generation)
        })
    }

    fn is_newer(&self, view: &NamespaceView) -> bool {
        revision(&view.resource_version) > self.snapshot.revision
    }

    /// Whether the namespace needs no judgement: an object exists for it, no seal is for an object that does not exist,
    /// no seal is newer than its object, and no excess over a charge is known.
    pub fn is_cleared(&self, scanned: &ScannedNamespace) -> bool {
        let is_old = |sealed: &Sealed| {
            self.living(scanned, sealed).is_some_and(|generation| sealed.generation <= generation)
        };
        let belongs = !scanned.seals.is_empty() || self.owner(scanned, scanned.mark.as_deref()).is_some();
        belongs
            && scanned.seals.iter().all(|opened| is_old(&opened.sealed))
            && !self.survey.is_ahead(&scanned.uid)
            && !self.is_imported(scanned)
            && !scanned.is_beyond_charge
    }

    pub async fn judge(&self, scanned: &ScannedNamespace) -> Result<Judged, Error> {
        let Some(live) = self.live_state(scanned).await.map_err(Error::Member)? else {
            return Ok(Judgement::Nothing.into());
        };
        let lost = live.sealed().filter(|sealed| self.living(scanned, sealed).is_none());
        let lost = lost.max_by_key(|sealed| sealed.generation);
        let alive = live.sealed().find(|sealed| self.living(scanned, sealed).is_some());
        match (lost, alive, self.owner(scanned, live.namespace.marks.uid.as_deref())) {
            (None, Some(sealed), _) => {
                match self.sealed_for(scanned, sealed) {
                    Some(object) => self.ahead(scanned, &live, &object.key).await.map(Judged::from),
                    // Our cache is behind: the next audit judges again.
                    None => Ok(Judgement::Nothing.into()),
                }
            }
            (None, None, Some(owner)) => self.ahead(scanned, &live, &owner).await.map(Judged::from),
            (lost, ..) => {
                let judgement = self.unowned(scanned, &live, lost).await?;
                // Without a valid seal nothing proves that it is ours.
                let is_lost = lost.is_some() && judgement.is_lost();
                Ok(Judged { judgement, lost: is_lost.then(|| LostNamespace::of(scanned)) })
            }
        }
    }

    /// The judgement if the object that it was made for does not exist.
    async fn unowned(
        &self,
        scanned: &ScannedNamespace,
        live: &LiveState,
        lost: Option<&Sealed>,
    ) -> Result<Judgement, Error> {
        let cluster = &scanned.member.name;
        let is_released = |sealed: &Sealed| sealed.origin == Origin::Released;
        // Our quota stays until the hold is written off. Otherwise nobody could tell whether we have removed it, or the
        // owner of the namespace.
        let released = if live.is_unused() { OrphanState::Unused } else { OrphanState::Released };
        match (self.survey.holder(cluster, &scanned.name), lost) {
            (Some(holder), lost) if lost.is_none_or(|sealed| answers_for(holder, sealed)) => {
                // The hold may be for an object before the one that this was sealed for.
                let is_its = |sealed: &Sealed| sealed.object == holder.uid || is_released(sealed);
                let stays = holder.is_released && lost.is_none_or(is_its);
                let orphan = live.orphan(scanned, if stays { released } else { OrphanState::Lost });
                Ok(Judgement::Orphan { project: holder.project.to_owned(), orphan })
            }
            // It was granted by another project than the one with the hold for the place.
            (holder, Some(lost)) if is_released(lost) => {
                let is_written_off =
                    holder.is_none() && self.survey.is_written_off(&lost.project, &live.namespace.uid);
                if is_written_off && self.remove_marks_and_quota(scanned, live).await? {
                    return Ok(Judgement::Nothing);
                }
                Ok(self.sealed_orphan(lost, live.orphan(scanned, released)))
            }
            (_, Some(lost)) => Ok(self.sealed_orphan(lost, live.orphan(scanned, OrphanState::Lost))),
            (_, None) => Ok(live.stranger(scanned)),
        }
    }

    async fn live_state(&self, scanned: &ScannedNamespace) -> Result<Option<LiveState>, CallFailure> {
        let (member, name) = (&scanned.member, &scanned.name);
        let Some(namespace) = member.api.namespace(name).await? else { return Ok(None) };
        let quota = member.api.quota(name).await?;
        let place = SealedPlace { cluster: &member.uid, namespace: name, uid: &namespace.uid };
        let open = |marks: &Marks| {
            let text = marks.seal.as_deref()?;
            place.open(self.keyring, text).map(|opened| opened.sealed)
        };
        let quota_sealed = quota.as_ref().and_then(|quota| open(&quota.marks));
        let namespace_sealed = open(&namespace.marks);
        Ok(Some(LiveState { namespace, quota, namespace_sealed, quota_sealed }))
    }

    /// The existing object that the place belongs to, if the namespace is its: it has something there on record, or the
    /// marks name no other object.
    fn owner(&self, scanned: &ScannedNamespace, mark: Option<&str>) -> Option<ProjectKey> {
        let lives = |object: &NamespaceView| {
            self.snapshot.generations.contains_key(&object.uid) || self.is_newer(object)
        };
        let is_its = |object: &NamespaceView| {
            let record = object.status.cluster_namespace.as_ref();
            let is_provided = record.is_some_and(|record| record.provenance != Provenance::Foreign);
            is_provided || mark.is_none_or(|mark| mark == object.uid)
        };
        self.object_at(scanned)
            .filter(|object| lives(object) && is_its(object))
            .map(|object| object.key.clone())
    }

    /// The judgement of an object that exists: what its quota admits beyond its charge, because a raise was lost, or
    /// the cluster was restored.
    async fn ahead(
        &self,
        scanned: &ScannedNamespace,
        live: &LiveState,
        key: &ProjectKey,
    ) -> Result<Judgement, Error> {
        let object = self.cx.business.get::<BusinessNamespace>(key).await.map_err(Error::Api)?;
        let (Some(object), Some(quota)) = (object, &live.quota) else { return Ok(Judgement::Nothing) };
        let newer = |sealed: &&Sealed| sealed.object == object.uid && sealed.generation > object.generation;
        // The seal of the namespace is older than most changes of the amounts.
        let beyond =
            |sealed: &&Sealed| sealed.object == object.uid && confirm::is_beyond_charge(&object, sealed);
        let proofs = live.sealed().filter(newer).chain(live.quota_sealed.iter().filter(beyond));
        let sealed: Vec<&ResourceList> = proofs.map(|sealed| &sealed.hard).collect();
        // It is about to be taken over, whatever its quota admits.
        let is_taken = validate::is_about_to_be_taken_over(&object, &live.namespace);
        if sealed.is_empty() && !is_taken && !self.survey.is_ahead(&live.namespace.uid) {
            return Ok(Judgement::Nothing);
        }
        let hard = confirm::excess(&object, quota, Some(&confirm::max_per_resource(sealed)));
        if hard.is_empty() {
            return Ok(Judgement::Nothing);
        }
        let orphan = Orphan { hard, ..live.orphan(scanned, OrphanState::Ahead) };
        Ok(Judgement::Orphan { project: key.namespace().unwrap_or_default().to_owned(), orphan })
    }

    fn sealed_orphan(&self, sealed: &Sealed, orphan: Orphan) -> Judgement {
        if self.survey.has(&sealed.project, &sealed.project_uid) {
            Judgement::Orphan { project: sealed.project.clone(), orphan }
        } else {
            Judgement::OrphanWithoutProject(orphan)
        }
    }

    /// The object that has the place now.
    fn object_at(&self, scanned: &ScannedNamespace) -> Option<Arc<NamespaceView>> {
        self.cx.objects.namespaces.at_place(&scanned.member.name, &scanned.name)
    }

    /// The object that a seal at a place was made for, in whatever project it is now.
    fn sealed_for(&self, scanned: &ScannedNamespace, sealed: &Sealed) -> Option<Arc<NamespaceView>> {
        self.object_at(scanned).filter(|object| object.uid == sealed.object)
    }

    /// Whether an object was imported for the place, and the namespace was not taken over yet.
    fn is_imported(&self, scanned: &ScannedNamespace) -> bool {
        self.object_at(scanned).is_some_and(|object| object.status.is_imported())
    }

    /// Removes our quota and our marks from a released namespace for which nothing is held any more. `false` if they
    /// could not be removed; the next audit tries again.
    async fn remove_marks_and_quota(
        &self,
        scanned: &ScannedNamespace,
        live: &LiveState,
    ) -> Result<bool, Error> {
        // An object that has the place by now overwrites our marks.
        if self.object_at(scanned).is_some() {
            return Ok(true);
        }
        self.cx.fence_of(&scanned.member.name).permit()?;
        let (api, name) = (&scanned.member.api, &scanned.name);
        // One without our marks is somebody else's by now.
        if let Some(quota) = live.quota.as_ref().filter(|quota| scan::is_marked(&quota.marks))
            && !is_removed(scanned, api.delete_quota(name, quota).await)?
        {
            return Ok(false);
        }
        let unmarked = api.patch_namespace(name, &build::unmark_patch(&live.namespace)).await;
        is_removed(scanned, unmarked.map(drop))
    }
}

/// Whether the hold for a place is against the project that granted what is there. The object that it was sealed for
/// may have moved since.
fn answers_for(holder: HoldingProject<'_>, sealed: &Sealed) -> bool {
    sealed.project == holder.project || sealed.object == holder.uid
}

/// Whether so much of a resource is there although nobody uses the namespace.
fn is_idle(resource: &str, used: Quantity) -> bool {
    used.is_zero() || ALWAYS_ONE.contains(&resource) && used <= Quantity::from_units(1)
}

impl LiveState {
    fn sealed(&self) -> impl Iterator<Item = &Sealed> {
        self.namespace_sealed.iter().chain(&self.quota_sealed)
    }

    /// Whether our quota counts no usage. One that somebody else has put in its place, or has changed, need not count
    /// what is in use.
    fn is_unused(&self) -> bool {
        let (Some(quota), Some(sealed)) = (&self.quota, &self.quota_sealed) else { return false };
        !quota.scoped
            && sealed.hard.keys().all(|resource| quota.spec_hard.contains_key(resource))
            && quota.status_hard == quota.spec_hard
            && quota.status_used.iter().all(|(resource, used)| is_idle(resource, *used))
    }

    /// The maximum of what was granted, what is granted, and what is in use.
    fn may_take(&self) -> ResourceList {
        let quota = self.quota.as_ref().map(confirm::max_admitted);
        confirm::max_per_resource(self.sealed().map(|sealed| &sealed.hard).chain(&quota))
    }

    fn orphan(&self, scanned: &ScannedNamespace, state: OrphanState) -> Orphan {
        Orphan {
            cluster_name: scanned.member.name.clone(),
            namespace: scanned.name.clone(),
            uid: self.namespace.uid.clone(),
            state,
            hard: self.may_take(),
        }
    }

    fn stranger(&self, scanned: &ScannedNamespace) -> Judgement {
        let quota_marks = self.quota.as_ref().map(|quota| &quota.marks);
        let is_marked = [Some(&self.namespace.marks), quota_marks]
            .into_iter()
            .flatten()
            .any(|marks| marks.uid.is_some() || marks.seal.is_some());
        if !is_marked {
            return Judgement::Nothing;
        }
        Judgement::Stranger(Stranger {
            cluster_name: scanned.member.name.clone(),
            namespace: scanned.name.clone(),
            uid: self.namespace.uid.clone(),
            project: self.namespace.marks.project.clone().unwrap_or_default(),
            hard: self.may_take().into_iter().take(STRANGER_RESOURCES_MAX).collect(),
        })
    }
}

/// Whether something of ours is gone. If somebody has changed it meanwhile, or the cluster does not let it go, it is
/// told again; the cluster was compared all the same.
fn is_removed(scanned: &ScannedNamespace, removed: Result<(), Error>) -> Result<bool, Error> {
    match removed {
        Ok(()) | Err(Error::Member(CallFailure::NotFound)) => Ok(true),
        Err(Error::Member(failure)) => {
            let ScannedNamespace { member, name, .. } = scanned;
            tracing::warn!(
                cluster = member.name,
                namespace = name,
                error = %failure,
                "our quota or our marks stay in a released namespace"
            );
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
