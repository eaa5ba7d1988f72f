//! A slow full pass over the member clusters, which finds what no watch tells of: namespaces with our mark and no
//! object, whatever their labels. It only looks and reports; it wakes objects whose namespace looks wrong.

use crate::context::Context;
use crate::member::{Member, Reach};
use crate::queue::Lane;
use business_types::names;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams, PartialObjectMeta};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

/// Time between two passes.
const PERIOD: Duration = Duration::from_mins(5);
/// Until the first pass, so that everything else has begun.
const FIRST_AFTER: Duration = Duration::from_secs(30);
/// Objects a page of a list.
const PAGE: u32 = 500;
/// A call that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(30);
/// Orphans of one cluster that are named in logs and events.
const NAMED_MAX: usize = 20;

/// A namespace of a member cluster that carries our mark and belongs to no object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Orphan {
    name: String,
    uid: String,
}

/// Audits again and again.
pub async fn run(cx: Arc<Context>, namespace: String, end: CancellationToken) {
    let mut ticks = interval_at(Instant::now() + FIRST_AFTER, PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !end.is_cancelled() {
        ticks.tick().await;
        pass(&cx, &namespace).await;
    }
}

async fn pass(cx: &Context, namespace: &str) {
    let mut orphans = 0_usize;
    let mut complete = true;
    for member in cx.members.all() {
        if member.reach() != Reach::Reachable {
            complete = false;
            continue;
        }
        match audit(cx, &member).await {
            Ok(found) => {
                orphans = orphans.saturating_add(found.len());
                report(cx, namespace, &member, &found);
            }
            Err(error) => {
                complete = false;
                tracing::warn!(cluster = member.name, error, "cannot audit a member cluster");
            }
        }
    }
    // Every object is looked at once more; one that is as it should be costs no call.
    for object in cx.objects.namespaces_in(None) {
        cx.wake_namespace(&object, Lane::Later, Duration::ZERO);
    }
    for project in cx.objects.projects() {
        cx.wake_project(&project.name, Lane::Later);
    }
    cx.metrics.orphans.set(i64::try_from(orphans).unwrap_or(i64::MAX));
    if complete {
        cx.metrics.audited.set(cx.clock.unix_seconds());
    }
}

/// The orphans of a member cluster.
async fn audit(cx: &Context, member: &Member) -> Result<Vec<Orphan>, String> {
    let api: Api<Namespace> = Api::all(member.api.client());
    let mut params = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = match tokio::time::timeout(DEADLINE, api.list_metadata(&params)).await {
            Ok(result) => result.map_err(|error| crate::error::chain(&error))?,
            Err(_elapsed) => return Err("no answer in time".to_owned()),
        };
        // Taken after the page: an object is there before its namespace.
        found.extend(orphans(&page.items, &cx.objects.namespace_uids()));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(found),
        }
    }
}

fn orphans(page: &[PartialObjectMeta<Namespace>], alive: &HashSet<String>) -> Vec<Orphan> {
    let marked =
        page.iter().filter(|object| object.metadata.deletion_timestamp.is_none()).filter_map(|object| {
            let uid = object.metadata.annotations.as_ref()?.get(names::UID_ANNOTATION)?.clone();
            Some(Orphan { name: object.metadata.name.clone()?, uid })
        });
    marked.filter(|orphan| !alive.contains(&orphan.uid)).collect()
}

fn report(cx: &Context, namespace: &str, member: &Member, found: &[Orphan]) {
    for orphan in found.iter().take(NAMED_MAX) {
        tracing::warn!(
            cluster = member.name,
            object.name = orphan.name,
            object.uid = orphan.uid,
            "a namespace with our mark belongs to no object"
        );
        let note = format!(
            "namespace {} of cluster {} carries the mark of an object that does not exist (uid {})",
            orphan.name, member.name, orphan.uid
        );
        cx.events.report_directory(namespace, "Orphan", note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_orphan_carries_a_mark_that_no_object_has() {
        let page: Vec<PartialObjectMeta<Namespace>> = serde_json::from_value(json!([
            { "metadata": { "name": "alive", "annotations": { "business.tkestack.io/uid": "u1" } } },
            { "metadata": { "name": "orphan", "annotations": { "business.tkestack.io/uid": "u2" } } },
            { "metadata": { "name": "going", "deletionTimestamp": "2026-01-01T00:00:00Z",
                            "annotations": { "business.tkestack.io/uid": "u3" } } },
            { "metadata": { "name": "foreign" } },
        ]))
        .unwrap();
        let found = orphans(&page, &HashSet::from(["u1".to_owned()]));
        assert_eq!(found, [Orphan { name: "orphan".into(), uid: "u2".into() }]);
    }
}
