//! The platform `platform-default`, which this program creates at start. An imported one may replace it. Pure.

use super::draft::Draft;
use super::finding::Rule;
use crate::kinds::KindTable;
use business_types::PlatformSpec;
use business_types::names::{PLATFORM_DEFAULT, PLATFORMS};
use meta::object::Object;
use std::collections::BTreeSet;
use store::Key;
use store::import::ExistingObject;

/// The key of the program's own platform.
pub fn key(kinds: KindTable) -> Option<Key> {
    let platforms = kinds.0.iter().find(|row| row.plural == PLATFORMS)?.stored.as_ref()?;
    Some(Key::new(platforms.id, "", PLATFORM_DEFAULT))
}

/// The program's own platform, if an imported one of its name replaces it. That happens only if everything else in the
/// database comes from this import, too: otherwise the program's own platform may be in use.
pub fn find_replaced<'a>(
    draft: &mut Draft,
    kinds: KindTable,
    present: &'a [ExistingObject],
) -> Option<&'a ExistingObject> {
    let key = key(kinds)?;
    let own = present.iter().find(|there| there.key == key)?;
    let theirs = draft
        .candidates
        .iter()
        .find(|candidate| candidate.is(PLATFORMS) && candidate.object_ref.name == PLATFORM_DEFAULT)
        .filter(|theirs| theirs.uid != own.uid)?;
    let coming: BTreeSet<_> = draft.candidates.iter().map(|candidate| candidate.uid).collect();
    if present.iter().any(|there| there.key != key && !coming.contains(&there.uid)) {
        return None;
    }
    let object_ref = theirs.object_ref.clone();
    let (before, after) = (spec_of_body(&own.body), PlatformSpec::of(&theirs.object).unwrap_or_default());
    let is_lost =
        |user: &&String| before.tenant_id != after.tenant_id || !after.administrators.contains(user);
    let lost: Vec<&str> = before.administrators.iter().filter(is_lost).map(String::as_str).collect();
    let (lost, tenant) = (lost.join(", "), before.tenant_id);
    let why =
        format!("it takes the place of the one that this program has made at start, with uid {}", own.uid);
    draft.add_finding(Rule::Replaces, &object_ref, why);
    if !lost.is_empty() {
        let why = format!(
            "{lost} will not rule tenant {tenant} by it any more: only the one that this program has made names them. Name \
             them again afterwards"
        );
        draft.add_finding(Rule::AdministratorsLost, &object_ref, why);
    }
    Some(own)
}

fn spec_of_body(body: &str) -> PlatformSpec {
    let object = Object::from_stored(body.as_bytes(), 1);
    object.ok().and_then(|object| PlatformSpec::of(&object).ok()).unwrap_or_default()
}
