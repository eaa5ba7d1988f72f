//! Impersonation: the `Impersonate-*` headers of `kubectl --as`, as
//! `k8s.io/apiserver/pkg/endpoints/filters/impersonation` reads them.

use super::proxy::extra_key;
use crate::caller::{Caller, UNAUTHENTICATED, Via};
use crate::request::{ResourceRequest, Verb};
use http::{HeaderMap, HeaderName, HeaderValue};
use meta::name::{dns1123_label, dns1123_subdomain};
use meta::status::Status;

const PREFIX: &str = "impersonate-";
const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA_PREFIX: &str = "impersonate-extra-";

/// The verb of all rights to impersonate.
pub(crate) const VERB: Verb = Verb::Other("impersonate");
/// The group of the resources `userextras` and `uids`; users, groups and service accounts are of the core group.
const AUTHENTICATION: (&str, &str) = ("authentication.k8s.io", "v1");
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";
const ANONYMOUS: &str = "system:anonymous";

/// The identity that a request asks to impersonate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Impersonation {
    user: String,
    /// Namespace and name, if the user is a service account.
    account: Option<(String, String)>,
    groups: Vec<String>,
    /// A pair for each value.
    extra: Vec<(String, String)>,
    uid: String,
}

impl Impersonation {
    /// Removes the headers from a request. A header of this family that is not known here is refused: it could restrict
    /// or extend the identity.
    pub(crate) fn take(headers: &mut HeaderMap) -> Result<Option<Self>, Status> {
        let names: Vec<HeaderName> =
            headers.keys().filter(|name| name.as_str().starts_with(PREFIX)).cloned().collect();
        if names.is_empty() {
            return Ok(None);
        }
        let mut wanted = Self::default();
        for name in &names {
            let mut values = headers.get_all(name).iter().map(text);
            match name.as_str() {
                USER => wanted.user = values.next().unwrap_or_default(),
                UID => wanted.uid = values.next().unwrap_or_default(),
                GROUP => wanted.groups.extend(values),
                other => match other.strip_prefix(EXTRA_PREFIX) {
                    Some(key) => wanted.extra.extend(values.map(|value| (extra_key(key), value))),
                    None => {
                        return Err(Status::bad_request(format!("unknown impersonation header {other:?}")));
                    }
                },
            }
        }
        for name in names {
            headers.remove(name);
        }
        wanted.account = service_account(&wanted.user);
        if wanted.user.is_empty() {
            return match wanted.described().as_slice() {
                [] => Ok(None),
                parts => Err(Status::bad_request(format!(
                    "requested [{}] without impersonating a user",
                    parts.join(" ")
                ))),
            };
        }
        Ok(Some(wanted))
    }

    /// The rights that the impersonating caller needs, in the order of a Go API server.
    pub(crate) fn rights(&self) -> Vec<ResourceRequest> {
        let user = match &self.account {
            Some((namespace, name)) => {
                ResourceRequest { namespace: namespace.clone(), ..core("serviceaccounts", name) }
            }
            None => core("users", &self.user),
        };
        let groups = self.groups.iter().map(|group| core("groups", group));
        let extra = self.extra.iter().map(|(key, value)| ResourceRequest {
            subresource: key.clone(),
            ..authentication("userextras", value)
        });
        let uid = (!self.uid.is_empty()).then(|| authentication("uids", &self.uid));
        std::iter::once(user).chain(groups).chain(extra).chain(uid).collect()
    }

    /// The impersonated caller, still without the tenant and the group `system:authenticated`.
    pub(crate) fn into_caller(self) -> Caller {
        let mut groups = self.groups;
        if let (Some((namespace, _)), true) = (&self.account, groups.is_empty()) {
            groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        }
        if self.user == ANONYMOUS && !groups.iter().any(|group| group == UNAUTHENTICATED) {
            groups.push(UNAUTHENTICATED.to_owned());
        }
        let mut caller =
            Caller { name: self.user, uid: self.uid, groups, via: Via::Impersonation, ..Caller::default() };
        for (key, value) in self.extra {
            caller.extra.entry(key).or_default().push(value);
        }
        caller
    }

    /// All attributes but the user, as Go prints its object references.
    fn described(&self) -> Vec<String> {
        let version = format!("{}/{}", AUTHENTICATION.0, AUTHENTICATION.1);
        let groups = self.groups.iter().map(|group| format!("{{Group  {group}    }}"));
        let extra = self.extra.iter().map(|(key, value)| format!("{{UserExtra  {value}  {version}  {key}}}"));
        let uid = (!self.uid.is_empty()).then(|| format!("{{UID  {}  {version}  }}", self.uid));
        groups.chain(extra).chain(uid).collect()
    }
}

fn core(resource: &str, name: &str) -> ResourceRequest {
    ResourceRequest {
        verb: VERB,
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..ResourceRequest::default()
    }
}

fn authentication(resource: &str, name: &str) -> ResourceRequest {
    let (group, version) = AUTHENTICATION;
    ResourceRequest { group: group.to_owned(), version: version.to_owned(), ..core(resource, name) }
}

fn service_account(user: &str) -> Option<(String, String)> {
    let (namespace, name) = user.strip_prefix(ACCOUNT_PREFIX)?.split_once(':')?;
    (dns1123_label(namespace).is_empty() && dns1123_subdomain(name).is_empty())
        .then(|| (namespace.to_owned(), name.to_owned()))
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(pairs: &[(&'static str, &'static str)]) -> Result<Option<Impersonation>, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let wanted = Impersonation::take(&mut headers).map_err(|status| {
            assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"));
            status.message
        })?;
        assert!(headers.keys().all(|name| !name.as_str().starts_with(PREFIX)), "they are taken out");
        Ok(wanted)
    }

    fn rights(wanted: &Impersonation) -> Vec<String> {
        let all = wanted.rights();
        assert!(all.iter().all(|right| right.verb == VERB));
        all.iter()
            .map(|r| {
                [&r.group, &r.version, &r.namespace, &r.resource, &r.subresource, &r.name]
                    .map(String::as_str)
                    .join("|")
            })
            .collect()
    }

    #[test]
    fn each_attribute_is_a_right_of_its_own() {
        let wanted = take(&[
            ("accept", "application/json"),
            ("impersonate-extra-business.tkestack.io%2ftenantid", "acme"),
            ("impersonate-user", "jane"),
            ("impersonate-group", "dev"),
            ("impersonate-group", "ops"),
            ("impersonate-extra-scopes", "a"),
            ("impersonate-extra-scopes", "b"),
            ("impersonate-uid", "42"),
        ]);
        let wanted = wanted.unwrap().unwrap();
        let want = [
            "|||users||jane",
            "|||groups||dev",
            "|||groups||ops",
            "authentication.k8s.io|v1||userextras|business.tkestack.io/tenantid|acme",
            "authentication.k8s.io|v1||userextras|scopes|a",
            "authentication.k8s.io|v1||userextras|scopes|b",
            "authentication.k8s.io|v1||uids||42",
        ];
        let mut found = rights(&wanted);
        found.sort_by_key(|right| want.iter().position(|w| w == right));
        assert_eq!(found, want);
        let caller = wanted.into_caller();
        assert_eq!(
            (caller.name.as_str(), caller.uid.as_str(), caller.via),
            ("jane", "42", Via::Impersonation)
        );
        assert_eq!(caller.groups, ["dev", "ops"]);
        assert_eq!(caller.extra["scopes"], ["a", "b"]);
        assert_eq!(caller.extra["business.tkestack.io/tenantid"], ["acme"]);
    }

    #[test]
    fn a_service_account_has_its_own_right_and_groups() {
        let of = |pairs: &[_]| take(pairs).unwrap().unwrap();
        let account = of(&[("impersonate-user", "system:serviceaccount:box:builder")]);
        assert_eq!(rights(&account), ["||box|serviceaccounts||builder"]);
        assert_eq!(account.into_caller().groups, ["system:serviceaccounts", "system:serviceaccounts:box"]);
        let told =
            of(&[("impersonate-user", "system:serviceaccount:box:builder"), ("impersonate-group", "g")]);
        assert_eq!(told.into_caller().groups, ["g"]);
        for odd in
            ["system:serviceaccount:box", "system:serviceaccount:box:a:b", "system:serviceaccount:Box:a"]
        {
            assert_eq!(rights(&of(&[("impersonate-user", odd)])), [format!("|||users||{odd}")]);
        }
    }

    #[test]
    fn nobody_is_nobodys_group() {
        let of = |pairs: &[_]| take(pairs).unwrap().unwrap().into_caller().groups;
        assert_eq!(of(&[("impersonate-user", "system:anonymous")]), ["system:unauthenticated"]);
        let both =
            [("impersonate-user", "system:anonymous"), ("impersonate-group", "system:unauthenticated")];
        assert_eq!(of(&both), ["system:unauthenticated"]);
    }

    #[test]
    fn attributes_without_a_user_are_refused_in_gos_words() {
        for (pairs, want) in [
            (("impersonate-group", "wheel"), "requested [{Group  wheel    }] without impersonating a user"),
            (
                ("impersonate-uid", "7"),
                "requested [{UID  7  authentication.k8s.io/v1  }] without impersonating a user",
            ),
            (
                ("impersonate-extra-scopes", "a"),
                "requested [{UserExtra  a  authentication.k8s.io/v1  scopes}] without impersonating a user",
            ),
            (("impersonate-shape", "x"), "unknown impersonation header \"impersonate-shape\""),
        ] {
            assert_eq!(take(&[pairs]).unwrap_err(), want);
        }
        assert_eq!(take(&[]), Ok(None));
        assert_eq!(take(&[("impersonate-user", "")]), Ok(None), "as in Go");
    }
}
