use crate::reloaded_file::ReloadedFile;
use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};
use std::path::Path;

const KEY_BYTES: usize = 32;
const SALT_BYTES: usize = 32;
/// The most keys in a file. Each cookie is tried with all of them.
const KEYS_MAX: usize = 8;

/// The purpose of a sealed text. A text sealed for one purpose cannot be opened for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A pending login.
    Login,
    /// A session.
    Session,
}

impl Purpose {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Login => b"business console login 1",
            Self::Session => b"business console session 1",
        }
    }
}

/// Keys from a file that all replicas share: the first seals, and all open. So a key is rotated in three steps: append
/// the new one everywhere; move it to the front; remove the old one when its sessions have ended.
#[derive(Clone, Debug)]
pub(super) struct SealingKeys(ReloadedFile<Vec<[u8; KEY_BYTES]>>);

impl SealingKeys {
    /// Reads the file: a key a line, 32 random bytes in base64. Lines that begin with # are comments.
    pub(super) fn load(file: &Path) -> Result<Self> {
        Ok(Self(ReloadedFile::load(file, parse)?))
    }

    /// Reloads the file whenever it has changed. Never returns.
    pub(super) async fn follow(self) {
        self.0.follow().await;
    }

    /// Encrypts and authenticates a text, for a cookie.
    pub(super) fn seal(&self, purpose: Purpose, plain: &[u8]) -> Result<String> {
        let read = self.0.current();
        let key = read.value.first().context("there is no key")?;
        let mut sealed = vec![0; SALT_BYTES];
        SystemRandom::new().fill(&mut sealed).ok().context("no random numbers")?;
        let cipher = cipher(key, &sealed, purpose).context("no cipher")?;
        let mut text = plain.to_vec();
        cipher
            .seal_in_place_append_tag(once(), Aad::from(purpose.label()), &mut text)
            .ok()
            .context("too long to seal")?;
        sealed.append(&mut text);
        Ok(BASE64_URL_SAFE_NO_PAD.encode(sealed))
    }

    /// Opens what one of the keys has sealed for this purpose.
    pub(super) fn open(&self, purpose: Purpose, sealed: &str) -> Option<Vec<u8>> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (salt, text) = bytes.split_at_checked(SALT_BYTES)?;
        let read = self.0.current();
        read.value.iter().find_map(|key| {
            let mut text = text.to_vec();
            let cipher = cipher(key, salt, purpose)?;
            let plain = cipher.open_in_place(once(), Aad::from(purpose.label()), &mut text).ok()?;
            Some(plain.to_vec())
        })
    }

    #[cfg(test)]
    fn of_text(text: &str) -> Self {
        Self(ReloadedFile::of_text(text, parse))
    }
}

/// The cipher of one text. Its key is derived with the text's salt, so that no nonce is used twice with one key.
fn cipher(key: &[u8], salt: &[u8], purpose: Purpose) -> Option<LessSafeKey> {
    let label = [purpose.label()];
    let derived = Salt::new(HKDF_SHA256, salt).extract(key);
    let derived = derived.expand(&label, &AES_256_GCM).ok()?;
    Some(LessSafeKey::new(UnboundKey::from(derived)))
}

fn once() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

fn parse(text: &str) -> Result<Vec<[u8; KEY_BYTES]>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys = lines
        .map(|line| {
            let key = BASE64_STANDARD.decode(line).ok().and_then(|key| key.try_into().ok());
            key.context(
                "a line is no key: 32 random bytes in base64, as `openssl rand -base64 32` makes them",
            )
        })
        .collect::<Result<Vec<[u8; KEY_BYTES]>>>()?;
    ensure!(!keys.is_empty(), "there is no key in it");
    ensure!(keys.len() <= KEYS_MAX, "there are more than {KEYS_MAX} keys in it");
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(byte: u8) -> String {
        BASE64_STANDARD.encode([byte; KEY_BYTES])
    }

    #[test]
    fn the_first_key_seals_and_all_open_until_they_are_gone() {
        let old = SealingKeys::of_text(&line(1));
        let sealed = old.seal(Purpose::Session, b"alice").unwrap();
        let both = SealingKeys::of_text(&format!("# new\n{}\n{}\n", line(2), line(1)));
        assert_eq!(both.open(Purpose::Session, &sealed).unwrap(), b"alice");
        let newer = both.seal(Purpose::Session, b"alice").unwrap();
        assert_eq!(old.open(Purpose::Session, &newer), None);
        let new = SealingKeys::of_text(&line(2));
        assert_eq!(new.open(Purpose::Session, &newer).unwrap(), b"alice");
        assert_eq!(new.open(Purpose::Session, &sealed), None);
    }

    #[test]
    fn what_is_changed_or_for_something_else_opens_nowhere() {
        let keys = SealingKeys::of_text(&line(1));
        let sealed = keys.seal(Purpose::Login, b"state").unwrap();
        assert_ne!(sealed, keys.seal(Purpose::Login, b"state").unwrap());
        assert_eq!(keys.open(Purpose::Session, &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(keys.open(Purpose::Login, &changed).is_none_or(|plain| plain == b"state"), "{at}");
        }
        let (start, rest) = sealed.split_at(40);
        for nothing in ["", "A", "%%%", start, rest] {
            assert_eq!(keys.open(Purpose::Login, nothing), None, "{nothing}");
        }
    }

    #[test]
    fn a_file_without_good_keys_is_refused() {
        for bad in ["", "# only words\n", "c2hvcnQ=", "no base64!", &format!("{}\n", line(1)).repeat(9)] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
