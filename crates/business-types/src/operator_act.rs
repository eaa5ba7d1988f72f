use crate::names::{GROUP, OPERATOR_ACT_KIND, VERSION};
use meta::field::{FieldError, FieldErrors, Path};
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::schema::Schema;
use serde::{Deserialize, Serialize};

/// The maximum number of bytes of a reason.
const REASON_BYTES_MAX: usize = 1024;

/// The body of subresources for operators, such as `projects/NAME/lock`: the reason of the action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorAct {
    /// The reason, for people.
    pub reason: String,
}

/// Its group, version and kind.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(GROUP, VERSION, OPERATOR_ACT_KIND)
}

/// The schema of the body.
pub fn schema() -> Schema {
    Schema::kind(
        "io.tkestack.business.v1.OperatorAct",
        "Something that an operator does to an object.",
        [("reason", Schema::string("Why, for people: at most 1024 bytes. Required.").required())],
    )
}

impl OperatorAct {
    /// Decodes a body.
    pub fn of(body: &Object) -> Result<Self, serde_json::Error> {
        Self::deserialize(body.as_map())
    }

    /// Validates the body.
    pub fn validate(&self) -> FieldErrors {
        let path = Path::new("reason");
        if self.reason.trim().is_empty() {
            return vec![FieldError::required(&path, "must say why")];
        }
        if self.reason.len() > REASON_BYTES_MAX {
            return vec![FieldError::too_long(&path, REASON_BYTES_MAX)];
        }
        FieldErrors::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_act_has_a_reason() {
        let errors = |reason: &str| OperatorAct { reason: reason.to_owned() }.validate().len();
        assert_eq!([errors("the cluster burnt down"), errors(" "), errors(&"x".repeat(1025))], [0, 1, 1]);
    }
}
