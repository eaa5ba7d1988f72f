use crate::names::GROUP;
use crate::text::by_rule;
use meta::field::{FieldError, FieldErrors, Path};
use meta::name;
use meta::quantity::{Format, NANOS_PER_UNIT, Quantity};
use serde_json::json;

/// The resources of quota whose names have no domain.
const QUOTA_RESOURCES: [&str; 19] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];
/// A resource of containers that is not a resource of quota.
const STORAGE: &str = "storage";
/// The resources that are counted in whole units.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// The smallest decimal suffix whose multiples a cluster accepts even if they overflow.
const GIGA: i64 = 1_000_000_000;

/// Validates the name of a resource in a quota.
pub fn check_name(resource: &str, path: &Path) -> FieldErrors {
    let invalid = |detail: &str| FieldError::invalid(path, &json!(resource), detail);
    let mut errors = by_rule(resource, name::qualified_name, path);
    if !resource.contains('/') {
        let known = QUOTA_RESOURCES.contains(&resource) || is_huge_pages(resource);
        if !known && resource != STORAGE {
            errors.push(invalid("must be a standard resource type or fully qualified"));
        }
        if !known {
            errors.push(invalid("must be a standard resource for quota"));
        }
    }
    if counts_own_group(resource) {
        errors.push(invalid("objects of this group are not counted by a cluster's quota"));
    }
    errors
}

/// Whether a quota would count objects of our group. In a host cluster that is also a member cluster, Kubernetes counts
/// them by the core namespace of the same name as the project. That namespace may belong to somebody else, who would
/// learn the number of the project's objects.
fn counts_own_group(resource: &str) -> bool {
    let counted = resource.strip_prefix("count/").and_then(|counted| counted.strip_suffix(GROUP));
    counted.is_some_and(|kind| kind.ends_with('.'))
}

/// Validates an amount of a resource.
pub fn check_amount(resource: &str, amount: Quantity, path: &Path) -> FieldErrors {
    let invalid = |detail: &str| FieldError::invalid(path, &json!(amount.to_string()), detail);
    let mut errors = FieldErrors::new();
    if amount.is_negative() {
        errors.push(invalid("must be greater than or equal to 0"));
    }
    if is_counted(resource) && !amount.is_integer() {
        errors.push(invalid("must be an integer"));
    }
    errors
}

/// Validates that clusters accept an amount unchanged, although they compute in thousandths.
pub fn check_thousandths(resource: &str, amount: Quantity, path: &Path) -> Option<FieldError> {
    if is_counted(resource) { check_count(amount, path) } else { check_divisible(amount, path) }
}

/// Kubernetes rounds up to thousandths. Each namespace would get more than it is charged, and these amounts add up.
fn check_divisible(amount: Quantity, path: &Path) -> Option<FieldError> {
    let kept = amount.in_thousandths();
    (kept != amount).then(|| {
        let detail = format!("a cluster counts in thousandths: {amount} would be {kept} there");
        FieldError::invalid(path, &json!(amount.to_string()), &detail)
    })
}

/// Kubernetes accepts a count as whole if its thousandths, as a 64-bit integer, are a multiple of 1000. A large count
/// overflows, and the wrapped result may not be a multiple of 1000. A count in whole G or more overflows to 0, which is
/// a multiple.
fn check_count(amount: Quantity, path: &Path) -> Option<FieldError> {
    let units = i64::try_from(amount.nanos() / NANOS_PER_UNIT).ok()?;
    let is_in_whole_g = amount.format() != Format::BinarySi && units % GIGA == 0;
    let detail = "clusters count its thousandths and take it for a fraction: at most 9223372036854775, or \
                  whole G, T, P or E";
    let is_refused = !is_in_whole_g && units.wrapping_mul(1000) % 1000 != 0;
    is_refused.then(|| FieldError::invalid(path, &json!(amount.to_string()), detail))
}

fn is_huge_pages(resource: &str) -> bool {
    resource.starts_with("hugepages-") || resource.starts_with("requests.hugepages-")
}

/// Whether a resource is counted in whole units.
pub(crate) fn is_counted(resource: &str) -> bool {
    COUNTED.contains(&resource) || is_extended(resource)
}

/// Whether Kubernetes accepts the name of a resource in a quota but never counts it: devices, of which only the
/// requests are counted (`requests.nvidia.com/gpu`). Storage classes and device classes, whose names contain `k8s.io`,
/// are counted.
pub fn is_never_counted(resource: &str) -> bool {
    is_extended(resource)
        && !resource.starts_with("count/")
        && !resource.starts_with("hugepages-")
        && !resource.contains("k8s.io/")
}

/// Whether a resource is an extended resource, such as the device `nvidia.com/gpu`. They are counted in whole units.
fn is_extended(resource: &str) -> bool {
    resource.contains('/')
        && !resource.contains("kubernetes.io/")
        && !resource.starts_with("requests.")
        && name::qualified_name(&format!("requests.{resource}")).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_errors(resource: &str) -> usize {
        check_name(resource, &Path::new("spec")).len()
    }

    fn amount_is_fine(resource: &str, amount: &str) -> bool {
        check_amount(resource, amount.parse().unwrap(), &Path::new("spec")).is_empty()
    }

    #[test]
    fn resources_of_a_quota_are_standard_or_have_a_domain() {
        let extra = [
            "requests.nvidia.com/gpu",
            "nvidia.com/gpu",
            "count/deployments.apps",
            "hugepages-2Mi",
            "requests.hugepages-1Gi",
            "fast.storageclass.storage.k8s.io/requests.storage",
        ];
        for good in QUOTA_RESOURCES.into_iter().chain(extra) {
            assert_eq!(name_errors(good), 0, "{good}");
        }
        assert_eq!(name_errors(STORAGE), 1, "a container's resource, not a quota's");
        assert_eq!(name_errors("foo"), 2, "in neither table");
        assert_eq!(name_errors("limits.storage"), 2);
        for malformed in ["", "a/b/c", "-cpu", "Exa mple/x", "/gpu"] {
            assert!(name_errors(malformed) > 0, "{malformed:?}");
        }
        for ours in
            ["count/namespaces.business.tkestack.io", "count/registrycredentials.business.tkestack.io"]
        {
            assert_eq!(name_errors(ours), 1, "{ours}: it would count what lies in another's project");
        }
        assert_eq!(name_errors("count/widgets.mybusiness.tkestack.io"), 0);
        assert!(name_errors(&"p".repeat(64)) >= 3, "too long, and in neither table");
    }

    #[test]
    fn a_device_is_counted_by_its_requests_only() {
        for never in ["nvidia.com/gpu", "example.com/x", "limits.nvidia.com/gpu"] {
            assert!(is_never_counted(never), "{never}");
        }
        let counted = [
            "requests.nvidia.com/gpu",
            "requests.deviceclass.resource.kubernetes.io/gpu",
            "count/deployments.apps",
            "count/pods",
            "hugepages-2Mi",
            "requests.hugepages-2Mi",
            "fast.storageclass.storage.k8s.io/requests.storage",
            "gpu.deviceclass.resource.k8s.io/devices",
        ];
        for counted in QUOTA_RESOURCES.into_iter().chain(counted) {
            assert!(!is_never_counted(counted), "{counted}");
        }
    }

    /// The results of `MilliValue` of `k8s.io/apimachinery` 0.36.3 for the text that we write.
    #[test]
    fn what_clusters_take_for_a_fraction_is_what_wraps() {
        let is_taken = |resource: &str, amount: &str| {
            check_thousandths(resource, amount.parse().unwrap(), &Path::new("spec")).is_none()
        };
        for taken in [
            "0",
            "10",
            "8Pi",
            "8388609Gi",
            "10P",
            "10e15",
            "1E",
            "9E",
            "1000000000000000000",
            "9300001G",
            "10001T",
            "100000000001k",
            "9223372036854775",
            "9223372036854775807",
            "2305843009213693952",
            "9007199254740991Ki",
        ] {
            assert!(is_taken("pods", taken), "{taken}");
        }
        for refused in [
            "9Pi",
            "10Pi",
            "16Pi",
            "1Ei",
            "7Ei",
            "1000000000000000001",
            "9223372036854776",
            "9223372036855k",
            "9300000001M",
            "9765625000000Ki",
            "10000000000000001",
            "18446744073709552",
        ] {
            let counted =
                ["pods", "count/x.y", "example.com/x", "x.storageclass.storage.k8s.io/requests.storage"];
            for counted in counted {
                assert!(!is_taken(counted, refused), "{counted}: {refused}");
            }
            for measured in ["memory", "requests.storage", "requests.nvidia.com/gpu"] {
                assert!(is_taken(measured, refused), "{measured}: {refused}");
            }
        }
    }

    #[test]
    fn what_is_less_than_a_thousandth_is_not_kept_by_a_cluster() {
        let wrong = |resource: &str, amount: &str| {
            let error = check_thousandths(resource, amount.parse().unwrap(), &Path::new("f"));
            error.map(|error| error.to_string())
        };
        let told = "f: Invalid value: \"100u\": a cluster counts in thousandths: 100u would be 1m there";
        assert_eq!(wrong("requests.cpu", "100u").as_deref(), Some(told));
        for (resource, amount) in
            [("cpu", "1n"), ("limits.memory", "0.0001Ki"), ("requests.nvidia.com/gpu", "1.0001")]
        {
            assert!(wrong(resource, amount).is_some(), "{resource}={amount}");
        }
        for (resource, amount) in [("cpu", "1m"), ("requests.memory", "1.5Gi"), ("requests.cpu", "0.25")] {
            assert_eq!(wrong(resource, amount), None, "{resource}={amount}");
        }
    }

    #[test]
    fn amounts_are_not_negative_and_counts_are_whole() {
        for (resource, amount) in [
            ("pods", "10"),
            ("pods", "1k"),
            ("pods", "1e3"),
            ("pods", "2000m"),
            ("pods", "0"),
            ("cpu", "0.5m"),
            ("requests.cpu", "500m"),
            ("memory", "1.5Gi"),
            ("nvidia.com/gpu", "2"),
            ("requests.nvidia.com/gpu", "1.5"),
            ("pods.kubernetes.io/x", "1.5"),
        ] {
            assert!(amount_is_fine(resource, amount), "{resource}={amount}");
        }
        for (resource, amount) in
            [("pods", "1.5"), ("services.nodeports", "100m"), ("nvidia.com/gpu", "500m"), ("count/x", "0.1")]
        {
            assert!(!amount_is_fine(resource, amount), "{resource}={amount}");
        }
        for resource in ["pods", "cpu", "memory", "example.com/x"] {
            assert!(!amount_is_fine(resource, "-1"), "{resource}");
        }
    }
}
