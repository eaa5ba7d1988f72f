//! `DELETE` of a collection: every object's own lifecycle, page by page.

use crate::resource::StoredKind;
use crate::response::list_response;
use crate::store_status::status_of;
use crate::verbs::Call;
use crate::verbs::delete::{Removal, read_options, remove};
use crate::verbs::list::{list_meta, list_query, nothing};
use crate::verbs::options::ListOptions;
use axum::body::Body;
use http::Response;
use meta::status::Status;
use std::sync::Arc;
use store::read::At;
use store::{Entry, Error};

/// Objects listed at a time if the request has no limit.
const PAGE_ITEMS: usize = 500;

pub(crate) async fn delete_collection(
    call: &mut Call<'_>,
    stored: &StoredKind,
    body: Body,
) -> Result<Response<Body>, Status> {
    let list_options = ListOptions::parse(&call.query, false)?;
    let renderer = call.renderer()?;
    let mut query = list_query(call, stored, &list_options)?;
    let options = read_options(call, body).await?;
    if call.sees_nothing() {
        let page = nothing(call);
        return Ok(list_response(renderer, &list_meta(&page), page.items, &call.style).await);
    }
    if query.limit.is_none() {
        query.limit = Some(PAGE_ITEMS);
        query.at = At::Latest;
    }
    let mut removed: Vec<Arc<Entry>> = Vec::new();
    let mut is_later_page = false;
    loop {
        let page = match call.api.store.list(&call.cx.access, &query).await {
            Ok(page) => page,
            // The deletions of earlier pages have pushed the listed state out of memory: the rest is deleted as it is
            // now.
            Err(Error::ContinueExpired { continue_token }) if is_later_page => {
                query.continue_token = Some(continue_token);
                continue;
            }
            Err(error) => return Err(status_of(&error, &call.resource.group_resource(), "")),
        };
        for entry in &page.items {
            match remove(call, stored, &entry.key, &options).await {
                // Each object is answered as it was listed, including those that wait already.
                Ok(Removal::Gone(_) | Removal::Marked(_) | Removal::Waits(_)) => {
                    removed.push(Arc::clone(entry));
                }
                Err(status) if status.code == 404 => {}
                Err(status) => return Err(status),
            }
        }
        if list_options.limit.is_some() || page.continue_token.is_none() {
            call.audit_collection(removed.len(), options.dry_run);
            return Ok(list_response(renderer, &list_meta(&page), removed, &call.style).await);
        }
        query.continue_token = page.continue_token;
        is_later_page = true;
    }
}
