//! `namespaces/NAME/certificate`, with an authority of a test in the place of the controller and its clusters.

use crate::support::{Answer, World, namespace, namespaces, project, until};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use business_api::certificates::CertificateIssuer;
use business_types::issue::{IssueRequest, IssuedCertificate};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::Method;
use meta::status::Status;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, IsCa, Issuer as Authority, KeyPair,
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const PATH: &str = "/namespaces/p/namespaces/c1-a/certificate";
const SERVER: &str = "https://c1.example:6443";

/// Signs what it is asked for, and remembers that.
pub(crate) struct SigningCluster {
    authority: Authority<'static, KeyPair>,
    ca: String,
    asked: Mutex<Vec<IssueRequest>>,
    refusal: Mutex<Option<Status>>,
}

impl SigningCluster {
    pub(crate) fn new() -> Arc<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&key).unwrap().pem();
        Arc::new(Self {
            authority: Authority::new(params, key),
            ca,
            asked: Mutex::default(),
            refusal: Mutex::default(),
        })
    }

    fn last(&self) -> IssueRequest {
        self.asked.lock().unwrap().last().unwrap().clone()
    }

    fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl CertificateIssuer for SigningCluster {
    fn issue(&self, request: IssueRequest) -> BoxFuture<'_, Result<IssuedCertificate, Status>> {
        let asked = CertificateSigningRequestParams::from_pem(&request.request).unwrap();
        self.asked.lock().unwrap().push(request);
        let refusal = self.refusal.lock().unwrap().clone();
        let certificate = asked.signed_by(&self.authority).unwrap().pem();
        let issued = IssuedCertificate { certificate, server: SERVER.to_owned(), ca_bundle: self.ca.clone() };
        async move { refusal.map_or(Ok(issued), Err) }.boxed()
    }
}

/// Tenant t with alice as a member of p, in which c1-a lies.
async fn world(cluster: &Arc<SigningCluster>, flags: &[&str]) -> World {
    let flags = [&["--tenant-grant"], flags].concat();
    let world = World::with_issuer(&flags, Arc::clone(cluster) as Arc<dyn CertificateIssuer>).await;
    let admin = world.admin("t");
    let mut body = project("p", json!({"pods": "10"}));
    body["spec"]["members"] = json!(["alice"]);
    admin.post("/projects", body).await.expect(201);
    admin.post(&namespaces("p"), namespace("a", json!({"pods": "1"}))).await.expect(201);
    let alice = world.member("alice", "t");
    until("alice is a member", async || alice.get("/namespaces/p/namespaces/c1-a").await.code == 200).await;
    world
}

fn decoded(answer: &Value, field: &str) -> String {
    let text = answer["status"]["certificate"][field].as_str().unwrap_or_default();
    String::from_utf8(BASE64_STANDARD.decode(text).unwrap()).unwrap()
}

#[tokio::test]
async fn a_member_gets_a_certificate_for_himself_in_the_shape_of_old() {
    let cluster = SigningCluster::new();
    let world = world(&cluster, &[]).await;
    let alice = world.member("alice", "t");
    let stored = alice.get("/namespaces/p/namespaces/c1-a").await.expect(200);
    let answer = alice.get(PATH).await.expect(200);
    let fields: Vec<&String> = answer["status"]["certificate"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["apiServer", "caCertPem", "certPem", "keyPem"]);
    let mut rest = answer.clone();
    rest["status"].as_object_mut().unwrap().remove("certificate");
    assert_eq!(rest, stored, "the namespace as it is, and the certificate");
    assert_eq!(answer["status"]["certificate"]["apiServer"], SERVER);
    assert_eq!(decoded(&answer, "caCertPem"), cluster.ca);
    assert!(decoded(&answer, "certPem").starts_with("-----BEGIN CERTIFICATE-----"));
    let key = decoded(&answer, "keyPem");
    assert!(key.starts_with("-----BEGIN PRIVATE KEY-----"));
    KeyPair::from_pem(&key).unwrap();

    let asked = cluster.last();
    assert_eq!((asked.user.as_str(), asked.groups), ("business:t:alice", vec![]));
    assert_eq!((asked.cluster.as_str(), asked.project.as_str(), asked.name.as_str()), ("c1", "p", "c1-a"));
    assert_eq!(asked.expiration_seconds, 86_400);
    assert!(!asked.request.contains("PRIVATE KEY"));
    let now = alice.get("/namespaces/p/namespaces/c1-a").await.expect(200);
    assert_eq!(now, stored, "nothing is stored");
    let another = decoded(&alice.get(PATH).await.expect(200), "keyPem");
    assert_ne!(another, key, "every one has a key of its own");
}

#[tokio::test]
async fn administrators_and_operators_are_in_the_group_and_others_see_nothing() {
    let cluster = SigningCluster::new();
    let world = world(&cluster, &[]).await;
    let subject = || {
        let asked = cluster.last();
        (asked.user, asked.groups.join(","))
    };
    world.admin("t").get(PATH).await.expect(200);
    assert_eq!(subject(), ("business:t:admin-t".to_owned(), "business:t:administrators".to_owned()));
    world.operator().get(PATH).await.expect(200);
    assert_eq!(subject(), ("business::operator".to_owned(), "business:t:administrators".to_owned()));
    let platform = json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "Platform", "metadata": {"name": "plf-t"},
        "spec": {"tenantID": "t", "administrators": ["chief"]},
    });
    world.operator().post("/platforms", platform).await.expect(201);
    let chief = world.member("chief", "t");
    until("he rules", async || chief.get(PATH).await.code == 200).await;
    assert_eq!(subject(), ("business:t:chief".to_owned(), "business:t:administrators".to_owned()));
    let count = cluster.count();
    for (who, client) in [
        ("another tenant's administrator", world.admin("u")),
        ("no member", world.member("bob", "t")),
        ("another tenant's user of the name", world.member("alice", "u")),
    ] {
        assert_eq!(client.get(PATH).await.code, 404, "{who}");
    }
    assert_eq!(world.stranger().get(PATH).await.code, 403);
    assert_eq!(world.admin("t").get("/namespaces/p/namespaces/nope/certificate").await.code, 404);
    assert_eq!(cluster.count(), count, "nobody was asked");
}

/// His name, or his group's, stands in the bindings: it ends with his role, and no certificate outlives it.
#[tokio::test]
async fn whom_the_tenant_names_as_administrator_is_in_no_group_of_its_own() {
    let cluster = SigningCluster::new();
    let world = world(&cluster, &[]).await;
    let administrators = json!([{"kind": "User", "name": "root"}, {"kind": "Group", "name": "rulers"}]);
    let tenant = json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "Tenant", "metadata": {"name": "t"},
        "spec": {"administrators": administrators},
    });
    world.operator().post("/tenants", tenant).await.expect(201);
    let named =
        |name: &str, groups: &[&str]| world.bearer(json!({"sub": name, "tenantid": "t", "groups": groups}));
    for (client, groups) in [
        (named("root", &["others"]), vec![]),
        (named("ann", &["rulers", "others"]), vec!["business:t:group:rulers"]),
        (named("root", &["tenant-admins"]), vec![]),
        (named("ann", &["tenant-admins"]), vec!["business:t:administrators"]),
    ] {
        until("he rules", async || client.get(PATH).await.code == 200).await;
        assert_eq!(cluster.last().groups, groups);
    }
}

/// The groups are those of the token and of the list, both.
#[tokio::test]
async fn a_certificate_names_the_callers_groups_that_have_a_role_and_no_others() {
    let cluster = SigningCluster::new();
    let world = world(&cluster, &[]).await;
    let admin = world.admin("t");
    let group = |name: &str, role: &str| json!({"kind": "Group", "name": name, "role": role});
    let mut parent = project("root", json!({"pods": "10"}));
    parent["spec"]["access"] = json!([group("audit", "view"), group("others", "admin")]);
    admin.post("/projects", parent).await.expect(201);
    let access = json!([group("devs", "edit"), group("administrators", "edit")]);
    let patch = json!({"spec": {"parentProjectName": "root", "access": access}});
    admin.patch("/projects/p", patch).await.expect(200);
    let groups = ["devs", "audit", "nothing", "devs", "administrators"];
    let alice = world.bearer(json!({"sub": "alice", "tenantid": "t", "groups": groups}));
    alice.get(PATH).await.expect(200);
    let named = ["business:t:group:administrators", "business:t:group:devs", "business:t:group:audit"];
    assert_eq!(cluster.last().groups, named, "the highest roles first, and none that rules the tenant");

    let many: Vec<String> = (0..12).map(|number| format!("g{number:02}")).collect();
    let access: Vec<Value> = many.iter().map(|name| group(name, "edit")).collect();
    admin.patch("/projects/p", json!({"spec": {"access": access}})).await.expect(200);
    let alice = world.bearer(json!({"sub": "alice", "tenantid": "t", "groups": many}));
    alice.get(PATH).await.expect(200);
    assert_eq!(cluster.last().groups.len(), 8);
    let erin = world.bearer(json!({"sub": "erin", "tenantid": "t", "groups": ["audit", "others"]}));
    until("her groups are known", async || erin.get(PATH).await.code == 200).await;
    let by_group_alone = ["business:t:group:others", "business:t:group:audit"];
    assert_eq!(cluster.last().groups, by_group_alone, "by the project above");
    let user = world.bearer(json!({"sub": "alice", "tenantid": "t", "groups": ["group:devs"]}));
    user.get(PATH).await.expect(200);
    assert!(cluster.last().groups.is_empty());
}

#[tokio::test]
async fn a_service_account_gets_no_certificate() {
    let cluster = SigningCluster::new();
    let world = world(&cluster, &[]).await;
    let account = world.service_account();
    account.get("/namespaces/p/namespaces/c1-a").await.expect(200);
    let answer = account.get(PATH).await;
    assert!(answer.code == 403 && answer.message().contains("for people"), "{:#}", answer.body);
    assert_eq!(cluster.count(), 0);
}

#[tokio::test]
async fn a_kubeconfig_is_answered_where_it_is_asked_for() {
    let cluster = SigningCluster::new();
    let world = world(&cluster, &[]).await;
    let Answer { code, body, .. } =
        world.member("alice", "t").get(&format!("{PATH}?format=kubeconfig&validDays=7")).await;
    assert_eq!(code, 200);
    let config: Value = serde_yaml_ng::from_str(body.as_str().unwrap()).unwrap();
    assert_eq!((&config["kind"], &config["current-context"]), (&json!("Config"), &json!("c1/a")));
    let context = &config["contexts"][0]["context"];
    assert_eq!(*context, json!({ "cluster": "c1/a", "user": "c1/a", "namespace": "a" }));
    for list in ["clusters", "users", "contexts"] {
        assert_eq!(config[list][0]["name"], "c1/a", "{list}: beside another namespace's in one file");
    }
    assert_eq!(config["clusters"][0]["cluster"]["server"], SERVER);
    let user = config["users"][0]["user"].as_object().unwrap();
    assert_eq!(user.keys().collect::<Vec<_>>(), ["client-certificate-data", "client-key-data"]);
    assert_eq!(cluster.last().expiration_seconds, 7 * 86_400);
}

#[tokio::test]
async fn what_cannot_be_had_says_why() {
    let cluster = SigningCluster::new();
    let world = world(&cluster, &["--certificate-days-max=30"]).await;
    let alice = world.member("alice", "t");
    for days in ["0", "31", "-5", "abc"] {
        let answer = alice.get(&format!("{PATH}?validDays={days}")).await;
        assert_eq!(answer.causes(), [("FieldValueInvalid".to_owned(), "validDays".to_owned())], "{days}");
        assert!(answer.code == 422 && answer.message().contains("from 1 to 30"), "{}", answer.message());
    }
    assert_eq!(alice.get(&format!("{PATH}?format=zip")).await.code, 422);
    assert_eq!(cluster.count(), 0);
    *cluster.refusal.lock().unwrap() = Some(Status::failure(422, "Invalid", "cluster c1 signs nothing"));
    let answer = alice.get(PATH).await;
    assert_eq!(answer.causes(), [("FieldValueInvalid".to_owned(), "spec.clusterName".to_owned())]);
    assert!(answer.code == 422 && answer.message().contains("signs nothing"), "{}", answer.message());
    *cluster.refusal.lock().unwrap() = Some(Status::unavailable("gone", 2));
    assert_eq!(alice.get(PATH).await.code, 503);
    for method in [Method::PUT, Method::POST, Method::DELETE] {
        let answer = world.operator().send(method.clone(), PATH, "application/json", Some(json!({}))).await;
        assert_eq!(answer.code, 405, "{method}");
    }
    let without = World::new().await;
    let admin = without.admin("t");
    admin.post("/projects", project("p", json!({"pods": "10"}))).await.expect(201);
    admin.post(&namespaces("p"), namespace("a", json!({"pods": "1"}))).await.expect(201);
    let answer = admin.get(PATH).await;
    assert!(answer.code == 422 && answer.message().contains("--issuer-url"), "{}", answer.message());
}

#[tokio::test]
async fn nobody_asks_without_end() {
    let cluster = SigningCluster::new();
    let world = world(&cluster, &[]).await;
    let (alice, admin) = (world.member("alice", "t"), world.admin("t"));
    let mut given = 0;
    let refused = loop {
        let answer = alice.get(PATH).await;
        if answer.code != 200 {
            break answer;
        }
        given += 1;
        assert!(given < 100, "she gets as many as she likes");
    };
    assert!(refused.code == 429 && given >= 10, "{given}: {:#}", refused.body);
    admin.get(PATH).await.expect(200);
}

#[tokio::test]
async fn what_a_status_says_of_a_certificate_is_never_kept() {
    let cluster = SigningCluster::new();
    let world = world(&cluster, &[]).await;
    let path = "/namespaces/p/namespaces/c1-a";
    let answer = world
        .operator()
        .replace(path, "/status", |object| {
            object["status"]["certificate"] = json!({ "apiServer": "x", "keyPem": "QQ==" });
        })
        .await;
    assert_eq!(answer.expect(200)["status"].get("certificate"), None);
    let answer =
        world.admin("t").patch(path, json!({ "status": { "certificate": { "apiServer": "x" } } })).await;
    assert_eq!(answer.expect(200)["status"].get("certificate"), None);
}
