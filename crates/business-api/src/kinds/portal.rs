use super::{KindRow, StrategyDependencies};
use crate::kind_ids::PROJECT;
use crate::rights::{LIST, Right, Role};
use crate::strategy::project_key;
use apiserver::Resource;
use apiserver::computed::{ReadContext, Singleton};
use apiserver::resource::{Column, READ_ONE, ResourceSource};
use business_types::names::{GROUP, PORTAL, PORTAL_KIND, VERSION};
use futures_util::future::BoxFuture;
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::schema::Schema;
use meta::status::Status;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use store::{Entry, Sight, Visibility};

/// The portal: whether the caller is an administrator, and the projects that he sees.
pub const ROW: KindRow = KindRow { plural: PORTAL, stored: None, rights: RIGHTS, resource };

const RIGHTS: &[Right] = &[Right::object(Role::View, LIST)];

const COLUMNS: &[Column] = &[
    Column::typed("Administrator", "boolean", "Whether the caller rules a tenant, or all of them.", 0),
    Column::string("Projects", "Projects that the caller sees.", 0),
];

fn resource(_dependencies: &StrategyDependencies) -> Resource {
    Resource {
        gvk: GroupVersionKind::new(GROUP, VERSION, PORTAL_KIND),
        plural: PORTAL,
        singular: "portal",
        short_names: &["pt"],
        categories: &[],
        namespaced: false,
        verbs: READ_ONE,
        schema: Arc::new(schema()),
        columns: COLUMNS,
        source: ResourceSource::Singleton(Arc::new(Portal)),
    }
}

fn schema() -> Schema {
    let extension = Schema::object(
        "What is shown of a project beside its name.",
        Some("io.tkestack.business.v1.PortalProject"),
        [
            ("phase", Schema::string("Where in its life the project is.").required_always()),
            ("parent", Schema::string("Name of its parent project; empty for a root.").required_always()),
        ],
    );
    let administrator = Schema::boolean("Whether the caller rules his tenant, or, without one, all of them.");
    let projects = Schema::map(
        "Names for people of the projects that the caller sees, by name of the project. Empty for an operator, who sees \
         all projects.",
        Schema::string(""),
    );
    let extension = Schema::map("More of the same projects; null for an operator.", extension);
    Schema::kind(
        "io.tkestack.business.v1.Portal",
        "What the caller is, and which projects he sees.",
        [
            ("administrator", administrator.required_always()),
            ("projects", projects.required_always()),
            ("extension", extension.required_always().or_null()),
        ],
    )
}

/// Computes the portal of a caller.
#[derive(Debug)]
struct Portal;

impl Singleton for Portal {
    fn get<'a>(&'a self, cx: ReadContext<'a>) -> BoxFuture<'a, Result<Object, Status>> {
        Box::pin(async move {
            let is_operator = *cx.visibility == Visibility::Everything;
            let (mut projects, mut extension) = (Map::new(), Map::new());
            for entry in visible_projects(&cx).await? {
                let PortalProject { spec, status } = PortalProject::of(&entry);
                let name = entry.key.name.to_string();
                let parent = spec.parent_project_name;
                extension.insert(name.clone(), json!({"phase": status.phase, "parent": parent}));
                projects.insert(name, Value::from(spec.display_name));
            }
            let mut object = Object::default();
            object.set(&["administrator"], json!(is_operator || administers_a_tenant(cx.visibility)));
            object.set(&["projects"], Value::Object(projects));
            object.set(&["extension"], if is_operator { Value::Null } else { Value::Object(extension) });
            Ok(object)
        })
    }

    fn cells(&self, object: &Object, _now_unix_seconds: i64) -> Vec<Value> {
        let names: Vec<&str> = object.string_map(&["projects"]).map(|(name, _)| name).collect();
        let administrator = object.get(&["administrator"]).cloned().unwrap_or_default();
        vec![administrator, Value::from(if names.is_empty() { "-".to_owned() } else { names.join(",") })]
    }
}

/// The projects that a portal shows: none to an operator, for whom a list of all projects would be useless. The
/// projects of a member are looked up by name, so the cost does not depend on the number of other projects.
async fn visible_projects(cx: &ReadContext<'_>) -> Result<Vec<Arc<Entry>>, Status> {
    let Visibility::Tenants(sights) = cx.visibility else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for sight in sights.iter() {
        let Sight::Namespaces(projects) = &sight.sight else { return cx.view.list(PROJECT, None).await };
        for key in projects.iter().filter_map(|name| project_key(name)) {
            found.extend(cx.view.get(&key).await?);
        }
    }
    Ok(found)
}

fn administers_a_tenant(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Tenants(sights) if sights.iter().any(|sight| sight.sight == Sight::Whole))
}

/// The part of a project that the portal shows.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PortalProject {
    spec: PortalProjectSpec,
    status: PortalProjectStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PortalProjectSpec {
    display_name: String,
    parent_project_name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PortalProjectStatus {
    phase: String,
}

impl PortalProject {
    fn of(entry: &Entry) -> Self {
        serde_json::from_slice(&entry.body).unwrap_or_else(|error| {
            tracing::error!(%error, "a stored project does not read as one");
            Self::default()
        })
    }
}
