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
        RequestInfo::Resource(resource_request) => Endpoint::find(&api.resources, resource_request)
            .map(|endpoint| (Arc::clone(resource_request), endpoint)),
        RequestInfo::Path(_) => Err(Status::no_such_path()),
    };
    match found {
        // Boxed: a verb's future is large, and its wrappers would move it.
        Ok((resource_request, endpoint)) => {
            Box::pin(verbs::run(api, cx, resource_request, endpoint, request)).await
        }
        Err(status) => {
            response::error_response(&status, &response::Style::of_error(request.headers(), request.uri()))
        }
    }
}
