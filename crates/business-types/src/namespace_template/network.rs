use meta::field::{FieldError, FieldErrors, Path};
use meta::schema::{ListType, Schema};
use serde_json::{Value, json};
use std::net::IpAddr;

const POLICY_TYPES: [&str; 2] = ["Ingress", "Egress"];
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

/// The schema of a `NetworkPolicy`'s `spec`.
pub(super) fn schema() -> Schema {
    Schema::object(
        "The spec of the NetworkPolicy, as networking.k8s.io/v1 has it.",
        Some("io.tkestack.business.v1.NetworkPolicyTemplateSpec"),
        [
            (
                "podSelector",
                label_selector("The pods of the namespace that it is for; empty for all of them.").optional(),
            ),
            (
                "policyTypes",
                Schema::strings("Ingress, Egress or both: in which directions it holds.", ListType::Atomic)
                    .optional(),
            ),
            ("ingress", Schema::list("What may come in.", ListType::Atomic, rule("from")).optional()),
            ("egress", Schema::list("What may go out.", ListType::Atomic, rule("to")).optional()),
        ],
    )
}

fn rule(peers: &'static str) -> Schema {
    Schema::object(
        "What is let through. Empty lists are no limit.",
        None,
        [
            ("ports", Schema::list("At which ports.", ListType::Atomic, port()).optional()),
            (peers, Schema::list("With whom.", ListType::Atomic, peer()).optional()),
        ],
    )
}

fn port() -> Schema {
    Schema::object(
        "A port, or a range of them.",
        Some("io.tkestack.business.v1.NetworkPolicyTemplatePort"),
        [
            ("protocol", Schema::one_of("TCP, UDP or SCTP; TCP when absent.", &PROTOCOLS).optional()),
            ("port", Schema::any("The number or the name of a port; all when absent.").optional()),
            ("endPort", Schema::int32("The last port of a range that begins with port.").optional()),
        ],
    )
}

fn peer() -> Schema {
    let block = Schema::object(
        "Addresses.",
        None,
        [
            ("cidr", Schema::string("Addresses in CIDR notation.").required()),
            ("except", Schema::strings("Those of them that are not meant.", ListType::Atomic).optional()),
        ],
    );
    Schema::object(
        "Pods of the namespace or of others, or addresses.",
        Some("io.tkestack.business.v1.NetworkPolicyTemplatePeer"),
        [
            ("podSelector", label_selector("Pods by their labels.").optional()),
            ("namespaceSelector", label_selector("Namespaces by their labels.").optional()),
            ("ipBlock", block.optional()),
        ],
    )
}

fn label_selector(description: &'static str) -> Schema {
    let requirement = Schema::object(
        "A requirement of a label.",
        None,
        [
            ("key", Schema::string("The label.").required()),
            ("operator", Schema::string("In, NotIn, Exists or DoesNotExist.").required()),
            ("values", Schema::strings("The values that are meant.", ListType::Atomic).optional()),
        ],
    );
    Schema::object(
        description,
        None,
        [
            ("matchLabels", Schema::map("Labels and their values.", Schema::string("The value.")).optional()),
            (
                "matchExpressions",
                Schema::list("Requirements of labels.", ListType::Atomic, requirement).optional(),
            ),
        ],
    )
    .into_atomic()
}

/// Validates the spec of a `NetworkPolicy` by the rules of Kubernetes.
pub(super) fn check(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for (index, type_) in items(spec, "policyTypes").enumerate() {
        if !type_.as_str().is_some_and(|type_| POLICY_TYPES.contains(&type_)) {
            let at = path.child("policyTypes").index(index);
            errors.push(FieldError::not_supported(&at, type_, &POLICY_TYPES));
        }
    }
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in items(spec, direction).enumerate() {
            let at = path.child(direction).index(index);
            for (index, port) in items(rule, "ports").enumerate() {
                errors.extend(check_port(port, &at.child("ports").index(index)));
            }
            for (index, peer) in items(rule, peers).enumerate() {
                errors.extend(check_peer(peer, &at.child(peers).index(index)));
            }
        }
    }
    errors
}

fn items<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

fn check_port(port: &Value, at: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if let Some(protocol) = port.get("protocol").filter(|held| !held.is_null())
        && !protocol.as_str().is_some_and(|name| PROTOCOLS.contains(&name))
    {
        errors.push(FieldError::not_supported(&at.child("protocol"), protocol, &PROTOCOLS));
    }
    let is_number = |number: &Value| number.as_i64().is_some_and(|number| (1..=65_535).contains(&number));
    let is_name = |name: &Value| name.as_str().is_some_and(|name| (1..=15).contains(&name.len()));
    let non_null = |field: &str| port.get(field).filter(|held| !held.is_null());
    if let Some(one) = non_null("port").filter(|one| !is_number(one) && !is_name(one)) {
        let why = "must be a number from 1 to 65535, or the name of a port";
        errors.push(FieldError::invalid(&at.child("port"), one, why));
    }
    if let Some(end) = non_null("endPort") {
        let first = non_null("port").and_then(Value::as_i64);
        if !is_number(end) || first.is_none_or(|first| end.as_i64().is_some_and(|end| end < first)) {
            let why = "must be a number from port, which is one, to 65535";
            errors.push(FieldError::invalid(&at.child("endPort"), end, why));
        }
    }
    errors
}

fn check_peer(peer: &Value, at: &Path) -> FieldErrors {
    let non_null = |field: &str| peer.get(field).filter(|held| !held.is_null());
    let Some(block) = non_null("ipBlock") else {
        let is_empty = non_null("podSelector").is_none() && non_null("namespaceSelector").is_none();
        return is_empty.then(|| FieldError::required(at, "must specify a peer")).into_iter().collect();
    };
    let mut errors = FieldErrors::new();
    let at = at.child("ipBlock");
    if non_null("podSelector").is_some() || non_null("namespaceSelector").is_some() {
        errors.push(FieldError::forbidden(&at, "may not specify both ipBlock and another peer"));
    }
    let cidr = block.get("cidr").and_then(Value::as_str).unwrap_or_default();
    let mut check = |text: &str, at: &Path| {
        if !is_cidr(text) {
            errors.push(FieldError::invalid(at, &json!(text), "must be addresses in CIDR notation"));
        }
    };
    check(cidr, &at.child("cidr"));
    for (index, except) in items(block, "except").enumerate() {
        check(except.as_str().unwrap_or_default(), &at.child("except").index(index));
    }
    errors
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let bits_max = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_not_an_address) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= bits_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(spec: &Value) -> Vec<String> {
        check(spec, &Path::new("spec")).into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn policies_are_what_kubernetes_takes() {
        let good = json!({
            "podSelector": {}, "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": "http"}, {"port": 80, "endPort": 90}]}],
            "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]}],
        });
        assert_eq!(fields(&good), [""; 0]);
        assert_eq!(fields(&json!({"policyTypes": ["Both"]})), ["spec.policyTypes[0]"]);
        let wrong =
            json!({"ingress": [{"ports": [{"protocol": "ICMP", "port": 0, "endPort": 5}], "from": [{}]}]});
        let ports = "spec.ingress[0].ports[0]";
        let all = [format!("{ports}.protocol"), format!("{ports}.port"), "spec.ingress[0].from[0]".into()];
        assert_eq!(fields(&wrong), all);
        let block = json!({"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/33"}, "podSelector": {}}]}]});
        assert_eq!(fields(&block), ["spec.egress[0].to[0].ipBlock", "spec.egress[0].to[0].ipBlock.cidr"]);
    }
}
