use super::super::{check_uid, internal_decode_error};
use crate::kind_ids::PROJECT;
use crate::token_server::credentials::IssuedPassword;
use apiserver::View;
use apiserver::strategy::WriteContext;
use apiserver::subresource::{Action, BodySchema, HandlerOutput, SubresourceHandler};
use business_types::NamespaceStatus;
use business_types::names::{GROUP, REGISTRY_TOKEN_KIND, VERSION};
use business_types::namespace::pull_credential::{self, VALID_DAYS_DEFAULT};
use business_types::namespace::{PullCredential, PullCredentialRequest, PullPassword, group_resource};
use business_types::registry_credential::token_schema;
use futures_util::future::BoxFuture;
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::status::Status;
use meta::time;
use serde_json::json;
use store::Key;

/// The field that the subresource writes. A write of the status can only remove it.
pub const PULL_CREDENTIAL: &[&str] = &["status", "pullCredential"];

/// Handles `POST namespaces/NAME/pullcredential`: a new password with which the pods of the namespace pull from the
/// registry. Only the answer contains it. Only the platform has the right to it: no role of a tenant has.
#[derive(Debug)]
pub struct PullCredentialHandler {
    body: BodySchema,
    answer: BodySchema,
    days_max: i64,
}

impl PullCredentialHandler {
    /// `days_max`: for how many days a password may be valid.
    pub fn new(days_max: i64) -> Self {
        let answer = GroupVersionKind::new(GROUP, VERSION, REGISTRY_TOKEN_KIND);
        Self {
            body: BodySchema { kind: pull_credential::gvk(), schema: pull_credential::schema() },
            answer: BodySchema { kind: answer, schema: token_schema() },
            days_max,
        }
    }

    async fn issue(
        &self,
        cx: &mut WriteContext<'_>,
        view: View<'_>,
        action: Action<'_>,
    ) -> Result<HandlerOutput, Status> {
        let live = action.object;
        let request = request_of(action)?;
        check(cx, live, &request)?;
        let project = Key::new(PROJECT, "", live.namespace());
        let Some(project) = view.unfiltered().get(&project).await? else {
            return Err(Status::forbidden(&group_resource(), live.name(), "its project is gone"));
        };
        let now = time::parse(cx.now).map_err(|error| Status::internal(error.to_string()))?;
        let days = request.valid_days.unwrap_or(VALID_DAYS_DEFAULT).min(self.days_max);
        let issued = IssuedPassword::new(now, days);
        let newest = PullPassword {
            hash: issued.hash.clone(),
            issued_at: cx.now.to_owned(),
            expires_at: issued.expires_at.clone(),
        };
        let before = NamespaceStatus::of(live).map_err(internal_decode_error)?.pull_credential;
        let is_kept =
            |old: &PullPassword| old.hash == request.keep && old.ends().is_some_and(|ends| ends > now);
        let kept = before.unwrap_or_default().passwords.into_iter().find(is_kept);
        let credential = PullCredential {
            username: pull_credential::username(live.namespace(), live.name()),
            project_uid: project.uid.to_string(),
            names: request.names,
            passwords: [newest].into_iter().chain(kept).collect(),
        };
        let mut object = live.clone();
        object.set(PULL_CREDENTIAL, json!(credential));
        Ok(HandlerOutput { object: Some(object), answer: issued.answer(cx, &credential.username) })
    }
}

fn request_of(action: Action<'_>) -> Result<PullCredentialRequest, Status> {
    let body = action.body.map(PullCredentialRequest::of).transpose().map_err(internal_decode_error)?;
    Ok(body.unwrap_or_default())
}

fn check(cx: &WriteContext<'_>, live: &Object, request: &PullCredentialRequest) -> Result<(), Status> {
    if !cx.sees_everything() {
        let why = "the platform itself has it issued, for the pull secret of the namespace's template";
        return Err(Status::forbidden(&group_resource(), live.name(), why));
    }
    let errors = request.validate();
    if !errors.is_empty() {
        return Err(Status::invalid(&pull_credential::gvk(), live.name(), &errors));
    }
    check_uid(live, &request.uid, &group_resource())?;
    if live.is_deleting() {
        let why = "the namespace is being deleted: nothing is issued for it any more";
        return Err(Status::conflict(&group_resource(), live.name(), why));
    }
    Ok(())
}

/// Undoes changes of the credential by a write of the status, which may only remove it.
pub fn keep_unless_removed(old: &Object, object: &mut Object) {
    if object.get(PULL_CREDENTIAL).is_some() {
        object.copy_from(old, PULL_CREDENTIAL);
    }
}

impl SubresourceHandler for PullCredentialHandler {
    fn body(&self) -> Option<&BodySchema> {
        Some(&self.body)
    }

    fn answer(&self) -> &BodySchema {
        &self.answer
    }

    fn handle<'a>(
        &'a self,
        cx: &'a mut WriteContext<'_>,
        view: View<'a>,
        action: Action<'a>,
    ) -> BoxFuture<'a, Result<HandlerOutput, Status>> {
        Box::pin(self.issue(cx, view, action))
    }
}
