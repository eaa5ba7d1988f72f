use crate::support::served::Served;
use crate::support::{WIDGETS, World, logs, until};
use http::Method;

#[tokio::test]
async fn a_slow_request_is_warned_of_with_where_its_time_went() {
    logs::keep();
    let world = World::start().await;
    let mut client = world.client(Some(&world.master())).await;
    let path = format!("{WIDGETS}/slow?timeout=1100ms");
    assert_eq!(client.send(Method::GET, &path, &[("audit-id", "slow-1")]).await.code, 504);
    let lines = logs::about("slow-1");
    let warned = lines.iter().find(|line| line["message"] == "slow request").unwrap();
    assert_eq!(
        (&warned["level"], &warned["user"], &warned["code"]),
        (&"WARN".into(), &"root".into(), &504.into())
    );
    assert_eq!(warned["path"], format!("{WIDGETS}/slow"));
    let of = |key: &str| warned[key].as_u64().unwrap();
    assert!(of("milliseconds") >= 1100 && of("handler_milliseconds") >= 500, "{warned}");
    assert!(of("authentication_milliseconds") + of("authorization_milliseconds") < 1000, "{warned}");
    assert_eq!(client.send(Method::GET, WIDGETS, &[("audit-id", "quick-1")]).await.code, 200);
    assert!(logs::about("quick-1").iter().all(|line| line["message"] != "slow request"));
}

#[tokio::test]
async fn health_is_told_by_name_and_checks_are_left_out_by_name() {
    let world = World::start().await;
    world.ready.add("fragile", || Err("a secret".to_owned()));
    let known = world.client_ca.client("nobody", &[]);
    let mut client = world.client(Some(&known)).await;
    let failed = client.send(Method::GET, "/readyz", &[]).await;
    assert_eq!(failed.code, 500);
    let want = "[+]extension-apiserver-authentication ok\n[-]fragile failed: reason withheld\n[+]ping ok\n\
                [+]shutdown ok\nreadyz check failed\n";
    assert_eq!(failed.text, want, "always by name when it fails, and never the reason");
    assert_eq!(failed.headers["x-content-type-options"], "nosniff");
    for (path, code, end) in [
        ("/readyz?exclude=fragile", 200, "ok"),
        ("/readyz?exclude=ping&exclude=fragile", 200, "ok"),
        ("/readyz?verbose&exclude=fragile", 200, "[+]shutdown ok\nreadyz check passed\n"),
        ("/livez", 200, "ok"),
        ("/livez?verbose", 200, "[+]ping ok\nlivez check passed\n"),
        ("/healthz?verbose=1", 200, "[+]ping ok\nhealthz check passed\n"),
        (
            "/livez?verbose&exclude=moon",
            200,
            "warn: some health checks cannot be excluded: no matches for \"moon\"\nlivez check passed\n",
        ),
    ] {
        let answer = client.send(Method::GET, path, &[]).await;
        assert_eq!(answer.code, code, "{path}: {}", answer.text);
        assert!(answer.text.ends_with(end), "{path}: {}", answer.text);
    }
    let excluded = client.send(Method::GET, "/readyz?verbose&exclude=fragile", &[]).await;
    assert!(excluded.text.contains("[+]fragile excluded: ok\n"));
    let mut master = world.client(Some(&world.master())).await;
    assert_eq!(master.send(Method::GET, "/readyz/fragile", &[]).await.code, 500);
}

#[tokio::test]
async fn who_has_no_credentials_learns_of_health_the_verdict_alone() {
    let world = World::start().await;
    world.ready.add("fragile", || Err("a secret".to_owned()));
    let mut client = world.client(None).await;
    for (path, code, text) in [
        ("/readyz", 500, "readyz check failed\n"),
        ("/readyz?verbose", 500, "readyz check failed\n"),
        ("/readyz?verbose&exclude=fragile", 200, "ok"),
        ("/readyz?exclude=fragile&exclude=moon&verbose", 200, "ok"),
        ("/livez?verbose", 200, "ok"),
        ("/healthz?verbose=1", 200, "ok"),
    ] {
        let answer = client.send(Method::GET, path, &[]).await;
        assert_eq!((answer.code, answer.text.as_str()), (code, text), "{path}");
    }
    assert_eq!(client.send(Method::GET, "/readyz/fragile", &[]).await.code, 403);
}

#[tokio::test]
async fn requests_are_counted_under_the_fields_names() {
    let served = Served::start().await;
    served.create("a").await;
    let mut socket = served.open("resourceVersion=0").await.unwrap();
    let _added = socket.next().await;
    let master = Some(&served.master);
    let connect = crate::support::client::Client::connect(served.address, &served.ca, master, "h2");
    let mut client = connect.await.unwrap();
    let list = crate::support::served::LIST;
    assert_eq!(client.send(Method::GET, list, &[]).await.code, 200);
    assert_eq!(client.send(Method::DELETE, &format!("{list}/none?dryRun=All"), &[]).await.code, 404);
    let widgets = r#"group="sample.example.io",version="v1",resource="widgets""#;
    let of = |verb: &str, scope: &str, dry_run: &str| {
        format!(
            r#"verb="{verb}",{widgets},subresource="",scope="{scope}",component="apiserver",dry_run="{dry_run}""#
        )
    };
    let (created, listed) = (of("POST", "resource", ""), of("LIST", "namespace", ""));
    let deleted = of("DELETE", "resource", "All");
    let watched = of("WATCH", "namespace", "");
    let wanted = [
        format!(r#"apiserver_request_total{{{created},code="201"}} 1"#),
        format!(r#"apiserver_request_total{{{listed},code="200"}} 1"#),
        format!(r#"apiserver_request_total{{{deleted},code="404"}} 1"#),
        format!(r#"apiserver_request_total{{{watched},code="101"}} 1"#),
        format!("apiserver_request_duration_seconds_count{{{created}}} 1"),
        format!("apiserver_request_sli_duration_seconds_count{{{created}}} 1"),
        format!("apiserver_response_sizes_count{{{listed}}} 1"),
        r#"field_validation_request_duration_seconds_count{field_validation=""} 1"#.to_owned(),
        format!("apiserver_watch_events_total{{{widgets}}} 1"),
        format!("apiserver_watch_events_sizes_count{{{widgets}}} 1"),
        "apiserver_longrunning_requests 1".to_owned(),
        "apiserver_audit_event_total 2".to_owned(),
        r#"authentication_attempts_total{result="success"}"#.to_owned(),
        r#"authenticated_user_requests_total{username="other"}"#.to_owned(),
        "apiserver_client_certificate_expiration_seconds_count".to_owned(),
        r#"apiserver_current_inflight_requests{request_kind="mutating"} 0"#.to_owned(),
        "apiserver_request_aborts_total 0".to_owned(),
        "apiserver_tls_handshake_errors_total 0".to_owned(),
        "apiserver_panics_total 0".to_owned(),
    ];
    let mut text = String::new();
    until("everything is counted", async || {
        text = client.send(Method::GET, "/metrics", &[]).await.text;
        wanted.iter().all(|line| text.contains(line.as_str()))
    })
    .await;
    assert!(!text.contains(r#"verb="WATCH",group="sample.example.io",version="v1",resource="widgets",subresource="",scope="namespace",component="apiserver",dry_run=""} "#), "a watch has no duration");
}

#[tokio::test]
async fn a_get_that_does_something_is_in_the_audit_log() {
    logs::keep();
    let served = Served::start().await;
    served.create("a").await;
    let master = Some(&served.master);
    let connect = crate::support::client::Client::connect(served.address, &served.ca, master, "h2");
    let mut client = connect.await.unwrap();
    let widget = format!("{}/a", crate::support::served::LIST);
    for (path, id, is_audited) in [
        (widget.clone(), "looks", false),
        (format!("{widget}/paint"), "acts", true),
        (format!("{widget}/status"), "sees", false),
    ] {
        assert_eq!(client.send(Method::GET, &path, &[("audit-id", id)]).await.code, 200, "{path}");
        let logged = logs::about(id).iter().any(|line| line["target"] == "audit");
        assert_eq!(logged, is_audited, "{path}");
    }
}
