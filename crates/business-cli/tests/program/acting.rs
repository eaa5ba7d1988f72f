use crate::terminal::assert_recorded;
use crate::world::{World, until};
use serde_json::json;

#[tokio::test]
async fn a_refusal_shows_the_level_and_what_to_do_next() {
    let world = World::with_projects().await;
    let args =
        ["create", "namespace", "back", "-n", "web", "--cluster", "east", "--hard", "pods=30,requests.cpu=1"];
    let seen = world.on_terminal("alice", &args, &[]);
    assert_eq!(seen.code, 3);
    assert_recorded("create-refused", &seen.screen);
    let ended = world.run("alice", &args);
    assert_eq!((ended.code, ended.out.as_str()), (3, ""));
    assert!(!ended.err.contains('\x1b'), "{}", ended.err);
}

#[tokio::test]
async fn what_is_created_is_there_and_a_rehearsal_is_not() {
    let world = World::with_projects().await;
    let hard = ["--cluster", "east", "--hard", "pods=1", "--hard", "requests.cpu=100m"];
    let create =
        |more: &[&str]| world.run("alice", &[&["create", "ns", "a", "-n", "web"], &hard[..], more].concat());
    let body = create(&["--dry-run=client", "-o", "json"]).json(0);
    assert_eq!(
        body["spec"],
        json!({"clusterName": "east", "namespace": "a", "hard": {"pods": "1", "requests.cpu": "100m"}})
    );
    let client = create(&["--dry-run=client", "-o", "name"]).expect(0);
    assert_eq!(
        client, "namespace.business.tkestack.io/east-a\n",
        "kubectl takes the bare word for its own kind"
    );
    let waits = create(&["--dry-run", "--wait"]);
    assert!(waits.code == 2 && waits.err.contains("--wait and --dry-run"), "{}", waits.err);
    assert_eq!(create(&["--dry-run"]).expect(0), "namespace/east-a created (server dry run)\n");
    assert_eq!(create(&["-o", "name"]).expect(0), "namespace.business.tkestack.io/east-a\n");
    assert_eq!(create(&[]).code, 3, "it is there");
    let waited = world.run(
        "alice",
        &[
            "create",
            "project",
            "p",
            "--parent",
            "shop",
            "--hard",
            "east:pods=1,requests.cpu=0",
            "--wait",
            "--timeout",
            "300ms",
        ],
    );
    assert_eq!(waited.code, 4, "no controller is there: {}", waited.err);
    assert!(waited.err.contains("waiting: project p can be used: Pending"), "{}", waited.err);
    assert_eq!(world.run("alice", &["create", "ns", "b", "-n", "web", "--hard", "pods=1"]).code, 2);
}

#[tokio::test]
async fn roles_are_given_listed_and_taken() {
    let world = World::with_projects().await;
    let access = |args: &[&str]| world.run("alice", &[&["access"], args].concat());
    access(&["add", "shop", "--group", "developers", "--role", "edit"]).expect(0);
    access(&["add", "web", "--user", "bob", "--role", "view"]).expect(0);
    access(&["add", "web", "--user", "bob", "--role", "admin"]).expect(0);
    access(&["add", "web", "--service-account", "ci:deployer", "--cluster", "east", "--role", "edit"])
        .expect(0);
    assert_recorded("access", &world.on_terminal("alice", &["access", "list", "web"], &[]).screen);
    let told = access(&["list", "web", "-o", "json"]).json(0);
    assert_eq!(
        told["access"][0],
        json!({
            "kind": "User", "name": "bob", "role": "admin", "project": "web", "member": false
        })
    );
    let gone = access(&["remove", "web", "--user", "bob"]);
    assert!(gone.err.contains("stay"), "{}", gone.err);
    gone.expect(0);
    let again = access(&["remove", "web", "--user", "bob"]);
    assert!(again.err.contains("gives user bob no role itself"), "{}", again.err);
    assert_eq!(again.code, 1);
    assert_eq!(access(&["add", "web", "--role", "edit"]).code, 2, "nobody is named");
    assert_eq!(world.run("bob", &["access", "add", "web", "--user", "bob", "--role", "admin"]).code, 1);
    access(&["add", "shop", "--user", "bob", "--role", "edit"]).expect(0);
    let keeps = "user bob still has the role edit, from project shop: take it there";
    let add = ["add", "web", "--user", "bob", "--role", "view"];
    for args in [&add[..], &["remove", "web", "--user", "bob"]] {
        let told = access(args);
        assert!(told.err.contains(keeps), "{args:?}: {}", told.err);
        assert!(told.err.contains("a role by a group counts all the same"), "{args:?}: {}", told.err);
        told.expect(0);
    }
}

#[tokio::test]
async fn a_locked_project_and_a_cordoned_cluster_say_so_to_whoever_asks() {
    let world = World::with_projects().await;
    let create = || {
        world.run(
            "alice",
            &[
                "create",
                "ns",
                "a",
                "-n",
                "web",
                "--cluster",
                "east",
                "--hard",
                "pods=1,requests.cpu=0",
                "--dry-run",
            ],
        )
    };
    assert_eq!(world.run("alice", &["lock", "web", "--reason", "unpaid"]).code, 3, "an operator locks");
    for dry_run in ["--dry-run", "--dry-run=server"] {
        let told = world.run("operator", &["lock", "web", "--reason", "unpaid", dry_run]).expect(0);
        assert_eq!(told, "project/web locked (dry run)\n");
        let told = world.run("operator", &["cordon", "east", dry_run]).expect(0);
        assert_eq!(told, "membercluster/east cordoned (dry run)\n");
    }
    let client = world.run("operator", &["cordon", "east", "--dry-run=client"]);
    assert!(client.code == 2 && client.err.contains("`create` alone"), "{}", client.err);
    world.run("operator", &["lock", "web", "--reason", "unpaid"]).expect(0);
    let refused = create();
    assert!(refused.err.contains("next: an operator has locked it"), "{}", refused.err);
    assert_eq!(refused.code, 3);
    world.run("operator", &["unlock", "web", "--reason", "paid"]).expect(0);
    world.run("operator", &["cordon", "east"]).expect(0);
    until("the cordon is known", || create().code == 3);
    world.run("operator", &["uncordon", "east"]).expect(0);
    until("it is open again", || create().code == 0);
}

#[tokio::test]
async fn what_a_project_has_in_the_registry_is_locked_by_kind_and_name() {
    let world = World::new().await;
    let project = json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "Project", "metadata": {"name": "web"},
        "spec": {"displayName": "web", "tenantID": "acme", "members": ["alice"],
                 "clusters": {"registry": {"hard": {"imagenamespaces": "1"}}}},
    });
    world.post("/projects", &project).await.unwrap();
    let images = json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "ImageNamespace", "metadata": {"name": "shop"},
        "spec": {"name": "shop", "tenantID": "acme"},
    });
    world.post("/namespaces/web/imagenamespaces", &images).await.unwrap();
    let lock =
        |act: &str, what: &str| world.run("operator", &[act, what, "-n", "web", "--reason", "evidence"]);
    assert_eq!(lock("lock", "imn/shop").expect(0), "imagenamespace/shop locked\n");
    assert_eq!(lock("unlock", "imagenamespaces/shop").expect(0), "imagenamespace/shop unlocked\n");
    assert_eq!(lock("lock", "chartgroup/shop").code, 1, "there is none");
    for wrong in ["pod/shop", "imn/"] {
        assert_eq!(lock("lock", wrong).code, 2, "{wrong}");
    }
    assert_eq!(world.run("alice", &["lock", "imn/shop", "--reason", "mine"]).code, 3, "an operator locks");
}

#[tokio::test]
async fn a_namespace_is_moved_with_what_it_is_charged() {
    let world = World::with_projects().await;
    let to = |project: &str, more: &[&str]| {
        world.run("alice", &[&["move", "east-cart", "-n", "shop", "--to", project][..], more].concat())
    };
    assert_eq!(
        to("web", &["--dry-run"]).expect(0),
        "namespace/east-cart moved from project shop to project web (dry run)\n"
    );
    assert_eq!(to("web", &["--dry-run", "--wait"]).code, 2, "what is not done is not waited for");
    assert_eq!(to("nowhere", &[]).code, 1);
    to("web", &["--reason", "the team has moved"]).expect(0);
    world.run("alice", &["describe", "ns", "east-cart", "-n", "web"]).expect(0);
    let back = ["move", "east-cart", "-n", "web", "--to", "shop", "--wait", "--timeout", "200ms"];
    assert_eq!(world.run("alice", &back).code, 4, "no controller is there");
}

#[tokio::test]
async fn a_kubeconfig_is_asked_of_the_server_and_its_refusal_is_told() {
    let world = World::with_projects().await;
    let refused = world.run("alice", &["kubeconfig", "east-front", "-n", "web"]);
    assert_ne!(refused.code, 0, "this server issues none");
    assert_eq!(refused.out, "");
    assert!(refused.err.starts_with("error: "), "{}", refused.err);
}
