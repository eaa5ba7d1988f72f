//! Renders stored objects in the requested form: unchanged, as metadata only, or as rows of a table.

use crate::resource::Resource;
use crate::response::raw_metadata::{metadata_of, resource_version};
use crate::response::{Form, Media, protobuf, yaml};
use bytes::{BufMut, Bytes, BytesMut};
use meta::field::{FieldError, Path};
use meta::object::{Object, SPLICE_AFTER};
use meta::status::{ListMeta, Status};
use serde_json::{Value, json};
use std::sync::Arc;
use store::Entry;

/// What a row of a table contains of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    Metadata,
    Object,
}

impl IncludeObject {
    /// From the query parameter `includeObject`.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => {
                let path = Path::new("includeObject");
                let detail = "must be 'Metadata', 'Object', 'None', or empty";
                let error = FieldError::invalid(&path, &Value::from(other), detail);
                Err(Status::bad_request(format!("Unable to convert to Table as requested: {error}")))
            }
        }
    }
}

/// The bytes before, between and after the elements of a list.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) before: Bytes,
    pub(crate) separator: &'static [u8],
    pub(crate) after: Bytes,
}

/// Renders objects of one kind in one form.
#[derive(Clone, Debug)]
pub(crate) struct Renderer {
    pub(crate) resource: Arc<Resource>,
    pub(crate) media: Media,
    pub(crate) form: Form,
    pub(crate) include: IncludeObject,
    /// The time in Unix seconds, for the column `Age`.
    pub(crate) now: i64,
}

impl Renderer {
    /// Writes one object.
    pub(crate) fn object(&self, entry: &Entry, out: &mut BytesMut) {
        match self.form {
            Form::Table(_) => self.table(entry, true, out),
            Form::Partial(version) if self.media == Media::Protobuf => protobuf::object(entry, version, out),
            _ => self.item(entry, out),
        }
    }

    /// Writes a table with one row.
    pub(crate) fn table(&self, entry: &Entry, columns: bool, out: &mut BytesMut) {
        let meta = ListMeta { resource_version: resource_version(entry), ..ListMeta::default() };
        out.put_slice(self.head(&meta, columns).as_bytes());
        self.item(entry, out);
        out.put_slice(b"]}");
    }

    /// Writes one element of a list.
    pub(crate) fn element(&self, entry: &Entry, out: &mut BytesMut) {
        let from = out.len();
        self.item(entry, out);
        if self.media == Media::Yaml {
            yaml::rewrite_element(out, from);
        }
    }

    /// Writes one element as JSON or protobuf.
    fn item(&self, entry: &Entry, out: &mut BytesMut) {
        match self.form {
            Form::Object => write_entry(entry, out),
            Form::PartialList(version) if self.media == Media::Protobuf => {
                protobuf::item(entry, version, out);
            }
            Form::Partial(version) | Form::PartialList(version) => metadata_only(entry, version, out),
            Form::Table(version) => self.row(entry, version, out),
        }
    }

    /// The bytes around the elements of a list.
    pub(crate) async fn envelope(&self, meta: &ListMeta, items: &[Arc<Entry>]) -> Envelope {
        match self.form {
            Form::PartialList(version) if self.media == Media::Protobuf => {
                let (before, after) = protobuf::envelope(version, meta, items).await;
                Envelope { before, separator: b"", after }
            }
            _ if self.media == Media::Yaml => {
                let (before, after) =
                    yaml::envelope(self.head(meta, true).as_bytes(), b"]}", items.is_empty());
                Envelope { before, separator: b"", after }
            }
            _ => Envelope {
                before: Bytes::from(self.head(meta, true)),
                separator: b",",
                after: Bytes::from_static(b"]}"),
            },
        }
    }

    /// The JSON of a list up to its first element.
    fn head(&self, meta: &ListMeta, columns: bool) -> String {
        let metadata = serde_json::to_string(meta).unwrap_or_else(|_| "{}".to_owned());
        match self.form {
            Form::Object => {
                let (kind, version) = (self.resource.list_kind(), self.resource.gvk.api_version());
                format!(
                    "{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\"metadata\":{metadata},\"items\":["
                )
            }
            Form::Partial(version) | Form::PartialList(version) => format!(
                "{{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"{version}\",\"metadata\":{metadata},\"items\":["
            ),
            Form::Table(version) => {
                let columns = if columns { columns_of(&self.resource) } else { "[]".to_owned() };
                format!(
                    "{{\"kind\":\"Table\",\"apiVersion\":\"{version}\",\"metadata\":{metadata},\
                     \"columnDefinitions\":{columns},\"rows\":["
                )
            }
        }
    }

    fn row(&self, entry: &Entry, version: &'static str, out: &mut BytesMut) {
        let object = read_object(entry).unwrap_or_default();
        let created = object.text(&["metadata", "creationTimestamp"]);
        let mut cells = vec![Value::from(object.name())];
        cells.extend(self.resource.cells(&object, self.now));
        cells.resize(self.resource.columns.len().saturating_add(1), Value::Null);
        cells.push(Value::from(meta::time::age_since(created, self.now)));
        out.put_slice(b"{\"cells\":");
        out.put_slice(Value::from(cells).to_string().as_bytes());
        out.put_slice(b",\"object\":");
        match self.include {
            IncludeObject::None => out.put_slice(b"null"),
            IncludeObject::Metadata => metadata_only(entry, version, out),
            IncludeObject::Object => write_entry(entry, out),
        }
        out.put_slice(b"}");
    }
}

/// The stored JSON with its revision. After a dry run it has none.
pub(crate) fn write_entry(entry: &Entry, out: &mut BytesMut) {
    if entry.revision.0 == 0 { out.put_slice(&entry.body) } else { entry.write_json(out) }
}

fn read_object(entry: &Entry) -> Option<Object> {
    let mut object = Object::from_stored(&entry.body, entry.revision.0).ok()?;
    if entry.revision.0 == 0 {
        object.remove(&["metadata", "resourceVersion"]);
    }
    Some(object)
}

/// Writes `PartialObjectMetadata`, which is cut from the stored bytes without parsing them.
fn metadata_only(entry: &Entry, version: &str, out: &mut BytesMut) {
    let inner = std::str::from_utf8(&entry.body).ok().and_then(metadata_of).unwrap_or_default();
    out.put_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"");
    out.put_slice(version.as_bytes());
    out.put_slice(b"\",");
    out.put_slice(SPLICE_AFTER.as_bytes());
    let revision = resource_version(entry);
    if !revision.is_empty() {
        out.put_slice(b"\"resourceVersion\":\"");
        out.put_slice(revision.as_bytes());
        out.put_slice(if inner.is_empty() { b"\"" } else { b"\"," });
    }
    out.put_slice(inner.as_bytes());
    out.put_slice(b"}}");
}

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources \
                    may allow a client to request the generation of an appropriate name automatically.";
const AGE: &str = "How long ago the object was created.";

fn columns_of(resource: &Resource) -> String {
    let mut columns =
        vec![json!({"name": "Name", "type": "string", "format": "name", "description": NAME, "priority": 0})];
    columns.extend(resource.columns.iter().map(|column| {
        json!({"name": column.name, "type": column.ty, "format": "", "description": column.description,
            "priority": column.priority})
    }));
    columns.push(json!({"name": "Age", "type": "string", "format": "", "description": AGE, "priority": 0}));
    Value::from(columns).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_include_object_is_refused() {
        assert_eq!(IncludeObject::parse("").unwrap(), IncludeObject::Metadata);
        let message = IncludeObject::parse("All").unwrap_err().message;
        assert!(message.starts_with(
            "Unable to convert to Table as requested: includeObject: Invalid value: \"All\": must be"
        ));
    }
}
