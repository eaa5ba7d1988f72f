use crate::api::Api;
use crate::failure::{Failure, error_chain};
use crate::oidc::UNKNOWN_AUTHORITY;
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use std::time::Duration;

/// kube-apiserver's resource; business-api does not serve it.
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
/// business-api's path, with the same response.
const WHOAMI: &str = "/whoami";
/// The longest timeout: the login has succeeded already.
const TIMEOUT_MAX: Duration = Duration::from_secs(10);
const AUTHORITY_HINT: &str = "; --certificate-authority names the authorities of the server";

/// Who the server says the user of a token is.
pub(super) enum Whoami {
    /// The user name.
    Known(String),
    /// The server rejects the token.
    Rejected,
    /// The server did not answer, and why.
    Unavailable(String),
}

/// Asks the server of a kubeconfig's cluster for the user of a token.
pub(super) async fn ask(cluster: &Value, token: &str, timeout: Duration) -> Whoami {
    match user_name(cluster, token, timeout).await {
        Ok(Some(name)) => Whoami::Known(name),
        Ok(None) => Whoami::Unavailable("it does not tell".to_owned()),
        Err(failure) if failure.is_unauthenticated() => Whoami::Rejected,
        Err(failure) => {
            let why = failure.to_string();
            let advice = if why.contains(UNKNOWN_AUTHORITY) { AUTHORITY_HINT } else { "" };
            Whoami::Unavailable(format!("{why}{advice}"))
        }
    }
}

async fn user_name(cluster: &Value, token: &str, timeout: Duration) -> Result<Option<String>, Failure> {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "c", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    });
    let unusable = |why: String| Failure::Kubeconfig(why);
    let config = Kubeconfig::from_yaml(&config.to_string()).map_err(|error| unusable(error_chain(&error)))?;
    let config = kubeconfig::config(&config, None).await.map_err(|error| unusable(error_chain(&error)))?;
    let timeout = if timeout.is_zero() { TIMEOUT_MAX } else { timeout.min(TIMEOUT_MAX) };
    let api = Api::new(config, String::new(), timeout).await?.without_warnings();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answered = match api.post(REVIEWS, &review).await {
        Err(failure) if failure.is_not_found() || failure.is_forbidden() && !failure.is_unauthenticated() => {
            api.get::<Value>(WHOAMI).await
        }
        answered => answered,
    };
    let answered = answered?;
    Ok(answered.pointer("/status/userInfo/username").and_then(Value::as_str).map(str::to_owned))
}
