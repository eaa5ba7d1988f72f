//! Nobody can hold up measurements and removals by pushing much, whatever the manifests name.

use super::{SECOND, Scene, says};
use crate::error::{CallFailure, Error};
use crate::fixtures::registry::Slip;
use crate::kinds::{ObjectKey as _, ProjectKey};
use crate::outcome::PassOutcome;
use crate::registry::oci::scan_memory::SMALL_MAX;
use business_types::names;
use serde_json::{Value, json};
use std::time::Duration;

/// Digests of content that was never pushed.
fn invented(from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(|number| format!("sha256:{number:064x}")).collect()
}

#[tokio::test]
async fn what_names_more_than_is_looked_at_is_not_asked_for() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    for image in 0..25 {
        scene.registry.push_naming("t/web/a", &format!("v{image}"), &invented(100 * image, 25));
    }
    drop(scene.registry.calls());
    scene.pass().await.unwrap();
    assert_eq!(scene.condition("WithinQuota"), says("Unknown", "CannotBeMeasured"));
    let calls = scene.registry.calls();
    assert!(calls.len() < 80, "{calls:?}");
    assert!(!calls.iter().any(|call| call.ends_with(&invented(0, 1)[0])), "{calls:?}");
}

#[tokio::test]
async fn what_keeps_much_memory_is_measured_alone() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    let mut other = scene.memory.begin("t/other").unwrap();
    other.hold(SMALL_MAX + 1).unwrap();
    scene.registry.push("t/web/a", "v1", 100);
    scene.pass().await.unwrap();
    let before = scene.status()["used"].clone();
    assert_ne!(before, Value::Null, "little is measured beside");
    for image in 0..20 {
        scene.registry.push_naming("t/web/a", &format!("m{image}"), &invented(100 * image, 10));
    }
    scene.annotate(names::REGISTRY_CHANGED_ANNOTATION, "1");
    let soon = Duration::from_millis(1)..=Duration::from_secs(5);
    let waits = |outcome| matches!(outcome, PassOutcome::WaitingFor(wait) if soon.contains(&wait));
    assert!(waits(scene.pass().await.unwrap()));
    drop(scene.registry.calls());
    assert!(waits(scene.pass().await.unwrap()));
    assert!(scene.registry.calls().is_empty(), "it is known to be much");
    assert_eq!(scene.status()["used"], before);
    drop(other);
    scene.pass().await.unwrap();
    assert_ne!(scene.status()["used"], before);
}

#[tokio::test]
async fn more_tags_and_images_than_are_asked_for_together_are_measured() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    for image in 0..10 {
        scene.registry.push("t/web/a", &format!("v{image}"), 100 + image);
        scene.registry.push("t/web/b", &format!("v{image}"), 100);
    }
    let names = scene.registry.push_index("t/web/b", "all", &[200, 201, 202, 203, 204]);
    assert_eq!(names.len(), 5);
    scene.pass().await.unwrap();
    let layers = (100..110).sum::<usize>() + (200..205).sum::<usize>();
    // Both repositories have the image with the layer of 100 bytes.
    let image = scene.registry.manifest_bytes("t/web/a") / 10;
    let manifests = ["t/web/a", "t/web/b"].map(|name| scene.registry.manifest_bytes(name));
    let kept = layers + 10 + manifests.iter().sum::<usize>() - image;
    assert_eq!(scene.status()["used"]["requests.storage"], kept.to_string());
}

#[tokio::test]
async fn whatever_manifests_name_their_removal_comes_to_its_end() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    let push =
        |repository: &str, tag: &str, named: &[String]| scene.registry.push_naming(repository, tag, named);
    // An index of two manifests. Each of them names as many as are read.
    let wide = [0, 10].map(|from| push("t/web/a", "tmp", &invented(from, 4)));
    scene.registry.untag("t/web/a", "tmp");
    push("t/web/a", "index", &wide);
    // A chain of indexes: each names the next one.
    let mut last = push("t/web/b", "tmp", &invented(100, 3));
    for link in 1..6 {
        let named = [invented(100 + 10 * link, 3), vec![last]].concat();
        last = push("t/web/b", "tmp", &named);
    }
    push("t/web/c", "many", &invented(500, 29));
    push("t/web/c", "more", &invented(600, 40));
    scene.registry.push("t/web/d", "v1", 300);
    scene.mark_deleted();
    scene.world.server.clock.advance(200 * SECOND);
    drop(scene.registry.calls());
    for _pass in 0..20 {
        scene.pass().await.unwrap();
        let calls = scene.registry.calls();
        assert!(calls.len() < 60, "{calls:?}");
        assert!(!calls.iter().any(|call| call.ends_with(&invented(500, 1)[0])), "{calls:?}");
        if scene.is_gone() {
            break;
        }
    }
    assert!(scene.is_gone() && scene.registry.count("t/web/") == 0);
}

/// Deletes the object, when nothing can be pushed any more.
fn delete_object(scene: &Scene) {
    scene.registry.keeps_what_is_named();
    scene.mark_deleted();
    scene.world.server.clock.advance(200 * SECOND);
}

/// Runs passes until the removal is complete.
async fn remove_completely(scene: &Scene) {
    for _pass in 0..20 {
        scene.pass().await.unwrap();
        if scene.is_gone() {
            break;
        }
    }
    assert!(scene.is_gone() && scene.registry.count("t/web/") == 0);
}

#[tokio::test]
async fn what_stays_as_long_as_it_is_named_goes_behind_what_names_it_and_more_than_is_looked_at() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    let images = [100, 200, 300].map(|layer| scene.registry.push("t/web/a", "tmp", layer));
    let indexes = [0, 1, 2].map(|other| {
        let named = [images.to_vec(), invented(other, 1)].concat();
        scene.registry.push_naming("t/web/a", "tmp", &named)
    });
    scene.registry.untag("t/web/a", "tmp");
    scene.registry.push_naming("t/web/a", "all", &indexes);
    delete_object(&scene);
    remove_completely(&scene).await;
}

#[tokio::test]
async fn what_names_images_is_found_behind_many_tags_of_those() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    for index in 0..3 {
        let images = [2 * index, 2 * index + 1]
            .map(|image| scene.registry.push("t/web/a", &format!("amd64-{image}"), 100 + image));
        scene.registry.push_naming("t/web/a", &format!("v{index}"), &images);
    }
    delete_object(&scene);
    remove_completely(&scene).await;
}

#[tokio::test]
async fn what_names_images_and_has_no_tag_is_found_behind_many_that_were_seen_before() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    let images: Vec<String> =
        (0..10).map(|image| scene.registry.push("t/web/a", "tmp", 100 + image)).collect();
    for other in 0.. {
        let named = [images.clone(), invented(other, 1)].concat();
        let index = scene.registry.push_naming("t/web/a", "tmp", &named);
        if images.iter().all(|image| *image < index) {
            break;
        }
        scene.registry.loses("t/web/a", &index);
    }
    scene.pass().await.unwrap();
    scene.registry.untag("t/web/a", "tmp");
    delete_object(&scene);
    remove_completely(&scene).await;
}

#[tokio::test]
async fn what_the_registry_does_not_delete_keeps_no_other_repository() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    let image = scene.registry.push("t/web/a", "v1", 100);
    // Nothing refers to it.
    scene.registry.push_naming("t/web/a", "tmp", &[image]);
    scene.registry.untag("t/web/a", "tmp");
    scene.registry.push("t/web/b", "v1", 200);
    delete_object(&scene);
    let told = scene.pass().await;
    assert!(
        matches!(told, Err(Error::Registry(CallFailure::Refused { code: 405, .. }))),
        "nothing of one is deleted: {told:?}"
    );
    assert_eq!((scene.registry.count("t/web/a"), scene.registry.count("t/web/b")), (2, 0));
}

/// Pushes a repository with more parts than a pass tries, of which the registry deletes nothing. Returns its manifests.
async fn push_undeletable(scene: &Scene) -> Vec<String> {
    scene.pass().await.unwrap();
    let push = |image: usize| scene.registry.push("t/web/a", &format!("v{image:02}"), 100 + image);
    let images = (0..20).map(push).collect();
    scene.registry.refuses(Some(405));
    delete_object(scene);
    scene.pass().await.unwrap();
    let told = scene.status().to_string();
    assert!(told.contains("0 manifests of 0 repositories were removed; it goes on with others"), "{told}");
    images
}

#[tokio::test]
async fn that_the_registry_does_not_delete_is_said_when_everything_was_tried() {
    let scene = Scene::new().await;
    push_undeletable(&scene).await;
    for _pass in 0..4 {
        let told = scene.pass().await;
        assert!(matches!(told, Err(Error::Registry(CallFailure::Refused { code: 405, .. }))), "{told:?}");
    }
    scene.registry.refuses(None);
    remove_completely(&scene).await;
}

#[tokio::test]
async fn what_has_gone_while_it_was_tried_is_not_what_the_registry_does_not_delete() {
    let scene = Scene::new().await;
    for image in push_undeletable(&scene).await {
        scene.registry.loses("t/web/a", &image);
    }
    remove_completely(&scene).await;
}

#[tokio::test]
async fn why_the_registry_does_not_delete_is_told_in_its_own_words() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.registry.push("t/web/a", "v1", 100);
    scene.registry.refuses(Some(409));
    delete_object(&scene);
    let told = scene.pass().await;
    assert!(matches!(told, Err(Error::Registry(CallFailure::Refused { code: 409, .. }))), "{told:?}");
    let told = scene.status().to_string();
    assert!(told.contains("it is immutable") && !told.contains("storage.delete.enabled"), "{told}");
}

#[tokio::test]
async fn what_was_there_before_is_taken_over_however_much_it_is() {
    let scene = Scene::new().await;
    scene.registry.push("t/web/old", "v1", 5);
    scene.registry.push_naming("t/web/old", "odd", &invented(0, 40));
    scene.registry.overflows(true);
    assert_eq!(scene.pass().await.unwrap(), PassOutcome::Refused);
    let calls = scene.registry.calls();
    assert!(calls.len() < 10 && !calls.iter().any(|call| call.starts_with("GET /v2/t/web/old/manifests/")));
    scene.annotate(names::ADOPT_ANNOTATION, "true");
    scene.pass().await.unwrap();
    assert_eq!(scene.status()["registry"]["provenance"], "Adopted");
}

#[tokio::test]
async fn what_came_from_elsewhere_and_cannot_be_looked_at_says_so_and_keeps_its_name() {
    let scene = Scene::new().await;
    scene.registry.push("t/web/old", "v1", 5);
    scene.holds(&json!({"phase": "Available"}), None);
    scene.mark_deleted();
    scene.world.server.clock.advance(200 * SECOND);
    scene.registry.set_down(true);
    assert!(matches!(scene.pass().await, Err(Error::Registry(_))));
    assert_eq!(scene.condition("Terminating"), says("True", "Unreachable"));
    scene.registry.set_down(false);
    scene.pass().await.unwrap();
    assert!(!scene.is_gone() && scene.registry.count("t/web/") == 0);
    scene.pass().await.unwrap();
    assert!(scene.is_gone());
}

#[tokio::test]
async fn who_waits_for_a_turn_of_his_tenant_stays_as_urgent_as_he_was() {
    let scene = Scene::new().await;
    let (limiter, key) = (&scene.world.cx.registry.limiter, ProjectKey::new(Some("p"), "web"));
    let mut held: Vec<_> = (0..4).filter_map(|_| limiter.try_acquire("t", false)).collect();
    assert!(matches!(scene.pass().await.unwrap(), PassOutcome::NotBegun(_)));
    held.pop();
    let schedule = &scene.world.cx.objects.image_namespaces.memory;
    assert!(!schedule.record_timeout(&key));
    assert!(
        matches!(scene.pass().await.unwrap(), PassOutcome::NotBegun(_)),
        "the last one is not for what is slow"
    );
    schedule.forget(&key);
    assert_eq!(scene.pass().await.unwrap(), PassOutcome::WaitingFor(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_is_locked_meanwhile_ends() {
    let scene = Scene::without_end().await;
    let locks = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        scene.edits(&json!({"status": {"locked": true}}));
    };
    let (ended, ()) = tokio::join!(tokio::time::timeout(Duration::from_secs(6), scene.pass()), locks);
    assert!(ended.is_ok(), "the removal goes on");
    scene.pass().await.unwrap();
    assert_eq!(scene.condition("Terminating"), says("True", "Locked"));
}

#[tokio::test]
async fn a_wrong_answer_does_not_say_that_nothing_is_there() {
    for slip in [Slip::NoDigest, Slip::NoLength, Slip::OtherContent, Slip::OddLink] {
        let scene = Scene::new().await;
        scene.pass().await.unwrap();
        for tag in ["v1", "v2", "v3"] {
            scene.registry.push("t/web/a", tag, 300);
        }
        scene.registry.slips(Some(slip));
        let told = scene.pass().await;
        assert!(matches!(told, Err(Error::Registry(CallFailure::Unavailable(_)))), "{slip:?}: {told:?}");
        assert_eq!(scene.status()["used"], Value::Null, "{slip:?}");
        scene.registry.slips(None);
        scene.pass().await.unwrap();
        let kept = 300 + 10 + scene.registry.manifest_bytes("t/web/a");
        assert_eq!(
            scene.status()["used"]["requests.storage"],
            kept.to_string(),
            "{slip:?}: it is remembered"
        );
    }

    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.registry.push("t/web/a", "v1", 300);
    scene.registry.slips(Some(Slip::EmptyPage));
    scene.pass().await.unwrap();
    let kept = 300 + 10 + scene.registry.manifest_bytes("t/web/a");
    assert_eq!(scene.status()["used"]["requests.storage"], kept.to_string(), "an empty page is not the last");
}
