use super::rows::{ClaimRows, Rows, Scopes, at, count, named};
use crate::Error;
use crate::model::{KindId, Write};
use crate::scopes::Standings;
use meta::quantity::{Quantity, ResourceList};
use quota::{Account, Grants, Limits as DomainLimits, Scope, Undercut};
use serde::Serialize;
use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use std::collections::{BTreeMap, BTreeSet};

/// What the writes of a batch do to quota: as sums, and write by write.
#[derive(Debug)]
pub(crate) struct Quota<'a> {
    scopes: Scopes<'a>,
    rows: Rows<'a>,
    claims: ClaimRows<'a>,
    detail: Detail<'a>,
    /// The sums say everything: no write depends on what another one of the batch does.
    together: bool,
    grows: bool,
}

/// What `decide_each` reads, as JSON; amounts are texts, so that no digit is lost.
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
    t_own: Vec<String>,
    t_delta: Vec<String>,
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

/// One write's effect on one row of the ledger.
struct Term<'a> {
    domain: &'a str,
    key: &'a str,
    own: i128,
    delta: i128,
    had: bool,
    has: bool,
    /// Its domain has to be listed.
    lists: bool,
}

impl Term<'_> {
    fn child(&self) -> i32 {
        i32::from(self.has) - i32::from(self.had)
    }
}

/// The rules by which a write is charged.
struct Pricing<'w> {
    standings: &'w Standings,
    /// Domains that have to be listed wherever the charge grows.
    within: &'w [String],
    /// Those of them in which the object grants more.
    raised: BTreeSet<&'w str>,
}

impl Pricing<'_> {
    /// Which domains the scope has to list.
    fn see_to_lists(&self, scope: &Scope, terms: &mut [Term<'_>]) {
        let is_open = self.standings.is_open(scope);
        let grows = |term: &&Term<'_>| term.delta > 0 && !self.within.is_empty();
        let grown: BTreeSet<&str> = terms.iter().filter(grows).map(|term| term.domain).collect();
        for term in terms.iter_mut().filter(|term| term.key.is_empty() && !term.domain.is_empty() && term.has)
        {
            let joins = term.child() > 0;
            let is_bound = self.within.iter().any(|domain| domain == term.domain);
            term.lists = joins && !is_open
                || is_bound && (joins || grown.contains(term.domain) || self.raised.contains(term.domain));
        }
    }
}

/// What a row of limits is set to.
struct Setting {
    hard: Option<String>,
    listed: bool,
    mandatory: bool,
    undercut: Undercut,
}

/// What the terms of a write amount to.
#[derive(Clone, Copy, Default)]
struct Effect {
    fresh: bool,
    grows: bool,
    keyed: bool,
}

impl<'a> Quota<'a> {
    pub(super) fn new() -> Self {
        let (scopes, rows, claims) = (Scopes::default(), Rows::default(), ClaimRows::default());
        Self { scopes, rows, claims, detail: Detail::default(), together: true, grows: false }
    }

    /// Adds the write of an entry.
    pub(super) fn push(&mut self, write: &'a Write, entry: i32, standings: &Standings) -> Result<(), Error> {
        let (before, after) = (write.change.before(), write.change.after());
        let own = self.own(write, before, after, standings)?;
        let grants = |account: Option<&'a Account>| account.and_then(|account| account.grants.as_ref());
        let within = write.growth.within();
        let bound = |domain: &&str| within.iter().any(|one| one == domain);
        let raised = Grants::raised(grants(before), grants(after)).filter(bound).collect();
        let pricing = Pricing { standings, within, raised };
        let (scope, effect) = self.charge(before, after, &pricing)?;
        // An object that neither stands for a scope nor pays one is a source of capacity: raising its grants is not
        // growth; using them is.
        let is_source = own == 0 && payer(after).is_none();
        let raises = !is_source && Grants::more(grants(before), grants(after));
        // The rows of a scope go with the object that stands for it, unless the scope exists without one.
        let stays = standings.of(write.key.kind).is_some_and(|standing| !standing.required);
        if after.is_some() || own == 0 || stays {
            self.limit(grants(before), grants(after))?;
        }
        if let Some(before) = before.filter(|_| after.is_none() && own > 0) {
            self.give_back(before);
        }
        self.claim(write, entry)?;
        self.grows |= effect.grows || raises;
        self.together &= write.hold.is_none();
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
        detail.q_term.push(count(detail.t_row.len()));
        detail.q_limit.push(count(detail.h_row.len()));
        detail.q_place.push(count(detail.w_place.len()));
        Ok(())
    }

    /// Takes back, in the scopes above, what counts there for a scope that goes, even if the scope itself pays
    /// nothing: once its row is gone, nobody finds the way up.
    fn give_back(&mut self, before: &'a Account) {
        let (Some(above), Some(grants)) = (&before.pays, &before.grants) else { return };
        let index = self.scopes.index(above, &mut self.rows);
        for (domain, limits) in &grants.domains {
            for key in limits.hard.keys() {
                self.rows.index(index, domain, key);
            }
        }
    }

    /// The scope that the object stands for itself.
    fn own(
        &mut self,
        write: &'a Write,
        before: Option<&'a Account>,
        after: Option<&'a Account>,
        standings: &Standings,
    ) -> Result<i32, Error> {
        let Some(standing) = standings.of(write.key.kind) else { return Ok(0) };
        if write.change.destination().is_some() {
            return Err(Error::Corrupt(format!("{} stands for a scope and cannot move", write.key.name)));
        }
        let grants = after.or(before).and_then(|account| account.grants.as_ref());
        let stands_for = |scope: &&Scope| scope.kind == standing.scope && *scope.name == *write.key.name;
        let Some(scope) = grants.map(|grants| &grants.scope).filter(stands_for) else {
            return Err(Error::Corrupt(format!(
                "{} stands for a scope and does not grant to it",
                write.key.name
            )));
        };
        let index = self.scopes.index(scope, &mut self.rows);
        let state = &write.change.state().account;
        if let Some(shut) = at(&mut self.scopes.shut, index) {
            *shut |= state.deleting || state.locked;
        }
        let moves = matches!((before, after), (Some(before), Some(after)) if before.pays != after.pays);
        self.together &= !moves && after.is_some();
        Ok(index)
    }

    /// The scope after the change, and what the change does there.
    fn charge(
        &mut self,
        before: Option<&'a Account>,
        after: Option<&'a Account>,
        pricing: &Pricing<'_>,
    ) -> Result<(i32, Effect), Error> {
        match (payer(before), payer(after)) {
            (Some((before, from)), Some((after, to))) if from == to => {
                self.terms(to, Some(before), Some(after), pricing)
            }
            (before, after) => {
                if let Some((before, from)) = before {
                    self.terms(from, Some(before), None, pricing)?;
                }
                match after {
                    Some((after, to)) => self.terms(to, None, Some(after), pricing),
                    None => Ok((0, Effect::default())),
                }
            }
        }
    }

    fn terms(
        &mut self,
        scope: &'a Scope,
        before: Option<&'a Account>,
        after: Option<&'a Account>,
        pricing: &Pricing<'_>,
    ) -> Result<(i32, Effect), Error> {
        let mut terms = terms_of(before, after)?;
        pricing.see_to_lists(scope, &mut terms);
        let fresh = before.is_none() && after.is_some();
        let grows = terms.iter().any(|t| t.delta > 0 || (t.key.is_empty() && t.child() > 0));
        let keyed = terms.iter().any(|t| t.child() != 0 && after.is_some());
        let effect = Effect { fresh, grows: fresh || grows, keyed: fresh || keyed };
        let wanted: Vec<_> =
            terms.into_iter().filter(|t| effect.keyed || t.delta != 0 || t.child() != 0 || t.lists).collect();
        if wanted.is_empty() {
            return Ok((0, effect));
        }
        let index = self.scopes.index(scope, &mut self.rows);
        if let Some(tenant) =
            after.map(|after| after.tenant.as_str()).filter(|_| effect.grows || effect.keyed)
        {
            self.ask(index, tenant, effect);
        }
        if let Some(paid) = at(&mut self.scopes.paid, index) {
            *paid = true;
        }
        for term in &wanted {
            let row = self.rows.index(index, term.domain, term.key);
            self.term(row, term, effect.keyed);
        }
        Ok((index, effect))
    }

    /// A payer asks its scope for something.
    fn ask(&mut self, scope: i32, tenant: &'a str, effect: Effect) {
        if let Some(payer) = at(&mut self.scopes.payer, scope) {
            self.together &= payer.is_none_or(|other| other == tenant);
            *payer = Some(tenant);
        }
        if let Some(grows) = at(&mut self.scopes.grows, scope) {
            *grows |= effect.grows;
        }
        if let Some(fresh) = at(&mut self.scopes.fresh, scope) {
            *fresh |= effect.fresh;
        }
    }

    fn term(&mut self, row: i32, term: &Term<'_>, keyed: bool) {
        let rows = &mut self.rows;
        let add = |counts: &mut Vec<i32>, more: i32| {
            if let Some(sum) = at(counts, row) {
                *sum = sum.saturating_add(more);
            }
        };
        add(&mut rows.child, term.child());
        add(&mut rows.joins, i32::from(term.has && term.child() > 0));
        if let Some(lists) = at(&mut rows.lists, row) {
            *lists |= term.lists;
        }
        add(&mut rows.keyed, i32::from(term.has && keyed));
        if let Some(delta) = at(&mut rows.delta, row) {
            *delta = delta.saturating_add(term.delta);
        }
        if let Some(grow) = at(&mut rows.grow, row) {
            *grow = grow.saturating_add(term.delta.max(0));
        }
        let detail = &mut self.detail;
        detail.t_row.push(row);
        detail.t_own.push(term.own.to_string());
        detail.t_delta.push(term.delta.to_string());
        detail.t_child.push(term.child());
        detail.t_carried.push(term.has);
        detail.t_lists.push(term.lists);
    }

    /// The limits of a scope that the change sets.
    fn limit(&mut self, before: Option<&'a Grants>, after: Option<&'a Grants>) -> Result<(), Error> {
        const NONE: &BTreeMap<String, DomainLimits> = &BTreeMap::new();
        if before == after {
            return Ok(());
        }
        let Some(scope) = after.or(before).map(|grants| &grants.scope) else { return Ok(()) };
        let index = self.scopes.index(scope, &mut self.rows);
        let (was, is) = (before.map_or(NONE, |g| &g.domains), after.map_or(NONE, |g| &g.domains));
        for domain in was.keys().chain(is.keys()).collect::<BTreeSet<_>>() {
            named(domain)?;
            self.limit_domain(index, domain, was.get(domain), is.get(domain))?;
        }
        Ok(())
    }

    fn limit_domain(
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
        if let Some(limited) = at(&mut self.scopes.limited, scope) {
            *limited = true;
        }
        let mandatory = is.is_some_and(|limits| limits.mandatory);
        let undercut = is.map(|limits| limits.undercut).unwrap_or_default();
        let (old, new) =
            (was.map_or(NOTHING, |limits| &limits.hard), is.map_or(NOTHING, |limits| &limits.hard));
        for key in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
            named(key)?;
            let (was, is) = (old.get(key), new.get(key));
            if was != is {
                let row = self.rows.index(scope, domain, key);
                let parent = self.rows.index(scope, domain, "");
                if let Some(more) = at(&mut self.rows.more_limits, parent) {
                    *more += i32::from(is.is_some()) - i32::from(was.is_some());
                }
                self.set(
                    row,
                    Setting { hard: is.map(|hard| hard.nanos_text()), listed: false, mandatory, undercut },
                );
            }
        }
        if was.map(|limits| limits.mandatory) != is.map(|limits| limits.mandatory) {
            let row = self.rows.index(scope, domain, "");
            self.set(row, Setting { hard: None, listed: is.is_some(), mandatory, undercut });
        }
        Ok(())
    }

    fn set(&mut self, row: i32, setting: Setting) {
        let Setting { hard, listed, mandatory, undercut } = setting;
        let flags = [
            (&mut self.rows.sets, true),
            (&mut self.rows.new_listed, listed),
            (&mut self.rows.new_mandatory, mandatory),
        ];
        for (list, value) in flags {
            if let Some(flag) = at(list, row) {
                *flag = value;
            }
        }
        if let Some(new_hard) = at(&mut self.rows.new_hard, row) {
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
            Undercut::Taken => 2,
        });
    }

    /// A create takes the object's places, and a delete gives them back. An update or a move keeps them.
    fn claim(&mut self, write: &'a Write, entry: i32) -> Result<(), Error> {
        let (before, after) = (write.change.before(), write.change.after());
        if let (Some(before), Some(after)) = (before, after) {
            return if before.claims == after.claims {
                Ok(())
            } else {
                Err(Error::Corrupt(format!("a change of {} changes what it claims", write.key.name)))
            };
        }
        for claim in after.or(before).map(|account| account.claims.as_slice()).unwrap_or_default() {
            let (index, alone) = self.claims.index(claim, write.uid, entry)?;
            self.together &= alone;
            self.detail.w_place.push(index);
        }
        Ok(())
    }

    /// The same, write by write.
    pub(super) fn detail(&self) -> Result<String, Error> {
        serde_json::to_string(&self.detail).map_err(|error| Error::Corrupt(format!("a batch: {error}")))
    }

    /// Whether the sums say everything, and whether anything grows.
    pub(super) fn flags(&self) -> (bool, bool) {
        (self.together && self.scopes.are_apart(), self.grows)
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

fn payer(account: Option<&Account>) -> Option<(&Account, &Scope)> {
    let account = account?;
    Some((account, account.pays.as_ref()?))
}

/// A charge's terms: the keys of a domain before the domain, the scope's own row last.
fn terms_of<'a>(before: Option<&'a Account>, after: Option<&'a Account>) -> Result<Vec<Term<'a>>, Error> {
    let (old, new) = (domains(before), domains(after));
    let mut terms = Vec::new();
    for domain in old.union(&new).copied() {
        named(domain)?;
        let (was, is) = (keys(before, domain), keys(after, domain));
        for key in was.keys().chain(is.keys()).copied().collect::<BTreeSet<_>>() {
            named(key)?;
            let (own, had) = was.get(key).copied().unwrap_or_default();
            let (amount, has) = is.get(key).copied().unwrap_or_default();
            if own < 0 || amount < 0 {
                return Err(Error::Corrupt(format!("a charge of {key} below nothing")));
            }
            terms.push(Term { domain, key, own, delta: amount - own, had, has, lists: false });
        }
        let (had, has) = (old.contains(domain), new.contains(domain));
        terms.push(Term { domain, key: "", own: 0, delta: 0, had, has, lists: false });
    }
    if before.is_some() != after.is_some() {
        let (had, has) = (before.is_some(), after.is_some());
        terms.push(Term { domain: "", key: "", own: 0, delta: 0, had, has, lists: false });
    }
    Ok(terms)
}

fn domains(account: Option<&Account>) -> BTreeSet<&str> {
    account.into_iter().flat_map(|a| a.costs.keys().chain(a.carries.keys())).map(String::as_str).collect()
}

/// Amount by key, and whether the object carries the key.
fn keys<'a>(account: Option<&'a Account>, domain: &str) -> BTreeMap<&'a str, (i128, bool)> {
    let costs = account.and_then(|a| a.costs.get(domain));
    let mut found: BTreeMap<&str, (i128, bool)> =
        costs.into_iter().flatten().map(|(key, amount)| (&**key, (amount.nanos(), false))).collect();
    for key in account.and_then(|a| a.carries.get(domain)).into_iter().flatten() {
        found.entry(key).or_default().1 = true;
    }
    found
}

/// The amount that the write asked for at this place: the amounts of a refusal are printed with the same family of
/// suffixes.
pub(crate) fn asked<'a>(
    after: Option<&'a Account>,
    limit: bool,
    domain: &str,
    key: &str,
) -> Option<&'a Quantity> {
    let amounts =
        if limit { &after?.grants.as_ref()?.domains.get(domain)?.hard } else { after?.costs.get(domain)? };
    amounts.get(key)
}

/// Whether a kind's objects concern the ledger in this write.
pub(super) fn concerns_ledger(write: &Write, standings: &Standings) -> bool {
    let kind: KindId = write.key.kind;
    let mut sides = [write.change.before(), write.change.after()].into_iter().flatten();
    standings.of(kind).is_some() || sides.any(Account::is_charged)
}
