//! Field selectors: `path=value`, `path==value`, `path!=value`, joined by commas; `\` escapes `,`, `=` and `\`.

use super::{Operator, REQUIREMENTS_MAX, Requirement, ReviewRequirement, SelectorError};
use std::fmt;
use std::str::FromStr;

/// A field selector; the empty one matches everything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FieldSelector(Vec<Requirement>);

impl FieldSelector {
    /// Whether it has no requirements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its requirements, which must all be met. Operators are [`Operator::Equals`] and [`Operator::NotEquals`], each
    /// with one value.
    pub fn requirements(&self) -> &[Requirement] {
        &self.0
    }

    /// Its requirements for a SubjectAccessReview.
    pub fn for_review(&self) -> Vec<ReviewRequirement> {
        self.0.iter().filter_map(Requirement::for_review).collect()
    }

    /// The value that a field must equal, if there is such a requirement (`RequiresExactMatch`).
    pub fn exact(&self, field: &str) -> Option<&str> {
        let term = self.0.iter().find(|term| term.key == field && term.operator == Operator::Equals)?;
        term.values.first().map(String::as_str)
    }

    /// Whether an object matches, whose fields are looked up by path. An absent field counts as empty.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|term| term.matches(Some(field(&term.key).unwrap_or_default())))
    }
}

impl FromStr for FieldSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            if requirements.len() == REQUIREMENTS_MAX {
                return Err(SelectorError::too_many("requirements", REQUIREMENTS_MAX));
            }
            let Some((key, operator, value)) = split_term(term) else {
                return Err(SelectorError(format!("invalid selector: '{text}'; can't understand '{term}'")));
            };
            requirements.push(Requirement { key: key.to_owned(), operator, values: vec![unescaped(value)?] });
        }
        Ok(Self(requirements))
    }
}

fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|character| {
        let ends = !escaped && character == ',';
        escaped = !escaped && character == '\\';
        ends
    })
    .collect()
}

/// Splits at the first operator; a lone `!` belongs to the path.
fn split_term(term: &str) -> Option<(&str, Operator, &str)> {
    let equals = term.find('=')?;
    let (key, rest) = term.split_at_checked(equals)?;
    let value = rest.strip_prefix('=')?;
    match (key.strip_suffix('!'), value.strip_prefix('=')) {
        (Some(key), _) => Some((key, Operator::NotEquals, value)),
        (None, after) => Some((key, Operator::Equals, after.unwrap_or(value))),
    }
}

fn unescaped(value: &str) -> Result<String, SelectorError> {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                other => {
                    let sequence = other.map(String::from).unwrap_or_default();
                    let text = format!("invalid field selector: invalid escape sequence: \\{sequence}");
                    return Err(SelectorError(text));
                }
            },
            ',' | '=' => {
                let code = u32::from(character);
                return Err(SelectorError(format!(
                    "invalid field selector: unescaped character in value: {code}"
                )));
            }
            other => plain.push(other),
        }
    }
    Ok(plain)
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let operator = if term.operator == Operator::NotEquals { "!=" } else { "=" };
            write!(f, "{comma}{}{operator}", term.key)?;
            for character in term.values.iter().flat_map(|value| value.chars()) {
                let escape = if matches!(character, '\\' | ',' | '=') { "\\" } else { "" };
                write!(f, "{escape}{character}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> FieldSelector {
        text.parse().unwrap()
    }

    #[test]
    fn terms_are_joined_by_commas() {
        let selector = parse("status.phase!=Failed,,metadata.name==a");
        assert_eq!(selector.to_string(), "metadata.name=a,status.phase!=Failed");
        assert_eq!(selector.exact("metadata.name"), Some("a"));
        assert_eq!(selector.exact("status.phase"), None);
        let fields = |phase: &'static str| {
            move |key: &str| if key == "metadata.name" { Some("a") } else { Some(phase) }
        };
        assert!(selector.matches(fields("Active")));
        assert!(!selector.matches(fields("Failed")));
        assert!(parse("").is_empty() && parse(",").is_empty());
        let review = selector.for_review();
        assert_eq!((review[1].operator, review[1].values.as_slice()), ("NotIn", &["Failed".to_owned()][..]));
    }

    #[test]
    fn a_selector_has_only_so_many_terms() {
        let terms = |count: usize| vec!["a=b"; count].join(",").parse::<FieldSelector>();
        assert_eq!(terms(REQUIREMENTS_MAX).unwrap().requirements().len(), REQUIREMENTS_MAX);
        let refused = terms(REQUIREMENTS_MAX + 1).unwrap_err().to_string();
        assert_eq!(refused, "too many requirements: must have at most 100");
    }

    #[test]
    fn an_absent_field_is_empty() {
        assert!(parse("spec.a=").matches(|_| None));
        assert!(parse("spec.a!=x").matches(|_| None));
        assert!(!parse("spec.a=x").matches(|_| None));
    }

    #[test]
    fn values_are_escaped() {
        let selector = parse(r"a=x\,y\=\\");
        assert_eq!(selector.exact("a"), Some(r"x,y=\"));
        assert_eq!(selector.to_string(), r"a=x\,y\=\\");
    }

    #[test]
    fn what_cannot_be_understood_is_said() {
        for (text, want) in [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("x=1,a!b", "invalid selector: 'x=1,a!b'; can't understand 'a!b'"),
            (r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
            (r"a=\", r"invalid field selector: invalid escape sequence: \"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ] {
            assert_eq!(text.parse::<FieldSelector>().unwrap_err().to_string(), want);
        }
        assert_eq!(parse("a!b=c").exact("a!b"), Some("c"));
        assert_eq!(parse("a!b!=c").requirements()[0].key, "a!b");
        assert_eq!(parse("=c").exact(""), Some("c"));
    }

    /// Requirements are sorted by their text as in upstream, `a==` before `a=b`. So printing and parsing may change
    /// their order.
    fn terms(selector: &FieldSelector) -> Vec<String> {
        let mut terms: Vec<String> = selector.0.iter().map(|term| format!("{term:?}")).collect();
        terms.sort_unstable();
        terms
    }

    #[test]
    fn terms_are_ordered_as_written() {
        let selector = parse("a=b,a==z");
        assert_eq!(selector.to_string(), "a=z,a=b");
        assert_eq!(parse("a=z,a=b").to_string(), "a=b,a=z");
        assert_eq!(terms(&parse("a=z,a=b")), terms(&selector));
    }

    proptest! {
        #[test]
        fn printing_and_reading_gives_the_same_terms(text in "[a-z.!=,\\\\ü]{0,24}") {
            if let Ok(selector) = text.parse::<FieldSelector>() {
                prop_assert_eq!(terms(&parse(&selector.to_string())), terms(&selector));
            }
        }
    }
}
