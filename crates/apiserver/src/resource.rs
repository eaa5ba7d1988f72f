use crate::strategy::Strategy;
use meta::gvk::{GroupResource, GroupVersionKind};
use meta::schema::Schema;
use std::sync::Arc;
use store::{Kind, KindId};

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
    /// Its number in the store.
    pub id: KindId,
    /// What the store has to know of it.
    pub kind: Arc<dyn Kind>,
    /// Its shape: `apiVersion`, `kind`, `metadata`, and its own fields.
    pub schema: Arc<Schema>,
    /// Its subresources.
    pub subresources: &'static [Subresource],
    /// Columns of `kubectl get`, after Name and before Age.
    pub columns: &'static [Column],
    /// What differs.
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

impl Resource {
    /// Group and plural, as error messages show it.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.gvk.group.as_str(), self.plural)
    }

    /// `ProjectList` for `Project`.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.gvk.kind)
    }

    /// The subresource of a name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }
}

/// A subresource with get, update and patch. A write through it changes only the paths it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// Its name in URLs.
    pub name: &'static str,
    /// What part of the object a write through it changes.
    pub writes: Part,
}

/// The part of an object that a write may change. Everything else is taken from the stored object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Metadata and spec; not status, not `spec.finalizers`.
    Main,
    /// `status` only.
    Status,
    /// `spec.finalizers` only.
    Finalize,
}

/// A column of a Table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: &'static str,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub ty: &'static str,
    /// What it shows.
    pub description: &'static str,
    /// 0 is always shown, more only with `-o wide`.
    pub priority: i32,
}
