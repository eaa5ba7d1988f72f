use crate::{Outcome, ensure, outcome, shape};
use meta::quantity::Quantity;
use meta::selector::{FieldSelector, LabelSelector};
use meta::status::Status;
use meta::validation::NameRule;
use meta::{name as names, time as times};
use std::borrow::Cow;

fn text(input: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(input)
}

/// What is parsed, printed and parsed again is the same.
pub(super) fn label_selector(input: &[u8]) -> Result<Outcome, String> {
    match text(input).parse::<LabelSelector>() {
        Ok(selector) => {
            let printed = selector.to_string();
            ensure(printed.parse().as_ref() == Ok(&selector), || format!("{printed:?} is another selector"))?;
            let matches = [None, Some("b"), Some("2")].map(|value| selector.matches(|_| value));
            Ok(outcome((matches, selector.requirements().len().min(5), selector.for_review().len().min(5))))
        }
        Err(error) => Ok(shape(&error.to_string())),
    }
}

/// The same, but for the order of terms, which is that of their text.
pub(super) fn field_selector(input: &[u8]) -> Result<Outcome, String> {
    match text(input).parse::<FieldSelector>() {
        Ok(selector) => {
            let printed = selector.to_string();
            let terms = |selector: &FieldSelector| {
                let mut terms: Vec<_> =
                    selector.requirements().iter().map(|term| format!("{term:?}")).collect();
                terms.sort();
                terms
            };
            let again = printed
                .parse::<FieldSelector>()
                .map_err(|error| format!("{printed:?} does not parse: {error}"))?;
            ensure(terms(&again) == terms(&selector), || format!("{printed:?} is another selector"))?;
            let matches = [None, Some("b"), Some("x")].map(|value| selector.matches(|_| value));
            Ok(outcome((
                matches,
                selector.requirements().len().min(5),
                selector.exact("metadata.name").is_some(),
            )))
        }
        Err(error) => Ok(shape(&error.to_string())),
    }
}

/// The canonical text is the same amount, and stays as it is.
pub(super) fn quantity(input: &[u8]) -> Result<Outcome, String> {
    match text(input).parse::<Quantity>() {
        Ok(quantity) => {
            let printed = quantity.to_string();
            let again: Quantity =
                printed.parse().map_err(|error| format!("{printed:?} does not parse: {error}"))?;
            ensure(again == quantity, || format!("{printed:?} is another amount"))?;
            ensure(again.to_string() == printed, || format!("{printed:?} is not canonical"))?;
            let nanos = Quantity::from_nanos_text(&quantity.nanos_text(), quantity.format());
            ensure(nanos == Ok(quantity), || format!("{printed:?} is lost in nano-units"))?;
            let sums =
                (quantity.checked_add(again).is_some(), quantity.checked_sub(again).map(Quantity::is_zero));
            ensure(sums.1 == Some(true), || format!("{printed:?} less itself is not zero"))?;
            let suffix = printed.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
            Ok(outcome((suffix, printed.len().min(20), quantity.is_negative(), sums.0)))
        }
        Err(error) => Ok(shape(&error.to_string())),
    }
}

/// A time that is read can be written and read again.
pub(super) fn time(input: &[u8]) -> Result<Outcome, String> {
    let text = text(input);
    let seconds = times::parse(&text);
    if let Ok(seconds) = seconds {
        let printed = times::rfc3339(seconds);
        ensure(times::parse(&printed) == Ok(seconds), || format!("{printed:?} is another time"))?;
    }
    let micros = times::parse_micro(&text);
    if let Ok(micros) = micros {
        let printed = times::rfc3339_micro(micros);
        ensure(times::parse_micro(&printed) == Ok(micros), || format!("{printed:?} is another time"))?;
    }
    Ok(outcome((seconds.is_ok(), micros.is_ok(), times::age_since(&text, 1_800_000_000).len())))
}

/// All rules for names.
pub(super) fn name(input: &[u8]) -> Result<Outcome, String> {
    let text = text(input);
    let label = NameRule::Label.check(&text);
    let subdomain = NameRule::Subdomain.check(&text);
    ensure(!label.is_empty() || subdomain.is_empty(), || format!("{text:?} is a label but no subdomain"))?;
    let wrong = [
        label,
        subdomain,
        NameRule::Label.check_prefix(&text),
        names::qualified_name(&text),
        names::annotation_key(&text),
        names::label_value(&text),
    ];
    let generated = names::generated(&text, "bcdfg");
    ensure(generated.len() <= 63, || format!("{generated:?} is too long"))?;
    Ok(outcome(wrong.map(|texts| texts.iter().map(|text| shape(text)).collect::<Vec<_>>())))
}

/// As it stands, and as the JSON within a token.
pub(super) fn continue_token(input: &[u8]) -> Result<Outcome, String> {
    use base64::Engine as _;
    let text = text(input);
    let encoded = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(input);
    let mut outcomes = Vec::new();
    for token in [&*text, &encoded] {
        outcomes.push(match store::testing::continue_token(token) {
            Ok(again) => {
                let twice = store::testing::continue_token(&again);
                ensure(twice.as_ref().is_ok_and(|twice| *twice == again), || {
                    format!("{again:?} is another token")
                })?;
                1
            }
            Err(error) => shape(&error.to_string()),
        });
    }
    Ok(outcome(outcomes))
}

/// A status that is read can be written and read again.
pub(super) fn status(input: &[u8]) -> Result<Outcome, String> {
    match serde_json::from_slice::<Status>(input) {
        Ok(status) => {
            let printed = serde_json::to_string(&status).map_err(|error| error.to_string())?;
            let again: Status = serde_json::from_str(&printed).map_err(|error| error.to_string())?;
            ensure(again == status, || format!("{printed:?} is another status"))?;
            Ok(outcome((status.code.min(600), status.details.is_some(), status.reason.is_empty())))
        }
        Err(error) => Ok(shape(&error.to_string())),
    }
}
