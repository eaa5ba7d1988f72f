//! The settings of a join: those of this call, and those of an earlier join where this call does not say.

use super::credentials::ClusterConnection;
use super::kubeconfig::{self, in_secret, is_tunnelled};
use super::tunnel::{self, AgentConfig};
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

const OPERATORS_ALONE: &str =
    "operators alone may use it: --tenants names tenants that may, too; '*' is every tenant";

/// What an earlier join of the cluster has left.
#[derive(Default)]
pub(super) struct PreviousJoin {
    cluster: Option<MemberCluster>,
    /// Whether its object lists tenants, be it none of them.
    lists_tenants: bool,
    /// Its Secret in the host cluster.
    secret: Option<Value>,
    /// The configuration of the tunnel's agents in it.
    agents: Option<AgentConfig>,
}

/// How the controller is to connect to a cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// As this program does, or at this address.
    Directly(Option<String>),
    /// As before, except for the certificate authorities, which may have changed.
    AsBefore {
        server: String,
        tls_server_name: Option<String>,
        proxy_url: Option<String>,
    },
    Tunnel(AgentConfig),
}

/// The settings that a join applies.
pub(super) struct JoinSettings {
    pub(super) shared: bool,
    pub(super) people: bool,
    pub(super) route: Route,
    /// Name of its Secret in the host cluster.
    pub(super) secret_name: String,
    /// Annotations of that Secret.
    pub(super) annotations: Map<String, Value>,
    /// The certificate authorities of an endpoint that is kept, in base64.
    pub(super) endpoint_authority: Option<String>,
    /// The settings that are kept from before, as flags.
    kept: Vec<String>,
    /// Whether it has joined before, and its Secret is gone.
    has_lost_secret: bool,
    /// Why `--tenants` changes nothing, if it does not, or that no tenant may use the cluster.
    tenants_note: Option<String>,
}

impl PreviousJoin {
    pub(super) async fn read(host: &Api, member: &Api, join: &Join) -> Result<Self, Failure> {
        let path = paths::object(names::MEMBER_CLUSTERS, &join.cluster);
        let object: Option<Value> = host.find(&path).await?;
        let tenants = object.as_ref().and_then(|object| object.pointer("/spec/tenants"));
        let lists_tenants = tenants.is_some_and(Value::is_array);
        let cluster: Option<MemberCluster> = object
            .map(serde_json::from_value)
            .transpose()
            .map_err(|error| Failure::Unreadable(path, error))?;
        let name = secret_name(&join.cluster, cluster.as_ref());
        let path = secret_path_of(&join.members_namespace, &name);
        let secret = host.find(&path).await.map_err(|failure| failure.with_advice_on(403, MEMBERS_ROLE))?;
        let mut before = Self { cluster, lists_tenants, secret, agents: None };
        if before.secret.is_some() || before.joined_cluster().is_some() {
            before.agents = tunnel::find_agents(member).await?;
        }
        Ok(before)
    }

    /// The cluster's object, if the cluster has joined. An operator may create the object before that.
    fn joined_cluster(&self) -> Option<&MemberCluster> {
        self.cluster.as_ref().filter(|cluster| !cluster.status.uid.is_empty())
    }

    /// Whether its object, if there is one, names no tenant. An operator may have changed what the Secret says.
    fn is_closed_to_tenants(&self) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| cluster.spec.tenants.is_empty())
    }

    /// The value of an annotation of the Secret; if the Secret is gone, the value of the cluster's spec.
    fn annotation_or_spec(
        &self,
        annotation: &str,
        spec: impl Fn(&MemberClusterSpec) -> Option<String>,
    ) -> Option<String> {
        match &self.secret {
            Some(secret) => annotation_of(secret, annotation),
            None => self.joined_cluster().and_then(|cluster| spec(&cluster.spec)),
        }
    }

    /// The tenants that may use the cluster. A Secret without them opens it to all, so those of an object that was
    /// created before the first join count, too.
    fn tenants(&self) -> Option<String> {
        if let Some(secret) = &self.secret {
            return annotation_of(secret, CLUSTER_TENANTS_ANNOTATION);
        }
        let cluster = self.cluster.as_ref().filter(|_| self.lists_tenants);
        cluster.or_else(|| self.joined_cluster()).map(|cluster| cluster.spec.tenants.join(","))
    }

    /// The kubeconfig in its Secret, if it can be read.
    fn kubeconfig(&self) -> Option<String> {
        in_secret(self.secret.as_ref()?, CLUSTER_KUBECONFIG_KEY).ok().flatten()
    }
}

impl JoinSettings {
    /// `server` is the address in the kubeconfig that was given.
    pub(super) fn of(
        join: &Join,
        tunnel: Option<AgentConfig>,
        before: &PreviousJoin,
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
        let is_closed = annotations.get(CLUSTER_TENANTS_ANNOTATION).and_then(Value::as_str) == Some("")
            && (join.tenants.is_some() || before.is_closed_to_tenants());
        let tenants_note =
            tenants_stay(join, before).or_else(|| is_closed.then(|| OPERATORS_ALONE.to_owned()));
        Ok(Self {
            shared: join.shared || was_shared,
            people: join.people || had_people,
            route: route(join, tunnel, before, server, &mut kept)?,
            secret_name: secret_name(&join.cluster, before.cluster.as_ref()),
            annotations,
            endpoint_authority,
            kept,
            has_lost_secret: secret.is_none() && before.joined_cluster().is_some(),
            tenants_note,
        })
    }

    /// `server` is the address in the kubeconfig that was given.
    pub(super) fn print_notes(&self, server: &str) {
        if self.route == Route::Directly(None) && is_loopback(server) {
            note(format_args!(
                "{server} is this machine's own: a controller in a pod does not reach the cluster there; name an address that it \
                 reaches with --server, such as https://kubernetes.default.svc where it is the host cluster itself"
            ));
        }
        if !self.kept.is_empty() {
            note(format_args!("as before, since this call does not say: {}", self.kept.join(" ")));
        }
        if let Some(tenants) = &self.tenants_note {
            note(tenants);
        }
        if self.has_lost_secret {
            note(format_args!(
                "its Secret {} is gone: --people, --endpoint and --server, where they were given before, have to be given again",
                self.secret_name
            ));
        }
    }
}

/// Whether it is a loopback or unspecified address, which means another machine for the controller.
fn is_loopback(server: &str) -> bool {
    let address: Option<http::Uri> = server.parse().ok();
    let Some(host) = address.as_ref().and_then(http::Uri::host) else { return false };
    let ip: Result<IpAddr, _> = host.trim_matches(['[', ']']).parse();
    ::kubeconfig::is_loopback(host) || ip.is_ok_and(|ip| ip.is_unspecified())
}

/// The name of a cluster's Secret: the one that its object names, else that of `join`.
pub(crate) fn secret_name(name: &str, cluster: Option<&MemberCluster>) -> String {
    let named = cluster.and_then(|cluster| cluster.spec.credentials.as_ref());
    named.map_or_else(|| super::secret_name(name), |credentials| credentials.secret_name.clone())
}

/// Why `--tenants` changes nothing: the controller leaves tenants that somebody has set in the cluster's object.
fn tenants_stay(join: &Join, before: &PreviousJoin) -> Option<String> {
    let (wanted, cluster) = (join.tenants.as_deref()?, before.cluster.as_ref()?);
    let wanted: Vec<&str> = wanted.split(',').map(str::trim).filter(|tenant| !tenant.is_empty()).collect();
    let set = &cluster.spec.tenants;
    // What the controller has written there last, from the Secret.
    let written = cluster.metadata.annotations.get(names::DIRECTORY_ANNOTATION);
    let written: Value = written.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let written = written.get("tenants").and_then(Value::as_array).into_iter().flatten();
    if wanted == *set || written.filter_map(Value::as_str).eq(set.iter().map(String::as_str)) {
        return None;
    }
    let who = if set.is_empty() { "operators alone".to_owned() } else { set.join(", ") };
    let patch = json!({"spec": {"tenants": wanted}});
    Some(format!(
        "who may use it was set in its MemberCluster, and stays: {who}; --tenants changes the Secret alone: \
         kubectl patch membercluster {} --type=merge -p '{patch}'",
        join.cluster
    ))
}

fn annotations(join: &Join, before: &PreviousJoin, kept: &mut Vec<String>) -> Map<String, Value> {
    let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let named = |spec: &MemberClusterSpec| filled(&spec.display_name);
    let typed = |spec: &MemberClusterSpec| filled(&spec.cluster_type);
    let settings = [
        (
            CLUSTER_DISPLAY_NAME_ANNOTATION,
            "--display-name",
            &join.display_name,
            before.annotation_or_spec(CLUSTER_DISPLAY_NAME_ANNOTATION, named),
        ),
        (CLUSTER_TYPE_ANNOTATION, "", &None, before.annotation_or_spec(CLUSTER_TYPE_ANNOTATION, typed)),
        (CLUSTER_TENANTS_ANNOTATION, "--tenants", &join.tenants, before.tenants()),
        (
            CLUSTER_ENDPOINT_ANNOTATION,
            "--endpoint",
            &join.endpoint,
            before.annotation_or_spec(CLUSTER_ENDPOINT_ANNOTATION, |_| None),
        ),
    ];
    let mut annotations = Map::new();
    for (annotation, flag, now, previous) in settings {
        if let (None, Some(previous), false) = (now, &previous, flag.is_empty()) {
            kept.push(format!("{flag} '{previous}'"));
        }
        if let Some(text) = now.as_ref().or(previous.as_ref()) {
            annotations.insert(annotation.to_owned(), json!(text));
        }
    }
    annotations
}

fn route(
    join: &Join,
    tunnel: Option<AgentConfig>,
    before: &PreviousJoin,
    server: &str,
    kept: &mut Vec<String>,
) -> Result<Route, Failure> {
    if let Some(tunnel) = tunnel {
        // The tunnel at another address has other certificate authorities.
        let same = before.agents.as_ref().filter(|agents| agents.address == tunnel.address);
        return Ok(Route::Tunnel(match same {
            Some(agents) => tunnel.or_previous(agents, kept),
            None => tunnel,
        }));
    }
    if join.server.is_some() {
        return Ok(Route::Directly(join.server.clone()));
    }
    let kubeconfig = before.kubeconfig();
    let through_tunnel = kubeconfig.as_deref().and_then(|text| is_tunnelled(text).ok());
    match &before.agents {
        Some(agents) if through_tunnel != Some(false) => {
            kept.push(format!("--tunnel {}", agents.address));
            let tunnel = AgentConfig { authority: None, image: None, ..agents.clone() };
            return Ok(Route::Tunnel(tunnel.or_previous(agents, kept)));
        }
        None if through_tunnel == Some(true) => {
            return Err(Failure::Other(format!(
                "{} is reached through the tunnel, and its agents are not of `join`: give --tunnel again, or --server to reach it \
                 without; `kubectl business rotate {}` renews credentials and leaves the rest",
                join.cluster, join.cluster
            )));
        }
        _ => {}
    }
    let cluster_field =
        |field: &str| kubeconfig.as_deref().and_then(|text| kubeconfig::cluster_field(text, field).ok()?);
    let Some(previous) = cluster_field("server") else { return Ok(Route::Directly(None)) };
    if previous.trim_end_matches('/') != server {
        kept.push(format!("--server {previous}"));
    }
    let (tls_server_name, proxy_url) = (cluster_field("tls-server-name"), cluster_field("proxy-url"));
    Ok(Route::AsBefore { server: previous, tls_server_name, proxy_url })
}

impl Route {
    pub(super) async fn connection(&self, member: &Api, cluster: &str) -> Result<ClusterConnection, Failure> {
        match self {
            Self::Directly(server) => Ok(ClusterConnection::directly(member, server.as_deref())),
            Self::AsBefore { server, tls_server_name, proxy_url } => Ok(ClusterConnection {
                tls_server_name: tls_server_name.clone(),
                proxy_url: proxy_url.clone(),
                ..ClusterConnection::directly(member, Some(server))
            }),
            Self::Tunnel(_) => tunnel::connection(member, cluster).await,
        }
    }
}

/// An annotation of a Secret.
fn annotation_of(secret: &Value, annotation: &str) -> Option<String> {
    let found = secret.pointer("/metadata/annotations").and_then(|all| all.get(annotation));
    found.and_then(Value::as_str).map(str::to_owned)
}

/// A value of a Secret, in base64.
fn data<'a>(secret: &'a Value, key: &str) -> &'a str {
    text(secret, &format!("/data/{key}"))
}

#[cfg(test)]
mod tests {
    use super::super::preflight::required_rights;
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

    fn settings(flags: &[&str], before: &PreviousJoin) -> Result<JoinSettings, Failure> {
        let join = join(flags);
        let tunnel = join.agent_config().unwrap();
        JoinSettings::of(&join, tunnel, before, HERE)
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

    fn joined_with_all_flags() -> PreviousJoin {
        let annotations = json!({
            "business.tkestack.io/tenants": "acme,globex", "business.tkestack.io/endpoint": "https://people.example.org",
            "business.tkestack.io/display-name": "East", "business.tkestack.io/cluster-type": "Baremetal",
        });
        let there =
            json!({"server": "https://inner:6443", "tls-server-name": "n", "proxy-url": "socks5://p"});
        PreviousJoin {
            cluster: Some(cluster(&json!({"tenants": ["acme"], "identity": "Shared"}), "1")),
            secret: Some(secret(&annotations, &there, "Uw==")),
            ..PreviousJoin::default()
        }
    }

    #[test]
    fn what_a_later_call_does_not_say_stays_as_it_was() {
        let before = joined_with_all_flags();
        let settings = settings(&[], &before).unwrap();
        assert_eq!(json!(settings.annotations), before.secret.as_ref().unwrap()["metadata"]["annotations"]);
        assert!(settings.people && settings.shared);
        assert_eq!(settings.endpoint_authority.as_deref(), Some("Q0E="));
        let (name, proxy) = (Some("n".to_owned()), Some("socks5://p".to_owned()));
        let there =
            Route::AsBefore { server: "https://inner:6443".into(), tls_server_name: name, proxy_url: proxy };
        assert_eq!(settings.route, there);
        assert_eq!(
            settings.kept.join(" "),
            "--display-name 'East' --tenants 'acme,globex' --endpoint 'https://people.example.org' --people --shared --server \
             https://inner:6443"
        );
    }

    #[test]
    fn what_a_call_says_holds() {
        let said =
            ["--tenants", "acme", "--endpoint", "https://new.example.org", "--server", "https://new:6443"];
        let settings = settings(&said, &joined_with_all_flags()).unwrap();
        assert_eq!(settings.annotations["business.tkestack.io/tenants"], "acme");
        assert_eq!(settings.annotations["business.tkestack.io/endpoint"], "https://new.example.org");
        assert_eq!(settings.endpoint_authority, None, "written anew");
        assert_eq!(settings.route, Route::Directly(Some("https://new:6443".to_owned())));
        assert_eq!(settings.kept.join(" "), "--display-name 'East' --people --shared");
    }

    #[test]
    fn without_its_secret_a_cluster_is_still_for_its_tenants_alone() {
        for (tenants, text) in [(json!(["acme", "globex"]), "acme,globex"), (json!([]), "")] {
            let spec = json!({"displayName": "East", "type": "Imported", "tenants": tenants});
            let before = PreviousJoin { cluster: Some(cluster(&spec, "1")), ..PreviousJoin::default() };
            let settings = settings(&[], &before).unwrap();
            assert_eq!(settings.annotations["business.tkestack.io/tenants"], text);
            assert!(settings.has_lost_secret);
        }
    }

    #[test]
    fn a_cluster_that_was_made_beforehand_is_for_the_tenants_that_it_lists() {
        for (tenants, text) in [(json!(["acme"]), "acme"), (json!([]), "")] {
            let cluster = Some(cluster(&json!({ "tenants": tenants }), ""));
            let before = PreviousJoin { cluster, lists_tenants: true, ..PreviousJoin::default() };
            let kept = settings(&[], &before).unwrap();
            assert_eq!(kept.annotations["business.tkestack.io/tenants"], text);
            assert_eq!(kept.kept.join(" "), format!("--tenants '{text}'"));
            let said = settings(&["--tenants", "globex"], &before).unwrap();
            assert_eq!(said.annotations["business.tkestack.io/tenants"], "globex");
        }
    }

    #[test]
    fn tenants_that_somebody_has_set_in_the_record_stay_and_that_is_told() {
        let told = |set: &Value, written: &Value, flags: &[&str]| {
            let object = json!({
                "metadata": {"name": "east", "annotations": {names::DIRECTORY_ANNOTATION: written.to_string()}},
                "spec": {"tenants": set}, "status": {"uid": "1"},
            });
            let cluster = Some(serde_json::from_value(object).unwrap());
            settings(flags, &PreviousJoin { cluster, ..PreviousJoin::default() }).unwrap().tenants_note
        };
        let all = json!({"tenants": ["*"]});
        let narrow = ["--tenants", "acme, globex"];
        assert_eq!(told(&json!(["*"]), &all, &narrow), None, "nobody has changed it");
        assert_eq!(told(&json!([]), &json!({"type": "Imported"}), &narrow), None, "nobody has changed it");
        assert_eq!(told(&json!(["acme", "globex"]), &all, &narrow), None, "it is so");
        assert_eq!(told(&json!(["acme"]), &all, &[]), None, "this call does not say");
        let why = told(&json!(["acme"]), &all, &narrow).unwrap();
        for part in [
            "and stays: acme;",
            "membercluster east --type=merge -p '{\"spec\":{\"tenants\":[\"acme\",\"globex\"]}}'",
        ] {
            assert!(why.contains(part), "{part}: {why}");
        }
        assert!(told(&json!([]), &all, &narrow).unwrap().contains("operators alone"));
    }

    #[test]
    fn operators_are_alone_only_where_the_record_says_so_too() {
        let told = |tenants: &Value| {
            let annotations = json!({CLUSTER_TENANTS_ANNOTATION: ""});
            let secret = Some(json!({"metadata": {"annotations": annotations}}));
            let cluster = Some(cluster(&json!({ "tenants": tenants }), ""));
            let before = PreviousJoin { cluster, secret, ..PreviousJoin::default() };
            settings(&[], &before).unwrap().tenants_note
        };
        assert_eq!(told(&json!([])).as_deref(), Some(OPERATORS_ALONE));
        assert_eq!(told(&json!(["acme"])), None, "an operator has opened it since");
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
        let made_beforehand =
            PreviousJoin { cluster: Some(cluster(&json!({}), "")), ..PreviousJoin::default() };
        for before in [PreviousJoin::default(), made_beforehand] {
            let settings = settings(&[], &before).unwrap();
            assert!(settings.annotations.is_empty() && settings.kept.is_empty() && !settings.has_lost_secret);
            assert_eq!(settings.route, Route::Directly(None));
            assert_eq!(settings.secret_name, "cluster-east");
        }
    }

    #[test]
    fn a_secret_of_another_name_is_written_where_the_controller_reads_it() {
        let spec = json!({"credentials": {"secretName": "east-by-hand"}});
        let before = PreviousJoin { cluster: Some(cluster(&spec, "1")), ..PreviousJoin::default() };
        assert_eq!(settings(&[], &before).unwrap().secret_name, "east-by-hand");
    }

    #[test]
    fn a_tunnel_takes_the_right_to_write_the_secret_of_its_agents() {
        let may_patch = |flags: &[&str]| {
            let settings = settings(flags, &PreviousJoin::default()).unwrap();
            let rights = required_rights(&[], &settings).unwrap();
            rights.iter().any(|right| right.to_string() == "patch secrets")
        };
        assert!(may_patch(&["--tunnel", "t.example.org"]) && !may_patch(&[]));
    }

    #[test]
    fn a_tunnel_stays_a_tunnel() {
        let through = json!({"server": "https://east.tunnel:443", "proxy-url": "tunnel://east"});
        let agents = AgentConfig {
            address: "t.example.org:443".parse().unwrap(),
            authority: Some("PEM".to_owned()),
            image: Some("mirror/agent:1".to_owned()),
        };
        let known = Some(cluster(&json!({"tenants": ["*"]}), "1"));
        let secret = Some(secret(&json!({}), &through, ""));
        let without_agents =
            PreviousJoin { cluster: known.clone(), secret: secret.clone(), ..PreviousJoin::default() };
        let refused = settings(&[], &without_agents).err().unwrap().to_string();
        assert!(refused.contains("give --tunnel again"), "{refused}");
        let there =
            PreviousJoin { cluster: known, secret, agents: Some(agents.clone()), ..PreviousJoin::default() };
        let lost = PreviousJoin {
            cluster: there.cluster.clone(),
            agents: Some(agents.clone()),
            ..PreviousJoin::default()
        };
        for before in [&lost, &there] {
            let settings = settings(&[], before).unwrap();
            assert_eq!(settings.route, Route::Tunnel(agents.clone()));
            let kept = settings.kept.join(" ");
            assert!(
                kept.ends_with("--tunnel t.example.org:443 --tunnel-ca --tunnel-image mirror/agent:1"),
                "{kept}"
            );
        }
        let same = settings(&["--tunnel", "t.example.org:443"], &there).unwrap();
        assert_eq!(same.route, Route::Tunnel(agents));
        let Route::Tunnel(other) = settings(&["--tunnel", "u.example.org"], &there).unwrap().route else {
            panic!()
        };
        assert_eq!((other.authority, other.image), (None, None));
        let direct = settings(&["--server", HERE], &there).unwrap();
        assert_eq!(direct.route, Route::Directly(Some(HERE.to_owned())));
    }
}
