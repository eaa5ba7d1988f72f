//! `GET` of a collection.

use crate::resource::StoredKind;
use crate::response::list_response;
use crate::store_status::status_of;
use crate::verbs::Call;
use crate::verbs::options::{ListOptions, VersionMatch, resource_version};
use axum::body::Body;
use http::Response;
use meta::selector::FieldSelector;
use meta::status::{ListMeta, Status};
use store::Revision;
use store::read::{At, ListQuery, Page, Selection};

pub(crate) async fn list(call: &mut Call<'_>, stored: &StoredKind) -> Result<Response<Body>, Status> {
    let options = ListOptions::parse(&call.query, false)?;
    let renderer = call.renderer()?;
    let query = list_query(call, stored, &options)?;
    let page = if call.sees_nothing() {
        empty_page(call)
    } else {
        let page = call.api.store.list(&call.cx.access, &query).await;
        page.map_err(|error| status_of(&error, &call.resource.group_resource(), ""))?
    };
    let meta = list_meta(&page);
    Ok(list_response(renderer, &meta, page.items, &call.style).await)
}

/// The page for a caller who sees nothing. The store is not read for it.
pub(crate) fn empty_page(call: &Call<'_>) -> Page {
    // A list's revision is never 0: a client that sends 0 accepts any revision.
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

pub(crate) fn list_query(
    call: &Call<'_>,
    stored: &StoredKind,
    options: &ListOptions,
) -> Result<ListQuery, Status> {
    let selection = selection(stored, &call.request.namespace, options)?;
    let Freshness { at, limit } = freshness(options)?;
    Ok(ListQuery { selection, at, limit, continue_token: options.continue_token.clone() })
}

/// The state that a list shows, and its page size.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Freshness {
    pub(crate) at: At,
    pub(crate) limit: Option<usize>,
}

/// What `resourceVersion`, `resourceVersionMatch` and `limit` mean together, as in the table of the Kubernetes API
/// concepts.
pub(crate) fn freshness(options: &ListOptions) -> Result<Freshness, Status> {
    let revision = resource_version(&options.resource_version)?;
    if options.continue_token.is_some() {
        if revision.is_some_and(|revision| revision != 0) {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        return Ok(Freshness { at: At::Latest, limit: options.limit });
    }
    let at = match (revision, options.version_match, options.limit) {
        (None, _, _) => At::Latest,
        // The state of the cache is not paged.
        (Some(0), _, _) => return Ok(Freshness { at: At::Any, limit: None }),
        (Some(n), Some(VersionMatch::Exact), _) | (Some(n), None, Some(_)) => At::Exact(Revision(n)),
        (Some(n), Some(VersionMatch::NotOlderThan), _) | (Some(n), None, None) => {
            At::NotOlderThan(Revision(n))
        }
    };
    Ok(Freshness { at, limit: options.limit })
}

pub(crate) fn selection(
    stored: &StoredKind,
    namespace: &str,
    options: &ListOptions,
) -> Result<Selection, Status> {
    let (labels, fields) = (options.labels.clone(), options.fields.clone());
    check_fields(&fields, stored.kind.fields())?;
    let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
    Ok(Selection { kind: stored.id, namespace, labels, fields })
}

/// Refuses a selector with other fields than these.
pub(crate) fn check_fields(selector: &FieldSelector, known: &[&str]) -> Result<(), Status> {
    for term in selector.requirements() {
        let field = term.key.as_str();
        if !matches!(field, "metadata.name" | "metadata.namespace") && !known.contains(&field) {
            return Err(Status::bad_request(format!("field label not supported: {field}")));
        }
    }
    Ok(())
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
            let Freshness { at, limit } = freshness(&options).unwrap();
            assert_eq!((at, limit), want, "{query}");
        }
        let options = ListOptions::parse(&Query::parse(Some("continue=x&resourceVersion=4")), false).unwrap();
        let message = freshness(&options).unwrap_err().message;
        assert_eq!(message, "specifying resource version is not allowed when using continue");
    }
}
