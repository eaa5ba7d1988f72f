use super::access::{self, RoleHolder};
use crate::amount::{self, Bar};
use crate::api::Api;
use crate::failure::{Failure, Outcome};
use crate::objects::{self, ClusterOffer, MemberCluster, Namespace, Project, Tenant};
use crate::output::{self, OutputFormat};
use crate::paths;
use crate::screen::{Cell, Screen, Table, Tone, left, picture, print, right, sanitize_line};
use business_types::condition::{FALSE, OTHER_ACCESS, REPLACED, TERMINATING, TRUE};
use business_types::{Condition, HardQuantity, HeldAmount, UsedQuantity, names};
use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::{Arg, Args, Command, ValueEnum};
use jiff::Timestamp;
use meta::quantity::{Quantity, ResourceList};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;

/// The events that the controller has recorded.
mod events;

use events::{EventTarget, Events};

const EXAMPLES: &str = "\
Examples:
  kubectl business describe project shop
  kubectl business describe namespace east-web -n shop
  kubectl business describe namespace.business.tkestack.io/east-web -n shop
  kubectl business describe tenant acme
  kubectl business describe cluster east";
const BAR: usize = 20;
/// Limit of the roles in a description.
const ACCESS_MAX: usize = 20;
/// Conditions that are good when they are False.
const GOOD_WHEN_FALSE: [&str; 3] = [TERMINATING, REPLACED, OTHER_ACCESS];

/// Show what one object has, who may use it, what is wrong with it, and what was told of it lately
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Describe {
    /// Of which kind it is; or KIND/NAME
    #[arg(value_name = "KIND", value_parser = ObjectRefParser, ignore_case = true)]
    what: ObjectRef,
    /// Its name
    name: Option<String>,
    /// How to show it
    #[arg(long, short, value_enum, default_value_t)]
    output: OutputFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DescribedKind {
    #[value(aliases = ["projects", "prj"])]
    Project,
    #[value(aliases = ["namespaces", "ns", "bns"])]
    Namespace,
    #[value(aliases = ["tenants", "tnt"])]
    Tenant,
    #[value(aliases = ["clusters", "membercluster", "memberclusters", "mc"])]
    Cluster,
}

/// `KIND` or `KIND/NAME`.
#[derive(Clone, Debug)]
struct ObjectRef {
    kind: DescribedKind,
    name: Option<String>,
}

/// Parses an `ObjectRef`.
#[derive(Clone)]
struct ObjectRefParser;

impl TypedValueParser for ObjectRefParser {
    type Value = ObjectRef;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<ObjectRef, clap::Error> {
        let text = value.to_string_lossy();
        let (kind, name) = text.split_once('/').map_or((&*text, None), |(kind, name)| (kind, Some(name)));
        // `-o name` prints KIND.GROUP/NAME.
        let kind = kind.strip_suffix(names::GROUP).and_then(|kind| kind.strip_suffix('.')).unwrap_or(kind);
        let kind = EnumValueParser::<DescribedKind>::new().parse_ref(command, arg, OsStr::new(kind))?;
        Ok(ObjectRef { kind, name: name.map(str::to_owned) })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let kinds = DescribedKind::value_variants().iter();
        Some(Box::new(kinds.filter_map(ValueEnum::to_possible_value)))
    }
}

/// The description of an object of any kind.
#[derive(Default)]
struct Description {
    uid: String,
    facts: Vec<Fact>,
    limits: Vec<LimitRow>,
    access: Vec<RoleHolder>,
    /// The name of the project, if a project is described.
    project: String,
    conditions: Vec<Condition>,
    held: Vec<HeldAmount>,
    differences: Vec<String>,
}

/// A line of a description: name and value.
struct Fact {
    name: &'static str,
    text: String,
}

/// A row of the table of limits.
struct LimitRow {
    cluster: String,
    resource: String,
    hard: Option<Quantity>,
    allocated: Quantity,
    /// What counts beside `allocated` without an object.
    held: Quantity,
    used: Option<Quantity>,
}

impl Describe {
    pub(crate) async fn run(&self, api: &Api, screen: Screen) -> Result<Outcome, Failure> {
        let name = self.name()?;
        let path = self.path(api, name);
        // A caller who is no operator sees the ClusterOffer of a cluster.
        let is_offered = |failure: &Failure| {
            self.what.kind == DescribedKind::Cluster && (failure.is_forbidden() || failure.is_not_found())
        };
        let offer = paths::object(names::CLUSTER_OFFERS, name);
        if matches!(self.output, OutputFormat::Json | OutputFormat::Yaml) {
            let whole: Value = match api.get(&path).await {
                Err(failure) if is_offered(&failure) => api.get(&offer).await?,
                other => other?,
            };
            output::print_data(self.output, &whole)?;
            return Ok(Outcome::Done);
        }
        let description = match self.what.kind {
            DescribedKind::Project => describe_project(api, api.get(&path).await?).await?,
            DescribedKind::Namespace => describe_namespace(api, api.get(&path).await?).await?,
            DescribedKind::Tenant => describe_tenant(api.get(&path).await?),
            DescribedKind::Cluster => match api.get::<MemberCluster>(&path).await {
                Err(failure) if is_offered(&failure) => describe_offer(api.get(&offer).await?),
                other => describe_cluster(other?),
            },
        };
        let events = Events::list(api, &self.event_target(api, name, &description.uid)).await;
        let title = screen.paint(Tone::Head, "Events");
        let events = events.render(screen, Timestamp::now());
        print(format_args!(
            "{}\n{title}\n{events}",
            description.render(screen, self.output == OutputFormat::Wide)
        ))?;
        Ok(Outcome::Done)
    }

    fn name(&self) -> Result<&str, Failure> {
        match (self.what.name.as_deref(), self.name.as_deref()) {
            (Some(name), None) | (None, Some(name)) if !name.is_empty() => Ok(name),
            _ => Err(Failure::Usage("name one object: KIND NAME, or KIND/NAME".to_owned())),
        }
    }

    fn event_target<'a>(&self, api: &'a Api, name: &'a str, uid: &'a str) -> EventTarget<'a> {
        let (kind, project) = match self.what.kind {
            DescribedKind::Project => (names::PROJECT_KIND, ""),
            DescribedKind::Namespace => (names::NAMESPACE_KIND, api.project.as_str()),
            DescribedKind::Tenant => (names::TENANT_KIND, ""),
            DescribedKind::Cluster => (names::MEMBER_CLUSTER_KIND, ""),
        };
        EventTarget { kind, name, project, uid }
    }

    fn path(&self, api: &Api, name: &str) -> String {
        match self.what.kind {
            DescribedKind::Project => paths::object(names::PROJECTS, name),
            DescribedKind::Namespace => paths::namespace(&api.project, name),
            DescribedKind::Tenant => paths::object(names::TENANTS, name),
            DescribedKind::Cluster => paths::object(names::MEMBER_CLUSTERS, name),
        }
    }
}

impl Description {
    fn add_fact(&mut self, name: &'static str, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.facts.push(Fact { name, text });
        }
    }

    fn add_limits_by_cluster(
        &mut self,
        hard: &BTreeMap<String, HardQuantity>,
        allocated: &BTreeMap<String, UsedQuantity>,
    ) {
        let empty = ResourceList::new();
        let clusters: std::collections::BTreeSet<&String> = hard.keys().chain(allocated.keys()).collect();
        for cluster in clusters {
            let hard = hard.get(cluster).map_or(&empty, |quota| &quota.hard);
            let allocated = allocated.get(cluster).map_or(&empty, |quota| &quota.used);
            self.add_limits(cluster, hard, allocated, None);
        }
    }

    fn add_limits(
        &mut self,
        cluster: &str,
        hard: &ResourceList,
        allocated: &ResourceList,
        used: Option<&ResourceList>,
    ) {
        let resources: std::collections::BTreeSet<&String> = hard.keys().chain(allocated.keys()).collect();
        self.limits.extend(resources.into_iter().map(|resource| LimitRow {
            cluster: cluster.to_owned(),
            resource: resource.clone(),
            hard: hard.get(resource).copied(),
            allocated: amount::get(allocated, resource),
            held: Quantity::ZERO,
            used: used.map(|used| amount::get(used, resource)),
        }));
    }

    fn render(&self, screen: Screen, wide: bool) -> String {
        let mut text = String::new();
        let width = self.facts.iter().map(|fact| fact.name.len()).max().unwrap_or_default() + 3;
        for Fact { name, text: fact } in &self.facts {
            let name = format!("{name}:");
            let name = screen.paint(Tone::Faint, &format!("{name:width$}"));
            text.extend([name.as_str(), &screen.hanging(&sanitize_line(fact), width), "\n"]);
        }
        let section = |text: &mut String, title: &str, table: &Table| {
            if !table.is_empty() {
                let title = screen.paint(Tone::Head, title);
                text.extend(["\n", &title, "\n", &table.render(screen, "  ")]);
            }
        };
        section(&mut text, "Amounts", &self.amounts_table(screen, wide));
        section(&mut text, "Access", &access::table(self.access.iter().take(ACCESS_MAX), &self.project));
        let more = self.access.len().saturating_sub(ACCESS_MAX);
        if more > 0 {
            let _infallible =
                writeln!(text, "  and {more} more: `kubectl business access list PROJECT` shows all");
        }
        section(&mut text, "Conditions", &self.conditions_table());
        section(&mut text, "Held without an object", &held_table(&self.held));
        for difference in &self.differences {
            text.extend([screen.paint(Tone::Full, &sanitize_line(difference)).as_str(), "\n"]);
        }
        text
    }

    fn amounts_table(&self, screen: Screen, wide: bool) -> Table {
        let mut table = Table::new(&[
            left("WHERE"),
            left("RESOURCE"),
            picture(),
            right("%"),
            right("USED"),
            right("ALLOCATED"),
            right("HARD"),
        ]);
        let shown = |amount: Quantity| if wide { amount.to_string() } else { amount::short_text(amount) };
        for share in &self.limits {
            let taken = share.used.unwrap_or_else(|| amount::saturating_add(share.allocated, share.held));
            let percent = share.hard.and_then(|hard| amount::percent(taken, hard));
            let bar = share.hard.map_or_else(String::new, |hard| {
                let used = share.used.unwrap_or(Quantity::ZERO);
                Bar { hard, allocated: taken, used }.render(screen.without_color(), BAR)
            });
            let percent_text = percent.map_or_else(String::new, |p| format!("{p}{}", amount::mark(percent)));
            table.row([
                Cell::from(share.cluster.as_str()),
                share.resource.as_str().into(),
                bar.into(),
                Cell::toned(amount::tone(percent), percent_text),
                share.used.map_or_else(|| "-".to_owned(), shown).into(),
                amount::with_held(share.allocated, share.held, shown).into(),
                share.hard.map_or_else(|| "-".to_owned(), shown).into(),
            ]);
        }
        table
    }

    fn conditions_table(&self) -> Table {
        let mut table = Table::new(&[left("CONDITION"), left("STATUS"), left("REASON"), left("MESSAGE")]);
        for condition in &self.conditions {
            let good = if GOOD_WHEN_FALSE.contains(&condition.type_.as_str()) { FALSE } else { TRUE };
            let tone = if condition.status == good { Tone::Good } else { Tone::High };
            table.row([
                Cell::from(condition.type_.as_str()),
                Cell::toned(tone, condition.status.as_str()),
                condition.reason.as_str().into(),
                condition.message.as_str().into(),
            ]);
        }
        table
    }
}

/// A table of the amounts that are held without an object.
pub(crate) fn held_table(held: &[HeldAmount]) -> Table {
    let mut table = Table::new(&[
        left("STATE"),
        left("WHERE"),
        left("NAMESPACE"),
        left("AMOUNT"),
        left("UID"),
        left("WHY"),
    ]);
    for one in held {
        table.row([
            Cell::from(one.state.as_str()),
            one.cluster_name.as_str().into(),
            one.namespace.as_str().into(),
            amount::list_text(&one.hard).into(),
            one.uid.as_str().into(),
            one.reason.as_str().into(),
        ]);
    }
    table
}

async fn describe_project(api: &Api, project: Project) -> Result<Description, Failure> {
    let lineage = objects::lineage(api, project.name()).await?;
    let above: Vec<&str> = lineage.iter().rev().map(Project::name).collect();
    let Project { metadata, spec, status } = project;
    let project = metadata.name.clone();
    let mut description = Description { uid: metadata.uid, project, ..Description::default() };
    description.add_fact("Project", metadata.name);
    description.add_fact("For people", spec.display_name);
    description.add_fact("Tenant", spec.tenant_id);
    description.add_fact("Line", above.join(" > "));
    description.add_fact("Phase", status.phase.as_str());
    if status.locked == Some(true) {
        let reason = metadata.annotations.get(names::LOCK_REASON_ANNOTATION);
        description.add_fact("Locked", reason.map_or("by an operator", String::as_str));
    }
    description.add_fact("Message", status.message);
    description.add_fact("Template", spec.template);
    description.add_fact("Projects below", status.calculated_child_projects.join(", "));
    description.add_fact("Namespaces", status.calculated_namespaces.join(", "));
    description.add_limits_by_cluster(&spec.clusters, &status.clusters);
    let held = objects::held_by_cluster(&status.ledger.held);
    for share in &mut description.limits {
        share.held =
            held.get(&share.cluster).map_or(Quantity::ZERO, |held| amount::get(held, &share.resource));
    }
    description.access = access::role_holders(&lineage);
    description.conditions = status.conditions;
    description.held = status.ledger.held;
    description.differences = status.ledger.differences;
    Ok(description)
}

async fn describe_namespace(api: &Api, namespace: Namespace) -> Result<Description, Failure> {
    let lineage = match objects::lineage(api, &namespace.metadata.namespace).await {
        Err(failure) if failure.is_forbidden() => Vec::new(),
        other => other?,
    };
    let Namespace { metadata, spec, status } = namespace;
    let charged = status.charged(&spec).clone();
    let mut description = Description { uid: metadata.uid, ..Description::default() };
    description.add_fact("Namespace", metadata.name);
    description.add_fact("Project", metadata.namespace);
    description.add_fact("Tenant", spec.tenant_id);
    description.add_fact("Cluster", format!("{} {}", spec.cluster_name, spec.cluster_version).trim_end());
    description.add_fact("Name there", spec.namespace);
    description.add_fact("Phase", status.phase.as_str());
    description.add_fact("Message", status.message);
    description.add_fact("Template", status.template.map(|template| template.name).unwrap_or_default());
    description.add_limits(&spec.cluster_name, &spec.hard, &charged, Some(&status.used));
    description.access = access::role_holders(&lineage);
    description.conditions = status.conditions;
    Ok(description)
}

fn describe_tenant(tenant: Tenant) -> Description {
    let Tenant { metadata, spec, status } = tenant;
    let mut description = Description { uid: metadata.uid, ..Description::default() };
    description.add_fact("Tenant", metadata.name);
    description.add_fact("For people", spec.display_name);
    let administrators = spec.administrators.iter().map(|one| format!("{:?} {}", one.kind, one.name));
    description.add_fact("Administrators", administrators.collect::<Vec<_>>().join(", "));
    description.add_fact("Contacts", spec.contacts.join(", "));
    description.add_fact("Template", spec.template);
    description.add_fact("Projects", status.projects.to_string());
    description.add_fact("Namespaces", status.namespaces.to_string());
    description.add_limits_by_cluster(&spec.clusters, &status.clusters);
    description.conditions = status.conditions;
    description
}

fn describe_cluster(cluster: MemberCluster) -> Description {
    let deleting = cluster.is_deleting();
    let MemberCluster { metadata, spec, status } = cluster;
    let hard = spec.grantable(&status.capacity);
    let mut description = Description { uid: metadata.uid, ..Description::default() };
    description.add_fact("Cluster", metadata.name.clone());
    description.add_fact("For people", spec.display_name);
    description.add_fact("Version", status.version);
    description.add_fact("Tenants", spec.tenants.join(", "));
    description.add_fact(
        "State",
        match (deleting, spec.cordoned) {
            (true, _) => "being deleted",
            (false, true) => "cordoned: nothing new, nothing grows",
            (false, false) => "open",
        },
    );
    description
        .add_fact("People reach it", spec.endpoint.map(|endpoint| endpoint.server).unwrap_or_default());
    description.add_fact("Namespaces", status.namespaces.to_string());
    description.add_limits(&metadata.name, &hard, &status.granted, None);
    for share in &mut description.limits {
        share.used = status.consumed.get(&share.resource).copied();
    }
    description.conditions = status.conditions;
    description
}

fn describe_offer(offer: ClusterOffer) -> Description {
    let mut description = Description { uid: offer.metadata.uid, ..Description::default() };
    description.add_fact("Cluster", offer.metadata.name.clone());
    description.add_fact("Answers", if offer.reachable { "yes" } else { "no" });
    description
        .add_fact("State", if offer.cordoned { "cordoned: nothing new, nothing grows" } else { "open" });
    for share in offer.tenants {
        let allocated = share.hard.iter().map(|(resource, hard)| {
            (resource.clone(), amount::saturating_sub(*hard, amount::get(&share.left, resource)))
        });
        let place = format!("{} ({})", offer.metadata.name, share.tenant_id);
        description.add_limits(&place, &share.hard, &allocated.collect(), None);
    }
    description
}
