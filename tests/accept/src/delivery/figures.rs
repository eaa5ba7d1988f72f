//! Tests the alert rules and the dashboard: promtool accepts the rules, each alert fires when it should, and programs
//! export each metric that is queried.

use crate::json::{list, text};
use anyhow::{Context as _, Result, bail, ensure};
use instance::kubectl::Kubectl;
use instance::layout;
use instance::manifests;
use instance::process;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use terminal::say;

/// Prefixes of the metrics that our programs and kube-apiserver export.
const PREFIXES: [&str; 6] =
    ["aggregator_", "apiserver_", "authentication_", "business_", "kubernetes_", "store_"];
/// Metrics that are not exported here. The first needs a tunnel, which the acceptance test has; the second needs a reload
/// of the `AuthenticationConfiguration`, which tests of the crate apiserver do.
const NOT_EXPORTED_HERE: [&str; 2] = [
    "business_controller_tunnel_certificate_expiration_timestamp_seconds",
    "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds",
];
const TESTS: &str = "tests/accept/deploy/alerts_test.yaml";
const TESTED: Duration = Duration::from_mins(5);

/// The alert rules and the dashboard of the component monitoring, with their `PromQL` queries.
#[derive(Debug)]
pub(super) struct PromQueries {
    rules: Value,
    dashboard: Value,
}

impl PromQueries {
    pub(super) fn of(kubectl: &Kubectl) -> Result<Self> {
        let objects = manifests::render(kubectl, "deploy/overlays/prod")?;
        let find = |kind: &str, place: &str| {
            let mut found = objects.iter().filter(|object| text(object, "/kind") == kind);
            found.find_map(|object| object.pointer(place)).cloned()
        };
        let dashboard = find("ConfigMap", "/data/dashboard.json").context("no dashboard")?;
        let dashboard = serde_json::from_str(dashboard.as_str().context("no text")?)?;
        Ok(Self { rules: find("PrometheusRule", "/spec").context("no rules")?, dashboard })
    }

    /// Runs promtool's lint and the unit tests of the rules.
    pub(super) fn check_rules(&self, dir: &Path) -> Result<()> {
        let program = layout::bin().join("promtool");
        if !program.exists() {
            say::skipped("promtool's program is not there: alert rules are not tried");
            return Ok(());
        }
        std::fs::create_dir_all(dir)?;
        std::fs::write(dir.join("rules.yaml"), serde_yaml_ng::to_string(&self.rules)?)?;
        std::fs::copy(layout::workspace().join(TESTS), dir.join("tests.yaml"))?;
        let tested = std::fs::read_to_string(layout::workspace().join(TESTS))?;
        for alert in self.alerts() {
            ensure!(tested.contains(&format!("alertname: {alert}")), "{alert} is not tested");
        }
        for args in [
            &["check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"][..],
            &["test", "rules", "tests.yaml"],
        ] {
            let mut promtool = Command::new(&program);
            let output = process::output_within(promtool.args(args).current_dir(dir), None, TESTED)?;
            let (said, complaint) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            ensure!(output.status.success(), "promtool {}: {said}{complaint}", args.join(" "));
        }
        Ok(())
    }

    fn alerts(&self) -> impl Iterator<Item = &str> {
        rules(&self.rules).map(|rule| text(rule, "/alert"))
    }

    fn expressions(&self) -> Vec<&str> {
        let alerts = rules(&self.rules).map(|rule| text(rule, "/expr"));
        let panels = list(&self.dashboard, "/panels").flat_map(|panel| list(panel, "/targets"));
        alerts.chain(panels.map(|target| text(target, "/expr"))).collect()
    }

    /// Each queried metric is in these texts of `/metrics`.
    pub(super) fn check_metrics(&self, exported: &[String]) -> Result<()> {
        let known: BTreeSet<&str> =
            exported.iter().flat_map(|text| text.lines()).filter_map(metric_of_line).collect();
        for expression in self.expressions() {
            let names = metrics_of_expression(expression);
            ensure!(!names.is_empty() || expression.contains("up{"), "{expression} asks for nothing of ours");
            for metric in names.iter().filter(|metric| !NOT_EXPORTED_HERE.contains(&metric.as_str())) {
                ensure!(known.contains(metric.as_str()), "{metric} is exported by nobody: {expression}");
            }
        }
        Ok(())
    }

    /// Grafana can load the dashboard: each panel has a title, a unique id, a grid position, a data source and queries.
    pub(super) fn check_dashboard(&self) -> Result<()> {
        let mut ids = BTreeSet::new();
        let mut panels = 0;
        for panel in list(&self.dashboard, "/panels") {
            panels += 1;
            let title = text(panel, "/title");
            let id = panel.get("id").and_then(Value::as_u64).with_context(|| format!("{title} has no id"))?;
            ensure!(ids.insert(id), "two panels have the id {id}");
            ensure!(!title.is_empty() && panel.pointer("/gridPos/w").is_some(), "panel {id}");
            ensure!(text(panel, "/datasource/uid") == "${datasource}", "{title} has another source");
            if list(panel, "/targets").next().is_none() {
                bail!("{title} asks nothing");
            }
        }
        ensure!(panels > 0, "no panels");
        Ok(())
    }
}

fn rules(spec: &Value) -> impl Iterator<Item = &Value> {
    list(spec, "/groups").flat_map(|group| list(group, "/rules"))
}

/// The metric of a line of `/metrics`. Also of a TYPE comment, because a metric without samples has only that.
fn metric_of_line(line: &str) -> Option<&str> {
    let line = line.strip_prefix("# TYPE ").unwrap_or(line);
    line.split(['{', ' ']).next().filter(|name| !name.is_empty())
}

/// The metrics of an expression, as their TYPE comments name them: without the suffixes of histograms and counters.
fn metrics_of_expression(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let ours = words.filter(|word| PREFIXES.iter().any(|prefix| word.starts_with(prefix)));
    ours.map(|word| {
        let plain = ["_bucket", "_count", "_sum", "_total"].iter().find_map(|end| word.strip_suffix(end));
        plain.unwrap_or(word).to_owned()
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each replica of the controller exports these for its own clusters only.
    const PER_REPLICA: [&str; 5] = [
        "business_controller_members",
        "business_controller_credentials",
        "business_controller_orphans",
        "business_controller_strangers",
        "business_controller_namespaces",
    ];

    #[test]
    fn what_replicas_count_in_parts_is_shown_as_a_sum() {
        let file = layout::workspace().join("deploy/components/monitoring/dashboard.json");
        let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let targets = list(&dashboard, "/panels").flat_map(|panel| list(panel, "/targets"));
        let mut shown = 0;
        for expression in targets.map(|target| text(target, "/expr")) {
            if PER_REPLICA.iter().any(|part| expression.contains(part)) {
                assert!(expression.starts_with("sum"), "{expression}");
                shown += 1;
            }
        }
        assert!(shown > 0);
    }

    #[test]
    fn metrics_are_found_in_expressions_and_in_a_scrapers_text() {
        let expression = "sum(rate(store_writes_total[5m])) / max(apiserver_x_bucket{namespace=\"n\"}) > 0";
        let named: Vec<String> = metrics_of_expression(expression).into_iter().collect();
        assert_eq!(named, ["apiserver_x", "store_writes"]);
        assert_eq!(metric_of_line("# TYPE store_writes counter"), Some("store_writes"));
        assert_eq!(metric_of_line("business_holds 0"), Some("business_holds"));
    }
}
