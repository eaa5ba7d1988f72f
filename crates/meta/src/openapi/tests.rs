use super::*;
use crate::schema::ListType;
use std::collections::BTreeSet;

const PATCH_TYPES: [&str; 2] = ["application/json-patch+json", "application/merge-patch+json"];

fn schema() -> Schema {
    let spec = Schema::object(
        "What is wanted.",
        Some("io.example.v1.WidgetSpec"),
        [
            ("size", Schema::int32("Size in centimetres.").required()),
            (
                "phase",
                Schema::one_of("Phase of life.", &["Pending", "Active"])
                    .with_default(json!("Pending"))
                    .optional(),
            ),
            ("hard", Schema::resource_list("Limits by resource name.").optional()),
            ("speed", Schema::quantity("Speed in metres a second.").optional()),
            ("tags", Schema::strings("Tags.", ListType::Set).optional()),
            ("free", Schema::any("Anything.").optional()),
            ("word", Schema::string("A word on it.").at_most(63).optional()),
            ("parts", Schema::map("Its parts, where they are known.", Schema::string("")).always().or_null()),
        ],
    );
    Schema::kind(
        "io.example.v1.Widget",
        "A thing with a size.",
        [
            ("spec", spec.with_default(json!({})).optional()),
            ("conditions", Schema::conditions("How it is.").optional()),
        ],
    )
}

fn documents() -> (Value, Value) {
    let schema = schema();
    let resource = |namespaced, plural| OpenApiResource {
        kind: GroupVersionKind::new("example.io", "v1", "Widget"),
        plural,
        singular: "widget",
        namespaced,
        singleton: false,
        schema: &schema,
        verbs: &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        subresources: &[
            OpenApiSubresource { name: "status", verbs: &["get", "patch", "update"], own: None },
            OpenApiSubresource { name: "finalize", verbs: &["update"], own: None },
        ],
    };
    let resources = [resource(true, "widgets"), resource(false, "gadgets")];
    let info = OpenApiInfo { title: "Example", version: "v1", patch_types: &PATCH_TYPES };
    let read = |text: String| serde_json::from_str(&text).unwrap();
    (read(v2(&info, &resources)), read(v3(&info, "example.io", "v1", &resources)))
}

#[test]
fn every_reference_leads_somewhere() {
    let (v2, v3) = documents();
    for (document, pointer) in [(&v2, "#/definitions/"), (&v3, "#/components/schemas/")] {
        let text = document.to_string();
        let references: BTreeSet<&str> =
            text.split("\"$ref\":\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(references.len() > 8);
        for reference in references {
            assert!(reference.starts_with(pointer), "{reference}");
            let target = document.pointer(reference.trim_start_matches('#')).unwrap();
            assert!(target["description"].is_string(), "{reference}: {target}");
        }
    }
}

#[test]
fn paths_and_operations_are_those_that_are_served() {
    let (v2, v3) = documents();
    let paths: Vec<&String> = v3["paths"].as_object().unwrap().keys().collect();
    assert_eq!(
        paths,
        [
            "/apis/example.io/v1/gadgets",
            "/apis/example.io/v1/gadgets/{name}",
            "/apis/example.io/v1/gadgets/{name}/finalize",
            "/apis/example.io/v1/gadgets/{name}/status",
            "/apis/example.io/v1/namespaces/{namespace}/widgets",
            "/apis/example.io/v1/namespaces/{namespace}/widgets/{name}",
            "/apis/example.io/v1/namespaces/{namespace}/widgets/{name}/finalize",
            "/apis/example.io/v1/namespaces/{namespace}/widgets/{name}/status",
            "/apis/example.io/v1/widgets",
        ]
    );
    assert_eq!(v2["paths"].as_object().unwrap().keys().collect::<Vec<_>>(), paths);
    let item = &v3["paths"]["/apis/example.io/v1/namespaces/{namespace}/widgets/{name}"];
    let kind = json!({"group": "example.io", "version": "v1", "kind": "Widget"});
    for (method, action, id) in [
        ("get", "get", "readExampleIoV1NamespacedWidget"),
        ("put", "put", "replaceExampleIoV1NamespacedWidget"),
        ("patch", "patch", "patchExampleIoV1NamespacedWidget"),
        ("delete", "delete", "deleteExampleIoV1NamespacedWidget"),
    ] {
        assert_eq!(item[method]["x-kubernetes-action"], action);
        assert_eq!(item[method]["x-kubernetes-group-version-kind"], kind);
        assert_eq!(item[method]["operationId"], id);
    }
    let all = &v3["paths"]["/apis/example.io/v1/widgets"];
    assert_eq!(all["get"]["operationId"], "listExampleIoV1WidgetForAllNamespaces");
    assert!(all.get("post").is_none() && all.get("delete").is_none());
    assert!(v3["paths"]["/apis/example.io/v1/gadgets/{name}/finalize"].get("patch").is_none());
}

#[test]
fn every_patch_lists_its_types_and_its_parameters_in_place() {
    let (v2, v3) = documents();
    for path in ["/apis/example.io/v1/gadgets/{name}", "/apis/example.io/v1/gadgets/{name}/status"] {
        for document in [&v2, &v3] {
            let patch = &document["paths"][path]["patch"];
            let named =
                |name: &str| patch["parameters"].as_array().unwrap().iter().any(|p| p["name"] == name);
            for name in ["dryRun", "fieldManager", "fieldValidation", "force"] {
                assert!(named(name), "{path} {name}");
            }
        }
        let content = v3["paths"][path]["patch"]["requestBody"]["content"].as_object().unwrap();
        assert_eq!(content.keys().collect::<Vec<_>>(), PATCH_TYPES);
        assert_eq!(v2["paths"][path]["patch"]["consumes"], json!(PATCH_TYPES));
    }
}

#[test]
fn definitions_say_what_the_schema_says() {
    let (v2, v3) = documents();
    let schemas = &v3["components"]["schemas"];
    let widget = &schemas["io.example.v1.Widget"];
    assert_eq!(
        widget["x-kubernetes-group-version-kind"],
        json!([{"group": "example.io", "version": "v1", "kind": "Widget"}])
    );
    assert_eq!(widget["description"], "A thing with a size.");
    let reference = "#/components/schemas/io.example.v1.WidgetSpec";
    assert_eq!(widget["properties"]["spec"], json!({"allOf": [{"$ref": reference}], "default": {}}));
    let conditions = &widget["properties"]["conditions"];
    assert_eq!(conditions["x-kubernetes-list-type"], "map");
    assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
    assert_eq!(conditions["x-kubernetes-patch-merge-key"], "type");
    let spec = &schemas["io.example.v1.WidgetSpec"];
    assert_eq!(spec["required"], json!(["size"]));
    assert_eq!(spec["properties"]["phase"]["default"], "Pending");
    assert_eq!(spec["properties"]["phase"]["enum"], json!(["Pending", "Active"]));
    assert_eq!(spec["properties"]["tags"]["x-kubernetes-list-type"], "set");
    assert_eq!(spec["properties"]["free"]["x-kubernetes-preserve-unknown-fields"], true);
    assert_eq!(spec["properties"]["speed"]["description"], "Speed in metres a second.");
    assert_eq!(spec["properties"]["size"]["format"], "int32");
    assert_eq!(spec["properties"]["word"]["maxLength"], 63);
    let owner = &schemas["io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference"];
    assert_eq!(owner["x-kubernetes-map-type"], "atomic");
    assert_eq!(
        schemas["io.example.v1.WidgetList"]["x-kubernetes-group-version-kind"][0]["kind"],
        "WidgetList"
    );
    let older = &v2["definitions"]["io.example.v1.WidgetSpec"]["properties"];
    assert_eq!(older["size"]["type"], "integer");
    let parts = &spec["properties"]["parts"];
    assert_eq!((&parts["type"], &parts["nullable"]), (&json!("object"), &json!(true)));
    assert_eq!(older["parts"], json!({"description": "Its parts, where they are known."}));
}

#[test]
fn a_quantity_may_be_a_number_whatever_its_definition_is_called() {
    let (v2, v3) = documents();
    let name = "io.k8s.apimachinery.pkg.api.resource.Quantity";
    let older = &v2["definitions"][name];
    assert_eq!((&older["type"], &older["format"]), (&json!("string"), &json!("int-or-string")));
    let newer = &v3["components"]["schemas"][name];
    assert_eq!(newer["oneOf"], json!([{"type": "string"}, {"type": "number"}]));
}

#[test]
fn every_field_has_a_description() {
    let (_, v3) = documents();
    for (name, schema) in v3["components"]["schemas"].as_object().unwrap() {
        for (field, shape) in schema["properties"].as_object().into_iter().flatten() {
            let described = shape["description"].is_string()
                || shape.get("$ref").is_some()
                || shape.get("allOf").is_some();
            assert!(described, "{name}.{field}");
        }
    }
}

#[test]
fn equal_input_gives_equal_bytes() {
    let (first, second) = (documents(), documents());
    assert_eq!(first.0.to_string(), second.0.to_string());
    assert_eq!(first.1.to_string(), second.1.to_string());
}

#[test]
fn a_strategic_merge_is_offered_where_clients_can_compute_it() {
    const STRATEGIC: &str = "application/strategic-merge-patch+json";
    let info = OpenApiInfo {
        title: "Example",
        version: "v1",
        patch_types: &["application/merge-patch+json", STRATEGIC],
    };
    let limits = || {
        let hard = Schema::resource_list("By resource.").optional();
        Schema::object("Limits.", None, [("name", Schema::string("Name.").required()), ("hard", hard)])
    };
    let places = || Schema::map("By place.", limits());
    let holder = Schema::object("Holds places.", None, [("places", places().optional())]);
    let scalars = Schema::map("By name.", Schema::string("A word."));
    for (is_offered, shape) in [
        (true, Schema::resource_list("By resource.")),
        (true, Schema::list("By name.", ListType::Map(&["name"]), limits())),
        (false, places()),
        (false, Schema::map("Words.", scalars)),
        (false, Schema::map("Tags.", Schema::strings("Tags.", ListType::Set))),
        (false, Schema::map("Anything.", Schema::any("Anything."))),
        (false, Schema::list("Holders.", ListType::Atomic, holder)),
    ] {
        let schema = Schema::kind("io.example.v1.Shop", "A shop.", [("spec", shape.optional())]);
        let resource = OpenApiResource {
            kind: GroupVersionKind::new("example.io", "v1", "Shop"),
            plural: "shops",
            singular: "shop",
            namespaced: false,
            singleton: false,
            schema: &schema,
            verbs: &["get", "patch"],
            subresources: &[OpenApiSubresource { name: "status", verbs: &["get", "patch"], own: None }],
        };
        let resources = [resource];
        let read = |text: String| -> Value { serde_json::from_str(&text).unwrap() };
        let (second, third) = (read(v2(&info, &resources)), read(v3(&info, "example.io", "v1", &resources)));
        for path in ["/apis/example.io/v1/shops/{name}", "/apis/example.io/v1/shops/{name}/status"] {
            let consumes = second["paths"][path]["patch"]["consumes"].as_array().unwrap();
            let content = third["paths"][path]["patch"]["requestBody"]["content"].as_object().unwrap();
            assert_eq!(consumes.contains(&json!(STRATEGIC)), is_offered, "{path}: {schema:?}");
            assert_eq!(content.contains_key(STRATEGIC), is_offered, "{path}: {schema:?}");
            assert!(content.contains_key("application/merge-patch+json"));
        }
    }
}

#[test]
fn nothing_is_a_kind_of_the_core_group() {
    let (v2, v3) = documents();
    for definitions in [&v2["definitions"], &v3["components"]["schemas"]] {
        let definitions = definitions.as_object().unwrap().values();
        let kinds = definitions.filter_map(|shape| shape["x-kubernetes-group-version-kind"].as_array());
        let groups: BTreeSet<&str> = kinds.flatten().map(|kind| kind["group"].as_str().unwrap()).collect();
        assert_eq!(groups, BTreeSet::from(["example.io"]));
    }
}
