use crate::config::CheckInstallation;
use crate::serve;
use anyhow::{Context as _, Result, bail};
use http::Request;
use kube::Client;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const API_SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1.business.tkestack.io";
/// A list without a resource version is read from the database: an answer shows that the database answers, too.
const PROJECTS: &str = "/apis/business.tkestack.io/v1/projects?limit=1";
/// A call that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_secs(1);

/// Says that the installation works, or what still does not work at the end of the timeout.
pub async fn check(settings: &CheckInstallation) -> Result<String> {
    let client = serve::kubernetes_client(settings.kubeconfig.as_deref()).await?;
    let end = Instant::now() + settings.timeout;
    loop {
        match try_once(&client).await {
            Ok(()) => {
                return Ok(
                    "the APIService is Available, and business-api answers from its database".to_owned()
                );
            }
            Err(why) if Instant::now() + PAUSE < end => {
                tracing::info!("not yet: {why:#}");
                sleep(PAUSE).await;
            }
            Err(why) => return Err(why),
        }
    }
}

async fn try_once(client: &Client) -> Result<()> {
    let api_service = get(client, API_SERVICE).await.context("the APIService cannot be read")?;
    if let Some(why) = unavailable(&api_service) {
        bail!("the APIService is not Available: {why}");
    }
    get(client, PROJECTS).await.context("projects cannot be listed").map(drop)
}

/// Why the APIService is not available, if so. kube-apiserver then forwards no request.
fn unavailable(api_service: &Value) -> Option<String> {
    let conditions = api_service.pointer("/status/conditions").and_then(Value::as_array);
    let available = conditions.into_iter().flatten().find(|one| one.get("type") == Some(&"Available".into()));
    let Some(available) = available else { return Some("kube-apiserver has not looked at it".to_owned()) };
    let text = |field: &str| available.get(field).and_then(Value::as_str).unwrap_or_default();
    (text("status") != "True").then(|| format!("{}: {}", text("reason"), text("message")))
}

async fn get(client: &Client, path: &str) -> Result<Value> {
    let request = Request::get(path).body(Vec::new())?;
    timeout(DEADLINE, client.request(request))
        .await
        .context("no answer in time")?
        .context("kube-apiserver refuses")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_api_service_says_why_it_is_not_available() {
        let with = |status: &str| {
            let condition = json!({"type": "Available", "status": status, "reason": "MissingEndpoints", "message": "none"});
            unavailable(&json!({"status": {"conditions": [condition]}}))
        };
        assert_eq!(with("True"), None);
        assert_eq!(with("False").as_deref(), Some("MissingEndpoints: none"));
        assert!(unavailable(&json!({})).is_some());
    }
}
