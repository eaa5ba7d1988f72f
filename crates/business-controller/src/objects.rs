//! The caches of our own objects, one for each kind of the table.

use crate::cache::Cache;
use crate::controllers::every_controller;
use crate::kinds::Kind;

/// A kind that is in the table of controllers.
pub trait RegisteredKind: Kind {
    fn cache(objects: &Objects) -> &Cache<Self>;
    fn object_ref(key: Self::Key) -> ObjectRef;
}

macro_rules! caches {
    ($($variant:ident, $field:ident, $kind:path;)*) => {
        /// The caches of all our kinds.
        #[derive(Debug, Default)]
        pub struct Objects {
            $(pub $field: Cache<$kind>,)*
        }

        impl Objects {
            /// Whether every kind was listed at least once.
            pub fn is_synced(&self) -> bool {
                $(self.$field.is_synced())&&*
            }

            /// Waits until every kind was listed.
            pub async fn synced(&self) {
                $(self.$field.synced().await;)*
            }
        }

        /// Names an object of any kind; the key of the work queue.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ObjectRef {
            $($variant(<$kind as Kind>::Key),)*
        }

        impl ObjectRef {
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => <$kind as Kind>::KIND,)*
                }
            }
        }

        impl std::fmt::Display for ObjectRef {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$variant(key) => std::fmt::Display::fmt(key, f),)*
                }
            }
        }

        $(impl RegisteredKind for $kind {
            fn cache(objects: &Objects) -> &Cache<Self> {
                &objects.$field
            }

            fn object_ref(key: Self::Key) -> ObjectRef {
                ObjectRef::$variant(key)
            }
        })*
    };
}
every_controller!(caches);
