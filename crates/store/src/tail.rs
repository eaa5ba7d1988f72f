//! The tail: it follows the table of events and brings everything to the cache, in order.
//!
//! One look reads the counter and what follows the last event known, in one statement and so in one snapshot.
//! Batches commit in the order of their revisions: a look that was not full has brought the cache to the
//! counter, and every reader who asked before it began can be answered.

/// Why the tail ends.
mod error;
/// Batches of our own.
pub(crate) mod handover;
/// Where the database stands.
pub(crate) mod head;
/// LISTEN.
pub(crate) mod listen;
/// The first state.
pub(crate) mod load;
/// The connections.
pub(crate) mod session;
/// Statements and rows.
pub(crate) mod sql;

use crate::cache::inner::{CacheInner, TailProgress};
use crate::cache::metrics::gauged;
use crate::cache::objects::Objects;
use crate::cache::state::Event;
use crate::divergence::{self, HistoryComparison};
use crate::model::Revision;
use crate::identity::{self, DatabaseIdentity, IdentityAnswer, RecordedIdentity};
use error::{TailError, in_time};
use head::Head;
use runtime::Backoff;
use session::{LOOK_PAUSE, Session};
use sqlx::postgres::{PgConnection, PgRow};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Events that one look reads at most. [`LOOK`] has the number as a literal, so that every plan knows it.
const LOOK_MAX: usize = 1000;
/// A look ends after so many bytes of bodies. There is always room for several events: a deletion is not read alone.
const LOOK_BYTES_MAX: usize = 64 << 20;
/// Longest time between two looks at a standby that is behind.
const BEHIND_MAX: Duration = Duration::from_millis(50);
/// While nothing happens, the own history is compared with the database's this often.
const COMPARE_EVERY: Duration = Duration::from_secs(1);
/// How long a replica that has seen no history waits for one that has, when the server is not the remembered one. A
/// replica that serves finds a new server within a look's deadline and the longest pause.
const RECOGNIZE_DEADLINE: Duration = Duration::from_secs(10);
const RECOGNIZE_PAUSE: Duration = Duration::from_millis(100);
const BACKOFF_FLOOR: Duration = Duration::from_millis(50);
const BACKOFF_CEILING: Duration = Duration::from_secs(1);

const LOOK: &str = "SELECT r.v, r.epoch, c.compacted, \
       e.kind, e.namespace, e.name, e.uid, e.rv, e.body, e.op::text, e.before \
     FROM (SELECT * FROM rev ORDER BY v DESC LIMIT 1) r CROSS JOIN compaction c \
     LEFT JOIN (SELECT * FROM events WHERE rv > $1 ORDER BY rv LIMIT 1000) e ON true \
     WHERE c.id = 1";

/// Follows until the program ends.
pub(crate) async fn run(cache: Arc<CacheInner>) {
    let mut tail = Tail {
        cache,
        connected: false,
        loaded: false,
        owed: None,
        server: None,
        recovers: false,
        trusted: None,
        goal: None,
        behind: LOOK_PAUSE,
    };
    let mut backoff = Backoff::new(BACKOFF_FLOOR, BACKOFF_CEILING);
    while let Err(error) = tail.session().await {
        // A lost connection is no trouble yet: the next one may be had at once.
        if std::mem::take(&mut tail.connected) {
            backoff.reset();
            continue;
        }
        tracing::warn!(%error, "the database cannot be followed");
        let failed = tail.cache.tickets();
        tail.cache.progress.send_modify(|progress| {
            progress.failed = failed;
            progress.trouble = Some(Arc::from(error.to_string()));
        });
        backoff.wait().await;
    }
}

/// What to do after a look.
enum Next {
    /// There is more.
    Again,
    /// Wait for a hint or the time of the next poll.
    Wait,
    /// The cache cannot be brought forward; read everything anew.
    Reload,
}

struct Tail {
    cache: Arc<CacheInner>,
    /// This session has answered.
    connected: bool,
    /// The cache holds a state that belongs to the database's history.
    loaded: bool,
    /// Readers up to this ticket are answered when the cache has this revision.
    owed: Option<(Revision, u64)>,
    /// A revision that the cache has yet to reach, and when the database was asked for it: it was the newest one
    /// then.
    goal: Option<(Revision, Instant)>,
    /// The server whose history this is, if it tells.
    server: Option<DatabaseIdentity>,
    /// The server was still recovering when it was last asked: its history may go on.
    recovers: bool,
    /// The writer's connection that was already open when the history was last compared.
    trusted: Option<u64>,
    /// Pause before the next look at a standby that is behind.
    behind: Duration,
}

impl Tail {
    /// Follows over one connection, until it fails.
    async fn session(&mut self) -> Result<(), TailError> {
        let mut session = Session::open(&self.cache).await?;
        let result = self.follow(&mut session).await;
        session.leave();
        result
    }

    async fn follow(&mut self, session: &mut Session) -> Result<(), TailError> {
        let mut compared = self.meet(session).await?;
        loop {
            if !self.loaded {
                // Its history may still turn into another one: a replica that has not followed it cannot tell
                // afterwards.
                if self.recovers {
                    return Err(TailError::Recovering);
                }
                self.load(session).await?;
                compared = Instant::now();
            }
            let next = in_time(self.look(session)).await?;
            self.connected = true;
            match next {
                Next::Again => {}
                Next::Reload => self.loaded = false,
                Next::Wait => {
                    self.wait().await;
                    if compared.elapsed() >= COMPARE_EVERY && self.recovers {
                        compared = self.meet(session).await?;
                    } else if compared.elapsed() >= COMPARE_EVERY {
                        compared = self.compare(session, false).await?;
                    }
                }
            }
        }
    }

    /// Asks the server who it is, and compares histories. A server that recovers is asked again: it may become a
    /// primary.
    async fn meet(&mut self, session: &mut Session) -> Result<Instant, TailError> {
        let answer = in_time(identity::query(&self.cache, session.authority())).await?;
        self.recovers = answer == IdentityAnswer::Recovering;
        let server = answer.identity();
        let moved = server.is_some() && self.server.is_some() && server != self.server;
        if moved {
            tracing::warn!(was = ?self.server, is = ?server, "another server answers");
        }
        let compared = self.compare(session, moved).await?;
        if let Some(server) = &server {
            self.recognize(session, server).await?;
        }
        self.server = server.or(self.server.take());
        Ok(compared)
    }

    /// Takes over what this replica writes itself, until it is time to look at the database: at once for a
    /// reader, soon for what others have written.
    async fn wait(&mut self) {
        let looked = tokio::time::Instant::now();
        let mut next_look = looked + self.patience();
        let handover = &self.cache.handover;
        while !handover.take_poll_request() && tokio::time::Instant::now() < next_look {
            if handover.take_change_notice() || !self.take_over() {
                next_look = next_look.min(looked + LOOK_PAUSE);
            }
            if tokio::time::timeout_at(next_look, handover.notified()).await.is_err() {
                return;
            }
        }
    }

    /// The time until the next look if nobody asks for one. A standby that is known to be behind is looked at again
    /// soon.
    fn patience(&mut self) -> Duration {
        let behind = {
            let progress = self.cache.progress.borrow();
            progress.shown > progress.revision || self.owed.is_some()
        };
        if !behind {
            self.behind = LOOK_PAUSE;
            return self.cache.config.poll;
        }
        let pause = self.behind;
        self.behind = (pause * 2).min(BEHIND_MAX).min(self.cache.config.poll);
        pause
    }

    /// Brings this replica's own batches to the cache. False when one does not follow on what is there.
    fn take_over(&self) -> bool {
        for batch in self.cache.handover.drain() {
            let revision = self.cache.read().revision;
            if batch.end <= revision {
                continue;
            }
            if batch.base != revision || self.trusted != Some(batch.connection) {
                return false;
            }
            let events =
                batch.events.into_iter().filter_map(|event| event.into_event(&self.cache.kinds));
            self.apply(events.collect(), batch.end);
            self.cache.metrics.revision.set(gauged(batch.end.0));
            self.cache.progress.send_modify(|progress| {
                progress.revision = batch.end;
                progress.seen = progress.seen.max(batch.end);
                progress.shown = progress.shown.max(batch.end);
            });
        }
        true
    }

    /// Compares the history of the cache with the database's. Afterwards they are the same, or nothing is loaded. A
    /// server that recovers may still come to the same history: until then it is not followed, and the cache is kept
    /// to be compared.
    async fn compare(&mut self, session: &mut Session, moved: bool) -> Result<Instant, TailError> {
        let connection = session.authority();
        let writer = self.cache.handover.current_connection();
        if self.loaded {
            match in_time(divergence::compare(&self.cache, connection, moved)).await? {
                HistoryComparison::Same => self.trusted = Some(writer),
                HistoryComparison::NewEpoch | HistoryComparison::Diverged(_) if self.recovers => {
                    return Err(TailError::Recovering);
                }
                HistoryComparison::NewEpoch => self.forget(),
                HistoryComparison::Diverged(why) => {
                    self.cache.metrics.divergences.inc();
                    tracing::error!(why, "history has diverged: a new epoch begins");
                    in_time(divergence::begin_epoch(&self.cache, connection)).await?;
                    self.forget();
                }
            }
        }
        Ok(Instant::now())
    }

    /// Agrees with the database on the server that its history is on.
    async fn recognize(&self, session: &mut Session, server: &DatabaseIdentity) -> Result<(), TailError> {
        let connection = session.authority();
        if !self.loaded
            && let Some(memory) = self.not_compared(connection, server).await?
        {
            self.cache.metrics.divergences.inc();
            tracing::error!(was = ?memory, is = ?server, "nobody knows this server's history: a new epoch begins");
            let known = self.cache.known();
            in_time(divergence::begin_epoch_after(&self.cache, connection, known, memory.epoch)).await?;
        }
        // A database that takes no writes now may still be read, if there is nothing to write down.
        let memory = in_time(identity::recorded(&self.cache, connection)).await?;
        if memory.differs_from(server) || memory.is_incomplete() {
            in_time(identity::record(&self.cache, connection)).await?;
        }
        Ok(())
    }

    /// The home that is remembered instead of this server, unless another replica compares histories or begins a new
    /// epoch in time.
    async fn not_compared(
        &self,
        connection: &mut PgConnection,
        server: &DatabaseIdentity,
    ) -> Result<Option<RecordedIdentity>, TailError> {
        let until = Instant::now() + RECOGNIZE_DEADLINE;
        let first = in_time(identity::recorded(&self.cache, connection)).await?;
        let mut now = first.clone();
        while now == first && now.differs_from(server) {
            if Instant::now() >= until {
                return Ok(Some(first));
            }
            tokio::time::sleep(RECOGNIZE_PAUSE).await;
            now = in_time(identity::recorded(&self.cache, connection)).await?;
        }
        Ok(None)
    }

    /// Nobody is served from the cache any more: its state belongs to no history.
    fn forget(&mut self) {
        self.loaded = false;
        self.owed = None;
        self.goal = None;
        self.trusted = None;
        let current = {
            let mut state = self.cache.write();
            state.generation += 1;
            state.revision
        };
        self.cache.progress.send_modify(|progress| progress.ready = false);
        self.cache.subscriptions.expire(current);
    }

    async fn load(&mut self, session: &mut Session) -> Result<(), TailError> {
        let started = Instant::now();
        let ticket = self.cache.tickets();
        let generation = self.cache.read().generation + 1;
        let writer = self.cache.handover.current_connection();
        let (head, state) = load::load(&self.cache, &mut session.reading, generation).await?;
        session.until_shown(&self.cache, head).await?;
        let objects: usize = state.kinds.values().map(Objects::len).sum();
        self.cache.note_filling(head.revision);
        let old = std::mem::replace(&mut *self.cache.write(), state);
        self.cache.subscriptions.expire(head.revision);
        self.cache.subscriptions.dispatch(&[], head.revision);
        (self.owed, self.goal) = (None, None);
        if self.cache.primary.is_none() {
            self.cache.confirm(started);
        }
        self.trusted = Some(writer);
        // A standby may not be as far as the primary was when the readers asked.
        self.publish(head, head.revision, self.cache.primary.is_none().then_some(ticket));
        self.cache.metrics.fills.inc();
        self.loaded = true;
        tracing::info!(objects, revision = %head.revision, took = ?started.elapsed(), "the cache is filled");
        drop(old);
        Ok(())
    }

    async fn look(&mut self, session: &mut Session) -> Result<Next, TailError> {
        let (began, ticket) = (Instant::now(), self.cache.tickets());
        let (last, epoch) = {
            let state = self.cache.read();
            (state.revision, state.epoch)
        };
        let counter = match self.ask_primary(session, ticket, last).await? {
            Some(head) if head.epoch != epoch || head.revision < last => {
                self.compare(session, false).await?;
                return Ok(Next::Again);
            }
            counter => counter,
        };
        let horizon = self.cache.horizon();
        let (args, prepared) = ([last.into()], self.cache.config.prepared);
        let (rows, cut) =
            sql::rows_within(&mut session.reading, prepared, LOOK, &args, LOOK_BYTES_MAX).await?;
        let head = Head::read(rows.first().ok_or(sqlx::Error::RowNotFound)?)?;
        let standby = self.cache.primary.is_some();
        // A standby may be behind the cache: behind this replica's own writes, or behind the standby that was read
        // before it.
        if head.epoch != epoch || (head.revision < last && !standby) {
            self.compare(session, false).await?;
            return if standby && self.loaded { Err(TailError::OtherHistory) } else { Ok(Next::Again) };
        }
        if head.compacted > last {
            return Ok(Next::Reload);
        }
        if head.revision.min(horizon) > last {
            session.prove(&self.cache, head).await?;
        }
        let full = cut || rows.len() >= LOOK_MAX;
        let mut events: Vec<Event> = Vec::with_capacity(rows.len());
        let mut end = last;
        // A deletion at the end waits for what follows: between the halves of a move its object would be nowhere.
        let halved = full && rows.last().is_some_and(is_deletion);
        for row in rows.iter().rev().skip(usize::from(halved)).rev() {
            let Some(revision) = sqlx::Row::try_get::<Option<i64>, _>(row, 7)? else { continue };
            let revision = sql::as_revision(revision);
            if revision <= horizon {
                end = end.max(revision);
                events.extend(sql::event(&self.cache.kinds, row, 3)?);
            }
        }
        let revision = if full { end } else { head.revision.min(horizon).max(last) };
        self.apply(events, revision);
        self.cache.metrics.looks.inc();
        let counter = if standby { counter.map(|head| head.revision) } else { Some(head.revision) };
        let served = self.settle_tickets(revision, counter, ticket);
        self.confirm(revision, counter, began);
        self.publish(head, revision, served);
        Ok(if full && revision > last { Next::Again } else { Next::Wait })
    }

    /// Asks the primary for its newest revision, when a standby is read. Not needed while a newer revision is known that
    /// the cache has yet to reach, all readers so far are answered or owed an answer, and the cache's age is being measured
    /// (`goal`).
    async fn ask_primary(
        &self,
        session: &mut Session,
        ticket: u64,
        last: Revision,
    ) -> Result<Option<Head>, TailError> {
        let (shown, answered) = {
            let progress = self.cache.progress.borrow();
            (progress.shown, progress.served.max(progress.failed))
        };
        let is_served = ticket <= self.owed.map_or(answered, |(_, owed)| owed.max(answered));
        if shown > last && is_served && self.goal.is_some() {
            return Ok(None);
        }
        let head = session.primary_head(&self.cache).await?;
        if let Some(head) = head {
            self.cache.show(head.revision);
        }
        Ok(head)
    }

    /// The newest ticket whose readers can be answered: the cache has reached the revision that the database had when the
    /// ticket was the newest. If it has not, the oldest such pair waits in `owed`.
    fn settle_tickets(&mut self, revision: Revision, counter: Option<Revision>, ticket: u64) -> Option<u64> {
        let asked = counter.map(|counter| (counter, ticket));
        let reached = |&(goal, _): &(Revision, u64)| revision >= goal;
        let settled = asked.filter(reached).or(self.owed.filter(reached));
        match settled {
            Some((_, settled)) => self.owed = asked.filter(|(_, ticket)| *ticket > settled),
            None => self.owed = self.owed.or(asked),
        }
        settled.map(|(_, ticket)| ticket)
    }

    /// Measures how old the cache may be. While writes go on it never is where the database is, so one goal is kept
    /// until it is reached.
    fn confirm(&mut self, revision: Revision, counter: Option<Revision>, asked: Instant) {
        self.goal = self.goal.or(counter.map(|counter| (counter, asked)));
        if let Some((_, asked)) = self.goal.take_if(|(goal, _)| revision >= *goal) {
            self.cache.confirm(asked);
        }
    }

    /// Brings events to the cache, and then to the watches.
    fn apply(&self, mut events: Vec<Event>, revision: Revision) {
        events.sort_by_key(|event| event.entry.revision);
        let now = Instant::now();
        let mut changes = Vec::with_capacity(events.len());
        {
            let mut state = self.cache.write();
            changes.extend(events.into_iter().filter_map(|event| state.apply(event, now)));
            // Before the lock is released: the past is read from the ring.
            for change in &changes {
                self.cache.note_change(change.new.key.kind, change.revision());
            }
            state.revision = state.revision.max(revision);
            self.cache.metrics.ring_changes.set(gauged(state.ring.len()));
            self.cache.metrics.ring_bytes.set(gauged(state.ring.bytes()));
            let objects: usize = state.kinds.values().map(Objects::len).sum();
            self.cache.metrics.objects.set(gauged(objects));
        }
        self.cache.metrics.events.inc_by(u64::try_from(changes.len()).unwrap_or_default());
        let bytes: usize = changes.iter().map(|change| change.new.body.len()).sum();
        self.cache.event_bytes.fetch_add(u64::try_from(bytes).unwrap_or_default(), Ordering::Relaxed);
        self.cache.subscriptions.dispatch(&changes, revision);
    }

    fn publish(&self, head: Head, revision: Revision, served: Option<u64>) {
        let newest = head.revision.min(self.cache.horizon());
        self.cache.metrics.revision.set(gauged(revision.0));
        self.cache.progress.send_if_modified(|progress| {
            let new = TailProgress {
                revision,
                compacted: head.compacted,
                seen: if self.loaded { progress.seen.max(newest) } else { newest },
                // What was shown of another epoch says nothing about this one.
                shown: if self.loaded { progress.shown } else { newest },
                served: served.unwrap_or(progress.served),
                failed: progress.failed,
                ready: true,
                synced: true,
                trouble: None,
            };
            let lag = newest.max(new.shown).0.saturating_sub(revision.0);
            self.cache.metrics.lag.set(gauged(lag));
            let changed = *progress != new;
            *progress = new;
            changed
        });
    }
}

fn is_deletion(row: &PgRow) -> bool {
    sqlx::Row::try_get::<Option<&str>, _>(row, 9).ok().flatten() == Some("d")
}
