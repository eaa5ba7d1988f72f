use crate::kit::{Kit, Object, access_to_tenants, tenant_access};
use futures_util::future::join_all;
use store::model::{Growth, Write};
use store::{Access, Config, Error, Footprint, Store};

async fn kit(tenant_max: Footprint) -> Kit {
    let database = store::testing::database().await.unwrap();
    let config = Config { tenant_max, ..Config::new(&database.url) };
    let kit = Kit::with(config, database).await;
    kit.store.until_synced().await;
    kit
}

/// As [`Kit::create`], by another caller.
async fn create(kit: &Kit, access: &Access, mut object: Object) -> Result<Object, Error> {
    object.revision = kit.store.write(access, object.create()).await?;
    Ok(object)
}

fn size(object: &Object) -> u64 {
    u64::try_from(object.state().body.len()).unwrap()
}

fn full<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result {
        Err(error @ Error::Full { .. }) => error.to_string(),
        other => panic!("not full: {other:?}"),
    }
}

#[tokio::test]
async fn a_tenant_has_no_more_objects_than_it_may_whatever_they_cost() {
    let kit = kit(Footprint { objects: 2, ..Footprint::UNLIMITED }).await;
    let member = tenant_access("t").await;
    let first = create(&kit, &member, Object::note("a")).await.unwrap();
    create(&kit, &member, Object::note("b")).await.unwrap();
    let told = full(create(&kit, &member, Object::note("c")).await);
    assert_eq!(told, "tenant \"t\" may keep 2 objects here, and 1 more would be too many");
    full(kit.store.check(&member, Object::note("c").create()).await);
    // Other tenants have room of their own, and operators are not limited.
    let other = Object { tenant: "u".to_owned(), ..Object::note("d") };
    create(&kit, &tenant_access("u").await, other).await.unwrap();
    create(&kit, &kit.access, Object::note("e")).await.unwrap();
    // What is there can be changed and go.
    let mut same = first.clone();
    same.locked = true;
    same.revision = kit.store.write(&member, first.update(&same, true)).await.unwrap();
    kit.store.write(&member, same.delete()).await.unwrap();
    full(create(&kit, &member, Object::note("f")).await);
}

#[tokio::test]
async fn a_tenant_has_no_more_bytes_than_it_may_and_can_always_delete() {
    let note = Object::note("a");
    let kit = kit(Footprint { bytes: size(&note) + 10, ..Footprint::UNLIMITED }).await;
    let member = tenant_access("t").await;
    let note = create(&kit, &member, note).await.unwrap();
    let mut large = note.clone();
    large.claim = Some(("x".repeat(40), String::new()));
    full(kit.store.write(&member, note.update(&large, true)).await);
    // A status may grow, as its writer cannot help it; then nothing else may, until there is room again.
    large.revision = kit.store.write(&member, note.update(&large, false)).await.unwrap();
    full(create(&kit, &member, Object::note("b")).await);
    let mut small = large.clone();
    small.claim = None;
    small.revision = kit.store.write(&member, large.update(&small, true)).await.unwrap();
    kit.store.write(&member, small.delete()).await.unwrap();
    create(&kit, &member, Object::note("b")).await.unwrap();
}

#[tokio::test]
async fn writes_under_way_count() {
    let kit = kit(Footprint { objects: 5, ..Footprint::UNLIMITED }).await;
    let member = tenant_access("t").await;
    let notes: Vec<Object> = (0..20).map(|n| Object::note(&format!("n{n}"))).collect();
    let made = join_all(notes.iter().map(|note| kit.store.write(&member, note.create()))).await;
    assert_eq!(made.iter().filter(|result| result.is_ok()).count(), 5, "{made:?}");
}

#[tokio::test]
async fn what_was_there_before_the_start_counts() {
    let one = kit(Footprint::UNLIMITED).await;
    let member = tenant_access("t").await;
    create(&one, &member, Object::note("a")).await.unwrap();
    let config = Config {
        tenant_max: Footprint { objects: 1, ..Footprint::UNLIMITED },
        ..Config::new(&one.database.url)
    };
    let tasks = runtime::Tasks::new();
    let other = Store::open(config, crate::kit::kinds(), &tasks, &runtime::Metrics::new()).unwrap();
    other.until_synced().await;
    full(other.write(&member, Object::note("b").create()).await);
}

#[tokio::test]
async fn what_is_answered_counts_before_the_cache_has_it_and_what_is_deleted_no_more() {
    let kit = kit(Footprint { objects: 3, ..Footprint::UNLIMITED }).await;
    let member = tenant_access("t").await;
    for round in 0..100 {
        let name = |letter| format!("{letter}{round}");
        let first = create(&kit, &member, Object::note(&name('a'))).await.unwrap();
        let second = create(&kit, &member, Object::note(&name('b'))).await.unwrap();
        let last = create(&kit, &member, Object::note(&name('c'))).await.unwrap();
        full(create(&kit, &member, Object::note(&name('d'))).await);
        kit.store.write(&member, first.delete()).await.unwrap();
        let more = create(&kit, &member, Object::note(&name('e'))).await.unwrap();
        for object in [second, last, more] {
            kit.store.write(&member, object.delete()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_is_being_deleted_grows_by_a_little_at_most() {
    let note = Object::note("a");
    let kit = kit(Footprint { bytes: size(&note) + 100, ..Footprint::UNLIMITED }).await;
    let member = tenant_access("t").await;
    let note = create(&kit, &member, note).await.unwrap();
    let grown = |by: usize| Object { claim: Some(("x".repeat(by), String::new())), ..note.clone() };
    let write = |to: &Object| Write { growth: Growth::Deleting, ..note.update(to, false) };
    full(kit.store.write(&member, write(&grown(1000))).await);
    kit.store.check(&member, write(&grown(60))).await.unwrap();
    let mut marked = grown(1000);
    marked.revision = kit.store.write(&member, note.update(&marked, false)).await.unwrap();
    kit.store.write(&member, marked.delete()).await.unwrap();
}

#[tokio::test]
async fn what_comes_from_another_tenant_takes_room() {
    let kit = kit(Footprint { objects: 1, ..Footprint::UNLIMITED }).await;
    let both = access_to_tenants(&["t", "u"]).await;
    create(&kit, &both, Object { tenant: "u".to_owned(), ..Object::note("a") }).await.unwrap();
    let note = create(&kit, &both, Object::note("b")).await.unwrap();
    let given = Object { tenant: "u".to_owned(), ..note.clone() };
    full(kit.store.write(&both, note.update(&given, true)).await);
}
