//! The terms on which a cluster joins: those of this call, and, if it has joined before, those of that time.

use super::credentials::Reach;
use super::kubeconfig::{self, in_secret, is_tunnelled};
use super::tunnel::{self, Dialling};
use super::{Join, MEMBERS_ROLE, secret_path_of, text};
use crate::api::Api;
use crate::failure::Failure;
use crate::objects::MemberCluster;
use crate::paths;
use crate::screen::note;
use business_types::names::{
    self, CLUSTER_DISPLAY_NAME_ANNOTATION, CLUSTER_ENDPOINT_ANNOTATION, CLUSTER_ENDPOINT_CA_KEY,
    CLUSTER_KUBECONFIG_KEY, CLUSTER_SIGNER_KEY, CLUSTER_TENANTS_ANNOTATION, CLUSTER_TYPE_ANNOTATION,
};
use business_types::{ClusterIdentity, MemberClusterSpec};
use serde_json::{Map, Value, json};
use std::net::IpAddr;

/// What there is of a cluster that has joined before.
#[derive(Default)]
pub(super) struct Before {
    cluster: Option<MemberCluster>,
    /// Its Secret in the host cluster.
    secret: Option<Value>,
    /// How its agents dial the tunnel.
    dialling: Option<Dialling>,
}

/// How the controller is to reach a cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// As it is reached from here, or at this address.
    Directly(Option<String>),
    /// As before, except for the authorities that vouch for it, which may have changed.
    AsBefore {
        server: String,
        tls_server_name: Option<String>,
        proxy_url: Option<String>,
    },
    Tunnel(Dialling),
}

/// The terms.
pub(super) struct Terms {
    pub(super) shared: bool,
    pub(super) people: bool,
    pub(super) way: Way,
    /// Name of its Secret in the host cluster.
    pub(super) secret_name: String,
    /// Annotations of that Secret.
    pub(super) annotations: Map<String, Value>,
    /// The authorities of an endpoint that stays, in base64.
    pub(super) endpoint_authority: Option<String>,
    /// The terms that this call does not name, as flags.
    kept: Vec<String>,
    /// Whether it has joined before, and its Secret is gone.
    has_lost_secret: bool,
}

impl Before {
    pub(super) async fn read(host: &Api, member: &Api, join: &Join) -> Result<Self, Failure> {
        let cluster: Option<MemberCluster> =
            host.find(&paths::named(names::MEMBER_CLUSTERS, &join.cluster)).await?;
        let name = secret_name(&join.cluster, cluster.as_ref());
        let path = secret_path_of(&join.members_namespace, &name);
        let secret = host.find(&path).await.map_err(|failure| failure.advised(403, MEMBERS_ROLE))?;
        let mut before = Self { cluster, secret, dialling: None };
        if before.secret.is_some() || before.registered().is_some() {
            before.dialling = tunnel::found(member).await?;
        }
        Ok(before)
    }

    /// The cluster's object, if it has joined. An operator may have made an object beforehand, of a cluster that has
    /// not.
    fn registered(&self) -> Option<&MemberCluster> {
        self.cluster.as_ref().filter(|cluster| !cluster.status.uid.is_empty())
    }

    /// What an annotation of its Secret says; if the Secret is gone, what the cluster's object has instead.
    fn said(&self, annotation: &str, spec: impl Fn(&MemberClusterSpec) -> Option<String>) -> Option<String> {
        match &self.secret {
            Some(secret) => {
                let said = secret.pointer("/metadata/annotations").and_then(|all| all.get(annotation));
                said.and_then(Value::as_str).map(str::to_owned)
            }
            None => self.registered().and_then(|cluster| spec(&cluster.spec)),
        }
    }

    /// What can be read of the kubeconfig in its Secret.
    fn kubeconfig(&self) -> Option<String> {
        in_secret(self.secret.as_ref()?, CLUSTER_KUBECONFIG_KEY).ok().flatten()
    }
}

impl Terms {
    /// `server` is the address in the kubeconfig that was given.
    pub(super) fn of(
        join: &Join,
        tunnel: Option<Dialling>,
        before: &Before,
        server: &str,
    ) -> Result<Self, Failure> {
        let mut kept = Vec::new();
        let annotations = annotations(join, before, &mut kept);
        let secret = before.secret.as_ref();
        let had_people = secret.is_some_and(|secret| !data(secret, CLUSTER_SIGNER_KEY).is_empty());
        if had_people && !join.people {
            kept.push("--people".to_owned());
        }
        let is_shared = |cluster: &MemberCluster| cluster.spec.identity == ClusterIdentity::Shared;
        let was_shared = before.cluster.as_ref().is_some_and(is_shared);
        if was_shared && !join.shared {
            kept.push("--shared".to_owned());
        }
        let endpoint_authority = secret
            .filter(|_| join.endpoint.is_none())
            .map(|secret| data(secret, CLUSTER_ENDPOINT_CA_KEY).to_owned())
            .filter(|authority| !authority.is_empty());
        Ok(Self {
            shared: join.shared || was_shared,
            people: join.people || had_people,
            way: way(join, tunnel, before, server, &mut kept)?,
            secret_name: secret_name(&join.cluster, before.cluster.as_ref()),
            annotations,
            endpoint_authority,
            kept,
            has_lost_secret: secret.is_none() && before.registered().is_some(),
        })
    }

    /// `server` is the address in the kubeconfig that was given.
    pub(super) fn tell(&self, server: &str) {
        if self.way == Way::Directly(None) && is_loopback(server) {
            note(format_args!(
                "{server} is this machine's own: a controller in a pod does not reach the cluster there; name an address that it \
                 reaches with --server, such as https://kubernetes.default.svc where it is the host cluster itself"
            ));
        }
        if !self.kept.is_empty() {
            note(format_args!("as before, since this call does not say: {}", self.kept.join(" ")));
        }
        if self.has_lost_secret {
            note(format_args!(
                "its Secret {} is gone: --people, --endpoint and --server, where they were given before, have to be given again",
                self.secret_name
            ));
        }
    }
}

/// Whether it is an address of the machine that uses it, which differs for each user.
fn is_loopback(server: &str) -> bool {
    let address: Option<http::Uri> = server.parse().ok();
    let Some(host) = address.as_ref().and_then(http::Uri::host) else { return false };
    let ip: Result<IpAddr, _> = host.trim_matches(['[', ']']).parse();
    ::kubeconfig::is_own_machine(host) || ip.is_ok_and(|ip| ip.is_unspecified())
}

/// The Secret that the controller reads of a cluster, or the one that is made.
pub(crate) fn secret_name(name: &str, cluster: Option<&MemberCluster>) -> String {
    let named = cluster.and_then(|cluster| cluster.spec.credentials.as_ref());
    named.map_or_else(|| super::secret_name(name), |credentials| credentials.secret_name.clone())
}

fn annotations(join: &Join, before: &Before, kept: &mut Vec<String>) -> Map<String, Value> {
    let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let named = |spec: &MemberClusterSpec| filled(&spec.display_name);
    let typed = |spec: &MemberClusterSpec| filled(&spec.cluster_type);
    let tenants = |spec: &MemberClusterSpec| Some(spec.tenants.join(","));
    let terms = [
        (
            CLUSTER_DISPLAY_NAME_ANNOTATION,
            "--display-name",
            &join.display_name,
            before.said(CLUSTER_DISPLAY_NAME_ANNOTATION, named),
        ),
        (CLUSTER_TYPE_ANNOTATION, "", &None, before.said(CLUSTER_TYPE_ANNOTATION, typed)),
        (
            CLUSTER_TENANTS_ANNOTATION,
            "--tenants",
            &join.tenants,
            before.said(CLUSTER_TENANTS_ANNOTATION, tenants),
        ),
        (
            CLUSTER_ENDPOINT_ANNOTATION,
            "--endpoint",
            &join.endpoint,
            before.said(CLUSTER_ENDPOINT_ANNOTATION, |_| None),
        ),
    ];
    let mut annotations = Map::new();
    for (annotation, flag, now, then) in terms {
        if let (None, Some(then), false) = (now, &then, flag.is_empty()) {
            kept.push(format!("{flag} '{then}'"));
        }
        if let Some(text) = now.as_ref().or(then.as_ref()) {
            annotations.insert(annotation.to_owned(), json!(text));
        }
    }
    annotations
}

fn way(
    join: &Join,
    tunnel: Option<Dialling>,
    before: &Before,
    server: &str,
    kept: &mut Vec<String>,
) -> Result<Way, Failure> {
    if let Some(tunnel) = tunnel {
        // At another entrance other authorities vouch.
        let same = before.dialling.as_ref().filter(|dialling| dialling.entrance == tunnel.entrance);
        return Ok(Way::Tunnel(match same {
            Some(dialling) => tunnel.or(dialling, kept),
            None => tunnel,
        }));
    }
    if join.server.is_some() {
        return Ok(Way::Directly(join.server.clone()));
    }
    let kubeconfig = before.kubeconfig();
    let through_tunnel = kubeconfig.as_deref().and_then(|text| is_tunnelled(text).ok());
    match &before.dialling {
        Some(dialling) if through_tunnel != Some(false) => {
            kept.push(format!("--tunnel {}", dialling.entrance));
            let tunnel = Dialling { authority: None, image: None, ..dialling.clone() };
            return Ok(Way::Tunnel(tunnel.or(dialling, kept)));
        }
        None if through_tunnel == Some(true) => {
            return Err(Failure::Stopped(format!(
                "{} is reached through the tunnel, and its agents are not of `join`: give --tunnel again, or --server to reach it \
                 without; `kubectl business rotate {}` renews credentials and leaves the rest",
                join.cluster, join.cluster
            )));
        }
        _ => {}
    }
    let of_cluster =
        |field: &str| kubeconfig.as_deref().and_then(|text| kubeconfig::of_cluster(text, field).ok()?);
    let Some(then) = of_cluster("server") else { return Ok(Way::Directly(None)) };
    if then.trim_end_matches('/') != server {
        kept.push(format!("--server {then}"));
    }
    let (tls_server_name, proxy_url) = (of_cluster("tls-server-name"), of_cluster("proxy-url"));
    Ok(Way::AsBefore { server: then, tls_server_name, proxy_url })
}

impl Way {
    pub(super) async fn reach(&self, member: &Api, cluster: &str) -> Result<Reach, Failure> {
        match self {
            Self::Directly(server) => Ok(Reach::directly(member, server.as_deref())),
            Self::AsBefore { server, tls_server_name, proxy_url } => Ok(Reach {
                tls_server_name: tls_server_name.clone(),
                proxy_url: proxy_url.clone(),
                ..Reach::directly(member, Some(server))
            }),
            Self::Tunnel(_) => tunnel::inside(member, cluster).await,
        }
    }
}

/// In base64.
fn data<'a>(secret: &'a Value, key: &str) -> &'a str {
    text(secret, &format!("/data/{key}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        join: Join,
    }

    const HERE: &str = "https://east.example.org:6443";

    fn join(flags: &[&str]) -> Join {
        Line::parse_from([&["join", "east"], flags].concat()).join
    }

    fn terms(flags: &[&str], before: &Before) -> Result<Terms, Failure> {
        let join = join(flags);
        let tunnel = join.dialling().unwrap();
        Terms::of(&join, tunnel, before, HERE)
    }

    fn secret(annotations: &Value, cluster: &Value, signer: &str) -> Value {
        let kubeconfig = json!({
            "current-context": "east", "clusters": [{"name": "east", "cluster": cluster}],
            "contexts": [{"name": "east", "context": {"cluster": "east", "user": "u"}}],
        });
        json!({
            "metadata": {"annotations": annotations},
            "data": {
                "kubeconfig": BASE64_STANDARD.encode(kubeconfig.to_string()), "signer-kubeconfig": signer,
                "endpoint-ca.crt": "Q0E=",
            },
        })
    }

    fn cluster(spec: &Value, uid: &str) -> MemberCluster {
        let object = json!({"metadata": {"name": "east"}, "spec": spec, "status": {"uid": uid}});
        serde_json::from_value(object).unwrap()
    }

    fn joined_fully() -> Before {
        let annotations = json!({
            "business.tkestack.io/tenants": "acme,globex", "business.tkestack.io/endpoint": "https://people.example.org",
            "business.tkestack.io/display-name": "East", "business.tkestack.io/cluster-type": "Baremetal",
        });
        let there =
            json!({"server": "https://inner:6443", "tls-server-name": "n", "proxy-url": "socks5://p"});
        Before {
            cluster: Some(cluster(&json!({"tenants": ["acme"], "identity": "Shared"}), "1")),
            secret: Some(secret(&annotations, &there, "Uw==")),
            dialling: None,
        }
    }

    #[test]
    fn what_a_later_call_does_not_say_stays_as_it_was() {
        let before = joined_fully();
        let terms = terms(&[], &before).unwrap();
        assert_eq!(json!(terms.annotations), before.secret.as_ref().unwrap()["metadata"]["annotations"]);
        assert!(terms.people && terms.shared);
        assert_eq!(terms.endpoint_authority.as_deref(), Some("Q0E="));
        let (name, proxy) = (Some("n".to_owned()), Some("socks5://p".to_owned()));
        let there =
            Way::AsBefore { server: "https://inner:6443".into(), tls_server_name: name, proxy_url: proxy };
        assert_eq!(terms.way, there);
        assert_eq!(
            terms.kept.join(" "),
            "--display-name 'East' --tenants 'acme,globex' --endpoint 'https://people.example.org' --people --shared --server \
             https://inner:6443"
        );
    }

    #[test]
    fn what_a_call_says_holds() {
        let said =
            ["--tenants", "acme", "--endpoint", "https://new.example.org", "--server", "https://new:6443"];
        let terms = terms(&said, &joined_fully()).unwrap();
        assert_eq!(terms.annotations["business.tkestack.io/tenants"], "acme");
        assert_eq!(terms.annotations["business.tkestack.io/endpoint"], "https://new.example.org");
        assert_eq!(terms.endpoint_authority, None, "written anew");
        assert_eq!(terms.way, Way::Directly(Some("https://new:6443".to_owned())));
        assert_eq!(terms.kept.join(" "), "--display-name 'East' --people --shared");
    }

    #[test]
    fn without_its_secret_a_cluster_is_still_for_its_tenants_alone() {
        for (tenants, text) in [(json!(["acme", "globex"]), "acme,globex"), (json!([]), "")] {
            let spec = json!({"displayName": "East", "type": "Imported", "tenants": tenants});
            let before = Before { cluster: Some(cluster(&spec, "1")), ..Before::default() };
            let terms = terms(&[], &before).unwrap();
            assert_eq!(terms.annotations["business.tkestack.io/tenants"], text);
            assert!(terms.has_lost_secret);
        }
    }

    #[test]
    fn an_address_that_is_everybodys_own_is_no_address_of_a_cluster() {
        for own in
            ["https://127.0.0.1:6443", "https://localhost", "https://[::1]:6443", "https://0.0.0.0:6550/"]
        {
            assert!(is_loopback(own), "{own}");
        }
        for other in [HERE, "https://10.0.0.1:6443", "https://[fd00::1]", "https://localhost.example.org", ""]
        {
            assert!(!is_loopback(other), "{other}");
        }
    }

    #[test]
    fn a_first_call_keeps_nothing() {
        let made_beforehand = Before { cluster: Some(cluster(&json!({}), "")), ..Before::default() };
        for before in [Before::default(), made_beforehand] {
            let terms = terms(&[], &before).unwrap();
            assert!(terms.annotations.is_empty() && terms.kept.is_empty() && !terms.has_lost_secret);
            assert_eq!(terms.way, Way::Directly(None));
            assert_eq!(terms.secret_name, "cluster-east");
        }
    }

    #[test]
    fn a_secret_of_another_name_is_written_where_the_controller_reads_it() {
        let spec = json!({"credentials": {"secretName": "east-by-hand"}});
        let before = Before { cluster: Some(cluster(&spec, "1")), ..Before::default() };
        assert_eq!(terms(&[], &before).unwrap().secret_name, "east-by-hand");
    }

    #[test]
    fn a_tunnel_stays_a_tunnel() {
        let through = json!({"server": "https://east.tunnel:443", "proxy-url": "tunnel://east"});
        let dialling = Dialling {
            entrance: "t.example.org:443".parse().unwrap(),
            authority: Some("PEM".to_owned()),
            image: Some("mirror/agent:1".to_owned()),
        };
        let known = Some(cluster(&json!({"tenants": ["*"]}), "1"));
        let secret = Some(secret(&json!({}), &through, ""));
        let without_agents = Before { cluster: known.clone(), secret: secret.clone(), dialling: None };
        let refused = terms(&[], &without_agents).err().unwrap().to_string();
        assert!(refused.contains("give --tunnel again"), "{refused}");
        let lost = Before { cluster: known.clone(), secret: None, dialling: Some(dialling.clone()) };
        let there = Before { cluster: known, secret, dialling: Some(dialling.clone()) };
        for before in [&lost, &there] {
            let terms = terms(&[], before).unwrap();
            assert_eq!(terms.way, Way::Tunnel(dialling.clone()));
            let kept = terms.kept.join(" ");
            assert!(
                kept.ends_with("--tunnel t.example.org:443 --tunnel-ca --tunnel-image mirror/agent:1"),
                "{kept}"
            );
        }
        let same = terms(&["--tunnel", "t.example.org:443"], &there).unwrap();
        assert_eq!(same.way, Way::Tunnel(dialling));
        let Way::Tunnel(other) = terms(&["--tunnel", "u.example.org"], &there).unwrap().way else { panic!() };
        assert_eq!((other.authority, other.image), (None, None));
        let direct = terms(&["--server", HERE], &there).unwrap();
        assert_eq!(direct.way, Way::Directly(Some(HERE.to_owned())));
    }
}
