use crate::support::client::Client;
use crate::support::{WIDGETS, World, until};
use axum::body::Body;
use http::{Method, Request};
use http_body_util::BodyExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_under_way_is_cut_when_the_server_drains_under_load() {
    let mut world = World::start_with(|settings| settings.shutdown_delay = Duration::from_secs(5)).await;
    let stopped = Arc::new(AtomicBool::new(false));
    let mut load = Vec::new();
    for number in 0..8 {
        let protocol = if number % 2 == 0 { "h2" } else { "http/1.1" };
        let mut client =
            Client::connect(world.address, &world.serving_ca, Some(&world.master()), protocol).await.unwrap();
        let stopped = Arc::clone(&stopped);
        load.push(tokio::spawn(async move {
            let mut answered = 0;
            loop {
                let after_stop = stopped.load(Ordering::SeqCst);
                match client.try_send(Method::GET, WIDGETS, &[]).await {
                    Ok(answer) => {
                        assert_eq!(answer.code, 200);
                        if answer.headers.contains_key("connection") {
                            return answered + 1;
                        }
                    }
                    // A connection may only close between requests, and only after the server was told to stop.
                    Err(error) => {
                        assert!(after_stop || stopped.load(Ordering::SeqCst), "cut before the stop: {error}");
                        let unprocessed = format!("{error:?}").contains("NO_ERROR, Remote");
                        assert!(
                            error.is_closed() || error.is_canceled() || unprocessed,
                            "{protocol}: a request was cut: {error:?}"
                        );
                        return answered;
                    }
                }
                answered += 1;
            }
        }));
    }
    let mut watcher = world.client(Some(&world.master())).await;
    let request =
        Request::get(format!("{WIDGETS}?watch=1")).header("host", "localhost").body(Body::empty()).unwrap();
    let watch = watcher.start(request).await.unwrap();
    let mut slow = world.client(Some(&world.master())).await;
    let slow =
        tokio::spawn(async move { slow.send(Method::POST, &format!("{WIDGETS}/slow"), &[]).await.code });
    until("the slow request is inside", async || world.echo.waiting.load(Ordering::SeqCst) == 1).await;

    let mut prober = world.client(None).await;
    stopped.store(true, Ordering::SeqCst);
    world.tasks.cancel();
    until("readyz fails first", async || prober.send(Method::GET, "/readyz", &[]).await.code == 500).await;
    assert_eq!(
        world.get(Some(&world.master()), &[]).await.code,
        200,
        "requests are still taken during the delay"
    );
    let events = watch.into_body().collect().await.expect("the watch ends cleanly").to_bytes();
    assert!(events.ends_with(b"{\"type\":\"BOOKMARK\"}\n"));
    let mut answered = 0;
    for task in load {
        answered += task.await.unwrap();
    }
    // The load, and the watch, the slow request and the one during the delay.
    assert_eq!(
        world.echo.handled.load(Ordering::SeqCst),
        answered + 3,
        "each request that got in got its answer"
    );
    assert!(!world.served.is_finished(), "somebody is still inside");
    world.echo.release.add_permits(1);
    assert_eq!(slow.await.unwrap(), 200);
    (&mut world.served).await.unwrap().unwrap();
    let late = Client::connect(world.address, &world.serving_ca, None, "h2").await;
    assert!(late.is_err(), "the socket is closed");
}

#[tokio::test]
async fn what_does_not_end_in_time_is_cut() {
    let mut world = World::start_with(|settings| settings.drain = Duration::from_millis(100)).await;
    let mut client = world.client(Some(&world.master())).await;
    let stuck =
        tokio::spawn(async move { client.try_send(Method::GET, &format!("{WIDGETS}/slow"), &[]).await });
    until("it is inside", async || world.echo.waiting.load(Ordering::SeqCst) == 1).await;
    world.tasks.cancel();
    (&mut world.served).await.unwrap().unwrap();
    assert!(stuck.await.unwrap().is_err());
}
