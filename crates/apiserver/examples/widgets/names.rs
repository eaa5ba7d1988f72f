//! Names that several kinds of the example use.

pub(crate) const GROUP: &str = "sample.example.io";
