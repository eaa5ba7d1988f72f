use crate::Error;
use quota::{Claim, Scope};
use std::collections::HashMap;

/// The scopes that a batch concerns. Indices count from 1, as PostgreSQL's do; 0 is none.
#[derive(Debug, Default)]
pub(super) struct Scopes<'a> {
    places: HashMap<&'a Scope, i32>,
    pub(super) kind: Vec<i16>,
    pub(super) name: Vec<&'a str>,
    /// The scope's own row of the ledger.
    pub(super) row: Vec<i32>,
    /// The tenant of its payers; none when no write asks it for anything.
    pub(super) payer: Vec<Option<&'a str>>,
    pub(super) grows: Vec<bool>,
    pub(super) fresh: Vec<bool>,
    /// Its limits change in this batch.
    pub(super) limited: Vec<bool>,
    /// The charge of some payer changes in this batch.
    pub(super) paid: Vec<bool>,
    /// It is locked or deleted in this batch.
    pub(super) shut: Vec<bool>,
}

/// The rows of the ledger that a batch concerns, and the sum of what it does to each.
#[derive(Debug, Default)]
pub(super) struct Rows<'a> {
    places: HashMap<(i32, &'a str, &'a str), i32>,
    pub(super) scope: Vec<i32>,
    pub(super) domain: Vec<&'a str>,
    pub(super) key: Vec<&'a str>,
    pub(super) parent: Vec<i32>,
    pub(super) delta: Vec<i128>,
    pub(super) grow: Vec<i128>,
    pub(super) child: Vec<i32>,
    pub(super) joins: Vec<i32>,
    /// Some write demands that it is listed.
    pub(super) lists: Vec<bool>,
    pub(super) keyed: Vec<i32>,
    pub(super) sets: Vec<bool>,
    pub(super) new_hard: Vec<Option<String>>,
    pub(super) new_listed: Vec<bool>,
    pub(super) new_mandatory: Vec<bool>,
    pub(super) more_limits: Vec<i32>,
}

/// The places that a batch takes or gives back.
#[derive(Debug, Default)]
pub(super) struct ClaimRows<'a> {
    places: HashMap<&'a Claim, i32>,
    pub(super) domain: Vec<&'a str>,
    pub(super) place: Vec<&'a str>,
    pub(super) uid: Vec<uuid::Uuid>,
    pub(super) entry: Vec<i32>,
}

/// The element at an index that counts from 1.
pub(super) fn at<T>(list: &mut [T], index: i32) -> Option<&mut T> {
    list.get_mut(usize::try_from(index).ok()?.checked_sub(1)?)
}

/// A batch is far smaller than what fits.
pub(super) fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Refuses an empty name of a write: in the ledger it stands for the whole.
pub(super) fn named(name: &str) -> Result<(), Error> {
    if name.is_empty() {
        Err(Error::Corrupt("a charge, limit or claim without a name".to_owned()))
    } else {
        Ok(())
    }
}

impl<'a> Scopes<'a> {
    /// The index of a scope.
    pub(super) fn index(&mut self, scope: &'a Scope, rows: &mut Rows<'a>) -> i32 {
        if let Some(index) = self.places.get(scope) {
            return *index;
        }
        let index = count(self.name.len() + 1);
        self.places.insert(scope, index);
        self.kind.push(scope.kind.0);
        self.name.push(&scope.name);
        self.row.push(rows.index(index, "", ""));
        self.payer.push(None);
        for flags in [&mut self.grows, &mut self.fresh, &mut self.limited, &mut self.paid, &mut self.shut] {
            flags.push(false);
        }
        index
    }

    /// Whether no write depends on an earlier one of the same batch.
    pub(super) fn are_apart(&self) -> bool {
        let mut each = self.limited.iter().zip(&self.paid).zip(self.shut.iter().zip(&self.grows));
        !each.any(|((limited, paid), (shut, grows))| (*limited && *paid) || (*shut && *grows))
    }
}

impl<'a> Rows<'a> {
    /// The index of a row; the row of its domain comes before it.
    pub(super) fn index(&mut self, scope: i32, domain: &'a str, key: &'a str) -> i32 {
        if let Some(index) = self.places.get(&(scope, domain, key)) {
            return *index;
        }
        let parent = if key.is_empty() { 0 } else { self.index(scope, domain, "") };
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
        let index = count(self.key.len());
        self.places.insert((scope, domain, key), index);
        index
    }
}

impl<'a> ClaimRows<'a> {
    /// The index of a place for a write, and whether no other write of the batch is about it.
    pub(super) fn index(
        &mut self,
        claim: &'a Claim,
        uid: uuid::Uuid,
        entry: i32,
    ) -> Result<(i32, bool), Error> {
        if let Some(index) = self.places.get(claim) {
            return Ok((*index, false));
        }
        named(&claim.domain)?;
        named(&claim.place)?;
        self.domain.push(&claim.domain);
        self.place.push(&claim.place);
        self.uid.push(uid);
        self.entry.push(entry);
        let index = count(self.place.len());
        self.places.insert(claim, index);
        Ok((index, true))
    }
}
