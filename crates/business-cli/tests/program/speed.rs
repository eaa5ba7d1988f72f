use crate::world::World;
use futures_util::stream::{StreamExt as _, iter};
use serde_json::json;
use std::time::{Duration, Instant};

const PROJECTS: usize = 10_000;
const WIDTH: usize = 100;
const ROUNDS: usize = 5;
const LIMIT: Duration = Duration::from_millis(500);

/// A tree of ten thousand projects, from the call of the program to its end. Worth something in a release build alone.
#[tokio::test]
#[ignore = "a measurement: cargo xtask bench tree"]
async fn a_tree_of_ten_thousand_projects_is_there_in_half_a_second() {
    let world = World::new().await;
    let project = |name: String, parent: String| {
        let parent = (!parent.is_empty()).then_some(parent);
        json!({
            "apiVersion": "business.tkestack.io/v1", "kind": "Project", "metadata": {"name": name},
            "spec": {"tenantID": "acme", "parentProjectName": parent, "displayName": format!("Project {name}"),
                     "clusters": {"east": {"hard": {"pods": "0", "requests.cpu": "0"}}}},
        })
    };
    world.post("/projects", &project("root".into(), String::new())).await.unwrap();
    let group = |number: usize| format!("group-{number:03}");
    let make = async |objects: Vec<serde_json::Value>| {
        let made = iter(objects).map(|body| {
            let world = &world;
            async move { world.post("/projects", &body).await }
        });
        let outcomes: Vec<_> = made.buffer_unordered(32).collect().await;
        assert!(outcomes.iter().all(Result::is_ok), "{:?}", outcomes.iter().find(|outcome| outcome.is_err()));
    };
    make((0..WIDTH).map(|number| project(group(number), "root".into())).collect()).await;
    let below = PROJECTS - WIDTH - 1;
    make((0..below).map(|number| project(format!("p-{number:05}"), group(number % WIDTH))).collect()).await;
    let mut times = Vec::new();
    for _round in 0..ROUNDS {
        let begun = Instant::now();
        let text = world.run("operator", &["tree"]).expect(0);
        times.push(begun.elapsed());
        assert!(text.lines().count() > 2 * PROJECTS, "{}", text.lines().count());
    }
    times.sort();
    println!("a tree of {PROJECTS} projects: {times:?}");
    assert!(times[ROUNDS / 2] <= LIMIT, "{times:?}");
}
