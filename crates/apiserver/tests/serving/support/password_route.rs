//! A route for clients with a name and a password.

use apiserver::authz::RouteAccess;
use apiserver::caller::Caller;
use apiserver::dialect::{BasicCredentials, Dialect, Judgement};
use apiserver::flow::Class;
use apiserver::routes::{GET, PathMatch, Route};
use axum::body::Body;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::Response;
use meta::status::Status;
use serde_json::json;
use std::sync::Arc;

/// Knows `robot` with the password `open`. The password of all other names is a token.
struct RobotDialect;

impl Dialect for RobotDialect {
    fn judge<'a>(&'a self, basic: &'a BasicCredentials) -> BoxFuture<'a, Judgement> {
        let judgement = match (basic.user.as_str(), basic.password.as_str()) {
            ("robot", "open") => {
                Judgement::Known(Box::new(Caller { name: "robot".to_owned(), ..Caller::default() }))
            }
            ("robot", _) => Judgement::Wrong("another one"),
            _ => Judgement::Token,
        };
        std::future::ready(judgement).boxed()
    }

    fn refusal(&self, status: &Status) -> Response<Body> {
        let mut response = Response::new(Body::from(format!("no: {}", status.message)));
        *response.status_mut() = http::StatusCode::from_u16(status.code).unwrap();
        response
    }
}

/// Answers with the caller. It lets in every authenticated caller.
pub(crate) fn route() -> Route {
    let route = Route::document("/door", RouteAccess::Authenticated, |cx, _| {
        Response::new(Body::from(
            json!({"user": cx.caller.name, "via": format!("{:?}", cx.caller.via)}).to_string(),
        ))
    });
    Route {
        path_match: PathMatch::Exact,
        methods: GET,
        class: Class::Read,
        dialect: Some(Arc::new(RobotDialect)),
        listed: Vec::new(),
        ..route
    }
}
