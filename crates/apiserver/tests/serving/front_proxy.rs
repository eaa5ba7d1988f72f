use crate::support::client::Client;
use crate::support::{WIDGETS, World};
use apiserver::caller::Via;
use http::Method;
use rcgen::ExtendedKeyUsagePurpose;
use std::sync::atomic::Ordering;

const ROOT: [(&str, &str); 2] = [("x-remote-user", "root"), ("x-remote-group", "system:masters")];

#[tokio::test]
async fn the_aggregator_is_believed_about_who_asks() {
    let world = World::start().await;
    let headers = [
        ("x-remote-user", "jane"),
        ("x-remote-uid", "42"),
        ("x-remote-group", "tenant-admins"),
        ("x-remote-group", "dev"),
        ("x-remote-extra-tenan%74id", "acme"),
    ];
    let answer = world.get(Some(&world.aggregator()), &headers).await;
    assert_eq!(answer.user(), "jane");
    let json = answer.json();
    assert_eq!(json["uid"], "42");
    assert_eq!(json["groups"], serde_json::json!(["tenant-admins", "dev", "system:authenticated"]));
    assert_eq!(json["tenant"], "acme");
    assert_eq!(json["sees"], "acme");
    assert_eq!(json["headers"], serde_json::json!(["accept", "host"]), "credentials are taken out");
    assert_eq!(crate::support::via(&answer), Via::FrontProxy);
}

#[tokio::test]
async fn forged_headers_make_nobody_root() {
    let world = World::start().await;
    let usage = || ExtendedKeyUsagePurpose::ClientAuth;
    let old = |params: &mut rcgen::CertificateParams| {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 1, 2);
    };
    let stranger = crate::support::pki::Ca::new("stranger");
    for (who, identity, code) in [
        ("no certificate", None, 403),
        ("a certificate of an unknown CA", Some(stranger.client("aggregator", &[])), 401),
        ("a name that is not allowed", Some(world.proxy_ca.client("somebody", &[])), 401),
        ("a user's certificate", Some(world.client_ca.client("aggregator", &[])), 403),
        ("an expired certificate", Some(world.proxy_ca.issue("aggregator", &[], usage(), old)), 401),
        (
            "a server's certificate",
            Some(world.proxy_ca.issue("aggregator", &[], ExtendedKeyUsagePurpose::ServerAuth, |_| {})),
            401,
        ),
    ] {
        let answer = world.get(identity.as_ref(), &ROOT).await;
        assert_eq!(answer.code, code, "{who}: {}", answer.text);
        assert!(!answer.text.contains("root"), "{who}: {}", answer.text);
    }
    let honest = world.get(Some(&world.aggregator()), &ROOT).await;
    assert_eq!(honest.user(), "root");
}

#[tokio::test]
async fn a_certificate_without_its_key_ends_the_handshake() {
    let world = World::start().await;
    let (owner, thief) = (world.aggregator(), world.aggregator().stolen());
    for version in [[&rustls::version::TLS12], [&rustls::version::TLS13]] {
        let (address, ca) = (world.address, &world.serving_ca);
        let connect = async |who| Client::connect_by(&version, address, ca, Some(who), "http/1.1").await;
        let mut honest = connect(&owner).await.unwrap();
        assert_eq!(honest.send(Method::GET, WIDGETS, &ROOT).await.user(), "root", "{version:?}");
        let refused = match connect(&thief).await {
            Err(_) => true,
            // With TLS 1.3 the client finishes the handshake first, so only the first request fails.
            Ok(mut client) => client.try_send(Method::GET, "/readyz", &[]).await.is_err(),
        };
        assert!(refused, "possession of the key was not checked in {version:?}");
    }
}

#[tokio::test]
async fn a_proxy_that_names_nobody_is_not_anonymous() {
    let world = World::start().await;
    assert_eq!(world.get(Some(&world.aggregator()), &[]).await.code, 401);
    assert_eq!(world.get(Some(&world.aggregator()), &[("x-remote-user", "")]).await.code, 401);
}

#[tokio::test]
async fn anonymous_users_stay_anonymous_through_the_proxy() {
    let world = World::start().await;
    let headers = [("x-remote-user", "system:anonymous"), ("x-remote-group", "system:unauthenticated")];
    let answer = world.get(Some(&world.aggregator()), &headers).await;
    assert_eq!(answer.code, 403);
    let discovery = world.client(Some(&world.aggregator())).await.send(Method::GET, "/apis", &headers).await;
    assert_eq!(discovery.code, 403);
}

#[tokio::test]
async fn two_tenants_in_one_identity_are_refused() {
    let world = World::start().await;
    let headers = [
        ("x-remote-user", "jane"),
        ("x-remote-extra-tenantid", "acme"),
        ("x-remote-extra-tenantid", "umbrella"),
    ];
    assert_eq!(world.get(Some(&world.aggregator()), &headers).await.code, 401);
}

#[tokio::test]
async fn a_client_certificate_names_user_and_groups() {
    let world = World::start().await;
    let answer = world.get(Some(&world.client_ca.client("ops", &["system:masters", "night"])), &[]).await;
    assert_eq!(answer.user(), "ops");
    assert_eq!(
        answer.json()["groups"],
        serde_json::json!(["system:masters", "night", "system:authenticated"])
    );
    assert_eq!(answer.json()["sees"], "Everything");
}

#[tokio::test]
async fn until_it_is_known_whom_to_believe_a_certificate_is_not_refused_for_good() {
    let world = World::start_alone().await;
    let proxied: &[(&str, &str)] = &[("x-remote-user", "alice"), ("x-remote-group", "system:masters")];
    for (who, headers) in [(world.aggregator(), proxied), (world.master(), &[])] {
        let answer = world.get(Some(&who), headers).await;
        assert_eq!((answer.code, answer.headers["retry-after"].as_bytes()), (503, b"1".as_slice()));
    }
    world.kube.down.store(false, Ordering::SeqCst);
    world.until_trusting().await;
    assert_eq!(world.get(Some(&world.aggregator()), proxied).await.code, 200);
    assert_eq!(world.get(Some(&world.master()), &[]).await.code, 200);
    assert_eq!(
        world.get(Some(&crate::support::pki::Ca::new("stranger").client("stranger", &[])), &[]).await.code,
        401
    );
}

#[tokio::test]
async fn somebody_in_very_many_groups_comes_through() {
    let world = World::start().await;
    let groups: Vec<String> = (0..1000).map(|group| format!("{group:0>90}")).collect();
    let mut headers = vec![
        ("x-remote-user", "jane"),
        ("x-remote-group", "tenant-admins"),
        ("x-remote-extra-tenantid", "acme"),
    ];
    headers.extend(groups.iter().map(|group| ("x-remote-group", group.as_str())));
    for protocol in ["http/1.1", "h2"] {
        let mut proxy =
            Client::connect(world.address, &world.serving_ca, Some(&world.aggregator()), protocol)
                .await
                .unwrap();
        let answer = proxy.send(Method::GET, WIDGETS, &headers).await;
        assert_eq!((answer.code, answer.user().as_str()), (200, "jane"), "{protocol}");
        assert_eq!(answer.json()["groups"].as_array().unwrap().len(), 1002, "{protocol}");
    }
}
