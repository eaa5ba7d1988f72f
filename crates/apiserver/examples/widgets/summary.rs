//! A singleton: how many widgets a caller sees.

use super::names::GROUP;
use apiserver::Resource;
use apiserver::computed::{ReadContext, Singleton};
use apiserver::resource::{Column, READ_ONE, ResourceSource};
use futures_util::future::BoxFuture;
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::schema::Schema;
use meta::status::Status;
use serde_json::{Value, json};
use std::sync::Arc;
use store::KindId;

/// The resource. The store does not know it, and its objects have no names.
pub(crate) fn resource(widgets: KindId) -> Resource {
    let count = Schema::integer("How many widgets there are.").always();
    Resource {
        gvk: GroupVersionKind::new(GROUP, "v1", "Summary"),
        plural: "summary",
        singular: "summary",
        short_names: &[],
        categories: &[],
        namespaced: false,
        verbs: READ_ONE,
        schema: Arc::new(Schema::kind("io.example.sample.v1.Summary", "A summary.", [("count", count)])),
        columns: &[Column { name: "Widgets", ty: "integer", description: "How many.", priority: 0 }],
        source: ResourceSource::Singleton(Arc::new(Summary { widgets })),
    }
}

/// Counts widgets.
#[derive(Debug)]
struct Summary {
    widgets: KindId,
}

impl Singleton for Summary {
    fn get<'a>(&'a self, cx: ReadContext<'a>) -> BoxFuture<'a, Result<Object, Status>> {
        Box::pin(async move {
            let count = cx.view.list(self.widgets, None).await?.len();
            let mut object = Object::default();
            object.set(&["count"], json!(count));
            Ok(object)
        })
    }

    fn cells(&self, object: &Object, _: i64) -> Vec<Value> {
        vec![object.get(&["count"]).cloned().unwrap_or_default()]
    }
}
