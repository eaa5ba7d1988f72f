//! What the audits of both sides find: held, shown in the project, and what growth waits for.

use crate::registry::registry_object;
use crate::support::{Client, World, child, member_cluster, namespace, namespaces, project, until};
use business_api::audit::AuditOutput;
use business_api::config::{Cli, Command};
use business_api::kinds::KINDS;
use clap::Parser;
use serde_json::{Value, json};

/// The uid of a released namespace in its cluster.
const RELEASED: &str = "7b0ab1a6-63f1-4f36-b7a1-6ad2ba2f24d0";
const PROJECT: &str = "/projects/p";

/// The controller tells that both clusters were compared with the objects as they are now.
async fn compare(world: &World) {
    let news = json!({"metadata": {"annotations": {"compared": uuid::Uuid::new_v4().to_string()}}});
    let project = world.operator().patch(PROJECT, news).await.expect(200);
    let revision = project["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    world.compared(&["c1", "c2"], revision).await;
}

async fn sql(world: &World, statement: &'static str) {
    let done = sqlx::query(statement).execute(&mut world.database.connect().await.unwrap()).await.unwrap();
    assert_eq!(done.rows_affected(), 1);
}

/// `business-api audit` with these flags.
async fn audit(world: &World, flags: &str) -> AuditOutput {
    let line = format!("business-api audit {flags} --database-url {}", world.database.url);
    let Command::Audit(settings) = Cli::parse_from(line.split_whitespace()).command else {
        panic!("not audit")
    };
    business_api::audit::run(&settings).await.unwrap()
}

async fn ledger(operator: &Client) -> Value {
    operator.get(PROJECT).await.expect(200)["status"]["ledger"].clone()
}

#[tokio::test]
async fn an_orphan_counts_against_its_project_until_it_is_gone() {
    let world = World::new().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    admin.post("/projects", project("p", json!({"pods": "10"}))).await.expect(201);
    let orphan = json!({
        "clusterName": "c1", "namespace": "lost", "uid": "7b0ab1a6-63f1-4f36-b7a1-6ad2ba2f24d0", "hard": {"pods": "4"},
    });
    let report = async |orphans: Value| {
        let body = json!({"status": {"orphans": orphans}});
        operator.patch(&format!("{PROJECT}/status"), body).await.expect(200);
    };
    report(json!([orphan])).await;
    compare(&world).await;
    until("the orphan is held", async || ledger(&operator).await["held"][0]["namespace"] == "lost").await;
    let held = &ledger(&operator).await["held"][0];
    assert_eq!((&held["state"], &held["hard"]), (&json!("orphaned"), &json!({"pods": "4"})));
    until("refusals name what is held", async || {
        let refused = admin.post(&namespaces("p"), namespace("a", json!({"pods": "7"}))).await;
        assert_eq!(refused.code, 403, "{refused:?}");
        let text = refused.body.to_string();
        text.contains("4 is held for namespaces")
            && text.contains("lost (orphaned)")
            && text.contains(" held=4")
    })
    .await;
    let taken = admin.post(&namespaces("p"), namespace("lost", json!({"pods": "1"}))).await;
    assert_eq!(taken.code, 409, "{taken:?}");
    assert!(taken.body.to_string().contains("is held"), "{taken:?}");

    for change in [json!({"c1": {"hard": {"services": "5"}}}), json!({"c1": null})] {
        let refused = admin.patch(PROJECT, json!({"spec": {"clusters": change}})).await;
        assert_eq!(refused.code, 422, "{refused:?}");
        let named =
            "(counting what is held for namespaces of the cluster beyond what objects are charged: lost (";
        assert!(refused.message().contains(named), "{}", refused.message());
    }

    // it is still there, whoever compares how often
    for _ in 0..2 {
        compare(&world).await;
        report(json!([orphan])).await;
    }
    assert_eq!(ledger(&operator).await["held"].as_array().map(Vec::len), Some(1));
    report(json!([])).await;
    compare(&world).await;
    until("the orphan is written off", async || ledger(&operator).await == Value::Null).await;
    admin.post(&namespaces("p"), namespace("a", json!({"pods": "10"}))).await.expect(201);
    world.assert_books_agree().await;
}

/// The database was put back to when another project had the place.
#[tokio::test]
async fn what_was_granted_at_a_place_counts_although_another_project_holds_something_for_it() {
    let world = World::new().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    for name in ["p", "q"] {
        admin.post("/projects", project(name, json!({"pods": "10"}))).await.expect(201);
    }
    let report = async |project: &str, orphans: Value| {
        let body = json!({"status": {"orphans": orphans}});
        operator.patch(&format!("/projects/{project}/status"), body).await.expect(200);
    };
    let held = async |project: &str| {
        operator.get(&format!("/projects/{project}")).await.expect(200)["status"]["ledger"]["held"].clone()
    };
    for (project, number, pods) in [("p", 1, "4"), ("q", 2, "6"), ("q", 3, "7")] {
        let uid = format!("7b0ab1a6-63f1-4f36-b7a1-6ad2ba2f24d{number}");
        report(
            project,
            json!([{"clusterName": "c1", "namespace": "lost", "uid": uid, "hard": {"pods": pods}}]),
        )
        .await;
        compare(&world).await;
        until("it is held", async || {
            let held = held(project).await;
            held.as_array().is_some_and(|held| held.iter().any(|held| held["uid"] == *uid))
        })
        .await;
    }
    assert_eq!(held("p").await[0]["hard"], json!({"pods": "4"}));
    world.assert_books_agree().await;
    for project in ["p", "q"] {
        report(project, json!([])).await;
    }
    compare(&world).await;
    for project in ["p", "q"] {
        until("it is written off", async || held(project).await == Value::Null).await;
    }
    world.assert_books_agree().await;
}

/// A charge that an operator gives up counts from that moment on, and its project tells of it soon.
#[tokio::test]
async fn an_abandoned_charge_counts_at_once_and_is_told_without_an_audit() {
    let world = World::new().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    admin.post("/projects", project("p", json!({"pods": "10"}))).await.expect(201);
    admin.post(&namespaces("p"), namespace("lost", json!({"pods": "4"}))).await.expect(201);
    let path = "/namespaces/p/namespaces/c1-lost";
    admin.delete(path).await.expect(200);
    operator.post(&format!("{path}/abandon"), json!({"reason": "c1 burnt down"})).await.expect(201);
    let none = |object: &mut Value| object["spec"]["finalizers"] = json!([]);
    operator.replace(path, "/finalize", none).await.expect(200);
    assert_eq!(operator.get(path).await.code, 404);
    let refused = admin.post(&namespaces("p"), namespace("a", json!({"pods": "7"}))).await;
    assert_eq!(refused.code, 403, "{refused:?}");
    until("the project tells of it", async || ledger(&operator).await["held"][0]["state"] == "abandoned")
        .await;
    world.assert_books_agree().await;
}

#[tokio::test]
async fn growth_goes_on_by_itself_when_both_sides_were_compared_and_nothing_is_left() {
    let world = World::new().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    admin.post("/projects", project("p", json!({"pods": "10"}))).await.expect(201);
    sql(&world, "UPDATE ledger SET allocated = hard WHERE scope = 'p' AND key = 'pods'").await;
    sql(&world, "UPDATE rev SET held = true, held_reason = 'history has diverged'").await;
    let create = async |name: &str| admin.post(&namespaces("p"), namespace(name, json!({"pods": "1"}))).await;
    assert_eq!(create("a").await.code, 503);
    until("the difference is shown", async || {
        let told = ledger(&operator).await;
        told["differences"][0].as_str().is_some_and(|text| text.contains("p/c1/pods"))
    })
    .await;
    compare(&world).await;
    assert_eq!(create("a").await.code, 503, "the ledger gives less than there is");
    let told = audit(&world, "").await.text;
    assert!(told.contains("growth is held: history has diverged; 1 differences"), "{told}");
    assert_eq!(operator.get("/readyz/postgres").await.code, 200, "the database is there");

    assert!(audit(&world, "--repair").await.consistent);
    compare(&world).await;
    until("growth goes on", async || create("a").await.code == 201).await;
    until("nothing is told any more", async || ledger(&operator).await == Value::Null).await;
    assert!(!audit(&world, "").await.text.contains("growth"));
    world.assert_books_agree().await;
}

#[tokio::test]
async fn growth_that_an_operator_holds_waits_for_him() {
    let world = World::new().await;
    let admin = world.admin("t");
    admin.post("/projects", project("p", json!({"pods": "10"}))).await.expect(201);
    let told = audit(&world, "--hold maintenance").await.text;
    assert!(told.contains("growth is held: maintenance; it waits for business-api audit --go-on"), "{told}");
    compare(&world).await;
    assert_eq!(admin.post(&namespaces("p"), namespace("a", json!({"pods": "1"}))).await.code, 503);
    audit(&world, "--go-on").await;
    admin.post(&namespaces("p"), namespace("a", json!({"pods": "1"}))).await.expect(201);
}

#[tokio::test]
async fn an_import_that_was_not_ended_is_called_again_and_nobody_lets_growth_go_on_before() {
    let world = World::new().await;
    sql(&world, "UPDATE rev SET held = true, held_reason = 'an import is under way' WHERE id = 1").await;
    let told = audit(&world, "").await.text;
    assert!(told.contains("growth is held: an import is under way: it ends when"), "{told}");
    let line = format!("business-api audit --go-on --database-url {}", world.database.url);
    let Command::Audit(settings) = Cli::parse_from(line.split_whitespace()).command else {
        panic!("not audit")
    };
    let refused = format!("{:#}", business_api::audit::run(&settings).await.unwrap_err());
    assert!(refused.contains("`business-api import --apply`"), "{refused}");
    assert!(audit(&world, "").await.text.contains("an import is under way"));
}

/// Of the objects as they are served; 0 where they are not.
async fn revision(operator: &Client) -> u64 {
    let list = operator.get("/projects").await;
    let revision = list.body["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
    revision.unwrap_or_default()
}

/// Nothing grows in project p before the clusters are compared, and then it does.
async fn growth_waits_for_a_comparison(world: &World) {
    let admin = world.admin("t");
    let create = async || admin.post(&namespaces("p"), namespace("a", json!({"pods": "1"}))).await.code;
    assert_eq!(create().await, 503);
    compare(world).await;
    until("growth goes on", async || create().await == 201).await;
    world.assert_books_agree().await;
}

/// Of a copy of the files nobody can tell: what a stale controller has compared with the state before counts for nothing.
#[tokio::test]
async fn after_a_restore_that_was_told_growth_waits_for_a_comparison_with_what_is_there_now() {
    let world = World::new().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    admin.post("/projects", project("p", json!({"pods": "10"}))).await.expect(201);
    compare(&world).await;
    let before = revision(&operator).await;
    let told = audit(&world, "--restored").await.text;
    let waits =
        "growth is held: history has diverged; the controller has not compared the member clusters since";
    assert!(told.contains(waits), "{told}");
    until("the new history is served", async || revision(&operator).await >= before + (1 << 40)).await;
    growth_waits_for_a_comparison(&world).await;
}

/// Nothing that is put back tells of the history in which it was compared.
#[tokio::test]
async fn what_was_compared_after_an_earlier_restore_of_the_same_backup_releases_nothing() {
    let world = World::new().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    admin.post("/projects", project("p", json!({"pods": "10"}))).await.expect(201);
    compare(&world).await;
    let mut database = world.database.connect().await.unwrap();
    let back_up = "CREATE TEMP TABLE kept AS SELECT r.v, r.epoch, c.compacted FROM rev r, compaction c";
    let restore = "BEGIN; UPDATE rev SET v = kept.v, epoch = kept.epoch, held = false, held_reason = '' FROM kept; \
         UPDATE compaction SET compacted = kept.compacted FROM kept; \
         DELETE FROM events WHERE rv > (SELECT v FROM kept); COMMIT";
    sqlx::raw_sql(back_up).execute(&mut database).await.unwrap();
    let mut served = Vec::new();
    for meanwhile in [restore, "SELECT 1"] {
        audit(&world, "--restored").await;
        let begun: i64 = sqlx::query_scalar("SELECT v FROM rev").fetch_one(&mut database).await.unwrap();
        let begun = u64::try_from(begun).unwrap();
        until("the new history is served", async || revision(&operator).await >= begun).await;
        served.push(revision(&operator).await);
        sqlx::raw_sql(meanwhile).execute(&mut database).await.unwrap();
    }
    world.compared(&["c1", "c2"], served[0]).await;
    let told = audit(&world, "").await.text;
    assert!(told.contains("the controller has not compared the member clusters since"), "{told}");
    growth_waits_for_a_comparison(&world).await;
}

#[tokio::test]
async fn an_excess_of_a_living_object_is_held_beside_it_until_it_is_gone() {
    let world = World::new().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    admin.post("/projects", project("p", json!({"pods": "10"}))).await.expect(201);
    admin.post(&namespaces("p"), namespace("a", json!({"pods": "3"}))).await.expect(201);
    let uid = "7b0ab1a6-63f1-4f36-b7a1-6ad2ba2f24d0";
    let report = async |amount: &str| {
        let ahead = json!({"clusterName": "c1", "namespace": "a", "uid": uid, "state": "Ahead", "hard": {"pods": amount}});
        let orphans = if amount == "0" { json!([]) } else { json!([ahead]) };
        operator
            .patch(&format!("{PROJECT}/status"), json!({"status": {"orphans": orphans}}))
            .await
            .expect(200);
    };
    for amount in ["6", "5"] {
        report(amount).await;
        compare(&world).await;
        until("the excess is held", async || ledger(&operator).await["held"][0]["hard"]["pods"] == amount)
            .await;
    }
    let held = &ledger(&operator).await["held"][0];
    assert_eq!((&held["uid"], &held["clusterName"]), (&json!(uid), &json!("c1")));
    until("refusals name the namespace", async || {
        let refused = admin.post(&namespaces("p"), namespace("b", json!({"pods": "3"}))).await;
        assert_eq!(refused.code, 403, "{refused:?}");
        let named =
            "objects are charged: namespace a of cluster c1 may take more than its object is charged)";
        refused.message().contains(named)
    })
    .await;
    report("0").await;
    compare(&world).await;
    until("it is written off", async || ledger(&operator).await == Value::Null).await;
    admin.post(&namespaces("p"), namespace("b", json!({"pods": "7"}))).await.expect(201);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn an_excess_is_held_in_the_project_that_its_object_has_moved_to() {
    let world = World::new().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    for name in ["p", "q"] {
        admin.post("/projects", project(name, json!({"pods": "10"}))).await.expect(201);
    }
    admin.post(&namespaces("p"), namespace("a", json!({"pods": "3"}))).await.expect(201);
    let ahead = json!({"clusterName": "c1", "namespace": "a", "uid": RELEASED, "state": "Ahead", "hard": {"pods": "5"}});
    let report = async |project: &str, orphans: Value| {
        let body = json!({"status": {"orphans": orphans}});
        operator.patch(&format!("/projects/{project}/status"), body).await.expect(200);
    };
    let held = async |project: &str| {
        operator.get(&format!("/projects/{project}")).await.expect(200)["status"]["ledger"]["held"].clone()
    };
    report("p", json!([ahead])).await;
    compare(&world).await;
    until("the excess is held", async || held("p").await[0]["hard"]["pods"] == "5").await;
    let to = json!({"project": "q"});
    admin.post("/namespaces/p/namespaces/c1-a/transfer", to).await.expect(201);
    report("p", json!([])).await;
    report("q", json!([ahead])).await;
    compare(&world).await;
    until("it is held in the new project", async || held("q").await[0]["hard"]["pods"] == "5").await;
    until("nothing is held in the former one", async || held("p").await == Value::Null).await;
    assert_eq!(admin.post(&namespaces("q"), namespace("b", json!({"pods": "3"}))).await.code, 403);
    admin.post(&namespaces("p"), namespace("c", json!({"pods": "10"}))).await.expect(201);
    world.assert_books_agree().await;
}

/// Tenant t has project p, whose namespace of 4 pods was released. What the controller tells of it, in a state.
async fn released() -> (World, String, impl Fn(&str) -> Value) {
    let world = World::new().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    admin.post("/projects", project("p", json!({"pods": "10"}))).await.expect(201);
    let made = admin.post(&namespaces("p"), namespace("a", json!({"pods": "4"}))).await.expect(201);
    let object = "/namespaces/p/namespaces/c1-a";
    admin.delete(object).await.expect(200);
    let record = json!({"uid": RELEASED, "provenance": "Released"});
    operator
        .patch(&format!("{object}/status"), json!({"status": {"clusterNamespace": record}}))
        .await
        .expect(200);
    operator.replace(object, "/finalize", |o| o["spec"]["finalizers"] = json!([])).await.expect(200);
    let told = |state: &str| {
        json!({"status": {"orphans": [
            {"clusterName": "c1", "namespace": "a", "uid": RELEASED, "state": state, "hard": {"pods": "4"}},
        ]}})
    };
    operator.patch(&format!("{PROJECT}/status"), told("Released")).await.expect(200);
    compare(&world).await;
    until("it is held", async || ledger(&operator).await["held"][0]["state"] == "released").await;
    assert_eq!(ledger(&operator).await["held"].as_array().map(Vec::len), Some(1));
    (world, made["metadata"]["uid"].as_str().unwrap().to_owned(), told)
}

#[tokio::test]
async fn what_is_released_counts_until_it_is_written_off_and_the_controller_hears_of_that() {
    let (world, uid, _) = released().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    assert_eq!(
        admin.post(&namespaces("p"), namespace("a", json!({"pods": "1"}))).await.code,
        409,
        "its place, too"
    );

    let line = format!("business-api audit --write-off {uid} --database-url {}", world.database.url);
    let Command::Audit(settings) = Cli::parse_from(line.split(' ')).command else { panic!("not audit") };
    business_api::audit::run(&settings).await.unwrap();
    compare(&world).await;
    until("the controller hears of it", async || {
        ledger(&operator).await == json!({"writtenOff": [RELEASED]})
    })
    .await;
    operator.patch(&format!("{PROJECT}/status"), json!({"status": {"orphans": []}})).await.expect(200);
    compare(&world).await;
    until("nothing is told any more", async || ledger(&operator).await == Value::Null).await;
    admin.post(&namespaces("p"), namespace("a", json!({"pods": "10"}))).await.expect(201);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn what_is_written_off_in_a_cluster_that_is_gone_for_good_is_not_held_again() {
    const LOST: &str = "7b0ab1a6-63f1-4f36-b7a1-6ad2ba2f24d1";
    let (world, uid, told) = released().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    let mut both = told("Released");
    let lost = json!({"clusterName": "c1", "namespace": "lost", "uid": LOST, "state": "Lost", "hard": {"pods": "3"}});
    both["status"]["orphans"].as_array_mut().unwrap().push(lost);
    operator.patch(&format!("{PROJECT}/status"), both).await.expect(200);
    compare(&world).await;
    let held = async || ledger(&operator).await["held"].as_array().map(Vec::len);
    until("both are held", async || held().await == Some(2)).await;
    let away = json!({"status": {"comparison": {"revision": 0, "missing": "it does not answer"}}});
    operator.patch("/memberclusters/c1/status", away).await.expect(200);

    for uid in [uid.as_str(), LOST] {
        audit(&world, &format!("--write-off {uid}")).await;
    }
    let orphans = async || operator.get(PROJECT).await.expect(200)["status"].get("orphans").cloned();
    until("nothing is told any more", async || orphans().await.is_none()).await;
    until("nothing is held any more", async || ledger(&operator).await == Value::Null).await;
    admin.post(&namespaces("p"), namespace("a", json!({"pods": "10"}))).await.expect(201);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn a_lost_namespace_gets_an_object_again_when_what_is_held_for_it_is_written_off() {
    let world = World::new().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    admin.post("/projects", project("p", json!({"pods": "10"}))).await.expect(201);
    let lost = json!({"clusterName": "c1", "namespace": "lost", "uid": RELEASED, "state": "Lost", "hard": {"pods": "4"}});
    operator.patch(&format!("{PROJECT}/status"), json!({"status": {"orphans": [lost]}})).await.expect(200);
    compare(&world).await;
    until("it is held", async || ledger(&operator).await["held"][0]["namespace"] == "lost").await;
    let mut again = namespace("lost", json!({"pods": "10"}));
    again["metadata"]["annotations"] = json!({"business.tkestack.io/adopt": "true"});
    assert_eq!(operator.post(&namespaces("p"), again.clone()).await.code, 409, "its place is held");
    audit(&world, &format!("--write-off {RELEASED}")).await;
    until("nothing is held any more", async || ledger(&operator).await == Value::Null).await;
    operator.post(&namespaces("p"), again).await.expect(201);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn what_is_released_and_unused_is_written_off_and_the_controller_hears_of_that() {
    let (world, _, told) = released().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    compare(&world).await;
    operator.patch(&format!("{PROJECT}/status"), told("Unused")).await.expect(200);
    compare(&world).await;
    until("the controller hears of it", async || {
        ledger(&operator).await == json!({"writtenOff": [RELEASED]})
    })
    .await;
    admin.post(&namespaces("p"), namespace("b", json!({"pods": "10"}))).await.expect(201);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn growth_waits_for_a_cluster_that_the_controller_has_forgotten() {
    let world = World::new().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    for name in ["c1", "c2"] {
        world.register(member_cluster(name, &["*"]), json!({})).await;
    }
    admin.post("/projects", project("p", json!({"pods": "10"}))).await.expect(201);
    admin.post(&namespaces("p"), namespace("a", json!({"pods": "1"}))).await.expect(201);
    sql(&world, "UPDATE rev SET held = true, held_reason = 'history has diverged'").await;
    let create = async || admin.post(&namespaces("p"), namespace("b", json!({"pods": "1"}))).await.code;
    // With the second audit that is seen, the first has come to its end.
    for number in 1..=2 {
        let uid = format!("7b0ab1a6-63f1-4f36-b7a1-6ad2ba2f24d{number}");
        let lost = format!("lost-{number}");
        let orphan = json!({"clusterName": "c2", "namespace": lost, "uid": uid, "hard": {}});
        let report = json!({"status": {"orphans": [orphan]}});
        let project = operator.patch(&format!("{PROJECT}/status"), report).await.expect(200);
        let revision = project["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        world.compared(&["c2"], revision).await;
        until("the audit was made", async || {
            let held = ledger(&operator).await["held"].clone();
            held.as_array().is_some_and(|held| held.iter().any(|held| held["uid"] == *uid))
        })
        .await;
    }
    assert_eq!(create().await, 503);
    compare(&world).await;
    until("growth goes on", async || create().await == 201).await;
}

#[tokio::test]
async fn one_repair_mends_columns_and_ledger_whatever_cannot_be_read() {
    let world = World::new().await;
    let admin = world.admin("t");
    for name in ["p", "q", "r"] {
        admin.post("/projects", project(name, json!({"pods": "10"}))).await.expect(201);
    }
    admin.post("/projects", child("sub", "p", json!({"pods": "4"}))).await.expect(201);
    admin.post(&namespaces("sub"), namespace("a", json!({"pods": "4"}))).await.expect(201);
    for name in ["b", "c"] {
        admin.post(&namespaces("r"), namespace(name, json!({"pods": "1"}))).await.expect(201);
    }
    sql(&world, "UPDATE objects SET body = '{' WHERE name = 'c1-b'").await;
    sql(&world, "UPDATE objects SET locked = true WHERE name = 'c1-c'").await;
    // What the namespace has above its project's limit belongs to p, and the column says q.
    let larger =
        "UPDATE objects SET body = replace(body, '{\"pods\":\"4\"}', '{\"pods\":\"6\"}') WHERE name = 'c1-a'";
    sql(&world, larger).await;
    sql(&world, "UPDATE objects SET scope = 'q' WHERE name = 'sub'").await;
    let told = audit(&world, "--repair").await;
    let differences: Vec<&str> = told.text.lines().filter(|line| !line.starts_with("1 difference")).collect();
    assert!(differences.len() == 1 && differences[0].starts_with("object r/c1-b "), "{}", told.text);
    assert!(!told.consistent);
}

#[tokio::test]
async fn a_schema_that_somebody_changed_is_told() {
    let world = World::new().await;
    let audit = async |more: &str| {
        let line = format!("business-api audit --database-url {} {more}", world.database.url);
        let Command::Audit(settings) = Cli::parse_from(line.split_whitespace()).command else {
            panic!("not audit")
        };
        business_api::audit::run(&settings).await.unwrap()
    };
    assert!(audit("").await.consistent);
    let mut database = world.database.connect().await.unwrap();
    let change = "ALTER TABLE ledger DROP CONSTRAINT ledger_never_over_committed";
    sqlx::query(change).execute(&mut database).await.unwrap();
    let finding = audit("").await;
    let told = "the schema was changed: constraint ledger.ledger_never_over_committed is missing";
    assert!(!finding.consistent && finding.text.contains(told), "{}", finding.text);
    let json: Value = serde_json::from_str(&audit("-o json").await.text).unwrap();
    assert_eq!(json["schema"], json!(["constraint ledger.ledger_never_over_committed is missing"]));
}

#[tokio::test]
async fn a_role_that_may_make_no_schema_audits_the_rest() {
    let world = World::new().await;
    let mut database = world.database.connect().await.unwrap();
    let role = format!("auditor_{}", uuid::Uuid::new_v4().simple());
    let grants = format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'p'; GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}; \
         GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(grants)).execute(&mut database).await.unwrap();
    let (_, place) = world.database.url.split_once('@').unwrap();
    let line = format!("business-api audit -o json --database-url postgres://{role}:p@{place}");
    let Command::Audit(settings) = Cli::parse_from(line.split(' ')).command else { panic!("not audit") };
    let finding = business_api::audit::run(&settings).await.unwrap();
    let json: Value = serde_json::from_str(&finding.text).unwrap();
    let why = json["schemaNotCompared"].as_str().unwrap();
    assert!(finding.consistent && why.contains("permission denied"), "{}", finding.text);
    let done = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(done)).execute(&mut database).await.unwrap();
}

/// Of what costs nothing the audit knows that it costs nothing: it compares the whole ledger all the same.
#[tokio::test]
async fn an_object_of_every_kind_is_known_to_the_audit() {
    let world = World::new().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    let named = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let of_root = [
        ("/tenants", named("t", json!({"displayName": "t"}))),
        ("/memberclusters", named("c1", json!({"tenants": ["*"]}))),
        ("/platforms", named("plf", json!({"tenantID": "t", "administrators": ["nora"]}))),
        ("/namespacetemplates", named("standard", json!({"labels": {"team": "a"}}))),
    ];
    for (path, body) in of_root {
        operator.post(path, body).await.expect(201);
    }
    admin.post("/configmaps", json!({"metadata": {"name": "map"}, "data": {"a": "1"}})).await.expect(201);
    for name in ["p", "q"] {
        let make = async || admin.post("/projects", project(name, json!({"pods": "10"}))).await.code == 201;
        until("the cluster is known", make).await;
    }
    admin.post(&namespaces("p"), namespace("n", json!({"pods": "1"}))).await.expect(201);
    let available = json!({"status": {"phase": "Available"}});
    operator.patch("/namespaces/p/namespaces/c1-n/status", available).await.expect(200);
    let of_project = [
        ("nsemigrations", json!({"metadata": {}, "spec": {"namespace": "c1-n", "destination": "q"}})),
        ("imagenamespaces", registry_object("ImageNamespace", "images", None)),
        ("chartgroups", registry_object("ChartGroup", "charts", None)),
        ("registrycredentials", named("ci", json!({"access": "Pull"}))),
    ];
    for (plural, body) in of_project {
        admin.post(&format!("/namespaces/p/{plural}"), body).await.expect(201);
    }
    let mut connection = world.database.connect().await.unwrap();
    let kinds: Vec<i16> = sqlx::query_scalar("SELECT DISTINCT kind FROM objects ORDER BY 1")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert_eq!(kinds, KINDS.stored_rows().map(|row| row.id.0).collect::<Vec<_>>(), "an object of each kind");
    world.assert_books_agree().await;
    assert!(audit(&world, "--repair").await.text.starts_with("ledger and objects agree"));

    let stray = "INSERT INTO ledger (scope_kind, scope, domain, key, allocated) \
         SELECT 9, scope, domain, key, 1 FROM ledger WHERE scope = 'p' AND key = 'pods'";
    sql(&world, stray).await;
    let found = audit(&world, "").await;
    assert!(!found.consistent && found.text.contains("1 difference"), "{}", found.text);
}
