use crate::authn::config::validate::TenantKeyPolicy;
use crate::authn::issuers;
use crate::authn::jwt::IssuerRules;
use crate::caller::Caller;
use serde_json::{Value, json};

const KEYS: TenantKeyPolicy<'_> = TenantKeyPolicy { keys: &[], issuers: &[] };

/// Issuers of a file whose `jwt` is this YAML.
fn issuers(jwt: &str) -> Vec<IssuerRules> {
    let file =
        format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n{jwt}");
    let (file, validated) = issuers::parse_and_validate(file.as_bytes(), KEYS).unwrap();
    let of = |(config, validated): (_, crate::authn::config::validate::ValidatedIssuer)| {
        let config: crate::authn::config::JwtAuthenticator = config;
        IssuerRules {
            is_cluster: false,
            url: config.issuer.url,
            audiences: config.issuer.audiences,
            claims: validated.rules,
            allowed_names: validated.allowed_names,
            tenant_keys: Vec::new(),
        }
    };
    file.jwt.into_iter().zip(validated).map(of).collect()
}

fn issuer(name: &str, mappings: &str) -> String {
    format!(
        "- issuer: {{url: 'https://{name}', audiences: [a]}}\n  claimMappings:\n{}\n",
        mappings.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
    )
}

fn caller(rules: &IssuerRules, claims: &Value) -> Result<Caller, String> {
    crate::authn::expression::with_deep_stack(|| rules.caller(claims.as_object().unwrap())).unwrap()
}

#[test]
fn claims_become_a_caller_as_in_kubernetes() {
    let jwt = issuer(
        "i",
        "username: {claim: sub, prefix: 'corp:'}\ngroups: {claim: groups, prefix: 'corp:'}\nuid: {claim: oid}\n\
         extra: [{key: x.io/team, valueExpression: 'claims.team'}, {key: x.io/none, valueExpression: \"''\"}]",
    );
    let rules = issuers(&jwt).remove(0);
    let claims = json!({"sub": "alice", "groups": ["dev"], "oid": "7", "team": ["a", ""], "jti": "j"});
    let got = caller(&rules, &claims).unwrap();
    assert_eq!((got.name.as_str(), got.uid.as_str()), ("corp:alice", "7"));
    assert_eq!(got.groups, ["corp:dev", "system:authenticated"]);
    let extra = json!({"authentication.kubernetes.io/credential-id": ["JTI=j"], "x.io/team": ["a"]});
    assert_eq!(json!(got.extra), extra);
    for (what, claims) in [
        ("no user", json!({"oid": "7", "team": ""})),
        ("an empty user", json!({"sub": "", "oid": "7", "team": ""})),
        ("a user that is no text", json!({"sub": 1, "oid": "7", "team": ""})),
        ("groups of numbers", json!({"sub": "a", "groups": [1], "oid": "7", "team": ""})),
        ("groups elsewhere", json!({"sub": "a", "_claim_names": {"groups": "s"}, "oid": "7", "team": ""})),
        ("no uid", json!({"sub": "a", "team": ""})),
        ("no team", json!({"sub": "a", "oid": "7"})),
        ("a NUL", json!({"sub": "a\0", "oid": "7", "team": ""})),
        ("very long names", json!({"sub": "a".repeat(70_000), "oid": "7", "team": ""})),
        ("very many names", json!({"sub": "a", "groups": vec!["b"; 3_000], "oid": "7", "team": ""})),
    ] {
        assert!(caller(&rules, &claims).is_err(), "{what}");
    }
}

#[test]
fn rules_refuse_a_token_or_who_is_made_of_it() {
    let jwt = issuer("i", "username: {claim: email, prefix: ''}\ngroups: {claim: groups, prefix: ''}")
        + "  claimValidationRules:\n  - {claim: hd, requiredValue: corp.io}\n  \
           - {expression: 'claims.exp - 0 == 0 || true'}\n";
    let file =
        format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n{jwt}");
    assert!(
        issuers::parse_and_validate(file.as_bytes(), KEYS)
            .unwrap_err()
            .contains("jwt[0].claimValidationRules[1].expression")
    );
    let jwt = issuer("i", "username: {claim: email, prefix: ''}\ngroups: {claim: groups, prefix: ''}")
        + "  claimValidationRules:\n  - {claim: hd, requiredValue: corp.io}\n  \
           - {expression: 'claims.groups.size() < 3', message: too many}\n  \
           userValidationRules:\n  - {expression: \"!('banned' in user.groups)\", message: banned}\n";
    let rules = issuers(&jwt).remove(0);
    let with = |key: &str, value: Value| {
        let mut claims =
            json!({"email": "a@corp.io", "email_verified": true, "hd": "corp.io", "groups": ["x"]});
        claims[key] = value;
        caller(&rules, &claims).map(|caller| caller.name)
    };
    assert_eq!(with("x", json!(1)), Ok("a@corp.io".to_owned()));
    assert_eq!(with("email_verified", json!(false)), Err("email not verified".to_owned()));
    assert!(with("email_verified", json!("true")).is_err());
    assert!(with("hd", json!("other.io")).unwrap_err().contains("hd"));
    assert!(with("hd", json!(["corp.io"])).is_err());
    assert!(with("groups", json!(["a", "b", "c"])).unwrap_err().contains("too many"));
    assert!(with("groups", json!(["banned"])).unwrap_err().contains("banned"));
}

#[test]
fn no_issuer_speaks_for_the_cluster_or_for_another_issuer() {
    let jwt =
        issuer("one", "username: {claim: sub, prefix: 'one:'}\ngroups: {claim: groups, prefix: 'one:'}")
            + &issuer("two", "username: {expression: claims.sub}\ngroups: {claim: groups, prefix: ''}")
            + &issuer("three", "username: {expression: \"(has(claims.p) ? 'three:' : '') + claims.sub\"}");
    let all = issuers(&jwt);
    let named = |index: usize, claims: Value| caller(&all[index], &claims);
    let groups = |caller: Result<Caller, String>| caller.unwrap().groups;
    assert_eq!(named(0, json!({"sub": "two:x"})).unwrap().name, "one:two:x");
    assert_eq!(named(1, json!({"sub": "bob"})).unwrap().name, "bob");
    for foreign in ["one:bob", "three:bob", "system:admin"] {
        assert!(named(1, json!({ "sub": foreign })).is_err(), "{foreign}");
    }
    let mixed = json!({"sub": "bob", "groups": ["a", "one:a", "system:masters", "three:a"]});
    assert_eq!(groups(named(1, mixed)), ["a", "three:a", "system:authenticated"], "three gives no groups");
    assert_eq!(named(2, json!({"sub": "x", "p": 1})).unwrap().name, "three:x");
    assert!(named(2, json!({"sub": "x"})).is_err(), "an expression is held to how it says that names begin");
}
