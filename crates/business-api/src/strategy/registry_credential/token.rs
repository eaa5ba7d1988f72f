use super::holder_refusal;
use crate::kind_ids::PROJECT;
use crate::roles::Roles;
use crate::token_server::credentials::{IssuedPassword, login_name};
use apiserver::View;
use apiserver::strategy::WriteContext;
use apiserver::subresource::{Action, BodySchema, HandlerOutput, SubresourceHandler};
use business_types::names::{GROUP, REGISTRY_TOKEN_KIND, VERSION};
use business_types::registry_credential::{VALID_DAYS_DEFAULT, group_resource, token_schema};
use business_types::{RegistryCredentialSpec, RegistryCredentialStatus};
use futures_util::future::BoxFuture;
use meta::gvk::GroupVersionKind;
use meta::object::Object;
use meta::status::Status;
use meta::time;
use serde_json::json;
use store::Key;

const STATUS: &[&str] = &["status"];

/// Handles `POST registrycredentials/NAME/token`: a new password, which replaces the one before. Only the answer
/// contains it.
#[derive(Debug)]
pub struct TokenHandler {
    shape: BodySchema,
    roles: Roles,
    days_max: i64,
}

impl TokenHandler {
    /// `days_max`: for how many days a password may be valid.
    pub fn new(roles: Roles, days_max: i64) -> Self {
        let kind = GroupVersionKind::new(GROUP, VERSION, REGISTRY_TOKEN_KIND);
        Self { shape: BodySchema { kind, schema: token_schema() }, roles, days_max }
    }

    async fn issue(
        &self,
        cx: &mut WriteContext<'_>,
        view: View<'_>,
        credential: &Object,
    ) -> Result<HandlerOutput, Status> {
        let refused = |why: &str| Status::forbidden(&group_resource(), credential.name(), why);
        let Ok(spec) = RegistryCredentialSpec::of(credential) else {
            return Err(refused("its spec cannot be read: it can only be deleted"));
        };
        if let Some(why) = holder_refusal(cx, &self.roles, credential.namespace(), &spec) {
            return Err(refused(why));
        }
        if credential.is_deleting() {
            let why = "the credential is being deleted: nothing is issued for it any more";
            return Err(Status::conflict(&group_resource(), credential.name(), why));
        }
        let project = Key::new(PROJECT, "", credential.namespace());
        let Some(project) = view.unfiltered().get(&project).await? else {
            return Err(refused("its project is gone"));
        };
        let days = spec.valid_days.unwrap_or(VALID_DAYS_DEFAULT).min(self.days_max);
        let now = time::parse(cx.now).map_err(|error| Status::internal(error.to_string()))?;
        let issued = IssuedPassword::new(now, days);
        let before = RegistryCredentialStatus::of(credential).unwrap_or_default();
        let status = RegistryCredentialStatus {
            username: login_name(credential),
            password_hash: issued.hash.clone(),
            issued_at: Some(cx.now.to_owned()),
            expires_at: Some(issued.expires_at.clone()),
            project_uid: project.uid.to_string(),
            last_used: before.last_used,
        };
        let mut object = credential.clone();
        object.set(STATUS, json!(status));
        Ok(HandlerOutput { object: Some(object), answer: issued.answer(cx, &status.username) })
    }
}

impl SubresourceHandler for TokenHandler {
    fn body(&self) -> Option<&BodySchema> {
        None
    }

    fn answer(&self) -> &BodySchema {
        &self.shape
    }

    fn handle<'a>(
        &'a self,
        cx: &'a mut WriteContext<'_>,
        view: View<'a>,
        action: Action<'a>,
    ) -> BoxFuture<'a, Result<HandlerOutput, Status>> {
        Box::pin(self.issue(cx, view, action.object))
    }
}
