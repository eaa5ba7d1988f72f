//! Our side, in this process: the tracker as the verbs use it.

use crate::custom::GROUP;
use crate::history::{Action, HistoryStep};
use meta::gvk::GroupVersionKind;
use meta::managed::{ApplyError, FieldManager, Writer};
use meta::object::Object;
use meta::patch;
use meta::schema::Schema;
use serde_json::{Value, json};

/// One object's life here.
pub(crate) struct Ours<'a> {
    schema: &'a Schema,
    kind: GroupVersionKind,
    name: String,
    live: Option<Object>,
}

/// What a step came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StepResult {
    /// The object as it is stored.
    Stored(Value),
    /// The HTTP code and the conflicting fields.
    Refused(u16, Vec<String>),
}

const NOW: &str = "2026-01-01T00:00:00Z";

impl<'a> Ours<'a> {
    pub(crate) fn new(schema: &'a Schema, kind: &str, name: &str) -> Self {
        Self { schema, kind: GroupVersionKind::new(GROUP, "v1", kind), name: name.to_owned(), live: None }
    }

    /// Does a step.
    pub(crate) fn step(&mut self, step: &HistoryStep) -> StepResult {
        let status = matches!(step.action, Action::PatchStatus(_));
        let reset: &[&[&str]] = if status { &[&["spec"], &["metadata"]] } else { &[&["status"]] };
        let tracker = FieldManager { schema: self.schema, kind: &self.kind, reset };
        let subresource = if status { "status" } else { "" };
        let write = Writer { manager: step.manager, subresource, now: NOW };
        let made = match &step.action {
            Action::Apply { parts, force } => {
                let applied = self.document(parts);
                match tracker.apply(self.live.as_ref(), &applied, *force, write) {
                    Ok(object) => object,
                    Err(ApplyError::Conflict(conflicts)) => {
                        return StepResult::Refused(409, conflicts.into_iter().map(|c| c.field).collect());
                    }
                    Err(error) => return StepResult::Refused(error.status().code, Vec::new()),
                }
            }
            Action::Update(parts) => match self.replaced(parts) {
                Some(new) => tracker.update(self.live.as_ref(), new, write),
                None => return StepResult::Refused(404, Vec::new()),
            },
            Action::Patch(parts) | Action::PatchStatus(parts) => match self.patched(parts, status) {
                Some(new) => tracker.update(self.live.as_ref(), new, write),
                None => return StepResult::Refused(404, Vec::new()),
            },
        };
        let made = self.identified(made);
        let shown = made.clone().into_value();
        self.live = Some(made);
        StepResult::Stored(shown)
    }

    fn document(&self, parts: &Value) -> Value {
        let mut document = parts.clone();
        document["apiVersion"] = json!(self.kind.api_version());
        document["kind"] = json!(self.kind.kind);
        document["metadata"]["name"] = json!(self.name);
        document["metadata"]["namespace"] = json!("default");
        document
    }

    /// What the server fills in; the comparison leaves it out.
    fn identified(&self, mut object: Object) -> Object {
        object.set(&["metadata", "name"], json!(self.name));
        object.set(&["metadata", "namespace"], json!("default"));
        object.set(&["metadata", "uid"], json!("7a3c4a3e-0000-4000-8000-000000000000"));
        object.set(&["metadata", "creationTimestamp"], json!(NOW));
        object.remove(&["metadata", "generation"]);
        object
    }

    fn replaced(&self, parts: &Value) -> Option<Object> {
        let mut new = self.live.clone()?;
        for path in [&["spec"][..], &["metadata", "labels"], &["metadata", "finalizers"]] {
            let given = path.iter().try_fold(parts, |value, key| value.get(key));
            match given {
                Some(value) => new.set(path, value.clone()),
                None => {
                    new.remove(path);
                }
            }
        }
        Some(new)
    }

    fn patched(&self, parts: &Value, status: bool) -> Option<Object> {
        let live = self.live.as_ref()?;
        let merged = patch::merge_patch(live.clone().into_value(), parts.to_string().as_bytes()).ok()?;
        let merged = Object::new(merged.document).ok()?;
        if !status {
            return Some(merged);
        }
        let mut new = live.clone();
        new.copy_from(&merged, &["status"]);
        Some(new)
    }
}
