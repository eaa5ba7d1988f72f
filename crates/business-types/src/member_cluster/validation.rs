use super::MemberClusterSpec;
use crate::validation::{DISPLAY_NAME_BYTES_MAX, amounts, cluster_name};
use meta::field::{FieldError, FieldErrors, Path};

/// What is wrong with a member cluster.
pub fn member_cluster(name: &str, spec: &MemberClusterSpec) -> FieldErrors {
    let path = Path::new("spec");
    let mut errors: FieldErrors =
        cluster_name(name, &Path::new("metadata").child("name")).into_iter().collect();
    if spec.display_name.len() > DISPLAY_NAME_BYTES_MAX {
        errors.push(FieldError::too_long(&path.child("displayName"), DISPLAY_NAME_BYTES_MAX));
    }
    errors.extend(amounts(&spec.hard, |resource| path.child("hard").key(resource)));
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_member_cluster_is_not_the_registry_and_has_amounts() {
        let fields = |name: &str, spec: serde_json::Value| -> Vec<String> {
            let spec = serde_json::from_value(spec).unwrap();
            member_cluster(name, &spec).into_iter().map(|error| error.field).collect()
        };
        assert_eq!(fields("c1", json!({"hard": {"requests.cpu": "10"}})), [""; 0]);
        assert_eq!(fields("registry", json!({})), ["metadata.name"]);
        assert_eq!(fields("c1", json!({"hard": {"pods": "1.5"}})), ["spec.hard[pods]"]);
    }
}
