use super::*;
use crate::schema::{ListType, Schema};
use proptest::prelude::*;
use serde_json::json;

fn json_patched(document: &Value, patch: &Value) -> Result<Value, PatchError> {
    json_patch(document.clone(), patch.to_string().as_bytes()).map(|patched| patched.document)
}

fn schema() -> Schema {
    let item = || {
        Schema::object(
            "",
            None,
            [
                ("name", Schema::string("").optional()),
                ("value", Schema::integer("").optional()),
                ("other", Schema::integer("").optional()),
                ("tags", Schema::strings("", ListType::Set).optional()),
            ],
        )
    };
    let spec = Schema::object(
        "",
        None,
        [
            ("items", Schema::list("", ListType::Map(&["name"]), item()).optional()),
            ("plain", Schema::list("", ListType::Atomic, item()).optional()),
            ("tags", Schema::strings("", ListType::Set).optional()),
            ("labels", Schema::map("", Schema::string("")).optional()),
            ("one", item().optional()),
        ],
    );
    Schema::kind("io.example.v1.Kind", "", [("spec", spec.optional())])
}

fn strategic(spec: &Value, patch: &Value) -> Result<Value, PatchError> {
    let document = json!({"metadata": {"name": "a"}, "spec": spec});
    let patch = json!({"spec": patch}).to_string();
    let patched = strategic_merge_patch(document, patch.as_bytes(), &schema())?;
    Ok(patched.document["spec"].clone())
}

#[test]
fn json_patches_do_what_rfc_6902_says() {
    let document = json!({"a": [1, 2], "b": {"c~/": 1}});
    for (patch, want) in [
        (json!([{"op": "add", "path": "/a/-", "value": 3}]), json!({"a": [1, 2, 3], "b": {"c~/": 1}})),
        (json!([{"op": "add", "path": "/a/0", "value": 0}]), json!({"a": [0, 1, 2], "b": {"c~/": 1}})),
        (json!([{"op": "remove", "path": "/b/c~0~1"}]), json!({"a": [1, 2], "b": {}})),
        (json!([{"op": "replace", "path": "/b", "value": null}]), json!({"a": [1, 2], "b": null})),
        (json!([{"op": "move", "from": "/a", "path": "/d"}]), json!({"d": [1, 2], "b": {"c~/": 1}})),
        (
            json!([{"op": "copy", "from": "/a/1", "path": "/d"}]),
            json!({"a": [1, 2], "b": {"c~/": 1}, "d": 2}),
        ),
        (json!([{"op": "test", "path": "/a/0", "value": 1}]), document.clone()),
        (json!([]), document.clone()),
    ] {
        assert_eq!(json_patched(&document, &patch), Ok(want), "{patch}");
    }
}

#[test]
fn json_patches_have_the_ways_of_gos_library() {
    let document = json!({"a": [1, 2]});
    for (patch, want) in [
        (json!(null), document.clone()),
        (json!([{"op": "test", "path": "/b", "value": null}]), document.clone()),
        (json!([{"op": "replace", "path": "/b", "value": 1}]), json!({"a": [1, 2], "b": 1})),
        (json!([{"op": "copy", "from": "/b", "path": "/c"}]), json!({"a": [1, 2], "c": null})),
        (json!([{"op": "remove", "path": "/a/-1"}]), json!({"a": [1]})),
        (json!([{"op": "replace", "path": "/a/-2", "value": 7}]), json!({"a": [7, 2]})),
        (json!([{"op": "add", "path": "/a/-1", "value": 3}]), json!({"a": [1, 2, 3]})),
        (
            json!([
                {"op": "add", "path": "/x~1y", "value": [{"-1": [5, 6]}, [7]]},
                {"op": "replace", "path": "/x~1y/-2/-1/-1", "value": 8},
                {"op": "remove", "path": "/x~1y/-1/-1"},
            ]),
            json!({"a": [1, 2], "x/y": [{"-1": [5, 8]}, []]}),
        ),
    ] {
        assert_eq!(json_patched(&document, &patch), Ok(want), "{patch}");
    }
}

#[test]
fn json_patches_fail_in_three_ways() {
    let document = json!({"a": [1]});
    let code = |patch: &str| json_patch(document.clone(), patch.as_bytes()).unwrap_err().status().code;
    for malformed in ["", "{}", "[1]", "[{]", "7"] {
        assert_eq!(code(malformed), 400, "{malformed}");
    }
    for rejected in [
        r#"[{"op":"test","path":"/a/0","value":2}]"#,
        r#"[{"op":"remove","path":"/b"}]"#,
        r#"[{"op":"replace","path":"/a/1","value":1}]"#,
        r#"[{"op":"test","path":"/b","value":1}]"#,
        r#"[{"op":"move","from":"/b","path":"/c"}]"#,
        r#"[{"op":"remove","path":"/a/-2"}]"#,
        r#"[{"op":"add","path":"/b/c","value":1}]"#,
        r#"[{"op":"add","path":"/a/7","value":1}]"#,
        r#"[{"op":"jump","path":"/a"}]"#,
        r#"[{"op":"add","value":1}]"#,
        r#"[{"op":"copy","from":"/x/y","path":"/y"}]"#,
    ] {
        assert_eq!(code(rejected), 422, "{rejected}");
    }
    let many = Value::Array(vec![json!({"op": "test", "path": "/a/0", "value": 1}); 10_001]);
    let error = json_patched(&document, &many).unwrap_err();
    assert_eq!(error.status().code, 413);
    let text = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!(error.to_string(), text);
    let doubling: Vec<Value> = (0..30).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/-"})).collect();
    assert_eq!(json_patched(&document, &Value::Array(doubling)).unwrap_err().status().code, 422);
}

#[test]
fn no_json_patch_nests_deeper_than_a_body_may() {
    let rejected = |operations: Vec<Value>| {
        let error = json_patched(&json!({}), &Value::Array(operations)).unwrap_err();
        assert!(matches!(&error, PatchError::Rejected(why) if why.contains("max depth")), "{error:?}");
    };
    let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"a": inner}));
    let place = |levels: usize| format!("/x{}", "/a".repeat(levels));
    let mut doublings = vec![json!({"op": "add", "path": "/x", "value": nested(1)})];
    doublings
        .extend((0..14_u32).map(|n| json!({"op": "copy", "from": "/x", "path": place(2_usize.pow(n + 1))})));
    rejected(doublings);
    let longer = (0..14).map(|n| json!({"op": "add", "path": place(98 * n), "value": nested(98)})).collect();
    rejected(longer);
    let moved = json!([
        {"op": "add", "path": "/x", "value": nested(60)},
        {"op": "add", "path": "/y", "value": nested(60)},
        {"op": "move", "from": "/y", "path": place(60)},
    ]);
    rejected(moved.as_array().unwrap().clone());
    let at = |path: &str| json!([{"op": "add", "path": path, "value": nested(98)}]);
    let deepest = json_patched(&json!({"x": {"y": {}}}), &at("/x/y"));
    assert_eq!(deepest, Ok(json!({"x": {"y": nested(98)}})), "as deep as a body may be");
    assert!(json_patched(&json!({"x": {"y": {}}}), &at("/x/y/z")).is_err());
}

#[test]
fn no_pointer_of_a_json_patch_is_followed_further_than_a_body_nests() {
    let nested = (0..97).fold(json!({}), |inner, _| json!({"a": inner}));
    let endless = format!("/x{}{}", "/a".repeat(97), "/-".repeat(100_000));
    for operation in [
        json!({"op": "remove", "path": endless}),
        json!({"op": "test", "path": endless, "value": null}),
        json!({"op": "copy", "from": endless, "path": "/y"}),
        json!({"op": "move", "from": endless, "path": "/y"}),
    ] {
        let error = json_patched(&json!({"x": nested}), &json!([operation])).unwrap_err();
        assert!(matches!(&error, PatchError::Rejected(why) if why.contains("max depth")), "{error:?}");
    }
}

#[test]
fn json_patches_do_a_bounded_amount_of_work() {
    let too_large = |document: &Value, operations: &Value| {
        assert_eq!(json_patched(document, operations).unwrap_err().status().code, 413);
    };
    let long = json!({"x": vec![0; JSON_PATCH_STEPS_MAX / 1_000]});
    let times = |count: usize, operation: Value| Value::Array(vec![operation; count]);
    too_large(&long, &times(1_100, json!({"op": "remove", "path": "/x/0"})));
    too_large(&long, &times(1_001, json!({"op": "add", "path": "/x/0", "value": 1})));
    too_large(&long, &times(1_001, json!({"op": "move", "from": "/x", "path": "/x"})));
    let usual = json!({"x": vec![0; 1_000]});
    assert!(json_patched(&usual, &times(1_000, json!({"op": "remove", "path": "/x/0"}))).is_ok());
}

#[test]
fn the_copies_of_a_json_patch_take_a_bounded_amount_of_memory() {
    let document = json!({"x": vec![json!({"": 0}); 1_000]});
    let copies = |count: usize| {
        let copy = |number: usize| json!({"op": "copy", "from": "/x", "path": format!("/y{number}")});
        json_patched(&document, &(0..count).map(copy).collect())
    };
    assert!(copies(20).is_ok());
    let error = copies(100).unwrap_err();
    assert!(matches!(&error, PatchError::Rejected(why) if why.contains("copies")), "{error:?}");
}

#[test]
fn a_patch_tells_which_revision_it_names() {
    let document = json!({"metadata": {"resourceVersion": "7"}});
    let merged =
        merge_patch(document.clone(), br#"{"metadata":{"resourceVersion":"6","resourceVersion":"7"}}"#);
    assert_eq!(merged.unwrap().revisions, ["7"]);
    for none in ["{}", r#"{"metadata":{"resourceVersion":7}}"#, r#"{"metadata":null}"#] {
        assert!(merge_patch(document.clone(), none.as_bytes()).unwrap().revisions.is_empty(), "{none}");
    }
    let patch = br#"{"metadata":{"resourceVersion":"7"}}"#;
    assert_eq!(strategic_merge_patch(document.clone(), patch, &schema()).unwrap().revisions, ["7"]);
    let patch = json!([
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/other", "value": "8"},
    ]);
    assert_eq!(json_patch(document, patch.to_string().as_bytes()).unwrap().revisions, ["7"]);
}

#[test]
fn merge_patches_do_what_rfc_7386_says() {
    let document = json!({"a": {"b": 1, "c": [1]}, "d": 2});
    for (patch, want) in [
        (json!({"a": {"b": null, "c": [2], "e": {"f": null}}}), json!({"a": {"c": [2], "e": {}}, "d": 2})),
        (json!({"a": null, "d": {"x": 1}}), json!({"d": {"x": 1}})),
        // Not RFC 7386, but what a Go server does with nulls within lists.
        (json!({"a": [null, {"x": null, "y": 1}]}), json!({"a": [null, {"y": 1}], "d": 2})),
        (json!({}), document.clone()),
    ] {
        let patched = merge_patch(document.clone(), patch.to_string().as_bytes()).unwrap();
        assert_eq!(patched.document, want, "{patch}");
    }
    assert_eq!(merge_patch(document.clone(), b"{").unwrap_err().status().code, 400);
    assert_eq!(merge_patch(document.clone(), b"[]").unwrap_err().status().code, 400);
    let twice = merge_patch(document, br#"{"d":1,"d":3}"#).unwrap();
    assert_eq!(
        (twice.document["d"].clone(), twice.strict_errors),
        (json!(3), vec!["duplicate field \"d\"".to_owned()])
    );
}

#[test]
fn strategic_lists_merge_as_the_schema_says() {
    let items = json!({"items": [{"name": "a", "value": 1}, {"name": "b", "value": 2}]});
    for (patch, want) in [
        (
            json!({"items": [{"name": "b", "value": 3}]}),
            json!([{"name": "a", "value": 1}, {"name": "b", "value": 3}]),
        ),
        (json!({"items": [{"name": "b", "value": null}]}), json!([{"name": "a", "value": 1}, {"name": "b"}])),
        (
            json!({"items": [{"name": "c", "value": null}]}),
            json!([{"name": "c"}, {"name": "a", "value": 1}, {"name": "b", "value": 2}]),
        ),
        (json!({"items": [{"name": "a", "$patch": "delete"}]}), json!([{"name": "b", "value": 2}])),
        (json!({"items": [{"$patch": "replace"}, {"name": "c"}]}), json!([{"name": "c"}])),
        (json!({"items": []}), items["items"].clone()),
        (
            json!({"items": [{"name": "b", "$patch": "delete"}, {"name": "b", "other": 1}]}),
            json!([{"name": "b", "other": 1}, {"name": "a", "value": 1}]),
        ),
        (
            json!({"items": [{"name": "a", "tags": ["x"], "$retainKeys": ["name", "tags"]}]}),
            json!([
            {"name": "a", "tags": ["x"]}, {"name": "b", "value": 2}]),
        ),
    ] {
        assert_eq!(strategic(&items, &patch).unwrap()["items"], want, "{patch}");
    }
    let replaced = strategic(&json!({"plain": [{"name": "a"}]}), &json!({"plain": [{"name": "b"}]})).unwrap();
    assert_eq!(replaced["plain"], json!([{"name": "b"}]));
    assert_eq!(strategic(&items, &json!({"items": null})).unwrap(), json!({}));
}

#[test]
fn strategic_sets_are_united() {
    let tags = json!({"tags": ["a", "b"]});
    for (patch, want) in [
        (json!({"tags": ["c", "a"]}), json!(["c", "a", "b"])),
        (json!({"$deleteFromPrimitiveList/tags": ["a", "x"]}), json!(["b"])),
        (json!({"$setElementOrder/tags": ["b", "a"]}), json!(["b", "a"])),
        (json!({"$setElementOrder/tags": ["c", "b", "a"], "tags": ["c"]}), json!(["c", "b", "a"])),
        (
            json!({"$deleteFromPrimitiveList/tags": ["a"], "$setElementOrder/tags": ["c", "b"], "tags": ["c"]}),
            json!(["c", "b"]),
        ),
    ] {
        assert_eq!(strategic(&tags, &patch).unwrap()["tags"], want, "{patch}");
    }
    let absent = strategic(&json!({}), &json!({"$deleteFromPrimitiveList/tags": ["a"]})).unwrap();
    assert_eq!(absent, json!({}));
}

#[test]
fn strategic_order_is_kept_for_what_the_patch_does_not_name() {
    let items = json!({"items": [{"name": "a"}, {"name": "s"}, {"name": "b"}, {"name": "t"}]});
    let patch = json!({"$setElementOrder/items": [{"name": "b"}, {"name": "c"}, {"name": "a"}], "items": [{"name": "c"}]});
    let names: Vec<Value> = strategic(&items, &patch).unwrap()["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["name"].clone())
        .collect();
    assert_eq!(names, ["s", "b", "c", "a", "t"]);
    let wrong = json!({"$setElementOrder/items": [{"name": "b"}], "items": [{"name": "c"}]});
    assert_eq!(strategic(&items, &wrong).unwrap_err().status().code, 400);
}

#[test]
fn strategic_maps_follow_their_directives() {
    let spec = json!({"one": {"name": "a", "value": 1}, "labels": {"x": "1", "y": "2"}});
    for (patch, want) in [
        (
            json!({"one": {"$patch": "replace", "name": "b"}}),
            json!({"one": {"name": "b"}, "labels": {"x": "1", "y": "2"}}),
        ),
        (json!({"one": {"$patch": "delete"}}), json!({"one": {}, "labels": {"x": "1", "y": "2"}})),
        (
            json!({"labels": {"x": null, "z": "3"}}),
            json!({"one": {"name": "a", "value": 1}, "labels": {"y": "2", "z": "3"}}),
        ),
        (json!({"$retainKeys": ["one"]}), json!({"one": {"name": "a", "value": 1}})),
    ] {
        assert_eq!(strategic(&spec, &patch).unwrap(), want, "{patch}");
    }
    for wrong in [
        json!({"one": {"$patch": "merge"}}),
        json!({"$retainKeys": ["labels"], "one": {}}),
        json!({"$setElementOrder/tags": 1}),
        json!({"$deleteFromPrimitiveList/tags": 1}),
    ] {
        assert_eq!(strategic(&spec, &wrong).unwrap_err().status().code, 400, "{wrong}");
    }
    for wrong in [json!({"items": [{"value": 1}]}), json!({"items": [1]})] {
        let spec = json!({"items": [{"name": "a"}]});
        assert_eq!(strategic(&spec, &wrong).unwrap_err().status().code, 400, "{wrong}");
    }
}

#[test]
fn the_garbage_collector_can_drop_an_owner() {
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "A", "name": uid, "uid": uid});
    let document = json!({"metadata": {"uid": "self", "ownerReferences": [owner("1"), owner("2")]}});
    let patch = br#"{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"1"}],"uid":"self"}}"#;
    let patched = strategic_merge_patch(document, patch, &schema()).unwrap();
    assert_eq!(patched.document["metadata"]["ownerReferences"], json!([owner("2")]));
}

fn any_patch() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        (0..3).prop_map(Value::from),
        prop::sample::select(vec!["a", "b", "delete", "replace", "merge"]).prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "spec",
        "items",
        "tags",
        "name",
        "value",
        "labels",
        "metadata",
        "finalizers",
        "$patch",
        "$retainKeys",
        "$setElementOrder/items",
        "$setElementOrder/tags",
        "$deleteFromPrimitiveList/tags",
    ]);
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keys.clone(), inner), 0..4)
                .prop_map(|pairs| pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn no_patch_brings_the_server_down(document in any_patch(), patch in any_patch()) {
        let text = patch.to_string();
        // The outcome does not matter: there must be one.
        drop(merge_patch(document.clone(), text.as_bytes()));
        drop(json_patch(document.clone(), text.as_bytes()));
        if let Ok(patched) = strategic_merge_patch(document, text.as_bytes(), &schema()) {
            prop_assert!(patched.document.is_object());
        }
    }

    #[test]
    fn a_merge_patch_applied_twice_changes_nothing_more(document in any_patch(), patch in any_patch()) {
        let text = patch.to_string();
        if let Ok(once) = merge_patch(document, text.as_bytes()) {
            prop_assert_eq!(&merge_patch(once.document.clone(), text.as_bytes()).unwrap().document, &once.document);
        }
    }

    #[test]
    fn json_patches_never_panic(op in "add|remove|replace|move|copy|test", path in "(/[ab0-9~-]{0,3}){0,3}", from in "(/[ab0-9~-]{0,3}){0,3}") {
        let patch = json!([{"op": op, "path": path, "from": from, "value": 1}]).to_string();
        drop(json_patch(json!({"a": [1, {"b": 2}], "b": {"a": 0}}), patch.as_bytes()));
    }
}
