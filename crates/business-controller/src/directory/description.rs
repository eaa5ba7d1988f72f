//! The description of a cluster by the directory, and how it is merged into the cluster's object.

use crate::kinds::View;
use crate::member_cluster::kind::BusinessMemberCluster;
use business_types::{ClusterCredentials, MemberClusterSpec, names};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The description of a cluster by a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterDescription {
    /// Its display name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Its type, such as `Imported`.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub type_: String,
    /// Tenants that may use it; `*` is all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<String>,
    /// The Secret that its credentials come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<ClusterCredentials>,
}

impl ClusterDescription {
    /// The description of a cluster that the source does not describe: all tenants may use it.
    pub fn imported() -> Self {
        Self { type_: "Imported".to_owned(), tenants: vec!["*".to_owned()], ..Self::default() }
    }

    fn of(spec: &MemberClusterSpec) -> Self {
        Self {
            display_name: spec.display_name.clone(),
            type_: spec.cluster_type.clone(),
            tenants: spec.tenants.clone(),
            credentials: spec.credentials.clone(),
        }
    }

    /// The body of a new object.
    pub fn body(&self) -> Value {
        json!({ "metadata": { "annotations": { (names::DIRECTORY_ANNOTATION): json!(self).to_string() } }, "spec": self })
    }
}

/// A three-way merge: the patch that brings an object from the last description to this one. Fields that somebody has
/// changed since then stay.
pub fn description_patch(object: &View<BusinessMemberCluster>, said: &ClusterDescription) -> Option<Value> {
    let last = object.annotations.get(names::DIRECTORY_ANNOTATION);
    let last: ClusterDescription = last.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    if last == *said {
        return None;
    }
    let fields = |described: &ClusterDescription| match json!(described) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let (last, new, held) = (fields(&last), fields(said), fields(&ClusterDescription::of(&object.spec)));
    let mut spec = Map::new();
    for field in last.keys().chain(new.keys()) {
        let (was, is) = (last.get(field), new.get(field));
        if was != is && held.get(field) == was {
            spec.insert(field.clone(), is.cloned().unwrap_or(Value::Null));
        }
    }
    let annotations = json!({ (names::DIRECTORY_ANNOTATION): json!(said).to_string() });
    Some(json!({ "metadata": { "annotations": annotations }, "spec": spec }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(display_name: &str, tenants: &[&str]) -> ClusterDescription {
        let tenants = tenants.iter().map(|&tenant| tenant.to_owned()).collect();
        ClusterDescription {
            display_name: display_name.to_owned(),
            tenants,
            ..ClusterDescription::imported()
        }
    }

    fn object(last: Option<&ClusterDescription>, spec: &ClusterDescription) -> View<BusinessMemberCluster> {
        let annotation = |last| (names::DIRECTORY_ANNOTATION.to_owned(), json!(last).to_string());
        View {
            annotations: last.map(annotation).into_iter().collect(),
            spec: serde_json::from_value(json!(spec)).unwrap(),
            ..View::default()
        }
    }

    fn changed(
        last: Option<&ClusterDescription>,
        spec: &ClusterDescription,
        new: &ClusterDescription,
    ) -> Option<Value> {
        description_patch(&object(last, spec), new).map(|mut patch| patch["spec"].take())
    }

    #[test]
    fn what_an_operator_has_changed_stays() {
        let (first, second) = (said("One", &["*"]), said("Uno", &["acme"]));
        assert_eq!(changed(Some(&first), &first, &first), None);
        assert_eq!(
            changed(Some(&first), &first, &second),
            Some(json!({"displayName": "Uno", "tenants": ["acme"]}))
        );
        let his = said("One", &["globex"]);
        assert_eq!(changed(Some(&first), &his, &second), Some(json!({"displayName": "Uno"})));
        assert_eq!(changed(Some(&second), &his, &second), None, "it was said before");
    }

    #[test]
    fn what_an_operator_has_made_takes_over_what_he_has_not_said() {
        let his = ClusterDescription { display_name: "His".to_owned(), ..ClusterDescription::default() };
        let want = json!({"tenants": ["*"], "type": "Imported"});
        assert_eq!(changed(None, &his, &said("One", &["*"])), Some(want));
    }

    #[test]
    fn what_is_said_no_more_goes() {
        let first = said("One", &["*"]);
        let less = ClusterDescription { display_name: String::new(), ..first.clone() };
        assert_eq!(changed(Some(&first), &first, &less), Some(json!({"displayName": null})));
    }
}
