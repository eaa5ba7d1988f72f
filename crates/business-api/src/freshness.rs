//! How stale the roles of this replica may be. A replica that cannot follow the database, or whose standby has stopped
//! replaying, goes on answering from its cache. It does not know which roles have been revoked since then.

use meta::status::Status;
use std::time::Duration;
use store::Store;

/// A replica that is further behind than this refuses all writes. The controller waits as long for the last token of
/// the registry.
pub const AGE_MAX: Duration = Duration::from_secs(10);
const RETRY_AFTER_SECONDS: u32 = 5;

/// Why the cache is too old, if it is. The text does not change while the cause stays: the health check logs each new
/// text.
pub fn check(store: &Store) -> Result<(), String> {
    let most = AGE_MAX.as_secs();
    match store.age() {
        Some(age) if age <= AGE_MAX => Ok(()),
        Some(_) => Err(format!("what was committed more than {most} s ago may not be known here yet")),
        None => Err("not filled yet".to_owned()),
    }
}

/// 503 if the roles in the cache may be out of date.
pub fn check_roles(store: &Store) -> Result<(), Status> {
    check(store).map_err(|why| Status::unavailable(format!("who may do what: {why}"), RETRY_AFTER_SECONDS))
}
