use crate::text::by_rule;
use meta::field::{FieldError, FieldErrors, Path};
use meta::quantity::{Quantity, ResourceList};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The maximum number of resources of each limit.
const RESOURCES_MAX: usize = 64;

/// The `spec` of a `LimitRange`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitRangeTemplate {
    /// The limits, one item per type.
    pub limits: Vec<LimitRangeItem>,
}

/// `LimitRangeItem` of `core/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitRangeItem {
    /// The type of the limited object.
    #[serde(rename = "type")]
    pub type_: String,
    /// The maximum usage.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub max: ResourceList,
    /// The minimum usage.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub min: ResourceList,
    /// The default limit of a container.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub default: ResourceList,
    /// The default request of a container.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub default_request: ResourceList,
    /// The maximum ratio of limit to request.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub max_limit_request_ratio: ResourceList,
}

impl LimitRangeItem {
    /// The types that can be limited.
    pub const TYPES: [&'static str; 3] = ["Container", "Pod", "PersistentVolumeClaim"];
}

/// Validates limits by the rules of Kubernetes.
pub(super) fn check(limits: &LimitRangeTemplate, path: &Path) -> FieldErrors {
    let path = path.child("limits");
    let mut errors = FieldErrors::new();
    if limits.limits.len() > LimitRangeItem::TYPES.len() {
        errors.push(FieldError::too_many(&path, limits.limits.len(), LimitRangeItem::TYPES.len()));
    }
    for (index, item) in limits.limits.iter().take(LimitRangeItem::TYPES.len()).enumerate() {
        let at = path.index(index);
        if !LimitRangeItem::TYPES.contains(&item.type_.as_str()) {
            let type_ = json!(item.type_);
            errors.push(FieldError::not_supported(&at.child("type"), &type_, &LimitRangeItem::TYPES));
        }
        if limits.limits.iter().take(index).any(|other| other.type_ == item.type_) {
            errors.push(FieldError::duplicate(&at.child("type"), &json!(item.type_)));
        }
        errors.extend(check_item(item, &at));
    }
    errors
}

fn check_item(item: &LimitRangeItem, at: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let parts = [
        ("max", &item.max),
        ("min", &item.min),
        ("default", &item.default),
        ("defaultRequest", &item.default_request),
        ("maxLimitRequestRatio", &item.max_limit_request_ratio),
    ];
    for (name, amounts) in parts {
        if amounts.len() > RESOURCES_MAX {
            errors.push(FieldError::too_many(&at.child(name), amounts.len(), RESOURCES_MAX));
        }
        for (resource, amount) in amounts {
            let at = at.child(name).key(resource);
            errors.extend(by_rule(resource, meta::name::qualified_name, &at));
            if *amount < Quantity::ZERO {
                errors.push(FieldError::invalid(&at, &json!(amount), "must be greater than or equal to 0"));
            }
        }
    }
    if item.type_ == "Pod" {
        for (name, amounts) in [("default", &item.default), ("defaultRequest", &item.default_request)] {
            if !amounts.is_empty() {
                let why = "may not be specified when `type` is 'Pod'";
                errors.push(FieldError::forbidden(&at.child(name), why));
            }
        }
    }
    let says_storage = |amounts: &ResourceList| amounts.contains_key("storage");
    if item.type_ == "PersistentVolumeClaim" && !says_storage(&item.min) && !says_storage(&item.max) {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(FieldError::required(at, why));
    }
    errors.extend(check_order(item, at));
    errors
}

/// Checks that min ≤ defaultRequest ≤ default ≤ max, as far as they are set.
fn check_order(item: &LimitRangeItem, at: &Path) -> FieldErrors {
    let rising = [
        ("min", &item.min),
        ("defaultRequest", &item.default_request),
        ("default", &item.default),
        ("max", &item.max),
    ];
    let mut errors = FieldErrors::new();
    for (index, (lower, less)) in rising.iter().enumerate() {
        for (higher, more) in rising.iter().skip(index.saturating_add(1)) {
            for (resource, amount) in *less {
                let Some(most) = more.get(resource).filter(|most| amount > most) else { continue };
                let why = format!("{lower} value {amount} is greater than {higher} value {most}");
                errors.push(FieldError::invalid(&at.child(lower).key(resource), &json!(amount), &why));
            }
        }
    }
    for (resource, ratio) in &item.max_limit_request_ratio {
        if *ratio < Quantity::from_units(1) {
            let at = at.child("maxLimitRequestRatio").key(resource);
            errors.push(FieldError::invalid(&at, &json!(ratio), "ratio is less than 1"));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(limits: impl Into<serde_json::Value>) -> Vec<String> {
        let limits: serde_json::Value = limits.into();
        let limits: LimitRangeTemplate = serde_json::from_value(json!({ "limits": limits })).unwrap();
        check(&limits, &Path::new("spec")).into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn limits_are_what_kubernetes_takes() {
        let good = json!([
            {"type": "Container", "min": {"cpu": "10m"}, "defaultRequest": {"cpu": "100m"},
             "default": {"cpu": "1"}, "max": {"cpu": "4"}, "maxLimitRequestRatio": {"cpu": "10"}},
            {"type": "PersistentVolumeClaim", "max": {"storage": "10Gi"}},
        ]);
        assert_eq!(fields(good), [""; 0]);
        let crossed = json!([{"type": "Container", "defaultRequest": {"cpu": "2"}, "default": {"cpu": "1"}}]);
        assert_eq!(fields(crossed), ["spec.limits[0].defaultRequest[cpu]"]);
        let pod = json!([{"type": "Pod", "default": {"cpu": "1"}}]);
        assert_eq!(fields(pod), ["spec.limits[0].default"]);
        assert_eq!(fields(json!([{"type": "PersistentVolumeClaim"}])), ["spec.limits[0]"]);
        assert_eq!(fields(json!([{"type": "Node"}])), ["spec.limits[0].type"]);
        assert_eq!(fields(json!([{"type": "Pod"}, {"type": "Pod"}])), ["spec.limits[1].type"]);
        let small = json!([{"type": "Pod", "maxLimitRequestRatio": {"cpu": "0.5"}}]);
        assert_eq!(fields(small), ["spec.limits[0].maxLimitRequestRatio[cpu]"]);
    }
}
