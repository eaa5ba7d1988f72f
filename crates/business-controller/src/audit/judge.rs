//! What a sighting comes to: looked at once more, now that the objects were listed. Marks say nothing; what counts is
//! whether an object lives at the place, whether something is held for it, and what is sealed.

use super::look::{self, Sighting};
use super::lost::Lost;
use super::survey::{PlaceHolder, Survey};
use crate::context::Context;
use crate::error::{CallFailure, Error};
use crate::inventory::Roll;
use crate::kinds::{ObjectKey as _, ProjectKey, revision};
use crate::member::{ClusterNamespace, ClusterQuota};
use crate::namespace::kind::{BusinessNamespace, NamespaceView};
use crate::namespace::{build, confirm, validate};
use crate::seal::{Keyring, Origin, Sealed};
use business_types::{Orphan, OrphanState, Provenance, Stranger};
use meta::quantity::ResourceList;
use std::sync::Arc;

/// Resources that are told of a stranger, which is charged to nobody: a quota has as many as whoever rules its cluster likes.
const STRANGER_RESOURCES_MAX: usize = 32;

/// What a sighting comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Nothing is to be told of it.
    Nothing,
    /// It may take what nobody is charged for, and this project answers for it.
    Orphan { project: String, orphan: Orphan },
    /// The same, and the project that answers for it does not exist.
    Homeless(Orphan),
    /// It carries our marks, and nothing proves them.
    Stranger(Stranger),
}

impl Judgement {
    fn is_lost(&self) -> bool {
        match self {
            Self::Orphan { orphan, .. } | Self::Homeless(orphan) => orphan.state == OrphanState::Lost,
            Self::Nothing | Self::Stranger(_) => false,
        }
    }
}

/// A judgement, and the namespace if roles are to be taken away there.
#[derive(Debug)]
pub struct Judged {
    pub judgement: Judgement,
    pub lost: Option<Lost>,
}

impl From<Judgement> for Judged {
    fn from(judgement: Judgement) -> Self {
        Self { judgement, lost: None }
    }
}

/// What the judgement is made from.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    pub survey: &'a Survey,
    pub keyring: &'a Keyring,
    /// All objects, listed before the clusters were looked at.
    pub roll: &'a Roll,
}

/// What is there now.
struct Scene {
    namespace: ClusterNamespace,
    quota: Option<ClusterQuota>,
    sealed: Vec<Sealed>,
}

impl Evidence<'_> {
    /// The generation of the object that something was sealed for, if it lives: on the roll, or made since. Its uid says
    /// which it is: it may lie in another project than the sealed one by now.
    fn living(&self, cx: &Context, sighting: &Sighting, sealed: &Sealed) -> Option<i64> {
        self.roll.generations.get(&sealed.object).copied().or_else(|| {
            let there = sealed_for(cx, sighting, sealed).filter(|view| self.is_newer(view));
            there.map(|view| view.generation)
        })
    }

    fn is_newer(&self, view: &NamespaceView) -> bool {
        revision(&view.resource_version) > self.roll.revision
    }

    /// Whether all is well without another look: an object lives at the place, nothing there is sealed for another one
    /// that does not live any more, and nothing sealed is newer than its object.
    pub fn clears(&self, cx: &Context, sighting: &Sighting) -> bool {
        let is_old = |sealed: &Sealed| {
            self.living(cx, sighting, sealed).is_some_and(|generation| sealed.generation <= generation)
        };
        let belongs =
            !sighting.seals.is_empty() || self.owner(cx, sighting, sighting.mark.as_deref()).is_some();
        belongs
            && sighting.seals.iter().all(|opened| is_old(&opened.sealed))
            && !self.survey.is_ahead(&sighting.uid)
            && !is_imported(cx, sighting)
    }

    pub async fn judge(&self, cx: &Context, sighting: &Sighting) -> Result<Judged, Error> {
        let Some(scene) = self.scene(sighting).await.map_err(Error::Member)? else {
            return Ok(Judgement::Nothing.into());
        };
        let lost = scene.sealed.iter().filter(|sealed| self.living(cx, sighting, sealed).is_none());
        let lost = lost.max_by_key(|sealed| sealed.generation);
        let alive = scene.sealed.iter().find(|sealed| self.living(cx, sighting, sealed).is_some());
        match (lost, alive, self.owner(cx, sighting, scene.namespace.marks.uid.as_deref())) {
            (None, Some(sealed), _) => {
                match sealed_for(cx, sighting, sealed) {
                    Some(object) => self.ahead(cx, sighting, &scene, &object.key).await.map(Judged::from),
                    // Our own view of it is behind: the next audit looks again.
                    None => Ok(Judgement::Nothing.into()),
                }
            }
            (None, None, Some(owner)) => self.ahead(cx, sighting, &scene, &owner).await.map(Judged::from),
            (lost, ..) => {
                let judgement = self.unowned(cx, sighting, &scene, lost).await?;
                // Without a seal that holds nothing says that it is ours.
                let is_lost = lost.is_some() && judgement.is_lost();
                Ok(Judged { judgement, lost: is_lost.then(|| Lost::of(sighting)) })
            }
        }
    }

    /// No object lives that this was made for.
    async fn unowned(
        &self,
        cx: &Context,
        sighting: &Sighting,
        scene: &Scene,
        lost: Option<&Sealed>,
    ) -> Result<Judgement, Error> {
        let cluster = &sighting.member.name;
        let is_released = |sealed: &Sealed| sealed.origin == Origin::Released;
        // Our quota stays until what is held is written off. Without it nobody could tell whether it was we who took it away,
        // or its owner.
        let released = if scene.is_unused() { OrphanState::Unused } else { OrphanState::Released };
        match (self.survey.holder(cluster, &sighting.name), lost) {
            (Some(holder), lost) if lost.is_none_or(|sealed| answers_for(holder, sealed)) => {
                // What is held may be of an object before the one that this was sealed for.
                let is_its = |sealed: &Sealed| sealed.object == holder.uid || is_released(sealed);
                let stays = holder.is_released && lost.is_none_or(is_its);
                let orphan = scene.orphan(sighting, if stays { released } else { OrphanState::Lost });
                Ok(Judgement::Orphan { project: holder.project.to_owned(), orphan })
            }
            // It was granted out of another project than the one that holds something for the place.
            (holder, Some(lost)) if is_released(lost) => {
                let is_written_off =
                    holder.is_none() && self.survey.is_written_off(&lost.project, &scene.namespace.uid);
                if is_written_off && take_away(cx, sighting, scene).await? {
                    return Ok(Judgement::Nothing);
                }
                Ok(self.sealed_orphan(lost, scene.orphan(sighting, released)))
            }
            (_, Some(lost)) => Ok(self.sealed_orphan(lost, scene.orphan(sighting, OrphanState::Lost))),
            (_, None) => Ok(scene.stranger(sighting)),
        }
    }

    async fn scene(&self, sighting: &Sighting) -> Result<Option<Scene>, CallFailure> {
        let (member, name) = (&sighting.member, &sighting.name);
        let Some(namespace) = member.api.namespace(name).await? else { return Ok(None) };
        let quota = member.api.quota(name).await?;
        let marks = [Some(&namespace.marks), quota.as_ref().map(|quota| &quota.marks)];
        let texts = marks.into_iter().flatten().filter_map(|marks| marks.seal.as_deref());
        let open = |text| look::open(self.keyring, member, name, &namespace.uid, text);
        let sealed = texts.filter_map(open).map(|opened| opened.sealed).collect();
        Ok(Some(Scene { namespace, quota, sealed }))
    }

    /// The living object that the place belongs to, and what stands there as well: it was provided with something
    /// there, or nothing says that this is another one's.
    fn owner(&self, cx: &Context, sighting: &Sighting, mark: Option<&str>) -> Option<ProjectKey> {
        let at_place = cx.objects.namespaces.at_place(&sighting.member.name, &sighting.name);
        let lives =
            |object: &NamespaceView| self.roll.generations.contains_key(&object.uid) || self.is_newer(object);
        let is_its = |object: &NamespaceView| {
            let record = object.status.cluster_namespace.as_ref();
            let is_provided = record.is_some_and(|record| record.provenance != Provenance::Foreign);
            is_provided || mark.is_none_or(|mark| mark == object.uid)
        };
        at_place.filter(|object| lives(object) && is_its(object)).map(|object| object.key.clone())
    }

    /// What is let in beyond what the living object is charged, because a raise was lost.
    async fn ahead(
        &self,
        cx: &Context,
        sighting: &Sighting,
        scene: &Scene,
        key: &ProjectKey,
    ) -> Result<Judgement, Error> {
        let object = cx.business.get::<BusinessNamespace>(key).await.map_err(Error::Api)?;
        let (Some(object), Some(quota)) = (object, &scene.quota) else { return Ok(Judgement::Nothing) };
        let newer = |sealed: &&Sealed| sealed.object == object.uid && sealed.generation > object.generation;
        let sealed: Vec<&ResourceList> =
            scene.sealed.iter().filter(newer).map(|sealed| &sealed.hard).collect();
        // It is about to be taken over, whatever its quota lets in.
        let is_taken =
            object.status.is_imported() && validate::has_labels_of(&object, &scene.namespace.marks);
        if sealed.is_empty() && !is_taken && !self.survey.is_ahead(&scene.namespace.uid) {
            return Ok(Judgement::Nothing);
        }
        let hard = confirm::excess(&object, quota, Some(&confirm::max_per_resource(sealed)));
        if hard.is_empty() {
            return Ok(Judgement::Nothing);
        }
        let orphan = Orphan { hard, ..scene.orphan(sighting, OrphanState::Ahead) };
        Ok(Judgement::Orphan { project: key.namespace().unwrap_or_default().to_owned(), orphan })
    }

    fn sealed_orphan(&self, sealed: &Sealed, orphan: Orphan) -> Judgement {
        if self.survey.has(&sealed.project, &sealed.project_uid) {
            Judgement::Orphan { project: sealed.project.clone(), orphan }
        } else {
            Judgement::Homeless(orphan)
        }
    }
}

/// Whether what is held for a place is held against the project that something there was granted out of. The object that it was
/// sealed for may have moved since.
fn answers_for(holder: PlaceHolder<'_>, sealed: &Sealed) -> bool {
    sealed.project == holder.project || sealed.object == holder.uid
}

/// Whether an object was imported for the place, and what stands there was not taken over yet.
fn is_imported(cx: &Context, sighting: &Sighting) -> bool {
    let object = cx.objects.namespaces.at_place(&sighting.member.name, &sighting.name);
    object.is_some_and(|object| object.status.is_imported())
}

impl Scene {
    /// Whether the quota, which is ours, counts nothing.
    fn is_unused(&self) -> bool {
        self.quota.as_ref().is_some_and(|quota| {
            quota.status_hard == quota.spec_hard && quota.status_used.values().all(|used| used.is_zero())
        })
    }

    /// The most that was granted, is granted or is in use.
    fn may_take(&self) -> ResourceList {
        let quota = self.quota.as_ref().map(confirm::max_admitted);
        confirm::max_per_resource(self.sealed.iter().map(|sealed| &sealed.hard).chain(&quota))
    }

    fn orphan(&self, sighting: &Sighting, state: OrphanState) -> Orphan {
        Orphan {
            cluster_name: sighting.member.name.clone(),
            namespace: sighting.name.clone(),
            uid: self.namespace.uid.clone(),
            state,
            hard: self.may_take(),
        }
    }

    fn stranger(&self, sighting: &Sighting) -> Judgement {
        let quota_marks = self.quota.as_ref().map(|quota| &quota.marks);
        let is_marked = [Some(&self.namespace.marks), quota_marks]
            .into_iter()
            .flatten()
            .any(|marks| marks.uid.is_some() || marks.seal.is_some());
        if !is_marked {
            return Judgement::Nothing;
        }
        Judgement::Stranger(Stranger {
            cluster_name: sighting.member.name.clone(),
            namespace: sighting.name.clone(),
            uid: self.namespace.uid.clone(),
            project: self.namespace.marks.project.clone().unwrap_or_default(),
            hard: self.may_take().into_iter().take(STRANGER_RESOURCES_MAX).collect(),
        })
    }
}

/// The object that something at a place was sealed for, where it lies now.
fn sealed_for(cx: &Context, sighting: &Sighting, sealed: &Sealed) -> Option<Arc<NamespaceView>> {
    let at_place = cx.objects.namespaces.at_place(&sighting.member.name, &sighting.name);
    at_place.filter(|object| object.uid == sealed.object)
}

/// Our quota and our marks leave a released namespace for which nothing is held any more. `false` when they are still there, and
/// the next audit looks again.
async fn take_away(cx: &Context, sighting: &Sighting, scene: &Scene) -> Result<bool, Error> {
    // An object that has the place by now writes its own marks over ours.
    if cx.objects.namespaces.at_place(&sighting.member.name, &sighting.name).is_some() {
        return Ok(true);
    }
    cx.fence_of(&sighting.member.name).permit()?;
    let (api, name) = (&sighting.member.api, &sighting.name);
    if let Some(quota) = &scene.quota {
        match api.delete_quota(name, quota).await {
            // Somebody has taken the place meanwhile, or uses it.
            Err(Error::Member(CallFailure::Conflict(_))) => return Ok(false),
            deleted => deleted?,
        }
    }
    match api.patch_namespace(name, &build::unmark_patch(&scene.namespace)).await {
        Ok(_) | Err(Error::Member(CallFailure::NotFound)) => Ok(true),
        Err(error) => Err(error),
    }
}
