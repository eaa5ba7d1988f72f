use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::{KeyPair, PublicKeyData as _, SigningKey as _};
use yasna::models::ObjectIdentifier;
use yasna::{DERWriterSeq, Tag};

const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];
const ECDSA_WITH_SHA256: &[u64] = &[1, 2, 840, 10_045, 4, 3, 2];
/// The length of a line of PEM.
const LINE: usize = 64;

/// A private key, PKCS #8 as PEM. It is not printed by accident.
#[derive(Clone)]
pub struct KeyPem(String);

impl std::fmt::Debug for KeyPem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyPem")
    }
}

impl KeyPem {
    /// The text, for the answer to the caller.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// A key, and the request for its certificate.
#[derive(Clone, Debug)]
pub struct KeyAndRequest {
    /// EC P-256.
    pub key: KeyPem,
    /// PKCS #10, PEM.
    pub request: String,
}

/// Generates a key, and a certificate request for a user with groups. The policy in the member cluster accepts exactly
/// this subject: the groups, then the user, and nothing else. The request is encoded here because a name of rcgen
/// cannot have an attribute twice.
pub fn generate(user: &str, groups: &[String]) -> Result<KeyAndRequest, rcgen::Error> {
    let key = KeyPair::generate()?;
    let body = yasna::construct_der(|writer| {
        writer.write_sequence(|request| {
            request.next().write_u8(0);
            request.next().write_sequence(|subject| {
                for group in groups {
                    name(subject, ORGANIZATION, group);
                }
                name(subject, COMMON_NAME, user);
            });
            request.next().write_der(&key.subject_public_key_info());
            // No attributes.
            request.next().write_tagged_implicit(Tag::context(0), |writer| writer.write_set(|_| {}));
        });
    });
    let signature = key.sign(&body)?;
    let request = yasna::construct_der(|writer| {
        writer.write_sequence(|signed| {
            signed.next().write_der(&body);
            signed.next().write_sequence(|algorithm| {
                algorithm.next().write_oid(&ObjectIdentifier::from_slice(ECDSA_WITH_SHA256));
            });
            signed.next().write_bitvec_bytes(&signature, signature.len().saturating_mul(8));
        });
    });
    Ok(KeyAndRequest { key: KeyPem(key.serialize_pem()), request: pem(&request) })
}

fn name(subject: &mut DERWriterSeq<'_>, attribute: &[u64], text: &str) {
    subject.next().write_set_of(|set| {
        set.next().write_sequence(|pair| {
            pair.next().write_oid(&ObjectIdentifier::from_slice(attribute));
            pair.next().write_utf8_string(text);
        });
    });
}

fn pem(request: &[u8]) -> String {
    let mut body = BASE64_STANDARD.encode(request);
    let mut at = LINE;
    while at < body.len() {
        body.insert(at, '\n');
        at = at.saturating_add(LINE).saturating_add(1);
    }
    format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use x509_parser::certification_request::X509CertificationRequest;
    use x509_parser::prelude::FromDer as _;

    #[test]
    fn a_request_names_the_groups_and_then_the_user_and_is_signed() {
        for count in [0, 1, 8] {
            let groups: Vec<String> = (0..count).map(|n| format!("business:t:group:{n}\u{fc}")).collect();
            let generated = generate("business:t:alice", &groups).unwrap();
            assert!(generated.request.lines().all(|line| line.len() <= LINE));
            let (_, pem) = x509_parser::pem::parse_x509_pem(generated.request.as_bytes()).unwrap();
            let (rest, request) = X509CertificationRequest::from_der(&pem.contents).unwrap();
            assert!(rest.is_empty());
            request.verify_signature().unwrap();
            let subject = &request.certification_request_info.subject;
            let named: Vec<&str> = subject.iter_attributes().map(|one| one.as_str().unwrap()).collect();
            let wanted: Vec<&str> = groups.iter().map(String::as_str).chain(["business:t:alice"]).collect();
            assert_eq!(named, wanted);
            assert!(request.certification_request_info.attributes().is_empty());
        }
    }
}
