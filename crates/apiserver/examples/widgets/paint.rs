//! A subresource with a handler: POST `widgets/NAME/paint` changes the colour of a widget, and GET answers with its
//! colour, as a plain text with `?format=text`.

use super::names::GROUP;
use apiserver::request::Query;
use apiserver::strategy::WriteContext;
use apiserver::subresource::{Action, BodySchema, HandlerOutput, SubresourceHandler, TextAnswer};
use apiserver::{Verb, View};
use futures_util::future::BoxFuture;
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::openapi::OpenApiParameter;
use meta::schema::Schema;
use meta::status::Status;
use serde_json::json;

const COLOUR: &[&str] = &["spec", "colour"];

/// Paints widgets.
#[derive(Debug)]
pub(crate) struct Painting {
    shape: BodySchema,
}

impl Painting {
    pub(crate) fn new() -> Self {
        let spec = Schema::object(
            "What is wanted.",
            Some("io.example.sample.v1.PaintSpec"),
            [("colour", Schema::string("The new colour.").required())],
        );
        let status = Schema::object(
            "What was done.",
            Some("io.example.sample.v1.PaintStatus"),
            [("before", Schema::string("The colour before.").optional())],
        );
        let schema = Schema::kind(
            "io.example.sample.v1.Paint",
            "A coat of paint.",
            [("spec", spec.optional()), ("status", status.optional())],
        );
        Self { shape: BodySchema { kind: GroupVersionKind::new(GROUP, "v1", "Paint"), schema } }
    }
}

impl SubresourceHandler for Painting {
    fn body(&self) -> Option<&BodySchema> {
        Some(&self.shape)
    }

    fn answer(&self) -> &BodySchema {
        &self.shape
    }

    fn parameters(&self) -> &'static [OpenApiParameter] {
        &[OpenApiParameter { name: "format", description: "text: the colour alone." }]
    }

    /// A GET counts as a write: looking wears the paint off.
    fn acts_on_get(&self) -> bool {
        true
    }

    fn text(&self, query: &Query, answer: &Object) -> Option<TextAnswer> {
        let body = format!("{}\n", answer.text(COLOUR));
        (query.text("format") == "text")
            .then_some(TextAnswer { content_type: "text/plain; charset=utf-8", body })
    }

    fn handle<'a>(
        &'a self,
        cx: &'a mut WriteContext<'_>,
        _: View<'a>,
        action: Action<'a>,
    ) -> BoxFuture<'a, Result<HandlerOutput, Status>> {
        Box::pin(async move {
            let mut answer = Object::default();
            let before = action.object.text(COLOUR);
            let Some(body) = action.body.filter(|_| action.verb == Verb::Create) else {
                answer.set(COLOUR, json!(before));
                return Ok(HandlerOutput { object: None, answer });
            };
            let colour = body.text(COLOUR);
            if colour.is_empty() {
                return Err(Status::bad_request("spec.colour: a colour is wanted"));
            }
            if colour == before {
                cx.warnings.push(format!("the widget is {colour} already"));
            }
            let mut object = action.object.clone();
            object.set(COLOUR, json!(colour));
            answer.set(COLOUR, json!(colour));
            answer.set(&["status", "before"], json!(before));
            Ok(HandlerOutput { object: Some(object), answer })
        })
    }
}
