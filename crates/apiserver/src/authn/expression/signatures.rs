use super::kind::Kind;
use Shape::{Bool, Int, Text, Texts};

/// The type of a method's receiver, argument or result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    Texts,
    Int,
    Bool,
}

impl Shape {
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Text => Kind::String,
            Self::Texts => Kind::List(Box::new(Kind::String)),
            Self::Int => Kind::Int,
            Self::Bool => Kind::Bool,
        }
    }
}

/// A method that Kubernetes and the library have, with the same answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signature {
    pub(super) name: &'static str,
    pub(super) of: Shape,
    pub(super) takes: &'static [Shape],
    pub(super) gives: Shape,
}

const fn on_text(name: &'static str, takes: &'static [Shape], gives: Shape) -> Signature {
    Signature { name, of: Text, takes, gives }
}

/// All of them. `size`, `matches` and the methods of optional values are checked separately.
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
    Signature { name: "join", of: Texts, takes: &[], gives: Text },
    Signature { name: "join", of: Texts, takes: &[Text], gives: Text },
];
