//! `DELETE` of a collection lists it page by page, and deletes each object as a `DELETE` of that object does.

use crate::resource::StoredKind;
use crate::response::list_response;
use crate::store_status::status_of;
use crate::verbs::Call;
use crate::verbs::delete::{Removal, read_options, remove};
use crate::verbs::list::{empty_page, list_meta, list_query};
use crate::verbs::options::ListOptions;
use axum::body::Body;
use http::Response;
use meta::status::Status;
use std::sync::Arc;
use store::read::At;
use store::{Entry, Error};

/// Page size if the request has no limit.
const PAGE_ITEMS: usize = 500;

pub(crate) async fn delete_collection(
    call: &mut Call<'_>,
    stored: &StoredKind,
    body: Body,
) -> Result<Response<Body>, Status> {
    let mut list_options = ListOptions::parse(&call.query, false)?;
    let has_limit = list_options.limit.is_some();
    // As in a Go server: the list has a limit, so a `resourceVersion` without `resourceVersionMatch` means exactly that
    // revision.
    let limit = *list_options.limit.get_or_insert(PAGE_ITEMS);
    let renderer = call.renderer()?;
    let mut query = list_query(call, stored, &list_options)?;
    let mut options = read_options(call, body).await?;
    if call.sees_nothing() {
        let page = empty_page(call);
        return Ok(list_response(renderer, &list_meta(&page), page.items, &call.style).await);
    }
    if query.at == At::Any {
        // Any state is accepted, and only the newest one is paged.
        (query.at, query.limit) = (At::Latest, Some(limit));
    }
    let mut removed: Vec<Arc<Entry>> = Vec::new();
    let mut is_later_page = false;
    loop {
        let page = match call.api.store.list(&call.cx.access, &query).await {
            Ok(page) => page,
            // The deletions of earlier pages have made the store drop the listed revision. The rest is listed at the
            // newest one, unless the client asked for an exact revision.
            Err(Error::ContinueExpired { continue_token })
                if is_later_page && !matches!(query.at, At::Exact(_)) =>
            {
                query.continue_token = Some(continue_token);
                continue;
            }
            Err(error) => return Err(status_of(&error, &call.resource.group_resource(), "")),
        };
        for entry in &page.items {
            options.listed = Some(entry.uid);
            match remove(call, stored, &entry.key, &options).await {
                // The answer has each object as it was listed, including those that are terminating.
                Ok(Removal::Removed(_) | Removal::Terminating(_) | Removal::Blocked(_)) => {
                    removed.push(Arc::clone(entry));
                }
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
        if has_limit || page.continue_token.is_none() {
            call.record_collection_change(removed.len(), options.dry_run);
            return Ok(list_response(renderer, &list_meta(&page), removed, &call.style).await);
        }
        query.continue_token = page.continue_token;
        is_later_page = true;
    }
}
