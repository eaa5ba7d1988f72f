//! The settings of the console: the origins that it is served at, and the issuers that log people in.

use anyhow::{Context, Result, ensure};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Uri, header};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The file of `--console-issuers`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct IssuersFile {
    issuers: Vec<ConsoleIssuer>,
}

/// An identity provider at which people can log in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConsoleIssuer {
    /// Its name in URLs.
    pub name: String,
    /// Its name for people; by default `name`.
    #[serde(default)]
    pub display_name: String,
    /// Its URL, as the authentication configuration has it.
    pub issuer: String,
    /// The client ID of the console at the provider: one of the audiences in the authentication configuration.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// The file with the client's secret, if it has one. It is read at each use.
    #[serde(default)]
    pub client_secret_file: Option<PathBuf>,
    /// The requested scopes, beside `openid`.
    #[serde(default = "default_scopes")]
    pub scopes: Vec<String>,
}

fn default_scopes() -> Vec<String> {
    ["profile", "email", "offline_access"].map(str::to_owned).to_vec()
}

/// Reads the file, YAML or JSON.
pub fn issuers(file: &Path) -> Result<Vec<ConsoleIssuer>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    parse_issuers(&text).with_context(|| file.display().to_string())
}

fn parse_issuers(text: &str) -> Result<Vec<ConsoleIssuer>> {
    let IssuersFile { mut issuers } = serde_yaml_ng::from_str(text)?;
    ensure!(!issuers.is_empty(), "issuers: Required value: nobody could log in");
    let mut names = Vec::new();
    for (at, issuer) in issuers.iter_mut().enumerate() {
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        ensure!(
            !issuer.name.is_empty() && issuer.name.chars().all(good),
            "issuers[{at}].name: Invalid value: {:?}: lower-case letters, digits and '-'",
            issuer.name
        );
        ensure!(!names.contains(&issuer.name), "issuers[{at}].name: Duplicate value: {:?}", issuer.name);
        ensure!(!issuer.client_id.is_empty(), "issuers[{at}].clientID: Required value");
        ensure!(!issuer.issuer.is_empty(), "issuers[{at}].issuer: Required value");
        if issuer.display_name.is_empty() {
            issuer.display_name.clone_from(&issuer.name);
        }
        names.push(issuer.name.clone());
    }
    Ok(issuers)
}

/// An origin at which browsers reach the console, such as `https://console.example.org`. It may have several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    authority: Authority,
}

impl Origin {
    /// Parses an origin. The default port is dropped, as browsers do.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no origin such as https://console.example.org");
        let uri: Uri = text.to_ascii_lowercase().parse().map_err(|_not_a_uri| wrong())?;
        if uri.scheme_str() != Some("https") || uri.path() != "/" || uri.query().is_some() {
            return Err(wrong());
        }
        let authority = uri.authority().ok_or_else(wrong)?.as_str();
        if authority.contains('@') {
            return Err(wrong());
        }
        let authority = authority.strip_suffix(":443").unwrap_or(authority);
        Ok(Self { authority: authority.parse().map_err(|_no_authority| wrong())? })
    }

    /// The URL of a path there.
    pub(super) fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.authority)
    }

    /// The URL of `WebSockets` there.
    pub(super) fn socket(&self) -> String {
        format!("wss://{}", self.authority)
    }

    /// Whether a header `Origin` names this origin.
    pub(super) fn is(&self, header: &HeaderValue) -> bool {
        header.as_bytes() == self.url("").as_bytes()
    }
}

/// The origin to which a request was sent; the first one if its host is none of them.
pub(super) fn request_origin<'a>(
    origins: &'a [Origin],
    headers: &HeaderMap,
    uri: &Uri,
) -> Option<&'a Origin> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.or_else(|| uri.authority().map(Authority::as_str)).unwrap_or_default();
    let asked = Origin::parse(&format!("https://{host}")).ok();
    origins.iter().find(|origin| Some(*origin) == asked.as_ref()).or(origins.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_what_a_browser_sends() {
        let origin = Origin::parse("https://Console.example.org:443").unwrap();
        assert_eq!(origin.url("/console/"), "https://console.example.org/console/");
        assert!(origin.is(&HeaderValue::from_static("https://console.example.org")));
        for other in ["null", "http://console.example.org", "https://console.example.org:8443", ""] {
            assert!(!origin.is(&HeaderValue::from_static(other)), "{other}");
        }
        assert_eq!(Origin::parse("https://localhost:8443/").unwrap().socket(), "wss://localhost:8443");
        for bad in ["", "console", "http://a", "https://a/b", "https://a?b", "https://u@a", "https://"] {
            assert!(Origin::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_request_is_at_the_origin_of_its_host_or_the_first_one() {
        let origins = ["https://a.test", "https://b.test:8443"].map(|text| Origin::parse(text).unwrap());
        let at = |host: &'static str| {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
            request_origin(&origins, &headers, &Uri::from_static("/")).unwrap().url("")
        };
        assert_eq!(at("b.test:8443"), "https://b.test:8443");
        assert_eq!(at("A.test"), "https://a.test");
        assert_eq!(at("10.0.0.1"), "https://a.test");
        let http2 = Uri::from_static("https://b.test:8443/console/");
        assert_eq!(request_origin(&origins, &HeaderMap::new(), &http2), origins.get(1));
    }

    #[test]
    fn issuers_have_names_of_their_own() {
        let good = "issuers: [{name: corp, issuer: 'https://sso', clientID: c, clientSecretFile: /s, scopes: [groups]}]";
        let issuers = parse_issuers(good).unwrap();
        assert_eq!(
            (issuers[0].display_name.as_str(), issuers[0].scopes.as_slice()),
            ("corp", &["groups".to_owned()][..])
        );
        for (bad, why) in [
            ("issuers: []", "nobody could log in"),
            ("issuers: [{name: A, issuer: x, clientID: c}]", "issuers[0].name"),
            ("issuers: [{name: a, issuer: x, clientID: ''}]", "issuers[0].clientID"),
            ("issuers: [{name: a, issuer: x, clientID: c}, {name: a, issuer: y, clientID: c}]", "Duplicate"),
            ("issuers: [{name: a, issuer: x, clientID: c, secret: s}]", "unknown field"),
        ] {
            let error = parse_issuers(bad).unwrap_err();
            assert!(format!("{error:#}").contains(why), "{error:#}");
        }
    }
}
