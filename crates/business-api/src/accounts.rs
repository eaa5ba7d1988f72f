use store::KindId;
use store::quota::Account;

/// How the accounts of a kind's objects are read out of their stored bodies.
#[derive(Clone, Copy, Debug)]
pub struct KindAccounts {
    /// The kind.
    pub kind: KindId,
    /// Reads the account out of a stored body.
    pub read: ReadAccount,
}

/// Reads the account out of a stored body.
pub type ReadAccount = fn(&[u8]) -> Result<Account, serde_json::Error>;
