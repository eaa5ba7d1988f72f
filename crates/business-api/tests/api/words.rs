//! Texts of fixed sets: what is outside its set is refused in every kind.

use crate::support::{World, member_cluster, project};
use apiserver::resource::ResourceSource;
use business_api::kinds::{KINDS, StrategyDependencies};
use meta::schema::{Schema, StringFormat, Type};
use serde_json::{Value, json};

/// The places of such texts, each with a value that has a wrong one there.
fn places(schema: &Schema, at: &str) -> Vec<(String, Value)> {
    let below = |schema: &Schema, at: String, wrap: &dyn Fn(Value) -> Value| -> Vec<(String, Value)> {
        places(schema, &at).into_iter().map(|(at, value)| (at, wrap(value))).collect()
    };
    match &schema.ty {
        Type::Struct { fields, .. } => fields
            .iter()
            .flat_map(|(name, field)| {
                below(&field.schema, format!("{at}.{name}"), &|value| json!({ (*name): value }))
            })
            .collect(),
        Type::Map { values, .. } => below(values, format!("{at}[k]"), &|value| json!({ "k": value })),
        Type::List { items, .. } => below(items, format!("{at}[0]"), &|value| json!([value])),
        Type::String(StringFormat::Enum(_)) => vec![(at.to_owned(), json!("Nonsense"))],
        _ => Vec::new(),
    }
}

async fn world() -> World {
    let world = World::new().await;
    world.register(member_cluster("c1", &["*"]), json!({})).await;
    world.admin("t").post("/projects", project("ca", json!({}))).await.expect(201);
    world
}

#[tokio::test]
async fn a_text_outside_its_set_is_refused_with_its_place_in_every_kind() {
    let world = world().await;
    let operator = world.operator();
    let mut tried = Vec::new();
    for resource in KINDS.resources(&StrategyDependencies::empty()) {
        let spec =
            resource.schema.field("spec").filter(|_| matches!(resource.source, ResourceSource::Stored(_)));
        for (place, spec) in spec.into_iter().flat_map(|spec| places(spec, "spec")) {
            let within = if resource.namespaced { "/namespaces/ca" } else { "" };
            let body = json!({
                "apiVersion": resource.gvk.api_version(), "kind": resource.gvk.kind, "metadata": {"name": "x"}, "spec": spec,
            });
            let answer = operator.post(&format!("{within}/{}", resource.plural), body).await;
            let cause = ("FieldValueNotSupported".to_owned(), place);
            assert!(answer.code == 422 && answer.causes().contains(&cause), "{cause:?}: {answer:?}");
            tried.push(format!("{} {}", resource.plural, cause.1));
        }
    }
    for place in [
        "memberclusters spec.identity",
        "namespacetemplates spec.limitRange.limits[0].type",
        "namespacetemplates spec.roleBindings[0].subjects[0].kind",
        "projects spec.access[0].role",
        "registrycredentials spec.access",
        "tenants spec.administrators[0].kind",
    ] {
        assert!(tried.iter().any(|tried| tried == place), "{place} of {tried:?}");
    }
}

#[tokio::test]
async fn a_change_is_held_to_the_same_texts() {
    let world = world().await;
    let admin = world.admin("t");
    let access = async |entry: Value| {
        let answer = admin.patch("/projects/ca", json!({"spec": {"access": [entry]}})).await;
        let fields: Vec<String> = answer.causes().into_iter().map(|(_, field)| field).collect();
        (answer.code, fields.join(" "), answer.message().to_owned())
    };
    let (code, fields, message) = access(json!({"kind": "User", "name": "zed", "role": "Edit"})).await;
    assert_eq!((code, fields.as_str()), (422, "spec.access[0].role"));
    let told = "Unsupported value: \"Edit\": supported values: \"admin\", \"edit\", \"view\"";
    assert!(message.ends_with(told), "{message}");
    for empty in [json!(null), json!({}), json!({"kind": "", "role": ""})] {
        let (code, fields, _) = access(empty).await;
        assert_eq!((code, fields.as_str()), (422, "spec.access[0].kind spec.access[0].role"));
    }
    assert_eq!(access(json!({"kind": "User", "name": "zed", "role": "edit"})).await.0, 200);
}
