//! Selections that may be absent: `has(a.b)`, `a.?b`, `a[?b]`, and selections from their results, with the same results
//! as in Kubernetes. A selection from a value without fields and elements is absent, where the library would fail. A
//! list that is indexed by a text is an error, where the library would not fail.

use cel::common::types::{CelBool, CelDouble, CelInt, CelList, CelMap, CelOptional, CelUInt, DYN_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

/// The function of `a` and `"b"` that `has(a.b)` is rewritten to.
pub(super) const HAS: &str = "@has";
/// The function of `a` and `"b"` that `a.?b` is rewritten to.
pub(super) const SELECT_OPTIONAL: &str = "@chosen";

pub(super) fn register(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload(HAS, "has_dyn_dyn", vec![DYN_TYPE, DYN_TYPE], has)?;
    env.add_overload(SELECT_OPTIONAL, "chosen_dyn_dyn", vec![DYN_TYPE, DYN_TYPE], select_optional)
}

#[expect(clippy::needless_pass_by_value, reason = "the library calls it so")]
fn has<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    Ok(CowVal::owned(CelBool::from(select(&args)?.is_some())))
}

#[expect(clippy::needless_pass_by_value, reason = "the library calls it so")]
fn select_optional<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    Ok(CowVal::owned(select(&args)?.map_or_else(CelOptional::none, CelOptional::of)))
}

/// The field or element of the first argument at the second, if there is one.
fn select<'v>(args: &[CowVal<'_, 'v>]) -> Result<Option<Box<dyn Val + 'v>>, ExecutionError> {
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
        return Err(ExecutionError::function_error(SELECT_OPTIONAL, "a list has numbered elements only"));
    }
    if !is_list && of.downcast_ref::<CelMap<'v>>().is_none() {
        return Ok(None);
    }
    let found = of.as_indexer().map(|indexer| indexer.get(at.as_ref()));
    Ok(found.and_then(Result::ok).map(CowVal::into_owned))
}
