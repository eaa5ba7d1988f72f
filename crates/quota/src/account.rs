use meta::quantity::ResourceList;
use std::collections::BTreeMap;
use std::fmt;

/// The maximum number of scopes above an object when it is charged to a new scope: the scope that it pays, the one that
/// this scope pays, and so on. A write that would exceed it is refused with `Violation::Cycle`. A change of parent
/// higher up can still put existing objects deeper.
pub const ANCESTORS_MAX: usize = 100;

/// The kind of a scope, as a number that the program chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScopeKind(pub i16);

/// A scope: a budget with limits, which charges count against.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Scope {
    /// Its kind.
    pub kind: ScopeKind,
    /// Its name, unique within its kind.
    pub name: String,
}

impl Scope {
    /// The scope of this kind and name.
    pub fn new(kind: ScopeKind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into() }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.0, self.name)
    }
}

/// Amounts by domain and key, each in the unit of its key. A domain that is listed without keys is used, too.
pub type Amounts = BTreeMap<String, ResourceList>;

/// Keys by domain.
pub type Keys = BTreeMap<String, Vec<String>>;

/// What one object means to the quota ledger. It is computed from the object alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The tenant that owns the object; empty if none does. An object and the scope that it pays have the same tenant.
    pub tenant: String,
    /// Whether the object is being deleted: it cannot grow, and its scope accepts nothing new.
    pub deleting: bool,
    /// Whether an operator has locked the object: its scope accepts nothing new.
    pub locked: bool,
    /// The scope that the object is charged to; `None` if it is not charged.
    pub pays: Option<Scope>,
    /// The amounts that are charged to that scope. They are the high-water mark where a cluster may still enforce a
    /// larger quota.
    pub costs: Amounts,
    /// The keys that the object sets an amount for, by domain. In a mandatory domain of the scope it must set all
    /// limited keys.
    pub carries: Keys,
    /// The limits that the object grants to a scope, usually to the scope that it represents.
    pub grants: Option<Grants>,
    /// The places that the object claims for itself alone.
    pub claims: Vec<Claim>,
}

/// The limits that one object grants to a scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// The scope.
    pub scope: Scope,
    /// The limits by domain. The domains of a scope are those that some object lists here; several objects may list
    /// different domains.
    pub domains: BTreeMap<String, Limits>,
}

impl Grants {
    /// Whether `after` grants a scope more than `before`.
    pub fn is_raised(before: Option<&Self>, after: Option<&Self>) -> bool {
        let is_other = |after: &Self| before.is_none_or(|before| before.scope != after.scope);
        after.is_some_and(is_other) || Self::raised_domains(before, after).next().is_some()
    }

    /// The domains in which `after` grants more than `before`: a new domain, or a limit that is higher or removed.
    /// Removing a whole domain is not more.
    pub fn raised_domains<'a>(
        before: Option<&'a Self>,
        after: Option<&'a Self>,
    ) -> impl Iterator<Item = &'a str> {
        let before = before.filter(|before| after.is_some_and(|after| before.scope == after.scope));
        let is_higher = |was: &Limits, is: &Limits| {
            was.hard.iter().any(|(key, limit)| is.hard.get(key).is_none_or(|hard| hard > limit))
        };
        let domains = after.into_iter().flat_map(|after| &after.domains);
        domains
            .filter(move |(domain, is)| {
                before.and_then(|before| before.domains.get(*domain)).is_none_or(|was| is_higher(was, is))
            })
            .map(|(domain, _)| domain.as_str())
    }
}

/// The limits of a scope in one domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Amounts by key. A key that is not listed is unlimited.
    pub hard: ResourceList,
    /// Whether an object that is charged to the scope in this domain must carry each limited key.
    pub mandatory: bool,
    /// Whether a limit may be below what is allocated already.
    pub undercut: Undercut,
}

/// Whether a limit may be below what is allocated already. If it is accepted, growth is refused until less is
/// allocated, and the excess also counts in the scope above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Undercut {
    /// Such a limit is refused.
    #[default]
    Refused,
    /// It is accepted only where there was no limit before.
    WhereUnlimited,
    /// It is accepted: the limit follows from facts, such as the capacity of nodes.
    Accepted,
}

impl Limits {
    /// Limits that may not be below what is allocated.
    pub fn new(hard: ResourceList, mandatory: bool) -> Self {
        Self { hard, mandatory, undercut: Undercut::Refused }
    }
}

/// The exclusive right to a place in a domain, such as a namespace of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claim {
    /// The domain.
    pub domain: String,
    /// The place in it.
    pub place: String,
}

impl Account {
    /// Whether the accounts before and after a write differ at most in tenant and flags: then no amount in the ledger
    /// changes.
    pub fn has_same_charges_as(&self, other: &Self) -> bool {
        self.pays == other.pays
            && self.costs == other.costs
            && self.carries == other.carries
            && self.grants == other.grants
            && self.claims == other.claims
    }

    /// Whether more is charged or granted than before. A new scope or domain is more, too.
    pub fn outgrows(&self, before: Option<&Self>) -> bool {
        let Some(before) = before else { return self.pays.is_some() || self.grants.is_some() };
        if self.has_same_charges_as(before) {
            return false;
        }
        let costs_more = self.costs.iter().any(|(domain, list)| {
            let had = before.costs.get(domain);
            list.iter()
                .any(|(key, is)| had.and_then(|had| had.get(key)).map_or(!is.is_zero(), |was| is > was))
        });
        let is_used = |account: &Self, domain: &String| {
            account.costs.contains_key(domain) || account.carries.contains_key(domain)
        };
        let has_new_domain =
            self.costs.keys().chain(self.carries.keys()).any(|domain| !is_used(before, domain));
        self.pays.is_some() && (self.pays != before.pays || costs_more || has_new_domain)
            || Grants::is_raised(before.grants.as_ref(), self.grants.as_ref())
    }

    /// Whether the object has any effect on the ledger.
    pub fn is_charged(&self) -> bool {
        self.pays.is_some() || self.grants.is_some() || !self.claims.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(pods: &str) -> ResourceList {
        [("pods".to_owned(), pods.parse().unwrap())].into()
    }

    fn child(pods: &str) -> Account {
        let costs = [("c".to_owned(), list(pods))].into();
        Account { pays: Some(Scope::new(ScopeKind(1), "p")), costs, ..Account::default() }
    }

    fn scope(hard: &[(&str, &str)]) -> Account {
        let limits = |pods: &str| Limits::new(list(pods), true);
        let domains = hard.iter().map(|(domain, pods)| ((*domain).to_owned(), limits(pods))).collect();
        let grants = Some(Grants { scope: Scope::new(ScopeKind(1), "p"), domains });
        Account { grants, ..Account::default() }
    }

    #[test]
    fn a_charge_outgrows_another_by_amount_domain_or_scope() {
        let two = child("2");
        assert!(two.outgrows(None) && two.outgrows(Some(&child("1"))));
        assert!(!two.outgrows(Some(&two)) && !two.outgrows(Some(&child("3"))));
        let elsewhere = Account { pays: Some(Scope::new(ScopeKind(1), "q")), ..child("1") };
        assert!(elsewhere.outgrows(Some(&two)));
        assert!(!Account::default().outgrows(Some(&two)), "what pays nobody costs nothing");
    }

    #[test]
    fn limits_outgrow_others_by_amount_domain_or_a_key_less() {
        let two = scope(&[("c", "2")]);
        assert!(two.outgrows(Some(&scope(&[("c", "1")]))) && two.outgrows(Some(&scope(&[]))));
        assert!(!two.outgrows(Some(&scope(&[("c", "2"), ("d", "1")]))), "a domain less");
        let mut unlimited = two.clone();
        if let Some(grants) = &mut unlimited.grants {
            grants.domains.values_mut().for_each(|limits| limits.hard.clear());
        }
        assert!(unlimited.outgrows(Some(&two)));
        assert!(!two.outgrows(Some(&unlimited)));
    }
}
