use super::*;
use crate::dial::Dialer;
use crate::fixtures::server::Server;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const NAME: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests/business-1";

fn cluster(uid: &str) -> Server {
    let server = Server::default();
    server.put("/api/v1/namespaces/kube-system", &json!({ "metadata": { "uid": uid } }));
    server
}

async fn ask(server: &Server) -> Result<String, IssueRefusal> {
    let request = IssueRequest {
        cluster: "c1".into(),
        user: "business:acme:alice".into(),
        request: "PEM".into(),
        expiration_seconds: 86_400,
        ..IssueRequest::default()
    };
    sign_with_client(&server.client(), "uid", &request, "1").await
}

/// Waits until the request is approved, and then sets this status.
async fn once_approved(server: &Server, status: Value) -> Value {
    loop {
        tokio::time::sleep(Duration::from_millis(5)).await;
        if let Some(found) = server.find(NAME)
            && found["status"]["conditions"][0]["type"] == "Approved"
        {
            server.edit(NAME, &json!({ "status": status }));
            return found;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_made_approved_taken_up_and_taken_away() {
    let server = cluster("uid");
    let signs = once_approved(&server, json!({ "certificate": STANDARD.encode("CERTIFICATE") }));
    let (issued, asked) = tokio::join!(ask(&server), signs);
    assert_eq!(issued.unwrap(), "CERTIFICATE");
    let spec = &asked["spec"];
    assert_eq!(
        (&spec["signerName"], &spec["usages"], &spec["expirationSeconds"]),
        (&json!(SIGNER), &json!(["client auth"]), &json!(86_400))
    );
    assert_eq!(spec["request"], STANDARD.encode("PEM"));
    assert!(server.list(REQUESTS).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_does_not_sign_says_why_and_keeps_nothing() {
    let server = cluster("uid");
    let denied = json!({ "conditions": [{ "type": "Denied", "status": "True", "message": "not you" }] });
    let (issued, _) = tokio::join!(ask(&server), once_approved(&server, denied));
    assert!(matches!(&issued, Err(IssueRefusal::CannotSign(why)) if why.contains("not you")), "{issued:?}");
    assert!(server.list(REQUESTS).is_empty());

    let never = ask(&server).await;
    assert!(
        matches!(&never, Err(IssueRefusal::CannotSign(why)) if why.contains("no controller")),
        "{never:?}"
    );
    assert!(server.list(REQUESTS).is_empty());

    server.refuse(REQUESTS);
    let refused = ask(&server).await;
    assert!(matches!(&refused, Err(IssueRefusal::CannotSign(why)) if why.contains("403")), "{refused:?}");
}

#[tokio::test]
async fn a_cluster_that_is_not_reached_may_be_the_next_time() {
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = Dialer::default().client(nowhere).unwrap();
    let outcome = sign_with_client(&client, "uid", &IssueRequest::default(), "1").await;
    assert!(
        matches!(&outcome, Err(IssueRefusal::Unavailable(why)) if why.contains("cannot be reached")),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn another_cluster_behind_the_name_is_asked_for_nothing() {
    let server = cluster("another");
    let outcome = ask(&server).await;
    assert!(
        matches!(&outcome, Err(IssueRefusal::CannotSign(why)) if why.contains("another cluster")),
        "{outcome:?}"
    );
    let calls = server.calls();
    assert!(calls.iter().all(|call| call.starts_with("GET ")), "{calls:?}");
}
