/// The parent span of a request, from its headers `traceparent` and `tracestate` (W3C trace context, level 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteParent {
    pub(super) trace: u128,
    pub(super) span: u64,
    pub(super) sampled: bool,
    pub(super) state: String,
}

/// The longest `tracestate` that is propagated. The standard requires at least 512.
const STATE_BYTES_MAX: usize = 512;
const SAMPLED: u8 = 1;

impl RemoteParent {
    /// Parses both headers. A malformed header counts as absent.
    pub fn parse(traceparent: &str, tracestate: &str) -> Option<Self> {
        let mut parts = traceparent.trim().split('-');
        let version = hexadecimal(parts.next()?, 2)?;
        let trace = hexadecimal(parts.next()?, 32)?;
        let span = u64::try_from(hexadecimal(parts.next()?, 16)?).ok()?;
        let flags = u8::try_from(hexadecimal(parts.next()?, 2)?).ok()?;
        // Later versions may have more fields after these four. Version ff is invalid.
        if version == 0xff || (version == 0 && parts.next().is_some()) || trace == 0 || span == 0 {
            return None;
        }
        let state = if tracestate.len() <= STATE_BYTES_MAX { tracestate.trim() } else { "" };
        Some(Self { trace, span, sampled: flags & SAMPLED != 0, state: state.to_owned() })
    }
}

fn hexadecimal(text: &str, digits: usize) -> Option<u128> {
    let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != digits || !text.bytes().all(lower) {
        return None;
    }
    u128::from_str_radix(text, 16).ok()
}

/// The header of a request inside a sampled trace.
pub(super) fn traceparent(trace: u128, span: u64) -> String {
    format!("00-{trace:032x}-{span:016x}-{SAMPLED:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_parent_is_read_and_written_as_the_standard_says() {
        let parent = RemoteParent::parse(GOOD, "vendor=1").unwrap();
        assert_eq!((parent.sampled, parent.state.as_str()), (true, "vendor=1"));
        assert_eq!(traceparent(parent.trace, parent.span), GOOD);
        let unsampled =
            RemoteParent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-02", "").unwrap();
        assert!(!unsampled.sampled);
        assert!(RemoteParent::parse(&GOOD.replace("00-", "cc-"), "").is_some(), "a later version");
        assert!(RemoteParent::parse(&format!("{}-more", GOOD.replace("00-", "cc-")), "").is_some());
        assert_eq!(RemoteParent::parse(GOOD, &"x".repeat(600)).unwrap().state, "");
    }

    #[test]
    fn what_is_malformed_is_not_there() {
        for bad in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(RemoteParent::parse(bad, ""), None, "{bad}");
        }
    }
}
