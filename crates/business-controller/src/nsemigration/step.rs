//! What an emigration does next. Pure: its phase and where its namespace is, to a step. Nothing but the place of the
//! namespace says whether it was moved, so whoever takes over half-way goes on from there.

use crate::namespace::kind::NamespaceView;
use business_types::EmigrationPhase;

/// Where the namespace is that is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceLocation {
    /// In the project that it is to leave.
    Source,
    /// In the project that it goes to; whether its cluster says so, too.
    Destination { marked: bool },
    /// In neither.
    Gone,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmigrationStep {
    /// See whether the namespace could be moved, and show this phase.
    DryRun(EmigrationPhase),
    /// Move it.
    Move,
    /// Show this phase.
    Show(EmigrationPhase),
    /// Nothing, until the cluster's marks are rewritten.
    AwaitMarks,
    /// Nothing was done, and nothing can be any more.
    Fail { reason: &'static str, message: &'static str },
    /// It is at its end.
    Done,
}

/// What to do next.
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
        // What became of it elsewhere since it was moved is not the emigration's.
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

/// Where a namespace is, if it is the one that is meant.
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

    /// From any phase, whatever was answered or lost on the way, it comes to its end, and moves the namespace once.
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
