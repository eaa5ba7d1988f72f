//! Random actions of a hostile owner, who is admin of the whole member cluster and may write anything there. Meanwhile
//! answers get lost, leaders change, objects come and go, and the database is restored.
//!
//! After every step this must hold: as long as anything of an object can run, the object is charged or its place is
//! held; and nobody else is ever charged. After a restore it holds again from the next full audit on, for whatever
//! still has a valid seal. The rest is at least reported to the operators.

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
enum Action {
    /// Creates the object, or changes its amount.
    Ask(i64),
    /// Deletes the object.
    End,
    /// The watches catch up.
    Watch,
    /// The controller runs a pass, with these faults.
    Pass(Vec<WriteFault>),
    /// Late writes arrive.
    LateWritesArrive,
    Wait(u64),
    NewLeader,
    /// Namespaces of the cluster that are being deleted are gone.
    FinishDeletions,
    /// The cluster's quota controller counts.
    Count,
    Backup,
    Restore,
    Audit,
    Owner(OwnerAction),
    /// An operator consents to the deletion of the namespace at the place.
    Consent,
    Abandon,
}

/// A fault of a write to the member cluster.
#[derive(Clone, Copy, Debug)]
enum WriteFault {
    AnswerLost,
    Late,
    /// The pass is cancelled while the write is under way.
    Dropped,
}

/// An action of the owner in the cluster.
#[derive(Clone, Debug)]
enum OwnerAction {
    Strip,
    StripQuota,
    MarkAdopted,
    MarkAs(&'static str),
    KeepSeals,
    PasteSeals,
    EditQuota(i64),
    DeleteQuota,
    DeleteNamespace,
    /// With the marks and seals that were copied before, if any were.
    MakeNamespace,
    Agree,
    Run(i64),
}

fn action() -> impl Strategy<Value = Action> {
    let mishap = prop_oneof![Just(WriteFault::AnswerLost), Just(WriteFault::Late), Just(WriteFault::Dropped)];
    let passes = prop_oneof![
        4 => Just(Vec::new()),
        1 => prop::collection::vec(mishap, 1..3),
    ];
    prop_oneof![
        3 => (1_i64..6).prop_map(Action::Ask),
        2 => Just(Action::End),
        6 => Just(Action::Watch),
        8 => passes.prop_map(Action::Pass),
        2 => Just(Action::LateWritesArrive),
        3 => prop_oneof![Just(1), Just(6), Just(25), Just(90)].prop_map(Action::Wait),
        1 => Just(Action::NewLeader),
        3 => Just(Action::FinishDeletions),
        3 => Just(Action::Count),
        1 => Just(Action::Backup),
        1 => Just(Action::Restore),
        3 => Just(Action::Audit),
        8 => owner().prop_map(Action::Owner),
        1 => Just(Action::Consent),
        1 => Just(Action::Abandon),
    ]
}

fn owner() -> impl Strategy<Value = OwnerAction> {
    prop_oneof![
        1 => Just(OwnerAction::Strip),
        1 => Just(OwnerAction::StripQuota),
        1 => Just(OwnerAction::MarkAdopted),
        1 => Just(OwnerAction::MarkAs("p")),
        1 => Just(OwnerAction::MarkAs("q")),
        1 => Just(OwnerAction::KeepSeals),
        1 => Just(OwnerAction::PasteSeals),
        1 => (0_i64..50).prop_map(OwnerAction::EditQuota),
        1 => Just(OwnerAction::DeleteQuota),
        1 => Just(OwnerAction::DeleteNamespace),
        2 => Just(OwnerAction::MakeNamespace),
        1 => Just(OwnerAction::Agree),
        2 => (1_i64..4).prop_map(OwnerAction::Run),
    ]
}

/// Actions that come first, so that short runs get far.
fn before() -> impl Strategy<Value = Vec<Action>> {
    let pass = || Action::Pass(Vec::new());
    let asked = vec![Action::Ask(3), Action::Watch];
    let provided = [asked.clone(), vec![pass(), Action::Count, Action::Watch, pass()]].concat();
    let ending = vec![
        Action::Owner(OwnerAction::KeepSeals),
        Action::End,
        Action::Watch,
        pass(),
        Action::FinishDeletions,
        Action::Watch,
        pass(),
    ];
    let ended =
        [provided.clone(), ending, vec![Action::Watch, Action::Owner(OwnerAction::MakeNamespace)]].concat();
    let gone_wrong = |mishap| [asked.clone(), vec![Action::Pass(vec![mishap])]].concat();
    let adopted = vec![
        Action::Owner(OwnerAction::MakeNamespace),
        Action::Owner(OwnerAction::Agree),
        Action::Owner(OwnerAction::Run(2)),
    ];
    let adopted =
        [adopted, asked.clone(), vec![pass(), pass(), Action::Watch, pass(), Action::Count, Action::Watch]]
            .concat();
    let released =
        [adopted.clone(), vec![Action::End, Action::Watch, pass(), Action::Watch, Action::Audit]].concat();
    prop_oneof![
        2 => Just(Vec::new()),
        2 => Just(provided),
        1 => Just(ended),
        1 => Just(gone_wrong(WriteFault::AnswerLost)),
        1 => Just(gone_wrong(WriteFault::Late)),
        1 => Just(gone_wrong(WriteFault::Dropped)),
        1 => Just(adopted),
        1 => Just(released),
    ]
}

/// The actual state, which nobody in the simulation knows.
#[derive(Debug, Default)]
struct ActualState {
    /// The object that each namespace of the cluster stands for, by the namespace's uid.
    stands_for: BTreeMap<String, String>,
    /// Objects for which something was created.
    provided: BTreeSet<String>,
    /// Namespaces without a valid seal after a restore, and namespaces that were deleted with consent.
    excused: BTreeSet<String>,
    running: BTreeMap<String, i64>,
}

struct Simulation {
    server: Server,
    world: World,
    ledger: Ledger,
    truth: ActualState,
    copied: Option<(Value, Value)>,
    backup: Backup,
    objects: u64,
    namespaces: u64,
}

struct Backup {
    objects: BTreeMap<String, Value>,
    ledger: Ledger,
}

impl Simulation {
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
            truth: ActualState::default(),
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

    async fn step(&mut self, act: &Action) -> Result<(), TestCaseError> {
        self.act(act).await?;
        self.follow_up()?;
        self.check()
    }

    async fn act(&mut self, act: &Action) -> Result<(), TestCaseError> {
        match act {
            Action::Ask(amount) => self.ask(*amount),
            Action::End => self.end(),
            Action::Watch => {
                self.world.catches_up();
                self.world.watches();
            }
            Action::Pass(mishaps) => self.pass(mishaps).await,
            Action::LateWritesArrive => drop(self.server.land()),
            Action::Wait(seconds) => {
                tokio::time::advance(Duration::from_secs(*seconds)).await;
                self.server.clock.advance(i64::try_from(*seconds).unwrap() * 1_000_000);
            }
            Action::NewLeader => {
                self.world = World::led_by_another(&self.server);
                self.world.relists();
            }
            Action::FinishDeletions => self.server.sweep(),
            Action::Count => self.count(),
            Action::Backup => {
                let objects = self.server.backup(OURS);
                self.backup = Backup { objects, ledger: self.ledger.clone() };
            }
            Action::Restore => self.restore(),
            Action::Audit => return self.audit().await,
            Action::Owner(act) => self.play(act),
            Action::Consent => self.annotate(names::DELETE_REPLACED_ANNOTATION),
            Action::Abandon => self.annotate(names::ABANDON_ANNOTATION),
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

    async fn pass(&mut self, mishaps: &[WriteFault]) {
        let mut patience = Duration::from_mins(10);
        for mishap in mishaps {
            self.server.fault(match mishap {
                WriteFault::AnswerLost => Fault::AnswerLost,
                WriteFault::Late => Fault::Late,
                WriteFault::Dropped => {
                    patience = Duration::from_secs(1);
                    Fault::Late
                }
            });
        }
        self.world.renews(Instant::now());
        // The queue would handle the outcome. Here only the effects count.
        drop(tokio::time::timeout(patience, self.world.pass()).await);
        self.server.forget_faults();
        self.ledger.take(self.server.take_held());
    }

    /// The quota controller counts what runs, and admission enforces the quota.
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

    /// Whether anything at the place has a valid seal for exactly this namespace.
    fn is_proved(&self, uid: &str) -> bool {
        [NAMESPACE, QUOTA].iter().filter_map(|path| self.server.find(path)).any(|object| {
            let seal = object["metadata"]["annotations"][names::SEAL_ANNOTATION].as_str();
            seal.and_then(|seal| keyring().open(seal))
                .is_some_and(|opened| opened.sealed.namespace_uid.as_deref() == Some(uid))
        })
    }

    fn play(&mut self, act: &OwnerAction) {
        let marks = |value: &Value| json!({ "metadata": { "labels": value, "annotations": value } });
        let edit = |path: &str, patch: &Value| {
            if self.server.find(path).is_some() {
                self.server.edit(path, patch);
            }
        };
        match act {
            OwnerAction::Strip => edit(NAMESPACE, &marks(&Value::Null)),
            OwnerAction::StripQuota => edit(QUOTA, &marks(&Value::Null)),
            OwnerAction::MarkAdopted => {
                edit(
                    NAMESPACE,
                    &json!({ "metadata": { "annotations": { (names::ADOPTED_ANNOTATION): "true" } } }),
                );
            }
            OwnerAction::MarkAs(project) => {
                let labels = json!({ (names::PROJECT_LABEL): project, (names::NAMESPACE_LABEL): "n" });
                let annotations = json!({ (names::UID_ANNOTATION): "made-up" });
                for path in [NAMESPACE, QUOTA] {
                    edit(path, &json!({ "metadata": { "labels": labels, "annotations": annotations } }));
                }
            }
            OwnerAction::KeepSeals => {
                let copied = |path: &str| self.server.find(path).map(|object| object["metadata"].clone());
                self.copied = copied(NAMESPACE).zip(Some(copied(QUOTA).unwrap_or(Value::Null)));
            }
            OwnerAction::PasteSeals => {
                let Some((namespace, quota)) = &self.copied else { return };
                for (path, metadata) in [(NAMESPACE, namespace), (QUOTA, quota)] {
                    let pasted =
                        json!({ "labels": metadata["labels"], "annotations": metadata["annotations"] });
                    edit(path, &json!({ "metadata": pasted }));
                }
            }
            OwnerAction::EditQuota(amount) => {
                edit(QUOTA, &json!({ "spec": { "hard": { "pods": amount.to_string() } } }));
            }
            OwnerAction::DeleteQuota => drop(self.server.remove(QUOTA)),
            OwnerAction::DeleteNamespace => drop(self.server.remove(NAMESPACE)),
            OwnerAction::MakeNamespace => self.make(),
            OwnerAction::Agree => {
                edit(
                    NAMESPACE,
                    &json!({ "metadata": { "annotations": { (names::ADOPT_ANNOTATION): "p/n" } } }),
                );
            }
            OwnerAction::Run(count) => self.run(*count),
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
        // It replaces what was created for an object that still exists.
        if let Some(object) = self.object().map(|object| text(&object["metadata"]["uid"]))
            && self.truth.provided.contains(&object)
        {
            self.truth.stands_for.insert(uid, object);
        }
    }

    /// Starts pods, as far as the enforced quota allows.
    fn run(&mut self, count: i64) {
        let Some(uid) = self.namespace_uid() else { return };
        let running = self.truth.running.entry(uid).or_default();
        let hard =
            self.server.find(QUOTA).and_then(|quota| quota["status"]["hard"]["pods"].as_str()?.parse().ok());
        if hard.is_none_or(|hard: i64| *running + count <= hard) {
            *running += count;
        }
    }

    /// Records what the controller has done.
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

    /// Whether the namespace is charged to the object itself, or to another object for which something was created
    /// there. Such an object answers for a replacement, too: it keeps a quota over it, and is not released while the
    /// replacement exists.
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

fn play(acts: &[Action]) -> Result<(), TestCaseError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut play = Simulation::new();
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
        acts in prop::collection::vec(action(), 1..40),
    ) {
        play(&[before, acts].concat())?;
    }
}

#[test]
fn an_honest_life_ends_with_nothing_charged() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut play = Simulation::new();
        let pass = Action::Pass(Vec::new());
        let life = [
            &[
                Action::Ask(3),
                Action::Watch,
                pass.clone(),
                Action::Count,
                Action::Watch,
                pass.clone(),
                Action::Audit,
            ][..],
            &[
                Action::Owner(OwnerAction::Run(2)),
                Action::Count,
                Action::Watch,
                pass.clone(),
                Action::Ask(2),
                Action::Watch,
                pass.clone(),
            ],
            &[
                Action::End,
                Action::Watch,
                pass.clone(),
                Action::FinishDeletions,
                Action::Watch,
                pass.clone(),
                Action::Audit,
            ],
        ];
        for act in life.into_iter().flatten() {
            play.step(act).await.unwrap();
        }
        assert_eq!((play.object(), play.namespace_uid(), play.ledger.is_empty()), (None, None, true));
    });
}

/// The restored object has lost its namespace, and at its place is one that was created for a later object.
#[test]
fn who_was_provided_with_something_answers_for_what_stands_in_its_place() {
    let pass = || Action::Pass(Vec::new());
    let owner = Action::Owner;
    let acts = [
        vec![Action::Ask(3), Action::Watch, pass(), Action::Count, Action::Watch, pass()],
        vec![Action::Backup, Action::End, owner(OwnerAction::DeleteNamespace), Action::Watch, pass()],
        vec![
            Action::Ask(1),
            Action::Watch,
            pass(),
            Action::Restore,
            owner(OwnerAction::DeleteQuota),
            Action::Audit,
        ],
    ];
    play(&acts.concat()).unwrap();
}
