//! Requests for what is not there, in ways that are not allowed.

use super::body;
use super::plan::{Request, pick};
use super::target::TargetKind;
use rand::rngs::StdRng;

/// A wrong method, path, content type, or a document about the group.
pub(crate) fn request(target: &TargetKind, random: &mut StdRng) -> Request {
    let (collection, object) = (target.collection(), target.object("a"));
    let body = body::object(target, "a", random);
    let plural = target.plural;
    let all = [
        Request::new("PUT", collection.clone()).json(&body),
        Request::new("PATCH", collection.clone()).text("application/merge-patch+json", "{}"),
        Request::new("POST", object.clone()).json(&body),
        Request::new("POST", format!("{object}/status")).json(&body),
        Request::new("DELETE", format!("{object}/status")),
        Request::new("GET", format!("{object}/scale")),
        Request::new("GET", format!("{object}/status/more")),
        Request::new("PUT", format!("{object}/unknown")).json(&body),
        Request::new("OPTIONS", collection.clone()),
        Request::new("HEAD", object.clone()),
        Request::new("HEAD", collection.clone()),
        Request::new("TRACE", object.clone()),
        Request::new("GET", format!("{collection}/")),
        Request::new("GET", format!("{object}/")),
        Request::new("GET", format!("{collection}//<<name:a>>")),
        Request::new("GET", format!("{object}%2Fstatus")),
        Request::new("GET", format!("{collection}/%2e%2e")),
        Request::new("GET", format!("{collection}/..")),
        Request::new("GET", format!("{collection}/a%25b")),
        Request::new("GET", format!("{collection}/%zz")),
        Request::new("GET", format!("/apis/<<G>>/v2/{plural}")),
        Request::new("GET", "/apis/<<G>>/v1/nothings"),
        Request::new("GET", format!("/apis/<<G>>/v1/watch/{plural}")).with("timeoutSeconds", "1"),
        Request::new("GET", "/apis/<<G>>/v1"),
        Request::new("GET", "/apis/<<G>>/v1/"),
        Request::new("GET", "/apis/<<G>>"),
        Request::new("GET", "/apis/<<G>>").header("accept", "application/yaml"),
        Request::new("GET", "/apis/<<G>>/v1").header("accept", "application/yaml"),
        Request::new("POST", "/apis/<<G>>/v1").json(&body),
        Request::new("DELETE", "/apis/<<G>>"),
        Request::new("PATCH", object.clone()).text("application/json", "{}"),
        Request::new("PATCH", object.clone()).text("", "{}"),
        Request::new("PATCH", object.clone()).text("text/plain", "{}"),
        Request::new("PATCH", object.clone())
            .text("application/apply-patch+cbor", "{}")
            .with("fieldManager", "m"),
        Request::new("PATCH", object.clone()).text("application/merge-patch+json; charset=utf-8", "{}"),
        Request::new("PATCH", object.clone())
            .text("application/apply-patch+yaml", "a: [")
            .with("fieldManager", "m"),
        Request::new("PATCH", object.clone())
            .text("application/apply-patch+yaml", "")
            .with("fieldManager", "m"),
        Request::new("PATCH", object.clone())
            .text("application/apply-patch+yaml", "[]")
            .with("fieldManager", "m"),
        Request::new("PATCH", object.clone())
            .text(
                "application/apply-patch+yaml",
                "apiVersion: <<G>>/v1\nkind: Item\nmetadata: {name: '<<name:a>>'}\nspec: {text: a}\nspec: {}",
            )
            .with("fieldManager", "m"),
        Request::new("DELETE", object.clone()).text("application/json", "{"),
        Request::new("DELETE", object.clone()).text("text/plain", "{}"),
        Request::new("DELETE", object.clone())
            .text("application/yaml", "propagationPolicy: Orphan\ndryRun: [All]"),
        Request::new("GET", object).header("if-none-match", "\"x\""),
        Request::new("GET", collection).with("watch", "nonsense").with("timeoutSeconds", "x"),
    ];
    pick(&all, random).clone()
}
