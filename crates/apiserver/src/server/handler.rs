use crate::api::Api;
use crate::context::RequestContext;
use crate::dispatch;
use crate::routes::Route;
use axum::body::Body;
use http::{Request, Response};
use runtime::Metrics;
use std::future::Future;
use std::sync::Arc;

/// Answers authorized requests for resources.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request. The future is dropped when the request's deadline passes.
    fn handle(
        &self,
        cx: &mut RequestContext,
        request: Request<Body>,
    ) -> impl Future<Output = Response<Body>> + Send;

    /// The routes for discovery and OpenAPI documents.
    fn routes(&self) -> Vec<Route> {
        Vec::new()
    }

    /// Registers the metrics of the handler.
    fn register_metrics(&self, _metrics: &Metrics) {}
}

impl Handler for Arc<Api> {
    async fn handle(&self, cx: &mut RequestContext, request: Request<Body>) -> Response<Body> {
        dispatch::dispatch(self, cx, request).await
    }

    fn routes(&self) -> Vec<Route> {
        self.documents.routes()
    }

    fn register_metrics(&self, metrics: &Metrics) {
        let help = "Writes under way whose bodies may take much memory";
        metrics.register("apiserver_heavy_bodies", help, self.heavy_bodies.in_use());
    }
}
