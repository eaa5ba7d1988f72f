//! Label and field selectors.

mod field;
mod label;

pub use field::FieldSelector;
pub use label::LabelSelector;

/// The maximum number of requirements of a selector.
pub const REQUIREMENTS_MAX: usize = 100;
/// The maximum number of values of a requirement.
pub const VALUES_MAX: usize = 256;

/// Why a text is not a selector. The message is Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

impl SelectorError {
    fn too_many(what: &str, max: usize) -> Self {
        Self(format!("too many {what}: must have at most {max}"))
    }
}

/// How a requirement compares a key's value.
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

/// One requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Label key or field path.
    pub key: String,
    /// How the value is compared.
    pub operator: Operator,
    /// The values that it is compared with, sorted and without duplicates.
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

impl Requirement {
    /// Whether a key's value, or its absence, meets this requirement.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let listed = |text: &str| self.values.binary_search_by(|value| value.as_str().cmp(text)).is_ok();
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => value.is_some_and(listed),
            Operator::NotEquals | Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compare(value).is_some_and(|(found, bound)| found > bound),
            Operator::LessThan => self.compare(value).is_some_and(|(found, bound)| found < bound),
        }
    }

    fn compare(&self, value: Option<&str>) -> Option<(i64, i64)> {
        Some((value?.parse().ok()?, self.values.first()?.parse().ok()?))
    }

    fn for_review(&self) -> Option<ReviewRequirement> {
        let operator = match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => "In",
            Operator::NotEquals | Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            Operator::GreaterThan | Operator::LessThan => return None,
        };
        Some(ReviewRequirement { key: self.key.clone(), operator, values: self.values.clone() })
    }
}
