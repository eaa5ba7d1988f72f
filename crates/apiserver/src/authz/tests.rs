use super::*;
use crate::request::PathRequest;

#[test]
fn names_in_a_refusal_are_escaped() {
    let caller = Arc::new(Caller { name: "<b>&\"x\"".to_owned(), ..Caller::default() });
    let info = RequestInfo::Path(Arc::new(PathRequest { path: "/x".to_owned(), verb: "get".into() }));
    let status = forbidden(&AuthorizationAttributes { caller, info }, "because");
    assert_eq!(status.message, r#"forbidden: User "&lt;b&gt;&amp;\"x\"" cannot get path "/x": because"#);
}
