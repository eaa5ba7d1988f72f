//! Pull secrets: each namespace has a password of its own, which is only in its cluster.

use crate::controller::Controller as _;
use crate::digest;
use crate::error::{Error, ListFailure};
use crate::fixtures::pending;
use crate::fixtures::server::{BEGINNING, Fault};
use crate::fixtures::world::{BINDINGS, NAMESPACE, OBJECT, PROJECT, PULL_HOST, World};
use crate::kinds::ChangeSource;
use crate::metrics::{Drift, DriftLabels};
use crate::namespace_template::kind::{NamespaceTemplate, TemplateView};
use crate::outcome::PassOutcome;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::DynamicObject;
use serde_json::{Value, json};

const TEMPLATE: &str = "/apis/business.tkestack.io/v1/namespacetemplates/standard";
const SECRET: &str = "/api/v1/namespaces/web/secrets/business-registry";
const ACCOUNT: &str = "/api/v1/namespaces/web/serviceaccounts/default";
const ISSUE: &str = "POST /apis/business.tkestack.io/v1/namespaces/p/namespaces/n/pullcredential";
const DAY: i64 = 86_400;
const NOTHING: [&str; 0] = [];

/// Puts the template into the API, and delivers it to the controller.
fn put_template(world: &World, pull_secret: Value) {
    let generation =
        world.server.find(TEMPLATE).map_or(1, |old| old["metadata"]["generation"].as_i64().unwrap() + 1);
    let metadata = json!({ "name": "standard", "uid": "t", "generation": generation });
    let mut spec = json!({ "default": true, "finalizers": ["namespacetemplate"] });
    if !pull_secret.is_null() {
        spec["pullSecret"] = pull_secret;
    }
    world.server.put(TEMPLATE, &json!({ "metadata": metadata, "spec": spec, "status": {} }));
    world.answers();
    let stored: DynamicObject = serde_json::from_value(world.server.get(TEMPLATE)).unwrap();
    let change = world
        .cx
        .objects
        .namespace_templates
        .upsert(TemplateView::decode(stored).unwrap(), ChangeSource::WatchEvent);
    NamespaceTemplate::changed(&world.cx, &change.unwrap());
}

/// Rolls out the newest state of the template.
async fn reconcile_template(world: &World) {
    let key = crate::kinds::ObjectKey::new(None, "standard");
    NamespaceTemplate::reconcile(&world.cx, &key).await.unwrap();
}

/// A namespace in use with a pull secret, whose account `default` exists.
async fn in_use() -> World {
    let world = World::new();
    put_template(&world, json!({ "serviceAccounts": ["default"] }));
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    world.enforces("1");
    world.server.put(ACCOUNT, &json!({ "metadata": {}, "imagePullSecrets": [{ "name": "mine" }] }));
    settle(&world).await;
    // After a while, seals are renewed.
    advance_seconds(&world, 120);
    settle(&world).await;
    world
}

async fn settle(world: &World) {
    world.catches_up();
    world.watches();
    world.pass().await.unwrap();
    world.catches_up();
    world.watches();
    world.calls();
}

/// The calls that change something.
fn writes(world: &World) -> Vec<String> {
    world.calls().into_iter().filter(|call| !call.starts_with("GET")).collect()
}

/// The password in the Secret.
fn password(world: &World) -> String {
    let config = world.stored(SECRET)["data"][".dockerconfigjson"].as_str().unwrap().to_owned();
    let config: Value = serde_json::from_slice(&STANDARD.decode(config).unwrap()).unwrap();
    let auth = &config["auths"][PULL_HOST];
    let (user, password) = (auth["username"].as_str().unwrap(), auth["password"].as_str().unwrap());
    assert_eq!(user, "p/namespaces/n");
    assert_eq!(auth["auth"], STANDARD.encode(format!("{user}:{password}")));
    password.to_owned()
}

/// The hashes that the API knows, the newest first.
fn hashes(world: &World) -> Vec<String> {
    let known = world.stored(OBJECT)["status"]["pullCredential"]["passwords"].as_array().cloned();
    known.unwrap_or_default().iter().map(|one| one["hash"].as_str().unwrap().to_owned()).collect()
}

fn template_condition(world: &World) -> (String, String) {
    let object = world.stored(OBJECT);
    let all = object["status"]["conditions"].as_array().unwrap().clone();
    let one = all.iter().find(|one| one["type"] == "TemplateApplied").unwrap();
    let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
    (text("status"), text("message"))
}

fn names_in(account: &Value) -> Vec<&str> {
    account["imagePullSecrets"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

/// Records a manager of the account's list, as Kubernetes does.
fn set_manager(world: &World, account: &str, manager: &str) {
    let written = json!({ "metadata": { "managedFields": [{
        "manager": manager, "operation": "Update", "fieldsV1": { "f:imagePullSecrets": {} },
    }] } });
    world.server.edit(account, &written);
}

fn advance_seconds(world: &World, seconds: i64) {
    world.server.clock.advance(seconds * 1_000_000);
    world.acquires(tokio::time::Instant::now(), true);
}

#[tokio::test]
async fn a_namespace_has_a_password_of_its_own_that_only_its_cluster_keeps() {
    let world = World::new();
    put_template(&world, json!({ "names": ["shop"], "validDays": 10 }));
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    let secret = world.stored(SECRET);
    assert_eq!(secret["type"], "kubernetes.io/dockerconfigjson");
    assert_eq!(secret["metadata"]["labels"]["business.tkestack.io/template"], "standard");
    let hash = digest::sha256(&password(&world));
    assert_eq!(secret["metadata"]["annotations"]["business.tkestack.io/pull-password"], hash.as_str());
    let known = world.stored(OBJECT)["status"]["pullCredential"].clone();
    assert_eq!((&known["names"], &known["username"]), (&json!(["shop"]), &json!("p/namespaces/n")));
    assert_eq!(hashes(&world), [hash]);
    assert_eq!(known["passwords"][0]["expiresAt"], meta::time::rfc3339(BEGINNING + 10 * DAY));
    assert!(!world.stored(OBJECT).to_string().contains(&password(&world)), "it is in the cluster alone");
    assert_eq!(world.stored(OBJECT)["status"]["phase"], "Available");
    assert_eq!(template_condition(&world).0, "True");
    let order = writes(&world);
    let at =
        |call: &str| order.iter().position(|one| one == call).unwrap_or_else(|| panic!("{call}: {order:?}"));
    let binding = at(&format!("POST {BINDINGS}"));
    assert!(binding < at(ISSUE) && at(ISSUE) < at(&format!("APPLY {SECRET}")), "{order:?}");
    world.enforces("1");
    settle(&world).await;
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Unchanged);
    assert_eq!(world.calls(), NOTHING, "what is right costs nothing");
}

#[tokio::test]
async fn service_accounts_get_it_when_they_come_and_keep_what_is_theirs() {
    let world = in_use().await;
    assert_eq!(names_in(&world.stored(ACCOUNT)), ["mine", "business-registry"]);
    let other = "/api/v1/namespaces/web/serviceaccounts/build";
    world
        .server
        .put(other, &json!({ "metadata": {}, "imagePullSecrets": [{ "name": "business-registry" }] }));
    world.server.edit(ACCOUNT, &json!({ "imagePullSecrets": [{ "name": "mine" }, { "name": "more" }] }));
    settle(&world).await;
    assert_eq!(names_in(&world.stored(ACCOUNT)), ["mine", "more", "business-registry"]);
    assert_eq!(names_in(&world.stored(other)), ["business-registry"], "its owner has put it there");
    // Names of others are not remembered: they are read before each write.
    world.server.edit(ACCOUNT, &json!({ "imagePullSecrets": [{ "name": "mine" }] }));
    world.watches();
    world.server.edit(ACCOUNT, &json!({ "imagePullSecrets": [{ "name": "mine" }, { "name": "more" }] }));
    world.pass().await.unwrap();
    assert_eq!(names_in(&world.stored(ACCOUNT)), ["mine", "more", "business-registry"], "as it is by then");
    settle(&world).await;

    set_manager(&world, ACCOUNT, "business-controller");
    put_template(&world, json!({}));
    reconcile_template(&world).await;
    settle(&world).await;
    assert_eq!(names_in(&world.stored(ACCOUNT)), ["mine", "more"]);
    assert_eq!(hashes(&world).len(), 1, "the password stays");
}

#[tokio::test]
async fn it_is_replaced_while_the_one_before_is_good() {
    let world = in_use().await;
    let first = hashes(&world);
    advance_seconds(&world, 14 * DAY);
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Unchanged, "it is good");
    advance_seconds(&world, 6 * DAY);
    world.pass().await.unwrap();
    let second = hashes(&world);
    assert_eq!((second.len(), &second[1]), (2, &first[0]), "running nodes may still have it");
    assert_eq!(digest::sha256(&password(&world)), second[0]);
    settle(&world).await;
    advance_seconds(&world, 20 * DAY);
    world.pass().await.unwrap();
    assert_eq!(hashes(&world)[1..], second[..1], "never more than two");
    assert_eq!(world.cx.metrics.drift.get_or_create(&DriftLabels { what: Drift::Template }).get(), 0);
}

#[tokio::test]
async fn who_waits_for_a_wave_goes_on_pulling() {
    let world = in_use().await;
    let first = hashes(&world);
    put_template(&world, json!({ "names": ["shop"] }));
    advance_seconds(&world, 20 * DAY);
    world.pass().await.unwrap();
    let known = world.stored(OBJECT)["status"]["pullCredential"].clone();
    assert!(known["names"].is_null(), "what is new has to wait: {known}");
    assert_eq!(hashes(&world)[1], first[0]);
    assert_eq!(digest::sha256(&password(&world)), hashes(&world)[0]);
    settle(&world).await;
    reconcile_template(&world).await;
    world.pass().await.unwrap();
    assert_eq!(world.stored(OBJECT)["status"]["pullCredential"]["names"], json!(["shop"]));
}

#[tokio::test]
async fn what_somebody_changes_or_takes_away_is_made_anew() {
    let world = in_use().await;
    let drift = || world.cx.metrics.drift.get_or_create(&DriftLabels { what: Drift::Template }).get();
    let forge = || {
        let forged = json!({ "data": { ".dockerconfigjson": "e30=" }, "metadata": { "managedFields": [] } });
        world.server.edit(SECRET, &forged);
        world.watches();
    };
    let first = hashes(&world);
    forge();
    world.pass().await.unwrap();
    let second = hashes(&world);
    assert_eq!((digest::sha256(&password(&world)), drift()), (second[0].clone(), 1));
    assert_eq!(second[1..], first, "the one that was in use stays good");
    settle(&world).await;
    forge();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused, "not again and again");
    assert!(
        template_condition(&world).1.contains("soon it is made anew"),
        "{:?}",
        template_condition(&world)
    );
    assert_eq!(hashes(&world), second);
    advance_seconds(&world, 61);
    world.pass().await.unwrap();
    assert_eq!((digest::sha256(&password(&world)), drift()), (hashes(&world).remove(0), 2));
    assert_eq!(template_condition(&world).0, "True");
    settle(&world).await;
    advance_seconds(&world, 61);
    world.server.remove(SECRET);
    world.watches();
    world.pass().await.unwrap();
    assert_eq!((digest::sha256(&password(&world)), drift()), (hashes(&world).remove(0), 3));
    assert_eq!(hashes(&world).len(), 1, "what stood in the lost one has ended");
}

#[tokio::test(start_paused = true)]
async fn what_was_issued_and_not_written_is_written_or_forgotten() {
    let world = in_use().await;
    let first = hashes(&world);
    advance_seconds(&world, 20 * DAY);
    world.server.fault(Fault::Late);
    let failed = world.pass().await;
    assert!(matches!(failed, Err(Error::Member(_))), "{failed:?}");
    let issued = hashes(&world);
    assert_eq!((issued.len(), &issued[1]), (2, &first[0]));
    world.server.forget_faults();
    world.pass().await.unwrap();
    assert_eq!(hashes(&world), issued, "the same one was written");
    assert_eq!(digest::sha256(&password(&world)), issued[0]);

    // The process ends in between, and its memory is lost.
    settle(&world).await;
    advance_seconds(&world, 20 * DAY);
    world.server.fault(Fault::Late);
    assert!(world.pass().await.is_err());
    world.server.forget_faults();
    let next = World::led_by_another(&world.server);
    put_template(&next, json!({ "serviceAccounts": ["default"] }));
    next.catches_up();
    next.watches();
    next.pass().await.unwrap();
    let known = hashes(&next);
    assert_eq!((known.len(), &known[1]), (2, &issued[0]), "the one in use, and not the lost one");
    assert_eq!(digest::sha256(&password(&next)), known[0]);
}

#[tokio::test]
async fn what_the_template_names_no_more_opens_nothing_and_goes() {
    let world = in_use().await;
    set_manager(&world, ACCOUNT, "business-controller");
    put_template(&world, Value::Null);
    reconcile_template(&world).await;
    world.watches();
    world.pass().await.unwrap();
    assert!(world.server.find(SECRET).is_none());
    assert_eq!(hashes(&world), NOTHING);
    assert_eq!(names_in(&world.stored(ACCOUNT)), ["mine"]);
    settle(&world).await;
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Unchanged);
    assert_eq!(world.calls(), NOTHING);

    let theirs = json!({ "metadata": { "annotations": {} }, "type": "kubernetes.io/dockerconfigjson" });
    world.server.put(SECRET, &theirs);
    settle(&world).await;
    assert!(world.server.find(SECRET).is_some(), "what does not carry our mark is not ours");
}

/// Kubernetes records no managers of a bare account such as `default`.
#[tokio::test]
async fn what_goes_is_named_by_no_account_but_those_that_somebody_else_has_written() {
    let world = in_use().await;
    let accounts = ["applied", "theirs"].map(|name| format!("/api/v1/namespaces/web/serviceaccounts/{name}"));
    for account in &accounts {
        let both = json!([{ "name": "mine" }, { "name": "business-registry" }]);
        world.server.put(account, &json!({ "metadata": {}, "imagePullSecrets": both }));
    }
    let [applied, theirs] = accounts;
    set_manager(&world, &applied, "before-first-apply");
    set_manager(&world, &theirs, "kubectl");
    settle(&world).await;
    assert!(world.stored(ACCOUNT)["metadata"]["managedFields"].is_null());
    for account in [ACCOUNT, &applied, &theirs] {
        assert_eq!(names_in(&world.stored(account)), ["mine", "business-registry"], "{account}");
    }
    put_template(&world, Value::Null);
    reconcile_template(&world).await;
    world.watches();
    world.pass().await.unwrap();
    assert!(world.server.find(SECRET).is_none());
    for account in [ACCOUNT, &applied] {
        assert_eq!(names_in(&world.stored(account)), ["mine"], "{account}");
    }
    assert_eq!(names_in(&world.stored(&theirs)), ["mine", "business-registry"]);
}

#[tokio::test]
async fn a_refusal_is_told_and_keeps_nobody_from_beginning() {
    let world = World::new();
    put_template(&world, json!({}));
    world.server.refuse(SECRET);
    world.holds(&pending(&[("pods", "3")]));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    assert_eq!(world.stored(OBJECT)["status"]["phase"], "Available");
    let (status, message) = template_condition(&world);
    assert_eq!(status, "False");
    assert!(message.contains("cluster c1: Secret business-registry: refused with 403"), "{message}");
    let issued = hashes(&world);
    for _ in 0..3 {
        world.catches_up();
        world.pass().await.unwrap();
    }
    assert_eq!(hashes(&world), issued, "one password waits to be written");

    let world = World::new();
    put_template(&world, json!({}));
    world.server.refuse("POST pullcredential");
    world.holds(&pending(&[("pods", "3")]));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    assert!(
        template_condition(&world).1.contains("no password is issued"),
        "{:?}",
        template_condition(&world)
    );
    assert_eq!(world.stored(OBJECT)["status"]["phase"], "Available");
}

#[tokio::test]
async fn a_cluster_that_shows_no_secrets_has_all_else() {
    let world = World::new();
    put_template(&world, json!({}));
    world.member.observed.pulls.reset();
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    assert_eq!(world.stored(OBJECT)["status"]["phase"], "Available");
    assert_eq!(
        (template_condition(&world).0.as_str(), hashes(&world).len()),
        ("Unknown", 0),
        "it is not known yet"
    );
    world
        .member
        .observed
        .pulls
        .secrets
        .list_failed(&ListFailure { text: "403 Forbidden".to_owned(), is_forbidden: true });
    world.pass().await.unwrap();
    let (status, message) = template_condition(&world);
    assert_eq!(status, "False");
    assert!(message.contains("does not list the Secrets named business-registry: 403"), "{message}");
    assert!(hashes(&world).is_empty(), "nothing was issued that could not be kept");
}

#[tokio::test]
async fn what_comes_to_another_project_has_another_password() {
    let world = in_use().await;
    let first = hashes(&world);
    // The project was deleted and created again under the same name.
    world
        .knows_project(&json!({ "metadata": { "name": "p", "uid": "project-2" }, "spec": {}, "status": {} }));
    assert_eq!(world.stored(PROJECT)["metadata"]["uid"], "project-2");
    world.pass().await.unwrap();
    assert_ne!(hashes(&world)[0], first[0]);
    assert_eq!(world.stored(OBJECT)["status"]["pullCredential"]["projectUID"], "project-2");
}

#[tokio::test]
async fn what_is_released_pulls_no_more() {
    let world = World::new();
    put_template(&world, json!({}));
    let consent = json!({ "business.tkestack.io/adopt": "p/n" });
    world
        .server
        .put(NAMESPACE, &json!({ "metadata": { "name": "web", "uid": "theirs", "annotations": consent } }));
    world.holds(&pending(&[("pods", "3")]));
    world.pass().await.unwrap();
    world.pass().await.unwrap();
    world.enforces("1");
    world.pass().await.unwrap();
    assert!(world.server.find(SECRET).is_some());
    world.holds(&world.seen().ending());
    world.member.observed.pulls.reset();
    assert!(matches!(world.pass().await.unwrap(), PassOutcome::WaitingFor(_)), "it is not seen yet");
    world.watches();
    world.server.refuse(&format!("DELETE {SECRET}"));
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Refused);
    assert!(world.server.find(OBJECT).is_some());
    world.server.forget_faults();
    assert_eq!(world.pass().await.unwrap(), PassOutcome::Applied);
    assert!(world.server.find(SECRET).is_none() && world.server.find(NAMESPACE).is_some());
}
