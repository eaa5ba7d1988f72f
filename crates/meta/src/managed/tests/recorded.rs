//! Replays writes that were recorded with upstream's own implementation (`tests/recorder`): the results must be the
//! same.

use super::*;

const RECORDED: &str = include_str!("../../../tests/recorder/histories.jsonl");
const NOW: &str = "2026-01-02T03:04:05Z";

/// Replays histories, one per line.
fn replay(histories: &str) -> usize {
    let schema = schema();
    let kind = GroupVersionKind::new("example.io", "v1", "Thing");
    let mut count = 0;
    for line in histories.lines() {
        let steps: Vec<Value> = serde_json::from_str(line).unwrap();
        let mut live: Option<Object> = None;
        for (index, step) in steps.iter().enumerate() {
            let subresource = step["subresource"].as_str().unwrap();
            let reset: &[&[&str]] = if subresource.is_empty() { &[&["status"]] } else { &[&["spec"]] };
            let fields = FieldManager { schema: &schema, kind: &kind, reset };
            let writer = Writer { manager: step["manager"].as_str().unwrap(), subresource, now: NOW };
            let body = &step["body"];
            let result = if step["op"] == "apply" {
                fields.apply(live.as_ref(), body, step["force"] == true, writer)
            } else {
                Ok(fields.update(live.as_ref(), Object::new(body.clone()).unwrap(), writer))
            };
            let so_far = || steps[..=index].iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            match result {
                Ok(mut object) => {
                    if object.uid().is_empty() {
                        object.set(&["metadata", "uid"], json!("0"));
                    }
                    let mut value = object.clone().into_value();
                    let managed = value["metadata"].as_object_mut().unwrap().remove("managedFields");
                    assert_eq!(step["error"], Value::Null, "we did not refuse\n{}", so_far());
                    assert_eq!(managed.unwrap_or_default(), step["managed"], "managedFields\n{}", so_far());
                    assert_eq!(value, step["result"], "object\n{}", so_far());
                    live = Some(object);
                }
                Err(error) => {
                    let want =
                        step["error"].as_str().unwrap_or_else(|| panic!("we refuse: {error}\n{}", so_far()));
                    if matches!(error, ApplyError::Conflict(_)) || want.starts_with("Apply failed") {
                        assert_eq!(error.to_string(), want, "{}", so_far());
                    }
                }
            }
        }
        count += 1;
    }
    count
}

#[test]
fn upstreams_answers_are_ours() {
    assert!(replay(RECORDED) >= 40);
}

#[test]
#[ignore = "reads a longer recording from the file that RECORDED_HISTORIES names"]
fn upstreams_answers_are_ours_in_the_long_form() {
    let path = std::env::var("RECORDED_HISTORIES").expect("RECORDED_HISTORIES");
    println!("{} histories", replay(&std::fs::read_to_string(path).unwrap()));
}

/// Applies strategic merge patches, one per line, and compares the results with upstream's.
fn replay_patches(recorded: &str) -> usize {
    let schema = schema();
    for line in recorded.lines() {
        let mut case: Value = serde_json::from_str(line).unwrap();
        let patch = case["patch"].to_string();
        let result = crate::patch::strategic_merge_patch(case["document"].clone(), patch.as_bytes(), &schema);
        match (result, case.get_mut("result")) {
            (Ok(mut patched), Some(want)) => {
                // Upstream keeps nulls in what it adds; decoding drops them.
                decode::prune_and_check(want, &schema).unwrap();
                decode::prune_and_check(&mut patched.document, &schema).unwrap();
                assert_eq!(patched.document, *want, "{line}");
            }
            (Err(_), None) => {}
            (other, _) => panic!("{other:?}\n{line}"),
        }
    }
    recorded.lines().count()
}

#[test]
fn upstreams_patches_are_ours() {
    assert!(replay_patches(include_str!("../../../tests/recorder/patches.jsonl")) >= 100);
}

#[test]
#[ignore = "reads a longer recording from the file that RECORDED_PATCHES names"]
fn upstreams_patches_are_ours_in_the_long_form() {
    let path = std::env::var("RECORDED_PATCHES").expect("RECORDED_PATCHES");
    println!("{} patches", replay_patches(&std::fs::read_to_string(path).unwrap()));
}
