use super::scope::Prefix;
use crate::follow::{ObjectIndex, SharedIndex};
use std::collections::HashMap;
use store::{Entry, Key, KindId, Revision, Store};

/// Which object of one kind has which prefix.
#[derive(Clone, Debug)]
pub struct Prefixes {
    kept: SharedIndex<Owners>,
    kind: KindId,
    words: &'static str,
}

/// Objects by tenant and name.
#[derive(Debug, Default)]
struct Owners(HashMap<Box<str>, HashMap<Box<str>, Key>>);

impl Prefixes {
    /// Those of a kind, which people call by these words.
    pub fn new(kind: KindId, words: &'static str) -> Self {
        Self { kept: SharedIndex::new(Owners::default()), kind, words }
    }

    /// Follows the objects for ever.
    pub async fn follow(self, store: Store) {
        self.kept.follow(store, self.kind, "token server").await;
    }

    /// Whether all objects have been read.
    pub fn is_complete(&self) -> bool {
        self.kept.has_synced()
    }

    /// Waits until the state of the store at this revision is known.
    pub async fn reach(&self, revision: Revision) {
        self.kept.wait_for(revision).await;
    }

    /// What people call an object of the kind.
    pub fn words(&self) -> &'static str {
        self.words
    }

    /// The object that has a prefix.
    pub fn owner(&self, prefix: Prefix<'_>) -> Option<Key> {
        self.kept.read().0.get(prefix.tenant)?.get(prefix.name).cloned()
    }
}

impl ObjectIndex for Owners {
    fn new_empty(&self) -> Self {
        Self::default()
    }

    fn apply(&mut self, entry: &Entry, exists: bool) {
        let Some(tenant) = entry.attributes.tenant.as_deref() else { return };
        let of_tenant = self.0.entry(tenant.into()).or_default();
        if exists {
            of_tenant.insert((&*entry.key.name).into(), entry.key.clone());
        } else if of_tenant.get(&*entry.key.name) == Some(&entry.key) {
            of_tenant.remove(&*entry.key.name);
        }
        if of_tenant.is_empty() {
            self.0.remove(tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Attributes;

    const KIND: KindId = KindId(3);

    fn entry(tenant: Option<&str>, project: &str, name: &str) -> Entry {
        let attributes = Attributes { tenant: tenant.map(Box::from), ..Attributes::default() };
        let (key, uid, body) = (Key::new(KIND, project, name), uuid::Uuid::nil(), Vec::new().into());
        Entry { key, uid, revision: Revision(1), body, attributes }
    }

    #[test]
    fn a_prefix_leads_to_its_object_as_long_as_that_is_there() {
        let prefixes = Prefixes::new(KIND, "image namespace");
        let owner =
            |tenant, name| prefixes.owner(Prefix { tenant, name }).map(|key| key.namespace.to_string());
        let take = |entry: &Entry, exists| prefixes.kept.update(|owners| owners.apply(entry, exists));
        take(&entry(Some("t"), "p", "web"), true);
        take(&entry(Some("u"), "q", "web"), true);
        take(&entry(None, "r", "web"), true);
        assert_eq!((owner("t", "web").as_deref(), owner("u", "web").as_deref()), (Some("p"), Some("q")));
        assert_eq!((owner("t", "app"), owner("v", "web")), (None, None));
        // Another project has the name by now.
        take(&entry(Some("t"), "other", "web"), true);
        take(&entry(Some("t"), "p", "web"), false);
        assert_eq!(owner("t", "web").as_deref(), Some("other"));
        take(&entry(Some("t"), "other", "web"), false);
        assert_eq!(owner("t", "web"), None);
        assert_eq!(prefixes.kept.read().0.len(), 1, "nothing is left of the tenant");
    }
}
