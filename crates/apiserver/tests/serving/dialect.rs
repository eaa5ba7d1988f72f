//! Names and passwords at the routes with a dialect.

use crate::support::{WIDGETS, World};
use apiserver::authz::RouteAccess;
use apiserver::flow::Class;
use apiserver::routes::{Route, Routes};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{Method, Response};

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

#[tokio::test]
async fn a_name_and_a_password_count_only_where_a_dialect_judges_them() {
    let world = World::start().await;
    let mut client = world.client(None).await;
    let mut ask = async |path: &str, authorization: &str| {
        client.send(Method::GET, path, &[("authorization", authorization)]).await
    };
    let robot = ask("/door", &basic("robot", "open")).await;
    assert_eq!((robot.code, robot.text.as_str()), (200, r#"{"user":"robot","via":"Password"}"#));
    let wrong = ask("/door", &basic("robot", "shut")).await;
    assert_eq!((wrong.code, wrong.text.as_str()), (401, "no: Unauthorized"));

    let token = world.signer.token(|_| {});
    let user = ask("/door", &basic("anybody", &token)).await;
    assert_eq!((user.code, user.json()["via"].as_str()), (200, Some("Jwt")), "the password is a token");
    assert_eq!(ask("/door", &format!("Bearer {token}")).await.json()["via"], "Jwt");
    for nonsense in ["Basic %%%", &basic("anybody", ""), &basic("anybody", "nonsense")] {
        assert_eq!(ask("/door", nonsense).await.code, 401, "{nonsense}");
    }
    let elsewhere = ask(WIDGETS, &basic("robot", "open")).await;
    assert_eq!(elsewhere.code, 403, "anonymous: {}", elsewhere.text);
}

#[tokio::test]
async fn who_comes_with_a_password_is_no_user_of_the_cluster() {
    let world = World::start().await;
    world.kube.allow(|_| true);
    let robot = basic("robot", "open");
    let as_root = [("authorization", robot.as_str()), ("impersonate-user", "root")];
    let answer = world.client(None).await.send(Method::GET, "/door", &as_root).await;
    assert_eq!(answer.code, 403, "{}", answer.text);
    let master = world.client(Some(&world.master())).await.send(Method::GET, "/door", &as_root[..1]).await;
    assert_eq!(master.json()["via"], "Certificate", "a certificate goes before");
}

#[test]
fn a_stream_has_no_dialect() {
    let password_route = crate::support::password_route::route();
    assert!(Routes::new(vec![Route { class: Class::Stream, ..password_route.clone() }]).is_err());
    let plain = Route::document("/other", RouteAccess::Public, |_, _| Response::default());
    assert!(Routes::new(vec![password_route, plain]).is_ok());
}
