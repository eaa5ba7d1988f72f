use super::audits::{audit, hold_charge, orphans, released_world};
use crate::fixtures::world::{NAMESPACE, PROJECT, QUOTA};
use serde_json::{Value, json};

/// The owner of the released namespace has a quota of this spec in the place of ours, and nothing that it counts.
fn quota_of_the_owner(spec: &Value) -> Value {
    json!({
        "metadata": { "name": "web", "namespace": "web", "uid": "theirs" },
        "spec": spec,
        "status": { "hard": spec["hard"], "used": { "pods": "0" } },
    })
}

#[tokio::test]
async fn what_is_in_use_stays_held_although_a_quota_of_its_owner_counts_nothing() {
    let world = released_world().await;
    hold_charge(&world);
    let ours = world.stored(QUOTA)["metadata"]["annotations"].clone();
    for spec in [
        json!({ "hard": { "count/widgets.example.com": "1" } }),
        json!({ "hard": { "pods": "3" }, "scopes": ["Terminating"] }),
        json!({ "hard": {} }),
    ] {
        let mut quota = quota_of_the_owner(&spec);
        for annotations in [json!({}), ours.clone()] {
            quota["metadata"]["annotations"] = annotations;
            world.server.put(QUOTA, &quota);
            audit(&world).await;
            let told = &world.project()["status"]["orphans"][0]["state"];
            assert_eq!(told, "Released", "{quota}");
        }
    }
    // It is ours again, and counts everything.
    let mut quota = quota_of_the_owner(&json!({ "hard": { "pods": "3" } }));
    quota["metadata"]["annotations"] = ours;
    world.server.put(QUOTA, &quota);
    audit(&world).await;
    assert_eq!(world.project()["status"]["orphans"], orphans("w", "Unused"));
}

#[tokio::test]
async fn what_each_namespace_has_by_itself_keeps_none_in_use() {
    let world = released_world().await;
    hold_charge(&world);
    let hard = json!({
        "pods": "3", "configmaps": "5", "count/serviceaccounts": "5", "resourcequotas": "1", "secrets": "5",
    });
    let mut quota = quota_of_the_owner(&json!({ "hard": hard }));
    quota["metadata"]["annotations"] = world.stored(QUOTA)["metadata"]["annotations"].clone();
    for (configmaps, secrets, told) in [("1", "0", "Unused"), ("2", "0", "Released"), ("1", "1", "Released")]
    {
        quota["status"]["used"] = json!({
            "pods": "0", "configmaps": configmaps, "count/serviceaccounts": "1", "resourcequotas": "1",
            "secrets": secrets,
        });
        world.server.put(QUOTA, &quota);
        audit(&world).await;
        let state = &world.project()["status"]["orphans"][0]["state"];
        assert_eq!(state, told, "{configmaps} config maps, {secrets} secrets");
    }
}

#[tokio::test]
async fn a_quota_of_its_owner_in_the_place_of_ours_stays() {
    let world = released_world().await;
    let theirs = quota_of_the_owner(&json!({ "hard": { "pods": "9" } }));
    world.server.put(QUOTA, &theirs);
    world.server.edit(PROJECT, &json!({ "status": { "ledger": { "writtenOff": ["w"] } } }));
    audit(&world).await;
    assert_eq!(world.stored(QUOTA)["spec"], theirs["spec"]);
    let metadata = &world.stored(NAMESPACE)["metadata"];
    assert_eq!((&metadata["labels"], &metadata["annotations"]), (&json!({}), &json!({})));
    assert_eq!(world.project()["status"].get("orphans"), None::<&Value>);
}

#[tokio::test]
async fn a_cluster_that_keeps_our_quota_or_marks_is_compared_all_the_same() {
    for kept in [format!("DELETE {QUOTA}"), format!("PATCH {NAMESPACE}")] {
        for why in ["Forbidden", "InternalError"] {
            let world = released_world().await;
            world.enforces("0");
            world.server.edit(PROJECT, &json!({ "status": { "ledger": { "writtenOff": ["w"] } } }));
            world.server.refuse_because(&kept, why);
            let comparison = audit(&world).await;
            assert!(comparison.clusters.contains_key("c1"), "{kept}: {why}: {comparison:?}");
            assert_eq!(world.project()["status"]["orphans"], orphans("w", "Unused"), "{kept}: {why}");
        }
    }
}
