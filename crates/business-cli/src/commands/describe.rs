use super::access::{self, Holder};
use crate::amount::{self, Bar};
use crate::api::Api;
use crate::failure::{Failure, Outcome};
use crate::objects::{self, ClusterOffer, MemberCluster, Namespace, Project, Tenant};
use crate::output::{self, View};
use crate::paths;
use crate::screen::{Cell, Screen, Table, Tone, harmless_line, left, picture, print, right};
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

use events::{Events, Regarded};

const EXAMPLES: &str = "\
Examples:
  kubectl business describe project shop
  kubectl business describe namespace east-web -n shop
  kubectl business describe namespace.business.tkestack.io/east-web -n shop
  kubectl business describe tenant acme
  kubectl business describe cluster east";
const BAR: usize = 20;
/// Roles of a description.
const ACCESS_MAX: usize = 20;
/// Conditions that are good when they are False.
const BETTER_FALSE: [&str; 3] = [TERMINATING, REPLACED, OTHER_ACCESS];

/// Show what one object has, who may use it, what is wrong with it, and what was told of it lately
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Describe {
    /// Of which kind it is; or KIND/NAME
    #[arg(value_name = "KIND", value_parser = DescribedParser, ignore_case = true)]
    what: Described,
    /// Its name
    name: Option<String>,
    /// How to show it
    #[arg(long, short, value_enum, default_value_t)]
    output: View,
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
struct Described {
    kind: DescribedKind,
    name: Option<String>,
}

/// Reads it.
#[derive(Clone)]
struct DescribedParser;

impl TypedValueParser for DescribedParser {
    type Value = Described;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Described, clap::Error> {
        let text = value.to_string_lossy();
        let (kind, name) = text.split_once('/').map_or((&*text, None), |(kind, name)| (kind, Some(name)));
        // As `-o name` writes it.
        let kind = kind.strip_suffix(names::GROUP).and_then(|kind| kind.strip_suffix('.')).unwrap_or(kind);
        let kind = EnumValueParser::<DescribedKind>::new().parse_ref(command, arg, OsStr::new(kind))?;
        Ok(Described { kind, name: name.map(str::to_owned) })
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
    shares: Vec<LimitLine>,
    access: Vec<Holder>,
    /// The project that is described, if it is one.
    project: String,
    conditions: Vec<Condition>,
    held: Vec<HeldAmount>,
    differences: Vec<String>,
}

/// A name and what it is.
struct Fact {
    name: &'static str,
    text: String,
}

/// One limit and what is taken of it.
struct LimitLine {
    cluster: String,
    resource: String,
    hard: Option<Quantity>,
    allocated: Quantity,
    /// What counts beside that without an object.
    held: Quantity,
    used: Option<Quantity>,
}

impl Describe {
    pub(crate) async fn run(&self, api: &Api, screen: Screen) -> Result<Outcome, Failure> {
        let name = self.name()?;
        let path = self.path(api, name);
        // A caller who may use a cluster, and rules none, sees its offer.
        let is_offered = |failure: &Failure| {
            self.what.kind == DescribedKind::Cluster && (failure.is_forbidden() || failure.is_not_found())
        };
        let offer = paths::named(names::CLUSTER_OFFERS, name);
        if matches!(self.output, View::Json | View::Yaml) {
            let whole: Value = match api.get(&path).await {
                Err(failure) if is_offered(&failure) => api.get(&offer).await?,
                other => other?,
            };
            output::data(self.output, &whole)?;
            return Ok(Outcome::Done);
        }
        let about = match self.what.kind {
            DescribedKind::Project => of_project(api, api.get(&path).await?).await?,
            DescribedKind::Namespace => of_namespace(api, api.get(&path).await?).await?,
            DescribedKind::Tenant => of_tenant(api.get(&path).await?),
            DescribedKind::Cluster => match api.get::<MemberCluster>(&path).await {
                Err(failure) if is_offered(&failure) => of_offer(api.get(&offer).await?),
                other => of_cluster(other?),
            },
        };
        let events = Events::of(api, &self.regarded(api, name, &about.uid)).await;
        let title = screen.paint(Tone::Head, "Events");
        let events = events.shown(screen, Timestamp::now());
        print(format_args!("{}\n{title}\n{events}", about.shown(screen, self.output == View::Wide)))?;
        Ok(Outcome::Done)
    }

    fn name(&self) -> Result<&str, Failure> {
        match (self.what.name.as_deref(), self.name.as_deref()) {
            (Some(name), None) | (None, Some(name)) if !name.is_empty() => Ok(name),
            _ => Err(Failure::Usage("name one object: KIND NAME, or KIND/NAME".to_owned())),
        }
    }

    fn regarded<'a>(&self, api: &'a Api, name: &'a str, uid: &'a str) -> Regarded<'a> {
        let (kind, project) = match self.what.kind {
            DescribedKind::Project => (names::PROJECT_KIND, ""),
            DescribedKind::Namespace => (names::NAMESPACE_KIND, api.project.as_str()),
            DescribedKind::Tenant => (names::TENANT_KIND, ""),
            DescribedKind::Cluster => (names::MEMBER_CLUSTER_KIND, ""),
        };
        Regarded { kind, name, project, uid }
    }

    fn path(&self, api: &Api, name: &str) -> String {
        match self.what.kind {
            DescribedKind::Project => paths::named(names::PROJECTS, name),
            DescribedKind::Namespace => paths::namespace(&api.project, name),
            DescribedKind::Tenant => paths::named(names::TENANTS, name),
            DescribedKind::Cluster => paths::named(names::MEMBER_CLUSTERS, name),
        }
    }
}

impl Description {
    fn fact(&mut self, name: &'static str, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.facts.push(Fact { name, text });
        }
    }

    fn limits(&mut self, hard: &BTreeMap<String, HardQuantity>, given: &BTreeMap<String, UsedQuantity>) {
        let empty = ResourceList::new();
        let clusters: std::collections::BTreeSet<&String> = hard.keys().chain(given.keys()).collect();
        for cluster in clusters {
            let hard = hard.get(cluster).map_or(&empty, |quota| &quota.hard);
            let given = given.get(cluster).map_or(&empty, |quota| &quota.used);
            self.shares_of(cluster, hard, given, None);
        }
    }

    fn shares_of(
        &mut self,
        cluster: &str,
        hard: &ResourceList,
        given: &ResourceList,
        used: Option<&ResourceList>,
    ) {
        let resources: std::collections::BTreeSet<&String> = hard.keys().chain(given.keys()).collect();
        self.shares.extend(resources.into_iter().map(|resource| LimitLine {
            cluster: cluster.to_owned(),
            resource: resource.clone(),
            hard: hard.get(resource).copied(),
            allocated: amount::of(given, resource),
            held: Quantity::ZERO,
            used: used.map(|used| amount::of(used, resource)),
        }));
    }

    fn shown(&self, screen: Screen, wide: bool) -> String {
        let mut text = String::new();
        let width = self.facts.iter().map(|fact| fact.name.len()).max().unwrap_or_default() + 3;
        for Fact { name, text: fact } in &self.facts {
            let name = format!("{name}:");
            let name = screen.paint(Tone::Faint, &format!("{name:width$}"));
            text.extend([name.as_str(), &screen.hanging(&harmless_line(fact), width), "\n"]);
        }
        let section = |text: &mut String, title: &str, table: &Table| {
            if !table.is_empty() {
                let title = screen.paint(Tone::Head, title);
                text.extend(["\n", &title, "\n", &table.shown(screen, "  ")]);
            }
        };
        section(&mut text, "Amounts", &self.amounts(screen, wide));
        section(&mut text, "Access", &access::table(self.access.iter().take(ACCESS_MAX), &self.project));
        let more = self.access.len().saturating_sub(ACCESS_MAX);
        if more > 0 {
            let _infallible =
                writeln!(text, "  and {more} more: `kubectl business access list PROJECT` shows all");
        }
        section(&mut text, "Conditions", &self.condition_lines());
        section(&mut text, "Held without an object", &held_lines(&self.held));
        for difference in &self.differences {
            text.extend([screen.paint(Tone::Full, &harmless_line(difference)).as_str(), "\n"]);
        }
        text
    }

    fn amounts(&self, screen: Screen, wide: bool) -> Table {
        let mut table = Table::new(&[
            left("WHERE"),
            left("RESOURCE"),
            picture(),
            right("%"),
            right("USED"),
            right("ALLOCATED"),
            right("HARD"),
        ]);
        let shown = |amount: Quantity| if wide { amount.to_string() } else { amount::brief(amount) };
        for share in &self.shares {
            let taken = share.used.unwrap_or_else(|| amount::plus(share.allocated, share.held));
            let percent = share.hard.and_then(|hard| amount::percent(taken, hard));
            let bar = share.hard.map_or_else(String::new, |hard| {
                let used = share.used.unwrap_or(Quantity::ZERO);
                Bar { hard, allocated: taken, used }.shown(screen.without_color(), BAR)
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

    fn condition_lines(&self) -> Table {
        let mut table = Table::new(&[left("CONDITION"), left("STATUS"), left("REASON"), left("MESSAGE")]);
        for condition in &self.conditions {
            let good = if BETTER_FALSE.contains(&condition.type_.as_str()) { FALSE } else { TRUE };
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

/// Amounts that count without an object, a line each.
pub(crate) fn held_lines(held: &[HeldAmount]) -> Table {
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

async fn of_project(api: &Api, project: Project) -> Result<Description, Failure> {
    let line = objects::line_of(api, project.name()).await?;
    let above: Vec<&str> = line.iter().rev().map(Project::name).collect();
    let Project { metadata, spec, status } = project;
    let project = metadata.name.clone();
    let mut about = Description { uid: metadata.uid, project, ..Description::default() };
    about.fact("Project", metadata.name);
    about.fact("For people", spec.display_name);
    about.fact("Tenant", spec.tenant_id);
    about.fact("Line", above.join(" > "));
    about.fact("Phase", status.phase.as_str());
    if status.locked == Some(true) {
        let reason = metadata.annotations.get(names::LOCK_REASON_ANNOTATION);
        about.fact("Locked", reason.map_or("by an operator", String::as_str));
    }
    about.fact("Message", status.message);
    about.fact("Template", spec.template);
    about.fact("Projects below", status.calculated_child_projects.join(", "));
    about.fact("Namespaces", status.calculated_namespaces.join(", "));
    about.limits(&spec.clusters, &status.clusters);
    let held = objects::held_by_cluster(&status.ledger.held);
    for share in &mut about.shares {
        share.held =
            held.get(&share.cluster).map_or(Quantity::ZERO, |held| amount::of(held, &share.resource));
    }
    about.access = access::by(&line);
    about.conditions = status.conditions;
    about.held = status.ledger.held;
    about.differences = status.ledger.differences;
    Ok(about)
}

async fn of_namespace(api: &Api, namespace: Namespace) -> Result<Description, Failure> {
    let line = match objects::line_of(api, &namespace.metadata.namespace).await {
        Err(failure) if failure.is_forbidden() => Vec::new(),
        other => other?,
    };
    let Namespace { metadata, spec, status } = namespace;
    let charged = status.charged(&spec).clone();
    let mut about = Description { uid: metadata.uid, ..Description::default() };
    about.fact("Namespace", metadata.name);
    about.fact("Project", metadata.namespace);
    about.fact("Tenant", spec.tenant_id);
    about.fact("Cluster", format!("{} {}", spec.cluster_name, spec.cluster_version).trim_end());
    about.fact("Name there", spec.namespace);
    about.fact("Phase", status.phase.as_str());
    about.fact("Message", status.message);
    about.fact("Template", status.template.map(|template| template.name).unwrap_or_default());
    about.shares_of(&spec.cluster_name, &spec.hard, &charged, Some(&status.used));
    about.access = access::by(&line);
    about.conditions = status.conditions;
    Ok(about)
}

fn of_tenant(tenant: Tenant) -> Description {
    let Tenant { metadata, spec, status } = tenant;
    let mut about = Description { uid: metadata.uid, ..Description::default() };
    about.fact("Tenant", metadata.name);
    about.fact("For people", spec.display_name);
    let administrators = spec.administrators.iter().map(|one| format!("{:?} {}", one.kind, one.name));
    about.fact("Administrators", administrators.collect::<Vec<_>>().join(", "));
    about.fact("Contacts", spec.contacts.join(", "));
    about.fact("Template", spec.template);
    about.fact("Projects", status.projects.to_string());
    about.fact("Namespaces", status.namespaces.to_string());
    about.limits(&spec.clusters, &status.clusters);
    about.conditions = status.conditions;
    about
}

fn of_cluster(cluster: MemberCluster) -> Description {
    let deleting = cluster.is_deleting();
    let MemberCluster { metadata, spec, status } = cluster;
    let hard = spec.grantable(&status.capacity);
    let mut about = Description { uid: metadata.uid, ..Description::default() };
    about.fact("Cluster", metadata.name.clone());
    about.fact("For people", spec.display_name);
    about.fact("Version", status.version);
    about.fact("Tenants", spec.tenants.join(", "));
    about.fact(
        "State",
        match (deleting, spec.cordoned) {
            (true, _) => "being deleted",
            (false, true) => "cordoned: nothing new, nothing grows",
            (false, false) => "open",
        },
    );
    about.fact("People reach it", spec.endpoint.map(|endpoint| endpoint.server).unwrap_or_default());
    about.fact("Namespaces", status.namespaces.to_string());
    about.shares_of(&metadata.name, &hard, &status.granted, None);
    for share in &mut about.shares {
        share.used = status.consumed.get(&share.resource).copied();
    }
    about.conditions = status.conditions;
    about
}

fn of_offer(offer: ClusterOffer) -> Description {
    let mut about = Description { uid: offer.metadata.uid, ..Description::default() };
    about.fact("Cluster", offer.metadata.name.clone());
    about.fact("Answers", if offer.reachable { "yes" } else { "no" });
    about.fact("State", if offer.cordoned { "cordoned: nothing new, nothing grows" } else { "open" });
    for share in offer.tenants {
        let given = share.hard.iter().map(|(resource, hard)| {
            (resource.clone(), amount::less(*hard, amount::of(&share.left, resource)))
        });
        let place = format!("{} ({})", offer.metadata.name, share.tenant_id);
        about.shares_of(&place, &share.hard, &given.collect(), None);
    }
    about
}
