//! The owner plays against it: he is admin of the whole member cluster and may write anything there, while answers get
//! lost, leaders change, objects come and go and the database is restored.
//!
//! What must hold after every step: as long as anything of an object can run, the object is charged or its place is held;
//! and nobody else is ever charged. After a restore the same holds from the next full audit on, for whatever still
//! carries a seal that holds; what does not is at least told to the operators.

use super::ledger::Ledger;
use crate::error::Error;
use crate::fixtures::server::{Fault, Server};
use crate::fixtures::world::{NAMESPACE, OBJECT, OTHER_PROJECT, PROJECT, QUOTA, World};
use crate::fixtures::{charges, keyring};
use business_types::names;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::{Duration, Instant};

const OURS: &str = "/apis/business.tkestack.io/";

#[derive(Clone, Debug)]
enum Act {
    /// The namespace is asked for, or its amount is changed.
    Ask(i64),
    /// Its deletion is asked for.
    End,
    /// The watches catch up.
    Watch,
    /// The controller looks at it, and this goes wrong.
    Pass(Vec<Mishap>),
    /// Late writes arrive.
    Land,
    Wait(u64),
    NewLeader,
    /// Cluster namespaces that are being deleted go.
    Sweep,
    /// The cluster counts.
    Count,
    Backup,
    Restore,
    Audit,
    Owner(Move),
    /// An operator consents to the deletion of what stands there.
    Consent,
    Abandon,
}

/// What goes wrong with a write to the member cluster.
#[derive(Clone, Copy, Debug)]
enum Mishap {
    AnswerLost,
    Late,
    /// The pass is given up while the write is under way.
    Dropped,
}

/// What the owner does in his cluster.
#[derive(Clone, Debug)]
enum Move {
    Strip,
    StripQuota,
    MarkAdopted,
    MarkAs(&'static str),
    KeepSeals,
    PasteSeals,
    EditQuota(i64),
    DeleteQuota,
    DeleteNamespace,
    /// With marks and seals as he has copied them, if he has.
    MakeNamespace,
    Agree,
    Run(i64),
}

fn act() -> impl Strategy<Value = Act> {
    let mishap = prop_oneof![Just(Mishap::AnswerLost), Just(Mishap::Late), Just(Mishap::Dropped)];
    let passes = prop_oneof![
        4 => Just(Vec::new()),
        1 => prop::collection::vec(mishap, 1..3),
    ];
    prop_oneof![
        3 => (1_i64..6).prop_map(Act::Ask),
        2 => Just(Act::End),
        6 => Just(Act::Watch),
        8 => passes.prop_map(Act::Pass),
        2 => Just(Act::Land),
        3 => prop_oneof![Just(1), Just(6), Just(25), Just(90)].prop_map(Act::Wait),
        1 => Just(Act::NewLeader),
        3 => Just(Act::Sweep),
        3 => Just(Act::Count),
        1 => Just(Act::Backup),
        1 => Just(Act::Restore),
        3 => Just(Act::Audit),
        8 => owner().prop_map(Act::Owner),
        1 => Just(Act::Consent),
        1 => Just(Act::Abandon),
    ]
}

fn owner() -> impl Strategy<Value = Move> {
    prop_oneof![
        1 => Just(Move::Strip),
        1 => Just(Move::StripQuota),
        1 => Just(Move::MarkAdopted),
        1 => Just(Move::MarkAs("p")),
        1 => Just(Move::MarkAs("q")),
        1 => Just(Move::KeepSeals),
        1 => Just(Move::PasteSeals),
        1 => (0_i64..50).prop_map(Move::EditQuota),
        1 => Just(Move::DeleteQuota),
        1 => Just(Move::DeleteNamespace),
        2 => Just(Move::MakeNamespace),
        1 => Just(Move::Agree),
        2 => (1_i64..4).prop_map(Move::Run),
    ]
}

/// What has happened before, so that a short play gets far.
fn before() -> impl Strategy<Value = Vec<Act>> {
    let pass = || Act::Pass(Vec::new());
    let asked = vec![Act::Ask(3), Act::Watch];
    let provided = [asked.clone(), vec![pass(), Act::Count, Act::Watch, pass()]].concat();
    let ending =
        vec![Act::Owner(Move::KeepSeals), Act::End, Act::Watch, pass(), Act::Sweep, Act::Watch, pass()];
    let ended = [provided.clone(), ending, vec![Act::Watch, Act::Owner(Move::MakeNamespace)]].concat();
    let gone_wrong = |mishap| [asked.clone(), vec![Act::Pass(vec![mishap])]].concat();
    let adopted = vec![Act::Owner(Move::MakeNamespace), Act::Owner(Move::Agree), Act::Owner(Move::Run(2))];
    let adopted =
        [adopted, asked.clone(), vec![pass(), pass(), Act::Watch, pass(), Act::Count, Act::Watch]].concat();
    let released = [adopted.clone(), vec![Act::End, Act::Watch, pass(), Act::Watch, Act::Audit]].concat();
    prop_oneof![
        2 => Just(Vec::new()),
        2 => Just(provided),
        1 => Just(ended),
        1 => Just(gone_wrong(Mishap::AnswerLost)),
        1 => Just(gone_wrong(Mishap::Late)),
        1 => Just(gone_wrong(Mishap::Dropped)),
        1 => Just(adopted),
        1 => Just(released),
    ]
}

/// What really is, as nobody in the play knows it.
#[derive(Debug, Default)]
struct Truth {
    /// The object that each namespace of the cluster, by uid, stands for.
    stands_for: BTreeMap<String, String>,
    /// Objects that something was made for.
    provided: BTreeSet<String>,
    /// Namespaces that nothing proves any more since the database was restored, or that were taken off with consent.
    excused: BTreeSet<String>,
    running: BTreeMap<String, i64>,
}

struct Play {
    server: Server,
    world: World,
    ledger: Ledger,
    truth: Truth,
    copied: Option<(Value, Value)>,
    backup: Backup,
    objects: u64,
    namespaces: u64,
}

struct Backup {
    objects: BTreeMap<String, Value>,
    ledger: Ledger,
}

impl Play {
    fn new() -> Self {
        let server = Server::default();
        server.linger();
        let world = World::at(&server);
        server.put(
            OTHER_PROJECT,
            &json!({ "metadata": { "name": "q", "uid": "q" }, "spec": {}, "status": {} }),
        );
        let backup = Backup { objects: server.backup(OURS), ledger: Ledger::default() };
        Self {
            server,
            world,
            ledger: Ledger::default(),
            truth: Truth::default(),
            copied: None,
            backup,
            objects: 0,
            namespaces: 0,
        }
    }

    fn object(&self) -> Option<Value> {
        self.server.find(OBJECT)
    }

    fn namespace_uid(&self) -> Option<String> {
        self.server.find(NAMESPACE).map(|there| text(&there["metadata"]["uid"]))
    }

    async fn step(&mut self, act: &Act) -> Result<(), TestCaseError> {
        self.act(act).await?;
        self.follow_up()?;
        self.check()
    }

    async fn act(&mut self, act: &Act) -> Result<(), TestCaseError> {
        match act {
            Act::Ask(amount) => self.ask(*amount),
            Act::End => self.end(),
            Act::Watch => {
                self.world.catches_up();
                self.world.watches();
            }
            Act::Pass(mishaps) => self.pass(mishaps).await,
            Act::Land => drop(self.server.land()),
            Act::Wait(seconds) => {
                tokio::time::advance(Duration::from_secs(*seconds)).await;
                self.server.clock.advance(i64::try_from(*seconds).unwrap() * 1_000_000);
            }
            Act::NewLeader => {
                self.world = World::led_by_another(&self.server);
                self.world.relists();
            }
            Act::Sweep => self.server.sweep(),
            Act::Count => self.count(),
            Act::Backup => {
                let objects = self.server.backup(OURS);
                self.backup = Backup { objects, ledger: self.ledger.clone() };
            }
            Act::Restore => self.restore(),
            Act::Audit => return self.audit().await,
            Act::Owner(act) => self.play(act),
            Act::Consent => self.annotate(names::DELETE_REPLACED_ANNOTATION),
            Act::Abandon => self.annotate(names::ABANDON_ANNOTATION),
        }
        Ok(())
    }

    fn ask(&mut self, amount: i64) {
        let hard = json!({ "pods": amount.to_string() });
        if let Some(mut object) = self.object() {
            if !object["metadata"]["deletionTimestamp"].is_null() {
                return;
            }
            object["spec"]["hard"] = hard;
            object["metadata"]["generation"] = json!(object["metadata"]["generation"].as_i64().unwrap() + 1);
            charges::raise(&mut object);
            self.server.put(OBJECT, &object);
        } else if self.ledger.takes_new() {
            self.objects += 1;
            let now = meta::time::rfc3339(self.server.clock.unix_seconds());
            let object = json!({
                "metadata": {
                    "namespace": "p", "name": "n", "uid": format!("object-{}", self.objects), "generation": 1,
                    "creationTimestamp": now,
                },
                "spec": { "finalizers": ["namespace"], "clusterName": "c1", "namespace": "web", "hard": hard },
                "status": { "phase": "Pending", "cachedSpecHard": hard },
            });
            self.server.put(OBJECT, &object);
        }
    }

    fn end(&self) {
        let Some(mut object) = self.object() else { return };
        if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] =
                json!(meta::time::rfc3339(self.server.clock.unix_seconds()));
            object["metadata"]["generation"] = json!(object["metadata"]["generation"].as_i64().unwrap() + 1);
            object["status"]["phase"] = json!("Terminating");
            self.server.put(OBJECT, &object);
        }
    }

    fn annotate(&self, annotation: &str) {
        let (Some(_), Some(uid)) = (self.object(), self.namespace_uid()) else { return };
        self.server.edit(OBJECT, &json!({ "metadata": { "annotations": { (annotation): uid } } }));
    }

    async fn pass(&mut self, mishaps: &[Mishap]) {
        let mut patience = Duration::from_mins(10);
        for mishap in mishaps {
            self.server.fault(match mishap {
                Mishap::AnswerLost => Fault::AnswerLost,
                Mishap::Late => Fault::Late,
                Mishap::Dropped => {
                    patience = Duration::from_secs(1);
                    Fault::Late
                }
            });
        }
        self.world.renews(Instant::now());
        // How it ends is for the queue; here only what it leaves behind counts.
        drop(tokio::time::timeout(patience, self.world.pass()).await);
        self.server.forget_faults();
        self.ledger.take(self.server.take_held());
    }

    /// The quota controller counts what runs, and admission counts with it.
    fn count(&self) {
        let (Some(uid), Some(quota)) = (self.namespace_uid(), self.server.find(QUOTA)) else { return };
        let running = self.truth.running.get(&uid).copied().unwrap_or_default();
        let status = json!({ "hard": quota["spec"]["hard"], "used": { "pods": running.to_string() } });
        self.server.edit(QUOTA, &json!({ "status": null }));
        self.server.edit(QUOTA, &json!({ "status": status }));
    }

    fn restore(&mut self) {
        self.server.restore(OURS, &self.backup.objects);
        self.ledger = self.backup.ledger.clone();
        self.ledger.has_diverged();
        self.world.relists();
    }

    async fn audit(&mut self) -> Result<(), TestCaseError> {
        self.world.renews(Instant::now());
        let comparison = match crate::audit::pass(&self.world.cx).await {
            Ok(comparison) => comparison,
            Err(Error::Behind | Error::NotLeading) => return Ok(()),
            Err(error) => panic!("{}", error.text()),
        };
        let status = self.server.get(PROJECT)["status"].clone();
        for orphan in status["orphans"].as_array().into_iter().flatten() {
            let is_true = self.truth.stands_for.contains_key(orphan["uid"].as_str().unwrap());
            prop_assert!(is_true || self.ledger.holds("web"), "{orphan} was never granted");
        }
        let was_diverged = self.ledger.is_diverged();
        let told = self.ledger.follow(&status, comparison.missing.is_empty());
        self.server.edit(PROJECT, &json!({ "status": { "ledger": null } }));
        self.server.edit(PROJECT, &json!({ "status": { "ledger": told } }));
        let strangers: BTreeSet<String> =
            comparison.strangers.into_iter().map(|stranger| stranger.uid).collect();
        let is_compared = was_diverged && !self.ledger.is_diverged();
        if is_compared && let Some(uid) = self.namespace_uid() {
            let is_ours = self.truth.stands_for.contains_key(&uid) && !self.truth.excused.contains(&uid);
            if is_ours && !self.is_charged(&self.truth.stands_for[&uid]) && !self.is_proved(&uid) {
                let marked =
                    [NAMESPACE, QUOTA].iter().filter_map(|path| self.server.find(path)).any(|object| {
                        let annotations = &object["metadata"]["annotations"];
                        [names::UID_ANNOTATION, names::SEAL_ANNOTATION]
                            .iter()
                            .any(|mark| !annotations[*mark].is_null())
                    });
                prop_assert!(!marked || strangers.contains(&uid), "our marks without our seal are told");
                self.truth.excused.insert(uid);
            }
        }
        Ok(())
    }

    /// Whether anything there carries a seal that holds for this very namespace.
    fn is_proved(&self, uid: &str) -> bool {
        [NAMESPACE, QUOTA].iter().filter_map(|path| self.server.find(path)).any(|object| {
            let seal = object["metadata"]["annotations"][names::SEAL_ANNOTATION].as_str();
            seal.and_then(|seal| keyring().open(seal))
                .is_some_and(|opened| opened.sealed.namespace_uid.as_deref() == Some(uid))
        })
    }

    fn play(&mut self, act: &Move) {
        let marks = |value: &Value| json!({ "metadata": { "labels": value, "annotations": value } });
        let edit = |path: &str, patch: &Value| {
            if self.server.find(path).is_some() {
                self.server.edit(path, patch);
            }
        };
        match act {
            Move::Strip => edit(NAMESPACE, &marks(&Value::Null)),
            Move::StripQuota => edit(QUOTA, &marks(&Value::Null)),
            Move::MarkAdopted => {
                edit(
                    NAMESPACE,
                    &json!({ "metadata": { "annotations": { (names::ADOPTED_ANNOTATION): "true" } } }),
                );
            }
            Move::MarkAs(project) => {
                let labels = json!({ (names::PROJECT_LABEL): project, (names::NAMESPACE_LABEL): "n" });
                let annotations = json!({ (names::UID_ANNOTATION): "made-up" });
                for path in [NAMESPACE, QUOTA] {
                    edit(path, &json!({ "metadata": { "labels": labels, "annotations": annotations } }));
                }
            }
            Move::KeepSeals => {
                let copied = |path: &str| self.server.find(path).map(|object| object["metadata"].clone());
                self.copied = copied(NAMESPACE).zip(Some(copied(QUOTA).unwrap_or(Value::Null)));
            }
            Move::PasteSeals => {
                let Some((namespace, quota)) = &self.copied else { return };
                for (path, metadata) in [(NAMESPACE, namespace), (QUOTA, quota)] {
                    let pasted =
                        json!({ "labels": metadata["labels"], "annotations": metadata["annotations"] });
                    edit(path, &json!({ "metadata": pasted }));
                }
            }
            Move::EditQuota(amount) => {
                edit(QUOTA, &json!({ "spec": { "hard": { "pods": amount.to_string() } } }));
            }
            Move::DeleteQuota => drop(self.server.remove(QUOTA)),
            Move::DeleteNamespace => drop(self.server.remove(NAMESPACE)),
            Move::MakeNamespace => self.make(),
            Move::Agree => {
                edit(
                    NAMESPACE,
                    &json!({ "metadata": { "annotations": { (names::ADOPT_ANNOTATION): "p/n" } } }),
                );
            }
            Move::Run(count) => self.run(*count),
        }
    }

    fn make(&mut self) {
        if self.server.find(NAMESPACE).is_some() {
            return;
        }
        self.namespaces += 1;
        let uid = format!("his-{}", self.namespaces);
        let now = meta::time::rfc3339(self.server.clock.unix_seconds());
        let mut metadata = json!({ "name": "web", "uid": uid, "creationTimestamp": now });
        if let Some((copied, _)) = &self.copied {
            metadata["labels"] = copied["labels"].clone();
            metadata["annotations"] = copied["annotations"].clone();
        }
        self.server.put(NAMESPACE, &json!({ "metadata": metadata }));
        // It stands in the place of what was made for an object that lives.
        if let Some(object) = self.object().map(|object| text(&object["metadata"]["uid"]))
            && self.truth.provided.contains(&object)
        {
            self.truth.stands_for.insert(uid, object);
        }
    }

    /// Pods begin, as far as the quota that admission counts with allows.
    fn run(&mut self, count: i64) {
        let Some(uid) = self.namespace_uid() else { return };
        let running = self.truth.running.entry(uid).or_default();
        let hard =
            self.server.find(QUOTA).and_then(|quota| quota["status"]["hard"]["pods"].as_str()?.parse().ok());
        if hard.is_none_or(|hard: i64| *running + count <= hard) {
            *running += count;
        }
    }

    /// Takes note of what the controller has done.
    fn follow_up(&mut self) -> Result<(), TestCaseError> {
        for (namespace, object) in self.server.made_for() {
            self.truth.provided.insert(object.clone());
            self.truth.stands_for.entry(namespace).or_insert(object);
        }
        for uid in self.server.taken_off() {
            let running = self.truth.running.get(&uid).copied().unwrap_or_default();
            prop_assert!(
                running == 0 || self.ledger.wrote_off(&uid),
                "{running} pods run in what was taken off"
            );
            self.truth.excused.insert(uid);
        }
        Ok(())
    }

    /// By the object itself, or by one that was provided with something there, which answers for whatever stands in its place: it
    /// keeps a quota over it, and is not released while it is there.
    fn is_charged(&self, object: &str) -> bool {
        let answers = |living: &Value| {
            let provenance = &living["status"]["clusterNamespace"]["provenance"];
            living["metadata"]["uid"] == object || !(provenance.is_null() || provenance == "Foreign")
        };
        let lives = self.object().filter(answers);
        lives.is_some_and(|living| !charges::mark(&living).is_empty()) || self.ledger.holds("web")
    }

    fn check(&self) -> Result<(), TestCaseError> {
        prop_assert!(
            self.server.get(OTHER_PROJECT)["status"].get("orphans").is_none(),
            "nobody else is charged"
        );
        if self.ledger.is_diverged() {
            return Ok(());
        }
        if let Some(uid) = self.namespace_uid()
            && let Some(object) = self.truth.stands_for.get(&uid)
            && !self.truth.excused.contains(&uid)
        {
            prop_assert!(self.is_charged(object), "{uid} stands for {object}, and nobody is charged");
        }
        for object in self.server.late_creates() {
            prop_assert!(self.is_charged(&object), "a namespace for {object} may still be made");
        }
        Ok(())
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn play(acts: &[Act]) -> Result<(), TestCaseError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut play = Play::new();
        for (number, act) in acts.iter().enumerate() {
            play.step(act)
                .await
                .map_err(|error| TestCaseError::fail(format!("step {number}, {act:?}: {error}")))?;
        }
        Ok(())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, max_shrink_iters: 20_000, ..ProptestConfig::default() })]
    #[test]
    fn whatever_the_owner_does_no_charge_is_freed_while_anything_can_run(
        before in before(),
        acts in prop::collection::vec(act(), 1..40),
    ) {
        play(&[before, acts].concat())?;
    }
}

#[test]
fn an_honest_life_ends_with_nothing_charged() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut play = Play::new();
        let pass = Act::Pass(Vec::new());
        let life = [
            &[Act::Ask(3), Act::Watch, pass.clone(), Act::Count, Act::Watch, pass.clone(), Act::Audit][..],
            &[
                Act::Owner(Move::Run(2)),
                Act::Count,
                Act::Watch,
                pass.clone(),
                Act::Ask(2),
                Act::Watch,
                pass.clone(),
            ],
            &[Act::End, Act::Watch, pass.clone(), Act::Sweep, Act::Watch, pass.clone(), Act::Audit],
        ];
        for act in life.into_iter().flatten() {
            play.step(act).await.unwrap();
        }
        assert_eq!((play.object(), play.namespace_uid(), play.ledger.is_empty()), (None, None, true));
    });
}

/// The books go back to an object whose namespace is gone, and in its place stands what was made for a later one.
#[test]
fn who_was_provided_with_something_answers_for_what_stands_in_its_place() {
    let pass = || Act::Pass(Vec::new());
    let owner = Act::Owner;
    let acts = [
        vec![Act::Ask(3), Act::Watch, pass(), Act::Count, Act::Watch, pass()],
        vec![Act::Backup, Act::End, owner(Move::DeleteNamespace), Act::Watch, pass()],
        vec![Act::Ask(1), Act::Watch, pass(), Act::Restore, owner(Move::DeleteQuota), Act::Audit],
    ];
    play(&acts.concat()).unwrap();
}
