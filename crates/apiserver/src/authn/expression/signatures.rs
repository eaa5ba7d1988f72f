use super::cel_type::CelType;
use ValueType::{Bool, Int, Text, Texts};

/// The type of a method's receiver, argument or result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueType {
    Text,
    Texts,
    Int,
    Bool,
}

impl ValueType {
    pub(super) fn cel_type(self) -> CelType {
        match self {
            Self::Text => CelType::String,
            Self::Texts => CelType::List(Box::new(CelType::String)),
            Self::Int => CelType::Int,
            Self::Bool => CelType::Bool,
        }
    }
}

/// A method that gives the same results in Kubernetes and in the library.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signature {
    pub(super) name: &'static str,
    pub(super) receiver: ValueType,
    pub(super) params: &'static [ValueType],
    pub(super) result: ValueType,
}

const fn on_text(name: &'static str, params: &'static [ValueType], result: ValueType) -> Signature {
    Signature { name, receiver: Text, params, result }
}

/// All supported methods but `size`, `matches` and those of optional values, which are checked separately.
pub(super) const METHODS: &[Signature] = &[
    on_text("startsWith", &[Text], Bool),
    on_text("endsWith", &[Text], Bool),
    on_text("contains", &[Text], Bool),
    on_text("lowerAscii", &[], Text),
    on_text("upperAscii", &[], Text),
    on_text("trim", &[], Text),
    on_text("replace", &[Text, Text], Text),
    on_text("replace", &[Text, Text, Int], Text),
    on_text("split", &[Text], Texts),
    on_text("split", &[Text, Int], Texts),
    on_text("substring", &[Int], Text),
    on_text("substring", &[Int, Int], Text),
    on_text("indexOf", &[Text], Int),
    on_text("lastIndexOf", &[Text], Int),
    on_text("charAt", &[Int], Text),
    Signature { name: "join", receiver: Texts, params: &[], result: Text },
    Signature { name: "join", receiver: Texts, params: &[Text], result: Text },
];
