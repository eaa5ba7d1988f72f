//! Who is a member of which projects, kept from the store's own watch.

use crate::follow::{Index, Kept};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use store::{Attributes, Entry, KindId, Store};
use tokio::sync::watch;

/// Subscriptions after which those that ended are looked for, at the least.
const SWEEP_MIN: usize = 1024;

/// The projects of every member, by tenant and user.
#[derive(Clone, Debug)]
pub struct Members(Kept<Memberships>);

#[derive(Debug, Default)]
struct Memberships {
    projects: HashMap<Arc<str>, Named>,
    tenants: HashMap<Box<str>, HashMap<Box<str>, Member>>,
    /// Subscriptions until those that ended are looked for.
    until_sweep: usize,
}

/// Whom a project names.
#[derive(Debug)]
struct Named {
    tenant: Box<str>,
    users: Box<[Box<str>]>,
}

/// A user with his projects, or one who waits to be told of them.
#[derive(Debug, Default)]
struct Member {
    projects: BTreeSet<Arc<str>>,
    /// The projects as they are handed out: copied when somebody asks, once between two changes, so that a change costs
    /// the same whatever their number.
    shared: OnceLock<Arc<BTreeSet<String>>>,
    changed: Option<watch::Sender<u64>>,
}

impl Default for Members {
    fn default() -> Self {
        Self(Kept::new(Memberships::default()))
    }
}

impl Members {
    /// The projects that name a user of a tenant as a member.
    pub fn projects(&self, tenant: &str, user: &str) -> Arc<BTreeSet<String>> {
        self.0.read().member(tenant, user).map(Member::shared).unwrap_or_default()
    }

    /// Counts the changes of a user's projects. Whoever subscribes before he asks for them misses none.
    pub fn subscribe(&self, tenant: &str, user: &str) -> watch::Receiver<u64> {
        self.0.change(|memberships| memberships.subscribe(tenant, user))
    }

    /// Whether all projects have been read. Before, nobody is known to be a member.
    pub fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    /// Follows the objects of the kind that names members, for ever.
    pub async fn follow(self, store: Store, kind: KindId) {
        self.0.follow(store, kind, "members").await;
    }
}

impl Member {
    fn shared(&self) -> Arc<BTreeSet<String>> {
        let copy = || Arc::new(self.projects.iter().map(ToString::to_string).collect());
        Arc::clone(self.shared.get_or_init(copy))
    }

    fn change(&mut self, change: impl FnOnce(&mut BTreeSet<Arc<str>>) -> bool) {
        if change(&mut self.projects) {
            self.shared = OnceLock::new();
            self.tell();
        }
    }

    fn tell(&self) {
        if let Some(changed) = &self.changed {
            changed.send_modify(|changes| *changes = changes.wrapping_add(1));
        }
    }

    fn is_listened_to(&self) -> bool {
        self.changed.as_ref().is_some_and(|changed| changed.receiver_count() > 0)
    }

    fn is_idle(&self) -> bool {
        self.projects.is_empty() && !self.is_listened_to()
    }
}

impl Named {
    fn of(attributes: &Attributes) -> Option<Self> {
        Some(Self { tenant: attributes.tenant.clone()?, users: attributes.members.clone() })
    }

    fn is(&self, attributes: &Attributes) -> bool {
        attributes.tenant.as_deref() == Some(&*self.tenant) && attributes.members == self.users
    }

    /// The users who are not named by another one, too.
    fn without<'a>(&'a self, other: Option<&'a Self>) -> impl Iterator<Item = &'a str> {
        let other = other.filter(|other| other.tenant == self.tenant);
        let others: HashSet<&str> =
            other.into_iter().flat_map(|other| &other.users).map(|user| &**user).collect();
        self.users.iter().map(|user| &**user).filter(move |user| !others.contains(user))
    }
}

impl Index for Memberships {
    fn emptied(&self) -> Self {
        Self::default()
    }

    fn take(&mut self, entry: &Entry, exists: bool) {
        self.set(&entry.key.name, exists.then_some(&entry.attributes));
    }

    /// Who waits for news goes on waiting, and is told if there are any.
    fn replace(&mut self, complete: Self) -> Self {
        let mut old = std::mem::replace(self, complete);
        for (tenant, users) in &mut old.tenants {
            for (user, before) in users.iter_mut().filter(|(_, member)| member.is_listened_to()) {
                let member = self.member_mut(tenant, user);
                member.changed = before.changed.take();
                if member.projects != before.projects {
                    member.tell();
                }
            }
        }
        old
    }
}

impl Memberships {
    fn member(&self, tenant: &str, user: &str) -> Option<&Member> {
        self.tenants.get(tenant)?.get(user)
    }

    fn member_mut(&mut self, tenant: &str, user: &str) -> &mut Member {
        self.tenants.entry(tenant.into()).or_default().entry(user.into()).or_default()
    }

    /// Takes a project in its present state; none when it is gone.
    fn set(&mut self, project: &Arc<str>, attributes: Option<&Attributes>) {
        let old = self.projects.get(project);
        if attributes.is_some_and(|attributes| old.is_some_and(|old| old.is(attributes))) {
            return;
        }
        let new = attributes.and_then(Named::of);
        let old = self.projects.remove(project);
        for (named, other, joins) in [(&old, &new, false), (&new, &old, true)] {
            let Some(named) = named else { continue };
            for user in named.without(other.as_ref()) {
                let member = self.member_mut(&named.tenant, user);
                member.change(|projects| {
                    if joins { projects.insert(Arc::clone(project)) } else { projects.remove(project) }
                });
                if member.is_idle() {
                    self.forget(&named.tenant, user);
                }
            }
        }
        if let Some(new) = new {
            self.projects.insert(Arc::clone(project), new);
        }
    }

    fn forget(&mut self, tenant: &str, user: &str) {
        let Some(users) = self.tenants.get_mut(tenant) else { return };
        users.remove(user);
        if users.is_empty() {
            self.tenants.remove(tenant);
        }
    }

    fn subscribe(&mut self, tenant: &str, user: &str) -> watch::Receiver<u64> {
        if self.until_sweep == 0 {
            self.sweep();
        }
        self.until_sweep = self.until_sweep.saturating_sub(1);
        self.member_mut(tenant, user).changed.get_or_insert_default().subscribe()
    }

    /// Forgets those who neither are members nor wait for news.
    fn sweep(&mut self) {
        for users in self.tenants.values_mut() {
            users.retain(|_user, member| !member.is_idle());
        }
        self.tenants.retain(|_tenant, users| !users.is_empty());
        self.until_sweep = self.tenants.values().map(HashMap::len).sum::<usize>().max(SWEEP_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use store::{Key, Revision};

    fn entry(project: &str, tenant: &str, members: &[&str]) -> Entry {
        let attributes = Attributes {
            tenant: Some(tenant.into()),
            members: members.iter().map(|m| Box::from(*m)).collect(),
            ..Attributes::default()
        };
        let (uid, body) = (uuid::Uuid::nil(), Vec::new().into());
        Entry { key: Key::new(KindId(1), "", project), uid, revision: Revision(1), body, attributes }
    }

    impl Members {
        /// All projects have been read, and there are none.
        pub(crate) fn known() -> Self {
            let members = Self::default();
            members.0.show(Memberships::default());
            members
        }

        fn set(&self, project: &str, tenant: &str, members: &[&str]) {
            self.0.change(|index| index.take(&entry(project, tenant, members), true));
        }

        fn remove(&self, project: &str) {
            self.0.change(|index| index.take(&entry(project, "", &[]), false));
        }

        fn names(&self, tenant: &str, user: &str) -> Vec<String> {
            self.projects(tenant, user).iter().cloned().collect()
        }
    }

    #[test]
    fn membership_follows_the_projects() {
        let members = Members::default();
        members.set("p", "t", &["alice", "bob"]);
        members.set("q", "t", &["alice"]);
        members.set("r", "u", &["alice"]);
        assert_eq!(members.names("t", "alice"), ["p", "q"]);
        members.set("p", "t", &["bob"]);
        assert_eq!(members.names("t", "alice"), ["q"]);
        members.remove("q");
        assert!(members.projects("t", "alice").is_empty());
        assert_eq!(members.names("u", "alice"), ["r"]);
        assert!(members.projects("u", "bob").is_empty());
        members.set("r", "t", &["alice"]);
        assert_eq!((members.names("t", "alice").len(), members.names("u", "alice").len()), (1, 0));
        for project in ["p", "r"] {
            members.remove(project);
        }
        assert!(members.0.read().tenants.is_empty(), "nothing is left");
    }

    #[test]
    fn who_waits_is_told_of_his_own_changes_only() {
        let members = Members::default();
        let mut alice = members.subscribe("t", "alice");
        members.set("p", "t", &["bob"]);
        members.set("q", "u", &["alice"]);
        assert!(!alice.has_changed().unwrap());
        let news = |receiver: &mut watch::Receiver<u64>| {
            let news = receiver.has_changed().unwrap();
            receiver.mark_unchanged();
            news
        };
        members.set("p", "t", &["bob", "alice"]);
        assert!(news(&mut alice));
        members.set("p", "t", &["alice"]);
        assert!(!news(&mut alice), "bob has left");
        members.remove("p");
        assert!(news(&mut alice));
    }

    #[test]
    fn who_waits_is_told_of_what_was_missed_while_the_index_was_built_anew() {
        let members = Members::default();
        members.set("p", "t", &["alice", "bob"]);
        let (alice, bob, carl) =
            (members.subscribe("t", "alice"), members.subscribe("t", "bob"), members.subscribe("t", "carl"));
        let mut complete = members.0.read().emptied();
        complete.take(&entry("p", "t", &["bob", "carl"]), true);
        members.0.show(complete);
        let told = [alice, bob, carl].map(|receiver| receiver.has_changed().unwrap());
        assert_eq!(told, [true, false, true]);
        assert!(members.names("t", "alice").is_empty());
        assert_eq!(members.names("t", "carl"), ["p"]);
    }

    #[test]
    fn who_waits_no_longer_is_forgotten() {
        let members = Members::default();
        for user in 0..4 * SWEEP_MIN {
            drop(members.subscribe("t", &user.to_string()));
        }
        assert!(members.0.read().tenants["t"].len() <= SWEEP_MIN);
        let kept = members.subscribe("t", "alice");
        members.0.change(Memberships::sweep);
        assert_eq!(members.0.read().tenants["t"].len(), 1);
        drop(kept);
        members.0.change(Memberships::sweep);
        assert!(members.0.read().tenants.is_empty());
    }

    /// `cargo test --release -p business-api --lib -- --ignored --nocapture a_change_costs`
    #[test]
    #[ignore = "measures"]
    fn a_change_costs_the_same_however_many_projects_a_member_has() {
        for projects in [10, 1_000, 10_000] {
            let members = Members::default();
            let _listening = members.subscribe("t", "alice");
            for project in 0..projects {
                members.set(&format!("project-{project}"), "t", &["alice"]);
            }
            let timed = |asked: bool| {
                let start = Instant::now();
                for _change in 0..1_000 {
                    let held = asked.then(|| members.projects("t", "alice"));
                    members.set("project-5", "t", &[]);
                    members.set("project-5", "t", &["alice"]);
                    drop(held);
                }
                start.elapsed() / 2_000
            };
            println!(
                "{projects:>6} projects: {:?} a change, {:?} with a request between two",
                timed(false),
                timed(true)
            );
        }
    }
}
