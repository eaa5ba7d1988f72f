use super::{contains, output};
use anyhow::{Context, Result, ensure};
use instance::demo;
use instance::identity::{self, PEOPLE};
use instance::job::{Hard, namespace_of, project_of, until_active, until_available, until_gone};
use instance::kubectl::Kubectl;
use instance::layout;
use instance::wait::{self, Progress};
use instance::{HOST_CLUSTER, Instance};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use terminal::say;

const SOON: Duration = Duration::from_mins(2);

/// Everybody logs in and is the same person both ways, and each does what his role lets him, through both doors; a session
/// outlives its token.
pub(super) fn login(instance: &Instance) -> Result<()> {
    if instance.provider.is_none() {
        say::skipped("the identity provider's program is not there: nobody can log in");
        return Ok(());
    }
    for person in PEOPLE {
        let kubectl = of(instance, person.name)?;
        let through = kubectl.json(&["auth", "whoami"])?;
        let directly = kubectl.run(&["get", "--raw", "/whoami", "--context=direct"])?;
        let directly: Value = serde_json::from_str(&directly)?;
        let of = |review: &Value| review.pointer("/status/userInfo").cloned();
        ensure!(of(&through) == of(&directly), "{}: {through} and {directly}", person.name);
        let user = of(&directly).context("nobody")?;
        ensure!(user.get("username") == Some(&json!(person.name)), "{} is {user}", person.name);
        for group in person.groups {
            let groups = user.get("groups").and_then(Value::as_array).context("no groups")?;
            ensure!(groups.contains(&json!(group)), "{} is in {groups:?}", person.name);
        }
    }
    roles(instance)?;
    refreshed(instance)
}

fn of(instance: &Instance, name: &str) -> Result<Kubectl> {
    Ok(instance.kubectl.with_kubeconfig(&identity::login(&instance.layout, name)?))
}

/// Alice rules a tenant, Bob edits in a project by his group, Dave looks at it, for Carol, who rules another tenant, it does not
/// exist; Oscar runs the platform.
fn roles(instance: &Instance) -> Result<()> {
    demo::make(instance)?;
    let [alice, bob, carol, dave, oscar] = PEOPLE.map(|person| of(instance, person.name));
    let (alice, bob, carol, dave, oscar) = (alice?, bob?, carol?, dave?, oscar?);
    for context in ["kubernetes", "direct"] {
        let context = format!("--context={context}");
        let seen = |kubectl: &Kubectl| kubectl.run(&["get", "projects", "-o", "name", &context]);
        for kubectl in [&alice, &bob, &dave] {
            // A replica learns of a role a moment after the write.
            wait::until(&format!("with {context} the project is seen"), SOON, || {
                let shown = seen(kubectl)?;
                Ok(if shown.contains("/shop") { Progress::Done(()) } else { Progress::Pending(shown) })
            })?;
        }
        let shown = seen(&carol)?;
        ensure!(!shown.contains("/shop"), "{context}: {shown}");
        let body = namespace_of(
            demo::TENANT,
            demo::PROJECT,
            HOST_CLUSTER,
            "of-bob",
            &[("requests.cpu", "1"), ("requests.memory", "1Gi"), ("pods", "1")],
        );
        let create = ["create", "-f", "-", &context];
        let refusal = dave.refused(&create, Some(&body.to_string()))?;
        contains(&refusal, &["this needs the role edit in project \"shop\""])?;
        let refusal = carol.refused(&create, Some(&body.to_string()))?;
        contains(&refusal, &["projects.business.tkestack.io \"shop\" not found"])?;
        bob.feed(&create, &body.to_string())?;
        let name = format!("{HOST_CLUSTER}-of-bob");
        until_available(&bob, demo::PROJECT, &name)?;
        let refusal = bob.refused(&["delete", "project", demo::PROJECT, &context], None)?;
        contains(&refusal, &["orbidden"])?;
        bob.run(&["delete", "bns", &name, "-n", demo::PROJECT, "--wait=false", &context])?;
        until_gone(&alice, &["bns", &name, "-n", demo::PROJECT])?;
    }
    ceiling(&alice)?;
    operates(&oscar)?;
    demo::clear(instance)
}

/// Whom RBAC makes an operator is one by both doors, for kube-apiserver believes his issuer, too.
fn operates(oscar: &Kubectl) -> Result<()> {
    for context in ["--context=kubernetes", "--context=direct"] {
        let get = ["get", "memberclusters,tenants,projects", "-o", "name", context];
        contains(&oscar.run(&get)?, &["membercluster.", "tenant.", "/shop"])?;
    }
    oscar.run(&["auth", "can-i", "operate", "projects.business.tkestack.io"])?;
    let lock = json!({"reason": "a test"}).to_string();
    for act in ["lock", "unlock"] {
        let path = format!("/apis/business.tkestack.io/v1/projects/{}/{act}", demo::PROJECT);
        oscar.feed(&["create", "--raw", &path, "-f", "-", "--context=direct"], &lock)?;
    }
    Ok(())
}

/// Above its tenant's ceiling a root project is refused, and the refusal says which tenant and what would fit.
fn ceiling(alice: &Kubectl) -> Result<()> {
    let of = |cpu: &str| {
        let hard: Hard<'_> = &[("requests.cpu", cpu), ("requests.memory", "1Gi"), ("pods", "1")];
        project_of(demo::TENANT, "of-alice", None, &[(HOST_CLUSTER, hard)]).to_string()
    };
    let refusal = alice.refused(&["create", "-f", "-"], Some(&of("11")))?;
    contains(&refusal, &["tenant \"acme\"", "the largest that fits is 10"])?;
    alice.feed(&["create", "-f", "-"], &of("10"))?;
    until_active(alice, "of-alice")?;
    alice.run(&["delete", "project", "of-alice", "--context=direct", "--wait=false"])?;
    until_gone(alice, &["project", "of-alice"])
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
    let ended = output(Command::new(program).arg("token").arg(config).arg(person))?;
    Ok(ended.status.success())
}
