//! Who is a member of which projects, kept from the store's own watch.

use crate::follow::{Follower, follow};
use crate::kinds::PROJECT;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};
use store::{Attributes, Entry, Store};

/// The projects of every member, by tenant and user.
#[derive(Clone, Debug, Default)]
pub struct Members(Arc<RwLock<Index>>);

#[derive(Debug, Default)]
struct Index {
    projects: HashMap<Box<str>, Membership>,
    users: HashMap<User, Arc<BTreeSet<String>>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Membership {
    tenant: Box<str>,
    users: Box<[Box<str>]>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct User {
    tenant: Box<str>,
    name: Box<str>,
}

impl Members {
    /// The projects that name a user of a tenant as a member.
    pub fn projects(&self, tenant: &str, user: &str) -> Arc<BTreeSet<String>> {
        let index = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let user = User { tenant: tenant.into(), name: user.into() };
        index.users.get(&user).cloned().unwrap_or_default()
    }

    /// Takes a project in its present state; none when it is gone.
    fn set(&self, project: &str, attributes: Option<&Attributes>) {
        let membership =
            attributes.and_then(|a| Some(Membership { tenant: a.tenant.clone()?, users: a.members.clone() }));
        self.0.write().unwrap_or_else(PoisonError::into_inner).set(project, membership);
    }

    /// Follows the projects for ever.
    pub async fn follow(self, store: Store) {
        follow(store, PROJECT, "members", self).await;
    }
}

impl Follower for Members {
    fn clear(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Index::default();
    }

    fn take(&self, entry: &Entry, exists: bool) {
        self.set(&entry.key.name, exists.then_some(&entry.attributes));
    }
}

impl Index {
    fn set(&mut self, project: &str, new: Option<Membership>) {
        if self.projects.get(project) == new.as_ref() {
            return;
        }
        if let Some(Membership { tenant, users }) = self.projects.remove(project) {
            for name in users {
                let user = User { tenant: tenant.clone(), name };
                if let Some(projects) = self.users.get_mut(&user) {
                    Arc::make_mut(projects).remove(project);
                    if projects.is_empty() {
                        self.users.remove(&user);
                    }
                }
            }
        }
        if let Some(membership) = new {
            for name in &membership.users {
                let user = User { tenant: membership.tenant.clone(), name: name.clone() };
                Arc::make_mut(self.users.entry(user).or_default()).insert(project.to_owned());
            }
            self.projects.insert(project.into(), membership);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tenant: &str, members: &[&str]) -> Attributes {
        Attributes {
            tenant: Some(tenant.into()),
            members: members.iter().map(|m| Box::from(*m)).collect(),
            ..Attributes::default()
        }
    }

    #[test]
    fn membership_follows_the_projects() {
        let members = Members::default();
        members.set("p", Some(&of("t", &["alice", "bob"])));
        members.set("q", Some(&of("t", &["alice"])));
        members.set("r", Some(&of("u", &["alice"])));
        assert_eq!(members.projects("t", "alice").iter().collect::<Vec<_>>(), ["p", "q"]);
        members.set("p", Some(&of("t", &["bob"])));
        assert_eq!(members.projects("t", "alice").iter().collect::<Vec<_>>(), ["q"]);
        members.set("q", None);
        assert!(members.projects("t", "alice").is_empty());
        assert_eq!(members.projects("u", "alice").len(), 1);
        assert!(members.projects("u", "bob").is_empty());
    }
}
