//! The status of a template; pure.

use super::kind::TemplateView;
use super::rollout::RolloutProgress;
use business_types::condition::{self, FALSE, READY, ROLLED_OUT, TRUE, reason};
use business_types::{Condition, NamespaceTemplateStatus, TemplateWave};

/// The next status. `usage` says who still uses a template that is being deleted. `now` is RFC 3339. It names nobody,
/// because every tenant reads it.
pub fn next(
    object: &TemplateView,
    progress: &RolloutProgress,
    usage: Option<String>,
    wave: Option<TemplateWave>,
    now: &str,
) -> NamespaceTemplateStatus {
    let mut status = NamespaceTemplateStatus {
        namespaces: progress.namespaces,
        updated: progress.updated,
        failed: count(progress.failed.len()),
        clusters: count(progress.clusters.len()),
        wave,
        observed_generation: Some(object.generation),
        conditions: object.status.conditions.clone(),
    };
    let rolled_out = rolled_out(object, progress);
    let ready = match usage {
        Some(usage) => Condition::new(READY, FALSE, reason::IN_USE, usage),
        None if rolled_out.is_true() => Condition::new(READY, TRUE, reason::READY, ""),
        None => Condition::new(READY, FALSE, &rolled_out.reason, &rolled_out.message),
    };
    for condition in [rolled_out, ready] {
        condition::set(&mut status.conditions, condition.at(object.generation), now);
    }
    status
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn rolled_out(object: &TemplateView, progress: &RolloutProgress) -> Condition {
    let RolloutProgress { namespaces, updated, failed, unreachable, .. } = progress;
    let is_stopped = progress.is_stopped();
    let away = match unreachable {
        0 => String::new(),
        away => format!("; {away} are in clusters that do not answer"),
    };
    let failures = match failed.len() {
        0 => String::new(),
        failed if is_stopped => {
            format!("; no further wave begins: {failed} have failed, as each of them says")
        }
        failed => {
            format!("; {failed} have failed, as each of them says, and keep others of their tenant waiting")
        }
    };
    let message = format!("{updated} of {namespaces} namespaces have the newest state{away}{failures}");
    match updated == namespaces {
        _ if is_stopped => Condition::new(ROLLED_OUT, FALSE, reason::STOPPED, message),
        true => Condition::new(ROLLED_OUT, TRUE, reason::ROLLED_OUT, ""),
        false if object.spec.rollout.paused => Condition::new(ROLLED_OUT, FALSE, reason::PAUSED, message),
        false => Condition::new(ROLLED_OUT, FALSE, reason::ROLLING_OUT, message),
    }
}
