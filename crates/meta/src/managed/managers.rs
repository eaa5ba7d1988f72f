//! The owners of an object's fields, as `metadata.managedFields` lists them.

use super::field_set::FieldSet;
use crate::time;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

/// Entries of the operation Update that an object keeps; the oldest ones beyond that are merged.
pub(super) const UPDATE_MANAGERS_MAX: usize = 10;
const ANCIENT_CHANGES: &str = "ancient-changes";

/// What distinguishes a manager's entry from the others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ManagerIdentity {
    pub(super) manager: String,
    pub(super) applied: bool,
    /// Empty for an applier: it is the same manager in every version.
    api_version: String,
    pub(super) subresource: String,
}

impl ManagerIdentity {
    /// A manager that creates, updates or patches.
    pub(super) fn updater(manager: &str, api_version: &str, subresource: &str) -> Self {
        Self {
            manager: if manager.is_empty() { "unknown" } else { manager }.to_owned(),
            applied: false,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    /// A manager that applies.
    pub(super) fn applier(manager: &str, subresource: &str) -> Self {
        Self { applied: true, ..Self::updater(manager, "", subresource) }
    }

    fn sort_key(&self) -> (bool, &str, bool) {
        (!self.applied, &self.api_version, self.subresource.is_empty())
    }

    fn is_ancient_changes(&self) -> bool {
        self.manager == ANCIENT_CHANGES && !self.applied && self.subresource.is_empty()
    }

    /// The manager as the message of a conflict names it.
    pub(super) fn describe(&self) -> String {
        let place = match self.subresource.as_str() {
            "" => String::new(),
            subresource => format!(" with subresource {subresource:?}"),
        };
        let version = if self.applied { String::new() } else { format!(" using {}", self.api_version) };
        format!("{:?}{place}{version}", self.manager)
    }
}

impl Ord for ManagerIdentity {
    fn cmp(&self, other: &Self) -> Ordering {
        // Upstream sorts by a JSON text: appliers before updaters of the same name, subresources before the object
        // itself.
        let names = self.manager.cmp(&other.manager).then_with(|| self.sort_key().cmp(&other.sort_key()));
        names.then_with(|| self.subresource.cmp(&other.subresource))
    }
}

impl PartialOrd for ManagerIdentity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A manager and what it owns.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ManagerEntry {
    pub(super) identity: ManagerIdentity,
    pub(super) api_version: String,
    pub(super) time: Option<String>,
    pub(super) fields: FieldSet,
}

/// Update entries of one version that are merged.
struct Bucket {
    /// The entry that the others are merged into.
    target: usize,
    others: Vec<usize>,
}

/// All managers of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Managers(pub(super) Vec<ManagerEntry>);

impl Managers {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get_mut(&mut self, identity: &ManagerIdentity) -> Option<&mut ManagerEntry> {
        self.0.iter_mut().find(|entry| entry.identity == *identity)
    }

    /// Changes a manager's entry. Creates it if there is none.
    pub(super) fn change(
        &mut self,
        identity: &ManagerIdentity,
        api_version: &str,
        change: impl FnOnce(&mut ManagerEntry),
    ) {
        if let Some(entry) = self.get_mut(identity) {
            change(entry);
            return;
        }
        let mut entry = ManagerEntry {
            identity: identity.clone(),
            api_version: api_version.to_owned(),
            time: None,
            fields: FieldSet::default(),
        };
        change(&mut entry);
        self.0.push(entry);
    }

    /// Reads `metadata.managedFields`. If a manager has several entries, the last one counts.
    pub(super) fn decode(list: Option<&Value>) -> Result<Self, String> {
        let mut entries = Vec::new();
        for (index, entry) in list.and_then(Value::as_array).into_iter().flatten().enumerate() {
            let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
            let applied = match text("operation") {
                "Apply" => true,
                "Update" => false,
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            let api_version = text("apiVersion");
            if api_version.is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
                other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {index}")),
            }
            let fields = match entry.get("fieldsV1") {
                None | Some(Value::Null) => FieldSet::default(),
                Some(fields) => FieldSet::from_value(fields)?,
            };
            let time = entry.get("time").and_then(Value::as_str).map(str::to_owned);
            entries.push(ManagerEntry {
                identity: ManagerIdentity {
                    manager: text("manager").to_owned(),
                    applied,
                    api_version: if applied { String::new() } else { api_version.to_owned() },
                    subresource: text("subresource").to_owned(),
                },
                api_version: api_version.to_owned(),
                time,
                fields,
            });
        }
        let mut seen = HashSet::new();
        let is_last: Vec<bool> = entries.iter().rev().map(|entry| seen.insert(&entry.identity)).collect();
        let kept = entries.into_iter().zip(is_last.into_iter().rev()).filter(|(_, is_last)| *is_last);
        Ok(Self(kept.map(|(entry, _)| entry).collect()))
    }

    /// Writes `metadata.managedFields`: appliers first, then by time and name. `None` when there is nothing to write.
    pub(super) fn encode(mut self) -> Option<Value> {
        if self.is_empty() {
            return None;
        }
        self.0.sort_by(|a, b| encoded_order(a).cmp(&encoded_order(b)));
        Some(self.0.into_iter().map(encode_entry).collect())
    }

    /// Merges the oldest Update entries of each version until no more than [`UPDATE_MANAGERS_MAX`] are left.
    pub(super) fn cap(&mut self) {
        let updaters = self.0.iter().enumerate().filter(|(_, entry)| !entry.identity.applied);
        let mut updaters: Vec<(usize, &ManagerEntry)> = updaters.collect();
        let mut left = updaters.len();
        if left <= UPDATE_MANAGERS_MAX {
            return;
        }
        updaters.sort_by_cached_key(|(_, entry)| (seconds(entry), &entry.identity));
        let ancient = updaters.iter().filter(|(_, entry)| entry.identity.is_ancient_changes());
        let ancient: BTreeMap<&str, usize> =
            ancient.map(|(at, entry)| (entry.identity.api_version.as_str(), *at)).collect();
        let mut buckets: BTreeMap<&str, Bucket> = BTreeMap::new();
        for (at, entry) in updaters {
            if left <= UPDATE_MANAGERS_MAX {
                break;
            }
            let version = entry.identity.api_version.as_str();
            let target = ancient.get(version).copied();
            let Some(bucket) = buckets.get_mut(version) else {
                buckets.insert(version, Bucket { target: target.unwrap_or(at), others: Vec::new() });
                continue;
            };
            if bucket.target != at {
                bucket.others.push(at);
                left = left.saturating_sub(1);
            }
        }
        let buckets: Vec<Bucket> = buckets.into_values().filter(|bucket| !bucket.others.is_empty()).collect();
        let mut entries: Vec<Option<ManagerEntry>> = self.0.drain(..).map(Some).collect();
        for Bucket { target, others } in buckets {
            let others: Vec<ManagerEntry> =
                others.into_iter().filter_map(|at| entries.get_mut(at)?.take()).collect();
            let Some(entry) = entries.get_mut(target).and_then(Option::as_mut) else { continue };
            entry.identity = ManagerIdentity::updater(ANCIENT_CHANGES, &entry.api_version, "");
            // The latest of their times.
            entry.time = others.last().and_then(|latest| latest.time.clone());
            let fields = others.into_iter().map(|other| other.fields);
            entry.fields = FieldSet::union_of(fields.chain([std::mem::take(&mut entry.fields)]));
        }
        self.0 = entries.into_iter().flatten().collect();
    }
}

/// The position of an entry among the others of an object.
fn encoded_order(entry: &ManagerEntry) -> (bool, i64, &str, &str, &str) {
    let ManagerIdentity { manager, applied, subresource, .. } = &entry.identity;
    (!applied, seconds(entry), manager, &entry.api_version, subresource)
}

fn seconds(entry: &ManagerEntry) -> i64 {
    entry.time.as_deref().and_then(|text| time::parse(text).ok()).unwrap_or_default()
}

fn encode_entry(entry: ManagerEntry) -> Value {
    let mut map = Map::new();
    let mut set = |key: &str, value: Value| map.insert(key.to_owned(), value);
    set("apiVersion", Value::String(entry.api_version));
    set("fieldsType", Value::from("FieldsV1"));
    set("fieldsV1", entry.fields.to_value());
    if !entry.identity.manager.is_empty() {
        set("manager", Value::String(entry.identity.manager));
    }
    set("operation", Value::from(if entry.identity.applied { "Apply" } else { "Update" }));
    if !entry.identity.subresource.is_empty() {
        set("subresource", Value::String(entry.identity.subresource));
    }
    if let Some(time) = entry.time {
        set("time", Value::String(time));
    }
    Value::Object(map)
}
