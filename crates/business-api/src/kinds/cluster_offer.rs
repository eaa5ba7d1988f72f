use super::{KindRow, StrategyDependencies};
use crate::allocations::Allocations;
use crate::clusters::Clusters;
use crate::kind_ids::TENANT;
use crate::rights::{Right, Role};
use crate::strategy::{format_usage, text_or_dash};
use apiserver::Resource;
use apiserver::computed::{Computed, ReadContext};
use apiserver::resource::{Column, READS, ResourceSource};
use business_types::names::{CLUSTER_OFFER_KIND, CLUSTER_OFFERS, GROUP, VERSION};
use business_types::{ClusterSummary, HardQuantity, TenantSpec, account};
use futures_util::future::BoxFuture;
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::quantity::{Quantity, ResourceList};
use meta::schema::{ListType, Schema};
use meta::status::Status;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::Visibility;
use store::quota::Scope;

/// Member clusters, as they are shown to the people who may use them.
pub const ROW: KindRow = KindRow {
    plural: CLUSTER_OFFERS,
    stored: None,
    rights: &[Right::object(Role::View, READ_VERBS)],
    resource,
};

const READ_VERBS: &[&str] = &["get", "list"];

const COLUMNS: &[Column] = &[
    Column::string("Display Name", "Name for people.", 0),
    Column::string("Version", "The cluster's Kubernetes version.", 0),
    Column::typed("Reachable", "boolean", "Whether the cluster answers.", 0),
    Column::typed("Cordoned", "boolean", "Whether nothing new may come to it.", 0),
    Column::string("Granted/Ceiling", "What the tenants' root projects are granted, of what they may be.", 0),
];

fn resource(dependencies: &StrategyDependencies) -> Resource {
    Resource {
        gvk: GroupVersionKind::new(GROUP, VERSION, CLUSTER_OFFER_KIND),
        plural: CLUSTER_OFFERS,
        singular: "clusteroffer",
        short_names: &["offer"],
        categories: &[],
        namespaced: false,
        verbs: READS,
        schema: Arc::new(schema()),
        columns: COLUMNS,
        source: ResourceSource::Computed(Arc::new(ClusterOffers {
            clusters: dependencies.clusters.clone(),
            allocations: dependencies.allocations.clone(),
        })),
    }
}

fn schema() -> Schema {
    let share = Schema::object(
        "What a tenant may be granted of the cluster.",
        Some("io.tkestack.business.v1.ClusterShare"),
        [
            ("tenantID", Schema::string("The tenant.").required_always()),
            (
                "hard",
                Schema::resource_list(
                    "Its ceiling, by resource. A resource that is not listed has none: new budget needs the verb grant.",
                )
                .optional(),
            ),
            ("left", Schema::resource_list("What is left of the ceiling, by resource.").optional()),
        ],
    );
    Schema::kind(
        "io.tkestack.business.v1.ClusterOffer",
        "A member cluster that the caller's tenants may use. Made when it is read.",
        [
            ("displayName", Schema::string("Name for people.").optional()),
            ("type", Schema::string("The cluster's type, such as Imported.").optional()),
            ("version", Schema::string("Its Kubernetes version.").optional()),
            ("reachable", Schema::boolean("Whether it answers.").required_always()),
            (
                "cordoned",
                Schema::boolean("Whether nothing new may come to it, and nothing in it may grow.")
                    .required_always(),
            ),
            (
                "tenants",
                Schema::list("The caller's tenants that may use it.", ListType::Atomic, share).optional(),
            ),
        ],
    )
}

/// Computes the offers for a caller.
#[derive(Debug)]
struct ClusterOffers {
    clusters: Clusters,
    allocations: Allocations,
}

impl Computed for ClusterOffers {
    fn list<'a>(&'a self, cx: ReadContext<'a>) -> BoxFuture<'a, Result<Vec<Object>, Status>> {
        Box::pin(async move {
            self.clusters.check_synced()?;
            let ceilings = ceilings(&cx).await?;
            let all = self.clusters.all().into_iter();
            Ok(all.filter_map(|(name, cluster)| self.offer(&cx, &ceilings, &name, &cluster)).collect())
        })
    }

    fn cells(&self, object: &Object, _now_unix_seconds: i64) -> Vec<Value> {
        let flag = |field| object.get(&[field]).cloned().unwrap_or_default();
        vec![
            text_or_dash(object.text(&["displayName"])),
            text_or_dash(object.text(&["version"])),
            flag("reachable"),
            flag("cordoned"),
            json!(granted_of_ceilings(object)),
        ]
    }
}

impl ClusterOffers {
    /// The offer of one cluster; `None` if no tenant of the caller may use it.
    fn offer(
        &self,
        cx: &ReadContext<'_>,
        ceilings: &Ceilings,
        name: &str,
        cluster: &ClusterSummary,
    ) -> Option<Object> {
        let tenants: Vec<&str> = match cx.visibility {
            Visibility::Everything => Vec::new(),
            Visibility::Nothing => return None,
            Visibility::Tenants(sights) => {
                let own = sights.iter().map(|sight| &*sight.tenant);
                own.filter(|tenant| cluster.allows(tenant)).collect()
            }
        };
        if tenants.is_empty() && *cx.visibility != Visibility::Everything {
            return None;
        }
        let shares: Vec<Value> =
            tenants.into_iter().map(|tenant| self.share(ceilings, tenant, name)).collect();
        let mut object = Object::default();
        object.set(&["metadata", "name"], json!(name));
        object.set(&["metadata", "creationTimestamp"], json!(cluster.created));
        for (field, text) in [
            ("displayName", &cluster.display_name),
            ("type", &cluster.cluster_type),
            ("version", &cluster.version),
        ] {
            if !text.is_empty() {
                object.set(&[field], json!(text));
            }
        }
        object.set(&["reachable"], json!(cluster.reachable));
        object.set(&["cordoned"], json!(cluster.closed.is_some()));
        object.set(&["tenants"], json!(shares));
        Some(object)
    }

    fn share(&self, ceilings: &Ceilings, tenant: &str, cluster: &str) -> Value {
        let hard = ceilings.get(tenant).and_then(|clusters| clusters.get(cluster));
        let Some(HardQuantity { hard }) = hard else { return json!({ "tenantID": tenant }) };
        let scope = Scope::new(account::TENANT, tenant);
        let left: ResourceList = hard
            .keys()
            .map(|key| {
                let left = self.allocations.remaining(&scope, cluster, key);
                (key.clone(), left.unwrap_or(Quantity::ZERO))
            })
            .collect();
        json!({ "tenantID": tenant, "hard": hard, "left": left })
    }
}

type Ceilings = BTreeMap<String, BTreeMap<String, HardQuantity>>;

/// The ceilings of the tenants that the caller sees, by tenant and cluster.
async fn ceilings(cx: &ReadContext<'_>) -> Result<Ceilings, Status> {
    if !matches!(cx.visibility, Visibility::Tenants(_)) {
        return Ok(Ceilings::new());
    }
    let read = |body: &[u8]| serde_json::from_slice::<TenantBody>(body).unwrap_or_default().spec.clusters;
    let tenants = cx.view.list(TENANT, None).await?;
    Ok(tenants.into_iter().map(|entry| (entry.key.name.to_string(), read(&entry.body))).collect())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TenantBody {
    spec: TenantSpec,
}

/// The column `Granted/Ceiling`, such as `requests.cpu: 3/10`. With several tenants, each is named.
fn granted_of_ceilings(object: &Object) -> String {
    let tenants = object.get(&["tenants"]).and_then(Value::as_array);
    let amounts = |share: &Value, field: &str| -> ResourceList {
        share.get(field).and_then(|list| serde_json::from_value(list.clone()).ok()).unwrap_or_default()
    };
    let of = |share: &Value| {
        let (hard, left) = (amounts(share, "hard"), amounts(share, "left"));
        let granted = hard.iter().map(|(key, hard)| {
            let left = left.get(key).copied().unwrap_or(Quantity::ZERO);
            (key.clone(), hard.checked_sub(left).unwrap_or(Quantity::ZERO))
        });
        format_usage(&granted.collect(), &hard)
    };
    let several = tenants.is_some_and(|tenants| tenants.len() > 1);
    let shown = tenants.into_iter().flatten().map(|share| {
        let tenant = share.get("tenantID").and_then(Value::as_str).unwrap_or_default();
        if several { format!("{tenant}: {}", of(share)) } else { of(share) }
    });
    let shown: Vec<String> = shown.collect();
    if shown.is_empty() { "-".to_owned() } else { shown.join("; ") }
}
