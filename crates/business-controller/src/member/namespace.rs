//! Namespaces of a member cluster, trimmed to the fields that the controller uses.

use super::marks::{Marks, annotation};
use super::template_metadata::TemplateMetadata;
use super::watch_store::Versioned;
use super::weight;
use business_types::names;
use k8s_openapi::api::core::v1::Namespace;
use meta::field::shortened;

/// How many condition messages of a terminating namespace are kept, and how many bytes of each. They contain names that
/// tenants choose.
const REMAINING_MAX: usize = 8;
const REMAINING_TEXT_MAX: usize = 256;

/// A namespace in a member cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNamespace {
    /// `metadata.name`
    pub name: String,
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.resourceVersion`
    pub resource_version: String,
    /// `metadata.creationTimestamp`, in seconds since 1970.
    pub created: i64,
    pub marks: Marks,
    /// Labels and annotations that a template has set.
    pub template_metadata: TemplateMetadata,
    /// Annotation: consent to its adoption, as `<project>/<name>`.
    pub adopt: Option<String>,
    /// It is being deleted.
    pub deleting: bool,
    /// What blocks its deletion, as its conditions say.
    pub remaining: Vec<String>,
}

impl From<Namespace> for ClusterNamespace {
    fn from(namespace: Namespace) -> Self {
        let metadata = namespace.metadata;
        let conditions = namespace.status.and_then(|status| status.conditions).unwrap_or_default();
        let remaining = conditions.into_iter().filter(|condition| condition.status == "True");
        let remaining = remaining
            .take(REMAINING_MAX)
            .map(|condition| shortened(&condition.message.unwrap_or(condition.type_), REMAINING_TEXT_MAX));
        Self {
            marks: Marks::of(&metadata),
            template_metadata: TemplateMetadata::of(&metadata),
            adopt: annotation(&metadata, names::ADOPT_ANNOTATION),
            created: metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
            deleting: metadata.deletion_timestamp.is_some(),
            remaining: remaining.collect(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
        }
    }
}

impl Versioned for ClusterNamespace {
    fn resource_version(&self) -> &str {
        &self.resource_version
    }

    fn weight(&self) -> usize {
        let texts = [&self.name, &self.uid, &self.resource_version];
        weight::of(self)
            .saturating_add(weight::texts(texts.into_iter().chain(&self.adopt).chain(&self.remaining)))
            .saturating_add(self.marks.weight())
            .saturating_add(self.template_metadata.weight())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_what_keeps_a_namespace_the_beginning_is_kept() {
        let condition =
            json!({ "type": "ContentRemaining", "status": "True", "message": "x".repeat(100_000) });
        let namespace: Namespace = serde_json::from_value(json!({
            "metadata": { "name": "n" }, "status": { "conditions": vec![condition; 100] },
        }))
        .unwrap();
        let remaining = ClusterNamespace::from(namespace).remaining;
        assert_eq!(remaining.len(), REMAINING_MAX);
        assert!(remaining.iter().all(|text| text.len() < REMAINING_TEXT_MAX + 10 && text.starts_with("xxx")));
    }
}
