use super::rows::{ClaimArrays, LedgerArrays, ScopeArrays, element_mut, require_name, to_i32};
use crate::Error;
use crate::model::{KindId, Write};
use crate::scopes::ScopeRoles;
use meta::quantity::{Quantity, ResourceList};
use quota::{Account, Grants, Limits as DomainLimits, Scope, Undercut};
use serde::{Serialize, Serializer};
use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use std::collections::{BTreeMap, BTreeSet};

/// The changes that the writes of a batch make to quota: as sums, and write by write.
#[derive(Debug)]
pub(crate) struct QuotaChanges<'a> {
    scopes: ScopeArrays<'a>,
    rows: LedgerArrays<'a>,
    claims: ClaimArrays<'a>,
    detail: Detail<'a>,
    /// No write depends on another one of the batch, so the sums suffice to decide it (`p_together` of the function).
    independent: bool,
    /// Some write raises a charge or a limit.
    grows: bool,
}

/// The JSON argument of `decide_each`. Amounts are texts there, so that no digit is lost. They are formatted only when
/// the argument is sent: most batches are decided without it.
#[derive(Debug, Default, Serialize)]
struct Detail<'a> {
    q_entry: Vec<i32>,
    q_own: Vec<i32>,
    q_scope: Vec<i32>,
    q_fresh: Vec<bool>,
    q_grows: Vec<bool>,
    q_keyed: Vec<bool>,
    q_raises: Vec<bool>,
    q_hold: Vec<Option<&'static str>>,
    q_why: Vec<Option<&'a str>>,
    q_term: Vec<i32>,
    q_limit: Vec<i32>,
    q_place: Vec<i32>,
    t_row: Vec<i32>,
    #[serde(serialize_with = "as_texts")]
    t_own: Vec<i128>,
    #[serde(serialize_with = "as_texts")]
    t_delta: Vec<i128>,
    t_child: Vec<i32>,
    t_carried: Vec<bool>,
    t_lists: Vec<bool>,
    h_row: Vec<i32>,
    h_hard: Vec<Option<String>>,
    h_listed: Vec<bool>,
    h_mandatory: Vec<bool>,
    h_undercut: Vec<i16>,
    w_place: Vec<i32>,
}

fn as_texts<S: Serializer>(amounts: &[i128], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(amounts.iter().map(ToString::to_string))
}

/// What one write does to one row of the ledger.
struct LedgerTerm<'a> {
    domain: &'a str,
    key: &'a str,
    /// The amount before the write.
    own: i128,
    delta: i128,
    /// Whether the object counted in the row before the write.
    had: bool,
    /// Whether it counts there afterwards.
    has: bool,
    /// Whether the scope must list the domain.
    lists: bool,
}

impl<'a> LedgerTerm<'a> {
    /// The term of the row that stands for a domain or, without one, for the scope: it has no amount.
    fn of_child(domain: &'a str, had: bool, has: bool) -> Self {
        Self { domain, key: "", own: 0, delta: 0, had, has, lists: false }
    }

    /// The change of the number of children in the row.
    fn child_delta(&self) -> i32 {
        i32::from(self.has) - i32::from(self.had)
    }
}

/// The rules by which a write is charged.
struct ChargeRules<'w> {
    scope_roles: &'w ScopeRoles,
    /// Domains in which the charge may grow only if the scope lists them.
    within: &'w [String],
    /// The domains of `within` in which the object grants more than before.
    raised: BTreeSet<&'w str>,
}

impl ChargeRules<'_> {
    /// Marks the terms whose domain the scope must list.
    fn require_listings(&self, scope: &Scope, terms: &mut [LedgerTerm<'_>]) {
        let is_open = self.scope_roles.is_open(scope);
        let grows = |term: &&LedgerTerm<'_>| term.delta > 0 && !self.within.is_empty();
        let grown: BTreeSet<&str> = terms.iter().filter(grows).map(|term| term.domain).collect();
        for term in terms.iter_mut().filter(|term| term.key.is_empty() && !term.domain.is_empty() && term.has)
        {
            let joins = term.child_delta() > 0;
            let is_bound = self.within.iter().any(|domain| domain == term.domain);
            term.lists = joins && !is_open
                || is_bound && (joins || grown.contains(term.domain) || self.raised.contains(term.domain));
        }
    }
}

/// The new values of a row that holds a limit.
struct NewLimit {
    hard: Option<String>,
    listed: bool,
    mandatory: bool,
    undercut: Undercut,
}

/// What a write does in the scope that it pays.
#[derive(Clone, Copy, Default)]
struct Effect {
    /// The object is new in the scope.
    fresh: bool,
    /// An amount rises, or a domain is new.
    grows: bool,
    /// The keys that the object carries change, so mandatory keys must be checked.
    keyed: bool,
}

impl<'a> QuotaChanges<'a> {
    pub(super) fn new() -> Self {
        let (scopes, rows, claims) =
            (ScopeArrays::default(), LedgerArrays::default(), ClaimArrays::default());
        Self { scopes, rows, claims, detail: Detail::default(), independent: true, grows: false }
    }

    /// Adds the write with this entry number.
    pub(super) fn push(
        &mut self,
        write: &'a Write,
        entry: i32,
        scope_roles: &ScopeRoles,
    ) -> Result<(), Error> {
        let (before, after) = (write.change.before(), write.change.after());
        let own = self.own_scope(write, before, after, scope_roles)?;
        let grants = |account: Option<&'a Account>| account.and_then(|account| account.grants.as_ref());
        let within = write.growth.within();
        let bound = |domain: &&str| within.iter().any(|one| one == domain);
        let raised = Grants::raised_domains(grants(before), grants(after)).filter(bound).collect();
        let rules = ChargeRules { scope_roles, within, raised };
        let (scope, effect) = self.charge(before, after, &rules)?;
        // An object that neither stands for a scope nor pays one is a source of capacity. Raising its grants is not
        // growth; using them is.
        let is_source = own == 0 && paid_scope(after).is_none();
        let raises = !is_source && Grants::is_raised(grants(before), grants(after));
        // Deleting the object that stands for a scope deletes the scope's rows, unless the scope exists without an
        // object.
        let stays = scope_roles.of(write.key.kind).is_some_and(|role| !role.required);
        if after.is_some() || own == 0 || stays {
            self.change_limits(grants(before), grants(after))?;
        }
        if let Some(before) = before.filter(|_| after.is_none() && own > 0) {
            self.include_parent_rows(before);
        }
        self.change_claims(write, entry)?;
        self.grows |= effect.grows || raises;
        self.independent &= write.hold.is_none();
        let detail = &mut self.detail;
        detail.q_entry.push(entry);
        detail.q_own.push(own);
        detail.q_scope.push(scope);
        detail.q_fresh.push(effect.fresh);
        detail.q_grows.push(effect.grows);
        detail.q_keyed.push(effect.keyed);
        detail.q_raises.push(raises);
        detail.q_hold.push(write.hold.as_ref().map(|held| held.state.as_str()));
        detail.q_why.push(write.hold.as_ref().map(|held| held.reason.as_str()));
        detail.q_term.push(to_i32(detail.t_row.len()));
        detail.q_limit.push(to_i32(detail.h_row.len()));
        detail.q_place.push(to_i32(detail.w_place.len()));
        Ok(())
    }

    /// Includes the rows of the parent scope when a scope is deleted, even if the scope itself pays nothing. Its excess
    /// counts there, and once the scope's rows are gone, nothing leads to the parent any more.
    fn include_parent_rows(&mut self, before: &'a Account) {
        let (Some(above), Some(grants)) = (&before.pays, &before.grants) else { return };
        let index = self.scopes.index_of(above, &mut self.rows);
        for (domain, limits) in &grants.domains {
            for key in limits.hard.keys() {
                self.rows.index_of(index, domain, key);
            }
        }
    }

    /// The index of the scope that the object stands for; 0 if it stands for none.
    fn own_scope(
        &mut self,
        write: &'a Write,
        before: Option<&'a Account>,
        after: Option<&'a Account>,
        scope_roles: &ScopeRoles,
    ) -> Result<i32, Error> {
        let Some(role) = scope_roles.of(write.key.kind) else { return Ok(0) };
        if write.change.destination().is_some() {
            return Err(Error::Corrupt(format!("{} stands for a scope and cannot move", write.key.name)));
        }
        let grants = after.or(before).and_then(|account| account.grants.as_ref());
        let stands_for = |scope: &&Scope| scope.kind == role.scope && *scope.name == *write.key.name;
        let Some(scope) = grants.map(|grants| &grants.scope).filter(stands_for) else {
            return Err(Error::Corrupt(format!(
                "{} stands for a scope and does not grant to it",
                write.key.name
            )));
        };
        let index = self.scopes.index_of(scope, &mut self.rows);
        let state = &write.change.state().account;
        if let Some(shut) = element_mut(&mut self.scopes.shut, index) {
            *shut |= state.deleting || state.locked;
        }
        let moves = matches!((before, after), (Some(before), Some(after)) if before.pays != after.pays);
        self.independent &= !moves && after.is_some();
        Ok(index)
    }

    /// The index of the scope that the object pays afterwards, and what the change does there.
    fn charge(
        &mut self,
        before: Option<&'a Account>,
        after: Option<&'a Account>,
        rules: &ChargeRules<'_>,
    ) -> Result<(i32, Effect), Error> {
        match (paid_scope(before), paid_scope(after)) {
            (Some((before, from)), Some((after, to))) if from == to => {
                self.add_terms(to, Some(before), Some(after), rules)
            }
            (before, after) => {
                if let Some((before, from)) = before {
                    self.add_terms(from, Some(before), None, rules)?;
                }
                match after {
                    Some((after, to)) => self.add_terms(to, None, Some(after), rules),
                    None => Ok((0, Effect::default())),
                }
            }
        }
    }

    fn add_terms(
        &mut self,
        scope: &'a Scope,
        before: Option<&'a Account>,
        after: Option<&'a Account>,
        rules: &ChargeRules<'_>,
    ) -> Result<(i32, Effect), Error> {
        let mut terms = ledger_terms(before, after)?;
        rules.require_listings(scope, &mut terms);
        let fresh = before.is_none() && after.is_some();
        let grows = terms.iter().any(|t| t.delta > 0 || (t.key.is_empty() && t.child_delta() > 0));
        let keyed = terms.iter().any(|t| t.child_delta() != 0 && after.is_some());
        let effect = Effect { fresh, grows: fresh || grows, keyed: fresh || keyed };
        let wanted: Vec<_> = terms
            .into_iter()
            .filter(|t| effect.keyed || t.delta != 0 || t.child_delta() != 0 || t.lists)
            .collect();
        if wanted.is_empty() {
            return Ok((0, effect));
        }
        let index = self.scopes.index_of(scope, &mut self.rows);
        if let Some(tenant) =
            after.map(|after| after.tenant.as_str()).filter(|_| effect.grows || effect.keyed)
        {
            self.add_payer(index, tenant, effect);
        }
        if let Some(paid) = element_mut(&mut self.scopes.paid, index) {
            *paid = true;
        }
        for term in &wanted {
            let row = self.rows.index_of(index, term.domain, term.key);
            self.add_term(row, term, effect.keyed);
        }
        Ok((index, effect))
    }

    /// Notes that an object of a tenant needs something from the scope.
    fn add_payer(&mut self, scope: i32, tenant: &'a str, effect: Effect) {
        if let Some(payer) = element_mut(&mut self.scopes.payer, scope) {
            self.independent &= payer.is_none_or(|other| other == tenant);
            *payer = Some(tenant);
        }
        if let Some(grows) = element_mut(&mut self.scopes.grows, scope) {
            *grows |= effect.grows;
        }
        if let Some(fresh) = element_mut(&mut self.scopes.fresh, scope) {
            *fresh |= effect.fresh;
        }
    }

    fn add_term(&mut self, row: i32, term: &LedgerTerm<'_>, keyed: bool) {
        let rows = &mut self.rows;
        let add = |counts: &mut Vec<i32>, more: i32| {
            if let Some(sum) = element_mut(counts, row) {
                *sum = sum.saturating_add(more);
            }
        };
        add(&mut rows.child, term.child_delta());
        add(&mut rows.joins, i32::from(term.has && term.child_delta() > 0));
        if let Some(lists) = element_mut(&mut rows.lists, row) {
            *lists |= term.lists;
        }
        add(&mut rows.keyed, i32::from(term.has && keyed));
        if let Some(delta) = element_mut(&mut rows.delta, row) {
            *delta = delta.saturating_add(term.delta);
        }
        if let Some(grow) = element_mut(&mut rows.grow, row) {
            *grow = grow.saturating_add(term.delta.max(0));
        }
        let detail = &mut self.detail;
        detail.t_row.push(row);
        detail.t_own.push(term.own);
        detail.t_delta.push(term.delta);
        detail.t_child.push(term.child_delta());
        detail.t_carried.push(term.has);
        detail.t_lists.push(term.lists);
    }

    /// Adds the limits of a scope that the write changes.
    fn change_limits(&mut self, before: Option<&'a Grants>, after: Option<&'a Grants>) -> Result<(), Error> {
        const NONE: &BTreeMap<String, DomainLimits> = &BTreeMap::new();
        if before == after {
            return Ok(());
        }
        let Some(scope) = after.or(before).map(|grants| &grants.scope) else { return Ok(()) };
        let index = self.scopes.index_of(scope, &mut self.rows);
        let (was, is) = (before.map_or(NONE, |g| &g.domains), after.map_or(NONE, |g| &g.domains));
        for domain in was.keys().chain(is.keys()).collect::<BTreeSet<_>>() {
            require_name(domain)?;
            self.change_domain_limits(index, domain, was.get(domain), is.get(domain))?;
        }
        Ok(())
    }

    fn change_domain_limits(
        &mut self,
        scope: i32,
        domain: &'a str,
        was: Option<&'a DomainLimits>,
        is: Option<&'a DomainLimits>,
    ) -> Result<(), Error> {
        const NOTHING: &ResourceList = &ResourceList::new();
        if was == is {
            return Ok(());
        }
        if let Some(limited) = element_mut(&mut self.scopes.limited, scope) {
            *limited = true;
        }
        let mandatory = is.is_some_and(|limits| limits.mandatory);
        let undercut = is.map(|limits| limits.undercut).unwrap_or_default();
        let (old, new) =
            (was.map_or(NOTHING, |limits| &limits.hard), is.map_or(NOTHING, |limits| &limits.hard));
        for key in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
            require_name(key)?;
            let (was, is) = (old.get(key), new.get(key));
            if was != is {
                let row = self.rows.index_of(scope, domain, key);
                let parent = self.rows.index_of(scope, domain, "");
                if let Some(more) = element_mut(&mut self.rows.more_limits, parent) {
                    *more += i32::from(is.is_some()) - i32::from(was.is_some());
                }
                self.set_limit(
                    row,
                    NewLimit { hard: is.map(|hard| hard.nanos_text()), listed: false, mandatory, undercut },
                );
            }
        }
        if was.map(|limits| limits.mandatory) != is.map(|limits| limits.mandatory) {
            let row = self.rows.index_of(scope, domain, "");
            self.set_limit(row, NewLimit { hard: None, listed: is.is_some(), mandatory, undercut });
        }
        Ok(())
    }

    fn set_limit(&mut self, row: i32, setting: NewLimit) {
        let NewLimit { hard, listed, mandatory, undercut } = setting;
        let flags = [
            (&mut self.rows.sets, true),
            (&mut self.rows.new_listed, listed),
            (&mut self.rows.new_mandatory, mandatory),
        ];
        for (list, value) in flags {
            if let Some(flag) = element_mut(list, row) {
                *flag = value;
            }
        }
        if let Some(new_hard) = element_mut(&mut self.rows.new_hard, row) {
            new_hard.clone_from(&hard);
        }
        let detail = &mut self.detail;
        detail.h_row.push(row);
        detail.h_hard.push(hard);
        detail.h_listed.push(listed);
        detail.h_mandatory.push(mandatory);
        detail.h_undercut.push(match undercut {
            Undercut::Refused => 0,
            Undercut::WhereUnlimited => 1,
            Undercut::Accepted => 2,
        });
    }

    /// Adds the claims of a created or deleted object. An update or a move may not change them.
    fn change_claims(&mut self, write: &'a Write, entry: i32) -> Result<(), Error> {
        let (before, after) = (write.change.before(), write.change.after());
        if let (Some(before), Some(after)) = (before, after) {
            return if before.claims == after.claims {
                Ok(())
            } else {
                Err(Error::Corrupt(format!("a change of {} changes what it claims", write.key.name)))
            };
        }
        for claim in after.or(before).map(|account| account.claims.as_slice()).unwrap_or_default() {
            let (index, alone) = self.claims.index_of(claim, write.uid, entry)?;
            self.independent &= alone;
            self.detail.w_place.push(index);
        }
        Ok(())
    }

    /// The changes write by write.
    pub(super) fn detail(&self) -> Result<String, Error> {
        serde_json::to_string(&self.detail).map_err(|error| Error::Corrupt(format!("a batch: {error}")))
    }

    /// Whether the writes are independent of each other.
    pub(super) fn are_independent(&self) -> bool {
        self.independent && self.scopes.are_independent()
    }

    /// Whether some write raises a charge or a limit.
    pub(super) fn grows(&self) -> bool {
        self.grows
    }

    pub(super) fn bind<'q>(
        &'q self,
        query: Query<'q, Postgres, PgArguments>,
    ) -> Query<'q, Postgres, PgArguments> {
        let (s, l, c) = (&self.scopes, &self.rows, &self.claims);
        let texts = |amounts: &[i128]| amounts.iter().map(ToString::to_string).collect::<Vec<_>>();
        query
            .bind(&s.kind)
            .bind(&s.name)
            .bind(&s.row)
            .bind(&s.payer)
            .bind(&s.grows)
            .bind(&s.fresh)
            .bind(&l.scope)
            .bind(&l.domain)
            .bind(&l.key)
            .bind(&l.parent)
            .bind(texts(&l.delta))
            .bind(texts(&l.grow))
            .bind(&l.child)
            .bind(&l.joins)
            .bind(&l.lists)
            .bind(&l.keyed)
            .bind(&l.sets)
            .bind(&l.new_hard)
            .bind(&l.new_listed)
            .bind(&l.new_mandatory)
            .bind(&l.more_limits)
            .bind(&c.domain)
            .bind(&c.place)
            .bind(&c.uid)
            .bind(&c.entry)
    }
}

/// The account and the scope that it pays, if it pays one.
fn paid_scope(account: Option<&Account>) -> Option<(&Account, &Scope)> {
    let account = account?;
    Some((account, account.pays.as_ref()?))
}

/// The terms of a change of charge: the keys of a domain before the domain, the scope's own row last.
fn ledger_terms<'a>(
    before: Option<&'a Account>,
    after: Option<&'a Account>,
) -> Result<Vec<LedgerTerm<'a>>, Error> {
    let (old, new) = (domains(before), domains(after));
    let mut terms = Vec::new();
    for domain in old.union(&new).copied() {
        require_name(domain)?;
        let (was, is) = (key_charges(before, domain), key_charges(after, domain));
        for key in was.keys().chain(is.keys()).copied().collect::<BTreeSet<_>>() {
            require_name(key)?;
            let was = was.get(key).copied().unwrap_or_default();
            let is = is.get(key).copied().unwrap_or_default();
            if was.nanos < 0 || is.nanos < 0 {
                return Err(Error::Corrupt(format!("a charge of {key} below nothing")));
            }
            let (own, delta) = (was.nanos, is.nanos - was.nanos);
            terms.push(LedgerTerm {
                key,
                own,
                delta,
                ..LedgerTerm::of_child(domain, was.carried, is.carried)
            });
        }
        terms.push(LedgerTerm::of_child(domain, old.contains(domain), new.contains(domain)));
    }
    if before.is_some() != after.is_some() {
        terms.push(LedgerTerm::of_child("", before.is_some(), after.is_some()));
    }
    Ok(terms)
}

fn domains(account: Option<&Account>) -> BTreeSet<&str> {
    account.into_iter().flat_map(|a| a.costs.keys().chain(a.carries.keys())).map(String::as_str).collect()
}

/// What an object does to one key of a domain.
#[derive(Clone, Copy, Default)]
struct KeyCharge {
    nanos: i128,
    /// Whether the object carries the key.
    carried: bool,
}

fn key_charges<'a>(account: Option<&'a Account>, domain: &str) -> BTreeMap<&'a str, KeyCharge> {
    let costs = account.and_then(|a| a.costs.get(domain));
    let charge = |amount: &Quantity| KeyCharge { nanos: amount.nanos(), carried: false };
    let mut found: BTreeMap<&str, KeyCharge> =
        costs.into_iter().flatten().map(|(key, amount)| (&**key, charge(amount))).collect();
    for key in account.and_then(|a| a.carries.get(domain)).into_iter().flatten() {
        found.entry(key).or_default().carried = true;
    }
    found
}

/// Whether a write changes or checks anything in the ledger.
pub(super) fn affects_ledger(write: &Write, scope_roles: &ScopeRoles) -> bool {
    let kind: KindId = write.key.kind;
    let mut sides = [write.change.before(), write.change.after()].into_iter().flatten();
    scope_roles.of(kind).is_some() || sides.any(Account::is_charged)
}
