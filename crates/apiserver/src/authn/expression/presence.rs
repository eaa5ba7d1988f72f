//! Values that may be absent: `has(a.b)`, `a.?b`, `a[?b]`, and selections from them, with Kubernetes' answers. A
//! selection from a value without parts is absent. The library would fail there, and would not fail where a list is
//! indexed by a text.

use cel::common::types::{CelBool, CelDouble, CelInt, CelList, CelMap, CelOptional, CelUInt, DYN_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

/// `has(a.b)` as a function of `a` and `"b"`.
pub(super) const HAS: &str = "@has";
/// `a.?b` likewise.
pub(super) const CHOSEN: &str = "@chosen";

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload(HAS, "has_dyn_dyn", vec![DYN_TYPE, DYN_TYPE], has)?;
    env.add_overload(CHOSEN, "chosen_dyn_dyn", vec![DYN_TYPE, DYN_TYPE], chosen)
}

#[expect(clippy::needless_pass_by_value, reason = "the library calls it so")]
fn has<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    Ok(CowVal::owned(CelBool::from(part(&args)?.is_some())))
}

#[expect(clippy::needless_pass_by_value, reason = "the library calls it so")]
fn chosen<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    Ok(CowVal::owned(part(&args)?.map_or_else(CelOptional::none, CelOptional::of)))
}

/// The part of the first argument at the second, if there is one.
fn part<'v>(args: &[CowVal<'_, 'v>]) -> Result<Option<Box<dyn Val + 'v>>, ExecutionError> {
    let [of, at] = args else { return Err(ExecutionError::missing_argument_or_target()) };
    let of: &(dyn Val + 'v) = match of.downcast_ref::<CelOptional<'v>>() {
        None => of.as_ref(),
        Some(optional) => match optional.option() {
            Some(inner) => inner,
            None => return Ok(None),
        },
    };
    let is_number = at.downcast_ref::<CelInt>().is_some()
        || at.downcast_ref::<CelUInt>().is_some()
        || at.downcast_ref::<CelDouble>().is_some();
    let is_list = of.downcast_ref::<CelList<'v>>().is_some();
    if is_list && !is_number {
        return Err(ExecutionError::function_error(CHOSEN, "a list has numbered elements only"));
    }
    if !is_list && of.downcast_ref::<CelMap<'v>>().is_none() {
        return Ok(None);
    }
    let found = of.as_indexer().map(|indexer| indexer.get(at.as_ref()));
    Ok(found.and_then(Result::ok).map(CowVal::into_owned))
}
