//! The same schema as a custom resource definition.

use meta::schema::{Field, ListType, Schema, StringFormat, Type};
use serde_json::{Map, Value, json};

/// Group of all custom resources of this test.
pub(crate) const GROUP: &str = "differential.example.com";

/// Plural of a schema's resource.
pub(crate) fn plural(seed: u64, number: u64) -> String {
    format!("rivals{seed}x{number}")
}

/// Kind of a plural; two resources of a group may not share one.
pub(crate) fn kind(plural: &str) -> String {
    format!("K{plural}")
}

/// The definition.
pub(crate) fn definition(schema: &Schema, plural: &str) -> Value {
    let Type::Struct { fields, .. } = &schema.ty else { return Value::Null };
    let properties: Map<String, Value> = ["spec", "status"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), json_schema(&fields.get(name)?.schema))))
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural, "kind": kind(plural), "listKind": format!("{}List", kind(plural))},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}],
        },
    })
}

/// A structural schema of the same shape, defaults included.
pub(crate) fn json_schema(schema: &Schema) -> Value {
    let mut out = of_type(schema);
    if let Some(default) = &schema.default {
        out["default"] = default.clone();
    }
    out
}

fn of_type(schema: &Schema) -> Value {
    match &schema.ty {
        Type::Struct { fields, atomic, .. } => {
            let properties: Map<String, Value> =
                fields.iter().map(|(name, field)| ((*name).to_owned(), field_schema(field))).collect();
            let required: Vec<&str> =
                fields.iter().filter(|(_, f)| f.required).map(|(name, _)| *name).collect();
            let mut out = json!({"type": "object", "properties": properties});
            if !required.is_empty() {
                out["required"] = json!(required);
            }
            if *atomic {
                out["x-kubernetes-map-type"] = json!("atomic");
            }
            out
        }
        Type::Map { values, .. } => json!({"type": "object", "additionalProperties": json_schema(values)}),
        Type::List { items, list } => {
            let mut out = json!({"type": "array", "items": json_schema(items)});
            match list {
                ListType::Atomic => out["x-kubernetes-list-type"] = json!("atomic"),
                ListType::Set => out["x-kubernetes-list-type"] = json!("set"),
                ListType::Map(keys) => {
                    out["x-kubernetes-list-type"] = json!("map");
                    out["x-kubernetes-list-map-keys"] = json!(keys);
                }
            }
            out
        }
        Type::Integer { .. } => json!({"type": "integer", "format": "int64"}),
        Type::Boolean => json!({"type": "boolean"}),
        Type::String(StringFormat::Time) => json!({"type": "string", "format": "date-time"}),
        Type::String(StringFormat::Enum(values)) => json!({"type": "string", "enum": values}),
        Type::String(_) => json!({"type": "string"}),
        Type::Quantity => {
            json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
        }
        Type::Any => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    }
}

/// What is always written has a default there.
fn field_schema(field: &Field) -> Value {
    let mut out = json_schema(&field.schema);
    if field.always && !field.required && out.get("default").is_none() {
        out["default"] = match &field.schema.ty {
            Type::List { .. } => json!([]),
            Type::Struct { .. } | Type::Map { .. } => json!({}),
            Type::Integer { .. } => json!(0),
            Type::Boolean => json!(false),
            _ => json!(""),
        };
    }
    out
}
