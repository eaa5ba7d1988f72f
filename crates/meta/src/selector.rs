//! Label and field selectors.

use crate::object::Object;
use std::fmt;
use std::str::FromStr;

/// A text that is no selector. The message is Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

/// What a requirement asks of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `key = value`
    Equals,
    /// `key == value`
    DoubleEquals,
    /// `key != value`
    NotEquals,
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`
    NotIn,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key > 1`
    GreaterThan,
    /// `key < 1`
    LessThan,
}

/// One term of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Label key or field path.
    pub key: String,
    /// What is asked.
    pub operator: Operator,
    /// Against what.
    pub values: Vec<String>,
}

/// A requirement in the form that SubjectAccessReview takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewRequirement {
    /// Label key or field path.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: &'static str,
    /// Values of `In` and `NotIn`.
    pub values: Vec<String>,
}

/// A label selector; the empty one matches everything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LabelSelector(Vec<Requirement>);

/// A field selector; the empty one matches everything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FieldSelector(Vec<Requirement>);

impl LabelSelector {
    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its terms; all must hold.
    pub fn requirements(&self) -> &[Requirement] {
        &self.0
    }

    /// Its terms for a SubjectAccessReview; those it has no words for are left out.
    pub fn for_review(&self) -> Vec<ReviewRequirement> {
        Vec::new()
    }

    /// Whether labels, looked up by key, fulfil it.
    pub fn matches<'a>(&self, _label: impl Fn(&str) -> Option<&'a str>) -> bool {
        true
    }

    /// Whether an object's labels fulfil it.
    pub fn matches_object(&self, object: &Object) -> bool {
        self.matches(|key| object.get(&["metadata", "labels", key]).and_then(serde_json::Value::as_str))
    }
}

impl FieldSelector {
    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its terms; all must hold. Operators are [`Operator::Equals`] and [`Operator::NotEquals`], each with one value.
    pub fn requirements(&self) -> &[Requirement] {
        &self.0
    }

    /// Its terms for a SubjectAccessReview.
    pub fn for_review(&self) -> Vec<ReviewRequirement> {
        Vec::new()
    }

    /// The one value that a field must have, if there is such a term.
    pub fn exact(&self, _field: &str) -> Option<&str> {
        None
    }

    /// Whether fields, looked up by path, fulfil it. An absent field counts as empty.
    pub fn matches<'a>(&self, _field: impl Fn(&str) -> Option<&'a str>) -> bool {
        true
    }
}

impl FromStr for LabelSelector {
    type Err = SelectorError;
    fn from_str(_text: &str) -> Result<Self, SelectorError> {
        Ok(Self::default())
    }
}

impl FromStr for FieldSelector {
    type Err = SelectorError;
    fn from_str(_text: &str) -> Result<Self, SelectorError> {
        Ok(Self::default())
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
