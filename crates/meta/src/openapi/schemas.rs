//! Schemas to OpenAPI definitions.

use super::{OpenApiResource, OpenApiShape, shared};
use crate::gvk::GroupVersionKind;
use crate::schema::{Field, ListType, Schema, StringFormat, Type};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const QUANTITY_TEXT: &str = "An exact amount: a decimal number with an optional suffix. Decimal suffixes are n, u, m, k, M, G, T, P and E \
     (powers of 1000), binary ones Ki, Mi, Gi, Ti, Pi and Ei (powers of 1024); an exponent such as 1e3 is allowed, too. \
     500m is one half, 1Ki is 1024. At most nine decimal places are kept, rounded up; the absolute value is at most 2^63-1.";

/// Which of the two formats is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    V2,
    V3,
}

impl Dialect {
    /// A reference to a definition.
    pub(super) fn reference(self, name: &str) -> Value {
        match self {
            Self::V2 => json!({"$ref": format!("#/definitions/{name}")}),
            Self::V3 => json!({"$ref": format!("#/components/schemas/{name}")}),
        }
    }
}

/// The name of a kind's definition.
pub(super) fn definition_of(shape: OpenApiShape<'_>) -> &str {
    match &shape.schema.ty {
        Type::Struct { definition: Some(name), .. } => name,
        _ => &shape.kind.kind,
    }
}

/// The definitions of a document.
pub(super) struct Definitions {
    dialect: Dialect,
    by_name: Map<String, Value>,
}

impl Definitions {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, by_name: Map::new() }
    }

    pub(super) fn into_value(self) -> Value {
        Value::Object(self.by_name)
    }

    /// Adds a resource's kind, its list, and the types of its operations.
    pub(super) fn add_resource(&mut self, resource: &OpenApiResource<'_>) {
        let (name, kind) = (definition_of(resource.shape()), &resource.kind);
        let own = resource.subresources.iter().filter_map(|sub| sub.own);
        let bodies = own.flat_map(|own| own.body.into_iter().chain([own.answer]));
        for shape in std::iter::once(resource.shape()).chain(bodies) {
            self.shape(shape.schema);
            self.add_kind(definition_of(shape), shape.kind);
        }
        if !resource.singleton {
            self.add_list(name, kind);
        }
        for (schema, meta_kind) in shared::operation_schemas() {
            self.shape(&schema);
            // No definition here is of a kind of the core group: in a document that an aggregator merges, its own
            // definition is that kind, and clients refuse a document with two definitions of one kind.
            if let Type::Struct { definition: Some(name), .. } = &schema.ty
                && meta_kind != "Status"
            {
                self.add_kind(name, &GroupVersionKind { kind: meta_kind.to_owned(), ..kind.clone() });
            }
        }
        let patch =
            json!({"type": "object", "description": "A patch in the format that Content-Type names."});
        self.by_name.insert(shared::PATCH.to_owned(), patch);
    }

    fn add_list(&mut self, name: &str, kind: &GroupVersionKind) {
        let item = self.dialect.reference(name);
        let list = shared::list_meta_schema();
        let metadata = self.shape(&list);
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

    /// Notes that a definition is a kind.
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

    /// A schema as it stands in a field: written in place, or a reference.
    fn shape(&mut self, schema: &Schema) -> Value {
        match &schema.ty {
            Type::Struct { definition: Some(name), fields, atomic } => {
                if !self.by_name.contains_key(*name) {
                    // The name is taken first, so that a kind may hold itself.
                    self.by_name.insert((*name).to_owned(), Value::Null);
                    let definition = described(self.object(fields, *atomic), schema.description);
                    self.by_name.insert((*name).to_owned(), definition);
                }
                self.referring(name, "", schema.default.as_ref())
            }
            Type::Quantity => {
                let form = match self.dialect {
                    Dialect::V2 => json!({"type": "string"}),
                    Dialect::V3 => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
                };
                self.by_name.entry(QUANTITY).or_insert_with(|| described(form, QUANTITY_TEXT));
                self.referring(QUANTITY, schema.description, schema.default.as_ref())
            }
            other => {
                let mut shape = described(self.plain(other), schema.description);
                if let (Some(default), Value::Object(map)) = (&schema.default, &mut shape) {
                    map.insert("default".to_owned(), default.clone());
                }
                shape
            }
        }
    }

    fn field(&mut self, field: &Field) -> Value {
        let mut shape = self.shape(&field.schema);
        match self.dialect {
            _ if !field.nullable => {}
            Dialect::V3 => set(&mut shape, "nullable", json!(true)),
            // It has no word for null: as with custom resources, nothing is said of the type.
            Dialect::V2 => shape = described(json!({}), field.schema.description),
        }
        shape
    }

    /// A reference, with the description and default of the field.
    fn referring(&self, name: &str, description: &str, default: Option<&Value>) -> Value {
        let reference = self.dialect.reference(name);
        if description.is_empty() && default.is_none() {
            return reference;
        }
        let mut shape = match self.dialect {
            Dialect::V2 => reference,
            Dialect::V3 => json!({"allOf": [reference]}),
        };
        if let (Some(default), Value::Object(map)) = (default, &mut shape) {
            map.insert("default".to_owned(), default.clone());
        }
        described(shape, description)
    }

    fn plain(&mut self, ty: &Type) -> Value {
        match ty {
            Type::Struct { fields, atomic, .. } => self.object(fields, *atomic),
            Type::Map { values, atomic } => {
                let mut shape = json!({"type": "object", "additionalProperties": self.shape(values)});
                if *atomic {
                    set(&mut shape, "x-kubernetes-map-type", json!("atomic"));
                }
                shape
            }
            Type::List { items, list } => self.list(items, *list),
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

    fn object(&mut self, fields: &BTreeMap<&'static str, Field>, atomic: bool) -> Value {
        let properties: Map<String, Value> =
            fields.iter().map(|(name, field)| ((*name).to_owned(), self.field(field))).collect();
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

    fn list(&mut self, items: &Schema, list: ListType) -> Value {
        let mut shape = json!({"type": "array", "items": self.shape(items)});
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

fn described(mut shape: Value, description: &str) -> Value {
    if !description.is_empty() {
        set(&mut shape, "description", json!(description));
    }
    shape
}
