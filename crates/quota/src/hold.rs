/// Why an amount counts although no object stands for it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HoldState {
    /// An operator has given its object up.
    Abandoned,
    /// The audit has found it without an object.
    Orphaned,
    /// Its object was adopted and given back, and is still in use.
    Released,
}

impl HoldState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Abandoned, Self::Orphaned, Self::Released];

    /// Its name, as it is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Abandoned => "abandoned",
            Self::Orphaned => "orphaned",
            Self::Released => "released",
        }
    }

    /// The state of this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// What becomes of the charge that is left when an object goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldChange {
    /// Why it goes on counting.
    pub state: HoldState,
    /// The reason in words, for a person.
    pub reason: String,
}
