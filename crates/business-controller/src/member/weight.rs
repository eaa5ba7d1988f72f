//! Estimates of memory use. Whoever controls a member cluster chooses how long its strings are.

/// What a string takes beside its bytes, with its part of the map or set that holds it.
pub(crate) const TEXT: usize = 64;

/// What a value takes, with its part of the map that holds it.
pub(crate) fn of<T>(_: &T) -> usize {
    size_of::<T>().saturating_add(TEXT)
}

/// What strings take.
pub(crate) fn texts(texts: impl IntoIterator<Item = impl AsRef<str>>) -> usize {
    sum(texts.into_iter().map(|text| TEXT.saturating_add(text.as_ref().len())))
}

/// The sum.
pub(crate) fn sum(parts: impl IntoIterator<Item = usize>) -> usize {
    parts.into_iter().fold(0, usize::saturating_add)
}
