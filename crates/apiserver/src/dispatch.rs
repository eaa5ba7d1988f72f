//! Hands an authorized request to the verb that answers it.

use crate::api::Api;
use crate::context::RequestContext;
use crate::endpoint::Endpoint;
use crate::request::RequestInfo;
use crate::{response, verbs};
use axum::body::Body;
use http::{Request, Response};
use meta::status::Status;
use std::sync::Arc;

/// Answers one authorized request for a resource.
pub async fn dispatch(api: &Arc<Api>, cx: &mut RequestContext, request: Request<Body>) -> Response<Body> {
    let found = match &cx.info {
        RequestInfo::Resource(resource_request) => Endpoint::find(&api.resources, resource_request)
            .map(|endpoint| (Arc::clone(resource_request), endpoint)),
        RequestInfo::Path(_) => Err(Status::no_such_path()),
    };
    match found {
        // Boxed: a verb's future is large, and the futures around it would copy it.
        Ok((resource_request, endpoint)) => {
            Box::pin(verbs::run(api, cx, resource_request, endpoint, request)).await
        }
        Err(status) => {
            response::error_response(&status, &response::Style::of_error(request.headers(), request.uri()))
        }
    }
}
