//! Writes the difference of two statuses.

use crate::context::Context;
use crate::error::{CallFailure, Error};
use crate::kinds::{ChangeSource, View};
use crate::merge::difference;
use crate::objects::RegisteredKind;
use serde_json::Value;

/// Patches the status of an object with the difference between `from` and `to`. Returns the written object; `None` if
/// there is no difference.
pub async fn write_status<K: RegisteredKind>(
    cx: &Context,
    object: &View<K>,
    from: &K::Status,
    to: &K::Status,
) -> Result<Option<View<K>>, Error> {
    let Some(patch) = difference(&json::<K>(from)?, &json::<K>(to)?) else { return Ok(None) };
    let share = cx.share_of_object(&K::object_ref(object.key.clone())).ok_or(Error::NotLeading)?;
    cx.shares.state(share).fence.permit()?;
    let written = cx.business.patch_status(object, patch).await?;
    K::cache(&cx.objects).upsert(written.clone(), ChangeSource::OwnWrite);
    Ok(Some(written))
}

fn json<K: RegisteredKind>(status: &K::Status) -> Result<Value, CallFailure> {
    serde_json::to_value(status).map_err(|error| CallFailure::Unavailable(error.to_string()))
}
