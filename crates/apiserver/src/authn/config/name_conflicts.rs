use crate::authn::allowed_names::{AllowedNames, IssuerNames, SYSTEM_PREFIX};
use crate::authn::claims::ClaimRules;
use meta::field::{FieldError, FieldErrors, Path};
use serde_json::Value;

/// The rule from which an issuer's names come, and the prefix that all of them have, if there is one.
struct NameSource {
    path: Path,
    prefix: Option<String>,
}

/// Determines which names each issuer may give. The issuers are in the order of the file. Adds an error where prefixes
/// of two issuers overlap, where two issuers have no prefix, and where a prefix is the cluster's own.
pub(crate) fn assign_names(all: &[ClaimRules], errors: &mut FieldErrors) -> Vec<IssuerNames> {
    let source = |(index, rules): (usize, &ClaimRules), mapping: &str, prefix: Option<String>| {
        let path = Path::new("jwt").index(index).child("claimMappings").child(mapping);
        let field = if rules.is_expression(mapping) { "expression" } else { "prefix" };
        NameSource { path: path.child(field), prefix }
    };
    let users = |one: (usize, &ClaimRules)| source(one, "username", one.1.user_prefix());
    let groups = |one: (usize, &ClaimRules)| source(one, "groups", one.1.group_prefix());
    let users: Vec<NameSource> = all.iter().enumerate().map(users).collect();
    // An issuer without groups reserves no group names.
    let has_groups = |(_, rules): &(usize, &ClaimRules)| rules.has_groups();
    let groups: Vec<NameSource> = all.iter().enumerate().filter(has_groups).map(groups).collect();
    check(&users, errors);
    check(&groups, errors);
    all.iter()
        .map(|rules| IssuerNames {
            users: allowed_names(rules.user_prefix(), &users),
            groups: allowed_names(rules.group_prefix(), &groups),
        })
        .collect()
}

fn allowed_names(own_prefix: Option<String>, all: &[NameSource]) -> AllowedNames {
    own_prefix.map_or_else(
        || AllowedNames::AllExcept {
            prefixes: all.iter().filter_map(|source| source.prefix.clone()).collect(),
        },
        AllowedNames::WithPrefix,
    )
}

fn check(all: &[NameSource], errors: &mut FieldErrors) {
    let mut has_unprefixed = false;
    for (index, source) in all.iter().enumerate() {
        let Some(prefix) = &source.prefix else {
            if std::mem::replace(&mut has_unprefixed, true) {
                errors.push(FieldError::invalid(
                    &source.path,
                    &Value::from(""),
                    "issuers must not speak for each other: only one of them may give names without a prefix of its \
                     own",
                ));
            }
            continue;
        };
        if prefix.starts_with(SYSTEM_PREFIX) {
            let detail = format!("names that begin with {SYSTEM_PREFIX:?} are the cluster's own");
            errors.push(FieldError::invalid(&source.path, &Value::from(prefix.as_str()), &detail));
        }
        let before = all
            .iter()
            .take(index)
            .filter_map(|other| other.prefix.as_ref().map(|own_prefix| (other, own_prefix)));
        for (other, own_prefix) in before {
            if own_prefix.starts_with(prefix.as_str()) || prefix.starts_with(own_prefix.as_str()) {
                let detail =
                    format!("issuers must not speak for each other: {} is {own_prefix:?}", other.path);
                errors.push(FieldError::invalid(&source.path, &Value::from(prefix.as_str()), &detail));
            }
        }
    }
}
