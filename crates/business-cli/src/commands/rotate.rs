use super::join::credentials::{Account, ServiceAccountToken, bound_to};
use super::join::kubeconfig::{in_secret, is_tunnelled, token_of, with_token};
use super::join::{self, MEMBERS_ROLE, TOKEN_DAYS, secret_path_of, settings, tunnel};
use super::member::{self, ClusterFlags, Clusters, text};
use crate::api::Api;
use crate::connection::{ConnectionFlags, duration};
use crate::failure::{Failure, Outcome};
use crate::objects::MemberCluster;
use crate::paths;
use crate::screen::{note, print};
use crate::wait::{self, Progress};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use business_types::condition::{self, CREDENTIALS_VALID, reason};
use business_types::names;
use clap::Args;
use kube::config::AuthInfo;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// The tunnel's agents.
mod agents;

use agents::Agents;

const EXAMPLES: &str = "\
Examples:
  kubectl business rotate east --kubeconfig east-admin.kubeconfig
  kubectl business rotate east --kubeconfig east-admin.kubeconfig --days 90
  kubectl business rotate east --kubeconfig east-admin.kubeconfig --keep-old     revoke nothing yet

Here --kubeconfig is the member cluster's, of somebody who rules it; it is used for this call alone and kept nowhere. The new
credentials are tried beside the old ones, which are revoked when the new ones are in use. Of a cluster that only dials out, so is
the token of the tunnel's agents. It can be interrupted at any step and called again.";

/// Advice if the cluster's Secret does not exist.
const NO_SECRET: &str = "the chart's members.namespace may be another one: name it by --members-namespace; where the Secret is \
                         gone, `kubectl business join` makes it anew";

/// Advice if the controller does not use the new credentials.
const ROLLED_BACK: &str = "the controller goes on with the old ones: `kubectl business describe cluster NAME` and its log say why \
                          it has not taken the new ones; then call this again, with a longer --timeout if it was slow";
const NOT_ROLLED_BACK: &str = "the new ones stay in the Secret, and the old ones are good, too: call this again when the Secret \
                              can be written";
/// Advice if the old credentials stay valid for too long.
const NOT_REFUSED: &str = "the controller has the new ones: call this again, and it revokes what is left; a cluster may take a \
                           moment to notice that a token's Secret is gone: give it longer with --timeout";

/// What every account of the controller may read in a member cluster.
const KUBE_SYSTEM: &str = "/api/v1/namespaces/kube-system";

/// Renew the controller's credentials of a cluster without a gap, and revoke the old ones (operators)
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Rotate {
    /// The cluster
    cluster: String,
    #[command(flatten)]
    both: ClusterFlags,
    /// For how many days they are asked; the cluster may give less
    #[arg(long, default_value = TOKEN_DAYS, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// Do not revoke the old ones
    #[arg(long)]
    keep_old: bool,
    /// The namespace of the Secrets of member clusters in the host cluster
    #[arg(long, default_value = names::MEMBERS_NAMESPACE, value_name = "NAME")]
    members_namespace: String,
    /// How long to wait until they are in use, and until the old ones are refused
    #[arg(long, default_value = "2m", value_name = "TIME", value_parser = duration)]
    timeout: Duration,
}

/// A kubeconfig in the cluster's Secret, and the credential that replaces its token.
struct RenewedCredential {
    account: Account,
    /// The kubeconfig before.
    before: String,
    old_token: Option<String>,
    new: ServiceAccountToken,
}

impl Rotate {
    pub(crate) async fn run(&self, connection: &ConnectionFlags) -> Result<Outcome, Failure> {
        let Clusters { host, member } = self.both.open(connection).await?;
        join::check_host(&host).await?;
        note(format_args!("1/5 checking {} at {}", self.cluster, member.server()));
        let path = self.secret_path(&host, &member).await?;
        let secret = cluster_secret(&host, &path).await?;
        let controller_kubeconfig = kubeconfig_of(&secret, Account::CONTROLLER)?;
        let controller_kubeconfig =
            controller_kubeconfig.ok_or_else(|| Failure::Other(format!("{path} has no kubeconfig")))?;
        let signer_kubeconfig = kubeconfig_of(&secret, Account::SIGNER)?;
        note("2/5 making new credentials there, beside the old ones");
        let controller =
            RenewedCredential::of(Account::CONTROLLER, controller_kubeconfig, &member, self.days).await?;
        let signer = match signer_kubeconfig {
            Some(before) => Some(RenewedCredential::of(Account::SIGNER, before, &member, self.days).await?),
            None => None,
        };
        let renewed: Vec<&RenewedCredential> = std::iter::once(&controller).chain(&signer).collect();
        let agents =
            if is_tunnelled(&controller.before)? { self.agents(&host, &member).await? } else { None };
        let mut are_refused = true;
        // The controller connects through the agents: with an expired token they do not run, and with a stolen one
        // somebody may impersonate them.
        if let Some(agents) = &agents {
            note("2/5 waiting until the tunnel's agents use theirs");
            agents.roll_out(self.timeout).await?;
            if !self.keep_old {
                are_refused = agents.revoke_old().await?;
            }
        }
        note(format_args!("3/5 keeping them in {path}"));
        let mut data = Map::new();
        for one in &renewed {
            data.insert(one.account.key.to_owned(), json!(BASE64_STANDARD.encode(one.kubeconfig()?)));
        }
        let mut annotations = Map::new();
        if let Some(agents) = &agents {
            annotations.insert(names::CLUSTER_AGENTS_END_ANNOTATION.to_owned(), json!(agents.new.expiry.at));
        }
        let written = host.merge_patch(&path, &patch(&secret, &annotations, &data)).await;
        let written = written.map_err(|failure| failure.with_advice_on(403, MEMBERS_ROLE))?;
        note("4/5 waiting until the controller uses them");
        if let Err(failure) = self.wait_until_in_use(&host, &fingerprint(&controller.new.token)).await {
            let advice = roll_back(&host, &path, &written, &renewed).await;
            return Err(failure.with_advice_on_timeout(advice));
        }
        let expiry =
            agents.iter().map(|agents| &agents.new.expiry.at).fold(&controller.new.expiry.at, Ord::min);
        if self.keep_old {
            print(format_args!(
                "cluster {} has new credentials, until {expiry}; the old ones are good, too, until they end\n",
                self.cluster
            ))?;
            return Ok(Outcome::Done);
        }
        note("5/5 revoking the old ones");
        for one in &renewed {
            are_refused &= self.revoke_old(&member, one).await?;
        }
        let old = if are_refused {
            "the old ones are refused"
        } else {
            "the old ones are not of join or rotate: who made them has to take them back"
        };
        print(format_args!("cluster {} has new credentials, until {expiry}; {old}\n", self.cluster))?;
        Ok(Outcome::Done)
    }

    async fn agents<'a>(&'a self, host: &'a Api, member: &'a Api) -> Result<Option<Agents<'a>>, Failure> {
        note("2/5 making a new token of the tunnel's agents in the host cluster");
        let tokens = tunnel::tokens(host, &self.members_namespace, &self.cluster);
        let agents = Agents::with_new_token(member, tokens, self.days).await?;
        if agents.is_none() {
            note("the tunnel's agents are not of join: who made them has to renew their token");
        }
        Ok(agents)
    }

    /// The path of the cluster's Secret, after checking that the member's kubeconfig leads to that cluster.
    async fn secret_path(&self, host: &Api, member: &Api) -> Result<String, Failure> {
        let cluster = member::verified_record(host, member, &self.cluster).await?;
        Ok(secret_path_of(&self.members_namespace, &settings::secret_name(&self.cluster, Some(&cluster))))
    }

    async fn wait_until_in_use(&self, host: &Api, fingerprint: &str) -> Result<(), Failure> {
        let path = paths::object(names::MEMBER_CLUSTERS, &self.cluster);
        wait::until("the new credentials are in use", self.timeout, async || {
            let cluster: MemberCluster = host.get(&path).await?;
            let valid = condition::find(&cluster.status.conditions, CREDENTIALS_VALID);
            Ok(match (&cluster.status.credential, valid) {
                (Some(used), _) if used.fingerprint == fingerprint => Progress::Done(()),
                (_, Some(condition)) if condition.reason == reason::CREDENTIALS_REFUSED => {
                    Progress::Pending(condition.message.clone())
                }
                (Some(used), _) => Progress::Pending(format!("it uses others since {}", used.since)),
                (None, _) => Progress::Pending("the controller does not say what it uses".to_owned()),
            })
        })
        .await
    }

    /// Revokes the old tokens of the account. Returns whether the one that was in use is refused; one that `join` and
    /// `rotate` have not made is only tried.
    async fn revoke_old(&self, member: &Api, one: &RenewedCredential) -> Result<bool, Failure> {
        let revoked = one.account.tokens(member).revoke_before(&one.new).await?;
        let Some(token) = &one.old_token else { return Ok(false) };
        let old = self.with_old_token(member, token).await?;
        if bound_to(token).is_some_and(|secret| revoked.contains(&secret)) {
            self.wait_until_refused(&old).await?;
            return Ok(true);
        }
        // It may have ended, or somebody has revoked it before: then nobody has to take it back.
        Ok(matches!(old.get::<Value>(KUBE_SYSTEM).await, Err(failure) if failure.is_unauthenticated()))
    }

    /// A client of the member cluster with an old token.
    async fn with_old_token(&self, member: &Api, token: &str) -> Result<Api, Failure> {
        let mut config = member.config.clone();
        config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
        Api::new(config, String::new(), self.timeout).await
    }

    async fn wait_until_refused(&self, old: &Api) -> Result<(), Failure> {
        wait::until("the old credentials are refused", self.timeout, async || {
            match old.get::<Value>(KUBE_SYSTEM).await {
                Err(Failure::Refused(status)) if status.code == 401 => Ok(Progress::Done(())),
                Ok(_) => Ok(Progress::Pending("they still open the cluster".to_owned())),
                Err(failure) => Err(failure),
            }
        })
        .await
        .map_err(|failure| failure.with_advice_on_timeout(NOT_REFUSED))
    }
}

impl RenewedCredential {
    /// Creates a new token of the account.
    async fn of(account: Account, before: String, member: &Api, days: u32) -> Result<Self, Failure> {
        let old_token = token_of(&before)?;
        let new = account.tokens(member).create(days).await?;
        Ok(Self { account, before, old_token, new })
    }

    /// The kubeconfig with the new token.
    fn kubeconfig(&self) -> Result<String, Failure> {
        with_token(&self.before, &self.new.token)
    }
}

/// Gets the cluster's Secret in the host cluster.
async fn cluster_secret(host: &Api, path: &str) -> Result<Value, Failure> {
    let found = host.get(path).await;
    found.map_err(|failure| failure.with_advice_on(403, MEMBERS_ROLE).with_advice_on(404, NO_SECRET))
}

/// Writes the old credentials back if the new ones are not used: a controller that restarts would read the new ones.
/// Returns the advice on what to do next.
async fn roll_back(host: &Api, path: &str, written: &Value, renewed: &[&RenewedCredential]) -> &'static str {
    let before =
        renewed.iter().map(|one| (one.account.key.to_owned(), json!(BASE64_STANDARD.encode(&one.before))));
    match host.merge_patch(path, &patch(written, &Map::new(), &before.collect())).await {
        Ok(_) => {
            note("the old credentials are in the Secret again");
            ROLLED_BACK
        }
        Err(why) => {
            note(format_args!("the new credentials stay in {path}: {why}"));
            NOT_ROLLED_BACK
        }
    }
}

/// The kubeconfig of an account. Fails if its token cannot be replaced, before a new token is created.
fn kubeconfig_of(secret: &Value, account: Account) -> Result<Option<String>, Failure> {
    let found = in_secret(secret, account.key)?;
    if let Some(kubeconfig) = &found {
        with_token(kubeconfig, "")?;
    }
    Ok(found)
}

/// A patch that fails if the Secret has changed since it was read.
fn patch(read: &Value, annotations: &Map<String, Value>, data: &Map<String, Value>) -> Value {
    let revision = text(read, "/metadata/resourceVersion");
    json!({"metadata": {"resourceVersion": revision, "annotations": annotations}, "data": data})
}

/// The fingerprint as the controller reports it.
fn fingerprint(token: &str) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(token)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_told_by_its_digest() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(fingerprint(""), empty);
    }
}
