//! The serving certificate in a cluster where nobody else issues any.
//!
//! Its authority signs it and is forgotten: no key of an authority lies anywhere. A new certificate has a new authority,
//! which the APIService trusts beside the former one before any replica shows it. The job runs daily, so the former one is
//! forgotten a day later, when every replica has read the new certificate.

use crate::config::IssueCertificate;
use crate::serve;
use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Request;
use http::header::CONTENT_TYPE;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Error};
use meta::time;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use runtime::Clock;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, sleep, timeout};

const REGISTRATION: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1.business.tkestack.io";
/// Annotation of the Secret: the names in the certificate.
const NAMES: &str = "business.tkestack.io/names";
/// Annotation of the Secret: from when on it is replaced.
const RENEW_AFTER: &str = "business.tkestack.io/renew-after";
const AUTHORITY_KEY: &str = "ca.crt";
/// A call that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_hours(24);
const DAY_SECONDS: i64 = 86_400;
/// Clocks differ.
const BACKDATED: Duration = Duration::from_mins(5);

/// A certificate and what it is trusted by, PEM.
struct IssuedCertificate {
    certificate: String,
    key: String,
    authority: String,
}

/// Sees to it that there is a good certificate, and that the APIService trusts it.
pub async fn issue(settings: &IssueCertificate, clock: &Clock) -> Result<String> {
    let client = serve::kubernetes(settings.kubeconfig.as_deref()).await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &settings.namespace);
    let found = within(secrets.get_opt(&settings.secret)).await.context("read the Secret")?;
    let former = found.as_ref().map(authority).transpose()?;
    let wanted = settings.names.join(",");
    if let (Some(secret), Some(former)) = (&found, &former) {
        let until = renewal(secret, &wanted).context(settings.secret.clone())?;
        if until.is_some_and(|until| until > clock.unix_seconds()) {
            trust(&client, former, settings.timeout).await?;
            return Ok(format!("the certificate in {} is good", settings.secret));
        }
    }
    let made = make(&settings.names, settings.days)?;
    let trusted = format!("{}{}", made.authority, former.unwrap_or_default());
    trust(&client, &trusted, settings.timeout).await?;
    let days = i64::from(settings.days);
    let renew_after = clock.unix_seconds().saturating_add(days * DAY_SECONDS * 2 / 3);
    let annotations = [(NAMES, wanted), (RENEW_AFTER, time::rfc3339(renew_after))];
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(settings.secret.clone()),
            annotations: Some(annotations.map(|(key, value)| (key.to_owned(), value)).into()),
            resource_version: found.as_ref().and_then(|secret| secret.metadata.resource_version.clone()),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(made.data()),
        ..Secret::default()
    };
    // Two jobs at once: one of them is refused, and finds a good certificate when it tries again.
    let params = PostParams::default();
    let written = match found {
        Some(_) => within(secrets.replace(&settings.secret, &params, &secret)).await,
        None => within(secrets.create(&params, &secret)).await,
    };
    written.context("write the Secret")?;
    Ok(format!("a certificate for {} is in {}", settings.names.join(", "), settings.secret))
}

/// From when on a certificate of ours is replaced; at once when it has other names.
fn renewal(secret: &Secret, wanted: &str) -> Result<Option<i64>> {
    let annotations = secret.metadata.annotations.as_ref();
    let of = |key: &str| annotations.and_then(|all| all.get(key));
    let (Some(names), Some(renew_after)) = (of(NAMES), of(RENEW_AFTER)) else {
        bail!("somebody else made it, and it is left to him");
    };
    let renew_after = time::parse(renew_after).context(RENEW_AFTER)?;
    Ok((names == wanted).then_some(renew_after))
}

fn authority(secret: &Secret) -> Result<String> {
    let data = secret.data.as_ref().and_then(|data| data.get(AUTHORITY_KEY));
    let bytes = data.with_context(|| format!("the Secret has no {AUTHORITY_KEY}"))?;
    String::from_utf8(bytes.0.clone()).context(AUTHORITY_KEY)
}

/// Writes what the APIService trusts, unless it does. It may be made only now.
async fn trust(client: &Client, authorities: &str, patience: Duration) -> Result<()> {
    let bundle = BASE64_STANDARD.encode(authorities);
    let end = Instant::now() + patience;
    loop {
        let read = Request::get(REGISTRATION).body(Vec::new())?;
        match within(client.request::<Value>(read)).await {
            Ok(found) if found.pointer("/spec/caBundle") == Some(&json!(bundle)) => return Ok(()),
            Ok(_) => break,
            Err(Error::Api(status)) if status.is_not_found() && Instant::now() + PAUSE < end => {
                sleep(PAUSE).await;
            }
            Err(error) => return Err(error).context("read the APIService"),
        }
    }
    let patch = json!({"spec": {"caBundle": bundle}}).to_string().into_bytes();
    let patch =
        Request::patch(REGISTRATION).header(CONTENT_TYPE, "application/merge-patch+json").body(patch)?;
    within(client.request::<Value>(patch)).await.context("write caBundle into the APIService").map(drop)
}

async fn within<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match timeout(DEADLINE, call).await {
        Ok(outcome) => outcome,
        Err(elapsed) => Err(Error::Service(elapsed.into())),
    }
}

impl IssuedCertificate {
    fn data(self) -> BTreeMap<String, ByteString> {
        let entries = [("tls.crt", self.certificate), ("tls.key", self.key), (AUTHORITY_KEY, self.authority)];
        entries.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes()))).collect()
    }
}

fn make(names: &[String], days: u16) -> Result<IssuedCertificate> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.distinguished_name.push(DnType::CommonName, "business-api");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    valid_for(&mut authority, days);
    let signer = KeyPair::generate()?;
    let root = authority.self_signed(&signer)?;
    let subject = names.first();
    ensure!(subject.is_some(), "a certificate needs a name");
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    // A common name has 64 characters at the most, and nobody looks at it.
    params.distinguished_name.push(DnType::CommonName, "business-api");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    valid_for(&mut params, days);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &Issuer::new(authority, &signer))?;
    Ok(IssuedCertificate { certificate: certificate.pem(), key: key.serialize_pem(), authority: root.pem() })
}

fn valid_for(params: &mut CertificateParams, days: u16) {
    let now = SystemTime::now();
    params.not_before = (now - BACKDATED).into();
    params.not_after = (now + DAY * u32::from(days)).into();
}

#[cfg(test)]
mod tests {
    use super::*;
    use x509_parser::prelude::{FromDer as _, X509Certificate};

    fn der(pem: &str) -> Vec<u8> {
        x509_parser::pem::parse_x509_pem(pem.as_bytes()).unwrap().1.contents
    }

    #[test]
    fn a_certificate_has_its_names_and_is_signed_by_an_authority_that_signs_no_other() {
        let names = ["business-api.tke-business.svc".to_owned(), "business.example.org".to_owned()];
        let made = make(&names, 90).unwrap();
        let (leaf, root) = (der(&made.certificate), der(&made.authority));
        let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
        let (_, root) = X509Certificate::from_der(&root).unwrap();
        leaf.verify_signature(Some(root.public_key())).unwrap();
        let alternatives = leaf.subject_alternative_name().unwrap().unwrap();
        assert_eq!(alternatives.value.general_names.len(), 2);
        let seconds = leaf.validity().not_after.timestamp() - leaf.validity().not_before.timestamp();
        assert_eq!((seconds - 300) / DAY_SECONDS, 90);
        assert!(root.is_ca() && !leaf.is_ca());
        assert_ne!(make(&names, 90).unwrap().authority, made.authority);
    }

    #[test]
    fn it_is_replaced_in_time_when_its_names_change_and_never_where_it_is_somebody_elses() {
        let secret = |annotations: &[(&str, &str)]| {
            let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let metadata = ObjectMeta { annotations: Some(annotations.collect()), ..ObjectMeta::default() };
            Secret { metadata, ..Secret::default() }
        };
        let ours = secret(&[(NAMES, "a,b"), (RENEW_AFTER, "2026-01-02T03:04:05Z")]);
        assert_eq!(renewal(&ours, "a,b").unwrap(), Some(time::parse("2026-01-02T03:04:05Z").unwrap()));
        assert_eq!(renewal(&ours, "a").unwrap(), None);
        assert!(renewal(&secret(&[]), "a").is_err());
    }
}
