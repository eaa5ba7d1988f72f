use super::proxy::Proxy;
use anyhow::{Result, ensure};
use instance::job::{Hard, apply, namespace, project, until_active, until_gone};
use instance::kubectl::Kubectl;
use instance::{HOST_CLUSTER, Instance};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const PROJECTS: &str = "/apis/business.tkestack.io/v1/projects";
const NAMESPACES: &str = "/apis/business.tkestack.io/v1/namespaces/input/namespaces";
const HARD: Hard<'_> = &[("cpu", "4")];

/// One bad request and what must be said about it.
struct Case {
    what: &'static str,
    method: &'static str,
    path: String,
    kind: &'static str,
    body: Vec<u8>,
    code: u16,
    says: &'static str,
}

fn post(what: &'static str, path: &str, object: &Value, code: u16, says: &'static str) -> Case {
    let (method, kind) = ("POST", "application/json");
    Case { what, method, path: path.to_owned(), kind, body: object.to_string().into_bytes(), code, says }
}

fn raw(what: &'static str, kind: &'static str, body: &[u8], code: u16, says: &'static str) -> Case {
    Case { what, method: "POST", path: PROJECTS.to_owned(), kind, body: body.to_vec(), code, says }
}

/// Every case is answered with a Status that says what is wrong, and nothing is stored.
pub(super) fn input(instance: &Instance) -> Result<()> {
    let k = &instance.kubectl;
    apply(k, &project("input", None, &[(HOST_CLUSTER, HARD)]))?;
    until_active(k, "input")?;
    apply(k, &project("input-child", Some("input"), &[(HOST_CLUSTER, &[("cpu", "1")])]))?;
    until_active(k, "input-child")?;
    let before = stored(k)?;
    let proxy = Proxy::start(k)?;
    let mut wrong = Vec::new();
    for case in bodies().into_iter().chain(values()).chain(changes()) {
        let answer = proxy.send(case.method, &case.path, case.kind, &case.body)?;
        let status = answer.json();
        let right = answer.code == case.code
            && status.get("kind") == Some(&json!("Status"))
            && status.get("code") == Some(&json!(case.code))
            && answer.body.contains(case.says);
        if !right {
            let shown: String = answer.body.chars().take(600).collect();
            wrong.push(format!(
                "{}: {} instead of {} with `{}`: {shown}",
                case.what, answer.code, case.code, case.says
            ));
        }
    }
    // What an earlier step has deleted may go meanwhile.
    let new: Vec<String> = stored(k)?.difference(&before).cloned().collect();
    ensure!(new.is_empty(), "something was stored: {new:?}");
    k.run(&["delete", "project", "input", "--wait=false"])?;
    until_gone(k, &["project", "input"])?;
    ensure!(wrong.is_empty(), "{}", wrong.join("\n      "));
    Ok(())
}

fn stored(k: &Kubectl) -> Result<BTreeSet<String>> {
    let names = k.run(&["get", "projects,bns", "-A", "-o", "name"])?;
    Ok(names.lines().map(str::to_owned).collect())
}

/// What cannot be read at all.
fn bodies() -> Vec<Case> {
    let large = format!(r#"{{"metadata":{{"annotations":{{"a":"{}"}}}}}}"#, "x".repeat(4 << 20));
    let with_unknown = json!({
        "apiVersion": "business.tkestack.io/v1", "kind": "Project", "metadata": {"name": "unknown"},
        "spec": {"displayName": "x", "colour": "red"},
    });
    let json = "application/json";
    vec![
        raw("broken JSON", json, b"{\"apiVersion\":", 400, "BadRequest"),
        raw("broken YAML", "application/yaml", b"a: [1\nb: {", 400, "BadRequest"),
        raw("wrong content type", "text/csv", b"a,b", 415, "UnsupportedMediaType"),
        raw("too large a body", json, large.as_bytes(), 413, "RequestEntityTooLarge"),
        raw(
            "another kind",
            json,
            br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}"#,
            400,
            "BadRequest",
        ),
        post(
            "an unknown field",
            &format!("{PROJECTS}?fieldValidation=Strict"),
            &with_unknown,
            400,
            "spec.colour",
        ),
    ]
}

/// What can be read and is wrong.
fn values() -> Vec<Case> {
    let hard = |hard: Value| {
        let mut object = namespace("input", HOST_CLUSTER, "x", &[]);
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            spec.insert("hard".to_owned(), hard);
        }
        object
    };
    let long = "n".repeat(64);
    let mut typed = project("typed", None, &[]);
    if let Some(spec) = typed.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("members".to_owned(), json!("anna"));
    }
    let mut nameless = project("nameless", None, &[]);
    if let Some(spec) = nameless.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("displayName");
    }
    vec![
        post("a wrong type", PROJECTS, &typed, 400, "members"),
        post("no displayName", PROJECTS, &nameless, 422, "spec.displayName"),
        post("a name too long", PROJECTS, &project(&long, None, &[]), 422, "metadata.name"),
        post("a name with capitals", PROJECTS, &project("Caps", None, &[]), 422, "metadata.name"),
        post("a negative quantity", NAMESPACES, &hard(json!({"cpu": "-1"})), 422, "spec.hard"),
        post("a broken quantity", NAMESPACES, &hard(json!({"cpu": "1xyz"})), 400, "cpu"),
        post("an unknown resource", NAMESPACES, &hard(json!({"cpu": "1", "bananas": "1"})), 422, "bananas"),
        post("a missing key", NAMESPACES, &hard(json!({"memory": "1Gi"})), 422, "cpu"),
        post("an unknown cluster", PROJECTS, &project("lost", None, &[("nowhere", HARD)]), 422, "nowhere"),
        post(
            "a cluster the project lacks",
            NAMESPACES,
            &namespace("input", "member-1", "x", HARD),
            422,
            "member-1",
        ),
        post(
            "a forbidden namespace",
            NAMESPACES,
            &namespace("input", HOST_CLUSTER, "kube-system", HARD),
            422,
            "kube-system",
        ),
        post(
            "a missing project",
            &NAMESPACES.replace("input", "nosuch"),
            &namespace("nosuch", HOST_CLUSTER, "x", HARD),
            404,
            "nosuch",
        ),
    ]
}

/// Changes of what is there.
fn changes() -> Vec<Case> {
    let merge = "application/merge-patch+json";
    let patch = |what, path: String, body: Value, code, says| Case {
        what,
        method: "PATCH",
        path,
        kind: merge,
        body: body.to_string().into_bytes(),
        code,
        says,
    };
    let cycle = json!({"spec": {"parentProjectName": "input-child"}});
    let stale = json!({"metadata": {"resourceVersion": "1"}, "spec": {"displayName": "y"}});
    vec![
        patch("a cycle of parents", format!("{PROJECTS}/input"), cycle, 422, "parentProjectName"),
        patch("a stale resourceVersion", format!("{PROJECTS}/input"), stale, 409, "Conflict"),
        patch(
            "a removed cluster in use",
            format!("{PROJECTS}/input"),
            json!({"spec": {"clusters": {HOST_CLUSTER: null}}}),
            422,
            HOST_CLUSTER,
        ),
        Case {
            what: "a patch of an unknown type",
            method: "PATCH",
            path: format!("{PROJECTS}/input"),
            kind: "application/json",
            body: b"{}".to_vec(),
            code: 415,
            says: "UnsupportedMediaType",
        },
    ]
}
