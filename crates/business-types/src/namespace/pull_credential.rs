use crate::names::{GROUP, NAMESPACES, PULL_CREDENTIAL_REQUEST_KIND, VERSION};
use crate::validation;
use meta::field::{FieldErrors, Path};
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::schema::{ListType, Schema};
use meta::time::{self, DAY_SECONDS};
use serde::{Deserialize, Serialize};

/// Days that a password is good for where nothing is said.
pub const VALID_DAYS_DEFAULT: i64 = 30;
/// Days that a password is good for at the most.
pub const VALID_DAYS_MAX: i64 = 365;

/// The credential with which the pods of a namespace pull from the registry, and do nothing else there. Each namespace has
/// one of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PullCredential {
    /// The name that goes with the passwords.
    pub username: String,
    /// The project's uid when it was issued: of another project it opens nothing.
    #[serde(rename = "projectUID")]
    pub project_uid: String,
    /// The image namespaces and chart groups that it opens; empty for all of the project and of those below it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The newest first, and the one before it as long as it is in use or good.
    pub passwords: Vec<PullPassword>,
}

/// What is known of a password.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PullPassword {
    /// Its SHA-256, in hexadecimal digits.
    pub hash: String,
    /// When it was issued, RFC 3339.
    pub issued_at: String,
    /// When it ends, RFC 3339.
    pub expires_at: String,
}

/// Asks for a new password. What the request says holds for the password that is kept, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PullCredentialRequest {
    /// The image namespaces and chart groups that it opens; empty for all of the project and of those below it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// How long the password is good for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_days: Option<i64>,
    /// The hash of the password that is in use, which stays good until it ends. All others end at once.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub keep: String,
    /// `metadata.uid` of the namespace that is meant; empty for whichever has the name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl PullPassword {
    /// When it was issued and when it ends, in seconds since 1970; `None` for one that does not say it.
    fn life(&self) -> Option<std::ops::Range<i64>> {
        Some(time::parse(&self.issued_at).ok()?..time::parse(&self.expires_at).ok()?)
    }

    /// When it ends, in seconds since 1970; nothing for one that does not say it.
    pub fn ends(&self) -> Option<i64> {
        self.life().map(|life| life.end)
    }

    /// Whether it was issued less than this before `now`, all in seconds.
    pub fn is_younger_than(&self, seconds: i64, now: i64) -> bool {
        self.life().is_some_and(|life| now.saturating_sub(life.start) < seconds)
    }

    /// How many whole days it was good for when it was issued, at least one.
    pub fn valid_days(&self) -> Option<i64> {
        let life = self.life()?;
        Some(life.end.saturating_sub(life.start).checked_div(DAY_SECONDS)?.max(1))
    }

    /// When the next one is to be issued, in seconds since 1970: from half of its life on, and before two thirds of it.
    /// `spread` picks the moment between these; it differs by namespace, so that not all come at once.
    pub fn is_due_at(&self, spread: u64) -> i64 {
        let Some(life) = self.life() else { return 0 };
        let seconds = life.end.saturating_sub(life.start).max(0);
        let window = u64::try_from(seconds / 6).unwrap_or_default().max(1);
        let within = i64::try_from(spread % window).unwrap_or_default();
        life.start.saturating_add(seconds / 2).saturating_add(within)
    }
}

/// The name that goes with the passwords of a namespace. No name of a registry credential has a slash.
pub fn username(project: &str, name: &str) -> String {
    format!("{project}/{NAMESPACES}/{name}")
}

/// The namespace that a login name belongs to, if it belongs to one.
pub fn namespace_of(username: &str) -> Option<NamespaceLogin<'_>> {
    let mut parts = username.splitn(3, '/');
    let (project, plural, name) = (parts.next()?, parts.next()?, parts.next()?);
    (plural == NAMESPACES).then_some(NamespaceLogin { project, name })
}

/// Which namespace logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceLogin<'a> {
    /// Its project.
    pub project: &'a str,
    /// Its name there.
    pub name: &'a str,
}

/// The full name of the request.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(GROUP, VERSION, PULL_CREDENTIAL_REQUEST_KIND)
}

/// The shape of the request.
pub fn schema() -> Schema {
    Schema::kind(
        "io.tkestack.business.v1.PullCredentialRequest",
        "Has a new password issued by which the pods of the namespace pull from the registry.",
        [
            (
                "names",
                Schema::strings(
                    "Names of the image namespaces and chart groups that the credential opens, of the project and of those \
                     below it; none for all of these. At most 100.",
                    ListType::Set,
                )
                .optional(),
            ),
            (
                "validDays",
                Schema::integer("How long the password is good for, in days. By default 30; at most 365.").optional(),
            ),
            (
                "keep",
                Schema::string("Hash of the password that is in use, which stays good until it ends. All others end at once.")
                    .optional(),
            ),
            (
                "uid",
                Schema::string("metadata.uid of the namespace that is meant; another one of its name has nothing issued.")
                    .optional(),
            ),
        ],
    )
}

pub(super) fn status_schema() -> Schema {
    let password = Schema::object(
        "What is known of a password.",
        Some("io.tkestack.business.v1.PullPassword"),
        [
            ("hash", Schema::string("Its SHA-256 in hexadecimal digits.").required()),
            ("issuedAt", Schema::time("When it was issued, in UTC, whole seconds.").required()),
            ("expiresAt", Schema::time("When it ends, in UTC, whole seconds.").required()),
        ],
    );
    Schema::object(
        "By which the namespace's pods pull from the registry; they have it in a Secret of the member cluster. Issued by the \
         subresource pullcredential; a write to the subresource status can only take it away.",
        Some("io.tkestack.business.v1.PullCredential"),
        [
            ("username", Schema::string("The name that goes with the passwords.").required()),
            (
                "projectUID",
                Schema::string("The project's uid when it was issued: of another project it opens nothing.").required(),
            ),
            (
                "names",
                Schema::strings(
                    "The image namespaces and chart groups that it opens; none for all of the project and of those below it.",
                    ListType::Set,
                )
                .optional(),
            ),
            (
                "passwords",
                Schema::list(
                    "The newest first, and the one before it as long as that is good.",
                    ListType::Atomic,
                    password,
                )
                .required(),
            ),
        ],
    )
}

impl PullCredentialRequest {
    /// Reads a body.
    pub fn of(body: &Object) -> Result<Self, serde_json::Error> {
        Self::deserialize(body.as_map())
    }

    /// What is wrong with it.
    pub fn validate(&self) -> FieldErrors {
        let mut errors = validation::registry_names(&self.names, &Path::new("names"));
        errors.extend(validation::valid_days(self.valid_days, VALID_DAYS_MAX, &Path::new("validDays")));
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn password(days: i64) -> PullPassword {
        PullPassword {
            hash: String::new(),
            issued_at: time::rfc3339(1_000_000),
            expires_at: time::rfc3339(1_000_000 + days * DAY_SECONDS),
        }
    }

    #[test]
    fn a_login_says_whose_it_is() {
        assert_eq!(username("shop", "web"), "shop/namespaces/web");
        let login = namespace_of("shop/namespaces/web").unwrap();
        assert_eq!((login.project, login.name), ("shop", "web"));
        for other in ["shop/ci", "shop", "shop/namespaces", "shop/other/web", ""] {
            assert_eq!(namespace_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_request_says_what_is_wrong_with_it() {
        let fields = |body| -> Vec<String> {
            let request = PullCredentialRequest::of(&Object::new(body).unwrap()).unwrap();
            request.validate().into_iter().map(|error| error.field).collect()
        };
        assert_eq!(fields(json!({"kind": "PullCredentialRequest", "names": ["a"], "validDays": 1})), [""; 0]);
        assert_eq!(fields(json!({"names": ["a/b"], "validDays": 0})), ["names[0]", "validDays"]);
        let many: Vec<String> =
            (0..=validation::REGISTRY_NAMES_MAX).map(|number| format!("a{number}")).collect();
        assert_eq!(fields(json!({ "names": many })), ["names"]);
    }

    #[test]
    fn what_says_no_time_is_due_and_over() {
        let none = PullPassword::default();
        assert_eq!((none.is_due_at(7), none.ends(), none.valid_days()), (0, None, None));
        assert_eq!(password(30).valid_days(), Some(30));
    }

    proptest! {
        #[test]
        fn the_next_comes_between_half_and_two_thirds_of_a_life(days in 1_i64..=365, spread: u64) {
            let (password, life) = (password(days), days * DAY_SECONDS);
            let due = password.is_due_at(spread) - 1_000_000;
            prop_assert!((life / 2..=life * 2 / 3).contains(&due), "{due} of {life}");
        }
    }
}
