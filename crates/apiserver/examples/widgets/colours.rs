//! A computed kind: the colours of the widgets that a caller sees, and how many there are of each.

use super::names::GROUP;
use apiserver::Resource;
use apiserver::computed::{Computed, ReadContext};
use apiserver::resource::{Column, READS, ResourceSource};
use futures_util::future::BoxFuture;
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::schema::Schema;
use meta::status::Status;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::KindId;

/// The resource. The store does not know it.
pub(crate) fn resource(widgets: KindId) -> Resource {
    let status = Schema::object(
        "What is seen of the colour.",
        Some("io.example.sample.v1.ColourStatus"),
        [("widgets", Schema::integer("Widgets of this colour.").optional())],
    );
    let schema = Schema::kind("io.example.sample.v1.Colour", "A colour.", [("status", status.optional())]);
    Resource {
        gvk: GroupVersionKind::new(GROUP, "v1", "Colour"),
        plural: "colours",
        singular: "colour",
        short_names: &[],
        categories: &[],
        namespaced: true,
        verbs: READS,
        schema: Arc::new(schema),
        columns: &[Column { name: "Widgets", ty: "integer", description: "How many.", priority: 0 }],
        source: ResourceSource::Computed(Arc::new(Colours { widgets })),
    }
}

/// Counts widgets.
#[derive(Debug)]
struct Colours {
    widgets: KindId,
}

impl Computed for Colours {
    fn list<'a>(&'a self, cx: ReadContext<'a>) -> BoxFuture<'a, Result<Vec<Object>, Status>> {
        Box::pin(async move {
            let mut counts: BTreeMap<(String, String), i64> = BTreeMap::new();
            for entry in cx.view.list(self.widgets, cx.namespace).await? {
                let widget = Object::from_stored(&entry.body, entry.revision.0).unwrap_or_default();
                let colour = widget.text(&["spec", "colour"]).to_owned();
                *counts.entry((widget.namespace().to_owned(), colour)).or_default() += 1;
            }
            let counted = counts.into_iter().map(|((namespace, colour), widgets)| {
                let mut object = Object::default();
                object.set(&["metadata", "name"], json!(colour));
                object.set(&["metadata", "namespace"], json!(namespace));
                object
                    .set(&["metadata", "labels"], json!({"some": if widgets > 1 { "many" } else { "one" }}));
                object.set(&["status", "widgets"], json!(widgets));
                object
            });
            Ok(counted.collect())
        })
    }

    fn cells(&self, object: &Object, _: i64) -> Vec<Value> {
        vec![object.get(&["status", "widgets"]).cloned().unwrap_or_default()]
    }
}
