//! The directory of member clusters: which exist, and which cluster each name stands for. Listed clusters are
//! registered automatically.
//!
//! A name stands for one cluster as long as its `MemberCluster` exists: the uid of the cluster's `kube-system` is
//! recorded in its status at the first contact. Another cluster that answers under the name counts as no answer, and a
//! second name for a cluster is refused, so that no budget is granted twice.

/// A kubeconfig file whose contexts are the clusters, or a directory of kubeconfigs.
pub mod kubeconfig;
/// Kubeconfigs in Secrets of a namespace of the host cluster.
pub mod secrets;
/// TKE's platform API.
pub mod platform;
/// The description of a cluster, and how it is merged into its object.
pub mod description;
/// Records which cluster a name stands for.
pub mod registration;
/// The clusters that are in use.
pub mod in_use;
/// The credential in a kubeconfig.
pub mod credential;
/// Rotation of credentials of a followed cluster.
pub mod rotation;
/// New credentials that are being tried.
pub mod new_credentials;
/// Sources, and what they list.
pub mod listing;
/// The source that the command line names.
pub mod sources;

pub use listing::{DirectorySource, ListedCluster, Listing};
pub use sources::open_source;

use crate::context::Context;
use crate::dial::Dialer;
use crate::dispatch;
use crate::error::Error;
use crate::events::Topic;
use crate::kinds::{ObjectKey as _, RootKey};
use crate::member::{Member, MemberApi, Reach, session};
use crate::member_cluster::enqueue_cluster;
use crate::member_cluster::kind::{DirectoryEntry, ListingState};
use crate::metrics::StateLabels;
use crate::queue::Lane;
use crate::shares::Share;
use business_types::registry::REGISTRY_DOMAIN;
use credential::Credential;
use description::ClusterDescription;
use futures_util::future::join_all;
use meta::validation::NameRule;
use new_credentials::{CredentialTrial, NewCredentials};
use registration::IdentifiedCluster;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

/// How soon a cluster is queried again whose uid or version is not known.
const QUERY_PERIOD: Duration = Duration::from_secs(15);
/// How often a cluster is queried for its version.
const VERSION_PERIOD: Duration = Duration::from_mins(5);
/// How soon another client certificate is asked for if the last one had ended when it came: our clock may be ahead.
const RENEWAL_PERIOD: Duration = if cfg!(test) { Duration::ZERO } else { Duration::from_secs(15) };

const REFUSED: Topic = Topic::warning("ClusterRefused", "Accept");
const UNUSABLE: Topic = Topic::warning("KubeconfigUnusable", "Accept");

/// Reads a source, and follows the listed clusters of our shares.
#[derive(Debug)]
pub struct Directory {
    cx: Arc<Context>,
    source: Arc<dyn DirectorySource>,
    dialer: Dialer,
    /// The listed clusters by name, registered or not.
    listed: BTreeMap<String, TrackedCluster>,
    /// Refused names, with the name that already stands for the same cluster.
    duplicates: BTreeMap<String, String>,
    /// Names without a usable kubeconfig, and why.
    unusable: BTreeMap<String, String>,
    /// Whether the source was ever read.
    was_read: bool,
    /// Whether the records of all listed clusters could be read at the last try.
    are_records_known: bool,
    /// The last term of the fleet's share in which all clusters without a record were queried.
    fleet_queried_in: Option<u64>,
    reading: JoinSet<Result<Listing, Error>>,
    /// When to read the source again.
    due: Instant,
    queries_running: JoinSet<ClusterAnswers>,
    trials: JoinSet<CredentialTrial>,
    sessions: JoinSet<()>,
}

struct TrackedCluster {
    fingerprint: String,
    version: String,
    entry: ClusterDescription,
    client: kube::Client,
    /// When the client was made.
    client_since: Instant,
    /// The credential in use, if it can be recognized.
    credential: Option<Credential>,
    /// New credentials that are listed in place of those in use.
    new_credentials: Option<NewCredentials>,
    /// Why the new credentials are not used.
    refused: Option<String>,
    /// The uid that is recorded for the name, once it is.
    uid: Option<String>,
    /// Set while it is followed.
    followed: Option<Followed>,
    /// When it was last queried.
    queried_at: Option<Instant>,
}

#[derive(Debug)]
struct Followed {
    member: Arc<Member>,
    session: AbortHandle,
}

impl TrackedCluster {
    fn reach(&self) -> Reach {
        self.followed.as_ref().map_or(Reach::Connecting, |followed| followed.member.reach())
    }

    /// Whether a client certificate has ended that a program of the kubeconfig has given. A client asks for it only
    /// once, when it is made.
    fn has_ended(&self, now: i64) -> bool {
        let until = self.client.valid_until().as_ref();
        until.is_some_and(|until| until.as_second() <= now) && self.client_since.elapsed() >= RENEWAL_PERIOD
    }
}

impl Debug for TrackedCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrackedCluster")
            .field("entry", &self.entry)
            .field("followed", &self.followed)
            .finish_non_exhaustive()
    }
}

impl Directory {
    /// A directory from this source.
    pub fn new(cx: Arc<Context>, source: Box<dyn DirectorySource>, dialer: Dialer) -> Self {
        Self {
            cx,
            source: Arc::from(source),
            dialer,
            listed: BTreeMap::new(),
            duplicates: BTreeMap::new(),
            unusable: BTreeMap::new(),
            was_read: false,
            are_records_known: false,
            fleet_queried_in: None,
            reading: JoinSet::new(),
            due: Instant::now(),
            queries_running: JoinSet::new(),
            trials: JoinSet::new(),
            sessions: JoinSet::new(),
        }
    }

    /// Reads the source and follows the clusters for ever. Returns only if a session has ended, which must not happen.
    pub async fn run(mut self) {
        self.cx.objects.member_clusters.synced().await;
        let mut changes = self.cx.shares.changes();
        loop {
            tokio::select! {
                // First, so that a newly acquired share is served at once.
                biased;
                Some(ended) = self.sessions.join_next() => {
                    if ended.as_ref().is_err_and(tokio::task::JoinError::is_cancelled) {
                        continue;
                    }
                    tracing::error!("following a member cluster has ended");
                    return;
                }
                // The sender lives as long as the context.
                _ = changes.changed() => self.refresh().await,
                () = self.cx.members.probe_failed.notified() => self.try_new_credentials(true),
                Some(tried) = self.trials.join_next() => {
                    if let Ok(tried) = tried {
                        self.apply_trial(tried);
                    }
                    self.sync_sessions();
                }
                Some(answers) = self.queries_running.join_next() => {
                    self.apply_answers(answers.unwrap_or_default()).await;
                    self.sync_sessions();
                }
                Some(listing) = self.reading.join_next() => {
                    match listing {
                        Ok(Ok(listing)) => {
                            self.cx.metrics.directory_read.set(self.cx.clock.unix_seconds());
                            self.apply_listing(listing);
                        }
                        Ok(Err(error)) => {
                            tracing::warn!(error = error.text(), "cannot read the directory of member clusters");
                        }
                        Err(error) => tracing::error!(%error, "reading the directory has broken down"),
                    }
                    self.refresh().await;
                    self.try_new_credentials(false);
                    self.update_descriptions().await;
                }
                () = tokio::time::sleep_until(self.due), if self.reading.is_empty() => {
                    self.due = Instant::now() + self.source.period();
                    let source = Arc::clone(&self.source);
                    self.reading.spawn(async move { source.load().await });
                }
            }
            self.update_metrics();
        }
    }

    /// Applies what the source lists.
    fn apply_listing(&mut self, listing: Listing) {
        let Listing { mut clusters, mut unusable } = listing;
        self.was_read = true;
        clusters.retain(|one| match invalid_name(&one.name) {
            Some(why) => {
                unusable.insert(one.name.clone(), why);
                false
            }
            None => true,
        });
        for (name, why) in unusable.iter().filter(|(name, why)| self.unusable.get(*name) != Some(why)) {
            tracing::error!(cluster = name, error = why, "the kubeconfig of a member cluster cannot be used");
            if self.holds_fleet() {
                let note = format!("the kubeconfig of cluster {name} cannot be used: {why}");
                self.cx.report_cluster(name, UNUSABLE, note);
            }
        }
        self.unusable = unusable;
        let names: BTreeSet<&str> = clusters.iter().map(|one| one.name.as_str()).collect();
        // A cluster that is followed with an earlier kubeconfig stays if the listed one cannot be used.
        for (name, why) in self.unusable.clone() {
            if let Some(tracked) = self.listed.get_mut(&name) {
                tracked.new_credentials = None;
            }
            self.refuse_new_credentials(&name, why);
        }
        let stays =
            |name: &str| names.contains(name) || (self.unusable.contains_key(name) && self.is_followed(name));
        let gone: Vec<String> = self.listed.keys().filter(|name| !stays(name)).cloned().collect();
        for name in gone {
            tracing::warn!(cluster = name, "member cluster is no longer listed");
            self.drop_member(&name);
        }
        let now = self.cx.clock.unix_seconds();
        for one in clusters {
            match self.listed.get_mut(&one.name) {
                Some(tracked) if tracked.fingerprint == one.fingerprint && !tracked.has_ended(now) => {
                    tracked.credential = one.credential();
                    tracked.entry = one.entry;
                    (tracked.new_credentials, tracked.refused) = (None, None);
                    if !one.version.is_empty() {
                        tracked.version = one.version;
                    }
                }
                Some(tracked) if tracked.followed.is_some() => self.offer_new_credentials(one),
                _ => self.add(one),
            }
        }
    }

    fn add(&mut self, one: ListedCluster) {
        self.drop_member(&one.name);
        let credential = one.credential();
        let client = match self.dialer.client(one.config) {
            Ok(client) => client,
            Err(error) => {
                let error = error.text();
                tracing::error!(cluster = one.name, error, "cannot use the credentials of a member cluster");
                self.unusable.insert(one.name, error);
                return;
            }
        };
        let tracked = TrackedCluster {
            fingerprint: one.fingerprint,
            version: one.version,
            entry: one.entry,
            client,
            client_since: Instant::now(),
            credential,
            new_credentials: None,
            refused: None,
            uid: None,
            followed: None,
            queried_at: None,
        };
        self.listed.insert(one.name, tracked);
    }

    fn drop_member(&mut self, name: &str) {
        let Some(tracked) = self.listed.remove(name) else { return };
        if let Some(followed) = tracked.followed {
            followed.session.abort();
        }
        self.duplicates.remove(name);
        self.cx.members.remove(name);
        dispatch::cluster_changed(&self.cx, name);
    }

    /// Whether this replica works on the share of the fleet.
    fn holds_fleet(&self) -> bool {
        self.cx.shares.holds(Share::Fleet)
    }

    /// Reads the records again, and follows the clusters of our shares.
    async fn refresh(&mut self) {
        if !self.was_read {
            return;
        }
        let read = self.refresh_records().await;
        self.are_records_known = read.is_ok();
        if let Err(error) = read {
            tracing::warn!(error = error.text(), "cannot read what the member clusters are recorded as");
        }
        self.sync_sessions();
        self.query_clusters();
    }

    /// Starts and ends sessions, so that exactly the clusters of our shares are followed.
    fn sync_sessions(&mut self) {
        if !self.was_read {
            return;
        }
        let cx = Arc::clone(&self.cx);
        let mut held = cx.shares.held();
        for (name, cluster) in &mut self.listed {
            // The uid is recorded before anything is written to the cluster.
            let share = cluster.uid.as_deref().map(|uid| cx.shares.of_uid(uid));
            let term = share.and_then(|share| held.get(&share).copied());
            let followed = cluster.followed.as_ref().map(|followed| followed.member.term);
            if followed == term {
                continue;
            }
            if let Some(former) = cluster.followed.take() {
                former.session.abort();
                cx.members.remove(name);
            }
            if let (Some(uid), Some(share), Some(_)) = (&cluster.uid, share, term) {
                let member = Member::new(
                    name,
                    uid,
                    cluster.client.clone(),
                    cx.shares.state(share),
                    cx.members.recount,
                );
                cx.members.insert(Arc::clone(&member));
                let session = self.sessions.spawn(session::run(Arc::clone(&cx), Arc::clone(&member)));
                cluster.followed = Some(Followed { member, session });
            }
            dispatch::cluster_changed(&cx, name);
        }
        // A name is `Unknown` only after the records of all listed clusters were read, which say what share each is in.
        if !self.are_records_known {
            held.retain(|share, term| cx.members.is_complete(*share, *term));
        }
        // And only after those without a record were queried for their uid.
        if self.fleet_queried_in.is_none() || held.get(&Share::Fleet).copied() != self.fleet_queried_in {
            held.remove(&Share::Fleet);
        }
        cx.members.set_absent(self.absent());
        for name in cx.objects.member_clusters.memory.set_directory_entries(self.entries()) {
            enqueue_cluster(&cx, &name, Lane::Urgent);
        }
        for share in cx.members.set_complete_shares(held) {
            dispatch::share_changed(&cx, share);
        }
    }

    /// Updates the descriptions in the `MemberCluster` objects of our shares.
    async fn update_descriptions(&self) {
        for (name, tracked) in &self.listed {
            let Some(object) = self.cx.objects.member_clusters.get(&RootKey::new(None, name)) else {
                continue;
            };
            let Some(_guard) = self.cx.shares.enter(self.cx.share_of(name)) else { continue };
            if let Err(error) = registration::describe(&self.cx, &object, &tracked.entry).await {
                tracing::warn!(cluster = name, error = error.text(), "cannot describe a member cluster");
            }
        }
    }

    /// Reads which cluster each name stands for. That a record is gone is believed only if the API says so.
    async fn refresh_records(&mut self) -> Result<(), Error> {
        let (mut forgotten, mut duplicates) = (Vec::new(), Vec::new());
        let followed =
            |(name, tracked): (&String, &TrackedCluster)| Some((tracked.uid.clone()?, name.clone()));
        let mut names: BTreeMap<String, String> = self.listed.iter().filter_map(followed).collect();
        for (name, tracked) in &mut self.listed {
            let object = self.cx.objects.member_clusters.get(&RootKey::new(None, name));
            let cached = object.map(|object| object.status.uid.clone()).filter(|uid| !uid.is_empty());
            if cached == tracked.uid {
                continue;
            }
            let uid = registration::recorded(&self.cx, name).await?;
            if tracked.uid.is_some() && uid != tracked.uid {
                forgotten.push(name.clone());
                continue;
            }
            let Some(uid) = uid else { continue };
            // A former holder may have recorded it at the last moment.
            if let Some(other) = names.get(&uid).filter(|other| *other != name) {
                duplicates.push((name.clone(), other.clone(), uid));
            } else {
                names.insert(uid.clone(), name.clone());
                tracked.uid = Some(uid);
            }
        }
        for (name, other, uid) in duplicates {
            self.refuse_duplicate(name, other, &uid);
        }
        if !forgotten.is_empty() {
            // Whoever has deleted the record may have removed the name from the source before. So the source is read
            // again, and a read that has begun before is dropped.
            (self.reading, self.due) = (JoinSet::new(), Instant::now());
        }
        for name in forgotten {
            tracing::warn!(
                cluster = name,
                "the record of a member cluster has gone: it is registered anew if it is still listed"
            );
            self.drop_member(&name);
        }
        Ok(())
    }

    /// Recorded names of clusters in use that are not followed, and why.
    fn absent(&self) -> BTreeMap<String, String> {
        let in_use = in_use::clusters(&self.cx.objects);
        let counts = |name: &str| {
            self.unusable.contains_key(name) || in_use.contains(name) || !self.cx.objects.is_synced()
        };
        let why = |name: &str| match self.unusable.get(name) {
            Some(why) => format!("its kubeconfig cannot be used: {why}"),
            None => "it is not listed any more".to_owned(),
        };
        let known = self.cx.objects.member_clusters.all();
        let shares = &self.cx.shares;
        let is_ours = |uid: &str| !uid.is_empty() && shares.holds(shares.of_uid(uid));
        let recorded = known.iter().filter(|object| is_ours(&object.status.uid));
        let names = recorded.map(|object| object.key.name());
        let absent = names.filter(|name| !self.is_followed(name) && counts(name));
        absent.map(|name| (name.to_owned(), why(name))).collect()
    }

    fn is_followed(&self, name: &str) -> bool {
        self.listed.get(name).is_some_and(|tracked| tracked.followed.is_some())
    }

    /// The directory's entry of each name, for its `MemberCluster`.
    fn entries(&self) -> BTreeMap<String, DirectoryEntry> {
        let now = self.cx.clock.unix_seconds();
        let listed = self.listed.iter().map(|(name, tracked)| {
            let listed =
                self.duplicates.get(name).cloned().map_or(ListingState::Listed, ListingState::DuplicateName);
            let credential = tracked.credential.as_ref().map(|credential| credential.info(now));
            let (version, refused) = (tracked.version.clone(), tracked.refused.clone());
            (name.clone(), DirectoryEntry { listed, version, credential, refused })
        });
        let unusable = self.unusable.iter().map(|(name, why)| {
            let listed = ListingState::Unusable(why.clone());
            (name.clone(), DirectoryEntry { listed, ..DirectoryEntry::default() })
        });
        // Last, so that a cluster that is followed with an earlier kubeconfig counts as listed.
        unusable.chain(listed).collect()
    }

    /// The current term of the fleet's share, if it is ours and not all clusters without a record were queried in it.
    fn unqueried_fleet_term(&self) -> Option<u64> {
        let term = self.cx.shares.held().get(&Share::Fleet).copied();
        term.filter(|term| self.fleet_queried_in != Some(*term))
    }

    /// Queries clusters for their uid, if it is not recorded, and their version. Clusters without a record belong to
    /// the fleet.
    fn query_clusters(&mut self) {
        if !self.queries_running.is_empty() {
            return;
        }
        let mut queries = Vec::new();
        let holds_fleet = self.holds_fleet();
        let fleet = self.unqueried_fleet_term();
        for (name, tracked) in &mut self.listed {
            let known = tracked.uid.is_some();
            let is_ours = if known { tracked.reach() == Reach::Reachable } else { holds_fleet };
            let is_complete = known && !tracked.version.is_empty();
            let period = if is_complete { VERSION_PERIOD } else { QUERY_PERIOD };
            let is_new = !known && fleet.is_some();
            if is_ours && (is_new || tracked.queried_at.is_none_or(|at| at.elapsed() >= period)) {
                tracked.queried_at = Some(Instant::now());
                let api = MemberApi::for_unidentified_cluster(tracked.client.clone(), self.cx.fleet());
                let query = ClusterQuery { name: name.clone(), fingerprint: tracked.fingerprint.clone() };
                queries.push(query_cluster(query, api, known));
            }
        }
        if fleet.is_some() || !queries.is_empty() {
            self.queries_running
                .spawn(async move { ClusterAnswers { fleet, answers: join_all(queries).await } });
        }
    }

    /// Applies the answers of clusters. One that cannot be registered does not prevent the others.
    async fn apply_answers(&mut self, answered: ClusterAnswers) {
        let ClusterAnswers { fleet, mut answers } = answered;
        // In the order of names, so that of two names for one cluster always the same is refused.
        answers.sort_by(|a, b| a.query.name.cmp(&b.query.name));
        let guard = self.cx.shares.enter(Share::Fleet);
        for ClusterAnswer { query: ClusterQuery { name, fingerprint }, uid, version } in answers {
            // The name may be listed with another kubeconfig by now.
            let tracked = self.listed.get_mut(&name).filter(|tracked| tracked.fingerprint == fingerprint);
            let Some(tracked) = tracked else { continue };
            if let Some(version) = version {
                tracked.version = version;
            }
            if let (Some(uid), Some(_)) = (uid, &guard)
                && let Err(error) = self.register(name.clone(), &uid).await
            {
                tracing::warn!(cluster = name, error = error.text(), "cannot register a member cluster");
            }
        }
        // Clusters without a record were not queried if the query was sent before the share was ours.
        if fleet.is_some() && fleet == guard.map(|guard| guard.term()) {
            self.fleet_queried_in = fleet;
        }
        if self.unqueried_fleet_term().is_some() {
            self.query_clusters();
        }
    }

    async fn register(&mut self, name: String, uid: &str) -> Result<(), Error> {
        if let Some(other) = self.name_of(uid).filter(|other| *other != name) {
            self.refuse_duplicate(name, other, uid);
            return Ok(());
        }
        self.duplicates.remove(&name);
        let Some(tracked) = self.listed.get(&name) else { return Ok(()) };
        let cluster = IdentifiedCluster { name: &name, uid, described: &tracked.entry };
        let registered = registration::register(&self.cx, cluster).await?;
        if let Some(tracked) = self.listed.get_mut(&name) {
            tracked.uid = registered;
        }
        Ok(())
    }

    fn refuse_duplicate(&mut self, name: String, other: String, uid: &str) {
        if self.duplicates.get(&name) != Some(&other) {
            let note =
                format!("cluster {name} is refused: it is the cluster that {other} stands for already");
            tracing::error!(cluster = name, other, uid, "a second name for a member cluster is refused");
            self.cx.report_cluster(&name, REFUSED, note);
            self.duplicates.insert(name, other);
        }
    }

    /// The name that stands for a cluster.
    fn name_of(&self, uid: &str) -> Option<String> {
        let just_now = self.listed.iter().find(|(_, tracked)| tracked.uid.as_deref() == Some(uid));
        just_now.map(|(name, _)| name.clone()).or_else(|| {
            let known = self.cx.objects.member_clusters.all();
            known.iter().find(|object| object.status.uid == uid).map(|object| object.key.name().to_owned())
        })
    }

    fn update_metrics(&self) {
        let (mut reachable, mut unreachable, mut connecting, mut duplicates) =
            (0_usize, 0_usize, 0_usize, 0_usize);
        let holds_fleet = self.holds_fleet();
        // Each cluster is counted by one replica.
        let is_ours =
            |tracked: &&TrackedCluster| tracked.followed.is_some() || tracked.uid.is_none() && holds_fleet;
        for (name, tracked) in self.listed.iter().filter(|(_, tracked)| is_ours(tracked)) {
            match tracked.reach() {
                Reach::Reachable => reachable += 1,
                Reach::Unreachable { .. } => unreachable += 1,
                Reach::Connecting if self.duplicates.contains_key(name) => duplicates += 1,
                Reach::Connecting => connecting += 1,
            }
        }
        let known = self.cx.objects.member_clusters.all();
        let unusable = self.unusable.keys().filter(|name| !self.listed.contains_key(*name)).count();
        let unlisted = known.iter().map(|object| object.key.name());
        let unlisted = unlisted
            .filter(|name| !self.listed.contains_key(*name) && !self.unusable.contains_key(*name))
            .filter(|_| holds_fleet)
            .count();
        // Before the source was read, nobody knows which clusters are listed.
        let (unlisted, unread) = if self.was_read { (unlisted, 0) } else { (0, unlisted) };
        let states = [
            ("reachable", reachable),
            ("unreachable", unreachable),
            ("connecting", connecting + unread),
            ("unusable", if holds_fleet { unusable + duplicates } else { 0 }),
            ("unlisted", unlisted),
        ];
        for (state, count) in states {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.cx.metrics.members.get_or_create(&StateLabels { state }).set(count);
        }
        self.update_credential_metrics();
    }
}

/// Why a cluster cannot have this name; `None` if it can.
fn invalid_name(name: &str) -> Option<String> {
    if name == REGISTRY_DOMAIN {
        return Some("this is what budgets of the registry are called".to_owned());
    }
    let wrong = NameRule::Subdomain.check(name);
    wrong.into_iter().next().map(|why| format!("no MemberCluster can have its name: {why}"))
}

/// The answers of clusters that were queried together.
#[derive(Debug, Default)]
struct ClusterAnswers {
    /// The term of the fleet's share in which all clusters without a record were queried.
    fleet: Option<u64>,
    answers: Vec<ClusterAnswer>,
}

/// The cluster that was queried: its name, and the fingerprint of its kubeconfig.
#[derive(Debug)]
struct ClusterQuery {
    name: String,
    fingerprint: String,
}

/// What a cluster has answered.
#[derive(Debug)]
struct ClusterAnswer {
    query: ClusterQuery,
    uid: Option<String>,
    version: Option<String>,
}

async fn query_cluster(query: ClusterQuery, api: MemberApi, known: bool) -> ClusterAnswer {
    let mut uid = None;
    if !known {
        match api.cluster_uid().await {
            Ok(found) => uid = Some(found),
            Err(failure) => {
                tracing::warn!(cluster = query.name, error = %failure, "member cluster does not say who it is");
                return ClusterAnswer { query, uid: None, version: None };
            }
        }
    }
    let version = api.version().await.ok();
    ClusterAnswer { query, uid, version }
}

#[cfg(test)]
mod tests;
