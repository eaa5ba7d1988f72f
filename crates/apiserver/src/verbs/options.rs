//! The options of each verb, from the query or a delete's body. They are checked as `CreateOptions`, `ListOptions` and
//! so on.

use crate::request::Query;
use http::HeaderMap;
use http::header::USER_AGENT;
use meta::decode::FieldValidation;
use meta::field::{FieldError, FieldErrors, Path};
use meta::gvk::GroupVersionKind;
use meta::selector::{FieldSelector, LabelSelector, SelectorError};
use meta::status::Status;
use meta::validation::{FIELD_MANAGER_BYTES_MAX, field_manager};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

/// Options of create, update and patch.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    /// The field manager: the given one, or the user agent's name.
    pub(crate) manager: String,
    pub(crate) validation: FieldValidation,
    pub(crate) force: bool,
}

/// The kind of write, which decides what options are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteKind {
    Create,
    Update,
    Patch,
    Apply,
}

impl WriteOptions {
    pub(crate) fn parse(query: &Query, headers: &HeaderMap, kind: WriteKind) -> Result<Self, Status> {
        let mut errors = FieldErrors::new();
        let manager = query.text("fieldManager");
        let force = query.flag("force").unwrap_or_default();
        match kind {
            WriteKind::Apply if manager.is_empty() => {
                errors.push(FieldError::required(&Path::new("fieldManager"), "is required for apply patch"));
            }
            WriteKind::Patch if query.get("force").is_some() => {
                errors.push(FieldError::forbidden(
                    &Path::new("force"),
                    "may not be specified for non-apply patch",
                ));
            }
            _ => {}
        }
        errors.extend(field_manager(manager));
        let dry_run = dry_run(query.all("dryRun"), &mut errors);
        let validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let path = Path::new("fieldValidation");
                errors.push(FieldError::not_supported(
                    &path,
                    &Value::from(other),
                    &["", "Ignore", "Strict", "Warn"],
                ));
                FieldValidation::Ignore
            }
        };
        let options = match kind {
            WriteKind::Create => "CreateOptions",
            WriteKind::Update => "UpdateOptions",
            WriteKind::Patch | WriteKind::Apply => "PatchOptions",
        };
        invalid_unless_empty(options, &errors)?;
        let manager = if manager.is_empty() { manager_from_agent(headers) } else { manager.to_owned() };
        Ok(Self { dry_run, manager, validation, force })
    }
}

fn dry_run<'a>(values: impl Iterator<Item = &'a str>, errors: &mut FieldErrors) -> bool {
    let values: Vec<&str> = values.collect();
    let wrong = values.iter().any(|value| *value != "All");
    if wrong {
        errors.push(FieldError::not_supported(&Path::new("dryRun"), &Value::from(values.clone()), &["All"]));
    }
    !values.is_empty()
}

/// The user agent up to its first `/`, without characters that do not print.
fn manager_from_agent(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let name = agent.split('/').next().unwrap_or_default();
    name.chars().filter(|c| !c.is_control()).take(FIELD_MANAGER_BYTES_MAX).collect()
}

fn invalid_unless_empty(kind: &str, errors: &FieldErrors) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupVersionKind::new("meta.k8s.io", "v1", kind), "", errors))
}

/// `propagationPolicy`: what happens to an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Orphan,
    Background,
    Foreground,
}

/// Options of delete and deletecollection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    pub(crate) dry_run: bool,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) propagation: Option<Propagation>,
    /// The uid that a list has shown. A newer object with the same name is not deleted.
    pub(crate) listed: Option<Uuid>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawDeleteOptions {
    grace_period_seconds: Option<i64>,
    preconditions: Option<RawPreconditions>,
    orphan_dependents: Option<bool>,
    propagation_policy: Option<String>,
    dry_run: Option<Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawPreconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl DeleteOptions {
    /// From a body that was read as JSON or YAML.
    pub(crate) fn from_body(body: Value, own_api_version: &str) -> Result<Self, Status> {
        let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
        let kind_fits = matches!(text("kind"), "" | "DeleteOptions");
        let version = text("apiVersion");
        let version_fits = matches!(version, "" | "v1" | "meta.k8s.io/v1") || version == own_api_version;
        if !body.is_object() || !kind_fits || !version_fits {
            return Err(Status::bad_request("decoded object cannot be converted to DeleteOptions"));
        }
        let raw = RawDeleteOptions::deserialize(body).map_err(|e| {
            Status::bad_request(format!("DeleteOptions in version \"v1\" cannot be handled: {e}"))
        })?;
        Self::check(raw)
    }

    /// From the query, where there is no body.
    pub(crate) fn from_query(query: &Query) -> Result<Self, Status> {
        let given = |name| query.get(name).filter(|text| !text.is_empty()).map(str::to_owned);
        let preconditions =
            RawPreconditions { uid: given("uid"), resource_version: given("resourceVersion") };
        let raw = RawDeleteOptions {
            grace_period_seconds: query.integer("gracePeriodSeconds")?,
            preconditions: Some(preconditions),
            orphan_dependents: query.flag("orphanDependents"),
            propagation_policy: query.get("propagationPolicy").map(str::to_owned),
            dry_run: Some(query.all("dryRun").map(str::to_owned).collect()),
        };
        Self::check(raw)
    }

    fn check(raw: RawDeleteOptions) -> Result<Self, Status> {
        let mut errors = FieldErrors::new();
        let path = Path::new("propagationPolicy");
        let policy = raw.propagation_policy.as_deref();
        let propagation = match policy {
            None => None,
            Some("Orphan") => Some(Propagation::Orphan),
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some(other) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                errors.push(FieldError::not_supported(&path, &Value::from(other), &supported));
                None
            }
        };
        if let (Some(policy), true) = (policy, raw.orphan_dependents.is_some()) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid(&path, &Value::from(policy), detail));
        }
        let values = raw.dry_run.unwrap_or_default();
        let dry_run = dry_run(values.iter().map(String::as_str), &mut errors);
        invalid_unless_empty("DeleteOptions", &errors)?;
        let preconditions = raw.preconditions.unwrap_or_default();
        Ok(Self {
            dry_run,
            uid: preconditions.uid,
            resource_version: preconditions.resource_version,
            orphan_dependents: raw.orphan_dependents,
            propagation,
            listed: None,
        })
    }
}

/// `resourceVersionMatch`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// Options of list, watch and deletecollection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListOptions {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) resource_version: String,
    pub(crate) version_match: Option<VersionMatch>,
    pub(crate) limit: Option<usize>,
    pub(crate) continue_token: Option<String>,
    pub(crate) timeout_seconds: Option<i64>,
    pub(crate) bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
}

impl ListOptions {
    pub(crate) fn parse(query: &Query, watch: bool) -> Result<Self, Status> {
        let timeout_seconds = query.integer("timeoutSeconds")?;
        let limit = query.integer("limit")?;
        let unreadable = |error: SelectorError| Status::bad_request(error.to_string());
        let labels = query.text("labelSelector").parse().map_err(unreadable)?;
        let fields = query.text("fieldSelector").parse().map_err(unreadable)?;
        let continue_token = query.text("continue");
        let raw_match = query.text("resourceVersionMatch");
        let options = Self {
            labels,
            fields,
            resource_version: query.text("resourceVersion").to_owned(),
            version_match: match raw_match {
                "Exact" => Some(VersionMatch::Exact),
                "NotOlderThan" => Some(VersionMatch::NotOlderThan),
                _ => None,
            },
            limit: limit.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0),
            continue_token: (!continue_token.is_empty()).then(|| continue_token.to_owned()),
            timeout_seconds,
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or_default(),
            send_initial_events: query.flag("sendInitialEvents"),
        };
        let errors = if watch { options.watch_errors(raw_match) } else { options.list_errors(raw_match) };
        invalid_unless_empty("ListOptions", &errors)?;
        Ok(options)
    }

    fn list_errors(&self, raw_match: &str) -> FieldErrors {
        let path = Path::new("resourceVersionMatch");
        let mut errors = FieldErrors::new();
        let mut forbid = |detail| errors.push(FieldError::forbidden(&path, detail));
        if !raw_match.is_empty() {
            if self.resource_version.is_empty() {
                forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if self.continue_token.is_some() {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            if self.version_match == Some(VersionMatch::Exact) && self.resource_version == "0" {
                forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
            unsupported_match(raw_match, self.version_match, &mut errors);
        }
        if self.send_initial_events.is_some() {
            let path = Path::new("sendInitialEvents");
            errors.push(FieldError::forbidden(&path, "sendInitialEvents is forbidden for list"));
        }
        errors
    }

    fn watch_errors(&self, raw_match: &str) -> FieldErrors {
        let path = Path::new("resourceVersionMatch");
        let mut errors = FieldErrors::new();
        if self.send_initial_events.is_some() && self.version_match != Some(VersionMatch::NotOlderThan) {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(&path, detail));
        }
        if !raw_match.is_empty() {
            if self.send_initial_events.is_none() {
                let detail =
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(&path, detail));
            }
            unsupported_match(raw_match, self.version_match, &mut errors);
        }
        errors
    }
}

fn unsupported_match(raw: &str, known: Option<VersionMatch>, errors: &mut FieldErrors) {
    if known.is_none() {
        let path = Path::new("resourceVersionMatch");
        errors.push(FieldError::not_supported(&path, &Value::from(raw), &["Exact", "NotOlderThan", ""]));
    }
}

/// Whether the `resourceVersion` of a written object names no revision.
pub(crate) fn has_no_revision(text: &str) -> bool {
    matches!(text, "" | "0")
}

/// Parses the `resourceVersion` of a query or an object: `None` if it is empty.
pub(crate) fn resource_version(text: &str) -> Result<Option<u64>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse::<u64>() {
        Ok(value) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Some(value)),
        Ok(_) => Err(invalid_revision(text, "invalid syntax")),
        Err(error) => Err(match error.kind() {
            std::num::IntErrorKind::PosOverflow => invalid_revision(text, "value out of range"),
            _ => invalid_revision(text, "invalid syntax"),
        }),
    }
}

fn invalid_revision(text: &str, why: &str) -> Status {
    Status::bad_request(format!(
        "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: {why}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use serde_json::json;

    fn query(text: &str) -> Query {
        Query::parse(Some(text))
    }

    fn message<T: std::fmt::Debug>(result: Result<T, Status>) -> String {
        result.unwrap_err().message
    }

    #[test]
    fn write_options_are_checked_in_gos_words() {
        let parse = |text, kind| WriteOptions::parse(&query(text), &HeaderMap::new(), kind);
        assert_eq!(
            message(parse("dryRun=x", WriteKind::Create)),
            "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"x\"]: supported values: \"All\""
        );
        assert_eq!(
            message(parse("force=true", WriteKind::Patch)),
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch"
        );
        assert_eq!(
            message(parse("", WriteKind::Apply)),
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
        );
        assert!(
            message(parse("fieldValidation=Loud", WriteKind::Update)).contains("Unsupported value: \"Loud\"")
        );
        assert!(parse("dryRun=All&dryRun=All", WriteKind::Create).unwrap().dry_run);
    }

    #[test]
    fn the_field_manager_comes_from_the_user_agent() {
        let headers =
            HeaderMap::from_iter([(USER_AGENT, HeaderValue::from_static("kubectl/v1.36.1 (linux)"))]);
        let manager = |text| WriteOptions::parse(&query(text), &headers, WriteKind::Create).unwrap().manager;
        assert_eq!(manager(""), "kubectl");
        assert_eq!(manager("fieldManager=me"), "me");
    }

    #[test]
    fn delete_options_come_from_the_body_or_the_query() {
        let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground",
            "preconditions": {"uid": "u"}, "gracePeriodSeconds": 0, "unknown": 1});
        let options = DeleteOptions::from_body(body, "g/v1").unwrap();
        assert_eq!((options.propagation, options.uid.as_deref()), (Some(Propagation::Foreground), Some("u")));
        let options = DeleteOptions::from_query(&query("uid=u&resourceVersion=7")).unwrap();
        assert_eq!((options.uid.as_deref(), options.resource_version.as_deref()), (Some("u"), Some("7")));
        let options = DeleteOptions::from_query(&query("uid=&resourceVersion=")).unwrap();
        assert_eq!(options, DeleteOptions::default());
        assert_eq!(
            message(DeleteOptions::from_body(json!({"kind": "Pod"}), "g/v1")),
            "decoded object cannot be converted to DeleteOptions"
        );
        assert_eq!(
            message(DeleteOptions::from_query(&query("orphanDependents=true&propagationPolicy=Orphan"))),
            "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: \"Orphan\": orphanDependents \
             and deletionPropagation cannot be both set"
        );
        assert!(
            message(DeleteOptions::from_query(&query("propagationPolicy=X")))
                .contains("Unsupported value: \"X\"")
        );
        assert!(
            message(DeleteOptions::from_query(&query("gracePeriodSeconds=x")))
                .starts_with("strconv.ParseInt")
        );
    }

    #[test]
    fn list_options_that_contradict_each_other_are_refused() {
        let of = |text, watch| ListOptions::parse(&query(text), watch);
        for (text, watch, want) in [
            ("resourceVersionMatch=Exact", false, "is forbidden unless resourceVersion is provided"),
            (
                "resourceVersionMatch=Exact&resourceVersion=0",
                false,
                "\"exact\" is forbidden for resourceVersion \"0\"",
            ),
            (
                "resourceVersionMatch=X&resourceVersion=1",
                false,
                "supported values: \"Exact\", \"NotOlderThan\", \"\"",
            ),
            ("sendInitialEvents=true", false, "sendInitialEvents is forbidden for list"),
            ("sendInitialEvents=true", true, "requires setting resourceVersionMatch to NotOlderThan"),
            (
                "resourceVersionMatch=NotOlderThan",
                true,
                "forbidden for watch unless sendInitialEvents is provided",
            ),
        ] {
            assert!(message(of(text, watch)).contains(want), "{text}");
        }
        let watch_list =
            of("sendInitialEvents=1&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", true);
        assert!(watch_list.unwrap().bookmarks);
        assert_eq!(of("limit=-1", false).unwrap().limit, None);
    }

    #[test]
    fn revisions_are_plain_decimal_numbers() {
        assert_eq!(resource_version("").unwrap(), None);
        assert_eq!(resource_version("7").unwrap(), Some(7));
        assert_eq!(
            message(resource_version("+7")),
            "invalid resource version: resourceVersion: Invalid value: \"+7\": strconv.ParseUint: parsing \"+7\": invalid \
             syntax"
        );
        assert!(message(resource_version("99999999999999999999")).ends_with("value out of range"));
    }
}
