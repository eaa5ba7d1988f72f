//! The portal: what a caller is, and which projects he sees.

use crate::support::{Client, World, child, project, until};
use serde_json::{Value, json};
use std::time::Instant;

const PORTAL: &str = "/portal";

async fn portal(who: &Client) -> Value {
    who.get(PORTAL).await.expect(200)
}

async fn world() -> World {
    let world = World::new().await;
    for (tenant, name) in [("acme", "metadata"), ("globex", "theirs")] {
        let mut body = project(name, json!({"pods": "9"}));
        body["spec"]["members"] = json!(["alice"]);
        world.admin(tenant).post("/projects", body).await.expect(201);
    }
    let mut kid = child("kid", "metadata", json!({"pods": "1"}));
    kid["spec"]["members"] = json!(["alice", "bob"]);
    kid["spec"]["displayName"] = json!("The kid");
    world.admin("acme").post("/projects", kid).await.expect(201);
    world
}

#[tokio::test]
async fn it_tells_what_the_caller_is_and_which_projects_he_sees() {
    let world = world().await;
    let of = |administrator: bool, projects: Value, extension: Value| {
        json!({"apiVersion": "business.tkestack.io/v1", "kind": "Portal", "metadata": {},
            "administrator": administrator, "projects": projects, "extension": extension})
    };
    let both = json!({"kid": "The kid", "metadata": "metadata"});
    let more = json!({
        "kid": {"parent": "metadata", "phase": "Pending"}, "metadata": {"parent": "", "phase": "Pending"},
    });
    let (alice, bob) = (world.member("alice", "acme"), world.member("bob", "acme"));
    until("members are known", async || portal(&alice).await["projects"] == both).await;
    assert_eq!(portal(&alice).await, of(false, both.clone(), more.clone()));
    assert_eq!(portal(&world.admin("acme")).await, of(true, both, more.clone()));
    assert_eq!(portal(&bob).await["projects"], json!({"kid": "The kid"}));
    assert_eq!(portal(&world.member("nobody", "acme")).await, of(false, json!({}), json!({})));
    assert_eq!(portal(&world.operator()).await, of(true, json!({}), Value::Null));
    let elsewhere = portal(&world.member("alice", "globex")).await;
    assert_eq!(elsewhere["projects"], json!({"theirs": "theirs"}));
    // Nobody rules a tenant because of its name.
    assert_eq!(portal(&world.member("dana", "default")).await, of(false, json!({}), json!({})));
    assert_eq!(world.stranger().get(PORTAL).await.code, 403);
    assert_eq!(world.nobody().get(PORTAL).await.code, 403);
}

#[tokio::test]
async fn it_follows_what_is_written() {
    let world = world().await;
    let (admin, alice) = (world.admin("acme"), world.member("alice", "acme"));
    admin.patch("/projects/kid", json!({"spec": {"displayName": "Renamed"}})).await.expect(200);
    assert_eq!(portal(&admin).await["projects"]["kid"], "Renamed", "a replica shows its own writes");
    until("alice sees it", async || portal(&alice).await["projects"]["kid"] == "Renamed").await;
    admin.patch("/projects/kid", json!({"spec": {"members": ["bob"]}})).await.expect(200);
    admin.patch("/projects/metadata", json!({"spec": {"members": []}})).await.expect(200);
    until("alice sees it no more", async || portal(&alice).await["projects"] == json!({})).await;
}

#[tokio::test]
async fn it_comes_in_every_form_of_an_object() {
    let world = world().await;
    let table =
        world.admin("acme").get_as(PORTAL, "application/json;as=Table;v=v1;g=meta.k8s.io").await.expect(200);
    let cells = &table["rows"][0]["cells"];
    assert_eq!((&cells[1], &cells[2]), (&json!(true), &json!("kid,metadata")), "{table:#}");
    let partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let partial = world.admin("acme").get_as(PORTAL, partial).await.expect(200);
    assert_eq!(partial["metadata"], json!({}), "a project's name makes no metadata");
}

/// `cargo test -p business-api --test api -- --ignored --nocapture a_member_of_twenty`
#[tokio::test]
#[ignore = "measures"]
async fn a_member_of_twenty_among_ten_thousand() {
    let world = World::new().await;
    let admin = world.admin("acme");
    for block in 0..100 {
        let made = (0..100).map(|number| {
            let (number, admin) = (block * 100 + number, admin.clone());
            async move {
                let mut body = project(&format!("p-{number}"), json!({"pods": "9", "requests.cpu": "4"}));
                if number % 500 == 0 {
                    body["spec"]["members"] = json!(["alice"]);
                }
                admin.post("/projects", body).await.expect(201)
            }
        });
        futures_util::future::join_all(made).await;
    }
    let mut alice = world.member("alice", "acme").kept().await;
    until("all is seen", async || alice.get(PORTAL).await.body["projects"].as_object().unwrap().len() == 20)
        .await;
    // What a request costs that is answered with a small document that is there.
    for path in ["/apis/business.tkestack.io", PORTAL] {
        let mut took = Vec::new();
        for _ in 0..2_000 {
            let start = Instant::now();
            let answer = alice.get(path).await;
            took.push(start.elapsed());
            answer.expect(200);
        }
        took.sort();
        println!("{path}: fastest {:?}, median {:?}, 99% {:?}", took[0], took[1_000], took[1_980]);
    }
    let start = Instant::now();
    let all = portal(&admin).await;
    println!("of all {}: {:?}", all["projects"].as_object().unwrap().len(), start.elapsed());
}
