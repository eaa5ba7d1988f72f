//! Checks the subject of a certificate request. The cluster's policy checks the same, so that neither has to trust the
//! other.

use super::IssueRefusal;
use business_types::access;
use business_types::issue::{GROUPS_MAX, IssueRequest, VALID_SECONDS_MAX, VALID_SECONDS_MIN};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::oid_registry::{OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME};
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::X509Name;

/// The label of the PEM block.
const LABEL: &str = "CERTIFICATE REQUEST";

/// Checks that a request asks for exactly the subject that it states, in our form, and for nothing else.
pub fn check(request: &IssueRequest) -> Result<(), IssueRefusal> {
    let wrong = |why: &str| Err(IssueRefusal::Invalid(why.to_owned()));
    if !(VALID_SECONDS_MIN..=VALID_SECONDS_MAX).contains(&request.expiration_seconds) {
        return wrong("a certificate is valid for 10 minutes to 365 days");
    }
    if !access::is_user(&request.user) || !request.groups.iter().all(|group| access::is_group(group)) {
        return wrong(
            "the user is not named business:TENANT:NAME, or a group not business:TENANT:group:NAME",
        );
    }
    if request.groups.len() > GROUPS_MAX {
        return wrong("there are too many groups");
    }
    let Ok((rest, pem)) = x509_parser::pem::parse_x509_pem(request.request.as_bytes()) else {
        return wrong("the request is no PEM");
    };
    if pem.label != LABEL || !rest.is_empty() {
        return wrong("the request is not one CERTIFICATE REQUEST in PEM");
    }
    let Ok((rest, parsed)) = X509CertificationRequest::from_der(&pem.contents) else {
        return wrong("the request is no PKCS #10");
    };
    let asked = &parsed.certification_request_info;
    let names_it = names(&asked.subject, request).unwrap_or(false);
    if !rest.is_empty() || !names_it || asked.iter_attributes().next().is_some() {
        return wrong("the request asks for something else than it says");
    }
    Ok(())
}

/// Whether a name is exactly that of the user and the groups; `None` if it has anything else.
fn names(name: &X509Name<'_>, request: &IssueRequest) -> Option<bool> {
    let (mut users, mut groups) = (Vec::new(), Vec::new());
    for attribute in name.iter_attributes() {
        let list = if *attribute.attr_type() == OID_X509_COMMON_NAME {
            &mut users
        } else if *attribute.attr_type() == OID_X509_ORGANIZATION_NAME {
            &mut groups
        } else {
            return None;
        };
        list.push(attribute.as_str().ok()?);
    }
    Some(users == [request.user.as_str()] && groups == request.groups)
}

#[cfg(test)]
mod tests;
