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

#[tokio::test]
async fn an_issuer_without_an_audience_is_refused() {
    let keys = KeySource::File("/nonexistent".into());
    let error = JwtIssuer::load(JwtSettings::new("https://i", Vec::new(), keys.clone())).await.unwrap_err();
    assert!(error.to_string().contains("audience"));
    assert!(JwtIssuer::load(JwtSettings::new("https://i", vec!["a".to_owned()], keys)).await.is_err());
    let plain = KeySource::Url { url: "http://keys.example.io/jwks".to_owned(), ca_file: None };
    let error =
        JwtIssuer::load(JwtSettings::new("https://i", vec!["a".to_owned()], plain)).await.unwrap_err();
    assert!(error.to_string().contains("https"), "{error}");
}
