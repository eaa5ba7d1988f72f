//! `Warning: 299 - "text"` headers with a budget.

use axum::body::Body;
use http::Response;
use http::header::{HeaderValue, WARNING};
use std::collections::BTreeSet;

/// Characters of all warnings together; past it each is cut.
const CHARACTERS_MAX: usize = 4096;
/// Characters of a warning once the budget is used up.
const CUT_CHARACTERS_MAX: usize = 256;

/// Adds one header a warning: each text once, within the budget.
pub(crate) fn add_warnings(response: &mut Response<Body>, warnings: &[String]) {
    if warnings.is_empty() {
        return;
    }
    let mut seen = BTreeSet::new();
    let texts: Vec<String> =
        warnings.iter().map(|text| printable(text)).filter(|text| seen.insert(text.clone())).collect();
    let total: usize = texts.iter().map(|text| text.chars().count()).sum();
    let longest = if total > CHARACTERS_MAX { CUT_CHARACTERS_MAX } else { CHARACTERS_MAX };
    let mut left = CHARACTERS_MAX;
    for text in texts {
        let cut: String = text.chars().take(longest).collect();
        let Some(rest) = left.checked_sub(cut.chars().count()) else { break };
        left = rest;
        let quoted = cut.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(warnings: &[String]) -> Vec<String> {
        let mut response = Response::new(Body::empty());
        add_warnings(&mut response, warnings);
        response.headers().get_all(WARNING).iter().map(|v| v.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn each_text_is_sent_once_and_quoted() {
        let warnings = ["unknown field \"spec.a\"".to_owned(), "a\\b".to_owned(), "a\\b".to_owned()];
        assert_eq!(headers(&warnings), [r#"299 - "unknown field \"spec.a\"""#, r#"299 - "a\\b""#]);
    }

    #[test]
    fn past_the_budget_texts_are_cut_and_then_dropped() {
        let warnings: Vec<String> = (0..40).map(|i| format!("{i:02}{}", "x".repeat(400))).collect();
        let sent = headers(&warnings);
        assert_eq!(sent.len(), CHARACTERS_MAX / CUT_CHARACTERS_MAX);
        assert!(sent.iter().all(|text| text.len() == CUT_CHARACTERS_MAX + 8));
    }
}
