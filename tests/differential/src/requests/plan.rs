//! Random requests. They name objects, revisions and uids by symbols, so that both sides, and a shrunk replay, can be
//! asked the same.

use super::body;
use super::target::TargetKind;
use meta::protobuf::{self, Message};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::fmt;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// One request, with symbols in it: `<<name:a>>`, `<<uid:a>>`, `<<rv:a>>` and `<<rv0:a>>` (newest and first revision
/// seen), `<<list>>` (revision of the last list), `<<cont>>` (its token), `<<G>>` and `<<ns>>`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Option<String>,
}

impl Request {
    pub(crate) fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), ..Self::default() }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value.into()));
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.text("application/json", body.to_string())
    }

    pub(crate) fn text(mut self, content: &str, body: impl Into<String>) -> Self {
        self.body = Some(body.into());
        self.header("content-type", content)
    }

    /// The first value of a query parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn content_type(&self) -> &str {
        self.headers.iter().find(|(name, _)| *name == "content-type").map_or("", |(_, value)| value.as_str())
    }

    /// Whether the answer is a stream of events.
    pub(crate) fn is_watch(&self) -> bool {
        self.method == "GET" && self.parameter("timeoutSeconds").is_some()
    }

    /// Whether the answer may be a moment old.
    pub(crate) fn may_lag(&self) -> bool {
        self.method == "GET" && self.parameter("resourceVersion").is_some_and(|revision| !revision.is_empty())
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let query: Vec<String> = self.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mark = if query.is_empty() { "" } else { "?" };
        write!(f, "{} {}{mark}{}", self.method, self.path, query.join("&"))?;
        for (name, value) in &self.headers {
            write!(f, " [{name}: {value}]")?;
        }
        match &self.body {
            Some(body) => write!(f, " {body}"),
            None => Ok(()),
        }
    }
}

pub(crate) fn pick<'a, T>(from: &'a [T], random: &mut StdRng) -> &'a T {
    // Every list here has something in it.
    &from[random.random_range(0..from.len())]
}

/// Whether something that happens in so many of a hundred cases happens now.
pub(crate) fn chance(percent: u32, random: &mut StdRng) -> bool {
    random.random_range(0..100) < percent
}

/// Names that the requests of a case share.
pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];

fn name(random: &mut StdRng) -> &'static str {
    NAMES[random.random_range(0..NAMES.len())]
}

/// The requests of one case: the first one or two make objects, the others do anything.
pub(crate) fn case(target: &TargetKind, length: usize, random: &mut StdRng) -> Vec<Request> {
    let mut requests = vec![plain_create(target, "a", random)];
    if chance(60, random) {
        requests.push(plain_create(target, "b", random));
    }
    while requests.len() < length {
        requests.push(any(target, random));
    }
    requests
}

fn any(target: &TargetKind, random: &mut StdRng) -> Request {
    let request = match random.random_range(0..100) {
        0..16 => create(target, random),
        16..24 => get(target, random),
        24..36 => list(target, random),
        36..49 => update(target, random),
        49..57 => json_patch(target, random),
        57..67 => merge_patch(target, random),
        67..76 => apply(target, random),
        76..83 => status(target, random),
        83..91 => delete(target, random),
        91..93 => delete_collection(target, random),
        93..95 => watch(target, random),
        _ => super::odd::request(target, random),
    };
    if chance(9, random) { accept(request, random) } else { request }
}

fn accept(request: Request, random: &mut StdRng) -> Request {
    let accepts = [
        "*/*",
        "application/*",
        "",
        "application/yaml",
        "application/json;q=0.2, application/yaml;q=0.9",
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
        "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "application/json;as=Table;v=v9;g=meta.k8s.io,application/json",
        "application/vnd.kubernetes.protobuf, application/json",
        "application/vnd.kubernetes.protobuf",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/yaml",
        "application/json;g=meta.k8s.io,application/yaml",
        "application/json;stream=watch",
        "application/json;pretty=1",
        "text/html",
        "nonsense",
        "application/xml;q=0.9,*/*;q=0.1",
    ];
    let request = request.header("accept", *pick(&accepts, random));
    match random.random_range(0..6) {
        0 => request.with("includeObject", *pick(&["None", "Metadata", "Object", "All"], random)),
        1 => request.with("pretty", *pick(&["1", "true", "false", ""], random)),
        _ => request,
    }
}

fn plain_create(target: &TargetKind, name: &str, random: &mut StdRng) -> Request {
    let object = body::object(target, name, random);
    Request::new("POST", target.collection()).json(&object)
}

fn create(target: &TargetKind, random: &mut StdRng) -> Request {
    let mut object = body::object(target, name(random), random);
    if chance(12, random) {
        let metadata = &mut object["metadata"];
        metadata["generateName"] = json!(*pick(&["<<name:g>>", "g.", "G-", "<<name:long>>-"], random));
        if chance(85, random) {
            metadata.as_object_mut().and_then(|map| map.remove("name"));
        }
    }
    if chance(50, random) {
        body::spoil(target, &mut object, random);
    }
    let text = body::written(&object, random);
    write_options(Request::new("POST", target.collection()).text(&text.0, text.1), random)
}

/// Query parameters that every write understands.
fn write_options(mut request: Request, random: &mut StdRng) -> Request {
    if chance(10, random) {
        request = request.with("dryRun", *pick(&["All", "All", "All", "None", ""], random));
    }
    if chance(15, random) {
        let validation = ["Strict", "Strict", "Warn", "Ignore", "", "Loud"];
        request = request.with("fieldValidation", *pick(&validation, random));
    }
    if chance(15, random) {
        let long = "m".repeat(130);
        let managers = ["one", "two", "a b", "", "bad\u{7}", long.as_str()];
        request = request.with("fieldManager", *pick(&managers, random));
    }
    if chance(2, random) {
        request = request.with("force", *pick(&["true", "false"], random));
    }
    if chance(2, random) {
        request = request.with("timeout", *pick(&["10s", "1m30s", "0", "x", "-1s"], random));
    }
    request
}

/// A revision in a query: fresh, old, none, or nonsense.
fn revision(random: &mut StdRng) -> String {
    let name = name(random);
    match random.random_range(0..12) {
        0..3 => "<<list>>".to_owned(),
        3..5 => format!("<<rv:{name}>>"),
        5..7 => format!("<<rv0:{name}>>"),
        7..9 => "0".to_owned(),
        9 => String::new(),
        10 => "x".to_owned(),
        _ => "9000000000".to_owned(),
    }
}

fn get(target: &TargetKind, random: &mut StdRng) -> Request {
    let sub = if chance(15, random) { "/status" } else { "" };
    let mut request = Request::new("GET", format!("{}{sub}", target.object(name(random))));
    if chance(20, random) {
        let revision = revision(random);
        // A revision of the future is waited for: three seconds are too much for every tenth request.
        if revision != "9000000000" {
            request = request.with("resourceVersion", revision);
        }
    }
    if chance(3, random) {
        request = request.with("export", *pick(&["true", "false"], random));
    }
    request
}

pub(crate) fn selectors(mut request: Request, random: &mut StdRng) -> Request {
    let labels = [
        "tier=x",
        "tier!=x",
        "tier in (x,y)",
        "tier notin (x)",
        "tier",
        "!tier",
        "tier==x,app",
        "num>3",
        "num<4",
        "tier=x,tier=y",
        "tier in x",
        "=x",
        "tier=(",
        "a/b/c=d",
        "-bad=x",
        "tier=a b",
        "app=",
    ];
    let fields = [
        "metadata.name=<<name:a>>",
        "metadata.name!=<<name:a>>",
        "metadata.name==<<name:b>>",
        "metadata.name=<<name:a>>,metadata.name=<<name:b>>",
        "spec.text=x",
        "nonsense",
        "metadata.name",
        "metadata.name=<<name:a>>,",
        "metadata.labels=x",
        "metadata.name=a\\,b",
        "metadata.name=x y",
    ];
    if chance(30, random) {
        request = request.with("labelSelector", *pick(&labels, random));
    }
    if chance(20, random) {
        request = request.with("fieldSelector", *pick(&fields, random));
    }
    request
}

fn list(target: &TargetKind, random: &mut StdRng) -> Request {
    let mut request = selectors(Request::new("GET", target.collection()), random);
    if chance(35, random) {
        request = request.with("limit", *pick(&["1", "2", "500", "0", "-1", "x"], random));
    }
    if chance(18, random) {
        request =
            request.with("continue", *pick(&["<<cont>>", "<<cont>>", "<<cont>>", "nonsense", "e30"], random));
    }
    if chance(30, random) {
        let revision = revision(random);
        if revision != "9000000000" {
            request = request.with("resourceVersion", revision);
        }
    }
    if chance(20, random) {
        let matches = ["Exact", "NotOlderThan", "NotOlderThan", "", "Nearly"];
        request = request.with("resourceVersionMatch", *pick(&matches, random));
    }
    if chance(3, random) {
        request = request.with("sendInitialEvents", *pick(&["true", "false"], random));
    }
    target.confine(request)
}

fn update(target: &TargetKind, random: &mut StdRng) -> Request {
    let name = name(random);
    let mut object = body::object(target, name, random);
    let metadata = &mut object["metadata"];
    match random.random_range(0..20) {
        0..14 => metadata["resourceVersion"] = json!(format!("<<rv:{name}>>")),
        14..17 => metadata["resourceVersion"] = json!(format!("<<rv0:{name}>>")),
        17 => metadata["resourceVersion"] = json!("x"),
        18 => metadata["resourceVersion"] = json!("0"),
        _ => {}
    }
    match random.random_range(0..20) {
        0..4 => metadata["uid"] = json!(format!("<<uid:{name}>>")),
        4 => metadata["uid"] = json!("7a3c4a3e-0000-4000-8000-000000000000"),
        _ => {}
    }
    if chance(35, random) {
        body::spoil(target, &mut object, random);
    }
    let text = body::written(&object, random);
    write_options(Request::new("PUT", target.object(name)).text(&text.0, text.1), random)
}

fn json_patch(target: &TargetKind, random: &mut StdRng) -> Request {
    let mut operations: Vec<Value> = Vec::new();
    for _ in 0..random.random_range(1..4) {
        operations.push(body::operation(target, random));
    }
    let text = if chance(4, random) {
        (*pick(&["{}", "[", "[1]", "[{\"op\":\"fly\",\"path\":\"/a\"}]", "", "null"], random)).to_owned()
    } else {
        Value::Array(operations).to_string()
    };
    let sub = if chance(10, random) { "/status" } else { "" };
    let request = Request::new("PATCH", format!("{}{sub}", target.object(name(random))));
    write_options(request.text("application/json-patch+json", text), random)
}

fn merge_patch(target: &TargetKind, random: &mut StdRng) -> Request {
    let name = name(random);
    let mut patch = body::fragment(target, random);
    if chance(12, random) {
        patch["metadata"]["resourceVersion"] =
            json!(*pick(&["<<rv:a>>", "<<rv0:a>>", "<<rv:b>>", "1", "0", ""], random));
    }
    if chance(5, random) {
        patch["metadata"]["uid"] =
            json!(*pick(&["<<uid:a>>", "7a3c4a3e-0000-4000-8000-000000000000"], random));
    }
    if chance(3, random) {
        patch["metadata"]["name"] = json!("other");
    }
    let text = if chance(4, random) {
        (*pick(&["[]", "null", "{", "1", "", "\"x\""], random)).to_owned()
    } else {
        patch.to_string()
    };
    let request = Request::new("PATCH", target.object(name));
    write_options(request.text("application/merge-patch+json", text), random)
}

fn apply(target: &TargetKind, random: &mut StdRng) -> Request {
    let name = name(random);
    let mut applied = body::fragment(target, random);
    applied["apiVersion"] = json!("<<G>>/v1");
    applied["kind"] = json!(target.kind);
    applied["metadata"]["name"] = json!(format!("<<name:{name}>>"));
    if chance(15, random) {
        body::spoil(target, &mut applied, random);
    }
    let manager = *pick(&["one", "two", "three", "kubectl"], random);
    let mut request = Request::new("PATCH", target.object(name));
    if chance(97, random) {
        request = request.with("fieldManager", manager);
    }
    if chance(50, random) {
        request = request.with("force", "true");
    }
    if chance(8, random) {
        request = request.with("dryRun", "All");
    }
    request.text("application/apply-patch+yaml", applied.to_string())
}

fn status(target: &TargetKind, random: &mut StdRng) -> Request {
    let name = name(random);
    let path = format!("{}/status", target.object(name));
    let part = json!({"status": body::status(random)});
    match random.random_range(0..3) {
        0 => write_options(
            Request::new("PATCH", path).text("application/merge-patch+json", part.to_string()),
            random,
        ),
        1 => {
            let mut applied = part;
            applied["apiVersion"] = json!("<<G>>/v1");
            applied["kind"] = json!(target.kind);
            applied["metadata"] = json!({"name": format!("<<name:{name}>>")});
            let request = Request::new("PATCH", path).with("fieldManager", *pick(&["one", "two"], random));
            let request = if chance(50, random) { request.with("force", "true") } else { request };
            request.text("application/apply-patch+yaml", applied.to_string())
        }
        _ => {
            let mut object = body::object(target, name, random);
            object["status"] = body::status(random);
            object["metadata"]["resourceVersion"] = json!(format!("<<rv:{name}>>"));
            write_options(Request::new("PUT", path).json(&object), random)
        }
    }
}

/// Options of a delete, in the body or in the query.
/// Whether options leave an object to the garbage collector.
fn waits(options: &str) -> bool {
    ["Foreground", "Orphan", "orphanDependents"].iter().any(|word| options.contains(word))
}

/// Those whose bytes are a text.
fn options_in_protobuf(target: &TargetKind, random: &mut StdRng) -> String {
    let said = random.random_range(0..9);
    let mut body = Message::default();
    let (version, kind) = *pick(
        &[("v1", "DeleteOptions"), ("", ""), ("meta.k8s.io/v1", "DeleteOptions"), ("v1", "Status")],
        random,
    );
    protobuf::body(&mut body, version, kind, |options| match said {
        0 => options.text(4, "Background"),
        1 if !target.collected => options.text(4, "Orphan"),
        2 => options.text(4, "Sideways"),
        3 => options.nested(2, |conditions| conditions.text(1, "7a3c4a3e-0000-4000-8000-000000000000")),
        4 => options.text(5, "All"),
        5 => options.integer(1, 30),
        6 => options.nested(2, |conditions| conditions.text(2, "")),
        7 => options.text(40, "of another version"),
        _ => {}
    });
    let whole = String::from_utf8(body.as_slice().to_vec()).unwrap_or_default();
    let cut = whole.get(..whole.len() / 2).unwrap_or_default().to_owned();
    pick(&[whole.clone(), whole.clone(), whole, cut, "k8s\0".to_owned(), "{}".to_owned()], random).clone()
}

fn delete_options(target: &TargetKind, request: Request, random: &mut StdRng) -> Request {
    match random.random_range(0..20) {
        0 => request.text(PROTOBUF, options_in_protobuf(target, random)),
        1..8 => request,
        8..14 => {
            let mut options = vec![
                json!({"kind": "DeleteOptions", "apiVersion": "v1"}),
                json!({"propagationPolicy": "Foreground"}),
                json!({"propagationPolicy": "Orphan"}),
                json!({"propagationPolicy": "Background", "gracePeriodSeconds": 0}),
                json!({"propagationPolicy": "Sideways"}),
                json!({"orphanDependents": true}),
                json!({"orphanDependents": false}),
                json!({"orphanDependents": true, "propagationPolicy": "Orphan"}),
                json!({"preconditions": {"uid": "<<uid:a>>"}}),
                json!({"preconditions": {"uid": "7a3c4a3e-0000-4000-8000-000000000000"}}),
                json!({"preconditions": {"resourceVersion": "<<rv:a>>"}}),
                json!({"preconditions": {"resourceVersion": "<<rv0:a>>"}}),
                json!({"gracePeriodSeconds": -5}),
                json!({"gracePeriodSeconds": 30}),
                json!({"dryRun": ["All"]}),
                json!({"dryRun": ["Some"]}),
                json!({"kind": "Pod", "apiVersion": "v1"}),
                json!({"kind": "DeleteOptions", "apiVersion": "<<G>>/v1"}),
                json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}),
                json!({"unknown": 1}),
                json!({"gracePeriodSeconds": "x"}),
                json!([]),
            ];
            if target.collected {
                options.retain(|options| !waits(&options.to_string()));
            }
            request.json(pick(&options, random))
        }
        _ => {
            let mut options = vec![
                ("propagationPolicy", "Foreground"),
                ("propagationPolicy", "Orphan"),
                ("propagationPolicy", "Background"),
                ("propagationPolicy", "None"),
                ("orphanDependents", "true"),
                ("orphanDependents", "false"),
                ("gracePeriodSeconds", "0"),
                ("gracePeriodSeconds", "x"),
                ("dryRun", "All"),
                ("dryRun", "Some"),
                ("uid", "<<uid:a>>"),
                ("uid", "7a3c4a3e-0000-4000-8000-000000000000"),
            ];
            if request.path != target.collection() {
                options.extend([("resourceVersion", "<<rv:a>>"), ("resourceVersion", "<<rv0:a>>")]);
            }
            if target.collected {
                options.retain(|(name, value)| *name != "orphanDependents" && !waits(value));
            }
            let (name, value) = *pick(&options, random);
            request.with(name, value)
        }
    }
}

fn delete(target: &TargetKind, random: &mut StdRng) -> Request {
    let request = Request::new("DELETE", target.object(name(random)));
    if target.deletes { delete_options(target, request, random) } else { request.with("dryRun", "Some") }
}

fn delete_collection(target: &TargetKind, random: &mut StdRng) -> Request {
    if !target.deletes {
        return list(target, random);
    }
    let mut request = selectors(Request::new("DELETE", target.collection()), random);
    if chance(20, random) {
        request = request.with("limit", *pick(&["1", "2"], random));
    }
    target.confine(delete_options(target, request, random))
}

fn watch(target: &TargetKind, random: &mut StdRng) -> Request {
    let mut request = selectors(Request::new("GET", target.collection()), random)
        .with("watch", *pick(&["1", "true", ""], random))
        .with("timeoutSeconds", "1");
    match random.random_range(0..10) {
        0..4 => request = request.with("resourceVersion", format!("<<rv0:{}>>", name(random))),
        4..6 => request = request.with("resourceVersion", "<<list>>"),
        6 => request = request.with("resourceVersion", "x"),
        7 => request = request.with("resourceVersion", "1"),
        _ => {}
    }
    if chance(25, random) {
        request = request.with("sendInitialEvents", *pick(&["true", "false"], random));
        if chance(80, random) {
            request = request.with("resourceVersionMatch", "NotOlderThan");
        }
        request = request.with("allowWatchBookmarks", "true");
    }
    target.confine(request)
}
