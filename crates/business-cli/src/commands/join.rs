use super::member::{self, ClusterFlags, Clusters, text};
use crate::api::Api;
use crate::connection::{ConnectionFlags, duration};
use crate::dry_run::DryRunFlag;
use crate::failure::{Failure, Obstacle, Outcome};
use crate::objects::MemberCluster;
use crate::paths::{self, escape_segment};
use crate::screen::{note, print};
use crate::wait::{self, Progress};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use business_types::condition::{self, READY};
use business_types::names;
use clap::Args;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// The manifests for the member cluster.
mod manifests;
/// Checks before anything is written.
mod preflight;
/// The controller's credentials.
pub(crate) mod credentials;
/// Clusters that are reached through the tunnel.
pub(crate) mod tunnel;
/// Kubeconfigs in Secrets.
pub(crate) mod kubeconfig;
/// The settings of this call and of an earlier one.
pub(crate) mod settings;

use credentials::{Account, ClusterConnection, Expiry, ServiceAccountToken};
use manifests::ManifestSelection;
use settings::{JoinSettings, PreviousJoin, Route};
use tunnel::{AgentConfig, TunnelAddress};

const EXAMPLES: &str = "\
Examples:
  kubectl business join east --kubeconfig east-admin.kubeconfig
  kubectl business join east --kubeconfig east-admin.kubeconfig --dry-run
  kubectl business join plant --kubeconfig plant-admin.kubeconfig --tunnel tunnel.example.org --tunnel-ca tunnel-ca.crt
  kubectl business join east --kubeconfig all.kubeconfig --member-context east --tenants acme,globex --people \\
    --endpoint https://east.example.org:6443

Here --kubeconfig is the member cluster's, of somebody who rules it; it is used for this call alone and kept nowhere. A cluster that
has joined before keeps what it was joined with where a flag is left out, and that is told. To renew the controller's credentials and
nothing else: kubectl business rotate.";
/// Advice if access to a Secret of member clusters is refused: the `ClusterRole` of operators does not include it.
pub(crate) const MEMBERS_ROLE: &str = "have the Role business-operator of the members' namespace bound to you, too: \
                                       docs/install.md, step 4; where that namespace is another one, name it: --members-namespace";
/// A year.
pub(crate) const TOKEN_DAYS: &str = "365";

/// Join a cluster: check it, apply what the controller needs there, make its credentials, and wait until it is Ready
/// (operators)
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Join {
    /// What it is to be called
    cluster: String,
    #[command(flatten)]
    both: ClusterFlags,
    /// Its name for people
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,
    /// Tenants that may use it, with commas between; if it is left out, those of before, and at the first time those of
    /// its record, or all
    #[arg(long, value_name = "TENANTS")]
    tenants: Option<String>,
    /// Its address as the controller reaches it; else that of before, and that of the kubeconfig at the first time
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// It cannot be reached from the controller: an agent in it dials the tunnel here (deploy/components/tunnel)
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "server")]
    tunnel: Option<TunnelAddress>,
    /// Authorities of the tunnel's certificate, PEM; else those of the agent's system
    #[arg(long, value_name = "FILE", requires = "tunnel")]
    tunnel_ca: Option<PathBuf>,
    /// Image of the agent, where nodes reach a mirror alone
    #[arg(long, value_name = "IMAGE", requires = "tunnel")]
    tunnel_image: Option<String>,
    /// Have certificates for people signed there, too; needs --endpoint
    #[arg(long, requires = "endpoint")]
    people: bool,
    /// Its address as people reach it
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// It knows people by the same names as the host cluster: deploy/member-shared in place of deploy/member
    #[arg(long)]
    shared: bool,
    /// What may be granted of it is derived from its nodes: deploy/member-capacity, too
    #[arg(long)]
    capacity: bool,
    /// For how many days the controller's credentials are asked; the cluster may give less
    #[arg(long, default_value = TOKEN_DAYS, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// The namespace of the Secrets of member clusters in the host cluster
    #[arg(long, default_value = names::MEMBERS_NAMESPACE, value_name = "NAME")]
    members_namespace: String,
    #[command(flatten)]
    dry_run: DryRunFlag,
    /// Do not wait until it is Ready
    #[arg(long)]
    no_wait: bool,
    /// How long to wait
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = duration)]
    timeout: Duration,
}

impl Join {
    pub(crate) async fn run(&self, connection: &ConnectionFlags) -> Result<Outcome, Failure> {
        if let Some(why) = preflight::invalid_name(&self.cluster) {
            return Err(why.into());
        }
        let dry_run = self.dry_run.is_server_dry_run()?;
        let Clusters { host, member } = self.both.open(connection).await?;
        check_host(&host).await?;
        let previous = PreviousJoin::read(&host, &member, self).await?;
        let mut settings = JoinSettings::of(self, self.agent_config()?, &previous, &member.server())?;
        settings.print_notes(&member.server());
        let selection = ManifestSelection { shared: settings.shared, capacity: self.capacity };
        let mut objects = manifests::select(selection)?;
        if let Route::Tunnel(agents) = &settings.route {
            objects.extend(tunnel::agent_objects(&member, &self.cluster, agents).await?);
        }
        note(format_args!("1/5 checking {} at {}", self.cluster, member.server()));
        let uid = preflight::check(&host, &member, self, &settings, &objects).await?;
        let member_connection = settings.route.connection(&member, &self.cluster).await?;
        manifests::leave_changed_roles(&member, &mut objects).await?;
        if dry_run {
            print(format_args!(
                "cluster {} can be joined: {} objects would be applied there\n",
                self.cluster,
                objects.len()
            ))?;
            return Ok(Outcome::Done);
        }
        note(format_args!("2/5 applying {} objects there", objects.len()));
        manifests::apply(&member, &objects, settings.shared).await?;
        note("3/5 making the controller's credentials");
        let controller = Account::CONTROLLER.tokens(&member).create(self.days).await?;
        let signer = if settings.people {
            Some(Account::SIGNER.tokens(&member).create(self.days).await?)
        } else {
            None
        };
        self.note_shorter_lifetime("the cluster", &controller.expiry);
        if let Route::Tunnel(agents) = &settings.route {
            let tokens = tunnel::tokens(&host, &self.members_namespace, &self.cluster);
            let token = tokens.create(self.days).await?;
            let secret = tunnel::secret(&token, agents.authority.as_deref());
            member.apply(&tunnel::secret_path(), &secret).await?;
            self.note_shorter_lifetime("for the tunnel, the host cluster", &token.expiry);
            settings
                .annotations
                .insert(names::CLUSTER_AGENTS_END_ANNOTATION.to_owned(), json!(token.expiry.at));
        }
        let (name, namespace) = (&settings.secret_name, &self.members_namespace);
        note(format_args!("4/5 keeping them in the Secret {name} of {namespace}"));
        let mut data = self.kubeconfigs(&member_connection, &controller, signer.as_ref())?;
        if let Some(authority) = self.endpoint_authority(&member, &settings) {
            data.insert(names::CLUSTER_ENDPOINT_CA_KEY.to_owned(), json!(authority));
        }
        let kept = host.apply(&secret_path_of(namespace, name), &self.secret(&settings, &data)).await;
        kept.map_err(|failure| failure.with_advice_on(403, MEMBERS_ROLE))?;
        if self.no_wait {
            print(format_args!(
                "cluster {} joined; the controller registers it when it has answered\n",
                self.cluster
            ))?;
            return Ok(Outcome::Done);
        }
        note("5/5 waiting until it is registered and Ready");
        self.wait_until_ready(&host, &uid).await?;
        print(format_args!("cluster {} joined, and Ready\n", self.cluster))?;
        Ok(Outcome::Done)
    }

    fn agent_config(&self) -> Result<Option<AgentConfig>, Failure> {
        let Some(address) = self.tunnel.clone() else { return Ok(None) };
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path)
                .map_err(|error| Failure::Usage(format!("--tunnel-ca {}: {error}", path.display())))
        };
        let authority = self.tunnel_ca.as_ref().map(read).transpose()?;
        Ok(Some(AgentConfig { address, authority, image: self.tunnel_image.clone() }))
    }

    fn note_shorter_lifetime(&self, who: &str, expiry: &Expiry) {
        let Expiry { at, days } = expiry;
        if *days < i64::from(self.days) - 1 {
            note(format_args!(
                "{who} gave them for {days} days: renew them by `kubectl business rotate {}` before they end, at {at}",
                self.cluster
            ));
        }
    }

    /// The kubeconfigs of the accounts, as data of the cluster's Secret.
    fn kubeconfigs(
        &self,
        connection: &ClusterConnection,
        controller: &ServiceAccountToken,
        signer: Option<&ServiceAccountToken>,
    ) -> Result<Map<String, Value>, Failure> {
        let tokens = std::iter::once((Account::CONTROLLER, controller))
            .chain(signer.map(|signer| (Account::SIGNER, signer)));
        let mut data = Map::new();
        for (account, token) in tokens {
            let kubeconfig = connection.kubeconfig(&self.cluster, token)?;
            data.insert(account.key.to_owned(), json!(BASE64_STANDARD.encode(kubeconfig)));
        }
        Ok(data)
    }

    /// The certificate authorities of the endpoint, in base64: those of the kubeconfig if `--endpoint` is given, else
    /// those that are in the Secret already.
    fn endpoint_authority(&self, member: &Api, settings: &JoinSettings) -> Option<String> {
        if self.endpoint.is_some() {
            Some(BASE64_STANDARD.encode(credentials::authority_of(member)))
        } else {
            settings.endpoint_authority.clone()
        }
    }

    fn secret(&self, settings: &JoinSettings, data: &Map<String, Value>) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {
                "name": settings.secret_name, "namespace": self.members_namespace,
                "labels": {names::CLUSTER_LABEL: self.cluster}, "annotations": settings.annotations,
            },
            "data": data,
        })
    }

    async fn wait_until_ready(&self, host: &Api, uid: &str) -> Result<(), Failure> {
        let path = paths::object(names::MEMBER_CLUSTERS, &self.cluster);
        wait::until(&format!("cluster {} is Ready", self.cluster), self.timeout, async || {
            let Some(cluster) = host.find::<MemberCluster>(&path).await? else {
                return Ok(Progress::Pending("the controller has not registered it yet".to_owned()));
            };
            if !cluster.status.uid.is_empty() && cluster.status.uid != uid {
                return Err(Failure::Other(format!("{} stands for another cluster already", self.cluster)));
            }
            Ok(match condition::find(&cluster.status.conditions, READY) {
                Some(ready) if ready.is_true() => Progress::Done(()),
                Some(ready) => Progress::Pending(format!("{}: {}", ready.reason, ready.message)),
                None => Progress::Pending("the controller has not looked at it yet".to_owned()),
            })
        })
        .await
    }
}

/// Fails if the context leads to business-api itself, which has no Secrets: all of them would seem to be missing.
pub(crate) async fn check_host(host: &Api) -> Result<(), Failure> {
    match host.get::<Value>("/api/v1").await {
        Err(failure) if failure.is_not_found() => {
            let what = format!(
                "{} is no kube-apiserver: the credentials of member clusters are kept in the host cluster",
                host.server()
            );
            Err(Obstacle::new(what, "name the host cluster's context: --context").into())
        }
        Err(failure) if failure.is_forbidden() => Ok(()),
        answered => answered.map(drop),
    }
}

/// The Secret that `join` makes for a cluster.
fn secret_name(cluster: &str) -> String {
    format!("cluster-{cluster}")
}

/// The path of a Secret.
pub(crate) fn secret_path_of(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{}/secrets/{}", escape_segment(namespace), escape_segment(name))
}
