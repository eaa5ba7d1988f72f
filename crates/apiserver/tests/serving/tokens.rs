use crate::support::tokens::{Signer, claims, now, unsigned};
use crate::support::{AUDIENCE, World, until};
use apiserver::authn::fetch::IssuerAuthorities;
use apiserver::authn::issuers::{IssuerSettings, JwtSettings};
use apiserver::authn::jwks::KeySource;
use axum::routing::get;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

async fn code(world: &World, token: &str) -> u16 {
    world.get(None, &[("authorization", &format!("Bearer {token}"))]).await.code
}

#[tokio::test]
async fn a_good_token_names_user_tenant_and_groups_but_no_group_of_the_system() {
    let world = World::start().await;
    let token = world.signer.token(|_| {});
    let answer = world.get(None, &[("authorization", &format!("Bearer {token}"))]).await;
    assert_eq!(answer.user(), "alice");
    let json = answer.json();
    assert_eq!(json["groups"], json!(["tenant-admins", "system:authenticated"]));
    assert_eq!((&json["tenant"], &json["sees"]), (&json!("acme"), &json!("acme")));
    assert!(!answer.text.contains("authorization"), "the token went on to the handler");
    assert!(
        world.kube.access_reviews.lock().unwrap().is_empty(),
        "kube-apiserver knows nothing of these users"
    );
}

#[tokio::test]
async fn a_token_that_does_not_hold_is_401() {
    let world = World::start().await;
    let good = world.signer.token(|_| {});
    let edit = |change: fn(&mut Value)| world.signer.token(change);
    let stranger = Signer::new("key-1");
    let mut tampered = good.clone();
    tampered.replace_range(good.find('.').unwrap() + 5..good.find('.').unwrap() + 6, "X");
    let none = format!("{}.", unsigned(&json!({"alg": "none", "typ": "JWT"}), &claims()));
    let symmetric = {
        let message = unsigned(&json!({"alg": "HS256", "kid": "secret"}), &claims());
        format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode([7_u8; 32]))
    };
    for (what, token) in [
        ("expired", edit(|claims| claims["exp"] = json!(now() - 1))),
        ("without an end", edit(|claims| drop(claims.as_object_mut().unwrap().remove("exp")))),
        ("not valid yet", edit(|claims| claims["nbf"] = json!(now() + 600))),
        ("for another audience", edit(|claims| claims["aud"] = json!("elsewhere"))),
        ("without an audience", edit(|claims| drop(claims.as_object_mut().unwrap().remove("aud")))),
        ("of another issuer", edit(|claims| claims["iss"] = json!("https://evil.example.io"))),
        ("without a tenant", edit(|claims| drop(claims.as_object_mut().unwrap().remove("tenantid")))),
        ("with an empty tenant", edit(|claims| claims["tenantid"] = json!(""))),
        ("without a user", edit(|claims| drop(claims.as_object_mut().unwrap().remove("sub")))),
        ("of a user of the system", edit(|claims| claims["sub"] = json!("system:kube-controller-manager"))),
        ("signed by a stranger with a known key id", stranger.token(|_| {})),
        ("tampered with", tampered),
        ("unsigned", none),
        ("with a symmetric signature", symmetric),
        ("no token at all", "abc".to_owned()),
        ("too long", "a".repeat(20_000)),
    ] {
        assert_eq!(code(&world, &token).await, 401, "a token {what}");
    }
    assert_eq!(code(&world, &good).await, 200);
}

#[tokio::test]
async fn a_token_ends_while_it_is_remembered() {
    let world = World::start().await;
    let token = world.signer.token(|claims| claims["exp"] = json!(now() + 5));
    assert_eq!(code(&world, &token).await, 200);
    until("the token ends", async || code(&world, &token).await == 401).await;
}

#[tokio::test]
async fn keys_are_rotated_without_a_restart_and_old_tokens_end_with_their_key() {
    let world = World::start().await;
    let old = world.signer.token(|_| {});
    assert_eq!(code(&world, &old).await, 200);
    let next = Signer::new("key-2");
    std::fs::write(world.dir.join("jwks.json"), next.key_set()).unwrap();
    let new = next.token(|_| {});
    until("the new key is known", async || code(&world, &new).await == 200).await;
    assert_eq!(code(&world, &old).await, 401);
}

#[tokio::test]
async fn keys_behind_a_url_are_discovered_and_fetched_again_for_an_unknown_key() {
    let (first, second) = (Signer::new("key-1"), Signer::new("key-2"));
    let keys = Arc::new(Mutex::new(first.key_set()));
    let issuer = serve_keys(Arc::clone(&keys)).await;
    let of_issuer = |signer: &Signer| signer.token(|claims| claims["iss"] = json!(issuer));
    let world = World::start_with(|settings| {
        let keys = KeySource::Discovery { url: None, authorities: IssuerAuthorities::System };
        let issuer = JwtSettings::new(issuer.as_str(), vec![AUDIENCE.to_owned()], keys);
        settings.authentication.issuers = IssuerSettings::Inline(vec![issuer]);
    })
    .await;
    assert_eq!(code(&world, &of_issuer(&first)).await, 200);
    assert_eq!(code(&world, &of_issuer(&second)).await, 401);
    *keys.lock().unwrap() = second.key_set();
    until("the unknown key is fetched", async || code(&world, &of_issuer(&second)).await == 200).await;
    assert_eq!(code(&world, &of_issuer(&first)).await, 401);
}

/// Serves an issuer's two documents over plain HTTP on this machine. Returns its URL.
#[expect(clippy::unwrap_used, reason = "a test fails where this does")]
async fn serve_keys(keys: Arc<Mutex<String>>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let issuer = format!("http://{}", listener.local_addr().unwrap());
    let configuration = json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")}).to_string();
    let router = axum::Router::new()
        .route("/.well-known/openid-configuration", get(async move || configuration))
        .route("/keys", get(async move || keys.lock().unwrap().clone()));
    tokio::spawn(async move { axum::serve(listener, router).await });
    issuer
}

#[tokio::test]
async fn other_tokens_are_reviewed_once_in_a_while() {
    let world = World::start().await;
    let user = json!({"username": "system:serviceaccount:monitoring:prometheus", "groups": ["system:authenticated"]});
    world.kube.know_token("opaque", user);
    world.kube.allow(|spec| spec["nonResourceAttributes"]["path"] == "/metrics");
    for _ in 0..3 {
        let mut client = world.client(None).await;
        let answer = client.send(http::Method::GET, "/metrics", &[("authorization", "Bearer opaque")]).await;
        assert_eq!(answer.code, 200, "{}", answer.text);
        assert!(answer.text.contains("apiserver_delegated_authn_request_total{code=\"200\"}"));
        assert_eq!(code(&world, "unknown").await, 401);
    }
    assert_eq!(world.kube.token_reviews.load(Ordering::SeqCst), 2, "one for each token");
}
