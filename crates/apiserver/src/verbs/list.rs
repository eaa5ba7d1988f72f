//! `GET` of a collection.

use crate::resource::Resource;
use crate::response::list_response;
use crate::verbs::Call;
use crate::verbs::errors::status_of;
use crate::verbs::options::{ListOptions, Match, resource_version};
use axum::body::Body;
use http::Response;
use meta::status::{ListMeta, Status};
use store::Revision;
use store::read::{At, ListQuery, Page, Selection};

pub(crate) async fn list(call: &mut Call<'_>) -> Result<Response<Body>, Status> {
    let options = ListOptions::parse(&call.query, false)?;
    let renderer = call.renderer()?;
    let query = list_query(call, &options)?;
    let page = if call.sees_nothing() {
        nothing(call)
    } else {
        let page = call.api.store.list(&call.cx.access, &query).await;
        page.map_err(|error| status_of(&error, call.resource(), ""))?
    };
    let meta = list_meta(&page);
    Ok(list_response(renderer, &meta, page.items, &call.style).await)
}

/// What a caller who sees nothing gets, without anybody being asked.
pub(crate) fn nothing(call: &Call<'_>) -> Page {
    // A list's revision is never 0, which would mean "any".
    let revision = Revision(call.api.store.revision().0.max(1));
    Page { items: Vec::new(), revision, continue_token: None, remaining: None }
}

pub(crate) fn list_meta(page: &Page) -> ListMeta {
    ListMeta {
        resource_version: page.revision.to_string(),
        continue_token: page.continue_token.clone().unwrap_or_default(),
        remaining_item_count: page.remaining.and_then(|n| i64::try_from(n).ok()),
    }
}

pub(crate) fn list_query(call: &Call<'_>, options: &ListOptions) -> Result<ListQuery, Status> {
    let selection = selection(call.resource(), &call.asked.namespace, options)?;
    let (at, limit) = freshness(options)?;
    Ok(ListQuery { selection, at, limit, continue_token: options.continue_token.clone() })
}

/// The table of `resourceVersion`, `resourceVersionMatch` and `limit`.
fn freshness(options: &ListOptions) -> Result<(At, Option<usize>), Status> {
    let revision = resource_version(&options.resource_version)?;
    if options.continue_token.is_some() {
        if revision.is_some_and(|revision| revision != 0) {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        return Ok((At::Latest, options.limit));
    }
    let at = match (revision, options.version_match, options.limit) {
        (None, _, _) => At::Latest,
        // Whatever the cache holds comes whole.
        (Some(0), _, _) => return Ok((At::Any, None)),
        (Some(n), Some(Match::Exact), _) | (Some(n), None, Some(_)) => At::Exact(Revision(n)),
        (Some(n), Some(Match::NotOlderThan), _) | (Some(n), None, None) => At::NotOlderThan(Revision(n)),
    };
    Ok((at, options.limit))
}

pub(crate) fn selection(
    resource: &Resource,
    namespace: &str,
    options: &ListOptions,
) -> Result<Selection, Status> {
    let (labels, fields) = (options.labels.clone(), options.fields.clone());
    let known = resource.kind.fields();
    for term in fields.requirements() {
        let field = term.key.as_str();
        if !matches!(field, "metadata.name" | "metadata.namespace") && !known.contains(&field) {
            return Err(Status::bad_request(format!("field label not supported: {field}")));
        }
    }
    let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
    Ok(Selection { kind: resource.id, namespace, labels, fields })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Query;

    #[test]
    fn every_cell_of_the_list_table_means_what_it_should() {
        let exact = |n| (At::Exact(Revision(n)), None);
        for (query, want) in [
            ("", (At::Latest, None)),
            ("limit=5", (At::Latest, Some(5))),
            ("resourceVersion=0&limit=5", (At::Any, None)),
            ("resourceVersion=0&resourceVersionMatch=NotOlderThan", (At::Any, None)),
            ("resourceVersion=7", (At::NotOlderThan(Revision(7)), None)),
            ("resourceVersion=7&limit=5", (At::Exact(Revision(7)), Some(5))),
            (
                "resourceVersion=7&limit=5&resourceVersionMatch=NotOlderThan",
                (At::NotOlderThan(Revision(7)), Some(5)),
            ),
            ("resourceVersion=7&resourceVersionMatch=Exact", exact(7)),
            ("continue=x&limit=5&resourceVersion=0", (At::Latest, Some(5))),
        ] {
            let options = ListOptions::parse(&Query::parse(Some(query)), false).unwrap();
            assert_eq!(freshness(&options).unwrap(), want, "{query}");
        }
        let options = ListOptions::parse(&Query::parse(Some("continue=x&resourceVersion=4")), false).unwrap();
        let message = freshness(&options).unwrap_err().message;
        assert_eq!(message, "specifying resource version is not allowed when using continue");
    }
}
