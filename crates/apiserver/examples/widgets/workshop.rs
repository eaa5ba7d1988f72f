//! The parent kind of widgets. It is cluster-scoped, and only its tenant sees it.

use super::names::GROUP;
use apiserver::resource::{ALL_VERBS, ResourceSource};
use apiserver::strategy::{Strategy, WriteContext};
use apiserver::{Resource, StoredKind};
use meta::field::FieldErrors;
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::schema::Schema;
use meta::status::Status;
use serde_json::{Value, json};
use std::sync::Arc;
use store::quota::{Account, Violation};
use store::{Attributes, Kind, KindId};

/// The resource.
pub(crate) fn resource(id: KindId) -> Resource {
    let spec = Schema::object(
        "What the workshop does.",
        Some("io.example.sample.v1.WorkshopSpec"),
        [("finish", Schema::string("The finish of what it makes.").optional())],
    );
    let schema = Schema::kind("io.example.sample.v1.Workshop", "A workshop.", [("spec", spec.optional())]);
    Resource {
        gvk: GroupVersionKind::new(GROUP, "v1", "Workshop"),
        plural: "workshops",
        singular: "workshop",
        short_names: &[],
        categories: &[],
        namespaced: false,
        verbs: ALL_VERBS,
        schema: Arc::new(schema),
        columns: &[],
        source: ResourceSource::Stored(Arc::new(StoredKind {
            id,
            kind: Arc::new(Workshops),
            subresources: Vec::new(),
            server_fields: &[],
            strategy: Arc::new(WorkshopStrategy),
        })),
    }
}

/// What the store indexes.
#[derive(Debug)]
pub(crate) struct Workshops;

impl Kind for Workshops {
    fn group(&self) -> &str {
        GROUP
    }

    fn resource(&self) -> &'static str {
        "workshops"
    }

    fn fields(&self) -> &'static [&'static str] {
        &[]
    }

    fn attributes(&self, body: &[u8]) -> Attributes {
        let object = Object::from_stored(body, 0).unwrap_or_default();
        Attributes { tenant: object.annotation("tenant").map(Box::from), ..Attributes::default() }
    }
}

#[derive(Debug)]
struct WorkshopStrategy;

impl Strategy for WorkshopStrategy {
    fn prepare_create(&self, cx: &mut WriteContext<'_>, object: &mut Object) -> Result<(), Status> {
        if let Some(tenant) = cx.tenant() {
            object.set(&["metadata", "annotations", "tenant"], json!(tenant));
        }
        Ok(())
    }

    fn prepare_update(&self, _: &mut WriteContext<'_>, _: &Object, _: &mut Object) -> Result<(), Status> {
        Ok(())
    }

    fn validate_create(&self, _: &mut WriteContext<'_>, _: &Object) -> FieldErrors {
        FieldErrors::new()
    }

    fn validate_update(&self, _: &mut WriteContext<'_>, _: &Object, _: &Object) -> FieldErrors {
        FieldErrors::new()
    }

    fn waits_for(&self, _: &Object) -> Option<String> {
        None
    }

    fn account(&self, object: &Object) -> Result<Account, Status> {
        let tenant = object.annotation("tenant").unwrap_or_default().to_owned();
        Ok(Account { tenant, deleting: object.is_deleting(), ..Account::default() })
    }

    fn refusal(&self, _: &WriteContext<'_>, object: &Object, _: &[Violation]) -> Status {
        Status::internal(format!("{} has no quota", object.name()))
    }

    fn cells(&self, _: &Object, _: i64) -> Vec<Value> {
        Vec::new()
    }
}
