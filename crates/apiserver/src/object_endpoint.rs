/// The endpoint that a write came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectEndpoint {
    /// The object itself: all fields but those that its subresources own.
    Main,
    /// The subresource of this name.
    Subresource(&'static str),
}

impl ObjectEndpoint {
    /// The subresource `status`.
    pub const STATUS: Self = Self::Subresource("status");
    /// The subresource `finalize`.
    pub const FINALIZE: Self = Self::Subresource("finalize");

    /// The subresource's name; empty for the object itself.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Subresource(name) => name,
        }
    }
}
