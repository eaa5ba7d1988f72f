//! Amounts as people write and read them. Decisions use exact quantities.

use crate::screen::{Screen, Tone};
use meta::quantity::{Format, NANOS_PER_UNIT, Quantity, ResourceList};

/// Percentage from which a usage is marked as high.
const HIGH: i128 = 80;
/// Percentage from which a usage is marked as almost full.
const FULL: i128 = 95;
/// Longest exact amount, in characters, that is shown in full where space is short.
const SHORT_TEXT_MAX: usize = 7;

/// Parses `requests.cpu=4,pods=10`; the flag may be repeated.
pub(crate) fn parse_list(texts: &[String]) -> Result<ResourceList, String> {
    let mut list = ResourceList::new();
    for pair in texts.iter().flat_map(|text| text.split(',')).filter(|pair| !pair.is_empty()) {
        let (resource, amount) =
            pair.split_once('=').ok_or_else(|| format!("{pair:?} is not RESOURCE=AMOUNT"))?;
        let amount: Quantity = amount.parse().map_err(|error| format!("{pair:?}: {error}"))?;
        if list.insert(resource.to_owned(), amount).is_some() {
            return Err(format!("{resource} is given twice"));
        }
    }
    Ok(list)
}

/// `requests.cpu=4, pods=10`
pub(crate) fn list_text(list: &ResourceList) -> String {
    let pairs: Vec<String> = list.iter().map(|(resource, amount)| format!("{resource}={amount}")).collect();
    pairs.join(", ")
}

/// The amount of a resource in a list; 0 where it is not named.
pub(crate) fn get(list: &ResourceList, resource: &str) -> Quantity {
    list.get(resource).copied().unwrap_or(Quantity::ZERO)
}

/// The difference, at least 0.
pub(crate) fn saturating_sub(amount: Quantity, other: Quantity) -> Quantity {
    amount.checked_sub(other).filter(|left| !left.is_negative()).unwrap_or(Quantity::ZERO)
}

/// The sum, at most the largest quantity.
pub(crate) fn saturating_add(amount: Quantity, other: Quantity) -> Quantity {
    amount.checked_add(other).unwrap_or(Quantity::MAX)
}

/// Whole percent, rounded down, so that 100 is full. A limit of 0 with something in it is full; without, it has no
/// percentage.
pub(crate) fn percent(part: Quantity, whole: Quantity) -> Option<i128> {
    if whole.is_zero() {
        return (part > Quantity::ZERO).then_some(100);
    }
    part.nanos().checked_mul(100)?.checked_div(whole.nanos())
}

/// The tone that shows how full a limit is.
pub(crate) fn tone(percent: Option<i128>) -> Tone {
    match percent {
        Some(FULL..) => Tone::Full,
        Some(HIGH..) => Tone::High,
        _ => Tone::Plain,
    }
}

/// The mark that shows how full a limit is where there is no colour.
pub(crate) fn mark(percent: Option<i128>) -> &'static str {
    match percent {
        Some(FULL..) => "!!",
        Some(HIGH..) => "!",
        _ => "",
    }
}

/// The exact amount if it is short, else with one decimal, rounded down: `1.2Gi`.
pub(crate) fn short_text(amount: Quantity) -> String {
    let exact = amount.to_string();
    if exact.len() <= SHORT_TEXT_MAX {
        return exact;
    }
    let binary = amount.format() == Format::BinarySi;
    let step = if binary { 1024 } else { 1000 };
    let suffixes: &[&str] =
        if binary { &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] } else { &["", "k", "M", "G", "T", "P", "E"] };
    let nanos = amount.nanos();
    let (mut unit, mut suffix) = (NANOS_PER_UNIT, "");
    if nanos.abs() < NANOS_PER_UNIT {
        (unit, suffix) = (NANOS_PER_UNIT / 1000, "m");
    }
    for larger in suffixes.iter().skip(1) {
        if nanos.abs() < unit * step || suffix == "m" {
            break;
        }
        unit *= step;
        suffix = larger;
    }
    let (whole, tenths) = (nanos / unit, (nanos % unit).abs() * 10 / unit);
    if tenths == 0 { format!("{whole}{suffix}") } else { format!("{whole}.{tenths}{suffix}") }
}

/// The allocated amount, and the amount held without an object beside it: `10 +2 held`.
pub(crate) fn with_held(allocated: Quantity, held: Quantity, shown: impl Fn(Quantity) -> String) -> String {
    if held.is_zero() { shown(allocated) } else { format!("{} +{} held", shown(allocated), shown(held)) }
}

/// A limit (`hard`), the allocated part of it, and the used part of that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bar {
    pub(crate) hard: Quantity,
    pub(crate) allocated: Quantity,
    pub(crate) used: Quantity,
}

impl Bar {
    /// A bar of this many characters: used, allocated but not used, and free.
    pub(crate) fn render(self, screen: Screen, width: usize) -> String {
        let [used, allocated, left] = if screen.unicode { ["█", "▒", "·"] } else { ["#", "=", "."] };
        let of_used = cells(self.used, self.hard, width);
        let of_allocated = cells(self.allocated, self.hard, width).max(of_used);
        let taken = used.repeat(of_used) + &allocated.repeat(of_allocated.saturating_sub(of_used));
        let tone = match tone(percent(self.allocated, self.hard)) {
            Tone::Plain => Tone::Good,
            other => other,
        };
        screen.paint(tone, &taken)
            + &screen.paint(Tone::Faint, &left.repeat(width.saturating_sub(of_allocated)))
    }
}

/// How many characters of the bar a part fills: 0 only if the part is 0, all only if it is the whole or more.
fn cells(part: Quantity, whole: Quantity, width: usize) -> usize {
    let Ok(columns) = i128::try_from(width) else { return 0 };
    if part.nanos() <= 0 {
        return 0;
    }
    if whole.nanos() <= 0 {
        return width;
    }
    let exact = part.nanos().checked_mul(columns).and_then(|product| product.checked_div(whole.nanos()));
    usize::try_from(exact.unwrap_or(columns)).unwrap_or(width).clamp(1, width.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn amounts_are_exact_where_that_is_short() {
        for (text, expected) in [
            ("64Gi", "64Gi"),
            ("2500m", "2500m"),
            ("0.5", "500m"),
            ("1234567890", "1.2G"),
            ("1234567Ki", "1.1Gi"),
            ("123456789n", "123.4m"),
            ("0", "0"),
            ("123456789", "123.4M"),
        ] {
            assert_eq!(short_text(quantity(text)), expected, "{text}");
        }
    }

    #[test]
    fn a_list_is_read_and_what_is_wrong_is_named() {
        let list = parse_list(&["requests.cpu=4,pods=10".to_owned(), "requests.memory=8Gi".to_owned()]);
        assert_eq!(list_text(&list.unwrap()), "pods=10, requests.cpu=4, requests.memory=8Gi");
        for (wrong, says) in [("pods", "RESOURCE=AMOUNT"), ("pods=x", "quantities"), ("a=1,a=2", "twice")] {
            let error = parse_list(&[wrong.to_owned()]).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_bar_is_full_only_when_nothing_is_left() {
        let screen = |unicode| Screen::plain(unicode);
        let bar = |hard, allocated, used| Bar {
            hard: quantity(hard),
            allocated: quantity(allocated),
            used: quantity(used),
        };
        assert_eq!(bar("10", "5", "2").render(screen(true), 10), "██▒▒▒·····");
        assert_eq!(bar("10", "5", "2").render(screen(false), 10), "##===.....");
        assert_eq!(bar("1000", "1", "0").render(screen(false), 10), "=.........");
        assert_eq!(bar("1000", "999", "999").render(screen(false), 10), "#########.");
        assert_eq!(bar("10", "20", "30").render(screen(false), 10), "##########");
        assert_eq!(bar("0", "0", "0").render(screen(false), 4), "....");
        assert_eq!(bar("0", "5", "0").render(screen(false), 4), "====", "it is above its limit");
        assert_eq!(bar("0", "5", "2").render(screen(false), 4), "####");
    }

    #[test]
    fn shares_are_marked_from_eighty_and_from_ninety_five() {
        for (part, marked) in [("79", ""), ("80", "!"), ("94", "!"), ("95", "!!"), ("101", "!!")] {
            assert_eq!(mark(percent(quantity(part), quantity("100"))), marked, "{part}");
        }
        assert_eq!(percent(quantity("1"), Quantity::ZERO), Some(100));
        assert_eq!(percent(Quantity::ZERO, Quantity::ZERO), None);
    }
}
