use super::is_same;
use crate::reloaded_file::ReloadedFile;
use anyhow::{Context, Result, ensure};
use apiserver::Caller;
use apiserver::caller::Via;
use apiserver::dialect::BasicCredentials;
use std::path::Path;

/// The key under which the extra information of a caller has the purpose of a platform account.
const ACCOUNT_KEY: &str = "business.tkestack.io/registry-account";

/// What a platform account is for. Its name and password come from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountPurpose {
    /// The controller: it lists, pulls and deletes everything.
    Controller,
    /// The registry itself: it sends notifications of changes.
    Events,
}

impl AccountPurpose {
    fn as_str(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Events => "events",
        }
    }

    /// Whether the caller has authenticated with an account of this purpose.
    pub fn is_of(self, caller: &Caller) -> bool {
        let said = caller.extra.get(ACCOUNT_KEY).filter(|_| caller.via == Via::Password);
        said.is_some_and(|said| said.iter().any(|purpose| purpose == self.as_str()))
    }
}

/// An account of the platform itself.
#[derive(Clone, Debug)]
pub struct RegistryAccount {
    purpose: AccountPurpose,
    file: ReloadedFile<Secret>,
}

struct Secret {
    user: String,
    password: String,
}

impl RegistryAccount {
    /// Reads a file with `user:password`.
    pub fn load(purpose: AccountPurpose, file: &Path) -> Result<Self> {
        Ok(Self { purpose, file: ReloadedFile::load(file, Secret::parse)? })
    }

    /// Reloads the file whenever it has changed. Never returns.
    pub async fn follow(self) {
        self.file.follow().await;
    }

    /// The caller, if name and password are the account's.
    pub fn caller(&self, basic: &BasicCredentials) -> Option<Caller> {
        let read = self.file.current();
        let secret = &read.value;
        let same = is_same(secret.password.as_bytes(), basic.password.as_bytes());
        (secret.user == basic.user && same).then(|| Caller {
            name: secret.user.clone(),
            extra: [(ACCOUNT_KEY.to_owned(), vec![self.purpose.as_str().to_owned()])].into(),
            via: Via::Password,
            ..Caller::default()
        })
    }
}

impl Secret {
    fn parse(text: &str) -> Result<Self> {
        let (user, password) = text.trim_end().split_once(':').context("it is not user:password")?;
        ensure!(
            !user.is_empty() && password.len() >= 16,
            "it wants a user, and a password of at least 16 bytes"
        );
        Ok(Self { user: user.to_owned(), password: password.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_known_by_its_name_and_password_alone() {
        let file = ReloadedFile::of_text("ctl:0123456789abcdef\n", Secret::parse);
        let account = RegistryAccount { purpose: AccountPurpose::Controller, file };
        let caller = |user: &str, password: &str| {
            account.caller(&BasicCredentials { user: user.to_owned(), password: password.to_owned() })
        };
        let known = caller("ctl", "0123456789abcdef").unwrap();
        assert!(AccountPurpose::Controller.is_of(&known) && !AccountPurpose::Events.is_of(&known));
        assert!(
            !AccountPurpose::Controller.is_of(&Caller { via: Via::FrontProxy, ..known }),
            "anybody may say so there"
        );
        for (user, password) in [("ctl", "0123456789abcdeg"), ("ctl", ""), ("other", "0123456789abcdef")] {
            assert!(caller(user, password).is_none());
        }
        for wrong in ["", "ctl", "ctl:short", ":0123456789abcdef"] {
            assert!(Secret::parse(wrong).is_err(), "{wrong}");
        }
        assert!(!format!("{account:?}").contains("0123456789abcdef"), "never shown");
    }
}
