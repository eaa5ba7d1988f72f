use crate::Error;
use crate::model::{Change, Write};
use meta::quantity::{Quantity, ResourceList};
use quota::{Account, Grants, Limits as DomainLimits};
use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What the writes of a batch do to quota. Indices count from 1, as PostgreSQL's do; 0 is none.
#[derive(Debug, Default)]
pub(crate) struct Quota<'a> {
    changes: Changes<'a>,
    scopes: Scopes<'a>,
    ledger: Ledger<'a>,
    terms: Terms,
    limits: Limits,
    claims: Claims<'a>,
}

#[derive(Debug, Default)]
struct Changes<'a> {
    entry: Vec<i32>,
    pair: Vec<i32>,
    own: Vec<i32>,
    scope: Vec<i32>,
    charged: Vec<bool>,
    admit: Vec<bool>,
    fresh: Vec<bool>,
    grows: Vec<bool>,
    keyed: Vec<bool>,
    raises: Vec<bool>,
    claim: Vec<i32>,
    hold: Vec<Option<&'a str>>,
    term: Vec<i32>,
    limit: Vec<i32>,
}

#[derive(Debug, Default)]
struct Scopes<'a> {
    places: HashMap<&'a str, i32>,
    name: Vec<&'a str>,
    row: Vec<i32>,
}

#[derive(Debug, Default)]
struct Ledger<'a> {
    places: HashMap<(&'a str, &'a str, &'a str), i32>,
    scope: Vec<&'a str>,
    cluster: Vec<&'a str>,
    resource: Vec<&'a str>,
    parent: Vec<i32>,
}

#[derive(Debug, Default)]
struct Terms {
    row: Vec<i32>,
    own: Vec<String>,
    delta: Vec<String>,
    child: Vec<i32>,
    carried: Vec<bool>,
}

#[derive(Debug, Default)]
struct Limits {
    row: Vec<i32>,
    hard: Vec<Option<String>>,
    listed: Vec<bool>,
}

#[derive(Debug, Default)]
struct Claims<'a> {
    places: HashMap<(&'a str, &'a str), i32>,
    cluster: Vec<&'a str>,
    namespace: Vec<&'a str>,
}

/// One write's effect on one ledger row.
struct Term<'a> {
    cluster: &'a str,
    resource: &'a str,
    own: i128,
    delta: i128,
    had: bool,
    has: bool,
}

impl Term<'_> {
    fn child(&self) -> i32 {
        i32::from(self.has) - i32::from(self.had)
    }
}

/// What the terms of a write amount to.
#[derive(Clone, Copy, Default)]
struct Effect {
    fresh: bool,
    grows: bool,
    keyed: bool,
}

impl<'a> Quota<'a> {
    pub(super) fn push(&mut self, write: &'a Write, place: usize, stands: bool) -> Result<(), Error> {
        let own = if stands { self.scope(&write.key.name) } else { 0 };
        let (before, after) = (write.change.before(), write.change.after());
        let (scope, effect) = self.charge(before, after)?;
        let mut raises = false;
        if let (true, Some(account)) = (own > 0, after) {
            raises = self.limit(before.and_then(|b| b.grants.as_ref()), account.grants.as_ref())?;
        }
        let mut claim = 0;
        let claims = after.or(before).map(|account| account.claims.as_slice()).unwrap_or_default();
        // an update keeps the claim that its create has taken
        if let (Some(wanted), false) = (claims.first(), matches!(write.change, Change::Update { .. })) {
            named(&wanted.domain)?;
            named(&wanted.place)?;
            claim = self.claims.place(&wanted.domain, &wanted.place);
        }
        let changes = &mut self.changes;
        changes.entry.push(one_based(place));
        changes.pair.push(0);
        changes.own.push(own);
        changes.scope.push(scope);
        changes.charged.push(true);
        changes.admit.push(write.may_grow);
        changes.fresh.push(effect.fresh);
        changes.grows.push(effect.grows);
        changes.keyed.push(effect.keyed);
        changes.raises.push(raises);
        changes.claim.push(claim);
        changes.hold.push(write.hold.as_ref().map(|held| held.reason.as_str()));
        changes.term.push(count(self.terms.row.len()));
        changes.limit.push(count(self.limits.row.len()));
        Ok(())
    }

    fn scope(&mut self, name: &'a str) -> i32 {
        if let Some(place) = self.scopes.places.get(name) {
            return *place;
        }
        let row = self.row(name, "", "");
        self.scopes.name.push(name);
        self.scopes.row.push(row);
        let place = count(self.scopes.name.len());
        self.scopes.places.insert(name, place);
        place
    }

    fn row(&mut self, scope: &'a str, cluster: &'a str, resource: &'a str) -> i32 {
        if let Some(place) = self.ledger.places.get(&(scope, cluster, resource)) {
            return *place;
        }
        let parent = if resource.is_empty() { 0 } else { self.row(scope, cluster, "") };
        let ledger = &mut self.ledger;
        ledger.scope.push(scope);
        ledger.cluster.push(cluster);
        ledger.resource.push(resource);
        ledger.parent.push(parent);
        let place = count(ledger.scope.len());
        ledger.places.insert((scope, cluster, resource), place);
        place
    }

    /// The scope after the change, and its terms.
    fn charge(
        &mut self,
        before: Option<&'a Account>,
        after: Option<&'a Account>,
    ) -> Result<(i32, Effect), Error> {
        let payer = |account: Option<&'a Account>| Some((account?, account?.pays.as_ref()?));
        match (payer(before), payer(after)) {
            (Some((before, from)), Some((after, to))) if from == to => {
                self.terms(&to.name, Some(before), Some(after))
            }
            (before, after) => {
                if let Some((before, from)) = before {
                    self.terms(&from.name, Some(before), None)?;
                }
                match after {
                    Some((after, to)) => self.terms(&to.name, None, Some(after)),
                    None => Ok((0, Effect::default())),
                }
            }
        }
    }

    fn terms(
        &mut self,
        scope: &'a str,
        before: Option<&'a Account>,
        after: Option<&'a Account>,
    ) -> Result<(i32, Effect), Error> {
        let terms = terms_of(before, after)?;
        let fresh = before.is_none() && after.is_some();
        let grows = terms.iter().any(|t| t.delta > 0 || (t.resource.is_empty() && t.child() > 0));
        let keyed = terms.iter().any(|t| t.child() != 0 && after.is_some());
        let effect = Effect { fresh, grows: fresh || grows, keyed: fresh || keyed };
        let place = self.scope(scope);
        for term in terms.iter().filter(|t| effect.keyed || t.delta != 0 || t.child() != 0) {
            let row = self.row(scope, term.cluster, term.resource);
            self.terms.push(row, term);
        }
        Ok((place, effect))
    }

    /// Whether the change gives the scope more than it had.
    fn limit(&mut self, before: Option<&'a Grants>, after: Option<&'a Grants>) -> Result<bool, Error> {
        let none = const { &BTreeMap::new() };
        let nothing = const { &ResourceList::new() };
        let Some(scope) = after.or(before).map(|grants| grants.scope.name.as_str()) else { return Ok(false) };
        let mut raises = before.is_none();
        let (before, after) = (before.map_or(none, |g| &g.domains), after.map_or(none, |g| &g.domains));
        let hard = |limits: Option<&'a DomainLimits>| limits.map_or(nothing, |limits| &limits.hard);
        for cluster in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
            named(cluster)?;
            let (was, is) = (before.get(cluster), after.get(cluster));
            let (old, new) = (hard(was), hard(is));
            for resource in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
                named(resource)?;
                let (was, is) = (old.get(resource), new.get(resource));
                if was != is {
                    raises |= was.is_some_and(|was| is.is_none_or(|is| is > was));
                    let row = self.row(scope, cluster, resource);
                    self.limits.push(row, is.map(|hard| hard.nanos_text()), false);
                }
            }
            if was.is_some() != is.is_some() {
                raises |= is.is_some();
                let row = self.row(scope, cluster, "");
                self.limits.push(row, None, is.is_some());
            }
        }
        Ok(raises)
    }

    pub(super) fn bind<'q>(
        &'q self,
        query: Query<'q, Postgres, PgArguments>,
    ) -> Query<'q, Postgres, PgArguments> {
        let (q, s, l, t) = (&self.changes, &self.scopes, &self.ledger, &self.terms);
        query
            .bind(&q.entry)
            .bind(&q.pair)
            .bind(&q.own)
            .bind(&q.scope)
            .bind(&q.charged)
            .bind(&q.admit)
            .bind(&q.fresh)
            .bind(&q.grows)
            .bind(&q.keyed)
            .bind(&q.raises)
            .bind(&q.claim)
            .bind(&q.hold)
            .bind(&q.term)
            .bind(&q.limit)
            .bind(&s.name)
            .bind(&s.row)
            .bind(&l.scope)
            .bind(&l.cluster)
            .bind(&l.resource)
            .bind(&l.parent)
            .bind(&t.row)
            .bind(&t.own)
            .bind(&t.delta)
            .bind(&t.child)
            .bind(&t.carried)
            .bind(&self.limits.row)
            .bind(&self.limits.hard)
            .bind(&self.limits.listed)
            .bind(&self.claims.cluster)
            .bind(&self.claims.namespace)
    }
}

/// A charge's terms, the resources of a cluster before the cluster, the scope's own row last.
fn terms_of<'a>(before: Option<&'a Account>, after: Option<&'a Account>) -> Result<Vec<Term<'a>>, Error> {
    let (old, new) = (clusters(before), clusters(after));
    let mut terms = Vec::new();
    for cluster in old.union(&new).copied() {
        named(cluster)?;
        let (was, is) = (resources(before, cluster), resources(after, cluster));
        for resource in was.keys().chain(is.keys()).copied().collect::<BTreeSet<_>>() {
            named(resource)?;
            let (own, had) = was.get(resource).copied().unwrap_or_default();
            let (amount, has) = is.get(resource).copied().unwrap_or_default();
            if own < 0 || amount < 0 {
                return Err(Error::Corrupt(format!("a charge of {resource} below nothing")));
            }
            terms.push(Term { cluster, resource, own, delta: amount - own, had, has });
        }
        let (had, has) = (old.contains(cluster), new.contains(cluster));
        terms.push(Term { cluster, resource: "", own: 0, delta: 0, had, has });
    }
    if before.is_some() != after.is_some() {
        let (had, has) = (before.is_some(), after.is_some());
        terms.push(Term { cluster: "", resource: "", own: 0, delta: 0, had, has });
    }
    Ok(terms)
}

fn clusters(account: Option<&Account>) -> BTreeSet<&str> {
    account.into_iter().flat_map(|a| a.costs.keys().chain(a.carries.keys())).map(String::as_str).collect()
}

/// Amount by resource, and whether the spec carries the resource.
fn resources<'a>(account: Option<&'a Account>, cluster: &str) -> BTreeMap<&'a str, (i128, bool)> {
    let amounts = account.and_then(|a| a.costs.get(cluster));
    let mut found: BTreeMap<&str, (i128, bool)> = amounts
        .into_iter()
        .flatten()
        .map(|(resource, amount)| (&**resource, (amount.nanos(), false)))
        .collect();
    for resource in account.and_then(|a| a.carries.get(cluster)).into_iter().flatten() {
        found.entry(resource).or_default().1 = true;
    }
    found
}

/// The empty name stands for the whole in the ledger; nothing of a write may have it.
fn named(name: &str) -> Result<(), Error> {
    if name.is_empty() {
        Err(Error::Corrupt("a charge, limit or claim without a name".to_owned()))
    } else {
        Ok(())
    }
}

fn one_based(index: usize) -> i32 {
    count(index.saturating_add(1))
}

/// A batch is far smaller than what fits.
fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

impl Terms {
    fn push(&mut self, row: i32, term: &Term<'_>) {
        self.row.push(row);
        self.own.push(term.own.to_string());
        self.delta.push(term.delta.to_string());
        self.child.push(term.child());
        self.carried.push(term.has);
    }
}

impl Limits {
    fn push(&mut self, row: i32, hard: Option<String>, listed: bool) {
        self.row.push(row);
        self.hard.push(hard);
        self.listed.push(listed);
    }
}

impl<'a> Claims<'a> {
    fn place(&mut self, cluster: &'a str, namespace: &'a str) -> i32 {
        if let Some(place) = self.places.get(&(cluster, namespace)) {
            return *place;
        }
        self.cluster.push(cluster);
        self.namespace.push(namespace);
        let place = count(self.cluster.len());
        self.places.insert((cluster, namespace), place);
        place
    }
}

/// The amount whose suffix family a refusal's amounts take: what the write asked for at this place.
pub(crate) fn asked<'a>(
    after: Option<&'a Account>,
    own: bool,
    domain: &str,
    key: &str,
) -> Option<&'a Quantity> {
    let amounts =
        if own { &after?.grants.as_ref()?.domains.get(domain)?.hard } else { after?.costs.get(domain)? };
    amounts.get(key)
}
