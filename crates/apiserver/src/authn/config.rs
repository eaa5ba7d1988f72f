//! Kubernetes' AuthenticationConfiguration (apiserver.config.k8s.io): the issuers of tokens, and what their claims mean.

use meta::field::FieldErrors;
use serde::Deserialize;

/// What is wrong with it, in Kubernetes' words.
pub(crate) mod validate;
/// Keeps the names of issuers apart.
pub(crate) mod apart;

/// Bytes of a file.
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
    /// Callers without credentials. If absent, the program's settings count.
    pub anonymous: Option<AnonymousAuth>,
}

/// Callers without credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnonymousAuth {
    /// Whether they are let in.
    pub enabled: bool,
    /// The only paths at which they are let in; all if it is empty.
    #[serde(default)]
    pub conditions: Vec<AnonymousAuthCondition>,
}

/// A path that is open to callers without credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnonymousAuthCondition {
    /// The path, letter by letter.
    pub path: String,
}

impl AnonymousAuth {
    /// Whether a caller without credentials goes on at a path.
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
    /// How the claims of a token become a user.
    pub claim_mappings: ClaimMappings,
    /// Conditions that the user must meet.
    #[serde(default)]
    pub user_validation_rules: Vec<UserValidationRule>,
    /// It comes from the program's settings: its extra keys need no domain.
    #[serde(skip)]
    pub(crate) is_short_form: bool,
}

/// An issuer of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Issuer {
    /// The claim `iss`.
    pub url: String,
    /// Where its discovery document is, if not at the usual place below `url`.
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
    /// A claim that has `required_value`.
    pub claim: String,
    /// See `claim`.
    pub required_value: String,
    /// CEL over `claims`.
    pub expression: String,
    /// What is said when it is false.
    pub message: String,
}

/// A condition that the user made of a token must meet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UserValidationRule {
    /// CEL over `user`.
    pub expression: String,
    /// What is said when it is false.
    pub message: String,
}

/// What claims mean.
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

/// A claim behind a prefix, or CEL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PrefixedClaimOrExpression {
    /// A claim.
    pub claim: String,
    /// Stands before its value.
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

/// Several errors in one text, as kube-apiserver shows them.
pub(crate) fn aggregate(errors: &FieldErrors) -> String {
    match errors.as_slice() {
        [one] => one.to_string(),
        all => format!("[{}]", all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests;
