//! Generated histories of a fleet, its tenants and their projects: the store and the model decide alike, and the books
//! agree.

use crate::kit::{MadeWrite, compare_with_model};
use crate::scopes::{Object, PROJECT, ScopeFixture, TENANT, yielding};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use store::model::{Change, Growth, ScopeRole, Write};
use store::quota::{ScopeKind, Undercut};
use store::testing::model::Model;
use store::{Key, KindId};

const CLUSTERS: [&str; 2] = ["c1", "c2"];
const TENANTS: [&str; 2] = ["t", "u"];
const PROJECTS: [&str; 3] = ["p", "q", "r"];
const CAPACITIES: [&str; 5] = ["", "cpu=20", "cpu=12", "cpu=6", "cpu=9 mem=4"];
const LIMITS: [&str; 8] = [
    "",
    "c1: cpu=10",
    "c1: cpu=6",
    "c1: cpu=3 mem=1",
    "c1: cpu=4; c2: cpu=2",
    "c1:",
    "c2: cpu=5",
    "c1: cpu=1 mem=9; c2: mem=2",
];
const CHILDREN_MAX: usize = 100;

#[derive(Clone, Debug)]
enum Command {
    Cluster { name: usize, capacity: usize },
    Tenant { name: usize, limits: usize },
    Project { name: usize, tenant: usize, parent: usize, limits: usize, bound: bool },
    Delete { object: usize },
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        3 => (0..2_usize, 0..5_usize).prop_map(|(name, capacity)| Command::Cluster { name, capacity }),
        5 => (0..2_usize, 0..8_usize).prop_map(|(name, limits)| Command::Tenant { name, limits }),
        9 => (0..3_usize, 0..2_usize, 0..5_usize, 0..8_usize, any::<bool>()).prop_map(
            |(name, tenant, parent, limits, bound)| Command::Project { name, tenant, parent, limits, bound }
        ),
        2 => (0..8_usize).prop_map(|object| Command::Delete { object }),
    ]
}

/// What an object shall be, and where it may grow.
fn wanted(command: &Command) -> Option<(Object, Growth)> {
    Some(match command {
        Command::Cluster { name, capacity } => {
            let name = CLUSTERS[*name];
            let cluster = Object::cluster(name, &format!("{name}: {}", CAPACITIES[*capacity]));
            let mut cluster = yielding(cluster, Undercut::Taken);
            for limits in cluster.account.grants.as_mut().unwrap().domains.values_mut() {
                limits.mandatory = true;
            }
            (cluster, Growth::Free)
        }
        Command::Tenant { name, limits } => {
            let mut tenant = Object::tenant(TENANTS[*name], LIMITS[*limits]);
            if *name == 1 {
                // What it limits there costs it nothing.
                tenant.account.costs.remove("c2");
                tenant.account.carries.remove("c2");
            }
            (yielding(tenant, Undercut::WhereUnlimited), Growth::Free)
        }
        Command::Project { name, tenant, parent, limits, bound } => {
            let (name, tenant) = (PROJECTS[*name], TENANTS[*tenant]);
            let project = match PROJECTS.get(*parent) {
                Some(parent) => Object::child(tenant, parent, name, LIMITS[*limits]),
                None => Object::project(tenant, name, LIMITS[*limits]),
            };
            let within = || Growth::Within(CLUSTERS.map(str::to_owned).to_vec());
            (project, if *bound { within() } else { Growth::Free })
        }
        Command::Delete { .. } => return None,
    })
}

fn resolve(command: &Command, known: &BTreeMap<Key, Object>) -> Option<(Write, Option<Object>)> {
    let Some((mut to, growth)) = wanted(command) else {
        let Command::Delete { object } = command else { return None };
        let object = known.values().nth(object % known.len().max(1))?;
        let (expected, before) = (object.revision, object.before());
        return Some((object.write(Change::Delete { expected, before, last: object.state() }), None));
    };
    let change = match known.get(&to.key()) {
        None => Change::Create(to.state()),
        // whose a project is does not change
        Some(object) if object.account.tenant != to.account.tenant => return None,
        Some(object) => {
            to.uid = object.uid;
            Change::Update { expected: object.revision, before: object.before(), state: to.state() }
        }
    };
    Some((Write { growth, ..to.write(change) }, Some(to)))
}

async fn check_against_model(groups: Vec<Vec<Command>>) {
    let tree = ScopeFixture::new().await;
    let role = |scope, required| ScopeRole { scope: ScopeKind(scope), required };
    let standings: [(KindId, ScopeRole); 2] = [(TENANT, role(2, false)), (PROJECT, role(3, true))];
    let mut model = Model::new(standings, CHILDREN_MAX);
    let mut known: BTreeMap<Key, Object> = BTreeMap::new();
    for commands in groups {
        let mut writes = Vec::new();
        let mut keys = BTreeSet::new();
        for command in &commands {
            if let Some((write, object)) = resolve(command, &known)
                && keys.insert(write.key.clone())
            {
                writes.push((write, object));
            }
        }
        let sent = writes.iter().map(|(write, _)| tree.store.write(&tree.access, write.clone()));
        let results = futures_util::future::join_all(sent).await;
        for MadeWrite { key, object, revision } in compare_with_model(&mut model, writes, results) {
            known.remove(&key);
            if let Some(mut object) = object {
                object.revision = revision;
                known.insert(object.key(), object);
            }
        }
        tree.check(known.values().cloned().collect::<Vec<_>>()).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_levels_are_decided_as_by_the_model(
        groups in prop::collection::vec(prop::collection::vec(command(), 1..10), 1..10)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check_against_model(groups));
    }
}
