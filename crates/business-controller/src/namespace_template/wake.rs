//! Templates that are to be looked at again.

use super::kind::NamespaceTemplate;
use crate::context::Context;
use crate::kinds::RootKey;
use crate::objects::RegisteredKind as _;
use crate::queue::Lane;
use crate::throttle::Pace;
use std::time::Duration;

/// The group of templates in the queue: no member cluster has an empty name.
const GROUP: &str = "";
/// What changes within this time is counted together; a wave may have to wait so long for the next. The more there is to be counted the
/// longer, so that it takes a small part of the time.
const COUNTED_TOGETHER: Pace = Pace {
    floor: Duration::from_millis(50),
    each: Duration::from_micros(2),
    ceiling: Duration::from_secs(10),
};

/// Looks at a template again. What many namespaces say in one moment is counted once.
pub fn wake_template(cx: &Context, key: &RootKey, lane: Lane) {
    let delay = if lane == Lane::Later { counted_together(cx, key) } else { Duration::ZERO };
    cx.wake(&NamespaceTemplate::object_ref(key.clone()), GROUP, lane, delay);
}

/// What is counted is about as much as the last time.
fn counted_together(cx: &Context, key: &RootKey) -> Duration {
    let known = cx.objects.namespace_templates.get(key).map_or(0, |template| template.status.namespaces);
    COUNTED_TOGETHER.period(usize::try_from(known).unwrap_or_default())
}

/// Looks at all templates again: there are few.
pub fn wake_templates(cx: &Context) {
    for template in cx.objects.namespace_templates.all() {
        wake_template(cx, &template.key, Lane::Later);
    }
}
