//! Templates that are to be looked at again.

use super::kind::NamespaceTemplate;
use crate::context::Context;
use crate::figures::Pace;
use crate::kinds::RootKey;
use crate::objects::Tabled as _;
use crate::queue::Lane;
use std::time::Duration;

/// The group of templates in the queue: no member cluster has an empty name.
const GROUP: &str = "";
/// What changes within this time is counted together; a wave may have to wait so long for the next. The more there is to be counted the
/// longer, so that it takes a small part of the time.
const COALESCING_DELAY: Pace = Pace {
    floor: Duration::from_millis(50),
    each: Duration::from_micros(2),
    ceiling: Duration::from_secs(10),
};

/// Looks at a template again. What many namespaces say in one moment is counted once.
pub fn enqueue_template(cx: &Context, key: &RootKey, lane: Lane) {
    let delay = if lane == Lane::Later { coalescing_delay(cx, key) } else { Duration::ZERO };
    cx.wake(&NamespaceTemplate::queued(key.clone()), GROUP, lane, delay);
}

/// What is counted is about as much as the last time.
fn coalescing_delay(cx: &Context, key: &RootKey) -> Duration {
    let known = cx.objects.namespace_templates.get(key).map_or(0, |template| template.status.namespaces);
    COALESCING_DELAY.period(usize::try_from(known).unwrap_or_default())
}

/// Looks at all templates again: there are few.
pub fn enqueue_all_templates(cx: &Context) {
    for template in cx.objects.namespace_templates.all() {
        enqueue_template(cx, &template.key, Lane::Later);
    }
}
