//! Has a certificate signed by the cluster: creates and approves a CertificateSigningRequest, and deletes it whatever
//! the outcome is. Another cluster under the same name gets no write.

use super::IssueRefusal;
use super::clusters::IssuingCluster;
use crate::error::{CallFailure, chain};
use business_types::issue::IssueRequest;
use http::{Method, Request};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use runtime::Backoff;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// The signer of client certificates.
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// The reason of our approval.
const APPROVED: &str = "BusinessMember";
/// The deadline of everything except the deletion of the request.
const DEADLINE: Duration = Duration::from_secs(15);
/// The deadline of the deletion.
const REMOVAL_DEADLINE: Duration = Duration::from_secs(5);
/// The backoff between two checks for the certificate.
const POLL_MIN: Duration = Duration::from_millis(50);
const POLL_MAX: Duration = Duration::from_secs(1);

/// Has a request signed in its cluster. Returns the certificate in PEM.
pub async fn sign(cluster: IssuingCluster, request: &IssueRequest, id: &str) -> Result<String, IssueRefusal> {
    let IssuingCluster { signer, dialer, uid, .. } = cluster;
    let client = dialer.client(signer).map_err(|error| IssueRefusal::Unavailable(error.text()))?;
    sign_with_client(&client, &uid, request, id).await
}

/// Has a request signed by the cluster of this client.
pub async fn sign_with_client(
    client: &Client,
    uid: &str,
    request: &IssueRequest,
    id: &str,
) -> Result<String, IssueRefusal> {
    let cluster = &request.cluster;
    let name = format!("business-{id}");
    let api: Api<CertificateSigningRequest> = Api::all(client.clone());
    let end = Instant::now() + DEADLINE;
    let timed_out = |_elapsed| {
        IssueRefusal::TimedOut(format!("cluster {cluster} did not answer within {} s", DEADLINE.as_secs()))
    };
    let verified = tokio::time::timeout_at(end, verify_cluster(client, uid, cluster)).await;
    verified.map_err(timed_out)??;
    let work = async {
        let made = api.create(&PostParams::default(), &signing_request(&name, request)).await;
        approve(client, &made.map_err(|error| refusal_of(cluster, &error))?, request).await?;
        wait_for_certificate(&api, &name, cluster).await
    };
    let outcome = tokio::time::timeout_at(end, work).await;
    let how = DeleteParams::default();
    let removal = api.delete(&name, &how);
    match tokio::time::timeout(REMOVAL_DEADLINE, removal).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            let failure = CallFailure::from(error);
            if failure != CallFailure::NotFound {
                tracing::warn!(cluster, name, error = %failure, "a request stays in its cluster");
            }
        }
        Err(_elapsed) => tracing::warn!(cluster, name, "a request stays in its cluster: no answer"),
    }
    outcome.map_err(timed_out)?
}

/// Checks that the client leads to this cluster. Another one under its name signs nothing.
async fn verify_cluster(client: &Client, uid: &str, cluster: &str) -> Result<(), IssueRefusal> {
    let api: Api<Namespace> = Api::all(client.clone());
    let found = api.get("kube-system").await.map_err(|error| refusal_of(cluster, &error))?;
    if found.metadata.uid.as_deref() == Some(uid) {
        return Ok(());
    }
    Err(IssueRefusal::CannotSign(format!("cluster {cluster}: another cluster answers in its place")))
}

fn signing_request(name: &str, request: &IssueRequest) -> CertificateSigningRequest {
    let seconds = i32::try_from(request.expiration_seconds).unwrap_or(i32::MAX);
    CertificateSigningRequest {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        spec: CertificateSigningRequestSpec {
            request: ByteString(request.request.clone().into_bytes()),
            signer_name: SIGNER.to_owned(),
            expiration_seconds: Some(seconds),
            usages: Some(vec!["client auth".to_owned()]),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    }
}

async fn approve(
    client: &Client,
    made: &CertificateSigningRequest,
    request: &IssueRequest,
) -> Result<(), IssueRefusal> {
    let cluster = &request.cluster;
    let wrong = |error: &dyn std::fmt::Display| IssueRefusal::Unavailable(error.to_string());
    let mut body = serde_json::to_value(made).map_err(|error| wrong(&error))?;
    let message = format!("{} may use namespace {}/{}", request.user, request.project, request.name);
    let condition = json!({ "type": "Approved", "status": "True", "reason": APPROVED, "message": message });
    if let Some(fields) = body.as_object_mut() {
        fields.insert("status".to_owned(), json!({ "conditions": [condition] }));
    }
    let name = made.metadata.name.as_deref().unwrap_or_default();
    let call = Request::builder()
        .method(Method::PUT)
        .uri(format!("/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}/approval"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.to_string().into_bytes())
        .map_err(|error| wrong(&error))?;
    let approved = client.request::<CertificateSigningRequest>(call).await;
    approved.map(drop).map_err(|error| refusal_of(cluster, &error))
}

/// Waits for the certificate, for half of the deadline.
async fn wait_for_certificate(
    api: &Api<CertificateSigningRequest>,
    name: &str,
    cluster: &str,
) -> Result<String, IssueRefusal> {
    let end = Instant::now() + DEADLINE / 2;
    let mut backoff = Backoff::new(POLL_MIN, POLL_MAX);
    loop {
        let seen = api.get(name).await.map_err(|error| refusal_of(cluster, &error))?;
        let status = seen.status.unwrap_or_default();
        if let Some(ByteString(certificate)) = status.certificate {
            return String::from_utf8(certificate).map_err(|error| {
                IssueRefusal::CannotSign(format!("cluster {cluster} has signed what is no PEM: {error}"))
            });
        }
        let ended = status.conditions.unwrap_or_default();
        if let Some(end) =
            ended.into_iter().find(|condition| matches!(condition.type_.as_str(), "Denied" | "Failed"))
        {
            let why = end.message.or(end.reason).unwrap_or_default();
            return Err(IssueRefusal::CannotSign(format!(
                "cluster {cluster} has not signed it: {}: {why}",
                end.type_
            )));
        }
        if Instant::now() > end {
            return Err(IssueRefusal::CannotSign(format!(
                "cluster {cluster} signs nothing: the request was approved, and no controller of the signer {SIGNER} has \
                 issued a certificate within {} s",
                (DEADLINE / 2).as_secs()
            )));
        }
        backoff.wait().await;
    }
}

/// What a failed call to the cluster means for the caller.
fn refusal_of(cluster: &str, error: &kube::Error) -> IssueRefusal {
    match error {
        kube::Error::Api(status) if status.code == 429 || status.code >= 500 => {
            IssueRefusal::Unavailable(format!("cluster {cluster}: {} {}", status.code, status.message))
        }
        kube::Error::Api(status) => IssueRefusal::CannotSign(format!(
            "cluster {cluster} refuses with {}: {}",
            status.code, status.message
        )),
        // Nothing was answered by the cluster, which may be reached the next time.
        other => IssueRefusal::Unavailable(format!("cluster {cluster} cannot be reached: {}", chain(other))),
    }
}

#[cfg(test)]
mod tests;
