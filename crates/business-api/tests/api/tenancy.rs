use crate::support::{Client, World, child, member_cluster, namespace, namespaces, project, until};
use http::Method;
use serde_json::{Value, json};

async fn two_tenants() -> World {
    let world = World::new().await;
    for tenant in ["t", "u"] {
        let mut body = project(&format!("{tenant}-web"), json!({"pods": "10"}));
        body["spec"]["members"] = json!(["alice"]);
        body["metadata"]["labels"] = json!({"app": "web"});
        let admin = world.admin(tenant);
        admin.post("/projects", body).await.expect(201);
        admin.post("/projects", project(&format!("{tenant}-api"), json!({"pods": "10"}))).await.expect(201);
        let made = namespace(&format!("{tenant}-shop"), json!({"pods": "1"}));
        admin.post(&namespaces(&format!("{tenant}-web")), made).await.expect(201);
    }
    world
}

const THEIRS: &str = "/namespaces/u-web/namespaces/c1-u-shop";

#[tokio::test]
async fn another_tenants_objects_do_not_exist_in_any_verb() {
    let world = two_tenants().await;
    let admin = world.admin("t");
    for path in ["/projects/u-web", THEIRS] {
        let missing =
            admin.get(&path.replace("u-", "x-")).await.body["message"].as_str().unwrap().replace("x-", "u-");
        for (method, content, body) in [
            (Method::GET, "application/json", None),
            (Method::DELETE, "application/json", None),
            (
                Method::PATCH,
                "application/merge-patch+json",
                Some(json!({"metadata": {"labels": {"a": "b"}}})),
            ),
        ] {
            let answer = admin.send(method.clone(), path, content, body).await;
            assert_eq!(answer.code, 404, "{method} {path}: {:#}", answer.body);
            assert_eq!(answer.message(), missing, "word for word");
        }
        let stolen = world.operator().get(path).await.expect(200);
        assert_eq!(admin.put(path, stolen.clone()).await.code, 404);
        for subresource in ["status", "finalize"] {
            let path = format!("{path}/{subresource}");
            assert!([403, 404].contains(&admin.get(&path).await.code), "{path}");
            assert!([403, 404].contains(&admin.put(&path, stolen.clone()).await.code), "{path}");
        }
    }
    assert_eq!(admin.get("/projects").await.names(), ["t-api", "t-web"]);
    assert_eq!(admin.get("/projects?labelSelector=app%3Dweb").await.names(), ["t-web"]);
    assert_eq!(admin.get("/projects?fieldSelector=spec.tenantID%3Du").await.names(), [""; 0]);
    assert_eq!(admin.get("/namespaces").await.names(), ["c1-t-shop"]);
    assert_eq!(admin.get(&namespaces("u-web")).await.names(), [""; 0]);
    let refused = admin.post(&namespaces("u-web"), namespace("mine", json!({"pods": "1"}))).await;
    assert_eq!((refused.code, refused.message()), (404, "projects.business.tkestack.io \"u-web\" not found"));
    let mut child = project("kid", json!({"pods": "1"}));
    child["spec"]["parentProjectName"] = json!("u-web");
    assert_eq!(admin.post("/projects", child).await.code, 404);
}

#[tokio::test]
async fn what_an_operator_makes_without_a_tenant_is_its_projects() {
    let world = two_tenants().await;
    let operator = world.operator();
    let made = operator.post(&namespaces("t-web"), namespace("op", json!({"pods": "1"}))).await.expect(201);
    assert_eq!(made["spec"]["tenantID"], "t");
    let mut kid = project("kid", json!({"pods": "1"}));
    kid["spec"]["parentProjectName"] = json!("u-web");
    let made = operator.post("/projects", kid).await.expect(201);
    assert_eq!(made["spec"]["tenantID"], "u");
    let mut foreign = namespace("foreign", json!({"pods": "1"}));
    foreign["spec"]["tenantID"] = json!("u");
    assert_eq!(operator.post(&namespaces("t-web"), foreign).await.code, 404, "what is said is not changed");
}

#[tokio::test]
async fn collections_are_deleted_within_the_tenant_only() {
    let world = two_tenants().await;
    world.admin("t").delete("/projects").await.expect(200);
    let phase = |project: &Value| project["status"]["phase"].as_str().unwrap_or_default().to_owned();
    for (name, expected) in
        [("t-web", "Terminating"), ("t-api", "Terminating"), ("u-web", "Pending"), ("u-api", "Pending")]
    {
        let read = world.operator().get(&format!("/projects/{name}")).await.expect(200);
        assert_eq!(phase(&read), expected, "{name}");
    }
    world.admin("t").delete(&namespaces("u-web")).await.expect(200);
    assert_eq!(phase(&world.operator().get(THEIRS).await.expect(200)), "Pending");
}

#[tokio::test]
async fn a_watch_shows_the_tenant_only() {
    let world = two_tenants().await;
    let watched = world.admin("t").get("/projects?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=3").await;
    let text = watched.body.as_str().unwrap_or_default();
    assert!(text.contains("t-web") && text.contains("t-api") && text.contains("BOOKMARK"), "{text}");
    assert!(!text.contains("u-web"), "{text}");
}

#[tokio::test]
async fn a_new_object_belongs_to_its_makers_tenant() {
    let world = two_tenants().await;
    let mut body = project("forged", json!({}));
    body["spec"]["tenantID"] = json!("u");
    assert_eq!(world.admin("t").post("/projects", body).await.expect(201)["spec"]["tenantID"], "t");
}

#[tokio::test]
async fn members_see_their_projects_and_rule_the_namespaces_in_them_and_nothing_more() {
    let world = two_tenants().await;
    let alice = world.member("alice", "t");
    until("membership is known", async || alice.get(&namespaces("t-web")).await.names().len() == 1).await;
    assert_eq!(alice.get("/projects").await.names(), ["t-web"]);
    alice.get("/projects/t-web").await.expect(200);
    for hidden in ["/projects/t-api", "/projects/u-web", THEIRS] {
        assert_eq!(alice.get(hidden).await.code, 404, "{hidden}");
    }
    alice.post(&namespaces("t-web"), namespace("of-alice", json!({"pods": "1"}))).await.expect(201);
    let refused = alice.post(&namespaces("t-api"), namespace("b", json!({"pods": "1"}))).await;
    assert_eq!((refused.code, refused.message()), (404, "projects.business.tkestack.io \"t-api\" not found"));
    assert_eq!(alice.post(&namespaces("u-web"), namespace("c", json!({"pods": "1"}))).await.code, 404);
    let path = "/namespaces/t-web/namespaces/c1-of-alice";
    alice.patch(path, json!({"spec": {"hard": {"pods": "2"}}})).await.expect(200);
    assert_eq!(alice.patch(THEIRS, json!({"spec": {"hard": {"pods": "2"}}})).await.code, 404);
    assert_eq!(alice.post("/projects", project("budget", json!({}))).await.code, 403);
    assert_eq!(alice.patch("/projects/t-web", json!({"spec": {"members": []}})).await.code, 403);
    assert_eq!(alice.delete("/projects").await.code, 403);

    let drop_alice = json!({"spec": {"members": ["bob"]}});
    world.admin("t").patch("/projects/t-web", drop_alice).await.expect(200);
    until("membership has ended", async || alice.get("/projects").await.names().is_empty()).await;
    assert_eq!(alice.get(path).await.code, 404);
}

#[tokio::test]
async fn who_has_neither_tenant_nor_right_gets_nothing() {
    let world = two_tenants().await;
    let refused = async |who: &Client, code: u16| {
        for path in ["/projects", "/projects/t-web", "/namespaces", "/projects?watch=true"] {
            assert_eq!(who.get(path).await.code, code, "{path}");
        }
        assert_eq!(who.post("/projects", project("mine", json!({}))).await.code, code);
        assert_eq!(who.delete("/projects").await.code, code);
    };
    refused(&world.stranger(), 403).await;
    refused(&world.nobody(), 403).await;
    refused(&world.bearer(json!({"sub": "x", "groups": ["tenant-admins", "system:masters"]})), 401).await;
}

#[tokio::test]
async fn subresources_are_not_for_tenants_but_for_tokens_of_others() {
    let world = two_tenants().await;
    let (admin, alice) = (world.admin("t"), world.member("alice", "t"));
    for path in ["/projects/t-web", "/namespaces/t-web/namespaces/c1-t-shop"] {
        let object = admin.get(path).await.expect(200);
        let (status, finalize) = (format!("{path}/status"), format!("{path}/finalize"));
        for (who, path) in [(&admin, &status), (&alice, &status), (&alice, &finalize)] {
            assert_eq!(who.put(path, object.clone()).await.code, 403);
            assert_eq!(who.patch(path, json!({})).await.code, 403);
        }
        let unchanged = admin.put(&finalize, object.clone()).await.expect(200);
        assert_eq!(unchanged["metadata"]["resourceVersion"], object["metadata"]["resourceVersion"]);
        let refused = admin.patch(&finalize, json!({"spec": {"finalizers": []}})).await;
        assert!([409, 422].contains(&refused.code), "{refused:?}");
        let refused =
            admin.patch(&finalize, json!({"spec": {"finalizers": ["namespace", "project", "x"]}})).await;
        assert_eq!(refused.code, 422, "{refused:?}");
    }
    let annotate = json!({"metadata": {"annotations": {"business.tkestack.io/abandon": "please"}}});
    let refused = admin.patch("/namespaces/t-web/namespaces/c1-t-shop", annotate).await;
    assert_eq!(refused.code, 403, "{}", refused.message());
}

#[tokio::test]
async fn nobody_makes_what_his_tenant_cannot_delete() {
    let world = two_tenants().await;
    let (admin, operator, alice) = (world.admin("t"), world.operator(), world.member("alice", "t"));
    until("membership is known", async || alice.get("/projects").await.names().len() == 1).await;
    let mut held = namespace("held", json!({"pods": "1"}));
    held["spec"]["finalizers"] = json!(["namespace", "nobody-takes-it-off"]);
    for who in [&alice, &admin] {
        let refused = who.post(&namespaces("t-web"), held.clone()).await;
        assert_eq!(refused.code, 422, "{refused:?}");
        assert_eq!(
            refused.causes(),
            [("FieldValueNotSupported".to_owned(), "spec.finalizers[1]".to_owned())]
        );
    }
    let mut budget = project("t-held", json!({"pods": "1"}));
    budget["spec"]["finalizers"] = json!(["nobody-takes-it-off"]);
    assert_eq!(admin.post("/projects", budget).await.code, 422);

    held["metadata"]["finalizers"] = json!(["example.com/somebody"]);
    operator.post(&namespaces("t-web"), held).await.expect(201);
    let path = "/namespaces/t-web/namespaces/c1-held";
    let finalize = format!("{path}/finalize");
    let ours = json!({"spec": {"finalizers": ["namespace"]}});
    assert_eq!(admin.patch(&finalize, ours.clone()).await.code, 422, "it is alive");
    admin.delete(path).await.expect(200);
    assert_eq!(alice.patch(&finalize, ours.clone()).await.code, 403, "a member");
    assert_eq!(world.admin("u").patch(&finalize, ours.clone()).await.code, 404, "another tenant");
    assert_ne!(admin.patch(&finalize, json!({"spec": {"finalizers": []}})).await.code, 200, "ours stays");
    let freed = admin.patch(&finalize, ours).await.expect(200);
    assert_eq!(freed["spec"]["finalizers"], json!(["namespace"]));
    let by_main = admin.patch(path, json!({"metadata": {"finalizers": null}})).await.expect(200);
    assert_eq!(by_main["metadata"]["finalizers"], Value::Null);
    let confirmed = operator.replace(path, "/status", |object| {
        object["status"]["observedGeneration"] = object["metadata"]["generation"].clone();
        object["status"]["cachedSpecHard"] = json!({});
    });
    confirmed.await.expect(200);
    assert_eq!(
        admin.patch(&finalize, json!({"spec": {"finalizers": []}})).await.code,
        422,
        "nor when it is free"
    );
    operator.replace(path, "/finalize", |object| object["spec"]["finalizers"] = json!([])).await.expect(200);
    assert_eq!(admin.get(path).await.code, 404);
    world.assert_books_agree().await;
}

#[tokio::test]
async fn tenants_make_no_budget_out_of_nothing_unless_that_is_switched_on() {
    let world = World::with_settings(&["--tenant-grant=false"]).await;
    let (admin, operator) = (world.admin("t"), world.operator());
    let refused = admin.post("/projects", project("p", json!({"pods": "1"}))).await;
    assert_eq!(refused.code, 403, "{refused:?}");
    assert!(refused.message().contains("grant"), "{}", refused.message());
    let mut given = project("p", json!({"pods": "10"}));
    given["spec"]["tenantID"] = json!("t");
    operator.post("/projects", given).await.expect(201);
    let raise = |pods: &str| json!({"spec": {"clusters": {"c1": {"hard": {"pods": pods}}}}});
    assert_eq!(admin.patch("/projects/p", raise("11")).await.code, 403);
    admin.patch("/projects/p", raise("9")).await.expect(200);
    let kid = admin.post("/projects", child("kid", "p", json!({"pods": "5"}))).await.expect(201);
    assert_eq!(kid["spec"]["tenantID"], "t");
    let detach = json!({"spec": {"parentProjectName": null}});
    assert_eq!(admin.patch("/projects/kid", detach).await.code, 403);
}

#[tokio::test]
async fn a_cluster_for_one_tenant_is_unknown_to_the_other() {
    let world = two_tenants().await;
    world.register(member_cluster("private", &["u"]), json!({})).await;
    let with = |name: &str| {
        let mut body = project(name, json!({}));
        body["spec"]["clusters"] = json!({"private": {"hard": {"pods": "1"}}});
        body
    };
    let refused = world.admin("t").post("/projects", with("p")).await;
    assert_eq!(refused.code, 422);
    assert_eq!(refused.causes(), [("FieldValueNotFound".to_owned(), "spec.clusters[private]".to_owned())]);
    let mut of_operator = with("p");
    of_operator["spec"]["tenantID"] = json!("t");
    let told = world.operator().post("/projects", of_operator).await;
    assert_eq!(told.causes(), refused.causes());
    assert!(told.message().contains("spec.tenants of the membercluster does not list it"), "{told:?}");
    world.admin("u").post("/projects", with("p")).await.expect(201);
    let add = json!({"spec": {"clusters": {"private": {"hard": {"pods": "1"}}}}});
    assert_eq!(world.admin("t").patch("/projects/t-web", add).await.code, 422, "on update as well");
}

/// What a tenant is told of projects that he does not see, by what he asks for.
struct Told {
    what: &'static str,
    method: Method,
    path: String,
    content: &'static str,
    body: Value,
}

/// Every way to put something into a project, or below it.
fn attempts(project: &str) -> Vec<Told> {
    let new = namespace("new", json!({"pods": "1"}));
    let huge = namespace("huge", json!({"pods": "1000"}));
    let keyless = namespace("keyless", json!({}));
    let taken = namespace("shop", json!({"pods": "1"}));
    let mut applied = taken.clone();
    applied["metadata"]["name"] = json!("c1-shop");
    let mut kid = project_body("kid");
    kid["spec"]["parentProjectName"] = json!(project);
    let post = |what, path: &str, body: &Value| Told {
        what,
        method: Method::POST,
        path: path.to_owned(),
        content: "application/json",
        body: body.clone(),
    };
    let within = namespaces(project);
    let apply = Told {
        what: "apply",
        method: Method::PATCH,
        path: format!("{within}/c1-shop?fieldManager=m"),
        content: "application/apply-patch+yaml",
        body: applied,
    };
    vec![
        post("new", &within, &new),
        post("huge", &within, &huge),
        post("keyless", &within, &keyless),
        post("taken", &within, &taken),
        post("rehearsed", &format!("{within}?dryRun=All"), &new),
        post("a taken name, rehearsed", &format!("{within}?dryRun=All"), &taken),
        apply,
        post("a child", "/projects", &kid),
        post("a child, rehearsed", "/projects?dryRun=All", &kid),
    ]
}

fn project_body(name: &str) -> Value {
    project(name, json!({"pods": "1"}))
}

#[tokio::test]
async fn what_is_not_seen_gives_one_answer_whatever_state_it_is_in() {
    let world = two_tenants().await;
    let (theirs, operator) = (world.admin("u"), world.operator());
    let states = ["open", "full", "locked", "ending"];
    for state in states {
        theirs.post("/projects", project(state, json!({"pods": "10"}))).await.expect(201);
    }
    let mut shop = namespace("shop", json!({"pods": "9"}));
    for state in states {
        // The same name in each, in clusters' namespaces of their own.
        shop["metadata"]["name"] = json!("c1-shop");
        shop["spec"]["namespace"] = json!(format!("shop-{state}"));
        theirs.post(&namespaces(state), shop.clone()).await.expect(201);
    }
    let full = json!({"spec": {"hard": {"pods": "10"}}});
    theirs.patch(&format!("{}/c1-shop", namespaces("full")), full).await.expect(200);
    operator
        .replace("/projects/locked", "/status", |p| p["status"]["locked"] = json!(true))
        .await
        .expect(200);
    theirs.delete("/projects/ending").await.expect(200);

    let (admin, alice) = (world.admin("t"), world.member("alice", "t"));
    until("membership is known", async || alice.get("/projects").await.names().len() == 1).await;
    for told in attempts("nowhere") {
        let answer = admin.send(told.method, &told.path, told.content, Some(told.body)).await;
        assert_eq!((answer.code, answer.warnings.len()), (404, 0), "{}: {answer:?}", told.what);
        assert_eq!(answer.message(), "projects.business.tkestack.io \"nowhere\" not found", "{}", told.what);
    }
    for who in [&admin, &alice] {
        for state in states {
            for (told, nowhere) in attempts(state).into_iter().zip(attempts("nowhere")) {
                let answer = who.send(told.method, &told.path, told.content, Some(told.body)).await;
                let none = who.send(nowhere.method, &nowhere.path, nowhere.content, Some(nowhere.body)).await;
                let body = answer.body.to_string().replace(state, "nowhere");
                assert_eq!((answer.code, body), (none.code, none.body.to_string()), "{state}, {}", told.what);
                assert_eq!(answer.warnings, [""; 0], "{state}, {}", told.what);
            }
        }
    }
}

#[tokio::test]
async fn a_name_that_is_taken_says_only_that() {
    let world = two_tenants().await;
    let theirs = world.admin("u");
    for state in ["open", "ending"] {
        theirs.post("/projects", project(state, json!({"pods": "10"}))).await.expect(201);
        theirs.post(&namespaces(state), namespace(state, json!({"pods": "9"}))).await.expect(201);
    }
    theirs.delete("/projects/ending").await.expect(200);
    let admin = world.admin("t");
    let mut answers = Vec::new();
    for state in ["open", "ending"] {
        let apply = format!("/projects/{state}?fieldManager=m");
        for (method, path, content) in [
            (Method::POST, "/projects", "application/json"),
            (Method::POST, "/projects?dryRun=All", "application/json"),
            (Method::PATCH, apply.as_str(), "application/apply-patch+yaml"),
        ] {
            let answer = admin.send(method.clone(), path, content, Some(project_body(state))).await;
            assert_eq!((answer.code, answer.warnings.len()), (409, 0), "{method} {path}: {answer:?}");
            answers.push((method, answer.body.to_string().replace(state, "NAME")));
        }
    }
    let (open, ending) = answers.split_at(3);
    assert_eq!(open, ending);
    let told: Value = serde_json::from_str(&open[0].1).unwrap();
    assert_eq!(told["message"], "projects.business.tkestack.io \"NAME\" already exists");
    assert_eq!(told["details"]["causes"], Value::Null);
}

#[tokio::test]
async fn an_open_watch_ends_when_its_member_sees_other_projects() {
    let world = two_tenants().await;
    let (admin, alice) = (world.admin("t"), world.member("alice", "t"));
    until("membership is known", async || alice.get("/projects").await.names().len() == 1).await;
    for (before, after) in [(json!(["alice"]), json!(["bob"])), (json!(["bob"]), json!(["alice"]))] {
        let watching = {
            let alice = alice.clone();
            tokio::spawn(async move { alice.get("/projects?watch=true&timeoutSeconds=30").await })
        };
        // Again until the watch is open and sees it.
        until("the watch has ended", async || {
            for members in [&before, &after] {
                admin.patch("/projects/t-web", json!({"spec": {"members": members}})).await.expect(200);
            }
            watching.is_finished()
        })
        .await;
        let text = watching.await.unwrap().body.to_string();
        assert!(["ERROR", "410", "list again"].iter().all(|part| text.contains(part)), "{text}");
    }
}

#[tokio::test]
async fn an_owner_is_of_the_same_tenant_and_held_back_by_administrators_alone() {
    let world = two_tenants().await;
    let (admin, alice, operator) = (world.admin("t"), world.member("alice", "t"), world.operator());
    until("membership is known", async || alice.get("/projects").await.names().len() == 1).await;
    let uid = async |project: &str| {
        let read = operator.get(&format!("/projects/{project}")).await.expect(200);
        read["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let (ours, theirs) = (uid("t-web").await, uid("u-web").await);
    let owned = |name: &str, owner: &str, uid: &str, block: bool| {
        let mut body = namespace(name, json!({"pods": "1"}));
        body["metadata"]["ownerReferences"] = json!([{"apiVersion": "business.tkestack.io/v1", "kind": "Project",
            "name": owner, "uid": uid, "blockOwnerDeletion": block}]);
        body
    };
    let within = namespaces("t-web");
    for who in [&admin, &alice] {
        let refused = who.post(&within, owned("a", "u-web", &theirs, false)).await;
        let cause = ("FieldValueNotFound".to_owned(), "metadata.ownerReferences[0].uid".to_owned());
        assert_eq!((refused.code, refused.causes()), (422, vec![cause]), "{refused:?}");
    }
    let refused = operator.post(&within, owned("a", "u-web", &theirs, false)).await;
    assert_eq!((refused.code, refused.causes()[0].0.as_str()), (422, "FieldValueForbidden"), "{refused:?}");
    assert_eq!(alice.post(&within, owned("a", "t-web", &ours, true)).await.code, 403);
    alice.post(&within, owned("a", "t-web", &ours, false)).await.expect(201);
    admin.post(&within, owned("b", "t-web", &ours, true)).await.expect(201);
}

/// What follows in a script does not wait, and comes to whichever replica.
#[tokio::test]
async fn who_makes_a_project_below_his_own_sees_and_rules_it_at_once() {
    let world = World::with_replicas(2).await;
    let admin = world.admin("acme");
    let carols = [0, 1].map(|replica| world.at(replica, &world.member("carol", "acme")));
    let mut team = project("team", json!({"pods": "100"}));
    team["spec"]["access"] = json!([{"kind": "User", "name": "carol", "role": "admin"}]);
    admin.post("/projects", team).await.expect(201);
    for round in 0..10 {
        let [here, there] = if round % 2 == 0 { carols.each_ref() } else { [&carols[1], &carols[0]] };
        let (below, further) = (format!("below-{round}"), format!("further-{round}"));
        here.post("/projects", child(&below, "team", json!({"pods": "4"}))).await.expect(201);
        there.post(&namespaces(&below), namespace(&below, json!({"pods": "1"}))).await.expect(201);
        here.post("/projects", child(&further, &below, json!({"pods": "1"}))).await.expect(201);
        let transfer = format!("{}/c1-{below}/transfer", namespaces(&below));
        there.post(&transfer, json!({"project": further})).await.expect(201);
        assert!(there.get("/projects").await.names().contains(&further));
        let made = format!("/projects/{further}");
        there.get(&made).await.expect(200);
        there.delete(&made).await.expect(200);
    }
    admin.patch("/projects/team", json!({"spec": {"access": []}})).await.expect(200);
    assert!(carols[1].get("/projects").await.names().is_empty(), "nobody any more, at once as well");
    world.assert_books_agree().await;
}

#[tokio::test]
async fn a_tenant_lists_so_many_people_and_no_more() {
    let world = World::new().await;
    let admin = world.admin("acme");
    let people: Vec<String> = (0..10_000).map(|number: u32| number.to_string()).collect();
    let listing = |name: &str, people: &[String]| {
        let mut body = project(name, json!({"pods": "1"}));
        body["spec"]["members"] = json!(people);
        body
    };
    for number in 0..20 {
        admin.post("/projects", listing(&format!("p{number}"), &people)).await.expect(201);
    }
    // As long as a write is not heard of, who comes next is asked to come back.
    let one_more = async || admin.post("/projects", listing("more", &people[..1])).await;
    until("all are counted", async || one_more().await.code == 403).await;
    let cause = json!({
        "reason": "TooManyPeople", "field": "spec.members", "message": "tenant=acme requested=1 max=200000"
    });
    assert_eq!(one_more().await.body["details"]["causes"], json!([cause]));
    assert_eq!(world.operator().patch("/projects/p1", json!({"spec": {"members": people}})).await.code, 200);
    world.admin("globex").post("/projects", listing("theirs", &people)).await.expect(201);
    admin.patch("/projects/p0", json!({"spec": {"members": []}})).await.expect(200);
    until("there is room again", async || one_more().await.code == 201).await;
}
