//! A computed kind: how many shelves each project has that its caller sees.

use super::shelf::STORED as SHELVES;
use apiserver::Resource;
use apiserver::computed::{Computed, ReadContext};
use apiserver::resource::{Column, READS, ResourceSource};
use business_api::kinds::{KindRow, StrategyDependencies};
use business_api::rights::{READ, Right, Role};
use business_types::names::{GROUP, VERSION};
use futures_util::future::BoxFuture;
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::schema::Schema;
use meta::status::Status;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const PLURAL: &str = "occupancies";

pub(crate) const ROW: KindRow = KindRow {
    plural: PLURAL,
    stored: None,
    rights: &[Right::object(Role::Administrator, READ), Right::object(Role::View, READ)],
    resource,
};

fn resource(_dependencies: &StrategyDependencies) -> Resource {
    let status = Schema::object(
        "What is counted.",
        Some("io.tkestack.business.v1.OccupancyStatus"),
        [("shelves", Schema::integer("Shelves of the project.").optional())],
    );
    Resource {
        gvk: GroupVersionKind::new(GROUP, VERSION, "Occupancy"),
        plural: PLURAL,
        singular: "occupancy",
        short_names: &[],
        categories: &[],
        namespaced: false,
        verbs: READS,
        schema: Arc::new(Schema::kind(
            "io.tkestack.business.v1.Occupancy",
            "The shelves of a project.",
            [("status", status.optional())],
        )),
        columns: &[Column { name: "Shelves", ty: "integer", description: "How many.", priority: 0 }],
        source: ResourceSource::Computed(Arc::new(Occupancies)),
    }
}

struct Occupancies;

impl Computed for Occupancies {
    fn list<'a>(&'a self, cx: ReadContext<'a>) -> BoxFuture<'a, Result<Vec<Object>, Status>> {
        Box::pin(async move {
            let mut counts: BTreeMap<Arc<str>, usize> = BTreeMap::new();
            for shelf in cx.view.list(SHELVES.id, None).await? {
                *counts.entry(Arc::clone(&shelf.key.namespace)).or_default() += 1;
            }
            let counted = counts.into_iter().map(|(project, shelves)| {
                let mut object = Object::default();
                object.set(&["metadata", "name"], json!(&*project));
                object.set(&["status", "shelves"], json!(shelves));
                object
            });
            Ok(counted.collect())
        })
    }

    fn cells(&self, object: &Object, _now_unix_seconds: i64) -> Vec<Value> {
        vec![object.get(&["status", "shelves"]).cloned().unwrap_or_default()]
    }
}
