//! The status of a template; pure.

use super::kind::TemplateView;
use super::rollout::Tally;
use business_types::condition::{self, FALSE, READY, ROLLED_OUT, TRUE, reason};
use business_types::{Condition, NamespaceTemplateStatus, TemplateWave};

/// What a message names at most.
const TOLD_MAX: usize = 5;

/// The status after what was counted. `named` says who names it, once it is being deleted. `now` is RFC 3339.
pub fn next(
    object: &TemplateView,
    tally: &Tally,
    named: Option<String>,
    wave: Option<TemplateWave>,
    now: &str,
) -> NamespaceTemplateStatus {
    let mut status = NamespaceTemplateStatus {
        namespaces: tally.namespaces,
        updated: tally.updated,
        failed: i64::try_from(tally.failed.len()).unwrap_or(i64::MAX),
        clusters: tally.clusters.clone(),
        wave,
        observed_generation: Some(object.generation),
        conditions: object.status.conditions.clone(),
    };
    let rolled_out = rolled_out(object, tally);
    let ready = match named {
        Some(named) => Condition::new(READY, FALSE, reason::IN_USE, named),
        None if rolled_out.is_true() => Condition::new(READY, TRUE, reason::READY, ""),
        None => Condition::new(READY, FALSE, &rolled_out.reason, &rolled_out.message),
    };
    for condition in [rolled_out, ready] {
        condition::set(&mut status.conditions, condition.at(object.generation), now);
    }
    status
}

fn rolled_out(object: &TemplateView, tally: &Tally) -> Condition {
    let Tally { namespaces, updated, failed, unreachable, .. } = tally;
    let away = match unreachable {
        0 => String::new(),
        away => format!("; {away} are in clusters that do not answer"),
    };
    let message = format!("{updated} of {namespaces} namespaces have the newest state{away}");
    if !failed.is_empty() {
        let more = failed.len().saturating_sub(TOLD_MAX);
        let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
        let told = failed.iter().take(TOLD_MAX).cloned().collect::<Vec<_>>().join("; ");
        let message = format!("{message}; no further wave begins after these have failed: {told}{rest}");
        return Condition::new(ROLLED_OUT, FALSE, reason::STOPPED, message);
    }
    match updated == namespaces {
        true => Condition::new(ROLLED_OUT, TRUE, reason::ROLLED_OUT, ""),
        false if object.spec.rollout.paused => Condition::new(ROLLED_OUT, FALSE, reason::PAUSED, message),
        false => Condition::new(ROLLED_OUT, FALSE, reason::ROLLING_OUT, message),
    }
}
