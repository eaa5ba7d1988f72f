//! Maps the claims of a token to a caller. Pure.

use super::allowed_names::IssuerNames;
use super::expression::{self, Activation, Expression, TextPrefix};
use crate::caller::{AUTHENTICATED, Caller, Via};
use cel::Value as CelValue;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The most bytes of memory that a caller may take: name, groups and extra values together.
const CALLER_LIMIT: usize = 64 * 1024;
/// The extra key in which Kubernetes stores the id of the token.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// The claim that refers to distributed claims, whose values are on another server.
const DISTRIBUTED: &str = "_claim_names";

pub(crate) type Claims = Map<String, Value>;

/// The rules that map the claims of an issuer to a caller.
#[derive(Clone, Debug)]
pub(crate) struct ClaimRules {
    pub(crate) username: NameRule,
    pub(crate) groups: Option<NameRule>,
    pub(crate) uid: Option<ValueRule>,
    pub(crate) extra: Vec<ExtraRule>,
    pub(crate) validation: Vec<ClaimRule>,
    pub(crate) users: Vec<UserRule>,
}

/// Where the name of the user, or the names of his groups, come from.
#[derive(Clone, Debug)]
pub(crate) enum NameRule {
    Claim { claim: String, prefix: String },
    Expression(Expression),
}

/// Where a value comes from.
#[derive(Clone, Debug)]
pub(crate) enum ValueRule {
    Claim(String),
    Expression(Expression),
}

/// Where the values of an extra key come from.
#[derive(Clone, Debug)]
pub(crate) struct ExtraRule {
    pub(crate) key: String,
    pub(crate) expression: Expression,
}

/// A condition that a token must meet.
#[derive(Clone, Debug)]
pub(crate) enum ClaimRule {
    Claim { claim: String, value: String },
    Expression { expression: Expression, message: String },
}

/// A condition that the caller must meet to whom the claims were mapped.
#[derive(Clone, Debug)]
pub(crate) struct UserRule {
    pub(crate) expression: Expression,
    pub(crate) message: String,
}

impl NameRule {
    /// The prefix of all names from this rule; `None` if there is none or it is not known.
    fn prefix(&self) -> Option<String> {
        match self {
            Self::Claim { prefix, .. } => Some(prefix.clone()).filter(|prefix| !prefix.is_empty()),
            Self::Expression(expression) => match expression.prefix() {
                TextPrefix::Known(prefix) => Some(prefix.clone()),
                TextPrefix::NoText | TextPrefix::Unknown => None,
            },
        }
    }
}

impl ClaimRules {
    pub(crate) fn user_prefix(&self) -> Option<String> {
        self.username.prefix()
    }

    pub(crate) fn group_prefix(&self) -> Option<String> {
        self.groups.as_ref().and_then(NameRule::prefix)
    }

    pub(crate) fn has_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// Whether a mapping, `username` or `groups`, is a CEL expression.
    pub(crate) fn is_expression(&self, mapping: &str) -> bool {
        let rule = if mapping == "username" { Some(&self.username) } else { self.groups.as_ref() };
        matches!(rule, Some(NameRule::Expression(_)))
    }

    /// Whether it uses an e-mail address as a name without checking that it is verified, so that anybody could claim
    /// it.
    pub(crate) fn uses_unverified_email(&self) -> bool {
        let NameRule::Expression(username) = &self.username else { return false };
        let rules = self.validation.iter().filter_map(|rule| match rule {
            ClaimRule::Expression { expression, .. } => Some(expression),
            ClaimRule::Claim { .. } => None,
        });
        let mut all =
            std::iter::once(username).chain(self.extra.iter().map(|extra| &extra.expression)).chain(rules);
        let [address, verified] = expression::EMAIL_CLAIMS;
        username.selects_claim(address) && !all.any(|expression| expression.selects_claim(verified))
    }

    /// Whether there are CEL expressions, which need a deep stack.
    pub(crate) fn has_expressions(&self) -> bool {
        let by_rule = |rule: &ClaimRule| matches!(rule, ClaimRule::Expression { .. });
        self.is_expression("username")
            || self.is_expression("groups")
            || matches!(self.uid, Some(ValueRule::Expression(_)))
            || !self.extra.is_empty()
            || !self.users.is_empty()
            || self.validation.iter().any(by_rule)
    }

    /// The caller of a verified token. Errors are for the log.
    pub(crate) fn caller(&self, claims: &Claims, allowed_names: &IssuerNames) -> Result<Caller, String> {
        let values = Activation::claims(claims);
        let name = self.name(claims, &values)?;
        if let Some(why) = allowed_names.users.rejection(&name) {
            return Err(format!("user name {why}"));
        }
        let mut caller = Caller {
            name,
            groups: self.group_names(claims, &values)?,
            uid: self.uid(claims, &values)?,
            extra: self.extra(claims, &values)?,
            via: Via::Jwt,
            ..Caller::default()
        };
        self.check(claims, &values)?;
        self.check_user(&caller)?;
        caller.groups.retain(|group| match allowed_names.groups.rejection(group) {
            Some(why) => {
                tracing::debug!(user = caller.name, why, "a group of a token is left out");
                false
            }
            None => true,
        });
        caller.groups.push(AUTHENTICATED.to_owned());
        caller.groups.shrink_to_fit();
        bounded(caller)
    }

    fn name(&self, claims: &Claims, values: &Activation) -> Result<String, String> {
        let name = match &self.username {
            NameRule::Claim { claim, prefix } => {
                let name = text(claims, claim)?;
                if claim == "email"
                    && claims.get("email_verified").is_some_and(|value| value != &Value::Bool(true))
                {
                    return Err("email not verified".to_owned());
                }
                if name.is_empty() {
                    return Err(format!("claim {claim:?} is empty"));
                }
                format!("{prefix}{name}")
            }
            NameRule::Expression(expression) => single_text(expression, values, "username")?,
        };
        if name.is_empty() {
            Err("empty username via CEL expression is not allowed".to_owned())
        } else {
            Ok(name)
        }
    }

    fn group_names(&self, claims: &Claims, values: &Activation) -> Result<Vec<String>, String> {
        match &self.groups {
            None => Ok(Vec::new()),
            Some(NameRule::Expression(expression)) => texts(expression, values)
                .map_err(|why| format!("error evaluating group claim expression: {why}")),
            Some(NameRule::Claim { claim, prefix }) => {
                let with_prefix = |group: &str| format!("{prefix}{group}");
                match claims.get(claim) {
                    None if is_distributed(claims, claim) => {
                        Err(format!("claim {claim:?} is a distributed claim, which is not supported here"))
                    }
                    None | Some(Value::Null) => Ok(Vec::new()),
                    Some(Value::String(group)) => Ok(vec![with_prefix(group)]),
                    Some(Value::Array(groups)) => {
                        let text = |group: &Value| group.as_str().map(with_prefix);
                        let all: Option<Vec<String>> = groups.iter().map(text).collect();
                        all.ok_or_else(|| format!("claim {claim:?} holds something that is no text"))
                    }
                    Some(_) => Err(format!("claim {claim:?} is no list of texts")),
                }
            }
        }
    }

    fn uid(&self, claims: &Claims, values: &Activation) -> Result<String, String> {
        match &self.uid {
            None => Ok(String::new()),
            Some(ValueRule::Claim(claim)) => text(claims, claim).map(str::to_owned),
            Some(ValueRule::Expression(expression)) => single_text(expression, values, "uid"),
        }
    }

    fn extra(&self, claims: &Claims, values: &Activation) -> Result<BTreeMap<String, Vec<String>>, String> {
        let mut extra = BTreeMap::new();
        if let Some(id) = claims.get("jti").and_then(Value::as_str).filter(|id| !id.is_empty()) {
            extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]);
        }
        for rule in &self.extra {
            let values = texts(&rule.expression, values)
                .map_err(|why| format!("error evaluating extra claim expression: {why}"))?;
            if !values.is_empty() {
                extra.insert(rule.key.clone(), values);
            }
        }
        Ok(extra)
    }

    fn check(&self, claims: &Claims, values: &Activation) -> Result<(), String> {
        for rule in &self.validation {
            match rule {
                ClaimRule::Claim { claim, value } => {
                    if text(claims, claim)? != value {
                        return Err(format!("required claim {claim} value does not match, want {value:?}"));
                    }
                }
                ClaimRule::Expression { expression, message } => {
                    check_condition(expression, values, message)?;
                }
            }
        }
        Ok(())
    }

    fn check_user(&self, caller: &Caller) -> Result<(), String> {
        if self.users.is_empty() {
            return Ok(());
        }
        let Caller { name, uid, groups, extra, .. } = caller;
        let user = json!({ "username": name, "uid": uid, "groups": groups, "extra": extra });
        let user = Activation::user(&user);
        self.users.iter().try_for_each(|rule| check_condition(&rule.expression, &user, &rule.message))
    }
}

/// A claim that must be present, as a text; null is the empty text.
fn text<'a>(claims: &'a Claims, claim: &str) -> Result<&'a str, String> {
    match claims.get(claim) {
        None => Err(format!("claim {claim:?} is not there")),
        Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("claim {claim:?} is no text")),
    }
}

fn is_distributed(claims: &Claims, claim: &str) -> bool {
    claims.get(DISTRIBUTED).and_then(|names| names.get(claim)).is_some()
}

fn single_text(expression: &Expression, values: &Activation, what: &str) -> Result<String, String> {
    match expression.evaluate(values) {
        Ok(CelValue::String(text)) => Ok(text.to_string()),
        Ok(_) => Err(format!("{what} claim expression must return a string")),
        Err(why) => Err(format!("error evaluating {what} claim expression: {why}")),
    }
}

fn texts(expression: &Expression, values: &Activation) -> Result<Vec<String>, String> {
    expression::texts(&expression.evaluate(values)?).map_err(str::to_owned)
}

fn check_condition(expression: &Expression, values: &Activation, message: &str) -> Result<(), String> {
    match expression.evaluate(values)? {
        CelValue::Bool(true) => Ok(()),
        CelValue::Bool(false) => {
            Err(format!("validation expression '{}' failed: {message}", expression.text()))
        }
        _ => Err("validation expression must return a boolean".to_owned()),
    }
}

/// Refuses a caller who takes too much memory, or who has a NUL, which PostgreSQL cannot store in a text column.
fn bounded(caller: Caller) -> Result<Caller, String> {
    if caller.texts().any(|text| text.contains('\0')) {
        return Err("a claim holds a NUL".to_owned());
    }
    if caller.weight() > CALLER_LIMIT {
        return Err(format!("its names take more than {CALLER_LIMIT} bytes of memory"));
    }
    Ok(caller)
}

#[cfg(test)]
mod tests;
