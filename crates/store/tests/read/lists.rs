//! What a list owes its caller.

use crate::fixture::*;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use store::read::{At, ListQuery};
use store::{Error, Key, Revision, Sight, TenantSight, Visibility};

async fn five(fixture: &mut Fixture) -> Revision {
    for (namespace, name) in [("x", "b"), ("x", "a"), ("x-b", "a"), ("y", "c"), ("x", "c")] {
        fixture.writer.put(object(namespace, name, "", &json!({}))).await;
    }
    fixture.cache.current_revision().await.unwrap()
}

#[tokio::test]
async fn a_get_finds_what_was_written_before_it() {
    let mut fixture = Fixture::new().await;
    let key = Key::new(THINGS, "x", "a");
    let access = everything();
    assert!(matches!(fixture.cache.get(&access, &key, At::Latest).await, Err(Error::NotFound)));
    let first = fixture.writer.put(object("x", "a", "", &json!({"n": 1}))).await;
    let entry = fixture.cache.get(&access, &key, At::Latest).await.unwrap();
    assert_eq!((entry.revision, &body(&entry)["spec"]["n"]), (first, &json!(1)));
    let second = fixture.writer.put(object("x", "a", "", &json!({"n": 2}))).await;
    let entry = fixture.cache.get(&access, &key, At::NotOlderThan(second)).await.unwrap();
    assert_eq!((entry.revision, &body(&entry)["spec"]["n"]), (second, &json!(2)));
    let entry = fixture.cache.get(&access, &key, At::Exact(first)).await.unwrap();
    assert_eq!(body(&entry)["spec"]["n"], json!(1));
    fixture.writer.delete("x", "a").await;
    assert!(matches!(fixture.cache.get(&access, &key, At::Latest).await, Err(Error::NotFound)));
    assert!(fixture.cache.get(&access, &key, At::Exact(second)).await.is_ok());
}

#[tokio::test]
async fn a_list_is_in_bytewise_order_of_the_path() {
    let mut fixture = Fixture::new().await;
    let revision = five(&mut fixture).await;
    let page = fixture.cache.list(&everything(), &list(all(THINGS), At::Latest)).await.unwrap();
    let paths: Vec<String> = page.items.iter().map(|entry| path_of(entry)).collect();
    assert_eq!(paths, ["x-b/a", "x/a", "x/b", "x/c", "y/c"]);
    assert_eq!((page.revision, page.continue_token, page.remaining), (revision, None, None));
    let one = list(select(THINGS, Some("x"), "", ""), At::Latest);
    assert_eq!(fixture.names(&one).await, ["x/a", "x/b", "x/c"]);
    let none = list(select(THINGS, Some("z"), "", ""), At::Latest);
    assert!(fixture.names(&none).await.is_empty());
    assert!(fixture.names(&list(all(PLACES), At::Latest)).await.is_empty());
}

#[tokio::test]
async fn every_freshness_is_served_as_asked() {
    let mut fixture = Fixture::new().await;
    let revision = five(&mut fixture).await;
    let access = everything();
    let query = |at| list(all(THINGS), at);
    let list = async |at| fixture.cache.list(&access, &query(at)).await;
    assert_eq!(list(At::Any).await.unwrap().items.len(), 5);
    assert_eq!(list(At::NotOlderThan(revision)).await.unwrap().revision, revision);
    let before = Revision(revision.0 - 2);
    let page = list(At::Exact(before)).await.unwrap();
    let paths: Vec<String> = page.items.iter().map(|entry| path_of(entry)).collect();
    assert_eq!((paths, page.revision), (vec!["x-b/a".into(), "x/a".into(), "x/b".into()], before));
    let ahead = Revision(revision.0 + 1000);
    for at in [At::NotOlderThan(ahead), At::Exact(ahead)] {
        let error = list(at).await.unwrap_err();
        assert!(
            matches!(error, Error::TooFarAhead { asked, current } if asked == ahead && current == revision)
        );
    }
    let error = list(At::Exact(Revision(0))).await;
    assert!(error.is_ok(), "nothing was compacted yet");
}

#[tokio::test]
async fn a_revision_that_no_event_has_counts_all_the_same() {
    let mut fixture = Fixture::new().await;
    let revision = fixture.writer.skip_revisions(7).await;
    let page = fixture.cache.list(&everything(), &list(all(THINGS), At::Latest)).await.unwrap();
    assert_eq!(page.revision, revision);
}

#[tokio::test]
async fn all_pages_are_one_snapshot() {
    let mut fixture = Fixture::new().await;
    let revision = five(&mut fixture).await;
    let mut query = ListQuery { limit: Some(2), ..list(all(THINGS), At::Latest) };
    let (mut paths, mut left) = (Vec::new(), Vec::new());
    loop {
        let page = fixture.cache.list(&everything(), &query).await.unwrap();
        assert_eq!(page.revision, revision);
        paths.extend(page.items.iter().map(|entry| format!("{} {}", path_of(entry), body(entry)["spec"])));
        left.push(page.remaining);
        // Everything changes between two pages.
        fixture.writer.put(object("x", "a", "", &json!({"new": 1}))).await;
        fixture.writer.put(object("x", "c", "", &json!({"new": 1}))).await;
        fixture.writer.put(object("x", &format!("a{}", left.len()), "", &json!({"new": 1}))).await;
        fixture.writer.put(object("zz", &format!("a{}", left.len()), "", &json!({"new": 1}))).await;
        if left.len() == 1 {
            fixture.writer.delete("y", "c").await;
        }
        let Some(token) = page.continue_token else { break };
        query.continue_token = Some(token);
    }
    assert_eq!(paths, ["x-b/a {}", "x/a {}", "x/b {}", "x/c {}", "y/c {}"]);
    assert_eq!(left, [Some(3), Some(1), None]);
}

#[tokio::test]
async fn a_page_is_filled_although_few_objects_match() {
    let mut fixture = Fixture::new().await;
    for number in 0..60 {
        let labels = if number % 20 == 19 { "rare=yes" } else { "rare=no" };
        fixture.writer.put(object("x", &format!("n{number:03}"), labels, &json!({}))).await;
    }
    let access = everything();
    for selector in ["rare=yes", "rare!=no", "rare in (yes,perhaps)"] {
        let selection = select(THINGS, None, selector, "");
        let mut query = ListQuery { limit: Some(1), ..list(selection, At::Latest) };
        let mut names = Vec::new();
        loop {
            let page = fixture.cache.list(&access, &query).await.unwrap();
            assert_eq!((page.items.len(), page.remaining), (1, None));
            names.push(page.items[0].key.name.to_string());
            let Some(token) = page.continue_token else { break };
            query.continue_token = Some(token);
        }
        assert_eq!(names, ["n019", "n039", "n059"], "{selector}");
    }
}

#[tokio::test]
async fn selectors_see_names_fields_and_labels() {
    let mut fixture = Fixture::new().await;
    for (name, labels, color) in [("a", "app=web", "red"), ("b", "app=web,tier=1", "blue"), ("c", "", "red")]
    {
        fixture.writer.put(object("x", name, labels, &json!({"color": color}))).await;
        fixture.writer.put_as(PLACES, object("", name, labels, &json!({"color": color}))).await;
    }
    for (labels, fields, found) in [
        ("app=web", "", "a b"),
        ("app", "spec.color=red", "a"),
        ("!app", "", "c"),
        ("app notin (web)", "", "c"),
        ("tier", "", "b"),
        ("", "spec.color=red", "a c"),
        ("", "spec.color!=red", "b"),
        ("", "metadata.name=b", "b"),
        ("", "metadata.name!=b,spec.color=red", "a c"),
        ("", "metadata.name=zzz", ""),
        ("app=none", "", ""),
    ] {
        let things = list(select(THINGS, Some("x"), labels, fields), At::Latest);
        let places = list(select(PLACES, None, labels, fields), At::Latest);
        let found: Vec<&str> = found.split_whitespace().collect();
        assert_eq!(fixture.names(&places).await, found, "{labels} {fields}");
        let found: Vec<String> = found.iter().map(|name| format!("x/{name}")).collect();
        assert_eq!(fixture.names(&things).await, found, "{labels} {fields}");
    }
    let both = list(select(THINGS, None, "", "metadata.namespace=x,metadata.name=a"), At::Latest);
    assert_eq!(fixture.names(&both).await, ["x/a"]);
}

#[tokio::test]
async fn an_index_follows_what_changes() {
    let mut fixture = Fixture::new().await;
    for number in 0..40 {
        fixture.writer.put(object("x", &format!("n{number:02}"), "app=many", &json!({"color": "red"}))).await;
    }
    let rare = || list(select(THINGS, None, "app=rare", ""), At::Latest);
    let blue = || list(select(THINGS, None, "", "spec.color=blue"), At::Latest);
    assert!(fixture.names(&rare()).await.is_empty());
    fixture.writer.put(object("x", "n07", "app=rare", &json!({"color": "blue"}))).await;
    fixture.writer.put(object("x", "new", "app=rare", &json!({"color": "red"}))).await;
    assert_eq!(fixture.names(&rare()).await, ["x/n07", "x/new"]);
    assert_eq!(fixture.names(&blue()).await, ["x/n07"]);
    fixture.writer.put(object("x", "n07", "", &json!({"color": "red"}))).await;
    fixture.writer.delete("x", "new").await;
    fixture.writer.put(object("x", "other", "app=many", &json!({}))).await;
    assert!(fixture.names(&rare()).await.is_empty());
    assert!(fixture.names(&blue()).await.is_empty());
}

#[tokio::test]
async fn a_caller_sees_his_tenant_and_a_member_his_places() {
    let mut fixture = Fixture::new().await;
    for (name, tenant) in [("p1", "t1"), ("p2", "t1"), ("p3", "t2")] {
        fixture.writer.put_as(PLACES, object("", name, "", &json!({"tenant": tenant}))).await;
        fixture.writer.put(object(name, "thing", "", &json!({"tenant": tenant}))).await;
    }
    let whole = |tenant| TenantSight { tenant: Arc::from(tenant), sight: Sight::Whole };
    let some = |tenant, namespaces: &[&str]| {
        let namespaces = namespaces.iter().map(|name| (*name).to_owned()).collect();
        TenantSight { tenant: Arc::from(tenant), sight: Sight::Namespaces(Arc::new(namespaces)) }
    };
    for (visibility, places) in [
        (Visibility::Everything, "p1 p2 p3"),
        (Visibility::tenant("t1"), "p1 p2"),
        (Visibility::tenants([some("t1", &["p1", "p3"])]), "p1"),
        (Visibility::tenants([whole("t2"), some("t1", &["p2"])]), "p2 p3"),
        (Visibility::tenants([some("t2", &["p3"]), some("t1", &["p1"])]), "p1 p3"),
        (Visibility::tenant("t3"), ""),
        (Visibility::Nothing, ""),
    ] {
        let access = access_with(visibility).await;
        let places: Vec<&str> = places.split_whitespace().collect();
        let page = fixture.cache.list(&access, &list(all(PLACES), At::Latest)).await.unwrap();
        let found: Vec<String> = page.items.iter().map(|entry| path_of(entry)).collect();
        assert_eq!(found, places);
        let page = fixture.cache.list(&access, &list(all(THINGS), At::Latest)).await.unwrap();
        let found: Vec<&str> = page.items.iter().map(|entry| &*entry.key.namespace).collect();
        assert_eq!(found, places);
        for name in ["p1", "p2", "p3"] {
            let got = fixture.cache.get(&access, &Key::new(PLACES, "", name), At::Latest).await;
            assert_eq!(got.is_ok(), places.contains(&name));
        }
    }
}

#[tokio::test]
async fn what_is_tenant_wide_is_seen_by_all_of_its_tenant_and_what_is_public_by_all_tenants() {
    let mut fixture = Fixture::new().await;
    for (name, spec) in [
        ("closed", json!({"tenant": "t1"})),
        ("everybodys", json!({"public": true})),
        ("nobodys", json!({"wide": true})),
        ("open", json!({"tenant": "t1", "wide": true})),
    ] {
        fixture.writer.put_as(PLACES, object("", name, "", &spec)).await;
    }
    for (tenant, places) in [("t1", vec!["everybodys", "open"]), ("t2", vec!["everybodys"])] {
        let sight = Sight::Namespaces(Arc::default());
        let access =
            access_with(Visibility::tenants([TenantSight { tenant: Arc::from(tenant), sight }])).await;
        let page = fixture.cache.list(&access, &list(all(PLACES), At::Latest)).await.unwrap();
        assert_eq!(page.items.iter().map(|entry| path_of(entry)).collect::<Vec<_>>(), places);
    }
}

#[tokio::test]
async fn a_token_of_another_list_is_refused() {
    let mut fixture = Fixture::new().await;
    five(&mut fixture).await;
    let query = ListQuery { limit: Some(2), ..list(all(THINGS), At::Latest) };
    let token = fixture.cache.list(&everything(), &query).await.unwrap().continue_token;
    let other = ListQuery { continue_token: token, ..list(select(THINGS, Some("y"), "", ""), At::Latest) };
    assert!(matches!(fixture.cache.list(&everything(), &other).await, Err(Error::BadContinue(_))));
    let bad = ListQuery { continue_token: Some("nonsense!".into()), ..list(all(THINGS), At::Latest) };
    assert!(matches!(fixture.cache.list(&everything(), &bad).await, Err(Error::BadContinue(_))));
}

#[tokio::test]
async fn a_long_list_is_one_snapshot_although_writes_go_on() {
    let mut fixture = Fixture::new().await;
    for chunk in 0..12 {
        let write = |number| {
            (THINGS, object("x", &format!("n{chunk:02}{number:03}"), "", &json!({"round": 0})), false)
        };
        fixture.writer.batch((0..1000).map(write).collect()).await;
    }
    let writing = tokio::spawn({
        let mut writer = DirectWriter::new(&fixture.database).await;
        writer.now = fixture.writer.now.clone();
        async move {
            for round in 1..40 {
                // One batch changes the first and the last object together: no list may show half of it.
                let write = |name: &str| (THINGS, object("x", name, "", &json!({"round": round})), false);
                writer.batch(vec![write("n00000"), write("n11999")]).await;
            }
        }
    });
    while !writing.is_finished() {
        let page = fixture.cache.list(&everything(), &list(all(THINGS), At::Latest)).await.unwrap();
        assert_eq!(page.items.len(), 12_000);
        let (first, last) = (&page.items[0], &page.items[11_999]);
        assert_eq!(body(first)["spec"], body(last)["spec"]);
    }
    writing.await.unwrap();
}

#[tokio::test]
async fn no_look_reads_a_whole_table_however_it_has_grown() {
    let mut fixture = Fixture::new().await;
    // The statement has its plan while there is next to nothing.
    for _ in 0..10 {
        fixture.cache.current_revision().await.unwrap();
    }
    for chunk in 0..4 {
        let write = |number| (THINGS, object("x", &format!("n{chunk}{number:03}"), "", &json!({})), false);
        fixture.writer.batch((0..1000).map(write).collect()).await;
    }
    fixture.cache.current_revision().await.unwrap();
    let mut sql = DirectWriter::new(&fixture.database).await.connection;
    let mut scans = async || {
        let query = "SELECT seq_scan, idx_scan FROM pg_stat_user_tables WHERE relname = 'events'";
        sqlx::query_as::<_, (i64, i64)>(query).fetch_one(&mut sql).await.unwrap()
    };
    let before = scans().await;
    let cache = fixture.cache.clone();
    // What a session has counted shows after a while, when it has something to do.
    let mut after = before;
    eventually("count of the looks", async || {
        cache.current_revision().await.unwrap();
        after = scans().await;
        after.1 > before.1 + 100
    })
    .await;
    // The first fill reads whole tables, and may be counted late.
    let scanned = after.0 - before.0;
    assert!(scanned < 10, "{scanned} sequential scans of events");
}

/// A caller's few namespaces are read where they lie, whatever else his tenant has.
#[tokio::test]
async fn of_many_objects_a_caller_gets_those_of_his_namespaces_in_order() {
    let mut fixture = Fixture::new().await;
    for number in 0..40 {
        let spec = json!({"tenant": "t1"});
        fixture.writer.put(object(&format!("p{number:02}"), "thing", "", &spec)).await;
        fixture.writer.put_as(PLACES, object("", &format!("p{number:02}"), "", &spec)).await;
    }
    let namespaces = Arc::new(BTreeSet::from(["p07".to_owned(), "p31".to_owned(), "p99".to_owned()]));
    let sight = TenantSight { tenant: Arc::from("t1"), sight: Sight::Namespaces(namespaces) };
    let access = access_with(Visibility::tenants([sight])).await;
    for kind in [THINGS, PLACES] {
        let first = ListQuery { limit: Some(1), ..list(all(kind), At::Latest) };
        let page = fixture.cache.list(&access, &first).await.unwrap();
        assert!(path_of(&page.items[0]).starts_with("p07"));
        let rest = ListQuery { continue_token: page.continue_token, ..list(all(kind), At::Latest) };
        let page = fixture.cache.list(&access, &rest).await.unwrap();
        assert!(page.items.len() == 1 && path_of(&page.items[0]).starts_with("p31"));
        assert_eq!(page.continue_token, None);
    }
}

/// `cargo test --release -p store --test read -- --ignored --nocapture a_caller_of_fifty_namespaces`
#[tokio::test]
#[ignore = "measures"]
async fn a_caller_of_fifty_namespaces_among_many_objects() {
    const NAMESPACES: usize = 10_000;
    let mut fixture = Fixture::new().await;
    for chunk in 0..100 {
        let write = |number: usize| {
            let namespace = format!("p{:05}", (chunk * 1000 + number) % NAMESPACES);
            let name = format!("n{chunk:02}{number:03}");
            (THINGS, object(&namespace, &name, "", &json!({"tenant": "t1"})), false)
        };
        fixture.writer.batch((0..1000).map(write).collect()).await;
    }
    let namespaces: BTreeSet<String> = (0..50).map(|number| format!("p{:05}", number * 199)).collect();
    let some = TenantSight { tenant: Arc::from("t1"), sight: Sight::Namespaces(Arc::new(namespaces)) };
    for (who, visibility) in
        [("50 namespaces", Visibility::tenants([some])), ("the whole tenant", Visibility::tenant("t1"))]
    {
        let access = access_with(visibility).await;
        let query = list(all(THINGS), At::Any);
        fixture.cache.list(&access, &query).await.unwrap();
        let start = std::time::Instant::now();
        let mut items = 0;
        for _round in 0..20 {
            items = fixture.cache.list(&access, &query).await.unwrap().items.len();
        }
        println!("{who}: {items} of 100000 objects in {:?}", start.elapsed() / 20);
    }
}
