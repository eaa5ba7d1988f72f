use super::name_conflicts;
use super::{AnonymousAuth, ClaimValidationRule, Issuer, JwtAuthenticator, PrefixedClaimOrExpression};
use crate::authn::allowed_names::IssuerNames;
use crate::authn::claims::{ClaimRule, ClaimRules, ExtraRule, NameRule, UserRule, ValueRule};
use crate::authn::expression::{ExpectedType, Expression, RootVariable};
use http::Uri;
use meta::field::{FieldError, FieldErrors, Path};
use meta::name;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;
use std::collections::BTreeSet;

const ISSUERS_MAX: usize = 64;
const MATCH_ANY: &str = "MatchAny";
const BOTH: &str = "claim and expression can't both be set";
const EMAIL: &str = "claims.email_verified must be used in claimMappings.username.expression or \
    claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in \
    claimMappings.username.expression";
/// Characters that the path of an extra key may have besides letters and digits.
const PATH_CHARACTERS: &str = "/-._~%!$&'()*+,;=:";

/// Which issuers may name a tenant, and by which extra keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TenantKeyPolicy<'a> {
    /// Extra keys that name a tenant.
    pub(crate) keys: &'a [String],
    /// Issuers who may use them.
    pub(crate) issuers: &'a [String],
}

/// An issuer that is valid by the rules of Kubernetes.
#[derive(Clone, Debug)]
pub(crate) struct ValidatedIssuer {
    pub(crate) rules: ClaimRules,
    pub(crate) allowed_names: IssuerNames,
}

/// Validates all issuers of a file. Must run on a deep stack.
pub(crate) fn check(
    jwt: &[JwtAuthenticator],
    tenants: TenantKeyPolicy<'_>,
) -> Result<Vec<ValidatedIssuer>, FieldErrors> {
    let root = Path::new("jwt");
    if jwt.len() > ISSUERS_MAX {
        return Err(vec![FieldError::too_many(&root, jwt.len(), ISSUERS_MAX)]);
    }
    let mut errors = Vec::new();
    let (mut urls, mut documents) = (BTreeSet::new(), BTreeSet::new());
    for (index, one) in jwt.iter().enumerate() {
        let path = root.index(index).child("issuer");
        issuer(&one.issuer, &path, &mut errors);
        if !urls.insert(&one.issuer.url) {
            errors.push(FieldError::duplicate(&path.child("url"), &text(&one.issuer.url)));
        }
        if let Some(url) = one.issuer.discovery_url.as_ref().filter(|url| !url.is_empty())
            && !documents.insert(url)
        {
            errors.push(FieldError::duplicate(&path.child("discoveryURL"), &text(url)));
        }
        tenant_keys(one, &root.index(index), tenants, &mut errors);
    }
    let rules: Vec<ClaimRules> =
        jwt.iter().enumerate().map(|(index, one)| rules(one, &root.index(index), &mut errors)).collect();
    with_allowed_names(rules, errors)
}

/// Validates the mappings and rules of issuers from the program's settings. Must run on a deep stack.
pub(crate) fn check_rules(jwt: &[JwtAuthenticator]) -> Result<Vec<ValidatedIssuer>, FieldErrors> {
    let mut errors = Vec::new();
    let path = |index| Path::new("jwt").index(index);
    let rules = jwt.iter().enumerate().map(|(index, one)| rules(one, &path(index), &mut errors)).collect();
    with_allowed_names(rules, errors)
}

/// What is wrong with the rule for anonymous callers.
pub(crate) fn anonymous(anonymous: &AnonymousAuth) -> Option<FieldError> {
    let paths: Vec<&str> = anonymous.conditions.iter().map(|condition| condition.path.as_str()).collect();
    let detail = "enabled should be set to true when conditions are defined";
    let path = Path::new("anonymous").child("conditions");
    (!anonymous.enabled && !paths.is_empty()).then(|| FieldError::invalid(&path, &Value::from(paths), detail))
}

fn with_allowed_names(
    rules: Vec<ClaimRules>,
    mut errors: FieldErrors,
) -> Result<Vec<ValidatedIssuer>, FieldErrors> {
    let allowed_names = name_conflicts::assign_names(&rules, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    let checked = |(rules, allowed_names)| ValidatedIssuer { rules, allowed_names };
    Ok(rules.into_iter().zip(allowed_names).map(checked).collect())
}

fn text(text: &str) -> Value {
    Value::from(text)
}

fn tenant_keys(one: &JwtAuthenticator, path: &Path, tenants: TenantKeyPolicy<'_>, errors: &mut FieldErrors) {
    if tenants.issuers.contains(&one.issuer.url) {
        return;
    }
    for (index, extra) in one.claim_mappings.extra.iter().enumerate() {
        if tenants.keys.contains(&extra.key) {
            let path = path.child("claimMappings").child("extra").index(index).child("key");
            let detail = format!("{:?} names a tenant, which only listed issuers may", extra.key);
            errors.push(FieldError::forbidden(&path, &detail));
        }
    }
}

fn issuer(issuer: &Issuer, path: &Path, errors: &mut FieldErrors) {
    let at = path.child("url");
    if issuer.url.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        url(&issuer.url, &at, errors);
    }
    if let Some(document) = issuer.discovery_url.as_ref().filter(|url| !url.is_empty()) {
        let at = path.child("discoveryURL");
        if !issuer.url.is_empty() && issuer.url.trim_end_matches('/') == document.trim_end_matches('/') {
            errors.push(FieldError::invalid(&at, &text(document), "discoveryURL must be different from URL"));
        }
        url(document, &at, errors);
    }
    audiences(issuer, path, errors);
    let authority = issuer.certificate_authority.as_bytes();
    if !authority.is_empty() && !CertificateDer::pem_slice_iter(authority).any(|one| one.is_ok()) {
        let detail = "data does not contain any valid RSA or ECDSA certificates";
        errors.push(FieldError::invalid(&path.child("certificateAuthority"), &text("<omitted>"), detail));
    }
    if !issuer.egress_selector_type.is_empty() {
        let detail = "egress selectors are kube-apiserver's: this server connects to issuers by itself";
        errors.push(FieldError::forbidden(&path.child("egressSelectorType"), detail));
    }
}

fn url(url: &str, path: &Path, errors: &mut FieldErrors) {
    let mut wrong = |detail: &str| errors.push(FieldError::invalid(path, &text(url), detail));
    // The URI parser drops the fragment.
    let (address, fragment) = url.split_once('#').unwrap_or((url, ""));
    let uri: Uri = match address.parse() {
        Ok(uri) => uri,
        Err(error) => return wrong(&format!("parse {url:?}: {error}")),
    };
    if uri.scheme_str() != Some("https") {
        wrong("URL scheme must be https");
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        wrong("URL must not contain a username or password");
    }
    if uri.query().is_some_and(|query| !query.is_empty()) {
        wrong("URL must not contain a query");
    }
    if !fragment.is_empty() {
        wrong("URL must not contain a fragment");
    }
}

fn audiences(issuer: &Issuer, path: &Path, errors: &mut FieldErrors) {
    let (at, policy) = (path.child("audiences"), &issuer.audience_match_policy);
    if issuer.audiences.is_empty() {
        errors.push(FieldError::required(&at, &format!("at least one {at} is required")));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, audience) in issuer.audiences.iter().enumerate() {
        if audience.is_empty() {
            errors.push(FieldError::required(&at.index(index), ""));
        }
        if !seen.insert(audience) {
            errors.push(FieldError::duplicate(&at.index(index), &text(audience)));
        }
    }
    let mut wrong = |detail: &str| {
        errors.push(FieldError::invalid(&path.child("audienceMatchPolicy"), &text(policy), detail));
    };
    if issuer.audiences.len() > 1 && policy != MATCH_ANY {
        wrong("audienceMatchPolicy must be MatchAny for multiple audiences");
    }
    if issuer.audiences.len() == 1 && !policy.is_empty() && policy != MATCH_ANY {
        wrong("audienceMatchPolicy must be empty or MatchAny for single audience");
    }
}

/// The rules for the claims of an issuer. Adds an error for each rule that is invalid.
fn rules(one: &JwtAuthenticator, path: &Path, errors: &mut FieldErrors) -> ClaimRules {
    let validation = claim_rules(&one.claim_validation_rules, &path.child("claimValidationRules"), errors);
    let (mappings, at) = (&one.claim_mappings, path.child("claimMappings"));
    let username = name_rule(&mappings.username, &at.child("username"), errors);
    if username.is_none() && mappings.username == PrefixedClaimOrExpression::default() {
        errors.push(FieldError::required(&at.child("username"), "claim or expression is required"));
    }
    let groups = name_rule(&mappings.groups, &at.child("groups"), errors);
    let uid = match (mappings.uid.claim.as_str(), mappings.uid.expression.as_str()) {
        ("", "") => None,
        (claim, "") => Some(ValueRule::Claim(claim.to_owned())),
        ("", source) => {
            expression(source, &at.child("uid").child("expression"), errors).map(ValueRule::Expression)
        }
        _ => {
            errors.push(FieldError::invalid(&at.child("uid"), &text(""), BOTH));
            None
        }
    };
    let extra = extra_rules(one, &at.child("extra"), errors);
    let rules = ClaimRules {
        username: username.unwrap_or(NameRule::Claim { claim: String::new(), prefix: String::new() }),
        groups,
        uid,
        extra,
        validation,
        users: user_rules(one, &path.child("userValidationRules"), errors),
    };
    if rules.uses_unverified_email() {
        let source = &mappings.username.expression;
        errors.push(FieldError::invalid(&at.child("username").child("expression"), &text(source), EMAIL));
    }
    rules
}

fn expression(source: &str, path: &Path, errors: &mut FieldErrors) -> Option<Expression> {
    compiled(source, (RootVariable::Claims, ExpectedType::Any), path, errors)
}

fn compiled(
    source: &str,
    (subject, expected): (RootVariable, ExpectedType),
    path: &Path,
    errors: &mut FieldErrors,
) -> Option<Expression> {
    Expression::compile(source, subject, expected)
        .map_err(|why| errors.push(FieldError::invalid(path, &text(source), &why)))
        .ok()
}

fn name_rule(mapping: &PrefixedClaimOrExpression, path: &Path, errors: &mut FieldErrors) -> Option<NameRule> {
    match (mapping.claim.as_str(), mapping.expression.as_str()) {
        ("", "") => None,
        (claim, "") => {
            if mapping.prefix.is_none() {
                let detail = "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                errors.push(FieldError::required(&path.child("prefix"), detail));
            }
            let prefix = mapping.prefix.clone().unwrap_or_default();
            Some(NameRule::Claim { claim: claim.to_owned(), prefix })
        }
        ("", source) => {
            if let Some(prefix) = &mapping.prefix {
                let detail = "may not be specified when expression is set";
                errors.push(FieldError::invalid(&path.child("prefix"), &text(prefix), detail));
            }
            expression(source, &path.child("expression"), errors).map(NameRule::Expression)
        }
        _ => {
            errors.push(FieldError::invalid(path, &text(""), BOTH));
            None
        }
    }
}

fn claim_rules(rules: &[ClaimValidationRule], path: &Path, errors: &mut FieldErrors) -> Vec<ClaimRule> {
    let (mut claims, mut expressions) = (BTreeSet::new(), BTreeSet::new());
    let mut found = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let at = path.index(index);
        match (rule.claim.as_str(), rule.expression.as_str()) {
            ("", "") => errors.push(FieldError::required(&at, "claim or expression is required")),
            (claim, "") => {
                if !rule.message.is_empty() {
                    let detail = "may not be specified when claim is set";
                    errors.push(FieldError::invalid(&at.child("message"), &text(&rule.message), detail));
                }
                if !claims.insert(claim) {
                    errors.push(FieldError::duplicate(&at.child("claim"), &text(claim)));
                }
                let (claim, value) = (claim.to_owned(), rule.required_value.clone());
                found.push(ClaimRule::Claim { claim, value });
            }
            ("", source) => {
                if !rule.required_value.is_empty() {
                    let detail = "may not be specified when expression is set";
                    let value = text(&rule.required_value);
                    errors.push(FieldError::invalid(&at.child("requiredValue"), &value, detail));
                }
                if !expressions.insert(source) {
                    errors.push(FieldError::duplicate(&at.child("expression"), &text(source)));
                    continue;
                }
                let expected = (RootVariable::Claims, ExpectedType::Bool);
                let expression = compiled(source, expected, &at.child("expression"), errors);
                let message = rule.message.clone();
                found.extend(expression.map(|expression| ClaimRule::Expression { expression, message }));
            }
            (claim, _) => errors.push(FieldError::invalid(&at, &text(claim), BOTH)),
        }
    }
    found
}

fn user_rules(one: &JwtAuthenticator, path: &Path, errors: &mut FieldErrors) -> Vec<UserRule> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (index, rule) in one.user_validation_rules.iter().enumerate() {
        let at = path.index(index).child("expression");
        if rule.expression.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else if !seen.insert(&rule.expression) {
            errors.push(FieldError::duplicate(&at, &text(&rule.expression)));
        } else {
            let expression =
                compiled(&rule.expression, (RootVariable::User, ExpectedType::Bool), &at, errors);
            let message = rule.message.clone();
            found.extend(expression.map(|expression| UserRule { expression, message }));
        }
    }
    found
}

fn extra_rules(one: &JwtAuthenticator, path: &Path, errors: &mut FieldErrors) -> Vec<ExtraRule> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (index, extra) in one.claim_mappings.extra.iter().enumerate() {
        let (at, key) = (path.index(index), extra.key.as_str());
        if !one.is_short_form {
            extra_key(key, &at.child("key"), errors);
        }
        if !seen.insert(key) {
            errors.push(FieldError::duplicate(&at.child("key"), &text(key)));
        } else if extra.value_expression.is_empty() {
            errors.push(FieldError::required(&at.child("valueExpression"), ""));
        } else {
            let expression = expression(&extra.value_expression, &at.child("valueExpression"), errors);
            found.extend(expression.map(|expression| ExtraRule { key: key.to_owned(), expression }));
        }
    }
    found
}

fn extra_key(key: &str, path: &Path, errors: &mut FieldErrors) {
    let mut wrong = |value: &str, detail: &str| errors.push(FieldError::invalid(path, &text(value), detail));
    match key.split_once('/') {
        _ if key.is_empty() => return errors.push(FieldError::required(path, "")),
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            for detail in name::dns1123_subdomain(domain) {
                wrong(domain, &detail);
            }
            let fits =
                |character: char| character.is_ascii_alphanumeric() || PATH_CHARACTERS.contains(character);
            if !rest.chars().all(fits) {
                wrong(rest, "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')");
            }
            let reserved = |of: &str| domain == of || domain.ends_with(&format!(".{of}"));
            if reserved("kubernetes.io") || reserved("k8s.io") {
                wrong(key, "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use");
            }
        }
        _ => wrong(key, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
    if key.to_lowercase() != key {
        wrong(key, "must be lowercase");
    }
}
