//! `metav1.Status`: codes, reasons and message forms of `k8s.io/apimachinery/pkg/api/errors`.

use crate::field::{FIELD_ERRORS_MAX, FieldErrors};
use crate::gvk::{GroupResource, GroupVersionKind};
use serde::{Deserialize, Serialize};

/// `metav1.Status`: the response for a failure, or for a success without an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Always `Status`.
    pub kind: String,
    /// Always `v1`.
    pub api_version: String,
    /// List metadata. Has `continue` if the continue token of the request has expired.
    #[serde(default)]
    pub metadata: ListMeta,
    /// `Success` or `Failure`.
    pub status: String,
    /// Text for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Machine-readable reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The object concerned, and the causes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<StatusDetails>,
    /// HTTP status code.
    #[serde(default, skip_serializing_if = "is_zero_code")]
    pub code: u16,
}

/// `metav1.ListMeta`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListMeta {
    /// `resourceVersion` of the list.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// Token of the next page.
    #[serde(default, rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    /// Items after this page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<i64>,
}

/// `metav1.StatusDetails`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusDetails {
    /// Object name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// API group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Resource plural; the Kind in Invalid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Object uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// One entry per field or condition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatusCause>,
    /// Seconds until a retry makes sense; also sent as the `Retry-After` header.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero_code(code: &u16) -> bool {
    *code == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// `metav1.StatusCause`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusCause {
    /// Machine-readable reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Text for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Path of the field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl Status {
    /// A failure with a code, a reason and a text.
    pub fn failure(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            kind: "Status".to_owned(),
            api_version: "v1".to_owned(),
            metadata: ListMeta::default(),
            status: "Failure".to_owned(),
            message: message.into(),
            reason: reason.to_owned(),
            details: None,
            code,
        }
    }

    /// A success, such as the response to a delete.
    pub fn success(details: StatusDetails) -> Self {
        Self { status: "Success".to_owned(), details: Some(details), ..Self::failure(0, "", "") }
    }

    /// Adds the object concerned.
    #[must_use]
    pub fn about(mut self, resource: &GroupResource, name: &str) -> Self {
        let details = self.details.get_or_insert_default();
        details.group.clone_from(&resource.group);
        details.kind.clone_from(&resource.resource);
        name.clone_into(&mut details.name);
        self
    }

    /// Adds causes.
    #[must_use]
    pub fn with_causes(mut self, causes: Vec<StatusCause>) -> Self {
        self.details.get_or_insert_default().causes = causes;
        self
    }

    /// Asks the client to retry after some seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, "BadRequest", message)
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Self::failure(401, "Unauthorized", "Unauthorized")
    }

    /// 403 with the generic form `R.G "n" is forbidden: why`.
    pub fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} \"{name}\" is forbidden: {why}")
        };
        Self::failure(403, "Forbidden", message).about(resource, name)
    }

    /// 404 for an object.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::failure(404, "NotFound", format!("{resource} \"{name}\" not found")).about(resource, name)
    }

    /// 404 for an unknown path below a served group and version.
    pub fn no_such_path() -> Self {
        let mut status = Self::failure(404, "NotFound", "the server could not find the requested resource");
        status.details = Some(StatusDetails::default());
        status
    }

    /// 405 for a known path.
    pub fn method_not_allowed() -> Self {
        let mut status = Self::failure(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        status.details = Some(StatusDetails::default());
        status
    }

    /// 405 for a watch of a resource that can only be listed.
    pub fn watch_not_supported(resource: &GroupResource) -> Self {
        let message = format!("watch is not supported on resources of kind {:?}", resource.to_string());
        let mut status = Self::failure(405, "MethodNotAllowed", message);
        status.details = Some(StatusDetails {
            group: resource.group.clone(),
            kind: resource.resource.clone(),
            ..StatusDetails::default()
        });
        status
    }

    /// 406.
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let list = accepted.join(", ");
        Self::failure(406, "NotAcceptable", format!("only the following media types are accepted: {list}"))
    }

    /// 409 for a name that is taken.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::failure(409, "AlreadyExists", format!("{resource} \"{name}\" already exists"))
            .about(resource, name)
    }

    /// 409 for a stale `resourceVersion`, a failed precondition, or a claim of another object.
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Self::failure(409, "Conflict", message).about(resource, name)
    }

    /// 410 for a revision that was compacted.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, "Expired", message)
    }

    /// 413.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::failure(413, "RequestEntityTooLarge", message)
    }

    /// 415.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let list = accepted.join(", ");
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {list}"
        );
        Self::failure(415, "UnsupportedMediaType", message)
    }

    /// 422 with one cause per field error, for the first [`FIELD_ERRORS_MAX`] of them.
    pub fn invalid(kind: &GroupVersionKind, name: &str, errors: &FieldErrors) -> Self {
        let more = (errors.len() > FIELD_ERRORS_MAX).then(|| "and more".to_owned());
        let errors = errors.get(..FIELD_ERRORS_MAX).unwrap_or(errors);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).chain(more).collect();
        let text = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let shown = GroupResource::new(kind.group.as_str(), kind.kind.as_str());
        let causes = errors
            .iter()
            .map(|e| StatusCause {
                reason: e.cause.reason().to_owned(),
                message: e.message.clone(),
                field: e.field.clone(),
            })
            .collect();
        Self::failure(422, "Invalid", format!("{shown} \"{name}\" is invalid: {text}"))
            .about(&shown, name)
            .with_causes(causes)
    }

    /// 429.
    pub fn too_many_requests(seconds: u32) -> Self {
        Self::failure(429, "TooManyRequests", "Too many requests, please try again later.")
            .retry_after(seconds)
    }

    /// 500. The client sees the text, so it must not contain internal details.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::failure(500, "InternalError", format!("Internal error occurred: {}", message.into()))
    }

    /// 503.
    pub fn unavailable(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::failure(503, "ServiceUnavailable", message).retry_after(retry_after_seconds)
    }

    /// 504.
    pub fn timeout(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::failure(504, "Timeout", format!("Timeout: {}", message.into())).retry_after(retry_after_seconds)
    }

    /// 504 for a `resourceVersion` that this server has not seen yet.
    pub fn too_large_resource_version(asked: u64, current: u64) -> Self {
        Self::timeout(format!("Too large resource version: {asked}, current: {current}"), 1).with_causes(
            vec![StatusCause {
                reason: "ResourceVersionTooLarge".to_owned(),
                message: "Too large resource version".to_owned(),
                field: String::new(),
            }],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{FieldError, Path};

    #[test]
    fn of_many_field_errors_the_first_are_told() {
        let kind = GroupVersionKind::new("g", "v1", "A");
        let path = Path::new("f");
        let told = |count: usize| {
            let errors: FieldErrors = (0..count).map(|n| FieldError::required(&path.index(n), "")).collect();
            Status::invalid(&kind, "a", &errors)
        };
        let all = told(FIELD_ERRORS_MAX);
        assert!(all.message.ends_with("f[99]: Required value]"), "{}", all.message);
        let some = told(5 * FIELD_ERRORS_MAX);
        assert!(some.message.ends_with("f[99]: Required value, and more]"), "{}", some.message);
        assert_eq!(some.details, all.details);
    }
}
