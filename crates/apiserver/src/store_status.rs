//! The store's errors as statuses of the API.

use crate::log_throttle::LogThrottle;
use meta::gvk::GroupResource;
use meta::status::{Status, StatusCause};
use std::time::Duration;
use store::Error;

/// Seconds after which a client may retry when the database is unavailable.
const UNAVAILABLE_RETRY_SECONDS: u32 = 1;
/// Seconds after which a client may retry when growth is held until the audit has finished.
const HELD_RETRY_SECONDS: u32 = 10;

/// While the store is unavailable, every request fails. A line for each would push the cause out of the log.
static UNAVAILABLE: LogThrottle<String> = LogThrottle::new(Duration::from_secs(10), 64);
/// The answer before the cache is filled.
const STARTING: &str = "the server is starting: the objects have not been read from the database yet";

/// The reason in `details.causes` when a tenant has as many objects or bytes as it may have.
const TENANT_FULL: &str = "TenantFull";

pub(crate) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You \
    can start a new list without the continue parameter, or use the continue token in this response to retrieve the \
    remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were \
    created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";
const LIST_EXPIRED: &str = "The resourceVersion for the provided list is too old.";

/// The answer to a request that the store refused. Quota refusals have answers of their own.
pub(crate) fn status_of(error: &Error, about: &GroupResource, name: &str) -> Status {
    match error {
        Error::NotFound => Status::not_found(about, name),
        Error::AlreadyExists { deleting } => {
            let mut status = Status::already_exists(about, name);
            if *deleting {
                status.message = format!("object is being deleted: {}", status.message);
            }
            status
        }
        Error::Conflict => Status::conflict(about, name, MODIFIED),
        Error::Refused(violations) => {
            Status::forbidden(about, name, &format!("{} quota rules", violations.len()))
        }
        Error::Full { tenant, asked, most, word } => {
            let message = format!("tenant={tenant} what={word} requested={asked} max={most}");
            let field = "metadata.name".to_owned();
            let cause = StatusCause { reason: TENANT_FULL.to_owned(), message, field };
            Status::forbidden(about, name, &error.to_string()).with_causes(vec![cause])
        }
        Error::Held | Error::Importing => Status::unavailable(error.to_string(), HELD_RETRY_SECONDS),
        Error::Expired { .. } => Status::expired(LIST_EXPIRED),
        Error::ContinueExpired { continue_token } => {
            let mut status = Status::expired(CONTINUE_EXPIRED);
            status.metadata.continue_token.clone_from(continue_token);
            status
        }
        Error::TooFarAhead { asked, current } => Status::too_large_resource_version(asked.0, current.0),
        Error::BadContinue(why) => Status::bad_request(format!("invalid continue token: {why}")),
        Error::Starting => Status::unavailable(STARTING, 1),
        Error::Busy => Status::too_many_requests(1),
        Error::Unavailable(why) => {
            if let Some(suppressed) = UNAVAILABLE.try_log(why.clone()) {
                tracing::warn!(why, left_out = suppressed, "the store is unavailable");
            }
            Status::unavailable("the database is unavailable", UNAVAILABLE_RETRY_SECONDS)
        }
        // No Retry-After: a client that repeats such a write by itself may make it twice.
        Error::Unknown => {
            Status::timeout("the outcome of the write is unknown: read the object before trying again", 0)
        }
        Error::NotAdmitted => {
            tracing::error!(resource = about.resource, name, "a write that may not grow anything would have");
            Status::internal(error.to_string())
        }
        Error::Corrupt(why) | Error::Schema(why) => {
            tracing::error!(why, resource = about.resource, name, "corrupt data");
            Status::internal("stored data cannot be read")
        }
    }
}

/// The answer to a watch from a revision that is gone.
pub(crate) fn watch_expired(asked: u64, current: u64) -> Status {
    Status::expired(format!("too old resource version: {asked} ({current})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Revision;

    fn of(error: &Error) -> (u16, String, u32, String) {
        let status = status_of(error, &GroupResource::new("g", "as"), "a");
        let seconds = status.details.map_or(0, |details| details.retry_after_seconds);
        (status.code, status.reason, seconds, status.metadata.continue_token)
    }

    #[test]
    fn what_the_store_says_becomes_what_clients_test_for() {
        let current = Revision(9);
        let asked = Revision(3);
        let token = || "t".to_owned();
        let full = Error::Full { tenant: token(), asked: 1, most: 9, word: "objects" };
        for (error, code, reason, seconds, continue_token) in [
            (Error::NotFound, 404, "NotFound", 0, ""),
            (Error::AlreadyExists { deleting: true }, 409, "AlreadyExists", 0, ""),
            (Error::Conflict, 409, "Conflict", 0, ""),
            (full, 403, "Forbidden", 0, ""),
            (Error::Held, 503, "ServiceUnavailable", 10, ""),
            (Error::Importing, 503, "ServiceUnavailable", 10, ""),
            (Error::Expired { asked, current }, 410, "Expired", 0, ""),
            (Error::ContinueExpired { continue_token: token() }, 410, "Expired", 0, "t"),
            (Error::TooFarAhead { asked, current }, 504, "Timeout", 1, ""),
            (Error::BadContinue(token()), 400, "BadRequest", 0, ""),
            (Error::Starting, 503, "ServiceUnavailable", 1, ""),
            (Error::Busy, 429, "TooManyRequests", 1, ""),
            (Error::Unavailable(token()), 503, "ServiceUnavailable", 1, ""),
            (Error::Unknown, 504, "Timeout", 0, ""),
            (Error::NotAdmitted, 500, "InternalError", 0, ""),
            (Error::Corrupt(token()), 500, "InternalError", 0, ""),
        ] {
            assert_eq!(of(&error), (code, reason.to_owned(), seconds, continue_token.to_owned()), "{error}");
        }
    }
}
