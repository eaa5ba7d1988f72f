//! A route: `/inventory` lists in plain text the widgets that its caller sees.

use apiserver::RequestContext;
use apiserver::authz::RouteAccess;
use apiserver::flow::Class;
use apiserver::routes::{GET, PathMatch, Route, RouteHandler};
use axum::body::Body;
use axum::response::IntoResponse;
use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use meta::selector::{FieldSelector, LabelSelector};
use std::fmt::Write as _;
use std::sync::Arc;
use store::read::{At, ListQuery, Selection};
use store::{KindId, Store};

/// The route. It lets in every authenticated caller, counts as a read, and reads the store as its caller sees it.
pub(crate) fn route(store: Store, widgets: KindId) -> Route {
    Route {
        path: "/inventory".to_owned(),
        path_match: PathMatch::Exact,
        methods: GET,
        access: RouteAccess::Authenticated,
        reads_store: true,
        class: Class::Read,
        dialect: None,
        listed: vec!["/inventory".to_owned()],
        handler: Arc::new(Inventory { store, widgets }),
    }
}

struct Inventory {
    store: Store,
    widgets: KindId,
}

impl RouteHandler for Inventory {
    fn answer<'a>(&'a self, cx: &'a mut RequestContext, _: Request<Body>) -> BoxFuture<'a, Response<Body>> {
        Box::pin(async move {
            let (labels, fields) = (LabelSelector::default(), FieldSelector::default());
            let selection = Selection { kind: self.widgets, namespace: None, labels, fields };
            let query = ListQuery { selection, at: At::Latest, limit: None, continue_token: None };
            match self.store.list(&cx.access, &query).await {
                Ok(page) => {
                    let mut text = format!("{} widgets\n", page.items.len());
                    for entry in &page.items {
                        let _written = writeln!(text, "{}/{}", entry.key.namespace, entry.key.name);
                    }
                    text.into_response()
                }
                Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
            }
        })
    }
}
