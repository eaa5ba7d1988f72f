//! What the store could not do, in the words of the API.

use crate::resource::Resource;
use meta::status::Status;
use store::Error;

/// Seconds after which a database that was away is asked again.
const UNAVAILABLE_RETRY_SECONDS: u32 = 1;
/// Seconds after which growth that waits for an audit is tried again.
const HELD_RETRY_SECONDS: u32 = 10;

pub(crate) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You \
    can start a new list without the continue parameter, or use the continue token in this response to retrieve the \
    remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were \
    created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";
const LIST_EXPIRED: &str = "The resourceVersion for the provided list is too old.";

/// The answer to a request that the store refused. Quota refusals have answers of their own.
pub(crate) fn status_of(error: &Error, resource: &Resource, name: &str) -> Status {
    let about = resource.group_resource();
    match error {
        Error::NotFound => Status::not_found(&about, name),
        Error::AlreadyExists { deleting } => {
            let mut status = Status::already_exists(&about, name);
            if *deleting {
                status.message = format!("object is being deleted: {}", status.message);
            }
            status
        }
        Error::Conflict => Status::conflict(&about, name, MODIFIED),
        Error::Refused(violations) => {
            Status::forbidden(&about, name, &format!("{} quota rules", violations.len()))
        }
        Error::Held => Status::unavailable(error.to_string(), HELD_RETRY_SECONDS),
        Error::Expired { .. } => Status::expired(LIST_EXPIRED),
        Error::ContinueExpired { continue_token } => {
            let mut status = Status::expired(CONTINUE_EXPIRED);
            status.metadata.continue_token.clone_from(continue_token);
            status
        }
        Error::TooFarAhead { asked, current } => Status::too_large_resource_version(asked.0, current.0),
        Error::BadContinue(why) => Status::bad_request(format!("invalid continue token: {why}")),
        Error::Starting | Error::Busy => Status::too_many_requests(1),
        Error::Unavailable(why) => {
            tracing::warn!(why, "the store is unavailable");
            Status::unavailable("the database is unavailable", UNAVAILABLE_RETRY_SECONDS)
        }
        // Whoever repeats such a write by himself may do it twice: no Retry-After.
        Error::Unknown => {
            Status::timeout("the outcome of the write is unknown: read the object before trying again", 0)
        }
        Error::Corrupt(why) => {
            tracing::error!(why, resource = resource.plural, name, "corrupt data");
            Status::internal("stored data cannot be read")
        }
    }
}

/// The answer to a watch from a revision that is gone.
pub(crate) fn watch_expired(asked: u64, current: u64) -> Status {
    Status::expired(format!("too old resource version: {asked} ({current})"))
}
