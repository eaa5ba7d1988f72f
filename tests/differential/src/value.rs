//! Random values of a schema, from few words, so that managers meet.

use meta::schema::{ListType, Schema, Type};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Map, Value, json};

const WORDS: [&str; 3] = ["x", "y", "z"];

/// A value that the schema allows.
pub(crate) fn value(schema: &Schema, random: &mut StdRng) -> Value {
    match &schema.ty {
        Type::Struct { fields, .. } => {
            let mut map = Map::new();
            for (name, field) in fields {
                if field.required || random.random_range(0..2) == 0 {
                    map.insert((*name).to_owned(), value(&field.schema, random));
                }
            }
            Value::Object(map)
        }
        Type::Map { values, .. } => {
            let mut map = Map::new();
            for word in WORDS {
                if random.random_range(0..2) == 0 {
                    map.insert(word.to_owned(), value(values, random));
                }
            }
            Value::Object(map)
        }
        Type::List { items, list } => list_value(items, *list, random),
        Type::Integer { .. } => json!(random.random_range(0..3)),
        Type::Boolean => json!(random.random_range(0..2) == 0),
        Type::Quantity => json!("1"),
        Type::String(_) | Type::Any => json!(word(random)),
    }
}

fn word(random: &mut StdRng) -> &'static str {
    WORDS.get(random.random_range(0..WORDS.len())).copied().unwrap_or("x")
}

fn list_value(items: &Schema, list: ListType, random: &mut StdRng) -> Value {
    let mut out: Vec<Value> = Vec::new();
    for _ in 0..random.random_range(0..4) {
        let item = value(items, random);
        let twin = |other: &Value| match list {
            ListType::Atomic => false,
            ListType::Set => *other == item,
            ListType::Map(keys) => keys.iter().all(|key| other.get(key) == item.get(key)),
        };
        if !out.iter().any(twin) {
            out.push(item);
        }
    }
    Value::Array(out)
}
