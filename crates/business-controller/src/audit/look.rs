//! What a member cluster has that carries our marks, or lies where something is held.

use super::survey::Survey;
use super::{DEADLINE, SILENT};
use crate::context::Context;
use crate::member::observed::Marks;
use crate::member::{Member, Reach};
use crate::seal::{Keyring, Opened, key_id};
use k8s_openapi::Metadata;
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Objects a page of a list.
const PAGE: u32 = 500;
/// How long what has begun in a cluster is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A namespace of a member cluster that the audit has to judge.
#[derive(Clone, Debug)]
pub struct Sighting {
    pub member: Arc<Member>,
    pub name: String,
    pub uid: String,
    /// The object that its mark names.
    pub mark: Option<String>,
    /// What its seals say, if they hold for this very namespace.
    pub seals: Vec<Opened>,
}

/// What was seen of a cluster.
#[derive(Debug, Default)]
pub struct Sights {
    pub sightings: Vec<Sighting>,
    /// Ids of the keys that seals there say they were made with.
    pub keys: BTreeSet<String>,
}

/// Whether a cluster can be looked at, so that nothing appears in it afterwards that was decided before. The error says
/// why not.
pub async fn ready(cx: &Context, member: &Member) -> Result<(), String> {
    if member.reach() != Reach::Reachable {
        return Err("it does not answer".to_owned());
    }
    // Passes that began before may decide from an older view of our objects.
    if timeout(PATIENCE, cx.queue.ended_in(&member.name)).await.is_err() {
        return Err("a pass over one of its namespaces does not end".to_owned());
    }
    match member.api.may_confirm() {
        Ok(()) => {}
        Err(wait) if wait <= PATIENCE => {
            tokio::time::sleep(wait).await;
            member.api.may_confirm().map_err(under_way)?;
        }
        Err(wait) => return Err(under_way(wait)),
    }
    member.is_the_one().await.map_err(|failure| failure.to_string())
}

fn under_way(wait: Duration) -> String {
    format!("a write to it may still be under way for {} s", wait.as_secs())
}

/// Everything of a cluster that may concern us. The error says why it could not be looked at.
pub async fn look(
    cx: &Context,
    member: &Arc<Member>,
    survey: &Survey,
    keyring: &Keyring,
) -> Result<Sights, String> {
    let mut sights = Sights::default();
    let mut quotas: HashMap<String, Marks> = HashMap::new();
    each::<ResourceQuota>(member, |metadata| {
        let marks = Marks::of(&metadata);
        sights.keys.extend(key_of(&marks));
        if metadata.name == metadata.namespace
            && is_marked(&marks)
            && let Some(namespace) = metadata.namespace
        {
            quotas.insert(namespace, marks);
        }
    })
    .await?;
    let held = survey.places_in(&member.name);
    let imported = imported_in(cx, &member.name);
    let is_awaited = |name: &str| held.contains(name) || imported.contains(name);
    each::<Namespace>(member, |metadata| {
        let marks = Marks::of(&metadata);
        sights.keys.extend(key_of(&marks));
        let name = metadata.name.unwrap_or_default();
        let uid = metadata.uid.unwrap_or_default();
        let quota = quotas.get(&name);
        if !is_marked(&marks) && quota.is_none() && !is_awaited(&name) {
            return;
        }
        let texts = [Some(&marks), quota].into_iter().flatten().filter_map(|marks| marks.seal.as_deref());
        let seals = texts.filter_map(|text| open(keyring, member, &name, &uid, text)).collect();
        let mark = marks.uid;
        sights.sightings.push(Sighting { member: Arc::clone(member), name, uid, mark, seals });
    })
    .await?;
    Ok(sights)
}

/// Names of a cluster's namespaces that imported objects will take over.
fn imported_in(cx: &Context, cluster: &str) -> HashSet<String> {
    let objects = cx.objects.namespaces.in_cluster(cluster);
    let imported = objects.iter().filter(|object| object.status.is_imported());
    imported.map(|object| object.spec.namespace.clone()).collect()
}

/// A seal that was made for this very namespace. One that was made before the namespace was proves nothing here: it
/// could be copied from a former one.
pub fn open(keyring: &Keyring, member: &Member, name: &str, uid: &str, text: &str) -> Option<Opened> {
    let opened = keyring.open(text)?;
    let holds = opened.sealed.namespace_uid.is_some() && opened.sealed.is_of(&member.uid, name, uid);
    holds.then_some(opened)
}

/// Labels alone make nobody ours: a namespace that has only them can be adopted.
fn is_marked(marks: &Marks) -> bool {
    marks.uid.is_some() || marks.seal.is_some()
}

fn key_of(marks: &Marks) -> Option<String> {
    marks.seal.as_deref().and_then(key_id).map(str::to_owned)
}

async fn each<K>(member: &Member, mut take: impl FnMut(ObjectMeta)) -> Result<(), String>
where
    K: Resource<DynamicType = ()> + Metadata<Ty = ObjectMeta> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::all(member.api.client());
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = match timeout(DEADLINE, api.list_metadata(&params)).await {
            Ok(result) => result.map_err(|error| crate::error::chain(&error))?,
            Err(_elapsed) => return Err(SILENT.to_owned()),
        };
        for object in page.items {
            take(object.metadata);
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}
