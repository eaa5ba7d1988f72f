//! Generic validation of `metadata`, on create and on update.

use crate::field::FieldErrors;
use crate::object::Object;

/// The rule for a kind's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// A DNS label, at most 63 bytes.
    Label,
    /// A DNS subdomain, at most 253 bytes.
    Subdomain,
}

/// Bytes of all annotations of an object together.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Errors of an object's `metadata`.
pub fn object_meta(_object: &Object, _namespaced: bool, _name: NameRule) -> FieldErrors {
    FieldErrors::new()
}

/// Errors of a change of `metadata`: what may not change, and new finalizers on an object that is being deleted.
pub fn object_meta_update(_new: &Object, _old: &Object) -> FieldErrors {
    FieldErrors::new()
}

/// Drops repeated `ownerReferences`; gives the warning to send when there were any.
pub fn dedup_owner_references(_object: &mut Object) -> Option<String> {
    None
}

/// Warnings for new finalizers without a domain.
pub fn finalizer_warnings(_new: &Object, _old: Option<&Object>) -> Vec<String> {
    Vec::new()
}

/// Errors of the query parameter `fieldManager`.
pub fn field_manager(_manager: &str) -> FieldErrors {
    FieldErrors::new()
}
