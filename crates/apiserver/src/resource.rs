use crate::computed::{Computed, Singleton};
use crate::error::Error;
use crate::request::Verb;
use crate::strategy::Strategy;
use crate::subresource::{FieldPath, Subresource, SubresourceKind};
use meta::gvk::{GroupResource, GroupVersionKind};
use meta::object::Object;
use meta::schema::Schema;
use serde_json::Value;
use std::sync::Arc;
use store::{Kind, KindId};

/// All verbs of a stored kind, sorted as discovery shows them.
pub const ALL_VERBS: &[Verb] = &[
    Verb::Create,
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Get,
    Verb::List,
    Verb::Patch,
    Verb::Update,
    Verb::Watch,
];
/// All verbs of a computed kind.
pub const READS: &[Verb] = &[Verb::Get, Verb::List];
/// The verbs of a singleton, a kind with one object for each caller.
pub const READ_ONE: &[Verb] = &[Verb::List];

/// A kind as the server knows it.
#[derive(Clone)]
pub struct Resource {
    /// Its full name.
    pub gvk: GroupVersionKind,
    /// Plural, lower case: the name in URLs.
    pub plural: &'static str,
    /// Singular, lower case.
    pub singular: &'static str,
    /// Short names for kubectl.
    pub short_names: &'static [&'static str],
    /// Groups of kinds, such as `all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in a namespace (for us: a project).
    pub namespaced: bool,
    /// Its verbs, sorted as discovery shows them: some of [`ALL_VERBS`]; for a computed kind some of [`READS`], and
    /// for a singleton [`READ_ONE`].
    pub verbs: &'static [Verb],
    /// Its schema: `apiVersion`, `kind`, `metadata`, and its own fields.
    pub schema: Arc<Schema>,
    /// Columns of `kubectl get`, after Name and before Age.
    pub columns: &'static [Column],
    /// Where its objects come from.
    pub source: ResourceSource,
}

/// Where the objects of a kind come from.
#[derive(Clone)]
pub enum ResourceSource {
    /// The store keeps them.
    Stored(Arc<StoredKind>),
    /// They are computed when they are read.
    Computed(Arc<dyn Computed>),
    /// Each caller has one, which is computed when he reads it.
    Singleton(Arc<dyn Singleton>),
}

/// A kind that the store keeps.
pub struct StoredKind {
    /// Its number in the store.
    pub id: KindId,
    /// What the store has to know about it.
    pub kind: Arc<dyn Kind>,
    /// Its subresources.
    pub subresources: Vec<Subresource>,
    /// Fields that only the server sets: the strategy sets them with every write. The values that a client sends are
    /// ignored, no field manager owns them, and a change of them does not raise the generation.
    pub server_fields: &'static [FieldPath],
    /// The rules that differ by kind.
    pub strategy: Arc<dyn Strategy>,
}

impl std::fmt::Debug for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resource")
            .field("gvk", &self.gvk)
            .field("plural", &self.plural)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ResourceSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stored(stored) => stored.fmt(f),
            Self::Computed(_) => f.write_str("Computed"),
            Self::Singleton(_) => f.write_str("Singleton"),
        }
    }
}

impl std::fmt::Debug for StoredKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredKind")
            .field("id", &self.id)
            .field("subresources", &self.subresources)
            .finish_non_exhaustive()
    }
}

impl Resource {
    /// Group and plural, as error messages show it.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.gvk.group.as_str(), self.plural)
    }

    /// `ProjectList` for `Project`.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.gvk.kind)
    }

    /// The stored kind, if the store keeps it.
    pub fn stored(&self) -> Option<&Arc<StoredKind>> {
        match &self.source {
            ResourceSource::Stored(stored) => Some(stored),
            ResourceSource::Computed(_) | ResourceSource::Singleton(_) => None,
        }
    }

    /// Whether there is one object for every caller, and no list.
    pub fn is_singleton(&self) -> bool {
        matches!(self.source, ResourceSource::Singleton(_))
    }

    /// Its subresources.
    pub fn subresources(&self) -> &[Subresource] {
        self.stored().map_or(&[], |stored| &stored.subresources)
    }

    /// The cells of an object in a table.
    pub(crate) fn cells(&self, object: &Object, now_unix_seconds: i64) -> Vec<Value> {
        match &self.source {
            ResourceSource::Stored(stored) => stored.strategy.cells(object, now_unix_seconds),
            ResourceSource::Computed(computed) => computed.cells(object, now_unix_seconds),
            ResourceSource::Singleton(singleton) => singleton.cells(object, now_unix_seconds),
        }
    }

    /// An error if requests for a resource with this description could not be served.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |why: String| Err(Error::Settings(format!("resource {}: {why}", self.plural)));
        let possible = match self.source {
            ResourceSource::Stored(_) => ALL_VERBS,
            ResourceSource::Computed(_) => READS,
            ResourceSource::Singleton(_) => READ_ONE,
        };
        if let Some(verb) = self.verbs.iter().find(|verb| !possible.contains(verb)) {
            return wrong(format!("the verb {verb} cannot be served"));
        }
        for (at, Subresource { name, verbs, kind }) in self.subresources().iter().enumerate() {
            let possible = match kind {
                SubresourceKind::Writes(_) => &[Verb::Get, Verb::Patch, Verb::Update],
                SubresourceKind::Handler(_) => &[Verb::Create, Verb::Get, Verb::Update],
            };
            if let Some(verb) = verbs.iter().find(|verb| !possible.contains(verb)) {
                return wrong(format!("the verb {verb} cannot be served by {name}"));
            }
            let is_taken = self.subresources().iter().take(at).any(|other| other.name == *name);
            if name.is_empty() || name.contains('/') || is_taken {
                return wrong(format!("{name:?} cannot be the name of a subresource"));
            }
        }
        Ok(())
    }
}

/// A column of a Table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: &'static str,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub ty: &'static str,
    /// Its description, for `kubectl explain` and the like.
    pub description: &'static str,
    /// 0 is always shown, higher ones only with `-o wide`.
    pub priority: i32,
}

impl Column {
    /// A column of texts.
    pub const fn string(name: &'static str, description: &'static str, priority: i32) -> Self {
        Self::typed(name, "string", description, priority)
    }

    /// A column of another type.
    pub const fn typed(
        name: &'static str,
        ty: &'static str,
        description: &'static str,
        priority: i32,
    ) -> Self {
        Self { name, ty, description, priority }
    }
}
