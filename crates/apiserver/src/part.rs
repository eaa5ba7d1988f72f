/// The endpoint that a write came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The object itself: everything but what its subresources own.
    Main,
    /// The subresource of this name.
    Sub(&'static str),
}

impl Part {
    /// The subresource `status`.
    pub const STATUS: Self = Self::Sub("status");
    /// The subresource `finalize`.
    pub const FINALIZE: Self = Self::Sub("finalize");

    /// The subresource's name; empty for the object itself.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Sub(name) => name,
        }
    }
}
