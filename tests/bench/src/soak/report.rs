use super::Settings;
use super::traffic::{Operation, Traffic};
use super::upkeep::ResourceUsage;
use super::watchers::WatchCounters;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// A ratio to the rival that is worse by so much than before is told as worse.
const WORSE: f64 = 1.5;
/// What may be taken more at the end than at the beginning.
const FLAT: f64 = 1.15;
/// Beyond that, by a handful of files or tasks nobody is harmed.
const SLACK: f64 = 16.0;

/// What a run has measured.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Report {
    pub(super) settings: Settings,
    /// By what a request does.
    times: BTreeMap<String, Comparison>,
    /// Answers that were no success, by act and status.
    others: BTreeMap<String, u64>,
    /// The same of the rival.
    rival_others: BTreeMap<String, u64>,
    watches: Watches,
    /// By program and quantity: early and late in the run.
    upkeep: BTreeMap<String, [f64; 2]>,
}

/// The times of our server and of the rival.
#[derive(Debug, Serialize, Deserialize)]
struct Comparison {
    ours: Times,
    rival: Times,
}

impl Comparison {
    /// How long ours takes for each of the rival's milliseconds.
    fn ratio(&self) -> f64 {
        self.ours.p99 / self.rival.p99.max(1e-3)
    }
}

/// Milliseconds.
#[derive(Debug, Serialize, Deserialize)]
struct Times {
    rate: f64,
    p50: f64,
    p99: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Watches {
    opened: u64,
    events: u64,
    expired: u64,
    refused: u64,
}

impl Report {
    pub(super) fn new(
        settings: Settings,
        traffic: &Traffic,
        watching: &WatchCounters,
        upkeep: &ResourceUsage,
    ) -> Self {
        let elapsed = Duration::from_mins(settings.minutes);
        let times = |ours, act| {
            let sample = traffic.sample(ours, act, elapsed);
            let round = |number: f64| (number * 100.0).round() / 100.0;
            let (p50, p99) = (sample.quantile_ms(0.5), sample.quantile_ms(0.99));
            Times { rate: round(sample.rate), p50: round(p50), p99: round(p99) }
        };
        let beside = |act: Operation| Comparison { ours: times(true, act), rival: times(false, act) };
        Self {
            times: Operation::ALL.into_iter().map(|act| (act.name().to_owned(), beside(act))).collect(),
            others: traffic.others(true),
            rival_others: traffic.others(false),
            watches: Watches {
                opened: watching.opened(),
                events: watching.events(),
                expired: watching.expired(),
                refused: watching.refused(),
            },
            upkeep: upkeep
                .drifts()
                .into_iter()
                .map(|(what, drift)| (what, [drift.early.round(), drift.late.round()]))
                .collect(),
            settings,
        }
    }

    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is no result of a run", file.display()))
    }

    pub(super) fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(file, text).with_context(|| format!("write {}", file.display()))
    }

    /// Prints it as Markdown, so that it can be kept.
    #[expect(clippy::print_stdout, reason = "the program's result")]
    pub(super) fn print(&self) {
        println!("| request | ours (p50 / p99) | custom resource | p99, ratio |\n|---|---|---|---|");
        for (act, beside) in &self.times {
            let text = |t: &Times| format!("{:.0}/s ({:.1} / {:.1} ms)", t.rate, t.p50, t.p99);
            println!(
                "| {act} | {} | {} | {:.2} × |",
                text(&beside.ours),
                text(&beside.rival),
                beside.ratio()
            );
        }
        println!("\n| what a program takes | early | late | |\n|---|---|---|---|");
        for (what, [early, late]) in &self.upkeep {
            println!(
                "| {what} | {early:.0} | {late:.0} | {} |",
                if is_flat(*early, *late) { "flat" } else { "**grows**" }
            );
        }
        let Watches { opened, events, expired, refused } = self.watches;
        println!("\nwatches: {opened} opened, {events} events, {expired} too old, {refused} not opened");
        for (whose, others) in [("ours", &self.others), ("the rival's", &self.rival_others)] {
            let told: Vec<String> = others.iter().map(|(what, count)| format!("{count} × {what}")).collect();
            let told = if told.is_empty() { "none".to_owned() } else { told.join(", ") };
            println!("answers that were no success, {whose}: {told}");
        }
    }

    /// What takes more at the end than at the beginning.
    pub(super) fn grown(&self) -> Vec<String> {
        let grown = self.upkeep.iter().filter(|(_, [early, late])| !is_flat(*early, *late));
        grown.map(|(what, [early, late])| format!("{what} grows from {early:.0} to {late:.0}")).collect()
    }

    /// Prints this run beside another one, and gives what is worse.
    #[expect(clippy::print_stdout, reason = "the program's result")]
    pub(super) fn compare(&self, before: &Self) -> Vec<String> {
        let mut worse = Vec::new();
        println!("\n| p99, ratio to the custom resource | before | now | now / before |\n|---|---|---|---|");
        for (act, now) in &self.times {
            let Some(was) = before.times.get(act) else { continue };
            let change = now.ratio() / was.ratio().max(1e-6);
            println!("| {act} | {:.2} × | {:.2} × | {change:.2} |", was.ratio(), now.ratio());
            if change > WORSE {
                worse.push(format!("{act} is worse than before"));
            }
        }
        worse
    }
}

fn is_flat(early: f64, late: f64) -> bool {
    late <= early * FLAT || late - early <= SLACK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_is_told_without_a_run_to_compare_with() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("recorded/soak.json");
        let mut report = Report::read(&file).unwrap();
        assert_eq!(report.grown(), Vec::<String>::new());
        report.upkeep.insert("business-api 1: tasks".to_owned(), [200.0, 217.0]);
        assert_eq!(report.grown(), Vec::<String>::new(), "by a handful");
        report.upkeep.insert("business-api 1: open files".to_owned(), [200.0, 231.0]);
        assert_eq!(report.grown(), ["business-api 1: open files grows from 200 to 231"]);
        assert_eq!(report.compare(&Report::read(&file).unwrap()), Vec::<String>::new());
    }
}
