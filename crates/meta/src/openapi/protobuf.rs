//! Encodes an OpenAPI v2 document as protobuf (the messages of gnostic's `openapi.v2`), which kubectl and client-go
//! request. Security definitions are left out: no client reads them.

use crate::protobuf::Message;
use serde_json::{Map, Value};

type Object = Map<String, Value>;
/// Names in JSON with their field numbers in protobuf.
type Fields = &'static [(&'static str, u32)];

/// Encodes a document of [`super::v2`]. `None` if it is not JSON.
pub fn v2_protobuf(document: &str) -> Option<Vec<u8>> {
    let document: Value = serde_json::from_str(document).ok()?;
    Some(root(document.as_object()?).0.as_slice().to_vec())
}

/// Writes a message field by field.
#[derive(Default)]
struct MessageBuilder(Message);

impl MessageBuilder {
    fn message(&mut self, field: u32, message: &Self) {
        self.0.bytes(field, message.0.as_slice());
    }

    fn texts(&mut self, object: &Object, fields: Fields) {
        for (name, field) in fields {
            match object.get(*name) {
                Some(Value::String(text)) => self.0.text(*field, text),
                Some(Value::Array(texts)) => {
                    texts.iter().filter_map(Value::as_str).for_each(|text| self.0.text(*field, text));
                }
                _ => {}
            }
        }
    }

    fn flags(&mut self, object: &Object, fields: Fields) {
        for (_, field) in fields.iter().filter(|(name, _)| object.get(*name) == Some(&Value::Bool(true))) {
            self.0.flag(*field, true);
        }
    }

    fn counts(&mut self, object: &Object, fields: Fields) {
        for (name, field) in fields {
            if let Some(count) = object.get(*name).and_then(Value::as_i64) {
                self.0.integer(*field, count);
            }
        }
    }

    fn numbers(&mut self, object: &Object, fields: Fields) {
        for (name, field) in fields {
            if let Some(number) = object.get(*name).and_then(Value::as_f64) {
                self.0.double(*field, number);
            }
        }
    }

    /// Values of any type, as YAML, of which JSON is a subset.
    fn anys(&mut self, object: &Object, fields: Fields) {
        for (name, field) in fields {
            match object.get(*name) {
                None => {}
                Some(Value::Array(values)) => values.iter().for_each(|v| self.message(*field, &any(v))),
                Some(value) => self.message(*field, &any(value)),
            }
        }
    }

    fn part(&mut self, object: &Object, name: &str, field: u32, encode: fn(&Object) -> Self) {
        if let Some(part) = object.get(name).and_then(Value::as_object) {
            self.message(field, &encode(part));
        }
    }

    /// A repeated field of messages with a name and a value.
    fn named<'a>(
        &mut self,
        field: u32,
        entries: impl Iterator<Item = (&'a String, &'a Value)>,
        encode: impl Fn(&Value) -> Self,
    ) {
        for (name, value) in entries {
            let mut entry = Self::default();
            entry.0.text(1, name);
            entry.message(2, &encode(value));
            self.message(field, &entry);
        }
    }

    fn extensions(&mut self, object: &Object, field: u32) {
        self.named(field, object.iter().filter(|(name, _)| name.starts_with("x-")), any);
    }

    /// A message that has this message as its only field.
    fn inside(&self, field: u32) -> Self {
        let mut outer = Self::default();
        outer.message(field, self);
        outer
    }
}

fn any(value: &Value) -> MessageBuilder {
    let mut message = MessageBuilder::default();
    message.0.text(2, &value.to_string());
    message
}

/// Encodes an object. Any other value becomes an empty message.
fn of(encode: fn(&Object) -> MessageBuilder) -> impl Fn(&Value) -> MessageBuilder {
    move |value| value.as_object().map(encode).unwrap_or_default()
}

fn root(document: &Object) -> MessageBuilder {
    let mut message = MessageBuilder::default();
    message.texts(
        document,
        &[("swagger", 1), ("host", 3), ("basePath", 4), ("schemes", 5), ("consumes", 6), ("produces", 7)],
    );
    message.part(document, "info", 2, |info| {
        let mut message = MessageBuilder::default();
        message.texts(info, &[("title", 1), ("version", 2), ("description", 3)]);
        message.extensions(info, 7);
        message
    });
    message.part(document, "paths", 8, |paths| {
        let mut message = MessageBuilder::default();
        message.named(2, paths.iter().filter(|(name, _)| name.starts_with('/')), of(path_item));
        message
    });
    message.part(document, "definitions", 9, schemas);
    message.part(document, "parameters", 10, |parameters| {
        let mut message = MessageBuilder::default();
        message.named(1, parameters.iter(), of(parameter));
        message
    });
    message.extensions(document, 16);
    message
}

fn path_item(item: &Object) -> MessageBuilder {
    let mut message = MessageBuilder::default();
    let methods =
        [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("options", 6), ("head", 7), ("patch", 8)];
    for (method, field) in methods {
        message.part(item, method, field, operation);
    }
    parameters(&mut message, item, 9);
    message.extensions(item, 10);
    message
}

fn operation(operation: &Object) -> MessageBuilder {
    let mut message = MessageBuilder::default();
    message.texts(
        operation,
        &[
            ("tags", 1),
            ("summary", 2),
            ("description", 3),
            ("operationId", 5),
            ("produces", 6),
            ("consumes", 7),
            ("schemes", 10),
        ],
    );
    parameters(&mut message, operation, 8);
    message.part(operation, "responses", 9, |responses| {
        let mut message = MessageBuilder::default();
        message.named(1, responses.iter(), of(response));
        message
    });
    message.flags(operation, &[("deprecated", 11)]);
    message.extensions(operation, 13);
    message
}

fn parameters(message: &mut MessageBuilder, owner: &Object, field: u32) {
    let list = owner.get("parameters").and_then(Value::as_array).into_iter().flatten();
    for item in list.filter_map(Value::as_object) {
        let encoded =
            if item.contains_key("$ref") { reference(item).inside(2) } else { parameter(item).inside(1) };
        message.message(field, &encoded);
    }
}

fn reference(object: &Object) -> MessageBuilder {
    let mut message = MessageBuilder::default();
    message.texts(object, &[("$ref", 1), ("description", 2)]);
    message
}

/// `Parameter`: in the body, in the query or in the path.
fn parameter(parameter: &Object) -> MessageBuilder {
    let mut message = MessageBuilder::default();
    match parameter.get("in").and_then(Value::as_str) {
        Some("body") => {
            message.texts(parameter, &[("description", 1), ("name", 2), ("in", 3)]);
            message.flags(parameter, &[("required", 4)]);
            message.part(parameter, "schema", 5, schema);
            message.inside(1)
        }
        Some("path") => {
            message
                .texts(parameter, &[("in", 2), ("description", 3), ("name", 4), ("type", 5), ("format", 6)]);
            message.flags(parameter, &[("required", 1), ("uniqueItems", 19)]);
            message.inside(4).inside(2)
        }
        _ => {
            message
                .texts(parameter, &[("in", 2), ("description", 3), ("name", 4), ("type", 6), ("format", 7)]);
            message.flags(parameter, &[("required", 1), ("allowEmptyValue", 5), ("uniqueItems", 20)]);
            message.inside(3).inside(2)
        }
    }
}

/// `ResponseValue`.
fn response(response: &Object) -> MessageBuilder {
    if response.contains_key("$ref") {
        return reference(response).inside(2);
    }
    let mut message = MessageBuilder::default();
    message.texts(response, &[("description", 1)]);
    message.part(response, "schema", 2, |object| schema(object).inside(1));
    message.inside(1)
}

/// `Definitions` and `Properties`.
fn schemas(schemas: &Object) -> MessageBuilder {
    let mut message = MessageBuilder::default();
    message.named(1, schemas.iter(), of(schema));
    message
}

fn schema(object: &Object) -> MessageBuilder {
    let mut message = MessageBuilder::default();
    message.texts(
        object,
        &[
            ("$ref", 1),
            ("format", 2),
            ("title", 3),
            ("description", 4),
            ("pattern", 13),
            ("required", 19),
            ("discriminator", 26),
        ],
    );
    if let Some(default) = object.get("default") {
        // A default may be a list: one value, unlike `enum`.
        message.message(5, &any(default));
    }
    message.numbers(object, &[("multipleOf", 6), ("maximum", 7), ("minimum", 9)]);
    message.flags(
        object,
        &[("exclusiveMaximum", 8), ("exclusiveMinimum", 10), ("uniqueItems", 16), ("readOnly", 27)],
    );
    message.counts(
        object,
        &[
            ("maxLength", 11),
            ("minLength", 12),
            ("maxItems", 14),
            ("minItems", 15),
            ("maxProperties", 17),
            ("minProperties", 18),
        ],
    );
    message.anys(object, &[("enum", 20)]);
    match object.get("additionalProperties") {
        Some(Value::Object(items)) => message.message(21, &schema(items).inside(1)),
        Some(Value::Bool(_)) => {
            let mut allowed = MessageBuilder::default();
            allowed.0.flag(2, object.get("additionalProperties") == Some(&Value::Bool(true)));
            message.message(21, &allowed);
        }
        _ => {}
    }
    if object.contains_key("type") {
        let mut kinds = MessageBuilder::default();
        kinds.texts(object, &[("type", 1)]);
        message.message(22, &kinds);
    }
    message.part(object, "items", 23, |items| schema(items).inside(1));
    for part in object.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        message.message(24, &of(schema)(part));
    }
    message.part(object, "properties", 25, schemas);
    message.extensions(object, 31);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_written_as_gnostic_reads_it() {
        let document = r#"{"swagger":"2.0","definitions":{"K":{"type":"object","x-y":[1]}}}"#;
        let kind = [b"\xb2\x01\x08\x0a\x06object".as_slice(), b"\xfa\x01\x0c\x0a\x03x-y\x12\x05\x12\x03[1]"]
            .concat();
        let entry = [b"\x0a\x01K\x12".as_slice(), &[u8::try_from(kind.len()).unwrap()], &kind].concat();
        let definitions = [b"\x0a".as_slice(), &[u8::try_from(entry.len()).unwrap()], &entry].concat();
        let whole =
            [b"\x0a\x032.0\x4a".as_slice(), &[u8::try_from(definitions.len()).unwrap()], &definitions]
                .concat();
        assert_eq!(v2_protobuf(document).unwrap(), whole);
        assert_eq!(v2_protobuf("[]"), None);
    }
}
