use crate::{Outcome, outcome, shape};
use apiserver::fuzzing;
use apiserver::tls::CaBundle;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kube::config::Kubeconfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// As it stands, and as header and claims within a token.
pub(super) fn jwt(input: &[u8]) -> Result<Outcome, String> {
    let text = String::from_utf8_lossy(input);
    let (header, claims) = text.split_once('.').unwrap_or((&text, ""));
    let within = format!("{}.{}.AAAA", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let seen = [&*text, &within].map(|token| {
        let issuer = fuzzing::issuer_of(token).is_some();
        let header = jsonwebtoken::decode_header(token).map(|header| header.kid.is_some());
        (issuer, header.map_err(|error| shape(&error.to_string())))
    });
    Ok(outcome(seen))
}

pub(super) fn key_set(input: &[u8]) -> Result<Outcome, String> {
    Ok(match fuzzing::key_set(input) {
        Ok(keys) => outcome(keys.min(5)),
        Err(error) => shape(&error),
    })
}

/// Bundles, private keys, and what they say of a chain.
pub(super) fn pem(input: &[u8]) -> Result<Outcome, String> {
    let chain: Vec<CertificateDer<'_>> =
        CertificateDer::pem_slice_iter(input).take(8).filter_map(Result::ok).collect();
    let authority = match CaBundle::from_pem("fuzz", input) {
        Ok(authority) => shape(&format!("{:?}", authority.verify_client(&chain, 1_800_000_000))),
        Err(error) => shape(&error.to_string()),
    };
    let key = PrivateKeyDer::from_pem_slice(input).is_ok();
    Ok(outcome((chain.len(), authority, key)))
}

pub(super) fn kubeconfig(input: &[u8]) -> Result<Outcome, String> {
    let text = String::from_utf8_lossy(input);
    Ok(match Kubeconfig::from_yaml(&text) {
        Ok(file) => outcome((
            file.clusters.len().min(4),
            file.contexts.len().min(4),
            file.auth_infos.len().min(4),
            file.current_context.is_some(),
        )),
        Err(error) => shape(&error.to_string()),
    })
}
