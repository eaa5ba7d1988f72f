use anyhow::{Context, Result, ensure};
use instance::identity::{self, PEOPLE};
use instance::job::{apply, project, until_active, until_gone};
use instance::kubectl::Kubectl;
use instance::layout;
use instance::{HOST_CLUSTER, Instance};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// Everybody logs in and is the same person both ways; an administrator works through both doors; a session outlives its
/// token.
pub(super) fn login(instance: &Instance) -> Result<()> {
    for person in PEOPLE {
        let kubectl = instance.kubectl.with_kubeconfig(&identity::login(&instance.layout, person.name)?);
        let through = kubectl.json(&["auth", "whoami"])?;
        let directly = kubectl.run(&["get", "--raw", "/whoami", "--context=direct"])?;
        let directly: Value = serde_json::from_str(&directly)?;
        let of = |review: &Value| review.pointer("/status/userInfo").cloned();
        ensure!(of(&through) == of(&directly), "{}: {through} and {directly}", person.name);
        let user = of(&directly).context("nobody")?;
        let tenant = user.pointer("/extra/business.tkestack.io~1tenantid/0");
        ensure!(user.get("username") == Some(&json!(person.name)), "{} is {user}", person.name);
        ensure!(tenant == Some(&json!(person.tenant)), "{} is of {tenant:?}", person.name);
    }
    administrator(instance)?;
    refreshed(instance)
}

fn administrator(instance: &Instance) -> Result<()> {
    let of = |name: &str| -> Result<Kubectl> {
        Ok(instance.kubectl.with_kubeconfig(&identity::login(&instance.layout, name)?))
    };
    let (alice, bob, carol) = (of("alice")?, of("bob")?, of("carol")?);
    apply(&alice, &project("of-alice", None, &[(HOST_CLUSTER, &[("cpu", "1")])]))?;
    until_active(&alice, "of-alice")?;
    let seen = |kubectl: &Kubectl, context: &str| {
        kubectl.run(&["get", "projects", "-o", "name", &format!("--context={context}")])
    };
    for context in ["kubernetes", "direct"] {
        ensure!(seen(&alice, context)?.contains("/of-alice"), "alice does not see her project: {context}");
        ensure!(!seen(&bob, context)?.contains("/of-alice"), "a stranger of the tenant sees it: {context}");
        ensure!(!seen(&carol, context)?.contains("/of-alice"), "another tenant sees it: {context}");
        let flag = format!("--context={context}");
        let refusal = bob.refused(&["delete", "project", "of-alice", &flag], None)?;
        ensure!(refusal.contains("orbidden") || refusal.contains("NotFound"), "{context}: {refusal}");
    }
    alice.run(&["delete", "project", "of-alice", "--context=direct", "--wait=false"])?;
    until_gone(&alice, &["project", "of-alice"])
}

/// Without the right password only a session that is still open gives a token.
fn refreshed(instance: &Instance) -> Result<()> {
    let dir = instance.layout.path(identity::NAME);
    let session = dir.join("sessions/alice.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(dir.join("config.json"))?)?;
    let users = config.get_mut("users").and_then(Value::as_array_mut);
    users.into_iter().flatten().filter_map(Value::as_object_mut).for_each(|user| {
        user.insert("password".to_owned(), json!("wrong"));
    });
    let wrong = dir.join("wrong.json");
    std::fs::write(&wrong, config.to_string())?;
    let change = |key: &str, value: &str| -> Result<()> {
        let mut kept: Value = serde_json::from_slice(&std::fs::read(&session)?)?;
        kept.as_object_mut().context("no session")?.insert(key.to_owned(), json!(value));
        Ok(std::fs::write(&session, kept.to_string())?)
    };
    change("until", "2000-01-01T00:00:00Z")?;
    ensure!(token(&wrong, "alice")?, "the session was not refreshed");
    ensure!(token(&wrong, "alice")?, "the fresh token is not used");
    change("until", "2000-01-01T00:00:00Z")?;
    change("refresh", "forged")?;
    ensure!(!token(&wrong, "alice")?, "a forged session was refreshed");
    ensure!(token(&dir.join("config.json"), "alice")?, "no new login");
    Ok(std::fs::remove_file(wrong)?)
}

fn token(config: &Path, person: &str) -> Result<bool> {
    let program = layout::bin().join(identity::NAME);
    let output = Command::new(program).arg("token").arg(config).arg(person).output()?;
    Ok(output.status.success())
}
