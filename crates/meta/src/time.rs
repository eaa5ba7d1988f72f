//! Times as Kubernetes writes them, and ages as kubectl prints them.

use jiff::Timestamp;
use std::fmt;

/// The error for a text that is not an RFC 3339 time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse")]
pub struct TimeError {
    text: String,
}

const MICROS_PER_SECOND: i64 = 1_000_000;
/// Seconds of a day.
pub const DAY_SECONDS: i64 = 86_400;

/// Formats Unix seconds as `2026-01-02T03:04:05Z`. A time that the calendar does not have is clamped to its nearest
/// one.
pub fn rfc3339(unix_seconds: i64) -> String {
    format!("{:.0}", clamped(unix_seconds, 0))
}

/// Formats Unix microseconds as `2026-01-02T03:04:05.000006Z`.
pub fn rfc3339_micro(unix_micros: i64) -> String {
    let nanos = unix_micros.rem_euclid(MICROS_PER_SECOND).saturating_mul(1000);
    format!("{:.6}", clamped(unix_micros.div_euclid(MICROS_PER_SECOND), nanos))
}

/// Unix seconds of the years 0 to 9999.
const YEARS: std::ops::Range<i64> = -62_167_219_200..253_402_300_800;

/// Unix seconds of an RFC 3339 time; digits below a second are dropped.
pub fn parse(text: &str) -> Result<i64, TimeError> {
    Ok(parse_micro(text)?.div_euclid(MICROS_PER_SECOND))
}

/// Unix microseconds of an RFC 3339 time.
pub fn parse_micro(text: &str) -> Result<i64, TimeError> {
    let error = || TimeError { text: text.to_owned() };
    if !is_rfc3339(text.as_bytes()) {
        return Err(error());
    }
    let micros = text.parse::<Timestamp>().map(Timestamp::as_microsecond).map_err(|_error| error())?;
    // With its offset applied, a time can be outside the years 0 to 9999.
    if YEARS.contains(&micros.div_euclid(MICROS_PER_SECOND)) { Ok(micros) } else { Err(error()) }
}

fn clamped(unix_seconds: i64, nanos: i64) -> Timestamp {
    let nanos = i32::try_from(nanos).unwrap_or_default();
    let end = if unix_seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::new(unix_seconds, nanos).unwrap_or(end)
}

/// Whether the text has the form `date T time (Z | offset)`. jiff accepts more forms than Go does.
fn is_rfc3339(text: &[u8]) -> bool {
    let Some((head, tail)) = text.split_at_checked(b"2006-01-02T15:04:05".len()) else { return false };
    let shape_fits = head.iter().zip(b"0000-00-00T00:00:00").all(|(byte, form)| match form {
        b'0' => byte.is_ascii_digit(),
        other => byte == other,
    });
    let zone = match tail.strip_prefix(b".").or_else(|| tail.strip_prefix(b",")) {
        Some(fraction) => {
            let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if digits == 0 {
                return false;
            }
            fraction.get(digits..).unwrap_or_default()
        }
        None => tail,
    };
    let zone_fits = match zone {
        [b'Z'] => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => [h1, h2, m1, m2].iter().all(|byte| byte.is_ascii_digit()),
        _ => false,
    };
    shape_fits && zone_fits
}

/// An age as kubectl's tables print it: `5s`, `3m20s`, `2h`, `4d`, `2y10d`; `<invalid>` for the future.
pub fn age(seconds: i64) -> String {
    Age(seconds).to_string()
}

/// The age of an RFC 3339 time; `<unknown>` if the text is not a time.
pub fn age_since(time: &str, now_unix_seconds: i64) -> String {
    parse(time)
        .map_or_else(|_error| "<unknown>".to_owned(), |then| age(now_unix_seconds.saturating_sub(then)))
}

struct Age(i64);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0;
        let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / DAY_SECONDS);
        let years = days / 365;
        let pair = |f: &mut fmt::Formatter<'_>, big: i64, unit: char, small: i64, sub: char| {
            if small == 0 { write!(f, "{big}{unit}") } else { write!(f, "{big}{unit}{small}{sub}") }
        };
        match seconds {
            ..-1 => f.write_str("<invalid>"),
            -1..0 => f.write_str("0s"),
            0..120 => write!(f, "{seconds}s"),
            _ if minutes < 10 => pair(f, minutes, 'm', seconds % 60, 's'),
            _ if minutes < 180 => write!(f, "{minutes}m"),
            _ if hours < 8 => pair(f, hours, 'h', minutes % 60, 'm'),
            _ if hours < 48 => write!(f, "{hours}h"),
            _ if days < 8 => pair(f, days, 'd', hours % 24, 'h'),
            _ if days < 365 * 2 => write!(f, "{days}d"),
            _ if days < 365 * 8 => pair(f, years, 'y', days % 365, 'd'),
            _ => write!(f, "{years}y"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_written_as_kubernetes_writes_them() {
        assert_eq!(rfc3339(1_767_323_045), "2026-01-02T03:04:05Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59Z");
        assert_eq!(rfc3339_micro(1_767_323_045_000_006), "2026-01-02T03:04:05.000006Z");
        assert_eq!(rfc3339_micro(-1), "1969-12-31T23:59:59.999999Z");
        assert!(rfc3339(i64::MAX).starts_with("9999-12-3"));
    }

    #[test]
    fn only_rfc_3339_is_read() {
        for (text, want) in [
            ("2026-01-02T03:04:05Z", 1_767_323_045),
            ("2026-01-02T03:04:05.999999999Z", 1_767_323_045),
            ("2026-01-02T05:04:05+02:00", 1_767_323_045),
            ("1969-12-31T23:59:59.5Z", -1),
        ] {
            assert_eq!(parse(text), Ok(want), "{text}");
        }
        for text in [
            "",
            "2026-01-02",
            "2026-01-02 03:04:05Z",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04:05z",
            "2026-01-02T03:04:05.Z",
            "2026-01-02T03:04:05+02",
            "2026-13-02T03:04:05Z",
            "2026-02-30T03:04:05Z",
            "2026-01-02T03:04:05Z[UTC]",
            "+002026-01-02T03:04:05Z",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ages_read_as_in_kubectl() {
        for (seconds, want) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (12_000, "3h20m"),
            (28_799, "7h59m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_199, "7d23h"),
            (691_200, "8d"),
            (63_071_999, "729d"),
            (63_072_000, "2y"),
            (64_000_000, "2y10d"),
            (252_288_000, "8y"),
        ] {
            assert_eq!(age(seconds), want, "{seconds}");
        }
        assert_eq!(age_since("2026-01-02T03:04:05Z", 1_767_323_050), "5s");
        assert_eq!(age_since("", 0), "<unknown>");
    }

    proptest! {
        #[test]
        fn writing_and_reading_gives_the_same_time(seconds in -62_000_000_000_i64..253_000_000_000, text in "\\PC*") {
            prop_assert_eq!(parse(&rfc3339(seconds)), Ok(seconds));
            prop_assert_eq!(parse_micro(&rfc3339_micro(seconds * 1000)), Ok(seconds * 1000));
            drop(parse(&text));
        }
    }
}
