use super::*;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

/// A request for this subject. An attribute may occur twice.
fn of(subject: &[(DnType, &str)]) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for (ty, text) in subject {
        // `DistinguishedName` keeps one value of each type. A custom type with the same OID has another key.
        let twice = params.distinguished_name.get(ty).is_some();
        let ty = if twice { DnType::CustomDnType(vec![2, 5, 4, 10]) } else { ty.clone() };
        params.distinguished_name.push(ty, *text);
    }
    params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
}

fn asked(subject: &[(DnType, &str)]) -> IssueRequest {
    IssueRequest {
        user: "business:acme:alice".into(),
        groups: vec!["business:acme:administrators".into()],
        request: of(subject),
        expiration_seconds: 86_400,
        ..IssueRequest::default()
    }
}

#[test]
fn what_it_says_is_what_it_asks_for() {
    let (o, cn) = (DnType::OrganizationName, DnType::CommonName);
    let right = asked(&[(o.clone(), "business:acme:administrators"), (cn.clone(), "business:acme:alice")]);
    check(&right).unwrap();
    let alone = IssueRequest { groups: Vec::new(), ..asked(&[(cn.clone(), "business:acme:alice")]) };
    check(&alone).unwrap();
    let groups = ["business:acme:group:devs", "business:acme:group:ops"];
    let subject = [(o.clone(), groups[0]), (o.clone(), groups[1]), (cn.clone(), "business:acme:alice")];
    let both = IssueRequest { groups: groups.map(str::to_owned).into(), ..asked(&subject) };
    check(&both).unwrap();
    assert!(check(&IssueRequest { groups: vec![groups[0].into()], ..both }).is_err());
    for subject in [
        vec![(cn.clone(), "business:acme:alice")],
        vec![(o.clone(), "system:masters"), (cn.clone(), "business:acme:alice")],
        vec![(o.clone(), "business:acme:administrators"), (cn.clone(), "business:acme:bob")],
        vec![(o.clone(), "business:acme:administrators")],
        vec![
            (o, "business:acme:administrators"),
            (cn, "business:acme:alice"),
            (DnType::OrganizationalUnitName, "x"),
        ],
    ] {
        assert!(matches!(check(&asked(&subject)), Err(IssueRefusal::Invalid(_))), "{subject:?}");
    }
    assert!(
        check(&IssueRequest { groups: Vec::new(), ..right.clone() }).is_err(),
        "a group that it does not say"
    );
    assert!(check(&IssueRequest { expiration_seconds: 1, ..right.clone() }).is_err());
    assert!(check(&IssueRequest { expiration_seconds: VALID_SECONDS_MAX + 1, ..right.clone() }).is_err());
    let twice = IssueRequest { request: format!("{0}{0}", right.request), ..right.clone() };
    assert!(check(&twice).is_err());
    for request in ["", "x", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"]
    {
        assert!(check(&IssueRequest { request: request.into(), ..right.clone() }).is_err(), "{request:?}");
    }
}

#[test]
fn names_that_are_not_ours_are_never_asked_for() {
    let mut other =
        asked(&[(DnType::OrganizationName, "system:masters"), (DnType::CommonName, "business:acme:alice")]);
    other.groups = vec!["system:masters".into()];
    assert!(check(&other).is_err());
    other.groups.clear();
    for user in ["business:acme:administrators", "business:acme:group:devs", "business:acme"] {
        other.user = user.into();
        other.request = of(&[(DnType::CommonName, user)]);
        assert!(check(&other).is_err(), "{user}");
    }
    other.user = "system:admin".into();
    other.request = of(&[(DnType::CommonName, "system:admin")]);
    assert!(check(&other).is_err());
}

#[test]
fn a_request_with_another_name_for_its_holder_is_refused() {
    let mut params = CertificateParams::new(vec!["example.org".to_owned()]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "business:acme:alice");
    let request = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let asked = IssueRequest { request, groups: Vec::new(), ..asked(&[]) };
    assert!(check(&asked).is_err());
}
