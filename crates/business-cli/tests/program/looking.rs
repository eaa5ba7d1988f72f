use crate::terminal::{NARROW, assert_recorded};
use crate::world::{World, until};
use serde_json::json;
use std::num::NonZeroU16;

#[tokio::test]
async fn the_tree_is_what_was_recorded_and_coloured_on_a_terminal_alone() {
    let world = World::with_projects().await;
    let seen = world.on_terminal("alice", &["tree", "--namespaces"], &[]);
    assert_eq!(seen.code, 0, "{}", seen.raw);
    assert_recorded("tree", &seen.screen);
    assert!(seen.raw.contains("\x1b[1mshop\x1b[0m") && seen.raw.contains("\x1b[33m"), "{}", seen.raw);
    let without = world.on_terminal("alice", &["tree", "--namespaces"], &[("NO_COLOR", "1")]);
    assert_eq!(without.screen, seen.screen);
    assert!(!without.raw.contains('\x1b'), "{:?}", without.raw);
    assert!(!world.run("alice", &["tree"]).expect(0).contains('\x1b'), "colours in a pipe");
    for columns in [NARROW, NonZeroU16::new(60).unwrap()] {
        let narrow = world.on_terminal_of(columns, "alice", &["tree", "--namespaces"], &[]);
        assert_recorded(&format!("tree-{columns}"), &narrow.screen);
    }
    let piped = world.run("alice", &["tree", "--namespaces"]).expect(0);
    assert!(piped.starts_with("NAME") && piped.contains("ALLOCATED"), "a pipe has every column: {piped}");
    assert_recorded(
        "tree-wide",
        &world.on_terminal("alice", &["tree", "web", "-N", "-o", "wide"], &[]).screen,
    );
    let ascii = world.on_terminal("alice", &["tree"], &[("LC_ALL", "C")]).screen;
    assert!(ascii.is_ascii(), "{ascii}");
}

#[tokio::test]
async fn a_tree_is_read_by_programs_and_by_whoever_sees_only_a_part() {
    let world = World::with_projects().await;
    let told = world.run("alice", &["tree", "-N", "-o", "json"]).json(0);
    let tenant = &told["roots"][0];
    assert_eq!((&tenant["kind"], &tenant["name"]), (&json!("Tenant"), &json!("acme")));
    let cpu = &tenant["clusters"]["east"]["requests.cpu"];
    assert_eq!(*cpu, json!({"hard": "20", "allocated": "10", "used": "1250m"}));
    let web = &tenant["children"][0]["children"][1];
    assert_eq!((&web["name"], &web["children"][0]["name"]), (&json!("web"), &json!("east/front")));
    world.run("alice", &["access", "add", "web", "--user", "bob", "--role", "view"]).expect(0);
    until("bob sees web", || {
        let ended = world.run("bob", &["tree", "-o", "json"]);
        ended.code == 0 && ended.json(0)["roots"][0]["children"][0]["name"] == "web"
    });
    let yaml = world.run("bob", &["tree", "web", "-o", "yaml"]).expect(0);
    assert!(yaml.starts_with("roots:\n- kind: Project\n  name: web\n"), "{yaml}");
    assert_eq!(world.run("bob", &["tree", "shop"]).code, 1);
    let full = world.run("alice", &["tree", "-N", "--full", "85", "-o", "json"]).json(0);
    let (tenant, shop) = (&full["roots"][0], &full["roots"][0]["children"][0]);
    assert_eq!((&tenant["clusters"], tenant["children"].as_array().unwrap().len()), (&json!({}), 1));
    assert_eq!((&shop["name"], shop.get("children")), (&json!("shop"), None), "90 % of its cores");
    let none = ["tree", "--full", "99"];
    assert_eq!(world.run("alice", &[&none[..], &["-o", "json"]].concat()).json(0), json!({"roots": []}));
    let none = world.run("alice", &none);
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert!(none.err.starts_with("nothing that you see has what"), "{}", none.err);
}

#[tokio::test]
async fn explain_says_every_level_and_the_smallest_change_that_lets_it_in() {
    let world = World::with_projects().await;
    let fits =
        ["explain", "ns", "back", "-n", "web", "--cluster", "east", "--set", "pods=8,requests.cpu=1500m"];
    assert_recorded("explain-fits", &world.on_terminal("alice", &fits, &[]).screen);
    let asked = "pods=30,requests.cpu=2";
    let not = ["explain", "ns", "back", "-n", "web", "--cluster", "east", "--set", asked];
    let seen = world.on_terminal("alice", &not, &[]);
    assert_eq!(seen.code, 3);
    assert_recorded("explain-refused", &seen.screen);
    assert_recorded("explain-refused-80", &world.on_terminal_of(NARROW, "alice", &not, &[]).screen);
    let told = world.run("alice", &[&not[..], &["-o", "json"]].concat()).json(3);
    assert_eq!((&told["fits"], &told["refusal"]["code"]), (&json!(false), &json!(403)));
    assert_eq!((&told["kind"], &told["name"]), (&json!("Namespace"), &json!("east-back")));
    assert_eq!(told["levels"][0]["level"], json!({"kind": "Tenant", "name": "acme"}));
    assert_eq!(told["shortages"][0]["level"], json!({"kind": "Project", "name": "web"}));
    let raises = told["raises"].as_array().unwrap();
    let levels: Vec<_> = raises.iter().map(|raise| (&raise["level"], &raise["answer"])).collect();
    assert_eq!(
        levels,
        [
            (&json!({"kind": "Project", "name": "shop"}), &json!("Accepted")),
            (&json!({"kind": "Project", "name": "web"}), &json!("AfterThoseAbove")),
        ]
    );
    // What it proposes, in its order, lets it in.
    for raise in raises {
        let name = raise["level"]["name"].as_str().unwrap();
        world.patch(&format!("/projects/{name}"), &raise["patch"]).await;
    }
    world.run("alice", &not).expect(0);
}

#[tokio::test]
async fn explain_goes_up_to_whoever_may_give_and_says_who_may_not() {
    let world = World::with_projects().await;
    let args = ["explain", "project", "shop", "--set", "east:requests.cpu=30", "-o", "json"];
    let told = world.run("alice", &args).json(3);
    assert_eq!(told["raises"][0]["level"], json!({"kind": "Tenant", "name": "acme"}));
    assert_eq!(told["raises"][0]["answer"], "Refused", "a ceiling is not alice's to raise");
    let new = world
        .run("operator", &["explain", "project", "shoop", "--set", "east:pods=1,requests.cpu=1"])
        .expect(0);
    assert!(new.starts_with("new project shoop, a root without a tenant: fits\n"), "{new}");
    let changed = ["explain", "ns", "east-front", "-n", "web", "--set", "pods=15,requests.cpu=6500m"];
    let changed = world.run("alice", &changed).expect(0);
    assert!(changed.contains("15 (+3)"), "12 are its own: {changed}");
    let told = world.run("operator", &args).json(3);
    assert_eq!(told["raises"][0]["answer"], "Accepted");
    assert_eq!(
        told["raises"][0]["patch"],
        json!({"spec": {"clusters": {"east": {"hard": {"requests.cpu": "30"}}}}})
    );
    let beyond = ["explain", "project", "shop", "--set", "east:requests.cpu=90", "-o", "json"];
    let told = world.run("operator", &beyond).json(3);
    let levels: Vec<_> =
        told["raises"].as_array().unwrap().iter().map(|raise| raise["level"].clone()).collect();
    let cluster = json!({"kind": "MemberCluster", "name": "east"});
    assert_eq!(levels, [cluster, json!({"kind": "Tenant", "name": "acme"})]);
}

#[tokio::test]
async fn objects_of_a_file_are_decided_one_by_one() {
    let world = World::with_projects().await;
    let namespace = |name: &str, pods: u32| {
        format!(
            "apiVersion: business.tkestack.io/v1\nkind: Namespace\nmetadata: {{namespace: web}}\nspec: {{clusterName: east, \
         namespace: {name}, hard: {{pods: {pods}, requests.cpu: 1}}}}\n"
        )
    };
    let file = world.directory.join("objects.yaml");
    std::fs::write(
        &file,
        [namespace("one", 1), namespace("front", 99).replace("cpu: 1", "cpu: 6500m")].join("---\n"),
    )
    .unwrap();
    let args = ["explain", "-f", file.to_str().unwrap(), "-o", "json"];
    let told = world.run("alice", &args).json(3);
    assert_eq!((&told[0]["fits"], &told[1]["fits"]), (&json!(true), &json!(false)));
    let raises = told[1]["raises"].as_array().unwrap();
    assert_eq!(raises.last().unwrap()["limits"][0]["to"], "99", "its own 12 pods count once: {told:#}");
    let shop = "apiVersion: business.tkestack.io/v1\nkind: Project\nmetadata: {name: shop}\n\
                spec: {displayName: shop, clusters: {}}\n";
    let struck_out = world.feed("alice", &["explain", "-f", "-", "-o", "json"], Some(shop)).json(3);
    assert_eq!(struck_out[0]["fits"], false, "what shop has given away would go: {struck_out:#}");
    let one = world.feed("alice", &["explain", "-f", "-", "-o", "json"], Some(&namespace("one", 1))).json(0);
    assert_eq!(one.as_array().unwrap().len(), 1, "a file gives a list, however many objects it has");
    let piped = world.feed("alice", &["explain", "-f", "-"], Some(&namespace("one", 1)));
    assert!(piped.expect(0).starts_with("new namespace east-one in project web: fits\n"));
    assert_eq!(world.feed("alice", &["explain", "-f", "-"], Some("kind: Pod\napiVersion: v1\n")).code, 2);
    let absent = namespace("one", 1).replace("namespace: web", "namespace: absent");
    let told = world.feed("alice", &["explain", "-f", "-", "-o", "json"], Some(&absent)).json(3);
    assert_eq!(told[0]["refusal"]["code"], 404, "each object of a file has its verdict: {told:#}");
    let flags = ["explain", "ns", "one", "-n", "absent", "--cluster", "east", "--set", "pods=1"];
    let told = world.run("alice", &flags);
    assert_eq!((told.code, told.out.as_str()), (1, ""), "there is nothing that it could fit into");
    assert!(told.err.contains("projects.business.tkestack.io \"absent\" not found"), "{}", told.err);
}

#[tokio::test]
async fn who_holds_most_and_who_idles_most() {
    let world = World::with_projects().await;
    assert_recorded("top", &world.on_terminal("alice", &["top", "--resource", "requests.cpu"], &[]).screen);
    let told = world.run("alice", &["top", "--by", "idle", "--resource", "pods", "-o", "json"]).json(0);
    assert_eq!(
        told["places"][0]["idle"],
        json!([
            {"project": "web", "name": "east-front", "held": "12", "used": "3", "idle": "9"},
            {"project": "shop", "name": "east-cart", "held": "5", "used": "0", "idle": "5"},
        ])
    );
    let told =
        world.run("alice", &["top", "projects", "--by", "held", "--resource", "pods", "-o", "json"]).json(0);
    let held: Vec<_> =
        told["places"][0]["held"].as_array().unwrap().iter().map(|one| one["held"].clone()).collect();
    assert_eq!(held, ["20", "20"], "what shop has given to web counts once");
}

#[tokio::test]
async fn an_object_is_described_in_plain_words() {
    let world = World::with_projects().await;
    world.run("operator", &["lock", "web", "--reason", "unpaid"]).expect(0);
    assert_recorded(
        "describe-project",
        &world.on_terminal("alice", &["describe", "project", "web"], &[]).screen,
    );
    assert_recorded(
        "describe-namespace",
        &world.on_terminal("alice", &["describe", "ns", "east-front"], &[]).screen,
    );
    assert_recorded(
        "describe-namespace-80",
        &world.on_terminal_of(NARROW, "alice", &["describe", "ns", "east-front"], &[]).screen,
    );
    assert_recorded(
        "describe-tenant",
        &world.on_terminal("operator", &["describe", "tenant", "acme"], &[]).screen,
    );
    let cluster = world.run("operator", &["describe", "cluster", "east"]).expect(0);
    assert!(cluster.contains("State:") && cluster.contains("open"), "{cluster}");
    let offer = world.run("alice", &["describe", "cluster", "east"]).expect(0);
    assert!(offer.contains("east (acme)"), "whoever rules no cluster sees what is offered of it: {offer}");
    let offer = world.run("alice", &["describe", "cluster", "east", "-o", "json"]).json(0);
    assert_eq!((&offer["kind"], &offer["metadata"]["name"]), (&json!("ClusterOffer"), &json!("east")));
    assert_eq!(world.run("alice", &["describe", "project", "web", "-o", "json"]).json(0)["kind"], "Project");
    world.run("alice", &["access", "add", "shop", "--user", "bob", "--role", "view"]).expect(0);
    for (what, line) in [
        ("project/shop", "  user bob  view  here\n"),
        ("projects/web", "  user bob  view  project shop\n"),
        ("namespace.business.tkestack.io/east-front", "  user bob  view  project shop\n"),
    ] {
        let told = world.run("alice", &["describe", what]).expect(0);
        assert!(told.contains("\nAccess\n") && told.contains(line), "{what}: {told}");
    }
    world.run("alice", &["describe", "Namespaces", "east-front"]).expect(0);
    for wrong in [&["pod/web"][..], &["project"], &["project/"], &["project/web", "web"]] {
        assert_eq!(world.run("alice", &[&["describe"], wrong].concat()).code, 2, "{wrong:?}");
    }
    assert_eq!(world.run("alice", &["describe", "project", "absent"]).code, 1);
}

#[tokio::test]
async fn findings_are_told_and_end_with_three() {
    let world = World::with_projects().await;
    world.run("operator", &["audit"]).expect(0);
    let blind = world.run("operator", &["audit", "--as", "eve"]);
    assert!(blind.err.contains("next: you have no role here"), "{}", blind.err);
    assert_eq!((blind.code, blind.out.as_str()), (3, ""), "who sees nothing is not told that all is well");
    let held = json!([{"uid": "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "state": "orphaned", "clusterName": "east",
        "namespace": "lost", "hard": {"pods": "2"}, "reason": "a restore lost its object"}]);
    let comparison = json!({"revision": 1, "strange": 1, "strangers": [
        {"clusterName": "east", "namespace": "odd", "uid": "1"}]});
    world.patch("/memberclusters/east/status", &json!({"status": {"comparison": comparison}})).await;
    world.patch("/projects/web/status", &json!({"status": {"ledger": {"held": held}}})).await;
    let told = world.run("operator", &["audit", "-o", "json"]).json(3);
    assert_eq!(told["consistent"], false);
    let found = &told["findings"][0];
    assert_eq!((&found["kind"], &found["name"]), (&json!("MemberCluster"), &json!("east")));
    assert!(told["findings"][0]["why"].as_str().unwrap().contains("without our seal: odd"), "{told:#}");
    assert_eq!(world.run("operator", &["audit"]).code, 3);
}

#[tokio::test]
async fn a_cluster_that_nobody_compares_any_more_is_a_finding() {
    let world = World::with_projects().await;
    let young = world.run("operator", &["audit"]).expect(0);
    assert!(young.contains("cluster east is not compared with the objects"), "{young}");
    let compared = |time: &str| json!({"status": {"comparison": {"revision": 1, "time": time}}});
    world.patch("/memberclusters/east/status", &compared("2026-01-02T03:04:05Z")).await;
    let told = world.run("operator", &["audit", "-o", "json"]).json(3);
    assert_eq!(told["findings"][0]["name"], "east");
    assert!(told["findings"][0]["why"].as_str().unwrap().contains("since 2026-01-02T03:04:05Z"), "{told:#}");
    world.patch("/memberclusters/east/status", &compared("2999-01-02T03:04:05Z")).await;
    let told = world.run("operator", &["audit", "-o", "json"]).json(0);
    assert_eq!(told["compared"][0], json!({"cluster": "east", "time": "2999-01-02T03:04:05Z"}));
    let missing = json!({"status": {"comparison": {"missing": "no answer", "time": "2999-01-02T03:04:05Z"}}});
    world.patch("/memberclusters/east/status", &missing).await;
    let told = world.run("operator", &["audit", "-o", "json"]).json(3);
    assert_eq!(told["compared"][0], json!({"cluster": "east"}), "it was tried then, and not compared");
}

#[tokio::test]
async fn a_cluster_that_leaves_says_what_ties_it_and_what_goes_first() {
    let world = World::with_projects().await;
    let seen = world.on_terminal("operator", &["leave", "east", "--plan"], &[]);
    assert_eq!(seen.code, 3);
    assert_recorded("leave-plan", &seen.screen);
    let plan = ["leave", "east", "--plan"];
    assert_recorded("leave-plan-80", &world.on_terminal_of(NARROW, "operator", &plan, &[]).screen);
    let piped = world.run("operator", &plan).expect(3);
    assert_eq!(piped.lines().count(), 6, "a pipe has one record a line: {piped}");
    let told = world.run("operator", &["leave", "east", "--plan", "-o", "json"]).json(3);
    assert_eq!(told["cordoned"], false, "a plan changes nothing");
    let direct = world.run("operator", &["leave", "east", "--forget"]);
    assert!(direct.code == 3 && direct.err.contains("is no kube-apiserver"), "{}", direct.err);
    let still = world.run("operator", &["leave", "east", "--plan", "-o", "json"]).json(3);
    assert_eq!(still["cordoned"], false, "a server that has no Secrets is told before anything is changed");
    let cordoned = world.run("operator", &["leave", "east"]);
    assert!(cordoned.code == 3 && cordoned.err.contains("is cordoned"), "{}", cordoned.err);
    world.run("operator", &["describe", "cluster", "east"]).expect(0);
    assert_eq!(world.run("operator", &["leave", "east", "--drain", "web"]).code, 2, "not without --yes");
    assert_eq!(world.run("alice", &["leave", "east"]).code, 3);
}
