//! Simulates how business-api keeps and audits holds.

use serde_json::{Value, json};
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    held: Vec<Value>,
    /// Uids of holds that the controller had seen before its last audit.
    known: BTreeSet<String>,
    written_off: BTreeSet<String>,
    diverged: bool,
}

impl Ledger {
    /// Adds the charges of objects that are gone.
    pub(super) fn take(&mut self, held: Vec<Value>) {
        self.held.extend(held);
    }

    /// The database was restored: nothing may grow until everything was compared.
    pub(super) fn has_diverged(&mut self) {
        self.diverged = true;
    }

    pub(super) fn is_diverged(&self) -> bool {
        self.diverged
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether an object may be created at the place.
    pub(super) fn takes_new(&self) -> bool {
        !self.diverged && !self.holds("web")
    }

    pub(super) fn holds(&self, place: &str) -> bool {
        self.held.iter().any(|held| held["namespace"] == place)
    }

    fn is_known(&self, held: &Value) -> bool {
        self.known.contains(held["uid"].as_str().unwrap())
    }

    pub(super) fn wrote_off(&self, uid: &str) -> bool {
        self.written_off.contains(uid)
    }

    /// Follows the report of an audit. Returns the ledger to show.
    pub(super) fn follow(&mut self, status: &Value, complete: bool) -> Value {
        let none = Vec::new();
        let orphans = status["orphans"].as_array().unwrap_or(&none).clone();
        let mut shown = Vec::new();
        for orphan in &orphans {
            let (uid, state) =
                (orphan["uid"].as_str().unwrap().to_owned(), orphan["state"].as_str().unwrap());
            let place = if state == "Ahead" { json!(null) } else { orphan["namespace"].clone() };
            let is_held = |held: &Value| {
                if state == "Ahead" { held["uid"] == *uid } else { held["namespace"] == place }
            };
            let looked_for =
                complete && self.held.iter().filter(|held| is_held(held)).all(|held| self.is_known(held));
            if state == "Unused" && looked_for {
                self.held.retain(|held| !is_held(held));
            }
            if self.held.iter().any(is_held) {
                continue;
            }
            if state == "Unused" || state == "Released" && !self.diverged {
                self.written_off.insert(uid.clone());
                shown.push(uid);
                continue;
            }
            let state = if state == "Released" { "released" } else { "orphaned" };
            self.held.push(json!({
                "uid": uid, "state": state, "clusterName": "c1", "namespace": place, "hard": orphan["hard"], "reason": "told",
            }));
        }
        if complete {
            self.diverged = false;
            let known = std::mem::take(&mut self.known);
            self.held.retain(|held| {
                let is_told = orphans.iter().any(|orphan| {
                    if held["namespace"].is_null() {
                        orphan["state"] == "Ahead" && orphan["uid"] == held["uid"]
                    } else {
                        orphan["state"] != "Ahead" && orphan["namespace"] == held["namespace"]
                    }
                });
                is_told || !known.contains(held["uid"].as_str().unwrap())
            });
        }
        self.known = self.held.iter().map(|held| held["uid"].as_str().unwrap().to_owned()).collect();
        let held: Vec<Value> = self.held.iter().map(shown_held).collect();
        json!({ "held": held, "writtenOff": shown })
    }
}

/// The hold as it is shown: without a place if it has none.
fn shown_held(held: &Value) -> Value {
    let mut shown = held.clone();
    if shown["namespace"].is_null() {
        shown.as_object_mut().unwrap().remove("namespace");
    }
    shown
}
