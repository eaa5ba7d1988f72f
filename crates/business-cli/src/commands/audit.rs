use super::describe::held_lines;
use crate::api::Api;
use crate::connection::duration;
use crate::failure::{Failure, Outcome};
use crate::objects::{self, MemberCluster, Namespace, Project, Tenant};
use crate::output::{self, View};
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
    output: View,
    /// How long ago a cluster may have been compared with the objects; the controller does so every five minutes
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1h")]
    compared_within: Duration,
}

/// Something that is not as it should be.
#[derive(Debug, Serialize)]
struct Finding {
    /// As the API calls it.
    kind: &'static str,
    /// The project of a namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    project: String,
    name: String,
    why: String,
}

/// An amount that counts against a project without an object.
#[derive(Debug, Serialize)]
struct HeldOf {
    project: String,
    #[serde(flatten)]
    held: HeldAmount,
}

/// When a cluster was last compared with the objects.
#[derive(Debug, Serialize)]
struct Compared {
    cluster: String,
    /// RFC 3339; absent while it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    consistent: bool,
    findings: Vec<Finding>,
    compared: Vec<Compared>,
    held: Vec<HeldOf>,
}

impl Audit {
    pub(crate) async fn run(&self, api: &Api, screen: Screen) -> Result<Outcome, Failure> {
        let (tenants, projects, namespaces, clusters) = tokio::try_join!(
            objects::all_by_role::<Tenant>(api, names::TENANTS),
            objects::all_by_role::<Project>(api, names::PROJECTS),
            objects::all_by_role::<Namespace>(api, names::NAMESPACES),
            objects::seen::<MemberCluster>(api, names::MEMBER_CLUSTERS),
        )?;
        let saw = !(tenants.is_empty() && projects.is_empty() && clusters.is_empty());
        if !saw {
            note("you see no tenant, no project and no cluster: nothing was looked at");
        }
        let mut report = Report::default();
        for project in &projects {
            report.take_project(project);
        }
        for tenant in &tenants {
            report.take_false(
                names::TENANT_KIND,
                tenant.name(),
                &tenant.status.conditions,
                &[QUOTA_CONSISTENT, WITHIN_CEILINGS],
            );
        }
        for namespace in &namespaces {
            let replaced =
                condition::find(&namespace.status.conditions, REPLACED).filter(|told| told.is_true());
            report.findings.extend(replaced.map(|told| Finding {
                kind: names::NAMESPACE_KIND,
                project: namespace.metadata.namespace.clone(),
                name: namespace.name().to_owned(),
                why: told.message.clone(),
            }));
        }
        let within = i64::try_from(self.compared_within.as_secs()).unwrap_or(i64::MAX);
        let oldest = Timestamp::now().as_second().saturating_sub(within);
        for cluster in &clusters {
            report.take_cluster(cluster);
            report.take_age(cluster, oldest);
        }
        report.consistent = saw && report.findings.is_empty();
        match self.output {
            View::Json | View::Yaml => output::data(self.output, &report)?,
            View::Text | View::Wide => print(report.shown(screen))?,
        }
        Ok(if report.consistent { Outcome::Done } else { Outcome::No })
    }
}

impl Report {
    fn find(&mut self, kind: &'static str, name: &str, why: impl Into<String>) {
        let project = String::new();
        self.findings.push(Finding { kind, project, name: name.to_owned(), why: why.into() });
    }

    /// Conditions that should not be False.
    fn take_false(&mut self, kind: &'static str, name: &str, conditions: &[Condition], types: &[&str]) {
        for told in
            conditions.iter().filter(|told| types.contains(&told.type_.as_str()) && told.status == FALSE)
        {
            self.find(kind, name, format!("{}: {}", told.type_, told.message));
        }
    }

    fn take_project(&mut self, project: &Project) {
        let (name, status) = (project.name(), &project.status);
        for difference in &status.ledger.differences {
            self.find(names::PROJECT_KIND, name, difference.as_str());
        }
        if status.ledger.differences.is_empty() {
            self.take_false(names::PROJECT_KIND, name, &status.conditions, &[QUOTA_CONSISTENT]);
        }
        for orphan in status.orphans.iter().filter(|orphan| !status.ledger.is_done_with(orphan)) {
            let place = format!("{}/{}", orphan.cluster_name, orphan.namespace);
            self.find(
                names::PROJECT_KIND,
                name,
                format!("namespace {place} may take what no object is charged for: {:?}", orphan.state),
            );
        }
        let held = status.ledger.held.iter().cloned();
        self.held.extend(held.map(|held| HeldOf { project: name.to_owned(), held }));
    }

    fn take_cluster(&mut self, cluster: &MemberCluster) {
        let name = cluster.name();
        self.take_false(
            names::MEMBER_CLUSTER_KIND,
            name,
            &cluster.status.conditions,
            &[BOUNDED, CAPACITY_DERIVED],
        );
        let Some(comparison) = &cluster.status.comparison else { return };
        if !comparison.missing.is_empty() {
            self.find(names::MEMBER_CLUSTER_KIND, name, format!("was not compared: {}", comparison.missing));
        }
        if comparison.unreported > 0 {
            self.find(
                names::MEMBER_CLUSTER_KIND,
                name,
                format!("{} orphans stand in no project", comparison.unreported),
            );
        }
        if comparison.strange > 0 {
            let some =
                comparison.strangers.iter().map(|one| one.namespace.as_str()).collect::<Vec<_>>().join(", ");
            self.find(
                names::MEMBER_CLUSTER_KIND,
                name,
                format!("{} namespaces have our marks without our seal: {some}", comparison.strange),
            );
        }
    }

    /// Reports a cluster that has been there since `oldest`, in Unix seconds, and was not compared since then.
    fn take_age(&mut self, cluster: &MemberCluster, oldest: i64) {
        let name = cluster.name();
        let told = cluster.status.comparison.as_ref().map(|comparison| comparison.time.as_str());
        let time = told.filter(|time| !time.is_empty());
        let since = time.unwrap_or(&cluster.metadata.creation_timestamp);
        if since.parse::<Timestamp>().is_ok_and(|since| since.as_second() < oldest) {
            let why = match time {
                Some(time) => format!("nobody has compared it since {time}: is there a controller that can?"),
                None => "nobody has compared it yet: is there a controller that can?".to_owned(),
            };
            self.find(names::MEMBER_CLUSTER_KIND, name, why);
        }
        let is_compared = cluster.status.comparison.as_ref().is_some_and(|told| told.missing.is_empty());
        let time = time.filter(|_| is_compared).map(str::to_owned);
        self.compared.push(Compared { cluster: name.to_owned(), time });
    }

    fn shown(&self, screen: Screen) -> String {
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
            text.push_str(&table.shown(screen, ""));
        }
        if let Some(first) = self.compared.iter().min_by(|a, b| a.time.cmp(&b.time)) {
            let told = match &first.time {
                Some(time) => format!("each cluster was compared with the objects at {time} or later\n"),
                None => format!("cluster {} is not compared with the objects\n", first.cluster),
            };
            text.push_str(&screen.paint(Tone::Faint, &told));
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
            text.extend(["\n", &title, "\n", &held_lines(&held).shown(screen, "  ")]);
        }
        text
    }
}
