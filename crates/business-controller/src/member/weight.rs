//! About how much memory something takes. Whoever rules a member cluster chooses how long its texts are.

/// What a text takes beside its bytes, with its part of the map or set that it is in.
pub(crate) const TEXT: usize = 64;

/// What a value takes by itself, with its part of the map that it is in.
pub(crate) fn of<T>(_: &T) -> usize {
    size_of::<T>().saturating_add(TEXT)
}

/// What texts take.
pub(crate) fn texts(texts: impl IntoIterator<Item = impl AsRef<str>>) -> usize {
    sum(texts.into_iter().map(|text| TEXT.saturating_add(text.as_ref().len())))
}

/// Together.
pub(crate) fn sum(parts: impl IntoIterator<Item = usize>) -> usize {
    parts.into_iter().fold(0, usize::saturating_add)
}
