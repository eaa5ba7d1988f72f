//! Exact resource quantities such as `500m`, `0.5`, `1e3` and `1Ki`. They are compared and added by value.

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// An amount in units of 10⁻⁹, with the suffix family it was written in.
///
/// Equality and order are by value. The text form is Kubernetes' canonical one
/// (`k8s.io/apimachinery/pkg/api/resource`). The range is that of Kubernetes: |value| ≤ 2⁶³−1 whole units.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// The suffix family of a quantity's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `1.5`, `100m`, `2k`
    DecimalSi,
    /// `1Ki`, `2Gi`
    BinarySi,
    /// `1e3`
    DecimalExponent,
}

/// Amounts by resource name, as in `spec.hard`.
pub type ResourceList = BTreeMap<String, Quantity>;

impl Quantity {
    /// Zero.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// The largest amount there is.
    pub const MAX: Self = Self { nanos: NANOS_MAX, format: Format::DecimalSi };

    /// An amount of units of 10⁻⁹.
    pub fn from_nanos(nanos: i128, format: Format) -> Self {
        Self { nanos, format }
    }

    /// The amount in units of 10⁻⁹.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// Its suffix family.
    pub fn format(self) -> Format {
        self.format
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}
impl Eq for Quantity {}
impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// Units of 10⁻⁹ in a whole unit.
pub const NANOS_PER_UNIT: i128 = 1_000_000_000;
/// The largest amount in units of 10⁻⁹: `i64::MAX` whole units.
const NANOS_MAX: i128 = (i64::MAX as i128) * NANOS_PER_UNIT;
const NANOS_PER_THOUSANDTH: i128 = NANOS_PER_UNIT / 1000;
/// Decimal digits that an amount in range can have when counted in units of 10⁻⁹.
const DIGITS_MAX: usize = 28;
const DECIMAL_SUFFIXES: [(&str, i32); 10] =
    [("", 0), ("n", -9), ("u", -6), ("m", -3), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY_SUFFIXES: [(&str, u32); 6] =
    [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

/// Why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text is not a number with an optional suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Malformed,
    /// Its digits do not form a number.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// Its suffix is not one of Kubernetes'.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// It is larger than a signed 64-bit integer of whole units.
    #[error("quantity is out of range: it must be between -9223372036854775807 and 9223372036854775807")]
    OutOfRange,
}

impl Quantity {
    /// An amount of whole units.
    pub fn from_units(units: i64) -> Self {
        Self { nanos: i128::from(units).saturating_mul(NANOS_PER_UNIT), format: Format::DecimalSi }
    }

    /// Parses a decimal number of units of 10⁻⁹, as [`Self::nanos_text`] writes it.
    pub fn from_nanos_text(text: &str, format: Format) -> Result<Self, QuantityError> {
        let nanos: i128 = text.parse().map_err(|_error| QuantityError::Number)?;
        in_range(nanos).map(|nanos| Self { nanos, format }).ok_or(QuantityError::OutOfRange)
    }

    /// The amount in units of 10⁻⁹ as decimal text, which is exact in any database.
    pub fn nanos_text(self) -> String {
        self.nanos.to_string()
    }

    /// Whether it is less than zero.
    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whether it is zero.
    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// Whether it is a whole number of units.
    pub fn is_integer(self) -> bool {
        self.nanos % NANOS_PER_UNIT == 0
    }

    /// The amount rounded up to thousandths, as Kubernetes rounds amounts of resources (`MilliValue`).
    #[must_use]
    pub fn in_thousandths(self) -> Self {
        let beyond = self.nanos.rem_euclid(NANOS_PER_THOUSANDTH);
        let missing = if beyond == 0 { 0 } else { NANOS_PER_THOUSANDTH - beyond };
        Self { nanos: self.nanos.saturating_add(missing), format: self.format }
    }

    /// The sum, unless it is out of range. It has this quantity's suffix family, or the other's if this one is zero.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let nanos = in_range(self.nanos.checked_add(other.nanos)?)?;
        Some(Self { nanos, format: if self.is_zero() { other.format } else { self.format } })
    }

    /// The difference, unless it is out of range. Suffix family as in [`Self::checked_add`].
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        let nanos = in_range(self.nanos.checked_sub(other.nanos)?)?;
        Some(Self { nanos, format: if self.is_zero() { other.format } else { self.format } })
    }
}

/// Parses a number of bytes of at least 1, such as the `256Mi` of a flag.
pub fn byte_count(text: &str) -> Result<u64, String> {
    let quantity = text.parse::<Quantity>().ok().filter(|quantity| quantity.is_integer());
    let bytes = quantity.and_then(|quantity| u64::try_from(quantity.nanos / NANOS_PER_UNIT).ok());
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| format!("{text:?} is no number of bytes such as 256Mi"))
}

fn in_range(nanos: i128) -> Option<i128> {
    (-NANOS_MAX..=NANOS_MAX).contains(&nanos).then_some(nanos)
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if let Some(quantity) = whole_number(text) {
            return Ok(quantity);
        }
        let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
            Some(rest) => (text.starts_with('-'), rest),
            None => (false, text),
        };
        let (number, suffix) = split_where(unsigned, |c| !(c.is_ascii_digit() || c == '.'));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') {
            return Err(QuantityError::Malformed);
        }
        if whole.is_empty() && fraction.is_empty() {
            return Err(QuantityError::Malformed);
        }
        let Suffix { factor, exponent, format } = suffix.parse::<Suffix>()?;
        let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|b| b.wrapping_sub(b'0')).collect();
        let places = i64::try_from(fraction.len()).map_err(|_error| QuantityError::OutOfRange)?;
        let shift = exponent.saturating_sub(places).saturating_add(9);
        let nanos = shifted(&multiplied(digits, factor), shift)?;
        let nanos = in_range(if negative { -nanos } else { nanos }).ok_or(QuantityError::OutOfRange)?;
        let below_one = nanos != 0 && nanos.abs() < NANOS_PER_UNIT;
        let format = if format == Format::BinarySi && below_one { Format::DecimalSi } else { format };
        Ok(Self { nanos, format })
    }
}

/// Parses the form that nearly all quantities have: a whole number, and a suffix without an exponent. The others are
/// left to the arithmetic with single digits, which takes several times as long.
fn whole_number(text: &str) -> Option<Quantity> {
    let (digits, suffix) = split_where(text, |c| !c.is_ascii_digit());
    let number: i64 = digits.parse().ok()?;
    let Suffix { factor, exponent, format } = suffix.parse::<Suffix>().ok()?;
    if format == Format::DecimalExponent {
        return None;
    }
    let power = u32::try_from(exponent.saturating_add(9)).ok()?;
    let unit = i128::from(factor).checked_mul(10_i128.checked_pow(power)?)?;
    let nanos = in_range(i128::from(number).checked_mul(unit)?)?;
    Some(Quantity { nanos, format })
}

fn split_where(text: &str, end: impl Fn(char) -> bool) -> (&str, &str) {
    let at = text.find(end).unwrap_or(text.len());
    text.split_at_checked(at).unwrap_or((text, ""))
}

/// The meaning of a suffix: what the number before it is multiplied by, and the suffix family.
struct Suffix {
    /// A power of two.
    factor: u64,
    /// The exponent of ten.
    exponent: i64,
    format: Format,
}

impl FromStr for Suffix {
    type Err = QuantityError;

    fn from_str(suffix: &str) -> Result<Self, QuantityError> {
        if let Some((_, exponent)) = DECIMAL_SUFFIXES.iter().find(|(text, _)| *text == suffix) {
            return Ok(Self { factor: 1, exponent: i64::from(*exponent), format: Format::DecimalSi });
        }
        if let Some((_, bits)) = BINARY_SUFFIXES.iter().find(|(text, _)| *text == suffix) {
            return Ok(Self { factor: 1 << bits, exponent: 0, format: Format::BinarySi });
        }
        let (letters, number) = split_where(suffix, |c| !"eEinumkKMGTP".contains(c));
        let digits = number.strip_prefix(['-', '+']).unwrap_or(number);
        if digits.bytes().any(|b| !b.is_ascii_digit()) {
            return Err(QuantityError::Malformed);
        }
        if !matches!(letters, "e" | "E") {
            return Err(QuantityError::Suffix);
        }
        let exponent = number.parse().map_err(|_error| QuantityError::Suffix)?;
        Ok(Self { factor: 1, exponent, format: Format::DecimalExponent })
    }
}

/// Decimal digits times a factor, exactly.
fn multiplied(mut digits: Vec<u8>, factor: u64) -> Vec<u8> {
    if factor == 1 {
        return digits;
    }
    let mut carry = 0_u128;
    for digit in digits.iter_mut().rev() {
        carry += u128::from(*digit) * u128::from(factor);
        *digit = u8::try_from(carry % 10).unwrap_or_default();
        carry /= 10;
    }
    let mut head: Vec<u8> = carry.to_string().bytes().map(|b| b.wrapping_sub(b'0')).collect();
    head.append(&mut digits);
    head
}

/// Decimal digits times a power of ten as an integer, rounded up.
fn shifted(digits: &[u8], shift: i64) -> Result<i128, QuantityError> {
    let start = digits.iter().position(|digit| *digit != 0).unwrap_or(digits.len());
    let significant = digits.get(start..).unwrap_or_default();
    if significant.is_empty() {
        return Ok(0);
    }
    let dropped = usize::try_from(shift.saturating_neg()).unwrap_or_default();
    let zeros = usize::try_from(shift).unwrap_or_default();
    let (kept, lost) = significant.split_at(significant.len().saturating_sub(dropped));
    if kept.len().saturating_add(zeros) > DIGITS_MAX {
        return Err(QuantityError::OutOfRange);
    }
    let nanos =
        kept.iter().copied().chain(std::iter::repeat_n(0, zeros)).fold(0, |n, d| n * 10 + i128::from(d));
    Ok(nanos + i128::from(lost.iter().any(|digit| *digit != 0)))
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let small = self.nanos.abs() < 1024 * NANOS_PER_UNIT;
        match self.format {
            _ if self.is_zero() => f.write_str("0"),
            Format::BinarySi if !small && self.is_integer() => self.write_binary(f),
            Format::DecimalExponent => self.write_decimal(f, |f, exponent| write!(f, "e{exponent}")),
            Format::BinarySi | Format::DecimalSi => self.write_decimal(f, |f, exponent| {
                let suffix = DECIMAL_SUFFIXES.iter().find(|(_, e)| *e == exponent);
                f.write_str(suffix.map_or("", |(text, _)| *text))
            }),
        }
    }
}

impl Quantity {
    fn write_binary(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut amount = self.nanos / NANOS_PER_UNIT;
        let mut suffix = "";
        for (text, _) in BINARY_SUFFIXES {
            if amount % 1024 != 0 {
                break;
            }
            amount /= 1024;
            suffix = text;
        }
        write!(f, "{amount}{suffix}")
    }

    fn write_decimal(
        self,
        f: &mut fmt::Formatter<'_>,
        suffix: impl Fn(&mut fmt::Formatter<'_>, i32) -> fmt::Result,
    ) -> fmt::Result {
        let (mut amount, mut exponent) = (self.nanos, -9);
        // Nearly all amounts fit in 64 bits, which are divided much faster.
        if let Ok(mut narrow) = i64::try_from(amount) {
            while narrow % 1000 == 0 && exponent < 18 {
                narrow /= 1000;
                exponent += 3;
            }
            amount = i128::from(narrow);
        }
        while amount % 1000 == 0 && exponent < 18 {
            amount /= 1000;
            exponent += 3;
        }
        write!(f, "{amount}")?;
        if exponent == 0 { Ok(()) } else { suffix(f, exponent) }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        text.trim().parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, units: i64) -> Result<Quantity, E> {
        self.visit_str(&units.to_string())
    }

    fn visit_u64<E: de::Error>(self, units: u64) -> Result<Quantity, E> {
        self.visit_str(&units.to_string())
    }

    fn visit_f64<E: de::Error>(self, units: f64) -> Result<Quantity, E> {
        self.visit_str(&units.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_of_bytes_is_whole_and_positive() {
        assert_eq!((byte_count("256Mi"), byte_count("1k")), (Ok(256 << 20), Ok(1000)));
        for text in ["0", "-1Mi", "1500m", "256MiB", "", "16Ei"] {
            assert!(byte_count(text).is_err(), "{text}");
        }
    }

    fn canonical(text: &str) -> String {
        text.parse::<Quantity>().map_or_else(|error| format!("{error:?}"), |quantity| quantity.to_string())
    }

    #[test]
    fn texts_take_their_canonical_form() {
        for (text, want) in [
            ("0", "0"),
            ("0.0Ki", "0"),
            ("-0", "0"),
            ("500m", "500m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.", "1"),
            ("+5", "5"),
            ("005", "5"),
            ("-5", "-5"),
            ("1000", "1k"),
            ("1000m", "1"),
            ("1500", "1500"),
            ("12345000", "12345k"),
            ("100k", "100k"),
            ("1000k", "1M"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("1e+3", "1e3"),
            ("5e-1", "500e-3"),
            ("100e0", "100"),
            ("10e2", "1e3"),
            ("1E", "1E"),
            ("1000P", "1E"),
            ("1024", "1024"),
            ("1Ki", "1Ki"),
            ("1024Ki", "1Mi"),
            ("0.5Ki", "512"),
            ("0.5Mi", "512Ki"),
            ("1.1Mi", "1153433600m"),
            ("1.5Gi", "1536Mi"),
            ("-1Ki", "-1Ki"),
            ("0.0001Ki", "102400u"),
            ("100n", "100n"),
            ("0.1n", "1n"),
            ("-0.1n", "-1n"),
            ("1.0000000001", "1000000001n"),
            ("1e-30", "1e-9"),
            ("0e9999999999", "0"),
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "OutOfRange"),
            ("-9223372036854775807", "-9223372036854775807"),
            ("10E", "OutOfRange"),
            ("8Ei", "OutOfRange"),
            ("1e99999999", "OutOfRange"),
            ("1e99999999999999999999", "Suffix"),
            ("", "Malformed"),
            ("-", "Malformed"),
            (".", "Malformed"),
            ("m", "Malformed"),
            ("1..2", "Malformed"),
            ("1.2.3", "Malformed"),
            ("1 Ki", "Malformed"),
            ("1x", "Malformed"),
            ("1e3x", "Malformed"),
            ("1e", "Suffix"),
            ("1ki", "Suffix"),
            ("1K", "Suffix"),
            ("1mm", "Suffix"),
            ("1Ki5", "Suffix"),
            ("1e--3", "Malformed"),
            ("１", "Malformed"),
        ] {
            assert_eq!(canonical(text), want, "{text:?}");
        }
    }

    /// A number with a sign is never read in the short way.
    #[test]
    fn whole_numbers_are_read_alike_in_both_ways() {
        let read = |text: &str| text.parse::<Quantity>().map(|quantity| (quantity.nanos, quantity.format));
        let suffixes = DECIMAL_SUFFIXES.map(|(text, _)| text).into_iter();
        for suffix in suffixes.chain(BINARY_SUFFIXES.map(|(text, _)| text)) {
            for number in ["0", "7", "005", "1024", "8388608", "9223372036854775807"] {
                let text = format!("{number}{suffix}");
                assert_eq!(read(&text), read(&format!("+{text}")), "{text}");
            }
            assert!(whole_number(&format!("7{suffix}")).is_some(), "{suffix:?}");
        }
    }

    /// Texts with upstream's answers, recorded by `tests/recorder`.
    fn compare_with_upstream(recorded: &str) {
        for line in recorded.lines() {
            let (text, want) = line.split_once(' ').unwrap();
            let shown = match text.parse::<Quantity>() {
                // Upstream caps some amounts and lets others grow without bound.
                Err(QuantityError::OutOfRange) => continue,
                // Upstream reads a number without any digit as nothing; its own grammar does not allow it.
                Err(_)
                    if !text
                        .trim_start_matches(['-', '+', '.'])
                        .starts_with(|c: char| c.is_ascii_digit()) =>
                {
                    continue;
                }
                Err(_) => "-".to_owned(),
                Ok(quantity) => quantity.to_string(),
            };
            assert_eq!(shown, want, "{text:?}");
        }
    }

    #[test]
    fn upstreams_answers_are_ours() {
        compare_with_upstream(include_str!("../tests/recorder/quantities.txt"));
    }

    #[test]
    #[ignore = "reads a longer recording from the file that RECORDED_QUANTITIES names"]
    fn upstreams_answers_are_ours_in_the_long_form() {
        let path = std::env::var("RECORDED_QUANTITIES").expect("RECORDED_QUANTITIES");
        compare_with_upstream(&std::fs::read_to_string(path).unwrap());
    }

    #[test]
    fn thousandths_are_rounded_up() {
        for (text, want) in [
            ("100u", "1m"),
            ("1n", "1m"),
            ("100500u", "101m"),
            ("1m", "1m"),
            ("0", "0"),
            ("0.0001Ki", "103m"),
            ("1500Mi", "1500Mi"),
            ("1.0000000001", "1001m"),
            ("9223372036854775807", "9223372036854775807"),
        ] {
            assert_eq!(text.parse::<Quantity>().unwrap().in_thousandths().to_string(), want, "{text}");
        }
    }

    #[test]
    fn amounts_are_compared_and_added_by_value() {
        let q = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(q("500m"), q("0.5"));
        assert_eq!(q("1Ki"), q("1024"));
        assert!(q("1k") < q("1Ki"));
        assert_eq!(q("1Gi").checked_add(q("1024Mi")).unwrap().to_string(), "2Gi");
        assert_eq!(q("0").checked_add(q("1Ki")).unwrap().to_string(), "1Ki");
        assert_eq!(q("1").checked_sub(q("1500m")).unwrap().to_string(), "-500m");
        assert_eq!(q("9223372036854775807").checked_add(q("1n")), None);
        assert!(q("3k").is_integer() && !q("3m").is_integer() && q("-1").is_negative());
        assert_eq!(Quantity::from_nanos_text(&q("1.5").nanos_text(), Format::DecimalSi).unwrap(), q("1500m"));
    }

    #[test]
    fn json_takes_strings_and_numbers() {
        let read = |text: &str| serde_json::from_str::<Quantity>(text).map(|q| q.to_string()).ok();
        assert_eq!(read("\" 1.5 \"").as_deref(), Some("1500m"));
        assert_eq!(read("3").as_deref(), Some("3"));
        assert_eq!(read("0.25").as_deref(), Some("250m"));
        assert_eq!(read("-18446744073709551615"), None);
        assert_eq!(read("true"), None);
        assert_eq!(serde_json::to_string(&Quantity::from_units(2000)).unwrap(), "\"2k\"");
    }

    fn any_format() -> impl Strategy<Value = Format> {
        prop_oneof![Just(Format::DecimalSi), Just(Format::BinarySi), Just(Format::DecimalExponent)]
    }

    proptest! {
        #[test]
        fn printing_and_reading_gives_the_same_amount(nanos in -NANOS_MAX..=NANOS_MAX, format in any_format()) {
            for nanos in [nanos, nanos / NANOS_PER_UNIT * NANOS_PER_UNIT, nanos >> 40] {
                let quantity = Quantity::from_nanos(nanos, format);
                let text = quantity.to_string();
                let read: Quantity = text.parse().unwrap();
                prop_assert_eq!(read, quantity);
                // A binary amount that no suffix fits is written bare, and bare numbers are decimal.
                prop_assert!(format == Format::BinarySi || read.to_string() == text);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[-+]?[0-9.]{0,40}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,12}|\\PC*") {
            if let Ok(quantity) = text.parse::<Quantity>() {
                prop_assert_eq!(quantity.to_string().parse::<Quantity>(), Ok(quantity));
            }
        }
    }
}
