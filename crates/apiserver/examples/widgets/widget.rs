//! A stored kind: its schema, the attributes that the store indexes, and the rules of its strategy.

use super::names::GROUP;
use super::paint::Painting;
use apiserver::resource::{ALL_VERBS, Column, ResourceSource};
use apiserver::strategy::{Strategy, WriteContext};
use apiserver::{Resource, StoredKind, Subresource, Verb, View};
use futures_util::future::BoxFuture;
use meta::field::{FieldError, FieldErrors, Path};
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::schema::{ListType, Schema};
use meta::status::Status;
use serde_json::{Value, json};
use std::sync::Arc;
use store::quota::{Account, Violation};
use store::{Attributes, Key, Kind, KindId};

const COLOUR: &[&str] = &["spec", "colour"];
const FINALIZERS: &[&str] = &["spec", "finalizers"];
const FINISH: &[&str] = &["spec", "finish"];
const WORKSHOP: &[&str] = &["spec", "workshop"];
const PHASE: &[&str] = &["status", "phase"];

/// The resource. `id` is the number of the kind in the store: its index in the list with which the store is opened.
pub(crate) fn resource(id: KindId, workshops: KindId) -> Resource {
    Resource {
        gvk: GroupVersionKind::new(GROUP, "v1", "Widget"),
        plural: "widgets",
        singular: "widget",
        short_names: &["wd"],
        categories: &["all"],
        namespaced: true,
        verbs: ALL_VERBS,
        schema: Arc::new(schema()),
        columns: &[
            Column { name: "Colour", ty: "string", description: "Colour of the widget.", priority: 0 },
            Column { name: "Size", ty: "integer", description: "Size in millimetres.", priority: 1 },
        ],
        source: ResourceSource::Stored(Arc::new(StoredKind {
            id,
            kind: Arc::new(Widgets),
            subresources: vec![
                Subresource::STATUS,
                Subresource::FINALIZE,
                Subresource::handled("paint", &[Verb::Create, Verb::Get], Painting::new()),
            ],
            server_fields: &[FINISH],
            strategy: Arc::new(WidgetStrategy { workshops }),
        })),
    }
}

/// One schema for decoding, validation, defaults, OpenAPI, patches and apply.
fn schema() -> Schema {
    let part = Schema::object(
        "A part of the widget.",
        Some("io.example.sample.v1.Part"),
        [
            ("name", Schema::string("Name of the part.").required()),
            ("count", Schema::integer("How many.").optional()),
        ],
    );
    let spec = Schema::object(
        "What the widget shall be.",
        Some("io.example.sample.v1.WidgetSpec"),
        [
            ("colour", Schema::string("Colour.").with_default(json!("red")).optional()),
            ("size", Schema::integer("Size in millimetres.").optional()),
            ("weight", Schema::quantity("Weight in kilograms.").optional()),
            ("parts", Schema::list("Parts, by name.", ListType::Map(&["name"]), part).optional()),
            ("workshop", Schema::string("The workshop that makes it.").optional()),
            ("finish", Schema::string("The workshop's finish. The server's own.").optional()),
            ("finalizers", Schema::strings("Who must let it go.", ListType::Set).optional()),
        ],
    );
    let status = Schema::object(
        "What the widget is.",
        Some("io.example.sample.v1.WidgetStatus"),
        [("phase", Schema::string("Phase.").optional()), ("size", Schema::integer("Size seen.").optional())],
    );
    Schema::kind(
        "io.example.sample.v1.Widget",
        "A widget.",
        [("spec", spec.optional()), ("status", status.optional())],
    )
}

/// What the store indexes.
#[derive(Debug)]
pub(crate) struct Widgets;

impl Kind for Widgets {
    fn group(&self) -> &str {
        GROUP
    }

    fn resource(&self) -> &'static str {
        "widgets"
    }

    fn fields(&self) -> &'static [&'static str] {
        &["spec.colour", "status.phase"]
    }

    fn attributes(&self, body: &[u8]) -> Attributes {
        let object = Object::from_stored(body, 0).unwrap_or_default();
        let tenant = object.annotation("tenant").map(Box::from);
        let labels = object.labels().map(|(key, value)| (Box::from(key), Box::from(value))).collect();
        let fields = [COLOUR, PHASE].map(|path| Box::from(object.text(path)));
        Attributes { tenant, labels, fields: Box::new(fields), ..Attributes::default() }
    }
}

/// The rules of the kind.
#[derive(Debug)]
pub(crate) struct WidgetStrategy {
    /// The kind of a widget's parent.
    workshops: KindId,
}

impl WidgetStrategy {
    fn validate(object: &Object) -> FieldErrors {
        let size = object.get(&["spec", "size"]).and_then(Value::as_i64).unwrap_or_default();
        let path = Path::new("spec").child("size");
        if size < 0 {
            vec![FieldError::invalid(&path, &json!(size), "must not be negative")]
        } else {
            Vec::new()
        }
    }
}

impl Strategy for WidgetStrategy {
    /// A caller who does not see a workshop can create nothing below it, and does not learn that it exists.
    fn parent(&self, object: &Object) -> Option<Key> {
        let workshop = object.text(WORKSHOP);
        (!workshop.is_empty()).then(|| Key::new(self.workshops, "", workshop))
    }

    fn prepare_create(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        object.set(PHASE, json!("New"));
        if let Some(tenant) = cx.tenant() {
            object.set(&["metadata", "annotations", "tenant"], json!(tenant));
        }
        Ok(())
    }

    fn prepare_update(&self, _: &mut WriteContext<'_>, _: &Object, _: &mut Object) -> Result<(), Status> {
        Ok(())
    }

    /// Sets the server field `spec.finish`, which every write copies from the workshop.
    fn admit<'a>(
        &'a self,
        cx: &'a mut WriteContext<'_>,
        view: View<'a>,
        _: Option<&'a Object>,
        object: &'a mut Object,
    ) -> Option<BoxFuture<'a, Result<(), Status>>> {
        let workshop = self.parent(object)?;
        Some(Box::pin(async move {
            let Some(workshop) = view.unfiltered().object(&workshop).await? else {
                cx.warnings.push("the workshop is not there yet".to_owned());
                return Ok(());
            };
            object.set(FINISH, json!(workshop.text(FINISH)));
            Ok(())
        }))
    }

    fn validate_create(&self, _: &mut WriteContext<'_>, object: &Object) -> FieldErrors {
        Self::validate(object)
    }

    fn validate_update(&self, _: &mut WriteContext<'_>, _: &Object, object: &Object) -> FieldErrors {
        Self::validate(object)
    }

    fn prepare_delete(&self, _: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        object.set(PHASE, json!("Terminating"));
        Ok(())
    }

    fn waits_for(&self, object: &Object) -> Option<String> {
        let waits = object.strings(FINALIZERS).next().is_some();
        waits.then(|| "the widget's finalizers have not let it go".to_owned())
    }

    fn account(&self, object: &Object) -> Result<Account, Status> {
        let tenant = object.annotation("tenant").unwrap_or_default().to_owned();
        Ok(Account { tenant, deleting: object.is_deleting(), ..Account::default() })
    }

    fn refusal(&self, _: &WriteContext<'_>, object: &Object, _: &[Violation]) -> Status {
        Status::internal(format!("{} has no quota", object.name()))
    }

    fn cells(&self, object: &Object, _: i64) -> Vec<Value> {
        vec![Value::from(object.text(COLOUR)), object.get(&["spec", "size"]).cloned().unwrap_or_default()]
    }
}
