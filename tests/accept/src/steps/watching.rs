use super::background::Background;
use anyhow::{Context, Result};
use instance::job::{Hard, apply, project, until_active, until_gone};
use instance::kubectl::Kubectl;
use instance::wait::{self, Progress};
use instance::{HOST_CLUSTER, Instance};
use std::io::Read as _;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const SOON: Duration = Duration::from_mins(2);
const HARD: Hard<'_> = &[("cpu", "1")];
const COLUMNS: &str = "custom-columns=NAME:.metadata.name,SHOWN:.spec.displayName";
const TEMPLATE: &str = "go-template={{.metadata.name}}={{.spec.displayName}}{{\"\\n\"}}";
const JSONPATH: &str = "jsonpath={.metadata.name}/{.spec.displayName}{\"\\n\"}";

/// One form of `kubectl get -w`: its arguments, what the first list prints, what a change prints.
type WatchCase = (&'static [&'static str], &'static [&'static str], &'static [&'static str]);

const WATCH_CASES: &[WatchCase] = &[
    (&[], &["NAME", "AGE", "watched"], &["watched"]),
    (&["--no-headers"], &["watched"], &["watched"]),
    (&["-o", "wide"], &["NAME", "watched", "default"], &["watched"]),
    (&["--show-labels", "-L", "tier"], &["TIER", "LABELS"], &["gold", "tier=gold"]),
    (&["-o", "name"], &["project.business.tkestack.io/watched"], &["project.business.tkestack.io/watched"]),
    (
        &["-o", "json"],
        &["\"kind\": \"Project\"", "\"displayName\": \"watched\""],
        &["\"displayName\": \"changed\""],
    ),
    (&["-o", "yaml"], &["kind: Project", "displayName: watched"], &["---", "displayName: changed"]),
    (&["-o", "yaml", "--show-managed-fields"], &["managedFields:"], &["f:displayName: {}"]),
    (&["-o", JSONPATH], &["watched/watched"], &["watched/changed"]),
    (&["-o", COLUMNS], &["NAME", "SHOWN", "watched"], &["changed"]),
    (&["-o", TEMPLATE], &["watched=watched"], &["watched=changed"]),
    (&["--output-watch-events"], &["EVENT", "ADDED"], &["MODIFIED", "DELETED"]),
    (
        &["--output-watch-events", "-o", "json"],
        &[r#""type":"ADDED""#],
        &[r#""type":"MODIFIED""#, r#""type":"DELETED""#],
    ),
    (&["--output-watch-events", "-l", "tier!=gold"], &["ADDED"], &["DELETED"]),
    (
        &["--output-watch-events", "--field-selector", "metadata.name=watched"],
        &["ADDED"],
        &["MODIFIED", "DELETED"],
    ),
];

/// A running `kubectl get -w` and what it has printed.
struct WatchProcess {
    _process: Background,
    printed: Arc<Mutex<String>>,
}

impl WatchProcess {
    fn start(kubectl: &Kubectl, args: &[&str]) -> Result<Self> {
        let args: Vec<&str> = ["get", "projects", "-w"].iter().chain(args).copied().collect();
        let mut command = kubectl.command(&args);
        let mut process = Background::spawn(command.stdout(Stdio::piped()).stderr(Stdio::null()))?;
        let mut out = process.child()?.stdout.take().context("no output")?;
        let printed = Arc::new(Mutex::new(String::new()));
        let collected = Arc::clone(&printed);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = out.read(&mut buffer) {
                let text = String::from_utf8_lossy(buffer.get(..read).unwrap_or_default()).into_owned();
                collected.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
            }
        });
        Ok(Self { _process: process, printed })
    }

    fn prints(&self, form: &[&str], wanted: &[&str]) -> Result<()> {
        wait::until(&format!("get -w {} prints {wanted:?}", form.join(" ")), SOON, || {
            let text = self.printed.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Ok(if wanted.iter().all(|part| text.contains(part)) {
                Progress::Done(())
            } else {
                Progress::Pending(text)
            })
        })
    }
}

/// `kubectl get -w` in every form of output, through kube-apiserver and directly.
pub(super) fn watching(instance: &Instance) -> Result<()> {
    for kubectl in [&instance.kubectl, &instance.tenant()] {
        apply(kubectl, &project("watched", None, &[(HOST_CLUSTER, HARD)]))?;
        until_active(kubectl, "watched")?;
        let all: Vec<WatchProcess> =
            WATCH_CASES.iter().map(|(args, ..)| WatchProcess::start(kubectl, args)).collect::<Result<_>>()?;
        for (watching, (args, first, _)) in all.iter().zip(WATCH_CASES) {
            watching.prints(args, first)?;
        }
        let change = r#"{"spec":{"displayName":"changed"},"metadata":{"labels":{"tier":"gold"}}}"#;
        kubectl.run(&["patch", "project", "watched", "--type=merge", "-p", change])?;
        kubectl.run(&["delete", "project", "watched", "--wait=false"])?;
        for (watching, (args, _, then)) in all.iter().zip(WATCH_CASES) {
            watching.prints(args, then)?;
        }
        drop(all);
        until_gone(kubectl, &["project", "watched"])?;
    }
    Ok(())
}
