use std::borrow::Cow;
use std::time::Duration;

/// The pairs of a query string, decoded, in order. As in Go, pairs with a bad escape or a `;` are dropped.
pub fn pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')).filter_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((percent_decode(key, true)?, percent_decode(value, true)?))
    })
}

/// The first value of a key.
pub fn first<'q>(query: &'q str, key: &str) -> Option<Cow<'q, str>> {
    pairs(query).find(|(k, _)| k == key).map(|(_, value)| value)
}

/// A boolean as Go's parameter codec reads it: absent, `0` and `false` are false, anything else is true.
pub fn flag(query: &str, key: &str) -> bool {
    first(query, key).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
}

/// Decodes `%XX` once, and `+` in a form. `None` for a bad escape or text that is not UTF-8.
pub fn percent_decode(text: &str, form: bool) -> Option<Cow<'_, str>> {
    if !text.bytes().any(|byte| byte == b'%' || (form && byte == b'+')) {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => hex(bytes.next()?)? << 4 | hex(bytes.next()?)?,
            b'+' if form => b' ',
            plain => plain,
        });
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// A duration as Go prints and parses it: `34s`, `1m30s`, `1.5h`, `250ms`, `0`. Negative ones are refused.
pub fn go_duration(text: &str) -> Option<Duration> {
    let text = text.strip_prefix('+').unwrap_or(text);
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at_checked(digits)?;
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(unit_end)?;
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        let number: f64 = number.parse().ok()?;
        total = total.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded_and_malformed_ones_dropped() {
        let found: Vec<_> = pairs("a=1&b=x%20y+z&c&=v&bad=%zz&semi;colon=1&a=2").collect();
        let want = [("a", "1"), ("b", "x y z"), ("c", ""), ("", "v"), ("a", "2")];
        assert_eq!(found, want.map(|(k, v)| (Cow::Borrowed(k), Cow::Borrowed(v))));
    }

    #[test]
    fn flags_follow_gos_codec() {
        for (query, want) in [
            ("", false),
            ("watch=0", false),
            ("watch=FALSE", false),
            ("watch", true),
            ("watch=", true),
            ("watch=no", true),
            ("watch=false&watch=true", false),
        ] {
            assert_eq!(flag(query, "watch"), want, "{query}");
        }
    }

    #[test]
    fn durations_are_gos() {
        for (text, want) in [
            ("34s", Some(34_000)),
            ("1m30s", Some(90_000)),
            ("1.5h", Some(5_400_000)),
            ("250ms", Some(250)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("", None),
            ("10", None),
            ("-1s", None),
            ("s", None),
            ("1x", None),
            ("999999999999999999999h", None),
        ] {
            assert_eq!(go_duration(text), want.map(Duration::from_millis), "{text}");
        }
    }

    fn digit(value: u8) -> char {
        char::from_digit(value.into(), 16).unwrap()
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC{0,40}", form: bool) {
            drop((percent_decode(&text, form), go_duration(&text), first(&text, "a"), flag(&text, "")));
        }

        #[test]
        fn what_was_encoded_is_decoded_once(text in "\\PC{0,20}") {
            let encoded: String = text.bytes().flat_map(|byte| ['%', digit(byte / 16), digit(byte % 16)]).collect();
            proptest::prop_assert_eq!(percent_decode(&encoded, true), Some(Cow::Borrowed(text.as_str())));
        }
    }
}
