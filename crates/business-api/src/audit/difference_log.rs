//! Logs each difference once, until it is gone.

use std::collections::BTreeSet;
use store::audit::Difference;

/// The most differences that are logged at a time; of more, only the number is.
const NAMED_MAX: usize = 20;

/// The texts of the differences that the last audit has found.
#[derive(Debug, Default)]
pub(super) struct DifferenceLog(BTreeSet<String>);

impl DifferenceLog {
    /// Logs the differences that the last audit has not found.
    pub(super) fn log_new(&mut self, found: &[Difference]) {
        let news = self.replace(found.iter().map(ToString::to_string).collect());
        for difference in news.iter().take(NAMED_MAX) {
            tracing::error!(difference, "the audit has found a difference");
        }
        let more = news.len().saturating_sub(NAMED_MAX);
        if more > 0 {
            tracing::error!(more, "the audit has found more differences");
        }
    }

    /// Remembers these differences instead of the last ones, and returns the new ones.
    fn replace(&mut self, found: BTreeSet<String>) -> Vec<String> {
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
        let mut log = DifferenceLog::default();
        let mut replace = |found: &[&str]| log.replace(found.iter().map(|&text| text.to_owned()).collect());
        assert_eq!(replace(&["a", "b"]), ["a", "b"]);
        assert!(replace(&["a", "b"]).is_empty());
        assert_eq!(replace(&["b", "c"]), ["c"]);
        assert_eq!(replace(&["a", "b"]), ["a"]);
    }
}
