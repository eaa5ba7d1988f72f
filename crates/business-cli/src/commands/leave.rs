use super::cordon::{self, CordonAction};
use super::join::{self, MEMBERS_ROLE, secret_path_of, settings, tunnel};
use crate::amount;
use crate::api::Api;
use crate::connection::duration;
use crate::failure::{Failure, Obstacle, Outcome};
use crate::objects::{self, MemberCluster, Namespace, Project, Tenant};
use crate::output::{self, OutputFormat};
use crate::paths;
use crate::screen::{Cell, Screen, Table, left, note, print};
use crate::wait::{self, Progress};
use business_types::{HeldAmount, Orphan, names};
use clap::Args;
use meta::quantity::ResourceList;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  kubectl business leave east --plan                  what is there, what it is charged, what blocks
  kubectl business leave east                         cordon it, and show the same
  kubectl business leave east --drain shop --yes      delete what project shop has there, and give its budget back
  kubectl business leave east --forget                when nothing is left

Each step can be repeated. Nothing is forgotten while anything is charged there.";

/// Advice if namespaces still exist: their budget is released only when they are gone.
const NOT_DRAINED: &str = "they are still being deleted: call the same again, and it goes on from there; give it longer with \
                           --timeout";
/// What stays in the member cluster after forgetting it, since the credentials are gone.
const STAYS: &str = "in the member cluster the controller's account, its rights and its token stay until they are taken away \
                     there: kubectl delete -k deploy/member (deploy/member-shared where it was joined with --shared; \
                     where it is the host cluster, at the very end: the namespace tke-business goes with it)";

/// Let a cluster leave: cordon it, drain it owner by owner, and forget it when it is empty (operators)
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Leave {
    /// The cluster
    cluster: String,
    /// Only look
    #[arg(long, conflicts_with_all = ["drain", "forget"])]
    plan: bool,
    /// Delete the namespaces of this project there, with what runs in them, and give its budget there back; repeat it
    /// for several
    #[arg(long, value_name = "PROJECT", requires = "yes")]
    drain: Vec<String>,
    /// Yes, delete what runs there
    #[arg(long)]
    yes: bool,
    /// Remove the record and the controller's credentials, when nothing is left
    #[arg(long)]
    forget: bool,
    /// The namespace of the Secrets of member clusters in the host cluster
    #[arg(long, default_value = names::MEMBERS_NAMESPACE, value_name = "NAME")]
    members_namespace: String,
    /// How long to wait until something is gone
    #[arg(long, default_value = "5m", value_name = "TIME", value_parser = duration)]
    timeout: Duration,
    /// How to show it
    #[arg(long, short, value_enum, default_value_t)]
    output: OutputFormat,
}

/// Something that depends on a cluster.
#[derive(Clone, Debug, Serialize)]
struct Tie {
    what: TieKind,
    owner: Owner,
    name: String,
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    amount: ResourceList,
}

/// The project; for a ceiling, the tenant.
#[derive(Clone, Debug, Serialize)]
struct Owner {
    kind: &'static str,
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum TieKind {
    Namespace,
    Held,
    Budget,
    Ceiling,
    Default,
}

/// Everything that depends on a cluster, in the order of removal.
#[derive(Debug, Serialize)]
struct Plan {
    cluster: String,
    #[serde(skip)]
    uid: String,
    #[serde(skip)]
    secret: ClusterSecret,
    cordoned: bool,
    forgotten: bool,
    ties: Vec<Tie>,
}

/// The Secret of a cluster in the host cluster.
#[derive(Debug)]
struct ClusterSecret {
    name: String,
    /// Whether the cluster's record names it and is not being deleted. As long as the Secret exists, the cluster is
    /// registered again.
    is_named: bool,
}

impl Leave {
    pub(crate) async fn run(&self, api: &Api, screen: Screen) -> Result<Outcome, Failure> {
        // A wrong context or name fails before anything is changed.
        if self.forget {
            join::check_host(api).await?;
        }
        for project in &self.drain {
            objects::get_project(api, project).await?;
        }
        if !self.plan {
            cordon::set(api, &self.cluster, CordonAction::Cordon, false).await?;
            note(format_args!("cluster {} is cordoned", self.cluster));
        }
        for project in &self.drain {
            self.drain(api, project).await?;
        }
        let plan = self.make_plan(api).await?;
        if self.forget && plan.has_only_tenant_limits() {
            self.forget(api, &plan).await?;
            return self.print_forgotten(plan);
        }
        match self.output {
            OutputFormat::Json | OutputFormat::Yaml => output::print_data(self.output, &plan)?,
            OutputFormat::Text | OutputFormat::Wide => print(plan.render(screen))?,
        }
        if self.forget {
            note(format_args!(
                "cluster {} is not forgotten: what stands in the plan goes first",
                self.cluster
            ));
        }
        // A drain succeeds even if other projects still use the cluster.
        let must_be_empty = self.forget || self.drain.is_empty();
        Ok(if must_be_empty && !plan.has_only_tenant_limits() { Outcome::No } else { Outcome::Done })
    }

    fn print_forgotten(&self, plan: Plan) -> Result<Outcome, Failure> {
        match self.output {
            OutputFormat::Json | OutputFormat::Yaml => {
                output::print_data(self.output, &Plan { forgotten: true, ties: Vec::new(), ..plan })?;
            }
            OutputFormat::Text | OutputFormat::Wide => {
                print(format_args!("cluster {} has left\n", self.cluster))?;
            }
        }
        note(STAYS);
        Ok(Outcome::Done)
    }

    async fn make_plan(&self, api: &Api) -> Result<Plan, Failure> {
        let cluster: MemberCluster = api.get(&paths::object(names::MEMBER_CLUSTERS, &self.cluster)).await?;
        let (tenants, projects, namespaces) = tokio::try_join!(
            objects::list::<Tenant>(api, names::TENANTS),
            objects::list::<Project>(api, names::PROJECTS),
            objects::list::<Namespace>(api, names::NAMESPACES),
        )?;
        Ok(Plan {
            cluster: self.cluster.clone(),
            secret: ClusterSecret::of(&self.cluster, &cluster),
            uid: cluster.metadata.uid,
            cordoned: cluster.spec.cordoned,
            forgotten: false,
            ties: ties(&self.cluster, &tenants, &projects, &namespaces),
        })
    }

    async fn drain(&self, api: &Api, project: &str) -> Result<(), Failure> {
        let here = async || -> Result<Vec<Namespace>, Failure> {
            let all = api.list::<Namespace>(&paths::namespaces_of(project)).await?;
            Ok(all.into_iter().filter(|one| one.spec.cluster_name == self.cluster).collect())
        };
        for namespace in here().await?.iter().filter(|namespace| !namespace.is_deleting()) {
            api.delete(&paths::namespace(project, namespace.name())).await?;
            note(format_args!("project {project}: namespace {} is being deleted", namespace.name()));
        }
        wait::until(&format!("the namespaces of project {project} are gone"), self.timeout, async || {
            let left: Vec<String> =
                here().await?.iter().map(|namespace| namespace.name().to_owned()).collect();
            Ok(if left.is_empty() { Progress::Done(()) } else { Progress::Pending(left.join(", ")) })
        })
        .await
        .map_err(|failure| failure.with_advice_on_timeout(NOT_DRAINED))?;
        if !objects::get_project(api, project).await?.spec.clusters.contains_key(&self.cluster) {
            note(format_args!("project {project}: it has no budget on {}", self.cluster));
            return Ok(());
        }
        let body = json!({"spec": {"clusters": {&self.cluster: null}}});
        match api.merge_patch(&paths::object(names::PROJECTS, project), &body).await {
            // Something still counts against the budget.
            Err(failure) if failure.names_field("spec.clusters") => {
                let held = holds_on(&self.cluster, &objects::get_project(api, project).await?);
                return Err(if held.is_empty() { failure } else { Failure::Blocked(held) });
            }
            given => given?,
        };
        note(format_args!("project {project}: its budget on {} is given back", self.cluster));
        Ok(())
    }

    async fn forget(&self, api: &Api, plan: &Plan) -> Result<(), Failure> {
        let secret = secret_path_of(&self.members_namespace, &plan.secret.name);
        let found: Option<Value> =
            api.find(&secret).await.map_err(|failure| failure.with_advice_on(403, MEMBERS_ROLE))?;
        if found.is_none() {
            note(plan.secret.missing(&self.cluster, &self.members_namespace)?);
        }
        for tie in &plan.ties {
            let clusters = json!({"clusters": {&self.cluster: null}});
            let (spec, what) = match tie.what {
                TieKind::Default => (json!({ "defaults": clusters }), "default"),
                _ => (clusters, "ceiling"),
            };
            api.merge_patch(&paths::object(names::TENANTS, &tie.owner.name), &json!({ "spec": spec }))
                .await?;
            note(format_args!("tenant {}: its {what} on {} is gone", tie.owner.name, self.cluster));
        }
        if !tunnel::tokens(api, &self.members_namespace, &self.cluster).revoke_all().await?.is_empty() {
            note("its agents' tokens for the tunnel are good no more");
            note(tunnel::CONNECTIONS_LAST);
        }
        // Deleted after all but the record: without it, a record that names it would stop a repeated call.
        if found.is_some() {
            match api.delete(&secret).await {
                Ok(_) => note("the controller's credentials are gone from the host cluster"),
                Err(failure) if failure.is_not_found() => {}
                Err(failure) => return Err(failure.with_advice_on(403, MEMBERS_ROLE)),
            }
        }
        let path = paths::object(names::MEMBER_CLUSTERS, &self.cluster);
        api.delete(&path).await?;
        wait::until(&format!("cluster {} is forgotten", self.cluster), self.timeout, async || {
            match api.find::<MemberCluster>(&path).await? {
                None => Ok(Progress::Done(())),
                Some(left) if left.metadata.uid == plan.uid => Ok(Progress::Pending("it is being deleted".to_owned())),
                Some(_) => Err(Failure::Other(format!(
                    "cluster {} was forgotten, and registered anew: take it out of the controller's directory first",
                    self.cluster
                ))),
            }
        })
        .await
    }
}

impl ClusterSecret {
    fn of(name: &str, cluster: &MemberCluster) -> Self {
        Self {
            name: settings::secret_name(name, Some(cluster)),
            is_named: cluster.spec.credentials.is_some() && !cluster.is_deleting(),
        }
    }

    /// The note, or the failure, if the Secret does not exist.
    fn missing(&self, cluster: &str, namespace: &str) -> Result<String, Failure> {
        let Self { name, is_named } = self;
        if *is_named {
            return Err(Failure::Other(format!(
                "the credentials of cluster {cluster} are in the Secret {name}, as its record says, and there is none in \
                 {namespace}: it is not forgotten, for while that Secret is there the cluster is registered anew\n  \
                 it is in another namespace: say in which by --members-namespace (members.namespace of the chart)\n  \
                 it has been deleted already: take it out of the record, and call this again\n    \
                 kubectl patch membercluster {cluster} --type=merge -p '{{\"spec\":{{\"credentials\":null}}}}'"
            )));
        }
        Ok(format!(
            "there is no Secret {name} in {namespace}: where the controller's directory lists cluster {cluster} by a file, take it \
             out of that, or it is registered anew"
        ))
    }
}

impl Owner {
    fn project(name: &str) -> Self {
        Self { kind: names::PROJECT_KIND, name: name.to_owned() }
    }
}

impl Plan {
    /// Whether only ceilings, and defaults of new projects, are left. They are removed together with the record.
    fn has_only_tenant_limits(&self) -> bool {
        self.ties.iter().all(|tie| matches!(tie.what, TieKind::Ceiling | TieKind::Default))
    }

    fn render(&self, screen: Screen) -> String {
        if self.ties.is_empty() {
            return format!(
                "nothing ties cluster {}: `kubectl business leave {} --forget`\n",
                self.cluster, self.cluster
            );
        }
        let mut table =
            Table::new(&[left("WHAT"), left("OWNER"), left("NAME"), left("AMOUNT"), left("GOES BY")]);
        for tie in &self.ties {
            let Tie { what, owner: Owner { name: owner, .. }, name, amount } = tie;
            let goes = match what {
                TieKind::Namespace | TieKind::Budget => {
                    format!("leave {} --drain {owner} --yes", self.cluster)
                }
                TieKind::Held => how_hold_ends(name),
                TieKind::Ceiling | TieKind::Default => format!("leave {} --forget", self.cluster),
            };
            let word = format!("{what:?}").to_lowercase();
            table.row([
                Cell::from(word),
                owner.as_str().into(),
                name.as_str().into(),
                amount::list_text(amount).into(),
                goes.into(),
            ]);
        }
        table.render(screen, "")
    }
}

/// How to remove an amount that is held without an object.
fn how_hold_ends(uid: &str) -> String {
    format!("an audit, or business-api audit --write-off {uid}")
}

/// The amounts held for a project in a cluster without an object. They keep its budget there.
fn holds_on(cluster: &str, project: &Project) -> Vec<Obstacle> {
    let here = project.status.ledger.held.iter().filter(|held| held.cluster_name == cluster);
    let told = here.map(|held| {
        let what = format!(
            "project {} keeps its budget on {cluster}: {} is held there for namespace {}, without an object",
            project.name(),
            amount::list_text(&held.hard),
            held.namespace
        );
        Obstacle::new(what, format!("it goes by {}", how_hold_ends(&held.uid)))
    });
    told.collect()
}

/// Orphans of a cluster for which nothing is held, such as a released namespace from which the next audit takes our
/// quota and marks. The cluster waits for them, too.
fn unheld_orphans<'a>(cluster: &'a str, project: &'a Project) -> impl Iterator<Item = &'a Orphan> {
    let is_held = move |orphan: &Orphan| {
        let is_of = |held: &HeldAmount| {
            held.uid == orphan.uid
                || held.cluster_name == orphan.cluster_name && held.namespace == orphan.namespace
        };
        project.status.ledger.held.iter().any(is_of)
    };
    let orphans = project.status.orphans.iter();
    orphans.filter(move |orphan| orphan.cluster_name == cluster && !is_held(orphan))
}

/// In the order of removal: namespaces, held amounts, budgets with children first, ceilings and defaults.
fn ties(cluster: &str, tenants: &[Tenant], projects: &[Project], namespaces: &[Namespace]) -> Vec<Tie> {
    let mut ties = Vec::new();
    for namespace in namespaces.iter().filter(|namespace| namespace.spec.cluster_name == cluster) {
        let amount = namespace.status.charged(&namespace.spec).clone();
        let (owner, name) = (Owner::project(&namespace.metadata.namespace), namespace.metadata.name.clone());
        ties.push(Tie { what: TieKind::Namespace, owner, name, amount });
    }
    for project in projects {
        for held in project.status.ledger.held.iter().filter(|held| held.cluster_name == cluster) {
            let (owner, name) = (Owner::project(project.name()), held.uid.clone());
            ties.push(Tie { what: TieKind::Held, owner, name, amount: held.hard.clone() });
        }
        for orphan in unheld_orphans(cluster, project) {
            let (owner, name) = (Owner::project(project.name()), orphan.uid.clone());
            ties.push(Tie { what: TieKind::Held, owner, name, amount: orphan.hard.clone() });
        }
    }
    let parents: HashMap<&str, &str> =
        projects.iter().map(|project| (project.name(), project.spec.parent_project_name.as_str())).collect();
    let depth = |name: &str| {
        std::iter::successors(Some(name), |name| parents.get(name).copied()).take(projects.len() + 1).count()
    };
    let mut budgets: Vec<&Project> =
        projects.iter().filter(|project| project.spec.clusters.contains_key(cluster)).collect();
    budgets.sort_by_key(|project| std::cmp::Reverse(depth(project.name())));
    for project in budgets {
        let amount = project.spec.clusters.get(cluster).map(|quota| quota.hard.clone()).unwrap_or_default();
        let owner = Owner::project(project.name());
        ties.push(Tie { what: TieKind::Budget, name: owner.name.clone(), owner, amount });
    }
    for tenant in tenants {
        let limits =
            [(TieKind::Ceiling, &tenant.spec.clusters), (TieKind::Default, &tenant.spec.defaults.clusters)];
        for (what, clusters) in limits {
            let Some(quota) = clusters.get(cluster) else { continue };
            let owner = Owner { kind: names::TENANT_KIND, name: tenant.metadata.name.clone() };
            ties.push(Tie { what, name: owner.name.clone(), owner, amount: quota.hard.clone() });
        }
    }
    ties
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret_of(record: &Value) -> ClusterSecret {
        ClusterSecret::of("east", &serde_json::from_value(record.clone()).unwrap())
    }

    #[test]
    fn a_default_of_new_projects_ties_a_cluster_and_goes_with_its_record() {
        let hard = json!({"east": {"hard": {"pods": "2"}}});
        let tenant = json!({"metadata": {"name": "acme"}, "spec": {"defaults": {"clusters": hard}}});
        let tenants = [serde_json::from_value(tenant).unwrap()];
        let ties = ties("east", &tenants, &[], &[]);
        assert_eq!(ties.len(), 1);
        assert_eq!((ties[0].what, ties[0].owner.name.as_str()), (TieKind::Default, "acme"));
        let plan = Plan {
            cluster: "east".into(),
            uid: String::new(),
            secret: secret_of(&json!({})),
            cordoned: true,
            forgotten: false,
            ties,
        };
        assert!(plan.has_only_tenant_limits());
    }

    #[test]
    fn what_is_held_is_named_with_how_it_goes() {
        let held = json!([
            {"uid": "u1", "clusterName": "east", "namespace": "lost", "hard": {"pods": "2"}},
            {"uid": "u2", "clusterName": "west", "namespace": "lost", "hard": {"pods": "2"}},
        ]);
        let project = json!({"metadata": {"name": "shop"}, "status": {"ledger": {"held": held}}});
        let told = holds_on("east", &serde_json::from_value(project).unwrap());
        assert_eq!(told.len(), 1);
        assert!(told[0].next.ends_with("business-api audit --write-off u1"), "{}", told[0].next);
    }

    #[test]
    fn what_was_released_ties_a_cluster_until_an_audit_has_emptied_it() {
        let orphans = json!([
            {"clusterName": "east", "namespace": "held", "uid": "w1", "state": "Unused", "hard": {"pods": "2"}},
            {"clusterName": "east", "namespace": "free", "uid": "w2", "state": "Unused", "hard": {"pods": "2"}},
            {"clusterName": "west", "namespace": "free", "uid": "w3", "state": "Unused", "hard": {"pods": "2"}},
        ]);
        let held = json!([{"uid": "u1", "clusterName": "east", "namespace": "held", "hard": {"pods": "2"}}]);
        let status = json!({"orphans": orphans, "ledger": {"held": held, "writtenOff": ["w2"]}});
        let project = json!({"metadata": {"name": "shop"}, "status": status});
        let ties = ties("east", &[], &[serde_json::from_value(project).unwrap()], &[]);
        let told: Vec<(TieKind, &str)> = ties.iter().map(|tie| (tie.what, tie.name.as_str())).collect();
        assert_eq!(told, [(TieKind::Held, "u1"), (TieKind::Held, "w2")]);
    }

    #[test]
    fn the_secret_that_the_record_names_is_the_one_that_goes() {
        let named = secret_of(&json!({"spec": {"credentials": {"secretName": "by-hand"}}}));
        assert_eq!((named.name.as_str(), named.is_named), ("by-hand", true));
        let not = secret_of(&json!({}));
        assert_eq!((not.name.as_str(), not.is_named), ("cluster-east", false));
    }

    #[test]
    fn a_record_whose_secret_is_elsewhere_stays() {
        let named = json!({"spec": {"credentials": {"secretName": "by-hand"}}});
        let why = secret_of(&named).missing("east", "members").unwrap_err().to_string();
        for part in [
            "the Secret by-hand,",
            "none in members:",
            "--members-namespace",
            "kubectl patch membercluster east --type=merge -p '{\"spec\":{\"credentials\":null}}'",
        ] {
            assert!(why.contains(part), "{part}: {why}");
        }
        let mut going = named;
        going["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        for record in [going, json!({"spec": {"credentials": null}})] {
            let told = secret_of(&record).missing("east", "members").unwrap();
            assert!(told.contains("registered anew"), "{told}");
        }
    }
}
