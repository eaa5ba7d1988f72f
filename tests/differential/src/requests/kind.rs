//! A kind with every sort of field, served by our library; its twin is a custom resource.

use apiserver::resource::{ALL_VERBS, Column, ResourceSource};
use apiserver::strategy::{Strategy, WriteContext};
use apiserver::{Resource, StoredKind, Subresource};
use meta::field::{FieldError, FieldErrors, Path};
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::schema::{ListType, Schema};
use meta::status::Status;
use serde_json::{Value, json};
use std::sync::Arc;
use store::quota::{Account, Violation};
use store::{Attributes, Kind, KindId};

/// Group of both.
pub(crate) const GROUP: &str = "requests.example.com";
/// Plural of both.
pub(crate) const PLURAL: &str = "items";
/// What `spec.mode` may be.
const MODES: &[&str] = &["Fast", "Slow"];

/// The resource, with its number in the store.
pub(crate) fn resource(id: KindId) -> Resource {
    Resource {
        gvk: GroupVersionKind::new(GROUP, "v1", "Item"),
        plural: PLURAL,
        singular: "item",
        short_names: &["it"],
        categories: &["all"],
        namespaced: true,
        verbs: ALL_VERBS,
        schema: Arc::new(schema()),
        columns: &[
            Column { name: "Text", ty: "string", description: "Some text.", priority: 0 },
            Column { name: "Size", ty: "integer", description: "A number.", priority: 1 },
        ],
        source: ResourceSource::Stored(Arc::new(StoredKind {
            id,
            kind: Arc::new(Items),
            subresources: vec![Subresource::STATUS],
            server_fields: &[],
            strategy: Arc::new(ItemStrategy),
        })),
    }
}

/// The columns as a custom resource declares them.
pub(crate) fn printer_columns() -> Value {
    json!([
        {"name": "Text", "type": "string", "description": "Some text.", "jsonPath": ".spec.text"},
        {"name": "Size", "type": "integer", "description": "A number.", "jsonPath": ".spec.size", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ])
}

/// Every sort of field.
pub(crate) fn schema() -> Schema {
    let part = Schema::object(
        "A part.",
        Some("com.example.requests.v1.Part"),
        [
            ("name", Schema::string("Its name.").required()),
            ("count", Schema::integer("How many.").optional()),
            ("notes", Schema::strings("What is noted.", ListType::Atomic).optional()),
        ],
    );
    let spec = Schema::object(
        "What it is meant to be.",
        Some("com.example.requests.v1.ItemSpec"),
        [
            ("text", Schema::string("Some text.").optional()),
            ("colour", Schema::string("Red unless said.").with_default(json!("red")).optional()),
            ("mode", Schema::one_of("Fast or Slow.", MODES).optional()),
            ("size", Schema::integer("Not negative.").optional()),
            ("flag", Schema::boolean("Yes or no.").optional()),
            ("amount", Schema::quantity("An amount.").optional()),
            ("tags", Schema::strings("A set.", ListType::Set).optional()),
            ("steps", Schema::strings("A list as one value.", ListType::Atomic).optional()),
            ("parts", Schema::list("By name.", ListType::Map(&["name"]), part).optional()),
            ("options", Schema::map("Free keys.", Schema::string("A value.")).optional()),
            ("limits", Schema::resource_list("Amounts.").optional()),
            (
                "nested",
                Schema::object(
                    "A struct.",
                    None,
                    [
                        ("a", Schema::string("One.").optional()),
                        ("b", Schema::string("The other.").with_default(json!("bee")).optional()),
                    ],
                )
                .optional(),
            ),
            ("free", Schema::any("Anything.").optional()),
        ],
    );
    let status = Schema::object(
        "What it is.",
        Some("com.example.requests.v1.ItemStatus"),
        [
            ("phase", Schema::string("A word.").optional()),
            ("seen", Schema::integer("A number.").optional()),
            ("conditions", Schema::conditions("Aspects.").optional()),
        ],
    );
    Schema::kind(
        "com.example.requests.v1.Item",
        "An item.",
        [("spec", spec.optional()), ("status", status.optional())],
    )
}

/// What the store indexes.
#[derive(Debug)]
pub(crate) struct Items;

impl Kind for Items {
    fn group(&self) -> &str {
        GROUP
    }

    fn resource(&self) -> &'static str {
        PLURAL
    }

    fn fields(&self) -> &'static [&'static str] {
        &[]
    }

    fn attributes(&self, body: &[u8]) -> Attributes {
        let object = Object::from_stored(body, 0).unwrap_or_default();
        let labels = object.labels().map(|(key, value)| (Box::from(key), Box::from(value))).collect();
        Attributes { labels, ..Attributes::default() }
    }
}

/// What the twin's schema says beyond the shape and what the server checks: a minimum.
#[derive(Debug)]
struct ItemStrategy;

impl ItemStrategy {
    fn validate(object: &Object) -> FieldErrors {
        let path = Path::new("spec");
        let mut errors = FieldErrors::new();
        if let Some(size) = object.get(&["spec", "size"]).and_then(Value::as_i64).filter(|size| *size < 0) {
            let detail = "spec.size in body should be greater than or equal to 0";
            errors.push(FieldError::invalid(&path.child("size"), &json!(size), detail));
        }
        errors
    }
}

impl Strategy for ItemStrategy {
    fn prepare_create(&self, _: &mut WriteContext<'_>, _: &mut Object) -> Result<(), Status> {
        Ok(())
    }

    fn validate_create(&self, _: &mut WriteContext<'_>, object: &Object) -> FieldErrors {
        Self::validate(object)
    }

    fn prepare_update(&self, _: &mut WriteContext<'_>, _: &Object, _: &mut Object) -> Result<(), Status> {
        Ok(())
    }

    fn validate_update(&self, _: &mut WriteContext<'_>, _: &Object, object: &Object) -> FieldErrors {
        Self::validate(object)
    }

    fn waits_for(&self, _: &Object) -> Option<String> {
        None
    }

    fn account(&self, object: &Object) -> Result<Account, Status> {
        Ok(Account { deleting: object.is_deleting(), ..Account::default() })
    }

    fn refusal(&self, _: &WriteContext<'_>, object: &Object, _: &[Violation]) -> Status {
        Status::internal(format!("{} has no quota", object.name()))
    }

    fn cells(&self, object: &Object, _: i64) -> Vec<Value> {
        ["text", "size"].map(|field| object.get(&["spec", field]).cloned().unwrap_or_default()).to_vec()
    }
}
