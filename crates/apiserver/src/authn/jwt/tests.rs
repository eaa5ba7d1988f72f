use super::*;
use serde_json::json;

fn encode(claims: &Value) -> String {
    let part = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
    format!("e30.{part}.c2ln")
}

#[test]
fn the_issuer_is_read_from_anything_without_a_panic() {
    assert_eq!(issuer_of(&encode(&json!({"iss": "a"}))), Some("a".to_owned()));
    for token in ["", ".", "..", "a.b.c", "a.b.c.d", &encode(&json!({"iss": 7})), &encode(&json!([]))] {
        assert_eq!(issuer_of(token), None, "{token}");
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_no_token(text in "[ -~]{0,80}") {
        proptest::prop_assert_eq!(issuer_of(&text), None);
    }
}

#[test]
fn a_token_ends_at_its_end_and_may_begin_a_minute_early() {
    let ends = |claims: Value| expires(claims.as_object().unwrap(), 1000);
    assert_eq!(ends(json!({"exp": 1000})), Ok(1000));
    assert_eq!(ends(json!({"exp": 1000.9, "nbf": 1060})), Ok(1000));
    assert_eq!(ends(json!({"exp": "1001"})), Ok(1001));
    for wrong in [
        json!({"exp": 999}),
        json!({"exp": null}),
        json!({}),
        json!({"exp": "soon"}),
        json!({"exp": "inf"}),
        json!({"exp": true}),
        json!({"exp": 1001, "nbf": 1061}),
        json!({"exp": 1001, "nbf": {}}),
    ] {
        assert!(ends(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn claims_of_the_standard_are_of_its_types() {
    let check = |claims: Value| check_types(claims.as_object().unwrap());
    let source = json!({"s": {"endpoint": "https://x"}});
    for good in [
        json!({"sub": "a", "nonce": null, "iat": 1}),
        json!({"_claim_names": {"groups": "s"}, "_claim_sources": source}),
    ] {
        assert_eq!(check(good.clone()), Ok(()), "{good}");
    }
    for wrong in [
        json!({"sub": 1}),
        json!({"at_hash": []}),
        json!({"iat": "x"}),
        json!({"_claim_names": {"groups": "s"}}),
        json!({"_claim_names": ["s"], "_claim_sources": source}),
    ] {
        assert!(check(wrong.clone()).is_err(), "{wrong}");
    }
}
