use super::scope::Prefix;
use crate::follow::{ObjectIndex, SharedIndex};
use std::collections::HashMap;
use store::{Entry, Key, KindId, Revision, Store};

/// An index of the objects of one kind by their prefix, kept from the store's watch.
#[derive(Clone, Debug)]
pub struct PrefixIndex {
    kept: SharedIndex<Owners>,
    kind: KindId,
    kind_words: &'static str,
}

/// Objects by tenant and name.
#[derive(Debug, Default)]
struct Owners(HashMap<Box<str>, HashMap<Box<str>, Key>>);

impl PrefixIndex {
    /// An index of a kind, which people call by these words.
    pub fn new(kind: KindId, kind_words: &'static str) -> Self {
        Self { kept: SharedIndex::new(Owners::default()), kind, kind_words }
    }

    /// Follows the store's watch. Never returns.
    pub async fn follow(self, store: Store) {
        self.kept.follow(store, self.kind, "token server").await;
    }

    /// Whether all objects have been read.
    pub fn is_complete(&self) -> bool {
        self.kept.has_synced()
    }

    /// Waits until the index has reached this revision of the store.
    pub async fn reach(&self, revision: Revision) {
        self.kept.wait_for(revision).await;
    }

    /// The name of the kind for people.
    pub fn kind_words(&self) -> &'static str {
        self.kind_words
    }

    /// The object that owns a prefix.
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
        let index = PrefixIndex::new(KIND, "image namespace");
        let owner = |tenant, name| index.owner(Prefix { tenant, name }).map(|key| key.namespace.to_string());
        let take = |entry: &Entry, exists| index.kept.update(|owners| owners.apply(entry, exists));
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
        assert_eq!(index.kept.read().0.len(), 1, "nothing is left of the tenant");
    }
}
