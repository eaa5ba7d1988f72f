use super::scope::Actions;
use business_types::RobotAccess;
use business_types::registry::Offer;

/// The role of a caller for an object that he sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistryRole {
    /// Somebody who looks at the project.
    Viewer,
    /// Somebody with the role edit, or a higher one.
    Editor,
    /// A robot of the project.
    Robot(RobotAccess),
}

/// Why a push is refused with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPush {
    /// The caller may only look at the project.
    LooksOnly,
    /// The credential is for pulling.
    PullOnly,
    /// The quota is used up.
    UsedUp,
    /// It can be read.
    ReadOnly,
    /// It is not there yet, or failed.
    Closed,
}

/// Everything that may be done.
pub fn allowed(standing: RegistryRole, offer: Offer) -> Actions {
    let offered = match offer {
        Offer::Nothing => Actions::NONE,
        Offer::Read => Actions { pull: true, ..Actions::NONE },
        Offer::Shrink => Actions { push: false, ..Actions::ALL },
        Offer::Write => Actions::ALL,
    };
    let own = match standing {
        RegistryRole::Editor => Actions::ALL,
        RegistryRole::Robot(RobotAccess::Push) => Actions { delete: false, ..Actions::ALL },
        RegistryRole::Viewer | RegistryRole::Robot(RobotAccess::Pull) => {
            Actions { pull: true, ..Actions::NONE }
        }
    };
    own.and(offered)
}

/// Why this caller's push is refused, if it is.
pub fn no_push(standing: RegistryRole, offer: Offer) -> Option<NoPush> {
    match (standing, offer) {
        (RegistryRole::Viewer, _) => Some(NoPush::LooksOnly),
        (RegistryRole::Robot(RobotAccess::Pull), _) => Some(NoPush::PullOnly),
        (_, Offer::Write) => None,
        (_, Offer::Shrink) => Some(NoPush::UsedUp),
        (_, Offer::Read) => Some(NoPush::ReadOnly),
        (_, Offer::Nothing) => Some(NoPush::Closed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_do_what_below_a_prefix() {
        let (pull, push) = (RegistryRole::Robot(RobotAccess::Pull), RegistryRole::Robot(RobotAccess::Push));
        let table = [
            (Offer::Write, "pull,push,delete", "pull,push", "pull"),
            (Offer::Shrink, "pull,delete", "pull", "pull"),
            (Offer::Read, "pull", "pull", "pull"),
            (Offer::Nothing, "", "", ""),
        ];
        for (offer, editor, pushes, pulls) in table {
            let roles = [
                (RegistryRole::Editor, editor),
                (RegistryRole::Viewer, pulls),
                (push, pushes),
                (pull, pulls),
            ];
            for (standing, want) in roles {
                let may = allowed(standing, offer);
                assert_eq!(may.names().join(","), want, "{standing:?} {offer:?}");
                assert_eq!(no_push(standing, offer).is_none(), may.push, "{standing:?} {offer:?}");
            }
        }
        assert_eq!(no_push(pull, Offer::Shrink), Some(NoPush::PullOnly), "his own affair comes first");
        assert_eq!(no_push(push, Offer::Shrink), Some(NoPush::UsedUp));
    }
}
