//! Selects the proxy for a server, as client-go does: that of the kubeconfig, whatever the environment says; else that
//! of `HTTPS_PROXY`, unless the server is on this machine or `NO_PROXY` matches it.

use http::Uri;
use http::uri::InvalidUri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use kube::config::KubeconfigError;
use std::net::IpAddr;

const HTTPS_PORT: u16 = 443;
/// Matches every name and every address in the matcher.
const ALL_HOSTS: &str = "*,0.0.0.0/0,::/0";

/// The environment variables for proxies.
struct ProxyEnvironment {
    https: String,
    no: String,
}

/// The URL of the proxy for a server. `configured` is the proxy in the kubeconfig.
pub(crate) fn proxy_url(configured: Option<&str>, server: &Uri) -> Result<Option<Uri>, KubeconfigError> {
    ProxyEnvironment::read().proxy_url(configured, server).map_err(KubeconfigError::ParseProxyUrl)
}

/// The proxy for a server by the environment alone.
pub fn environment_proxy(server: &Uri) -> Option<Intercept> {
    ProxyEnvironment::read().proxy(server)
}

/// Whether a host is this machine: then nobody else can read the traffic, and no proxy is used.
pub fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

impl ProxyEnvironment {
    fn read() -> Self {
        let set = |names: [&str; 2]| {
            let mut set = names.into_iter().filter_map(|name| std::env::var(name).ok());
            set.find(|value| !value.is_empty()).unwrap_or_default()
        };
        Self { https: set(["HTTPS_PROXY", "https_proxy"]), no: set(["NO_PROXY", "no_proxy"]) }
    }

    fn proxy_url(&self, configured: Option<&str>, server: &Uri) -> Result<Option<Uri>, InvalidUri> {
        match configured.filter(|url| !url.is_empty()) {
            Some(url) => url_for_kube(url).map(Some),
            None => self.proxy(server).map(|_found| url_for_kube(&self.https)).transpose(),
        }
    }

    fn proxy(&self, server: &Uri) -> Option<Intercept> {
        if is_loopback(server.host()?) {
            return None;
        }
        let no = no_proxy_hosts(&self.no, server.port_u16().unwrap_or(HTTPS_PORT));
        Matcher::builder().https(self.https.as_str()).no(no).build().intercept(server)
    }
}

/// The entries of `NO_PROXY` that apply to a port, in the syntax of the matcher. It supports neither ports nor
/// `*.example.org`, and its `*` does not match addresses.
fn no_proxy_hosts(no_proxy: &str, port: u16) -> String {
    let hosts = no_proxy.split(',').map(str::trim).filter_map(|part| match part.rsplit_once(':') {
        // Any other colon is part of an IPv6 address.
        Some((host, of)) if !host.contains(':') || host.ends_with(']') => {
            (of.parse::<u16>() == Ok(port)).then_some(host)
        }
        _ => Some(part),
    });
    let hosts = hosts.map(|host| match host {
        "*" => ALL_HOSTS,
        host => host.strip_prefix("*.").unwrap_or(host).trim_matches(['[', ']']),
    });
    hosts.collect::<Vec<_>>().join(",")
}

/// A proxy's URL in the form that kube accepts: with the scheme `http` if it has none, and with `socks5` for `socks5h`,
/// which kube treats alike. User and password are kept only for HTTP proxies: kube does not send them to others, and
/// prints the URL of a proxy that it does not support.
fn url_for_kube(url: &str) -> Result<Uri, InvalidUri> {
    let (scheme, address) = url.split_once("://").unwrap_or(("http", url));
    let host = address.rsplit_once('@').map_or(address, |(_, host)| host);
    let url = match scheme.to_ascii_lowercase().as_str() {
        scheme @ ("http" | "https") => format!("{scheme}://{address}"),
        "socks5h" => format!("socks5://{host}"),
        scheme => format!("{scheme}://{host}"),
    };
    url.parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "https://api.corp.example.org:6443";
    const PROXY: &str = "http://proxy:3128";

    fn chosen(https: &str, no: &str, configured: Option<&str>, server: &str) -> Option<String> {
        let environment = ProxyEnvironment { https: https.to_owned(), no: no.to_owned() };
        let chosen = environment.proxy_url(configured, &server.parse().unwrap()).unwrap();
        chosen.map(|url| url.to_string().trim_end_matches('/').to_owned())
    }

    #[test]
    fn the_environment_is_heard_against_the_server() {
        let chosen = |no: &str, server: &str| chosen(PROXY, no, None, server);
        assert_eq!(chosen("", SERVER).as_deref(), Some(PROXY));
        assert_eq!(chosen("proxy", SERVER).as_deref(), Some(PROXY), "nobody asks the proxy for itself");
        for no in [
            ".corp.example.org",
            "*.corp.example.org",
            "example.org",
            "API.corp.example.org:6443",
            "a, api.corp.example.org ,b",
            "*",
        ] {
            assert_eq!(chosen(no, SERVER), None, "{no}");
        }
        for no in [".corp.example.com", "rp.example.org", "api.corp.example.org:443", "10.0.0.0/8"] {
            assert_eq!(chosen(no, SERVER).as_deref(), Some(PROXY), "{no}");
        }
        assert_eq!(chosen("example.org:443", "https://example.org"), None);
        for (no, server) in [
            ("10.0.0.0/8", "https://10.1.2.3:6443"),
            ("10.1.2.3:6443", "https://10.1.2.3:6443"),
            ("fd00::/8", "https://[fd00::1]:6443"),
            ("[fd00::1]:6443", "https://[fd00::1]:6443"),
            ("[fd00::1]", "https://[fd00::1]:6443"),
        ] {
            assert_eq!(chosen("*", server), None, "{server}");
            assert_eq!(chosen(no, server), None, "{no}");
            assert_eq!(chosen(no, "https://11.1.2.3:6443").as_deref(), Some(PROXY), "{no}");
        }
    }

    #[test]
    fn this_machine_is_asked_by_no_proxy() {
        for server in
            ["https://127.0.0.1:6443", "https://127.9.9.9", "https://localhost:6443", "https://[::1]:6443"]
        {
            assert_eq!(chosen(PROXY, "", None, server), None, "{server}");
        }
        assert!(!is_loopback("localhost.example.org") && !is_loopback("10.0.0.1"));
    }

    #[test]
    fn a_kubeconfigs_own_proxy_is_taken_whatever_the_environment_says() {
        let own = "socks5://127.0.0.1:1080";
        for no in ["localhost,127.0.0.1", "*", ".corp.example.org", ","] {
            for server in [SERVER, "https://127.0.0.1:6443"] {
                assert_eq!(chosen(PROXY, no, Some(own), server).as_deref(), Some(own), "{no} {server}");
            }
        }
        assert_eq!(chosen("", "", Some("tunnel://east"), SERVER).as_deref(), Some("tunnel://east"));
        assert_eq!(chosen(PROXY, "", Some(""), SERVER).as_deref(), Some(PROXY), "what is empty names none");
        assert_eq!(chosen("", "", None, SERVER), None);
    }

    #[test]
    fn a_proxy_is_told_as_kube_takes_it() {
        for (given, expected) in [
            ("proxy:3128", "http://proxy:3128"),
            ("user:secret@proxy:3128", "http://user:secret@proxy:3128"),
            ("http://user:secret@proxy:3128", "http://user:secret@proxy:3128"),
            ("https://proxy", "https://proxy"),
            ("socks5://proxy:1080", "socks5://proxy:1080"),
            ("socks5h://user:secret@proxy:1080", "socks5://proxy:1080"),
            ("socks4://user:secret@proxy:1080", "socks4://proxy:1080"),
        ] {
            assert_eq!(chosen(given, "", None, SERVER).as_deref(), Some(expected), "{given}");
            assert_eq!(chosen("", "", Some(given), SERVER).as_deref(), Some(expected), "{given}");
        }
    }

    #[test]
    fn an_empty_part_names_nobody() {
        for no in ["example.com,", ",", " , example.com", ":443"] {
            assert_eq!(chosen(PROXY, no, None, SERVER).as_deref(), Some(PROXY), "{no}");
        }
        assert_eq!(chosen(PROXY, "corp.example.org,", None, SERVER), None);
    }
}
