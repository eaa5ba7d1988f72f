//! Our own objects as last seen: a cache for each kind of the table.

use crate::cache::Cache;
use crate::controllers::every_controller;
use crate::kinds::Kind;

/// A kind that stands in the table.
pub trait Tabled: Kind {
    fn cache(objects: &Objects) -> &Cache<Self>;
    fn queued(key: Self::Key) -> Key;
}

macro_rules! caches {
    ($($variant:ident, $field:ident, $kind:path;)*) => {
        /// All our objects as last seen.
        #[derive(Debug, Default)]
        pub struct Objects {
            $(pub $field: Cache<$kind>,)*
        }

        impl Objects {
            /// Whether everything was listed at least once.
            pub fn is_synced(&self) -> bool {
                $(self.$field.is_synced())&&*
            }
        }

        /// The key of an object of any kind, as the queue has it.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Key {
            $($variant(<$kind as Kind>::Key),)*
        }

        impl Key {
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => <$kind as Kind>::KIND,)*
                }
            }
        }

        impl std::fmt::Display for Key {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$variant(key) => std::fmt::Display::fmt(key, f),)*
                }
            }
        }

        $(impl Tabled for $kind {
            fn cache(objects: &Objects) -> &Cache<Self> {
                &objects.$field
            }

            fn queued(key: Self::Key) -> Key {
                Key::$variant(key)
            }
        })*
    };
}
every_controller!(caches);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{Heard, ObjectKey as _, ProjectKey, RootKey};
    use crate::namespace::kind::{BusinessNamespace, NamespaceView};
    use crate::project::kind::ProjectView;
    use business_types::{NamespaceSpec, ProjectSpec};

    fn namespace(project: &str, name: &str, revision: u64) -> NamespaceView {
        let spec =
            NamespaceSpec { cluster_name: "c1".into(), namespace: name.into(), ..NamespaceSpec::default() };
        NamespaceView {
            key: ProjectKey::new(Some(project), name),
            uid: format!("uid-{name}"),
            resource_version: revision.to_string(),
            spec,
            ..NamespaceView::default()
        }
    }

    #[test]
    fn an_answer_to_a_write_never_brings_back_what_is_gone() {
        let cache = Cache::<BusinessNamespace>::default();
        cache.seen(namespace("p", "n", 5), Heard::ByEvent).unwrap();
        assert!(cache.seen(namespace("p", "n", 7), Heard::FromOwnWrite).is_some());
        let older = cache.seen(namespace("p", "n", 6), Heard::ByEvent);
        assert!(older.is_none(), "older than what is held");
        cache.gone(&namespace("p", "n", 8)).unwrap();
        assert!(cache.seen(namespace("p", "n", 7), Heard::FromOwnWrite).is_none());
        assert!(cache.all().is_empty() && cache.at_place("c1", "n").is_none());
    }

    #[test]
    fn what_a_new_list_lacks_is_gone() {
        let cache = Cache::<BusinessNamespace>::default();
        for name in ["a", "b"] {
            cache.seen(namespace("p", name, 1), Heard::ByEvent).unwrap();
        }
        cache.seen(namespace("p2", "c", 1), Heard::ByEvent).unwrap();
        cache.list_begins();
        assert!(cache.seen(namespace("p", "a", 1), Heard::ByEvent).is_none());
        assert_eq!(cache.list_ends().len(), 2);
        assert_eq!(cache.of_project("p").len(), 1);
        assert!(cache.at_place("c1", "a").is_some() && cache.at_place("c1", "b").is_none());
    }

    #[test]
    fn children_follow_their_parent() {
        let cache = Objects::default().projects;
        let project = |name: &str, parent: &str, revision: u64| ProjectView {
            key: RootKey::new(None, name),
            uid: name.into(),
            resource_version: revision.to_string(),
            spec: ProjectSpec { parent_project_name: parent.into(), ..ProjectSpec::default() },
            ..ProjectView::default()
        };
        cache.seen(project("root", "", 1), Heard::ByEvent);
        cache.seen(project("other", "", 2), Heard::ByEvent);
        cache.seen(project("child", "root", 3), Heard::ByEvent);
        assert_eq!(cache.children_of("root").len(), 1);
        cache.seen(project("child", "other", 4), Heard::ByEvent);
        assert!(cache.children_of("root").is_empty());
        assert_eq!(cache.children_of("other")[0].key.name(), "child");
    }
}
