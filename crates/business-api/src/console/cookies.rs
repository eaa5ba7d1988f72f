//! Cookies of the console. All have the prefix `__Host-`: a browser sends them only to this origin and only over TLS,
//! and no other host can set them.

use anyhow::{Result, ensure};
use http::{HeaderMap, HeaderValue, header};

/// The cookie of a pending login. It is Lax, so that the browser sends it with the provider's redirect.
pub(super) const LOGIN: &str = "__Host-business-login";
/// The cookies of the session, in as many pieces as it needs. They are Strict: requests from other sites do not have
/// them.
const SESSION: &str = "__Host-business-session";
/// The bytes of a piece. Browsers keep 4096 bytes of name and value.
const CHUNK_BYTES: usize = 3800;
const CHUNKS_MAX: usize = 8;
/// The longest session that fits.
pub(super) const SESSION_BYTES_MAX: usize = CHUNK_BYTES * CHUNKS_MAX;

/// The console's own cookies, taken out of a request.
#[derive(Debug, Default)]
pub(super) struct Cookies {
    pub(super) login: Option<String>,
    pieces: [Option<String>; CHUNKS_MAX],
}

impl Cookies {
    /// Removes all cookies from the headers, as nothing else needs them, and returns ours.
    pub(super) fn take(headers: &mut HeaderMap) -> Self {
        let mut cookies = Self::default();
        for value in headers.get_all(header::COOKIE) {
            let Ok(value) = value.to_str() else { continue };
            for pair in value.split(';') {
                if let Some((name, value)) = pair.trim().split_once('=') {
                    cookies.keep(name, value);
                }
            }
        }
        headers.remove(header::COOKIE);
        cookies
    }

    fn keep(&mut self, name: &str, value: &str) {
        if name == LOGIN {
            self.login = Some(value.to_owned());
        } else if let Some(number) = piece_number(name)
            && let Some(place) = self.pieces.get_mut(number)
        {
            *place = Some(value.to_owned());
        }
    }

    /// Whether there is any piece of a session.
    pub(super) fn has_session(&self) -> bool {
        self.pieces.iter().any(Option::is_some)
    }

    /// The sealed session, if all of its pieces are there.
    pub(super) fn session(&self) -> Option<String> {
        let (count, first) = self.pieces.first()?.as_deref()?.split_once('.')?;
        let count: usize = count.parse().ok()?;
        let mut sealed = first.to_owned();
        for piece in self.pieces.get(1..count)? {
            sealed.push_str(piece.as_deref()?);
        }
        Some(sealed)
    }
}

/// The number of the session's piece in a cookie of this name.
fn piece_number(name: &str) -> Option<usize> {
    match name.strip_prefix(SESSION)?.strip_prefix('-') {
        None => (name == SESSION).then_some(0),
        Some(number) => number.parse().ok().filter(|&number| name == piece_name(number) && number > 0),
    }
}

fn piece_name(number: usize) -> String {
    if number == 0 { SESSION.to_owned() } else { format!("{SESSION}-{number}") }
}

/// Sets a session for this many seconds, and removes surplus pieces of an earlier, longer one.
pub(super) fn set_session(headers: &mut HeaderMap, sealed: &str, seconds: i64) -> Result<()> {
    ensure!(
        sealed.len() <= SESSION_BYTES_MAX,
        "the session takes {} bytes, and {SESSION_BYTES_MAX} fit into a browser's cookies: the provider's tokens say too \
         much; let it leave claims, such as groups, out of the tokens for this client",
        sealed.len()
    );
    let pieces: Vec<&[u8]> = sealed.as_bytes().chunks(CHUNK_BYTES).collect();
    for number in 0..CHUNKS_MAX {
        let name = piece_name(number);
        match pieces.get(number) {
            None => set(headers, &format!("{name}=; Max-Age=0; SameSite=Strict"))?,
            Some(piece) => {
                let piece = String::from_utf8_lossy(piece);
                let count = if number == 0 { format!("{}.", pieces.len()) } else { String::new() };
                set(headers, &format!("{name}={count}{piece}; Max-Age={seconds}; SameSite=Strict"))?;
            }
        }
    }
    Ok(())
}

/// Removes a session.
pub(super) fn remove_session(headers: &mut HeaderMap) -> Result<()> {
    (0..CHUNKS_MAX)
        .try_for_each(|number| set(headers, &format!("{}=; Max-Age=0; SameSite=Strict", piece_name(number))))
}

/// Sets the cookie of a pending login for this many seconds. An empty one for 0 seconds removes it.
pub(super) fn set_login(headers: &mut HeaderMap, sealed: &str, seconds: i64) -> Result<()> {
    set(headers, &format!("{LOGIN}={sealed}; Max-Age={seconds}; SameSite=Lax"))
}

fn set(headers: &mut HeaderMap, cookie: &str) -> Result<()> {
    headers.append(header::SET_COOKIE, HeaderValue::try_from(format!("{cookie}; Path=/; Secure; HttpOnly"))?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a browser sends after it has got these.
    fn sent_back(set: &HeaderMap) -> HeaderMap {
        let mut sent = HeaderMap::new();
        for cookie in set.get_all(header::SET_COOKIE) {
            let cookie = cookie.to_str().unwrap();
            assert!(cookie.ends_with("; Path=/; Secure; HttpOnly"), "{cookie}");
            assert!(cookie.split(';').next().unwrap().len() <= 4096);
            if !cookie.contains("Max-Age=0") {
                let pair = cookie.split(';').next().unwrap();
                sent.append(header::COOKIE, HeaderValue::try_from(pair).unwrap());
            }
        }
        sent
    }

    #[test]
    fn a_session_comes_back_whole_however_long_it_is() {
        for length in [1, CHUNK_BYTES, CHUNK_BYTES + 1, SESSION_BYTES_MAX] {
            let sealed: String = ('a'..='z').cycle().take(length).collect();
            let mut set = HeaderMap::new();
            set_session(&mut set, &sealed, 60).unwrap();
            assert_eq!(set.len(), CHUNKS_MAX);
            let mut sent = sent_back(&set);
            sent.append(header::COOKIE, HeaderValue::from_static("other=1; __Host-business-login=L"));
            let cookies = Cookies::take(&mut sent);
            assert!(sent.is_empty());
            assert_eq!(cookies.session().unwrap(), sealed, "{length}");
            assert_eq!(cookies.login.as_deref(), Some("L"));
        }
        let error = set_session(&mut HeaderMap::new(), &"x".repeat(SESSION_BYTES_MAX + 1), 60).unwrap_err();
        assert!(error.to_string().contains("30401 bytes, and 30400 fit"), "{error}");
    }

    #[test]
    fn a_session_with_a_missing_piece_is_none() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.append(header::COOKIE, HeaderValue::try_from(text).unwrap());
            Cookies::take(&mut headers)
        };
        let name = SESSION;
        assert_eq!(of(&format!("{name}=2.a; {name}-1=b")).session().unwrap(), "ab");
        assert_eq!(of(&format!("{name}=1.a; {name}-1=b")).session().unwrap(), "a");
        for broken in [
            format!("{name}=2.a"),
            format!("{name}-1=b"),
            format!("{name}=0.a"),
            format!("{name}=9.a"),
            format!("{name}=a"),
        ] {
            let cookies = of(&broken);
            assert!(cookies.has_session() && cookies.session().is_none(), "{broken}");
        }
        for other in [format!("{name}-01=a"), format!("{name}-0=a"), format!("{name}x=a"), "a=b".to_owned()] {
            assert!(!of(&other).has_session(), "{other}");
        }
    }
}
