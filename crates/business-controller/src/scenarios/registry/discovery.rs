//! What is found below a prefix, whatever the registry lists and names.

use super::{SECOND, Scene, says};

#[tokio::test]
async fn what_begins_with_a_digit_is_found_by_who_has_not_seen_it_before() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    for repository in ["t/web/app/2nd", "t/web/app", "t/web/9", "t/web-x/a"] {
        scene.registry.push(repository, "v1", 300);
    }
    scene.registry.push("t/web/1app", "v1", 400);
    let scene = scene.succeeded().await;
    scene.pass().await.unwrap();
    let manifests = ["t/web/1app", "t/web/app"].map(|name| scene.registry.manifest_bytes(name));
    let kept = 300 + 400 + 10 + manifests.iter().sum::<usize>();
    assert_eq!(scene.status()["used"]["requests.storage"], kept.to_string());
    scene.mark_deleted();
    let scene = scene.succeeded().await;
    scene.world.server.clock.advance(200 * SECOND);
    while !scene.is_gone() {
        scene.pass().await.unwrap();
    }
    assert_eq!((scene.registry.count("t/web/"), scene.registry.count("t/web-x/")), (0, 1));
}

#[tokio::test]
async fn a_tag_that_a_registry_takes_for_a_directory_of_its_own_leads_nowhere() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    for repository in ["t/web/a", "t/web/b", "t/web/c"] {
        scene.registry.push(repository, "_manifests", 300);
    }
    scene.pass().await.unwrap();
    assert_eq!(scene.condition("WithinQuota"), says("True", "WithinQuota"));
    scene.mark_deleted();
    scene.world.server.clock.advance(200 * SECOND);
    while !scene.is_gone() {
        scene.pass().await.unwrap();
    }
    assert_eq!(scene.registry.count("t/web/"), 0);
}

#[tokio::test]
async fn what_an_index_names_goes_before_it_for_nothing_else_leads_there() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    let children = scene.registry.push_index("t/web/a", "v1", &[100, 200, 300]);
    scene.mark_deleted();
    scene.world.server.clock.advance(200 * SECOND);
    scene.pass().await.unwrap();
    let deletes = scene.registry.deletes();
    assert_eq!(deletes.len(), 4);
    let is_child = |call: &String| children.iter().any(|child| call.ends_with(child.as_str()));
    assert!(deletes[..3].iter().all(is_child) && !is_child(&deletes[3]), "{deletes:?}");
}

#[tokio::test]
async fn what_loses_its_tag_while_the_leader_changes_counts() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.registry.push("t/web/a", "latest", 100);
    scene.pass().await.unwrap();
    scene.registry.push("t/web/a", "latest", 200);
    let scene = scene.succeeded().await;
    scene.pass().await.unwrap();
    let kept = 100 + 200 + 10 + scene.registry.manifest_bytes("t/web/a");
    assert_eq!(scene.status()["used"]["requests.storage"], kept.to_string());
}
