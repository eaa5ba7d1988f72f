//! The tail: the task that follows the table of events and applies all events to the cache, in order.
//!
//! One poll reads the revision counter and the events after the cache's revision, in one statement and so in one
//! snapshot. Batches commit in the order of their revisions. So a poll that was not full has brought the cache to the
//! counter, and every reader that asked before the poll began can be answered.

/// Why a session of the tail ends.
mod error;
/// This replica's own batches, and requests for a poll.
pub(crate) mod handover;
/// The newest revision, the epoch and the compaction of a database.
pub(crate) mod head;
/// LISTEN.
pub(crate) mod listen;
/// Fills the cache from a snapshot.
pub(crate) mod load;
/// The connections.
pub(crate) mod session;
/// Statements and rows.
pub(crate) mod sql;

use crate::cache::inner::{CacheInner, TailProgress};
use crate::cache::metrics::gauge_value;
use crate::cache::objects::Objects;
use crate::cache::state::Event;
use crate::divergence::{self, HistoryComparison};
use crate::identity::{self, DatabaseIdentity, IdentityAnswer, RecordedIdentity};
use crate::model::Revision;
use error::{TailError, with_deadline};
use futures_util::TryStreamExt as _;
use head::Head;
use runtime::Backoff;
use session::{POLL_PAUSE, Session};
use sqlx::postgres::{PgConnection, PgRow};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Most events that one poll reads. [`POLL`] has the number as a literal, so that every plan knows it.
const POLL_EVENTS_MAX: usize = 1000;
/// A poll ends after so many bytes of bodies. They are enough for several events: a deletion is not read alone.
const POLL_BYTES_MAX: usize = 64 << 20;
/// Longest pause between two polls of a standby that is behind.
const BEHIND_PAUSE_MAX: Duration = Duration::from_millis(50);
/// While nothing happens, this replica's history is compared with the database's this often.
const COMPARE_INTERVAL: Duration = Duration::from_secs(1);
/// How long a replica that has seen no history waits for one that has, when the server is not the recorded one. A
/// replica that serves notices a new server within a poll's deadline and the longest pause.
const IDENTITY_DEADLINE: Duration = Duration::from_secs(10);
const IDENTITY_PAUSE: Duration = Duration::from_millis(100);
const BACKOFF_FLOOR: Duration = Duration::from_millis(50);
const BACKOFF_CEILING: Duration = Duration::from_secs(1);

const POLL: &str = "SELECT r.v, r.epoch, c.compacted, \
       e.kind, e.namespace, e.name, e.uid, e.rv, e.body, e.op::text, e.before \
     FROM (SELECT * FROM rev ORDER BY v DESC LIMIT 1) r CROSS JOIN compaction c \
     LEFT JOIN (SELECT * FROM events WHERE rv > $1 ORDER BY rv LIMIT 1000) e ON true \
     WHERE c.id = 1";
/// The column of [`POLL`] at which those of the event begin.
const FIRST_OF_EVENT: usize = 3;

/// Follows the database until the program ends.
pub(crate) async fn run(cache: Arc<CacheInner>) {
    let mut tail = Tail {
        cache,
        connected: false,
        loaded: false,
        pending_tickets: None,
        server: None,
        recovering: false,
        trusted_connection: None,
        age_goal: None,
        behind_pause: POLL_PAUSE,
    };
    let mut backoff = Backoff::new(BACKOFF_FLOOR, BACKOFF_CEILING);
    while let Err(error) = tail.run_session().await {
        // One lost connection is not reported yet: a new connection may work at once.
        if std::mem::take(&mut tail.connected) {
            backoff.reset();
            continue;
        }
        tracing::warn!(%error, "the database cannot be followed");
        let failed = tail.cache.last_ticket();
        tail.cache.progress.send_modify(|progress| {
            progress.failed = failed;
            progress.trouble = Some(Arc::from(error.to_string()));
        });
        backoff.wait().await;
    }
}

/// What to do after a poll.
enum AfterPoll {
    /// There are more events.
    PollAgain,
    /// Wait for a request or the time of the next poll.
    Wait,
    /// The events after the cache's revision are compacted: fill the cache anew.
    Reload,
}

/// What one poll has read: the head, and the events after the cache's revision.
struct PolledRows {
    rows: Vec<PgRow>,
    /// Whether there may be more events.
    is_full: bool,
}

impl PolledRows {
    async fn read(
        cache: &CacheInner,
        connection: &mut PgConnection,
        after: Revision,
    ) -> Result<Self, sqlx::Error> {
        let mut found = sql::stream(connection, cache.config.prepared, POLL, &[after.into()]);
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while let Some(row) = found.try_next().await? {
            bytes += sql::event_bytes(&row, FIRST_OF_EVENT)?;
            rows.push(row);
            if bytes > POLL_BYTES_MAX {
                return Ok(Self { rows, is_full: true });
            }
        }
        let is_full = rows.len() >= POLL_EVENTS_MAX;
        Ok(Self { rows, is_full })
    }

    /// The rows whose events are applied. A deletion at the end is left for the next poll: it may be the first half of
    /// a move, and between the two halves the object would not exist.
    fn complete(&self) -> impl Iterator<Item = &PgRow> {
        let is_left = |row| self.is_full && sql::is_deletion(row, FIRST_OF_EVENT);
        let left = usize::from(self.rows.last().is_some_and(is_left));
        self.rows.iter().take(self.rows.len().saturating_sub(left))
    }
}

/// Readers that wait until the cache has a revision.
#[derive(Clone, Copy)]
struct PendingTickets {
    goal: Revision,
    /// The newest of their tickets.
    newest: u64,
}

/// A revision that the cache does not have yet, and when the database was asked for it: it was the newest one then.
#[derive(Clone, Copy)]
struct AgeGoal {
    revision: Revision,
    asked: Instant,
}

struct Tail {
    cache: Arc<CacheInner>,
    /// A poll of this session has succeeded.
    connected: bool,
    /// The cache holds a state that belongs to the database's history.
    loaded: bool,
    /// The readers that are answered next.
    pending_tickets: Option<PendingTickets>,
    /// The cache's age is measured with it.
    age_goal: Option<AgeGoal>,
    /// The identity of the server that holds this history, if it is known.
    server: Option<DatabaseIdentity>,
    /// The server was still recovering when it was last asked: its history may go on.
    recovering: bool,
    /// The writer's connection that was open when the history was last compared. Its batches are of the same history.
    trusted_connection: Option<u64>,
    /// The pause before the next poll of a standby that is behind.
    behind_pause: Duration,
}

impl Tail {
    /// Follows over one connection, until it fails.
    async fn run_session(&mut self) -> Result<(), TailError> {
        let mut session = Session::open(&self.cache).await?;
        let result = self.follow(&mut session).await;
        session.close();
        result
    }

    async fn follow(&mut self, session: &mut Session) -> Result<(), TailError> {
        let mut compared = self.identify_server(session).await?;
        loop {
            if !self.loaded {
                // The server's history may still turn into another one. A replica that has not followed it could not
                // notice that afterwards.
                if self.recovering {
                    return Err(TailError::Recovering);
                }
                self.load(session).await?;
                compared = Instant::now();
            }
            let next = with_deadline(self.poll(session)).await?;
            self.connected = true;
            match next {
                AfterPoll::PollAgain => {}
                AfterPoll::Reload => self.loaded = false,
                AfterPoll::Wait => {
                    self.wait().await;
                    if compared.elapsed() >= COMPARE_INTERVAL && self.recovering {
                        compared = self.identify_server(session).await?;
                    } else if compared.elapsed() >= COMPARE_INTERVAL {
                        compared = self.compare_history(session, false).await?;
                    }
                }
            }
        }
    }

    /// Asks the server for its identity, and compares histories. Called again while the server recovers: it may become
    /// a primary.
    async fn identify_server(&mut self, session: &mut Session) -> Result<Instant, TailError> {
        let answer = with_deadline(identity::query(&self.cache, session.primary())).await?;
        self.recovering = answer == IdentityAnswer::Recovering;
        let server = answer.identity();
        let moved = server.is_some() && self.server.is_some() && server != self.server;
        if moved {
            tracing::warn!(was = ?self.server, is = ?server, "another server answers");
        }
        let compared = self.compare_history(session, moved).await?;
        if let Some(server) = &server {
            self.confirm_identity(session, server).await?;
        }
        self.server = server.or(self.server.take());
        Ok(compared)
    }

    /// Applies this replica's own batches until it is time for the next poll: at once if a reader waits, soon if other
    /// replicas have written.
    async fn wait(&mut self) {
        let polled = tokio::time::Instant::now();
        let mut next_poll = polled + self.poll_delay();
        let handover = &self.cache.handover;
        while !handover.take_poll_request() && tokio::time::Instant::now() < next_poll {
            if handover.take_change_notice() || !self.apply_own_batches() {
                next_poll = next_poll.min(polled + POLL_PAUSE);
            }
            if tokio::time::timeout_at(next_poll, handover.notified()).await.is_err() {
                return;
            }
        }
    }

    /// The time until the next poll if nobody requests one. A standby that is known to be behind is polled again soon.
    fn poll_delay(&mut self) -> Duration {
        let behind = {
            let progress = self.cache.progress.borrow();
            progress.committed > progress.revision || self.pending_tickets.is_some()
        };
        if !behind {
            self.behind_pause = POLL_PAUSE;
            return self.cache.config.poll;
        }
        let pause = self.behind_pause;
        self.behind_pause = (pause * 2).min(BEHIND_PAUSE_MAX).min(self.cache.config.poll);
        pause
    }

    /// Applies this replica's own batches to the cache. Stops and returns false at a batch that does not begin at the
    /// cache's revision, or whose connection is not trusted.
    fn apply_own_batches(&self) -> bool {
        for batch in self.cache.handover.drain() {
            let revision = self.cache.read().revision;
            if batch.end <= revision {
                continue;
            }
            if batch.base != revision || self.trusted_connection != Some(batch.connection) {
                return false;
            }
            let events = batch.events.into_iter().filter_map(|event| event.into_event(&self.cache.kinds));
            self.apply(events.collect(), batch.end);
            self.cache.metrics.revision.set(gauge_value(batch.end.0));
            self.cache.progress.send_modify(|progress| {
                progress.revision = batch.end;
                progress.seen = progress.seen.max(batch.end);
                progress.committed = progress.committed.max(batch.end);
            });
        }
        true
    }

    /// Compares the cache's history with the database's. Afterwards they are the same, or the cache counts as empty. A
    /// server that recovers may still reach the same history: until then the tail does not follow it, and keeps the
    /// cache for a later comparison.
    async fn compare_history(&mut self, session: &mut Session, moved: bool) -> Result<Instant, TailError> {
        let connection = session.primary();
        let writer = self.cache.handover.current_connection();
        if self.loaded {
            match with_deadline(divergence::compare(&self.cache, connection, moved)).await? {
                HistoryComparison::Same => self.trusted_connection = Some(writer),
                HistoryComparison::NewEpoch | HistoryComparison::Diverged(_) if self.recovering => {
                    return Err(TailError::Recovering);
                }
                HistoryComparison::NewEpoch => self.invalidate(),
                HistoryComparison::Diverged(why) => {
                    self.cache.metrics.divergences.inc();
                    tracing::error!(why, "history has diverged: a new epoch begins");
                    with_deadline(divergence::begin_epoch(&self.cache, connection)).await?;
                    self.invalidate();
                }
            }
        }
        Ok(Instant::now())
    }

    /// Records the server's identity if the recorded one is another or incomplete. If no replica can compare the
    /// histories, begins a new epoch first.
    async fn confirm_identity(
        &self,
        session: &mut Session,
        server: &DatabaseIdentity,
    ) -> Result<(), TailError> {
        let connection = session.primary();
        if !self.loaded
            && let Some(recorded) = self.unconfirmed_identity(connection, server).await?
        {
            self.cache.metrics.divergences.inc();
            tracing::error!(was = ?recorded, is = ?server, "nobody knows this server's history: a new epoch begins");
            let known = self.cache.newest_known();
            with_deadline(divergence::begin_epoch_after(&self.cache, connection, known, recorded.epoch))
                .await?;
        }
        // Written only if needed: a database that takes no writes now may still be read.
        let recorded = with_deadline(identity::recorded(&self.cache, connection)).await?;
        if recorded.differs_from(server) || recorded.is_incomplete() {
            with_deadline(identity::record(&self.cache, connection)).await?;
        }
        Ok(())
    }

    /// The recorded identity, if it is not this server's and stays so: no other replica compares the histories or
    /// begins a new epoch within [`IDENTITY_DEADLINE`].
    async fn unconfirmed_identity(
        &self,
        connection: &mut PgConnection,
        server: &DatabaseIdentity,
    ) -> Result<Option<RecordedIdentity>, TailError> {
        let until = Instant::now() + IDENTITY_DEADLINE;
        let first = with_deadline(identity::recorded(&self.cache, connection)).await?;
        let mut now = first.clone();
        while now == first && now.differs_from(server) {
            if Instant::now() >= until {
                return Ok(Some(first));
            }
            tokio::time::sleep(IDENTITY_PAUSE).await;
            now = with_deadline(identity::recorded(&self.cache, connection)).await?;
        }
        Ok(None)
    }

    /// Makes the cache serve nobody until it is filled again: its state belongs to a lost history.
    fn invalidate(&mut self) {
        self.loaded = false;
        self.pending_tickets = None;
        self.age_goal = None;
        self.trusted_connection = None;
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
        let ticket = self.cache.last_ticket();
        let generation = self.cache.read().generation + 1;
        let writer = self.cache.handover.current_connection();
        let (head, state) = load::load(&self.cache, &mut session.reading, generation).await?;
        session.until_committed(&self.cache, head).await?;
        let objects: usize = state.kinds.values().map(Objects::len).sum();
        self.cache.note_fill(head.revision);
        let old = std::mem::replace(&mut *self.cache.write(), state);
        self.cache.subscriptions.expire(head.revision);
        self.cache.subscriptions.dispatch(&[], head.revision);
        (self.pending_tickets, self.age_goal) = (None, None);
        if self.cache.primary.is_none() {
            self.cache.set_fresh_as_of(started);
        }
        self.trusted_connection = Some(writer);
        // A standby may be behind the revision that the primary had when the readers asked.
        self.publish(head, head.revision, self.cache.primary.is_none().then_some(ticket));
        self.cache.metrics.fills.inc();
        self.loaded = true;
        tracing::info!(objects, revision = %head.revision, took = ?started.elapsed(), "the cache is filled");
        drop(old);
        Ok(())
    }

    async fn poll(&mut self, session: &mut Session) -> Result<AfterPoll, TailError> {
        let (began, ticket) = (Instant::now(), self.cache.last_ticket());
        let (last, epoch) = {
            let state = self.cache.read();
            (state.revision, state.epoch)
        };
        let counter = match self.ask_primary(session, ticket, last).await? {
            Some(head) if head.epoch != epoch || head.revision < last => {
                self.compare_history(session, false).await?;
                return Ok(AfterPoll::PollAgain);
            }
            counter => counter,
        };
        let horizon = self.cache.horizon();
        let polled = PolledRows::read(&self.cache, &mut session.reading, last).await?;
        let head = Head::read(polled.rows.first().ok_or(sqlx::Error::RowNotFound)?)?;
        let standby = self.cache.primary.is_some();
        // A standby may be behind the cache: behind this replica's own writes, or behind another standby that was read
        // before.
        if head.epoch != epoch || (head.revision < last && !standby) {
            self.compare_history(session, false).await?;
            return if standby && self.loaded {
                Err(TailError::OtherHistory)
            } else {
                Ok(AfterPoll::PollAgain)
            };
        }
        if head.compacted > last {
            return Ok(AfterPoll::Reload);
        }
        if head.revision.min(horizon) > last {
            session.verify_history(&self.cache, head).await?;
        }
        let mut events: Vec<Event> = Vec::with_capacity(polled.rows.len());
        let mut end = last;
        for row in polled.complete() {
            let Some(revision) = sql::event_revision(row, FIRST_OF_EVENT)? else { continue };
            if revision <= horizon {
                end = end.max(revision);
                events.extend(sql::event(&self.cache.kinds, row, FIRST_OF_EVENT)?);
            }
        }
        let revision = if polled.is_full { end } else { head.revision.min(horizon).max(last) };
        self.apply(events, revision);
        self.cache.metrics.polls.inc();
        let counter = if standby { counter.map(|head| head.revision) } else { Some(head.revision) };
        let served = self.settle_tickets(revision, counter, ticket);
        self.measure_age(revision, counter, began);
        self.publish(head, revision, served);
        Ok(if polled.is_full && revision > last { AfterPoll::PollAgain } else { AfterPoll::Wait })
    }

    /// Asks the primary for its newest revision, when a standby is read. This is not needed while three things are
    /// true: a newer revision than the cache's is known, all readers so far are answered or wait for a known revision,
    /// and the cache's age is being measured.
    async fn ask_primary(
        &self,
        session: &mut Session,
        ticket: u64,
        last: Revision,
    ) -> Result<Option<Head>, TailError> {
        let (committed, answered) = {
            let progress = self.cache.progress.borrow();
            (progress.committed, progress.served.max(progress.failed))
        };
        let is_served =
            ticket <= self.pending_tickets.map_or(answered, |pending| pending.newest.max(answered));
        if committed > last && is_served && self.age_goal.is_some() {
            return Ok(None);
        }
        let head = session.primary_head(&self.cache).await?;
        if let Some(head) = head {
            self.cache.note_committed(head.revision);
        }
        Ok(head)
    }

    /// The newest ticket that can be answered: the cache has reached the revision that the database had when the ticket
    /// was the newest. If there is none, the oldest goal stays in `pending_tickets`.
    fn settle_tickets(&mut self, revision: Revision, counter: Option<Revision>, ticket: u64) -> Option<u64> {
        let asked = counter.map(|goal| PendingTickets { goal, newest: ticket });
        let is_reached = |pending: &PendingTickets| revision >= pending.goal;
        let settled = asked.filter(is_reached).or(self.pending_tickets.filter(is_reached));
        let settled = settled.map(|settled| settled.newest);
        self.pending_tickets = match settled {
            Some(settled) => asked.filter(|asked| asked.newest > settled),
            None => self.pending_tickets.or(asked),
        };
        settled
    }

    /// Measures how old the cache may be. While writes go on, the cache never has the database's newest revision. So
    /// one goal is kept until it is reached.
    fn measure_age(&mut self, revision: Revision, counter: Option<Revision>, asked: Instant) {
        self.age_goal = self.age_goal.or(counter.map(|revision| AgeGoal { revision, asked }));
        if let Some(reached) = self.age_goal.take_if(|goal| revision >= goal.revision) {
            self.cache.set_fresh_as_of(reached.asked);
        }
    }

    /// Applies events to the cache, and then sends them to the watches.
    fn apply(&self, mut events: Vec<Event>, revision: Revision) {
        events.sort_by_key(|event| event.entry.revision);
        let now = Instant::now();
        let mut changes = Vec::with_capacity(events.len());
        {
            let mut state = self.cache.write();
            changes.extend(events.into_iter().filter_map(|event| state.apply(event, now)));
            // Before the lock is released: afterwards watches may read the changes from the ring.
            for change in &changes {
                self.cache.note_change(change.new.key.kind, change.revision());
            }
            state.revision = state.revision.max(revision);
            self.cache.metrics.ring_changes.set(gauge_value(state.ring.len()));
            self.cache.metrics.ring_bytes.set(gauge_value(state.ring.bytes()));
            let objects: usize = state.kinds.values().map(Objects::len).sum();
            self.cache.metrics.objects.set(gauge_value(objects));
        }
        self.cache.metrics.events.inc_by(u64::try_from(changes.len()).unwrap_or_default());
        let bytes: usize = changes.iter().map(|change| change.new.body.len()).sum();
        self.cache.event_bytes.fetch_add(u64::try_from(bytes).unwrap_or_default(), Ordering::Relaxed);
        self.cache.subscriptions.dispatch(&changes, revision);
    }

    fn publish(&self, head: Head, revision: Revision, served: Option<u64>) {
        let newest = head.revision.min(self.cache.horizon());
        self.cache.metrics.revision.set(gauge_value(revision.0));
        self.cache.progress.send_if_modified(|progress| {
            let new = TailProgress {
                revision,
                compacted: head.compacted,
                seen: if self.loaded { progress.seen.max(newest) } else { newest },
                // A committed revision of another epoch says nothing about this one.
                committed: if self.loaded { progress.committed } else { newest },
                served: served.unwrap_or(progress.served),
                failed: progress.failed,
                ready: true,
                synced: true,
                trouble: None,
            };
            let lag = newest.max(new.committed).0.saturating_sub(revision.0);
            self.cache.metrics.lag.set(gauge_value(lag));
            let changed = *progress != new;
            *progress = new;
            changed
        });
    }
}
