use crate::names::{GROUP, NAMESPACES, PULL_CREDENTIAL_REQUEST_KIND, VERSION};
use crate::validation;
use meta::field::{FieldErrors, Path};
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::schema::{ListType, Schema};
use meta::time::{self, DAY_SECONDS};
use serde::{Deserialize, Serialize};

/// The default validity of a password in days.
pub const VALID_DAYS_DEFAULT: i64 = 30;
/// The maximum validity of a password in days.
pub const VALID_DAYS_MAX: i64 = 365;

/// The credential with which the pods of a namespace pull from the registry. It allows nothing else. Each namespace has
/// its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PullCredential {
    /// The username.
    pub username: String,
    /// The project's uid when it was issued. It gives no access to another project of the same name.
    #[serde(rename = "projectUID")]
    pub project_uid: String,
    /// The image namespaces and chart groups that it may read; empty for all of the project and its descendants.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The passwords: the newest first, then the previous one as long as it is in use or valid.
    pub passwords: Vec<PullPassword>,
}

/// A password: its hash and validity.
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

/// A request for a new password. `names` also applies to the password that is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PullCredentialRequest {
    /// The image namespaces and chart groups that it may read; empty for all of the project and its descendants.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The validity of the password in days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub valid_days: Option<i64>,
    /// The hash of the password in use, which stays valid until it expires. All other passwords become invalid at once.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub keep: String,
    /// `metadata.uid` of the namespace, as a precondition; empty for any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl PullPassword {
    /// From its issue to its expiry, in Unix seconds; `None` if they are not valid times.
    fn validity(&self) -> Option<std::ops::Range<i64>> {
        Some(time::parse(&self.issued_at).ok()?..time::parse(&self.expires_at).ok()?)
    }

    /// When it expires, in Unix seconds; `None` if that is not a valid time.
    pub fn ends(&self) -> Option<i64> {
        self.validity().map(|validity| validity.end)
    }

    /// Whether it was issued less than `seconds` before `now`, which is in Unix seconds. Clocks differ: it may also have
    /// been issued that much after `now`. One from further ahead was issued when a clock was wrong, and is not young
    /// until that time has come.
    pub fn is_younger_than(&self, seconds: u64, now: i64) -> bool {
        self.validity().is_some_and(|validity| now.abs_diff(validity.start) < seconds)
    }

    /// Its validity in whole days, at least 1.
    pub fn valid_days(&self) -> Option<i64> {
        let validity = self.validity()?;
        Some(validity.end.saturating_sub(validity.start).checked_div(DAY_SECONDS)?.max(1))
    }

    /// When the next password is to be issued, in Unix seconds: after a half and before two thirds of the validity.
    /// `spread` selects the time in between. It differs by namespace, so that not all passwords are issued at the same
    /// time.
    pub fn is_due_at(&self, spread: u64) -> i64 {
        let Some(validity) = self.validity() else { return 0 };
        let seconds = validity.end.saturating_sub(validity.start).max(0);
        let window = u64::try_from(seconds / 6).unwrap_or_default().max(1);
        let offset = i64::try_from(spread % window).unwrap_or_default();
        validity.start.saturating_add(seconds / 2).saturating_add(offset)
    }
}

/// The username of a namespace's pull credential. It cannot be that of a registry credential, whose name has no slash.
pub fn username(project: &str, name: &str) -> String {
    format!("{project}/{NAMESPACES}/{name}")
}

/// The namespace to which the username of a pull credential belongs; `None` for other usernames.
pub fn namespace_of(username: &str) -> Option<NamespaceLogin<'_>> {
    let mut parts = username.splitn(3, '/');
    let (project, plural, name) = (parts.next()?, parts.next()?, parts.next()?);
    (plural == NAMESPACES).then_some(NamespaceLogin { project, name })
}

/// The namespace to which a username belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceLogin<'a> {
    /// Its project.
    pub project: &'a str,
    /// Its name there.
    pub name: &'a str,
}

/// The group, version and kind of the request.
pub fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(GROUP, VERSION, PULL_CREDENTIAL_REQUEST_KIND)
}

/// The schema of the request.
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
    /// Decodes a body.
    pub fn of(body: &Object) -> Result<Self, serde_json::Error> {
        Self::deserialize(body.as_map())
    }

    /// Validates the request.
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

    #[test]
    fn what_was_issued_by_a_clock_that_was_ahead_is_not_young_for_as_long() {
        let is_young = |now: i64| password(30).is_younger_than(60, 1_000_000 + now);
        assert!([0, 1, 59, -1, -59].into_iter().all(is_young));
        for now in [60, 3600, -60, -8 * 3600, -365 * DAY_SECONDS] {
            assert!(!is_young(now), "{now}");
        }
        assert!(!PullPassword::default().is_younger_than(60, 0));
    }

    proptest! {
        #[test]
        fn the_next_comes_between_half_and_two_thirds_of_a_life(days in 1_i64..=365, spread: u64) {
            let (password, validity) = (password(days), days * DAY_SECONDS);
            let due = password.is_due_at(spread) - 1_000_000;
            prop_assert!((validity / 2..=validity * 2 / 3).contains(&due), "{due} of {validity}");
        }
    }
}
