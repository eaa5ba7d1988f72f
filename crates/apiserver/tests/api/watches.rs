use crate::kit::{Kit, LIST};
use runtime::Clock;
use serde_json::{Value, json};

const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

#[tokio::test]
async fn a_watch_tells_every_change_after_its_revision() {
    let kit = Kit::start().await;
    let list = kit.get(LIST).await.json();
    let rv = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut events = kit.watch(&format!("{LIST}?watch=true&resourceVersion={rv}"), JSON).await;
    kit.widget("a", "red").await;
    kit.patch(&format!("{LIST}/a"), "merge-patch", &json!({"spec": {"size": 1}})).await;
    kit.delete(&format!("{LIST}/a"), &json!(null)).await;
    let mut last = 0;
    for op in ["ADDED", "MODIFIED", "DELETED"] {
        let (found, name, revision) = events.brief().await;
        assert_eq!((found.as_str(), name.as_str()), (op, "a"));
        assert!(revision > last);
        last = revision;
    }
}

#[tokio::test]
async fn an_informer_gets_the_state_and_then_its_end_as_a_bookmark() {
    let kit = Kit::start().await;
    kit.widget("a", "red").await;
    kit.widget("b", "red").await;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut events = kit.watch(&format!("{LIST}?{query}"), JSON).await;
    assert_eq!(events.brief().await.1, "a");
    let (_, name, last) = events.brief().await;
    assert_eq!(name, "b");
    let end = events.next().await.unwrap();
    assert_eq!((&end["type"], &end["object"]["kind"]), (&json!("BOOKMARK"), &json!("Widget")));
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert!(end["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() >= last);
    kit.widget("c", "red").await;
    assert_eq!(events.brief().await.1, "c");
    let without = kit.watch(&format!("{LIST}?watch=1"), JSON).await;
    let mut without = without;
    for name in ["a", "b", "c"] {
        assert_eq!(without.brief().await.1, name, "the old form begins with the state too");
    }
    kit.widget("d", "red").await;
    assert_eq!(without.brief().await.1, "d", "and has no bookmark that nobody allowed");
}

#[tokio::test]
async fn events_that_are_ready_come_in_one_piece() {
    let kit = Kit::start().await;
    for name in ["a", "b", "c"] {
        kit.widget(name, "red").await;
    }
    let lines = |piece: &[u8]| piece.split_inclusive(|byte| *byte == b'\n').count();
    let mut state = kit.watch(&format!("{LIST}?watch=1"), JSON).await;
    assert_eq!(lines(&state.chunk().await), 3);
    let mut behind = kit.watch(&format!("{LIST}?watch=1&resourceVersion=1"), JSON).await;
    let mut changes = lines(&behind.chunk().await);
    kit.widget("d", "red").await;
    while changes < 4 {
        changes += lines(&behind.chunk().await);
    }
    assert_eq!(lines(&state.chunk().await), 1, "nothing waits for company");
}

#[tokio::test]
async fn an_object_that_leaves_the_selection_is_deleted_for_the_watcher() {
    let kit = Kit::start().await;
    let query = "watch=1&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let mut events = kit.watch(&format!("{LIST}?{query}&fieldSelector=spec.colour%3Dred"), JSON).await;
    kit.widget("z", "blue").await;
    kit.widget("a", "red").await;
    let left =
        kit.patch(&format!("{LIST}/a"), "merge-patch", &json!({"spec": {"colour": "blue"}})).await.json();
    kit.patch(&format!("{LIST}/z"), "merge-patch", &json!({"spec": {"colour": "red"}})).await;
    assert_eq!(events.brief().await.1, "a");
    let gone = events.next().await.unwrap();
    assert_eq!((&gone["type"], &gone["object"]["spec"]["colour"]), (&json!("DELETED"), &json!("red")));
    assert_eq!(gone["object"]["metadata"]["resourceVersion"], left["metadata"]["resourceVersion"]);
    let (op, name, _) = events.brief().await;
    assert_eq!((op.as_str(), name.as_str()), ("ADDED", "z"));
}

#[tokio::test]
async fn a_watch_speaks_in_the_form_that_was_asked_for() {
    let kit = Kit::start().await;
    kit.widget("a", "red").await;
    kit.widget("b", "red").await;
    let mut tables =
        kit.watch(&format!("{LIST}?watch=1&allowWatchBookmarks=true&includeObject=None"), TABLE).await;
    let first = tables.next().await.unwrap();
    assert_eq!(
        (&first["object"]["kind"], &first["object"]["rows"][0]["object"]),
        (&json!("Table"), &Value::Null)
    );
    assert_eq!(first["object"]["columnDefinitions"].as_array().unwrap().len(), 4);
    let second = tables.next().await.unwrap();
    assert_eq!(second["object"]["columnDefinitions"], json!([]), "columns come once");
    let end = tables.next().await.unwrap();
    let metadata = &end["object"]["rows"][0]["object"]["metadata"];
    assert_eq!(metadata["annotations"]["k8s.io/initial-events-end"], "true");
    assert!(metadata["resourceVersion"].is_string());
    let mut partial = kit.watch(&format!("{LIST}?watch=1"), PARTIAL).await;
    let first = partial.next().await.unwrap();
    assert_eq!(
        (&first["object"]["kind"], &first["object"]["metadata"]["name"]),
        (&json!("PartialObjectMetadata"), &json!("a"))
    );
    assert!(first["object"].get("spec").is_none());
    let yaml = kit.get_as(&format!("{LIST}?watch=1"), "application/yaml").await;
    assert_eq!(yaml.code, 406);
}

#[tokio::test]
async fn ages_in_a_watch_are_those_of_the_moment() {
    const SECOND: i64 = 1_000_000;
    let clock = Clock::fixed(1_700_000_000 * SECOND);
    let kit = Kit::start_at(clock.clone()).await;
    kit.widget("a", "red").await;
    let mut tables = kit.watch(&format!("{LIST}?watch=1"), TABLE).await;
    let mut age = async || {
        let event = tables.next().await.unwrap();
        let cells = event["object"]["rows"][0]["cells"].as_array().unwrap().clone();
        (cells[0].clone(), cells.last().unwrap().clone())
    };
    assert_eq!(age().await, (json!("a"), json!("0s")));
    clock.advance(600 * SECOND);
    kit.widget("b", "red").await;
    assert_eq!(age().await, (json!("b"), json!("0s")));
    kit.patch(&format!("{LIST}/a"), "merge-patch", &json!({"spec": {"size": 1}})).await;
    assert_eq!(age().await, (json!("a"), json!("10m")));
}

#[tokio::test]
async fn a_watch_ends_cleanly_at_its_time_with_a_last_bookmark() {
    let kit = Kit::start().await;
    let rv = kit.widget("a", "red").await["metadata"]["resourceVersion"].clone();
    let url = format!(
        "{LIST}?watch=1&allowWatchBookmarks=true&timeoutSeconds=5&resourceVersion={}",
        rv.as_str().unwrap()
    );
    let mut events = kit.watch(&url, JSON).await;
    let (op, _, revision) = events.brief().await;
    assert_eq!((op.as_str(), revision.to_string().as_str()), ("BOOKMARK", rv.as_str().unwrap()));
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_draining_server_ends_its_watches_and_takes_no_new_ones() {
    let kit = Kit::start().await;
    kit.widget("a", "red").await;
    let mut events = kit.watch(&format!("{LIST}?watch=1"), JSON).await;
    assert_eq!(events.brief().await.1, "a");
    kit.draining.cancel();
    assert_eq!(events.next().await, None);
    let refused = kit.get(&format!("{LIST}?watch=1")).await;
    assert_eq!((refused.code, refused.header("retry-after")), (429, "1"));
}

#[tokio::test]
async fn a_state_of_the_future_is_an_error_inside_the_stream() {
    let kit = Kit::start().await;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999999999";
    let mut events = kit.watch(&format!("{LIST}?{query}"), JSON).await;
    let event = events.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(504)));
    assert_eq!(events.next().await, None);
    let wrong = kit.get(&format!("{LIST}?watch=1&sendInitialEvents=true")).await;
    assert_eq!(wrong.code, 422);
}
