use super::super::{check_role, check_uid, internal_decode_error};
use super::pull_credential;
use crate::refusal::RefusedKind;
use crate::rights::Role;
use crate::roles::Roles;
use apiserver::View;
use apiserver::strategy::WriteContext;
use apiserver::subresource::{Action, BodySchema, HandlerOutput, SubresourceHandler};
use business_types::condition::{self, Condition, FALSE, TRANSFERRED, reason};
use business_types::namespace::{self, group_resource};
use business_types::{NamespaceStatus, NamespaceTransfer, names};
use futures_util::future::BoxFuture;
use meta::field::Path;
use meta::object::Object;
use meta::status::Status;
use serde_json::json;

/// The fields that refusals name: those of the request body and of the destination project.
pub static REFUSED: RefusedKind = RefusedKind {
    gvk: namespace::gvk,
    resource: group_resource,
    scope: "project",
    domain: "project",
    place: "spec.namespace",
    amount: |cluster, key| Path::new("spec").child("clusters").key(cluster).child("hard").key(key),
};

/// The controller knows the namespace of an imported object by the label of its project, which is another after a move.
const NOT_TAKEN_OVER: &str =
    "it was imported: it can be moved when the controller has taken its namespace over";

/// Moves a namespace to another project. The ledger checks that both projects belong to one tenant, and that the new
/// project has quota left. The charge stays the same.
#[derive(Debug)]
pub struct TransferHandler {
    body: BodySchema,
    answer: BodySchema,
    roles: Roles,
}

impl TransferHandler {
    /// `roles`: a caller who moves a namespace must also have the right to create one in the new project.
    pub fn new(roles: Roles) -> Self {
        Self {
            body: BodySchema { kind: namespace::transfer::gvk(), schema: namespace::transfer::schema() },
            answer: BodySchema { kind: namespace::gvk(), schema: namespace::schema() },
            roles,
        }
    }
}

impl SubresourceHandler for TransferHandler {
    fn body(&self) -> Option<&BodySchema> {
        Some(&self.body)
    }

    fn answer(&self) -> &BodySchema {
        &self.answer
    }

    fn handle<'a>(
        &'a self,
        cx: &'a mut WriteContext<'_>,
        _view: View<'a>,
        action: Action<'a>,
    ) -> BoxFuture<'a, Result<HandlerOutput, Status>> {
        Box::pin(async move {
            let (live, request) = (action.object, request_of(action)?);
            let object = transferred(cx.now, live, &request)?;
            let refused = |why: &str| Status::forbidden(&group_resource(), live.name(), why);
            check_role(cx, &self.roles, Role::Edit, &request.project, refused)?;
            Ok(HandlerOutput { object: Some(object), answer: Object::default() })
        })
    }

    fn may_grow(&self) -> bool {
        true
    }

    fn moves(&self) -> bool {
        true
    }

    fn note(&self, action: Action<'_>) -> String {
        let request = request_of(action).unwrap_or_default();
        format!("moved to project {:?}: {}", request.project, request.reason)
    }
}

fn request_of(action: Action<'_>) -> Result<NamespaceTransfer, Status> {
    let body = action.body.map(NamespaceTransfer::of).transpose().map_err(internal_decode_error)?;
    Ok(body.unwrap_or_default())
}

/// The namespace in its new project.
fn transferred(now: &str, live: &Object, request: &NamespaceTransfer) -> Result<Object, Status> {
    let errors = request.validate(live.namespace());
    if !errors.is_empty() {
        return Err(Status::invalid(&namespace::transfer::gvk(), live.name(), &errors));
    }
    check_uid(live, &request.uid, &group_resource())?;
    let mut object = live.clone();
    object.set(&["metadata", "namespace"], json!(request.project));
    let annotation = ["metadata", "annotations", names::TRANSFER_REASON_ANNOTATION];
    if request.reason.is_empty() {
        object.remove(&annotation);
    } else {
        object.set(&annotation, json!(request.reason));
    }
    let mut status = NamespaceStatus::of(&object).map_err(internal_decode_error)?;
    if status.is_imported() {
        return Err(Status::conflict(&group_resource(), live.name(), NOT_TAKEN_OVER));
    }
    let marks = condition::find(&status.conditions, TRANSFERRED).filter(|known| !known.is_true());
    // If it moves on before its marks in the cluster are rewritten, they still name the first project.
    let message = marks.map_or_else(
        || {
            let cluster = object.text(&["spec", "clusterName"]);
            format!("its marks in cluster {cluster} may still name project {:?}", live.namespace())
        },
        |known| known.message.clone(),
    );
    let transferred = Condition::new(TRANSFERRED, FALSE, reason::FORMER_MARKS, message);
    condition::set(&mut status.conditions, transferred.at(live.generation().saturating_add(1)), now);
    object.set(&["status", "conditions"], json!(status.conditions));
    // Its pull credential belongs to the former project.
    object.remove(pull_credential::PULL_CREDENTIAL);
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use business_types::ClusterNamespaceRecord;

    #[test]
    fn what_was_imported_moves_when_its_namespace_was_taken_over() {
        let of = |record: &serde_json::Value| {
            let metadata = json!({"name": "n", "namespace": "p", "uid": "u"});
            let body = json!({"metadata": metadata, "spec": {}, "status": {"clusterNamespace": record}});
            let request = NamespaceTransfer { project: "q".to_owned(), ..NamespaceTransfer::default() };
            transferred("2026-01-01T00:00:00Z", &Object::new(body).unwrap(), &request)
        };
        let refused = of(&json!(ClusterNamespaceRecord::imported())).unwrap_err();
        assert_eq!(refused.code, 409, "it passes, and whoever asks may try again");
        assert!(refused.message.contains("was imported"), "{}", refused.message);
        let moved = of(&json!({"uid": "there", "provenance": "Made"})).unwrap();
        assert_eq!(moved.namespace(), "q");
    }
}
