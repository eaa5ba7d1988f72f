//! The audit in the status of projects: the controller reports orphans there, and this program differences and holds.

use super::orphans;
use crate::clusters;
use crate::follow;
use crate::kind_ids::{MEMBER_CLUSTER, PROJECT};
use business_types::{
    ChargedProject, Comparison, HeldAmount, LedgerStatus, Orphan, OrphanState, ProjectStatus, account,
};
use meta::object::Object;
use meta::quantity::{Format, Quantity, ResourceList};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::slice;
use std::sync::Arc;
use store::audit::Difference;
use store::hold::Hold;
use store::model::{Key, Write};
use store::quota::Scope;
use store::read::{At, ListQuery};
use store::{Access, Entry, Error, KindId, Revision, Store};
use uuid::Uuid;

/// The most differences that a status names; of more, it gives the number.
const NAMED_MAX: usize = 20;
/// How often the orphans of a status are tried to be removed if somebody else changes the project at the same time.
const TRIES_MAX: usize = 5;
const LEDGER: &[&str] = &["status", "ledger"];
const ORPHANS: &[&str] = &["status", "orphans"];

/// The audit's part of a project's status.
#[derive(Debug)]
pub(super) struct ProjectAuditStatus {
    pub(super) revision: Revision,
    pub(super) orphans: Vec<Orphan>,
    pub(super) ledger: LedgerStatus,
}

/// The audit's part of the statuses of all projects.
#[derive(Debug, Default)]
pub(super) struct AuditStatuses {
    /// Statuses with such a part, by the project's name.
    pub(super) projects: BTreeMap<String, ProjectAuditStatus>,
    /// Projects whose status cannot be read. While there is one, nothing is written off and growth stays held.
    pub(super) unread: BTreeSet<String>,
}

/// Reads the audit's part of the statuses of all projects.
pub(super) async fn read(store: &Store, access: &Access) -> Result<AuditStatuses, Error> {
    Ok(AuditStatuses::of(&projects(store, access).await?))
}

impl AuditStatuses {
    /// A status that cannot be read does not hide the others.
    fn of(entries: &[Arc<Entry>]) -> Self {
        let mut statuses = Self::default();
        for entry in entries {
            if !body_contains(entry, "\"orphans\"") && !body_contains(entry, "\"ledger\"") {
                continue;
            }
            let name = entry.key.name.to_string();
            match status_of(entry) {
                Ok(ProjectStatus { orphans, ledger, .. }) => {
                    let revision = entry.revision;
                    statuses.projects.insert(name, ProjectAuditStatus { revision, orphans, ledger });
                }
                Err(error) => {
                    tracing::error!(%error, "the status of a project cannot be read");
                    statuses.unread.insert(name);
                }
            }
        }
        statuses
    }

    /// Why growth stays held if a status cannot be read: it may report orphans.
    pub(super) fn obstacle(&self) -> Option<String> {
        let first = self.unread.first()?;
        Some(format!("the status of {} projects cannot be read, such as that of {first}", self.unread.len()))
    }
}

/// What [`write`] has done.
#[derive(Debug, Default)]
pub(super) struct WriteOutcome {
    /// The holds that statuses show now, each with the revision of its status.
    pub(super) published: Vec<(Uuid, Revision)>,
    /// Whether a write failed because somebody else was faster: that status is out of date.
    pub(super) has_conflicts: bool,
}

/// What the statuses are to show.
#[derive(Debug)]
pub(super) struct AuditResults<'a> {
    pub(super) differences: &'a [Difference],
    pub(super) holds: &'a [Hold],
    /// Uids of released namespaces whose holds were written off, by project.
    pub(super) written_off: BTreeMap<String, Vec<String>>,
}

/// Writes the results of the audit to the statuses of all projects that show something else.
pub(super) async fn write(
    store: &Store,
    access: &Access,
    results: AuditResults<'_>,
) -> Result<WriteOutcome, Error> {
    let AuditResults { differences, holds, written_off } = results;
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
        wanted.entry(&hold.scope.name).or_default().held.push(held_amount(hold));
    }
    for status in wanted.values_mut() {
        let more = status.differences.len().saturating_sub(NAMED_MAX);
        if more > 0 {
            status.differences.truncate(NAMED_MAX);
            status.differences.push(format!("and {more} more"));
        }
    }
    let mut outcome = WriteOutcome::default();
    for entry in projects(store, access).await? {
        let wanted = wanted.remove(&*entry.key.name).unwrap_or_default();
        if wanted.is_empty() && !body_contains(&entry, "\"ledger\"") {
            continue;
        }
        // That it cannot be read was logged by `AuditStatuses::of`.
        let Ok(status) = status_of(&entry) else { continue };
        if status.ledger == wanted {
            continue;
        }
        let shown = (!wanted.is_empty()).then(|| json!(wanted));
        match write_field(store, access, &entry, LEDGER, shown).await {
            Ok(revision) => {
                let uids = wanted.held.iter().filter_map(|held| held.uid.parse().ok());
                outcome.published.extend(uids.map(|uid| (uid, revision)));
            }
            Err(Error::Conflict | Error::NotFound) => outcome.has_conflicts = true,
            Err(Error::Corrupt(why)) => {
                tracing::error!(why, "a project cannot say what the audit has found");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(outcome)
}

/// Removes the orphans of a hold that is written off from the status of its project; without a hold, those with this
/// uid. Returns whether there were any.
pub(super) async fn forget_orphans(
    store: &Store,
    access: &Access,
    uid: Uuid,
    hold: Option<&Hold>,
) -> Result<bool, Error> {
    let comparison = clusters::comparison(&all_of_kind(store, access, MEMBER_CLUSTER).await?);
    let mut has_removed = false;
    for _ in 0..TRIES_MAX {
        let mut has_conflicts = false;
        for entry in projects(store, access).await? {
            let project = &*entry.key.name;
            let is_of_hold = |orphan: &Orphan| match hold {
                Some(hold) => {
                    hold.scope == Scope::new(account::PROJECT, project)
                        && orphans::is_hold_of(project, orphan, hold)
                }
                None => orphan.uid.parse() == Ok(uid),
            };
            let is_removed =
                |orphan: &Orphan| is_of_hold(orphan) && !is_still_cleaned_up(orphan, &comparison);
            match remove_orphans(store, access, &entry, is_removed).await {
                Ok(removed) => has_removed |= removed,
                Err(Error::Conflict | Error::NotFound) => has_conflicts = true,
                Err(error) => return Err(error),
            }
        }
        if !has_conflicts {
            return Ok(has_removed);
        }
    }
    Err(Error::Conflict)
}

/// Whether the status of a project reports this orphan now. If it cannot be read, it may.
pub(super) async fn still_reports(store: &Store, access: &Access, project: &str, orphan: &Orphan) -> bool {
    let entry = match store.get(access, &Key::new(PROJECT, "", project), At::Latest).await {
        Ok(entry) => entry,
        Err(Error::NotFound) => return false,
        Err(_unreadable) => return true,
    };
    let is_it = |one: &Orphan| {
        (&one.uid, &one.cluster_name, &one.namespace)
            == (&orphan.uid, &orphan.cluster_name, &orphan.namespace)
    };
    status_of(&entry).map_or(true, |status| status.orphans.iter().any(is_it))
}

/// Whether the controller still removes our quota and marks from what was released: its cluster is compared.
fn is_still_cleaned_up(orphan: &Orphan, comparison: &Comparison) -> bool {
    matches!(orphan.state, OrphanState::Released | OrphanState::Unused)
        && comparison.clusters.contains_key(&orphan.cluster_name)
}

/// Removes orphans from the status of a project. Returns whether there were any.
async fn remove_orphans(
    store: &Store,
    access: &Access,
    entry: &Entry,
    is_removed: impl Fn(&Orphan) -> bool,
) -> Result<bool, Error> {
    if !body_contains(entry, "\"orphans\"") {
        return Ok(false);
    }
    // That it cannot be read is logged by `AuditStatuses::of`.
    let Ok(ProjectStatus { orphans, .. }) = status_of(entry) else { return Ok(false) };
    let left: Vec<&Orphan> = orphans.iter().filter(|orphan| !is_removed(orphan)).collect();
    if left.len() == orphans.len() {
        return Ok(false);
    }
    let left = (!left.is_empty()).then(|| json!(left));
    write_field(store, access, entry, ORPHANS, left).await.map(|_revision| true)
}

async fn projects(store: &Store, access: &Access) -> Result<Vec<Arc<Entry>>, Error> {
    all_of_kind(store, access, PROJECT).await
}

async fn all_of_kind(store: &Store, access: &Access, kind: KindId) -> Result<Vec<Arc<Entry>>, Error> {
    let selection = follow::select_kind(kind);
    let query = ListQuery { selection, at: At::Latest, limit: None, continue_token: None };
    Ok(store.list(access, &query).await?.items)
}

fn body_contains(entry: &Entry, field: &str) -> bool {
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
        Difference::Cycle { scopes } => scopes.as_slice(),
        Difference::Ledger { .. } | Difference::Claim { .. } => {
            difference.scope().map_or(&[][..], slice::from_ref)
        }
    };
    let projects = scopes.iter().filter(|scope| scope.kind == account::PROJECT);
    projects.map(|scope| scope.name.as_str()).collect()
}

pub(super) fn held_amount(hold: &Hold) -> HeldAmount {
    let mut hard = ResourceList::new();
    for amounts in hold.amounts.values() {
        hard.extend(
            amounts.iter().map(|(resource, amount)| (resource.clone(), displayed_amount(resource, *amount))),
        );
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

/// An amount for people. The ledger keeps no suffixes, so bytes get a binary one.
fn displayed_amount(resource: &str, amount: Quantity) -> Quantity {
    let bytes = resource.ends_with("memory") || resource.ends_with("storage");
    Quantity::from_nanos(amount.nanos(), if bytes { Format::BinarySi } else { amount.format() })
}

/// Sets or removes a field of the status, on the condition that the object is as it was read. No charge changes.
async fn write_field(
    store: &Store,
    access: &Access,
    entry: &Entry,
    field: &[&str],
    value: Option<Value>,
) -> Result<Revision, Error> {
    let mut object =
        Object::from_stored(&entry.body, entry.revision.0).map_err(|error| corrupt(entry, error))?;
    match value {
        Some(value) => object.set(field, value),
        None => drop(object.remove(field)),
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
        let statuses = AuditStatuses::of(&[
            stored("a", &json!({"orphans": 1})),
            stored("b", &json!({ "orphans": orphans })),
            stored("c", &json!({"phase": "Active"})),
        ]);
        assert_eq!(statuses.projects.keys().collect::<Vec<_>>(), ["b"]);
        assert_eq!(statuses.projects["b"].orphans[0].namespace, "lost");
        assert!(statuses.obstacle().unwrap().ends_with("such as that of a"));
        assert_eq!(AuditStatuses::of(&[stored("b", &json!({ "orphans": orphans }))]).obstacle(), None);
    }
}
