//! Watches of objects that templates have created in a member cluster. That they cannot be listed does not make the
//! cluster unreachable: the rights to list them were added in later releases.

use super::template_objects::{TemplateObject, TemplateObjectKind};
use super::watch_health::WatchHealth;
use super::watch_store::UpdateSource;
use super::{Member, notify, pages};
use crate::context::Context;
use crate::dispatch;
use crate::error::ListFailure;
use crate::queue::Lane;
use business_types::names::TEMPLATE_LABEL;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::watcher::{Config, Event};
use std::time::Duration;

/// Objects in one page of a list.
const PAGE: u32 = 500;

/// Watches all kinds for ever.
pub(super) async fn follow(cx: &Context, member: &Member, health: &WatchHealth) {
    join_all(TemplateObjectKind::ALL.map(|kind| watch(cx, member, health, kind))).await;
}

async fn watch(cx: &Context, member: &Member, health: &WatchHealth, kind: TemplateObjectKind) {
    let api: Api<DynamicObject> = Api::all_with(member.api.client(), &kind.resource());
    let mut stream = pages::watch(&member.name, api, Config::default().labels(TEMPLATE_LABEL), PAGE);
    let seen = &member.observed.templates;
    let changed =
        |namespace: &str| notify::wake_namespace(cx, member, namespace, Lane::Urgent, Duration::ZERO);
    while let Some(event) = stream.next().await {
        health.observe(kind.plural(), &event);
        match event {
            Ok(Event::Init) => seen.of(kind).begin_list(),
            Ok(Event::InitDone) => notify::list_ended(cx, member, seen.of(kind).end_list()),
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let Some(namespace) = object.metadata.namespace.clone() else { continue };
                let Some(object) = TemplateObject::of(kind, object) else { continue };
                if seen.upsert(&namespace, object, UpdateSource::Watch) {
                    changed(&namespace);
                }
            }
            Ok(Event::Delete(object)) => {
                let Some(namespace) = object.metadata.namespace.clone() else { continue };
                let Some(object) = TemplateObject::of(kind, object) else { continue };
                seen.remove(&namespace, &object);
                changed(&namespace);
            }
            Err(failure) => {
                let failure = ListFailure::from(&failure);
                tracing::warn!(
                    cluster = member.name,
                    what = kind.plural(),
                    error = failure.text,
                    "watch of templates failed"
                );
                if seen.of(kind).list_failed(&failure) {
                    dispatch::cluster_changed(cx, &member.name);
                }
            }
        }
    }
}
