//! Finds the handler of a request, from the parsed request alone.

use crate::api::Api;
use crate::context::RequestContext;
use crate::endpoint::Endpoint;
use crate::request::RequestInfo;
use crate::{response, verbs};
use axum::body::Body;
use http::{Request, Response};
use meta::status::Status;
use std::sync::Arc;

/// Answers one authorized request at a resource.
pub async fn dispatch(api: &Arc<Api>, cx: &mut RequestContext, request: Request<Body>) -> Response<Body> {
    let found = match &cx.info {
        RequestInfo::Resource(asked) => {
            Endpoint::find(&api.resources, asked).map(|endpoint| (Arc::clone(asked), endpoint))
        }
        RequestInfo::Path(_) => Err(Status::no_such_path()),
    };
    match found {
        // Boxed: a verb's future is large, and its wrappers would move it.
        Ok((asked, endpoint)) => Box::pin(verbs::run(api, cx, asked, endpoint, request)).await,
        Err(status) => {
            response::failure(&status, &response::Style::of_error(request.headers(), request.uri()))
        }
    }
}
