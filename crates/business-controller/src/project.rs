//! The controller of projects: Pending → Active, accounting of what the children hold, children first at the end.

/// What the children hold; pure.
pub mod accounting;
/// The status to show.
pub mod status;
/// The end of a project.
pub mod cleanup;

use crate::context::Context;
use crate::error::Error;
use crate::events::Level;
use crate::outcome::Outcome;
use business_types::condition::{self, FALSE, QUOTA_CONSISTENT};
use business_types::{ProjectPhase, ProjectStatus};
use std::time::Duration;

/// Shortest time between two writes of a project's figures.
const FIGURES_FLOOR: Duration = Duration::from_millis(250);
/// More for each child, since every write carries all their names.
const FIGURES_PER_CHILD: Duration = Duration::from_millis(1);
/// Longest time between two writes.
const FIGURES_CEILING: Duration = Duration::from_secs(10);

/// One pass over a project.
pub async fn reconcile(cx: &Context, name: &str) -> Result<Outcome, Error> {
    let Some(object) = cx.objects.project(name) else {
        cx.forget_figures(name);
        return Ok(Outcome::Skipped);
    };
    let namespaces = cx.objects.namespaces_of(name);
    let children = cx.objects.children_of(name);
    let account = accounting::account(&namespaces, &children);
    let count = namespaces.len().saturating_add(children.len());
    let next = status::next(&object, account, &cx.now());
    let mut outcome = Outcome::Unchanged;
    let mut current = None;
    if next != object.status {
        if let Some(wait) = cx.figures_wait(name)
            && status::differs_in_figures_only(&object.status, &next)
        {
            // Coalesced: whatever changes until then goes into the same write.
            if !object.deleting {
                return Ok(Outcome::WaitingFor(wait));
            }
            outcome = Outcome::WaitingFor(wait);
        } else {
            current = status::write(cx, &object, &next).await?;
            cx.figures_written(name, figures_period(count));
            outcome = Outcome::Applied;
        }
    }
    if object.status.phase == ProjectPhase::Pending && next.phase == ProjectPhase::Active {
        cx.events.report(
            &*object,
            Level::Normal,
            ("Activated", "Activate"),
            "the project is active".to_owned(),
        );
    }
    if let Some(found) = newly_inconsistent(&object.status, &next) {
        cx.events.report(&*object, Level::Warning, ("QuotaInconsistent", "Audit"), found.to_owned());
    }
    if object.deleting {
        return cleanup::run(cx, current.as_ref().unwrap_or(&object), (&namespaces, &children)).await;
    }
    Ok(outcome)
}

/// What is wrong with a project's quota and was not, or was something else, before.
fn newly_inconsistent<'a>(old: &ProjectStatus, new: &'a ProjectStatus) -> Option<&'a str> {
    let of = |status: &'a ProjectStatus| condition::find(&status.conditions, QUOTA_CONSISTENT);
    let before = condition::find(&old.conditions, QUOTA_CONSISTENT).map(|was| was.message.as_str());
    of(new).filter(|now| now.status == FALSE && before != Some(&now.message)).map(|now| now.message.as_str())
}

fn figures_period(children: usize) -> Duration {
    let children = u32::try_from(children).unwrap_or(u32::MAX);
    FIGURES_FLOOR.saturating_add(FIGURES_PER_CHILD.saturating_mul(children)).min(FIGURES_CEILING)
}
