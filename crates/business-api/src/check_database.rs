//! `business-api check-database`: whether a PostgreSQL, or a server that calls itself compatible, does what this
//! program relies on.

use crate::config::{CheckDatabase, Output};
use anyhow::{Context, Result};
use serde_json::json;
use store::conformance::{self, Check, Verdict};

/// The report, and whether the server is fit.
#[derive(Debug)]
pub struct DatabaseFinding {
    /// For standard output.
    pub text: String,
    /// Whether all checks ran and none is broken.
    pub fit: bool,
}

/// Runs all checks.
pub async fn run(settings: &CheckDatabase) -> Result<DatabaseFinding> {
    let checks = conformance::check(&settings.url).await.context("try the database")?;
    let fit = checks.iter().all(|check| matches!(check.verdict, Verdict::Holds | Verdict::Doubtful));
    let text = match settings.output {
        Output::Text => text(&checks, fit),
        Output::Json => json_text(&checks, fit),
    };
    Ok(DatabaseFinding { text, fit })
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::Doubtful => "doubtful",
        Verdict::Broken => "broken",
        Verdict::Skipped => "skipped",
    }
}

fn text(checks: &[Check], fit: bool) -> String {
    let mut lines = Vec::new();
    for Check { name, carries, verdict, found } in checks {
        lines.push(format!("{:<9} {name}: {found}", word(*verdict)));
        if matches!(verdict, Verdict::Doubtful | Verdict::Broken) {
            lines.push(format!("          rests on it: {carries}"));
        }
    }
    let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count();
    let verdict = match (fit, count(Verdict::Broken)) {
        (true, _) => "will do",
        (false, 0) => "was not tried in full",
        (false, _) => "will not do",
    };
    lines.push(format!(
        "this server {verdict}: {} of {} hold, {} doubtful, {} broken, {} skipped",
        count(Verdict::Holds),
        checks.len(),
        count(Verdict::Doubtful),
        count(Verdict::Broken),
        count(Verdict::Skipped)
    ));
    lines.join("\n")
}

fn json_text(checks: &[Check], fit: bool) -> String {
    let check = |check: &Check| {
        let Check { name, carries, verdict, found } = check;
        json!({"name": name, "carries": carries, "verdict": word(*verdict), "found": found})
    };
    json!({"fit": fit, "checks": checks.iter().map(check).collect::<Vec<_>>()}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_not_tried_is_not_called_unfit() {
        let check = |verdict| Check { name: "a", carries: "b", verdict, found: "c".to_owned() };
        let last = |verdicts: &[Verdict]| {
            let checks: Vec<Check> = verdicts.iter().copied().map(check).collect();
            text(&checks, false).lines().last().unwrap().to_owned()
        };
        let skipped = last(&[Verdict::Holds, Verdict::Skipped]);
        assert!(skipped.starts_with("this server was not tried in full"), "{skipped}");
        let broken = last(&[Verdict::Broken, Verdict::Skipped]);
        assert!(broken.starts_with("this server will not do"), "{broken}");
    }
}
