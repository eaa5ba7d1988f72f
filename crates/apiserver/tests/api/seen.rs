//! The answers about objects that a caller does not see are the same whatever their state, also those of writes.

use crate::kit::{Answer, Kit, LIST};
use http::Method;
use serde_json::{Value, json};
use store::Visibility;

const WORKSHOPS: &str = "/apis/sample.example.io/v1/workshops";

fn of(kit: &Kit, tenant: &str) -> Kit {
    kit.seen_by(Visibility::tenant(tenant))
}

fn workshop(name: &str, finish: &str) -> Value {
    json!({"apiVersion": "sample.example.io/v1", "kind": "Workshop",
        "metadata": {"name": name}, "spec": {"finish": finish}})
}

fn widget(name: &str, workshop: &str) -> Value {
    json!({"apiVersion": "sample.example.io/v1", "kind": "Widget",
        "metadata": {"name": name}, "spec": {"colour": "red", "workshop": workshop}})
}

fn answer(answer: &Answer) -> (u16, String, String) {
    (answer.code, answer.text.clone(), answer.header("warning").to_owned())
}

#[tokio::test]
async fn below_what_is_not_seen_nothing_is_told_apart() {
    let kit = Kit::start().await;
    let (ours, theirs) = (of(&kit, "t"), of(&kit, "u"));
    assert_eq!(theirs.post(WORKSHOPS, &workshop("open", "matt")).await.code, 201);
    let held = json!({"metadata": {"name": "ending", "finalizers": ["x/y"]}, "spec": {"finish": "matt"}});
    assert_eq!(theirs.post(WORKSHOPS, &held).await.code, 201);
    assert_eq!(theirs.delete(&format!("{WORKSHOPS}/ending"), &Value::Null).await.code, 200);
    assert_eq!(ours.post(LIST, &json!({"metadata": {"name": "mine"}})).await.code, 201);
    assert_eq!(theirs.post(LIST, &widget("taken", "open")).await.code, 201);

    let attempts = async |workshop: &str| {
        let mut told = Vec::new();
        for name in ["new", "taken", "Bad_Name"] {
            for url in [LIST.to_owned(), format!("{LIST}?dryRun=All")] {
                told.push(answer(&ours.post(&url, &widget(name, workshop)).await));
            }
        }
        let mut generated = widget("", workshop);
        generated["metadata"] = json!({"generateName": "w-"});
        told.push(answer(&ours.post(LIST, &generated).await));
        let mut unknown = widget("new", workshop);
        unknown["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]);
        told.push(answer(&ours.post(LIST, &unknown).await));
        let moved = json!({"spec": {"workshop": workshop}});
        told.push(answer(&ours.patch(&format!("{LIST}/mine"), "merge-patch", &moved).await));
        told
    };
    let none = attempts("none").await;
    for (code, text, warning) in &none {
        let status: Value = serde_json::from_str(text).unwrap();
        assert_eq!((*code, warning.as_str()), (404, ""), "{text}");
        assert_eq!(status["message"], "workshops.sample.example.io \"none\" not found");
        assert_eq!(status["details"]["kind"], "workshops");
    }
    for state in ["open", "ending"] {
        let told: Vec<_> = attempts(state)
            .await
            .into_iter()
            .map(|(code, text, w)| (code, text.replace(state, "none"), w))
            .collect();
        assert_eq!(told, none, "{state}");
    }
}

#[tokio::test]
async fn a_taken_name_says_in_which_state_it_is_to_who_sees_it_alone() {
    let kit = Kit::start().await;
    let (ours, theirs) = (of(&kit, "t"), of(&kit, "u"));
    let held = json!({"metadata": {"name": "ending", "finalizers": ["x/y"]}});
    assert_eq!(theirs.post(WORKSHOPS, &held).await.code, 201);
    assert_eq!(theirs.delete(&format!("{WORKSHOPS}/ending"), &Value::Null).await.code, 200);
    let taken = "workshops.sample.example.io \"ending\" already exists";
    for url in [WORKSHOPS.to_owned(), format!("{WORKSHOPS}?dryRun=All")] {
        let refused = ours.post(&url, &workshop("ending", "matt")).await;
        assert_eq!((refused.code, refused.message().as_str()), (409, taken));
        let told = theirs.post(&url, &workshop("ending", "matt")).await.message();
        assert_eq!(told, format!("object is being deleted: {taken}"));
    }
}

#[tokio::test]
async fn what_a_strategy_warns_of_goes_out_with_an_accepted_write_only() {
    let kit = Kit::start().await;
    let unknown = json!({"metadata": {"name": "a"}, "spec": {"workshop": "none", "what": 1}});
    let accepted = kit.post(&format!("{LIST}?dryRun=All"), &unknown).await;
    let both: Vec<_> = accepted.headers.get_all("warning").iter().map(|w| w.to_str().unwrap()).collect();
    assert_eq!(
        both,
        ["299 - \"unknown field \\\"spec.what\\\"\"", "299 - \"the workshop is not there yet\""]
    );
    let mut refused = unknown.clone();
    refused["spec"]["size"] = json!(-1);
    let refused = kit.post(LIST, &refused).await;
    let sent: Vec<_> = refused.headers.get_all("warning").iter().map(|w| w.to_str().unwrap()).collect();
    assert_eq!((refused.code, sent), (422, vec!["299 - \"unknown field \\\"spec.what\\\"\""]));
    kit.widget("b", "red").await;
    let change = json!({"spec": {"workshop": "none", "size": -1, "what": 1}});
    let refused = kit.patch(&format!("{LIST}/b"), "merge-patch", &change).await;
    let sent: Vec<_> = refused.headers.get_all("warning").iter().map(|w| w.to_str().unwrap()).collect();
    assert_eq!((refused.code, sent), (422, vec!["299 - \"unknown field \\\"spec.what\\\"\""]));
}

#[tokio::test]
async fn a_field_of_the_servers_is_its_own() {
    let kit = Kit::start().await;
    assert_eq!(kit.post(WORKSHOPS, &workshop("w", "matt")).await.code, 201);
    let mut forged = widget("a", "w");
    forged["spec"]["finish"] = json!("gold");
    let made = kit.post(LIST, &forged).await.json();
    assert_eq!(made["spec"]["finish"], "matt");
    let url = format!("{LIST}/a");
    assert!(!made["metadata"]["managedFields"].to_string().contains("finish"), "nobody owns it");
    let read = kit.get(&url).await.json();
    assert_eq!(kit.put(&url, &read).await.json(), read, "what was read changes nothing");
    let forged = json!({"spec": {"finish": "gold"}});
    assert_eq!(kit.patch(&url, "merge-patch", &forged).await.json(), read);
    let applied = json!({"apiVersion": "sample.example.io/v1", "kind": "Widget",
        "metadata": {"name": "a"}, "spec": {"finish": "gold", "size": 7}});
    let applied = kit.patch(&format!("{url}?fieldManager=m"), "apply", &applied).await.json();
    assert_eq!((&applied["spec"]["finish"], &applied["spec"]["size"]), (&json!("matt"), &json!(7)));
    assert!(!applied["metadata"]["managedFields"].to_string().contains("finish"));

    let gloss = json!({"spec": {"finish": "gloss"}});
    assert_eq!(kit.patch(&format!("{WORKSHOPS}/w"), "merge-patch", &gloss).await.code, 200);
    let mut seen = read;
    for phase in 0.. {
        // Admission reads the cache, which may lag a moment.
        let status = json!({"status": {"phase": phase.to_string()}});
        seen = kit.patch(&format!("{url}/status"), "merge-patch", &status).await.json();
        if seen["spec"]["finish"] == "gloss" {
            break;
        }
        assert!(phase < 1000, "{seen}");
    }
    assert_eq!(seen["metadata"]["generation"], applied["metadata"]["generation"]);
    assert_eq!(kit.get(&url).await.json(), seen);
}

#[tokio::test]
async fn an_owner_is_seen_and_of_the_same_tenant() {
    let kit = Kit::start().await;
    let (ours, theirs) = (of(&kit, "t"), of(&kit, "u"));
    let uid = |answer: Answer| answer.json()["metadata"]["uid"].as_str().unwrap().to_owned();
    let mine = uid(ours.post(WORKSHOPS, &workshop("mine", "matt")).await);
    let foreign = uid(theirs.post(WORKSHOPS, &workshop("foreign", "matt")).await);
    let with = |name: &str, kind: &str, owner: &str, uid: &str, block: bool| {
        let api = if kind == "Pod" { "v1" } else { "sample.example.io/v1" };
        let reference =
            json!({"apiVersion": api, "kind": kind, "name": owner, "uid": uid, "blockOwnerDeletion": block});
        json!({"metadata": {"name": name, "ownerReferences": [reference]}})
    };
    let at = "metadata.ownerReferences[0]";
    let nowhere = "00000000-0000-0000-0000-000000000000";
    let absent = |uid: &str| format!("{at}.uid: Not found: \"{uid}\"");
    for (kind, owner, uid, why) in [
        ("Workshop", "foreign", foreign.as_str(), absent(&foreign)),
        ("Workshop", "none", nowhere, absent(nowhere)),
        ("Workshop", "mine", foreign.as_str(), absent(&foreign)),
        (
            "Pod",
            "p",
            foreign.as_str(),
            format!("{at}: Forbidden: the owner is of no kind that is served here"),
        ),
    ] {
        let refused = ours.post(LIST, &with("a", kind, owner, uid, false)).await;
        assert_eq!(refused.code, 422, "{kind} {owner}: {}", refused.text);
        assert_eq!(refused.message(), format!("Widget.sample.example.io \"a\" is invalid: {why}"));
    }
    assert_eq!(ours.post(LIST, &with("a", "Workshop", "mine", &mine, false)).await.code, 201);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(ours.delete(&format!("{WORKSHOPS}/mine"), &Value::Null).await.code, 200);
    assert_eq!(
        ours.patch(&format!("{LIST}/a"), "merge-patch", &label).await.code,
        200,
        "an owner that is gone stays"
    );
    // There is no authorizer in these tests, so `blockOwnerDeletion` is refused.
    let blocked = theirs.post(LIST, &with("b", "Workshop", "foreign", &foreign, true)).await;
    assert_eq!(blocked.code, 403, "{}", blocked.text);
    assert!(blocked.message().contains("cannot set blockOwnerDeletion"), "{}", blocked.message());
    let operators = kit.post(LIST, &with("c", "Workshop", "foreign", &foreign, false)).await;
    assert_eq!(
        operators.message(),
        format!("Widget.sample.example.io \"c\" is invalid: {at}: Forbidden: the owner is another tenant's")
    );
    assert_eq!(kit.post(LIST, &with("c", "Pod", "p", nowhere, true)).await.code, 201, "as in Kubernetes");
    assert_eq!(kit.post(LIST, &with("d", "Workshop", "none", nowhere, false)).await.code, 201);
}

#[tokio::test]
async fn no_text_holds_a_nul() {
    let kit = Kit::start().await;
    kit.widget("a", "red").await;
    let one = format!("{LIST}/a");
    let json = ("content-type", "application/json");
    let why = "spec.colour: a text must not contain the character U+0000";
    for (method, url, content, body) in [
        (Method::POST, LIST, json, r#"{"metadata":{"name":"b"},"spec":{"colour":"x\u0000"}}"#),
        (
            Method::POST,
            LIST,
            ("content-type", "application/yaml"),
            "metadata: {name: b}\nspec: {colour: \"x\\0\"}",
        ),
        (Method::PUT, &one, json, r#"{"metadata":{"name":"a"},"spec":{"colour":"x\u0000"}}"#),
        (
            Method::PATCH,
            &one,
            ("content-type", "application/merge-patch+json"),
            r#"{"spec":{"colour":"\u0000"}}"#,
        ),
        (
            Method::PATCH,
            &one,
            ("content-type", "application/json-patch+json"),
            r#"[{"op":"replace","path":"/spec/colour","value":"\u0000"}]"#,
        ),
        (
            Method::PATCH,
            &one,
            ("content-type", "application/strategic-merge-patch+json"),
            r#"{"spec":{"colour":"\u0000"}}"#,
        ),
        (
            Method::PATCH,
            &format!("{one}?fieldManager=m"),
            ("content-type", "application/apply-patch+yaml"),
            "apiVersion: sample.example.io/v1\nkind: Widget\nspec: {colour: \"\\x00\"}",
        ),
    ] {
        let refused = kit.ask(method.clone(), url, &[content], body).await;
        assert_eq!((refused.code, refused.message().as_str()), (400, why), "{method} {} {body}", content.1);
    }
    let key = r#"{"metadata":{"name":"b","annotations":{"a\u0000":"b"}}}"#;
    let refused = kit.ask(Method::POST, LIST, &[json], key).await;
    assert_eq!(
        refused.message(),
        "metadata.annotations[a\\u0000]: a text must not contain the character U+0000"
    );
    for url in [
        format!("{LIST}/a%00"),
        format!("{LIST}?fieldSelector=metadata.name%3D%00&resourceVersion=0"),
        format!("{LIST}?labelSelector=a%3D%00"),
        format!("{LIST}?fieldSelector=metadata.name%3Da%00&limit=1"),
        format!("{LIST}?continue=%00"),
    ] {
        let code = kit.code_of(Method::GET, &url).await;
        assert!((200..500).contains(&code), "{url}: {code}");
    }
    let options = json!({"preconditions": {"uid": "\u{0}"}, "propagationPolicy": "\u{0}"});
    assert_eq!(kit.delete(&one, &options).await.code, 422);
    let manager = kit.ask(Method::POST, &format!("{LIST}?fieldManager=%00"), &[json], "{}").await;
    assert_eq!(manager.code, 422);
}
