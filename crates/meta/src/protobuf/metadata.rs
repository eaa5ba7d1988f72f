//! Encodes `ObjectMeta` directly from its JSON text, without a JSON tree.

use super::Message;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A string that borrows from the JSON text unless it contains escapes.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectMeta<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    generate_name: Option<Text<'a>>,
    #[serde(borrow)]
    namespace: Option<Text<'a>>,
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    generation: Option<i64>,
    #[serde(borrow)]
    creation_timestamp: Option<Text<'a>>,
    #[serde(borrow)]
    deletion_timestamp: Option<Text<'a>>,
    deletion_grace_period_seconds: Option<i64>,
    #[serde(borrow)]
    labels: Option<BTreeMap<Text<'a>, Option<Text<'a>>>>,
    #[serde(borrow)]
    annotations: Option<BTreeMap<Text<'a>, Option<Text<'a>>>>,
    #[serde(borrow)]
    owner_references: Option<Vec<OwnerReference<'a>>>,
    #[serde(borrow)]
    finalizers: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    managed_fields: Option<Vec<ManagedFieldsEntry<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct OwnerReference<'a> {
    #[serde(borrow)]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    #[serde(borrow)]
    api_version: Option<Text<'a>>,
    controller: Option<bool>,
    block_owner_deletion: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ManagedFieldsEntry<'a> {
    #[serde(borrow)]
    manager: Option<Text<'a>>,
    #[serde(borrow)]
    operation: Option<Text<'a>>,
    #[serde(borrow)]
    api_version: Option<Text<'a>>,
    #[serde(borrow)]
    time: Option<Text<'a>>,
    #[serde(borrow)]
    fields_type: Option<Text<'a>>,
    #[serde(borrow)]
    fields_v1: Option<&'a RawValue>,
    #[serde(borrow)]
    subresource: Option<Text<'a>>,
}

/// Writes the fields of a `PartialObjectMetadata` from the JSON text of `metadata` and its `resourceVersion`. Writes
/// nothing if the JSON cannot be parsed.
pub fn partial_object_metadata(
    out: &mut Message,
    metadata: &str,
    resource_version: &str,
) -> Result<(), serde_json::Error> {
    let metadata: ObjectMeta<'_> = serde_json::from_str(metadata)?;
    out.nested(1, |out| metadata.write(out, resource_version));
    Ok(())
}

impl ObjectMeta<'_> {
    fn write(&self, out: &mut Message, resource_version: &str) {
        text(out, 1, self.name.as_ref());
        text(out, 2, self.generate_name.as_ref());
        text(out, 3, self.namespace.as_ref());
        out.text(4, ""); // selfLink
        text(out, 5, self.uid.as_ref());
        out.text(6, resource_version);
        out.integer(7, self.generation.unwrap_or_default());
        out.nested(8, |out| time(out, self.creation_timestamp.as_ref()));
        if self.deletion_timestamp.is_some() {
            out.nested(9, |out| time(out, self.deletion_timestamp.as_ref()));
        }
        if let Some(seconds) = self.deletion_grace_period_seconds {
            out.integer(10, seconds);
        }
        for (field, map) in [(11, &self.labels), (12, &self.annotations)] {
            for (key, value) in map.iter().flatten() {
                out.nested(field, |out| {
                    out.text(1, &key.0);
                    text(out, 2, value.as_ref());
                });
            }
        }
        for owner in self.owner_references.iter().flatten() {
            out.nested(13, |out| owner.write(out));
        }
        for finalizer in self.finalizers.iter().flatten() {
            out.text(14, &finalizer.0);
        }
        for entry in self.managed_fields.iter().flatten() {
            out.nested(17, |out| entry.write(out));
        }
    }
}

impl OwnerReference<'_> {
    fn write(&self, out: &mut Message) {
        text(out, 1, self.kind.as_ref());
        text(out, 3, self.name.as_ref());
        text(out, 4, self.uid.as_ref());
        text(out, 5, self.api_version.as_ref());
        for (field, flag) in [(6, self.controller), (7, self.block_owner_deletion)] {
            if let Some(flag) = flag {
                out.flag(field, flag);
            }
        }
    }
}

impl ManagedFieldsEntry<'_> {
    fn write(&self, out: &mut Message) {
        text(out, 1, self.manager.as_ref());
        text(out, 2, self.operation.as_ref());
        text(out, 3, self.api_version.as_ref());
        if self.time.is_some() {
            out.nested(4, |out| time(out, self.time.as_ref()));
        }
        text(out, 6, self.fields_type.as_ref());
        if let Some(fields) = self.fields_v1 {
            // As in Go, the JSON text of a field set is not changed.
            out.nested(7, |out| out.text(1, fields.get()));
        }
        text(out, 8, self.subresource.as_ref());
    }
}

fn text(out: &mut Message, field: u32, text: Option<&Text<'_>>) {
    out.text(field, text.map_or("", |text| &text.0));
}

/// Writes the fields of a `Timestamp`; none for an absent time.
fn time(out: &mut Message, time: Option<&Text<'_>>) {
    if let Some(seconds) = time.and_then(|text| crate::time::parse(&text.0).ok()) {
        out.integer(1, seconds);
        out.integer(2, 0);
    }
}
