//! The state machine of emigrations. Pure: from the phase and the location of the namespace to a step. Only the
//! location says whether the namespace was moved, so another replica can take over half-way.

use crate::namespace::kind::NamespaceView;
use business_types::EmigrationPhase;

/// Where the namespace of the emigration is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceLocation {
    /// In the source project.
    Source,
    /// In the destination project. `marked` says whether its cluster shows that.
    Destination { marked: bool },
    /// In neither.
    Gone,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmigrationStep {
    /// Try the move as a dry run, and show this phase.
    DryRun(EmigrationPhase),
    /// Move the namespace.
    Move,
    /// Show this phase.
    Show(EmigrationPhase),
    /// Wait until the marks in the cluster are rewritten.
    AwaitMarks,
    /// Fail: nothing was done, and nothing can be done any more.
    Fail { reason: &'static str, message: &'static str },
    /// The emigration has ended.
    Done,
}

/// Decides the next step.
pub fn next(phase: EmigrationPhase, namespace: &NamespaceLocation) -> EmigrationStep {
    use EmigrationPhase::{
        Failed, Finished, NewOneCreated, OldOneDetached, OldOneLocked, OldOneTerminating, Pending,
    };
    match (phase, namespace) {
        (Finished | Failed, _) => EmigrationStep::Done,
        (Pending, NamespaceLocation::Source) => EmigrationStep::DryRun(OldOneLocked),
        (OldOneLocked, NamespaceLocation::Source) => EmigrationStep::Show(OldOneDetached),
        (OldOneDetached, NamespaceLocation::Source) => EmigrationStep::Move,
        (Pending | OldOneLocked | OldOneDetached, NamespaceLocation::Destination { .. }) => {
            EmigrationStep::Show(NewOneCreated)
        }
        (NewOneCreated, NamespaceLocation::Destination { .. }) => EmigrationStep::Show(OldOneTerminating),
        (OldOneTerminating, NamespaceLocation::Destination { marked: false }) => EmigrationStep::AwaitMarks,
        // If the namespace was moved or deleted after the move, that is no matter of the emigration.
        (OldOneTerminating, NamespaceLocation::Destination { marked: true })
        | (NewOneCreated | OldOneTerminating, NamespaceLocation::Source | NamespaceLocation::Gone) => {
            EmigrationStep::Show(Finished)
        }
        (Pending | OldOneLocked | OldOneDetached, NamespaceLocation::Gone) => EmigrationStep::Fail {
            reason: "NamespaceGone",
            message: "the namespace was deleted, or moved elsewhere",
        },
    }
}

/// Locates the namespace by its uid.
pub fn locate(
    uid: &str,
    source: Option<&NamespaceView>,
    destination: Option<&NamespaceView>,
) -> NamespaceLocation {
    let is_it = |view: &&NamespaceView| view.uid == uid;
    if source.filter(is_it).is_some_and(|view| !view.is_deleting()) {
        return NamespaceLocation::Source;
    }
    match destination.filter(is_it) {
        Some(view) => NamespaceLocation::Destination { marked: !view.is_being_transferred() },
        None => NamespaceLocation::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::pending;

    /// From any phase, whatever answer was lost, an emigration ends, and moves the namespace once.
    #[test]
    fn every_emigration_comes_to_its_end() {
        use EmigrationPhase::{NewOneCreated, OldOneDetached, OldOneLocked, OldOneTerminating, Pending};
        for begun in [Pending, OldOneLocked, OldOneDetached, NewOneCreated, OldOneTerminating] {
            for was_moved in [false, true] {
                let there = NamespaceLocation::Destination { marked: true };
                let place = |moved| if moved { there.clone() } else { NamespaceLocation::Source };
                let (mut phase, mut moved, mut moves) = (begun, was_moved, 0);
                let end = loop {
                    match next(phase, &place(moved)) {
                        EmigrationStep::DryRun(shown) | EmigrationStep::Show(shown) => phase = shown,
                        EmigrationStep::Move => (moved, moves) = (true, moves + 1),
                        end => break end,
                    }
                };
                assert_eq!((end, phase), (EmigrationStep::Done, EmigrationPhase::Finished), "{begun:?}");
                let is_early = matches!(begun, Pending | OldOneLocked | OldOneDetached);
                assert_eq!(moves, u32::from(is_early && !was_moved), "{begun:?}");
            }
        }
    }

    #[test]
    fn only_the_namespace_that_was_meant_counts() {
        let there = pending(&[("pods", "1")]);
        assert_eq!(locate("u", Some(&there), None), NamespaceLocation::Source);
        assert_eq!(locate("u", None, Some(&there)), NamespaceLocation::Destination { marked: true });
        assert_eq!(locate("another", Some(&there), Some(&there)), NamespaceLocation::Gone);
        assert_eq!(locate("u", Some(&there.ending()), None), NamespaceLocation::Gone);
    }
}
