//! Who gets what at every route that the program serves. The routes are its own discovery's; what each kind of caller
//! gets there is recorded, so that a new route, or somebody's new right, is seen.

mod world;

use crate::registry::registry_object;
use crate::support::{GROUP, child, namespace, project, until};
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use world::{Caller, World};

/// So that every caller finds the same objects.
const DRY_RUN: &str = "?dryRun=All";

/// One route: what discovery calls it, and how it is asked.
struct Route {
    method: Method,
    path: String,
    query: &'static str,
    body: Option<Value>,
}

/// A change of the recorded file is a change of somebody's rights.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_authorization_matrix_is_as_recorded() {
    let world = World::start().await;
    let root = world.masters();
    let acme = world.tenant_admin("acme");
    root.until_ready().await;
    let member_clusters = format!("{GROUP}/memberclusters");
    root.send(&Method::POST, &member_clusters, Some(member_cluster("c1"))).await.expect(201);
    make_projects(&root, &acme).await;
    make_others(&root, &acme).await;
    for (name, role) in [("alice", "a member"), ("nora", "an administrator")] {
        let caller = world.member(name, "acme");
        let path = format!("{GROUP}/namespaces/p/namespaces/c1-n");
        until(&format!("{name} is {role}"), async || caller.get(&path).await.code == 200).await;
    }
    let named = world.named();
    for (column, callers) in &named {
        let project = if *column == "elsewhere" { "other" } else { "p" };
        for caller in callers {
            let path = format!("{GROUP}/projects/{project}");
            until(&format!("{column} is known"), async || caller.get(&path).await.code == 200).await;
        }
    }
    let routes = routes(&root).await;
    let callers = world.callers();
    let mut matrix = format!("{:<80}", "");
    for who in callers.iter().map(|(who, _)| who).chain(named.iter().map(|(who, _)| who)) {
        write!(matrix, " {who:<10}").unwrap();
    }
    for route in &routes {
        // That writes are dry runs goes without saying.
        let shown = format!("{}{}", route.path, route.query.trim_end_matches(DRY_RUN));
        write!(matrix, "\n{:<7}{shown:<73}", route.method.as_str()).unwrap();
        for (_, caller) in &callers {
            write!(matrix, " {:<10}", outcome(caller, route).await).unwrap();
        }
        for (who, [aggregated, directly]) in &named {
            let outcome = (outcome(aggregated, route).await, outcome(directly, route).await);
            assert_eq!(outcome.0, outcome.1, "{who} at {shown}, through kube-apiserver and directly");
            write!(matrix, " {:<10}", outcome.0).unwrap();
        }
    }
    let matrix: String = matrix.lines().flat_map(|line| [line.trim_end(), "\n"]).collect();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/output/authz_matrix.txt");
    if std::env::var_os("UPDATE_OUTPUT").is_some() {
        std::fs::write(file, &matrix).unwrap();
    }
    let recorded = std::fs::read_to_string(file).unwrap_or_default();
    assert!(
        matrix == recorded,
        "the matrix changed; look at it, then record it with UPDATE_OUTPUT=1:\n{matrix}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sees_all_tenants_and_is_of_one_does_in_the_others_what_his_roles_in_kubernetes_say() {
    let world = World::start().await;
    let (root, umbrella, auditor) = (world.masters(), world.tenant_admin("umbrella"), world.auditor("acme"));
    root.until_ready().await;
    let member_clusters = format!("{GROUP}/memberclusters");
    root.send(&Method::POST, &member_clusters, Some(member_cluster("c1"))).await.expect(201);
    let (projects, theirs) = (format!("{GROUP}/projects"), project("theirs", json!({"pods": "10"})));
    until("the cluster is known", async || {
        umbrella.send(&Method::POST, &projects, Some(theirs.clone())).await.code == 201
    })
    .await;
    let path = format!("{projects}/theirs");
    auditor.get(&path).await.expect(200);
    let new = namespace("web", json!({"pods": "1"}));
    for (method, path, body) in [
        (Method::POST, format!("{GROUP}/namespaces/theirs/namespaces"), Some(new)),
        (Method::PATCH, path.clone(), Some(json!({}))),
        (Method::DELETE, path, None),
    ] {
        let answer = auditor.send(&method, &format!("{path}{DRY_RUN}"), body).await;
        assert_eq!(answer.code, 403, "{method} {path}: {:#}", answer.body);
    }
}

/// Projects with people in them: top ⊃ p, and other.
async fn make_projects(root: &Caller, acme: &Caller) {
    for (name, administrator) in [("acme", "tara"), ("globex", "both")] {
        let mut tenant = tenant(name);
        tenant["spec"]["administrators"] = json!([{"kind": "User", "name": administrator}]);
        root.send(&Method::POST, &format!("{GROUP}/tenants"), Some(tenant)).await.expect(201);
    }
    let user = |name: &str, role: &str| json!({"kind": "User", "name": name, "role": role});
    let mut top = project("top", json!({"pods": "20"}));
    top["spec"]["access"] = json!([user("top-admin", "admin")]);
    let mut p = child("p", "top", json!({"pods": "10"}));
    p["spec"]["members"] = json!(["alice"]);
    p["spec"]["access"] = json!([
        user("pat", "admin"), user("ed", "edit"), user("vi", "view"), user("both", "view"),
        {"kind": "Group", "name": "devs", "role": "edit"},
        {"kind": "ServiceAccount", "namespace": "gitops", "name": "argocd", "role": "edit"},
    ]);
    let mut other = project("other", json!({"pods": "10"}));
    other["spec"]["members"] = json!(["alice"]);
    other["spec"]["access"] = json!([user("zed", "admin")]);
    let projects = format!("{GROUP}/projects");
    let make = async |project: &Value| acme.send(&Method::POST, &projects, Some(project.clone())).await;
    until("the cluster is known", async || make(&top).await.code == 201).await;
    for project in [p, other] {
        make(&project).await.expect(201);
    }
}

/// An object of each other kind.
async fn make_others(root: &Caller, acme: &Caller) {
    let of_root = [("platforms", platform("plf", "acme")), ("namespacetemplates", template("standard"))];
    for (plural, body) in of_root {
        root.send(&Method::POST, &format!("{GROUP}/{plural}"), Some(body)).await.expect(201);
    }
    let map = json!({"metadata": {"name": "map"}, "data": {"a": "1"}});
    acme.send(&Method::POST, &format!("{GROUP}/configmaps"), Some(map)).await.expect(201);
    let make = async |plural: &str, body: Value| {
        let path = format!("{GROUP}/namespaces/p/{plural}");
        acme.send(&Method::POST, &path, Some(body)).await.expect(201);
    };
    make("namespaces", namespace("n", json!({"pods": "1"}))).await;
    let status = json!({"status": {"phase": "Available"}});
    let path = format!("{GROUP}/namespaces/p/namespaces/c1-n/status");
    root.send(&Method::PATCH, &path, Some(status)).await.expect(200);
    make("nsemigrations", samples("nsemigrations", "").1).await;
    make("imagenamespaces", registry_object("ImageNamespace", "images", None)).await;
    make("chartgroups", registry_object("ChartGroup", "charts", None)).await;
    make("registrycredentials", credential("ci")).await;
}

/// The code, and of a list how many objects it has.
async fn outcome(caller: &Caller, route: &Route) -> String {
    let path = format!("{}{}", route.path, route.query);
    if route.query.contains("watch") {
        return caller.begin(&path).await.to_string();
    }
    let answer = caller.send(&route.method, &path, route.body.clone()).await;
    match answer.body["items"].as_array() {
        Some(items) => format!("{} ({})", answer.code, items.len()),
        None => answer.code.to_string(),
    }
}

/// Every route of discovery, in its order, and the server's own paths. What OpenAPI describes must be among them.
async fn routes(root: &Caller) -> Vec<Route> {
    let mut routes = Vec::new();
    let mut templates = BTreeSet::new();
    let served = root.get(GROUP).await.expect(200);
    for resource in served["resources"].as_array().unwrap() {
        let (name, namespaced) = (resource["name"].as_str().unwrap(), resource["namespaced"] == true);
        let (plural, subresource) = name.split_once('/').map_or((name, ""), |(plural, sub)| (plural, sub));
        for verb in resource["verbs"].as_array().unwrap() {
            let verb = verb.as_str().unwrap();
            let everywhere = namespaced && matches!(verb, "list" | "watch");
            let scopes: &[bool] = if everywhere { &[true, false] } else { &[namespaced] };
            for in_namespace in scopes {
                let (route, template) = route(root, verb, plural, subresource, *in_namespace).await;
                templates.insert(format!("{} {template}", route.method.as_str().to_lowercase()));
                routes.push(route);
            }
        }
    }
    let described = root.get(&format!("/openapi/v3{GROUP}")).await.expect(200);
    for (path, operations) in described["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys().filter(|key| *key != "parameters") {
            let is_root = path.trim_end_matches('/') == GROUP;
            let known = is_root || templates.contains(&format!("{method} {path}"));
            assert!(known, "{method} {path} is described by OpenAPI and not in discovery");
        }
    }
    let index = root.get("/").await.expect(200);
    let listed = index["paths"].as_array().unwrap().iter().map(|path| path.as_str().unwrap().to_owned());
    let own = ["/", "/healthz", "/livez", "/readyz", "/readyz/ping", "/metrics", "/version", "/no/such/path"];
    let mut paths: BTreeSet<String> = listed.chain(own.map(str::to_owned)).collect();
    paths.insert(format!("/openapi/v3{GROUP}"));
    routes.extend(paths.into_iter().map(|path| Route { method: Method::GET, path, query: "", body: None }));
    routes
}

fn platform(name: &str, tenant: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"tenantID": tenant, "administrators": ["nora"]}})
}

/// A robot's credential.
fn credential(name: &str) -> Value {
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "RegistryCredential", "metadata": {"name": name},
        "spec": {"access": "Pull"},
    })
}

fn tenant(name: &str) -> Value {
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "Tenant",
        "metadata": {"name": name}, "spec": {"displayName": name},
    })
}

fn member_cluster(name: &str) -> Value {
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "MemberCluster",
        "metadata": {"name": name}, "spec": {"displayName": name, "tenants": ["*"]},
    })
}

fn template(name: &str) -> Value {
    json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "NamespaceTemplate",
        "metadata": {"name": name}, "spec": {"labels": {"team": name}},
    })
}

/// The name of an object of a kind, and the body of a new one, or of what its subresource is asked to do.
fn samples(plural: &str, subresource: &str) -> (&'static str, Value) {
    match (plural, subresource) {
        ("projects", "lock" | "unlock") => ("p", json!({"reason": "a test"})),
        ("namespaces", "abandon") => ("c1-n", json!({"reason": "a test"})),
        ("projects", _) => ("p", child("q", "p", json!({"pods": "5"}))),
        ("namespaces", "pullcredential") => ("c1-n", json!({})),
        ("namespaces", "transfer") => ("c1-n", json!({"project": "other"})),
        ("namespaces", _) => ("c1-n", namespace("m", json!({"pods": "1"}))),
        ("platforms", _) => ("plf", platform("plf-new", "umbrella")),
        ("configmaps", _) => ("map", json!({"metadata": {"name": "new"}, "data": {"a": "1"}})),
        ("portal", _) => ("", Value::Null),
        ("clusteroffers", _) => ("c1", Value::Null),
        ("tenants", _) => ("acme", tenant("umbrella")),
        ("namespacetemplates", _) => ("standard", template("wide")),
        ("memberclusters", _) => ("c1", member_cluster("c9")),
        ("nsemigrations", _) => {
            ("c1-n", json!({"spec": {"namespace": "c1-n", "nsShowName": "n", "destination": "other"}}))
        }
        ("imagenamespaces", _) => ("images", registry_object("ImageNamespace", "more", None)),
        ("chartgroups", _) => ("charts", registry_object("ChartGroup", "more", None)),
        ("registrycredentials", "token") => ("ci", json!({})),
        ("registrycredentials", _) => ("ci", credential("nodes")),
        (new, _) => panic!("the kind {new} is new: say what one looks like"),
    }
}

/// How a verb of a resource is asked, without changing anything; and OpenAPI's template of its path.
async fn route(
    root: &Caller,
    verb: &str,
    plural: &str,
    subresource: &str,
    in_namespace: bool,
) -> (Route, String) {
    let (at, template) = if in_namespace {
        (format!("{GROUP}/namespaces/p/{plural}"), format!("{GROUP}/namespaces/{{namespace}}/{plural}"))
    } else {
        (format!("{GROUP}/{plural}"), format!("{GROUP}/{plural}"))
    };
    let (object, new) = samples(plural, subresource);
    let of = |end: &str| if subresource.is_empty() { end.to_owned() } else { format!("{end}/{subresource}") };
    let one = (of(&format!("{at}/{object}")), of(&format!("{template}/{{name}}")));
    let all = (at, template);
    let (method, (path, template), query) = match verb {
        "create" if subresource.is_empty() => (Method::POST, all, DRY_RUN),
        "create" => (Method::POST, one, DRY_RUN),
        "list" => (Method::GET, all, ""),
        "watch" => (Method::GET, all, "?watch=1"),
        "deletecollection" => (Method::DELETE, all, DRY_RUN),
        "get" => (Method::GET, one, ""),
        "update" => (Method::PUT, one, DRY_RUN),
        "patch" => (Method::PATCH, one, DRY_RUN),
        "delete" => (Method::DELETE, one, DRY_RUN),
        other => panic!("the verb {other} is new: say how it is asked"),
    };
    let body = match verb {
        "create" if subresource.is_empty() => Some(new),
        "update" => Some(root.get(&path).await.expect(200)),
        "patch" => Some(json!({})),
        _ => None,
    };
    (Route { method, path, query, body }, template)
}
