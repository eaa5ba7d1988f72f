use crate::support::client::Client;
use crate::support::{World, tokens::Signer};
use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use serde_json::json;
use std::fmt::Write as _;

/// Every route of a resource with subresources, cluster-scoped and namespaced, and the server's own paths.
const ROUTES: [(&str, &str); 22] = [
    ("GET", "/apis/example.io/v1/racks"),
    ("GET", "/apis/example.io/v1/racks?watch=1"),
    ("POST", "/apis/example.io/v1/racks"),
    ("DELETE", "/apis/example.io/v1/racks"),
    ("GET", "/apis/example.io/v1/racks/a"),
    ("PUT", "/apis/example.io/v1/racks/a"),
    ("PATCH", "/apis/example.io/v1/racks/a"),
    ("DELETE", "/apis/example.io/v1/racks/a"),
    ("PUT", "/apis/example.io/v1/racks/a/status"),
    ("PUT", "/apis/example.io/v1/racks/a/finalize"),
    ("GET", "/apis/example.io/v1/widgets"),
    ("GET", "/apis/example.io/v1/namespaces/box/widgets"),
    ("POST", "/apis/example.io/v1/namespaces/box/widgets"),
    ("DELETE", "/apis/example.io/v1/namespaces/box/widgets/a"),
    ("PUT", "/apis/example.io/v1/namespaces/box/widgets/a/finalize"),
    ("GET", "/apis"),
    ("GET", "/apis/example.io/v1"),
    ("GET", "/openapi/v2"),
    ("GET", "/version"),
    ("GET", "/metrics"),
    ("GET", "/readyz"),
    ("GET", "/readyz/ping"),
];

/// The answer to each kind of caller at each route. A change of this file changes somebody's rights.
#[tokio::test]
async fn the_authorization_matrix_is_as_recorded() {
    let world = World::start().await;
    let viewer = |spec: &serde_json::Value| {
        let reads = ["get", "list", "watch"].map(|verb| json!(verb));
        spec["user"] == "operator"
            || (spec["user"] == "viewer" && reads.contains(&spec["resourceAttributes"]["verb"]))
    };
    world.kube.allow(viewer);
    let (proxy, nobody) = (world.aggregator(), world.client_ca.client("nobody", &[]));
    let (good, expired) = (
        format!("Bearer {}", world.signer.token(|_| {})),
        format!("Bearer {}", world.signer.token(|claims| claims["exp"] = json!(1))),
    );
    let member = format!("Bearer {}", world.signer.token(|claims| claims["groups"] = json!(["developers"])));
    let forged = format!("Bearer {}", Signer::new("key-1").token(|_| {}));
    let master = world.master();
    let callers = [
        ("master", Some(&master), vec![]),
        ("operator", Some(&proxy), vec![("x-remote-user", "operator")]),
        ("viewer", Some(&proxy), vec![("x-remote-user", "viewer")]),
        (
            "tenant",
            Some(&proxy),
            vec![
                ("x-remote-user", "t"),
                ("x-remote-group", "tenant-admins"),
                ("x-remote-extra-tenantid", "acme"),
            ],
        ),
        ("no-rights", Some(&nobody), vec![]),
        ("admin-jwt", None, vec![("authorization", good.as_str())]),
        ("member-jwt", None, vec![("authorization", member.as_str())]),
        ("expired", None, vec![("authorization", expired.as_str())]),
        ("forged-jwt", None, vec![("authorization", forged.as_str())]),
        ("forged-hdr", None, vec![("x-remote-user", "root"), ("x-remote-group", "system:masters")]),
        ("anonymous", None, vec![]),
    ];
    let mut matrix = format!("{:<68}", "");
    for (who, ..) in &callers {
        write!(matrix, " {who:<10}").unwrap();
    }
    for (method, path) in ROUTES {
        write!(matrix, "\n{method:<7}{path:<61}").unwrap();
        for (_, identity, headers) in &callers {
            let mut client = world.client(*identity).await;
            write!(matrix, " {:<10}", outcome(&mut client, method, path, headers).await).unwrap();
        }
    }
    let matrix: String = matrix.lines().flat_map(|line| [line.trim_end(), "\n"]).collect();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/output/authz_matrix.txt");
    if std::env::var_os("UPDATE_OUTPUT").is_some() {
        std::fs::write(file, &matrix).unwrap();
    }
    let recorded = std::fs::read_to_string(file).unwrap_or_default();
    assert!(
        matrix == recorded,
        "the matrix changed; look at it, then record it with UPDATE_OUTPUT=1:\n{matrix}"
    );
}

/// The caller's visibility if the handler is reached, else the code.
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails where this does")]
async fn outcome(client: &mut Client, method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = client.start(request.body(Body::empty()).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    if path.contains("watch") || !path.contains("/v1/") || code != 200 {
        return code.to_string();
    }
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    match body["sees"].as_str().unwrap() {
        "Everything" => "all".to_owned(),
        "Nothing" => "none".to_owned(),
        tenant => tenant.to_owned(),
    }
}
