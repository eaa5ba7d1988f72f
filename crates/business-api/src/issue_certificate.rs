//! The serving certificate in a cluster where nobody else issues any.
//!
//! It is signed by a CA whose key and certificate are in a Secret of their own. Clients that connect directly are given
//! the CA's certificate once, and trust renewed serving certificates, too. The CA itself is replaced when a third of
//! its validity is left. Then the former CA signs the new one, and both are trusted until the former has expired. Other
//! CAs that the APIService trusts are removed ten minutes after the serving certificate was written, when every replica
//! has read it.
//!
//! Where cert-manager has issued the serving certificate until now, it is replaced at once: nobody else renews it.

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
use meta::time::{self, DAY_SECONDS};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use runtime::Clock;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, sleep, timeout};

const API_SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1.business.tkestack.io";
/// Annotation of the Secret: the names in the certificate.
const NAMES: &str = "business.tkestack.io/names";
/// Annotation of both Secrets: when the certificate is due for replacement.
const RENEW_AFTER: &str = "business.tkestack.io/renew-after";
/// Annotation of the Secret: when the certificate was issued.
const ISSUED: &str = "business.tkestack.io/issued";
/// Annotation of the CA's Secret: when the CA expires.
const ENDS: &str = "business.tkestack.io/ends";
/// Annotation of the CA's Secret: when the former CA expires.
const FORMER_ENDS: &str = "business.tkestack.io/former-ends";
/// cert-manager's annotation of a Secret: the Certificate that the Secret is of.
const CERT_MANAGER_CERTIFICATE: &str = "cert-manager.io/certificate-name";
/// The Certificate of `deploy/components/certificates`. The chart has either it or the job that runs this.
const OWN_CERTIFICATE: &str = "business-api";
/// The annotation of an APIService whose `caBundle` cert-manager writes.
const INJECT_ANNOTATION: &str = "cert-manager.io/inject-ca-from";
/// Why a Secret of somebody else stays as it is.
const FOREIGN: &str = "somebody else made it, and it is left to him; if nobody renews it any more, delete it: the next \
                       run makes another";
const CERTIFICATE_KEY: &str = "tls.crt";
const KEY_KEY: &str = "tls.key";
const AUTHORITY_KEY: &str = "ca.crt";
/// Key in the CA's Secret: the certificate of the former CA.
const FORMER_KEY: &str = "former.crt";
/// Key in the CA's Secret: the cross-signed certificate, the current CA signed by the former one.
const CROSS_KEY: &str = "cross.crt";
/// A call that takes longer has failed.
const DEADLINE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_secs(1);
/// Ten years.
const AUTHORITY_DAYS: u16 = 3650;
/// Certificates begin so long ago, because clocks differ, by hours where one was set to a wrong zone.
const BACKDATED_SECONDS: i64 = DAY_SECONDS;
/// After this time every replica has read a new certificate.
const ROLLOUT_SECONDS: i64 = 600;
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// The CA. Certificates and keys are PEM, times are Unix seconds.
#[derive(Clone)]
struct Authority {
    certificate: String,
    key: String,
    renew_after: i64,
    ends: i64,
    former: Option<FormerAuthority>,
}

/// The CA before the current one.
#[derive(Clone)]
struct FormerAuthority {
    certificate: String,
    /// The current CA signed by the former one, for clients that know only the former.
    cross: String,
    ends: i64,
}

/// A certificate with its chain, PEM.
struct ServerCertificate {
    chain: String,
    key: String,
}

/// Makes sure that the Secret has a good certificate, and that the APIService trusts it. Returns what was done.
pub async fn issue(settings: &IssueCertificate, clock: &Clock) -> Result<String> {
    let IssueCertificate { secret: name, authority_secret, names, days, timeout, .. } = settings;
    ensure!(name != authority_secret, "{name} cannot have the authority, too");
    let client = serve::kubernetes_client(settings.kubeconfig.as_deref()).await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &settings.namespace);
    let found =
        with_deadline(secrets.get_opt(name)).await.with_context(|| format!("read the Secret {name}"))?;
    let found_authority = with_deadline(secrets.get_opt(authority_secret))
        .await
        .with_context(|| format!("read the Secret {authority_secret}"))?;
    let (now, wanted) = (clock.unix_seconds(), names.join(","));
    let authority = found_authority
        .as_ref()
        .map(Authority::from_secret)
        .transpose()
        .with_context(|| authority_secret.clone())?;
    if let Some(authority) = &authority {
        ensure_begun(authority.issued(), now).with_context(|| authority_secret.clone())?;
    }
    if let Some(secret) = &found {
        ensure_begun(issued_at(secret), now).with_context(|| name.clone())?;
    }
    if let Some(secret) = &found
        && is_good(secret, authority.as_ref(), &wanted, now).with_context(|| name.clone())?
    {
        let trusted = trusted_by(secret).with_context(|| name.clone())?;
        let keep_others = now.saturating_sub(issued_at(secret)) < ROLLOUT_SECONDS;
        trust(&client, &trusted, keep_others, *timeout).await?;
        return Ok(format!("the certificate in {name} is good"));
    }
    let trusted_before = found.as_ref().map(trusted_by).transpose().with_context(|| name.clone())?;
    let authority = match authority {
        Some(authority) if authority.renew_after > now => authority,
        older => {
            let authority = Authority::generate(older, now)?;
            write(&secrets, found_authority.as_ref(), authority.to_secret(authority_secret)).await?;
            authority
        }
    };
    let issued = authority.issue(names, *days, now)?;
    let trusted = authority.trusted(now);
    let with_former = bundle(&[&trusted, trusted_before.as_deref().unwrap_or_default()]);
    trust(&client, &with_former, true, *timeout).await?;
    let annotations = [
        (NAMES, wanted),
        (RENEW_AFTER, time::rfc3339(renewal_time(*days, now))),
        (ISSUED, time::rfc3339(now)),
    ];
    let data = [(CERTIFICATE_KEY, issued.chain), (KEY_KEY, issued.key), (AUTHORITY_KEY, trusted)];
    write(&secrets, found.as_ref(), secret(name, annotations, data)).await?;
    Ok(format!("a certificate for {} is in {name}", names.join(", ")))
}

/// Fails if a certificate that was issued then has not begun to be valid. It is not replaced: whose clock is wrong
/// cannot be told, and one that is far behind would issue a certificate that has expired.
fn ensure_begun(issued: i64, now: i64) -> Result<()> {
    let begins = issued.saturating_sub(BACKDATED_SECONDS);
    ensure!(
        begins <= now,
        "the certificate begins only at {}: this machine's clock is behind, or the one that issued it was ahead; in the latter case \
         delete this Secret",
        time::rfc3339(begins)
    );
    Ok(())
}

/// Whether the certificate in a Secret that this program has written stays. If its CA is lost, it stays until it is
/// due.
fn is_good(secret: &Secret, authority: Option<&Authority>, wanted: &str, now: i64) -> Result<bool> {
    if is_of_cert_manager(secret) {
        return Ok(false);
    }
    let is_current = renewal(secret, wanted)?.is_some_and(|due| due > now);
    let Some(authority) = authority else { return Ok(is_current) };
    Ok(is_current && authority.renew_after > now && text(secret, AUTHORITY_KEY)? == authority.trusted(now))
}

/// Whether cert-manager has issued the certificate in a Secret. It may have done so after this program: annotations of
/// both are there then.
fn is_of_cert_manager(secret: &Secret) -> bool {
    annotation(secret, CERT_MANAGER_CERTIFICATE) == Some(OWN_CERTIFICATE)
}

/// The CA certificates with which clients verify the certificate in a Secret.
fn trusted_by(secret: &Secret) -> Result<String> {
    match text(secret, AUTHORITY_KEY) {
        // Some issuers of cert-manager do not tell their CA.
        Err(_) if is_of_cert_manager(secret) => Ok(String::new()),
        found => found,
    }
}

/// When a certificate that this program has issued is due for replacement; `None`: at once, because it has other names.
fn renewal(secret: &Secret, wanted: &str) -> Result<Option<i64>> {
    let (Some(names), Some(renew_after)) = (annotation(secret, NAMES), annotation(secret, RENEW_AFTER))
    else {
        bail!(FOREIGN);
    };
    let renew_after = time::parse(renew_after).context(RENEW_AFTER)?;
    Ok((names == wanted).then_some(renew_after))
}

/// When a certificate was issued that this program has issued; zero if the Secret does not say.
fn issued_at(secret: &Secret) -> i64 {
    annotation(secret, ISSUED).and_then(|at| time::parse(at).ok()).unwrap_or_default()
}

fn annotation<'a>(secret: &'a Secret, key: &str) -> Option<&'a str> {
    secret.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn text(secret: &Secret, key: &str) -> Result<String> {
    let data = secret.data.as_ref().and_then(|data| data.get(key));
    let bytes = data.with_context(|| format!("the Secret has no {key}"))?;
    String::from_utf8(bytes.0.clone()).with_context(|| key.to_owned())
}

fn secret<const A: usize, const D: usize>(
    name: &str,
    annotations: [(&str, String); A],
    data: [(&str, String); D],
) -> Secret {
    let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())));
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            annotations: Some(annotations.map(|(key, value)| (key.to_owned(), value)).into()),
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(data.into()),
        ..Secret::default()
    }
}

/// Replaces the Secret that was read, or creates it. If two jobs run at once, the write of one fails with a conflict;
/// it finds the result of the other when it tries again.
async fn write(secrets: &Api<Secret>, found: Option<&Secret>, mut secret: Secret) -> Result<()> {
    let name = secret.metadata.name.clone().unwrap_or_default();
    secret.metadata.resource_version = found.and_then(|found| found.metadata.resource_version.clone());
    let params = PostParams::default();
    let written = match found {
        Some(_) => with_deadline(secrets.replace(&name, &params, &secret)).await,
        None => with_deadline(secrets.create(&params, &secret)).await,
    };
    written.with_context(|| format!("write the Secret {name}")).map(drop)
}

/// Writes the CAs that the APIService has to trust into its `caBundle`, unless they are there already. The others there
/// are kept or removed.
async fn trust(client: &Client, authorities: &str, keep_others: bool, timeout: Duration) -> Result<()> {
    let service = api_service(client, timeout).await?;
    let trusted = service.pointer("/spec/caBundle").and_then(Value::as_str).unwrap_or_default();
    let bundle = ca_bundle(authorities, trusted, keep_others);
    if bundle == trusted {
        return Ok(());
    }
    let patch = json!({"spec": {"caBundle": bundle}}).to_string().into_bytes();
    let patch =
        Request::patch(API_SERVICE).header(CONTENT_TYPE, "application/merge-patch+json").body(patch)?;
    with_deadline(client.request::<Value>(patch))
        .await
        .context("write caBundle into the APIService")
        .map(drop)
}

/// The APIService. Waits for one that does not exist yet, and until cert-manager does not write its `caBundle` any more:
/// an upgrade of the chart may create or change it at the same time.
async fn api_service(client: &Client, timeout: Duration) -> Result<Value> {
    let end = Instant::now() + timeout;
    loop {
        let read = Request::get(API_SERVICE).body(Vec::new())?;
        let found = with_deadline(client.request::<Value>(read)).await;
        let may_wait = Instant::now() + PAUSE < end;
        match found {
            Ok(found) if !is_injected(&found) => return Ok(found),
            Err(Error::Api(status)) if status.is_not_found() && may_wait => {}
            Err(error) => return Err(error).context("read the APIService"),
            Ok(_) if may_wait => {}
            Ok(_) => bail!(
                "cert-manager writes caBundle of the APIService: its annotation {INJECT_ANNOTATION} has to go first"
            ),
        }
        sleep(PAUSE).await;
    }
}

/// Whether cert-manager writes the `caBundle` of an APIService.
fn is_injected(service: &Value) -> bool {
    let annotations = service.pointer("/metadata/annotations");
    annotations.and_then(|annotations| annotations.get(INJECT_ANNOTATION)).is_some()
}

/// The new value of `caBundle`, which is `trusted` now.
fn ca_bundle(authorities: &str, trusted: &str, keep_others: bool) -> String {
    let decoded = BASE64_STANDARD.decode(trusted).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let others = decoded.filter(|_| keep_others).unwrap_or_default();
    BASE64_STANDARD.encode(bundle(&[authorities, &others]))
}

/// The certificates of several PEM texts, each once.
fn bundle(texts: &[&str]) -> String {
    let mut all: Vec<String> = Vec::new();
    for block in texts.iter().flat_map(|text| text.split_inclusive(END)) {
        if let Some((_, body)) = block.split_once(BEGIN).filter(|(_, body)| body.ends_with(END)) {
            let certificate = format!("{BEGIN}{body}\n");
            if !all.contains(&certificate) {
                all.push(certificate);
            }
        }
    }
    all.concat()
}

async fn with_deadline<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match timeout(DEADLINE, call).await {
        Ok(outcome) => outcome,
        Err(elapsed) => Err(Error::Service(elapsed.into())),
    }
}

impl Authority {
    fn from_secret(secret: &Secret) -> Result<Self> {
        let (Some(renew_after), Some(ends)) = (annotation(secret, RENEW_AFTER), annotation(secret, ENDS))
        else {
            bail!(FOREIGN);
        };
        let former = match annotation(secret, FORMER_ENDS) {
            Some(ends) => Some(FormerAuthority {
                certificate: text(secret, FORMER_KEY)?,
                cross: text(secret, CROSS_KEY)?,
                ends: time::parse(ends).context(FORMER_ENDS)?,
            }),
            None => None,
        };
        Ok(Self {
            certificate: text(secret, CERTIFICATE_KEY)?,
            key: text(secret, KEY_KEY)?,
            renew_after: time::parse(renew_after).context(RENEW_AFTER)?,
            ends: time::parse(ends).context(ENDS)?,
            former,
        })
    }

    fn to_secret(&self, name: &str) -> Secret {
        let own = [(RENEW_AFTER, time::rfc3339(self.renew_after)), (ENDS, time::rfc3339(self.ends))];
        let (certificate, key) = (self.certificate.clone(), self.key.clone());
        let keys = [(CERTIFICATE_KEY, certificate), (KEY_KEY, key)];
        let Some(former) = &self.former else { return secret(name, own, keys) };
        let [renew_after, ends] = own;
        let [certificate, key] = keys;
        let annotations = [renew_after, ends, (FORMER_ENDS, time::rfc3339(former.ends))];
        let (before, cross) = (former.certificate.clone(), former.cross.clone());
        secret(name, annotations, [certificate, key, (FORMER_KEY, before), (CROSS_KEY, cross)])
    }

    /// A new CA. The older one, if it has not expired, signs it, too.
    fn generate(older: Option<Self>, now: i64) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = DistinguishedName::new();
        // No other CA has this name.
        params.distinguished_name.push(DnType::CommonName, format!("business-api-ca-{now}"));
        // Its successor is one CA below it.
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.use_authority_key_identifier_extension = true;
        let ends = expiration(AUTHORITY_DAYS, now);
        set_validity(&mut params, now, ends);
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        let former = match older.filter(|older| older.ends > now) {
            Some(older) => {
                set_validity(&mut params, now, older.ends);
                let cross = params.signed_by(&key, &older.issuer()?)?.pem();
                Some(FormerAuthority { certificate: older.certificate, cross, ends: older.ends })
            }
            None => None,
        };
        let renew_after = renewal_time(AUTHORITY_DAYS, now);
        Ok(Self { certificate, key: key.serialize_pem(), renew_after, ends, former })
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>> {
        let key = KeyPair::from_pem(&self.key).context("the key of the authority")?;
        Issuer::from_ca_cert_pem(&self.certificate, key).context("the certificate of the authority")
    }

    fn issued(&self) -> i64 {
        self.ends.saturating_sub(i64::from(AUTHORITY_DAYS) * DAY_SECONDS)
    }

    fn former(&self, now: i64) -> Option<&FormerAuthority> {
        self.former.as_ref().filter(|former| former.ends > now)
    }

    /// The CA certificates that clients have to trust.
    fn trusted(&self, now: i64) -> String {
        let former = self.former(now).map_or("", |former| &former.certificate);
        bundle(&[&self.certificate, former])
    }

    fn issue(&self, names: &[String], days: u16, now: i64) -> Result<ServerCertificate> {
        ensure!(!names.is_empty(), "a certificate needs a name");
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name = DistinguishedName::new();
        // A common name is limited to 64 characters, and clients do not look at it.
        params.distinguished_name.push(DnType::CommonName, "business-api");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, now, expiration(days, now));
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer()?)?.pem();
        let cross = self.former(now).map_or("", |former| &former.cross);
        Ok(ServerCertificate { chain: bundle(&[&certificate, cross]), key: key.serialize_pem() })
    }
}

fn expiration(days: u16, now: i64) -> i64 {
    now.saturating_add(i64::from(days) * DAY_SECONDS)
}

/// When a third of the validity is left.
fn renewal_time(days: u16, now: i64) -> i64 {
    now.saturating_add(i64::from(days) * DAY_SECONDS * 2 / 3)
}

fn set_validity(params: &mut CertificateParams, from: i64, until: i64) {
    let at = |seconds: i64| {
        SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    };
    params.not_before = at(from.saturating_sub(BACKDATED_SECONDS)).into();
    params.not_after = at(until).into();
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::crypto::ring::default_provider;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use std::sync::Arc;
    use x509_parser::prelude::{FromDer as _, X509Certificate};

    const NAME: &str = "business-api.tke-business.svc";
    const NOW: i64 = 1_800_000_000;
    const YEAR: i64 = 365 * DAY_SECONDS;

    fn ders(pem: &str) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap).collect()
    }

    fn issued_by(authority: &Authority, now: i64) -> ServerCertificate {
        authority.issue(&[NAME.to_owned(), "business.example.org".to_owned()], 90, now).unwrap()
    }

    /// Whether who knows these authorities believes what is served.
    fn believes(authorities: &str, served: &ServerCertificate, now: i64) -> bool {
        let mut roots = RootCertStore::empty();
        for root in ders(authorities) {
            roots.add(root).unwrap();
        }
        let provider = Arc::new(default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let chain = ders(&served.chain);
        let (leaf, chain) = chain.split_first().unwrap();
        let at = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now).unwrap()));
        verifier.verify_server_cert(leaf, chain, &ServerName::try_from(NAME).unwrap(), &[], at).is_ok()
    }

    /// As it is found again.
    fn kept(authority: &Authority) -> Authority {
        Authority::from_secret(&authority.to_secret("business-api-ca")).unwrap()
    }

    fn in_secret(authority: &Authority, now: i64) -> Secret {
        let made = issued_by(authority, now);
        let annotations = [
            (NAMES, NAME.to_owned()),
            (RENEW_AFTER, time::rfc3339(renewal_time(90, now))),
            (ISSUED, time::rfc3339(now)),
        ];
        let data =
            [(CERTIFICATE_KEY, made.chain), (KEY_KEY, made.key), (AUTHORITY_KEY, authority.trusted(now))];
        secret("business-api-tls", annotations, data)
    }

    #[test]
    fn a_certificate_has_its_names_and_its_time() {
        let authority = Authority::generate(None, NOW).unwrap();
        let made = issued_by(&authority, NOW);
        let (leaf, root) = (ders(&made.chain), ders(&authority.certificate));
        let (_, leaf) = X509Certificate::from_der(&leaf[0]).unwrap();
        let (_, root) = X509Certificate::from_der(&root[0]).unwrap();
        let alternatives = leaf.subject_alternative_name().unwrap().unwrap();
        assert_eq!(alternatives.value.general_names.len(), 2);
        assert_eq!(leaf.validity().not_after.timestamp(), NOW + 90 * DAY_SECONDS);
        assert!(believes(&authority.trusted(NOW), &made, NOW - 12 * 3600), "to a clock that is behind");
        assert_eq!(root.validity().not_after.timestamp(), authority.ends);
        assert!(root.is_ca() && !leaf.is_ca());
        assert_ne!(root.subject(), leaf.subject(), "it would pass for one that has signed itself");
    }

    #[test]
    fn whoever_trusts_the_authority_once_believes_what_is_renewed() {
        let authority = kept(&Authority::generate(None, NOW).unwrap());
        let told = authority.trusted(NOW);
        for now in [NOW, NOW + YEAR, NOW + 6 * YEAR] {
            assert!(authority.renew_after > now && believes(&told, &issued_by(&authority, now), now));
        }
        let another = Authority::generate(None, NOW).unwrap();
        assert!(!believes(&told, &issued_by(&another, NOW), NOW));
    }

    #[test]
    fn a_new_authority_is_believed_by_those_who_know_the_former_one_until_that_has_ended() {
        let first = kept(&Authority::generate(None, NOW).unwrap());
        let then = NOW + 7 * YEAR;
        assert!(first.renew_after < then);
        let second = kept(&Authority::generate(Some(first.clone()), then).unwrap());
        let served = issued_by(&second, then);
        for authorities in [&first.trusted(NOW), &second.certificate, &second.trusted(then)] {
            assert!(believes(authorities, &served, then));
        }
        assert_eq!(ders(&second.trusted(then)).len(), 2);
        let late = first.ends + 1;
        assert_eq!(second.trusted(late), second.certificate);
        let served = issued_by(&second, late);
        assert_eq!(ders(&served.chain).len(), 1);
        assert!(believes(&second.trusted(late), &served, late));
        // Nobody renewed it in time.
        assert!(Authority::generate(Some(first), late).unwrap().former.is_none());
    }

    #[test]
    fn a_certificate_is_replaced_with_its_authority_and_what_is_trusted() {
        let first = Authority::generate(None, NOW).unwrap();
        let there = in_secret(&first, NOW);
        let good = |authority: Option<&Authority>, now| is_good(&there, authority, NAME, now).unwrap();
        assert!(good(Some(&first), NOW + DAY_SECONDS) && !good(Some(&first), NOW + 61 * DAY_SECONDS));
        assert!(!is_good(&there, Some(&first), "another", NOW).unwrap());
        // Of an authority that was forgotten: it has its time, and one that is kept takes its place.
        assert!(good(None, NOW) && !good(None, NOW + 61 * DAY_SECONDS));
        assert!(!good(Some(&Authority::generate(None, NOW).unwrap()), NOW));
        let then = NOW + 7 * YEAR;
        assert!(!is_good(&in_secret(&first, then), Some(&first), NAME, then).unwrap());
        let second = Authority::generate(Some(first.clone()), then).unwrap();
        let last = first.ends - DAY_SECONDS;
        let there = in_secret(&second, last);
        assert!(is_good(&there, Some(&second), NAME, last).unwrap());
        assert!(!is_good(&there, Some(&second), NAME, first.ends + 1).unwrap());
    }

    #[test]
    fn what_has_not_begun_is_not_called_good() {
        let authority = kept(&Authority::generate(None, NOW).unwrap());
        let there = in_secret(&authority, NOW);
        let (begins, early) = (NOW - DAY_SECONDS, NOW - DAY_SECONDS - 1);
        assert!(believes(&authority.trusted(begins), &issued_by(&authority, NOW), begins));
        assert!(!believes(&authority.trusted(early), &issued_by(&authority, NOW), early));
        for issued in [issued_at(&there), authority.issued()] {
            assert!(ensure_begun(issued, begins).is_ok());
            let why = ensure_begun(issued, early).unwrap_err().to_string();
            assert!(why.contains(&time::rfc3339(begins)) && why.contains("delete this Secret"), "{why}");
        }
        assert!(ensure_begun(issued_at(&Secret::default()), 0).is_ok(), "it is somebody else's");
    }

    #[test]
    fn what_is_trusted_beside_it_stays_until_every_replica_has_read_it() {
        let certificate = |body: &str| format!("{BEGIN}\n{body}\n{END}\n");
        let (own, other) = (certificate("own"), certificate("other"));
        let encoded = |text: &str| BASE64_STANDARD.encode(text);
        let both = encoded(&format!("{own}{other}"));
        assert_eq!(ca_bundle(&own, &encoded(&other), true), both);
        assert_eq!(ca_bundle(&own, &both, true), both);
        assert_eq!(ca_bundle(&own, &both, false), encoded(&own));
        for nothing in ["", "?", encoded("no certificate").as_str()] {
            assert_eq!(ca_bundle(&own, nothing, true), encoded(&own));
        }
        let there = in_secret(&Authority::generate(None, NOW).unwrap(), NOW);
        assert_eq!(issued_at(&there), NOW);
        assert_eq!(issued_at(&Secret::default()), 0);
    }

    #[test]
    fn it_is_replaced_in_time_when_its_names_change_and_never_where_it_is_somebody_elses() {
        let at = "2026-01-02T03:04:05Z";
        let ours = secret("x", [(NAMES, "a,b".to_owned()), (RENEW_AFTER, at.to_owned())], []);
        assert_eq!(renewal(&ours, "a,b").unwrap(), Some(time::parse(at).unwrap()));
        assert_eq!(renewal(&ours, "a").unwrap(), None);
        let theirs = secret("x", [], []);
        let why = is_good(&theirs, None, "a", NOW).unwrap_err().to_string();
        assert!(why.contains("delete it: the next run makes another"), "{why}");
        assert!(Authority::from_secret(&theirs).is_err() && trusted_by(&theirs).is_err());
    }

    #[test]
    fn what_cert_manager_has_issued_is_replaced_at_once() {
        let of = |certificate: &str, authority: Option<&str>| {
            let authority = authority.map(|pem| (AUTHORITY_KEY.to_owned(), ByteString(pem.into())));
            let annotations = [(CERT_MANAGER_CERTIFICATE, certificate.to_owned())];
            Secret { data: Some(authority.into_iter().collect()), ..secret("x", annotations, []) }
        };
        for (authority, trusted) in [(Some("theirs"), "theirs"), (None, "")] {
            let found = of(OWN_CERTIFICATE, authority);
            assert!(!is_good(&found, None, NAME, NOW).unwrap());
            assert_eq!(
                trusted_by(&found).unwrap(),
                trusted,
                "it stays trusted until every replica has read the new one"
            );
        }
        assert!(is_good(&of("of-somebody", Some("theirs")), None, NAME, NOW).is_err());
        let service = |annotation: &str| json!({"metadata": {"annotations": {annotation: "x"}}});
        assert!(is_injected(&service(INJECT_ANNOTATION)), "caBundle would be overwritten");
        assert!(!is_injected(&service("other")) && !is_injected(&json!({"metadata": {}})));
        // The provider was changed to cert-manager and back.
        let mut ours = in_secret(&Authority::generate(None, NOW).unwrap(), NOW);
        assert!(is_good(&ours, None, NAME, NOW).unwrap());
        let annotations = ours.metadata.annotations.as_mut().unwrap();
        annotations.insert(CERT_MANAGER_CERTIFICATE.to_owned(), OWN_CERTIFICATE.to_owned());
        assert!(!is_good(&ours, None, NAME, NOW).unwrap());
    }
}
