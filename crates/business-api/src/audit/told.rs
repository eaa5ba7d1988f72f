//! What the status of a project says of the audits: orphans, from the controller; differences and holds, from here.

use super::orphans;
use crate::follow;
use crate::kind_ids::PROJECT;
use business_types::{ChargedProject, HeldAmount, LedgerStatus, Orphan, ProjectStatus, account};
use meta::object::Object;
use meta::quantity::{Format, Quantity, ResourceList};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::slice;
use std::sync::Arc;
use store::audit::Difference;
use store::hold::Hold;
use store::model::Write;
use store::read::{At, ListQuery};
use store::{Access, Entry, Error, Revision, Store};
use uuid::Uuid;

/// Differences that a status names; of more, it gives the number.
const NAMED_MAX: usize = 20;
const LEDGER: &[&str] = &["status", "ledger"];

/// What a project's status says.
#[derive(Debug)]
pub(super) struct ToldStatus {
    pub(super) revision: Revision,
    pub(super) orphans: Vec<Orphan>,
    pub(super) ledger: LedgerStatus,
}

/// What the statuses of all projects say.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Those that say something, by the project's name.
    pub(super) projects: BTreeMap<String, ToldStatus>,
    /// Projects whose status cannot be read: while there is one, nothing is written off, and growth does not go on.
    pub(super) unread: BTreeSet<String>,
}

/// Reads what the statuses of all projects say.
pub(super) async fn read(store: &Store, access: &Access) -> Result<Told, Error> {
    Ok(Told::of(&projects(store, access).await?))
}

impl Told {
    /// A project that cannot be read keeps nobody from hearing of the others.
    fn of(entries: &[Arc<Entry>]) -> Self {
        let mut told = Self::default();
        for entry in entries {
            if !mentions(entry, "\"orphans\"") && !mentions(entry, "\"ledger\"") {
                continue;
            }
            let name = entry.key.name.to_string();
            match status_of(entry) {
                Ok(ProjectStatus { orphans, ledger, .. }) => {
                    let revision = entry.revision;
                    told.projects.insert(name, ToldStatus { revision, orphans, ledger });
                }
                Err(error) => {
                    tracing::error!(%error, "the status of a project cannot be read");
                    told.unread.insert(name);
                }
            }
        }
        told
    }

    /// Why growth may not go on: nobody knows which orphans the other statuses tell of.
    pub(super) fn obstacle(&self) -> Option<String> {
        let first = self.unread.first()?;
        Some(format!("the status of {} projects cannot be read, such as that of {first}", self.unread.len()))
    }
}

/// What a round of writing has done.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Holds that statuses show from these revisions on.
    pub(super) shown: Vec<(Uuid, Revision)>,
    /// Whether somebody else was faster, so that a status does not say everything yet.
    pub(super) behind: bool,
}

/// What the statuses are to say.
#[derive(Debug)]
pub(super) struct News<'a> {
    pub(super) differences: &'a [Difference],
    pub(super) holds: &'a [Hold],
    /// Uids of released namespaces that nothing is held for any more, by project.
    pub(super) written_off: BTreeMap<String, Vec<String>>,
}

/// Brings every project's status to what the audit has found.
pub(super) async fn write(store: &Store, access: &Access, news: News<'_>) -> Result<Round, Error> {
    let News { differences, holds, written_off } = news;
    let mut wanted: BTreeMap<&str, LedgerStatus> = BTreeMap::new();
    for (project, uids) in &written_off {
        wanted.entry(project).or_default().written_off.clone_from(uids);
    }
    for difference in differences {
        for project in projects_of(difference) {
            wanted.entry(project).or_default().differences.push(difference.to_string());
        }
    }
    for hold in holds {
        wanted.entry(&hold.scope.name).or_default().held.push(held(hold));
    }
    for status in wanted.values_mut() {
        let more = status.differences.len().saturating_sub(NAMED_MAX);
        if more > 0 {
            status.differences.truncate(NAMED_MAX);
            status.differences.push(format!("and {more} more"));
        }
    }
    let mut round = Round::default();
    for entry in projects(store, access).await? {
        let wanted = wanted.remove(&*entry.key.name).unwrap_or_default();
        if wanted.is_empty() && !mentions(&entry, "\"ledger\"") {
            continue;
        }
        // What cannot be read was logged when it was read.
        let Ok(status) = status_of(&entry) else { continue };
        if status.ledger == wanted {
            continue;
        }
        match put(store, access, &entry, &wanted).await {
            Ok(revision) => {
                let uids = wanted.held.iter().filter_map(|held| held.uid.parse().ok());
                round.shown.extend(uids.map(|uid| (uid, revision)));
            }
            Err(Error::Conflict | Error::NotFound) => round.behind = true,
            Err(Error::Corrupt(why)) => tracing::error!(why, "a project cannot say what the audit has found"),
            Err(error) => return Err(error),
        }
    }
    Ok(round)
}

async fn projects(store: &Store, access: &Access) -> Result<Vec<Arc<Entry>>, Error> {
    let query = ListQuery {
        selection: follow::select_kind(PROJECT),
        at: At::Latest,
        limit: None,
        continue_token: None,
    };
    Ok(store.list(access, &query).await?.items)
}

fn mentions(entry: &Entry, field: &str) -> bool {
    std::str::from_utf8(&entry.body).is_ok_and(|body| body.contains(field))
}

fn status_of(entry: &Entry) -> Result<ProjectStatus, Error> {
    let object = Object::from_stored(&entry.body, entry.revision.0).map_err(|error| corrupt(entry, error))?;
    ProjectStatus::of(&object).map_err(|error| corrupt(entry, error))
}

fn corrupt(entry: &Entry, error: impl std::fmt::Display) -> Error {
    Error::Corrupt(format!("project {}: {error}", entry.key.name))
}

fn projects_of(difference: &Difference) -> Vec<&str> {
    let scopes = match difference {
        Difference::Object { key, .. } if key.kind == PROJECT => return vec![&key.name],
        Difference::Object { key, .. } => return vec![&key.namespace],
        Difference::Circle { scopes } => scopes.as_slice(),
        Difference::Ledger { .. } | Difference::Claim { .. } => {
            difference.scope().map_or(&[][..], slice::from_ref)
        }
    };
    let projects = scopes.iter().filter(|scope| scope.kind == account::PROJECT);
    projects.map(|scope| scope.name.as_str()).collect()
}

pub(super) fn held(hold: &Hold) -> HeldAmount {
    let mut hard = ResourceList::new();
    for amounts in hold.amounts.values() {
        hard.extend(amounts.iter().map(|(resource, amount)| (resource.clone(), shown(resource, *amount))));
    }
    let cluster_name = orphans::clusters(hold).next().unwrap_or_default().to_owned();
    let namespace = hold.claim.as_ref().map(|claim| claim.place.clone()).unwrap_or_default();
    let state = hold.state.as_str().to_owned();
    HeldAmount {
        uid: hold.uid.to_string(),
        state,
        cluster_name,
        namespace,
        hard,
        reason: hold.reason.clone(),
    }
}

/// The ledger's amounts have lost their suffix: bytes are shown as people write them.
fn shown(resource: &str, amount: Quantity) -> Quantity {
    let bytes = resource.ends_with("memory") || resource.ends_with("storage");
    Quantity::from_nanos(amount.nanos(), if bytes { Format::BinarySi } else { amount.format() })
}

/// Writes the status of exactly the version that was read. Nothing that is charged changes.
async fn put(
    store: &Store,
    access: &Access,
    entry: &Entry,
    ledger: &LedgerStatus,
) -> Result<Revision, Error> {
    let mut object =
        Object::from_stored(&entry.body, entry.revision.0).map_err(|error| corrupt(entry, error))?;
    if ledger.is_empty() {
        object.remove(LEDGER);
    } else {
        object.set(LEDGER, json!(ledger));
    }
    let account = account::of::<ChargedProject>(&object).map_err(|error| corrupt(entry, error))?;
    store.write(access, Write::rewrite(entry, object.to_stored(), account)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use store::{Attributes, Key};

    fn stored(name: &str, status: &Value) -> Arc<Entry> {
        let body = json!({"kind": "Project", "metadata": {"name": name}, "status": status});
        Arc::new(Entry {
            key: Key::new(PROJECT, "", name),
            uid: Uuid::nil(),
            revision: Revision(7),
            body: body.to_string().into(),
            attributes: Attributes::default(),
        })
    }

    #[test]
    fn a_status_that_cannot_be_read_hides_no_other() {
        let orphans = json!([{"clusterName": "c1", "namespace": "lost", "uid": Uuid::nil()}]);
        let told = Told::of(&[
            stored("a", &json!({"orphans": 1})),
            stored("b", &json!({ "orphans": orphans })),
            stored("c", &json!({"phase": "Active"})),
        ]);
        assert_eq!(told.projects.keys().collect::<Vec<_>>(), ["b"]);
        assert_eq!(told.projects["b"].orphans[0].namespace, "lost");
        assert!(told.obstacle().unwrap().ends_with("such as that of a"));
        assert_eq!(Told::of(&[stored("b", &json!({ "orphans": orphans }))]).obstacle(), None);
    }
}
