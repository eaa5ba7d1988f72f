/// Translates a Go regular expression for the engine used here. Syntax that the two interpret differently is refused,
/// and character classes become ASCII classes, as they are in Go.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len());
    let mut characters = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('d') => out.push_str("[0-9]"),
                Some('w') => out.push_str("[0-9A-Za-z_]"),
                Some('s') => out.push_str("[\\t\\n\\x0c\\r ]"),
                Some(escaped) if escaped.is_ascii_punctuation() || "nrt".contains(escaped) => {
                    out.extend(['\\', escaped]);
                }
                other => {
                    return Err(unsupported(&format!("\\{}", other.map(String::from).unwrap_or_default())));
                }
            },
            '[' if in_class => return Err(unsupported("[ within [ ]")),
            '[' => {
                in_class = true;
                out.push('[');
                if characters.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                if characters.peek() == Some(&']') {
                    return Err(unsupported("[]"));
                }
            }
            ']' => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => out.extend(['\\', character]),
            '-' if in_class && characters.peek() == Some(&'-') => return Err(unsupported("-- within [ ]")),
            '(' if !in_class && characters.next_if_eq(&'?').is_some() => {
                if characters.next() != Some(':') {
                    return Err(unsupported("(? other than (?:"));
                }
                out.push_str("(?:");
            }
            // In Go the brace is a literal unless a number follows.
            '{' if !in_class && !characters.peek().is_some_and(char::is_ascii_digit) => out.push_str("\\{"),
            other => out.push(other),
        }
    }
    match regex::Regex::new(&out) {
        Ok(_) => Ok(out),
        Err(error) => Err(format!("{pattern:?} is no regular expression: {error}")),
    }
}

fn unsupported(what: &str) -> String {
    format!("{what} is not supported here in a regular expression")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_engines_read_differently_is_translated_or_refused() {
        for (pattern, text, want) in [
            (r"^\d+$", "12", true),
            // For Go, digits of other scripts are no digits.
            (r"^\d+$", "١٢", false),
            (r"^[\w.-]+@corp\.io$", "a.b-c@corp.io", true),
            (r"^[\w]+$", "é", false),
            ("^(?:a|b){2}$", "ab", true),
            ("^a{b}$", "a{b}", true),
            ("^[a&&b]+$", "&", true),
            (r"^\s$", "\u{85}", false),
        ] {
            let translated = translate(pattern).unwrap();
            assert_eq!(regex::Regex::new(&translated).unwrap().is_match(text), want, "{pattern} {text}");
        }
        for pattern in [r"\pL", r"\bx", "(?i)x", "[[:alpha:]]", "[a--b]", "(", r"\", "[]a]", r"\D"] {
            assert!(translate(pattern).is_err(), "{pattern}");
        }
    }
}
