use super::validate::TenantKeyPolicy;
use crate::authn::issuers;

const TENANT: &str = "business.tkestack.io/tenantid";

fn error(jwt: &str) -> String {
    let keys = [TENANT.to_owned()];
    let issuers = ["https://named".to_owned()];
    let tenants = TenantKeyPolicy { keys: &keys, issuers: &issuers };
    let head = "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\n";
    issuers::parse_and_validate(format!("{head}{jwt}").as_bytes(), tenants)
        .map(drop)
        .err()
        .unwrap_or_default()
}

/// One issuer with these fields of it, and these mappings.
fn one(issuer: &str, mappings: &str) -> String {
    format!("jwt:\n- issuer: {{{issuer}}}\n  claimMappings: {{{mappings}}}\n")
}

const ISSUER: &str = "url: 'https://i', audiences: [a]";
const USER: &str = "username: {claim: sub, prefix: ''}";

#[test]
fn a_file_is_read_strictly() {
    assert_eq!(error(&one(ISSUER, USER)), "");
    assert_eq!(error("jwt: []"), "");
    assert!(error("jwt: []\nother: 1").contains("unknown field `other`"));
    assert!(error("jwt: []\njwt: []").contains("duplicate"));
    assert!(error(&one(&format!("{ISSUER}, more: 1"), USER)).contains("unknown field `more`"));
    let parse = |text: &str| super::AuthenticationConfiguration::parse(text.as_bytes()).map(drop);
    assert!(parse("apiVersion: v1\nkind: Config").unwrap_err().contains("no kind"));
    assert_eq!(parse("").unwrap_err(), "empty config data");
    assert!(parse("{").is_err());
}

/// Paths and texts are those of kube-apiserver.
#[test]
fn what_is_wrong_is_told_with_its_path() {
    let message = |text: &str, want: &str| assert_eq!(error(text), want, "{text}");
    message(&one("url: '', audiences: [a]", USER), "jwt[0].issuer.url: Required value");
    message(
        &one("url: 'http://i', audiences: [a]", USER),
        "jwt[0].issuer.url: Invalid value: \"http://i\": URL scheme must be https",
    );
    message(
        &one("url: 'https://u:p@i?a#b', audiences: [a]", USER),
        "[jwt[0].issuer.url: Invalid value: \"https://u:p@i?a#b\": URL must not contain a username or password, \
         jwt[0].issuer.url: Invalid value: \"https://u:p@i?a#b\": URL must not contain a query, \
         jwt[0].issuer.url: Invalid value: \"https://u:p@i?a#b\": URL must not contain a fragment]",
    );
    message(
        &one(&format!("{ISSUER}, discoveryURL: 'https://i/'"), USER),
        "jwt[0].issuer.discoveryURL: Invalid value: \"https://i/\": discoveryURL must be different from URL",
    );
    message(
        &one("url: 'https://i', audiences: [a, a]", USER),
        "[jwt[0].issuer.audiences[1]: Duplicate value: \"a\", jwt[0].issuer.audienceMatchPolicy: Invalid value: \"\": \
         audienceMatchPolicy must be MatchAny for multiple audiences]",
    );
    message(
        &one("url: 'https://i', audiences: []", USER),
        "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required",
    );
    message(
        &one(&format!("{ISSUER}, certificateAuthority: x"), USER),
        "jwt[0].issuer.certificateAuthority: Invalid value: \"<omitted>\": \
         data does not contain any valid RSA or ECDSA certificates",
    );
    assert!(
        error(&one(&format!("{ISSUER}, egressSelectorType: cluster"), USER))
            .contains("egressSelectorType: Forbidden")
    );
}

#[test]
fn what_is_wrong_with_mappings_is_told_with_its_path() {
    let message = |text: &str, want: &str| assert_eq!(error(text), want, "{text}");
    message(
        &one(ISSUER, "username: {}"),
        "jwt[0].claimMappings.username: Required value: claim or expression is required",
    );
    message(
        &one(ISSUER, "username: {claim: sub}"),
        "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set. It can be set to \
         an empty string to disable prefixing",
    );
    message(
        &one(ISSUER, "username: {claim: sub, expression: claims.sub}"),
        "jwt[0].claimMappings.username: Invalid value: \"\": claim and expression can't both be set",
    );
    message(
        &one(ISSUER, "username: {expression: claims.sub, prefix: x}"),
        "jwt[0].claimMappings.username.prefix: Invalid value: \"x\": may not be specified when expression is set",
    );
    message(
        &one(ISSUER, "username: {expression: 'url(claims.sub)'}"),
        "jwt[0].claimMappings.username.expression: Invalid value: \"url(claims.sub)\": compilation failed: \
         the function \"url\" is not supported here",
    );
    message(
        &one(ISSUER, &format!("{USER}, uid: {{claim: a, expression: b}}")),
        "jwt[0].claimMappings.uid: Invalid value: \"\": claim and expression can't both be set",
    );
    assert!(
        error(&one(ISSUER, "username: {expression: claims.email}"))
            .contains("claims.email_verified must be used")
    );
    assert_eq!(
        error(&one(
            ISSUER,
            "username: {expression: 'claims.?email_verified.orValue(false) ? claims.email : claims.sub'}"
        )),
        ""
    );
}

#[test]
fn rules_and_extra_keys_are_those_of_kubernetes() {
    let rules = |rules: &str| error(&format!("{}  claimValidationRules: {rules}", one(ISSUER, USER)));
    assert_eq!(rules("[{claim: a}, {expression: 'claims.b == 1', message: m}]"), "");
    assert_eq!(
        rules("[{}]"),
        "jwt[0].claimValidationRules[0]: Required value: claim or expression is required"
    );
    assert!(rules("[{claim: a, message: m}]").contains("claimValidationRules[0].message: Invalid value"));
    assert!(
        rules("[{claim: a}, {claim: a}]").contains("claimValidationRules[1].claim: Duplicate value: \"a\"")
    );
    assert!(rules("[{expression: 'claims.b'}]").contains("must evaluate to bool"));
    let user = |rules: &str| error(&format!("{}  userValidationRules: {rules}", one(ISSUER, USER)));
    assert_eq!(user("[{expression: \"user.username != ''\"}]"), "");
    assert_eq!(user("[{}]"), "jwt[0].userValidationRules[0].expression: Required value");
    let extra = |key: &str| {
        error(&one(ISSUER, &format!("{USER}, extra: [{{key: '{key}', valueExpression: claims.x}}]")))
    };
    assert_eq!(extra("acme.io/team"), "");
    assert!(extra("team").contains("must be a domain-prefixed path (such as \"acme.io/foo\")"));
    assert!(extra("a.k8s.io/team").contains("reserved for Kubernetes use"));
    assert!(extra("acme.io/Team").contains("must be lowercase"));
    assert!(extra("acme.io/a b").contains("Invalid path"));
    assert!(extra(TENANT).contains("jwt[0].claimMappings.extra[0].key: Forbidden"), "{}", extra(TENANT));
    let named = format!("{USER}, extra: [{{key: {TENANT}, valueExpression: claims.x}}]");
    assert_eq!(error(&one("url: 'https://named', audiences: [a]", &named)), "");
    let anonymous = |text: &str| error(&format!("{}anonymous: {text}", one(ISSUER, USER)));
    assert_eq!(anonymous("{enabled: true, conditions: [{path: /livez}]}"), "");
    assert!(
        anonymous("{enabled: false, conditions: [{path: /livez}]}")
            .contains("anonymous.conditions: Invalid value")
    );
}

fn two(first: &str, second: &str) -> String {
    let of = |name: &str, prefix: &str| {
        format!(
            "- issuer: {{url: 'https://{name}', audiences: [a]}}\n  claimMappings: {{username: {prefix}}}\n"
        )
    };
    error(&format!("jwt:\n{}{}", of("one", first), of("two", second)))
}

#[test]
fn issuers_have_names_of_their_own() {
    let prefix = |prefix: &str| format!("{{claim: sub, prefix: '{prefix}'}}");
    assert_eq!(two(&prefix("a:"), &prefix("b:")), "");
    assert_eq!(two(&prefix(""), &prefix("b:")), "");
    assert_eq!(two("{expression: claims.sub}", "{expression: \"'b:' + claims.sub\"}"), "");
    let none = two(&prefix(""), "{expression: claims.sub}");
    assert!(
        none.starts_with("jwt[1].claimMappings.username.expression: Invalid value: \"\": issuers must not"),
        "{none}"
    );
    let same = two(&prefix("a:"), "{expression: \"'a:b:' + claims.sub\"}");
    assert!(same.contains("jwt[0].claimMappings.username.prefix is \"a:\""), "{same}");
    assert!(two(&prefix("a:"), &prefix("system:x:")).contains("are the cluster's own"));
    let issuer = "- issuer: {url: 'https://one', audiences: [a]}\n  claimMappings: {username: {claim: sub, prefix: 'a:'}}\n";
    let twice = error(&format!("jwt:\n{issuer}{}", issuer.replace("a:'", "b:'")));
    assert_eq!(twice, "jwt[1].issuer.url: Duplicate value: \"https://one\"");
}
