//! Who is a member of which projects, kept from the store's own watch.

use crate::kinds::PROJECT;
use meta::selector::{FieldSelector, LabelSelector};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use store::read::{At, Op, Selection, WatchFrom, WatchItem, WatchQuery};
use store::{Access, Attributes, Store};

const RETRY: Duration = Duration::from_millis(200);

/// The projects of every member, by tenant and user.
#[derive(Clone, Debug, Default)]
pub struct Members(Arc<RwLock<Index>>);

#[derive(Debug, Default)]
struct Index {
    projects: HashMap<Box<str>, (Box<str>, Box<[Box<str>]>)>,
    users: HashMap<(Box<str>, Box<str>), Arc<BTreeSet<String>>>,
}

impl Members {
    /// The projects that name a user of a tenant as a member.
    pub fn projects(&self, tenant: &str, user: &str) -> Arc<BTreeSet<String>> {
        let index = self.0.read().unwrap_or_else(PoisonError::into_inner);
        index.users.get(&(tenant.into(), user.into())).cloned().unwrap_or_default()
    }

    /// Takes a project in its present state; none when it is gone.
    fn set(&self, project: &str, attributes: Option<&Attributes>) {
        let mut index = self.0.write().unwrap_or_else(PoisonError::into_inner);
        index.set(project, attributes.and_then(|a| Some((a.tenant.clone()?, a.members.clone()))));
    }

    fn clear(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Index::default();
    }

    /// Follows the projects for ever.
    pub async fn follow(self, store: Store) {
        let access = Access::internal("members");
        loop {
            let query = WatchQuery {
                selection: Selection {
                    kind: PROJECT,
                    namespace: None,
                    labels: LabelSelector::default(),
                    fields: FieldSelector::default(),
                },
                from: WatchFrom::State(At::Any),
            };
            match store.watch(&access, &query).await {
                Ok(mut watch) => {
                    self.clear();
                    while let Ok(item) = watch.next().await {
                        if let WatchItem::Event { op, entry, .. } = item {
                            self.set(&entry.key.name, (op != Op::Deleted).then_some(&entry.attributes));
                        }
                    }
                }
                Err(error) => tracing::debug!(%error, "follow the members of projects"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}

impl Index {
    fn set(&mut self, project: &str, new: Option<(Box<str>, Box<[Box<str>]>)>) {
        if self.projects.get(project) == new.as_ref() {
            return;
        }
        if let Some((tenant, users)) = self.projects.remove(project) {
            for user in users {
                let key = (tenant.clone(), user);
                if let Some(projects) = self.users.get_mut(&key) {
                    Arc::make_mut(projects).remove(project);
                    if projects.is_empty() {
                        self.users.remove(&key);
                    }
                }
            }
        }
        if let Some((tenant, users)) = new {
            for user in &users {
                let projects = self.users.entry((tenant.clone(), user.clone())).or_default();
                Arc::make_mut(projects).insert(project.to_owned());
            }
            self.projects.insert(project.into(), (tenant, users));
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
