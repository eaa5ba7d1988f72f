use crate::dispatch::{self, Api, RequestContext};
use axum::body::Body;
use http::{Request, Response};
use std::future::Future;
use std::sync::Arc;

/// What answers authorized requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request. The future is dropped when the request's deadline passes.
    fn handle(
        &self,
        context: RequestContext,
        request: Request<Body>,
    ) -> impl Future<Output = Response<Body>> + Send;
}

impl Handler for Arc<Api> {
    async fn handle(&self, context: RequestContext, request: Request<Body>) -> Response<Body> {
        dispatch::dispatch(self, context, request).await
    }
}
