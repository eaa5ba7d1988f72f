use super::trust::Trust;
use super::verdict::ChainVerdict;
use crate::caller::{AUTHENTICATED, Caller, Via};
use crate::tls::Peer;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::X509Name;

/// The attribute of a certificate's subject that holds the user's uid, as in kube-apiserver.
const UID_OID: &str = "1.3.6.1.4.1.57683.2";
/// The extra key with a hash of the certificate.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The verdict on a peer's certificate chain, cached with its connection; `None` without a certificate.
pub(crate) fn verdict(peer: &Peer, trust: &Trust, now: i64) -> Option<Arc<ChainVerdict>> {
    if peer.certificates.is_empty() {
        return None;
    }
    if let Some(verdict) = peer.verdict.load_full()
        && verdict.generation == trust.generation
        && now <= verdict.until_unix_seconds
    {
        return Some(verdict);
    }
    let verdict = Arc::new(verify_chain(peer, trust, now));
    peer.verdict.store(Some(Arc::clone(&verdict)));
    Some(verdict)
}

fn verify_chain(peer: &Peer, trust: &Trust, now: i64) -> ChainVerdict {
    let chain = &peer.certificates;
    let Some((der, Ok((_, leaf)))) = chain.first().map(|leaf| (leaf, X509Certificate::from_der(leaf))) else {
        let unreadable = || "the certificate cannot be read".to_owned();
        return ChainVerdict {
            generation: trust.generation,
            until_unix_seconds: i64::MAX,
            proxy: Err(unreadable()),
            client: Err(unreadable()),
        };
    };
    let name = common_name(leaf.subject()).unwrap_or_default();
    let proxy = match &trust.proxy {
        None => Err("no front proxy is trusted".to_owned()),
        Some(proxy) => proxy.ca.verify_client(chain, now).and_then(|()| {
            if proxy.allows(name) { Ok(()) } else { Err(format!("the name {name:?} is not allowed")) }
        }),
    };
    let client = match &trust.client_ca {
        None => Ok(None),
        Some(client_ca) => client_ca
            .verify_client(chain, now)
            .map(|()| (!name.is_empty()).then(|| Arc::new(caller(name, &leaf, der)))),
    };
    let end = match (&proxy, &client) {
        (Err(_), Err(_)) => i64::MAX,
        _ => leaf.validity().not_after.timestamp(),
    };
    // What is refused now may be accepted from then on.
    let before_start = next_start(chain, now).map_or(i64::MAX, |start| start.saturating_sub(1));
    let until_unix_seconds = end.min(before_start);
    ChainVerdict { generation: trust.generation, until_unix_seconds, proxy, client }
}

/// When the next certificate of the chain begins to be valid; `None` if all have begun.
fn next_start(chain: &[CertificateDer<'_>], now: i64) -> Option<i64> {
    let starts = chain.iter().filter_map(|der| {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        Some(certificate.validity().not_before.timestamp())
    });
    starts.filter(|start| *start > now).min()
}

fn caller(name: &str, leaf: &X509Certificate<'_>, der: &[u8]) -> Caller {
    let subject = leaf.subject();
    let mut groups: Vec<String> =
        subject.iter_organization().filter_map(|group| group.as_str().ok()).map(str::to_owned).collect();
    if !groups.iter().any(|group| group == AUTHENTICATED) {
        groups.push(AUTHENTICATED.to_owned());
    }
    let uid = subject
        .iter_attributes()
        .find(|attribute| attribute.attr_type().to_id_string() == UID_OID)
        .and_then(|attribute| attribute.as_str().ok())
        .unwrap_or_default();
    let id = format!("X509SHA256={}", hex::encode(Sha256::digest(der)));
    Caller {
        name: name.to_owned(),
        uid: uid.to_owned(),
        groups,
        extra: BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![id])]),
        tenant: None,
        via: Via::Certificate,
        expires: Some(leaf.validity().not_after.timestamp()),
    }
}

fn common_name<'a>(subject: &'a X509Name<'_>) -> Option<&'a str> {
    subject.iter_common_name().next().and_then(|name| name.as_str().ok())
}

#[cfg(test)]
mod tests {
    use super::super::outcome::AuthnOutcome;
    use super::super::proxy::FrontProxy;
    use super::*;
    use crate::tls::CaBundle;
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    };

    #[test]
    fn a_certificate_that_is_not_valid_yet_is_accepted_once_it_begins() {
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.distinguished_name.push(DnType::CommonName, "ca");
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
        let mut leaf = CertificateParams::new(Vec::new()).unwrap();
        leaf.distinguished_name.push(DnType::CommonName, "ann");
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        leaf.not_before = rcgen::date_time_ymd(2030, 1, 1);
        let start = leaf.not_before.unix_timestamp();
        let leaf = leaf.signed_by(&KeyPair::generate().unwrap(), &ca).unwrap();
        let peer = Peer::new(([127, 0, 0, 1], 1).into(), vec![leaf.der().clone()]);
        let bundle = || CaBundle::from_pem("test", ca.pem().as_bytes()).unwrap();

        let trust = Trust { generation: 1, client_ca: Some(bundle()), proxy: None };
        let is_client = |now: i64| {
            matches!(verdict(&peer, &trust, now).unwrap().client(), AuthnOutcome::Authenticated(_))
        };
        assert_eq!([start - 2, start - 1, start, start + 1].map(is_client), [false, false, true, true]);

        let front_proxy = FrontProxy::with_default_headers(bundle(), Vec::new());
        let trust = Trust { generation: 2, client_ca: None, proxy: Some(front_proxy) };
        let is_proxy = |now: i64| verdict(&peer, &trust, now).unwrap().proxy().is_ok();
        assert_eq!([start - 2, start - 1, start, start + 1].map(is_proxy), [false, false, true, true]);
    }
}
