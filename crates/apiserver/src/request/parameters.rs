//! Query parameters as Go's `ParameterCodec` reads them: the first value wins, and unknown names are ignored.

use super::query::pairs;
use meta::status::Status;

/// The decoded pairs of a URL's query.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes the text after `?`, as the authorizer's parser does.
    pub(crate) fn parse(text: Option<&str>) -> Self {
        let pairs = pairs(text.unwrap_or_default());
        Self(pairs.map(|(key, value)| (key.into_owned(), value.into_owned())).collect())
    }

    /// The first value; `None` if the parameter is absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The first value; empty if the parameter is absent.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// All values.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A boolean: `0` and `false` are false, anything else is true, also an empty text. `None` if absent.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// An integer. The error has the message of Go.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, Status> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let wrong = |why| Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"));
        match text.parse::<i64>() {
            Ok(value) => Ok(Some(value)),
            Err(error) => match error.kind() {
                std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => {
                    Err(wrong("value out of range"))
                }
                _ => Err(wrong("invalid syntax")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_and_the_first_one_wins() {
        let query = Query::parse(Some("a=1&a=2&b=x%3Dy+z&c&d=%zz&e;f=1&%61b=q"));
        assert_eq!(query.get("a"), Some("1"));
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(query.get("b"), Some("x=y z"));
        assert_eq!(query.get("c"), Some(""));
        assert_eq!(query.get("d"), None);
        assert_eq!(query.get("f"), None);
        assert_eq!(query.get("ab"), Some("q"));
    }

    #[test]
    fn only_zero_and_false_are_false() {
        let query = Query::parse(Some("a=0&b=FALSE&c=&d=no&e=1"));
        assert_eq!(
            ["a", "b", "c", "d", "e", "f"].map(|name| query.flag(name)),
            [Some(false), Some(false), Some(true), Some(true), Some(true), None]
        );
    }

    #[test]
    fn a_bad_integer_is_told_in_gos_words() {
        let query = Query::parse(Some("a=x&b=99999999999999999999&c=-5"));
        assert_eq!(
            query.integer("a").unwrap_err().message,
            "strconv.ParseInt: parsing \"x\": invalid syntax"
        );
        assert!(query.integer("b").unwrap_err().message.ends_with("value out of range"));
        assert_eq!(query.integer("c").unwrap(), Some(-5));
        assert_eq!(query.integer("d").unwrap(), None);
    }
}
