use super::*;
use crate::request::RequestInfo;

#[path = "../../examples/widgets/colours.rs"]
mod colours;
#[path = "../../examples/widgets/names.rs"]
mod names;
#[path = "../../examples/widgets/paint.rs"]
mod paint;
#[path = "../../examples/widgets/widget.rs"]
mod widget;

/// A namespaced kind with the most misleading of names, and a cluster-scoped one.
fn resources() -> Vec<Arc<Resource>> {
    let mut namespaces = widget::resource(store::KindId(1), store::KindId(3));
    namespaces.plural = "namespaces";
    let mut projects = widget::resource(store::KindId(2), store::KindId(3));
    projects.plural = "projects";
    projects.namespaced = false;
    vec![Arc::new(namespaces), Arc::new(projects), Arc::new(colours::resource(store::KindId(1)))]
}

/// `VERB resource namespace/name subresource`, or the code of the refusal.
fn routed(line: &str) -> String {
    let (method, path) = line.split_once(' ').unwrap();
    let uri = format!("/apis/sample.example.io/v1{path}").parse().unwrap();
    let request = match RequestInfo::parse(&method.parse().unwrap(), &uri) {
        Ok(RequestInfo::Resource(request)) => request,
        Ok(RequestInfo::Path(request)) => return request.path.clone(),
        Err(status) => return status.code.to_string(),
    };
    match Endpoint::find(&resources(), &request) {
        Err(status) => status.code.to_string(),
        Ok(endpoint) => {
            let sub = endpoint.kind.endpoint().name();
            let ResourceRequest { verb, namespace, name, .. } = &*request;
            format!("{verb:?} {} {namespace}/{name} {sub}", endpoint.resource.plural)
        }
    }
}

#[test]
fn every_odd_path_goes_where_a_go_server_sends_it() {
    for (line, want) in [
        ("GET /namespaces", "List namespaces / "),
        ("GET /namespaces?watch=1", "Watch namespaces / "),
        ("POST /namespaces", "405"),
        ("DELETE /namespaces", "405"),
        ("GET /namespaces/p", "404"),
        ("DELETE /namespaces/p", "404"),
        ("PUT /namespaces/p", "404"),
        ("GET /namespaces/p/status", "404"),
        ("PUT /namespaces/p/finalize", "404"),
        ("GET /namespaces/p/namespaces", "List namespaces p/ "),
        ("DELETE /namespaces/p/namespaces", "DeleteCollection namespaces p/ "),
        ("GET /namespaces/p/namespaces/", "List namespaces p/ "),
        ("GET /namespaces/p/namespaces/n", "Get namespaces p/n "),
        ("GET /namespaces/status/namespaces/n", "Get namespaces status/n "),
        ("PUT /namespaces/p/namespaces/n/status", "Update namespaces p/n status"),
        ("PATCH /namespaces/p/namespaces/n/finalize", "Patch namespaces p/n finalize"),
        ("PUT /namespaces/p/namespaces/n%2Fstatus", "Update namespaces p/n status"),
        ("POST /namespaces/p/namespaces/n/status", "405"),
        ("DELETE /namespaces/p/namespaces/n/status", "405"),
        ("GET /namespaces/p/namespaces/n/log", "404"),
        ("GET /namespaces/p/namespaces/n/status/x", "404"),
        ("POST /namespaces/p/namespaces/n/paint", "Create namespaces p/n paint"),
        ("GET /namespaces/p/namespaces/n/paint", "Get namespaces p/n paint"),
        ("PUT /namespaces/p/namespaces/n/paint", "405"),
        ("PATCH /namespaces/p/namespaces/n/paint", "405"),
        ("GET /namespaces/p/colours", "List colours p/ "),
        ("GET /colours", "List colours / "),
        ("GET /namespaces/p/colours/red", "Get colours p/red "),
        ("GET /namespaces/p/colours?watch=1", "405"),
        ("POST /namespaces/p/colours", "405"),
        ("DELETE /namespaces/p/colours/red", "405"),
        ("GET /namespaces/p/colours/red/status", "404"),
        ("GET /namespaces/p/projects", "404"),
        ("GET /namespaces/p/projects/x", "404"),
        ("GET /projects", "List projects / "),
        ("POST /projects", "Create projects / "),
        ("DELETE /projects", "DeleteCollection projects / "),
        ("GET /projects/status", "Get projects /status "),
        ("GET /projects/p/finalize", "Get projects /p finalize"),
        ("GET /projects?fieldSelector=metadata.name%3Dp", "List projects / "),
        ("GET /projects/p?watch=true", "Get projects /p "),
        ("OPTIONS /projects", "405"),
        ("HEAD /projects/p", "405"),
        ("GET //projects", "404"),
        ("GET /projects//", "List projects / "),
        ("GET /watch/projects", "404"),
        ("GET /widgets", "404"),
    ] {
        assert_eq!(routed(line), want, "{line}");
    }
}
