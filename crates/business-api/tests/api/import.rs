//! What a TKE installation has, imported into a real database and served.

use crate::support::{World, until};
use business_api::config::{Cli, Command, Import};
use business_api::import;
use clap::Parser;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use store::testing::{self, Database};

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/import/sample.jsonl");
/// The order in which the database stands after a kill is not asked for: what is stored is.
const STORED: &str = "SELECT kind::text || ' ' || namespace || '/' || name || ' ' || uid || ' ' || body FROM objects \
     UNION ALL SELECT concat_ws(' ', scope, domain, key, listed, limits, children, hard, allocated, ceiling, excess) FROM ledger \
     UNION ALL SELECT domain || '/' || place || ' ' || uid FROM claims ORDER BY 1";

fn settings(database: &Database, dump: &str, more: &str) -> Import {
    let line = format!("business-api import --database-url {} --dump {dump} {more}", database.url);
    match Cli::parse_from(line.split_whitespace()).command {
        Command::Import(settings) => *settings,
        _ => panic!("not import"),
    }
}

async fn stored(database: &Database) -> Vec<String> {
    sqlx::query_scalar(STORED).fetch_all(&mut database.connect().await.unwrap()).await.unwrap()
}

async fn run(database: &Database, more: &str) -> Value {
    let told = import::run(&settings(database, SAMPLE, &format!("-o json {more}"))).await.unwrap();
    serde_json::from_str(&told.text).unwrap()
}

fn findings<'a>(told: &'a Value, rule: &str) -> Vec<&'a str> {
    let of_rule = told["findings"].as_array().unwrap().iter().filter(|finding| finding["rule"] == rule);
    of_rule.map(|finding| finding["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_whole_database_is_planned_then_imported_and_served_as_it_was() {
    let database = testing::database().await.unwrap();
    let before = stored(&database).await;
    let plan = run(&database, "").await;
    assert_eq!(stored(&database).await, before, "a plan writes nothing");
    assert_eq!(plan["toBeDecided"], true);
    for (rule, names) in [
        ("parent", &["prj-crossed", "prj-loose", "prj-ring-a", "prj-ring-b"][..]),
        ("finalizer", &["cls-one-console-a", "prj-console"]),
        ("projectGone", &["cls-one-forgotten"]),
        ("placeTaken", &["cls-one-full-a"]),
        ("invalid", &["cls-one-default"]),
        ("emigration", &["cls-one-accounts"]),
        ("clusterNotListed", &["prj-console"]),
        ("charge", &["cls-one-full-b"]),
    ] {
        assert_eq!(findings(&plan, rule), names, "{rule}: {plan:#}");
    }
    assert!(findings(&plan, "aboveLimit").contains(&"prj-full"));
    assert_eq!(findings(&plan, "notServed").iter().filter(|name| **name == "x").count(), 1);

    let done = run(&database, "--apply").await;
    assert_eq!((&done["applied"], &done["counts"]), (&json!(true), &plan["counts"]));
    let world = World::started(database, &["--tenant-grant"]).await;
    until_filled(&world).await;
    world.assert_books_agree().await;
    let operator = world.operator();
    let source = std::fs::read_to_string(SAMPLE).unwrap();
    let lines = source.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut compared = 0;
    for value in lines.map(|line| line["value"].clone()) {
        let (kind, meta) = (value["kind"].as_str().unwrap(), &value["metadata"]);
        let (plural, name) = (format!("{}s", kind.to_lowercase()), meta["name"].as_str().unwrap());
        let path = match meta["namespace"].as_str() {
            Some(project) => format!("/namespaces/{project}/{plural}/{name}"),
            None => format!("/{plural}/{name}"),
        };
        let served = operator.get(&path).await;
        if served.code == 404 {
            continue;
        }
        let served = served.expect(200);
        for field in ["uid", "creationTimestamp", "deletionTimestamp", "labels", "generateName"] {
            assert_eq!(served["metadata"][field], meta[field], "{path} {field}");
        }
        let fields = [
            "tenantID",
            "displayName",
            "hard",
            "clusterName",
            "namespace",
            "name",
            "administrators",
            "destination",
        ];
        for field in fields {
            assert_eq!(served["spec"][field], value["spec"][field], "{path} {field}");
        }
        for field in ["data", "binaryData"] {
            assert_eq!(served[field], value[field], "{path} {field}");
        }
        compared += 1;
    }
    assert_eq!(compared, stored_objects(&world).await);

    let held = operator.post("/projects", crate::support::project("new", json!({"pods": "1"}))).await;
    assert_eq!(held.code, 503, "growth waits: {held:?}");
}

async fn until_filled(world: &World) {
    let client = world.operator();
    until("the cache is filled", async || client.get("/readyz/cache-sync").await.code == 200).await;
}

async fn stored_objects(world: &World) -> usize {
    let count = "SELECT count(*) FROM objects";
    let count: i64 =
        sqlx::query_scalar(count).fetch_one(&mut world.database.connect().await.unwrap()).await.unwrap();
    usize::try_from(count).unwrap()
}

#[tokio::test]
async fn growth_goes_on_when_every_cluster_was_compared_after_the_import() {
    let database = testing::database().await.unwrap();
    run(&database, "--apply").await;
    let world = World::started(database, &["--tenant-grant"]).await;
    until_filled(&world).await;
    let operator = world.operator();
    let create = async |name: &str| {
        operator.post("/projects", crate::support::project(name, json!({"pods": "1"}))).await.code
    };
    let list = operator.get("/projects").await.expect(200);
    let revision: u64 = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let all = ["cls-one", "cls-two", "cls-sun", "cls-moon", "cls-gone", "c1", "c2"];
    world.compared(&all, revision - 1).await;
    assert_eq!(create("early").await, 503);
    world.compared(&["cls-one", "c1"], revision).await;
    assert_eq!(create("partly").await, 503);
    world.compared(&all, revision).await;
    until("growth goes on", async || create("late").await == 201).await;
    let path = "/namespaces/prj-full/namespaces/cls-one-full-a";
    let more = operator.patch(path, json!({"spec": {"hard": {"pods": "5"}}})).await;
    assert_eq!(more.code, 403, "its project is above its limit: {more:?}");
    world.assert_books_agree().await;
}

#[tokio::test]
async fn an_import_that_was_killed_anywhere_ends_in_the_same_state() {
    let whole = testing::database().await.unwrap();
    run(&whole, "--apply").await;
    let want = stored(&whole).await;
    let again = run(&whole, "--apply").await;
    assert_eq!(again["counts"]["projects"]["new"], 0);
    assert_eq!(stored(&whole).await, want, "a second time changes nothing");

    // Killed: the batches so far are there, the others are not, and growth is held for it.
    for seconds in [0.0, 0.002, 0.01] {
        let database = testing::database().await.unwrap();
        let line = settings(&database, SAMPLE, "--apply");
        let cut = tokio::time::timeout(Duration::from_secs_f64(0.4 + seconds), import::run(&line)).await;
        drop(cut);
        let told = run(&database, "--apply").await;
        assert_eq!(told["applied"], true);
        assert_eq!(stored(&database).await, want);
    }
    let half = testing::database().await.unwrap();
    let begin = "UPDATE rev SET held = true, held_reason = 'an import is under way'";
    sqlx::query(begin).execute(&mut half.connect().await.unwrap()).await.unwrap();
    run(&half, "--apply").await;
    assert_eq!(stored(&half).await, want);
}

#[tokio::test]
async fn a_database_that_holds_something_else_is_refused_unless_told() {
    let world = World::new().await;
    world
        .operator()
        .post("/projects", crate::support::project("mine", json!({"pods": "1"})))
        .await
        .expect(201);
    let line = settings(&world.database, SAMPLE, "--apply");
    let refused = import::run(&line).await.unwrap_err().to_string();
    assert!(refused.contains("1 objects that do not come from here"), "{refused}");
    run(&world.database, "--apply --into-existing").await;
    world.assert_books_agree().await;
    let gone = "DELETE FROM objects WHERE name = 'mine'";
    sqlx::query(gone).execute(&mut world.database.connect().await.unwrap()).await.unwrap();
    let other = "DELETE FROM objects WHERE name = 'prj-bare'";
    sqlx::query(other).execute(&mut world.database.connect().await.unwrap()).await.unwrap();
    let refused = import::run(&line).await.unwrap_err().to_string();
    assert!(refused.contains("was imported before"), "{refused}");
}

#[tokio::test]
async fn a_database_with_the_programs_own_platform_alone_is_empty() {
    let database = testing::database().await.unwrap();
    let flags = ["--initial-administrator-tenant", "default", "--initial-administrator-user", "boss"];
    let world = World::started(database, &flags).await;
    let path = "/platforms/platform-default";
    until("the platform is made", async || world.operator().get(path).await.code == 200).await;
    let made = world.operator().get(path).await.expect(200);
    until("the cache is filled", async || world.operator().get("/readyz/cache-sync").await.code == 200).await;
    let registered = crate::support::member_cluster("cls-one", &["*"]);
    world.operator().post("/memberclusters", registered).await.expect(201);
    let template = json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "NamespaceTemplate", "metadata": {"name": "standard"},
        "spec": {"default": true},
    });
    world.operator().post("/namespacetemplates", template).await.expect(201);
    let plan = run(&world.database, "").await;
    assert_eq!((&plan["others"], findings(&plan, "replaces").len()), (&json!(0), 1));
    assert_eq!(findings(&plan, "administratorsLost"), ["platform-default"], "boss is none in the source");
    run(&world.database, "--apply").await;
    let same = async || {
        let now = world.operator().get(path).await;
        now.code == 200 && now.body["metadata"]["uid"] != made["metadata"]["uid"]
    };
    until("the source's is there", same).await;
    let now = world.operator().get(path).await.expect(200);
    assert_eq!(now["metadata"]["creationTimestamp"], "2025-03-11T08:48:28Z");
    assert_eq!(now["spec"]["administrators"], json!(["admin"]));
    let want = stored(&world.database).await;
    run(&world.database, "--apply").await;
    assert_eq!(stored(&world.database).await, want);
    world.assert_books_agree().await;
}

/// 2,000 projects in three levels, 10,000 namespaces, 500 image namespaces.
fn large() -> String {
    let mut dump = String::new();
    let uid = |number: usize| uuid::Uuid::from_u128(0x4000_8000_0000_0000_0000 + number as u128);
    for number in 0..2000 {
        let parent = if number < 20 { String::new() } else { format!("p{}", (number - 20) % 200) };
        let value = json!({
            "kind": "Project", "apiVersion": "business.tkestack.io/v1",
            "metadata": {"name": format!("p{number}"), "uid": uid(number), "creationTimestamp": "2025-01-01T00:00:00Z"},
            "spec": {"finalizers": ["project"], "tenantID": "t", "displayName": "p", "members": ["ann"],
                "parentProjectName": parent,
                "clusters": {"c1": {"hard": {"pods": "100000", "requests.cpu": "1000", "limits.memory": "64Gi"}}}},
            "status": {"phase": "Active", "lastTransitionTime": null},
        });
        writeln!(dump, "{}", json!({"key": format!("/tke/business/projects/p{number}"), "value": value}))
            .unwrap();
    }
    for number in 0..10_000 {
        let (project, name) = (format!("p{}", number % 2000), format!("n{number}"));
        let hard = json!({"pods": "3", "requests.cpu": "100m", "limits.memory": "64Mi"});
        let value = json!({
            "kind": "Namespace", "apiVersion": "business.tkestack.io/v1",
            "metadata": {"name": format!("c1-{name}"), "namespace": project, "uid": uid(5000 + number),
                "creationTimestamp": "2025-01-01T00:00:00Z"},
            "spec": {"finalizers": ["namespace"], "tenantID": "t", "clusterName": "c1", "namespace": name, "hard": hard},
            "status": {"phase": "Available", "used": hard, "cachedSpecHard": hard},
        });
        let key = format!("/tke/business/namespaces/{project}/c1-{name}");
        writeln!(dump, "{}", json!({"key": key, "value": value})).unwrap();
    }
    for number in 0..500 {
        let (project, name) = (format!("p{}", number % 2000), format!("i{number}"));
        let value = json!({
            "kind": "ImageNamespace", "apiVersion": "business.tkestack.io/v1",
            "metadata": {"name": name, "namespace": project, "uid": uid(50_000 + number),
                "creationTimestamp": "2025-01-01T00:00:00Z"},
            "spec": {"finalizers": ["imagenamespace"], "name": name, "tenantID": "t", "displayName": "i"},
            "status": {"phase": "Available", "lastTransitionTime": "2025-01-01T00:00:05Z"},
        });
        let key = format!("/tke/business/imagenamespaces/{project}/{name}");
        writeln!(dump, "{}", json!({"key": key, "value": value})).unwrap();
    }
    dump
}

#[tokio::test]
#[ignore = "a measurement: ten thousand namespaces"]
async fn ten_thousand_namespaces_are_imported_in_a_minute() {
    let database = testing::database().await.unwrap();
    let file: PathBuf = std::env::temp_dir().join(format!("import-{}.jsonl", uuid::Uuid::new_v4()));
    std::fs::write(&file, large()).unwrap();
    let line = settings(&database, file.to_str().unwrap(), "--apply");
    let begun = Instant::now();
    let told = import::run(&line).await;
    std::fs::remove_file(&file).unwrap();
    let took = begun.elapsed();
    told.unwrap();
    let peak = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = peak.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().to_owned();
    eprintln!("imported in {took:?}, {peak}");
    assert!(took < Duration::from_mins(1), "{took:?}");
    let world = World::started(database, &[]).await;
    until_filled(&world).await;
    world.assert_books_agree().await;
}
