//! Who may set and remove tokens in `spec.finalizers`. A token that nobody removes keeps an object for ever. So a
//! caller with a tenant sets only tokens that an operator has allowed. Tokens in `metadata.finalizers` are not checked:
//! whoever may update the object can remove them.

use meta::field::{FieldError, FieldErrors, Path};
use meta::object::Object;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The path of a kind's own tokens.
pub const FINALIZERS: &[&str] = &["spec", "finalizers"];

/// The tokens that callers with a tenant may set, beside the platform's own.
#[derive(Clone, Debug, Default)]
pub struct TenantFinalizers(Arc<[String]>);

impl TenantFinalizers {
    /// Allows these tokens.
    pub fn new(tokens: impl IntoIterator<Item = String>) -> Self {
        Self(tokens.into_iter().collect())
    }

    /// Validates the tokens of a tenant's new object. `ours` is the platform's own token.
    pub fn check_new(&self, object: &Object, ours: &str) -> FieldErrors {
        let allowed: Vec<&str> = std::iter::once(ours).chain(self.0.iter().map(String::as_str)).collect();
        let path = path();
        let tokens = object.strings(FINALIZERS).enumerate();
        tokens
            .filter(|(_, token)| !allowed.contains(token))
            .map(|(at, token)| FieldError::not_supported(&path.index(at), &json!(token), &allowed))
            .collect()
    }
}

/// Validates a tenant's update of the tokens. The only change that is allowed: to remove tokens, other than the
/// platform's own token `ours`, from an object that is being deleted.
pub fn check_removal(old: &Object, new: &Object, ours: &str) -> FieldErrors {
    let (before, after) = (tokens(old), tokens(new));
    let mut errors = FieldErrors::new();
    for added in after.difference(&before) {
        errors.push(FieldError::forbidden(
            &path(),
            &format!("{added:?} can only be set when the object is created"),
        ));
    }
    for removed in before.difference(&after) {
        let why = match *removed {
            removed if removed == ours => "is taken out by the platform, when nothing is left",
            _ if !old.is_deleting() => "stays until the object is being deleted",
            _ => continue,
        };
        errors.push(FieldError::forbidden(&path(), &format!("{removed:?} {why}")));
    }
    errors
}

fn tokens(object: &Object) -> BTreeSet<&str> {
    object.strings(FINALIZERS).collect()
}

fn path() -> Path {
    Path::new("spec").child("finalizers")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(tokens: &[&str], deleting: bool) -> Object {
        let at = deleting.then_some("2026-01-01T00:00:00Z");
        Object::new(json!({"metadata": {"deletionTimestamp": at}, "spec": {"finalizers": tokens}})).unwrap()
    }

    fn messages(errors: &FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_tenant_sets_tokens_of_the_list_only() {
        let allowed = TenantFinalizers::new(["example.com/backup".to_owned()]);
        assert_eq!(allowed.check_new(&object(&["namespace", "example.com/backup"], false), "namespace"), []);
        assert_eq!(allowed.check_new(&object(&[], false), "namespace"), []);
        let wrong = allowed.check_new(&object(&["namespace", "mine", "project"], false), "namespace");
        assert_eq!(
            messages(&wrong),
            ["mine", "project"]
                .iter()
                .zip(1..)
                .map(|(token, at)| format!(
                    "spec.finalizers[{at}]: Unsupported value: {token:?}: supported values: \"namespace\", \
                 \"example.com/backup\""
                ))
                .collect::<Vec<_>>()
        );
        assert_eq!(TenantFinalizers::default().check_new(&object(&["x"], false), "project").len(), 1);
    }

    #[test]
    fn an_administrator_takes_foreign_tokens_off_what_is_being_deleted() {
        let check = |before: &[&str], after: &[&str], deleting: bool| {
            messages(&check_removal(&object(before, deleting), &object(after, deleting), "namespace"))
        };
        assert_eq!(check(&["namespace", "x", "y"], &["y", "namespace"], true), [""; 0]);
        assert_eq!(check(&["x"], &[], true), [""; 0], "ours has gone already");
        for deleting in [true, false] {
            assert_eq!(check(&["namespace", "x"], &["x", "namespace"], deleting), [""; 0], "nothing changes");
            assert_eq!(
                check(&["namespace"], &[], deleting),
                [
                    "spec.finalizers: Forbidden: \"namespace\" is taken out by the platform, when nothing is left"
                ]
            );
            assert_eq!(
                check(&[], &["namespace"], deleting),
                ["spec.finalizers: Forbidden: \"namespace\" can only be set when the object is created"]
            );
        }
        assert_eq!(
            check(&["namespace", "x"], &["namespace"], false),
            ["spec.finalizers: Forbidden: \"x\" stays until the object is being deleted"]
        );
    }
}
