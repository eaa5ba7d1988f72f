use crate::clusters::blocked_join;
use crate::terminal::assert_recorded;
use crate::world::{World, until};
use std::fmt::Write as _;

/// Every call here ends with a no. What stands there, a person reads it: the record is looked at like a page.
const REFUSED: &[(&str, &[&str])] = &[
    ("alice", &["create", "ns", "a", "-n", "web", "--cluster", "east", "--hard", "pods=99,requests.cpu=1"]),
    ("alice", &["create", "ns", "a", "-n", "web", "--cluster", "east", "--hard", "pods=1"]),
    ("alice", &["create", "ns", "a", "-n", "web", "--cluster", "nowhere", "--hard", "pods=1,requests.cpu=1"]),
    ("alice", &["create", "ns", "a", "-n", "absent", "--cluster", "east", "--hard", "pods=1"]),
    ("alice", &["create", "ns", "A_", "-n", "web", "--cluster", "east", "--hard", "pods=1,requests.cpu=1"]),
    (
        "alice",
        &["create", "ns", "front", "-n", "shop", "--cluster", "east", "--hard", "pods=1,requests.cpu=1"],
    ),
    ("alice", &["create", "project", "shop", "--hard", "east:pods=1"]),
    ("alice", &["create", "project", "new", "--parent", "shop", "--hard", "west:pods=1"]),
    ("alice", &["create", "project", "new", "--hard", "east:pods=90,requests.cpu=1"]),
    ("bob", &["create", "project", "new", "--hard", "east:pods=1,requests.cpu=1"]),
    ("bob", &["create", "ns", "a", "-n", "web", "--cluster", "east", "--hard", "pods=1,requests.cpu=1"]),
    ("bob", &["access", "add", "web", "--user", "bob", "--role", "admin"]),
    ("bob", &["move", "east-front", "-n", "web", "--to", "shop"]),
    ("alice", &["access", "remove", "web", "--user", "nobody"]),
    ("alice", &["move", "east-front", "-n", "web", "--to", "nowhere"]),
    ("alice", &["move", "east-front", "-n", "web", "--to", "web"]),
    ("alice", &["lock", "web", "--reason", "unpaid"]),
    ("alice", &["cordon", "east"]),
    ("alice", &["leave", "east", "--plan"]),
    ("alice", &["describe", "project", "absent"]),
    ("alice", &["kubeconfig", "east-front", "-n", "web"]),
    ("alice", &["tree", "absent"]),
    ("operator", &["lock", "absent", "--reason", "unpaid"]),
    ("operator", &["cordon", "absent"]),
    ("operator", &["leave", "absent", "--plan"]),
    ("operator", &["tree", "--as", "eve"]),
    ("nobody", &["access", "list", "web"]),
];
/// Once an operator has locked project web.
const LOCKED: &[(&str, &[&str])] =
    &[("alice", &["create", "ns", "a", "-n", "web", "--cluster", "east", "--hard", "pods=1,requests.cpu=1"])];
/// Once an operator has cordoned cluster east.
const CORDONED: &[(&str, &[&str])] = &[
    ("alice", &["create", "ns", "a", "-n", "shop", "--cluster", "east", "--hard", "pods=1,requests.cpu=1"]),
    ("alice", &["explain", "ns", "a", "-n", "shop", "--cluster", "east", "--set", "pods=1,requests.cpu=1"]),
    ("operator", &["leave", "east"]),
    ("operator", &["leave", "east", "--drain", "web"]),
];

#[tokio::test]
async fn every_refusal_says_what_to_do_next() {
    let world = World::with_projects().await;
    world.run("alice", &["access", "add", "web", "--user", "bob", "--role", "view"]).expect(0);
    let mut record = String::new();
    let mut take = |calls: &[(&str, &[&str])]| {
        for (who, args) in calls {
            let ended = world.run(who, args);
            assert_ne!(ended.code, 0, "{who} {args:?} {}", ended.out);
            let said = format!("{}{}", ended.err, ended.out);
            let says_more =
                ["next: ", "`kubectl ", "GOES BY", "--help"].iter().any(|word| said.contains(word));
            assert!(says_more, "{who} {args:?}: {said}");
            writeln!(record, "$ as {who}: kubectl business {}   # {}\n{said}", args.join(" "), ended.code)
                .unwrap();
        }
    };
    until("bob sees web", || world.run("bob", &["describe", "project", "web"]).code == 0);
    take(REFUSED);
    world.run("operator", &["lock", "web", "--reason", "unpaid"]).expect(0);
    take(LOCKED);
    world.run("operator", &["cordon", "east"]).expect(0);
    let (who, closed) = CORDONED[0];
    until("the cordon is known", || world.run(who, &[closed, &["--dry-run"]].concat()).code == 3);
    take(CORDONED);
    let blocked = blocked_join();
    let line = "join east --kubeconfig east-admin.kubeconfig --server https://east.example.org:6443";
    writeln!(record, "$ as operator: kubectl business {line}   # {}\n{}", blocked.code, blocked.err).unwrap();
    assert_recorded("refusals", &record);
}
