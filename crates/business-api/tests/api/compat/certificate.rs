//! What is compared of a certificate: it is another one each time.

use super::answer::whole;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use x509_parser::parse_x509_certificate;
use x509_parser::pem::parse_x509_pem;
use x509_parser::public_key::PublicKey;

const DAY: i64 = 86_400;

pub(super) fn shown(body: &Value) -> Value {
    let certificate = &body["status"]["certificate"];
    let Some(fields) = certificate.as_object() else { return Value::Null };
    let pem = BASE64_STANDARD.decode(certificate["certPem"].as_str().unwrap()).unwrap();
    let (_, pem) = parse_x509_pem(&pem).unwrap();
    let (_, parsed) = parse_x509_certificate(&pem.contents).unwrap();
    let subject = parsed.subject();
    let names = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
        attribute.as_str().unwrap_or_default().to_owned()
    };
    let key = match parsed.public_key().parsed() {
        Ok(PublicKey::RSA(_)) => "RSA",
        Ok(PublicKey::EC(_)) => "EC",
        _ => "another",
    };
    let validity = parsed.validity();
    let mut object = body.clone();
    object["status"].as_object_mut().unwrap().remove("certificate");
    json!({
        "CN": subject.iter_common_name().map(names).collect::<Vec<_>>().join(" "),
        "O": subject.iter_organization().map(names).collect::<Vec<_>>(),
        "key": key,
        "days": (validity.not_after.timestamp() - validity.not_before.timestamp() + DAY / 2) / DAY,
        "fields": fields.keys().collect::<Vec<_>>(),
        "object": whole(object),
    })
}
