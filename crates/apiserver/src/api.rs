use crate::discovery::Documents;
use crate::openapi::About;
use crate::resource::Resource;
use std::sync::Arc;

/// What all requests share.
#[derive(Clone, Debug)]
pub struct Api {
    /// Every kind served, in the order of discovery.
    pub resources: Vec<Arc<Resource>>,
    /// Where objects are kept.
    pub store: store::Store,
    /// The clock.
    pub clock: runtime::Clock,
    /// Told when the server drains: watches end cleanly.
    pub draining: tokio_util::sync::CancellationToken,
    /// Discovery and OpenAPI, computed once.
    pub documents: Arc<Documents>,
}

impl Api {
    /// Puts an API together; discovery and OpenAPI documents are computed here.
    pub fn new(
        resources: Vec<Arc<Resource>>,
        store: store::Store,
        clock: runtime::Clock,
        draining: tokio_util::sync::CancellationToken,
        about: &About,
    ) -> Self {
        let documents = Arc::new(Documents::new(&resources, about));
        Self { resources, store, clock, draining, documents }
    }
}
