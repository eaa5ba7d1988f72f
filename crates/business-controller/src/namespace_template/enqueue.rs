//! Adds templates to the work queue.

use super::kind::NamespaceTemplate;
use crate::context::Context;
use crate::kinds::{ObjectKey as _, RootKey};
use crate::objects::RegisteredKind as _;
use crate::queue::{FlowKey, Lane};
use crate::throttle::Pace;
use std::time::Duration;

/// The group of templates in the queue: no member cluster has an empty name.
const GROUP: &str = "";
/// Changes within this time are counted together; the next wave may have to wait for it. It grows with the number of
/// namespaces, so that counting takes only a small part of the time.
const COALESCING_DELAY: Pace = Pace {
    floor: Duration::from_millis(50),
    each: Duration::from_micros(2),
    ceiling: Duration::from_secs(10),
};

/// Enqueues a template. Changes of many namespaces at a time are counted together.
pub fn enqueue_template(cx: &Context, key: &RootKey, lane: Lane) {
    let delay = if lane == Lane::Later { coalescing_delay(cx, key) } else { Duration::ZERO };
    let place = FlowKey { group: GROUP, owner: key.name() };
    cx.enqueue(&NamespaceTemplate::object_ref(key.clone()), place, lane, delay);
}

/// The delay, by the number of namespaces at the last count.
fn coalescing_delay(cx: &Context, key: &RootKey) -> Duration {
    let known = cx.objects.namespace_templates.get(key).map_or(0, |template| template.status.namespaces);
    COALESCING_DELAY.period(usize::try_from(known).unwrap_or_default())
}

/// Enqueues all templates: there are few.
pub fn enqueue_all_templates(cx: &Context) {
    for template in cx.objects.namespace_templates.all() {
        enqueue_template(cx, &template.key, Lane::Later);
    }
}
