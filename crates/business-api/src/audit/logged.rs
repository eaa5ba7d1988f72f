//! What the log was told of differences.

use std::collections::BTreeSet;
use store::audit::Difference;

/// Differences that are logged at a time; of more, only the number is.
const NAMED_MAX: usize = 20;

/// The differences that were found last, in words.
#[derive(Debug, Default)]
pub(super) struct Logged(BTreeSet<String>);

impl Logged {
    /// Logs those that were not found the last time.
    pub(super) fn tell(&mut self, found: &[Difference]) {
        let news = self.take(found.iter().map(ToString::to_string).collect());
        for difference in news.iter().take(NAMED_MAX) {
            tracing::error!(difference, "the audit has found a difference");
        }
        let more = news.len().saturating_sub(NAMED_MAX);
        if more > 0 {
            tracing::error!(more, "the audit has found more differences");
        }
    }

    /// What is new; it is known from now on, and what is not found any more is forgotten.
    fn take(&mut self, found: BTreeSet<String>) -> Vec<String> {
        let news = found.difference(&self.0).cloned().collect();
        self.0 = found;
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_news_once_until_it_is_gone() {
        let mut logged = Logged::default();
        let mut take = |found: &[&str]| logged.take(found.iter().map(|&text| text.to_owned()).collect());
        assert_eq!(take(&["a", "b"]), ["a", "b"]);
        assert!(take(&["a", "b"]).is_empty());
        assert_eq!(take(&["b", "c"]), ["c"]);
        assert_eq!(take(&["a", "b"]), ["a"]);
    }
}
