use super::*;

fn parse(method: &str, url: &str) -> Result<RequestInfo, Status> {
    RequestInfo::parse(&method.parse().unwrap(), &url.parse().unwrap())
}

/// `verb ns resource name subresource`, with `-` for nothing.
fn tuple(method: &str, url: &str) -> String {
    let show = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    match parse(method, url) {
        Ok(RequestInfo::Resource(request)) => {
            let verb = request.verb.as_str();
            [verb, &request.namespace, &request.resource, request.object_name(), &request.subresource]
                .map(show)
                .join(" ")
        }
        Ok(RequestInfo::Path(request)) => format!("{} {}", request.verb, request.path),
        Err(status) => status.code.to_string(),
    }
}

#[test]
fn resource_urls_mean_what_they_mean_in_go() {
    for (method, rest, want) in [
        ("GET", "projects", "list - projects - -"),
        ("GET", "projects/", "list - projects - -"),
        ("HEAD", "projects/p", "get - projects p -"),
        ("POST", "projects", "create - projects - -"),
        ("DELETE", "projects", "deletecollection - projects - -"),
        ("DELETE", "projects/p", "delete - projects p -"),
        ("OPTIONS", "projects/p", "- - projects p -"),
        ("GET", "projects/p/finalize", "get - projects p finalize"),
        ("PUT", "projects/p/status", "update - projects p status"),
        ("PATCH", "projects/p/status/deep/er", "patch - projects p status/deep/er"),
        ("GET", "projects/status", "get - projects status -"),
        ("GET", "projects?watch=1", "watch - projects - -"),
        ("GET", "projects?watch", "watch - projects - -"),
        ("GET", "projects?watch=false", "list - projects - -"),
        ("GET", "projects/p?watch=true", "get - projects p -"),
        ("GET", "projects?fieldSelector=metadata.name%3Dp", "list - projects p -"),
        (
            "GET",
            "projects?watch=1&fieldSelector=metadata.name==p,status.phase=Active",
            "watch - projects p -",
        ),
        ("GET", "projects?fieldSelector=metadata.name!=p", "list - projects - -"),
        ("GET", "projects?fieldSelector=metadata.name%3D..", "list - projects - -"),
        ("DELETE", "projects?fieldSelector=metadata.name%3Dp", "deletecollection - projects - -"),
        // the group's own namespaces
        ("GET", "namespaces", "list - namespaces - -"),
        ("POST", "namespaces", "create - namespaces - -"),
        ("GET", "namespaces/p", "404"),
        ("DELETE", "namespaces/p", "404"),
        ("GET", "namespaces/p/status", "404"),
        ("PUT", "namespaces/p/finalize", "404"),
        ("PUT", "namespaces/p/status/x", "404"),
        ("GET", "namespaces/p/namespaces", "list p namespaces - -"),
        ("GET", "namespaces/p/namespaces/", "list p namespaces - -"),
        ("GET", "namespaces/p/namespaces/n", "get p namespaces n -"),
        ("GET", "namespaces/p/namespaces/p", "get p namespaces p -"),
        ("PUT", "namespaces/p/namespaces/n/status", "update p namespaces n status"),
        ("PUT", "namespaces/p/namespaces/n/finalize", "update p namespaces n finalize"),
        ("GET", "namespaces/status/namespaces/n", "get status namespaces n -"),
        ("GET", "namespaces/namespaces/namespaces", "list namespaces namespaces - -"),
        ("GET", "namespaces/p/configmaps", "list p configmaps - -"),
        // what is no plain segment
        ("GET", "projects/p%2Fstatus", "get - projects p status"),
        ("GET", "projects/p%252Fstatus", "400"),
        ("GET", "projects/%2E%2E", "400"),
        ("GET", "projects/..", "400"),
        ("GET", "projects/.", "400"),
        ("GET", "projects/a%25b", "400"),
        ("GET", "projects/a%20b", "get - projects a b -"),
        ("GET", "namespaces/../projects", "400"),
        ("GET", "projects//status", "404"),
        ("GET", "/projects", "404"),
        ("GET", "projects/a%00b", "404"),
        ("GET", "projects/a%ff", "400"),
        ("GET", "projects/a%zz", "400"),
        ("GET", "watch/projects", "404"),
        ("GET", "proxy/projects/p", "404"),
    ] {
        assert_eq!(tuple(method, &format!("/apis/business.example.io/v1/{rest}")), want, "{method} {rest}");
    }
}

#[test]
fn other_urls_are_no_resources() {
    for (method, url, want) in [
        ("GET", "/", "get /"),
        ("GET", "/apis", "get /apis"),
        ("GET", "/apis/", "get /apis/"),
        ("GET", "/apis/g", "get /apis/g"),
        ("GET", "/apis/g/v1", "get /apis/g/v1"),
        ("GET", "/apis/g/v1/", "get /apis/g/v1/"),
        ("POST", "/apis/g/v1", "post /apis/g/v1"),
        ("GET", "/api/v1/namespaces/p", "get /api/v1/namespaces/p"),
        ("GET", "/readyz/ping?verbose", "get /readyz/ping"),
        ("PROPFIND", "/metrics", "propfind /metrics"),
        ("GET", "//apis//g", "get //apis//g"),
    ] {
        assert_eq!(tuple(method, url), want, "{method} {url}");
    }
}

#[test]
fn selectors_of_collections_are_kept_for_the_authorizer() {
    let info =
        parse("GET", "/apis/g/v1/projects?labelSelector=a%3Db&fieldSelector=x%3Dy&labelSelector=z").unwrap();
    let selectors = &info.resource().unwrap().selectors;
    assert_eq!((selectors.labels.as_str(), selectors.fields.as_str()), ("a=b", "x=y"));
    let info = parse("GET", "/apis/g/v1/projects/p?labelSelector=a").unwrap();
    assert_eq!(info.resource().unwrap().selectors, Selectors::default());
}

#[test]
fn a_url_beyond_the_limit_is_refused() {
    let url = format!("/apis/g/v1/projects?labelSelector={}", "a".repeat(URL_LIMIT));
    assert_eq!(parse("GET", &url).unwrap_err().code, 414);
}

#[test]
fn a_query_of_too_many_parameters_is_refused_whatever_it_asks() {
    let with = |pairs: usize| "x&".repeat(pairs - 1);
    for (method, path) in [("DELETE", "projects"), ("DELETE", "projects/p"), ("GET", "projects")] {
        for last in ["labelSelector=a", "dryRun=All"] {
            let url = |pairs| format!("/apis/g/v1/{path}?{}{last}", with(pairs));
            assert!(parse(method, &url(QUERY_PAIRS_MAX)).is_ok());
            assert_eq!(parse(method, &url(QUERY_PAIRS_MAX + 1)).unwrap_err().code, 400);
        }
    }
    let info = parse("DELETE", &format!("/apis/g/v1/projects?{}labelSelector=a", with(QUERY_PAIRS_MAX)));
    assert_eq!(info.unwrap().resource().unwrap().selectors.labels, "a");
    assert_eq!(parse("GET", &format!("/version?{}", with(QUERY_PAIRS_MAX + 1))).unwrap_err().code, 400);
}

proptest::proptest! {
    #[test]
    fn any_path_parses_without_a_panic(path in "/[ -~]{0,60}") {
        if let Ok(uri) = path.parse::<Uri>() {
            let info = RequestInfo::parse(&Method::GET, &uri);
            if let Ok(RequestInfo::Resource(request)) = info {
                proptest::prop_assert!(!request.name.contains(['/', '%']));
                proptest::prop_assert!(!request.resource.is_empty());
            }
        }
    }
}
