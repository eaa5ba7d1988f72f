use super::*;

#[test]
fn documents_are_what_system_discovery_gives() {
    for (path, want) in [
        ("/", true),
        ("/apis", true),
        ("/apis/", true),
        ("/apis/g/v1", true),
        ("/apisx", false),
        ("/openapi/v3/apis/g/v1", true),
        ("/version", true),
        ("/metrics", false),
        ("/debug/pprof", false),
        ("/readyz/ping", false),
    ] {
        assert_eq!(is_document(path, "get"), want, "{path}");
    }
    assert!(!is_document("/apis", "post"));
}

#[test]
fn names_in_a_refusal_are_escaped() {
    let caller = Arc::new(Caller { name: "<b>&\"x\"".to_owned(), ..Caller::default() });
    let info =
        Arc::new(RequestInfo { verb: "get".to_owned(), path: "/x".to_owned(), ..RequestInfo::default() });
    let status = forbidden(&Attributes { caller, info }, "because");
    assert_eq!(status.message, r#"forbidden: User "&lt;b&gt;&amp;\"x\"" cannot get path "/x": because"#);
}
