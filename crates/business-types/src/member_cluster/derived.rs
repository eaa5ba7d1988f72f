use super::MemberClusterSpec;
use crate::resources;
use meta::quantity::{Format, NANOS_PER_UNIT, Quantity, ResourceList};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Units of 10⁻⁹ in a thousandth, the smallest amount that is granted of a divisible resource.
const NANOS_PER_THOUSANDTH: i128 = 1_000_000;

/// How the capacity of a member cluster is derived from its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DerivedCapacity {
    /// The derived amounts by resource of a quota.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, DerivedAmount>,
}

/// How one amount is derived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DerivedAmount {
    /// The resource of nodes from which it is derived.
    pub resource: String,
    /// The amount that may be granted per unit of that resource.
    pub factor: Quantity,
    /// The maximum amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Quantity>,
}

impl Default for DerivedAmount {
    fn default() -> Self {
        Self { resource: String::new(), factor: Quantity::from_units(1), max: None }
    }
}

impl DerivedCapacity {
    /// Whether nothing is derived.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// The amounts that may be granted, by resource of a quota, if nodes have the resources `available`.
    pub fn of(&self, available: &ResourceList) -> ResourceList {
        let available_of = |resource: &String| available.get(resource).copied().unwrap_or(Quantity::ZERO);
        let amount = |key: &str, derived: &DerivedAmount| derived.of(key, available_of(&derived.resource));
        self.resources.iter().map(|(key, derived)| (key.clone(), amount(key, derived))).collect()
    }
}

impl DerivedAmount {
    /// The amount that may be granted. It is rounded down: to thousandths if it has a decimal suffix and the resource
    /// is divisible, else to whole units.
    fn of(&self, key: &str, available: Quantity) -> Quantity {
        let (available_nanos, factor) = (available.nanos().max(0), self.factor.nanos().max(0));
        // Computed in two parts, whole units and the rest, so that the product is exact and does not overflow.
        let whole = (available_nanos / NANOS_PER_UNIT).saturating_mul(factor);
        let rest = (available_nanos % NANOS_PER_UNIT).saturating_mul(factor) / NANOS_PER_UNIT;
        let is_divisible = available.format() != Format::BinarySi && !resources::is_counted(key);
        let step = if is_divisible { NANOS_PER_THOUSANDTH } else { NANOS_PER_UNIT };
        let nanos = whole.saturating_add(rest).min(Quantity::MAX.nanos()) / step * step;
        let amount = Quantity::from_nanos(nanos, available.format());
        self.max.map_or(amount, |max| amount.min(max))
    }
}

impl MemberClusterSpec {
    /// The amounts that may be granted of the cluster in total: the explicit ones and the derived ones in `capacity`. A
    /// resource that is to be derived but was not derived yet counts as 0: it is limited, but its limit is not known.
    pub fn grantable(&self, capacity: &ResourceList) -> ResourceList {
        let mut hard = self.hard.clone();
        for (key, derived) in &self.derived.resources {
            let amount = capacity.get(key).copied().unwrap_or(Quantity::ZERO);
            hard.insert(key.clone(), derived.max.map_or(amount, |max| amount.min(max)));
        }
        hard
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn derived(key: &str, resource: &str, factor: &str, max: Option<&str>) -> DerivedCapacity {
        let mut amount = json!({"resource": resource, "factor": factor});
        if let Some(max) = max {
            amount["max"] = json!(max);
        }
        serde_json::from_value(json!({"resources": {key: amount}})).unwrap()
    }

    fn granted(capacity: &DerivedCapacity, resource: &str, available: &str) -> String {
        let available = [(resource.to_owned(), available.parse().unwrap())].into();
        capacity.of(&available).values().next().unwrap().to_string()
    }

    #[test]
    fn an_amount_is_the_product_rounded_down_and_bounded() {
        let cpu = derived("requests.cpu", "cpu", "1.5", Some("20"));
        assert_eq!(granted(&cpu, "cpu", "8"), "12");
        assert_eq!(granted(&cpu, "cpu", "1001m"), "1501m", "of 1501.5m");
        assert_eq!(granted(&cpu, "cpu", "100"), "20");
        assert_eq!(granted(&cpu, "memory", "100"), "0", "nodes have none");
        let pods = derived("pods", "pods", "0.9", None);
        assert_eq!(granted(&pods, "pods", "111"), "99");
        let memory = derived("requests.memory", "memory", "0.5", None);
        assert_eq!(granted(&memory, "memory", "64Gi"), "32Gi");
        assert_eq!(granted(&memory, "memory", "3"), "1500m");
        let most = derived("requests.memory", "memory", "100", None);
        assert_eq!(granted(&most, "memory", "9223372036854775807"), "9223372036854775807");
    }

    #[test]
    fn what_is_not_derived_yet_is_nothing_and_never_above_max() {
        let spec = MemberClusterSpec {
            hard: [("pods".to_owned(), "5".parse().unwrap())].into(),
            derived: derived("requests.cpu", "cpu", "1", Some("4")),
            ..MemberClusterSpec::default()
        };
        let of = |cpu: &str| {
            spec.grantable(&[("requests.cpu".to_owned(), cpu.parse().unwrap())].into())["requests.cpu"]
                .to_string()
        };
        let hard = spec.grantable(&ResourceList::new());
        assert_eq!((hard["pods"].to_string(), hard["requests.cpu"].to_string()), ("5".into(), "0".into()));
        assert_eq!((of("3"), of("8")), ("3".into(), "4".into()));
    }
}
