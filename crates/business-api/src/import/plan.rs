//! What an import would do: parse, check, mend, plan. Pure: the same records and the same database give the same plan.

use super::candidate::{Candidate, MendRules};
use super::check::Checker;
use super::draft::Draft;
use super::finding::{ImportFinding, Rule};
use super::limits;
use super::own;
use super::record::{SourceRecord, Unreadable};
use super::relations::{self, Emigrations};
use crate::kinds::KindTable;
use business_types::names::PROJECTS;
use std::collections::{BTreeMap, BTreeSet};
use store::Key;
use store::import::{Imported, Present};
use store::model::NewState;
use store::quota::{Account, Claim};
use uuid::Uuid;

/// What is to be done.
#[derive(Debug, Default)]
pub struct Plan {
    /// The objects to write, scopes before the objects that pay them.
    pub objects: Vec<Imported>,
    /// What becomes of the objects of each kind, by its plural.
    pub counts: BTreeMap<String, Count>,
    /// What there is to say, sorted.
    pub findings: Vec<ImportFinding>,
    /// Member clusters that objects live in or are limited in.
    pub clusters: BTreeSet<String>,
    /// Tenants that own objects.
    pub tenants: BTreeSet<String>,
    /// Objects of the database that are not of this import, without the program's own.
    pub others: usize,
    /// The program's own object, which is removed before anything is written, if an imported one takes its place.
    pub replaced: Option<Replaced>,
}

/// An object that gives way to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Where it is.
    pub key: Key,
    /// Its identity.
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

/// Plans an import into a database of these kinds that holds what is `present`.
pub fn plan(
    kinds: KindTable,
    rules: &MendRules,
    records: impl IntoIterator<Item = Result<SourceRecord, Unreadable>>,
    present: &[Present],
) -> Plan {
    let (mut draft, mut emigrations, mut plan) = (Draft::default(), Emigrations::default(), Plan::default());
    let checker = Checker::new(kinds, rules);
    for record in records {
        match record {
            Ok(record) => {
                plan.counts.entry(record.named.resource.clone()).or_default().read += 1;
                emigrations.note(&record);
                checker.take(record, &mut draft);
            }
            Err(Unreadable { named, why }) => {
                plan.counts.entry(named.resource.clone()).or_default().read += 1;
                draft.find(Rule::Unreadable, &named, why);
            }
        }
    }
    let replaced = own::replaced(&mut draft, kinds, present);
    plan.replaced = replaced.map(|own| Replaced { key: own.key.clone(), uid: own.uid });
    let staying: Vec<&Present> = present.iter().filter(|there| Some(*there) != replaced).collect();
    plan.others = meet(&mut draft, own::key(kinds).as_ref(), &staying);
    relations::settle_projects(&mut draft);
    relations::share_places(&mut draft, &places(kinds, &staying));
    relations::undo_emigrations(&mut draft, &emigrations);
    relations::end_emigrations(&mut draft);
    relations::cut_parents(&mut draft);
    limits::list_clusters(&mut draft);
    limits::find_missing_keys(&mut draft);
    (plan.clusters, plan.tenants) = relations::spoken_of(&draft);
    order(&mut draft);
    let objects = stored(&mut draft);
    let accounts: Vec<Account> = objects.iter().map(|object| object.state.account.clone()).collect();
    limits::compare(&mut draft, &accounts);
    for (object, candidate) in objects.into_iter().zip(&draft.candidates) {
        let count = plan.counts.entry(candidate.named.resource.clone()).or_default();
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

/// Finds out what is in the database already. Returns the number of other objects there, without the program's own.
fn meet(draft: &mut Draft, own: Option<&Key>, present: &[&Present]) -> usize {
    let by_key: BTreeMap<&Key, Uuid> = present.iter().map(|there| (&there.key, there.uid)).collect();
    let by_uid: BTreeMap<Uuid, &Key> = present.iter().map(|there| (there.uid, &there.key)).collect();
    let key = |candidate: &Candidate| {
        Key::new(candidate.kind.stored.id, &candidate.named.project, &candidate.named.name)
    };
    let (mut seen, mut names) = (BTreeMap::new(), BTreeSet::new());
    draft.leave_out(Rule::Taken, |candidate| {
        let key = key(candidate);
        if !names.insert(candidate.named.clone()) {
            return Some("it stands in the source twice; the first comes".to_owned());
        }
        if let Some(other) = seen.insert(candidate.uid, candidate.named.clone()) {
            return Some(format!("its uid {} is also that of {other}", candidate.uid));
        }
        match (by_key.get(&key), by_uid.get(&candidate.uid)) {
            (Some(uid), _) if *uid != candidate.uid => {
                Some(format!("an object of this name is in the database, with uid {uid}"))
            }
            (None, Some(other)) => Some(format!("its uid is that of {} in the database", other.name)),
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

/// The places of the database, and who has them.
fn places(kinds: KindTable, present: &[&Present]) -> BTreeMap<Claim, Uuid> {
    let readers: BTreeMap<_, _> = kinds.accounts().map(|known| (known.kind, known.read)).collect();
    let mut places = BTreeMap::new();
    for there in present {
        let Some(read) = readers.get(&there.key.kind) else { continue };
        let claims = read(there.body.as_bytes()).map(|account| account.claims).unwrap_or_default();
        places.extend(claims.into_iter().map(|claim| (claim, there.uid)));
    }
    places
}

fn order(draft: &mut Draft) {
    let depths = draft.depths();
    draft.candidates.sort_by_cached_key(|candidate| {
        let depth = depths.get(&candidate.named.name).filter(|_| candidate.is(PROJECTS));
        (candidate.kind.order, depth.copied().unwrap_or_default(), candidate.named.clone())
    });
}

/// The candidates as they are stored, in their order. Objects that do not read as their kind are left out.
fn stored(draft: &mut Draft) -> Vec<Imported> {
    let mut objects = Vec::with_capacity(draft.candidates.len());
    draft.leave_out(Rule::Unreadable, |candidate| {
        let body = candidate.object.to_stored();
        match candidate.account(&body) {
            Ok(account) => {
                let named = &candidate.named;
                let key = Key::new(candidate.kind.stored.id, &named.project, &named.name);
                objects.push(Imported { key, uid: candidate.uid, state: NewState { body, account } });
                None
            }
            Err(error) => Some(error.to_string()),
        }
    });
    objects
}
