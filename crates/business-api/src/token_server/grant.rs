use super::scope::Actions;
use business_types::RobotAccess;
use business_types::registry::RegistryAccess;

/// The role of a caller in the registry, for an object that he sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistryRole {
    /// Somebody who sees the project, with a role below edit.
    Viewer,
    /// Somebody with the role edit, or a higher one.
    Editor,
    /// A robot of the project.
    Robot(RobotAccess),
}

/// Why a push is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushRefusal {
    /// The caller's role is below edit.
    ViewerOnly,
    /// The credential is for pulling only.
    PullOnly,
    /// The quota is used up.
    QuotaExceeded,
    /// The object is locked or being deleted: it can only be pulled from.
    ReadOnly,
    /// The object is not ready yet, or has failed.
    NotAvailable,
}

/// The actions that the role and the state of the object allow.
pub fn allowed(role: RegistryRole, offer: RegistryAccess) -> Actions {
    let offered = match offer {
        RegistryAccess::Nothing => Actions::NONE,
        RegistryAccess::Read => Actions { pull: true, ..Actions::NONE },
        RegistryAccess::Shrink => Actions { push: false, ..Actions::ALL },
        RegistryAccess::Write => Actions::ALL,
    };
    let own = match role {
        RegistryRole::Editor => Actions::ALL,
        RegistryRole::Robot(RobotAccess::Push) => Actions { delete: false, ..Actions::ALL },
        RegistryRole::Viewer | RegistryRole::Robot(RobotAccess::Pull) => {
            Actions { pull: true, ..Actions::NONE }
        }
    };
    own.intersection(offered)
}

/// Why this caller's push is refused, if it is.
pub fn push_refusal(role: RegistryRole, offer: RegistryAccess) -> Option<PushRefusal> {
    match (role, offer) {
        (RegistryRole::Viewer, _) => Some(PushRefusal::ViewerOnly),
        (RegistryRole::Robot(RobotAccess::Pull), _) => Some(PushRefusal::PullOnly),
        (_, RegistryAccess::Write) => None,
        (_, RegistryAccess::Shrink) => Some(PushRefusal::QuotaExceeded),
        (_, RegistryAccess::Read) => Some(PushRefusal::ReadOnly),
        (_, RegistryAccess::Nothing) => Some(PushRefusal::NotAvailable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_do_what_below_a_prefix() {
        let (pull, push) = (RegistryRole::Robot(RobotAccess::Pull), RegistryRole::Robot(RobotAccess::Push));
        let table = [
            (RegistryAccess::Write, "pull,push,delete", "pull,push", "pull"),
            (RegistryAccess::Shrink, "pull,delete", "pull", "pull"),
            (RegistryAccess::Read, "pull", "pull", "pull"),
            (RegistryAccess::Nothing, "", "", ""),
        ];
        for (offer, editor, pushes, pulls) in table {
            let roles = [
                (RegistryRole::Editor, editor),
                (RegistryRole::Viewer, pulls),
                (push, pushes),
                (pull, pulls),
            ];
            for (role, want) in roles {
                let may = allowed(role, offer);
                assert_eq!(may.names().join(","), want, "{role:?} {offer:?}");
                assert_eq!(push_refusal(role, offer).is_none(), may.push, "{role:?} {offer:?}");
            }
        }
        assert_eq!(
            push_refusal(pull, RegistryAccess::Shrink),
            Some(PushRefusal::PullOnly),
            "his own affair comes first"
        );
        assert_eq!(push_refusal(push, RegistryAccess::Shrink), Some(PushRefusal::QuotaExceeded));
    }
}
