use meta::quantity::ResourceList;
use std::collections::BTreeMap;
use std::fmt;

/// The kind of a scope. The program gives the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScopeKind(pub i16);

/// A scope: something counts against its limits.
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

/// Amounts by domain and key. A domain without keys is named all the same.
pub type Amounts = BTreeMap<String, ResourceList>;

/// Keys by domain.
pub type Keys = BTreeMap<String, Vec<String>>;

/// What one object means to the ledger. Made by a pure function of the object alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The tenant that owns the object; empty for nobody's. An object and the scope it pays agree in it.
    pub tenant: String,
    /// It is being deleted: as a scope it accepts nothing new, and it cannot grow.
    pub deleting: bool,
    /// An operator has locked it: as a scope it accepts nothing new.
    pub locked: bool,
    /// The scope that it pays; `None` if it costs nobody anything.
    pub pays: Option<Scope>,
    /// The amounts that count in that scope. Where a cluster may still have granted more, this is the high-water
    /// mark.
    pub costs: Amounts,
    /// The keys that the object names, by domain: a mandatory domain of the scope demands each of its limited keys here.
    pub carries: Keys,
    /// The limits that the object gives to a scope: usually the one that it stands for itself.
    pub grants: Option<Grants>,
    /// The places that the object has for itself alone.
    pub claims: Vec<Claim>,
}

/// Limits of a scope, as one object gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// The scope.
    pub scope: Scope,
    /// By domain. A domain that is not named here is not one of the scope's; several objects may name different
    /// domains.
    pub domains: BTreeMap<String, Limits>,
}

impl Grants {
    /// Whether the second gives a scope more than the first.
    pub fn more(before: Option<&Self>, after: Option<&Self>) -> bool {
        let is_other = |after: &Self| before.is_none_or(|before| before.scope != after.scope);
        after.is_some_and(is_other) || Self::raised(before, after).next().is_some()
    }

    /// The domains in which the second gives more than the first: a domain more, a limit that is higher or gone. A domain
    /// that is given up takes its limits along, and is less.
    pub fn raised<'a>(before: Option<&'a Self>, after: Option<&'a Self>) -> impl Iterator<Item = &'a str> {
        let before = before.filter(|before| after.is_some_and(|after| before.scope == after.scope));
        let higher = |was: &Limits, is: &Limits| {
            was.hard.iter().any(|(key, limit)| is.hard.get(key).is_none_or(|hard| hard > limit))
        };
        let all = after.into_iter().flat_map(|after| &after.domains);
        all.filter(move |(domain, is)| {
            before.and_then(|before| before.domains.get(*domain)).is_none_or(|was| higher(was, is))
        })
        .map(|(domain, _)| domain.as_str())
    }
}

/// The limits of a scope in one domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Amounts by key; a key that is not named is unlimited.
    pub hard: ResourceList,
    /// Whether an object that pays the scope in this domain must carry each limited key.
    pub mandatory: bool,
    /// What becomes of a limit below what is allocated already.
    pub undercut: Undercut,
}

/// What becomes of a limit below what is allocated already. If it is accepted, growth is refused until less is
/// allocated, and the excess also counts in the scope that is paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Undercut {
    /// It is refused.
    #[default]
    Refused,
    /// It is accepted where there was no limit: what exists came to be without one.
    WhereUnlimited,
    /// It is accepted: it follows from something that is not decided here.
    Taken,
}

impl Limits {
    /// Limits that stay at or above what is allocated.
    pub fn new(hard: ResourceList, mandatory: bool) -> Self {
        Self { hard, mandatory, undercut: Undercut::Refused }
    }
}

/// A place in a domain that two objects never share, such as a namespace of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claim {
    /// The domain.
    pub domain: String,
    /// The place in it.
    pub place: String,
}

impl Account {
    /// Whether both sides of a write are the same but for flags and owner: then nothing in the ledger changes.
    pub fn weighs_as(&self, other: &Self) -> bool {
        self.pays == other.pays
            && self.costs == other.costs
            && self.carries == other.carries
            && self.grants == other.grants
            && self.claims == other.claims
    }

    /// Whether more is charged, or more is granted, than before; a new scope, domain, or charge is more.
    pub fn outgrows(&self, before: Option<&Self>) -> bool {
        let Some(before) = before else { return self.pays.is_some() || self.grants.is_some() };
        if self.weighs_as(before) {
            return false;
        }
        let costs_more = self.costs.iter().any(|(domain, list)| {
            let had = before.costs.get(domain);
            list.iter()
                .any(|(key, is)| had.and_then(|had| had.get(key)).map_or(!is.is_zero(), |was| is > was))
        });
        let uses = |account: &Self, domain: &String| {
            account.costs.contains_key(domain) || account.carries.contains_key(domain)
        };
        let new_domain = self.costs.keys().chain(self.carries.keys()).any(|domain| !uses(before, domain));
        self.pays.is_some() && (self.pays != before.pays || costs_more || new_domain)
            || Grants::more(before.grants.as_ref(), self.grants.as_ref())
    }

    /// Whether the ledger has to know of the object at all.
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
