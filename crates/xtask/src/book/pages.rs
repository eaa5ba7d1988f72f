use crate::{markdown, tree, workspace};
use anyhow::{Result, ensure};
use std::collections::BTreeSet;
use std::path::Path;

const SUMMARY: &str = "SUMMARY.md";
const ALERTS: &str = "deploy/components/monitoring/alerts.yaml";
/// The headings of each runbook, in this order.
const ANSWERS: [&str; 5] =
    ["## What it means", "## What people notice", "## Look", "## Do", "## It is over when"];

/// Checks that each page is in the summary, and that each alert has a runbook. `tidy` checks links.
pub(super) fn check() -> Result<()> {
    let root = workspace::root();
    let docs = root.join("docs");
    let mut wrong = pages_not_in_summary(&docs)?;
    wrong.extend(runbooks(&docs, &std::fs::read_to_string(root.join(ALERTS))?)?);
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Pages that are not in the summary, or twice.
fn pages_not_in_summary(docs: &Path) -> Result<Vec<String>> {
    let summary = std::fs::read_to_string(docs.join(SUMMARY))?;
    let placed: Vec<&str> = markdown::links(&summary).map(|link| link.path).collect();
    let mut wrong = Vec::new();
    for file in tree::files(docs, &["md"])? {
        let page = file.strip_prefix(docs)?.to_string_lossy().into_owned();
        let times = placed.iter().filter(|path| **path == page).count();
        if page != SUMMARY && times != 1 {
            wrong.push(format!("docs/{page}: stands {times} times in docs/{SUMMARY}"));
        }
    }
    Ok(wrong)
}

/// Alerts without a runbook, runbooks without an alert, and runbooks without all headings.
fn runbooks(docs: &Path, alerts: &str) -> Result<Vec<String>> {
    let dir = docs.join("runbooks");
    let mut wrong = Vec::new();
    let names: BTreeSet<&str> =
        alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    for name in &names {
        let link = format!("runbook: docs/runbooks/{name}.md");
        if !alerts.lines().any(|line| line.trim() == link) {
            wrong.push(format!("{ALERTS}: {name} lacks the annotation `{link}`"));
        }
        let Ok(text) = std::fs::read_to_string(dir.join(format!("{name}.md"))) else {
            wrong.push(format!("{ALERTS}: {name} has no page in docs/runbooks"));
            continue;
        };
        let headings: Vec<&str> = text.lines().filter(|line| line.starts_with("## ")).collect();
        if headings != ANSWERS {
            wrong.push(format!("docs/runbooks/{name}.md: its headings are not {}", ANSWERS.join(", ")));
        }
    }
    for file in tree::files(&dir, &["md"])? {
        let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        if name != "README" && !names.contains(name) {
            wrong.push(format!("docs/runbooks/{name}.md: there is no such alert"));
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_without_a_runbook_and_a_runbook_without_an_alert_are_found() {
        let docs = workspace::root().join("docs");
        let alerts = std::fs::read_to_string(workspace::root().join(ALERTS)).unwrap();
        assert_eq!(runbooks(&docs, &alerts).unwrap(), Vec::<String>::new());
        let renamed = alerts.replace("- alert: BusinessOrphans", "- alert: BusinessLost");
        let wrong = runbooks(&docs, &renamed).unwrap().join("\n");
        assert!(wrong.contains("BusinessLost has no page"), "{wrong}");
        assert!(wrong.contains("docs/runbooks/BusinessOrphans.md: there is no such alert"), "{wrong}");
    }

    #[test]
    fn every_page_has_its_place() {
        assert_eq!(pages_not_in_summary(&workspace::root().join("docs")).unwrap(), Vec::<String>::new());
    }
}
