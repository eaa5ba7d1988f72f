//! What every pass over an object is given.

use crate::business::Business;
use crate::events::Recorder;
use crate::leader::Fence;
use crate::member::Member;
use crate::objects::{Key, NamespaceView, Objects, View};
use crate::outcome::ControllerMetrics;
use crate::queue::{Lane, Queue};
use runtime::Clock;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Objects of one member cluster, and projects, that may be at work at a time.
pub const GROUP_RUNNING_MAX: usize = 16;
/// The group of projects in the queue: no member cluster has an empty name.
const PROJECTS: &str = "";

/// What every pass over an object is given.
#[derive(Debug)]
pub struct Context {
    /// Calls to our API.
    pub business: Business,
    /// Our objects as last seen.
    pub objects: Objects,
    /// The member clusters.
    pub members: Members,
    /// Objects to look at.
    pub queue: Queue<Key>,
    /// What the holder of the lease may do.
    pub fence: Arc<Fence>,
    /// Kubernetes events.
    pub events: Recorder,
    /// Metrics.
    pub metrics: ControllerMetrics,
    /// The time.
    pub clock: Clock,
    /// Names in member clusters that are never ours.
    pub forbidden: Vec<String>,
    /// From when on the figures of a project may be written again.
    pub figures: Mutex<HashMap<String, Instant>>,
    /// Our objects had to be listed anew: what is known of them may have been another history's.
    pub relisted: Notify,
}

impl Context {
    /// Looks at a namespace again.
    pub fn wake_namespace(&self, namespace: &NamespaceView, lane: Lane, delay: Duration) {
        let key = Key::namespace(&namespace.namespace, &namespace.name);
        self.queue.add_after(&key, &namespace.spec.cluster_name, lane, delay);
    }

    /// Looks at the namespace that a place in a member cluster belongs to.
    pub fn wake_place(&self, cluster: &str, namespace: &str, lane: Lane, delay: Duration) {
        if let Some(object) = self.objects.at_place(cluster, namespace) {
            self.wake_namespace(&object, lane, delay);
        }
    }

    /// Looks at all namespaces of a member cluster: at those first that somebody waits for.
    pub fn wake_cluster(&self, cluster: &str) {
        for object in self.objects.namespaces_in(Some(cluster)) {
            let settled =
                object.status.phase == business_types::NamespacePhase::Available && !object.deleting;
            self.wake_namespace(&object, if settled { Lane::Later } else { Lane::Urgent }, Duration::ZERO);
        }
    }

    /// Looks at a project again. What only changes its figures waits until they may be written.
    pub fn wake_project(&self, name: &str, lane: Lane) {
        if name.is_empty() {
            return;
        }
        let delay = if lane == Lane::Later { self.figures_wait(name) } else { None };
        self.queue.add_after(&Key::project(name), PROJECTS, lane, delay.unwrap_or_default());
    }

    /// How long the figures of a project have to wait until they are written again.
    pub fn figures_wait(&self, project: &str) -> Option<Duration> {
        let figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        crate::leader::until(figures.get(project).copied()).err()
    }

    /// The figures of a project were written; the next time is after `period`.
    pub fn figures_written(&self, project: &str, period: Duration) {
        let mut figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        figures.insert(project.to_owned(), Instant::now() + period);
    }

    /// The project is gone.
    pub fn forget_figures(&self, project: &str) {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner).remove(project);
    }

    /// Whether an object has been going for longer than this.
    pub fn is_overdue<S, T>(&self, object: &View<S, T>, patience: Duration) -> bool {
        let patience = i64::try_from(patience.as_secs()).unwrap_or(i64::MAX);
        object.deleting_since.is_some_and(|since| self.clock.unix_seconds().saturating_sub(since) >= patience)
    }

    /// Now, RFC 3339 in whole seconds.
    pub fn now(&self) -> String {
        meta::time::rfc3339(self.clock.unix_seconds())
    }
}

/// The member clusters of the directory.
#[derive(Debug, Default)]
pub struct Members {
    inner: RwLock<Directory>,
}

#[derive(Debug, Default)]
struct Directory {
    loaded: bool,
    members: BTreeMap<String, Arc<Member>>,
}

/// What the directory says of a name.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// The directory was not read yet.
    NotLoaded,
    /// It is not listed, or not accepted.
    Unknown,
    /// It is listed.
    Found(Arc<Member>),
}

impl Members {
    /// What the directory says of a name.
    pub fn find(&self, name: &str) -> Lookup {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        match inner.members.get(name) {
            Some(member) => Lookup::Found(Arc::clone(member)),
            None if inner.loaded => Lookup::Unknown,
            None => Lookup::NotLoaded,
        }
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Member>> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner).members.values().cloned().collect()
    }

    /// Adds or replaces one.
    pub fn insert(&self, member: Arc<Member>) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.members.insert(member.name.clone(), member);
    }

    /// Removes one.
    pub fn remove(&self, name: &str) {
        self.inner.write().unwrap_or_else(PoisonError::into_inner).members.remove(name);
    }

    /// The directory was read; `true` the first time.
    pub fn set_loaded(&self) -> bool {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        !std::mem::replace(&mut inner.loaded, true)
    }
}
