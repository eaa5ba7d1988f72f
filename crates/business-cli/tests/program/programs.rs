use crate::world::{PROGRAM, World};
use std::process::{Command, Stdio};

#[tokio::test]
async fn exit_codes_tell_scripts_what_is_wrong() {
    let world = World::new().await;
    assert_eq!(world.run("alice", &["tree"]).code, 0);
    assert_eq!(world.run("alice", &["tree", "--no-such-flag"]).code, 2);
    let nowhere = world.run("absent", &["tree"]);
    assert!(nowhere.err.contains("the kubeconfig cannot be used"), "{}", nowhere.err);
    assert_eq!(nowhere.code, 1);
    let unknown = world.run("nobody", &["access", "list", "shop"]);
    assert_eq!(unknown.code, 1, "no login");
    assert!(unknown.err.contains("next: log in"), "{}", unknown.err);
    let unknown = world.run("nobody", &["tree"]);
    assert!(
        unknown.code == 1 && unknown.err.contains("next: log in"),
        "no tree is empty for nobody: {}",
        unknown.err
    );
    let slow = world.run("alice", &["tree", "--request-timeout", "1ms"]);
    assert!(slow.code == 1 && slow.err.contains("did not answer within 1ms"), "{}", slow.err);
}

#[tokio::test]
async fn somebody_acts_as_somebody_else_as_with_kubectl() {
    let world = World::with_projects().await;
    let told = world.run("operator", &["tree", "-o", "json", "--as", "eve"]);
    assert!(told.err.contains("User \"eve\" cannot list resource \"projects\""), "{}", told.err);
    assert_eq!((told.code, told.out.as_str()), (3, ""), "eve has no role");
    for what in ["namespaces", "projects"] {
        let told = world.run("operator", &["top", what, "--as", "eve"]);
        assert!(told.err.contains("next: you have no role here"), "{}", told.err);
        assert_eq!((told.code, told.out.as_str()), (3, ""), "{what}");
    }
    assert_eq!(world.run("operator", &["tree", "--as-group", "x"]).code, 2);
    let refused = world.run("alice", &["tree", "shop", "--as", "eve"]);
    assert_ne!(refused.code, 0, "alice is nobody else");
}

#[test]
fn whoever_has_seen_enough_of_the_output_is_told_nothing() {
    for args in [&["completion", "bash"][..], &["--help"], &["tree", "--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(PROGRAM);
        command.args(args).stdout(writer).stderr(Stdio::piped());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn an_import_is_told_where_it_is_done() {
    let output =
        Command::new(PROGRAM).args(["import", "--apply", "--etcd-servers", "https://etcd"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("`business-api import --apply --etcd-servers https://etcd`"), "{said}");
    let args = ["import", "--database-url", "postgres://u:secret@h/d", "--apply"];
    let output = Command::new(PROGRAM).args(args).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("`business-api import --apply`") && said.contains("in DATABASE_URL"), "{said}");
    assert!(!said.contains("secret"), "{said}");
}
