use crate::{Outcome, ensure, outcome, shape};
use meta::decode::{Media, apply_defaults, decode_value, prune_and_check};
use meta::object::{Object, splice_point};
use meta::protobuf;
use meta::schema::Schema;
use meta::validation::{self, NameRule};
use serde_json::{Value, json};
use std::sync::LazyLock;

pub(super) static PROJECT: LazyLock<Schema> = LazyLock::new(business_types::project::schema);
static NAMESPACE: LazyLock<Schema> = LazyLock::new(business_types::namespace::schema);

pub(super) fn json(input: &[u8]) -> Result<Outcome, String> {
    decoded(input, Media::Json)
}

pub(super) fn yaml(input: &[u8]) -> Result<Outcome, String> {
    decoded(input, Media::Yaml)
}

/// A body as the server reads it with its defaults, whatever kind it says it is, and the fields that were dropped.
fn read(body: &[u8], media: Media, schema: &Schema) -> Result<(Object, Vec<String>), String> {
    let (mut value, mut dropped) = decode_value(body, media).map_err(|error| error.to_string())?;
    dropped.extend(prune_and_check(&mut value, schema).map_err(|error| error.to_string())?);
    let mut object = Object::new(value).map_err(|other| format!("no object: {other}"))?;
    apply_defaults(&mut object, schema).map_err(|error| error.to_string())?;
    Ok((object, dropped))
}

/// What was decoded, pruned and completed is in the schema's form: decoding it again changes nothing.
fn decoded(input: &[u8], media: Media) -> Result<Outcome, String> {
    let mut outcomes = Vec::new();
    for schema in [&*PROJECT, &*NAMESPACE] {
        outcomes.push(match read(input, media, schema) {
            Err(error) => shape(&error),
            Ok((object, dropped)) => {
                let printed = object.clone().into_value().to_string();
                let (second, dropped_again) = read(printed.as_bytes(), Media::Json, schema)
                    .map_err(|error| format!("what was decoded does not decode: {error}"))?;
                ensure(dropped_again.is_empty(), || format!("{dropped_again:?} of {printed}"))?;
                ensure(second == object, || format!("decoding again changes {printed}"))?;
                let stored = object.to_stored();
                ensure(Object::from_stored(stored.as_bytes(), 7).is_ok(), || {
                    format!("{stored} is not read back")
                })?;
                outcome((dropped.len().min(4), object.as_map().len(), printed.len().ilog2()))
            }
        });
    }
    Ok(outcome(outcomes))
}

/// An object whose metadata is the input: every generic rule.
pub(super) fn metadata(input: &[u8]) -> Result<Outcome, String> {
    let spliced = splice_point(&String::from_utf8_lossy(input)).is_some();
    let Ok((value, _)) = decode_value(input, Media::Json) else { return Ok(outcome(spliced)) };
    let value = if value.get("metadata").is_some() { value } else { json!({"metadata": value}) };
    let printed = value.to_string();
    let Ok((mut object, _dropped)) = read(printed.as_bytes(), Media::Json, &PROJECT) else {
        return Ok(1);
    };
    let warned = validation::dedup_owner_references(&mut object).is_some();
    ensure(validation::dedup_owner_references(&mut object).is_none(), || {
        "owners stand twice still".to_owned()
    })?;
    let mut texts: Vec<Outcome> = Vec::new();
    for (namespaced, rule) in [(true, NameRule::Label), (false, NameRule::Subdomain)] {
        texts
            .extend(validation::object_meta(&object, namespaced, rule).iter().map(|e| shape(&e.to_string())));
    }
    texts.extend(
        validation::object_meta_update(&object, &Object::default()).iter().map(|e| shape(&e.to_string())),
    );
    texts.extend(validation::finalizer_warnings(&object, None).iter().map(|text| shape(text)));
    texts.sort_unstable();
    texts.dedup();
    Ok(outcome((warned, texts)))
}

/// A body or an event in protobuf. Metadata that was read is written alike.
pub(super) fn protobuf(input: &[u8]) -> Result<Outcome, String> {
    let event = protobuf::decode_event(input).map_or_else(|error| shape(&error.to_string()), |_| 1);
    let body = match protobuf::decode(input, "DeleteOptions") {
        Err(error) => shape(&error.to_string()),
        Ok(object) => {
            let partial = object.get("kind").is_some_and(|kind| kind == "PartialObjectMetadata");
            if let Some(metadata) = object.get("metadata").filter(|metadata| partial && metadata.is_object())
            {
                written_alike(metadata)?;
            }
            let names: Vec<&String> =
                object.as_object().into_iter().flat_map(|object| object.keys()).collect();
            let options = apiserver::fuzzing::delete_options(object.clone());
            outcome((names, options.map_err(|status| shape(&status.message)).is_ok()))
        }
    };
    Ok(outcome((event, body)))
}

fn written_alike(metadata: &Value) -> Result<(), String> {
    let mut out = protobuf::Message::default();
    let version = metadata.get("resourceVersion").and_then(Value::as_str).unwrap_or_default();
    let mut result = Ok(());
    protobuf::body(&mut out, "", "PartialObjectMetadata", |out| {
        result = protobuf::partial_object_metadata(out, &metadata.to_string(), version);
    });
    result.map_err(|error| format!("{metadata} cannot be written: {error}"))?;
    let again = protobuf::decode(out.as_slice(), "").map_err(|error| error.to_string())?;
    let mut wanted = metadata.clone();
    let mut found = again.get("metadata").cloned().unwrap_or_default();
    for metadata in [&mut wanted, &mut found] {
        leave_out(metadata, &|name, value| {
            // Not kept since 2020; a time that no calendar has.
            let time = name.ends_with("Timestamp") || name == "time";
            name == "selfLink" || time && value.as_str().is_none_or(|text| meta::time::parse(text).is_err())
        });
    }
    ensure(wanted == found, || format!("{wanted} is written as {found}"))
}

/// Takes members out of an object and of the objects in its lists.
fn leave_out(value: &mut Value, unwanted: &dyn Fn(&str, &Value) -> bool) {
    match value {
        Value::Object(map) => {
            map.retain(|name, value| !unwanted(name, value));
            map.values_mut().filter(|value| value.is_array()).for_each(|value| leave_out(value, unwanted));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| leave_out(value, unwanted)),
        _ => {}
    }
}
