//! The report, for people and for programs.

use super::tenures::MemberWrite;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Examples that are told of each kind.
const EXAMPLES: usize = 10;

/// Something that must never be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Violation {
    /// A cluster had two writers at once.
    Writers,
    /// A share stayed without a writer for too long.
    Orphaned,
    /// What is in the clusters is not what should be.
    Sum,
    /// The ledger is not what the objects add up to.
    Ledger,
}

impl Violation {
    const ALL: [Self; 4] = [Self::Writers, Self::Orphaned, Self::Sum, Self::Ledger];

    fn words(self) -> &'static str {
        match self {
            Self::Writers => "clusters with two writers at once",
            Self::Orphaned => "clusters and shares without a writer for too long",
            Self::Sum => "namespaces that are not in their cluster as they should be",
            Self::Ledger => "differences between ledger and objects",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Writers => "writers",
            Self::Orphaned => "orphaned",
            Self::Sum => "sums",
            Self::Ledger => "ledger",
        }
    }
}

/// By how much the goal may be missed before that is wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For each cluster: all of a share are listed before the last one is written to, and of the writes to simulated ones some are
    /// made late or never answered, which takes a deadline and another try.
    pub(crate) clusters: Duration,
    /// For a share, which is what the goal is meant for.
    pub(crate) shares: Duration,
}

/// One fault, from its beginning until it was over.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) fault: &'static str,
    pub(crate) controller: String,
    /// Clusters that came to another writer, and the time without one.
    pub(crate) moved: BTreeMap<String, Duration>,
    /// The same for shares: until the next write to any cluster of it.
    pub(crate) shares: BTreeMap<String, Duration>,
    /// The most that is meant to pass for a share.
    pub(crate) goal: Option<Duration>,
    pub(crate) counts: Counts,
}

/// Writes to members.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) made: usize,
    /// 409: somebody else, or an earlier write of the same, was faster.
    pub(crate) conflicts: usize,
    /// 504 and no answer.
    pub(crate) unanswered: usize,
}

impl Counts {
    pub(crate) fn of<'a>(writes: impl Iterator<Item = &'a MemberWrite>) -> Self {
        writes.fold(Self::default(), |mut counts, write| {
            counts.made += usize::from(write.made);
            counts.conflicts += usize::from(write.code == 409);
            counts.unanswered += usize::from(write.code == 504);
            counts
        })
    }
}

impl std::ops::Sub for Counts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            made: self.made - before.made,
            conflicts: self.conflicts - before.conflicts,
            unanswered: self.unanswered - before.unanswered,
        }
    }
}

impl Row {
    fn median(&self) -> Option<Duration> {
        let mut all: Vec<Duration> = self.moved.values().copied().collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied()
    }

    /// What was without a writer for too long.
    pub(crate) fn late(&self, patience: Patience) -> Vec<String> {
        let Some(goal) = self.goal else { return Vec::new() };
        let line =
            |name: &str, gap: Duration| format!("{name}: {:.2} s after {}", gap.as_secs_f64(), self.fault);
        let mut late = Vec::new();
        if let Some((cluster, gap)) = self.longest().filter(|(_, gap)| *gap > goal + patience.clusters) {
            late.push(line(cluster, gap));
        }
        let shares = self.shares.iter().filter(|(_, gap)| **gap > goal + patience.shares);
        late.extend(shares.map(|(share, gap)| line(share, *gap)));
        late
    }

    fn longest(&self) -> Option<(&String, Duration)> {
        self.moved.iter().map(|(cluster, gap)| (cluster, *gap)).max_by_key(|(_, gap)| *gap)
    }

    fn longest_of_shares(&self) -> Option<Duration> {
        self.shares.values().copied().max()
    }

    fn line(&self) -> String {
        let seconds = |gap: Option<Duration>| gap.map_or("–".to_owned(), text);
        let goal = self.goal.map_or("–".to_owned(), |goal| {
            let met = self.longest_of_shares().is_none_or(|gap| gap <= goal);
            format!("{}{}", text(goal), if met { "" } else { ", missed" })
        });
        let Counts { made, conflicts, unanswered } = self.counts;
        format!(
            "| {} | {} | {} | {} | {} | {} | {goal} | {made} | {conflicts} | {unanswered} |",
            self.fault,
            self.controller,
            self.moved.len(),
            seconds(self.median()),
            seconds(self.longest().map(|(_, gap)| gap)),
            seconds(self.longest_of_shares()),
        )
    }

    fn json(&self) -> Value {
        let seconds = |gap: Option<Duration>| gap.map(|gap| gap.as_secs_f64());
        let Counts { made, conflicts, unanswered } = self.counts;
        json!({
            "fault": self.fault, "controller": self.controller, "movedClusters": self.moved.len(),
            "medianSeconds": seconds(self.median()), "longestSeconds": seconds(self.longest().map(|(_, gap)| gap)),
            "longestOfSharesSeconds": seconds(self.longest_of_shares()), "goalSeconds": seconds(self.goal), "writes": made, "conflicts": conflicts, "unanswered": unanswered,
        })
    }
}

fn text(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) clusters: usize,
    pub(crate) simulated: usize,
    pub(crate) controllers: usize,
    /// Namespaces that all became Available, and how long that took.
    pub(crate) converged: (usize, Duration),
    pub(crate) rows: Vec<Row>,
    /// From the last change until everything was as it should be.
    pub(crate) settled: Duration,
    /// In the end.
    pub(crate) namespaces: usize,
    pub(crate) tenures: usize,
    pub(crate) counts: Counts,
    pub(crate) changes: usize,
    pub(crate) changes_refused: usize,
    pub(crate) wrong: BTreeMap<Violation, Vec<String>>,
}

impl Report {
    pub(crate) fn add(&mut self, wrong: Violation, what: impl IntoIterator<Item = String>) {
        self.wrong.entry(wrong).or_default().extend(what);
    }

    pub(crate) fn is_good(&self) -> bool {
        self.wrong.values().all(Vec::is_empty)
    }

    /// For a person, as Markdown.
    pub(crate) fn lines(&self) -> Vec<String> {
        let Self { clusters, simulated, controllers, converged: (count, time), .. } = self;
        let mut lines = vec![
            format!(
                "{clusters} clusters, of which {simulated} are simulated; {controllers} controllers; {count} namespaces \
                 Available after {}",
                text(*time)
            ),
            "| what happens | to | clusters that moved | without a writer, median | longest | a share, longest | goal | \
             member writes | conflicts | unanswered |"
                .to_owned(),
            "|---|---|---|---|---|---|---|---|---|---|".to_owned(),
        ];
        lines.extend(self.rows.iter().map(Row::line));
        let Counts { made, conflicts, unanswered } = self.counts;
        lines.push(format!(
            "changes {}, refused {}; member writes {made}, conflicts {conflicts}, unanswered {unanswered}; tenures {}",
            self.changes, self.changes_refused, self.tenures
        ));
        lines.push(format!(
            "{} namespaces, all as they should be {} after the last change",
            self.namespaces,
            text(self.settled)
        ));
        for kind in Violation::ALL {
            let found = self.wrong.get(&kind).map(Vec::as_slice).unwrap_or_default();
            lines.push(format!("{}: {}", kind.words(), found.len()));
            lines.extend(found.iter().take(EXAMPLES).map(|example| format!("    {example}")));
        }
        lines
    }

    /// For a program.
    pub(crate) fn json(&self) -> Value {
        let Counts { made, conflicts, unanswered } = self.counts;
        let wrong: BTreeMap<&str, &[String]> = Violation::ALL
            .into_iter()
            .map(|kind| (kind.key(), self.wrong.get(&kind).map(Vec::as_slice).unwrap_or_default()))
            .collect();
        json!({
            "type": "fleet", "ok": self.is_good(), "clusters": self.clusters, "simulated": self.simulated,
            "controllers": self.controllers, "namespaces": self.converged.0,
            "availableSeconds": self.converged.1.as_secs_f64(),
            "faults": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
            "changes": self.changes, "changesRefused": self.changes_refused, "writes": made,
            "conflicts": conflicts, "unanswered": unanswered, "tenures": self.tenures,
            "namespacesInTheEnd": self.namespaces, "settledSeconds": self.settled.as_secs_f64(), "wrong": wrong,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(share: u64, cluster: u64, goal: Option<u64>) -> Row {
        let times = |name: &str, millis| BTreeMap::from([(name.to_owned(), Duration::from_millis(millis))]);
        Row {
            fault: "kill -9",
            controller: "business-controller".to_owned(),
            moved: times("member-1", cluster),
            shares: times("business-controller-00", share),
            goal: goal.map(Duration::from_millis),
            counts: Counts::default(),
        }
    }

    #[test]
    fn a_share_keeps_to_the_goal_and_a_cluster_of_it_may_be_a_little_later() {
        let strict = Patience { clusters: Duration::from_secs(5), shares: Duration::from_millis(50) };
        assert_eq!(row(17_040, 21_900, Some(17_000)).late(strict), Vec::<String>::new());
        assert_eq!(
            row(17_060, 17_060, Some(17_000)).late(strict),
            ["business-controller-00: 17.06 s after kill -9"]
        );
        assert_eq!(row(16_000, 22_100, Some(17_000)).late(strict), ["member-1: 22.10 s after kill -9"]);
        let busy = Patience { shares: Duration::from_secs(5), ..strict };
        assert_eq!(row(21_900, 21_900, Some(17_000)).late(busy), Vec::<String>::new());
        assert_eq!(row(60_000, 60_000, None).late(strict), Vec::<String>::new());
    }
}
