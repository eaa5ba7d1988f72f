//! Holds, which no object stands for: on growth, after a divergence of history; and of amounts, which count until
//! they are written off.

use crate::audit::operator;
use crate::connect::{self, has_code, unavailable};
use crate::divergence::DIVERGED;
use crate::import::{IMPORTED, IMPORTING};
use crate::store::Store;
use crate::{Access, Error, Revision, functions};
use meta::quantity::{Format, Quantity};
use quota::{Amounts, Claim, HoldState, Scope, ScopeKind};
use sqlx::{AssertSqlSafe, PgConnection};
use std::borrow::Cow;
use std::collections::BTreeMap;
use uuid::Uuid;

/// What `hold_amounts` says while an import is under way.
const UNDER_IMPORT: &str = "SB004";

/// Amounts of a scope without an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The uid of the object that is gone; for an orphan, a uid that names it for good.
    pub uid: Uuid,
    /// The scope that is charged.
    pub scope: Scope,
    /// The place that it keeps, if it has one.
    pub claim: Option<Claim>,
    /// The amounts that count.
    pub amounts: Amounts,
    /// Why it counts.
    pub state: HoldState,
    /// The reason in words, for a person.
    pub reason: String,
}

/// A summary of what is held. It shows to whoever looks often that something has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The hold on growth, if there is one.
    pub growth: Option<GrowthHold>,
    /// The number of holds of amounts, and when the newest was made.
    pub amounts: (i64, String),
}

/// Growth that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrowthHold {
    /// Why.
    pub reason: String,
    /// The epoch in which growth is held: another divergence begins another one.
    pub epoch: Uuid,
    /// Revisions before this one belong to another history.
    pub since: Revision,
}

impl GrowthHold {
    /// Whether it waits for the audit that follows a divergence of history or an import. Otherwise an operator holds it.
    pub fn waits_for_audit(&self) -> bool {
        self.reason == DIVERGED || self.reason == IMPORTED
    }

    /// Whether it is the hold of an import, which ends it itself.
    pub fn is_import(&self) -> bool {
        self.reason == IMPORTING
    }

    /// Whether it is the same one, seen again.
    pub fn is(&self, other: &Self) -> bool {
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
    /// Why growth is held; `None` when it is not.
    pub async fn growth_held(&self, access: &Access) -> Result<Option<String>, Error> {
        Ok(self.growth_hold(access).await?.map(|hold| hold.reason))
    }

    /// The hold on growth, if there is one.
    pub async fn growth_hold(&self, access: &Access) -> Result<Option<GrowthHold>, Error> {
        Ok(self.held(access).await?.growth)
    }

    /// A summary of what is held.
    pub async fn held(&self, access: &Access) -> Result<Held, Error> {
        operator(access)?;
        let mut connection = self.operate().await?;
        // A new epoch begins with a compaction of everything before it.
        let query = "SELECT r.held, r.held_reason, r.epoch, c.compacted, h.rows, h.newest \
             FROM (SELECT * FROM rev ORDER BY v DESC LIMIT 1) r, compaction c, \
               (SELECT count(*) AS rows, coalesce(max(created)::text, '') AS newest FROM holds) h \
             WHERE c.id = 1";
        let (held, reason, epoch, compacted, rows, newest): (bool, String, Uuid, i64, i64, String) =
            sqlx::query_as(query).fetch_one(&mut connection).await.map_err(unavailable)?;
        let since = Revision(u64::try_from(compacted).unwrap_or_default());
        let growth = held.then_some(GrowthHold { reason, epoch, since });
        Ok(Held { growth, amounts: (rows, newest) })
    }

    /// Releases growth, unless history has diverged again since, or somebody holds it for another reason. Returns
    /// whether it did.
    pub async fn release_growth(&self, access: &Access, hold: &GrowthHold) -> Result<bool, Error> {
        operator(access)?;
        let mut connection = self.operate().await?;
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

    /// Holds growth for an operator's reason. A hold that waits for an audit goes on waiting, and is named behind the
    /// reason. False while an import is under way, which holds growth itself.
    pub async fn hold_growth(&self, access: &Access, reason: &str) -> Result<bool, Error> {
        operator(access)?;
        let reason = of_operator(reason);
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
            .execute(&mut self.operate().await?)
            .await
            .map_err(unavailable)?;
        let held = done.rows_affected() == 1;
        if held {
            tracing::warn!(actor = access.actor(), reason = &*reason, "growth is held");
        }
        Ok(held)
    }

    /// Ends an operator's hold on growth; if there is none, whatever holds it. A hold that waits for an audit behind
    /// the operator's reason goes on waiting, and is returned. [`Error::Importing`] while an import is under way: the
    /// charges are not known yet.
    pub async fn go_on(&self, access: &Access) -> Result<Option<String>, Error> {
        operator(access)?;
        let query = "UPDATE rev SET held = held AND (held_reason LIKE '%; ' || $1 OR held_reason LIKE '%; ' || $2), \
               held_reason = CASE WHEN held AND held_reason LIKE '%; ' || $1 THEN $1 \
                                  WHEN held AND held_reason LIKE '%; ' || $2 THEN $2 ELSE '' END \
             WHERE v >= (SELECT max(v) FROM rev) AND NOT (held AND held_reason = $3) RETURNING held_reason";
        let left: Option<String> = sqlx::query_scalar(query)
            .bind(DIVERGED)
            .bind(IMPORTED)
            .bind(IMPORTING)
            .fetch_optional(&mut self.operate().await?)
            .await
            .map_err(unavailable)?;
        let left = left.ok_or(Error::Importing)?;
        let left = (!left.is_empty()).then_some(left);
        tracing::warn!(actor = access.actor(), left, "growth is held by no operator any more");
        Ok(left)
    }

    /// The holds of a scope, or all.
    pub async fn holds(&self, access: &Access, scope: Option<&Scope>) -> Result<Vec<Hold>, Error> {
        operator(access)?;
        let query = "SELECT uid, scope_kind, scope, domain, key, amount::text, place, state, reason FROM holds \
             WHERE $1::smallint IS NULL OR (scope_kind = $1 AND scope = $2) ORDER BY created, uid, domain, key";
        let stored: Vec<HoldRow> = sqlx::query_as(query)
            .bind(scope.map(|scope| scope.kind.0))
            .bind(scope.map(|scope| &scope.name))
            .fetch_all(&mut self.operate().await?)
            .await
            .map_err(unavailable)?;
        let mut holds: BTreeMap<Uuid, Hold> = BTreeMap::new();
        let mut order = Vec::new();
        for row in stored {
            let hold = holds.entry(row.uid).or_insert_with(|| {
                order.push(row.uid);
                row.begin()
            });
            row.add_to(hold)?;
        }
        Ok(order.iter().filter_map(|uid| holds.remove(uid)).collect())
    }

    /// Stops counting a hold: its place is empty, or an operator vouches for it.
    pub async fn write_off(&self, access: &Access, uid: Uuid) -> Result<(), Error> {
        operator(access)?;
        let query = format!("SELECT {}($1, $2)", functions::name("write_off"));
        let rows: i64 = sqlx::query_scalar(AssertSqlSafe(query))
            .bind(self.scope_roles().kinds())
            .bind(uid)
            .fetch_one(&mut self.operate().await?)
            .await
            .map_err(unavailable)?;
        tracing::warn!(actor = access.actor(), %uid, rows, "wrote a hold off");
        if rows == 0 { Err(Error::NotFound) } else { Ok(()) }
    }

    /// Charges amounts that no object stands for to a scope, even above the scope's limits. Doing it again with other
    /// amounts charges those instead. [`Error::NotFound`] when there is no such scope, [`Error::AlreadyExists`] when
    /// its uid is held in another scope, domain or place, or is an object's, [`Error::Importing`] while an import is
    /// under way.
    pub async fn hold(&self, access: &Access, hold: &Hold) -> Result<(), Error> {
        operator(access)?;
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
            .fetch_one(&mut self.operate().await?)
            .await
            .map_err(|error| match error {
                error if has_code(&error, "23505") => Error::AlreadyExists { deleting: false },
                error if has_code(&error, UNDER_IMPORT) => Error::Importing,
                error => unavailable(error),
            })?;
        if found { Ok(()) } else { Err(Error::NotFound) }
    }

    pub(crate) async fn operate(&self) -> Result<PgConnection, Error> {
        connect::connect(self.url(), "store operator").await.map_err(unavailable)
    }
}

/// An operator's reason in a form that is never taken for an import or for a hold that waits for an audit, whatever
/// his words are.
fn of_operator(reason: &str) -> Cow<'_, str> {
    let is_marker = [DIVERGED, IMPORTED, IMPORTING].iter().any(|marker| reason.ends_with(marker));
    if is_marker { Cow::Owned(format!("{reason}, says an operator")) } else { Cow::Borrowed(reason) }
}

impl HoldRow {
    fn begin(&self) -> Hold {
        Hold {
            uid: self.uid,
            scope: Scope::new(ScopeKind(self.scope_kind), self.scope.clone()),
            claim: None,
            amounts: Amounts::new(),
            state: HoldState::parse(&self.state).unwrap_or(HoldState::Abandoned),
            reason: self.reason.clone(),
        }
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
