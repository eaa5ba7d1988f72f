//! Turns orphans into holds of the ledger. An orphan is a namespace of a cluster that may take resources that no object
//! is charged for; the controller reports it.

use business_types::{Orphan, OrphanState, account};
use meta::quantity::Quantity;
use store::hold::Hold;
use store::quota::{Amounts, Claim, HoldState, Scope};

/// The hold for an orphan; `None` if its uid is not valid.
pub(super) fn hold_of(project: &str, orphan: &Orphan) -> Option<Hold> {
    let Orphan { cluster_name, namespace, uid, state, hard } = orphan;
    let claim = Claim { domain: cluster_name.clone(), place: namespace.clone() };
    let (claim, held, reason) = match state {
        OrphanState::Lost => (
            Some(claim),
            HoldState::Orphaned,
            "a namespace of the cluster was granted out of the project and belongs to no object".to_owned(),
        ),
        // Its object has the claim.
        OrphanState::Ahead => (
            None,
            HoldState::Orphaned,
            format!(
                "namespace {namespace} of cluster {cluster_name} may take more than its object is charged"
            ),
        ),
        OrphanState::Released | OrphanState::Unused => (
            Some(claim),
            HoldState::Released,
            "a namespace of the cluster was released and is in use".to_owned(),
        ),
    };
    Some(Hold {
        uid: uid.parse().ok()?,
        scope: Scope::new(account::PROJECT, project),
        claim,
        amounts: Amounts::from([(cluster_name.clone(), hard.clone())]),
        state: held,
        reason,
    })
}

/// Whether a hold is among these, or another hold of its project covers the same claim and amounts.
pub(super) fn is_covered(holds: &[Hold], hold: &Hold) -> bool {
    holds.iter().any(|held| {
        held == hold || (is_other_hold_of_claim(held, hold) && covers(&held.amounts, &hold.amounts))
    })
}

/// Whether another hold of the same project has the same claim, whatever its amounts.
pub(super) fn has_hold_of_claim(holds: &[Hold], hold: &Hold) -> bool {
    holds.iter().any(|held| is_other_hold_of_claim(held, hold))
}

fn is_other_hold_of_claim(held: &Hold, hold: &Hold) -> bool {
    held.uid != hold.uid && held.scope == hold.scope && hold.claim.is_some() && held.claim == hold.claim
}

/// Whether `held` has at least each amount of `wanted`.
fn covers(held: &Amounts, wanted: &Amounts) -> bool {
    wanted.iter().all(|(domain, list)| {
        let held = held.get(domain);
        list.iter().all(|(resource, amount)| {
            *amount <= held.and_then(|held| held.get(resource)).copied().unwrap_or(Quantity::ZERO)
        })
    })
}

/// Whether a hold must stay because of an orphan that is reported to this project.
pub(super) fn keeps_hold(project: &str, orphan: &Orphan, hold: &Hold) -> bool {
    orphan.state != OrphanState::Unused && is_hold_of(project, orphan, hold)
}

/// Whether a hold belongs to an orphan of this project.
pub(super) fn is_hold_of(project: &str, orphan: &Orphan, hold: &Hold) -> bool {
    match &hold.claim {
        Some(claim) => {
            orphan.state != OrphanState::Ahead
                && orphan.cluster_name == claim.domain
                && orphan.namespace == claim.place
        }
        // The object may have moved to another project: there the excess is held anew.
        None => {
            orphan.state == OrphanState::Ahead
                && orphan.uid.parse() == Ok(hold.uid)
                && hold.scope == Scope::new(account::PROJECT, project)
        }
    }
}

/// The clusters in which a hold counts.
pub(super) fn clusters(hold: &Hold) -> impl Iterator<Item = &str> {
    let claimed = hold.claim.as_ref().map(|claim| claim.domain.as_str());
    claimed.into_iter().chain(hold.amounts.keys().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orphan(state: OrphanState, number: u8) -> Orphan {
        Orphan {
            cluster_name: "c1".into(),
            namespace: "web".into(),
            uid: format!("00000000-0000-4000-8000-0000000000{number:02}"),
            state,
            hard: [("pods".to_owned(), "3".parse().unwrap())].into(),
        }
    }

    #[test]
    fn an_excess_is_held_beside_its_object_and_for_itself() {
        let [lost, ahead, other] = [(OrphanState::Lost, 1), (OrphanState::Ahead, 1), (OrphanState::Ahead, 2)]
            .map(|(state, number)| orphan(state, number));
        let hold = |orphan: &Orphan| hold_of("p", orphan).unwrap();
        assert_eq!(hold(&ahead).claim, None, "the object has the place");
        assert_eq!(clusters(&hold(&ahead)).collect::<Vec<_>>(), ["c1"]);
        assert!(!is_covered(&[hold(&ahead)], &hold(&other)), "two without a place are two");
        assert!(
            is_hold_of("p", &ahead, &hold(&ahead))
                && !is_hold_of("p", &other, &hold(&ahead))
                && !is_hold_of("p", &lost, &hold(&ahead))
        );
        assert!(!is_hold_of("q", &ahead, &hold(&ahead)), "its object has moved to another project");
        assert!(is_hold_of("p", &lost, &hold(&lost)) && !is_hold_of("p", &ahead, &hold(&lost)));
        let grown = Orphan { hard: [("pods".to_owned(), "4".parse().unwrap())].into(), ..ahead.clone() };
        assert!(is_covered(&[hold(&ahead)], &hold(&ahead)) && !is_covered(&[hold(&ahead)], &hold(&grown)));
    }

    #[test]
    fn a_place_is_held_once() {
        let (lost, released) = (orphan(OrphanState::Lost, 1), orphan(OrphanState::Released, 2));
        let hold = hold_of("p", &lost).unwrap();
        let held = std::slice::from_ref(&hold);
        assert!(is_covered(held, &hold_of("p", &released).unwrap()));
        let less = Orphan { hard: [("pods".to_owned(), "2".parse().unwrap())].into(), ..released.clone() };
        assert!(is_covered(held, &hold_of("p", &less).unwrap()));
        assert!(keeps_hold("p", &released, &hold), "what stands at the place keeps it");
        let unused = Orphan { state: OrphanState::Unused, ..released };
        assert!(is_hold_of("p", &unused, &hold) && !keeps_hold("p", &unused, &hold));
    }

    #[test]
    fn what_is_held_for_a_place_hides_no_larger_grant_and_none_of_another_project() {
        let (first, second) = (orphan(OrphanState::Lost, 1), orphan(OrphanState::Lost, 2));
        let held = [hold_of("p", &first).unwrap()];
        let foreign = hold_of("q", &second).unwrap();
        assert!(!is_covered(&held, &foreign) && !has_hold_of_claim(&held, &foreign));
        for hard in [("pods", "4"), ("services", "1")] {
            let hard = [(hard.0.to_owned(), hard.1.parse().unwrap())].into();
            let larger = hold_of("p", &Orphan { hard, ..second.clone() }).unwrap();
            assert!(!is_covered(&held, &larger) && has_hold_of_claim(&held, &larger), "{larger:?}");
            assert!(is_covered(&[held.as_slice(), std::slice::from_ref(&larger)].concat(), &larger));
        }
        let none = [("services".to_owned(), "0".parse().unwrap())].into();
        assert!(is_covered(&held, &hold_of("p", &Orphan { hard: none, ..second }).unwrap()));
    }
}
