//! Findings by kind.

use std::collections::BTreeMap;

/// Examples that are told of each kind.
const EXAMPLES: usize = 5;

/// A violated invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Finding {
    /// A write has taken what was not there, or a limit was put below what counts against it.
    OverCommit,
    /// A write has grown where nothing may grow.
    ForbiddenGrowth,
    /// The ledger differs from the sums of objects and holds.
    Difference,
    /// A write that was acknowledged is not there.
    Lost,
    /// A write that was refused is there.
    Applied,
    /// A write of all or nothing was done in part.
    Torn,
    /// The events of a watch differ from the history.
    Watch,
    /// History contradicts itself.
    History,
    /// A caller got an answer that does not say what to do.
    Answer,
}

impl Finding {
    /// All of them.
    const ALL: [Self; 9] = [
        Self::OverCommit,
        Self::ForbiddenGrowth,
        Self::Difference,
        Self::Lost,
        Self::Applied,
        Self::Torn,
        Self::Watch,
        Self::History,
        Self::Answer,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::OverCommit => "over-commits",
            Self::ForbiddenGrowth => "growth where nothing may grow",
            Self::Difference => "differences between ledger and objects",
            Self::Lost => "acknowledged writes lost",
            Self::Applied => "refused writes applied",
            Self::Torn => "lists made in part",
            Self::Watch => "events missed, doubled or out of order",
            Self::History => "contradictions in history",
            Self::Answer => "answers that nobody can act on",
        }
    }
}

#[derive(Debug, Default)]
struct FindingCount {
    count: u64,
    examples: Vec<String>,
}

/// Everything that was found.
#[derive(Debug, Default)]
pub(crate) struct Findings(BTreeMap<Finding, FindingCount>);

impl Findings {
    /// Adds one; what it was is only asked for when it is told.
    pub(crate) fn add(&mut self, finding: Finding, what: impl FnOnce() -> String) {
        let found = self.0.entry(finding).or_default();
        found.count += 1;
        if found.examples.len() < EXAMPLES {
            found.examples.push(what());
        }
    }

    /// Adds all that another has.
    pub(crate) fn take(&mut self, other: Self) {
        for (finding, FindingCount { count, examples }) in other.0 {
            let found = self.0.entry(finding).or_default();
            found.count += count;
            let room = EXAMPLES.saturating_sub(found.examples.len());
            found.examples.extend(examples.into_iter().take(room));
        }
    }

    /// Whether something of this kind was found.
    pub(crate) fn has(&self, finding: Finding) -> bool {
        self.0.contains_key(&finding)
    }

    /// Whether nothing was found.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// For a person: every kind, how often, and examples.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for finding in Finding::ALL {
            let found = self.0.get(&finding);
            lines.push(format!("{}: {}", finding.words(), found.map_or(0, |found| found.count)));
            lines.extend(
                found.iter().flat_map(|found| &found.examples).map(|example| format!("    {example}")),
            );
        }
        lines
    }
}
