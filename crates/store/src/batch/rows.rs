use crate::Error;
use quota::{Claim, Scope};
use std::collections::HashMap;

/// The scopes that a batch touches, as the arrays `s_…` of `apply_batch`. Indices count from 1, as PostgreSQL's do; 0
/// is none.
#[derive(Debug, Default)]
pub(super) struct ScopeArrays<'a> {
    indices: HashMap<&'a Scope, i32>,
    pub(super) kind: Vec<i16>,
    pub(super) name: Vec<&'a str>,
    /// The index of the scope's own row in the ledger.
    pub(super) row: Vec<i32>,
    /// The tenant of its payers; none when no write needs anything from it.
    pub(super) payer: Vec<Option<&'a str>>,
    /// Some payer's charge grows.
    pub(super) grows: Vec<bool>,
    /// Some payer is new.
    pub(super) fresh: Vec<bool>,
    /// Its limits change in this batch.
    pub(super) limited: Vec<bool>,
    /// The charge of some payer changes in this batch.
    pub(super) paid: Vec<bool>,
    /// It is locked or being deleted after some write of this batch.
    pub(super) shut: Vec<bool>,
}

/// The rows of the ledger that a batch touches, and the sum of what it does to each, as the arrays `l_…` of
/// `apply_batch`.
#[derive(Debug, Default)]
pub(super) struct LedgerArrays<'a> {
    indices: HashMap<(i32, &'a str, &'a str), i32>,
    pub(super) scope: Vec<i32>,
    pub(super) domain: Vec<&'a str>,
    pub(super) key: Vec<&'a str>,
    /// The row of the domain; 0 for a row that stands for a domain or scope.
    pub(super) parent: Vec<i32>,
    /// The change of the allocated amount.
    pub(super) delta: Vec<i128>,
    /// The part of it that rises.
    pub(super) grow: Vec<i128>,
    /// The change of the number of children.
    pub(super) child: Vec<i32>,
    /// The number of children that are new in the row.
    pub(super) joins: Vec<i32>,
    /// Some write requires that the scope lists the domain.
    pub(super) lists: Vec<bool>,
    /// The number of children in the row whose keys are checked.
    pub(super) keyed: Vec<i32>,
    /// The limit, `listed` or `mandatory` of the row is set.
    pub(super) sets: Vec<bool>,
    pub(super) new_hard: Vec<Option<String>>,
    pub(super) new_listed: Vec<bool>,
    pub(super) new_mandatory: Vec<bool>,
    /// The change of the number of limited keys of the domain.
    pub(super) more_limits: Vec<i32>,
}

/// The places that a batch claims or releases, as the arrays `c_…` of `apply_batch`.
#[derive(Debug, Default)]
pub(super) struct ClaimArrays<'a> {
    indices: HashMap<&'a Claim, i32>,
    pub(super) domain: Vec<&'a str>,
    pub(super) place: Vec<&'a str>,
    pub(super) uid: Vec<uuid::Uuid>,
    pub(super) entry: Vec<i32>,
}

/// The element at an index that counts from 1.
pub(super) fn element_mut<T>(list: &mut [T], index: i32) -> Option<&mut T> {
    list.get_mut(usize::try_from(index).ok()?.checked_sub(1)?)
}

/// A count as a number of PostgreSQL. A batch is far smaller than what fits.
pub(super) fn to_i32(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Refuses an empty name: in the ledger it stands for a whole domain or scope.
pub(super) fn require_name(name: &str) -> Result<(), Error> {
    if name.is_empty() {
        Err(Error::Corrupt("a charge, limit or claim without a name".to_owned()))
    } else {
        Ok(())
    }
}

impl<'a> ScopeArrays<'a> {
    /// The index of a scope, which is added if it is new.
    pub(super) fn index_of(&mut self, scope: &'a Scope, rows: &mut LedgerArrays<'a>) -> i32 {
        if let Some(index) = self.indices.get(scope) {
            return *index;
        }
        let index = to_i32(self.name.len() + 1);
        self.indices.insert(scope, index);
        self.kind.push(scope.kind.0);
        self.name.push(&scope.name);
        self.row.push(rows.index_of(index, "", ""));
        self.payer.push(None);
        for flags in [&mut self.grows, &mut self.fresh, &mut self.limited, &mut self.paid, &mut self.shut] {
            flags.push(false);
        }
        index
    }

    /// Whether no write depends on an earlier one of the same batch.
    pub(super) fn are_independent(&self) -> bool {
        let mut each = self.limited.iter().zip(&self.paid).zip(self.shut.iter().zip(&self.grows));
        !each.any(|((limited, paid), (shut, grows))| (*limited && *paid) || (*shut && *grows))
    }
}

impl<'a> LedgerArrays<'a> {
    /// The index of a row, which is added if it is new, after the row of its domain.
    pub(super) fn index_of(&mut self, scope: i32, domain: &'a str, key: &'a str) -> i32 {
        if let Some(index) = self.indices.get(&(scope, domain, key)) {
            return *index;
        }
        let parent = if key.is_empty() { 0 } else { self.index_of(scope, domain, "") };
        self.scope.push(scope);
        self.domain.push(domain);
        self.key.push(key);
        self.parent.push(parent);
        self.delta.push(0);
        self.grow.push(0);
        for counts in [&mut self.child, &mut self.joins, &mut self.keyed, &mut self.more_limits] {
            counts.push(0);
        }
        for flags in [&mut self.lists, &mut self.sets, &mut self.new_listed, &mut self.new_mandatory] {
            flags.push(false);
        }
        self.new_hard.push(None);
        let index = to_i32(self.key.len());
        self.indices.insert((scope, domain, key), index);
        index
    }
}

impl<'a> ClaimArrays<'a> {
    /// The index of a place, which is added if it is new, and whether no earlier write of the batch has the place.
    pub(super) fn index_of(
        &mut self,
        claim: &'a Claim,
        uid: uuid::Uuid,
        entry: i32,
    ) -> Result<(i32, bool), Error> {
        if let Some(index) = self.indices.get(claim) {
            return Ok((*index, false));
        }
        require_name(&claim.domain)?;
        require_name(&claim.place)?;
        self.domain.push(&claim.domain);
        self.place.push(&claim.place);
        self.uid.push(uid);
        self.entry.push(entry);
        let index = to_i32(self.place.len());
        self.indices.insert(claim, index);
        Ok((index, true))
    }
}
