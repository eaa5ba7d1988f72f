//! Whom the objects of a kind name, kept from the store's own watch: projects name their members, platforms the
//! administrators of their tenant.

use crate::follow::{FollowedIndex, Kept};
use crate::role_changes::RoleChanges;
use apiserver::Caller;
use business_types::{Subject, SubjectKind};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use store::{Attributes, Entry, KindId, Store};

/// What no name begins with: it tells groups from users.
const GROUP: char = '\u{1}';

/// A subject as an index of people has him.
pub fn person(subject: &Subject) -> Box<str> {
    let Subject { kind, name, namespace } = subject;
    match kind {
        SubjectKind::User => name.as_str().into(),
        SubjectKind::Group => group(name).into(),
        SubjectKind::ServiceAccount => format!("system:serviceaccount:{namespace}:{name}").into(),
    }
}

/// A group as an index of people has it.
fn group(name: &str) -> String {
    format!("{GROUP}{name}")
}

/// The objects that name each user, by tenant and user.
#[derive(Clone, Debug)]
pub struct Members(Kept<Memberships>);

#[derive(Debug)]
struct Memberships {
    objects: HashMap<Arc<str>, Named>,
    tenants: HashMap<Box<str>, HashMap<Box<str>, Member>>,
    changes: RoleChanges,
}

/// Whom an object names.
#[derive(Debug)]
struct Named {
    tenant: Box<str>,
    users: Box<[Box<str>]>,
}

/// A user with the objects that name him.
#[derive(Debug, Default)]
struct Member {
    objects: BTreeSet<Arc<str>>,
    /// The objects as they are handed out: copied when somebody asks, once between two changes, so that a change costs
    /// the same whatever their number.
    shared: OnceLock<Arc<BTreeSet<String>>>,
}

impl Members {
    /// Nobody yet. Who waits is told when other objects name him.
    pub fn new(changes: RoleChanges) -> Self {
        Self(Kept::new(Memberships::new(changes)))
    }

    /// Nobody, where no kind names anybody.
    pub fn nobody() -> Self {
        let members = Self::new(RoleChanges::default());
        let complete = members.0.read().emptied();
        members.0.show(complete);
        members
    }

    /// Names of the objects that name a user of a tenant.
    pub fn of(&self, tenant: &str, user: &str) -> Arc<BTreeSet<String>> {
        self.0.read().member(tenant, user).map(Member::shared).unwrap_or_default()
    }

    /// Whether some object names a user of a tenant.
    pub fn name(&self, tenant: &str, user: &str) -> bool {
        self.0.read().member(tenant, user).is_some()
    }

    /// Whether some object of a tenant names a caller, or a group that he is in.
    pub fn name_caller(&self, tenant: &str, caller: &Caller) -> bool {
        let held = self.0.read();
        let is_named = |person: &str| held.member(tenant, person).is_some();
        !caller.name.starts_with(GROUP) && is_named(&caller.name)
            || held.tenants.contains_key(tenant) && caller.groups.iter().any(|name| is_named(&group(name)))
    }

    /// Whether all objects have been read. Before, nobody is known to be a member.
    pub fn is_complete(&self) -> bool {
        self.0.is_complete()
    }

    /// Follows the objects of a kind for ever. `who` is told to the store.
    pub async fn follow(self, store: Store, kind: KindId, who: &'static str) {
        self.0.follow(store, kind, who).await;
    }
}

impl Member {
    fn shared(&self) -> Arc<BTreeSet<String>> {
        let copy = || Arc::new(self.objects.iter().map(ToString::to_string).collect());
        Arc::clone(self.shared.get_or_init(copy))
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

impl FollowedIndex for Memberships {
    /// Nobody is told of what is filled aside.
    fn emptied(&self) -> Self {
        Self::new(RoleChanges::default())
    }

    fn take(&mut self, entry: &Entry, exists: bool) {
        self.set(&entry.key.name, exists.then_some(&entry.attributes));
    }

    /// Who waits is told if there are news.
    fn replace(&mut self, complete: Self) -> Self {
        let changes = self.changes.clone();
        let old = std::mem::replace(self, Self { changes, ..complete });
        for (one, other) in [(&*self, &old), (&old, &*self)] {
            for (tenant, users) in &one.tenants {
                for (user, member) in users {
                    if other.member(tenant, user).is_none_or(|before| before.objects != member.objects) {
                        tell(&self.changes, tenant, user);
                    }
                }
            }
        }
        old
    }
}

/// Who is in a group is not known here: all of the tenant are told.
fn tell(changes: &RoleChanges, tenant: &str, person: &str) {
    if person.starts_with(GROUP) { changes.tell_all(tenant) } else { changes.tell(tenant, person) }
}

impl Memberships {
    fn new(changes: RoleChanges) -> Self {
        Self { objects: HashMap::new(), tenants: HashMap::new(), changes }
    }

    fn member(&self, tenant: &str, user: &str) -> Option<&Member> {
        self.tenants.get(tenant)?.get(user)
    }

    /// Takes an object in its present state; none when it is gone.
    fn set(&mut self, object: &Arc<str>, attributes: Option<&Attributes>) {
        let old = self.objects.get(object);
        if attributes.is_some_and(|attributes| old.is_some_and(|old| old.is(attributes))) {
            return;
        }
        let new = attributes.and_then(Named::of);
        let old = self.objects.remove(object);
        for (named, other, joins) in [(&old, &new, false), (&new, &old, true)] {
            let Some(named) = named else { continue };
            for user in named.without(other.as_ref()) {
                self.change(&named.tenant, user, |objects| {
                    if joins { objects.insert(Arc::clone(object)) } else { objects.remove(object) }
                });
            }
        }
        if let Some(new) = new {
            self.objects.insert(Arc::clone(object), new);
        }
    }

    /// Changes the objects of a user, and tells him.
    fn change(&mut self, tenant: &str, user: &str, change: impl FnOnce(&mut BTreeSet<Arc<str>>) -> bool) {
        let member = self.tenants.entry(tenant.into()).or_default().entry(user.into()).or_default();
        let changed = change(&mut member.objects);
        member.shared = OnceLock::new();
        if member.objects.is_empty() {
            self.forget(tenant, user);
        }
        if changed {
            tell(&self.changes, tenant, user);
        }
    }

    fn forget(&mut self, tenant: &str, user: &str) {
        let Some(users) = self.tenants.get_mut(tenant) else { return };
        users.remove(user);
        if users.is_empty() {
            self.tenants.remove(tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use store::{Key, Revision};
    use tokio::sync::watch;

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
        pub(crate) fn set(&self, project: &str, tenant: &str, members: &[&str]) {
            self.0.change(|index| index.take(&entry(project, tenant, members), true));
        }

        fn remove(&self, project: &str) {
            self.0.change(|index| index.take(&entry(project, "", &[]), false));
        }

        fn names(&self, tenant: &str, user: &str) -> Vec<String> {
            self.of(tenant, user).iter().cloned().collect()
        }
    }

    #[test]
    fn membership_follows_the_projects() {
        let members = Members::new(RoleChanges::default());
        members.set("p", "t", &["alice", "bob"]);
        members.set("q", "t", &["alice"]);
        members.set("r", "u", &["alice"]);
        assert_eq!(members.names("t", "alice"), ["p", "q"]);
        members.set("p", "t", &["bob"]);
        assert_eq!(members.names("t", "alice"), ["q"]);
        members.remove("q");
        assert!(members.of("t", "alice").is_empty());
        assert_eq!(members.names("u", "alice"), ["r"]);
        assert!(members.of("u", "bob").is_empty());
        members.set("r", "t", &["alice"]);
        assert_eq!((members.names("t", "alice").len(), members.names("u", "alice").len()), (1, 0));
        for project in ["p", "r"] {
            members.remove(project);
        }
        assert!(members.0.read().tenants.is_empty(), "nothing is left");
    }

    #[test]
    fn who_waits_is_told_of_his_own_changes_only() {
        let changes = RoleChanges::default();
        let members = Members::new(changes.clone());
        let mut alice = changes.subscribe("t", "alice");
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
        let changes = RoleChanges::default();
        let members = Members::new(changes.clone());
        members.set("p", "t", &["alice", "bob"]);
        let [alice, bob, carl] = ["alice", "bob", "carl"].map(|user| changes.subscribe("t", user));
        let mut complete = members.0.read().emptied();
        complete.take(&entry("p", "t", &["bob", "carl"]), true);
        members.0.show(complete);
        let told = [alice, bob, carl].map(|receiver| receiver.has_changed().unwrap());
        assert_eq!(told, [true, false, true]);
        assert!(members.names("t", "alice").is_empty());
        assert_eq!(members.names("t", "carl"), ["p"]);
    }

    /// `cargo test --release -p business-api --lib -- --ignored --nocapture a_change_costs`
    #[test]
    #[ignore = "measures"]
    fn a_change_costs_the_same_however_many_projects_a_member_has() {
        for projects in [10, 1_000, 10_000] {
            let changes = RoleChanges::default();
            let _listening = changes.subscribe("t", "alice");
            let members = Members::new(changes);
            for project in 0..projects {
                members.set(&format!("project-{project}"), "t", &["alice"]);
            }
            let timed = |asked: bool| {
                let start = Instant::now();
                for _change in 0..1_000 {
                    let held = asked.then(|| members.of("t", "alice"));
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
