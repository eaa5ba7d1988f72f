//! The levels of a budget, and a table of what each level has.

use crate::amount::{self, Bar};
use crate::screen::{Cell, Column, Screen, Table, Tone, left, picture, right};
use business_types::names;
use meta::quantity::Quantity;
use serde_json::{Value, json};
use std::cmp::Ordering;

const BAR: usize = 16;

/// A level of the budget tree, which grants budget to the level below.
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

    /// For `-o json`, with the kind of the API.
    pub(crate) fn to_json(&self) -> Value {
        let (kind, name) = match self {
            Self::Project(name) => (names::PROJECT_KIND, name),
            Self::Tenant(name) => (names::TENANT_KIND, name),
            Self::Cluster(name) => (names::MEMBER_CLUSTER_KIND, name),
        };
        json!({ "kind": kind, "name": name })
    }
}

/// The amounts of one resource at one level.
#[derive(Clone, Debug)]
pub(crate) struct LevelRow<'a> {
    pub(crate) level: &'a Level,
    /// The cluster, or the registry.
    pub(crate) domain: &'a str,
    pub(crate) resource: &'a str,
    /// `None` if it is unlimited.
    pub(crate) hard: Option<Quantity>,
    pub(crate) allocated: Quantity,
    /// What counts beside `allocated` without an object.
    pub(crate) held: Quantity,
    pub(crate) left: Option<Quantity>,
    /// What the object requests, if this level pays for it.
    pub(crate) requested: Option<Quantity>,
    /// What the object has of that already.
    pub(crate) current: Quantity,
    pub(crate) refuses: bool,
}

/// A table with a row for each level, and a remark in the last column.
#[derive(Debug)]
pub(crate) struct LevelTable(Table);

impl LevelTable {
    pub(crate) fn new(remark: Column) -> Self {
        let amounts = ["HARD", "ALLOCATED", "LEFT", "ASKED"].map(right);
        let columns = [left("LEVEL"), left("WHERE"), left("RESOURCE"), picture()];
        Self(Table::new(&[&columns[..], &amounts, &[remark]].concat()))
    }

    pub(crate) fn row(&mut self, row: &LevelRow<'_>, screen: Screen, remark: Cell) {
        let LevelRow { level, domain, resource, hard, allocated, held, left, requested, current, refuses } =
            *row;
        let bar = hard.map_or_else(String::new, |hard| {
            let allocated = amount::saturating_add(allocated, held);
            Bar { hard, allocated, used: Quantity::ZERO }.render(screen.without_color(), BAR)
        });
        let unlimited = || "-".to_owned();
        let tone = if refuses { Tone::Full } else { Tone::Plain };
        self.0.row([
            Cell::from(level.text()),
            domain.into(),
            resource.into(),
            bar.into(),
            hard.map_or_else(unlimited, amount::short_text).into(),
            amount::with_held(allocated, held, amount::short_text).into(),
            left.map_or_else(unlimited, amount::short_text).into(),
            Cell::toned(
                tone,
                requested.map_or_else(String::new, |requested| requested_text(requested, current)),
            ),
            remark,
        ]);
    }

    /// Empty if there is no level.
    pub(crate) fn render(&self, screen: Screen) -> String {
        if self.0.is_empty() { String::new() } else { self.0.render(screen, "  ") }
    }
}

/// `9 (+5)` if the object has 4 already: the level has to provide the difference.
fn requested_text(requested: Quantity, current: Quantity) -> String {
    let whole = amount::short_text(requested);
    match requested.cmp(&current) {
        _ if current.is_zero() => whole,
        Ordering::Less => {
            format!("{whole} (-{})", amount::short_text(amount::saturating_sub(current, requested)))
        }
        _ => format!("{whole} (+{})", amount::short_text(amount::saturating_sub(requested, current))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_asks_for_the_difference() {
        let told = |requested: &str, current: &str| {
            requested_text(requested.parse().unwrap(), current.parse().unwrap())
        };
        assert_eq!(told("9", "0"), "9");
        assert_eq!([told("9", "4"), told("4", "4"), told("1", "4")], ["9 (+5)", "4 (+0)", "1 (-3)"]);
    }
}
