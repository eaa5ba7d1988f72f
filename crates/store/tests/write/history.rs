//! Generated histories: the store and the model decide alike, write by write, and leave the same behind.

use crate::kit::{Kit, MadeWrite, Object, PROJECT, PROJECTS, amounts, compare_with_model};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use store::model::{ScopeRole, Write};
use store::testing::model::Model;
use store::{Key, Revision};

const CHILDREN_MAX: usize = 3;
const LIMITS: [&str; 7] = [
    "c1:",
    "c1: cpu=2",
    "c1: cpu=4",
    "c1: cpu=4 mem=2",
    "c1: cpu=9; c2: cpu=1",
    "c2: mem=3",
    "c1: cpu=3 mem=9; c2:",
];
const HARDS: [&str; 7] = [
    "c1:",
    "c1: cpu=1",
    "c1: cpu=1500m",
    "c1: cpu=2 mem=1",
    "c1: cpu=1 mem=2",
    "c2: cpu=1",
    "c1: cpu=3 mem=0",
];
/// Where every history begins: names, parents and limits.
const FIRST: [(&str, &str, &str); 4] = [
    ("a", "", "c1: cpu=9 mem=9; c2: cpu=3"),
    ("b", "a", "c1: cpu=4 mem=4"),
    ("c", "", "c1: cpu=4"),
    ("d", "c", "c1: cpu=2"),
];

#[derive(Clone, Debug)]
enum Command {
    Project { name: usize, parent: usize, limits: usize, foreign: bool },
    Namespace { project: usize, name: usize, hard: usize },
    Change { object: usize, to: Edit, stale: bool },
}

#[derive(Clone, Debug)]
enum Edit {
    Amounts(usize),
    Lower(usize),
    Parent(usize),
    Move(usize),
    Lock(bool),
    Terminate,
    Delete,
    Abandon,
    Touch,
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => (0..7_usize).prop_map(Edit::Amounts),
        2 => (0..7_usize).prop_map(Edit::Lower),
        3 => (0..5_usize).prop_map(Edit::Parent),
        4 => (0..5_usize).prop_map(Edit::Move),
        1 => any::<bool>().prop_map(Edit::Lock),
        1 => Just(Edit::Terminate),
        2 => Just(Edit::Delete),
        1 => Just(Edit::Abandon),
        1 => Just(Edit::Touch),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let foreign = prop_oneof![9 => Just(false), 1 => Just(true)];
    let stale = prop_oneof![9 => Just(false), 1 => Just(true)];
    prop_oneof![
        1 => (0..4_usize, 0..5_usize, 0..7_usize, foreign)
            .prop_map(|(name, parent, limits, foreign)| Command::Project { name, parent, limits, foreign }),
        5 => (0..4_usize, 0..6_usize, 0..7_usize)
            .prop_map(|(project, name, hard)| Command::Namespace { project, name, hard }),
        6 => (0..64_usize, edit(), stale).prop_map(|(object, to, stale)| Command::Change { object, to, stale }),
    ]
}

/// The name of a project; the last one is none.
fn project(index: usize) -> String {
    ["a", "b", "c", "d", ""][index].to_owned()
}

/// The write that a command comes to, and the object after it.
fn resolve(command: &Command, known: &BTreeMap<Key, Object>) -> Option<(Write, Option<Object>)> {
    match command {
        Command::Project { name, parent, limits, foreign } => {
            let mut object = Object::project(&project(*name), &project(*parent), LIMITS[*limits]);
            if *foreign {
                "u".clone_into(&mut object.tenant);
            }
            Some((object.create(), Some(object)))
        }
        Command::Namespace { project: at, name, hard } => {
            let object = Object::namespace(&project(*at), &format!("n{name}"), HARDS[*hard]);
            Some((object.create(), Some(object)))
        }
        Command::Change { object, to, stale } => {
            let mut object = known.values().nth(object % known.len().max(1))?.clone();
            if *stale {
                object.revision = Revision(object.revision.0 - 1);
            }
            change(&object, to)
        }
    }
}

fn change(object: &Object, edit: &Edit) -> Option<(Write, Option<Object>)> {
    let is_project = object.kind == PROJECTS.0;
    let mut to = object.clone();
    let mut admit = true;
    match edit {
        Edit::Amounts(index) if is_project => to.limit(LIMITS[*index]),
        Edit::Amounts(index) => to.hard(HARDS[*index]),
        Edit::Lower(index) if !is_project => {
            to.amounts = amounts(HARDS[*index]);
            admit = false;
        }
        Edit::Parent(index) if is_project => to.scope = project(*index),
        Edit::Move(index) if !is_project && !["", &object.namespace].contains(&&*project(*index)) => {
            let to = object.in_project(&project(*index));
            return Some((object.relocate(&to), Some(to)));
        }
        Edit::Lock(locked) => to.locked = *locked,
        Edit::Terminate => to.deleting = true,
        Edit::Delete => return Some((object.delete(), None)),
        Edit::Abandon if !is_project => return Some((object.abandon("given up"), None)),
        Edit::Touch => {}
        Edit::Lower(_) | Edit::Parent(_) | Edit::Move(_) | Edit::Abandon => return None,
    }
    Some((object.update(&to, admit), Some(to)))
}

/// Commands that are sent in one batch, and whether growth is held meanwhile.
#[derive(Clone, Debug)]
struct Group {
    held: bool,
    commands: Vec<Command>,
}

fn group() -> impl Strategy<Value = Group> {
    let held = prop_oneof![7 => Just(false), 1 => Just(true)];
    let commands = prop::collection::vec(command(), 1..12);
    (held, commands).prop_map(|(held, commands)| Group { held, commands })
}

async fn check_against_model(groups: Vec<Group>) {
    let database = store::testing::database().await.unwrap();
    let mut config = store::Config::new(&database.url);
    config.children_max = i64::try_from(CHILDREN_MAX).unwrap();
    let kit = Kit::with(config, database).await;
    let mut model = Model::new([(PROJECTS, ScopeRole { scope: PROJECT, required: true })], CHILDREN_MAX);
    let mut known: BTreeMap<Key, Object> = BTreeMap::new();
    for (name, parent, limits) in FIRST {
        let object = kit.create(Object::project(name, parent, limits)).await.unwrap();
        model.write(&object.create(), object.revision).unwrap();
        known.insert(object.key(), object);
    }
    for Group { held, commands } in groups {
        sqlx::query("UPDATE rev SET held = $1").bind(held).execute(&mut kit.sql().await).await.unwrap();
        model.hold_growth(held);
        let mut keys = BTreeSet::new();
        let mut writes = Vec::new();
        for command in &commands {
            if let Some((write, object)) = resolve(command, &known)
                && !keys.contains(&write.key)
                && write.change.destination().is_none_or(|to| !keys.contains(to))
            {
                keys.insert(write.key.clone());
                keys.extend(write.change.destination().cloned());
                writes.push((write, object));
            }
        }
        // sent in this order, and small enough for one batch
        let sent = writes.iter().map(|(write, _)| kit.write(write.clone()));
        let results = futures_util::future::join_all(sent).await;
        for MadeWrite { key, object, revision } in compare_with_model(&mut model, writes, results) {
            known.remove(&key);
            if let Some(mut object) = object {
                object.revision = revision;
                known.insert(object.key(), object);
            }
        }
    }
    assert!(model.keys().eq(known.keys()));
    kit.check().await;
    let events: Vec<(i8, i16, String, String)> =
        sqlx::query_as("SELECT op, kind, namespace, name FROM events ORDER BY rv")
            .fetch_all(&mut kit.sql().await)
            .await
            .unwrap();
    let events = events.into_iter().map(|(op, kind, namespace, name)| {
        (char::from(u8::try_from(op).unwrap()), Key::new(store::KindId(kind), &namespace, &name))
    });
    assert!(events.eq(model.events().iter().cloned()));
    kit.stop().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_decides_as_the_model(groups in prop::collection::vec(group(), 1..10)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check_against_model(groups));
    }
}
