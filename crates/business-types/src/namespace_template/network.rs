use crate::text::by_rule;
use meta::field::{FieldError, FieldErrors, Path};
use meta::name;
use meta::schema::{ListType, Schema};
use serde_json::{Value, json};
use std::net::IpAddr;

const POLICY_TYPES: [&str; 2] = ["Ingress", "Egress"];
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
const NO_CIDR: &str = "must be addresses in CIDR notation";

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
    let mut errors = check_selector(spec.get("podSelector"), &path.child("podSelector"));
    let types = items(spec, "policyTypes").count();
    if types > POLICY_TYPES.len() {
        errors.push(FieldError::too_many(&path.child("policyTypes"), types, POLICY_TYPES.len()));
    }
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

/// Validates a label selector. An absent one is valid.
fn check_selector(selector: Option<&Value>, at: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let labels = selector.and_then(|selector| selector.get("matchLabels")).and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        let at = at.child("matchLabels");
        errors.extend(by_rule(key, name::qualified_name, &at));
        errors.extend(by_rule(value.as_str().unwrap_or_default(), name::label_value, &at.key(key)));
    }
    let requirements = selector.into_iter().flat_map(|selector| items(selector, "matchExpressions"));
    for (index, requirement) in requirements.enumerate() {
        errors.extend(check_requirement(requirement, &at.child("matchExpressions").index(index)));
    }
    errors
}

fn check_requirement(requirement: &Value, at: &Path) -> FieldErrors {
    let text = |field: &str| requirement.get(field).and_then(Value::as_str).unwrap_or_default();
    let mut errors = by_rule(text("key"), name::qualified_name, &at.child("key"));
    let values: Vec<&str> = items(requirement, "values").filter_map(Value::as_str).collect();
    let values_at = at.child("values");
    match text("operator") {
        "In" | "NotIn" if values.is_empty() => {
            let why = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&values_at, why));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&values_at, why));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            let why = "not a valid selector operator";
            errors.push(FieldError::invalid(&at.child("operator"), &json!(other), why));
        }
    }
    for (index, value) in values.into_iter().enumerate() {
        errors.extend(by_rule(value, name::label_value, &values_at.index(index)));
    }
    errors
}

fn check_port(port: &Value, at: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if let Some(protocol) = port.get("protocol").filter(|held| !held.is_null())
        && !protocol.as_str().is_some_and(|name| PROTOCOLS.contains(&name))
    {
        errors.push(FieldError::not_supported(&at.child("protocol"), protocol, &PROTOCOLS));
    }
    let is_number = |number: &Value| number.as_i64().is_some_and(|number| (1..=65_535).contains(&number));
    let is_name = |name: &Value| name.as_str().is_some_and(is_port_name);
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

/// Whether a text can be the name of a port (RFC 6335).
fn is_port_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=15).contains(&name.len())
        && name.bytes().all(fits)
        && name.bytes().any(|byte| byte.is_ascii_lowercase())
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

fn check_peer(peer: &Value, at: &Path) -> FieldErrors {
    const SELECTORS: [&str; 2] = ["podSelector", "namespaceSelector"];
    let non_null = |field: &str| peer.get(field).filter(|held| !held.is_null());
    let has_selector = SELECTORS.iter().any(|field| non_null(field).is_some());
    let mut errors = FieldErrors::new();
    for field in SELECTORS {
        errors.extend(check_selector(peer.get(field), &at.child(field)));
    }
    match non_null("ipBlock") {
        Some(block) => {
            let at = at.child("ipBlock");
            if has_selector {
                errors.push(FieldError::forbidden(&at, "may not specify both ipBlock and another peer"));
            }
            errors.extend(check_block(block, &at));
        }
        None if has_selector => {}
        None => errors.push(FieldError::required(at, "must specify a peer")),
    }
    errors
}

fn check_block(block: &Value, at: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let text = block.get("cidr").and_then(Value::as_str).unwrap_or_default();
    let whole = Cidr::parse(text);
    if whole.is_none() {
        errors.push(FieldError::invalid(&at.child("cidr"), &json!(text), NO_CIDR));
    }
    for (index, except) in items(block, "except").enumerate() {
        let text = except.as_str().unwrap_or_default();
        let why = match (Cidr::parse(text), &whole) {
            (None, _) => NO_CIDR,
            (Some(part), Some(whole)) if !whole.strictly_contains(&part) => {
                "must be a strict subset of `cidr`"
            }
            (Some(_), _) => continue,
        };
        errors.push(FieldError::invalid(&at.child("except").index(index), &json!(text), why));
    }
    errors
}

/// Addresses in CIDR notation: those whose first bits are those of one address.
struct Cidr {
    address: IpAddr,
    bits: u32,
}

impl Cidr {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let bits: u8 = bits.parse().ok()?;
        let bits = u32::from(bits);
        (bits <= width(address)).then_some(Self { address, bits })
    }

    /// Whether the other addresses are a part of these, and not all of them.
    fn strictly_contains(&self, other: &Self) -> bool {
        width(self.address) == width(other.address)
            && self.bits < other.bits
            && self.first_bits(self.address) == self.first_bits(other.address)
    }

    /// The bits of an address that all of these addresses have in common.
    fn first_bits(&self, address: IpAddr) -> u128 {
        let number = match address {
            IpAddr::V4(address) => u128::from(u32::from(address)),
            IpAddr::V6(address) => u128::from(address),
        };
        number.checked_shr(width(address).saturating_sub(self.bits)).unwrap_or_default()
    }
}

/// The number of bits of an address.
fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
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
        let thrice = json!({"policyTypes": ["Ingress", "Egress", "Ingress"]});
        assert_eq!(fields(&thrice), ["spec.policyTypes"]);
        for name in ["HTTP", "80", "-a", "a-", "a--b", "a_b", "", "sixteen-letters-"] {
            let named = json!({"ingress": [{"ports": [{"port": name}]}]});
            assert_eq!(fields(&named), ["spec.ingress[0].ports[0].port"], "{name:?}");
        }
    }

    #[test]
    fn a_selector_is_one_that_kubernetes_takes() {
        let selected = |selector: Value| fields(&json!({ "podSelector": selector }));
        assert_eq!(selected(json!({"matchLabels": {"acme.org/tier": "web", "empty": ""}})), [""; 0]);
        let good =
            json!([{"key": "a", "operator": "In", "values": ["b", ""]}, {"key": "a", "operator": "Exists"}]);
        assert_eq!(selected(json!({ "matchExpressions": good })), [""; 0]);
        let labels = json!({"matchLabels": {"a b": "c", "d": "e f"}});
        assert_eq!(selected(labels), ["spec.podSelector.matchLabels", "spec.podSelector.matchLabels[d]"]);
        for (requirement, field) in [
            (json!({"key": "a", "operator": "In"}), "values"),
            (json!({"key": "a", "operator": "DoesNotExist", "values": ["b"]}), "values"),
            (json!({"key": "a", "operator": "Is", "values": ["b"]}), "operator"),
            (json!({"key": "a b", "operator": "Exists"}), "key"),
            (json!({"key": "a", "operator": "NotIn", "values": ["b", "c d"]}), "values[1]"),
        ] {
            let wrong = selected(json!({"matchExpressions": [requirement]}));
            assert_eq!(wrong, [format!("spec.podSelector.matchExpressions[0].{field}")], "{field}");
        }
        let peer = json!({"ingress": [{"from": [{"namespaceSelector": {"matchLabels": {"a": "b c"}}}]}]});
        assert_eq!(fields(&peer), ["spec.ingress[0].from[0].namespaceSelector.matchLabels[a]"]);
    }

    #[test]
    fn only_a_part_of_a_block_is_left_out_of_it() {
        let but = |cidr: &str, except: &str| {
            let block = json!({"cidr": cidr, "except": [except]});
            fields(&json!({"egress": [{"to": [{"ipBlock": block}]}]}))
        };
        for (cidr, except) in
            [("10.0.0.0/8", "10.1.0.0/16"), ("0.0.0.0/0", "192.0.2.1/32"), ("::/0", "fd00::/8")]
        {
            assert_eq!(but(cidr, except), [""; 0], "{cidr} but {except}");
        }
        for except in ["11.1.0.0/16", "10.0.0.0/8", "10.0.0.0/7", "fd00::/64", "10.1.0.0"] {
            assert_eq!(but("10.0.0.0/8", except), ["spec.egress[0].to[0].ipBlock.except[0]"], "{except}");
        }
    }
}
