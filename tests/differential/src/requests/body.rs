//! Random bodies: what the schema allows, and what it does not.

use super::plan::{chance, pick};
use super::target::TargetKind;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Map, Value, json};

const WORDS: [&str; 4] = ["x", "w", "z", "<&> \u{e9}\u{1f600}\n"];
/// What names somebody: what we know of names elsewhere is that they have no control characters.
const NAMES: [&str; 4] = ["x", "w", "z", "<&> \u{e9}\u{1f600}"];
const KEYS: [&str; 3] = ["k", "l", "m"];

/// An object that is fine.
pub(crate) fn object(target: &TargetKind, name: &str, random: &mut StdRng) -> Value {
    let mut metadata = json!({"name": format!("<<name:{name}>>")});
    if target.namespaced && chance(50, random) {
        metadata["namespace"] = json!("<<ns>>");
    }
    let mut labels = target.labels();
    for (key, value) in [("tier", *pick(&["x", "w"], random)), ("app", "q"), ("num", "3")] {
        if chance(30, random) {
            labels[key] = json!(value);
        }
    }
    metadata["labels"] = labels;
    if chance(20, random) {
        metadata["annotations"] = json!({"note": pick(&WORDS, random), "example.com/Other": ""});
    }
    if chance(12, random) {
        let finalizers = [
            json!(["example.com/hold"]),
            json!(["example.com/hold", "example.com/other"]),
            json!(["short"]),
            json!(["short.example.com"]),
            json!(["a/b"]),
            json!(["x_y/z"]),
        ];
        metadata["finalizers"] = pick(&finalizers, random).clone();
    }
    let mut out = json!({"apiVersion": "<<G>>/v1", "kind": target.kind, "metadata": metadata});
    if chance(92, random) || !target.namespaced {
        out["spec"] = properties(&target.spec, random);
    }
    if chance(10, random) {
        out["status"] = status(random);
    }
    out
}

/// A part of an object, as a patch has it.
pub(crate) fn fragment(target: &TargetKind, random: &mut StdRng) -> Value {
    let mut out = json!({"metadata": {}});
    if chance(80, random) || !target.namespaced {
        out["spec"] = properties(&target.spec, random);
    }
    if chance(40, random) {
        out["metadata"]["labels"] = json!({"tier": pick(&["x", "w", "z"], random)});
    }
    if chance(15, random) {
        let finalizers = [json!(["example.com/hold"]), json!([]), json!(["example.com/new"])];
        out["metadata"]["finalizers"] = pick(&finalizers, random).clone();
    }
    if chance(10, random) {
        out["metadata"]["annotations"] = json!({"note": pick(&WORDS, random)});
    }
    if !target.namespaced {
        out["metadata"]["labels"]["case"] = json!("<<case>>");
    }
    out
}

/// A status.
pub(crate) fn status(random: &mut StdRng) -> Value {
    let mut out = json!({});
    if chance(70, random) {
        out["phase"] = json!(pick(&["Active", "Failed"], random));
    }
    if chance(40, random) {
        out["conditions"] = json!([{"type": pick(&["Ready", "Done"], random), "status": "True", "reason": "R",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    }
    out
}

fn properties(schema: &Value, random: &mut StdRng) -> Value {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut out = Map::new();
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if required.contains(&json!(name)) || chance(30, random) {
            out.insert(name.clone(), value(schema, random));
        }
    }
    Value::Object(out)
}

/// A value that a JSON schema allows.
fn value(schema: &Value, random: &mut StdRng) -> Value {
    if schema["x-kubernetes-int-or-string"] == json!(true) {
        return json!(pick(&["1", "250m", "4Gi", "0"], random));
    }
    if let Some(values) = schema["enum"].as_array() {
        return pick(values, random).clone();
    }
    match schema["type"].as_str().unwrap_or_default() {
        "object" if schema["properties"].is_object() => properties(schema, random),
        "object" if schema["additionalProperties"].is_object() => {
            let keys = KEYS.iter().filter(|_| chance(50, random)).copied().collect::<Vec<_>>();
            keys.into_iter()
                .map(|key| (key.to_owned(), value(&schema["additionalProperties"], random)))
                .collect()
        }
        "object" => {
            json!({"any": [1, "two", {"three": null, "four": 4.5}], "big": 9_007_199_254_740_993_i64, "nulls": [null, 1]})
        }
        "array" => list(schema, random),
        "integer" => json!(random.random_range(0..4)),
        "boolean" => json!(chance(50, random)),
        _ => json!(pick(&WORDS, random)),
    }
}

fn list(schema: &Value, random: &mut StdRng) -> Value {
    let keys = schema["x-kubernetes-list-map-keys"].as_array();
    let mut out: Vec<Value> = Vec::new();
    for _ in 0..random.random_range(0..3) {
        let items = &schema["items"];
        let is_name = items["type"] == json!("string") && items["enum"].is_null();
        let item = if is_name { json!(pick(&NAMES, random)) } else { value(items, random) };
        let twin = |other: &Value| match (keys, schema["x-kubernetes-list-type"].as_str()) {
            (Some(keys), _) => keys.iter().filter_map(Value::as_str).all(|key| other[key] == item[key]),
            (None, Some("set")) => *other == item,
            _ => false,
        };
        if !out.iter().any(twin) {
            out.push(item);
        }
    }
    Value::Array(out)
}

/// One thing that is odd or wrong.
pub(crate) fn spoil(target: &TargetKind, object: &mut Value, random: &mut StdRng) {
    match random.random_range(0..4) {
        0 => spoil_spec(target, object, random),
        1 => spoil_type(object, random),
        _ => spoil_metadata(target, object, random),
    }
}

fn spoil_spec(target: &TargetKind, object: &mut Value, random: &mut StdRng) {
    let names: Vec<&String> = target.spec["properties"].as_object().into_iter().flat_map(Map::keys).collect();
    let field = pick(&names, random).as_str();
    match random.random_range(0..8) {
        // The twin takes objects only where anything can stand, and leaves amounts as they are written.
        0 | 3 if ["free", "amount", "limits"].contains(&field) => {}
        0 => object["spec"][field] = Value::Null,
        1 => object["spec"]["unknown"] = json!({"a": 1}),
        2 => object["unknown"] = json!(1),
        3 => {
            let values = [json!(1.5), json!({"x": 1}), json!([{}]), json!(true), json!("t")];
            object["spec"][field] = pick(&values, random).clone();
        }
        4 => object["spec"] = pick(&[json!([]), json!("x"), Value::Null, json!({})], random).clone(),
        5 if target.spec["properties"]["size"].is_object() => object["spec"]["size"] = json!(-1),
        6 if target.spec["properties"]["mode"].is_object() => object["spec"]["mode"] = json!("Other"),
        _ => object["spec"]["Text"] = json!("case counts"),
    }
}

fn spoil_type(object: &mut Value, random: &mut StdRng) {
    match random.random_range(0..7) {
        0 => object["kind"] = json!("Pod"),
        1 => object["apiVersion"] = json!("v1"),
        2 => object["apiVersion"] = json!("<<G>>/v2"),
        3 => object["kind"] = json!(""),
        4 => object["kind"] = json!(7),
        5 => drop(object.as_object_mut().and_then(|map| map.remove("kind"))),
        _ => drop(object.as_object_mut().and_then(|map| map.remove("apiVersion"))),
    }
}

fn spoil_metadata(target: &TargetKind, object: &mut Value, random: &mut StdRng) {
    let (field, value) = pick(&odd_metadata(), random).clone();
    if target.collected && value.to_string().contains("foregroundDeletion") {
        return;
    }
    if field == "labels" && value.is_object() {
        let mut value = value;
        if let Some(case) = object["metadata"]["labels"].get("case") {
            value["case"] = case.clone();
        }
        object["metadata"][field] = value;
    } else if object["metadata"]["labels"].get("case").is_none() || field != "labels" {
        object["metadata"][field] = value;
    }
}

/// Fields of metadata, and what hardly anybody sends in them.
fn odd_metadata() -> Vec<(&'static str, Value)> {
    let (long, huge) = ("l".repeat(64), "n".repeat(254));
    let mut choices = odd_owners();
    choices.extend([
        ("labels", json!({"tier": "a b"})),
        ("labels", json!({"-": "x"})),
        ("labels", json!({"a/b/c": "x"})),
        ("labels", json!({"tier": 5})),
        ("labels", json!({"tier": null})),
        ("labels", json!({"tier": long})),
        ("labels", Value::Null),
        ("annotations", json!({"Bad Key": "x"})),
        ("annotations", json!({"UPPER.example.com/Key": "x"})),
        ("finalizers", json!(["bad finalizer"])),
        ("finalizers", json!(["orphan", "foregroundDeletion"])),
        ("finalizers", json!(["foregroundDeletion"])),
        ("finalizers", json!(["example.com/hold", "example.com/hold"])),
        ("finalizers", json!([])),
        ("generation", json!(7)),
        ("generation", json!(-1)),
        ("uid", json!("7a3c4a3e-0000-4000-8000-000000000000")),
        ("resourceVersion", json!("1")),
        ("resourceVersion", json!("0")),
        ("resourceVersion", json!("x")),
        ("creationTimestamp", json!("2020-01-01T00:00:00Z")),
        ("creationTimestamp", Value::Null),
        ("creationTimestamp", json!("yesterday")),
        ("deletionTimestamp", json!("2020-01-01T00:00:00Z")),
        ("deletionGracePeriodSeconds", json!(5)),
        ("selfLink", json!("/x")),
        ("namespace", json!("elsewhere")),
        ("managedFields", json!([])),
        ("managedFields", json!([{}])),
        ("managedFields", json!([{"manager": "m", "operation": "Update", "apiVersion": "<<G>>/v1",
            "time": "2020-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:text": {}}}}])),
        ("managedFields", json!([{"manager": "m", "operation": "Steal", "fieldsType": "FieldsV1", "fieldsV1": {}}])),
        ("managedFields", json!([{"manager": "m", "operation": "Update", "apiVersion": "<<G>>/v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"x:bad": {}}}])),
        ("name", json!("Upper")),
        ("name", json!("<<name:x>>.dots")),
        ("name", json!("a/b")),
        ("name", json!(huge)),
        ("name", json!("-a")),
        ("name", json!("")),
        ("name", Value::Null),
        ("name", json!(5)),
        ("unknown", json!(1)),
        ("generateName", json!("x-")),
    ]);
    choices
}

fn odd_owners() -> Vec<(&'static str, Value)> {
    let owner = json!({"apiVersion": "v1", "kind": "Secret", "name": "o", "uid": "o1"});
    let controller =
        json!({"apiVersion": "v1", "kind": "Secret", "name": "o", "uid": "o2", "controller": true});
    let second = json!({"apiVersion": "v1", "kind": "Secret", "name": "p", "uid": "o3", "controller": true});
    let event = json!({"apiVersion": "v1", "kind": "Event", "name": "o", "uid": "o4"});
    vec![
        ("ownerReferences", json!([owner])),
        ("ownerReferences", json!([owner, owner])),
        ("ownerReferences", json!([controller, second])),
        ("ownerReferences", json!([event])),
        ("ownerReferences", json!([{"apiVersion": "v1", "kind": "", "name": "", "uid": ""}])),
        ("ownerReferences", json!([{"apiVersion": "", "kind": "K", "name": "n", "uid": "u"}])),
    ]
}

/// The text of a body and its media type: mostly JSON, at times YAML, at times broken.
pub(crate) fn written(object: &Value, random: &mut StdRng) -> (String, String) {
    let json = object.to_string();
    let (content, text) = match random.random_range(0..60) {
        0 => ("application/yaml", serde_yaml_ng::to_string(object).unwrap_or_default()),
        1 => ("application/yaml", json),
        2 => ("application/json; charset=utf-8", json),
        3 => (
            "application/json",
            json.replacen("\"metadata\":{", "\"metadata\":{\"name\":\"<<name:twice>>\",", 1),
        ),
        4 => ("application/json", json.replacen("\"spec\":{", "\"spec\":{\"text\":\"1\",\"text\":\"2\",", 1)),
        5 => ("application/json", json.get(..json.len() / 2).unwrap_or_default().to_owned()),
        6 => ("application/json", format!("{json}x")),
        7 => (
            "application/json",
            (*pick(&["[]", "null", "1", "\"x\"", "", " ", "{}", "{"], random)).to_owned(),
        ),
        8 => (
            *pick(
                &["text/plain", "application/vnd.kubernetes.protobuf", "", "application/cbor", "garbage"],
                random,
            ),
            json,
        ),
        9 => ("application/yaml", "a: [".to_owned()),
        10 => ("application/yaml", format!("{json}\n---\n{json}")),
        _ => ("application/json", json),
    };
    (content.to_owned(), text)
}

/// One operation of a JSON patch.
pub(crate) fn operation(target: &TargetKind, random: &mut StdRng) -> Value {
    let part = json!({"name": pick(&["x", "w"], random)});
    let text = json!(pick(&WORDS, random));
    let operations = [
        json!({"op": "add", "path": "/metadata/labels/tier", "value": "z"}),
        json!({"op": "add", "path": "/metadata/annotations", "value": {"note": "n"}}),
        json!({"op": "remove", "path": "/metadata/labels/tier"}),
        json!({"op": "remove", "path": "/metadata/finalizers"}),
        json!({"op": "add", "path": "/metadata/finalizers", "value": ["example.com/hold"]}),
        json!({"op": "test", "path": "/metadata/name", "value": "<<name:a>>"}),
        json!({"op": "test", "path": "/metadata/labels/tier", "value": "x"}),
        json!({"op": "test", "path": "/spec/none", "value": null}),
        json!({"op": "replace", "path": "/metadata/resourceVersion", "value": "<<rv:a>>"}),
        json!({"op": "replace", "path": "/metadata/resourceVersion", "value": "<<rv0:a>>"}),
        json!({"op": "replace", "path": "/metadata/name", "value": "other"}),
        json!({"op": "replace", "path": "/metadata/uid", "value": "other"}),
        json!({"op": "replace", "path": "/kind", "value": "Other"}),
        json!({"op": "add", "path": "/spec/unknown", "value": 1}),
        json!({"op": "remove", "path": "/spec"}),
        json!({"op": "replace", "path": "/spec", "value": 7}),
        json!({"op": "add", "path": "/status", "value": {"phase": "Active"}}),
        json!({"op": "replace", "path": "", "value": {}}),
        json!({"op": "copy", "from": "/metadata/name", "path": "/metadata/labels/tier"}),
        json!({"op": "move", "from": "/metadata/labels/tier", "path": "/metadata/labels/app"}),
        json!({"op": "remove", "path": "/nowhere/at/all"}),
        json!({"op": "add", "path": "no-slash", "value": 1}),
        json!({"op": "replace", "path": "/metadata/labels/absent", "value": "1"}),
    ];
    let items = [
        json!({"op": "add", "path": "/spec/text", "value": text}),
        json!({"op": "replace", "path": "/spec/text", "value": text}),
        json!({"op": "remove", "path": "/spec/text"}),
        json!({"op": "copy", "from": "/spec/text", "path": "/spec/colour"}),
        json!({"op": "add", "path": "/spec/parts", "value": [part]}),
        json!({"op": "add", "path": "/spec/parts/-", "value": part}),
        json!({"op": "add", "path": "/spec/parts/0", "value": part}),
        json!({"op": "remove", "path": "/spec/parts/0"}),
        json!({"op": "remove", "path": "/spec/parts/7"}),
        json!({"op": "remove", "path": "/spec/steps/-1"}),
        json!({"op": "add", "path": "/spec/steps", "value": ["1", "2"]}),
        json!({"op": "add", "path": "/spec/options", "value": {"a~b/c": "1"}}),
        json!({"op": "test", "path": "/spec/options/a~0b~1c", "value": "1"}),
        json!({"op": "add", "path": "/spec/size", "value": "wrong"}),
        json!({"op": "add", "path": "/spec/size", "value": -3}),
        json!({"op": "add", "path": "/spec/flag", "value": null}),
    ];
    if target.namespaced && chance(50, random) {
        pick(&items, random).clone()
    } else {
        pick(&operations, random).clone()
    }
}
