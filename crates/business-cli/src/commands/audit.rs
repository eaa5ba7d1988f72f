use super::describe::held_table;
use crate::api::Api;
use crate::connection::duration;
use crate::failure::{Failure, Outcome};
use crate::objects::{self, MemberCluster, Namespace, Project, Tenant};
use crate::output::{self, OutputFormat};
use crate::screen::{Cell, Screen, Table, Tone, left, note, print};
use business_types::condition::{
    self, BOUNDED, CAPACITY_DERIVED, FALSE, QUOTA_CONSISTENT, REPLACED, WITHIN_CEILINGS,
};
use business_types::{Condition, HeldAmount, names};
use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  kubectl business audit
  kubectl business audit -o json | jq '.held[].uid'
  kubectl business audit --compared-within 15m

It shows what the audits of the server and the controller have last found, as far as you see it, and ends with 3 when
something is wrong, when nobody has compared a cluster for long, or when you see nothing. What is held is no fault: it is told, and an operator ends it with `business-api audit --write-off UID`.";

/// Show what the audits have found: differences, strangers, and amounts that are held without an object
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Audit {
    /// How to show it
    #[arg(long, short, value_enum, default_value_t)]
    output: OutputFormat,
    /// How long ago a cluster may have been compared with the objects; the controller does so every five minutes
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1h")]
    compared_within: Duration,
}

/// A problem that the audits have found.
#[derive(Debug, Serialize)]
struct Finding {
    /// The kind in the API.
    kind: &'static str,
    /// The project of a namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    project: String,
    name: String,
    why: String,
}

/// An amount held against a project without an object.
#[derive(Debug, Serialize)]
struct ProjectHold {
    project: String,
    #[serde(flatten)]
    held: HeldAmount,
}

/// When a cluster was last compared with the objects.
#[derive(Debug, Serialize)]
struct ComparisonTime {
    cluster: String,
    /// RFC 3339; absent if the cluster is not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    consistent: bool,
    findings: Vec<Finding>,
    compared: Vec<ComparisonTime>,
    held: Vec<ProjectHold>,
}

impl Audit {
    pub(crate) async fn run(&self, api: &Api, screen: Screen) -> Result<Outcome, Failure> {
        let (tenants, projects, namespaces, clusters) = tokio::try_join!(
            objects::list_with_role_advice::<Tenant>(api, names::TENANTS),
            objects::list_with_role_advice::<Project>(api, names::PROJECTS),
            objects::list_with_role_advice::<Namespace>(api, names::NAMESPACES),
            objects::list_or_empty::<MemberCluster>(api, names::MEMBER_CLUSTERS),
        )?;
        let sees_anything = !(tenants.is_empty() && projects.is_empty() && clusters.is_empty());
        if !sees_anything {
            note("you see no tenant, no project and no cluster: nothing was looked at");
        }
        let mut report = Report::default();
        for project in &projects {
            report.add_project(project);
        }
        for tenant in &tenants {
            report.add_false_conditions(
                names::TENANT_KIND,
                tenant.name(),
                &tenant.status.conditions,
                &[QUOTA_CONSISTENT, WITHIN_CEILINGS],
            );
        }
        for namespace in &namespaces {
            let replaced = condition::find(&namespace.status.conditions, REPLACED)
                .filter(|condition| condition.is_true());
            report.findings.extend(replaced.map(|condition| Finding {
                kind: names::NAMESPACE_KIND,
                project: namespace.metadata.namespace.clone(),
                name: namespace.name().to_owned(),
                why: condition.message.clone(),
            }));
        }
        let within = i64::try_from(self.compared_within.as_secs()).unwrap_or(i64::MAX);
        let oldest = Timestamp::now().as_second().saturating_sub(within);
        for cluster in &clusters {
            report.add_cluster(cluster);
            report.add_comparison_time(cluster, oldest);
        }
        report.consistent = sees_anything && report.findings.is_empty();
        match self.output {
            OutputFormat::Json | OutputFormat::Yaml => output::print_data(self.output, &report)?,
            OutputFormat::Text | OutputFormat::Wide => print(report.render(screen))?,
        }
        Ok(if report.consistent { Outcome::Done } else { Outcome::No })
    }
}

impl Report {
    fn add_finding(&mut self, kind: &'static str, name: &str, why: impl Into<String>) {
        let project = String::new();
        self.findings.push(Finding { kind, project, name: name.to_owned(), why: why.into() });
    }

    /// Adds conditions of these types that are False.
    fn add_false_conditions(
        &mut self,
        kind: &'static str,
        name: &str,
        conditions: &[Condition],
        types: &[&str],
    ) {
        for condition in conditions
            .iter()
            .filter(|condition| types.contains(&condition.type_.as_str()) && condition.status == FALSE)
        {
            self.add_finding(kind, name, format!("{}: {}", condition.type_, condition.message));
        }
    }

    fn add_project(&mut self, project: &Project) {
        let (name, status) = (project.name(), &project.status);
        for difference in &status.ledger.differences {
            self.add_finding(names::PROJECT_KIND, name, difference.as_str());
        }
        if status.ledger.differences.is_empty() {
            self.add_false_conditions(names::PROJECT_KIND, name, &status.conditions, &[QUOTA_CONSISTENT]);
        }
        for orphan in status.orphans.iter().filter(|orphan| !status.ledger.has_written_off(orphan)) {
            let place = format!("{}/{}", orphan.cluster_name, orphan.namespace);
            self.add_finding(
                names::PROJECT_KIND,
                name,
                format!("namespace {place} may take what no object is charged for: {:?}", orphan.state),
            );
        }
        let held = status.ledger.held.iter().cloned();
        self.held.extend(held.map(|held| ProjectHold { project: name.to_owned(), held }));
    }

    fn add_cluster(&mut self, cluster: &MemberCluster) {
        let name = cluster.name();
        self.add_false_conditions(
            names::MEMBER_CLUSTER_KIND,
            name,
            &cluster.status.conditions,
            &[BOUNDED, CAPACITY_DERIVED],
        );
        let Some(comparison) = &cluster.status.comparison else { return };
        if !comparison.missing.is_empty() {
            self.add_finding(
                names::MEMBER_CLUSTER_KIND,
                name,
                format!("was not compared: {}", comparison.missing),
            );
        }
        if comparison.unreported > 0 {
            self.add_finding(
                names::MEMBER_CLUSTER_KIND,
                name,
                format!("{} orphans stand in no project", comparison.unreported),
            );
        }
        if comparison.strange > 0 {
            let some =
                comparison.strangers.iter().map(|one| one.namespace.as_str()).collect::<Vec<_>>().join(", ");
            self.add_finding(
                names::MEMBER_CLUSTER_KIND,
                name,
                format!("{} namespaces have our marks without our seal: {some}", comparison.strange),
            );
        }
    }

    /// Adds a finding if a cluster is older than `oldest`, in Unix seconds, and was not compared since then.
    fn add_comparison_time(&mut self, cluster: &MemberCluster, oldest: i64) {
        let name = cluster.name();
        let comparison = cluster.status.comparison.as_ref();
        let time = comparison.map(|comparison| comparison.time.as_str()).filter(|time| !time.is_empty());
        let since = time.unwrap_or(&cluster.metadata.creation_timestamp);
        if since.parse::<Timestamp>().is_ok_and(|since| since.as_second() < oldest) {
            let why = match time {
                Some(time) => format!("nobody has compared it since {time}: is there a controller that can?"),
                None => "nobody has compared it yet: is there a controller that can?".to_owned(),
            };
            self.add_finding(names::MEMBER_CLUSTER_KIND, name, why);
        }
        let is_compared = comparison.is_some_and(|comparison| comparison.missing.is_empty());
        let time = time.filter(|_| is_compared).map(str::to_owned);
        self.compared.push(ComparisonTime { cluster: name.to_owned(), time });
    }

    fn render(&self, screen: Screen) -> String {
        let mut text = String::new();
        if self.consistent {
            text.push_str(
                &screen.paint(Tone::Good, "ledger, objects and clusters agree, as far as you see them"),
            );
            text.push('\n');
        } else if !self.findings.is_empty() {
            let mut table = Table::new(&[left("WHAT"), left("NAME"), left("FOUND")]);
            for Finding { kind, project, name, why } in &self.findings {
                let name = if project.is_empty() { name.clone() } else { format!("{project}/{name}") };
                let word = if *kind == names::MEMBER_CLUSTER_KIND {
                    "cluster".to_owned()
                } else {
                    kind.to_lowercase()
                };
                table.row([Cell::from(word), name.into(), Cell::toned(Tone::High, why.as_str())]);
            }
            text.push_str(&table.render(screen, ""));
        }
        if let Some(first) = self.compared.iter().min_by(|a, b| a.time.cmp(&b.time)) {
            let summary = match &first.time {
                Some(time) => format!("each cluster was compared with the objects at {time} or later\n"),
                None => format!("cluster {} is not compared with the objects\n", first.cluster),
            };
            text.push_str(&screen.paint(Tone::Faint, &summary));
        }
        let projects: std::collections::BTreeSet<&str> =
            self.held.iter().map(|held| held.project.as_str()).collect();
        for project in projects {
            let held: Vec<HeldAmount> = self
                .held
                .iter()
                .filter(|held| held.project == project)
                .map(|held| held.held.clone())
                .collect();
            let title = screen.paint(Tone::Head, &format!("Held in project {project} without an object"));
            text.extend(["\n", &title, "\n", &held_table(&held).render(screen, "  ")]);
        }
        text
    }
}
