use crate::store_status::status_of;
use meta::gvk::GroupResource;
use meta::object::Object;
use meta::selector::{FieldSelector, LabelSelector};
use meta::status::Status;
use std::sync::Arc;
use store::read::{At, ListQuery, Selection};
use store::{Access, Entry, Error, Key, KindId, Revision, Store};

/// Read access to the store, as the caller sees it; [`View::unfiltered`] shows everything.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    store: &'a Store,
    access: &'a Access,
    internal: &'a Access,
    at: At,
}

impl<'a> View<'a> {
    /// `access` is the caller's, `internal` the program's own.
    pub(crate) fn new(store: &'a Store, access: &'a Access, internal: &'a Access, at: At) -> Self {
        Self { store, access, internal, at }
    }

    /// The whole store, for a rule that must read what the caller may not see.
    #[must_use]
    pub fn unfiltered(self) -> Self {
        Self { access: self.internal, ..self }
    }

    /// The newest state, which takes a query for the database's revision. For a rule that refuses a write because of
    /// what it reads.
    #[must_use]
    pub fn latest(self) -> Self {
        Self { at: At::Latest, ..self }
    }

    /// An object at the freshness of the view. If it is absent there, it is read from the newest state.
    pub async fn get(&self, key: &Key) -> Result<Option<Arc<Entry>>, Status> {
        let again = (self.at != At::Latest).then_some(At::Latest);
        for at in std::iter::once(self.at).chain(again) {
            match self.store.get(self.access, key, at).await {
                Ok(entry) => return Ok(Some(entry)),
                Err(Error::NotFound) => {}
                Err(error) => return Err(read_error(&error)),
            }
        }
        Ok(None)
    }

    /// The same, parsed.
    pub async fn object(&self, key: &Key) -> Result<Option<Object>, Status> {
        let Some(entry) = self.get(key).await? else { return Ok(None) };
        Object::from_stored(&entry.body, entry.revision.0)
            .map(Some)
            .map_err(|error| read_error(&Error::Corrupt(error.to_string())))
    }

    /// All objects of a kind, in one namespace or in all.
    pub async fn list(&self, kind: KindId, namespace: Option<&str>) -> Result<Vec<Arc<Entry>>, Status> {
        let (labels, fields) = (LabelSelector::default(), FieldSelector::default());
        let selection = Selection { kind, namespace: namespace.map(str::to_owned), labels, fields };
        self.select(selection).await
    }

    /// All objects of a selection.
    pub async fn select(&self, selection: Selection) -> Result<Vec<Arc<Entry>>, Status> {
        let query = ListQuery { selection, at: self.at, limit: None, continue_token: None };
        let page = self.store.list(self.access, &query).await.map_err(|error| read_error(&error))?;
        Ok(page.items)
    }

    /// The revision up to which this replica has read the store.
    pub fn revision(&self) -> Revision {
        self.store.revision()
    }
}

fn read_error(error: &Error) -> Status {
    status_of(error, &GroupResource::new("", ""), "")
}
