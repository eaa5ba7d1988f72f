//! The target of a namespace: its member cluster, what is observed there, and what the seals there prove. Nothing is
//! decided here.

use super::kind::NamespaceView;
use super::verdict::NamespaceState;
use crate::context::Context;
use crate::error::Error;
use crate::kinds::{ObjectKey as _, RootKey};
use crate::member::{ClusterNamespace, ClusterQuota, Member, Reach};
use crate::members::Lookup;
use crate::project::kind::{BusinessProject, ProjectView};
use crate::seal::{Keyring, Origin, Sealed, VerifiedSeal};
use business_types::condition::{self, PROVISIONED, reason};
use business_types::{NamespacePhase, OrphanState};
use std::sync::Arc;
use std::time::Duration;

/// When namespace and quota have been in place for this long, seals that could be newer are renewed.
const QUIET_SECONDS: i64 = 60;

/// A member cluster that answers, and the project of the object.
#[derive(Clone, Debug)]
pub struct ReachedTarget {
    pub member: Arc<Member>,
    pub project: Arc<ProjectView>,
}

/// A member cluster that answers, and what a pass needs to write there.
#[derive(Clone, Debug)]
pub struct Target {
    pub member: Arc<Member>,
    /// Whether no write can arrive any more that was not seen yet; otherwise the time to wait. Determined before
    /// anything is observed.
    pub writes_ended: Result<(), Duration>,
    pub keyring: Arc<Keyring>,
    pub project: Arc<ProjectView>,
}

/// What is observed in the member cluster for one of our namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedState {
    pub namespace: Option<Arc<ClusterNamespace>>,
    /// The opened seal of the namespace, if it is valid for this place.
    pub namespace_seal: Option<VerifiedSeal>,
    /// The quota with the namespace's name.
    pub quota: Option<Arc<ClusterQuota>>,
    /// The opened seal of the quota, if it is valid for this place and exactly this namespace.
    pub quota_seal: Option<VerifiedSeal>,
    /// No write for the object can have created anything: each was refused, or none was sent.
    pub never_created: bool,
    /// The excess over the charge is reported, and held against the project.
    pub is_excess_reported: bool,
    /// No other work is going on, so seals may be renewed.
    pub quiet: bool,
}

/// Resolves the target of a namespace. The error says why no pass is possible.
pub async fn resolve(cx: &Context, object: &NamespaceView) -> Result<ReachedTarget, TargetError> {
    let name = &object.spec.cluster_name;
    let member = match cx.member(name) {
        Lookup::Found(member) => member,
        Lookup::NotLoaded => return Err(TargetError::NotReady),
        Lookup::Unknown => {
            let message = format!("cluster {name} is not in the directory");
            return Err(NamespaceState::Unreachable { reason: reason::CLUSTER_UNKNOWN, message }.into());
        }
    };
    match member.reach() {
        Reach::Connecting => return Err(TargetError::NotReady),
        Reach::Unreachable { since, reason: cause } => {
            let message = format!("cluster {name} has not answered since {since}: {cause}");
            return Err(NamespaceState::Unreachable { reason: reason::UNREACHABLE, message }.into());
        }
        Reach::Reachable => {}
    }
    if !member.is_up_to_date(object, cx.objects.namespaces.progress()) {
        return Err(TargetError::CacheBehind);
    }
    let project = project(cx, object).await?;
    Ok(ReachedTarget { member, project })
}

/// Whether the place in the cluster still belongs to the object under this key. It does not after a move to another
/// project.
pub(super) fn still_owns_place(cx: &Context, object: &NamespaceView) -> bool {
    let at_place = cx.objects.namespaces.at_place(&object.spec.cluster_name, &object.spec.namespace);
    at_place.is_some_and(|now| now.uid == object.uid && now.key == object.key)
}

/// Why a pass over a namespace is not possible.
#[derive(Debug)]
pub enum TargetError {
    /// The cluster is not known or not connected yet. An event follows.
    NotReady,
    /// Our view of the object is older than our term.
    CacheBehind,
    /// The project of the object does not exist.
    ProjectNotFound,
    Unavailable(NamespaceState),
    Failed(Error),
}

impl From<NamespaceState> for TargetError {
    fn from(state: NamespaceState) -> Self {
        Self::Unavailable(state)
    }
}

/// The project of the object. The API is asked if the cache does not have it: the watch of projects may be behind that
/// of namespaces.
async fn project(cx: &Context, object: &NamespaceView) -> Result<Arc<ProjectView>, TargetError> {
    let key = RootKey::new(None, &object.key.project);
    if let Some(project) = cx.objects.projects.get(&key) {
        return Ok(project);
    }
    let asked = cx.business.get::<BusinessProject>(&key).await;
    match asked.map_err(|failure| TargetError::Failed(Error::Api(failure)))? {
        Some(project) => Ok(Arc::new(project)),
        None => Err(TargetError::ProjectNotFound),
    }
}

impl Target {
    /// `None` while there is no key for seals.
    pub fn of(cx: &Context, reached: &ReachedTarget, namespace: &str) -> Option<Self> {
        let keyring = cx.seals.keyring()?;
        let ReachedTarget { member, project } = reached.clone();
        Some(Self { writes_ended: member.api.may_confirm_at(namespace), member, keyring, project })
    }

    /// The same without the keyring.
    pub fn reached(&self) -> ReachedTarget {
        ReachedTarget { member: Arc::clone(&self.member), project: Arc::clone(&self.project) }
    }

    /// The state of the namespace from the watches if they can see all of it, else from the cluster. The watches do not
    /// see objects without our marks, such as the quota in the namespace of an imported object.
    pub async fn observe(&self, cx: &Context, object: &NamespaceView) -> Result<ObservedState, Error> {
        if object.status.is_imported() {
            return self.observe_live(cx, object).await;
        }
        Ok(self.observe_cached(cx, object))
    }

    /// What the watches have delivered.
    pub fn observe_cached(&self, cx: &Context, object: &NamespaceView) -> ObservedState {
        let (namespace, quota) = self.member.observed.at(&object.spec.namespace);
        self.observed_state(cx, object, namespace, quota)
    }

    /// What the cluster itself answers now.
    pub async fn observe_live(&self, cx: &Context, object: &NamespaceView) -> Result<ObservedState, Error> {
        let name = &object.spec.namespace;
        let namespace = self.member.api.namespace(name).await.map_err(Error::Member)?;
        let quota = match namespace {
            Some(_) => self.member.api.quota(name).await.map_err(Error::Member)?,
            None => None,
        };
        Ok(self.observed_state(cx, object, namespace.map(Arc::new), quota.map(Arc::new)))
    }

    fn observed_state(
        &self,
        cx: &Context,
        object: &NamespaceView,
        namespace: Option<Arc<ClusterNamespace>>,
        quota: Option<Arc<ClusterQuota>>,
    ) -> ObservedState {
        let uid = namespace.as_ref().map(|there| there.uid.as_str()).unwrap_or_default();
        let name = &object.spec.namespace;
        let opened = |seal: Option<&String>| seal.and_then(|seal| self.open(name, uid, seal));
        let is_ahead =
            |orphan: &business_types::Orphan| orphan.state == OrphanState::Ahead && orphan.uid == uid;
        ObservedState {
            namespace_seal: opened(namespace.as_ref().and_then(|there| there.marks.seal.as_ref())),
            quota_seal: opened(quota.as_ref().and_then(|there| there.marks.seal.as_ref()))
                .filter(|opened| opened.sealed.namespace_uid.is_some()),
            never_created: cx
                .objects
                .namespaces
                .memory
                .never_created
                .has(&object.uid, cx.term_of(&object.spec.cluster_name)),
            is_excess_reported: self.project.status.orphans.iter().any(is_ahead),
            quiet: is_quiet(object, cx.clock.unix_seconds()),
            namespace,
            quota,
        }
    }

    /// Opens a seal, if it is valid for this cluster, this name and this namespace. A seal from before the namespace
    /// was created has no uid.
    pub fn open(&self, name: &str, uid: &str, seal: &str) -> Option<VerifiedSeal> {
        self.keyring.open(seal).filter(|opened| opened.sealed.is_of(&self.member.uid, name, uid))
    }

    /// The content of a seal for an object.
    pub fn sealed(&self, object: &NamespaceView, namespace_uid: Option<&str>, origin: Origin) -> Sealed {
        Sealed {
            cluster: self.member.uid.clone(),
            namespace: object.spec.namespace.clone(),
            namespace_uid: namespace_uid.map(str::to_owned),
            after: None,
            object: object.uid.clone(),
            tenant: object.spec.tenant_id.clone(),
            project: object.key.project.to_string(),
            project_uid: self.project.uid.clone(),
            generation: object.generation,
            origin,
            hard: object.spec.hard.clone(),
        }
    }
}

fn is_quiet(object: &NamespaceView, now: i64) -> bool {
    let provisioned = condition::find(&object.status.conditions, PROVISIONED);
    let since = provisioned.and_then(|condition| meta::time::parse(&condition.last_transition_time).ok());
    object.status.phase == NamespacePhase::Available
        && since.is_some_and(|since| now.saturating_sub(since) >= QUIET_SECONDS)
}
