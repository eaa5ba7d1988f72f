use crate::plugin::kubeconfig_with_plugin;
use crate::world::{PROGRAM, World};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Calls the script's function as bash does when somebody presses Tab behind a line.
const BASH: &str = r#"
PATH="$1:$PATH"
source <(kubectl-business completion bash)
COMP_LINE="$2" COMP_POINT=${#2}
_kubectl_business kubectl-business "$3"
printf '%s\n' "${COMPREPLY[@]}"
"#;
const FISH: &str = r"
set -x PATH $argv[1] $PATH
kubectl-business completion fish | source
complete -C $argv[2]
";
/// With what zsh's completion has around the script.
const ZSH: &str = r#"
PATH="$1:$PATH"
compdef() { compdef_told="$2" }
_describe() { print -l "${(@P)2}" }
source <(kubectl-business completion zsh)
words=(kubectl-business ${(s: :)2} "$3")
CURRENT=${#words}
[[ "$compdef_told" == kubectl-business ]] && _kubectl-business
"#;

/// What a shell proposes, a word a line; none where the shell is not there.
fn proposed(shell: &str, args: &[&str]) -> Option<Vec<String>> {
    let output = Command::new(shell).args(args).env("LC_ALL", "C.UTF-8").output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(complaints.is_empty(), "{shell}: {complaints}");
    Some(said.lines().map(str::to_owned).collect())
}

fn directory() -> &'static str {
    Path::new(PROGRAM).parent().unwrap().to_str().unwrap()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let ask = |line: &str, current: &str| proposed("bash", &["-c", BASH, "bash", directory(), line, current]);
    let Some(commands) = ask("kubectl-business tr", "tr") else { return };
    assert_eq!(commands, ["tree"]);
    assert_eq!(ask("kubectl-business create ", "").unwrap(), ["project", "namespace", "help"]);
    assert_eq!(ask("kubectl-business tree --out", "--out").unwrap(), ["--output"]);
    // bash ends a word at `=`, and what is proposed takes the place of what is behind.
    assert_eq!(ask("kubectl-business tree --output=js", "js").unwrap(), ["json"]);
    assert_eq!(ask("kubectl-business tree --output=", "=").unwrap().len(), 4);
}

#[test]
fn fish_completes_commands_flags_and_values() {
    let ask = |line: &str| proposed("fish", &["--no-config", "-c", FISH, directory(), line]);
    let Some(commands) = ask("kubectl-business tr") else { return };
    assert!(
        matches!(commands.as_slice(), [tree] if tree.starts_with("tree\tShow who holds what")),
        "{commands:?}"
    );
    assert_eq!(ask("kubectl-business tree -o js").unwrap(), ["json"]);
}

#[test]
fn zsh_completes_commands_flags_and_values() {
    let ask =
        |before: &str, typed: &str| proposed("zsh", &["-f", "-c", ZSH, "zsh", directory(), before, typed]);
    let Some(commands) = ask("", "tr") else { return };
    assert!(
        matches!(commands.as_slice(), [tree] if tree.starts_with("tree:Show who holds what")),
        "{commands:?}"
    );
    assert_eq!(ask("tree -o", "js").unwrap(), ["json"]);
}

#[tokio::test]
async fn names_are_those_that_the_caller_sees() {
    let world = World::with_projects().await;
    let ask = |who: &str, words: &[&str]| world.run(who, &[&["__complete", "--"], words].concat()).expect(0);
    assert_eq!(ask("alice", &["--context", "alice", "tree", "sh"]), "shop\n:4\n");
    assert_eq!(ask("alice", &["--context", "alice", "kubeconfig", "-n", "web", ""]), "east-front\n:4\n");
    assert_eq!(ask("alice", &["--context", "alice", "tree", "--tenant=a"]), "--tenant=acme\n:4\n");
    let cluster = ["create", "namespace", "a", "-n", "web", "--cluster", ""];
    for who in ["alice", "operator"] {
        let told = ask(who, &[&["--context", who], &cluster[..]].concat());
        assert_eq!(told, "east\n:4\n", "{who}: a cluster is offered to whoever rules none");
    }
    assert_eq!(ask("alice", &["--context", "alice", "explain", "-f", ""]), ":0\n");
    assert_eq!(
        ask("nobody", &["--context", "nobody", "tree", ""]),
        ":4\n",
        "who may not ask is told nothing"
    );
}

#[test]
fn a_credential_plugin_that_does_not_end_keeps_nobody_from_typing() {
    let kubeconfig = kubeconfig_with_plugin("sleep 60", "Never");
    let begun = Instant::now();
    let args = ["__complete", "--", "tree", ""];
    let output = Command::new(PROGRAM).args(args).env("KUBECONFIG", &kubeconfig).output().unwrap();
    std::fs::remove_file(kubeconfig).unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), ":4\n");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn kubectl_finds_a_program_that_asks_the_same() {
    let output = Command::new(PROGRAM).args(["completion", "kubectl"]).output().unwrap();
    let script = String::from_utf8(output.stdout).unwrap();
    assert!(
        script.starts_with("#!/bin/sh\n") && script.contains("kubectl-business __complete -- \"$@\""),
        "{script}"
    );
}
