use crate::names::{GROUP, NAMESPACE_TRANSFER_KIND, VERSION};
use meta::field::{FieldError, FieldErrors, Path};
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::schema::Schema;
use serde::{Deserialize, Serialize};

/// The maximum number of bytes of a reason.
pub const REASON_BYTES_MAX: usize = 1024;

/// A request to move a namespace to another project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespaceTransfer {
    /// The new project.
    pub project: String,
    /// The reason, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// `metadata.uid` of the namespace, as a precondition; empty for any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// Its group, version and kind.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(GROUP, VERSION, NAMESPACE_TRANSFER_KIND)
}

/// The schema of the body.
pub fn schema() -> Schema {
    Schema::kind(
        "io.tkestack.business.v1.NamespaceTransfer",
        "Moves a namespace to another project of its tenant, with what it is charged. The namespace in the member \
         cluster and what runs in it are not touched.",
        [
            ("project", Schema::string("Name of the project that the namespace shall lie in.").required()),
            ("reason", Schema::string("Why, for people: at most 1024 bytes.").optional()),
            (
                "uid",
                Schema::string("metadata.uid of the namespace that is meant; another one of its name stays.")
                    .optional(),
            ),
        ],
    )
}

impl NamespaceTransfer {
    /// Decodes a body.
    pub fn of(body: &Object) -> Result<Self, serde_json::Error> {
        Self::deserialize(body.as_map())
    }

    /// Validates the request for a namespace of the project `from`.
    pub fn validate(&self, from: &str) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let project = Path::new("project");
        if self.project.is_empty() {
            errors.push(FieldError::required(&project, "must name the project to move to"));
        } else if self.project == from {
            let value = serde_json::json!(self.project);
            errors.push(FieldError::invalid(&project, &value, "is still the current project"));
        }
        if self.reason.len() > REASON_BYTES_MAX {
            errors.push(FieldError::too_long(&Path::new("reason"), REASON_BYTES_MAX));
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_transfer_names_another_project() {
        let read = |body| NamespaceTransfer::of(&Object::new(body).unwrap()).unwrap();
        let fields =
            |body| -> Vec<String> { read(body).validate("p").into_iter().map(|error| error.field).collect() };
        assert_eq!(fields(json!({})), ["project"]);
        assert_eq!(fields(json!({"project": "p"})), ["project"]);
        assert_eq!(fields(json!({"project": "q", "reason": "x".repeat(1025)})), ["reason"]);
        assert!(fields(json!({"kind": "NamespaceTransfer", "project": "q", "reason": "x"})).is_empty());
    }
}
