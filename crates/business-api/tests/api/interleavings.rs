//! What the rules are there for: two writes, or a write and a cluster, that meet at the wrong moment.

use crate::support::{Answer, Client, World, child, namespace, namespaces, project};
use serde_json::{Value, json};

const PATH: &str = "/namespaces/p/namespaces/c1-a";

async fn world() -> (World, Client, Client) {
    let world = World::new().await;
    let (admin, operator) = (world.admin("t"), world.operator());
    admin.post("/projects", project("p", json!({"pods": "10"}))).await.expect(201);
    (world, admin, operator)
}

fn hard(pods: &str) -> Value {
    json!({"spec": {"hard": {"pods": pods}}})
}

/// The controller's word: of the object as it read it, the cluster enforces this.
async fn confirm(controller: &Client, read: &Value, enforced: &str) -> Answer {
    let mut object = read.clone();
    object["status"]["observedGeneration"] = read["metadata"]["generation"].clone();
    object["status"]["cachedSpecHard"] = json!({"pods": enforced});
    controller.put(&format!("{PATH}/status"), object).await
}

#[tokio::test]
async fn a_raise_and_a_lowering_between_write_and_confirmation_refund_nothing() {
    let (world, admin, controller) = world().await;
    admin.post(&namespaces("p"), namespace("a", json!({"pods": "2"}))).await.expect(201);
    admin.patch(PATH, hard("8")).await.expect(200);
    // The controller has read 8 and is writing it to the cluster.
    let seen = controller.get(PATH).await.expect(200);
    let lowered = admin.patch(PATH, hard("3")).await.expect(200);
    assert_eq!(
        lowered["status"]["cachedSpecHard"],
        json!({"pods": "8"}),
        "the cluster may enforce 8 already"
    );
    assert_eq!(confirm(&controller, &seen, "8").await.code, 409, "its read is out of date");
    let other = || namespace("b", json!({"pods": "3"}));
    assert_eq!(admin.post(&namespaces("p"), other()).await.code, 403);
    let seen = controller.get(PATH).await.expect(200);
    let settled = confirm(&controller, &seen, "3").await.expect(200);
    assert_eq!(settled["status"]["cachedSpecHard"], json!({"pods": "3"}));
    admin.post(&namespaces("p"), other()).await.expect(201);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn a_create_that_is_lowered_mid_write_stays_charged_in_full() {
    let (world, admin, controller) = world().await;
    let made = admin.post(&namespaces("p"), namespace("a", json!({"pods": "9"}))).await.expect(201);
    // The controller is creating the quota with 9 from what it has read.
    admin.patch(PATH, hard("1")).await.expect(200);
    assert_eq!(confirm(&controller, &made, "9").await.code, 409);
    assert_eq!(admin.post(&namespaces("p"), namespace("b", json!({"pods": "2"}))).await.code, 403);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn a_lowering_under_current_use_is_charged_until_use_has_fallen() {
    let (world, admin, controller) = world().await;
    admin.post(&namespaces("p"), namespace("a", json!({"pods": "8"}))).await.expect(201);
    // In use are 6, which no status has said yet: the lowering is accepted.
    admin.patch(PATH, hard("2")).await.expect(200);
    let seen = controller.get(PATH).await.expect(200);
    confirm(&controller, &seen, "6").await.expect(200);
    assert_eq!(admin.post(&namespaces("p"), namespace("b", json!({"pods": "5"}))).await.code, 403);
    let seen = controller.get(PATH).await.expect(200);
    confirm(&controller, &seen, "2").await.expect(200);
    admin.post(&namespaces("p"), namespace("b", json!({"pods": "5"}))).await.expect(201);
    // What a status has said is in use is a floor.
    controller.replace(PATH, "/status", |o| o["status"]["used"] = json!({"pods": "2"})).await.expect(200);
    let refused = admin.patch(PATH, hard("1")).await;
    assert_eq!(refused.causes(), [("BelowUsed".to_owned(), "spec.hard[pods]".to_owned())]);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn an_old_leader_that_wakes_confirms_nothing() {
    let (world, admin, controller) = world().await;
    admin.post(&namespaces("p"), namespace("a", json!({"pods": "8"}))).await.expect(201);
    admin.patch(PATH, hard("2")).await.expect(200);
    let paused = controller.get(PATH).await.expect(200);
    admin.patch(PATH, hard("8")).await.expect(200);
    let refused = confirm(&controller, &paused, "2").await;
    assert_eq!(refused.code, 409, "it was made from another version");
    // The same without a version, as a merge patch would send it.
    let blind = json!({"status": {"observedGeneration": 3, "cachedSpecHard": {"pods": "2"}}});
    assert_eq!(controller.patch(&format!("{PATH}/status"), blind).await.code, 409);
    let read = controller.get(PATH).await.expect(200);
    assert_eq!(read["status"]["cachedSpecHard"], json!({"pods": "8"}));
    world.assert_books_agree().await;
}

#[tokio::test]
async fn of_two_moves_that_would_make_a_cycle_one_is_refused() {
    let (world, admin, _controller) = world().await;
    for name in ["left", "right"] {
        admin.post("/projects", child(name, "p", json!({"pods": "1"}))).await.expect(201);
    }
    let under = |name: &'static str, parent: &'static str| {
        let admin = admin.clone();
        async move {
            let body = json!({"spec": {"parentProjectName": parent}});
            admin.patch(&format!("/projects/{name}"), body).await.code
        }
    };
    let mut codes = <[u16; 2]>::from(tokio::join!(under("left", "right"), under("right", "left")));
    codes.sort_unstable();
    assert_eq!(codes, [200, 422]);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn a_key_added_while_a_child_without_it_is_made_admits_one_of_the_two() {
    let (world, admin, _controller) = world().await;
    for round in 0..10 {
        let key = format!("example.com/r{round}");
        let add = json!({"spec": {"clusters": {"c1": {"hard": {&key: "5"}}}}});
        let drop = json!({"spec": {"clusters": {"c1": {"hard": {&key: null}}}}});
        let made = namespace(&format!("n{round}"), json!({"pods": "1"}));
        let space = namespaces("p");
        let (added, created) = tokio::join!(admin.patch("/projects/p", add), admin.post(&space, made));
        let allowed = [(200, 422), (422, 201)];
        assert!(allowed.contains(&(added.code, created.code)), "{added:?} {created:?}");
        if added.code == 200 {
            admin.patch("/projects/p", drop).await.expect(200);
        } else {
            break;
        }
    }
    world.assert_books_agree().await;
}

#[tokio::test]
async fn a_cluster_removed_while_a_namespace_is_made_in_it_admits_one_of_the_two() {
    let (world, admin, _controller) = world().await;
    for round in 0..10 {
        let add = json!({"spec": {"clusters": {"c2": {"hard": {"pods": "5"}}}}});
        admin.patch("/projects/p", add).await.expect(200);
        let mut made = namespace(&format!("n{round}"), json!({"pods": "1"}));
        made["spec"]["clusterName"] = json!("c2");
        let remove = json!({"spec": {"clusters": {"c2": null}}});
        let space = namespaces("p");
        let (removed, created) = tokio::join!(admin.patch("/projects/p", remove), admin.post(&space, made));
        let allowed = [(200, 422), (422, 201)];
        assert!(allowed.contains(&(removed.code, created.code)), "{removed:?} {created:?}");
        if created.code == 201 {
            break;
        }
    }
    world.assert_books_agree().await;
}
