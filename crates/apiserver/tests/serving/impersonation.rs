use crate::support::{WIDGETS, World, logs};
use apiserver::caller::Via;
use http::Method;
use serde_json::json;
use std::sync::atomic::Ordering;

const JANE: [(&str, &str); 5] = [
    ("impersonate-user", "jane"),
    ("impersonate-group", "dev"),
    ("impersonate-extra-tenan%74id", "acme"),
    ("impersonate-extra-scopes", "a"),
    ("impersonate-uid", "42"),
];

#[tokio::test]
async fn a_master_acts_as_anybody_and_is_then_only_that_one() {
    let world = World::start().await;
    world.kube.allow(|spec| spec["user"] == "jane" && spec["resourceAttributes"]["verb"] != "operate");
    let answer = world.get(Some(&world.master()), &JANE).await;
    assert_eq!(answer.user(), "jane");
    let json = answer.json();
    assert_eq!((json["uid"].as_str(), json["tenant"].as_str()), (Some("42"), Some("acme")));
    assert_eq!(json["groups"], json!(["dev", "system:authenticated"]));
    assert_eq!(json["sees"], "acme", "the master's sight is left behind");
    assert_eq!(json["headers"], json!(["accept", "host"]), "the headers are taken out");
    assert_eq!(crate::support::via(&answer), Via::Impersonation);
    let reviews = world.kube.access_reviews.lock().unwrap().clone();
    assert_eq!(reviews[0]["extra"], json!({"tenantid": ["acme"], "scopes": ["a"]}));
    assert!(reviews.iter().all(|spec| spec["user"] == "jane"), "nobody asks whether a master may");

    let account = [("impersonate-user", "system:serviceaccount:box:builder")];
    let refused = world.get(Some(&world.master()), &account).await;
    assert_eq!(refused.code, 403, "his own rights count");
    assert!(refused.message().contains("User \"system:serviceaccount:box:builder\" cannot list"));
    let asked = world.kube.access_reviews.lock().unwrap().last().cloned().unwrap();
    let groups = ["system:serviceaccounts", "system:serviceaccounts:box", "system:authenticated"];
    assert_eq!(asked["groups"], json!(groups));
}

#[tokio::test]
async fn each_attribute_is_asked_for_and_the_refusal_names_it() {
    let world = World::start().await;
    let support = world.client_ca.client("support", &["helpers"]);
    let cases = [
        (
            "users",
            "users \"jane\" is forbidden: User \"support\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope",
        ),
        (
            "groups",
            "groups \"dev\" is forbidden: User \"support\" cannot impersonate resource \"groups\" in API group \"\" at the cluster scope",
        ),
        (
            "uids",
            "uids.authentication.k8s.io \"42\" is forbidden: User \"support\" cannot impersonate resource \"uids\" in API group \"authentication.k8s.io\" at the cluster scope",
        ),
        (
            "userextras",
            "userextras.authentication.k8s.io \"acme\" is forbidden: User \"support\" cannot impersonate resource \"userextras/tenantid\" in API group \"authentication.k8s.io\" at the cluster scope",
        ),
    ];
    let headers: Vec<_> = JANE.into_iter().filter(|(name, _)| *name != "impersonate-extra-scopes").collect();
    for (missing, message) in cases {
        // A new server, since the answers of reviews are cached.
        let world = World::start().await;
        world.kube.allow(move |spec| spec["resourceAttributes"]["resource"] != missing);
        let support = world.client_ca.client("support", &["helpers"]);
        let answer = world.get(Some(&support), &headers).await;
        assert_eq!((answer.code, answer.message()), (403, format!("{message}: no role binds him")));
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.json()["reason"], "Forbidden");
    }
    world.kube.allow(|spec| {
        spec["user"] == "jane" && spec["resourceAttributes"]["verb"] == "list"
            || spec["user"] == "support" && spec["resourceAttributes"]["verb"] == "impersonate"
    });
    assert_eq!(world.get(Some(&support), &headers).await.user(), "jane");
    let reviews = world.kube.access_reviews.lock().unwrap().clone();
    let asked = |resource: &str| {
        reviews.iter().find(|spec| spec["resourceAttributes"]["resource"] == resource).unwrap()
    };
    assert_eq!(
        asked("users")["resourceAttributes"],
        json!({"verb": "impersonate", "resource": "users", "name": "jane"})
    );
    assert_eq!(asked("users")["groups"], json!(["helpers", "system:authenticated"]));
    assert_eq!(
        asked("userextras")["resourceAttributes"],
        json!({
            "verb": "impersonate", "group": "authentication.k8s.io", "version": "v1",
            "resource": "userextras", "subresource": "tenantid", "name": "acme",
        })
    );
    world.kube.down.store(true, Ordering::SeqCst);
    let account = [("impersonate-user", "system:serviceaccount:box:builder")];
    let answer = world.get(Some(&support), &account).await;
    assert_eq!(
        (answer.code, answer.json()["reason"].as_str()),
        (503, Some("ServiceUnavailable")),
        "not known is not no"
    );
}

#[tokio::test]
async fn a_service_account_lies_in_its_namespace() {
    let world = World::start().await;
    let support = world.client_ca.client("support", &[]);
    let account = [("impersonate-user", "system:serviceaccount:box:builder")];
    let answer = world.get(Some(&support), &account).await;
    assert_eq!(
        answer.message(),
        "serviceaccounts \"builder\" is forbidden: User \"support\" cannot impersonate resource \"serviceaccounts\" \
         in API group \"\" in the namespace \"box\": no role binds him"
    );
}

#[tokio::test]
async fn the_group_of_everybody_known_comes_by_itself_unless_somebody_is_nobody() {
    let world = World::start().await;
    world.kube.allow(|_| true);
    for (headers, want) in [
        (vec![("impersonate-user", "jane")], json!(["system:authenticated"])),
        (
            vec![("impersonate-user", "jane"), ("impersonate-group", "system:unauthenticated")],
            json!(["system:unauthenticated"]),
        ),
        (
            vec![("impersonate-user", "jane"), ("impersonate-group", "system:authenticated")],
            json!(["system:authenticated"]),
        ),
        (vec![("impersonate-user", "system:anonymous")], json!(["system:unauthenticated"])),
    ] {
        let answer = world.get(Some(&world.master()), &headers).await;
        assert_eq!(answer.json()["groups"], want, "{headers:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_meant_is_a_bad_request() {
    let world = World::start().await;
    for (headers, want) in [
        (
            vec![("impersonate-group", "system:masters")],
            "requested [{Group  system:masters    }] without impersonating a user",
        ),
        (
            vec![("impersonate-user", "jane"), ("impersonate-moon", "full")],
            "unknown impersonation header \"impersonate-moon\"",
        ),
        (
            vec![
                ("impersonate-user", "jane"),
                ("impersonate-extra-tenantid", "acme"),
                ("impersonate-extra-tenantid", "umbrella"),
            ],
            "user \"jane\" has several tenants",
        ),
    ] {
        let answer = world.get(Some(&world.master()), &headers).await;
        assert_eq!((answer.code, answer.message().as_str()), (400, want));
        assert_eq!(answer.json()["reason"], "BadRequest");
    }
}

#[tokio::test]
async fn neither_tenants_nor_strangers_nor_a_proxy_become_somebody_else() {
    let world = World::start().await;
    let token = format!("Bearer {}", world.signer.token(|_| {}));
    let root = [("impersonate-user", "root"), ("impersonate-group", "system:masters")];
    let with = |more: &[(&'static str, &str)]| {
        let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        root.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).chain(more).collect::<Vec<_>>()
    };
    // The program's rules allow an administrator everything in his tenant, but not to impersonate.
    for (who, identity, headers) in [
        ("a tenant's administrator", None, with(&[("authorization", &token)])),
        ("anonymous", None, with(&[])),
        (
            "an administrator through the proxy",
            Some(world.aggregator()),
            with(&[
                ("x-remote-user", "t"),
                ("x-remote-group", "tenant-admins"),
                ("x-remote-extra-tenantid", "acme"),
            ]),
        ),
        (
            "a master through the proxy",
            Some(world.aggregator()),
            with(&[("x-remote-user", "kube"), ("x-remote-group", "system:masters")]),
        ),
    ] {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let answer = world.get(identity.as_ref(), &headers).await;
        assert_eq!(answer.code, 403, "{who}: {}", answer.text);
    }
    assert_eq!(world.echo.handled.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_audit_log_names_both() {
    logs::keep();
    let world = World::start().await;
    world.kube.allow(|_| true);
    let headers = [("audit-id", "acting-1")].into_iter().chain(JANE).collect::<Vec<_>>();
    let mut client = world.client(Some(&world.master())).await;
    assert_eq!(client.send(Method::POST, WIDGETS, &headers).await.code, 200);
    assert_eq!(client.send(Method::POST, WIDGETS, &[("audit-id", "acting-2")]).await.code, 200);
    let of = |id: &str| {
        let written = logs::about(id).into_iter().find(|line| line["target"] == "audit").unwrap();
        ["user", "impersonated", "tenant", "via"].map(|key| written[key].as_str().unwrap().to_owned())
    };
    assert_eq!(of("acting-1"), ["root", "jane", "acme", "Certificate"]);
    assert_eq!(of("acting-2"), ["root", "", "", "Certificate"]);
}
