//! Answers that were recorded on the system that this one takes the place of, beside ours. Each is the same, or it stands
//! in docs/differences.md with the reason why not.
//!
//! A line of a group's file is a request with what was answered: whole, or the part that `take` points at. A line without a
//! name prepares what the recorded requests did not do themselves: what came before, and what the controller did.

mod answer;
mod certificate;
mod installation;
mod line;
mod replay;

use replay::Replay;
use std::collections::{BTreeMap, BTreeSet};

/// The requests of a group follow upon each other.
#[derive(Clone, Copy)]
struct Group {
    name: &'static str,
    /// The old system knew no roles: whoever had a tenant ruled it. Where it asks who is what, nobody rules but whom a
    /// platform names.
    by_platform_only: bool,
    /// What its installation has from the beginning: a dump of its database, which is imported.
    database: Option<&'static str>,
}

const fn group(name: &'static str) -> Group {
    Group { name, by_platform_only: false, database: None }
}

/// A kind that is served from now on gets a row, and a file of its name.
const GROUPS: &[Group] = &[
    group("discovery"),
    group("platforms"),
    group("configmaps"),
    Group { by_platform_only: true, ..group("portal") },
    group("basics"),
    group("namespaces"),
    group("certificate"),
    group("nsemigrations"),
    group("imagenamespaces"),
    group("chartgroups"),
    Group { by_platform_only: true, database: Some("served.database.jsonl"), ..group("served") },
    group("noregistry"),
];
const DIFFERENCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/differences.md");
const SECTION: &str = "## Beside the recorded answers";

/// How many of a group's answers are what.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Tally {
    recorded: usize,
    same: usize,
    different: usize,
    left_out: usize,
}

/// What docs/differences.md says of them.
struct Told {
    different: BTreeSet<String>,
    tallies: BTreeMap<String, Tally>,
}

#[tokio::test]
async fn what_was_recorded_is_answered_in_the_same_way_or_differs_on_purpose() {
    let told = Told::read();
    let mut wrong = Vec::new();
    let mut known = BTreeSet::new();
    let mut tallies = BTreeMap::new();
    for group in GROUPS {
        let mut tally = Tally::default();
        let mut replay = Replay::start(group).await;
        for line in line::lines(group.name) {
            let Some(name) = &line.name else {
                replay.prepare(&line, group.name).await;
                continue;
            };
            assert!(known.insert(name.clone()), "{name} is recorded twice");
            tally.recorded += 1;
            if line.left_out.is_some() {
                line.check_left_out(name);
                tally.left_out += 1;
                continue;
            }
            let is_listed = told.different.contains(name);
            *(if is_listed { &mut tally.different } else { &mut tally.same }) += 1;
            wrong.extend(judge(name, is_listed, replay.compare(&line, is_listed).await));
        }
        tallies.insert(group.name.to_owned(), tally);
    }
    wrong
        .extend(told.different.difference(&known).map(|name| format!("{name}: is listed, and not recorded")));
    assert!(wrong.is_empty(), "{}\n{} in all", wrong.join("\n\n"), wrong.len());
    assert_eq!(tallies, told.tallies, "the counts of {SECTION}");
}

fn judge(name: &str, is_listed: bool, differs: Option<String>) -> Option<String> {
    match (is_listed, differs) {
        (false, Some(how)) => Some(format!("{name}: differs, and is not listed:\n{how}")),
        (true, None) => Some(format!("{name}: is listed, and does not differ")),
        (true, Some(_)) | (false, None) => None,
    }
}

impl Told {
    /// The section has two tables: how many answers there are of each group, and the names of those that differ.
    fn read() -> Self {
        let text = std::fs::read_to_string(DIFFERENCES).unwrap();
        let section = text.split_once(SECTION).unwrap().1;
        let lines = section.lines().take_while(|line| !line.starts_with("## "));
        let rows: Vec<Vec<&str>> = lines
            .filter(|line| line.starts_with('|'))
            .map(|row| row.split('|').skip(1).map(str::trim).collect())
            .collect();
        let second = rows.iter().position(|row| row[0] == "difference").unwrap();
        let tallies = rows[2..second].iter().map(|row| (row[0].to_owned(), Tally::of(row))).collect();
        let mut different = BTreeSet::new();
        for row in &rows[second + 2..] {
            for name in row[1].split('`').skip(1).step_by(2) {
                assert!(different.insert(name.to_owned()), "{name} is listed twice");
            }
        }
        Self { different, tallies }
    }
}

impl Tally {
    fn of(row: &[&str]) -> Self {
        let number = |column: usize| row[column].parse().unwrap();
        Self { recorded: number(1), same: number(2), different: number(3), left_out: number(4) }
    }
}
