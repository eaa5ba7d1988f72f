//! Two kinds more, in a row more each: what docs/adding-a-kind.md says of a charged and of a computed kind, done.

mod occupancy;
mod shelf;

use crate::support::{GROUP, World, namespace, namespaces, project, until};
use business_api::audit;
use business_api::config::{Cli, Command};
use business_api::kinds::{self, KindRow, KindTable};
use clap::Parser;
use serde_json::{Value, json};

const ROWS: &[KindRow] = &[
    kinds::project::ROW,
    kinds::namespace::ROW,
    kinds::platform::ROW,
    kinds::config_map::ROW,
    kinds::nsemigration::ROW,
    kinds::image_namespace::ROW,
    kinds::chart_group::ROW,
    kinds::registry_credential::ROW,
    kinds::tenant::ROW,
    kinds::member_cluster::ROW,
    kinds::namespace_template::ROW,
    occupancy::ROW,
    shelf::ROW,
];
const KINDS: KindTable = KindTable(ROWS);

fn shelf(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "business.tkestack.io/v1", "kind": "Shelf", "metadata": {"name": name}, "spec": spec})
}

fn hard(path: &str, bytes: &str) -> Value {
    json!({"path": path, "hard": {"requests.storage": bytes}})
}

const SHELVES: &str = "/namespaces/p/shelves";

async fn world() -> World {
    let world = World::with_kinds(KINDS).await;
    let admin = world.admin("t");
    let mut body = project("p", json!({"pods": "10"}));
    body["spec"]["members"] = json!(["alice"]);
    admin.post("/projects", body).await.expect(201);
    let limits = json!({"limits": {"requests.storage": "100", "count/repositories": "7"}});
    admin.post(SHELVES, shelf("limits", &limits)).await.expect(201);
    world
}

#[tokio::test]
async fn a_kind_in_a_row_of_the_table_is_served_charged_and_refused() {
    let world = world().await;
    let (admin, alice) = (world.admin("t"), world.member("alice", "t"));
    let served = admin.get(GROUP).await.expect(200);
    let names =
        served["resources"].as_array().unwrap().iter().map(|resource| resource["name"].as_str().unwrap());
    assert!(names.into_iter().any(|name| name == "shelves"), "{served:#}");
    until("membership is known", async || alice.get("/projects").await.names().len() == 1).await;

    // A key that the project limits in a domain that is not mandatory need not be carried.
    let made = alice.post(SHELVES, shelf("a", &hard("t/a", "60"))).await.expect(201);
    assert_eq!(made["spec"]["tenantID"], "t");
    let over = admin.post(SHELVES, shelf("b", &hard("t/b", "41"))).await;
    assert_eq!((over.code, over.body["reason"].as_str()), (403, Some("Forbidden")), "{over:?}");
    assert_eq!(over.causes(), [("QuotaExceeded".to_owned(), "spec.hard[requests.storage]".to_owned())]);
    assert!(over.message().ends_with("the largest that fits is 40"), "{}", over.message());
    let taken = admin.post(SHELVES, shelf("b", &hard("t/a", "1"))).await;
    assert_eq!((taken.code, taken.causes()[0].1.as_str()), (409, "spec.path"), "{taken:?}");
    admin.post(SHELVES, shelf("b", &hard("t/b", "40"))).await.expect(201);
    let below = admin
        .patch(&format!("{SHELVES}/limits"), json!({"spec": {"limits": {"requests.storage": "99"}}}))
        .await;
    assert_eq!(below.causes()[0].0, "BelowAllocated", "{below:?}");
    let unlisted = json!({"path": "t/c", "hard": {"requests.storage": "1"}});
    admin.post("/projects", project("q", json!({"pods": "1"}))).await.expect(201);
    let refused = admin.post("/namespaces/q/shelves", shelf("c", &unlisted)).await;
    assert_eq!(refused.code, 422, "the project lists no shelves: {refused:?}");

    assert_eq!(alice.delete(&format!("{SHELVES}/a")).await.code, 403, "members add, administrators rule");
    assert_eq!(world.admin("u").get(SHELVES).await.names(), [""; 0]);
    assert_eq!(world.admin("u").post(SHELVES, shelf("d", &hard("u/d", "1"))).await.code, 404);
    admin.delete(&format!("{SHELVES}/a")).await.expect(200);
    admin.post(SHELVES, shelf("c", &hard("t/c", "60"))).await.expect(201);
    // Namespaces know nothing of it: their clusters are other domains.
    admin.post(&namespaces("p"), namespace("n", json!({"pods": "10"}))).await.expect(201);
    world.assert_books_of(KINDS).await;
}

#[tokio::test]
async fn a_computed_kind_in_a_row_of_the_table_shows_what_its_caller_sees() {
    let world = world().await;
    let (admin, alice) = (world.admin("t"), world.member("alice", "t"));
    admin.post(SHELVES, shelf("a", &hard("t/a", "1"))).await.expect(201);
    until("membership is known", async || alice.get("/projects").await.names().len() == 1).await;
    for who in [&admin, &alice, &world.operator()] {
        let seen = who.get("/occupancies").await;
        assert_eq!(seen.names(), ["p"]);
        assert_eq!(seen.body["items"][0]["status"]["shelves"], 2, "{seen:?}");
    }
    assert_eq!(world.admin("u").get("/occupancies").await.names(), [""; 0]);
    assert_eq!(world.admin("u").get("/occupancies/p").await.code, 404);
    assert!([403, 405].contains(&admin.delete("/occupancies/p").await.code), "it is only read");
}

#[tokio::test]
async fn growth_of_a_kind_in_a_row_is_warned_of() {
    let world = world().await;
    let admin = world.admin("t");
    admin.post(SHELVES, shelf("a", &hard("t/a", "50"))).await.expect(201);
    until("the allocations are known", async || {
        let path = format!("{SHELVES}?dryRun=All");
        let answer = admin.post(&path, shelf("b", &hard("t/b", "40"))).await;
        assert_eq!(answer.code, 201);
        answer.warnings.iter().any(|warning| warning.contains("90% of requests.storage of project p"))
    })
    .await;
}

#[tokio::test]
async fn a_release_without_the_kind_leaves_it_alone_and_says_so() {
    let world = world().await;
    let admin = world.admin("t");
    admin.post(SHELVES, shelf("a", &hard("t/a", "60"))).await.expect(201);
    let line = format!("business-api audit --repair --output json --database-url {}", world.database.url);
    let Command::Audit(settings) = Cli::parse_from(line.split(' ')).command else { panic!("not audit") };
    let finding = audit::run(&settings).await.unwrap();
    let report: Value = serde_json::from_str(&finding.text).unwrap();
    assert_eq!(report["unknownKinds"], json!([12]), "{report:#}");
    assert!(finding.consistent, "{report:#}");
    let over = admin.post(SHELVES, shelf("b", &hard("t/b", "41"))).await;
    assert_eq!(over.code, 403, "what it costs was not given back: {over:?}");
    world.assert_books_of(KINDS).await;
}
