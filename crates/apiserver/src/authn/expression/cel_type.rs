/// The type of a value, as far as it is known without a token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CelType {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    List(Box<Self>),
    /// A map with strings as keys.
    Map(Box<Self>),
    Optional(Box<Self>),
    /// The variable `user`.
    User,
}

/// The common prefix of all non-empty texts in a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TextPrefix {
    /// The value has no non-empty text.
    NoText,
    /// All such texts begin with this one, which is not empty.
    Known(String),
    /// It depends on the token.
    Unknown,
}

impl TextPrefix {
    pub(super) fn of(text: &str) -> Self {
        if text.is_empty() { Self::NoText } else { Self::Known(text.to_owned()) }
    }

    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::NoText, other) | (other, Self::NoText) => other,
            (Self::Known(one), Self::Known(two)) => {
                let same = one.chars().zip(two.chars()).take_while(|(a, b)| a == b);
                let same: String = same.map(|(character, _)| character).collect();
                if same.is_empty() { Self::Unknown } else { Self::Known(same) }
            }
            _ => Self::Unknown,
        }
    }
}
