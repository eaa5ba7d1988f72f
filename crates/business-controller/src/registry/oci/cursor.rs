//! Where a removal goes on in a large repository.

/// Repositories or tags in a page.
pub(super) const PAGE: usize = if cfg!(test) { 50 } else { 500 };

/// Pages that are read of a list.
pub(super) const PAGES_MAX: usize = 200;

/// Where the next part of a repository begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovalCursor {
    /// The next tags; `None` after the last one.
    pub(super) tags: Option<TagCursor>,
    /// Of the manifests that were seen before, those after this digest follow.
    pub(super) before: String,
    /// Within this part, manifests from this digest on follow.
    pub(super) from: String,
}

impl RemovalCursor {
    pub fn first(repository: &str) -> Self {
        Self { tags: Some(TagCursor::first(repository)), before: String::new(), from: String::new() }
    }
}

/// A position in the list of a repository's tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TagCursor {
    /// The path of the page.
    pub(super) path: String,
    /// How many tags of the page are skipped. A registry may have all tags in one page.
    pub(super) skip: usize,
}

impl TagCursor {
    pub(super) fn first(repository: &str) -> Self {
        Self { path: tags_path(repository), skip: 0 }
    }
}

pub(super) fn tags_path(repository: &str) -> String {
    format!("/v2/{repository}/tags/list?n={PAGE}")
}
