//! The levels of a budget, and a picture of what each of them has.

use crate::amount::{self, Bar};
use crate::screen::{Cell, Column, Screen, Table, Tone, left, picture, right};
use business_types::names;
use meta::quantity::Quantity;
use serde_json::{Value, json};
use std::cmp::Ordering;

const BAR: usize = 16;

/// Somebody who has budget to give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Project(String),
    Tenant(String),
    Cluster(String),
}

impl Level {
    /// `project web`
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Project(name) => format!("project {name}"),
            Self::Tenant(name) => format!("tenant {name}"),
            Self::Cluster(name) => format!("cluster {name}"),
        }
    }

    /// For programs, by its kind in the API.
    pub(crate) fn told(&self) -> Value {
        let (kind, name) = match self {
            Self::Project(name) => (names::PROJECT_KIND, name),
            Self::Tenant(name) => (names::TENANT_KIND, name),
            Self::Cluster(name) => (names::MEMBER_CLUSTER_KIND, name),
        };
        json!({ "kind": kind, "name": name })
    }
}

/// One resource at one level.
#[derive(Clone, Debug)]
pub(crate) struct LevelRow<'a> {
    pub(crate) level: &'a Level,
    /// The cluster, or the registry.
    pub(crate) domain: &'a str,
    pub(crate) resource: &'a str,
    /// `None` where nothing limits it.
    pub(crate) hard: Option<Quantity>,
    pub(crate) allocated: Quantity,
    /// Beside what is allocated.
    pub(crate) held: Quantity,
    pub(crate) left: Option<Quantity>,
    /// Where it is this level that is asked.
    pub(crate) asked: Option<Quantity>,
    /// What it has of that already.
    pub(crate) had: Quantity,
    pub(crate) refuses: bool,
}

/// Levels, a line each, with a remark on each in the last column.
#[derive(Debug)]
pub(crate) struct LevelTable(Table);

impl LevelTable {
    pub(crate) fn new(said: Column) -> Self {
        let amounts = ["HARD", "ALLOCATED", "LEFT", "ASKED"].map(right);
        let columns = [left("LEVEL"), left("WHERE"), left("RESOURCE"), picture()];
        Self(Table::new(&[&columns[..], &amounts, &[said]].concat()))
    }

    pub(crate) fn row(&mut self, row: &LevelRow<'_>, screen: Screen, said: Cell) {
        let LevelRow { level, domain, resource, hard, allocated, held, left, asked, had, refuses } = *row;
        let bar = hard.map_or_else(String::new, |hard| {
            let allocated = amount::plus(allocated, held);
            Bar { hard, allocated, used: Quantity::ZERO }.shown(screen.without_color(), BAR)
        });
        let unlimited = || "-".to_owned();
        let tone = if refuses { Tone::Full } else { Tone::Plain };
        self.0.row([
            Cell::from(level.text()),
            domain.into(),
            resource.into(),
            bar.into(),
            hard.map_or_else(unlimited, amount::brief).into(),
            amount::with_held(allocated, held, amount::brief).into(),
            left.map_or_else(unlimited, amount::brief).into(),
            Cell::toned(tone, asked.map_or_else(String::new, |asked| asked_of(asked, had))),
            said,
        ]);
    }

    /// Nothing where there is no level.
    pub(crate) fn shown(&self, screen: Screen) -> String {
        if self.0.is_empty() { String::new() } else { self.0.shown(screen, "  ") }
    }
}

/// `9 (+5)` of what has 4 already: the level is asked for the difference.
fn asked_of(asked: Quantity, had: Quantity) -> String {
    let whole = amount::brief(asked);
    match asked.cmp(&had) {
        _ if had.is_zero() => whole,
        Ordering::Less => format!("{whole} (-{})", amount::brief(amount::less(had, asked))),
        _ => format!("{whole} (+{})", amount::brief(amount::less(asked, had))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_asks_for_the_difference() {
        let told = |asked: &str, had: &str| asked_of(asked.parse().unwrap(), had.parse().unwrap());
        assert_eq!(told("9", "0"), "9");
        assert_eq!([told("9", "4"), told("4", "4"), told("1", "4")], ["9 (+5)", "4 (+0)", "1 (-3)"]);
    }
}
