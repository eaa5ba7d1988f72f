//! Random histories: who does what to one object.

use crate::value::value;
use meta::schema::{Schema, Type};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct HistoryStep {
    /// Who.
    pub(crate) manager: &'static str,
    /// What.
    pub(crate) action: Action,
}

/// What a manager does.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Server-side apply of these parts.
    Apply {
        /// `spec` and labels.
        parts: Value,
        /// Take fields over.
        force: bool,
    },
    /// PUT of the live object with these parts in place of its own.
    Update(Value),
    /// A merge patch.
    Patch(Value),
    /// A merge patch of the status subresource.
    PatchStatus(Value),
}

const MANAGERS: [&str; 3] = ["one", "two", "three"];

/// A history of some steps.
pub(crate) fn history(schema: &Schema, steps: usize, random: &mut StdRng) -> Vec<HistoryStep> {
    (0..steps)
        .map(|_| {
            let manager = MANAGERS.get(random.random_range(0..MANAGERS.len())).copied().unwrap_or("one");
            let action = match random.random_range(0..10) {
                0..6 => Action::Apply { parts: parts(schema, random), force: random.random_range(0..2) == 0 },
                6..8 => Action::Update(parts(schema, random)),
                8 => Action::Patch(parts(schema, random)),
                _ => Action::PatchStatus(
                    json!({"status": {"phase": if random.random_range(0..2) == 0 { "p" } else { "q" }}}),
                ),
            };
            HistoryStep { manager, action }
        })
        .collect()
}

fn parts(schema: &Schema, random: &mut StdRng) -> Value {
    let mut parts = json!({"metadata": {}});
    if let Type::Struct { fields, .. } = &schema.ty
        && let Some(spec) = fields.get("spec")
    {
        parts["spec"] = value(&spec.schema, random);
    }
    if random.random_range(0..3) == 0 {
        let word = if random.random_range(0..2) == 0 { "x" } else { "y" };
        parts["metadata"]["labels"] = json!({"l": word});
    }
    if random.random_range(0..5) == 0 {
        parts["metadata"]["finalizers"] = json!([format!("example.com/{}", random.random_range(0..2))]);
    }
    parts
}
