//! Where a removal goes on in a repository that has much.

/// Repositories, or tags of one, that a page has.
pub(super) const PAGE: usize = if cfg!(test) { 50 } else { 500 };

/// Where a part of a repository begins that a removal looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovalCursor {
    /// `None`: all tags have had their turn.
    pub(super) tags: Option<TagCursor>,
    /// Of what was seen before it is what comes behind this.
    pub(super) before: String,
    /// Of both it is what comes from this on: what is before it was looked at.
    pub(super) from: String,
}

impl RemovalCursor {
    pub fn first(repository: &str) -> Self {
        Self { tags: Some(TagCursor::first(repository)), before: String::new(), from: String::new() }
    }
}

/// A place in the list of tags of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TagCursor {
    /// Of a page.
    pub(super) path: String,
    /// So many tags of it are before: a registry may have all in one page.
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
