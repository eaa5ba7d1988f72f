//! Holds. A hold on growth refuses all growth, for example after a divergence of history. A hold of amounts counts
//! against a scope without an object, until it is written off.

use crate::audit::require_operator;
use crate::connect::{self, has_code, unavailable};
use crate::divergence::DIVERGED;
use crate::import::{IMPORTED, IMPORTING};
use crate::store::Store;
use crate::{Access, Error, Revision, functions};
use meta::quantity::{Format, Quantity};
use quota::{Amounts, Claim, HoldState, Scope, ScopeKind};
use sqlx::{AssertSqlSafe, PgConnection};
use std::borrow::Cow;
use std::collections::{BTreeMap, btree_map};
use uuid::Uuid;

/// The error of `hold_amounts` while an import is under way.
const IMPORT_UNDER_WAY: &str = "SB004";

/// Amounts that count against a scope without an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The uid of the object that is gone. For an orphan: a uid that identifies it for ever.
    pub uid: Uuid,
    /// The scope that is charged.
    pub scope: Scope,
    /// The place that it still claims, if it has one.
    pub claim: Option<Claim>,
    /// The amounts that count.
    pub amounts: Amounts,
    /// Why they count.
    pub state: HoldState,
    /// The reason as a text for people.
    pub reason: String,
}

/// A summary of all holds. Whoever compares it with an earlier one sees whether something has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldSummary {
    /// The hold on growth, if there is one.
    pub growth: Option<GrowthHold>,
    /// The holds of amounts.
    pub amounts: HoldRows,
}

/// A summary of the rows of all holds of amounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRows {
    /// Their number.
    pub count: i64,
    /// When the newest one was made, as PostgreSQL writes a timestamp; empty if there are none.
    pub newest: String,
}

/// The hold on growth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrowthHold {
    /// Why.
    pub reason: String,
    /// The epoch in which growth is held. Another divergence begins another epoch.
    pub epoch: Uuid,
    /// Revisions before this one belong to another history.
    pub since: Revision,
}

impl GrowthHold {
    /// Whether it waits for the audit that follows a divergence of history or an import.
    pub fn waits_for_audit(&self) -> bool {
        self.reason == DIVERGED || self.reason == IMPORTED
    }

    /// Whether it is the hold of a running import, which ends the hold itself.
    pub fn is_import(&self) -> bool {
        self.reason == IMPORTING
    }

    /// Whether both are the same hold.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.epoch == other.epoch && self.reason == other.reason
    }
}

struct HoldRow {
    uid: Uuid,
    scope_kind: i16,
    scope: String,
    domain: String,
    key: String,
    amount: String,
    place: String,
    state: String,
    reason: String,
}

crate::row::columns!(HoldRow { uid, scope_kind, scope, domain, key, amount, place, state, reason });

impl Store {
    /// Why growth is held; `None` if it is not.
    pub async fn growth_held(&self, access: &Access) -> Result<Option<String>, Error> {
        Ok(self.growth_hold(access).await?.map(|hold| hold.reason))
    }

    /// The hold on growth, if there is one.
    pub async fn growth_hold(&self, access: &Access) -> Result<Option<GrowthHold>, Error> {
        Ok(self.hold_summary(access).await?.growth)
    }

    /// A summary of all holds.
    pub async fn hold_summary(&self, access: &Access) -> Result<HoldSummary, Error> {
        require_operator(access)?;
        let mut connection = self.operator_connection().await?;
        // A new epoch begins with a compaction of everything before it. Later ones go further.
        let query = "SELECT r.held, r.held_reason, r.epoch, \
               CASE WHEN c.epoch = r.epoch THEN c.epoch_start ELSE c.compacted END, h.rows, h.newest \
             FROM (SELECT * FROM rev ORDER BY v DESC LIMIT 1) r, compaction c, \
               (SELECT count(*) AS rows, coalesce(max(created)::text, '') AS newest FROM holds) h \
             WHERE c.id = 1";
        let (held, reason, epoch, since, count, newest): (bool, String, Uuid, i64, i64, String) =
            sqlx::query_as(query).fetch_one(&mut connection).await.map_err(unavailable)?;
        let since = Revision(u64::try_from(since).unwrap_or_default());
        let growth = held.then_some(GrowthHold { reason, epoch, since });
        Ok(HoldSummary { growth, amounts: HoldRows { count, newest } })
    }

    /// Ends this hold on growth. Returns false if it is not the current one: history has diverged again, or growth is
    /// held for another reason.
    pub async fn release_growth(&self, access: &Access, hold: &GrowthHold) -> Result<bool, Error> {
        require_operator(access)?;
        let mut connection = self.operator_connection().await?;
        let query = "UPDATE rev SET held = false, held_reason = '' \
             WHERE v >= (SELECT max(v) FROM rev) AND held AND epoch = $1 AND held_reason = $2";
        let done = sqlx::query(query)
            .bind(hold.epoch)
            .bind(&hold.reason)
            .execute(&mut connection)
            .await
            .map_err(unavailable)?;
        let released = done.rows_affected() == 1;
        if released {
            tracing::warn!(actor = access.actor(), reason = hold.reason, "growth goes on");
        }
        Ok(released)
    }

    /// Holds growth for an operator's reason. A hold that waits for an audit stays, and its reason is appended to the
    /// operator's. False while an import is under way, which holds growth itself.
    pub async fn hold_growth(&self, access: &Access, reason: &str) -> Result<bool, Error> {
        require_operator(access)?;
        let reason = operator_reason(reason);
        let query = "UPDATE rev SET held = true, held_reason = $1 || CASE \
               WHEN held AND held_reason IN ($2, $3) THEN '; ' || held_reason \
               WHEN held AND held_reason LIKE '%; ' || $2 THEN '; ' || $2 \
               WHEN held AND held_reason LIKE '%; ' || $3 THEN '; ' || $3 \
               ELSE '' END \
             WHERE v >= (SELECT max(v) FROM rev) AND NOT (held AND held_reason = $4)";
        let done = sqlx::query(query)
            .bind(&*reason)
            .bind(DIVERGED)
            .bind(IMPORTED)
            .bind(IMPORTING)
            .execute(&mut self.operator_connection().await?)
            .await
            .map_err(unavailable)?;
        let held = done.rows_affected() == 1;
        if held {
            tracing::warn!(actor = access.actor(), reason = &*reason, "growth is held");
        }
        Ok(held)
    }

    /// Ends an operator's hold on growth or, if there is none, any other hold on it. A hold that waits for an audit
    /// behind the operator's reason stays, and its reason is returned. [`Error::Importing`] while an import is under
    /// way: the charges are not known yet.
    pub async fn resume_growth(&self, access: &Access) -> Result<Option<String>, Error> {
        require_operator(access)?;
        let query = "UPDATE rev SET held = held AND (held_reason LIKE '%; ' || $1 OR held_reason LIKE '%; ' || $2), \
               held_reason = CASE WHEN held AND held_reason LIKE '%; ' || $1 THEN $1 \
                                  WHEN held AND held_reason LIKE '%; ' || $2 THEN $2 ELSE '' END \
             WHERE v >= (SELECT max(v) FROM rev) AND NOT (held AND held_reason = $3) RETURNING held_reason";
        let left: Option<String> = sqlx::query_scalar(query)
            .bind(DIVERGED)
            .bind(IMPORTED)
            .bind(IMPORTING)
            .fetch_optional(&mut self.operator_connection().await?)
            .await
            .map_err(unavailable)?;
        let left = left.ok_or(Error::Importing)?;
        let left = (!left.is_empty()).then_some(left);
        tracing::warn!(actor = access.actor(), left, "growth is held by no operator any more");
        Ok(left)
    }

    /// The holds of amounts, of one scope or of all, in the order in which they were made.
    pub async fn holds(&self, access: &Access, scope: Option<&Scope>) -> Result<Vec<Hold>, Error> {
        require_operator(access)?;
        let query = "SELECT uid, scope_kind, scope, domain, key, amount::text, place, state, reason FROM holds \
             WHERE $1::smallint IS NULL OR (scope_kind = $1 AND scope = $2) ORDER BY created, uid, domain, key";
        let stored: Vec<HoldRow> = sqlx::query_as(query)
            .bind(scope.map(|scope| scope.kind.0))
            .bind(scope.map(|scope| &scope.name))
            .fetch_all(&mut self.operator_connection().await?)
            .await
            .map_err(unavailable)?;
        let mut holds: BTreeMap<Uuid, Hold> = BTreeMap::new();
        let mut order = Vec::new();
        for row in stored {
            let hold = match holds.entry(row.uid) {
                btree_map::Entry::Occupied(known) => known.into_mut(),
                btree_map::Entry::Vacant(new) => {
                    order.push(row.uid);
                    new.insert(row.to_hold()?)
                }
            };
            row.add_to(hold)?;
        }
        Ok(order.iter().filter_map(|uid| holds.remove(uid)).collect())
    }

    /// Writes a hold off, so that it no longer counts: its place is empty, or an operator says so. [`Error::NotFound`]
    /// if there is no hold with this uid.
    pub async fn write_off(&self, access: &Access, uid: Uuid) -> Result<(), Error> {
        require_operator(access)?;
        let query = format!("SELECT {}($1, $2)", functions::name("write_off"));
        let rows: i64 = sqlx::query_scalar(AssertSqlSafe(query))
            .bind(self.scope_roles().kinds())
            .bind(uid)
            .fetch_one(&mut self.operator_connection().await?)
            .await
            .map_err(unavailable)?;
        tracing::warn!(actor = access.actor(), %uid, rows, "wrote a hold off");
        if rows == 0 { Err(Error::NotFound) } else { Ok(()) }
    }

    /// Charges the amounts of a hold to its scope, even above the scope's limits. A second call for the same uid
    /// replaces the amounts. [`Error::NotFound`] if the scope does not exist. [`Error::AlreadyExists`] if the uid has a
    /// hold in another scope, domain or place, or is the uid of an object. [`Error::Importing`] while an import is
    /// under way.
    pub async fn hold(&self, access: &Access, hold: &Hold) -> Result<(), Error> {
        require_operator(access)?;
        let (mut domains, mut keys, mut amounts) = (vec![""], vec![""], vec!["0".to_owned()]);
        for (domain, list) in &hold.amounts {
            let whole = std::iter::once(("", "0".to_owned()));
            for (key, amount) in whole.chain(list.iter().map(|(key, amount)| (&**key, amount.nanos_text()))) {
                domains.push(domain);
                keys.push(key);
                amounts.push(amount);
            }
        }
        let query = format!(
            "SELECT {}($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12::text[]::numeric[])",
            functions::name("hold_amounts")
        );
        let (domain, place) =
            hold.claim.as_ref().map_or(("", ""), |claim| (claim.domain.as_str(), claim.place.as_str()));
        let found: bool = sqlx::query_scalar(AssertSqlSafe(query))
            .bind(self.scope_roles().kinds())
            .bind(self.scope_roles().required())
            .bind(hold.uid)
            .bind(hold.scope.kind.0)
            .bind(&hold.scope.name)
            .bind(hold.state.as_str())
            .bind(&hold.reason)
            .bind(domain)
            .bind(place)
            .bind(domains)
            .bind(keys)
            .bind(amounts)
            .fetch_one(&mut self.operator_connection().await?)
            .await
            .map_err(|error| match error {
                error if has_code(&error, "23505") => Error::AlreadyExists { deleting: false },
                error if has_code(&error, IMPORT_UNDER_WAY) => Error::Importing,
                error => unavailable(error),
            })?;
        if found { Ok(()) } else { Err(Error::NotFound) }
    }

    pub(crate) async fn operator_connection(&self) -> Result<PgConnection, Error> {
        connect::connect(self.url(), "store operator").await.map_err(unavailable)
    }
}

/// An operator's reason in a form that is never taken for the reason of an import or of a hold that waits for an audit.
fn operator_reason(reason: &str) -> Cow<'_, str> {
    let is_marker = [DIVERGED, IMPORTED, IMPORTING].iter().any(|marker| reason.ends_with(marker));
    if is_marker { Cow::Owned(format!("{reason}, says an operator")) } else { Cow::Borrowed(reason) }
}

impl HoldRow {
    fn to_hold(&self) -> Result<Hold, Error> {
        let state = HoldState::parse(&self.state)
            .ok_or_else(|| Error::Corrupt(format!("hold {}: unknown state {:?}", self.uid, self.state)))?;
        Ok(Hold {
            uid: self.uid,
            scope: Scope::new(ScopeKind(self.scope_kind), self.scope.clone()),
            claim: None,
            amounts: Amounts::new(),
            state,
            reason: self.reason.clone(),
        })
    }

    fn add_to(self, hold: &mut Hold) -> Result<(), Error> {
        if self.domain.is_empty() {
            return Ok(());
        }
        if !self.place.is_empty() {
            hold.claim = Some(Claim { domain: self.domain.clone(), place: self.place });
        }
        let amounts = hold.amounts.entry(self.domain).or_default();
        if !self.key.is_empty() {
            let amount = Quantity::from_nanos_text(&self.amount, Format::DecimalSi)
                .map_err(|error| Error::Corrupt(format!("hold {}: {error}", hold.uid)))?;
            amounts.insert(self.key, amount);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_of_an_unknown_state_is_an_error() {
        let state_of = |state: &str| {
            let row = HoldRow {
                uid: Uuid::nil(),
                scope_kind: 1,
                scope: "p".to_owned(),
                domain: String::new(),
                key: String::new(),
                amount: "0".to_owned(),
                place: String::new(),
                state: state.to_owned(),
                reason: String::new(),
            };
            row.to_hold().map(|hold| hold.state)
        };
        for state in HoldState::ALL {
            assert_eq!(state_of(state.as_str()).unwrap(), state);
        }
        assert!(matches!(state_of("asleep"), Err(Error::Corrupt(_))));
    }
}
