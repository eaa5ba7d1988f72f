use crate::caller::{Caller, Via};
use crate::error::Error;
use crate::request::query::percent_decode;
use crate::tls::CaBundle;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::collections::BTreeMap;

/// The trusted front proxy: its CA, and the headers in which it names the caller.
#[derive(Debug)]
pub(crate) struct FrontProxy {
    pub(crate) ca: CaBundle,
    /// Common names that its certificate may have; empty for any.
    allowed_names: Vec<String>,
    user_headers: Vec<HeaderName>,
    uid_headers: Vec<HeaderName>,
    group_headers: Vec<HeaderName>,
    /// In lower case, as header names are.
    extra_prefixes: Vec<String>,
}

impl FrontProxy {
    /// A front proxy with the headers that kube-apiserver uses.
    pub(crate) fn with_default_headers(ca: CaBundle, allowed_names: Vec<String>) -> Self {
        Self {
            ca,
            allowed_names,
            user_headers: vec![HeaderName::from_static("x-remote-user")],
            uid_headers: vec![HeaderName::from_static("x-remote-uid")],
            group_headers: vec![HeaderName::from_static("x-remote-group")],
            extra_prefixes: vec!["x-remote-extra-".to_owned()],
        }
    }

    /// A front proxy as the ConfigMap describes it. Each list there is a JSON array.
    pub(crate) fn from_config_map(ca: CaBundle, data: &BTreeMap<String, String>) -> Result<Self, Error> {
        let list = |key: &str| match data.get(key).map(|text| text.trim()) {
            None | Some("") => Ok(Vec::new()),
            Some(text) => {
                serde_json::from_str::<Vec<String>>(text).map_err(|error| Error::credentials(key, error))
            }
        };
        let headers = |key: &str| {
            list(key)?
                .iter()
                .map(|name| {
                    HeaderName::try_from(name.as_str()).map_err(|error| Error::credentials(key, error))
                })
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            ca,
            allowed_names: list("requestheader-allowed-names")?,
            user_headers: headers("requestheader-username-headers")?,
            uid_headers: headers("requestheader-uid-headers")?,
            group_headers: headers("requestheader-group-headers")?,
            extra_prefixes: list("requestheader-extra-headers-prefix")?
                .iter()
                .map(|prefix| prefix.to_ascii_lowercase())
                .filter(|prefix| !prefix.is_empty())
                .collect(),
        })
    }

    pub(crate) fn allows_any_name(&self) -> bool {
        self.allowed_names.is_empty()
    }

    pub(crate) fn allows(&self, common_name: &str) -> bool {
        self.allows_any_name() || self.allowed_names.iter().any(|name| name == common_name)
    }

    /// The caller that the headers name; `None` if they name nobody. The proxy's certificate must have been verified.
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Option<Caller> {
        let name = first(&self.user_headers, headers)?;
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.extra_prefixes {
            for (header, value) in headers {
                if let Some(key) = header.as_str().strip_prefix(prefix.as_str()) {
                    extra.entry(extra_key(key)).or_default().push(text(value));
                }
            }
        }
        Some(Caller {
            name,
            uid: first(&self.uid_headers, headers).unwrap_or_default(),
            groups: self.group_headers.iter().flat_map(|header| headers.get_all(header)).map(text).collect(),
            extra,
            tenant: None,
            via: Via::FrontProxy,
            expires: None,
        })
    }

    /// Removes all identity headers, whoever sent them.
    pub(crate) fn strip(&self, headers: &mut HeaderMap) {
        for name in self.user_headers.iter().chain(&self.uid_headers).chain(&self.group_headers) {
            headers.remove(name);
        }
        let is_extra =
            |name: &HeaderName| self.extra_prefixes.iter().any(|p| name.as_str().starts_with(p.as_str()));
        let extras: Vec<HeaderName> = headers.keys().filter(|name| is_extra(name)).cloned().collect();
        for name in extras {
            headers.remove(name);
        }
    }
}

/// Decodes an extra key from the rest of a header's name. A key with an invalid escape stays as it is.
pub(super) fn extra_key(rest: &str) -> String {
    percent_decode(rest, false).map_or_else(|| rest.to_owned(), |key| key.to_lowercase())
}

fn first(names: &[HeaderName], headers: &HeaderMap) -> Option<String> {
    names.iter().filter_map(|name| headers.get(name)).map(text).find(|value| !value.is_empty())
}

/// Go sends header values as raw UTF-8.
fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy() -> FrontProxy {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem();
        FrontProxy::with_default_headers(
            CaBundle::from_pem("test", pem.as_bytes()).unwrap(),
            vec!["aggregator".to_owned()],
        )
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    #[test]
    fn a_caller_is_read_from_all_headers_and_extra_keys_are_decoded() {
        let mut headers = headers(&[
            ("x-remote-user", "jürgen"),
            ("x-remote-uid", "7"),
            ("x-remote-group", "a"),
            ("x-remote-group", "b"),
            ("x-remote-extra-business.tkestack.io%2ftenantid", "t1"),
            ("x-remote-extra-scopes", "x"),
            ("x-remote-extra-scopes", "y"),
            ("x-remote-extra-bad%zz", "z"),
            ("accept", "application/json"),
        ]);
        let caller = proxy().caller(&headers).unwrap();
        assert_eq!((caller.name.as_str(), caller.uid.as_str(), caller.via), ("jürgen", "7", Via::FrontProxy));
        assert_eq!(caller.groups, ["a", "b"]);
        let extra: Vec<_> =
            caller.extra.iter().map(|(key, values)| (key.as_str(), values.join(","))).collect();
        let want = [("bad%zz", "z"), ("business.tkestack.io/tenantid", "t1"), ("scopes", "x,y")];
        assert_eq!(extra, want.map(|(key, values)| (key, values.to_owned())));
        proxy().strip(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }

    #[test]
    fn headers_without_a_user_name_nobody() {
        assert_eq!(
            proxy().caller(&headers(&[("x-remote-user", ""), ("x-remote-group", "system:masters")])),
            None
        );
        assert!(proxy().allows("aggregator") && !proxy().allows("someone") && !proxy().allows(""));
    }
}
