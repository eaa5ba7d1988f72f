use super::internal_decode_error;
use apiserver::strategy::WriteContext;
use apiserver::subresource::{Action, BodySchema, HandlerOutput, SubresourceHandler};
use apiserver::{Subresource, Verb, View};
use business_types::OperatorAct;
use business_types::names::{self, GROUP};
use business_types::operator_act::{gvk, schema};
use futures_util::future::BoxFuture;
use meta::gvk::GroupResource;
use meta::object::Object;
use meta::status::Status;
use serde_json::json;

const LOCKED: &[&str] = &["status", "locked"];

/// An act of operators on an object: a subresource with a right of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A project takes nothing new and does not grow; an object of the registry takes no pushes.
    Lock,
    /// Ends a lock.
    Unlock,
    /// A namespace that is being deleted may go although nobody has confirmed that its cluster has deleted it. A hold
    /// keeps its charge.
    Abandon,
}

impl Act {
    /// The subresource that does it.
    pub fn subresource(self) -> Subresource {
        Subresource::handled(self.name(), &[Verb::Create], OperatorActHandler::new(self))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Unlock => "unlock",
            Self::Abandon => "abandon",
        }
    }

    fn annotation(self) -> [&'static str; 3] {
        let key = match self {
            Self::Lock | Self::Unlock => names::LOCK_REASON_ANNOTATION,
            Self::Abandon => names::ABANDON_ANNOTATION,
        };
        ["metadata", "annotations", key]
    }

    /// The object after the act.
    fn apply(self, live: &Object, reason: &str) -> Result<Object, Status> {
        let mut object = live.clone();
        match self {
            Self::Lock => {
                object.set(LOCKED, json!(true));
                object.set(&self.annotation(), json!(reason));
            }
            Self::Unlock => {
                object.remove(LOCKED);
                object.remove(&self.annotation());
            }
            Self::Abandon if !live.is_deleting() => {
                let why = "only what is being deleted can be abandoned: delete it first";
                let namespaces = GroupResource::new(GROUP, names::NAMESPACES);
                return Err(Status::conflict(&namespaces, live.name(), why));
            }
            Self::Abandon => object.set(&self.annotation(), json!(reason)),
        }
        Ok(object)
    }
}

/// Handles the subresource of an act.
#[derive(Debug)]
struct OperatorActHandler {
    act: Act,
    shape: BodySchema,
}

impl OperatorActHandler {
    fn new(act: Act) -> Self {
        Self { act, shape: BodySchema { kind: gvk(), schema: schema() } }
    }

    fn request_of(action: Action<'_>) -> Result<OperatorAct, Status> {
        let request = action.body.map(OperatorAct::of).transpose().map_err(internal_decode_error)?;
        Ok(request.unwrap_or_default())
    }

    fn execute(&self, action: Action<'_>) -> Result<HandlerOutput, Status> {
        let request = Self::request_of(action)?;
        let errors = request.validate();
        if !errors.is_empty() {
            return Err(Status::invalid(&gvk(), action.object.name(), &errors));
        }
        let mut answer = Object::default();
        answer.set(&["reason"], json!(request.reason));
        Ok(HandlerOutput { object: Some(self.act.apply(action.object, &request.reason)?), answer })
    }
}

impl SubresourceHandler for OperatorActHandler {
    fn body(&self) -> Option<&BodySchema> {
        Some(&self.shape)
    }

    fn answer(&self) -> &BodySchema {
        &self.shape
    }

    fn handle<'a>(
        &'a self,
        _cx: &'a mut WriteContext<'_>,
        _view: View<'a>,
        action: Action<'a>,
    ) -> BoxFuture<'a, Result<HandlerOutput, Status>> {
        Box::pin(std::future::ready(self.execute(action)))
    }

    fn note(&self, action: Action<'_>) -> String {
        let reason = Self::request_of(action).unwrap_or_default().reason;
        format!("{}: {reason}", self.act.name())
    }
}
