//! The plan of an import: parse, check, convert, plan. Pure: the same records and the same database give the same plan.

use super::candidate::{Candidate, ConvertSettings};
use super::check::Checker;
use super::draft::Draft;
use super::finding::{ImportFinding, Rule};
use super::limits;
use super::own_platform;
use super::record::{SourceRecord, UnreadableRecord};
use super::relations::{self, UnfinishedEmigrations};
use crate::kinds::KindTable;
use business_types::names::PROJECTS;
use std::collections::{BTreeMap, BTreeSet};
use store::Key;
use store::hold::Hold;
use store::import::{ExistingObject, Imported};
use store::model::NewState;
use store::quota::{Account, Claim};
use uuid::Uuid;

/// A plan.
#[derive(Debug, Default)]
pub struct Plan {
    /// The objects to write, each scope before the objects that are charged to it.
    pub objects: Vec<Imported>,
    /// What becomes of the objects of each kind, by its plural.
    pub counts: BTreeMap<String, Count>,
    /// The findings, sorted.
    pub findings: Vec<ImportFinding>,
    /// Member clusters that objects live in or are limited in.
    pub clusters: BTreeSet<String>,
    /// Tenants that own objects.
    pub tenants: BTreeSet<String>,
    /// The number of objects in the database that are not of this import, without the program's own platform.
    pub others: usize,
    /// The program's own platform, if an imported one replaces it. It is deleted before anything is written.
    pub replaced: Option<ReplacedObject>,
}

/// An object that an imported one replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedObject {
    /// Its key.
    pub key: Key,
    /// Its uid.
    pub uid: Uuid,
}

/// What becomes of the objects of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Objects in the source.
    pub read: usize,
    /// How many of these are to be written.
    pub new: usize,
    /// How many of these are in the database already.
    pub present: usize,
}

/// Plans an import into a database of these kinds that has what is `present`, and amounts of objects that are gone.
pub fn plan(
    kinds: KindTable,
    settings: &ConvertSettings,
    records: impl IntoIterator<Item = Result<SourceRecord, UnreadableRecord>>,
    present: &[ExistingObject],
    holds: &[Hold],
) -> Plan {
    let (mut draft, mut emigrations, mut plan) =
        (Draft::default(), UnfinishedEmigrations::default(), Plan::default());
    let checker = Checker::new(kinds, settings);
    for record in records {
        match record {
            Ok(record) => {
                plan.counts.entry(record.object_ref.resource.clone()).or_default().read += 1;
                emigrations.record(&record);
                checker.check(record, &mut draft);
            }
            Err(UnreadableRecord { object_ref, why }) => {
                plan.counts.entry(object_ref.resource.clone()).or_default().read += 1;
                draft.add_finding(Rule::Unreadable, &object_ref, why);
            }
        }
    }
    let replaced = own_platform::find_replaced(&mut draft, kinds, present);
    plan.replaced = replaced.map(|own| ReplacedObject { key: own.key.clone(), uid: own.uid });
    let staying: Vec<&ExistingObject> = present.iter().filter(|there| Some(*there) != replaced).collect();
    plan.others = match_database(&mut draft, own_platform::key(kinds).as_ref(), &staying, holds);
    relations::align_with_projects(&mut draft);
    relations::resolve_claim_conflicts(&mut draft, &existing_claims(kinds, &staying), holds);
    relations::undo_unfinished_emigrations(&mut draft, &emigrations);
    relations::finish_emigrations(&mut draft);
    relations::detach_invalid_parents(&mut draft);
    limits::add_missing_clusters(&mut draft);
    limits::report_missing_resources(&mut draft);
    (plan.clusters, plan.tenants) = relations::clusters_and_tenants(&draft);
    sort_candidates(&mut draft);
    let objects = to_imported(&mut draft);
    let accounts: Vec<Account> = objects.iter().map(|object| object.state.account.clone()).collect();
    limits::report_sums(&mut draft, &accounts);
    for (object, candidate) in objects.into_iter().zip(&draft.candidates) {
        let count = plan.counts.entry(candidate.object_ref.resource.clone()).or_default();
        if candidate.is_present {
            count.present += 1;
        } else {
            count.new += 1;
            plan.objects.push(object);
        }
    }
    plan.findings = draft.findings;
    plan.findings.sort();
    plan
}

/// Compares the candidates with the database: marks those that are present, and excludes those whose name or uid
/// another object or a hold has. Returns the number of other objects in the database, without the program's own
/// platform.
fn match_database(
    draft: &mut Draft,
    own: Option<&Key>,
    present: &[&ExistingObject],
    holds: &[Hold],
) -> usize {
    let held: BTreeMap<Uuid, &Hold> = holds.iter().map(|hold| (hold.uid, hold)).collect();
    let by_key: BTreeMap<&Key, Uuid> = present.iter().map(|there| (&there.key, there.uid)).collect();
    let by_uid: BTreeMap<Uuid, &Key> = present.iter().map(|there| (there.uid, &there.key)).collect();
    let key = |candidate: &Candidate| {
        Key::new(candidate.kind.stored.id, &candidate.object_ref.project, &candidate.object_ref.name)
    };
    let (mut seen, mut names) = (BTreeMap::new(), BTreeSet::new());
    draft.exclude(Rule::Taken, |candidate| {
        let key = key(candidate);
        if !names.insert(candidate.object_ref.clone()) {
            return Some("it stands in the source twice; the first comes".to_owned());
        }
        if let Some(other) = seen.insert(candidate.uid, candidate.object_ref.clone()) {
            return Some(format!("its uid {} is also that of {other}", candidate.uid));
        }
        match (by_key.get(&key), by_uid.get(&candidate.uid), held.get(&candidate.uid)) {
            (Some(uid), _, _) if *uid != candidate.uid => {
                Some(format!("an object of this name is in the database, with uid {uid}"))
            }
            (None, Some(other), _) => Some(format!("its uid is that of {} in the database", other.name)),
            (None, None, Some(hold)) => Some(format!(
                "it was in this database, and what it had is {}",
                relations::describe_hold(hold)
            )),
            _ => None,
        }
    });
    let mut known = BTreeSet::new();
    for candidate in &mut draft.candidates {
        let key = key(candidate);
        candidate.is_present = by_key.contains_key(&key);
        known.insert(key);
    }
    present.iter().filter(|there| Some(&there.key) != own && !known.contains(&there.key)).count()
}

/// The claims of the objects in the database, each with the uid of its object.
fn existing_claims(kinds: KindTable, present: &[&ExistingObject]) -> BTreeMap<Claim, Uuid> {
    let readers: BTreeMap<_, _> = kinds.accounts().map(|known| (known.kind, known.read)).collect();
    let mut places = BTreeMap::new();
    for there in present {
        let Some(read) = readers.get(&there.key.kind) else { continue };
        let claims = read(there.body.as_bytes()).map(|account| account.claims).unwrap_or_default();
        places.extend(claims.into_iter().map(|claim| (claim, there.uid)));
    }
    places
}

fn sort_candidates(draft: &mut Draft) {
    let depths = draft.depths();
    draft.candidates.sort_by_cached_key(|candidate| {
        let depth = depths.get(&candidate.object_ref.name).filter(|_| candidate.is(PROJECTS));
        (candidate.kind.order, depth.copied().unwrap_or_default(), candidate.object_ref.clone())
    });
}

/// The candidates in their stored form, in their order. Those that do not decode as their kind are excluded.
fn to_imported(draft: &mut Draft) -> Vec<Imported> {
    let mut objects = Vec::with_capacity(draft.candidates.len());
    draft.exclude(Rule::Unreadable, |candidate| {
        let body = candidate.object.to_stored();
        match candidate.account(&body) {
            Ok(account) => {
                let object_ref = &candidate.object_ref;
                let key = Key::new(candidate.kind.stored.id, &object_ref.project, &object_ref.name);
                objects.push(Imported { key, uid: candidate.uid, state: NewState { body, account } });
                None
            }
            Err(error) => Some(error.to_string()),
        }
    });
    objects
}
