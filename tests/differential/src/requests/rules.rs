//! Accepted differences, each with its reason; docs/differences.md lists them.

use super::plan::Request;
use super::side::SideAnswer;
use super::target::TargetKind;
use serde_json::{Map, Value, json};

/// A difference that is accepted: `settle` takes it out of both answers.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    #[expect(dead_code, reason = "read by people")]
    pub(crate) why: &'static str,
    settle: fn(&Case<'_>, &Request, &mut SideAnswer, &mut SideAnswer),
}

/// Where a request stands.
pub(crate) struct Case<'a> {
    pub(crate) target: &'a TargetKind,
    /// What was asked before.
    pub(crate) earlier: &'a [Request],
}

/// Takes every accepted difference out. Gives the rules that did something, or nothing where a difference stays.
pub(crate) fn settle(
    case: &Case<'_>,
    request: &Request,
    ours: &mut SideAnswer,
    theirs: &mut SideAnswer,
) -> Option<Vec<&'static str>> {
    let mut used = Vec::new();
    for rule in RULES {
        if ours == theirs {
            break;
        }
        let before = (ours.clone(), theirs.clone());
        (rule.settle)(case, request, ours, theirs);
        if before.0 != *ours || before.1 != *theirs {
            used.push(rule.name);
        }
    }
    (ours == theirs).then_some(used)
}

/// Both refuse with the same code, and both messages have these words.
fn both_say(ours: &SideAnswer, theirs: &SideAnswer, words: &[&str]) -> bool {
    ours.code == theirs.code
        && !ours.succeeded()
        && [ours, theirs].iter().all(|answer| words.iter().any(|word| answer.message().contains(word)))
}

/// Nothing is left to compare.
fn accept(ours: &mut SideAnswer, theirs: &mut SideAnswer) {
    *ours = SideAnswer::default();
    *theirs = SideAnswer::default();
}

/// Takes a member of the body out of both.
fn without(ours: &mut SideAnswer, theirs: &mut SideAnswer, member: &str) {
    for answer in [ours, theirs] {
        if let Some(map) = answer.body.as_object_mut() {
            map.remove(member);
        }
    }
}

/// Takes the object's revision out of both.
fn without_revision(ours: &mut SideAnswer, theirs: &mut SideAnswer) {
    for answer in [ours, theirs] {
        if let Some(revision) = answer.body.pointer_mut("/metadata/resourceVersion") {
            *revision = Value::Null;
        }
    }
}

const RULES: &[Rule] = &[
    Rule {
        name: "empty continue",
        why: "a custom resource's list prints the empty token; typed lists leave it out",
        settle: |_, _, _, theirs| {
            if let Some(metadata) = theirs.body.get_mut("metadata").and_then(Value::as_object_mut)
                && metadata.get("continue") == Some(&json!(""))
            {
                metadata.remove("continue");
            }
        },
    },
    Rule {
        name: "plain-text refusals",
        why: "the custom resource handler refuses unknown paths and methods in plain text; a Status is what clients parse",
        settle: |_, _, ours, theirs| {
            if theirs.form == "text" && ours.code == theirs.code && !ours.succeeded() {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "a longer memory",
        why: "etcd forgets after five minutes what our history still knows",
        settle: |_, _, ours, theirs| {
            let forgot = |answer: &SideAnswer| answer.body.to_string().contains("\"Expired\"");
            if forgot(theirs) && !forgot(ours) {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "no items",
        why: "an empty list of metadata has the items null there",
        settle: |_, _, ours, theirs| {
            if theirs.body.get("items").is_some_and(Value::is_null) && ours.body["items"] == json!([]) {
                theirs.body["items"] = json!([]);
            }
        },
    },
    Rule {
        name: "the decoder's words",
        why: "another JSON and YAML reader stumbles at the same place in other words",
        settle: |_, _, ours, theirs| {
            let words = [
                "json parse error",
                "cannot be handled as a",
                "error decoding patch",
                "Go value of type jsonpatch.Patch",
                "unexpected end of JSON input",
                "proto: ",
                "Invalid JSON Patch",
                "yaml",
                "YAML",
                "the API version in the data",
            ];
            if both_say(ours, theirs, &words) {
                without(ours, theirs, "message");
            }
        },
    },
    Rule {
        name: "kind and version out of the URL",
        why: "built-in kinds take a missing kind or apiVersion from the URL, custom resources refuse it",
        settle: |_, request, ours, theirs| {
            let missing = theirs.message().contains("Object 'Kind' is missing")
                || theirs.message().contains("the API version in the data () does not match");
            if missing && request.body.is_some() {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "a wrong kind",
        why: "400 as built-in kinds answer, before anything else is looked at; custom resources say 422, after they have looked for \
              the object, its name and its uid, and do not look at the kind in a status",
        settle: |_, request, ours, theirs| {
            let theirs_says = matches!(theirs.code, 404 | 409 | 422)
                || theirs.message().contains("does not match the name on the URL");
            let unread = request.path.ends_with("/status");
            if ours.code == 400 && ours.message().contains("unknown conversion") && (theirs_says || unread) {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "one YAML document",
        why: "of several documents in a body a Go server drops all but the first in silence; we refuse them",
        settle: |_, request, ours, theirs| {
            if ours.code == 400 && request.body.as_ref().is_some_and(|body| body.contains("\n---\n")) {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "refusals are not indented",
        why: "a Go server indents errors where the form asked for cannot be that of an error",
        settle: |_, _, ours, theirs| {
            if theirs.code == ours.code && !ours.succeeded() && theirs.form == "indented" {
                theirs.form = ours.form;
            }
        },
    },
    Rule {
        name: "a form that cannot be had",
        why: "asking for a list of one object, or an object of a list, is refused before anything is done; a Go server does it and \
              then answers 406",
        settle: |_, _, ours, theirs| {
            if ours.code == 406 && ours.message().starts_with("you requested") {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "unknown subresources",
        why: "404 as for any unknown path; there it is the object that is not found, and what stands behind status is not looked at",
        settle: |_, request, ours, theirs| {
            let path = ours.message().starts_with("the server could not find");
            if path && (theirs.code == 404 || request.path.contains("/status/")) {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "methods that a path does not have",
        why: "405 in the router's words; a custom resource answers 400, names its kind, or creates at a POST to an object",
        settle: |_, _, ours, theirs| {
            if ours.code == 405 {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "an apply without kind",
        why: "what is no object, or says no kind, is refused where it is read",
        settle: |_, request, ours, theirs| {
            let apply = request.content_type().starts_with("application/apply-patch");
            let none = ["invalid object type: /, Kind=", "error decoding YAML"];
            if apply && ours.code == 400 && none.iter().any(|words| theirs.message().starts_with(words)) {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "unreadable options and tokens",
        why: "400 with the reader's own words",
        settle: |_, request, ours, theirs| {
            let token = request.parameter("continue").is_some() && ours.code == 400 && theirs.code == 400;
            let options = request.method == "DELETE"
                && both_say(
                    ours,
                    theirs,
                    &["json parse error", "DeleteOptions", "is registered for version"],
                );
            if token || options {
                without(ours, theirs, "message");
            }
        },
    },
    Rule {
        name: "the decoder's warnings",
        why: "a field that stands twice is told by its path, not by its line; a body of another version is not looked into",
        settle: |_, _, ours, theirs| {
            let twice =
                |text: &String| text.contains("duplicate field") || text.contains("already set in map");
            ours.warnings.retain(|text| !twice(text));
            theirs.warnings.retain(|text| !twice(text));
            if both_say(ours, theirs, &["the API version in the data"]) {
                theirs.warnings.clear();
            }
        },
    },
    Rule {
        name: "rules of projects",
        why: "a project's own rules: a name for people, DNS labels, a phase from the beginning, spec.finalizers",
        settle: |case, _, ours, theirs| {
            if case.target.namespaced {
                return;
            }
            // The group has other kinds, too.
            if ours.succeeded() && theirs.succeeded() && ours.body["resources"].is_array() {
                accept(ours, theirs);
            }
            let own = [
                "must specify the name for people",
                "must specify a phase",
                "RFC 1123 label",
                "must not contain dots",
                "must not contain control characters",
            ];
            if ours.code == 422 && own.iter().any(|words| ours.body.to_string().contains(words)) {
                accept(ours, theirs);
            }
            for answer in [ours, theirs] {
                without_own_rules(&mut answer.body);
            }
        },
    },
    Rule {
        name: "wrong types",
        why: "a value of a wrong type is refused where the body is read, 400, as for built-in kinds; there by the schema, 422",
        settle: |_, _, ours, theirs| {
            let unread = ["cannot unmarshal", "a merge patch must be an object"];
            let unread = unread.iter().any(|words| ours.message().contains(words));
            if matches!(ours.code, 400 | 422) && unread && !theirs.succeeded() {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "wrong types beside a status",
        why: "a patch of a status whose result is no object of the kind is refused, as for built-in kinds; there the rest is not looked at",
        settle: |_, request, ours, theirs| {
            let patched = request.method == "PATCH" && request.path.ends_with("/status");
            if patched && ours.code == 422 && ours.message().contains("cannot unmarshal") {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "a patch that does not fit",
        why: "the refusal shows the patch, there all that it would have made of the object",
        settle: |_, _, ours, theirs| {
            let why = |answer: &SideAnswer| {
                let (_, why) = answer.message().split_once(" is invalid: patch: Invalid value: ")?;
                why.rsplit_once("\": ").map(|(_shown, why)| why.to_owned())
            };
            if ours.code == 422 && theirs.code == 422 && why(ours).is_some() && why(ours) == why(theirs) {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "a new object with a server's fields",
        why: "what is a server's to say is not taken from who creates by an apply, or tries; there an object may be born Terminating",
        settle: |_, request, ours, theirs| {
            let tried = request.parameter("dryRun").is_some();
            if !ours.succeeded() || ours.code != theirs.code || !(tried || ours.code == 201) {
                return;
            }
            for member in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
                let sent = request.body.as_ref().is_some_and(|body| body.contains(&format!("\"{member}\"")));
                if sent && ours.body["metadata"][member].is_null() {
                    theirs.body["metadata"].as_object_mut().and_then(|map| map.remove(member));
                }
            }
        },
    },
    Rule {
        name: "a null that was applied",
        why: "labels: null or finalizers: [] in an apply is stored by a custom resource, and taken out by the next write, which has a \
              revision for it",
        settle: |case, request, ours, theirs| {
            let nothing = ["labels", "annotations", "ownerReferences", "finalizers"]
                .map(|member| [format!("\"{member}\":null"), format!("\"{member}\":[]")]);
            let empties = |request: &Request| {
                let body = request.body.as_deref().unwrap_or_default();
                request.content_type().starts_with("application/apply-patch")
                    && nothing.as_flattened().iter().any(|member| body.contains(member))
            };
            if case.earlier.iter().chain([request]).any(empties) && ours.code == 200 && theirs.code == 200 {
                without_revision(ours, theirs);
            }
        },
    },
    Rule {
        name: "the order of names that were made up",
        why: "two names that servers have made up stand in any order in a list",
        settle: |_, request, ours, theirs| {
            let made_up = |answer: &SideAnswer| answer.body["items"].to_string().contains("GENERATED1");
            if request.method == "GET" && made_up(ours) && made_up(theirs) {
                for answer in [ours, theirs] {
                    if let Some(items) = answer.body["items"].as_array_mut() {
                        items.sort_by_key(|item| item["metadata"]["name"].to_string());
                    }
                }
            }
        },
    },
    Rule {
        name: "texts of YAML 1.2",
        why: "n, y, no, yes, on and off are texts here, and booleans for a Go server",
        settle: |_, request, ours, theirs| {
            let yaml = request.content_type().contains("yaml");
            if yaml && theirs.code == 400 && theirs.message().contains("cannot unmarshal bool") {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "items without their key",
        why: "a custom resource's schema requires the keys of a list; built-in kinds leave it to their own validation",
        settle: |_, _, ours, theirs| {
            let message = theirs.message();
            if theirs.code == 422 && message.contains("spec.parts[") && message.contains("Required value") {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "a table of what was deleted",
        why: "what a deletion answers is no table; a Go server deletes and then complains about includeObject, and we complain about \
              that of a collection's deletion before",
        settle: |_, request, ours, theirs| {
            let complains = |answer: &SideAnswer| answer.message().starts_with("Unable to convert to Table");
            if request.method == "DELETE" && (complains(ours) || complains(theirs)) {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "a snapshot of one name",
        why: "a limited list at a revision is a snapshot; a custom resource's of one name is the newest state",
        settle: |_, request, ours, theirs| {
            let one = request.parameter("fieldSelector").is_some_and(|text| text.contains("metadata.name="));
            let exact =
                request.parameter("limit").is_some() && request.parameter("resourceVersion").is_some();
            if one && exact && ours.body["metadata"]["resourceVersion"] == "OLD SNAPSHOT" {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "which fault is told first",
        why: "of a form that cannot be had and a fault in the URL either may be told, and of a body's missing apiVersion and its doubled fields",
        settle: |_, _, ours, theirs| {
            let unacceptable = ours.code == 406 || theirs.code == 406;
            let doubled =
                ours.message().contains("duplicate field") && theirs.message().contains("is missing in");
            if (unacceptable || doubled) && !ours.succeeded() && !theirs.succeeded() {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "null is absent",
        why: "built-in kinds read null as nothing, and so do we; a custom resource's schema refuses it",
        settle: |_, _, ours, theirs| {
            if theirs.code == 422 && theirs.message().contains("\"null\"") {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "wrong types in an apply",
        why: "a name that is none, and a time that is none, is refused where it is read",
        settle: |_, request, ours, theirs| {
            let apply = request.content_type().starts_with("application/apply-patch");
            let typed = theirs.message().starts_with("failed to create typed patch object");
            let named = ours.message().starts_with("the name of the object") && !theirs.succeeded();
            let time = ours.code == 400 && ours.message().contains("parsing time");
            if apply && !ours.succeeded() && (typed || named || time) {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "a given name that is taken",
        why: "with a generateName beside it a Go server says that it could not make up a name",
        settle: |_, _, ours, theirs| {
            if ours.code == 409 && theirs.message().contains("not able to generate a unique name") {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "an object that goes",
        why: "the answer to the write that takes its last finalizer has the revision of its deletion, there of what it was",
        settle: |_, request, ours, theirs| {
            let goes = |answer: &SideAnswer| {
                let metadata = &answer.body["metadata"];
                metadata["deletionTimestamp"].is_string() && metadata["finalizers"].is_null()
            };
            if matches!(request.method, "PUT" | "PATCH") && goes(ours) && goes(theirs) {
                without_revision(ours, theirs);
            }
        },
    },
    Rule {
        name: "watch in the path",
        why: "the paths of old clients' watches are not served",
        settle: |_, request, ours, theirs| {
            if request.path.contains("/v1/watch/") && ours.code == 404 {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "nothing more to come",
        why: "a page is the last one when nothing selected follows; there when nothing follows at all",
        settle: |_, request, ours, theirs| {
            let selects = request.parameter("labelSelector").or(request.parameter("fieldSelector")).is_some();
            let metadata = &ours.body["metadata"];
            if selects && metadata["continue"].is_null() && theirs.body["metadata"]["continue"].is_string() {
                theirs.body["metadata"].as_object_mut().and_then(|map| map.remove("continue"));
            }
        },
    },
    Rule {
        name: "malformed revisions",
        why: "400 where a Go server answers 500 with a bare parse error",
        settle: |_, _, ours, theirs| {
            if ours.code == 400 && theirs.code == 500 && theirs.message().contains("strconv.ParseUint") {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "a revision in a new object",
        why: "it is refused in a dry run, too, and before the name is looked for",
        settle: |_, request, ours, theirs| {
            let refused =
                ours.message().starts_with("resourceVersion should not be set") && theirs.code != 500;
            let tried = request.parameter("dryRun").is_some() && ours.code == 404 && theirs.code == 201;
            if refused || tried {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "objects in protobuf",
        why: "a body that claims to be an object in protobuf is refused, 415; the custom resource handler breaks down over it",
        settle: |_, request, ours, theirs| {
            if request.content_type().contains("protobuf") && ours.code == 415 {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "documents in protobuf",
        why: "protobuf is for metadata, options and Status; documents of discovery are JSON and YAML",
        settle: |_, request, ours, theirs| {
            let wanted =
                request.headers.iter().any(|(name, value)| *name == "accept" && value.contains("protobuf"));
            let is_document = request.path.trim_end_matches('/').split('/').count() <= 4;
            if wanted && is_document && theirs.form == "text" && theirs.succeeded() {
                accept(ours, theirs);
            }
            if is_document && both_say(ours, theirs, &["only the following media types are accepted"]) {
                without(ours, theirs, "message");
            }
        },
    },
    Rule {
        name: "values in causes",
        why: "members of a composite value are printed in the order of their names",
        settle: |_, _, ours, theirs| {
            let composite = |answer: &SideAnswer| {
                let text = answer.body.to_string();
                answer.code == 422 && (text.contains("Invalid value: [") || text.contains("Invalid value: {"))
            };
            if composite(ours) && composite(theirs) {
                for answer in [&mut *ours, &mut *theirs] {
                    let causes = answer.body["details"]["causes"].as_array_mut();
                    causes.into_iter().flatten().for_each(|cause| cause["message"] = Value::Null);
                }
                without(ours, theirs, "message");
            }
        },
    },
    Rule {
        name: "warnings about what is refused",
        why: "a write that is refused for another reason is not warned about",
        settle: |_, _, ours, theirs| {
            if ours.code == theirs.code && !ours.succeeded() {
                ours.warnings.clear();
                theirs.warnings.clear();
            }
        },
    },
    Rule {
        name: "items that stand twice",
        why: "sets and keyed lists with repeated items are refused by a custom resource's schema; built-in kinds leave it to their \
              own validation",
        settle: |_, _, ours, theirs| {
            if theirs.code == 422 && theirs.body.to_string().contains("Duplicate value") {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "an apply that empties what is empty",
        why: "an empty list of finalizers is no finalizers: nothing is written; a custom resource gets a new revision",
        settle: |_, request, ours, theirs| {
            let empties = request.body.as_ref().is_some_and(|body| body.contains("\"finalizers\":[]"));
            if empties && ours.code == 200 && theirs.code == 200 {
                without_revision(ours, theirs);
            }
        },
    },
    Rule {
        name: "owners that are reset",
        why: "managedFields [] forgets all owners, as for built-in kinds; a custom resource keeps them",
        settle: |_, request, ours, theirs| {
            if request.body.as_ref().is_some_and(|body| body.contains("\"managedFields\":[]")) {
                for answer in [ours, theirs] {
                    if let Some(metadata) = answer.body.get_mut("metadata").and_then(Value::as_object_mut) {
                        metadata.remove("managedFields");
                    }
                    for row in answer.body.get_mut("rows").and_then(Value::as_array_mut).into_iter().flatten()
                    {
                        row.pointer_mut("/object/metadata")
                            .and_then(Value::as_object_mut)
                            .and_then(|metadata| metadata.remove("managedFields"));
                    }
                }
            }
        },
    },
    Rule {
        name: "a patch that empties the revision",
        why: "\"\" in a patch means the newest revision, as an absent one does; there it is refused",
        settle: |_, request, ours, theirs| {
            let emptied =
                theirs.message().contains("must be specified for an update") || theirs.form == "text";
            if request.method == "PATCH" && emptied && theirs.code == 422 {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "columns",
        why: "columns have shorter descriptions, and an age is a text",
        settle: |_, _, ours, theirs| {
            for answer in [ours, theirs] {
                each_table(&mut answer.body, &mut |table| {
                    if table.get("columnDefinitions").is_some_and(Value::is_null) {
                        table.insert("columnDefinitions".to_owned(), json!([]));
                    }
                    for column in
                        table.get_mut("columnDefinitions").and_then(Value::as_array_mut).into_iter().flatten()
                    {
                        let name = column["name"].clone();
                        if name == "Name" || name == "Age" {
                            *column = name;
                        }
                    }
                });
            }
        },
    },
    Rule {
        name: "keys of the storage",
        why: "there is no etcd and so no prefix of its keys",
        settle: |_, _, _, theirs| {
            let plain =
                theirs.message().replace("Key: /local/", "Key: /").replace("Key: /registry/", "Key: /");
            if plain != theirs.message() {
                theirs.body["message"] = json!(plain);
            }
        },
    },
    Rule {
        name: "methods of discovery",
        why: "documents about a group are only got; a Go server answers any method with them",
        settle: |case, request, ours, theirs| {
            let about = !request.path.contains(case.target.plural);
            if about && request.method != "GET" && !ours.succeeded() && theirs.succeeded() {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "invalid timeouts",
        why: "told without the words of Go's time package; a negative one is none",
        settle: |_, _, ours, theirs| {
            if ours.message().contains("invalid timeout specified") {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "verbs in discovery",
        why: "ours are sorted; nobody relies on their order",
        settle: |_, _, ours, theirs| {
            for answer in [ours, theirs] {
                let resources = answer.body.get_mut("resources").and_then(Value::as_array_mut);
                for resource in resources.into_iter().flatten() {
                    if let Some(verbs) = resource.get_mut("verbs").and_then(Value::as_array_mut) {
                        verbs.sort_by_key(ToString::to_string);
                    }
                }
            }
        },
    },
    Rule {
        name: "HEAD",
        why: "a HEAD of a resource is 405, as built-in kinds answer",
        settle: |_, request, ours, theirs| {
            if request.method == "HEAD" && ours.code == 405 {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "two slashes",
        why: "an empty segment names nothing here; there it is an empty name",
        settle: |_, request, ours, theirs| {
            if request.path.contains("//") && ours.code == theirs.code {
                accept(ours, theirs);
            }
        },
    },
    Rule {
        name: "causes in another order",
        why: "a structural schema is walked in random order",
        settle: |_, _, ours, theirs| {
            let several = [&*ours, &*theirs].into_iter().any(|answer| causes(&answer.body).count() > 1);
            for answer in [ours, theirs].into_iter().filter(|_| several) {
                sort_causes(answer);
            }
        },
    },
];

/// Without the phase that a project has from the beginning, and the owner of its finalizers.
fn without_own_rules(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::Object(status)) = map.get_mut("status") {
                status.retain(|key, value| {
                    (key.as_str(), &*value) != ("phase", &json!("Pending"))
                        && (key.as_str(), &*value) != ("observedGeneration", &json!(0))
                });
                if status.is_empty() {
                    map.remove("status");
                }
            }
            if let Some(Value::Object(owned)) = map.get_mut("f:spec") {
                owned.remove("f:finalizers");
            }
            map.values_mut().for_each(without_own_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(without_own_rules),
        _ => {}
    }
}

/// Every table in a value: an answer, or the events of a watch.
fn each_table(value: &mut Value, change: &mut dyn FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(map) if map.get("kind") == Some(&json!("Table")) => change(map),
        Value::Object(map) => map.values_mut().for_each(|value| each_table(value, change)),
        Value::Array(items) => items.iter_mut().for_each(|value| each_table(value, change)),
        _ => {}
    }
}

fn sort_causes(answer: &mut SideAnswer) {
    let Some(causes) = answer.body.pointer_mut("/details/causes").and_then(Value::as_array_mut) else {
        return;
    };
    causes.sort_by_key(ToString::to_string);
    causes.dedup();
    if let Some((before, _)) = answer.message().split_once(" is invalid: ") {
        let before = before.to_owned();
        answer.body["message"] = json!(before);
    }
}

fn causes(body: &Value) -> impl Iterator<Item = &Value> {
    body["details"]["causes"].as_array().into_iter().flatten()
}
