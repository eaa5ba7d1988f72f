//! A project or namespace as flags or a file describe it, and the request that creates or changes it.

use crate::amount;
use crate::api::Api;
use crate::failure::Failure;
use crate::objects::{Namespace, Project};
use crate::paths;
use business_types::names;
use clap::Args;
use meta::quantity::ResourceList;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Amounts by cluster.
pub(crate) type AmountsByCluster = BTreeMap<String, ResourceList>;

/// A namespace by flags.
#[derive(Clone, Debug, Args)]
pub(crate) struct NamespaceFlags {
    /// Its name in the cluster
    name: String,
    /// The member cluster
    #[arg(long)]
    cluster: Option<String>,
    /// What it may use: RESOURCE=AMOUNT, with commas between, or repeated
    #[arg(long, visible_alias = "set", value_name = "RESOURCE=AMOUNT")]
    hard: Vec<String>,
    /// Its name in the project; CLUSTER-NAME if it is left out
    #[arg(long, value_name = "NAME")]
    object_name: Option<String>,
}

/// A project by flags.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProjectFlags {
    /// What it is to be called
    name: String,
    /// The project that it is carved out of; without one it is a root of its tenant
    #[arg(long, value_name = "PROJECT")]
    parent: Option<String>,
    /// The tenant of a root, where you rule several
    #[arg(long)]
    tenant: Option<String>,
    /// Its name for people; NAME if it is left out
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,
    /// The template of its namespaces
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// Its budget on a cluster: CLUSTER:RESOURCE=AMOUNT,RESOURCE=AMOUNT; repeat it for several
    #[arg(long, visible_alias = "set", value_name = "CLUSTER:RESOURCE=AMOUNT")]
    hard: Vec<String>,
}

/// The kind of a desired object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DesiredKind {
    Project,
    Namespace,
}

/// An object to create, or to change if it exists.
#[derive(Clone, Debug)]
pub(crate) struct DesiredObject {
    pub(crate) kind: DesiredKind,
    pub(crate) name: String,
    /// The project that pays: the parent of a project, or the project of a namespace. Empty for a root project.
    pub(crate) payer: String,
    /// The tenant; empty if it is not known.
    pub(crate) tenant: String,
    /// The amounts that it is to have.
    pub(crate) requested: AmountsByCluster,
    /// The amounts that its payer provides already.
    pub(crate) current: AmountsByCluster,
    /// The whole object, or a merge patch if it exists.
    body: Value,
    exists: bool,
}

impl DesiredKind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Namespace => "namespace",
        }
    }

    /// The resource with its group, for kubectl: `namespace` alone means a Namespace of the host cluster.
    pub(crate) fn full_name(self) -> String {
        format!("{}.{}", self.word(), names::GROUP)
    }

    /// Its kind in the API.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Project => names::PROJECT_KIND,
            Self::Namespace => names::NAMESPACE_KIND,
        }
    }
}

impl NamespaceFlags {
    /// The new namespace that these flags describe.
    pub(crate) fn new_object(&self, project: &str) -> Result<DesiredObject, Failure> {
        let cluster = self.cluster.as_ref();
        let cluster = cluster.ok_or_else(|| Failure::Usage("a new namespace needs --cluster".to_owned()))?;
        let spec = json!({
            "clusterName": cluster, "namespace": self.name, "hard": self.hard()?,
        });
        let body = new_document(names::NAMESPACE_KIND, self.object_name.as_deref(), Some(project), &spec);
        DesiredObject::of_document(body, project)
    }

    /// The object that these flags create, or the change if it exists.
    pub(crate) async fn new_or_changed(&self, api: &Api) -> Result<DesiredObject, Failure> {
        let name = match (&self.object_name, &self.cluster) {
            (Some(name), _) => name.clone(),
            (None, Some(cluster)) => format!("{cluster}-{}", self.name),
            (None, None) => self.name.clone(),
        };
        let live = api.find::<Namespace>(&paths::namespace(&api.project, &name)).await?;
        let Some(live) = live else {
            // Without --cluster it was expected to exist.
            let project = if self.cluster.is_none() { api.named_project()? } else { &api.project };
            return self.new_object(project);
        };
        let hard = self.hard()?;
        Ok(DesiredObject {
            kind: DesiredKind::Namespace,
            name,
            current: charged_amounts(&live),
            payer: live.metadata.namespace,
            tenant: live.spec.tenant_id,
            requested: [(live.spec.cluster_name, hard.clone())].into(),
            body: json!({"spec": {"hard": hard}}),
            exists: true,
        })
    }

    fn hard(&self) -> Result<ResourceList, Failure> {
        amount::parse_list(&self.hard).map_err(Failure::Usage)
    }
}

impl ProjectFlags {
    /// The new project that these flags describe.
    pub(crate) fn new_object(&self) -> Result<DesiredObject, Failure> {
        let mut spec = self.texts();
        spec.insert("displayName".to_owned(), json!(self.display_name.as_ref().unwrap_or(&self.name)));
        spec.insert("clusters".to_owned(), clusters(&self.requested()?));
        let body = new_document(names::PROJECT_KIND, Some(&self.name), None, &Value::Object(spec));
        DesiredObject::of_document(body, "")
    }

    /// The object that these flags create, or the change if it exists.
    pub(crate) async fn new_or_changed(&self, api: &Api) -> Result<DesiredObject, Failure> {
        let live = api.find::<Project>(&paths::object(names::PROJECTS, &self.name)).await?;
        let Some(live) = live else { return self.new_object() };
        self.change(live)
    }

    /// A merge patch of what these flags change.
    fn change(&self, live: Project) -> Result<DesiredObject, Failure> {
        let requested = self.requested()?;
        let mut spec = self.texts();
        spec.extend(self.display_name.iter().map(|text| ("displayName".to_owned(), json!(text))));
        spec.insert("clusters".to_owned(), clusters(&requested));
        let payer = self.parent.clone().unwrap_or_else(|| live.spec.parent_project_name.clone());
        Ok(DesiredObject {
            kind: DesiredKind::Project,
            name: self.name.clone(),
            current: granted_amounts(&live, &payer),
            payer,
            tenant: self.tenant.clone().unwrap_or(live.spec.tenant_id),
            requested,
            body: json!({ "spec": spec }),
            exists: true,
        })
    }

    /// The string fields that the flags set.
    fn texts(&self) -> Map<String, Value> {
        let texts =
            [("parentProjectName", &self.parent), ("tenantID", &self.tenant), ("template", &self.template)];
        let given = texts.into_iter().filter_map(|(field, text)| Some((field, text.as_ref()?)));
        given.map(|(field, text)| (field.to_owned(), json!(text))).collect()
    }

    fn requested(&self) -> Result<AmountsByCluster, Failure> {
        let mut requested = AmountsByCluster::new();
        for text in &self.hard {
            let cluster = text.split('=').next().unwrap_or_default().split_once(':');
            let (cluster, _) = cluster.ok_or_else(|| {
                Failure::Usage(format!("{text:?} is not CLUSTER:RESOURCE=AMOUNT,RESOURCE=AMOUNT"))
            })?;
            let list = text.strip_prefix(cluster).and_then(|rest| rest.strip_prefix(':')).unwrap_or_default();
            let list = amount::parse_list(&[list.to_owned()]).map_err(Failure::Usage)?;
            let of_cluster: &mut ResourceList = requested.entry(cluster.to_owned()).or_default();
            for (resource, amount) in list {
                if of_cluster.insert(resource.clone(), amount).is_some() {
                    return Err(Failure::Usage(format!("{cluster}:{resource} is given twice")));
                }
            }
        }
        Ok(requested)
    }
}

impl DesiredObject {
    /// An object of a file, or one made of flags. `project` is the project of a namespace that names none.
    pub(crate) fn of_document(mut body: Value, project: &str) -> Result<Self, Failure> {
        let text = |body: &Value, path: &str| {
            body.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let kind = match (text(&body, "/apiVersion").as_str(), text(&body, "/kind").as_str()) {
            (names::API_VERSION, names::PROJECT_KIND) => DesiredKind::Project,
            (names::API_VERSION, names::NAMESPACE_KIND) => DesiredKind::Namespace,
            (version, kind) => {
                let ours = names::API_VERSION;
                return Err(Failure::Usage(format!(
                    "{kind} of {version:?}: there are Project and Namespace of {ours}"
                )));
            }
        };
        if kind == DesiredKind::Namespace && text(&body, "/metadata/namespace").is_empty() {
            let metadata = body.get_mut("metadata").and_then(Value::as_object_mut);
            let metadata = metadata.ok_or_else(|| Failure::Usage("the object has no metadata".to_owned()))?;
            metadata.insert("namespace".to_owned(), json!(project));
        }
        let amounts = |value: Option<&Value>| -> Result<ResourceList, Failure> {
            let list = value.cloned().unwrap_or_else(|| json!({}));
            serde_json::from_value(list).map_err(|error| Failure::Usage(format!("an amount: {error}")))
        };
        let cluster = text(&body, "/spec/clusterName");
        let mut requested = AmountsByCluster::new();
        let (payer, mut name) = match kind {
            DesiredKind::Project => {
                for (cluster, quota) in
                    body.pointer("/spec/clusters").and_then(Value::as_object).into_iter().flatten()
                {
                    requested.insert(cluster.clone(), amounts(quota.get("hard"))?);
                }
                (text(&body, "/spec/parentProjectName"), text(&body, "/metadata/name"))
            }
            DesiredKind::Namespace => {
                requested.insert(cluster.clone(), amounts(body.pointer("/spec/hard"))?);
                (text(&body, "/metadata/namespace"), text(&body, "/metadata/name"))
            }
        };
        if name.is_empty() {
            name = names::derived_name(&cluster, &text(&body, "/spec/namespace")).unwrap_or_default();
        }
        let tenant = text(&body, "/spec/tenantID");
        Ok(Self {
            kind,
            name,
            payer,
            tenant,
            requested,
            current: AmountsByCluster::new(),
            body,
            exists: false,
        })
    }

    /// Turns it into a change if an object of this name exists.
    pub(crate) async fn or_change_of_existing(mut self, api: &Api) -> Result<Self, Failure> {
        let found = if self.name.is_empty() { None } else { api.find::<Value>(&self.path()).await? };
        if let Some(live) = found {
            let text = |path: &str| live.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
            self.tenant = text("/spec/tenantID");
            if self.kind == DesiredKind::Project && self.body.pointer("/spec/parentProjectName").is_none() {
                self.payer = text("/spec/parentProjectName");
            }
            self.current = match self.kind {
                DesiredKind::Project => granted_amounts(&decode(&live)?, &self.payer),
                DesiredKind::Namespace => charged_amounts(&decode(&live)?),
            };
            let spec = self.body.get("spec").cloned().unwrap_or_else(|| json!({}));
            self.body = json!({ "spec": replacement_patch(self.kind, spec, live.get("spec")) });
            self.exists = true;
        }
        Ok(self)
    }

    fn path(&self) -> String {
        match self.kind {
            DesiredKind::Project => paths::object(names::PROJECTS, &self.name),
            DesiredKind::Namespace => paths::namespace(&self.payer, &self.name),
        }
    }

    /// The body with the name that the server would derive: `kubectl apply` needs one.
    pub(crate) fn named_body(&self) -> Value {
        let mut body = self.body.clone();
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut)
            && !self.name.is_empty()
        {
            metadata.insert("name".to_owned(), json!(self.name));
        }
        body
    }

    pub(crate) fn exists(&self) -> bool {
        self.exists
    }

    /// Creates or patches it.
    pub(crate) async fn write(&self, api: &Api, dry_run: bool) -> Result<Value, Failure> {
        let path = match (self.exists, self.kind) {
            (true, _) => self.path(),
            (false, DesiredKind::Project) => paths::collection(names::PROJECTS),
            (false, DesiredKind::Namespace) => paths::namespaces_of(&self.payer),
        };
        let path = paths::with_dry_run(path, dry_run);
        if self.exists { api.merge_patch(&path, &self.body).await } else { api.post(&path, &self.body).await }
    }
}

/// The spec of a file as a merge patch that removes clusters and resources which the file does not have.
fn replacement_patch(kind: DesiredKind, mut spec: Value, live: Option<&Value>) -> Value {
    if let (Some(given), Some(live)) = (spec.as_object_mut(), live) {
        match kind {
            DesiredKind::Namespace => null_absent_keys(given, live, "hard"),
            DesiredKind::Project => {
                null_absent_keys(given, live, "clusters");
                let quotas = given.get_mut("clusters").and_then(Value::as_object_mut);
                for (cluster, quota) in quotas.into_iter().flatten() {
                    let live = live.get("clusters").and_then(|clusters| clusters.get(cluster));
                    if let (Some(quota), Some(live)) = (quota.as_object_mut(), live) {
                        null_absent_keys(quota, live, "hard");
                    }
                }
            }
        }
    }
    spec
}

/// Sets the keys of a map to null that are live but not given.
fn null_absent_keys(given: &mut Map<String, Value>, live: &Value, field: &str) {
    let live = live.get(field).and_then(Value::as_object).filter(|live| !live.is_empty());
    let Some(live) = live else { return };
    let map = given.entry(field).or_insert_with(|| json!({}));
    if let Some(map) = map.as_object_mut() {
        for key in live.keys() {
            map.entry(key.as_str()).or_insert(Value::Null);
        }
    }
}

/// Decodes an object.
fn decode<T: DeserializeOwned>(live: &Value) -> Result<T, Failure> {
    serde_json::from_value(live.clone())
        .map_err(|error| Failure::Other(format!("what is there cannot be read: {error}")))
}

/// What a namespace costs its project.
fn charged_amounts(namespace: &Namespace) -> AmountsByCluster {
    [(namespace.spec.cluster_name.clone(), namespace.status.charged(&namespace.spec).clone())].into()
}

/// What a project costs this payer; nothing if its parent is another project.
fn granted_amounts(project: &Project, payer: &str) -> AmountsByCluster {
    if project.spec.parent_project_name != payer {
        return AmountsByCluster::new();
    }
    project.spec.clusters.iter().map(|(cluster, quota)| (cluster.clone(), quota.hard.clone())).collect()
}

fn clusters(requested: &AmountsByCluster) -> Value {
    requested
        .iter()
        .map(|(cluster, hard)| (cluster.clone(), json!({ "hard": hard })))
        .collect::<Map<_, _>>()
        .into()
}

fn new_document(kind: &str, name: Option<&str>, namespace: Option<&str>, spec: &Value) -> Value {
    let mut metadata = Map::new();
    metadata.extend(name.map(|name| ("name".to_owned(), json!(name))));
    metadata.extend(namespace.map(|namespace| ("namespace".to_owned(), json!(namespace))));
    json!({"apiVersion": names::API_VERSION, "kind": kind, "metadata": metadata, "spec": spec})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(hard: &[&str]) -> ProjectFlags {
        let hard = hard.iter().map(|text| (*text).to_owned()).collect();
        ProjectFlags {
            name: "p".into(),
            parent: Some("web".into()),
            tenant: None,
            display_name: None,
            template: None,
            hard,
        }
    }

    #[test]
    fn budgets_are_read_by_cluster() {
        let desired =
            project(&["east:requests.cpu=4,pods=1", "west:pods=2", "east:example.com/gpu=1"]).new_object();
        let desired = desired.unwrap();
        assert_eq!((desired.payer.as_str(), desired.name.as_str()), ("web", "p"));
        assert_eq!(
            amount::list_text(&desired.requested["east"]),
            "example.com/gpu=1, pods=1, requests.cpu=4"
        );
        assert_eq!(desired.body["spec"]["clusters"]["west"], json!({"hard": {"pods": "2"}}));
        for wrong in ["pods=1", "east", "east:pods"] {
            assert!(matches!(project(&[wrong]).new_object(), Err(Failure::Usage(_))), "{wrong}");
        }
        let twice = project(&["east:pods=1", "east:pods=30"]).new_object();
        assert!(matches!(twice, Err(Failure::Usage(why)) if why == "east:pods is given twice"));
    }

    #[test]
    fn a_change_by_flags_says_all_that_they_say_and_no_more() {
        let live: Project = serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "spec": {"parentProjectName": "shop", "tenantID": "acme", "displayName": "P", "template": "small",
                     "clusters": {"east": {"hard": {"pods": "4"}}}},
        }))
        .unwrap();
        let change = |flags: ProjectFlags| flags.change(live.clone()).unwrap();
        let kept = change(ProjectFlags { parent: None, ..project(&[]) });
        assert_eq!(amount::list_text(&kept.current["east"]), "pods=4");
        assert!(change(project(&[])).current.is_empty(), "another parent pays nothing of it yet");
        let little = change(ProjectFlags { parent: None, ..project(&["east:pods=1"]) });
        assert_eq!(little.body, json!({"spec": {"clusters": {"east": {"hard": {"pods": "1"}}}}}));
        assert_eq!((little.payer.as_str(), little.tenant.as_str()), ("shop", "acme"));
        let all = change(ProjectFlags {
            tenant: Some("globex".into()),
            display_name: Some("For people".into()),
            template: Some("large".into()),
            ..project(&[])
        });
        assert_eq!(
            all.body,
            json!({"spec": {
                "parentProjectName": "web", "tenantID": "globex", "displayName": "For people", "template": "large",
                "clusters": {},
            }})
        );
        assert_eq!((all.payer.as_str(), all.tenant.as_str()), ("web", "globex"));
    }

    #[test]
    fn what_is_struck_out_of_a_file_is_taken_away() {
        let live = json!({"displayName": "P", "clusters": {
            "east": {"hard": {"pods": "1", "requests.cpu": "1"}}, "west": {"hard": {"pods": "1"}},
        }});
        let patch = |spec: Value| replacement_patch(DesiredKind::Project, spec, Some(&live));
        assert_eq!(
            patch(json!({"clusters": {"east": {"hard": {"pods": "2"}}, "north": {"hard": {"pods": "3"}}}})),
            json!({"clusters": {
                "east": {"hard": {"pods": "2", "requests.cpu": null}}, "north": {"hard": {"pods": "3"}}, "west": null,
            }})
        );
        assert_eq!(patch(json!({"displayName": "Q"}))["clusters"], json!({"east": null, "west": null}));
        let live = json!({"clusterName": "east", "hard": {"pods": "1", "requests.cpu": "1"}});
        let patch = |live| replacement_patch(DesiredKind::Namespace, json!({"hard": {"pods": "2"}}), live);
        assert_eq!(patch(Some(&live)), json!({"hard": {"pods": "2", "requests.cpu": null}}));
        assert_eq!(patch(None), json!({"hard": {"pods": "2"}}));
    }

    #[test]
    fn a_namespace_of_a_file_lies_in_the_project_that_is_meant() {
        let document = |namespace: Value| {
            json!({
                "apiVersion": names::API_VERSION, "kind": "Namespace", "metadata": {"namespace": namespace},
                "spec": {"clusterName": "c1", "namespace": "web", "hard": {"pods": 3}},
            })
        };
        let desired = DesiredObject::of_document(document(json!("")), "shop").unwrap();
        assert_eq!((desired.name.as_str(), desired.payer.as_str()), ("c1-web", "shop"));
        assert_eq!(
            desired.named_body()["metadata"]["name"],
            "c1-web",
            "kubectl applies nothing without a name"
        );
        assert!(desired.body["metadata"].get("name").is_none(), "the server derives it");
        assert_eq!(amount::list_text(&desired.requested["c1"]), "pods=3");
        assert_eq!(DesiredObject::of_document(document(json!("other")), "shop").unwrap().payer, "other");
        assert!(DesiredObject::of_document(json!({"kind": "Pod", "apiVersion": "v1"}), "").is_err());
    }
}
