//! The report of a plan, for people and for programs. Pure.

use super::finding::{Effect, ImportFinding};
use super::plan::Plan;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The most findings of one effect in the report for people; programs get all.
const SHOWN_MAX: usize = 200;

/// A note for people on what an import never takes over.
const NOT_IMPORTED_NOTE: &str = "TKE's own sums (status.clusters, calculated children, cached limits) are not taken over: the ledger is made from \
     what the objects say.";

/// A note for people on members that the source may not know.
const MEMBERS_NOTE: &str = "Members are those of spec.members, whom a project was made with. Where TKE has a tke-auth, that one knows who was \
     added and removed since: compare before people come here.";

/// What was done with a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing was written.
    Planned,
    /// Everything is written.
    Applied,
    /// Everything was in the database before.
    Unchanged,
}

/// The report for people.
pub fn text(plan: &Plan, stage: Stage) -> String {
    let mut out = String::new();
    let verb = if stage == Stage::Planned { "to import" } else { "imported" };
    for (resource, count) in &plan.counts {
        let left = count.read.saturating_sub(count.new).saturating_sub(count.present);
        line(
            &mut out,
            &format!(
                "{resource:<16} {:>6} read  {:>6} {verb}  {:>6} there already  {left:>6} left out",
                count.read, count.new, count.present
            ),
        );
    }
    let list = |names: &std::collections::BTreeSet<String>| {
        let names: Vec<&str> =
            names.iter().map(|name| if name.is_empty() { "(none)" } else { name }).collect();
        names.join(", ")
    };
    line(&mut out, &format!("tenants: {}", list(&plan.tenants)));
    line(
        &mut out,
        &format!(
            "member clusters, which the controller has to know by these names: {}",
            list(&plan.clusters)
        ),
    );
    for effect in Effect::ALL {
        let findings: Vec<&ImportFinding> =
            plan.findings.iter().filter(|finding| finding.effect == effect).collect();
        if findings.is_empty() {
            continue;
        }
        line(&mut out, &format!("\n{} ({}):", effect.title(), findings.len()));
        for finding in findings.iter().take(SHOWN_MAX) {
            line(&mut out, &format!("  {}: {}", finding.object_ref, finding.why));
        }
        if let Some(more) = findings.len().checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
            line(&mut out, &format!("  and {more} more, which -o json lists"));
        }
    }
    line(&mut out, &format!("\n{NOT_IMPORTED_NOTE}\n{MEMBERS_NOTE}"));
    let end = match stage {
        Stage::Applied => {
            "Growth is held until the controller has compared every member cluster with the objects."
        }
        Stage::Unchanged => "Everything that comes was there already, and nothing was written.",
        Stage::Planned if plan.needs_decision() => "Nothing was written; --apply does so.",
        Stage::Planned => "Nothing is to be decided, and nothing was written; --apply does so.",
    };
    line(&mut out, end);
    if plan.others > 0 {
        line(&mut out, &format!("The database holds {} objects that do not come from here.", plan.others));
    }
    out.truncate(out.trim_end().len());
    out
}

fn line(out: &mut String, text: &str) {
    let _always = writeln!(out, "{text}");
}

/// The report for programs.
pub fn json_text(plan: &Plan, stage: Stage) -> String {
    let findings: Vec<Value> = plan
        .findings
        .iter()
        .map(|ImportFinding { effect, rule, object_ref, why }| {
            json!({
                "effect": effect, "rule": rule, "resource": object_ref.resource, "project": object_ref.project,
                "name": object_ref.name, "why": why,
            })
        })
        .collect();
    let counts: serde_json::Map<String, Value> = plan
        .counts
        .iter()
        .map(|(resource, count)| {
            (resource.clone(), json!({"read": count.read, "new": count.new, "present": count.present}))
        })
        .collect();
    json!({
        "applied": stage != Stage::Planned,
        "toBeDecided": plan.needs_decision(),
        "counts": counts,
        "tenants": plan.tenants,
        "clusters": plan.clusters,
        "others": plan.others,
        "findings": findings,
    })
    .to_string()
}

impl Plan {
    /// Whether some finding needs a decision before the plan is applied.
    pub fn needs_decision(&self) -> bool {
        self.findings.iter().any(|finding| finding.effect.needs_decision())
    }
}
