use crate::authn::claims::ClaimRules;
use crate::authn::territory::{SYSTEM, Territories, Territory};
use meta::field::{FieldError, FieldErrors, Path};
use serde_json::Value;

/// The place of a rule that makes names of one issuer, and the beginning of all its names.
struct Claim {
    path: Path,
    prefix: Option<String>,
}

/// The territories of all issuers. The rules are in the order of the issuers in the file.
pub(crate) fn divide(all: &[ClaimRules], errors: &mut FieldErrors) -> Vec<Territories> {
    let claim = |(index, rules): (usize, &ClaimRules), of: &str, prefix: Option<String>| {
        let path = Path::new("jwt").index(index).child("claimMappings").child(of);
        let place = if rules.is_expression(of) { "expression" } else { "prefix" };
        Claim { path: path.child(place), prefix }
    };
    let users = |one: (usize, &ClaimRules)| claim(one, "username", one.1.user_prefix());
    let groups = |one: (usize, &ClaimRules)| claim(one, "groups", one.1.group_prefix());
    let users: Vec<Claim> = all.iter().enumerate().map(users).collect();
    // An issuer without groups takes none from others.
    let giving = |(_, rules): &(usize, &ClaimRules)| rules.gives_groups();
    let groups: Vec<Claim> = all.iter().enumerate().filter(giving).map(groups).collect();
    check(&users, errors);
    check(&groups, errors);
    all.iter()
        .map(|rules| Territories {
            users: territory(rules.user_prefix(), &users),
            groups: territory(rules.group_prefix(), &groups),
        })
        .collect()
}

fn territory(own: Option<String>, all: &[Claim]) -> Territory {
    own.map_or_else(
        || Territory::Rest { but: all.iter().filter_map(|claim| claim.prefix.clone()).collect() },
        Territory::Own,
    )
}

fn check(all: &[Claim], errors: &mut FieldErrors) {
    let mut without = false;
    for (index, claim) in all.iter().enumerate() {
        let Some(prefix) = &claim.prefix else {
            if std::mem::replace(&mut without, true) {
                errors.push(FieldError::invalid(
                    &claim.path,
                    &Value::from(""),
                    "issuers must not speak for each other: only one of them may give names without a prefix of its own",
                ));
            }
            continue;
        };
        if prefix.starts_with(SYSTEM) {
            let detail = format!("names that begin with {SYSTEM:?} are the cluster's own");
            errors.push(FieldError::invalid(&claim.path, &Value::from(prefix.as_str()), &detail));
        }
        let before = all.iter().take(index).filter_map(|other| other.prefix.as_ref().map(|own| (other, own)));
        for (other, own) in before {
            if own.starts_with(prefix.as_str()) || prefix.starts_with(own.as_str()) {
                let detail = format!("issuers must not speak for each other: {} is {own:?}", other.path);
                errors.push(FieldError::invalid(&claim.path, &Value::from(prefix.as_str()), &detail));
            }
        }
    }
}
