use crate::api::Api;
use crate::failure::{Failure, whole};
use crate::oidc::UNKNOWN_AUTHORITY;
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use std::time::Duration;

/// What kube-apiserver answers of a caller; business-api does not serve it.
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
/// What business-api answers of a caller, in the same form.
const WHOAMI: &str = "/whoami";
/// How long the server may take: the login is written by then.
const WAIT: Duration = Duration::from_secs(10);
const AUTHORITY_HINT: &str = "; --certificate-authority names the authorities of the server";

/// What a server says of a token.
pub(super) enum Answer {
    /// Its name for whoever has it.
    Known(String),
    /// It is no good there.
    Unknown,
    /// The server could not be asked.
    Unasked(String),
}

/// Asks the server of a kubeconfig's cluster who somebody with this token is.
pub(super) async fn of(cluster: &Value, token: &str, within: Duration) -> Answer {
    match asked(cluster, token, within).await {
        Ok(Some(name)) => Answer::Known(name),
        Ok(None) => Answer::Unasked("it does not tell".to_owned()),
        Err(failure) if failure.is_anonymous() => Answer::Unknown,
        Err(failure) => {
            let why = failure.to_string();
            let advice = if why.contains(UNKNOWN_AUTHORITY) { AUTHORITY_HINT } else { "" };
            Answer::Unasked(format!("{why}{advice}"))
        }
    }
}

async fn asked(cluster: &Value, token: &str, within: Duration) -> Result<Option<String>, Failure> {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "c", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    });
    let unusable = |why: String| Failure::Kubeconfig(why);
    let config = Kubeconfig::from_yaml(&config.to_string()).map_err(|error| unusable(whole(&error)))?;
    let config = kubeconfig::config(&config, None).await.map_err(|error| unusable(whole(&error)))?;
    let within = if within.is_zero() { WAIT } else { within.min(WAIT) };
    let api = Api::new(config, String::new(), within)?.silent();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answered = match api.post(REVIEWS, &review).await {
        Err(failure) if failure.is_not_found() || failure.is_forbidden() && !failure.is_anonymous() => {
            api.get::<Value>(WHOAMI).await
        }
        answered => answered,
    };
    let answered = answered?;
    Ok(answered.pointer("/status/userInfo/username").and_then(Value::as_str).map(str::to_owned))
}
