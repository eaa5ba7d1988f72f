use super::member::{self, Both, BothClusters, text};
use crate::api::Api;
use crate::connection::{ConnectionFlags, duration};
use crate::dry_run::DryRunFlag;
use crate::failure::{Failure, Obstacle, Outcome};
use crate::objects::MemberCluster;
use crate::paths::{self, segment};
use crate::screen::{note, print};
use crate::wait::{self, Look};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use business_types::condition::{self, READY};
use business_types::names;
use clap::Args;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// The objects that are applied in the member cluster.
mod manifests;
/// Checks before anything is written.
mod preflight;
/// The controller's credentials.
pub(crate) mod credentials;
/// Clusters that only dial out.
pub(crate) mod tunnel;
/// The credentials as they are kept.
pub(crate) mod kubeconfig;
/// The terms of an earlier call that this one does not name.
pub(crate) mod terms;

use credentials::{Account, Ended};
use manifests::Choice;
use terms::{Before, Terms, Way};
use tunnel::{Dialling, Entrance};

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
/// What to do where a Secret of member clusters is refused: the `ClusterRole` of operators does not hold them.
pub(crate) const MEMBERS_ROLE: &str = "have the Role business-operator of the members' namespace bound to you, too: \
                                       docs/install.md, step 4; where that namespace is another one, name it: --members-namespace";
/// A year.
pub(crate) const TOKEN_DAYS: &str = "365";

/// Join a cluster: check it, apply what the controller needs there, make its credentials, and wait until it is Ready (operators)
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Join {
    /// What it is to be called
    cluster: String,
    #[command(flatten)]
    both: BothClusters,
    /// Its name for people
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,
    /// Tenants that may use it, with commas between; if it is left out, those of before, and all at the first time
    #[arg(long, value_name = "TENANTS")]
    tenants: Option<String>,
    /// Its address as the controller reaches it; else that of before, and that of the kubeconfig at the first time
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// It cannot be reached from the controller: an agent in it dials the tunnel here (deploy/components/tunnel)
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "server")]
    tunnel: Option<Entrance>,
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
        if let Some(why) = preflight::unfit(&self.cluster) {
            return Err(why.into());
        }
        let dry_run = self.dry_run.asks_server()?;
        let Both { host, member } = self.both.open(connection).await?;
        check_host(&host).await?;
        let before = Before::read(&host, &member, self).await?;
        let mut terms = Terms::of(self, self.dialling()?, &before, &member.server())?;
        terms.tell(&member.server());
        let choice = Choice { shared: terms.shared, capacity: self.capacity };
        let mut objects = manifests::chosen(choice)?;
        if let Way::Tunnel(dialling) = &terms.way {
            objects.extend(tunnel::agent(&member, &self.cluster, dialling).await?);
        }
        note(format_args!("1/5 checking {} at {}", self.cluster, member.server()));
        let uid = preflight::check(&host, &member, self, &terms, &objects).await?;
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
        manifests::apply(&member, &objects, terms.shared).await?;
        note("3/5 making the controller's credentials");
        let controller = Account::CONTROLLER.tokens(&member).made(self.days).await?;
        let signer =
            if terms.people { Some(Account::SIGNER.tokens(&member).made(self.days).await?) } else { None };
        self.tell("the cluster", &controller.ends);
        if let Way::Tunnel(dialling) = &terms.way {
            let tokens = tunnel::tokens(&host, &self.members_namespace, &self.cluster);
            let token = tokens.made(self.days).await?;
            let secret = tunnel::secret(&token, dialling.authority.as_deref());
            member.apply(&tunnel::secret_path(), &secret).await?;
            self.tell("for the tunnel, the host cluster", &token.ends);
            terms.annotations.insert(names::CLUSTER_AGENTS_END_ANNOTATION.to_owned(), json!(token.ends.at));
        }
        let reach = terms.way.reach(&member, &self.cluster).await?;
        let (name, namespace) = (&terms.secret_name, &self.members_namespace);
        note(format_args!("4/5 keeping them in the Secret {name} of {namespace}"));
        let encoded = |text: &str| BASE64_STANDARD.encode(text);
        let mut data = Map::new();
        let mut keep = |key: &str, encoded: String| data.insert(key.to_owned(), json!(encoded));
        keep(Account::CONTROLLER.key, encoded(&reach.kubeconfig(&self.cluster, &controller)?));
        if let Some(signer) = &signer {
            keep(Account::SIGNER.key, encoded(&reach.kubeconfig(&self.cluster, signer)?));
        }
        if self.endpoint.is_some() {
            keep(names::CLUSTER_ENDPOINT_CA_KEY, encoded(&credentials::authority_of(&member)));
        } else if let Some(authority) = &terms.endpoint_authority {
            keep(names::CLUSTER_ENDPOINT_CA_KEY, authority.clone());
        }
        let kept = host.apply(&secret_path_of(namespace, name), &self.secret(&terms, &data)).await;
        kept.map_err(|failure| failure.advised(403, MEMBERS_ROLE))?;
        if self.no_wait {
            print(format_args!(
                "cluster {} joined; the controller registers it when it has answered\n",
                self.cluster
            ))?;
            return Ok(Outcome::Done);
        }
        note("5/5 waiting until it is registered and Ready");
        self.ready(&host, &uid).await?;
        print(format_args!("cluster {} joined, and Ready\n", self.cluster))?;
        Ok(Outcome::Done)
    }

    fn dialling(&self) -> Result<Option<Dialling>, Failure> {
        let Some(entrance) = self.tunnel.clone() else { return Ok(None) };
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path)
                .map_err(|error| Failure::Usage(format!("--tunnel-ca {}: {error}", path.display())))
        };
        let authority = self.tunnel_ca.as_ref().map(read).transpose()?;
        Ok(Some(Dialling { entrance, authority, image: self.tunnel_image.clone() }))
    }

    fn tell(&self, who: &str, ends: &Ended) {
        let Ended { at, days } = ends;
        if *days < i64::from(self.days) - 1 {
            note(format_args!(
                "{who} gave them for {days} days: renew them by `kubectl business rotate {}` before they end, at {at}",
                self.cluster
            ));
        }
    }

    fn secret(&self, terms: &Terms, data: &Map<String, Value>) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {
                "name": terms.secret_name, "namespace": self.members_namespace,
                "labels": {names::CLUSTER_LABEL: self.cluster}, "annotations": terms.annotations,
            },
            "data": data,
        })
    }

    async fn ready(&self, host: &Api, uid: &str) -> Result<(), Failure> {
        let path = paths::named(names::MEMBER_CLUSTERS, &self.cluster);
        wait::until(&format!("cluster {} is Ready", self.cluster), self.timeout, async || {
            let Some(cluster) = host.find::<MemberCluster>(&path).await? else {
                return Ok(Look::NotYet("the controller has not registered it yet".to_owned()));
            };
            if !cluster.status.uid.is_empty() && cluster.status.uid != uid {
                return Err(Failure::Stopped(format!("{} stands for another cluster already", self.cluster)));
            }
            Ok(match condition::find(&cluster.status.conditions, READY) {
                Some(ready) if ready.is_true() => Look::Yes(()),
                Some(ready) => Look::NotYet(format!("{}: {}", ready.reason, ready.message)),
                None => Look::NotYet("the controller has not looked at it yet".to_owned()),
            })
        })
        .await
    }
}

/// Fails where the context leads to business-api itself, which has no Secrets: all of them would seem to be gone.
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

/// Where a Secret of the members' namespace is.
pub(crate) fn secret_path_of(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{}/secrets/{}", segment(namespace), segment(name))
}
