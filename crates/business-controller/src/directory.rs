//! The member clusters: which there are, which is which, and what the API server is told of them.
//!
//! A name stands for one cluster for as long as namespaces of ours live in it: the uid of its `kube-system` is
//! recorded at the first contact. Another cluster behind the name counts as no answer, and a second name for a
//! cluster is refused, so that no budget exists twice.

/// A kubeconfig file whose contexts are the clusters, or a directory of kubeconfigs.
pub mod kubeconfig;
/// Kubeconfigs in Secrets of the controller's namespace.
pub mod secrets;
/// TKE's platform API.
pub mod platform;
/// The `ConfigMap` by which the API server learns of the clusters.
pub mod publish;
/// The clusters that something of ours may lie in.
pub mod in_use;

use crate::context::Context;
use crate::dispatch;
use crate::error::Error;
use crate::events::Topic;
use crate::member::{Member, MemberApi, Reach, session};
use crate::outcome::StateLabels;
use business_types::registry::REGISTRY_DOMAIN;
use futures_util::future::BoxFuture;
use publish::{Published, PublishedCluster, Publisher};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

/// Connecting to a member cluster must not take longer.
const CONNECT_DEADLINE: Duration = Duration::from_secs(4);

/// A cluster that did not say everything is asked again after this time.
const ASK_PERIOD: Duration = Duration::from_secs(15);

const REFUSED: Topic = Topic::warning("ClusterRefused", "Accept");
const UNUSABLE: Topic = Topic::warning("KubeconfigUnusable", "Accept");

/// Where the member clusters are listed.
pub trait DirectorySource: Debug + Send + Sync {
    /// All of them as they are listed now.
    fn load(&self) -> BoxFuture<'_, Result<Listing, Error>>;
    /// How often to look.
    fn period(&self) -> Duration;
}

/// What a source lists.
#[derive(Debug, Default)]
pub struct Listing {
    pub clusters: Vec<Listed>,
    /// Names of which there is no usable kubeconfig, and why.
    pub unusable: BTreeMap<String, String>,
}

impl Listing {
    /// One that cannot be used takes no other down.
    fn take(&mut self, name: &str, listed: Result<Listed, Error>) {
        match listed {
            Ok(listed) => self.clusters.push(listed),
            Err(error) => drop(self.unusable.insert(name.to_owned(), error.text())),
        }
    }
}

/// A member cluster as a source lists it.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its name, as in `spec.clusterName`.
    pub name: String,
    /// How to reach it.
    pub config: kube::Config,
    /// Changes when the way to reach it does.
    pub fingerprint: String,
    /// What the API server is told of it.
    pub entry: PublishedCluster,
}

/// Follows a source for as long as this process leads.
#[derive(Debug)]
pub struct Directory {
    cx: Arc<Context>,
    source: Box<dyn DirectorySource>,
    publisher: Publisher,
    /// By name, whether accepted yet or not.
    listed: BTreeMap<String, HeldCluster>,
    /// Names refused, by the uid of the cluster that they would stand for.
    refused: BTreeMap<String, String>,
    /// Names without a usable kubeconfig, and why.
    unusable: BTreeMap<String, String>,
    sessions: JoinSet<()>,
}

struct HeldCluster {
    fingerprint: String,
    entry: PublishedCluster,
    client: kube::Client,
    /// Since it was accepted.
    followed: Option<Followed>,
    /// When it was last asked for what is not known of it.
    asked: Option<Instant>,
}

#[derive(Debug)]
struct Followed {
    member: Arc<Member>,
    session: AbortHandle,
}

impl HeldCluster {
    fn reach(&self) -> Reach {
        self.followed.as_ref().map_or(Reach::Connecting, |followed| followed.member.reach())
    }
}

impl Debug for HeldCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held")
            .field("entry", &self.entry)
            .field("followed", &self.followed)
            .finish_non_exhaustive()
    }
}

impl Directory {
    /// A directory from this source.
    pub fn new(cx: Arc<Context>, source: Box<dyn DirectorySource>, publisher: Publisher) -> Self {
        Self {
            cx,
            source,
            publisher,
            listed: BTreeMap::new(),
            refused: BTreeMap::new(),
            unusable: BTreeMap::new(),
            sessions: JoinSet::new(),
        }
    }

    /// Follows the source. Returns only if following a member cluster has ended, which is never asked for.
    pub async fn run(mut self) {
        // Nothing is written to a cluster without a seal.
        self.cx.seals.read().await;
        loop {
            match self.source.load().await {
                Ok(listing) => self.take(listing),
                Err(error) => {
                    tracing::warn!(error = error.text(), "cannot read the directory of member clusters");
                }
            }
            if let Err(error) = self.follow().await {
                tracing::warn!(error = error.text(), "cannot publish the member clusters");
            } else if self.cx.members.set_loaded() {
                for cluster in self.cx.objects.namespaces.clusters() {
                    dispatch::cluster_changed(&self.cx, &cluster);
                }
            }
            self.count();
            tokio::select! {
                () = tokio::time::sleep(self.source.period()) => {}
                Some(ended) = self.sessions.join_next() => {
                    if ended.as_ref().is_err_and(tokio::task::JoinError::is_cancelled) {
                        continue;
                    }
                    tracing::error!("following a member cluster has ended");
                    return;
                }
            }
        }
    }

    /// Takes over what the source lists.
    fn take(&mut self, listing: Listing) {
        let Listing { mut clusters, mut unusable } = listing;
        clusters.retain(|one| {
            one.name != REGISTRY_DOMAIN || {
                unusable
                    .insert(one.name.clone(), "this is what budgets of the registry are called".to_owned());
                false
            }
        });
        for (name, why) in unusable.iter().filter(|(name, why)| self.unusable.get(*name) != Some(why)) {
            tracing::error!(cluster = name, error = why, "the kubeconfig of a member cluster cannot be used");
            let note = format!("the kubeconfig of cluster {name} cannot be used: {why}");
            self.cx.events.report_directory(UNUSABLE, note);
        }
        self.unusable = unusable;
        let names: BTreeSet<&str> = clusters.iter().map(|one| one.name.as_str()).collect();
        let gone: Vec<String> =
            self.listed.keys().filter(|name| !names.contains(name.as_str())).cloned().collect();
        for name in gone {
            tracing::warn!(cluster = name, "member cluster is no longer listed");
            self.drop_member(&name);
        }
        for one in clusters {
            match self.listed.get_mut(&one.name) {
                Some(held) if held.fingerprint == one.fingerprint => held.entry.take_described(&one.entry),
                _ => self.add(one),
            }
        }
    }

    fn add(&mut self, one: Listed) {
        self.drop_member(&one.name);
        let mut config = one.config;
        config.connect_timeout = Some(CONNECT_DEADLINE);
        config.default_retry = false;
        let client = match kube::Client::try_from(config) {
            Ok(client) => client,
            Err(error) => {
                let error = crate::error::chain(&error);
                tracing::error!(cluster = one.name, error, "cannot use the credentials of a member cluster");
                self.unusable.insert(one.name, error);
                return;
            }
        };
        let held = HeldCluster {
            fingerprint: one.fingerprint,
            entry: one.entry,
            client,
            followed: None,
            asked: None,
        };
        self.listed.insert(one.name, held);
    }

    fn drop_member(&mut self, name: &str) {
        let Some(held) = self.listed.remove(name) else { return };
        if let Some(followed) = held.followed {
            followed.session.abort();
        }
        self.refused.remove(name);
        self.cx.members.remove(name);
        dispatch::cluster_changed(&self.cx, name);
    }

    /// Accepts clusters that answer for the first time, follows those accepted, and publishes them.
    async fn follow(&mut self) -> Result<(), Error> {
        self.publisher.load().await?;
        self.identify().await;
        let in_use = in_use::clusters(&self.cx.objects);
        let keep = |name: &str| {
            self.listed.contains_key(name) || in_use.contains(name) || !self.cx.objects.is_synced()
        };
        self.publisher.forget_uids(keep);
        let accepted: BTreeMap<String, PublishedCluster> = self
            .listed
            .iter()
            .filter(|(name, _)| self.publisher.uid(name).is_some())
            .map(|(name, held)| (name.clone(), held.entry.clone()))
            .collect();
        // What a name stands for is on record before anything is written to the cluster.
        if self.publisher.publish(accepted).await? == Published::ForTheFirstTime {
            self.cx.fence.renewed_from_now_on().await;
        }
        for (name, held) in self.listed.iter_mut().filter(|(_, held)| held.followed.is_none()) {
            let Some(uid) = self.publisher.uid(name) else { continue };
            let member = Member::new(name, uid, held.client.clone(), &self.cx.fence);
            self.cx.members.insert(Arc::clone(&member));
            let session = self.sessions.spawn(session::run(Arc::clone(&self.cx), Arc::clone(&member)));
            held.followed = Some(Followed { member, session });
            dispatch::cluster_changed(&self.cx, name);
        }
        self.cx.members.set_absent(self.absent());
        Ok(())
    }

    /// Names on record that cannot be reached, and why.
    fn absent(&self) -> BTreeMap<String, String> {
        let followed = |name: &str| self.listed.get(name).is_some_and(|held| held.followed.is_some());
        let why = |name: &str| match self.unusable.get(name) {
            Some(why) => format!("its kubeconfig cannot be used: {why}"),
            None => "it is not listed any more".to_owned(),
        };
        let absent = self.publisher.names().filter(|name| !followed(name));
        absent.map(|name| (name.to_owned(), why(name))).collect()
    }

    /// Asks clusters for what is not known of them: who they are, and their version.
    async fn identify(&mut self) {
        let mut questions = JoinSet::new();
        // A second name may be used as soon as the first one stands for nothing any more.
        self.refused.retain(|_, uid| self.publisher.name_of(uid).is_some());
        for (name, held) in &mut self.listed {
            let known = self.publisher.uid(name).is_some();
            let reachable = held.followed.is_none() || held.reach() == Reach::Reachable;
            let lacks_something = !known || held.entry.version.is_empty();
            let is_due = held.asked.is_none_or(|at| at.elapsed() >= ASK_PERIOD);
            if reachable && lacks_something && is_due && !self.refused.contains_key(name) {
                held.asked = Some(Instant::now());
                let api = MemberApi::for_questions(held.client.clone(), &self.cx.fence);
                questions.spawn(question(name.clone(), api, known));
            }
        }
        // In the order of names: of two names for one cluster it is always the same that is refused.
        let mut answers = questions.join_all().await;
        answers.sort_by(|a, b| a.name.cmp(&b.name));
        for answer in answers {
            if let (Some(version), Some(held)) = (answer.version, self.listed.get_mut(&answer.name)) {
                held.entry.version = version;
            }
            if let Some(uid) = answer.uid {
                self.recognize(answer.name, uid);
            }
        }
    }

    fn recognize(&mut self, name: String, uid: String) {
        let Some(other) = self.publisher.name_of(&uid) else {
            tracing::info!(cluster = name, uid, "member cluster accepted");
            self.publisher.record(name, uid);
            return;
        };
        let note = format!("cluster {name} is refused: it is the cluster that {other} stands for already");
        tracing::error!(cluster = name, other, uid, "a second name for a member cluster is refused");
        self.cx.events.report_directory(REFUSED, note);
        self.refused.insert(name, uid);
    }

    fn count(&self) {
        let (mut reachable, mut unreachable, mut waiting) = (0, 0, 0);
        for held in self.listed.values() {
            match held.reach() {
                Reach::Reachable => reachable += 1,
                Reach::Unreachable { .. } => unreachable += 1,
                Reach::Connecting => waiting += 1,
            }
        }
        for (state, count) in
            [("reachable", reachable), ("unreachable", unreachable), ("connecting", waiting)]
        {
            self.cx.metrics.members.get_or_create(&StateLabels { state }).set(count);
        }
    }
}

/// What a cluster says of itself.
#[derive(Debug)]
struct ClusterAnswer {
    name: String,
    uid: Option<String>,
    version: Option<String>,
}

async fn question(name: String, api: MemberApi, known: bool) -> ClusterAnswer {
    let mut uid = None;
    if !known {
        match api.cluster_uid().await {
            Ok(found) => uid = Some(found),
            Err(failure) => {
                tracing::warn!(cluster = name, error = %failure, "member cluster does not say who it is");
                return ClusterAnswer { name, uid: None, version: None };
            }
        }
    }
    let version = api.version().await.ok();
    ClusterAnswer { name, uid, version }
}
