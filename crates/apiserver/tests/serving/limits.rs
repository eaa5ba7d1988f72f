use crate::support::client::Client;
use crate::support::pki::Identity;
use crate::support::{WIDGETS, World, few, until};
use axum::body::Body;
use http::{Method, Request};
use serde_json::json;
use std::sync::atomic::Ordering;

fn user(name: &str) -> [(&str, &str); 3] {
    [("x-remote-user", name), ("x-remote-group", "tenant-admins"), ("x-remote-extra-tenantid", "acme")]
}

#[tokio::test]
async fn who_finds_no_room_gets_429_and_masters_get_in() {
    // One tenant gets half of these.
    let world = World::start_with(|settings| settings.limits = few(4)).await;
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let mut client = world.client(Some(&world.aggregator())).await;
        waiting.push(tokio::spawn(async move {
            client.send(Method::GET, &format!("{WIDGETS}/slow"), &user("jane")).await.code
        }));
    }
    until("both are inside", async || world.echo.waiting.load(Ordering::SeqCst) == 2).await;

    let answer = world.get(Some(&world.aggregator()), &user("joe")).await;
    assert_eq!((answer.code, answer.text.as_str()), (429, "Too many requests, please try again later.\n"));
    assert_eq!(answer.headers["retry-after"], "1");
    assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/plain"));
    assert_eq!(world.get(Some(&world.master()), &[]).await.code, 200, "masters are exempt");
    let mut client = world.client(Some(&world.aggregator())).await;
    assert_eq!(
        client.send(Method::POST, WIDGETS, &user("joe")).await.code,
        200,
        "writes have their own room"
    );
    assert_eq!(client.send(Method::GET, "/readyz", &user("joe")).await.code, 200);

    world.echo.release.add_permits(2);
    for task in waiting {
        assert_eq!(task.await.unwrap(), 200);
    }
    assert_eq!(world.get(Some(&world.aggregator()), &user("joe")).await.code, 200);
}

#[tokio::test]
async fn operators_get_in_where_everybody_else_has_taken_all_places() {
    let world = World::start_with(|settings| settings.limits = few(4)).await;
    world.kube.allow(|spec| spec["user"] == "controller" || spec["resourceAttributes"]["verb"] != "operate");
    let controller = world.client_ca.client("controller", &[]);
    assert_eq!(world.get(Some(&controller), &[]).await.code, 200);
    let mut waiting = Vec::new();
    for number in 0..5 {
        let identity = world.client_ca.client(&format!("user-{number}"), &[]);
        let mut client = world.client(Some(&identity)).await;
        waiting.push(tokio::spawn(async move {
            client.send(Method::GET, &format!("{WIDGETS}/slow"), &[]).await.code
        }));
    }
    until("all are inside", async || world.echo.waiting.load(Ordering::SeqCst) == 5).await;
    let late = world.client_ca.client("late", &[]);
    assert_eq!(world.get(Some(&late), &[]).await.code, 429);
    assert_eq!(world.get(Some(&controller), &[]).await.code, 200, "he has a reserve");
    world.echo.release.add_permits(5);
    for task in waiting {
        assert_eq!(task.await.unwrap(), 200);
    }
    assert_eq!(world.get(Some(&late), &[]).await.code, 200);
}

#[tokio::test]
async fn a_watch_keeps_its_place_until_it_ends() {
    let world = World::start_with(|settings| settings.limits = few(1)).await;
    let path = format!("{WIDGETS}?watch=1");
    let mut first = world.client(Some(&world.aggregator())).await;
    let mut request = Request::builder().uri(&path).header("host", "localhost");
    for (name, value) in user("jane") {
        request = request.header(name, value);
    }
    let watch = first.start(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(watch.status(), 200);
    assert!(!watch.headers().contains_key("content-length"), "the aggregator flushes only without a length");
    let mut second = world.client(Some(&world.aggregator())).await;
    assert_eq!(second.send(Method::GET, &path, &user("joe")).await.code, 429);
    assert_eq!(second.send(Method::GET, WIDGETS, &user("joe")).await.code, 200, "reads have their own room");
    assert!(world.metrics().await.contains("apiserver_longrunning_requests 1"));
    drop((watch, first));
    until("the place is free", async || world.metrics().await.contains("apiserver_longrunning_requests 0"))
        .await;
}

#[tokio::test]
async fn a_client_that_leaves_gives_its_place_back_and_is_counted() {
    let world = World::start_with(|settings| settings.limits = few(1)).await;
    for protocol in ["h2", "http/1.1"] {
        let (address, ca) = (world.address, &world.serving_ca);
        let mut client = Client::connect(address, ca, Some(&world.aggregator()), protocol).await.unwrap();
        let leaving = tokio::spawn(async move {
            client.try_send(Method::POST, &format!("{WIDGETS}/slow"), &user("jane")).await.map(drop)
        });
        until("it is inside", async || world.echo.waiting.load(Ordering::SeqCst) > 0).await;
        leaving.abort();
        world.echo.waiting.store(0, Ordering::SeqCst);
        until("the place is free", async || {
            let mut next = world.client(Some(&world.aggregator())).await;
            next.send(Method::POST, WIDGETS, &user("joe")).await.code == 200
        })
        .await;
    }
    assert!(world.metrics().await.contains("apiserver_request_aborts_total 2"));
}

#[tokio::test]
async fn a_request_ends_at_its_deadline() {
    let world = World::start().await;
    let mut client = world.client(Some(&world.master())).await;
    let answer = client.send(Method::GET, &format!("{WIDGETS}/slow?timeout=50ms"), &[]).await;
    assert_eq!(answer.code, 504);
    assert_eq!(answer.json()["reason"], "Timeout");
    assert_eq!(answer.message(), "Timeout: request did not complete within the allotted timeout");
    assert!(world.metrics().await.contains(r#"apiserver_request_terminations_total{reason="timeout"} 1"#));

    let mut anonymous = world.client(None).await;
    let answer = anonymous
        .send(Method::GET, &format!("{WIDGETS}?timeout=soon"), &[("authorization", "Bearer x")])
        .await;
    assert_eq!(answer.code, 400, "a bad timeout is seen before the credentials");
    assert_eq!(answer.message(), "invalid timeout specified in the request URL");
}

#[tokio::test]
async fn tokens_that_nobody_knows_keep_no_review_from_those_that_were_good() {
    let world = World::start_with(|settings| {
        settings.limits.unauthenticated_reviews = 2;
        settings.review_ttl = std::time::Duration::ZERO;
    })
    .await;
    let user = json!({"username": "bob", "groups": ["system:authenticated"]});
    world.kube.know_token("good", user);
    world.kube.allow(|_| true);
    let by = async |token: &str| {
        let header = format!("Bearer {token}");
        world.client(None).await.send(Method::GET, WIDGETS, &[("authorization", &header)]).await.code
    };
    assert_eq!(by("good").await, 200);
    let held = world.kube.hold_tokens().await;
    let mut waiting = Vec::new();
    for n in 0..2 {
        let mut client = world.client(None).await;
        waiting.push(tokio::spawn(async move {
            let header = format!("Bearer unknown-{n}");
            client.send(Method::GET, WIDGETS, &[("authorization", &header)]).await.code
        }));
    }
    until("two reviews wait", async || world.kube.token_reviews.load(Ordering::SeqCst) == 3).await;
    assert_eq!(by("unknown-3").await, 429, "neither let in nor told that the token is wrong");
    let mut client = world.client(None).await;
    let good = tokio::spawn(async move {
        client.send(Method::GET, WIDGETS, &[("authorization", "Bearer good")]).await.code
    });
    until("the good one is reviewed", async || world.kube.token_reviews.load(Ordering::SeqCst) == 4).await;
    drop(held);
    assert_eq!(good.await.unwrap(), 200);
    for task in waiting {
        assert_eq!(task.await.unwrap(), 401);
    }
}

#[tokio::test]
async fn what_callers_without_credentials_ask_is_reviewed_within_a_limit() {
    let world = World::start_with(|settings| settings.limits.unauthenticated_reviews = 1).await;
    let asked = |n: usize| format!("/nowhere/{n}");
    let held = world.kube.hold_rights().await;
    let mut first = world.client(None).await;
    let first = tokio::spawn(async move { first.send(Method::GET, &asked(0), &[]).await.code });
    until("one review waits", async || world.kube.access_reviews.lock().unwrap().len() == 1).await;
    let second = world.client(None).await.send(Method::GET, &asked(1), &[]).await;
    assert_eq!((second.code, second.headers["retry-after"].to_str().unwrap()), (429, "1"));
    let mut known = world.client(Some(&world.client_ca.client("nobody", &[]))).await;
    let known = tokio::spawn(async move { known.send(Method::GET, &asked(1), &[]).await.code });
    until("one who is known is reviewed", async || world.kube.access_reviews.lock().unwrap().len() == 2)
        .await;
    drop(held);
    assert_eq!((first.await.unwrap(), known.await.unwrap()), (403, 403));
}

#[tokio::test]
async fn what_is_not_served_takes_the_room_of_reads_and_its_answers_little_memory() {
    let world = World::start_with(|settings| settings.limits = few(1)).await;
    let reviews = || world.kube.access_reviews.lock().unwrap().len();
    let known = world.client_ca.client("nobody", &[]);
    let held = world.kube.hold_rights().await;
    let mut first = world.client(Some(&known)).await;
    let first = tokio::spawn(async move { first.send(Method::GET, "/nowhere/0", &[]).await.code });
    until("one review waits", async || reviews() == 1).await;
    let mut second = world.client(Some(&known)).await;
    for path in ["/nowhere/1", "/readyz/1", "/livez/1", "/healthz/1"] {
        assert_eq!(second.send(Method::GET, path, &[]).await.code, 429, "{path}");
    }
    assert_eq!(second.send(Method::GET, "/readyz", &[]).await.code, 200);
    drop(held);
    assert_eq!(first.await.unwrap(), 403);

    let before = reviews();
    for (path, asked) in [("/nowhere/2".to_owned(), 1), (format!("/nowhere/{}", "x".repeat(2048)), 3)] {
        for _ in 0..2 {
            assert_eq!(second.send(Method::GET, &path, &[]).await.code, 403);
        }
        assert_eq!(reviews() - before, asked, "{path}");
    }
}

#[tokio::test]
async fn whoever_asks_to_be_many_has_no_more_under_way_than_his_share() {
    let world = World::start_with(|settings| settings.limits = few(6)).await;
    let reviews = || world.kube.access_reviews.lock().unwrap().len();
    let support = world.client_ca.client("support", &[]);
    // There are no reviews by kube-apiserver for the users of a token issuer.
    let token = format!("Bearer {}", world.signer.token(|_| {}));
    let mut quiet = world.client(None).await;
    let inside = tokio::spawn({
        let token = token.clone();
        async move {
            let path = format!("{WIDGETS}/slow");
            quiet.send(Method::GET, &path, &[("authorization", &token)]).await.code
        }
    });
    until("one is inside", async || world.echo.waiting.load(Ordering::SeqCst) == 1).await;

    let held = world.kube.hold_rights().await;
    let mut waiting = Vec::new();
    for (number, path) in ["/readyz".to_owned(), format!("{WIDGETS}?watch=1")].into_iter().enumerate() {
        let mut client = world.client(Some(&support)).await;
        waiting.push(tokio::spawn(async move {
            let name = format!("jane-{number}");
            client.send(Method::GET, &path, &[("impersonate-user", &name)]).await.code
        }));
        until("it is reviewed", async || reviews() == number + 1).await;
    }
    let jane = [("impersonate-user", "jane")];
    for path in ["/readyz".to_owned(), WIDGETS.to_owned(), format!("{WIDGETS}?watch=1")] {
        let answer = world.client(Some(&support)).await.send(Method::GET, &path, &jane).await;
        assert_eq!((answer.code, answer.headers["retry-after"].to_str().unwrap()), (429, "1"), "{path}");
    }
    assert_eq!(reviews(), 2, "nobody was asked");
    let served = world.get(None, &[("authorization", &token)]).await;
    assert_eq!(served.code, 200, "others are served: {}", served.text);
    let mut own = world.client(Some(&support)).await;
    assert_eq!(own.send(Method::GET, "/readyz", &[]).await.code, 200, "what is exempt stays so");
    let mut master = world.client(Some(&world.master())).await;
    assert_eq!(master.send(Method::GET, "/readyz", &jane).await.code, 200, "masters are exempt");

    drop(held);
    for task in waiting {
        assert_eq!(task.await.unwrap(), 403);
    }
    world.echo.release.add_permits(1);
    assert_eq!(inside.await.unwrap(), 200);
    let answer = world.get(Some(&support), &jane).await;
    assert_eq!(answer.code, 403, "the places were given back");
}

#[tokio::test]
async fn connections_of_one_who_is_known_keep_no_other_out() {
    let world = World::start_with(|settings| {
        settings.connections = 10;
        settings.unauthenticated_connections = 2;
    })
    .await;
    let [busy, quiet] = ["busy", "quiet"].map(|name| world.client_ca.client(name, &[]));
    let asks = async |client: &mut Client| {
        client.try_send(Method::GET, "/apis", &[]).await.map(|answer| answer.code)
    };
    let open = async |who: &Identity| {
        Client::connect(world.address, &world.serving_ca, Some(who), "h2").await.unwrap()
    };
    let mut proxy = open(&world.aggregator()).await;
    assert_eq!(proxy.send(Method::GET, "/apis", &user("jane")).await.code, 200);
    let mut kept = open(&quiet).await;
    assert_eq!(asks(&mut kept).await.unwrap(), 200);
    let mut held = Vec::new();
    for _ in 0..20 {
        let mut client = open(&busy).await;
        assert_eq!(asks(&mut client).await.unwrap(), 200);
        held.push(client);
    }
    let mut new = open(&quiet).await;
    for client in [&mut kept, &mut new] {
        assert_eq!(asks(client).await.unwrap(), 200);
    }
    assert_eq!(proxy.send(Method::GET, "/apis", &user("jane")).await.code, 200);
    let [first, .., last] = held.as_mut_slice() else { panic!("twenty were opened") };
    until("the first ones have made room", async || asks(first).await.is_err()).await;
    assert_eq!(asks(last).await.unwrap(), 200);
}
