use crate::api::Api;
use crate::commands::join::credentials::{ServiceAccountToken, Tokens, bound_to};
use crate::commands::join::tunnel;
use crate::commands::member::text;
use crate::failure::Failure;
use crate::screen::note;
use crate::wait::{self, Progress};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::time::Duration;

/// Annotation of the agents' pods: the host cluster's Secret that their token is bound to.
const TOKEN_ANNOTATION: &str = "business.tkestack.io/token";

/// Advice if the agents' rollout has not finished.
const NOT_ROLLED_OUT: &str = "nothing is revoked, and the controller has its credentials as they were: `kubectl -n tke-business get \
                         pods` in the member says what the agents wait for; then call this again, with a longer --timeout if \
                         they were slow";

/// The tunnel's agents in the member cluster, and a new token for them.
pub(super) struct Agents<'a> {
    member: &'a Api,
    tokens: Tokens<'a>,
    /// The token before, in base64, as their Secret has it.
    before: String,
    pub(super) new: ServiceAccountToken,
}

impl<'a> Agents<'a> {
    /// Creates a token beside the present one. `None` if `join` has made no agents.
    pub(super) async fn with_new_token(
        member: &'a Api,
        tokens: Tokens<'a>,
        days: u32,
    ) -> Result<Option<Self>, Failure> {
        let Some(secret) = member.find::<Value>(&tunnel::secret_path()).await? else { return Ok(None) };
        let before = text(&secret, "/data/token").to_owned();
        let new = tokens.create(days).await?;
        Ok(Some(Self { member, tokens, before, new }))
    }

    /// Rolls out the new token. A new agent is Ready when a server of the tunnel has accepted its token, and only then
    /// an old agent is stopped. On failure the old token is written back.
    pub(super) async fn roll_out(&self, timeout: Duration) -> Result<(), Failure> {
        self.write_token(&BASE64_STANDARD.encode(&self.new.token)).await?;
        let rolled_out = self.restart(timeout).await;
        if rolled_out.is_err() {
            match self.write_token(&self.before).await {
                Ok(()) => note("the agents' old token is in their Secret again"),
                Err(why) => note(format_args!("the agents' new token stays in their Secret: {why}")),
            }
        }
        rolled_out.map_err(|failure| failure.with_advice_on_timeout(NOT_ROLLED_OUT))
    }

    async fn write_token(&self, token: &str) -> Result<(), Failure> {
        let body = json!({"data": {"token": token}});
        self.member.merge_patch(&tunnel::secret_path(), &body).await.map(drop)
    }

    async fn restart(&self, timeout: Duration) -> Result<(), Failure> {
        let path = tunnel::deployment_path();
        let annotations = json!({TOKEN_ANNOTATION: self.new.bound_to});
        let body = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
        self.member.merge_patch(&path, &body).await?;
        wait::until("the tunnel's agents use the new token", timeout, async || {
            Ok(rollout_progress(&self.member.get(&path).await?))
        })
        .await
    }

    /// Revokes the old tokens. Returns whether the agents' old token was among them.
    pub(super) async fn revoke_old(&self) -> Result<bool, Failure> {
        let revoked = self.tokens.revoke_before(&self.new).await?;
        if !revoked.is_empty() {
            note(tunnel::CONNECTIONS_LAST);
        }
        let before = BASE64_STANDARD.decode(&self.before).unwrap_or_default();
        let old = bound_to(&String::from_utf8_lossy(&before));
        Ok(old.is_some_and(|secret| revoked.contains(&secret)))
    }
}

/// The progress of a rollout, as `kubectl rollout status` defines it.
fn rollout_progress(deployment: &Value) -> Progress<()> {
    let number = |path: &str| deployment.pointer(path).and_then(Value::as_i64).unwrap_or_default();
    let wanted = number("/spec/replicas");
    let [updated, available, total] =
        ["updatedReplicas", "availableReplicas", "replicas"].map(|field| number(&format!("/status/{field}")));
    if number("/status/observedGeneration") < number("/metadata/generation") {
        return Progress::Pending("they have not begun anew yet".to_owned());
    }
    if (updated, available, total) == (wanted, wanted, wanted) {
        return Progress::Done(());
    }
    Progress::Pending(format!("{updated} of {wanted} are new, and {available} of {total} are available"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_have_begun_anew_when_all_are_new_and_available() {
        let deployment = |generation: i64, updated: i64, available: i64, total: i64| {
            let status = json!({
                "observedGeneration": generation, "updatedReplicas": updated, "availableReplicas": available,
                "replicas": total,
            });
            json!({"metadata": {"generation": 2}, "spec": {"replicas": 2}, "status": status})
        };
        let is_out = |deployment: Value| matches!(rollout_progress(&deployment), Progress::Done(()));
        assert!(is_out(deployment(2, 2, 2, 2)));
        assert!(!is_out(deployment(1, 2, 2, 2)), "nobody has looked at the change");
        assert!(!is_out(deployment(2, 1, 2, 2)), "one is of before");
        assert!(!is_out(deployment(2, 2, 2, 3)), "one of before has not gone");
        assert!(!is_out(deployment(2, 2, 1, 2)), "one is not Ready");
    }
}
