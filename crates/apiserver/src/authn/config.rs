//! Kubernetes' AuthenticationConfiguration (apiserver.config.k8s.io): the issuers of tokens, and how claims are mapped.

use meta::field::FieldErrors;
use serde::Deserialize;

/// Validation, with the error texts of Kubernetes.
pub(crate) mod validate;
/// Prevents that two issuers give the same name.
pub(crate) mod name_conflicts;

/// The most bytes of a file.
const SIZE_LIMIT: usize = 1024 * 1024;
const KIND: &str = "AuthenticationConfiguration";
const VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1"];

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthenticationConfiguration {
    api_version: String,
    kind: String,
    /// The issuers.
    #[serde(default)]
    pub jwt: Vec<JwtAuthenticator>,
    /// Anonymous callers. If absent, the program's settings apply.
    pub anonymous: Option<AnonymousAuth>,
}

/// Anonymous callers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnonymousAuth {
    /// Whether anonymous requests are accepted.
    pub enabled: bool,
    /// The only paths at which they are accepted; empty for all.
    #[serde(default)]
    pub conditions: Vec<AnonymousAuthCondition>,
}

/// A path at which anonymous requests are accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnonymousAuthCondition {
    /// The exact path.
    pub path: String,
}

impl AnonymousAuth {
    /// Whether an anonymous request is accepted at a path.
    pub(crate) fn allows(&self, path: &str) -> bool {
        let is_open = self.conditions.is_empty() || self.conditions.iter().any(|open| open.path == path);
        self.enabled && is_open
    }
}

/// One issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JwtAuthenticator {
    /// The issuer itself.
    pub issuer: Issuer,
    /// Conditions that a token must meet.
    #[serde(default)]
    pub claim_validation_rules: Vec<ClaimValidationRule>,
    /// How the claims of a token are mapped to a user.
    pub claim_mappings: ClaimMappings,
    /// Conditions that the user must meet.
    #[serde(default)]
    pub user_validation_rules: Vec<UserValidationRule>,
    /// Whether it comes from the program's settings. Then its extra keys need no domain.
    #[serde(skip)]
    pub(crate) is_short_form: bool,
}

/// An issuer of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Issuer {
    /// The claim `iss`.
    pub url: String,
    /// The URL of its discovery document, if that is not at the usual path below `url`.
    #[serde(default, rename = "discoveryURL")]
    pub discovery_url: Option<String>,
    /// CAs to trust instead of the system's, PEM.
    #[serde(default)]
    pub certificate_authority: String,
    /// The claim `aud` must hold one of these.
    pub audiences: Vec<String>,
    /// `MatchAny`; empty for one audience.
    #[serde(default)]
    pub audience_match_policy: String,
    /// Not supported here.
    #[serde(default)]
    pub egress_selector_type: String,
}

/// A condition that a token must meet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClaimValidationRule {
    /// A claim that must have the value `required_value`.
    pub claim: String,
    /// The value of `claim`.
    pub required_value: String,
    /// CEL over `claims`.
    pub expression: String,
    /// The error message when the expression is false.
    pub message: String,
}

/// A condition that the user must meet to whom the claims were mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UserValidationRule {
    /// CEL over `user`.
    pub expression: String,
    /// The error message when the expression is false.
    pub message: String,
}

/// How claims are mapped to a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimMappings {
    /// The user's name.
    pub username: PrefixedClaimOrExpression,
    /// His groups.
    #[serde(default)]
    pub groups: PrefixedClaimOrExpression,
    /// His id.
    #[serde(default)]
    pub uid: ClaimOrExpression,
    /// His extra keys.
    #[serde(default)]
    pub extra: Vec<ExtraMapping>,
}

/// A claim with a prefix, or CEL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PrefixedClaimOrExpression {
    /// A claim.
    pub claim: String,
    /// Put before its value.
    pub prefix: Option<String>,
    /// CEL over `claims`.
    pub expression: String,
}

/// A claim, or CEL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClaimOrExpression {
    /// A claim.
    pub claim: String,
    /// CEL over `claims`.
    pub expression: String,
}

/// An extra key and its values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ExtraMapping {
    /// Such as `example.org/team`.
    pub key: String,
    /// CEL over `claims`.
    pub value_expression: String,
}

impl AuthenticationConfiguration {
    /// Reads a file as strictly as kube-apiserver does.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > SIZE_LIMIT {
            return Err(format!("may not be more than {SIZE_LIMIT} bytes"));
        }
        if bytes.is_empty() {
            return Err("empty config data".to_owned());
        }
        let file: Self = serde_yaml_ng::from_slice(bytes).map_err(|error| error.to_string())?;
        if file.kind != KIND || !VERSIONS.contains(&file.api_version.as_str()) {
            let versions = VERSIONS.join(" or ");
            return Err(format!(
                "no kind {:?} is registered for version {:?}: expected {KIND} of {versions}",
                file.kind, file.api_version
            ));
        }
        Ok(file)
    }
}

/// Several errors in one text, in the format of kube-apiserver.
pub(crate) fn aggregate(errors: &FieldErrors) -> String {
    match errors.as_slice() {
        [one] => one.to_string(),
        all => format!("[{}]", all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests;
