use super::Settings;
use crate::load::Sample;
use crate::objects::{self, ObjectFactory};
use crate::rival;
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use kit::{Connection, Endpoint};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// Longest wait for an answer.
const DEADLINE: Duration = Duration::from_mins(1);
/// Connections that fill in what is there from the start.
const FILLERS: usize = 16;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Get,
    List,
    Page,
    ApplySame,
    Patch,
    Create,
    Delete,
}

impl Operation {
    /// Of a hundred requests eighty read; as many objects come as go.
    const MIX: [(Self, u64); 7] = [
        (Self::Get, 45),
        (Self::List, 25),
        (Self::Page, 10),
        (Self::ApplySame, 10),
        (Self::Patch, 4),
        (Self::Create, 3),
        (Self::Delete, 3),
    ];

    pub(super) const ALL: [Self; 7] =
        [Self::Get, Self::List, Self::Page, Self::ApplySame, Self::Patch, Self::Create, Self::Delete];

    fn of(hundredth: u64) -> Self {
        let mut left = hundredth % 100;
        for (act, weight) in Self::MIX {
            if left < weight {
                return act;
            }
            left -= weight;
        }
        Self::Get
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list of a project",
            Self::Page => "page of 100 of all",
            Self::ApplySame => "apply that changes nothing",
            Self::Patch => "patch",
            Self::Create => "create",
            Self::Delete => "delete",
        }
    }
}

/// A server under load, with a collection of objects.
pub(super) struct LoadTarget {
    pub(super) ours: bool,
    maker: ObjectFactory,
    /// Everything of its kind.
    all: &'static str,
    /// Own paths of what is there, oldest first, with what was sent.
    there: Mutex<VecDeque<(String, Value)>>,
}

impl LoadTarget {
    pub(super) fn ours(run: &str, member: &str, settings: &Settings) -> Self {
        let (run, member, projects) = (run.to_owned(), member.to_owned(), settings.projects.max(1));
        let maker = ObjectFactory::new(move |number| {
            let (project, name) = (format!("{run}-{}", number % projects), format!("{run}-{number}"));
            let object = objects::namespace("business.tkestack.io/v1", "Namespace", &project, &member, &name);
            (objects::namespaces_path(&project), object)
        });
        Self { ours: true, maker, all: "/apis/business.tkestack.io/v1/namespaces", there: Mutex::default() }
    }

    pub(super) async fn rival(run: &str, kube: &Endpoint, settings: &Settings) -> Result<Self> {
        let projects = settings.projects.max(1);
        for number in 0..projects {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("{run}-{number}")}});
            kube.connect().await?.ensure("/api/v1/namespaces", &namespace).await?;
        }
        let run = run.to_owned();
        let maker = ObjectFactory::new(move |number| {
            let (project, name) = (format!("{run}-{}", number % projects), format!("{run}-{number}"));
            let object = objects::namespace(&format!("{}/v1", rival::CRD), "Rival", &project, "c", &name);
            (rival::crd_path_in(&project), object)
        });
        Ok(Self {
            ours: false,
            maker,
            all: "/apis/rival.bench.example.com/v1/rivals",
            there: Mutex::default(),
        })
    }

    fn there(&self) -> std::sync::MutexGuard<'_, VecDeque<(String, Value)>> {
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn some(&self, number: u64) -> Result<(String, Value)> {
        let there = self.there();
        let count = u64::try_from(there.len())?;
        ensure!(count > 0, "nothing is there");
        // Far enough from the oldest, which are deleted next.
        let place = usize::try_from(count / 4 + number.wrapping_mul(7919) % (count - count / 4))?;
        there.get(place).cloned().context("an object in the middle")
    }

    /// The request of an act.
    fn request(&self, act: Operation, number: u64) -> Result<Request> {
        let collection =
            |path: &str| path.rsplit_once('/').map_or("", |(collection, _)| collection).to_owned();
        Ok(match act {
            Operation::Get => Request::read(self.some(number)?.0),
            Operation::List => Request::read(collection(&self.some(number)?.0)),
            Operation::Page => Request::read(format!("{}?limit=100", self.all)),
            Operation::ApplySame => {
                let (path, object) = self.some(number % 64)?;
                let path = format!("{path}?fieldManager=soak");
                Request {
                    method: Method::PATCH,
                    path,
                    content: APPLY,
                    body: object.to_string().into(),
                    after: OnSuccess::Nothing,
                }
            }
            Operation::Patch => {
                let path = self.some(number)?.0;
                let body =
                    json!({"metadata": {"annotations": {"soak/turn": number.to_string()}}}).to_string();
                Request {
                    method: Method::PATCH,
                    path,
                    content: MERGE,
                    body: body.into(),
                    after: OnSuccess::Nothing,
                }
            }
            Operation::Create => {
                let (path, object) = self.maker.next();
                let body = object.to_string().into();
                Request { method: Method::POST, path, content: JSON, body, after: OnSuccess::There(object) }
            }
            Operation::Delete => {
                let (path, _) = self.there().pop_front().context("nothing is there")?;
                Request {
                    method: Method::DELETE,
                    path,
                    content: JSON,
                    body: Bytes::new(),
                    after: OnSuccess::Nothing,
                }
            }
        })
    }

    fn after(&self, request: Request) {
        if let OnSuccess::There(object) = request.after {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!("{}/{name}", request.path);
            self.there().push_back((path, object));
        }
    }
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

struct Request {
    method: Method,
    path: String,
    content: &'static str,
    body: Bytes,
    after: OnSuccess,
}

/// What to do after a success.
enum OnSuccess {
    Nothing,
    There(Value),
}

impl Request {
    fn read(path: String) -> Self {
        Self { method: Method::GET, path, content: JSON, body: Bytes::new(), after: OnSuccess::Nothing }
    }

    async fn send(&self, connection: &mut Connection) -> Result<StatusCode> {
        let call = async {
            let answer =
                connection.open_as(self.method.clone(), &self.path, self.content, self.body.clone()).await?;
            let status = answer.status();
            answer.into_body().collect().await?;
            anyhow::Ok(status)
        };
        tokio::time::timeout(DEADLINE, call).await.context("no answer in time")?
    }
}

/// A target and its endpoints, which clients use in turn.
#[derive(Clone)]
pub(super) struct TargetEndpoints {
    pub(super) party: Arc<LoadTarget>,
    pub(super) endpoints: Vec<Endpoint>,
}

impl TargetEndpoints {
    fn endpoint(&self, client: usize) -> Result<&Endpoint> {
        self.endpoints.get(client % self.endpoints.len().max(1)).context("no way to a party")
    }

    /// Makes what is there from the start.
    pub(super) async fn fill(&self, count: usize) -> Result<()> {
        let mut fillers = JoinSet::new();
        for filler in 0..FILLERS {
            let (share, count) = (self.clone(), count / FILLERS + usize::from(filler < count % FILLERS));
            fillers.spawn(async move {
                let mut connection = share.endpoint(0)?.connect().await?;
                for _ in 0..count {
                    let request = share.party.request(Operation::Create, 0)?;
                    let status = request.send(&mut connection).await?;
                    ensure!(status.is_success(), "POST {}: {status}", request.path);
                    share.party.after(request);
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = fillers.join_next().await {
            done??;
        }
        Ok(())
    }
}

/// The results of the requests, shared by all clients.
#[derive(Clone, Default)]
pub(super) struct Traffic(Arc<Mutex<Answers>>);

#[derive(Default)]
struct Answers {
    /// Microseconds of the successes, by party (ours or the rival's) and act.
    times: BTreeMap<(bool, Operation), Vec<u64>>,
    /// The others, by party and what they were: a status, or that there was none.
    others: BTreeMap<(bool, String), u64>,
}

impl Traffic {
    fn answers(&self) -> std::sync::MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn success(&self, ours: bool, act: Operation, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.answers().times.entry((ours, act)).or_default().push(micros);
    }

    fn other(&self, ours: bool, act: Operation, what: &str) {
        *self.answers().others.entry((ours, format!("{}: {what}", act.name()))).or_default() += 1;
    }

    /// Times of a party's successes.
    pub(super) fn sample(&self, ours: bool, act: Operation, elapsed: Duration) -> Sample {
        Sample::new(self.answers().times.get(&(ours, act)).cloned().unwrap_or_default(), elapsed)
    }

    /// What was no success.
    pub(super) fn others(&self, ours: bool) -> BTreeMap<String, u64> {
        let answers = self.answers();
        let own = answers.others.iter().filter(|((whose, _), _)| *whose == ours);
        own.map(|((_, what), count)| (what.clone(), *count)).collect()
    }

    /// For somebody who waits.
    pub(super) fn told(&self) -> String {
        let answers = self.answers();
        let good: usize = answers.times.values().map(Vec::len).sum();
        let others: u64 = answers.others.values().sum();
        format!("{good} answers, {others} others")
    }
}

/// Sends one client's part of the requests. A time begins when its request was due: one that waits for the one before is late.
pub(super) async fn send(
    share: TargetEndpoints,
    traffic: Traffic,
    settings: Settings,
    client: usize,
    end: Instant,
) -> Result<()> {
    let clients = u32::try_from(settings.clients.max(1))?;
    let every = Duration::from_secs(1) * clients / u32::try_from(settings.rate.max(1))?;
    let first = tokio::time::Instant::now() + every * u32::try_from(client)? / clients;
    let mut tick = tokio::time::interval_at(first, every);
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut connection: Option<Connection> = None;
    let party = &share.party;
    for turn in 0_u64.. {
        let due = tick.tick().await.into_std();
        if Instant::now() >= end {
            return Ok(());
        }
        let number = turn * u64::from(clients) + u64::try_from(client)?;
        // The numbers of a client follow each other by the same step: they are mixed up first.
        let act = Operation::of(number.wrapping_mul(2_654_435_761) >> 8);
        let sent = async {
            if connection.is_none() {
                connection = Some(share.endpoint(client)?.connect().await?);
            }
            let request = party.request(act, number)?;
            let status = request.send(connection.as_mut().context("a connection")?).await?;
            if status.is_success() {
                party.after(request);
            }
            anyhow::Ok(status)
        };
        match sent.await {
            Ok(status) if status.is_success() => traffic.success(party.ours, act, due.elapsed()),
            Ok(status) => traffic.other(party.ours, act, status.as_str()),
            Err(_) => {
                connection = None;
                traffic.other(party.ours, act, "no answer");
            }
        }
    }
    Ok(())
}
