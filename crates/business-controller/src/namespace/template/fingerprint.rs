//! What identifies the effect of a template on a namespace.

use crate::member::template_metadata::TemplateMetadata;

/// Identifies what a template puts into a namespace, to distinguish drift from a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateFingerprint {
    pub(super) template_metadata: TemplateMetadata,
    pub(super) digests: Vec<String>,
}
