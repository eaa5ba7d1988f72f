//! Amounts that are missing, as the server tells them in the causes of a refusal.

use super::causes;
use crate::amount;
use crate::level::{Level, LevelRow, LevelTable};
use crate::screen::{Cell, Screen, Tone, right};
use business_types::refusal::{BELOW_ALLOCATED, QUOTA_EXCEEDED};
use meta::quantity::Quantity;
use meta::status::{Status, StatusCause};

/// An amount that a level lacks, parsed from a cause of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    pub(crate) level: Level,
    /// The cluster, or the registry.
    pub(crate) domain: String,
    pub(crate) resource: String,
    pub(crate) requested: Quantity,
    pub(crate) hard: Quantity,
    pub(crate) allocated: Quantity,
    pub(crate) remaining: Quantity,
    /// The amount that would have been accepted.
    pub(crate) fits: Quantity,
    /// The part of `allocated` that is held without an object.
    pub(crate) held: Option<Quantity>,
    /// Whether a limit is below the allocated amount; otherwise the requested amount is too large.
    pub(crate) is_below: bool,
}

impl Shortage {
    /// Parses a cause; `None` if it is not about an amount.
    pub(super) fn of(cause: &StatusCause) -> Option<Self> {
        let is_below = cause.reason == BELOW_ALLOCATED;
        if !is_below && cause.reason != QUOTA_EXCEEDED {
            return None;
        }
        let amount = |key: &str| value(&cause.message, key)?.parse().ok();
        let domain = value(&cause.message, "cluster").or_else(|| value(&cause.message, "domain"))?;
        Some(Self {
            level: level(&cause.message, domain)?,
            domain: domain.to_owned(),
            resource: value(&cause.message, "resource")?.to_owned(),
            requested: amount("requested")?,
            hard: amount("hard")?,
            allocated: amount("allocated")?,
            remaining: amount("remaining")?,
            fits: amount("fits")?,
            held: amount("held"),
            is_below,
        })
    }

    /// All of a refusal.
    pub(crate) fn all_of(status: &Status) -> Vec<Self> {
        causes(status).filter_map(Self::of).collect()
    }

    /// The smallest hard limit of the level with which the amount would fit.
    pub(crate) fn hard_needed(&self) -> Quantity {
        // If more than `hard` is allocated, the excess is missing, too.
        amount::saturating_add(
            self.hard.max(self.allocated),
            amount::saturating_sub(self.requested, self.fits),
        )
    }
}

fn level(message: &str, domain: &str) -> Option<Level> {
    if let Some(name) = value(message, "project") {
        return Some(Level::Project(name.to_owned()));
    }
    if let Some(name) = value(message, "tenant") {
        return Some(Level::Tenant(name.to_owned()));
    }
    (value(message, "scope") == Some("cluster")).then(|| Level::Cluster(domain.to_owned()))
}

/// `web` of `project=web cluster=c1`.
pub(super) fn value<'a>(message: &'a str, key: &str) -> Option<&'a str> {
    message.split(' ').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
}

/// A table of the levels that refuse.
pub(super) fn picture(shortages: &[Shortage], screen: Screen) -> String {
    let mut table = LevelTable::new(right("FITS"));
    for one in shortages {
        let row = LevelRow {
            level: &one.level,
            domain: &one.domain,
            resource: &one.resource,
            hard: Some(one.hard),
            // Here `allocated` includes what is held.
            allocated: one.allocated,
            held: Quantity::ZERO,
            left: Some(one.remaining),
            requested: Some(one.requested),
            current: Quantity::ZERO,
            refuses: true,
        };
        table.row(&row, screen, Cell::toned(Tone::Good, one.fits.to_string()));
    }
    table.render(screen)
}
