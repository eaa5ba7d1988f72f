use meta::quantity::{Quantity, ResourceList};

/// The high-water mark after `spec.hard` was set to `hard`: for each resource the larger amount of both.
pub fn raise(mark: &ResourceList, hard: &ResourceList) -> ResourceList {
    let mut raised = hard.clone();
    for (resource, charged) in mark {
        let slot = raised.entry(resource.clone()).or_insert(*charged);
        if *charged > *slot {
            *slot = *charged;
        }
    }
    raised
}

/// What a write of the status proposes as the high-water mark, and which state it was made from.
#[derive(Clone, Copy, Debug)]
pub struct Confirmation<'a> {
    /// The proposed mark; `None` if the write does not propose one.
    pub proposed: Option<&'a ResourceList>,
    /// Whether the write has the `resourceVersion` of the object that it was made from.
    pub versioned: bool,
    /// `status.observedGeneration`
    pub observed_generation: Option<i64>,
}

/// The object whose high-water mark a [`Confirmation`] may lower.
#[derive(Clone, Copy, Debug)]
pub struct ConfirmationTarget<'a> {
    /// Its high-water mark.
    pub mark: &'a ResourceList,
    /// `spec.hard`
    pub hard: &'a ResourceList,
    /// `metadata.generation`
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// Why a write of the status may not lower the high-water mark.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfirmationError {
    /// The write has no `resourceVersion`.
    #[error("status.cachedSpecHard can only be lowered by a write that carries metadata.resourceVersion")]
    Unversioned,
    /// The write was made from another generation of the spec.
    #[error(
        "status.cachedSpecHard can only be lowered for the current spec: status.observedGeneration is {observed}, \
         metadata.generation is {current}"
    )]
    OtherGeneration {
        /// The generation that the write was made from.
        observed: i64,
        /// The object's generation.
        current: i64,
    },
    /// The object would be charged less than it is granted.
    #[error("status.cachedSpecHard[{resource}] cannot be lowered to {proposed}, below spec.hard {hard}")]
    BelowHard {
        /// The resource.
        resource: String,
        /// The proposed mark.
        proposed: Quantity,
        /// What is granted.
        hard: Quantity,
    },
}

/// The high-water mark after a write of the status. Such a write never raises it. A confirmation may lower it, but not
/// below `spec.hard`. Only for an object that is being deleted it may propose an empty list: nothing is left in the
/// cluster.
pub fn confirm(
    object: ConfirmationTarget<'_>,
    confirmation: Confirmation<'_>,
) -> Result<ResourceList, ConfirmationError> {
    // A missing key counts as lowered, even if its amount was zero: a mark of zeros is not an empty mark.
    let is_lowered = |proposed: &ResourceList| {
        object.mark.iter().any(|(key, charged)| proposed.get(key).is_none_or(|proposed| proposed < charged))
    };
    let Some(proposed) = confirmation.proposed.filter(|proposed| is_lowered(proposed)) else {
        return Ok(object.mark.clone());
    };
    if !confirmation.versioned {
        return Err(ConfirmationError::Unversioned);
    }
    if confirmation.observed_generation != Some(object.generation) {
        let observed = confirmation.observed_generation.unwrap_or_default();
        return Err(ConfirmationError::OtherGeneration { observed, current: object.generation });
    }
    if object.deleting && proposed.is_empty() {
        return Ok(ResourceList::new());
    }
    for (resource, hard) in object.hard {
        let proposed = amount(proposed, resource);
        // The charge can only be below `spec.hard` already if an earlier write has confirmed that nothing is left.
        if proposed < *hard && proposed < amount(object.mark, resource) {
            return Err(ConfirmationError::BelowHard { resource: resource.clone(), proposed, hard: *hard });
        }
    }
    let kept = object.mark.iter().filter_map(|(resource, charged)| {
        let proposed = proposed.get(resource).or_else(|| object.hard.get(resource))?;
        Some((resource.clone(), *proposed.min(charged)))
    });
    Ok(kept.collect())
}

fn amount(list: &ResourceList, resource: &str) -> Quantity {
    list.get(resource).copied().unwrap_or(Quantity::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(pairs: &[(&str, &str)]) -> ResourceList {
        pairs.iter().map(|(key, text)| ((*key).to_owned(), text.parse().unwrap())).collect()
    }

    fn decide(
        mark: &ResourceList,
        hard: &ResourceList,
        deleting: bool,
        wanted: &ResourceList,
    ) -> Result<ResourceList, ConfirmationError> {
        let confirmation =
            Confirmation { proposed: Some(wanted), versioned: true, observed_generation: Some(3) };
        confirm(ConfirmationTarget { mark, hard, generation: 3, deleting }, confirmation)
    }

    #[test]
    fn the_mark_rises_with_every_key_of_either_side() {
        let mark = list(&[("cpu", "2"), ("pods", "5"), ("memory", "1Gi")]);
        let hard = list(&[("cpu", "1500m"), ("pods", "7"), ("services", "1")]);
        assert_eq!(
            raise(&mark, &hard),
            list(&[("cpu", "2"), ("pods", "7"), ("memory", "1Gi"), ("services", "1")])
        );
    }

    #[test]
    fn a_confirmation_lowers_to_what_is_granted_or_used_and_no_further() {
        let (mark, hard) = (list(&[("pods", "20"), ("cpu", "2")]), list(&[("pods", "10")]));
        assert_eq!(
            decide(&mark, &hard, false, &hard),
            Ok(hard.clone()),
            "a key that is gone is refunded whole"
        );
        let used = list(&[("pods", "15"), ("cpu", "1")]);
        assert_eq!(
            decide(&mark, &hard, false, &used),
            Ok(used.clone()),
            "use is charged until it has fallen"
        );
        let low = list(&[("pods", "9")]);
        assert!(matches!(decide(&mark, &hard, false, &low), Err(ConfirmationError::BelowHard { .. })));
        assert!(matches!(decide(&mark, &hard, true, &low), Err(ConfirmationError::BelowHard { .. })));
        assert!(decide(&mark, &hard, false, &ResourceList::new()).is_err());
    }

    #[test]
    fn only_an_object_being_deleted_is_charged_nothing() {
        let mark = list(&[("pods", "20")]);
        assert_eq!(decide(&mark, &mark, true, &ResourceList::new()), Ok(ResourceList::new()));
        assert!(decide(&mark, &mark, false, &ResourceList::new()).is_err());
        assert_eq!(decide(&ResourceList::new(), &mark, true, &mark), Ok(ResourceList::new()), "and stays so");
        let zeros = list(&[("pods", "0")]);
        assert_eq!(decide(&zeros, &zeros, true, &ResourceList::new()), Ok(ResourceList::new()));
        assert_eq!(decide(&zeros, &zeros, false, &ResourceList::new()), Ok(zeros));
    }

    #[test]
    fn a_key_of_which_nothing_was_charged_goes_like_any_other() {
        let (mark, hard) = (list(&[("pods", "10"), ("services", "0")]), list(&[("pods", "10")]));
        assert_eq!(decide(&mark, &hard, false, &hard), Ok(hard.clone()));
    }

    #[test]
    fn a_write_of_status_never_raises_the_mark() {
        let mark = list(&[("pods", "10")]);
        assert_eq!(decide(&mark, &mark, false, &list(&[("pods", "11"), ("cpu", "1")])), Ok(mark.clone()));
        let higher_and_lower = list(&[("pods", "10"), ("cpu", "5")]);
        let two = list(&[("pods", "20"), ("cpu", "1")]);
        assert_eq!(decide(&two, &mark, false, &higher_and_lower), Ok(list(&[("pods", "10"), ("cpu", "1")])));
    }

    #[test]
    fn what_was_made_from_another_state_confirms_nothing() {
        let (mark, hard) = (list(&[("pods", "20")]), list(&[("pods", "10")]));
        let object = ConfirmationTarget { mark: &mark, hard: &hard, generation: 4, deleting: false };
        let confirmation =
            Confirmation { proposed: Some(&hard), versioned: true, observed_generation: Some(3) };
        assert_eq!(
            confirm(object, confirmation),
            Err(ConfirmationError::OtherGeneration { observed: 3, current: 4 })
        );
        let unversioned = Confirmation { versioned: false, observed_generation: Some(4), ..confirmation };
        assert_eq!(confirm(object, unversioned), Err(ConfirmationError::Unversioned));
        let silent = Confirmation { proposed: None, versioned: false, observed_generation: None };
        assert_eq!(confirm(object, silent), Ok(mark.clone()));
        let same = Confirmation { proposed: Some(&mark), ..silent };
        assert_eq!(confirm(object, same), Ok(mark.clone()), "an echo needs no proof");
    }

    fn lists() -> impl Strategy<Value = ResourceList> {
        proptest::collection::btree_map("[a-d]", (0_i64..6).prop_map(Quantity::from_units), 0..4)
    }

    proptest! {
        #[test]
        fn the_charge_is_never_below_what_is_granted(
            first in lists(),
            steps in proptest::collection::vec((any::<bool>(), lists()), 1..12),
        ) {
            let (mut mark, mut hard) = (first.clone(), first);
            for (spec_write, list) in steps {
                if spec_write {
                    mark = raise(&mark, &list);
                    hard = list;
                } else if let Ok(lowered) = decide(&mark, &hard, false, &list) {
                    prop_assert!(lowered.iter().all(|(key, value)| *value <= amount(&mark, key)));
                    mark = lowered;
                }
                prop_assert!(hard.iter().all(|(key, value)| amount(&mark, key) >= *value));
            }
        }
    }
}
