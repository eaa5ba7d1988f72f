use crate::batch::BatchAnswer;
use crate::model::{Change, Write};
use crate::tail::handover::{AcknowledgedWrite, WrittenEvent};
use crate::{Error, Revision};
use meta::quantity::{Format, Quantity, ResourceList};
use quota::{Claim, Scope, ScopeKind, Shortage, Violation};
use serde::Deserialize;
use std::sync::Arc;
use uuid::Uuid;

/// The result of each write of an answered batch.
pub(super) fn results_of_batch<'w>(
    writes: impl IntoIterator<Item = &'w Write>,
    answer: &BatchAnswer,
) -> Vec<Result<Revision, Error>> {
    let mut entries = 0_usize;
    let mut results = Vec::new();
    for write in writes {
        results.push(result_of(write, answer, entries));
        entries = entries.saturating_add(write.change.revision_count());
    }
    results
}

/// The result of the write whose entries begin at `first`.
pub(super) fn result_of(write: &Write, answer: &BatchAnswer, first: usize) -> Result<Revision, Error> {
    let last = first.saturating_add(write.change.revision_count()).saturating_sub(1);
    let Some(code) = answer.outcome.get(last) else {
        return Err(Error::Corrupt("an answer without an outcome".to_owned()));
    };
    match code {
        0 => {
            let base = u64::try_from(answer.base).unwrap_or_default();
            let step = u64::try_from(last).unwrap_or_default();
            Ok(Revision(base + step + 1))
        }
        1 => Err(Error::AlreadyExists { deleting: false }),
        2 => Err(Error::AlreadyExists { deleting: true }),
        3 => Err(Error::NotFound),
        4 => Err(Error::Conflict),
        5 => {
            let detail = answer.detail.get(last).and_then(Option::as_deref).unwrap_or_default();
            let rows: Vec<ViolationRow> = serde_json::from_str(detail)
                .map_err(|error| Error::Corrupt(format!("violations: {error}")))?;
            let violations: Result<Vec<_>, _> =
                rows.into_iter().map(|row| row.into_violation(write)).collect();
            Err(Error::Refused(violations?))
        }
        6 => Err(Error::Held),
        7 => Err(Error::Importing),
        other => Err(Error::Corrupt(format!("outcome {other}"))),
    }
}

/// A write that was made, for [`Handover::acknowledge`](crate::tail::handover::Handover::acknowledge).
pub(super) fn acknowledged_write(write: &Write, revision: Revision, connection: u64) -> AcknowledgedWrite {
    let (state, deleted) = match &write.change {
        Change::Create(state) | Change::Update { state, .. } | Change::Move { state, .. } => (state, false),
        Change::Delete { last, .. } => (last, true),
    };
    AcknowledgedWrite { connection, revision, uid: write.uid, deleted, body: Arc::from(&*state.body) }
}

/// The events of a write that was made; `revision` is that of the last one.
pub(super) fn written_events(write: Write, revision: Revision) -> impl Iterator<Item = WrittenEvent> {
    let Write { key, uid, change, .. } = write;
    let event = |key, body, before| WrittenEvent { key, uid, revision, body, deleted: false, before };
    let (left, newest) = match change {
        Change::Create(state) => (None, event(key, state.body, None)),
        Change::Update { before, state, .. } => (None, event(key, state.body, Some(before.attributes))),
        Change::Delete { before, last, .. } => {
            let deletion = event(key, last.body, Some(before.attributes));
            (None, WrittenEvent { deleted: true, ..deletion })
        }
        Change::Move { to, before, last, state, .. } => {
            let revision = Revision(revision.0.saturating_sub(1));
            let deletion = event(key, last, Some(before.attributes));
            (Some(WrittenEvent { revision, deleted: true, ..deletion }), event(to, state.body, None))
        }
    };
    left.into_iter().chain(std::iter::once(newest))
}

/// A violation as the function returns it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ViolationRow {
    kind: String,
    scope_kind: i16,
    scope: String,
    domain: String,
    place: String,
    key: String,
    requested: String,
    hard: String,
    allocated: String,
    would_fit: String,
    children: i64,
    holder: Uuid,
}

impl ViolationRow {
    fn into_violation(self, write: &Write) -> Result<Violation, Error> {
        let after = write.change.after();
        match &*self.kind {
            "DoesNotFit" => {
                let costs = after.and_then(|after| after.costs.get(&self.domain));
                return self.into_shortage(costs).map(Violation::DoesNotFit);
            }
            "BelowAllocated" => {
                let grants = after.and_then(|after| after.grants.as_ref());
                let limits = grants.and_then(|grants| grants.domains.get(&self.domain));
                return self.into_shortage(limits.map(|limits| &limits.hard)).map(Violation::BelowAllocated);
            }
            _ => {}
        }
        let Self { domain, key, children, .. } = self;
        let scope = Scope::new(ScopeKind(self.scope_kind), self.scope);
        Ok(match &*self.kind {
            "KeyMissing" => Violation::KeyMissing { scope, domain, key },
            "ChildrenLackKey" => Violation::ChildrenLackKey { scope, domain, key, children },
            "DomainNotListed" => Violation::DomainNotListed { scope, domain },
            "DomainInUse" => Violation::DomainInUse { scope, domain, children },
            "ScopeMissing" => Violation::ScopeMissing { scope },
            "ScopeForeign" => Violation::ScopeForeign { scope },
            "ScopeTerminating" => Violation::ScopeTerminating { scope },
            "ScopeLocked" => Violation::ScopeLocked { scope },
            "AncestorMissing" => Violation::AncestorMissing { scope },
            "Cycle" => Violation::Cycle { scope },
            "TooManyChildren" => Violation::TooManyChildren { scope, children_max: children },
            "ScopeOverdrawn" => Violation::ScopeOverdrawn { scope },
            "ScopeInUse" => Violation::ScopeInUse { scope, children },
            "ClaimTaken" => {
                Violation::ClaimTaken { claim: Claim { domain, place: self.place }, holder: self.holder }
            }
            other => return Err(Error::Corrupt(format!("violation {other:?}"))),
        })
    }

    /// The shortage. Its amounts are printed with the same family of suffixes as the requested one.
    fn into_shortage(self, requested: Option<&ResourceList>) -> Result<Shortage, Error> {
        let Self { domain, key, .. } = self;
        let requested = requested.and_then(|amounts| amounts.get(&key));
        let format = requested.map_or(Format::DecimalSi, |quantity| quantity.format());
        // A sum of amounts that no limit has checked, such as those of an import, may exceed the largest quantity.
        let most = Quantity::MAX.nanos();
        let amount = |text: &str| match text.parse::<i128>() {
            Ok(nanos) => Ok(Quantity::from_nanos(nanos.clamp(-most, most), format)),
            Err(error) => Err(Error::Corrupt(format!("amount {text:?}: {error}"))),
        };
        Ok(Shortage {
            scope: Scope::new(ScopeKind(self.scope_kind), self.scope),
            domain,
            key,
            requested: amount(&self.requested)?,
            hard: amount(&self.hard)?,
            allocated: amount(&self.allocated)?,
            would_fit: amount(&self.would_fit)?,
        })
    }
}
