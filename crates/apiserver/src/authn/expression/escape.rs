/// How CEL identifiers escape characters in the names of claims.
const ESCAPES: [(&str, &str); 4] =
    [("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"), ("__slash__", "/")];
/// Reserved words; each is escaped as a whole, as in `__in__`.
const RESERVED: [&str; 18] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
];

/// The name of a claim that an identifier stands for.
pub(super) fn unescape(name: &str) -> String {
    let word = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    if let Some(word) = word.filter(|word| RESERVED.contains(word)) {
        return word.to_owned();
    }
    let mut rest = name;
    let mut out = String::with_capacity(name.len());
    while let Some(next) = rest.chars().next() {
        let escape = ESCAPES.iter().find_map(|(from, to)| Some((rest.strip_prefix(from)?, to)));
        if let Some((after, to)) = escape {
            out.push_str(to);
            rest = after;
        } else {
            out.push(next);
            rest = rest.get(next.len_utf8()..).unwrap_or_default();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_stand_for_the_names_of_claims() {
        for (name, want) in [
            ("sub", "sub"),
            ("https__slash____slash__x__dot__io", "https//x.io"),
            ("a__dash__b", "a-b"),
            ("a__underscores__b", "a__b"),
            ("__namespace__", "namespace"),
            ("_a_", "_a_"),
            ("__other__", "__other__"),
        ] {
            assert_eq!(unescape(name), want, "{name}");
        }
    }
}
