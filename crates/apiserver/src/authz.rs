use crate::authn::Caller;
use crate::request::RequestInfo;
use store::Visibility;

/// The program's own rules, asked before any SubjectAccessReview, and the judge of what an allowed caller sees.
pub trait Policy: Send + Sync + 'static {
    /// Allows by a built-in rule, refuses for good, or leaves it to the reviews.
    fn decide(&self, caller: &Caller, request: &RequestInfo) -> Verdict;

    /// What an allowed caller sees. `operator` tells whether he holds the cross-tenant right
    /// ([`Policy::operator_right`], or `system:masters`). [`Visibility::Nothing`] lets lists answer empty and
    /// collections delete nothing without touching the database.
    fn visibility(&self, caller: &Caller, request: &RequestInfo, operator: bool) -> Visibility;

    /// The cross-tenant right: verb, group and resource of a SubjectAccessReview at cluster scope.
    fn operator_right(&self) -> (&'static str, &'static str, &'static str);
}

/// What a built-in rule says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Allowed.
    Allow,
    /// Refused, whatever the reviews say; the text ends the 403's message.
    Deny(String),
    /// Not for these rules to say.
    NoOpinion,
}
