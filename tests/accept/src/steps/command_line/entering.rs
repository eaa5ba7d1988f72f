use super::{PROGRAM, contains};
use crate::steps::background::Background;
use anyhow::{Context, Result, ensure};
use instance::kubectl::Kubectl;
use instance::pki::Pki;
use instance::token::AUDIENCE;
use instance::{Instance, demo, identity, layout};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use terminal::say;

const PERSON: &str = "alice";
/// What the program keeps of a login, below somebody's home.
const SESSIONS: &str = ".kube/cache/business";

/// Somebody logs in at the provider's page, works with kubectl and with the program, and gets another token by himself for as long
/// as the provider keeps the session.
pub(in crate::steps) fn enters(instance: &Instance) -> Result<()> {
    if instance.provider.is_none() {
        say::skipped("the identity provider's program is not there: nobody can log in");
        return Ok(());
    }
    demo::make(instance)?;
    let home = instance.layout.path("home/entering");
    std::fs::create_dir_all(&home)?;
    let file = home.join("kubeconfig");
    let program = Kubectl::new(&layout::program_path(PROGRAM)?, &file, &home);
    let kubectl = Kubectl::new(&layout::bin().join("kubectl"), &file, &home);
    logs_in(instance, &program)?;
    is_alice(&kubectl)?;
    contains(&program.run(&["tree"])?, &["tenant acme", "shop"])?;

    let session = session(&home.join(SESSIONS))?;
    let first = change(&session, "ends", &json!(0))?;
    is_alice(&kubectl)?;
    let second: Value = serde_json::from_slice(&std::fs::read(&session)?)?;
    ensure!(first.get("idToken") != second.get("idToken"), "the session was not refreshed");
    change(&session, "ends", &json!(0))?;
    change(&session, "refreshToken", &json!("forged"))?;
    contains(&kubectl.refused(&["auth", "whoami"], None)?, &["kubectl business login"])?;
    logs_in(instance, &program)?;
    is_alice(&kubectl)?;
    std::fs::remove_dir_all(home)?;
    demo::clear(instance)
}

/// The program prints the address of a page; what a person does there, the provider's own client does.
fn logs_in(instance: &Instance, program: &Kubectl) -> Result<()> {
    let door = identity::login_servers(&instance.layout)?.into_iter().next().context("no door")?;
    let authority = Pki::open(&instance.layout.path("pki"))?.cert(identity::AUTHORITY);
    let flags = [
        format!("--issuer={}", instance.issuer.url()),
        format!("--issuer-ca={}", authority.display()),
        format!("--client-id={AUDIENCE}"),
        format!("--server={}", door.server),
        format!("--certificate-authority={}", door.authority.display()),
    ];
    let mut args = vec!["login", "--print-url", "--scope", "profile"];
    args.extend(flags.iter().map(String::as_str));
    let mut command = program.command(&args);
    let mut running = Background::spawn(command.stdout(Stdio::null()).stderr(Stdio::piped()))?;
    let mut told = BufReader::new(running.child()?.stderr.take().context("nothing is told")?)
        .lines()
        .map_while(Result::ok);
    let address = told.find(|line| line.trim_start().starts_with("https://")).context("no address")?;
    identity::enter(&instance.layout, PERSON, address.trim())?;
    let rest: Vec<String> = told.collect();
    let status = running.output()?.status;
    ensure!(status.success(), "login ended with {status}: {}", rest.join("\n"));
    contains(&rest.join("\n"), &["logged in as alice", "the context business"])
}

fn is_alice(kubectl: &Kubectl) -> Result<()> {
    let who = kubectl.json(&["auth", "whoami"])?;
    ensure!(who.pointer("/status/userInfo/username") == Some(&json!(PERSON)), "{who}");
    Ok(())
}

/// There is one.
fn session(directory: &Path) -> Result<PathBuf> {
    let files = std::fs::read_dir(directory)?.map(|entry| Ok(entry?.path()));
    let files: Vec<PathBuf> = files.collect::<Result<_>>()?;
    let mut sessions = files.into_iter().filter(|path| path.extension().is_some_and(|end| end == "json"));
    sessions.next().context("no session is kept")
}

/// What was kept before.
fn change(session: &Path, key: &str, value: &Value) -> Result<Value> {
    let kept: Value = serde_json::from_slice(&std::fs::read(session)?)?;
    let mut changed = kept.clone();
    changed.as_object_mut().context("no session")?.insert(key.to_owned(), value.clone());
    std::fs::write(session, changed.to_string())?;
    Ok(kept)
}
