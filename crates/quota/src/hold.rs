/// Why an amount is held: it counts although its object is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HoldState {
    /// An operator has abandoned its object.
    Abandoned,
    /// The audit has found something in a cluster that no object is charged for.
    Orphaned,
    /// Its object had adopted a namespace and has released it, and the namespace is still in use.
    Released,
}

impl HoldState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Abandoned, Self::Orphaned, Self::Released];

    /// The name that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Abandoned => "abandoned",
            Self::Orphaned => "orphaned",
            Self::Released => "released",
        }
    }

    /// The state of this name; `None` if no state has it.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// The hold that an object's remaining charge becomes when the object is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldChange {
    /// Why the charge still counts.
    pub state: HoldState,
    /// The reason, for people.
    pub reason: String,
}
