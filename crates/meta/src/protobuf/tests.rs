//! Compares with bytes that were recorded with upstream's encoder (`tests/recorder`).

use super::*;
use serde_json::{Value, json};

const RECORDED: &str = include_str!("../../tests/recorder/messages.jsonl");

fn bytes(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().unwrap();
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(hex.get(at..at + 2).unwrap(), 16).unwrap())
        .collect()
}

/// A value without nulls and empty strings, which Go's JSON sometimes contains.
fn tidy(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null() && *value != "");
            kept.map(|(key, value)| (key, tidy(value))).collect()
        }
        Value::Array(list) => list.into_iter().map(tidy).collect(),
        other => other,
    }
}

fn metadata(out: &mut Message, object: &Value) {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    partial_object_metadata(out, &object["metadata"].to_string(), version).unwrap();
}

fn list(version: &str, object: &Value) -> Message {
    let meta: ListMeta = serde_json::from_value(object["metadata"].clone()).unwrap();
    let mut items = Message::default();
    for item in object["items"].as_array().into_iter().flatten() {
        items.nested(items_field(version), |out| metadata(out, item));
    }
    let (mut whole, after) = around_items(version, &meta, items.len());
    whole.raw(items.as_slice());
    whole.raw(after.as_slice());
    whole
}

/// The object as we encode it; `None` for kinds that we only decode.
fn encoded(object: &Value) -> Option<Message> {
    let mut out = Message::default();
    let version = object["apiVersion"].as_str().unwrap();
    match object["kind"].as_str().unwrap() {
        "PartialObjectMetadata" => {
            body(&mut out, version, "PartialObjectMetadata", |out| metadata(out, object));
        }
        "PartialObjectMetadataList" => out = list(version, object),
        "Status" => status(&mut out, &serde_json::from_value(object.clone()).unwrap()),
        _ => return None,
    }
    Some(out)
}

fn compare(messages: &str) -> usize {
    let mut written = 0;
    for line in messages.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let (object, recorded) = (&line["object"], bytes(&line["body"]));
        assert_eq!(tidy(decode(&recorded, "").unwrap()), tidy(object.clone()));
        let Some(ours) = encoded(object) else { continue };
        assert_eq!(ours.as_slice(), recorded, "{object}");
        if let Some(op) = line["type"].as_str() {
            let frame = event_frame(op, |out| out.raw(&recorded));
            assert_eq!(frame.as_ref(), bytes(&line["frame"]), "{object}");
            let event = decode_event(frame.get(4..).unwrap()).unwrap();
            assert_eq!(event, json!({"type": op, "object": decode(&recorded, "").unwrap()}));
        }
        written += 1;
    }
    written
}

#[test]
fn upstreams_bytes_are_ours() {
    assert!(compare(RECORDED) >= 40);
}

#[test]
#[ignore = "reads a longer recording from the file that RECORDED_MESSAGES names"]
fn upstreams_bytes_are_ours_in_a_long_recording() {
    let path = std::env::var("RECORDED_MESSAGES").unwrap();
    assert!(compare(&std::fs::read_to_string(path).unwrap()) > 0);
}

#[test]
fn what_is_told_empty_is_not_what_is_not_told() {
    let mut options = Message::default();
    body(&mut options, "", "", |out| {
        out.integer(1, 0);
        out.nested(2, |out| out.text(1, ""));
        out.flag(3, false);
        out.text(5, "All");
        out.text(99, "of a later version");
    });
    let want = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": ""}, "orphanDependents": false, "dryRun": ["All"]});
    assert_eq!(decode(options.as_slice(), "DeleteOptions").unwrap(), want);
}

#[test]
fn bytes_that_are_no_message_are_refused_as_in_go() {
    let told = |bytes: &[u8]| decode(bytes, "DeleteOptions").unwrap_err().to_string();
    let magic = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
    for (bytes, want) in [
        (&b"{}"[..], magic),
        (b"k8s", magic),
        (b"k8s\0", "empty body"),
        (b"k8s\0\x12", "unexpected EOF"),
        (b"k8s\0\x12\x05\x08\x01", "unexpected EOF"),
        (b"k8s\0\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "unexpected EOF"),
        (b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "proto: integer overflow"),
        (b"k8s\0\x16", "proto: illegal wireType 6"),
        (b"k8s\0\x10\x01", "proto: wrong wireType = 0 for field Raw"),
        (b"k8s\0\x0a\x03\x12\x01X\x12\x00", "no kind \"X\" is registered for version \"\""),
    ] {
        assert_eq!(told(bytes), want, "{bytes:?}");
    }
}
