//! Label selectors: `a=b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`, `a>1`, `a<1`, joined by commas.

use super::{Operator, REQUIREMENTS_MAX, Requirement, ReviewRequirement, SelectorError, VALUES_MAX};
use crate::field::{FieldError, Path};
use crate::name;
use crate::object::Object;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

const BINARY_OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

/// A label selector; the empty one matches everything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LabelSelector(Vec<Requirement>);

impl LabelSelector {
    /// Whether it has no requirements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its requirements sorted by key, which must all be met.
    pub fn requirements(&self) -> &[Requirement] {
        &self.0
    }

    /// Its requirements for a SubjectAccessReview, without those that it cannot express (`>` and `<`).
    pub fn for_review(&self) -> Vec<ReviewRequirement> {
        self.0.iter().filter_map(Requirement::for_review).collect()
    }

    /// Whether an object matches, whose labels are looked up by key.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|term| term.matches(label(&term.key)))
    }

    /// Whether an object's labels match.
    pub fn matches_object(&self, object: &Object) -> bool {
        self.matches(|key| object.get(&["metadata", "labels", key]).and_then(Value::as_str))
    }
}

impl FromStr for LabelSelector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let mut requirements = Parser { tokens: tokens(text), position: 0 }.selector()?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self(requirements))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let (key, values) = (&term.key, term.values.join(","));
            match term.operator {
                Operator::Equals => write!(f, "{comma}{key}={values}"),
                Operator::DoubleEquals => write!(f, "{comma}{key}=={values}"),
                Operator::NotEquals => write!(f, "{comma}{key}!={values}"),
                Operator::In => write!(f, "{comma}{key} in ({values})"),
                Operator::NotIn => write!(f, "{comma}{key} notin ({values})"),
                Operator::Exists => write!(f, "{comma}{key}"),
                Operator::DoesNotExist => write!(f, "{comma}!{key}"),
                Operator::GreaterThan => write!(f, "{comma}{key}>{values}"),
                Operator::LessThan => write!(f, "{comma}{key}<{values}"),
            }?;
        }
        Ok(())
    }
}

/// A token and its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    End,
    Comma,
    Open,
    Close,
    Not,
    Binary(Operator),
    /// A key or a value. `in` and `notin` are identifiers where a key or value is expected.
    Identifier(&'a str),
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::End => "",
            Self::Comma => ",",
            Self::Open => "(",
            Self::Close => ")",
            Self::Not => "!",
            Self::Binary(Operator::In) => "in",
            Self::Binary(Operator::NotIn) => "notin",
            Self::Binary(Operator::DoubleEquals) => "==",
            Self::Binary(Operator::NotEquals) => "!=",
            Self::Binary(Operator::GreaterThan) => ">",
            Self::Binary(Operator::LessThan) => "<",
            Self::Binary(_) => "=",
            Self::Identifier(text) => text,
        })
    }
}

const SYMBOLS: [(&str, Token<'static>); 9] = [
    ("==", Token::Binary(Operator::DoubleEquals)),
    ("!=", Token::Binary(Operator::NotEquals)),
    ("=", Token::Binary(Operator::Equals)),
    ("!", Token::Not),
    (">", Token::Binary(Operator::GreaterThan)),
    ("<", Token::Binary(Operator::LessThan)),
    ("(", Token::Open),
    (")", Token::Close),
    (",", Token::Comma),
];

fn is_symbol(character: char) -> bool {
    matches!(character, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        // A zero byte ends the text, as in upstream.
        if rest.is_empty() || rest.starts_with('\0') {
            return found;
        }
        if let Some((symbol, token)) = SYMBOLS.iter().find(|(symbol, _)| rest.starts_with(symbol)) {
            found.push(*token);
            rest = rest.strip_prefix(symbol).unwrap_or_default();
            continue;
        }
        let ends = |c: char| is_symbol(c) || matches!(c, ' ' | '\t' | '\r' | '\n' | '\0');
        let (word, tail) = rest.split_at_checked(rest.find(ends).unwrap_or(rest.len())).unwrap_or((rest, ""));
        found.push(match word {
            "in" => Token::Binary(Operator::In),
            "notin" => Token::Binary(Operator::NotIn),
            _ => Token::Identifier(word),
        });
        rest = tail;
    }
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    position: usize,
}

fn unexpected<T>(found: Token<'_>, expected: &str) -> Result<T, SelectorError> {
    Err(SelectorError(format!("found '{found}', expected: {expected}")))
}

impl<'a> Parser<'a> {
    /// The next token where a key or value is expected.
    fn peek(&self) -> Token<'a> {
        match self.tokens.get(self.position).copied().unwrap_or(Token::End) {
            Token::Binary(Operator::In) => Token::Identifier("in"),
            Token::Binary(Operator::NotIn) => Token::Identifier("notin"),
            other => other,
        }
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.position = self.position.saturating_add(1);
        token
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, SelectorError> {
        let mut requirements = Vec::new();
        if self.peek() == Token::End {
            return Ok(requirements);
        }
        loop {
            match self.peek() {
                Token::Identifier(_) | Token::Not => {}
                other if requirements.is_empty() => {
                    return unexpected(other, "!, identifier, or 'end of string'");
                }
                other => return unexpected(other, "identifier after ','"),
            }
            if requirements.len() == REQUIREMENTS_MAX {
                return Err(SelectorError::too_many("requirements", REQUIREMENTS_MAX));
            }
            let requirement = self.requirement();
            requirements.push(
                requirement
                    .map_err(|error| SelectorError(format!("unable to parse requirement: {error}")))?,
            );
            match self.take() {
                Token::End => return Ok(requirements),
                Token::Comma => {}
                other => return unexpected(other, "',' or 'end of string'"),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let mut token = self.take();
        let is_negated = token == Token::Not;
        if is_negated {
            token = self.take();
        }
        let Token::Identifier(key) = token else { return unexpected(token, "identifier") };
        let wrong = name::qualified_name(key);
        if !wrong.is_empty() {
            let error = FieldError::invalid(&Path::new("<nil>"), &Value::from(key), &wrong.join("; "));
            return Err(SelectorError(error.to_string()));
        }
        let is_key_only = matches!(self.peek(), Token::End | Token::Comma);
        let (operator, values) = match (is_negated, is_key_only) {
            (true, _) => (Operator::DoesNotExist, BTreeSet::new()),
            (false, true) => (Operator::Exists, BTreeSet::new()),
            (false, false) => self.operator_and_values()?,
        };
        let values: Vec<String> = values.into_iter().map(str::to_owned).collect();
        check_values(key, operator, &values)?;
        Ok(Requirement { key: key.to_owned(), operator, values })
    }

    fn operator_and_values(&mut self) -> Result<(Operator, BTreeSet<&'a str>), SelectorError> {
        let token = self.tokens.get(self.position).copied().unwrap_or(Token::End);
        self.take();
        let Token::Binary(operator) = token else { return unexpected(token, BINARY_OPERATORS) };
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => BTreeSet::from([self.value()?]),
        };
        Ok((operator, values))
    }

    fn value(&mut self) -> Result<&'a str, SelectorError> {
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Ok("");
        }
        match self.take() {
            Token::Identifier(text) => Ok(text),
            other => unexpected(other, "identifier"),
        }
    }

    fn values(&mut self) -> Result<BTreeSet<&'a str>, SelectorError> {
        let open = self.take();
        if open != Token::Open {
            return Err(SelectorError(format!("found '{open}' expected: '('")));
        }
        let mut values = BTreeSet::new();
        match self.peek() {
            Token::Identifier(_) | Token::Comma => {}
            Token::Close => {
                self.take();
                values.insert("");
                return Ok(values);
            }
            other => return unexpected(other, "',', ')' or identifier"),
        }
        loop {
            if values.len() > VALUES_MAX {
                return Err(SelectorError::too_many("values", VALUES_MAX));
            }
            match self.take() {
                Token::Identifier(text) => {
                    values.insert(text);
                    match self.peek() {
                        Token::Comma | Token::Close => {}
                        other => return unexpected(other, "',' or ')'"),
                    }
                }
                Token::Comma => {
                    // Where there is nothing before, between or after commas, the value is empty.
                    if values.is_empty() || matches!(self.peek(), Token::Comma | Token::Close) {
                        values.insert("");
                    }
                }
                Token::Close => return Ok(values),
                other => return unexpected(other, "',', or identifier"),
            }
        }
    }
}

fn check_values(key: &str, operator: Operator, values: &[String]) -> Result<(), SelectorError> {
    let path = Path::new("values");
    let mut errors = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let compared = matches!(operator, Operator::GreaterThan | Operator::LessThan);
        if compared && value.parse::<i64>().is_err() {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            errors.push(FieldError::invalid(&path.index(index), &Value::from(value.as_str()), detail));
        }
    }
    for (index, value) in values.iter().enumerate() {
        let wrong = name::label_value(value);
        if !wrong.is_empty() {
            let at = path.index(index).key(key);
            errors.push(FieldError::invalid(&at, &Value::from(value.as_str()), &wrong.join("; ")));
        }
    }
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [] => Ok(()),
        [one] => Err(SelectorError(one.clone())),
        many => Err(SelectorError(format!("[{}]", many.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn parse(text: &str) -> LabelSelector {
        text.parse().unwrap()
    }

    #[test]
    fn selectors_print_in_canonical_form() {
        for (text, want) in [
            ("", ""),
            ("  ", ""),
            ("a", "a"),
            ("!a", "!a"),
            ("! a", "!a"),
            ("b=1, a==2", "a==2,b=1"),
            ("a!=b", "a!=b"),
            ("a=", "a="),
            ("a=,b", "a=,b"),
            ("a in (c,b,c)", "a in (b,c)"),
            ("a notin(b)", "a notin (b)"),
            ("a in ()", "a in ()"),
            ("a in (,)", "a in ()"),
            ("a in (,b)", "a in (,b)"),
            ("a in (b,)", "a in (,b)"),
            ("a in (b,,c)", "a in (,b,c)"),
            ("in in (in,notin)", "in in (in,notin)"),
            ("x.io/a>1,b<2", "b<2,x.io/a>1"),
        ] {
            assert_eq!(parse(text).to_string(), want, "{text:?}");
        }
    }

    #[test]
    fn what_cannot_be_understood_is_said() {
        for (text, want) in [
            ("=", "found '=', expected: !, identifier, or 'end of string'"),
            (",a", "found ',', expected: !, identifier, or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            ("a,=", "found '=', expected: identifier after ','"),
            ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
            ("a=b c", "found 'c', expected: ',' or 'end of string'"),
            ("!=a", "found '!=', expected: !, identifier, or 'end of string'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("a in b", "unable to parse requirement: found 'b' expected: '('"),
            ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
            ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
            ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
            ("a=(", "unable to parse requirement: found '(', expected: identifier"),
            (
                "a>b",
                "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must \
                 be an integer",
            ),
        ] {
            assert_eq!(text.parse::<LabelSelector>().unwrap_err().to_string(), want, "{text:?}");
        }
        let key = "-a=b".parse::<LabelSelector>().unwrap_err().to_string();
        assert!(
            key.starts_with("unable to parse requirement: <nil>: Invalid value: \"-a\": name part must"),
            "{key}"
        );
        let value = "a=-b".parse::<LabelSelector>().unwrap_err().to_string();
        assert!(
            value.starts_with("unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid"),
            "{value}"
        );
    }

    #[test]
    fn selectors_have_only_so_many_terms_and_values() {
        let values = |count: usize| {
            let values: Vec<String> = (0..count).map(|n| format!("v{n}")).collect();
            format!("a in ({})", values.join(","))
        };
        let selector = parse(&values(VALUES_MAX));
        for value in (0..VALUES_MAX).map(|n| format!("v{n}")) {
            assert!(selector.matches(|_| Some(&value)), "{value}");
        }
        assert!(!selector.matches(|_| Some("v")));
        for count in [VALUES_MAX + 1, 10_000] {
            assert_eq!(
                values(count).parse::<LabelSelector>().unwrap_err().to_string(),
                "unable to parse requirement: too many values: must have at most 256"
            );
        }
        let terms = |count: usize| vec!["a"; count].join(",").parse::<LabelSelector>();
        assert_eq!(terms(REQUIREMENTS_MAX).unwrap().requirements().len(), REQUIREMENTS_MAX);
        let refused = terms(REQUIREMENTS_MAX + 1).unwrap_err().to_string();
        assert_eq!(refused, "too many requirements: must have at most 100");
    }

    #[test]
    fn terms_ask_what_they_say() {
        let labels = BTreeMap::from([("a", "b"), ("n", "5"), ("e", "")]);
        let matches = |text: &str| parse(text).matches(|key| labels.get(key).copied());
        for yes in [
            "",
            "a",
            "!x",
            "a=b",
            "a==b",
            "a!=c",
            "x!=c",
            "a in (b,c)",
            "x notin (b)",
            "n>4",
            "n<6",
            "e=",
            "a,n",
        ] {
            assert!(matches(yes), "{yes}");
        }
        for no in ["x", "!a", "a=c", "x=", "a!=b", "a in (c)", "a notin (b,c)", "n>5", "a>1", "x>1", "a,x"] {
            assert!(!matches(no), "{no}");
        }
    }

    #[test]
    fn a_review_gets_the_terms_it_knows() {
        let review = parse("a=b,c,!d,e!=f,g>1").for_review();
        let shown: Vec<_> =
            review.iter().map(|term| (term.key.as_str(), term.operator, term.values.concat())).collect();
        let want = [("a", "In", "b"), ("c", "Exists", ""), ("d", "DoesNotExist", ""), ("e", "NotIn", "f")];
        assert_eq!(shown, want.map(|(key, operator, values)| (key, operator, values.to_owned())));
    }

    proptest! {
        #[test]
        fn printing_and_reading_gives_the_same_selector(text in "([a-c!=<>(), ]|in|notin){0,16}|\\PC*") {
            if let Ok(selector) = text.parse::<LabelSelector>() {
                prop_assert_eq!(parse(&selector.to_string()), selector);
            }
        }
    }
}
