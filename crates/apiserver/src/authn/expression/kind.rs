/// The kind of a value, as far as it is known without a token.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    List(Box<Self>),
    /// A map with texts as keys.
    Map(Box<Self>),
    Optional(Box<Self>),
    /// `user`
    User,
}

/// The common beginning of all texts in a value that are not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// There are no such texts.
    Nothing,
    /// This text, which is not empty.
    With(String),
    /// Only the token says.
    Unknown,
}

impl Start {
    pub(super) fn of(text: &str) -> Self {
        if text.is_empty() { Self::Nothing } else { Self::With(text.to_owned()) }
    }

    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, other) | (other, Self::Nothing) => other,
            (Self::With(one), Self::With(two)) => {
                let same = one.chars().zip(two.chars()).take_while(|(a, b)| a == b);
                let same: String = same.map(|(character, _)| character).collect();
                if same.is_empty() { Self::Unknown } else { Self::With(same) }
            }
            _ => Self::Unknown,
        }
    }
}
