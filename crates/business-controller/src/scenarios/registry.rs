/// Bounds for large content.
mod bounds;
/// What is found below a prefix.
mod discovery;

use crate::controller::Controller as _;
use crate::error::Error;
use crate::fixtures::amounts;
use crate::fixtures::registry::{ACCOUNT, FakeRegistry, Storage, TokenServer};
use crate::fixtures::server::Server;
use crate::fixtures::world::World;
use crate::kinds::{ChangeSource, ObjectKey as _, ProjectKey, View};
use crate::outcome::PassOutcome;
use crate::registry::backend::{
    Backend, Measured, ProvideResult, RecordedState, RegistryPlace, RemovalProgress,
};
use crate::registry::kind::BusinessImageNamespace as Images;
use crate::registry::oci::OciRegistry;
use crate::registry::oci::client::{RegistryClient, RegistryEndpoint};
use crate::registry::oci::scan_memory::ScanMemory;
use business_types::registry::{RegistryBackend, RegistryRecord};
use business_types::{RegistrySpec, names};
use futures_util::future::{BoxFuture, FutureExt as _};
use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const OBJECT: &str = "/apis/business.tkestack.io/v1/namespaces/p/imagenamespaces/web";
const SECOND: i64 = 1_000_000;

/// A controller with a registry, and an image namespace `t/web`.
struct Scene {
    world: World,
    registry: FakeRegistry,
    credentials: PathBuf,
    memory: Arc<ScanMemory>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.credentials);
    }
}

impl Scene {
    async fn new() -> Self {
        let scene = Self::beside(FakeRegistry::start().await).await;
        scene.holds(&json!({"phase": "Pending", "observedGeneration": 0}), Some("1Ki"));
        scene
    }

    /// The next leader, with the same registry and the same object.
    async fn succeeded(&self) -> Self {
        let next = Self::beside(self.registry.clone()).await;
        next.world.server.put(OBJECT, &self.world.stored(OBJECT));
        next.follows();
        next
    }

    async fn beside(registry: FakeRegistry) -> Self {
        let credentials = std::env::temp_dir().join(format!("registry-{}", uuid::Uuid::new_v4()));
        std::fs::write(&credentials, format!("{ACCOUNT}\n")).unwrap();
        let site = RegistryEndpoint {
            url: registry.url.clone(),
            authority: None,
            credentials: Some(credentials.clone()),
        };
        let http = RegistryClient::new(site).await.unwrap();
        let memory = Arc::new(ScanMemory::default());
        let world = World::with_registry(&Server::default(), |fence| {
            let backend = OciRegistry::new(http, Arc::clone(fence)).beside(Arc::clone(&memory));
            Some(Box::new(backend) as Box<dyn Backend>)
        });
        Self { world, registry, credentials, memory }
    }

    /// Puts the object with this status into the API, and delivers it to the controller.
    fn holds(&self, status: &Value, storage: Option<&str>) {
        let hard = storage.map(|bytes| amounts(&[("requests.storage", bytes)])).unwrap_or_default();
        let spec = RegistrySpec {
            finalizers: vec!["imagenamespace".to_owned()],
            name: "web".to_owned(),
            tenant_id: "t".to_owned(),
            hard,
            ..RegistrySpec::default()
        };
        let metadata = json!({"namespace": "p", "name": "web", "uid": "u", "generation": 1});
        self.world.server.put(OBJECT, &json!({"metadata": metadata, "spec": spec, "status": status}));
        self.follows();
    }

    fn follows(&self) {
        let Some(stored) = self.world.server.find(OBJECT) else { return };
        let stored: DynamicObject = serde_json::from_value(stored).unwrap();
        let view = View::<Images>::decode(stored).unwrap();
        if let Some(change) = self.world.cx.objects.image_namespaces.upsert(view, ChangeSource::WatchEvent) {
            Images::changed(&self.world.cx, &change);
        }
    }

    fn edits(&self, patch: &Value) {
        self.world.server.edit(OBJECT, patch);
        self.follows();
    }

    fn mark_deleted(&self) {
        let at = meta::time::rfc3339(self.world.cx.clock.unix_seconds());
        self.edits(&json!({"metadata": {"deletionTimestamp": at}, "status": {"phase": "Terminating"}}));
    }

    fn annotate(&self, key: &str, value: &str) {
        self.edits(&json!({"metadata": {"annotations": {key: value}}}));
    }

    async fn pass(&self) -> Result<PassOutcome, Error> {
        let outcome = Images::reconcile(&self.world.cx, &ProjectKey::new(Some("p"), "web")).await;
        self.follows();
        outcome
    }

    fn status(&self) -> Value {
        self.world.stored(OBJECT)["status"].clone()
    }

    fn condition(&self, type_: &str) -> (String, String) {
        let status = self.status();
        let all = status["conditions"].as_array().unwrap();
        let one = all.iter().find(|one| one["type"] == type_).unwrap();
        (one["status"].as_str().unwrap().to_owned(), one["reason"].as_str().unwrap().to_owned())
    }

    fn is_gone(&self) -> bool {
        self.world.server.find(OBJECT).is_none()
    }
}

fn says(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

#[tokio::test]
async fn a_place_is_provided_then_measured_and_an_overshoot_shown() {
    let scene = Scene::new().await;
    scene.registry.push("t/web-other/a", "v1", 7);
    scene.registry.push("t/webb/a", "v1", 7);
    scene.registry.push("u/web/a", "v1", 7);
    assert_eq!(scene.pass().await.unwrap(), PassOutcome::WaitingFor(Duration::ZERO));
    assert_eq!(scene.status()["phase"], "Available");
    assert_eq!(scene.status()["registry"], json!({"backend": "OCI", "provenance": "Made"}));
    assert_eq!(scene.condition("WithinQuota"), says("Unknown", "NotMeasured"));
    assert!(matches!(scene.pass().await.unwrap(), PassOutcome::WaitingFor(wait) if !wait.is_zero()));
    assert_eq!(scene.status()["used"], json!({"requests.storage": "0"}));
    assert_eq!(scene.condition("WithinQuota"), says("True", "WithinQuota"));

    for (repository, tag) in [("t/web/a", "v1"), ("t/web/a", "v2"), ("t/web/b/c", "v1"), ("t/web/d", "x")] {
        scene.registry.push(repository, tag, 500);
    }
    scene.pass().await.unwrap();
    assert_eq!(scene.status()["used"], json!({"requests.storage": "0"}), "not due");
    scene.annotate(names::REGISTRY_CHANGED_ANNOTATION, "1");
    scene.pass().await.unwrap();
    let kept = 500 + 10 + scene.registry.manifest_bytes("t/web/a");
    assert_eq!(scene.status()["used"]["requests.storage"], kept.to_string(), "each blob once");
    scene.registry.push("t/web/a", "v3", 600);
    scene.annotate(names::REGISTRY_CHANGED_ANNOTATION, "2");
    scene.pass().await.unwrap();
    assert_eq!(scene.condition("WithinQuota"), says("False", "UsedAboveHard"));
    assert_eq!(scene.status()["phase"], "Available");
    assert_eq!(scene.registry.deletes(), [""; 0]);
}

#[tokio::test]
async fn what_was_there_before_stays_and_is_taken_over_with_consent_only() {
    let scene = Scene::new().await;
    scene.registry.push("t/web/old", "v1", 5);
    assert_eq!(scene.pass().await.unwrap(), PassOutcome::Refused);
    assert_eq!((&scene.status()["phase"], &scene.status()["registry"]), (&json!("Failed"), &Value::Null));
    assert_eq!(scene.pass().await.unwrap(), PassOutcome::Refused, "it is tried again");
    let before = scene.world.server.get(OBJECT);
    scene.mark_deleted();
    scene.pass().await.unwrap();
    assert!(scene.is_gone() && scene.registry.count("t/web/") == 1, "nothing of it was the object's");

    scene.world.server.put(OBJECT, &before);
    scene.world.cx.objects.image_namespaces.remove(&scene.world.cx.objects.image_namespaces.all()[0]);
    scene.follows();
    scene.annotate(names::ADOPT_ANNOTATION, "true");
    scene.pass().await.unwrap();
    assert_eq!(scene.status()["registry"]["provenance"], "Adopted");
    assert_eq!((&scene.status()["phase"], &scene.status()["message"]), (&json!("Available"), &Value::Null));
}

#[tokio::test]
async fn what_came_with_its_status_is_taken_over_as_it_was() {
    let scene = Scene::new().await;
    scene.registry.push("t/web/old", "v1", 5);
    scene.holds(&json!({"phase": "Locked", "message": "RegistryNamespace locked"}), None);
    scene.pass().await.unwrap();
    let status = scene.status();
    assert_eq!((&status["phase"], &status["locked"]), (&json!("Locked"), &json!(true)));
    assert_eq!(status["registry"]["provenance"], "Adopted");
    scene.edits(&json!({"status": {"locked": false}}));
    scene.pass().await.unwrap();
    assert_eq!(scene.status()["phase"], "Available");
}

#[tokio::test]
async fn what_came_from_elsewhere_and_is_deleted_at_once_takes_its_content_along() {
    let scene = Scene::new().await;
    scene.registry.push("t/web/old", "v1", 5);
    scene.holds(&json!({"phase": "Available"}), None);
    scene.mark_deleted();
    scene.world.server.clock.advance(200 * SECOND);
    scene.pass().await.unwrap();
    assert!(!scene.is_gone() && scene.registry.count("t/web/") == 0);
    scene.pass().await.unwrap();
    assert!(scene.is_gone());
}

#[tokio::test]
async fn content_is_removed_after_the_grace_period_and_the_name_is_free_after_the_last_token() {
    let mut scene = Scene::new().await;
    let cx = Arc::get_mut(&mut scene.world.cx).unwrap();
    cx.registry.grace = Duration::from_mins(5);
    scene.pass().await.unwrap();
    scene.registry.push("t/web/a", "v1", 5);
    scene.registry.push("t/web/a", "v2", 6);
    scene.registry.push_index("t/web/b", "multi", &[7, 8]);
    scene.registry.push("t/webb/a", "v1", 7);
    scene.pass().await.unwrap();
    scene.mark_deleted();
    assert_eq!(scene.pass().await.unwrap(), PassOutcome::WaitingFor(Duration::from_mins(5)));
    assert_eq!(scene.condition("Terminating"), says("True", "GracePeriod"));
    assert_eq!((scene.registry.count("t/web/"), scene.registry.deletes()), (5, Vec::new()));

    scene.world.server.clock.advance(300 * SECOND);
    scene.pass().await.unwrap();
    assert_eq!(scene.condition("Terminating"), says("True", "ContentRemaining"));
    assert_eq!((scene.registry.count("t/web/"), scene.registry.count("t/webb/")), (0, 1));
    assert_eq!(scene.registry.deletes().len(), 5, "the index, and what it names");
    assert!(!scene.is_gone(), "it is looked whether anything is left");
    scene.pass().await.unwrap();
    assert!(scene.is_gone());
}

#[tokio::test]
async fn what_is_pushed_with_the_last_token_is_removed_as_well() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.mark_deleted();
    assert_eq!(scene.pass().await.unwrap(), PassOutcome::WaitingFor(Duration::from_secs(140)));
    assert_eq!(scene.condition("Terminating"), says("True", "TokensExpire"));
    scene.registry.push("t/web/late", "v1", 5);
    scene.world.server.clock.advance(140 * SECOND);
    scene.pass().await.unwrap();
    assert!(!scene.is_gone() && scene.registry.count("t/web/") == 0);
    scene.pass().await.unwrap();
    assert!(scene.is_gone());
}

#[tokio::test]
async fn what_has_lost_its_tag_counts_and_is_removed_with_the_rest() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.registry.push("t/web/a", "latest", 100);
    scene.pass().await.unwrap();
    scene.registry.push("t/web/a", "latest", 200);
    scene.annotate(names::REGISTRY_CHANGED_ANNOTATION, "1");
    scene.pass().await.unwrap();
    let kept = 100 + 200 + 10 + scene.registry.manifest_bytes("t/web/a");
    assert_eq!(scene.status()["used"]["requests.storage"], kept.to_string());
    scene.mark_deleted();
    scene.world.server.clock.advance(200 * SECOND);
    scene.pass().await.unwrap();
    assert_eq!(scene.registry.count("t/web/"), 0);
}

#[tokio::test]
async fn what_was_pushed_by_its_digest_counts_and_is_removed_by_whoever_leads_then() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.pass().await.unwrap();
    let digest = scene.registry.push("t/web/a", "tmp", 300);
    scene.registry.untag("t/web/a", "tmp");
    scene.registry.hide("t/web/a");
    let name = format!("t/web/a@{digest}");
    let foreign = format!("u/web/a@{}", scene.registry.push("u/web/a", "v1", 5));
    scene.edits(&json!({"metadata": {"annotations": {
        names::REGISTRY_CHANGED_ANNOTATION: "1",
        names::REGISTRY_PUSHED_ANNOTATION: format!("{name} 2026-01-02T03:04:05.000000Z {foreign} nonsense"),
    }}}));
    scene.pass().await.unwrap();
    let kept = 300 + 10 + scene.registry.manifest_bytes("t/web/a");
    assert_eq!(scene.status()["used"]["requests.storage"], kept.to_string());
    assert_eq!(scene.status()["untagged"], json!([name]));
    assert_eq!(scene.status()["measuredChange"], "1");

    // Another process took over, and the mark was removed meanwhile.
    let scene = scene.succeeded().await;
    scene.edits(&json!({"metadata": {"annotations": {
        names::REGISTRY_CHANGED_ANNOTATION: "2", names::REGISTRY_PUSHED_ANNOTATION: null,
    }}}));
    scene.pass().await.unwrap();
    assert_eq!(scene.status()["used"]["requests.storage"], kept.to_string());
    scene.mark_deleted();
    scene.world.server.clock.advance(200 * SECOND);
    scene.pass().await.unwrap();
    assert_eq!(scene.registry.count("t/web/"), 0);
    assert_eq!(scene.registry.count("u/web/"), 1);
}

#[tokio::test]
async fn what_loses_its_tag_before_it_is_measured_counts_and_what_has_one_is_not_without() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.pass().await.unwrap();
    let pushed =
        [100, 200].map(|layer| format!("t/web/a@{}", scene.registry.push("t/web/a", "latest", layer)));
    scene.edits(&json!({"metadata": {"annotations": {
        names::REGISTRY_CHANGED_ANNOTATION: "1",
        names::REGISTRY_PUSHED_ANNOTATION: format!("{} more", pushed.join(" ")),
    }}}));
    scene.pass().await.unwrap();
    let kept = 100 + 200 + 10 + scene.registry.manifest_bytes("t/web/a");
    assert_eq!(scene.status()["used"]["requests.storage"], kept.to_string());
    assert_eq!(scene.status()["untagged"], json!(pushed), "what has no tag, then what has one");
}

#[tokio::test]
async fn a_change_that_is_told_during_a_measurement_is_measured_too() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.pass().await.unwrap();
    scene.annotate(names::REGISTRY_CHANGED_ANNOTATION, "1");
    scene.registry.push("t/web/a", "v1", 300);
    let told = json!({"metadata": {"annotations": {names::REGISTRY_CHANGED_ANNOTATION: "2"}}});
    scene.world.server.edit(OBJECT, &told);
    scene.pass().await.unwrap();
    let kept = 300 + 10 + scene.registry.manifest_bytes("t/web/a");
    assert_eq!(scene.status()["used"]["requests.storage"], kept.to_string(), "what was measured is not lost");
    assert_eq!(scene.status()["measuredChange"], "1", "the other change is not measured yet");
    scene.pass().await.unwrap();
    assert_eq!(scene.status()["measuredChange"], "2");
}

#[tokio::test]
async fn what_an_index_with_a_tag_names_is_not_without_a_tag() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.pass().await.unwrap();
    let digest = scene.registry.push_index("t/web/a", "v1", &[300]).remove(0);
    scene.edits(&json!({"metadata": {"annotations": {
        names::REGISTRY_CHANGED_ANNOTATION: "1", names::REGISTRY_PUSHED_ANNOTATION: format!("t/web/a@{digest}"),
    }}}));
    scene.pass().await.unwrap();
    let told = scene.status()["untagged"].as_array().unwrap().clone();
    assert!(
        told.len() == 1 && told[0] != format!("t/web/a@{digest}"),
        "the index, which has a tag: {told:?}"
    );
    assert_eq!(scene.status()["measuredChange"], "1");
}

#[tokio::test]
async fn blobs_that_the_registry_keeps_in_a_storage_are_measured_there() {
    for (is_elsewhere, takes_head) in [(true, true), (false, true), (true, false)] {
        let scene = Scene::new().await;
        scene.pass().await.unwrap();
        scene.registry.push("t/web/a", "v1", 300);
        let at = if is_elsewhere { scene.registry.url.clone() } else { String::new() };
        scene.registry.keeps_blobs_in(Storage { at, takes_head });
        scene.pass().await.unwrap();
        let kept = 300 + 10 + scene.registry.manifest_bytes("t/web/a");
        assert_eq!(scene.status()["used"]["requests.storage"], kept.to_string(), "{takes_head}");
    }

    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.registry.push("t/web/a", "v1", 300);
    scene.registry.keeps_blobs_in(Storage { at: "ftp://storage.test".to_owned(), takes_head: true });
    let Err(Error::Registry(failure)) = scene.pass().await else { panic!("it was measured") };
    assert!(failure.to_string().contains("storage.redirect.disable"), "{failure}");
    assert_eq!(scene.status()["used"], Value::Null);
}

#[tokio::test]
async fn what_an_index_names_is_where_it_answers_only() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.registry.push_index("t/web/a", "v1", &[300]);
    let lost = scene.registry.push_index("t/web/b", "v1", &[300]).remove(0);
    scene.registry.loses("t/web/b", &lost);
    scene.pass().await.unwrap();
    scene.mark_deleted();
    scene.world.server.clock.advance(1000 * SECOND);
    scene.pass().await.unwrap();
    assert_eq!(scene.registry.deletes().len(), 3, "the image, and the index of both");
}

#[tokio::test]
async fn where_there_is_more_than_can_be_measured_it_is_said_so_until_it_is() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.pass().await.unwrap();
    scene.registry.push("t/web/a", "v1", 300);
    scene.registry.overflows(true);
    scene.annotate(names::REGISTRY_CHANGED_ANNOTATION, "1");
    let outcome = scene.pass().await.unwrap();
    assert!(matches!(outcome, PassOutcome::WaitingFor(wait) if !wait.is_zero()), "{outcome:?}");
    assert_eq!(scene.condition("WithinQuota"), says("Unknown", "CannotBeMeasured"));
    assert_eq!(scene.condition("RegistryReachable").0, "True");
    assert_eq!(scene.status()["measuredChange"], Value::Null, "no measurement has followed");
    scene.registry.overflows(false);
    scene.annotate(names::REGISTRY_CHANGED_ANNOTATION, "2");
    scene.pass().await.unwrap();
    assert_eq!(scene.condition("WithinQuota"), says("Unknown", "CannotBeMeasured"), "it is not due");

    let scene = scene.succeeded().await;
    scene.pass().await.unwrap();
    assert_eq!(scene.condition("WithinQuota"), says("True", "WithinQuota"));
    assert_eq!(scene.status()["measuredChange"], "2");
}

#[tokio::test]
async fn more_than_can_be_measured_is_removed_bit_by_bit() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.registry.push("t/web/a", "v1", 300);
    scene.registry.push("t/web/b", "v1", 300);
    scene.registry.overflows(true);
    scene.mark_deleted();
    scene.world.server.clock.advance(1000 * SECOND);
    scene.pass().await.unwrap();
    assert!(!scene.is_gone() && scene.registry.count("t/web/") == 0);
    assert!(matches!(scene.pass().await, Err(Error::Registry(_))));
    assert!(!scene.is_gone(), "behind what is read of the list there may be more");
    scene.registry.overflows(false);
    scene.pass().await.unwrap();
    assert!(scene.is_gone());
}

#[tokio::test]
async fn a_removal_asks_no_more_for_what_is_gone() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    for image in 0..40 {
        scene.registry.push("t/web/a", &format!("v{image:02}"), 100 + image);
    }
    scene.mark_deleted();
    scene.world.server.clock.advance(1000 * SECOND);
    drop(scene.registry.calls());
    let mut calls = Vec::new();
    while !scene.is_gone() {
        scene.pass().await.unwrap();
        calls.push(scene.registry.calls().len());
    }
    assert_eq!(scene.registry.count("t/web/"), 0);
    assert!(calls.len() > 3 && calls.iter().all(|count| *count <= calls[1]), "{calls:?}");
}

#[tokio::test]
async fn what_was_seen_before_is_removed_behind_much_that_is_gone() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    let tags: Vec<String> = (0..20).map(|image| format!("v{image:02}")).collect();
    let pushed = tags.iter().enumerate().map(|(image, tag)| scene.registry.push("t/web/a", tag, 100 + image));
    let mut digests: Vec<String> = pushed.collect();
    scene.pass().await.unwrap();
    for tag in &tags {
        scene.registry.untag("t/web/a", tag);
    }
    digests.sort();
    for digest in &digests[..19] {
        scene.registry.loses("t/web/a", digest);
    }
    scene.mark_deleted();
    scene.world.server.clock.advance(1000 * SECOND);
    while !scene.is_gone() {
        scene.pass().await.unwrap();
    }
    assert_eq!(scene.registry.count("t/web/"), 0);
}

#[tokio::test]
async fn what_has_a_tag_is_removed_behind_many_tags_of_nothing() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    for image in 0..12 {
        let digest = scene.registry.push("t/web/a", &format!("v{image:02}"), 100 + image);
        if image < 11 {
            scene.registry.loses("t/web/a", &digest);
        }
    }
    scene.mark_deleted();
    scene.world.server.clock.advance(1000 * SECOND);
    while !scene.is_gone() {
        scene.pass().await.unwrap();
    }
    assert_eq!(scene.registry.count("t/web/"), 0);
}

/// Pushes an empty repository `t/web/a`, and `t/web/b`. Returns the digest of the only manifest of the latter.
fn push_two_repositories(registry: &FakeRegistry) -> String {
    let digest = registry.push("t/web/a", "v1", 5);
    registry.untag("t/web/a", "v1");
    registry.loses("t/web/a", &digest);
    registry.push("t/web/b", "v1", 6)
}

/// Runs a pass that is cut off at the deletion of the first manifest.
async fn cut_pass(scene: &Scene) {
    scene.registry.token_server(TokenServer::Holds);
    tokio::select! {
        ended = scene.pass() => panic!("it was not cut: {ended:?}"),
        () = scene.registry.is_asked_for_a_token() => {}
    }
    scene.registry.token_server(TokenServer::Answers);
}

#[tokio::test]
async fn a_removal_that_is_cut_goes_on_with_the_same_repository() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    push_two_repositories(&scene.registry);
    scene.mark_deleted();
    scene.world.server.clock.advance(1000 * SECOND);
    cut_pass(&scene).await;
    drop(scene.registry.calls());
    scene.pass().await.unwrap();
    assert!(!scene.is_gone() && scene.registry.count("t/web/") == 0);
    let is_of_the_first = |call: &String| call.contains("/t/web/a/");
    assert!(!scene.registry.calls().iter().any(is_of_the_first));
    scene.pass().await.unwrap();
    assert!(scene.is_gone() && scene.registry.calls().iter().any(is_of_the_first));
}

#[tokio::test]
async fn what_is_pushed_behind_a_removal_that_was_cut_is_removed_as_well() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    let digest = push_two_repositories(&scene.registry);
    scene.mark_deleted();
    cut_pass(&scene).await;
    scene.registry.push("t/web/a", "late", 7);
    scene.registry.untag("t/web/b", "v1");
    scene.registry.loses("t/web/b", &digest);
    scene.world.server.clock.advance(140 * SECOND);
    scene.pass().await.unwrap();
    assert!(!scene.is_gone() && scene.registry.count("t/web/") == 0);
    scene.pass().await.unwrap();
    assert!(scene.is_gone());
}

/// A registry whose removals never end.
#[derive(Debug)]
struct Endless;

impl Backend for Endless {
    fn backend_type(&self) -> RegistryBackend {
        RegistryBackend::Oci
    }

    fn provide<'a>(&'a self, _: &'a RegistryPlace, _: bool) -> BoxFuture<'a, Result<ProvideResult, Error>> {
        std::future::ready(Ok(ProvideResult::Refused(String::new()))).boxed()
    }

    fn recover<'a>(
        &'a self,
        _: &'a RegistryPlace,
        _: bool,
    ) -> BoxFuture<'a, Result<Option<RegistryRecord>, Error>> {
        std::future::ready(Ok(None)).boxed()
    }

    fn inspect<'a>(
        &'a self,
        _: &'a RegistryPlace,
        _: &'a RegistryRecord,
    ) -> BoxFuture<'a, Result<RecordedState, Error>> {
        std::future::ready(Ok(RecordedState::Present { locked: false })).boxed()
    }

    fn measure<'a>(&'a self, _: &'a RegistryPlace) -> BoxFuture<'a, Result<Option<Measured>, Error>> {
        std::future::ready(Ok(None)).boxed()
    }

    fn remove<'a>(
        &'a self,
        _: &'a RegistryPlace,
        _: &'a RegistryRecord,
        _: bool,
    ) -> BoxFuture<'a, Result<RemovalProgress, Error>> {
        std::future::pending().boxed()
    }

    fn writes_have_ended(&self) -> Result<(), Duration> {
        Ok(())
    }

    fn late_push_window(&self) -> Duration {
        Duration::ZERO
    }
}

impl Scene {
    /// A controller with such a registry, whose object is to be removed.
    async fn without_end() -> Self {
        let world =
            World::with_registry(&Server::default(), |_fence| Some(Box::new(Endless) as Box<dyn Backend>));
        let registry = FakeRegistry::start().await;
        let scene = Self { world, registry, credentials: PathBuf::new(), memory: Arc::default() };
        let record = json!({"backend": "OCI", "provenance": "Made"});
        scene.holds(&json!({"phase": "Available", "observedGeneration": 1, "registry": record}), None);
        scene.mark_deleted();
        scene
    }
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_takes_too_long_for_a_pass_says_so() {
    let scene = Scene::without_end().await;
    let renews = async {
        tokio::time::sleep(Duration::from_secs(99)).await;
        scene.world.renews(Instant::now());
    };
    let (ended, ()) = tokio::join!(tokio::time::timeout(Duration::from_mins(2), scene.pass()), renews);
    assert!(matches!(ended, Ok(Ok(PassOutcome::WaitingFor(_)))), "{ended:?}");
    assert_eq!(scene.condition("Terminating"), says("True", "ContentRemaining"));
}

#[tokio::test]
async fn a_locked_one_keeps_its_content_until_it_is_unlocked() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.registry.push("t/web/a", "v1", 5);
    scene.edits(&json!({"status": {"locked": true}}));
    scene.pass().await.unwrap();
    assert_eq!((&scene.status()["phase"], &scene.status()["reason"]), (&json!("Locked"), &json!("Locked")));
    scene.mark_deleted();
    scene.world.server.clock.advance(1000 * SECOND);
    scene.pass().await.unwrap();
    assert_eq!(scene.condition("Terminating"), says("True", "Locked"));
    assert_eq!(scene.registry.count("t/web/"), 1);
    scene.edits(&json!({"status": {"locked": null}}));
    scene.pass().await.unwrap();
    let (reason, message) = (scene.status()["reason"].clone(), scene.status()["message"].clone());
    assert_eq!(scene.condition("Terminating"), says("True", "ContentRemaining"));
    assert_eq!(reason, "ContentRemaining", "it is not locked any more: {message}");
    assert!(!message.as_str().unwrap_or_default().contains("locked"), "{message}");
    scene.pass().await.unwrap();
    assert!(scene.is_gone() && scene.registry.count("t/web/") == 0);
}

#[tokio::test]
async fn a_registry_out_of_reach_changes_no_phase_and_frees_nothing() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.registry.push("t/web/a", "v1", 5);
    scene.registry.set_down(true);
    scene.annotate(names::REGISTRY_CHANGED_ANNOTATION, "1");
    assert!(matches!(scene.pass().await, Err(Error::Registry(_))));
    assert_eq!(scene.status()["phase"], "Available");
    assert_eq!(scene.condition("RegistryReachable"), says("False", "Unreachable"));
    assert_eq!(scene.condition("Ready").0, "Unknown");
    scene.mark_deleted();
    scene.world.server.clock.advance(1000 * SECOND);
    assert!(matches!(scene.pass().await, Err(Error::Registry(_))));
    assert!(!scene.is_gone());
    assert_eq!(scene.condition("Terminating"), says("True", "Unreachable"));
    scene.registry.set_down(false);
    scene.pass().await.unwrap();
    scene.pass().await.unwrap();
    assert!(scene.is_gone() && scene.registry.count("t/web/") == 0);
}

#[tokio::test]
async fn what_a_page_of_a_proxy_says_is_not_there_stays_and_counts() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.registry.push("t/web/a", "v1", 500);
    scene.pass().await.unwrap();
    let used = scene.status()["used"]["requests.storage"].clone();
    assert_ne!(used, "0");
    let fronts = ["/v2/", "/v2/_catalog", "/tags/", "/manifests/"];
    for (turn, front) in fronts.into_iter().enumerate() {
        scene.registry.intercept(Some(front));
        scene.annotate(names::REGISTRY_CHANGED_ANNOTATION, &turn.to_string());
        assert!(matches!(scene.pass().await, Err(Error::Registry(_))), "{front}");
        assert_eq!(scene.status()["used"]["requests.storage"], used, "{front}");
        assert_eq!(scene.condition("RegistryReachable").0, "False");
    }
    scene.mark_deleted();
    scene.world.server.clock.advance(1000 * SECOND);
    for front in fronts {
        scene.registry.intercept(Some(front));
        assert!(matches!(scene.pass().await, Err(Error::Registry(_))), "{front}");
        assert!(!scene.is_gone() && scene.registry.count("t/web/") == 1, "{front}");
        assert_eq!(scene.condition("Terminating"), says("True", "Unreachable"));
    }
    scene.registry.intercept(None);
    scene.pass().await.unwrap();
    assert!(!scene.is_gone() && scene.registry.count("t/web/") == 0);
    scene.pass().await.unwrap();
    assert!(scene.is_gone());
}

#[tokio::test]
async fn nothing_is_gone_where_another_registry_answers_by_now_that_lists_nothing() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.registry.push("t/web/a", "v1", 5);
    scene.pass().await.unwrap();
    scene.mark_deleted();
    scene.world.server.clock.advance(1000 * SECOND);
    scene.registry.gives_way();
    assert!(matches!(scene.pass().await, Err(Error::Registry(_))));
    assert!(!scene.is_gone());
    scene.registry.comes_back();
    scene.pass().await.unwrap();
    scene.pass().await.unwrap();
    assert!(scene.is_gone() && scene.registry.count("t/web/") == 0);
}

#[tokio::test]
async fn an_operator_gives_up_content_that_nobody_can_confirm_gone() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.registry.set_down(true);
    scene.annotate(names::ABANDON_ANNOTATION, "it burnt down");
    scene.mark_deleted();
    scene.pass().await.unwrap();
    assert!(scene.is_gone());
}

#[tokio::test]
async fn whoever_does_not_lead_any_more_removes_nothing() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.registry.push("t/web/a", "v1", 5);
    scene.mark_deleted();
    scene.world.server.clock.advance(1000 * SECOND);
    scene.world.acquires(Instant::now() - Duration::from_secs(14), true);
    assert!(matches!(scene.pass().await, Err(Error::NotLeading)));
    assert_eq!((scene.registry.count("t/web/"), scene.registry.deletes()), (1, Vec::new()));
}

#[tokio::test]
async fn without_a_registry_it_waits() {
    let scene = Scene::new().await;
    let bare = World::at(&scene.world.server);
    let stored: DynamicObject = serde_json::from_value(scene.world.stored(OBJECT)).unwrap();
    bare.cx.objects.image_namespaces.upsert(View::decode(stored).unwrap(), ChangeSource::WatchEvent);
    let outcome = Images::reconcile(&bare.cx, &ProjectKey::new(Some("p"), "web")).await.unwrap();
    assert_eq!(outcome, PassOutcome::Applied);
    assert_eq!(scene.status()["phase"], "Pending");
    assert_eq!(scene.condition("Ready"), says("False", "NoRegistry"));
}

#[tokio::test]
async fn nothing_is_deleted_by_who_has_waited_for_a_token_beyond_his_lease() {
    let scene = Scene::new().await;
    scene.pass().await.unwrap();
    scene.registry.push("t/web/app", "v1", 100);
    scene.mark_deleted();
    scene.registry.token_server(TokenServer::Holds);
    let meanwhile = async {
        scene.registry.is_asked_for_a_token().await;
        scene.world.renews(Instant::now().checked_sub(Duration::from_secs(11)).unwrap());
        scene.registry.token_server(TokenServer::Answers);
    };
    let (ended, ()) = tokio::join!(scene.pass(), meanwhile);
    assert!(matches!(ended, Err(Error::NotLeading)), "{ended:?}");
    assert_eq!(scene.registry.deletes(), Vec::<String>::new());
    assert_eq!(scene.registry.count("t/web/"), 1);
}
