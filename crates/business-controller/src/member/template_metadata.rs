//! Labels and annotations that a template has set on a namespace of a member cluster.

use super::weight;
use business_types::names::TEMPLATE_KEYS_ANNOTATION;
use business_types::namespace_template::is_reserved;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;

const LABEL: &str = "label:";
const ANNOTATION: &str = "annotation:";

/// Labels and annotations by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateMetadata {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

impl TemplateMetadata {
    /// Those that the namespace still has, of all that its annotation lists.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let told = metadata.annotations.as_ref().and_then(|all| all.get(TEMPLATE_KEYS_ANNOTATION));
        let told: Vec<&str> = told.map(|told| told.split(',').collect()).unwrap_or_default();
        let held = |kind: &str, there: Option<&BTreeMap<String, String>>| {
            let keys = told.iter().filter_map(|one| one.strip_prefix(kind)).filter(|key| !is_reserved(key));
            keys.filter_map(|key| Some((key.to_owned(), there?.get(key)?.clone()))).collect()
        };
        Self {
            labels: held(LABEL, metadata.labels.as_ref()),
            annotations: held(ANNOTATION, metadata.annotations.as_ref()),
        }
    }

    /// The estimated bytes it takes.
    pub(super) fn weight(&self) -> usize {
        let pairs = [&self.labels, &self.annotations].into_iter().flatten();
        weight::texts(pairs.flat_map(|(key, value)| [key, value]))
    }

    /// The value of the annotation that lists the keys; `None` if nothing is set.
    pub fn keys_annotation(&self) -> Option<String> {
        let labels = self.labels.keys().map(|key| format!("{LABEL}{key}"));
        let annotations = self.annotations.keys().map(|key| format!("{ANNOTATION}{key}"));
        let told: Vec<String> = labels.chain(annotations).collect();
        (!told.is_empty()).then(|| told.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_told_by_an_annotation() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let set = TemplateMetadata {
            labels: map(&[("a", "1"), ("b", "2")]),
            annotations: map(&[("x.org/c", "3")]),
        };
        let told = set.keys_annotation().unwrap();
        assert_eq!(told, "label:a,label:b,annotation:x.org/c");
        let metadata = ObjectMeta {
            labels: Some(map(&[("a", "1"), ("b", "other"), ("theirs", "4")])),
            annotations: Some(map(&[(TEMPLATE_KEYS_ANNOTATION, &told)])),
            ..ObjectMeta::default()
        };
        let there =
            TemplateMetadata { labels: map(&[("a", "1"), ("b", "other")]), annotations: BTreeMap::new() };
        assert_eq!(TemplateMetadata::of(&metadata), there);
        assert_eq!(TemplateMetadata::default().keys_annotation(), None);
        let marks = "label:tkestack.io/projectName";
        let forged = ObjectMeta {
            labels: Some(map(&[("tkestack.io/projectName", "p")])),
            annotations: Some(map(&[(TEMPLATE_KEYS_ANNOTATION, marks)])),
            ..ObjectMeta::default()
        };
        assert_eq!(
            TemplateMetadata::of(&forged),
            TemplateMetadata::default(),
            "our marks were set by no template"
        );
    }
}
