//! A project or a namespace that somebody wants, by flags or in a file: what is sent, and where to.

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
pub(crate) type Asked = BTreeMap<String, ResourceList>;

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

/// The kind of what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WantedKind {
    Project,
    Namespace,
}

/// An object that is wanted, and whether it is there already.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) kind: WantedKind,
    pub(crate) name: String,
    /// The project that pays; empty of a root project.
    pub(crate) payer: String,
    /// The tenant, as far as it is known.
    pub(crate) tenant: String,
    /// What it is asked to have.
    pub(crate) asked: Asked,
    /// What it has of its payer already.
    pub(crate) had: Asked,
    /// The whole object, or a merge patch for what is there.
    body: Value,
    is_there: bool,
}

impl WantedKind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Namespace => "namespace",
        }
    }

    /// Its full name for kubectl, so that kubectl's commands take it: the word alone means a Namespace of the host
    /// cluster.
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
    pub(crate) fn new_one(&self, project: &str) -> Result<Wanted, Failure> {
        let cluster = self.cluster.as_ref();
        let cluster = cluster.ok_or_else(|| Failure::Usage("a new namespace needs --cluster".to_owned()))?;
        let spec = json!({
            "clusterName": cluster, "namespace": self.name, "hard": self.hard()?,
        });
        let body = object(names::NAMESPACE_KIND, self.object_name.as_deref(), Some(project), &spec);
        Wanted::of_document(body, project)
    }

    /// The same, or a change of the one that is there.
    pub(crate) async fn wanted(&self, api: &Api) -> Result<Wanted, Failure> {
        let name = match (&self.object_name, &self.cluster) {
            (Some(name), _) => name.clone(),
            (None, Some(cluster)) => format!("{cluster}-{}", self.name),
            (None, None) => self.name.clone(),
        };
        let live = api.find::<Namespace>(&paths::namespace(&api.project, &name)).await?;
        let Some(live) = live else {
            // By its name alone it was meant to be there.
            let project = if self.cluster.is_none() { api.named_project()? } else { &api.project };
            return self.new_one(project);
        };
        let hard = self.hard()?;
        Ok(Wanted {
            kind: WantedKind::Namespace,
            name,
            had: charged(&live),
            payer: live.metadata.namespace,
            tenant: live.spec.tenant_id,
            asked: [(live.spec.cluster_name, hard.clone())].into(),
            body: json!({"spec": {"hard": hard}}),
            is_there: true,
        })
    }

    fn hard(&self) -> Result<ResourceList, Failure> {
        amount::parse_list(&self.hard).map_err(Failure::Usage)
    }
}

impl ProjectFlags {
    /// The new project that these flags describe.
    pub(crate) fn new_one(&self) -> Result<Wanted, Failure> {
        let mut spec = self.texts();
        spec.insert("displayName".to_owned(), json!(self.display_name.as_ref().unwrap_or(&self.name)));
        spec.insert("clusters".to_owned(), clusters(&self.asked()?));
        let body = object(names::PROJECT_KIND, Some(&self.name), None, &Value::Object(spec));
        Wanted::of_document(body, "")
    }

    /// The same, or a change of the one that is there.
    pub(crate) async fn wanted(&self, api: &Api) -> Result<Wanted, Failure> {
        let live = api.find::<Project>(&paths::named(names::PROJECTS, &self.name)).await?;
        let Some(live) = live else { return self.new_one() };
        self.change(live)
    }

    /// What these flags change of it; the rest stays.
    fn change(&self, live: Project) -> Result<Wanted, Failure> {
        let asked = self.asked()?;
        let mut spec = self.texts();
        spec.extend(self.display_name.iter().map(|text| ("displayName".to_owned(), json!(text))));
        spec.insert("clusters".to_owned(), clusters(&asked));
        let payer = self.parent.clone().unwrap_or_else(|| live.spec.parent_project_name.clone());
        Ok(Wanted {
            kind: WantedKind::Project,
            name: self.name.clone(),
            had: granted(&live, &payer),
            payer,
            tenant: self.tenant.clone().unwrap_or(live.spec.tenant_id),
            asked,
            body: json!({ "spec": spec }),
            is_there: true,
        })
    }

    /// Fields that are texts, as far as they are said.
    fn texts(&self) -> Map<String, Value> {
        let texts =
            [("parentProjectName", &self.parent), ("tenantID", &self.tenant), ("template", &self.template)];
        let said = texts.into_iter().filter_map(|(field, text)| Some((field, text.as_ref()?)));
        said.map(|(field, text)| (field.to_owned(), json!(text))).collect()
    }

    fn asked(&self) -> Result<Asked, Failure> {
        let mut asked = Asked::new();
        for text in &self.hard {
            let cluster = text.split('=').next().unwrap_or_default().split_once(':');
            let (cluster, _) = cluster.ok_or_else(|| {
                Failure::Usage(format!("{text:?} is not CLUSTER:RESOURCE=AMOUNT,RESOURCE=AMOUNT"))
            })?;
            let list = text.strip_prefix(cluster).and_then(|rest| rest.strip_prefix(':')).unwrap_or_default();
            let list = amount::parse_list(&[list.to_owned()]).map_err(Failure::Usage)?;
            let of_cluster: &mut ResourceList = asked.entry(cluster.to_owned()).or_default();
            for (resource, amount) in list {
                if of_cluster.insert(resource.clone(), amount).is_some() {
                    return Err(Failure::Usage(format!("{cluster}:{resource} is given twice")));
                }
            }
        }
        Ok(asked)
    }
}

impl Wanted {
    /// An object of a file, or one made of flags. `project` is the project of a namespace that names none.
    pub(crate) fn of_document(mut body: Value, project: &str) -> Result<Self, Failure> {
        let text = |body: &Value, path: &str| {
            body.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let kind = match (text(&body, "/apiVersion").as_str(), text(&body, "/kind").as_str()) {
            (names::API_VERSION, names::PROJECT_KIND) => WantedKind::Project,
            (names::API_VERSION, names::NAMESPACE_KIND) => WantedKind::Namespace,
            (version, kind) => {
                let ours = names::API_VERSION;
                return Err(Failure::Usage(format!(
                    "{kind} of {version:?}: there are Project and Namespace of {ours}"
                )));
            }
        };
        if kind == WantedKind::Namespace && text(&body, "/metadata/namespace").is_empty() {
            let metadata = body.get_mut("metadata").and_then(Value::as_object_mut);
            let metadata = metadata.ok_or_else(|| Failure::Usage("the object has no metadata".to_owned()))?;
            metadata.insert("namespace".to_owned(), json!(project));
        }
        let amounts = |value: Option<&Value>| -> Result<ResourceList, Failure> {
            let list = value.cloned().unwrap_or_else(|| json!({}));
            serde_json::from_value(list).map_err(|error| Failure::Usage(format!("an amount: {error}")))
        };
        let cluster = text(&body, "/spec/clusterName");
        let mut asked = Asked::new();
        let (payer, mut name) = match kind {
            WantedKind::Project => {
                for (cluster, quota) in
                    body.pointer("/spec/clusters").and_then(Value::as_object).into_iter().flatten()
                {
                    asked.insert(cluster.clone(), amounts(quota.get("hard"))?);
                }
                (text(&body, "/spec/parentProjectName"), text(&body, "/metadata/name"))
            }
            WantedKind::Namespace => {
                asked.insert(cluster.clone(), amounts(body.pointer("/spec/hard"))?);
                (text(&body, "/metadata/namespace"), text(&body, "/metadata/name"))
            }
        };
        if name.is_empty() {
            name = names::derived_name(&cluster, &text(&body, "/spec/namespace")).unwrap_or_default();
        }
        let tenant = text(&body, "/spec/tenantID");
        Ok(Self { kind, name, payer, tenant, asked, had: Asked::new(), body, is_there: false })
    }

    /// The same as a change, where there is one of this name already.
    pub(crate) async fn or_change(mut self, api: &Api) -> Result<Self, Failure> {
        let found = if self.name.is_empty() { None } else { api.find::<Value>(&self.path()).await? };
        if let Some(live) = found {
            let text = |path: &str| live.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
            self.tenant = text("/spec/tenantID");
            if self.kind == WantedKind::Project && self.body.pointer("/spec/parentProjectName").is_none() {
                self.payer = text("/spec/parentProjectName");
            }
            self.had = match self.kind {
                WantedKind::Project => granted(&known(&live)?, &self.payer),
                WantedKind::Namespace => charged(&known(&live)?),
            };
            let spec = self.body.get("spec").cloned().unwrap_or_else(|| json!({}));
            self.body = json!({ "spec": struck_out(self.kind, spec, live.get("spec")) });
            self.is_there = true;
        }
        Ok(self)
    }

    fn path(&self) -> String {
        match self.kind {
            WantedKind::Project => paths::named(names::PROJECTS, &self.name),
            WantedKind::Namespace => paths::namespace(&self.payer, &self.name),
        }
    }

    /// The same under the name that the server would derive: kubectl applies nothing without one.
    pub(crate) fn named_body(&self) -> Value {
        let mut body = self.body.clone();
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut)
            && !self.name.is_empty()
        {
            metadata.insert("name".to_owned(), json!(self.name));
        }
        body
    }

    pub(crate) fn is_there(&self) -> bool {
        self.is_there
    }

    /// Has it written, or only asks whether it would be.
    pub(crate) async fn write(&self, api: &Api, dry_run: bool) -> Result<Value, Failure> {
        let path = match (self.is_there, self.kind) {
            (true, _) => self.path(),
            (false, WantedKind::Project) => paths::all(names::PROJECTS),
            (false, WantedKind::Namespace) => paths::namespaces_of(&self.payer),
        };
        let path = paths::rehearsed_if(path, dry_run);
        if self.is_there {
            api.merge_patch(&path, &self.body).await
        } else {
            api.post(&path, &self.body).await
        }
    }
}

/// The spec of a file as a merge patch: clusters and resources that are live but not in the file any more are removed.
fn struck_out(kind: WantedKind, mut spec: Value, live: Option<&Value>) -> Value {
    if let (Some(said), Some(live)) = (spec.as_object_mut(), live) {
        match kind {
            WantedKind::Namespace => strike_out(said, live, "hard"),
            WantedKind::Project => {
                strike_out(said, live, "clusters");
                let quotas = said.get_mut("clusters").and_then(Value::as_object_mut);
                for (cluster, quota) in quotas.into_iter().flatten() {
                    let live = live.get("clusters").and_then(|clusters| clusters.get(cluster));
                    if let (Some(quota), Some(live)) = (quota.as_object_mut(), live) {
                        strike_out(quota, live, "hard");
                    }
                }
            }
        }
    }
    spec
}

/// Keys of a map that are live and not said become null.
fn strike_out(said: &mut Map<String, Value>, live: &Value, field: &str) {
    let live = live.get(field).and_then(Value::as_object).filter(|live| !live.is_empty());
    let Some(live) = live else { return };
    let map = said.entry(field).or_insert_with(|| json!({}));
    if let Some(map) = map.as_object_mut() {
        for key in live.keys() {
            map.entry(key.as_str()).or_insert(Value::Null);
        }
    }
}

/// An object as this program knows it.
fn known<T: DeserializeOwned>(live: &Value) -> Result<T, Failure> {
    serde_json::from_value(live.clone())
        .map_err(|error| Failure::Stopped(format!("what is there cannot be read: {error}")))
}

/// What a namespace costs its project.
fn charged(namespace: &Namespace) -> Asked {
    [(namespace.spec.cluster_name.clone(), namespace.status.charged(&namespace.spec).clone())].into()
}

/// What a project costs its payer, if that stays the same.
fn granted(project: &Project, payer: &str) -> Asked {
    if project.spec.parent_project_name != payer {
        return Asked::new();
    }
    project.spec.clusters.iter().map(|(cluster, quota)| (cluster.clone(), quota.hard.clone())).collect()
}

fn clusters(asked: &Asked) -> Value {
    asked
        .iter()
        .map(|(cluster, hard)| (cluster.clone(), json!({ "hard": hard })))
        .collect::<Map<_, _>>()
        .into()
}

fn object(kind: &str, name: Option<&str>, namespace: Option<&str>, spec: &Value) -> Value {
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
        let wanted =
            project(&["east:requests.cpu=4,pods=1", "west:pods=2", "east:example.com/gpu=1"]).new_one();
        let wanted = wanted.unwrap();
        assert_eq!((wanted.payer.as_str(), wanted.name.as_str()), ("web", "p"));
        assert_eq!(amount::list_text(&wanted.asked["east"]), "example.com/gpu=1, pods=1, requests.cpu=4");
        assert_eq!(wanted.body["spec"]["clusters"]["west"], json!({"hard": {"pods": "2"}}));
        for wrong in ["pods=1", "east", "east:pods"] {
            assert!(matches!(project(&[wrong]).new_one(), Err(Failure::Usage(_))), "{wrong}");
        }
        let twice = project(&["east:pods=1", "east:pods=30"]).new_one();
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
        assert_eq!(amount::list_text(&kept.had["east"]), "pods=4");
        assert!(change(project(&[])).had.is_empty(), "another parent pays nothing of it yet");
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
        let patch = |spec: Value| struck_out(WantedKind::Project, spec, Some(&live));
        assert_eq!(
            patch(json!({"clusters": {"east": {"hard": {"pods": "2"}}, "north": {"hard": {"pods": "3"}}}})),
            json!({"clusters": {
                "east": {"hard": {"pods": "2", "requests.cpu": null}}, "north": {"hard": {"pods": "3"}}, "west": null,
            }})
        );
        assert_eq!(patch(json!({"displayName": "Q"}))["clusters"], json!({"east": null, "west": null}));
        let live = json!({"clusterName": "east", "hard": {"pods": "1", "requests.cpu": "1"}});
        let patch = |live| struck_out(WantedKind::Namespace, json!({"hard": {"pods": "2"}}), live);
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
        let wanted = Wanted::of_document(document(json!("")), "shop").unwrap();
        assert_eq!((wanted.name.as_str(), wanted.payer.as_str()), ("c1-web", "shop"));
        assert_eq!(
            wanted.named_body()["metadata"]["name"],
            "c1-web",
            "kubectl applies nothing without a name"
        );
        assert!(wanted.body["metadata"].get("name").is_none(), "the server derives it");
        assert_eq!(amount::list_text(&wanted.asked["c1"]), "pods=3");
        assert_eq!(Wanted::of_document(document(json!("other")), "shop").unwrap().payer, "other");
        assert!(Wanted::of_document(json!({"kind": "Pod", "apiVersion": "v1"}), "").is_err());
    }
}
