//! Encodes schemas as OpenAPI definitions.

use super::{OpenApiResource, OpenApiType, meta_types};
use crate::gvk::GroupVersionKind;
use crate::schema::{Field, ListType, Schema, StringFormat, Type};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const QUANTITY_TEXT: &str = "An exact amount: a decimal number with an optional suffix. Decimal suffixes are n, u, m, k, M, G, T, P and E \
     (powers of 1000), binary ones Ki, Mi, Gi, Ti, Pi and Ei (powers of 1024); an exponent such as 1e3 is allowed, too. \
     500m is one half, 1Ki is 1024. At most nine decimal places are kept, rounded up; the absolute value is at most 2^63-1.";

/// The version of OpenAPI that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenApiVersion {
    V2,
    V3,
}

impl OpenApiVersion {
    /// A reference to a definition.
    pub(super) fn reference(self, name: &str) -> Value {
        match self {
            Self::V2 => json!({"$ref": format!("#/definitions/{name}")}),
            Self::V3 => json!({"$ref": format!("#/components/schemas/{name}")}),
        }
    }
}

/// The name of a kind's definition.
pub(super) fn definition_of(body: OpenApiType<'_>) -> &str {
    match &body.schema.ty {
        Type::Struct { definition: Some(name), .. } => name,
        _ => &body.kind.kind,
    }
}

/// The definitions of a document.
pub(super) struct Definitions {
    version: OpenApiVersion,
    by_name: Map<String, Value>,
}

impl Definitions {
    pub(super) fn new(version: OpenApiVersion) -> Self {
        Self { version, by_name: Map::new() }
    }

    pub(super) fn into_value(self) -> Value {
        Value::Object(self.by_name)
    }

    /// Adds the definitions of a resource's kind, its list, and the types of its operations.
    pub(super) fn add_resource(&mut self, resource: &OpenApiResource<'_>) {
        let (name, kind) = (definition_of(resource.type_of_object()), &resource.kind);
        let own = resource.subresources.iter().filter_map(|sub| sub.own);
        let bodies = own.flat_map(|own| own.body.into_iter().chain([own.answer]));
        for body in std::iter::once(resource.type_of_object()).chain(bodies) {
            self.encode(body.schema);
            self.add_kind(definition_of(body), body.kind);
        }
        if !resource.singleton {
            self.add_list(name, kind);
        }
        for (schema, meta_kind) in meta_types::operation_schemas() {
            self.encode(&schema);
            // No definition gets a kind of the core group: kube-aggregator merges this document with one that has
            // a definition of that kind, and clients refuse a document with two definitions of one kind.
            if let Type::Struct { definition: Some(name), .. } = &schema.ty
                && meta_kind != "Status"
            {
                self.add_kind(name, &GroupVersionKind { kind: meta_kind.to_owned(), ..kind.clone() });
            }
        }
        let patch =
            json!({"type": "object", "description": "A patch in the format that Content-Type names."});
        self.by_name.insert(meta_types::PATCH.to_owned(), patch);
    }

    fn add_list(&mut self, name: &str, kind: &GroupVersionKind) {
        let item = self.version.reference(name);
        let list = meta_types::list_meta_schema();
        let metadata = self.encode(&list);
        let list_kind = GroupVersionKind { kind: format!("{}List", kind.kind), ..kind.clone() };
        let list_name = format!("{name}List");
        let definition = json!({
            "description": format!("A list of {} objects.", kind.kind),
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string", "description": "Group and version of this list's schema."},
                "items": {"type": "array", "items": item, "description": format!("The {} objects.", kind.kind)},
                "kind": {"type": "string", "description": "Kind of this list, in camel case."},
                "metadata": metadata,
            },
        });
        self.by_name.insert(list_name.clone(), definition);
        self.add_kind(&list_name, &list_kind);
    }

    /// Adds a kind to `x-kubernetes-group-version-kind` of a definition.
    fn add_kind(&mut self, name: &str, kind: &GroupVersionKind) {
        let Some(definition) = self.by_name.get_mut(name).and_then(Value::as_object_mut) else { return };
        let kinds = definition.entry("x-kubernetes-group-version-kind").or_insert_with(|| json!([]));
        let entry = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        if let Value::Array(list) = kinds
            && !list.contains(&entry)
        {
            list.push(entry);
        }
    }

    /// The JSON of a schema in a field: inline, or a reference to a definition.
    fn encode(&mut self, schema: &Schema) -> Value {
        match &schema.ty {
            Type::Struct { definition: Some(name), fields, atomic } => {
                if !self.by_name.contains_key(*name) {
                    // The name is inserted first, so that a kind may contain itself.
                    self.by_name.insert((*name).to_owned(), Value::Null);
                    let definition =
                        with_description(self.encode_struct(fields, *atomic), schema.description);
                    self.by_name.insert((*name).to_owned(), definition);
                }
                self.reference_with(name, "", schema.default.as_ref())
            }
            Type::Quantity => {
                let form = match self.version {
                    // kube-aggregator renames this definition, since kube-apiserver's own has another text, and clients
                    // know a quantity by its name alone. The format tells them that a number is accepted, too.
                    OpenApiVersion::V2 => json!({"type": "string", "format": "int-or-string"}),
                    OpenApiVersion::V3 => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
                };
                self.by_name.entry(QUANTITY).or_insert_with(|| with_description(form, QUANTITY_TEXT));
                self.reference_with(QUANTITY, schema.description, schema.default.as_ref())
            }
            other => {
                let mut shape = with_description(self.encode_type(other), schema.description);
                if let Some(default) = &schema.default {
                    set(&mut shape, "default", default.clone());
                }
                if let Some(characters) = schema.max_length {
                    set(&mut shape, "maxLength", json!(characters));
                }
                shape
            }
        }
    }

    fn encode_field(&mut self, field: &Field) -> Value {
        let mut shape = self.encode(&field.schema);
        match self.version {
            _ if !field.nullable => {}
            OpenApiVersion::V3 => set(&mut shape, "nullable", json!(true)),
            // OpenAPI v2 cannot express null. As for custom resources, the type is left out.
            OpenApiVersion::V2 => shape = with_description(json!({}), field.schema.description),
        }
        shape
    }

    /// A reference, with the description and default of the field.
    fn reference_with(&self, name: &str, description: &str, default: Option<&Value>) -> Value {
        let reference = self.version.reference(name);
        if description.is_empty() && default.is_none() {
            return reference;
        }
        let mut shape = match self.version {
            OpenApiVersion::V2 => reference,
            OpenApiVersion::V3 => json!({"allOf": [reference]}),
        };
        if let (Some(default), Value::Object(map)) = (default, &mut shape) {
            map.insert("default".to_owned(), default.clone());
        }
        with_description(shape, description)
    }

    fn encode_type(&mut self, ty: &Type) -> Value {
        match ty {
            Type::Struct { fields, atomic, .. } => self.encode_struct(fields, *atomic),
            Type::Map { values, atomic } => {
                let mut shape = json!({"type": "object", "additionalProperties": self.encode(values)});
                if *atomic {
                    set(&mut shape, "x-kubernetes-map-type", json!("atomic"));
                }
                shape
            }
            Type::List { items, list } => self.encode_list(items, *list),
            Type::String(format) => match format {
                StringFormat::Plain => json!({"type": "string"}),
                StringFormat::Time | StringFormat::MicroTime => {
                    json!({"type": "string", "format": "date-time"})
                }
                StringFormat::Bytes => json!({"type": "string", "format": "byte"}),
                StringFormat::Enum(values) => json!({"type": "string", "enum": values}),
            },
            Type::Integer { narrow: true } => json!({"type": "integer", "format": "int32"}),
            Type::Integer { narrow: false } => json!({"type": "integer", "format": "int64"}),
            Type::Boolean => json!({"type": "boolean"}),
            Type::Quantity => json!({"type": "string"}),
            Type::Any => json!({"x-kubernetes-preserve-unknown-fields": true}),
        }
    }

    fn encode_struct(&mut self, fields: &BTreeMap<&'static str, Field>, atomic: bool) -> Value {
        let properties: Map<String, Value> =
            fields.iter().map(|(name, field)| ((*name).to_owned(), self.encode_field(field))).collect();
        let required: Vec<&str> =
            fields.iter().filter(|(_, field)| field.required).map(|(name, _)| *name).collect();
        let mut shape = json!({"type": "object"});
        if !properties.is_empty() {
            set(&mut shape, "properties", Value::Object(properties));
        }
        if !required.is_empty() {
            set(&mut shape, "required", json!(required));
        }
        if atomic {
            set(&mut shape, "x-kubernetes-map-type", json!("atomic"));
        }
        shape
    }

    fn encode_list(&mut self, items: &Schema, list: ListType) -> Value {
        let mut shape = json!({"type": "array", "items": self.encode(items)});
        match list {
            ListType::Atomic => set(&mut shape, "x-kubernetes-list-type", json!("atomic")),
            ListType::Set => {
                set(&mut shape, "x-kubernetes-list-type", json!("set"));
                set(&mut shape, "x-kubernetes-patch-strategy", json!("merge"));
            }
            ListType::Map(keys) => {
                set(&mut shape, "x-kubernetes-list-type", json!("map"));
                set(&mut shape, "x-kubernetes-list-map-keys", json!(keys));
                set(&mut shape, "x-kubernetes-patch-strategy", json!("merge"));
                set(&mut shape, "x-kubernetes-patch-merge-key", json!(keys.first()));
            }
        }
        shape
    }
}

fn set(shape: &mut Value, key: &str, value: Value) {
    if let Value::Object(map) = shape {
        map.insert(key.to_owned(), value);
    }
}

fn with_description(mut shape: Value, description: &str) -> Value {
    if !description.is_empty() {
        set(&mut shape, "description", json!(description));
    }
    shape
}
