//! Which proxy it is, as client-go finds it: the one that the kubeconfig names, whatever the environment says; else that of
//! `HTTPS_PROXY`, unless the server is on this machine or `NO_PROXY` names it.

use http::Uri;
use http::uri::InvalidUri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use kube::config::KubeconfigError;
use std::net::IpAddr;

const HTTPS_PORT: u16 = 443;
/// Every name and every address, for the matcher.
const EVERYWHERE: &str = "*,0.0.0.0/0,::/0";

/// What the environment says of proxies.
struct Environment {
    https: String,
    no: String,
}

/// The proxy for a server, where its kubeconfig names this one.
pub(crate) fn of(named: Option<&str>, server: &Uri) -> Result<Option<Uri>, KubeconfigError> {
    Environment::read().choice(named, server).map_err(KubeconfigError::ParseProxyUrl)
}

/// The proxy that the environment names for a server.
pub fn environment_proxy(server: &Uri) -> Option<Intercept> {
    Environment::read().proxy(server)
}

/// Where nobody reads what is sent, and no proxy is asked.
pub fn is_own_machine(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

impl Environment {
    fn read() -> Self {
        let set = |names: [&str; 2]| {
            let mut set = names.into_iter().filter_map(|name| std::env::var(name).ok());
            set.find(|value| !value.is_empty()).unwrap_or_default()
        };
        Self { https: set(["HTTPS_PROXY", "https_proxy"]), no: set(["NO_PROXY", "no_proxy"]) }
    }

    fn choice(&self, named: Option<&str>, server: &Uri) -> Result<Option<Uri>, InvalidUri> {
        match named.filter(|url| !url.is_empty()) {
            Some(url) => url_for_kube(url).map(Some),
            None => self.proxy(server).map(|_found| url_for_kube(&self.https)).transpose(),
        }
    }

    fn proxy(&self, server: &Uri) -> Option<Intercept> {
        if is_own_machine(server.host()?) {
            return None;
        }
        let no = hosts_without_proxy(&self.no, server.port_u16().unwrap_or(HTTPS_PORT));
        Matcher::builder().https(self.https.as_str()).no(no).build().intercept(server)
    }
}

/// What `NO_PROXY` says of servers at this port, for the matcher, which knows neither ports nor `*.example.org`, and takes
/// `*` for names alone.
fn hosts_without_proxy(no_proxy: &str, port: u16) -> String {
    let hosts = no_proxy.split(',').map(str::trim).filter_map(|part| match part.rsplit_once(':') {
        // Other colons are those of an IPv6 address.
        Some((host, of)) if !host.contains(':') || host.ends_with(']') => {
            (of.parse::<u16>() == Ok(port)).then_some(host)
        }
        _ => Some(part),
    });
    let hosts = hosts.map(|host| match host {
        "*" => EVERYWHERE,
        host => host.strip_prefix("*.").unwrap_or(host).trim_matches(['[', ']']),
    });
    hosts.collect::<Vec<_>>().join(",")
}

/// A proxy's URL as kube takes it: `http` where it says no scheme, and `socks5` for `socks5h`, of which kube makes the same. A user
/// with a password is left to HTTP's proxies alone: kube sends them to no other, and tells the URL of one that it does not know.
fn url_for_kube(url: &str) -> Result<Uri, InvalidUri> {
    let (scheme, place) = url.split_once("://").unwrap_or(("http", url));
    let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
    let url = match scheme.to_ascii_lowercase().as_str() {
        scheme @ ("http" | "https") => format!("{scheme}://{place}"),
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

    fn chosen(https: &str, no: &str, named: Option<&str>, server: &str) -> Option<String> {
        let environment = Environment { https: https.to_owned(), no: no.to_owned() };
        let chosen = environment.choice(named, &server.parse().unwrap()).unwrap();
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
        assert!(!is_own_machine("localhost.example.org") && !is_own_machine("10.0.0.1"));
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
        for (told, taken) in [
            ("proxy:3128", "http://proxy:3128"),
            ("user:secret@proxy:3128", "http://user:secret@proxy:3128"),
            ("http://user:secret@proxy:3128", "http://user:secret@proxy:3128"),
            ("https://proxy", "https://proxy"),
            ("socks5://proxy:1080", "socks5://proxy:1080"),
            ("socks5h://user:secret@proxy:1080", "socks5://proxy:1080"),
            ("socks4://user:secret@proxy:1080", "socks4://proxy:1080"),
        ] {
            assert_eq!(chosen(told, "", None, SERVER).as_deref(), Some(taken), "{told}");
            assert_eq!(chosen("", "", Some(told), SERVER).as_deref(), Some(taken), "{told}");
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
