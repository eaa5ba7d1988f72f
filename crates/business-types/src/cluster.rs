use serde::{Deserialize, Serialize};

/// Every tenant, in [`Cluster::tenants`].
pub const EVERY_TENANT: &str = "*";

/// A member cluster as the controller makes it known, without any secret: one value of the `ConfigMap`
/// [`crate::names::CLUSTERS_CONFIG_MAP`], as JSON; its key is the cluster's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cluster {
    /// Tenants that may use it; `*` is every one.
    pub tenants: Vec<String>,
    /// Its Kubernetes version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Its type, such as `Imported`.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub cluster_type: String,
}

impl Cluster {
    /// Whether a tenant may use it. What belongs to no tenant may be anywhere.
    pub fn allows(&self, tenant: &str) -> bool {
        tenant.is_empty() || self.tenants.iter().any(|allowed| allowed == EVERY_TENANT || allowed == tenant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_for_the_tenants_it_names() {
        let cluster: Cluster =
            serde_json::from_str(r#"{"tenants":["a"],"displayName":"A","type":"Imported","version":"v1"}"#)
                .unwrap();
        assert!(cluster.allows("a") && cluster.allows(""));
        assert!(!cluster.allows("b"));
        assert_eq!((cluster.display_name.as_str(), cluster.cluster_type.as_str()), ("A", "Imported"));
        assert!(Cluster { tenants: vec![EVERY_TENANT.to_owned()], ..cluster }.allows("b"));
        assert!(!serde_json::from_str::<Cluster>("{}").unwrap().allows("a"), "nobody is named");
    }
}
