use crate::batch::{Answer, Place, asked};
use crate::model::{Change, State, Write};
use crate::quota::{Claim, Shortage, Violation};
use crate::tail::handover::Written;
use crate::{Error, Revision};
use meta::quantity::{Format, Quantity};
use serde::Deserialize;
use uuid::Uuid;

/// What one write's place in the answer means.
pub(super) fn of(write: &Write, answer: &Answer, place: Place, scope_kind: i16) -> Result<Revision, Error> {
    let Some(code) = answer.outcome.get(place.outcome) else {
        return Err(Error::Corrupt("an answer without an outcome".to_owned()));
    };
    match code {
        0 => {
            let base = u64::try_from(answer.base).unwrap_or_default();
            let step = u64::try_from(place.revision).unwrap_or_default();
            Ok(Revision(base + step + 1))
        }
        1 => Err(Error::AlreadyExists { deleting: false }),
        2 => Err(Error::AlreadyExists { deleting: true }),
        3 => Err(Error::NotFound),
        4 => Err(Error::Conflict),
        5 => {
            let detail = answer.detail.get(place.outcome).and_then(Option::as_deref).unwrap_or_default();
            let told: Vec<Told> = serde_json::from_str(detail)
                .map_err(|error| Error::Corrupt(format!("violations: {error}")))?;
            let own = write.key.kind.0 == scope_kind;
            let violations: Result<Vec<_>, _> = told.into_iter().map(|t| t.violation(write, own)).collect();
            Err(Error::Refused(violations?))
        }
        6 => Err(Error::Held),
        other => Err(Error::Corrupt(format!("outcome {other}"))),
    }
}

/// The events of a write that was made.
pub(super) fn written(write: Write, base: i64, place: Place) -> impl Iterator<Item = Written> {
    let revision = |index: usize| {
        Revision(u64::try_from(base).unwrap_or_default() + u64::try_from(index).unwrap_or_default() + 1)
    };
    let Write { key, uid, change, .. } = write;
    let of = |key, at, state: State, deleted, before| Written {
        key,
        uid,
        revision: revision(at),
        body: state.body,
        deleted,
        before,
    };
    let (first, second) = match change {
        Change::Create(state) => (of(key, place.outcome, state, false, None), None),
        Change::Update { before, state, .. } => (of(key, place.outcome, state, false, Some(before)), None),
        Change::Delete { before, last, .. } => (of(key, place.outcome, last, true, Some(before)), None),
        Change::Move { before, last, to, state, .. } => {
            let made = of(to, place.revision, state, false, None);
            (of(key, place.outcome, last, true, Some(before)), Some(made))
        }
    };
    std::iter::once(first).chain(second)
}

/// A violation as the function tells it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Told {
    kind: String,
    scope: String,
    cluster: String,
    namespace: String,
    resource: String,
    requested: String,
    hard: String,
    allocated: String,
    would_fit: String,
    children: i64,
    holder: Uuid,
}

impl Told {
    fn violation(self, write: &Write, own: bool) -> Result<Violation, Error> {
        let Self { scope, cluster, resource, children, .. } = self;
        Ok(match &*self.kind {
            "DoesNotFit" | "BelowAllocated" => {
                let limit = own && self.kind == "BelowAllocated";
                let format = asked(write.quota.as_ref(), limit, &cluster, &resource)
                    .map_or(Format::DecimalSi, |quantity| quantity.format());
                let amount = |nanos: &str| {
                    Quantity::from_nanos_text(nanos, format)
                        .map_err(|error| Error::Corrupt(format!("amount {nanos:?}: {error}")))
                };
                let requested = amount(&self.requested)?;
                let hard = amount(&self.hard)?;
                let allocated = amount(&self.allocated)?;
                let would_fit = amount(&self.would_fit)?;
                let shortage = Shortage { scope, cluster, resource, requested, hard, allocated, would_fit };
                if limit { Violation::BelowAllocated(shortage) } else { Violation::DoesNotFit(shortage) }
            }
            "KeyMissing" => Violation::KeyMissing { scope, cluster, resource },
            "ChildrenLackKey" => Violation::ChildrenLackKey { scope, cluster, resource, children },
            "ClusterNotListed" => Violation::ClusterNotListed { scope, cluster },
            "ClusterInUse" => Violation::ClusterInUse { scope, cluster, children },
            "ScopeMissing" => Violation::ScopeMissing { scope },
            "ScopeForeign" => Violation::ScopeForeign { scope },
            "ScopeTerminating" => Violation::ScopeTerminating { scope },
            "ScopeLocked" => Violation::ScopeLocked { scope },
            "AncestorMissing" => Violation::AncestorMissing { scope },
            "Cycle" => Violation::Cycle { scope },
            "TooManyChildren" => Violation::TooManyChildren { scope, children_max: children },
            "ScopeInUse" => Violation::ScopeInUse { scope, children },
            "ClaimTaken" => Violation::ClaimTaken {
                claim: Claim { cluster, namespace: self.namespace },
                holder: self.holder,
            },
            other => return Err(Error::Corrupt(format!("violation {other:?}"))),
        })
    }
}
