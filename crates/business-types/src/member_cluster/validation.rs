use super::{ClusterEndpoint, DerivedAmount, MemberClusterSpec, MemberClusterStatus};
use crate::cluster::EVERY_TENANT;
use crate::resources;
use crate::text::by_rule;
use crate::validation::{amounts, cluster_name, conditions, display_name, printable};
use meta::field::{FieldError, FieldErrors, Path};
use meta::name;
use meta::quantity::{Quantity, ResourceList};
use serde_json::json;

/// The maximum number of tenants of a cluster.
const TENANTS_MAX: usize = 10_000;
/// The maximum number of bytes of the endpoint's URL.
const SERVER_BYTES_MAX: usize = 2048;
/// The maximum number of bytes of its CA certificates.
const CA_BYTES_MAX: usize = 64 * 1024;

/// The largest factor. A larger one is probably a typing error.
const FACTOR_MAX: i64 = 100;
/// The maximum number of derived resources of a cluster.
const DERIVED_MAX: usize = 100;
/// The resources of nodes whose names have no domain.
const NODE_RESOURCES: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];

/// Validates a member cluster.
pub fn member_cluster(name: &str, spec: &MemberClusterSpec) -> FieldErrors {
    let path = Path::new("spec");
    let mut errors: FieldErrors =
        cluster_name(name, &Path::new("metadata").child("name")).into_iter().collect();
    for (field, text) in [("displayName", &spec.display_name), ("type", &spec.cluster_type)] {
        errors.extend(display_name(text, &path.child(field)));
        errors.extend(printable(text, &path.child(field)));
    }
    errors.extend(tenants(&spec.tenants, &path.child("tenants")));
    errors.extend(amounts(&spec.hard, |resource| path.child("hard").key(resource)));
    errors.extend(derived(spec, &path.child("derived").child("resources")));
    if let Some(endpoint) = &spec.endpoint {
        errors.extend(self::endpoint(endpoint, &path.child("endpoint")));
    }
    if let Some(credentials) = &spec.credentials {
        let at = path.child("credentials").child("secretName");
        errors.extend(by_rule(&credentials.secret_name, name::dns1123_subdomain, &at));
    }
    errors
}

fn derived(spec: &MemberClusterSpec, path: &Path) -> FieldErrors {
    let resources = &spec.derived.resources;
    let mut errors = FieldErrors::new();
    if resources.len() > DERIVED_MAX {
        errors.push(FieldError::too_many(path, resources.len(), DERIVED_MAX));
    }
    for (key, amount) in resources {
        let at = path.key(key);
        errors.extend(resources::check_name(key, &at));
        if spec.hard.contains_key(key) {
            errors.push(FieldError::invalid(
                &at,
                &json!(key),
                "is in spec.hard, too: it is one or the other",
            ));
        }
        errors.extend(derived_amount(key, amount, &at));
    }
    errors
}

fn derived_amount(key: &str, amount: &DerivedAmount, path: &Path) -> FieldErrors {
    let DerivedAmount { resource, factor, max } = amount;
    let mut errors = FieldErrors::new();
    let is_standard = NODE_RESOURCES.contains(&resource.as_str()) || resource.starts_with("hugepages-");
    let is_extended = resource.contains('/') && name::qualified_name(resource).is_empty();
    if !is_standard && !is_extended {
        let why = "must be a resource of nodes: cpu, memory, ephemeral-storage, pods, hugepages-SIZE or one with a domain";
        errors.push(FieldError::invalid(&path.child("resource"), &json!(resource), why));
    }
    if *factor <= Quantity::ZERO || *factor > Quantity::from_units(FACTOR_MAX) {
        let why = format!("must be greater than 0 and at most {FACTOR_MAX}");
        errors.push(FieldError::invalid(&path.child("factor"), &json!(factor.to_string()), &why));
    }
    errors.extend(max.iter().flat_map(|max| resources::check_amount(key, *max, &path.child("max"))));
    errors
}

fn tenants(tenants: &[String], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if tenants.len() > TENANTS_MAX {
        errors.push(FieldError::too_many(path, tenants.len(), TENANTS_MAX));
    }
    for (index, tenant) in tenants.iter().enumerate().filter(|(_, tenant)| *tenant != EVERY_TENANT) {
        if tenant.is_empty() {
            errors.push(FieldError::required(&path.index(index), "a tenant's ID, or * for every tenant"));
        }
        errors.extend(printable(tenant, &path.index(index)));
    }
    errors
}

fn endpoint(endpoint: &ClusterEndpoint, path: &Path) -> FieldErrors {
    let ClusterEndpoint { server, ca_bundle } = endpoint;
    let mut errors = FieldErrors::new();
    let at = path.child("server");
    let host = server.strip_prefix("https://").unwrap_or_default();
    if server.len() > SERVER_BYTES_MAX {
        errors.push(FieldError::too_long(&at, SERVER_BYTES_MAX));
    } else if host.is_empty() || host.starts_with(['/', ':']) || host.contains(char::is_whitespace) {
        errors.push(FieldError::invalid(&at, &json!(server), "must be a URL that begins with https://"));
    }
    let at = path.child("caBundle");
    if ca_bundle.len() > CA_BYTES_MAX {
        errors.push(FieldError::too_long(&at, CA_BYTES_MAX));
    } else if !ca_bundle.is_empty() && !ca_bundle.contains("-----BEGIN CERTIFICATE-----") {
        errors.push(FieldError::invalid(&at, &json!("…"), "must be certificates in PEM"));
    }
    errors
}

/// Validates a new status. The name must not refer to another cluster than before.
pub fn member_cluster_status(old: &MemberClusterStatus, status: &MemberClusterStatus) -> FieldErrors {
    let mut errors = conditions(&status.conditions);
    if !old.uid.is_empty() && status.uid != old.uid {
        let why = "the name stands for another cluster: delete the MemberCluster first";
        errors.push(FieldError::invalid(&Path::new("status").child("uid"), &json!(status.uid), why));
    }
    errors
}

/// Validates new amounts of `status.capacity`.
pub fn capacity(capacity: &ResourceList) -> FieldErrors {
    amounts(capacity, |resource| Path::new("status").child("capacity").key(resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(name: &str, spec: serde_json::Value) -> Vec<String> {
        let spec = serde_json::from_value(spec).unwrap();
        member_cluster(name, &spec).into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn a_member_cluster_is_not_the_registry_and_has_amounts() {
        assert_eq!(fields("c1", json!({"hard": {"requests.cpu": "10"}})), [""; 0]);
        assert_eq!(fields("registry", json!({})), ["metadata.name"]);
        assert_eq!(fields("c1", json!({"hard": {"pods": "1.5"}})), ["spec.hard[pods]"]);
    }

    #[test]
    fn what_is_derived_names_resources_and_a_sane_factor() {
        let of = |key: &str, amount: serde_json::Value| {
            fields("c1", json!({"hard": {"pods": "5"}, "derived": {"resources": {key: amount}}}))
        };
        assert_eq!(of("requests.cpu", json!({"resource": "cpu", "factor": "1.5", "max": "10"})), [""; 0]);
        assert_eq!(of("requests.nvidia.com/gpu", json!({"resource": "nvidia.com/gpu"})), [""; 0]);
        let at = |field: &str| format!("spec.derived.resources[requests.cpu]{field}");
        for factor in ["0", "-1", "101"] {
            let wrong = of("requests.cpu", json!({"resource": "cpu", "factor": factor}));
            assert_eq!(wrong, [at(".factor")], "{factor}");
        }
        assert_eq!(of("requests.cpu", json!({"resource": "cores"})), [at(".resource")]);
        assert_eq!(of("requests.cpu", json!({"resource": "cpu", "max": "-1"})), [at(".max")]);
        assert_eq!(of("pods", json!({"resource": "pods"})), ["spec.derived.resources[pods]"], "in both");
        assert_eq!(of("nonsense", json!({"resource": "cpu"})).len(), 2);
    }

    #[test]
    fn it_names_tenants_an_address_and_a_secret() {
        let good = json!({
            "tenants": ["acme", "*"], "credentials": {"secretName": "cls-a"},
            "endpoint": {"server": "https://a.example:6443", "caBundle": "-----BEGIN CERTIFICATE-----"},
        });
        assert_eq!(fields("c1", good), [""; 0]);
        assert_eq!(fields("c1", json!({"tenants": ["a", ""]})), ["spec.tenants[1]"]);
        for server in ["", "http://a.example", "https://", "https:///x", "https://a b"] {
            assert_eq!(
                fields("c1", json!({"endpoint": {"server": server}})),
                ["spec.endpoint.server"],
                "{server}"
            );
        }
        let key = json!({"endpoint": {"server": "https://a", "caBundle": "Q0E="}});
        assert_eq!(fields("c1", key), ["spec.endpoint.caBundle"]);
        assert_eq!(
            fields("c1", json!({"credentials": {"secretName": "A"}})),
            ["spec.credentials.secretName"]
        );
    }

    #[test]
    fn a_name_stands_for_one_cluster() {
        let of = |uid: &str| MemberClusterStatus { uid: uid.to_owned(), ..MemberClusterStatus::default() };
        assert_eq!(member_cluster_status(&of(""), &of("a")), []);
        assert_eq!(member_cluster_status(&of("a"), &of("a")), []);
        assert_eq!(member_cluster_status(&of("a"), &of("b")).len(), 1);
    }
}
