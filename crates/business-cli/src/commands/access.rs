use crate::api::Api;
use crate::dry_run::{DryRunFlag, suffix};
use crate::failure::{Failure, Outcome};
use crate::objects::{self, Namespace, Project};
use crate::output::{self, OutputFormat};
use crate::paths;
use crate::screen::{Cell, Screen, Table, left, note, print, sanitize};
use business_types::access::AccessRole;
use business_types::condition::OTHER_ACCESS;
use business_types::{AccessEntry, Condition, Subject, SubjectKind, names};
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

/// How often the update is tried, if somebody else changes the project meanwhile.
const ATTEMPTS_MAX: usize = 5;

const EXAMPLES: &str = "\
Examples:
  kubectl business access list shop
  kubectl business access add shop --user alice --role admin
  kubectl business access add shop --group shop-developers --role edit
  kubectl business access add shop --service-account gitops:argocd --role edit
  kubectl business access add shop --service-account ci:deployer --cluster east --role edit
  kubectl business access remove shop --user alice";

/// Who may do what in a project, and in those below it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Access {
    #[command(subcommand)]
    act: AccessCommand,
}

#[derive(Debug, Subcommand)]
enum AccessCommand {
    /// Who has a role, here or from above
    #[command(visible_alias = "ls", after_help = EXAMPLES)]
    List {
        /// The project
        project: String,
        /// How to show it
        #[arg(long, short, value_enum, default_value_t)]
        output: OutputFormat,
    },
    /// Give somebody a role, or another one
    #[command(after_help = EXAMPLES)]
    Add {
        /// The project
        project: String,
        #[command(flatten)]
        who: SubjectFlags,
        /// What he may do
        #[arg(long, value_enum)]
        role: Role,
        #[command(flatten)]
        dry_run: DryRunFlag,
    },
    /// Take somebody's role away, and show what he may have left inside
    #[command(visible_alias = "rm", after_help = EXAMPLES)]
    Remove {
        /// The project
        project: String,
        #[command(flatten)]
        who: SubjectFlags,
        #[command(flatten)]
        dry_run: DryRunFlag,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Role {
    View,
    Edit,
    Admin,
}

/// Somebody.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("who").required(true))]
struct SubjectFlags {
    /// A user
    #[arg(long, group = "who", value_name = "NAME")]
    user: Option<String>,
    /// Whoever is in a group
    #[arg(long, group = "who", value_name = "NAME")]
    group: Option<String>,
    /// A service account of the host cluster, or with --cluster of a member cluster
    #[arg(long, group = "who", value_name = "NAMESPACE:NAME")]
    service_account: Option<String>,
    /// The member cluster of a service account
    #[arg(long, requires = "service_account", value_name = "NAME")]
    cluster: Option<String>,
}

/// A subject's role, and the project that gives it.
#[derive(Debug, serde::Serialize)]
pub(crate) struct RoleHolder {
    #[serde(flatten)]
    entry: AccessEntry,
    project: String,
    /// Whether the role comes from `spec.members`: users whose credential names the tenant.
    member: bool,
}

impl Access {
    pub(crate) async fn run(&self, api: &Api, screen: Screen) -> Result<Outcome, Failure> {
        match &self.act {
            AccessCommand::List { project, output } => list(api, screen, project, *output).await?,
            AccessCommand::Add { project, who, role, dry_run } => {
                let entry = who.entry(role.to_api())?;
                let dry_run = dry_run.is_server_dry_run()?;
                let lineage = objects::lineage(api, project).await?;
                update_access(api, project, dry_run, |access| {
                    access.set(entry.clone());
                    Ok(())
                })
                .await?;
                let (who, role, would) = (subject_text(&entry), role_text(entry.role), suffix(dry_run));
                print(format_args!("project/{project}{would}: {who} has the role {role}\n"))?;
                if !entry.cluster.is_empty() && is_invisible(api, &entry.cluster).await {
                    note(format_args!(
                        "you see no cluster {}: the role counts once there is one; `kubectl get clusteroffers` shows which there are",
                        entry.cluster
                    ));
                }
                remaining_access(&lineage, project, &entry, Some(entry.role)).iter().for_each(note);
            }
            AccessCommand::Remove { project, who, dry_run } => {
                let entry = who.entry(AccessRole::View)?;
                let dry_run = dry_run.is_server_dry_run()?;
                let lineage = objects::lineage(api, project).await?;
                update_access(api, project, dry_run, |access| access.remove(&entry, project)).await?;
                let (who, would) = (subject_text(&entry), suffix(dry_run));
                print(format_args!(
                    "project/{project}{would}: {who} has no role of its own here any more\n"
                ))?;
                remaining_access(&lineage, project, &entry, None).iter().for_each(note);
                if !dry_run {
                    note_unmanaged_access(api, project).await?;
                }
            }
        }
        Ok(Outcome::Done)
    }
}

impl Role {
    fn to_api(self) -> AccessRole {
        match self {
            Self::View => AccessRole::View,
            Self::Edit => AccessRole::Edit,
            Self::Admin => AccessRole::Admin,
        }
    }
}

impl SubjectFlags {
    fn entry(&self, role: AccessRole) -> Result<AccessEntry, Failure> {
        let plain = |kind, name: &str| Subject { kind, name: name.to_owned(), namespace: String::new() };
        let subject = match (&self.user, &self.group, &self.service_account) {
            (Some(user), _, _) => plain(SubjectKind::User, user),
            (_, Some(group), _) => plain(SubjectKind::Group, group),
            (_, _, Some(account)) => {
                let (namespace, name) = account.split_once(':').ok_or_else(|| {
                    Failure::Usage(format!("--service-account is NAMESPACE:NAME, not {account:?}"))
                })?;
                Subject { namespace: namespace.to_owned(), ..plain(SubjectKind::ServiceAccount, name) }
            }
            _ => return Err(Failure::Usage("say who: --user, --group or --service-account".to_owned())),
        };
        Ok(AccessEntry { subject, cluster: self.cluster.clone().unwrap_or_default(), role })
    }
}

/// The access entries and the members of a project.
struct ProjectAccess {
    access: Vec<AccessEntry>,
    members: Vec<String>,
    touches_members: bool,
}

impl ProjectAccess {
    fn set(&mut self, entry: AccessEntry) {
        let is_same = |existing: &&mut AccessEntry| {
            existing.subject == entry.subject && existing.cluster == entry.cluster
        };
        match self.access.iter_mut().find(is_same) {
            Some(existing) => existing.role = entry.role,
            None => self.access.push(entry),
        }
    }

    fn remove(&mut self, entry: &AccessEntry, project: &str) -> Result<(), Failure> {
        let before = self.access.len() + self.members.len();
        self.access.retain(|existing| existing.subject != entry.subject || existing.cluster != entry.cluster);
        if entry.subject.kind == SubjectKind::User {
            let members = self.members.len();
            self.members.retain(|member| *member != entry.subject.name);
            self.touches_members = self.members.len() != members;
        }
        if self.access.len() + self.members.len() == before {
            let who = subject_text(entry);
            let same = |existing: &&AccessEntry| existing.subject == entry.subject;
            if let Some(other) = self.access.iter().find(same) {
                let at = match other.cluster.as_str() {
                    "" => "leave --cluster out".to_owned(),
                    cluster => format!("say --cluster {cluster}"),
                };
                let other = subject_text(other);
                return Err(Failure::Other(format!(
                    "project {project} gives {who} no role, but {other}: {at}"
                )));
            }
            return Err(Failure::Other(format!(
                "project {project} gives {who} no role itself; `kubectl business access list {project}` shows what comes \
                 from above"
            )));
        }
        Ok(())
    }
}

/// Whether the caller sees no cluster of this name.
async fn is_invisible(api: &Api, cluster: &str) -> bool {
    matches!(api.find::<Value>(&paths::object(names::CLUSTER_OFFERS, cluster)).await, Ok(None))
}

/// Reads a project's access, changes it, and writes it with the resourceVersion that was read.
async fn update_access(
    api: &Api,
    name: &str,
    dry_run: bool,
    mut change: impl FnMut(&mut ProjectAccess) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let target = paths::with_dry_run(paths::object(names::PROJECTS, name), dry_run);
    let mut attempts = 1;
    loop {
        let live = objects::get_project(api, name).await?;
        let mut access =
            ProjectAccess { access: live.spec.access, members: live.spec.members, touches_members: false };
        change(&mut access)?;
        let mut spec = json!({ "access": access.access });
        if let (true, Some(spec)) = (access.touches_members, spec.as_object_mut()) {
            spec.insert("members".to_owned(), json!(access.members));
        }
        let metadata = json!({ "resourceVersion": live.metadata.resource_version });
        match api.merge_patch(&target, &json!({"metadata": metadata, "spec": spec})).await {
            Ok(_) => return Ok(()),
            Err(failure) if failure.is_conflict() && attempts < ATTEMPTS_MAX => attempts += 1,
            Err(failure) => return Err(failure),
        }
    }
}

async fn list(api: &Api, screen: Screen, name: &str, format: OutputFormat) -> Result<(), Failure> {
    objects::get_project(api, name).await?;
    let lineage = objects::lineage(api, name).await?;
    let holders = role_holders(&lineage);
    match format {
        OutputFormat::Json | OutputFormat::Yaml => {
            return output::print_data(format, &json!({ "project": name, "access": holders }));
        }
        OutputFormat::Text | OutputFormat::Wide => {}
    }
    let table = table(&holders, name);
    if table.is_empty() {
        note("nobody has a role by the projects that you see; the tenant's administrators rule it");
    } else {
        print(table.render(screen, ""))?;
    }
    Ok(())
}

/// A table of role holders; `here` is the project that is shown.
pub(crate) fn table<'a>(holders: impl IntoIterator<Item = &'a RoleHolder>, here: &str) -> Table {
    let mut table = Table::new(&[left("WHO"), left("ROLE"), left("FROM")]);
    for holder in holders {
        let who = if holder.member {
            format!("member {}", holder.entry.subject.name)
        } else {
            subject_text(&holder.entry)
        };
        let from =
            if holder.project == here { "here".to_owned() } else { format!("project {}", holder.project) };
        table.row([Cell::from(who), role_text(holder.entry.role).into(), from.into()]);
    }
    table
}

/// All role holders of a project and its ancestors.
pub(crate) fn role_holders(lineage: &[Project]) -> Vec<RoleHolder> {
    lineage.iter().flat_map(holders).collect()
}

fn holders(project: &Project) -> Vec<RoleHolder> {
    let of = |entry, member| RoleHolder { entry, project: project.name().to_owned(), member };
    let members = project.spec.members.iter().map(|name| {
        let subject = Subject { kind: SubjectKind::User, name: name.clone(), namespace: String::new() };
        of(AccessEntry { subject, cluster: String::new(), role: AccessRole::Edit }, true)
    });
    project.spec.access.iter().cloned().map(|entry| of(entry, false)).chain(members).collect()
}

/// Notes on the roles that a subject still has after its entry in a project was changed. `given` is the role of the
/// entry now, if any. The highest of several roles counts.
fn remaining_access(
    lineage: &[Project],
    project: &str,
    entry: &AccessEntry,
    given: Option<AccessRole>,
) -> Vec<String> {
    let who = subject_text(entry);
    let holders = role_holders(lineage);
    let mut more: Vec<&RoleHolder> =
        holders.iter().filter(|one| given.is_none_or(|given| one.entry.role > given)).collect();
    let mut notes = Vec::new();
    if entry.subject.kind != SubjectKind::Group
        && more.iter().any(|one| one.entry.subject.kind == SubjectKind::Group)
    {
        notes.push(format!(
            "a role by a group counts all the same, and who is in one is not known here: `kubectl business access list {project}` \
             shows them"
        ));
    }
    more.retain(|one| one.entry.subject == entry.subject && one.entry.cluster == entry.cluster);
    for RoleHolder { entry: other, project: from, member } in more {
        let role = role_text(other.role);
        if from != project {
            notes.push(format!("{who} still has the role {role}, from project {from}: take it there"));
        } else if *member && given.is_some() {
            notes.push(format!(
                "{who} still has the role {role} as a member: `kubectl business access remove` takes it, then give the other one"
            ));
        }
    }
    let top = lineage.last().filter(|top| !top.spec.parent_project_name.is_empty());
    if let (None, Some(top)) = (given, top) {
        notes.push(format!(
            "project {} lies below one that you do not see: what comes from there stays",
            top.name()
        ));
    }
    notes
}

/// Notes on access that outlives a removed role, such as `RoleBindings` that are not ours.
async fn note_unmanaged_access(api: &Api, project: &str) -> Result<(), Failure> {
    let namespaces: Vec<Namespace> = objects::list_or_empty(api, names::NAMESPACES).await?;
    let below = descendants(&objects::list_or_empty::<Project>(api, names::PROJECTS).await?, project);
    let is_other = |condition: &&Condition| condition.type_ == OTHER_ACCESS && condition.is_true();
    for namespace in namespaces.iter().filter(|namespace| below.contains(&namespace.metadata.namespace)) {
        if let Some(other) = namespace.status.conditions.iter().find(is_other) {
            let place = format!("{}/{}", namespace.metadata.namespace, namespace.name());
            note(format_args!("look at {place}: {}", sanitize(&other.message)));
        }
    }
    note(
        "RoleBindings and tokens of ServiceAccounts that somebody has made in a namespace stay: its administrator looks there",
    );
    note(format_args!(
        "passwords of robots at the registry stay good for whoever knows them: `kubectl -n {project} get registrycredentials` \
         names them, here and in each project below; a new password ends the one before"
    ));
    Ok(())
}

/// A project and all of its descendants.
fn descendants(projects: &[Project], top: &str) -> std::collections::BTreeSet<String> {
    let mut found: std::collections::BTreeSet<String> = [top.to_owned()].into();
    loop {
        let more: Vec<String> = projects
            .iter()
            .filter(|project| {
                found.contains(&project.spec.parent_project_name) && !found.contains(project.name())
            })
            .map(|project| project.name().to_owned())
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// `user alice`, `service account ci:deployer of east`
fn subject_text(entry: &AccessEntry) -> String {
    let Subject { kind, name, namespace } = &entry.subject;
    match kind {
        SubjectKind::User => format!("user {name}"),
        SubjectKind::Group => format!("group {name}"),
        SubjectKind::ServiceAccount if entry.cluster.is_empty() => {
            format!("service account {namespace}:{name}")
        }
        SubjectKind::ServiceAccount => format!("service account {namespace}:{name} of {}", entry.cluster),
    }
}

/// The role as it is serialised.
fn role_text(role: AccessRole) -> String {
    serde_json::to_value(role).ok().as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(name: &str, parent: &str, spec: &Value) -> Project {
        let mut spec = spec.clone();
        spec["parentProjectName"] = json!(parent);
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    }

    fn entry(kind: SubjectKind, name: &str, role: AccessRole) -> AccessEntry {
        let subject = Subject { kind, name: name.to_owned(), namespace: String::new() };
        AccessEntry { subject, cluster: String::new(), role }
    }

    #[test]
    fn an_account_of_another_cluster_is_told_with_how_it_is_named() {
        let account = |cluster: &str| AccessEntry {
            cluster: cluster.to_owned(),
            ..entry(SubjectKind::ServiceAccount, "dep", AccessRole::Edit)
        };
        let mut access =
            ProjectAccess { access: vec![account("east")], members: Vec::new(), touches_members: false };
        let why = access.remove(&account(""), "web").unwrap_err().to_string();
        assert!(why.ends_with("of east: say --cluster east"), "{why}");
        access.remove(&account("east"), "web").unwrap();
        let why = access.remove(&account("east"), "web").unwrap_err().to_string();
        assert!(why.contains("no role itself"), "{why}");
    }

    #[test]
    fn what_somebody_keeps_is_told_with_where_it_comes_from() {
        let bob = |role: AccessRole| entry(SubjectKind::User, "bob", role);
        let lineage = [
            project("web", "shop", &json!({"access": [bob(AccessRole::Admin)], "members": ["bob"]})),
            project("shop", "", &json!({"access": [bob(AccessRole::Edit)]})),
        ];
        let from_shop = "user bob still has the role edit, from project shop: take it there";
        let removed = remaining_access(&lineage, "web", &bob(AccessRole::View), None);
        assert_eq!(removed, [from_shop], "what was taken here is not told");
        let lessened = remaining_access(&lineage, "web", &bob(AccessRole::View), Some(AccessRole::View));
        assert_eq!(lessened.len(), 2, "{lessened:?}");
        assert!(lessened[0].starts_with("user bob still has the role edit as a member"), "{lessened:?}");
        assert_eq!(lessened[1], from_shop);
        let same = remaining_access(&lineage, "web", &bob(AccessRole::Edit), Some(AccessRole::Edit));
        assert!(same.is_empty(), "{same:?}");
        let eve = entry(SubjectKind::User, "eve", AccessRole::View);
        assert!(remaining_access(&lineage, "web", &eve, None).is_empty());
        let elsewhere = AccessEntry { cluster: "east".to_owned(), ..bob(AccessRole::View) };
        assert!(
            remaining_access(&lineage, "web", &elsewhere, None).is_empty(),
            "an account of a cluster is another one"
        );
    }

    #[test]
    fn what_cannot_be_known_here_is_told_to_be_unknown() {
        let developers = entry(SubjectKind::Group, "developers", AccessRole::Edit);
        let lineage = [project("web", "shop", &json!({ "access": [developers] }))];
        let bob = entry(SubjectKind::User, "bob", AccessRole::View);
        let notes = remaining_access(&lineage, "web", &bob, None);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].starts_with("a role by a group counts all the same"), "{notes:?}");
        assert!(notes[1].starts_with("project web lies below one that you do not see"), "{notes:?}");
        let given = remaining_access(&lineage, "web", &bob, Some(AccessRole::Admin));
        assert!(given.is_empty(), "nothing is more than that: {given:?}");
    }
}
