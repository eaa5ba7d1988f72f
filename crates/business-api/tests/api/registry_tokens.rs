//! The token server of the registry, and the names and passwords that it takes.

use crate::support::{Answer, Client, World, child, namespace, namespaces, project, until};
use http::Method;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use rcgen::KeyPair;
use serde_json::{Value, json};

const CREDENTIALS: &str = "/namespaces/web/registrycredentials";
const IMAGES: &str = "/namespaces/web/imagenamespaces";
const APP: &str = "/namespaces/web/namespaces/c1-app";
const PULL: &str = "repository:acme/shop/app:pull";
const PUSH: &str = "repository:acme/shop/app:pull,push";
const CONTROLLER: &str = "controller:0123456789abcdef";
const EVENTS: &str = "registry:fedcba9876543210";
const PUSHED: &str = "business.tkestack.io/registry-pushed";
const CHANGED: &str = "business.tkestack.io/registry-changed";
const ALL: &str = "repository:acme/shop/app:*";

/// The manifests that the annotation names, without the mark that may stand among them.
fn named(pushed: &Value) -> String {
    let words = pushed.as_str().unwrap_or_default().split_whitespace();
    words.filter(|word| word.contains('@')).collect::<Vec<_>>().join(" ")
}

/// A server with a key, the project `web` of the tenant `acme`, and in it the image namespace `shop` of 4Gi.
struct Registry {
    world: World,
    files: std::path::PathBuf,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.files);
    }
}

impl Registry {
    async fn start() -> Self {
        let files = std::env::temp_dir().join(format!("registry-files-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&files).unwrap();
        let flag = |name: &str, text: &str| {
            std::fs::write(files.join(name), text).unwrap();
            format!("--registry-{name}={}", files.join(name).display())
        };
        let flags = [
            "--tenant-grant".to_owned(),
            flag("token-key-file", &KeyPair::generate().unwrap().serialize_pem()),
            flag("controller-credentials", CONTROLLER),
            flag("events-credentials", EVENTS),
        ];
        let world = World::with_settings(&flags.each_ref().map(String::as_str)).await;
        let registry = Self { world, files };
        registry.project().await;
        registry.open("shop").await;
        let admin = registry.admin();
        until("the names are read", async || token(&admin, &[ALL]).await.code == 200).await;
        // A prefix that is not known yet is answered with nothing, and a push to one that is Pending with 403.
        until("the image namespace is known and open", async || {
            token(&admin, &[PUSH]).await.code == 200 && !registry.granted(&admin, &[PULL]).await.is_empty()
        })
        .await;
        registry
    }

    fn admin(&self) -> Client {
        self.world.admin("acme")
    }

    fn account(&self, account: &str) -> Client {
        let (user, password) = account.split_once(':').unwrap();
        self.world.basic(user, password)
    }

    async fn project(&self) {
        let mut body = project("web", json!({"pods": "1"}));
        body["spec"]["members"] = json!(["alice"]);
        body["spec"]["clusters"]["registry"] = json!({"hard": {"requests.storage": "10Gi"}});
        self.admin().post("/projects", body).await.expect(201);
    }

    async fn open(&self, name: &str) {
        let body = json!({
            "apiVersion": "business.tkestack.io/v1", "kind": "ImageNamespace", "metadata": {},
            "spec": {"name": name, "hard": {"requests.storage": "4Gi"}},
        });
        self.admin().post(IMAGES, body).await.expect(201);
        self.says(name, json!({"phase": "Available", "registry": {"backend": "OCI", "provenance": "Made"}}))
            .await;
    }

    /// The same in a project below.
    async fn open_below(&self, project: &str, name: &str) {
        let mut body = child(project, "web", json!({"pods": "0"}));
        body["spec"]["clusters"]["registry"] = json!({"hard": {"requests.storage": "1Gi"}});
        self.admin().post("/projects", body).await.expect(201);
        let body = json!({
            "apiVersion": "business.tkestack.io/v1", "kind": "ImageNamespace", "metadata": {},
            "spec": {"name": name, "hard": {"requests.storage": "1Gi"}},
        });
        let images = format!("/namespaces/{project}/imagenamespaces");
        self.admin().post(&images, body).await.expect(201);
        let status = json!({"phase": "Available", "registry": {"backend": "OCI", "provenance": "Made"}});
        let path = format!("{images}/{name}/status");
        self.world.operator().patch(&path, json!({"status": status})).await.expect(200);
    }

    /// Makes the namespace `c1-app`, and has a password issued for its pods as the controller does.
    async fn namespace(&self) -> Client {
        self.admin().post(&namespaces("web"), namespace("app", json!({"pods": "1"}))).await.expect(201);
        self.pulls(json!({})).await
    }

    async fn pulls(&self, wanted: Value) -> Client {
        let issued = self.world.operator().post(&format!("{APP}/pullcredential"), wanted).await.expect(201);
        assert_eq!(issued["kind"], "RegistryToken");
        let text = |field: &str| issued["status"][field].as_str().unwrap().to_owned();
        assert_eq!(text("username"), "web/namespaces/c1-app");
        self.world.basic(&text("username"), &text("password"))
    }

    /// What is known of the passwords of `c1-app`, the newest first.
    async fn hashes(&self) -> Vec<String> {
        let app = self.admin().get(APP).await.expect(200);
        let known = app["status"]["pullCredential"]["passwords"].as_array().cloned().unwrap_or_default();
        known.iter().map(|one| one["hash"].as_str().unwrap().to_owned()).collect()
    }

    /// What the controller would write.
    async fn says(&self, name: &str, status: Value) {
        let path = format!("{IMAGES}/{name}/status");
        self.world.operator().patch(&path, json!({"status": status})).await.expect(200);
    }

    /// Makes a credential and has a password issued.
    async fn credential(&self, by: &Client, name: &str, spec: Value) -> Client {
        by.post(CREDENTIALS, credential(name, spec)).await.expect(201);
        self.issued(by, name).await
    }

    async fn issued(&self, by: &Client, name: &str) -> Client {
        let issued = by.post(&format!("{CREDENTIALS}/{name}/token"), json!({})).await.expect(201);
        let text = |field: &str| issued["status"][field].as_str().unwrap().to_owned();
        assert_eq!(issued["kind"], "RegistryToken");
        self.world.basic(&text("username"), &text("password"))
    }

    /// What a token grants: `NAME:ACTIONS`.
    async fn granted(&self, client: &Client, scopes: &[&str]) -> Vec<String> {
        let answer = token(client, scopes).await.expect(200);
        let claims = self.claims(answer["token"].as_str().unwrap()).await;
        let actions = |one: &Value| {
            let names: Vec<&str> =
                one["actions"].as_array().unwrap().iter().map(|a| a.as_str().unwrap()).collect();
            format!("{}:{}", one["name"].as_str().unwrap(), names.join(","))
        };
        claims["access"].as_array().unwrap().iter().map(actions).collect()
    }

    async fn claims(&self, token: &str) -> Value {
        let keys = self.world.nobody().get("/registry/jwks").await.expect(200);
        let keys: JwkSet = serde_json::from_value(keys).unwrap();
        let header = decode_header(token).unwrap();
        let key = DecodingKey::from_jwk(keys.find(&header.kid.unwrap()).unwrap()).unwrap();
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_audience(&["registry"]);
        validation.set_issuer(&["business-api"]);
        decode::<Value>(token, &key, &validation).unwrap().claims
    }
}

#[expect(clippy::needless_pass_by_value, reason = "callers write a literal")]
fn credential(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "RegistryCredential", "metadata": {"name": name}, "spec": spec,
    })
}

async fn token(client: &Client, scopes: &[&str]) -> Answer {
    let mut path = "/registry/token?service=registry&client_id=docker".to_owned();
    for scope in scopes {
        path.push_str("&scope=");
        path.push_str(&scope.replace(' ', "%20"));
    }
    client.get(&path).await
}

/// Code, code word and message of a refusal.
async fn refused(client: &Client, scopes: &[&str]) -> (u16, String, String) {
    let Answer { code, body, .. } = token(client, scopes).await;
    let text = |field: &str| body["errors"][0][field].as_str().unwrap_or_default().to_owned();
    (code, text("code"), text("message"))
}

#[tokio::test]
async fn members_and_administrators_push_and_pull_and_others_learn_nothing() {
    let registry = Registry::start().await;
    let world = &registry.world;
    let (admin, alice) = (registry.admin(), world.member("alice", "acme"));
    for client in [&admin, &alice] {
        assert_eq!(registry.granted(client, &[PUSH]).await, ["acme/shop/app:pull,push"]);
        assert_eq!(registry.granted(client, &[ALL]).await, ["acme/shop/app:pull,push,delete"]);
        assert_eq!(registry.granted(client, &[PULL]).await, ["acme/shop/app:pull"]);
    }
    // Any name, and the token of the API as its password.
    let claims = json!({"sub": "alice", "tenantid": "acme", "groups": []});
    let by_password = world.basic("whoever", &world.token(claims));
    assert_eq!(registry.granted(&by_password, &[PUSH]).await, ["acme/shop/app:pull,push"]);
    let two = format!("{PULL} repository:acme/none/app:pull");
    assert_eq!(registry.granted(&alice, &[&two, "registry:catalog:*"]).await, ["acme/shop/app:pull"]);

    for other in [world.admin("umbrella"), world.member("bob", "acme"), world.stranger()] {
        for there in [PUSH, PULL, ALL, "repository:acme/none/app:pull,push", "repository:acme/shop:push"] {
            assert_eq!(registry.granted(&other, &[there]).await, [""; 0], "{there}");
        }
    }
    assert_eq!(registry.granted(&alice, &["repository:umbrella/shop/app:pull"]).await, [""; 0]);
    let scopes =
        ["registry:catalog:*", "repository:acme/shop/app:pull,delete", "repository:acme/gone/x:delete"];
    let all = ["catalog:*", "acme/shop/app:pull,delete", "acme/gone/x:delete"];
    for all_seeing in [world.operator(), registry.account(CONTROLLER)] {
        assert_eq!(registry.granted(&all_seeing, &scopes).await, all, "it measures and deletes");
        assert_eq!(registry.granted(&all_seeing, &["repository:acme/shop/app:push"]).await, [""; 0]);
    }
    assert_eq!(
        registry.granted(&world.kubernetes(), &scopes).await,
        [""; 0],
        "it sees everything, and no more"
    );
    assert_eq!(registry.granted(&world.kubernetes(), &[ALL]).await, [""; 0]);
    assert_eq!(token(&registry.account(EVENTS), &[]).await.code, 401, "it only tells of changes");

    let nobody = refused(&world.nobody(), &[PULL]).await;
    assert_eq!((nobody.0, nobody.1.as_str()), (401, "UNAUTHORIZED"));
    assert_eq!(alice.get("/registry/token?service=elsewhere").await.code, 400);
    assert_eq!(alice.post("/registry/token", json!({})).await.code, 405, "upon which clients come by GET");
    let issued = token(&alice, &[PULL]).await.expect(200);
    assert_eq!((&issued["expires_in"], &issued["token"]), (&json!(60), &issued["access_token"]));
    let claims = registry.claims(issued["token"].as_str().unwrap()).await;
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 60);
    assert_eq!(claims["sub"], "alice");
}

#[tokio::test]
async fn what_is_full_locked_or_on_its_end_refuses_a_push_and_says_why() {
    let registry = Registry::start().await;
    let alice = registry.world.member("alice", "acme");
    let pushes = async || token(&alice, &[PUSH]).await.code;
    until("she may push", async || pushes().await == 200).await;
    let full = json!({"used": {"requests.storage": "5Gi"}});
    registry.says("shop", full).await;
    until("it is full", async || pushes().await == 403).await;
    let (code, word, message) = refused(&alice, &[PUSH]).await;
    assert_eq!((code, word.as_str()), (403, "DENIED"));
    let want = "image namespace \"shop\" of project \"web\" is full: used requests.storage=5Gi, hard 4Gi; delete what is not \
                needed, or ask for a larger spec.hard";
    assert_eq!(message, want);
    assert_eq!(registry.granted(&alice, &[ALL]).await, ["acme/shop/app:pull,delete"], "room can be made");
    let crane = "repository:acme/shop/app:push,pull,delete";
    assert_eq!(registry.granted(&alice, &[crane]).await, ["acme/shop/app:pull,delete"], "as it deletes");

    registry.says("shop", json!({"used": {"requests.storage": "1Gi"}})).await;
    let because = json!({"reason": "unpaid"});
    assert_eq!(alice.post(&format!("{IMAGES}/shop/lock"), because.clone()).await.code, 403);
    let operator = registry.world.operator();
    operator.post(&format!("{IMAGES}/shop/lock"), because.clone()).await.expect(201);
    until("it is locked", async || refused(&alice, &[PUSH]).await.2.contains("is locked by an operator"))
        .await;
    assert_eq!(registry.granted(&alice, &[ALL]).await, ["acme/shop/app:pull"]);
    operator.post(&format!("{IMAGES}/shop/unlock"), because).await.expect(201);
    registry.says("shop", json!({"phase": "Failed", "reason": "Taken"})).await;
    until("it failed", async || refused(&alice, &[PUSH]).await.2.ends_with("is Failed: Taken")).await;
    assert_eq!(registry.granted(&alice, &[PULL]).await, [""; 0]);
    registry.says("shop", json!({"phase": "Available"})).await;
    until("it is back", async || pushes().await == 200).await;
    registry.admin().delete(&format!("{IMAGES}/shop")).await.expect(200);
    until("its end begins", async || refused(&alice, &[PUSH]).await.2.contains("is Terminating")).await;
    assert_eq!(registry.granted(&alice, &[ALL]).await, ["acme/shop/app:pull"]);
}

#[tokio::test]
async fn a_person_acts_by_his_credential_with_the_rights_that_he_has_then() {
    let registry = Registry::start().await;
    let (world, admin) = (&registry.world, registry.admin());
    let alice = world.member("alice", "acme");
    until("alice is a member", async || alice.get("/projects").await.names().len() == 1).await;
    let docker = registry.credential(&alice, "laptop", json!({"user": "alice"})).await;
    assert_eq!(registry.granted(&docker, &[PUSH]).await, ["acme/shop/app:pull,push"]);
    assert_eq!(docker.get("/projects").await.code, 403, "it opens the registry alone");
    let kept = alice.get(&format!("{CREDENTIALS}/laptop")).await.expect(200);
    assert_eq!(
        (&kept["status"]["username"], &kept["spec"]["tenantID"]),
        (&json!("web/laptop"), &json!("acme"))
    );
    assert_eq!(kept["status"]["passwordHash"].as_str().map(str::len), Some(64));
    assert_eq!(kept["metadata"]["ownerReferences"][0]["name"], "web");
    until("the use is written", async || {
        let shown = alice.get(&format!("{CREDENTIALS}/laptop")).await.expect(200);
        shown["status"]["lastUsed"].as_str().is_some_and(|day| day.ends_with("T00:00:00Z"))
    })
    .await;

    let again = registry.issued(&alice, "laptop").await;
    until("the password before has ended", async || refused(&docker, &[PULL]).await.1 == "UNAUTHORIZED")
        .await;
    assert_eq!(registry.granted(&again, &[PUSH]).await.len(), 1);
    admin.patch("/projects/web", json!({"spec": {"members": ["bob"]}})).await.expect(200);
    until("alice is no member", async || registry.granted(&again, &[PULL]).await.is_empty()).await;
    admin.patch("/projects/web", json!({"spec": {"members": ["alice"]}})).await.expect(200);
    until("alice is back", async || !registry.granted(&again, &[PULL]).await.is_empty()).await;
    alice.delete(&format!("{CREDENTIALS}/laptop")).await.expect(200);
    until("it is gone", async || token(&again, &[PULL]).await.code == 401).await;
}

#[tokio::test]
async fn who_has_his_role_from_a_group_is_told_that_a_password_opens_nothing() {
    let registry = Registry::start().await;
    let (world, admin) = (&registry.world, registry.admin());
    let access = json!([{"kind": "Group", "name": "developers", "role": "edit"}]);
    admin.patch("/projects/web", json!({"spec": {"access": access}})).await.expect(200);
    let claims = json!({"sub": "gina", "groups": ["developers"], "tenantid": "acme"});
    let (gina, alice) = (world.bearer(claims), world.member("alice", "acme"));
    until("both belong to it", async || {
        gina.get("/projects").await.names().len() == 1 && alice.get("/projects").await.names().len() == 1
    })
    .await;
    let post = async |who: &Client, name: &str, spec: Value| {
        let made = who.post(CREDENTIALS, credential(name, spec)).await;
        assert_eq!(made.code, 201, "{made:?}");
        made.warnings
    };
    let told = post(&gina, "ginas", json!({"user": "gina"})).await;
    assert!(told.iter().any(|one| one.contains("no role in project") && one.contains("groups")), "{told:?}");
    let password = registry.issued(&gina, "ginas").await;
    assert_eq!(registry.granted(&password, &[PULL]).await, [""; 0], "as it was told");
    assert_eq!(post(&alice, "alices", json!({"user": "alice"})).await, [""; 0]);
    assert_eq!(post(&admin, "robot", json!({"access": "Pull"})).await, [""; 0]);
    let told = post(&admin, "bobs", json!({"user": "bob"})).await;
    assert_eq!(told.len(), 1, "whoever makes it for somebody else is told, too: {told:?}");
}

/// What is put or applied from a file does not name the owner, with which the credential goes.
#[tokio::test]
async fn a_credential_stays_its_projects_whatever_is_written() {
    let registry = Registry::start().await;
    let (admin, path) = (registry.admin(), format!("{CREDENTIALS}/ci"));
    let body = |access: &str| credential("ci", json!({"access": access}));
    let owners = |object: Value| object["metadata"]["ownerReferences"].clone();
    let apply = async |body: Value| {
        let path = format!("{path}?fieldManager=kubectl&force=true");
        admin.send(Method::PATCH, &path, "application/apply-patch+yaml", Some(body)).await
    };
    let made = owners(apply(body("Pull")).await.expect(201));
    assert_eq!(made[0]["name"], "web");
    let put = admin
        .replace(&path, "", |object| {
            object["metadata"]["ownerReferences"].take();
            object["spec"]["access"] = json!("Push");
        })
        .await;
    assert_eq!(owners(put.expect(200)), made);
    let none = json!({"metadata": {"ownerReferences": null}});
    assert_eq!(owners(admin.patch(&path, none).await.expect(200)), made);
    // After client-side apply, kubectl has the reference among the fields that it takes over.
    let mut named = body("Push");
    named["metadata"]["ownerReferences"] = made.clone();
    assert_eq!(owners(apply(named).await.expect(200)), made);
    for _ in 0..2 {
        assert_eq!(owners(apply(body("Pull")).await.expect(200)), made);
    }
}

/// The ledger charges nothing for it, so it checks neither.
#[tokio::test]
async fn a_credential_is_in_a_project_that_exists_and_of_its_tenant_whoever_makes_it() {
    let registry = Registry::start().await;
    let operator = registry.world.operator();
    let copied = credential("ci", json!({"access": "Push", "tenantID": "umbrella"}));
    let refused = operator.post(CREDENTIALS, copied).await;
    assert_eq!((refused.code, refused.causes()[0].1.as_str()), (422, "spec.tenantID"), "{refused:?}");
    let nowhere = "/namespaces/nowhere/registrycredentials";
    let early = operator.post(nowhere, credential("ci", json!({"access": "Push"}))).await;
    assert_eq!((early.code, &early.body["details"]["kind"]), (404, &json!("projects")), "{early:?}");
    let made = operator.post(CREDENTIALS, credential("ci", json!({"access": "Push"}))).await.expect(201);
    assert_eq!(made["spec"]["tenantID"], "acme");
}

#[tokio::test]
async fn a_robot_does_what_its_credential_says_where_it_says() {
    let registry = Registry::start().await;
    registry.open("other").await;
    let admin = registry.admin();
    let other = "repository:acme/other/app:pull,push";
    let pulls = registry.credential(&admin, "pull", json!({"access": "Pull"})).await;
    assert_eq!(registry.granted(&pulls, &[PULL, "repository:acme/other/app:pull"]).await.len(), 2);
    assert_eq!(registry.granted(&pulls, &[ALL]).await, ["acme/shop/app:pull"]);
    let (code, word, message) = refused(&pulls, &[PUSH]).await;
    assert_eq!((code, word.as_str()), (403, "DENIED"));
    assert!(message.ends_with("this credential is for pulling only"), "{message}");
    let named = json!({"access": "Push", "names": ["shop"], "validDays": 1});
    let pushes = registry.credential(&admin, "ci", named).await;
    assert_eq!(registry.granted(&pushes, &[PUSH, other]).await, ["acme/shop/app:pull,push"]);
    assert_eq!(registry.granted(&pushes, &[ALL]).await, ["acme/shop/app:pull,push"], "it deletes nothing");
    assert_eq!(registry.granted(&pushes, &["registry:catalog:*"]).await, [""; 0]);
    admin.patch(&format!("{CREDENTIALS}/ci"), json!({"spec": {"access": "Pull"}})).await.expect(200);
    until("it may pull only", async || token(&pushes, &[PUSH]).await.code == 403).await;

    // A project of the same name is another one.
    for path in [format!("{IMAGES}/shop"), format!("{IMAGES}/other"), "/projects/web".to_owned()] {
        admin.delete(&path).await.expect(200);
        let operator = registry.world.operator();
        if path.contains("imagenamespaces") {
            let gone = json!({"metadata": {"annotations": {"business.tkestack.io/abandon": "test"}}});
            operator.patch(&path, gone).await.expect(200);
        }
        operator
            .replace(&path, "/finalize", |object| object["spec"]["finalizers"] = json!([]))
            .await
            .expect(200);
    }
    registry.project().await;
    registry.open("shop").await;
    until("the new one is there", async || !registry.granted(&admin, &[PULL]).await.is_empty()).await;
    assert_eq!(token(&pulls, &[PULL]).await.code, 401);
    let renewed = registry.issued(&admin, "pull").await;
    assert_eq!(registry.granted(&renewed, &[PULL]).await.len(), 1);
}

#[tokio::test]
async fn a_namespace_pulls_what_is_its_projects_and_nothing_else() {
    let registry = Registry::start().await;
    registry.open_below("part", "inner").await;
    let (world, pulls) = (&registry.world, registry.namespace().await);
    let (inner, other) = ("repository:acme/inner/app:pull", "repository:umbrella/shop/app:pull");
    until("the project below is known", async || registry.granted(&pulls, &[inner]).await.len() == 1).await;
    assert_eq!(registry.granted(&pulls, &[PULL, other]).await, ["acme/shop/app:pull"]);
    assert_eq!(registry.granted(&pulls, &[ALL, "registry:catalog:*"]).await, ["acme/shop/app:pull"]);
    let (code, word, message) = refused(&pulls, &[PUSH]).await;
    assert_eq!((code, word.as_str()), (403, "DENIED"));
    assert!(message.ends_with("this credential is for pulling only"), "{message}");
    assert_eq!(pulls.get("/projects").await.code, 403, "it opens the registry alone");

    // Who is below does not see what is above, nor beside.
    let mut body = child("side", "web", json!({"pods": "0"}));
    body["spec"]["clusters"]["registry"] = json!({"hard": {"requests.storage": "0"}});
    registry.admin().post("/projects", body).await.expect(201);
    registry.admin().post(&namespaces("side"), namespace("low", json!({"pods": "0"}))).await.expect(201);
    let low = format!("{}/c1-low/pullcredential", namespaces("side"));
    let issued = world.operator().post(&low, json!({})).await.expect(201);
    let password = issued["status"]["password"].as_str().unwrap();
    let low = world.basic("side/namespaces/c1-low", password);
    assert_eq!(registry.granted(&low, &[PULL, inner]).await, [""; 0]);
    assert_eq!(token(&world.basic("web/namespaces/c1-app", password), &[PULL]).await.code, 401);

    let bound = registry.pulls(json!({"names": ["inner"]})).await;
    until("it is bound", async || registry.granted(&bound, &[PULL, inner]).await.len() == 1).await;
    assert_eq!(registry.granted(&bound, &[PULL, inner]).await, ["acme/inner/app:pull"]);
}

#[tokio::test]
async fn a_namespaces_password_is_the_platforms_to_issue_and_ends_with_all_that_it_is_for() {
    let registry = Registry::start().await;
    let (world, admin) = (&registry.world, registry.admin());
    let first = registry.namespace().await;
    let pulls = async |client: &Client| token(client, &[PULL]).await.code == 200;
    let issue = format!("{APP}/pullcredential");
    for other in [&admin, &world.member("alice", "acme"), &world.admin("umbrella")] {
        assert!([403, 404].contains(&other.post(&issue, json!({})).await.code));
    }
    let rehearsed = world.operator().post(&format!("{issue}?dryRun=All"), json!({})).await.expect(201);
    assert_eq!(rehearsed["status"]["password"], "");
    assert_eq!(world.operator().post(&issue, json!({"validDays": 366})).await.causes()[0].1, "validDays");
    assert_eq!(world.operator().post(&issue, json!({"uid": "another"})).await.code, 409);

    // The one in use stays while it is replaced; what nobody has is forgotten.
    let used = registry.hashes().await.remove(0);
    let lost = registry.pulls(json!({"keep": used})).await;
    let second = registry.pulls(json!({"keep": used})).await;
    until("the lost one has ended", async || !pulls(&lost).await).await;
    assert!(pulls(&first).await && pulls(&second).await);
    let known = registry.hashes().await;
    assert_eq!((known.len(), &known[1]), (2, &used));
    let third = registry.pulls(json!({})).await;
    until("all others have ended", async || !pulls(&first).await && !pulls(&second).await).await;
    assert!(pulls(&third).await);

    // A status takes it away, and gives none.
    let hash = "0".repeat(64);
    let forged =
        json!({"hash": hash, "issuedAt": "2026-01-01T00:00:00Z", "expiresAt": "2099-01-01T00:00:00Z"});
    let forged = json!({"status": {"pullCredential": {"passwords": [forged]}}});
    world.operator().patch(&format!("{APP}/status"), forged.clone()).await.expect(200);
    assert!(!registry.hashes().await.contains(&hash) && pulls(&third).await);
    let taken = json!({"status": {"pullCredential": null}});
    world.operator().patch(&format!("{APP}/status"), taken).await.expect(200);
    until("it is taken away", async || !pulls(&third).await).await;
    world.operator().patch(&format!("{APP}/status"), forged).await.expect(200);
    assert_eq!(registry.hashes().await, [""; 0]);

    let moving = registry.pulls(json!({})).await;
    admin.post("/projects", project("elsewhere", json!({"pods": "1"}))).await.expect(201);
    let moved = admin.post(&format!("{APP}/transfer"), json!({"project": "elsewhere"})).await.expect(201);
    assert!(moved["status"]["pullCredential"].is_null(), "{moved:#}");
    until("it has ended", async || !pulls(&moving).await).await;
    let there = format!("{}/c1-app", namespaces("elsewhere"));
    admin.post(&format!("{there}/transfer"), json!({"project": "web"})).await.expect(201);
    assert!(!pulls(&moving).await, "what was taken away does not come back");

    let last = registry.pulls(json!({})).await;
    assert!(pulls(&last).await);
    admin.delete(APP).await.expect(200);
    until("it ends with the namespace", async || !pulls(&last).await).await;
    assert_eq!(world.operator().post(&issue, json!({})).await.code, 409);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn members_have_credentials_of_their_own_and_touch_no_others() {
    let registry = Registry::start().await;
    let (world, admin) = (&registry.world, registry.admin());
    let alice = world.member("alice", "acme");
    until("alice is a member", async || alice.get("/projects").await.names().len() == 1).await;
    for theirs in [json!({"user": "bob"}), json!({"access": "Pull"})] {
        let refused = alice.post(CREDENTIALS, credential("x", theirs)).await;
        assert_eq!((refused.code, refused.causes()[0].1.as_str()), (422, "spec.user"), "{refused:?}");
    }
    for access in ["Delete", "push", "Pull ", "x", ""] {
        let refused = alice.post(CREDENTIALS, credential("x", json!({ "access": access }))).await;
        assert_eq!((refused.code, refused.causes()[0].1.as_str()), (422, "spec.access"), "{refused:?}");
    }
    let outside =
        world.member("carl", "acme").post(CREDENTIALS, credential("x", json!({"user": "carl"}))).await;
    assert_eq!(outside.code, 404, "he does not see the project");
    admin.post(CREDENTIALS, credential("ci", json!({"access": "Push"}))).await.expect(201);
    assert_eq!(alice.get(CREDENTIALS).await.names(), ["ci"]);
    let ci = format!("{CREDENTIALS}/ci");
    assert_eq!(alice.post(&format!("{ci}/token"), json!({})).await.code, 403);
    assert_eq!(alice.delete(&ci).await.code, 403);
    assert_eq!(alice.patch(&ci, json!({"spec": {"access": "Pull"}})).await.code, 403);
    let forged = json!({"status": {"passwordHash": "00", "username": "web/x"}});
    admin.patch(&ci, forged.clone()).await.expect(200);
    let kept = admin.get(&ci).await.expect(200);
    assert!(kept["status"]["passwordHash"].is_null(), "{kept:#}");
    assert_eq!(admin.patch(&format!("{ci}/status"), forged).await.code, 403);
    let rehearsed = admin.post(&format!("{ci}/token?dryRun=All"), json!({})).await.expect(201);
    assert_eq!(rehearsed["status"]["password"], "");
    let long = admin.post(CREDENTIALS, credential("x", json!({"access": "Pull", "validDays": 366}))).await;
    assert_eq!(long.causes()[0].1, "spec.validDays");
    for guess in ["", "regcred_", "regcred_00", "nonsense"] {
        assert_eq!(token(&world.basic("web/ci", guess), &[PULL]).await.code, 401, "{guess}");
    }
    assert_eq!(token(&world.basic("web", "regcred_00"), &[PULL]).await.code, 401);

    // What another one has just made may be counted a moment later.
    let mut made = 0;
    let more = loop {
        let hers = credential(&format!("hers-{made}"), json!({"user": "alice"}));
        let answer = alice.post(CREDENTIALS, hers).await;
        if answer.code != 201 || made == 30 {
            break answer;
        }
        made += 1;
    };
    assert!(more.code == 403 && (20..30).contains(&made), "{made}: {more:?}");
    admin.post(CREDENTIALS, credential("theirs", json!({"access": "Pull"}))).await.expect(201);
}

#[tokio::test]
async fn an_administrator_of_a_project_gets_nobodys_rights_but_his_own() {
    let registry = Registry::start().await;
    let world = &registry.world;
    let (mallory, alice) = (world.host_user("mallory"), world.host_user("alice"));
    let (images, there) = ("/namespaces/theirs/imagenamespaces", "repository:umbrella/shop/app:pull");
    let mut body = project("theirs", json!({"pods": "1"}));
    body["spec"]["access"] = json!([{"kind": "User", "name": "alice", "role": "edit"}]);
    body["spec"]["clusters"]["registry"] = json!({"hard": {"requests.storage": "10Gi"}});
    world.admin("umbrella").post("/projects", body).await.expect(201);
    let shop = json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "ImageNamespace", "metadata": {},
        "spec": {"name": "shop", "hard": {"requests.storage": "4Gi"}},
    });
    world.admin("umbrella").post(images, shop).await.expect(201);
    let status = json!({"phase": "Available", "registry": {"backend": "OCI", "provenance": "Made"}});
    world.operator().patch(&format!("{images}/shop/status"), json!({"status": status})).await.expect(200);
    let access = json!([
        {"kind": "User", "name": "mallory", "role": "admin"}, {"kind": "User", "name": "alice", "role": "edit"},
    ]);
    registry.admin().patch("/projects/web", json!({"spec": {"access": access}})).await.expect(200);
    until("she is something in both", async || {
        !registry.granted(&alice, &[PULL]).await.is_empty()
            && !registry.granted(&alice, &[there]).await.is_empty()
    })
    .await;
    until("he is an administrator", async || mallory.get(CREDENTIALS).await.code == 200).await;

    for spec in [json!({"user": "alice"}), json!({"user": "alice", "hostUser": true})] {
        let refused = mallory.post(CREDENTIALS, credential("hers", spec)).await;
        assert_eq!((refused.code, refused.causes()[0].1.as_str()), (422, "spec.user"), "{refused:?}");
    }
    let forced = credential("hers", json!({"user": "alice", "hostUser": true}));
    let refused = world.operator().post(CREDENTIALS, forced).await;
    assert_eq!(refused.code, 422, "by an operator neither: {refused:?}");
    registry.credential(&mallory, "ci", json!({"access": "Push"})).await;

    // Her own opens what is hers in the tenant that keeps it.
    let hers = registry.credential(&alice, "hers", json!({"user": "alice"})).await;
    let all = format!("{PULL} {there}");
    assert_eq!(registry.granted(&hers, &[&all]).await, ["acme/shop/app:pull"]);
    assert_eq!(mallory.post(&format!("{CREDENTIALS}/hers/token"), json!({})).await.code, 403);
    assert_eq!(registry.admin().post(&format!("{CREDENTIALS}/hers/token"), json!({})).await.code, 403);
    let days = json!({"spec": {"validDays": 7}});
    assert_eq!(mallory.patch(&format!("{CREDENTIALS}/hers"), days).await.code, 422);
    mallory.delete(&format!("{CREDENTIALS}/hers")).await.expect(200);

    // A name that is an operator's has nothing of his rights.
    let named = registry.credential(&registry.admin(), "root", json!({"user": "operator"})).await;
    assert_eq!(registry.granted(&named, &["registry:catalog:*", ALL, there]).await, [""; 0]);
    // A user of the tenant is who has the name there.
    let user = registry.credential(&registry.admin(), "user", json!({"user": "alice"})).await;
    assert_eq!(registry.granted(&user, &[&all]).await, ["acme/shop/app:pull"]);
}

/// As the garbage collector does after a deletion with `--cascade=foreground`.
#[tokio::test]
async fn a_finalizer_is_taken_off_a_credential_by_somebody_other_than_its_holder() {
    let registry = Registry::start().await;
    let (operator, alice) = (registry.world.operator(), registry.world.host_user("alice"));
    let access = json!([{"kind": "User", "name": "alice", "role": "view"}]);
    registry.admin().patch("/projects/web", json!({"spec": {"access": access}})).await.expect(200);
    until("she sees the project", async || alice.get(CREDENTIALS).await.code == 200).await;
    alice.post(CREDENTIALS, credential("hers", json!({"user": "alice"}))).await.expect(201);
    let hers = format!("{CREDENTIALS}/hers");
    let deleted = alice.delete(&format!("{hers}?propagationPolicy=Foreground")).await.expect(200);
    assert_eq!(deleted["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    let late = alice.post(&format!("{hers}/token"), json!({})).await;
    assert_eq!(late.code, 409, "a password that opens nothing: {late:?}");
    assert_eq!(operator.patch(&hers, json!({"spec": {"validDays": 7}})).await.code, 422);
    operator.patch(&hers, json!({"metadata": {"finalizers": null}})).await.expect(200);
    assert_eq!(operator.get(&hers).await.code, 404);
}

#[tokio::test]
async fn what_the_registry_tells_marks_the_object_whose_content_has_changed() {
    let registry = Registry::start().await;
    let mark = async |name: &str| {
        let object = registry.admin().get(&format!("{IMAGES}/{name}")).await.expect(200);
        object["metadata"]["annotations"][CHANGED].clone()
    };
    registry.open("other").await;
    let event = |action: &str, repository: &str| json!({"id": "1", "action": action, "target": {"repository": repository}});
    let events = json!({"events": [
        event("push", "acme/shop/app"), event("pull", "acme/other/app"), event("delete", "acme/none/app"),
        event("push", "nowhere"), {"action": "delete"},
    ]});
    let teller = registry.account(EVENTS);
    for other in
        [registry.account(CONTROLLER), registry.admin(), registry.world.nobody(), registry.world.operator()]
    {
        assert_eq!(other.post("/registry/events", events.clone()).await.code, 401);
    }
    assert_eq!(mark("shop").await, Value::Null);
    assert_eq!(teller.post("/registry/events", events).await.code, 200);
    until("it is marked", async || mark("shop").await.is_string()).await;
    assert_eq!(mark("other").await, Value::Null, "a pull changes nothing");
    let first = mark("shop").await;
    let more = json!({"events": [event("delete", "acme/shop/app")]});
    assert_eq!(teller.post("/registry/events", more).await.code, 200);
    until("it is marked anew", async || mark("shop").await != first).await;
    for unread in [json!("nonsense"), json!({"events": [], "padding": "x".repeat(17 << 20)})] {
        let answer = teller.post("/registry/events", unread).await;
        assert_eq!(answer.code, 200, "an error would have it sent for ever, and nothing behind it");
    }
    let second = mark("shop").await;
    let mut long = json!({"events": [event("push", "acme/shop/app")]});
    long["events"][0]["request"] = json!({"useragent": "x".repeat(7 << 20)});
    assert_eq!(teller.post("/registry/events", long).await.code, 200);
    until("it is marked by what is long, too", async || mark("shop").await != second).await;

    let digest = |number: usize| format!("sha256:{number:064x}");
    let name = |number: usize| format!("acme/shop/app@{}", digest(number));
    let by_digest = |number: usize| {
        let target = json!({"repository": "acme/shop/app", "digest": digest(number)});
        json!({"events": [{"id": "1", "action": "push", "target": target}]})
    };
    let object = async || registry.admin().get(&format!("{IMAGES}/shop")).await.expect(200);
    let pushed = async || object().await["metadata"]["annotations"][PUSHED].clone();
    assert_eq!(teller.post("/registry/events", by_digest(1)).await.code, 200);
    assert_eq!(named(&pushed().await), name(1), "stored when it was answered");
    assert_eq!(teller.post("/registry/events", by_digest(2)).await.code, 200);
    assert_eq!(named(&pushed().await), format!("{} {}", name(1), name(2)));
    for (caller, label) in [(registry.admin(), "b"), (registry.world.operator(), "c")] {
        let sent = json!({"metadata": {"annotations": {PUSHED: null, CHANGED: "1"}, "labels": {"a": label}}});
        caller.patch(&format!("{IMAGES}/shop"), sent).await.expect(200);
        assert!(pushed().await.is_string(), "it is the server's");
        assert_ne!(object().await["metadata"]["annotations"][CHANGED], "1", "and so is this");
    }
    let measured = object().await["metadata"]["annotations"][CHANGED].clone();
    let record = json!({"backend": "OCI", "provenance": "Made"});
    let status =
        json!({"phase": "Available", "registry": record, "measuredChange": measured, "untagged": [name(1)]});
    registry.says("shop", status).await;
    assert_eq!(teller.post("/registry/events", by_digest(3)).await.code, 200);
    assert_eq!(pushed().await, name(3), "the others were measured");
    registry.world.assert_books_agree().await;
}

#[tokio::test]
async fn what_is_pushed_is_remembered_with_its_tag_or_without_and_beyond_that_nothing_is_pushed() {
    let registry = Registry::start().await;
    let (admin, teller) = (registry.admin(), registry.account(EVENTS));
    let digest = |number: usize| format!("sha256:{number:064x}");
    let event = |number: usize, beside: (&str, &str)| {
        let (field, text) = beside;
        let target = json!({"repository": "acme/shop/app", "digest": digest(number), field: text});
        json!({"id": "1", "action": "push", "target": target})
    };
    let tell = async |events: Vec<Value>| {
        assert_eq!(teller.post("/registry/events", json!({"events": events})).await.code, 200);
    };
    let object = async || admin.get(&format!("{IMAGES}/shop")).await.expect(200);
    let pushed = async || object().await["metadata"]["annotations"][PUSHED].clone();
    tell(vec![event(1, ("tag", "latest"))]).await;
    tell(vec![event(2, ("tag", "latest"))]).await;
    let both = format!("acme/shop/app@{} acme/shop/app@{}", digest(1), digest(2));
    assert_eq!(named(&pushed().await), both, "the second has taken the first one's tag");
    let changed = async || object().await["metadata"]["annotations"][CHANGED].clone();
    let before = changed().await;
    tell(vec![event(3, ("mediaType", "application/octet-stream"))]).await;
    until("a blob is told as well", async || changed().await != before).await;
    assert_eq!(named(&pushed().await), both, "it is no manifest");

    assert_eq!(token(&admin, &[PUSH]).await.code, 200);
    tell((1000..1300).map(|number| event(number, ("tag", ""))).collect()).await;
    until("nothing is pushed", async || token(&admin, &[PUSH]).await.code == 403).await;
    let (_, _, message) = refused(&admin, &[PUSH]).await;
    assert!(message.contains("not measured yet"), "{message}");
    assert!(!registry.granted(&admin, &[PULL]).await.is_empty());
    registry.says("shop", json!({"measuredChange": changed().await})).await;
    until("it was measured", async || token(&admin, &[PUSH]).await.code == 200).await;
}
